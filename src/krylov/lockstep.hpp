// Lockstep: computations that advance together, each a fiber. What they wait for is done when all wait, for as many at
// once as wait for the same.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/op/operator.hpp>
#include "exec/fiber.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// Work that fibers wait for.
class Shared {
 public:
  /// Does what these fibers (by their seats, ascending) have asked for. On the caller's stack. Collective.
  virtual void serve(std::span<const int> seats) = 0;
  /// Whether it is served only when no computation waits for anything else.
  virtual bool waits_for_all() const { return false; }

 protected:
  ~Shared() = default;
};

/// All ranks run the same computations, and their decisions depend on reductions only, so that they switch, multiply
/// and reduce in the same order.
class Lockstep final : public comm::MergedSums {
 public:
  /// At most `seats` computations at a time.
  Lockstep(comm::Communicator comm, int seats);
  ~Lockstep();
  /// Runs the computations to their ends, each in a fiber. The first exception ends all, and is rethrown.
  void run(std::deque<std::function<void()>> computations);
  /// Blocks the running computation until `work` has served it. While it waits the others run.
  void wait_for(Shared& work);
  /// Runs f on the stack of the caller of run().
  void outside(const std::function<void()>& f);
  /// Work that may be in flight while a computation waits for other work: it is served whenever that is.
  void add(Shared& work) { begun_.push_back(&work); }
  /// The seat of the running computation; -1 outside of them.
  int seat() const { return seat_; }

  bool test(int ticket) override;
  void wait(int ticket, void* values) override;
  void drop(int ticket) noexcept override;

 private:
  struct Seat;
  struct Part;
  struct Merged;
  class SumsOfSeats;
  class Calls;
  struct Ended {};  // unwinds a fiber that is not to go on

  int take(const void* values, std::size_t n, comm::Number number, comm::Operation operation) override;
  void sit_down(Seat& seat, int number, std::function<void()> computation);
  void resume(Seat& seat, int number);
  bool all_wait();
  void serve_most();
  void end_all() noexcept;
  void start_sums(std::span<const int> seats);
  void finish(Merged& merged);

  comm::Communicator comm_;
  exec::Fiber outside_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::vector<Shared*> begun_;
  std::map<int, std::unique_ptr<Part>> parts_;  // by ticket
  std::unique_ptr<SumsOfSeats> sums_;
  std::unique_ptr<Calls> calls_;
  int seat_ = -1, tickets_ = 0;
  bool ending_ = false;
};

/// Whether a product with several columns saves more traffic than it takes to copy them to a block and back: always on
/// several ranks, where it saves messages; on one where the operator reads eight times as much as a vector. Operators
/// that do not state their cost, such as functions, take columns one by one anyway. The same on all ranks.
template <Scalar T>
bool gains_by_blocks(const op::Operator<T, Host>& a) {
  if (a.range().comm().size() > 1) return true;
  const double vector = double(a.domain().local_size()) * sizeof(T);
  return a.cost().bytes - 2 * vector >= 8 * vector;
}

/// Products with one operator that several computations ask for, made as one product of all their columns, or one by
/// one where that is faster (gains_by_blocks).
template <Scalar T>
class BlockProduct final : public Shared {
  using Vector = layout::Vector<T, Host>;

 public:
  BlockProduct(const op::Operator<T, Host>& a, Lockstep& lockstep)
      : a_(a), lockstep_(lockstep), blocks_(gains_by_blocks(a)), at_once_(!blocks_ && a.as_tasks()) {
    lockstep.add(*this);
  }

  int ask(const Vector& x, Vector& y, bool adjoint) {
    if (at_once_) apply(x, y, adjoint);  // while x is in the cache; users' functions run outside of the fibers
    asked_.emplace(next_, Asked{lockstep_.seat(), &x, &y, adjoint, at_once_});
    return next_++;
  }
  void take(int token) {
    Asked& one = asked_.at(token);
    // Outside of the fibers, as in a callback that reads x, there is nobody to wait for.
    if (!one.done && lockstep_.seat() < 0) apply(*one.x, *one.y, one.adjoint), one.done = true;
    while (!one.done) lockstep_.wait_for(*this);
    asked_.erase(token);
  }
  void drop(int token) noexcept { asked_.erase(token); }

  void serve(std::span<const int> seats) override {
    for (const bool adjoint : {false, true}) {
      std::vector<Asked*> now;
      for (auto& [token, one] : asked_)
        if (!one.done && one.adjoint == adjoint && std::binary_search(seats.begin(), seats.end(), one.seat))
          now.push_back(&one);
      // In the order of seats and not of tokens, so that a column keeps its place in the block.
      std::stable_sort(now.begin(), now.end(), [](const Asked* a, const Asked* b) { return a->seat < b->seat; });
      if (!now.empty()) multiply(now, adjoint);
      for (Asked* one : now) one->done = true;
    }
  }

 private:
  struct Asked {
    int seat;
    const Vector* x;
    Vector* y;
    bool adjoint, done;
  };

  void apply(const Vector& x, Vector& y, bool adjoint) const {
    if (adjoint) a_.apply_adjoint(x, y);
    else a_.apply(x, y);
  }
  void multiply(const std::vector<Asked*>& now, bool adjoint) {
    if (now.size() == 1 || !blocks_) {
      for (const Asked* one : now) apply(*one->x, *one->y, adjoint);
      return;
    }
    const layout::Space &from = adjoint ? a_.range() : a_.domain(), &to = adjoint ? a_.domain() : a_.range();
    std::vector<Columns<const T>> x;
    std::vector<Columns<T>> y;
    int k = 0;
    for (const Asked* one : now) {
      const int width = one->x->columns();
      x.push_back({one->x->data(), width, k}), y.push_back({one->y->data(), width, k});
      k += width;
    }
    if (!x_ || x_->columns() != k || !(x_->space() == from)) x_.emplace(from, k);
    if (!y_ || y_->columns() != k || !(y_->space() == to)) y_.emplace(to, k);
    by_runs(std::size_t(from.local_size()), [&, all = x_->data()](std::size_t begin, std::size_t end) {
      for (const auto& part : x) each_of(part, k, begin, end, [&](const T& one, std::size_t at) { all[at] = one; });
    });
    apply(*x_, *y_, adjoint);
    by_runs(std::size_t(to.local_size()), [&, all = y_->data()](std::size_t begin, std::size_t end) {
      for (const auto& part : y) each_of(part, k, begin, end, [&](T& one, std::size_t at) { one = all[at]; });
    });
  }

  const op::Operator<T, Host>& a_;
  Lockstep& lockstep_;
  bool blocks_, at_once_;
  std::map<int, Asked> asked_;  // by token
  int next_ = 0;
  std::optional<Vector> x_, y_;

  /// The `width` columns of a vector, which are columns `first`, `first` + 1, .. of the block.
  template <class V>
  struct Columns {
    V* data;
    int width, first;
  };
  /// f(element, its place in a block of k columns) for rows [begin, end).
  template <class V, class F>
  static void each_of(const Columns<V>& part, int k, std::size_t begin, std::size_t end, const F& f) {
    const std::size_t width = std::size_t(part.width), step = std::size_t(k), first = std::size_t(part.first);
    if (width == 1) {
      for (std::size_t i = begin; i < end; ++i) f(part.data[i], i * step + first);
      return;
    }
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t c = 0; c < width; ++c) f(part.data[i * width + c], i * step + first + c);
  }
  // Short runs of rows, so that the strided side stays in the nearest cache.
  static constexpr std::size_t run = 64;
  template <class F>
  static void by_runs(std::size_t n, const F& f) {
    constexpr std::size_t chunk = 32 * run;
    exec::parallel_for((n + chunk - 1) / chunk, n > 8 * chunk, [&](std::size_t c) {
      for (std::size_t i = c * chunk; i < std::min(n, (c + 1) * chunk); i += run)
        f(i, std::min({n, i + run, (c + 1) * chunk}));
    });
  }
};

/// An operator as one column of a lockstep sees it.
template <Scalar T>
class OfColumn final : public op::Operator<T, Host>, public op::Noted, public op::Varying {
  using Vector = layout::Vector<T, Host>;

 public:
  OfColumn(const op::Operator<T, Host>& a, BlockProduct<T>& product, Lockstep& lockstep)
      : op::Operator<T, Host>(a.range().merging(lockstep), a.domain().merging(lockstep)), a_(a), product_(product) {
    if (const auto* noted = dynamic_cast<const op::Noted*>(&a)) note_ = noted->note(), doubtful_ = noted->is_doubtful();
  }
  std::string name() const override { return a_.name(); }
  bool varies() const override { return op::varies(&a_); }
  bool has_adjoint() const override { return a_.has_adjoint(); }
  bool has_diagonal() const override { return a_.has_diagonal(); }
  std::vector<T> diagonal() const override { return a_.diagonal(); }
  const Vector* pointwise() const override { return a_.pointwise(); }
  double largest() const override { return a_.largest(); }
  double accuracy() const override { return a_.accuracy(); }
  std::string fault() const override { return a_.fault(); }
  bool intact() const override { return a_.intact(); }
  const op::Operator<T, Host>& itself() const override { return a_; }
  op::Cost cost() const override { return a_.cost(); }
  op::Cost adjoint_cost() const override { return a_.adjoint_cost(); }

 protected:
  int begin(const Vector& x, Vector& y, bool adjoint) const override { return product_.ask(x, y, adjoint); }
  void finish(const Vector&, Vector&, bool, int token) const override { product_.take(token); }
  void abandon(int token) const noexcept override { product_.drop(token); }

 private:
  const op::Operator<T, Host>& a_;
  BlockProduct<T>& product_;
};

}  // namespace tacit::krylov
