// Operator: a linear map between two spaces. Preconditioners and inner solvers are operators too. A product is started,
// may overlap with other work, and is completed by wait().
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/recurrence.hpp>
#include <tacit/op/schedule.hpp>

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tacit::op {

using layout::Space;
using layout::Vector;

/// v := (v - alpha x - beta before) / gamma, with v = A x on entry: one step of the recurrence of a Krylov basis.
/// Local; one sweep, none for the monomial basis.
template <Scalar T, Memory M>
void extend(const RecurrenceStep<T>& step, const Vector<T, M>* before, const Vector<T, M>& x, Vector<T, M>& v);

/// The cost of one apply on this rank.
struct Cost {
  double flops = 0;
  double bytes = 0;          ///< memory traffic, each array counted once
  double messages = 0;       ///< sent
  double message_bytes = 0;  ///< sent
};

/// Diagonals around an operator: D_left A D_right; null is the identity.
template <Scalar T, Memory M = Host>
struct Diagonals {
  const Vector<T, M>* left = nullptr;
  const Vector<T, M>* right = nullptr;
};

template <Scalar T, Memory M>
class Operator;

/// A product in flight: until wait(), y must not be read and x and y must not be written. The destructor waits.
template <Scalar T, Memory M = Host>
class [[nodiscard]] Product {
 public:
  Product(const Operator<T, M>& a, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token, comm::Turn turn)
      : a_(&a), x_(&x), y_(&y), adjoint_(adjoint), token_(token), turn_(std::move(turn)) {}
  Product(Product&& other) noexcept
      : a_(std::exchange(other.a_, nullptr)),
        x_(other.x_),
        y_(other.y_),
        adjoint_(other.adjoint_),
        token_(other.token_),
        turn_(std::move(other.turn_)),
        uncaught_(other.uncaught_) {}
  Product& operator=(Product&&) = delete;
  ~Product() {
    if (std::uncaught_exceptions() > uncaught_) give_up();
    try {
      wait();
    } catch (...) {  // some rank has failed: the next wait on the communicator throws that error
    }
  }
  void wait() {
    const auto* const a = std::exchange(a_, nullptr);
    if (!a) return;
    try {
      a->end(*x_, *y_, adjoint_, token_);
    } catch (...) {  // x and y may be destroyed while the exception unwinds
      a->abandon(token_);
      throw;
    }
    turn_.end();
  }
  /// Abandons the product after a failure, without sending a message.
  void give_up() noexcept {
    if (const auto* a = std::exchange(a_, nullptr)) a->abandon(token_);
  }

 private:
  const Operator<T, M>* a_;
  const Vector<T, M>* x_;
  Vector<T, M>* y_;
  bool adjoint_;
  int token_;
  comm::Turn turn_;  // other threads wait with their products until this one has ended
  int uncaught_ = std::uncaught_exceptions();
};

/// Base of all operators. Products, powers and diagonals are collective over the communicator of the spaces.
template <Scalar T, Memory M = Host>
class Operator {
 public:
  using scalar = T;
  using memory = M;
  virtual ~Operator() = default;
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  const Space& domain() const { return domain_; }
  const Space& range() const { return range_; }
  virtual std::string name() const = 0;

  /// Starts y = A x. At most two products of one operator may be in flight.
  /// Error(usage) when x is not in the domain, y not in the range, their numbers of columns differ, or they are one
  /// vector.
  Product<T, M> start(const Vector<T, M>& x, Vector<T, M>& y) const {
    comm::Turn turn(range_.comm());
    check(x, y, domain_, range_);
    ++applies_;
    const auto order = in_order();
    const int token = begin(x, y, false);
    return {*this, x, y, false, token, std::move(turn)};
  }
  /// y = A x: start() and wait().
  void apply(const Vector<T, M>& x, Vector<T, M>& y) const { start(x, y).wait(); }

  /// Whether y = A^H x (the conjugate transpose) is implemented.
  virtual bool has_adjoint() const { return false; }
  /// Starts y = A^H x. Error(usage) when the operator has none.
  Product<T, M> start_adjoint(const Vector<T, M>& x, Vector<T, M>& y) const {
    require(has_adjoint(), "the ", name(), " operator has no adjoint product");
    comm::Turn turn(range_.comm());
    check(x, y, range_, domain_);
    ++applies_;
    const auto order = in_order();
    const int token = begin(x, y, true);
    return {*this, x, y, true, token, std::move(turn)};
  }
  void apply_adjoint(const Vector<T, M>& x, Vector<T, M>& y) const { start_adjoint(x, y).wait(); }

  /// A Krylov basis by a three-term recurrence: v[c+1] = (A v[c] - alpha_c v[c] - beta_c v[c-1]) / gamma_c for c <
  /// steps.size(), with v[0] given; v holds steps.size() + 1 vectors, and `before` is v[-1] where steps[0].beta is not
  /// 0. Default: one product (with its own exchange) for each step and, unless alpha = beta = 0 and gamma = 1, one
  /// sweep.
  virtual void powers(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
                      const Vector<T, M>* before = nullptr) const {
    require(v.size() == steps.size() + 1, "powers of ", steps.size(), " steps into ", v.size(), " vectors");
    for (std::size_t c = 0; c < steps.size(); ++c) {
      apply(*v[c], *v[c + 1]);
      extend(steps[c], c > 0 ? v[c - 1] : before, *v[c], *v[c + 1]);
    }
  }

  /// Whether powers_kernel() is implemented.
  virtual bool has_powers_kernel() const { return false; }
  /// The same basis of D_left A D_right (one column each) by a matrix powers kernel: one exchange brings steps.size()
  /// levels of ghosts, and each product is also computed on the ghost rows that later products need. D_right v[c] is
  /// stored in images[c], or in images[0] where there is only one image; there are no images without D_right. Counts
  /// steps.size() applies. The first call for a number of steps fetches the ghost rows from other ranks. Demmel,
  /// Hoemmen, Mohiyuddin, Yelick (2008), doi 10.1109/IPDPS.2008.4536305. Error(usage) where there is none.
  virtual void powers_kernel(std::span<Vector<T, M>* const> /*v*/, std::span<const RecurrenceStep<T>> /*steps*/,
                             const Vector<T, M>* /*before*/ = nullptr, const Diagonals<T, M>& /*around*/ = {},
                             std::span<Vector<T, M>* const> /*images*/ = {}) const {
    throw Error(ErrorKind::usage, message("the ", name(), " operator has no matrix powers kernel"));
  }

  /// The largest number of Richardson steps that sweeps() does in one pass through memory; 1 where there is no such
  /// kernel. The same on all ranks.
  virtual int sweeps_at_once() const { return 1; }
  /// squares.size() Richardson steps (at most sweeps_at_once()): r = f - A x, squares[c] = sum of |r|^2 over this
  /// rank's elements, x := x + omega D r, with D = diag(scaling) where it is given (on all ranks or none; scale is
  /// ignored then), else scale I. One column each; `other` is work space. Counts squares.size() applies. The iterates
  /// equal those of single steps to rounding. `again` (the same on all ranks): f and scaling are unchanged since the
  /// caller's last call, so that their ghosts need not be exchanged again. Error(usage) where there is no kernel.
  virtual void sweeps(const Vector<T, M>& /*f*/, T /*omega*/, T /*scale*/, const Vector<T, M>* /*scaling*/,
                      Vector<T, M>& /*x*/, Vector<T, M>& /*other*/, std::span<double> /*squares*/,
                      bool /*again*/ = false) const {
    throw Error(ErrorKind::usage, message("the ", name(), " operator has no kernel for several sweeps"));
  }

  /// Whether products can be shared among the threads of a rank in several ways (op/schedule.hpp).
  virtual bool has_schedules() const { return false; }
  /// Sets the schedule of later products. Local: ranks may differ, and all schedules give the same bits. Error(usage)
  /// where there is no choice.
  void use(const Schedule& schedule) const {
    require(has_schedules() || schedule.how == Schedule::How::automatic, "the ", name(), " operator has no schedules");
    schedule_ = schedule;
  }
  const Schedule& schedule() const { return schedule_; }

  virtual bool has_diagonal() const { return false; }
  /// d_i = A_ii for the rows of this rank. Error(usage) where the operator does not know its diagonal.
  virtual std::vector<T> diagonal() const {
    throw Error(ErrorKind::usage, message("the ", name(), " operator does not know its diagonal"));
  }
  /// The diagonal D where the operator is x -> D x, so that a method may fold the product into a sweep of its own (and
  /// then counts the apply by count_apply()); null otherwise.
  virtual const Vector<T, M>* pointwise() const { return nullptr; }
  void count_apply() const { ++applies_; }
  /// The largest |Re a_ij| and |Im a_ij| or a bound of it, 0 when unknown: shows whether products of two entries may
  /// overflow or underflow.
  virtual double largest() const { return 0; }
  /// ||A - B|| / ||B|| in the Frobenius norm, where A approximates an exact matrix B; 0 where A is exact. A solve with
  /// a smaller tolerance has a warning in its report. The same on all ranks.
  virtual double accuracy() const { return 0; }
  /// A description of a fault in the operator's data ("the matrix has a value that is not finite at row 3, column 5"),
  /// the same on all ranks; empty when none is known.
  virtual std::string fault() const { return {}; }
  /// Whether the arrays that products read hold the bits that they held when the operator was made or last updated, by
  /// a checksum made then (exec/checksum.hpp). True where none is kept: the class says which arrays have one. Cost:
  /// reads them once. Local: about this rank's arrays.
  virtual bool intact() const { return true; }
  /// An operator of single precision with its entries as double-precision numbers, for residuals (op/residual.hpp);
  /// null where this is not available, the same on all ranks. Collective.
  virtual std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const { return nullptr; }
  /// The operator that this one stands for: itself, unless it adds nothing but a way to be called.
  virtual const Operator& itself() const { return *this; }
  /// Whether begin() and finish() access elements only through kernels and products of operators, so that the task
  /// engine (exec::Tasks) knows what they read and write. Other operators are run in program order.
  virtual bool as_tasks() const { return false; }
  /// The cost of one apply to one column on this rank.
  virtual Cost cost() const { return {}; }
  /// The same for A^H, which may send other messages.
  virtual Cost adjoint_cost() const { return cost(); }
  /// Products started on this rank since the operator was made.
  std::int64_t applies() const { return applies_; }

 protected:
  Operator(Space range, Space domain) : range_(std::move(range)), domain_(std::move(domain)) {}
  /// Starts the product and posts its messages; returns a token for finish().
  virtual int begin(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const = 0;
  /// Whether powers() has single columns on one rank, where no step waits for a message; if so, checks the arguments
  /// and counts the products. Local.
  bool powers_are_local(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
                        const Vector<T, M>* before) const {
    if (range_.comm().size() > 1 || steps.empty() || v.size() != steps.size() + 1 || v[0]->columns() != 1 ||
        (steps[0].beta != T(0) && !before))
      return false;
    for (std::size_t c = 0; c < steps.size(); ++c) check(*v[c], *v[c + 1], domain_, range_);
    applies_ += std::int64_t(steps.size());
    return true;
  }
  /// Completes the product that begin() returned `token` for.
  virtual void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const = 0;
  /// Frees the resources of the product that begin() returned `token` for, which an exception prevents from being
  /// finished. Sends nothing: comm::collective gives up messages in flight.
  virtual void abandon(int /*token*/) const noexcept {}

 private:
  friend class Product<T, M>;
  exec::Tasks::InOrder in_order() const {
    return exec::Tasks::InOrder(std::same_as<M, Host> && exec::Tasks::current() && !as_tasks());
  }
  void end(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const {
    const auto order = in_order();
    finish(x, y, adjoint, token);
  }
  void check(const Vector<T, M>& x, const Vector<T, M>& y, const Space& from, const Space& to) const {
    require(x.space() == from, "the ", name(), " operator takes vectors of ", from.size(), " elements, ",
            from.local_size(), " on this rank; this one has ", x.space().size(), " and ", x.space().local_size(),
            from.size() == x.space().size() ? " in another partition or communicator" : "");
    require(y.space() == to, "the ", name(), " operator gives vectors of ", to.size(), " elements, ", to.local_size(),
            " on this rank; this one has ", y.space().size(), " and ", y.space().local_size(),
            to.size() == y.space().size() ? " in another partition or communicator" : "");
    require(x.columns() == y.columns(), "a product of ", x.columns(), " columns into ", y.columns());
    require(&x != &y, "the ", name(), " operator cannot write its result over its argument");
  }
  Space range_, domain_;
  mutable std::int64_t applies_ = 0;
  mutable Schedule schedule_;
};

// Compiled once, in src/op/operator.cpp, and not in every file that has an operator.
#define TACIT_DECLARE(T)                  \
  extern template class Product<T, Host>; \
  extern template class Operator<T, Host>;
TACIT_EACH_SCALAR(Host, TACIT_DECLARE)
#undef TACIT_DECLARE

}  // namespace tacit::op
