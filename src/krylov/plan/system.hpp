// System: A x = b as a solve works on it: scaled by powers of two, with the projections of a null space, the sign for
// which A is positive definite, and the P that is used. Everything of a solve that depends on vectors and operators,
// but for the runs of its method.
#pragma once

#include "../null_space.hpp"
#include "../safeguards/scales.hpp"
#include "words.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/krylov/outer.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/krylov/traits.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/op/residual.hpp>
#include <tacit/op/scaled.hpp>
#include "base/release.hpp"
#include "krylov/workspace.hpp"
#include "op/known_signs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iomanip>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// A perturbation of x in its last digits: digits := epsilon x digits, for random `digits`.
template <class T>
struct LastDigits {
  real_t<T> epsilon;
  TACIT_HD void operator()(T x, T& digits) const { digits = epsilon * x * digits; }
};

/// A' x' = b' with A' = A / 2^a, P' = P 2^a, b' = b / 2^e, x' = x 2^(a - e), all exact; A' and b' perhaps negated. A, P
/// and x are the caller's, and so is b, which is copied where it has to change.
template <Scalar T, Memory M>
class System {
 public:
  using Operator = op::Operator<T, M>;
  using V = Vector<T, M>;
  static constexpr double epsilon = double(std::numeric_limits<real_t<T>>::epsilon());

  System(const Operator& A, const Operator* P, const V& b, V& x, const Options& options,
         const NullSpace<T, M>* null_space)
      : plain_A_(A),
        given_A_(&A),
        given_P_(P),
        A_(&A),
        P_(P),
        noted_(dynamic_cast<const op::Noted*>(P)),
        x_(x),
        space_(A.range()),
        options_(options),
        null_(null_space),
        b_(&b) {
    if (&b == &x) own_b();
  }
  System(const System&) = delete;

  /// The operators that methods use, and those that stand below the scales (with projections). P: or null.
  const Operator& A() const { return *A_; }
  const Operator* P() const { return P_; }
  const Operator& given_A() const { return *given_A_; }
  const Operator* given_P() const { return given_P_; }
  const op::Noted* noted() const { return noted_; }
  /// P where it is the diagonal that scale_by_diagonal() took.
  const op::Diagonal<T, M>* diagonal() const { return diagonal_.get(); }
  const V& b() const { return *b_; }
  V& x() const { return x_; }
  const layout::Space& space() const { return space_; }
  const NullSpace<T, M>* null_space() const { return null_; }
  double b_norm() const { return b_norm_; }
  double goal() const { return goal_; }
  int a_exponent() const { return a_exponent_; }
  int b_exponent() const { return b_exponent_; }
  bool negated() const { return negated_; }
  bool is_scaled() const { return bool(scaled_A_); }

  /// What is not finite in A, b or x, as a sentence; "" where everything is. Collective; finds the lengths below.
  std::string fault();
  /// The norm of b (Options::norm), and ||x||. Collective, unless fault() has found them and nothing has changed since.
  double length_of_b() { return b_length_ ? *b_length_ : length(*b_); }
  double length_of_x() { return x_length_ ? *x_length_ : layout::norm(x_); }
  /// The caller knows that x is zero.
  void take_zero() { x_length_ = 0; }
  /// Checks the null space, projects b and x, and puts projections after applies: of P, or of A where there is no P.
  /// Error(usage): A v or A^H w is not zero. A product for each vector, and one more. Collective.
  void enter_null_space(Report& report);
  /// Chooses the scales and applies them to A, P, b and x; sets goal(). Collective.
  void choose_scales(double b_norm, Method method, Report& report);
  /// Scales x back. An x that leaves the range of its scalar changes the report. Collective.
  void undo_scales(Report& report);

  /// The norm of Options::norm.
  double length(const V& v) const { return options_.norm == Norm::max ? layout::max_norm(v) : layout::norm(v); }
  /// r = b - A x, infinite where `look` is set and the data are damaged.
  void form_residual(const V& x, V& r, bool look = false) const {
    const Span span("recompute b - A x", "krylov");
    A_->apply(x, r);
    exec::sweep(exec::reads(*b_), exec::updates(r), exec::writes(), layout::formula::Xpay<T>{T(-1)});
    if (look) mark_damage(r);
  }
  /// The same; returns ||r||.
  double true_residual(const V& x, V& r, bool look = false) const {
    form_residual(x, r, look);
    return length(r);
  }
  /// length(v), and the 2-norm whose layout::own_squares() these are. One reduction. Collective.
  std::array<double, 2> lengths(const V& v, const std::array<double, 3>& own) const {
    if (options_.norm == Norm::max) {
      const auto [norm, most] = layout::norm_and_max<T>(space_, own, largest_magnitude(v.own()));
      return {most, norm};
    }
    return layout::norms_of<T>(space_, std::array{layout::own_squares(v), own});
  }
  /// Makes r infinite where the data of any rank are damaged: the next norm of r tells all ranks, without a message of
  /// its own. (A rank without elements has no data.)
  void mark_damage(V& r) const {
    if (!looks_for_damage()) return;
    bool intact = is_intact();
    if (space_.is_replicated() && space_.comm().size() > 1)  // where norms are those of each rank's own copy
      intact = space_.comm().all(intact);
    if (!intact) layout::fill(r, T(std::numeric_limits<real_t<T>>::infinity()));
  }
  /// Checksums are of host memory.
  bool looks_for_damage() const { return std::same_as<M, Host> && options_.check_memory; }
  /// Whether this rank's parts of A and b are what they were. Local; reads them once.
  bool is_intact() const { return given_A_->intact() && b_checksum_ == checksum_of_b(); }
  /// The state of b that is_intact() compares with.
  void take_checksum() { b_checksum_ = checksum_of_b(); }

  /// r = b - A x of the x that a solve begins with, of this length, and its norm; looks for damage at the goal.
  /// Collective.
  double residual_of_guess(double length_of_x, V& r) const {
    const double norm = confirmed(x_, length_of_x, true_residual(x_, r), r, false);
    if (!reached(norm, goal_)) return norm;
    mark_damage(r);
    return length(r);
  }
  /// Squares of such a residual, and of b beside it, stay in the range of the scalar.
  bool may_square(double norm) const {
    constexpr int far = std::numeric_limits<real_t<T>>::max_exponent / 2 - 14;
    return norm < std::ldexp(b_norm_, far);
  }

  /// How much b - A x changes with the last digits of x: a smaller recomputed residual means nothing. One product, one
  /// reduction. Collective.
  double noise_of(const V& x) const {
    V digits(space_), image(space_);
    scatter(digits, 5);
    exec::sweep(exec::reads(x), exec::updates(digits), exec::writes(), LastDigits<T>{real_t<T>(epsilon)});
    A_->apply(digits, image);
    return length(image);
  }
  /// Whether the rounding error of A x, for an x of this length, may be as large as b.
  bool may_drown_b(double length_of_x) const {
    return 10 * epsilon * std::ldexp(given_A_->largest(), -a_exponent_) * length_of_x > b_norm_;
  }
  /// ||b - A x|| that a verdict may rest on, where the plain product gave `norm` and r. Where the rounding error of
  /// b - A x may decide (`at_goal`: also that it misses the goal by little): recomputed in more precision, with r
  /// replaced, or where A has no such residual, the plain one and that error. No cost elsewhere. Collective.
  double confirmed(const V& x, double length_of_x, double norm, V& r, bool at_goal) const;
  /// Is x + d, whose residual is r, nearer to the solution than x in the norm of A, for positive definite A? The square
  /// of the error has fallen by (d, r of x + r). Two products. Collective.
  bool came_nearer(const V& d, const V& r) const;
  /// (A b, A b) differs from (A A b, b), so A is far from Hermitian on the Krylov space. (There a matrix may be
  /// Hermitian that is not so elsewhere, as with identity rows for boundary values.) Two products. Collective.
  bool is_far_from_hermitian() const;

  /// Takes the given null space out of a vector. Collective.
  void project(V& v) const {
    if constexpr (!is_group<M>)
      if (null_) null_->right().project(v);
  }
  /// The same as a function; empty where no null space is given.
  std::function<void(V&)> projection() const {
    if constexpr (!is_group<M>)
      if (null_) return [q = &null_->right()](V& v) { q->project(v); };
    return {};
  }

  /// 1 or -1 where all of A's diagonal has this sign, 0 where signs differ or an entry is zero. 1 where A does not know
  /// its diagonal. Collective.
  int sign_of_diagonal() const;
  /// What is solved is -A x = -b. Before choose_scales().
  void negate() { negated_ = true; }
  /// Where A does not know its diagonal and (r, A r) < 0, takes -A in its place (and P with the sign that suits it),
  /// and -r for r. One product, and an apply of P. Collective.
  bool turn_sign(V& r, Method method, Report& report);
  /// Where P makes vectors so much longer or shorter that inner products of its results may leave the range, scales it
  /// by a power of two. Once. One apply of P. Collective.
  bool rescale_preconditioner();
  /// There is no P; D is positive (for methods that do not need that: not zero; for Hermitian A that is not definite
  /// its magnitudes are taken) and varies by a factor above 4. Computed once. Collective.
  bool diagonal_varies(const Traits& traits);
  /// P := D^-1 where diagonal_varies(). Collective.
  bool scale_by_diagonal(const Traits& traits);
  /// Whether scale_by_diagonal() is known to be of no use.
  bool has_no_use_of_diagonal() const {
    return P_ || !given_A_->has_diagonal() || (diagonal_looked_at_ && inverse_.empty());
  }

 private:
  std::uint64_t checksum_of_b() const {
    if constexpr (std::same_as<M, Host>)
      if (looks_for_damage()) return exec::Checksum().add(*b_).value();
    return 0;
  }
  /// b as a copy that may be changed.
  V& own_b() {
    if (!own_b_) b_ = &own_b_.emplace(*b_);
    b_length_.reset();
    return *own_b_;
  }
  void scale_operators(Method method, Report& report);
  void scale_preconditioner(int e);

  const Operator& plain_A_;  // without projections
  const Operator* given_A_;
  const Operator* given_P_;
  const Operator* A_;
  const Operator* P_;
  const op::Noted* noted_;  // given_P_ where it has notes, or null
  V& x_;
  layout::Space space_;
  const Options& options_;
  const NullSpace<T, M>* null_;                // given, or null
  const Orthonormal<T, M>* left_ = nullptr;    // the null space of A^H, where it is known
  std::unique_ptr<Operator> null_A_, null_P_;  // A or P, with a projection after each apply
  const V* b_;                                 // the caller's, or own_b_
  std::optional<V> own_b_;                     // a copy, once it had to change
  std::optional<double> b_length_, x_length_;
  std::unique_ptr<op::Scaled<T, M>> scaled_A_, scaled_P_;
  std::vector<T> inverse_;  // of the diagonal, where it may serve
  std::unique_ptr<op::Diagonal<T, M>> diagonal_;
  bool diagonal_looked_at_ = false;
  std::uint64_t b_checksum_ = 0;
  bool negated_ = false;
  bool P_rescaled_ = false;  // or looked at for that
  int a_exponent_ = 0, b_exponent_ = 0, P_exponent_ = 0, P_sign_ = 1;
  double b_norm_ = 0, goal_ = 0;
  double A_size_ = 0;  // the largest entry of A', or an estimate of its norm
};

template <Scalar T, Memory M>
std::string System<T, M>::fault() {
  std::string fault = A_->fault();
  const auto look = [&](const char* name, const V& v, double length) {
    if (std::isfinite(length)) return;
    if (const Global i = first_non_finite(v); i >= 0)
      fault = message(name, " has a value that is not finite at index ", i, " (counted from 0)");
  };
  if (!fault.empty()) return fault;
  if (x_length_) {
    b_length_ = length(*b_);
  } else {
    const auto [of_b, of_x] = lengths(*b_, layout::own_squares(x_));
    b_length_ = of_b, x_length_ = of_x;
  }
  look("b", *b_, *b_length_);
  if (fault.empty()) look("x0", x_, *x_length_);
  return fault;
}

template <Scalar T, Memory M>
void System<T, M>::enter_null_space(Report& report) {
  if constexpr (is_group<M>) {
    throw Error(ErrorKind::usage, "a solve on a group of devices takes no null space");
  } else {
    const double limit = std::max(4096 * double(std::numeric_limits<real_t<T>>::epsilon()), 4 * given_A_->accuracy());
    V q(space_), image(space_);
    scatter(q, 1);
    A_->apply(q, image);
    const double size = layout::norm(image) / layout::norm(q);
    // Of a size that is zero where A is.
    const auto part = [](double left, double of) { return left == 0 ? 0 : left / of; };
    // (w, A q) is zero for every q where A^H w is; here for a pseudo-random one.
    const auto of_range = [&](const Vector<T, M>& w) {
      return part(double(std::abs(layout::dot(image, w))), layout::norm(image));
    };
    int which = 0;
    bool both = true;
    for (const auto& v : null_->right().vectors()) {
      both = both && of_range(v) <= limit;
      A_->apply(v, q);
      const double left = part(layout::norm(q), size);
      require(left <= limit, "null-space vector ", which++, " is not in the null space of A: ||A v|| is ", about(left),
              " of ||A|| ||v||, and ", about(limit), " is allowed for rounding");
    }
    which = 0;
    for (const auto& w : null_->left().vectors()) {
      const double left = of_range(w);
      require(left <= limit, "left null-space vector ", which++,
              " is not orthogonal to the range of A: (w, A q) is about ", about(left), " of ||w|| ||A q||, and ",
              about(limit), " is allowed for rounding");
    }
    left_ = null_->left().dimension() > 0 ? &null_->left() : both ? &null_->right() : nullptr;
    report.null_space = null_->right().dimension();
    take_out(null_->right(), x_);
    x_length_.reset();
    if (left_) {
      const Part taken = take_out(*left_, own_b());
      report.projected_norm = taken.norm;
      if (taken.share > 100 * double(std::numeric_limits<real_t<T>>::epsilon()))
        report.warnings.push_back(
            message("a part of b of norm ", about(taken.norm), ", ", about(taken.share),
                    " of ||b||, is orthogonal to the range of A and was taken out: x is a least-squares solution, and "
                    "residuals are those of the rest of b"));
    }
    if (P_) {
      null_P_ = std::make_unique<Projecting<T, M>>(*P_, null_->right());
      P_ = given_P_ = null_P_.get();
    } else if (left_) {
      null_A_ = std::make_unique<Projecting<T, M>>(*A_, *left_);
      A_ = given_A_ = null_A_.get();
    }
  }
}

template <Scalar T, Memory M>
void System<T, M>::choose_scales(double b_norm, Method method, Report& report) {
  if (!std::isfinite(b_norm)) {  // finite elements, but their norm overflows
    b_exponent_ = std::numeric_limits<double>::max_exponent / 2;
    scale_by_power(own_b(), -b_exponent_);
    b_norm = length(*b_);
  }
  const int e = balance<T>(b_norm);
  if (e) scale_by_power(own_b(), -e);
  b_norm_ = e ? length(*b_) : b_norm;  // the norm of a subnormal b has few digits
  b_exponent_ += e;
  double size = A_->largest();
  if (size == 0) {  // unknown: estimated from A b
    V y(space_);
    A_->apply(*b_, y);
    size = length(y) / b_norm_;
  }
  a_exponent_ = balance<T>(size);
  // Where A is tiny 2^-a would overflow.
  constexpr int limit = std::numeric_limits<real_t<T>>::max_exponent - 1;
  a_exponent_ = std::clamp(a_exponent_, -limit, limit);
  A_size_ = std::ldexp(size, -a_exponent_);
  if (a_exponent_ || negated_) scale_operators(method, report);
  if (a_exponent_ != b_exponent_) scale_by_power(x_, a_exponent_ - b_exponent_), x_length_.reset();
  const double rtol = options_.rtol.value_or(default_rtol<T>());
  goal_ = std::max(rtol * b_norm_, std::ldexp(options_.atol, -b_exponent_));
  if (const double known = given_A_->accuracy(); known > rtol) {
    std::ostringstream text;
    text << "rtol is " << std::setprecision(2) << rtol << ", and the " << given_A_->name() << " operator is good to "
         << known << ": digits of the solution beyond that are those of the approximation";
    report.warnings.push_back(text.str());
  }
}

template <Scalar T, Memory M>
void System<T, M>::undo_scales(Report& report) {
  const int e = b_exponent_ - a_exponent_;
  if (e == 0) return;
  V exact = x_;
  scale_by_power(x_, e);
  if (report.reason == Reason::damaged) return;  // its residual is not to be recomputed
  if (first_non_finite(x_) >= 0) {
    layout::fill(x_, T(0));
    report.reason = Reason::non_finite;
    report.detail = "the solution is too large for its scalar type";
    report.advice = "Scale the right-hand side down.";
    report.residual_norm = 1;
    return;
  }
  // Elements that become subnormal lose digits, and smaller ones vanish: the rounded x has another residual.
  V rounded = x_;
  scale_by_power(rounded, -e);
  layout::subtract(rounded, exact, exact);
  if (layout::norm(exact) == 0) return;
  std::swap(x_, rounded);
  const double norm = true_residual(x_, exact);
  std::swap(x_, rounded);
  report.residual_norm = norm / b_norm_;
  if (report.converged() && !reached(norm, goal_)) {
    report.reason = Reason::stagnated;
    report.detail = message("the solution is too small for its scalar type: what is left of it has a residual of ",
                            report.residual_norm, " of ||b||");
    report.advice = "Scale the right-hand side up.";
  }
}

template <Scalar T, Memory M>
double System<T, M>::confirmed(const V& x, double length_of_x, double norm, V& r, bool at_goal) const {
  // ||A|| may exceed the largest entry by the length of the rows.
  constexpr double margin = 200, near = 10;
  const double rounding = margin * epsilon * A_size_ * length_of_x;
  const bool meets = reached(norm, goal_);
  if (rounding <= goal_ || !(meets || (at_goal && norm <= std::min(rounding, near * goal_)))) return norm;
  if constexpr (std::same_as<M, Host>)
    if (op::precise_residual(plain_A_, std::ldexp(negated_ ? -1.0 : 1.0, -a_exponent_), *b_, x, r)) {
      if (null_A_) left_->project(r);
      return length(r);
    }
  if (!meets) return norm;
  // Perturbations are half a unit on average; the sums in A x have rounding errors too.
  const double noise = 2 * noise_of(x);
  return norm + noise > goal_ ? norm + noise : norm;
}

template <Scalar T, Memory M>
bool System<T, M>::came_nearer(const V& d, const V& r) const {
  V both(space_);
  A_->apply(d, both);
  // (d, A d) is no more than rounding error: A may not be positive definite. On its null space cg would make such
  // steps for ever.
  const double least = layout::norm(d) * std::max(std::sqrt(epsilon) * layout::norm(both), 4 * noise_of(d));
  if (!(double(real(layout::dot(d, both))) > least)) return false;
  layout::axpy(T(2), r, both);
  return double(real(layout::dot(d, both))) > 0;
}

template <Scalar T, Memory M>
bool System<T, M>::is_far_from_hermitian() const {
  V Ab(space_), AAb(space_);
  A_->apply(*b_, Ab);
  A_->apply(Ab, AAb);
  const T square = layout::dot(Ab, Ab);
  return double(std::abs(square - layout::dot(AAb, *b_))) > 1e-3 * double(real(square));
}

template <Scalar T, Memory M>
int System<T, M>::sign_of_diagonal() const {
  if (!given_A_->has_diagonal()) return 1;
  const auto* const known = dynamic_cast<const op::KnowsSigns*>(given_A_);
  const op::Signs own = known ? known->signs_of_diagonal() : op::signs_of(given_A_->diagonal());
  const auto& comm = space_.comm();
  if (comm.all(own.positive)) return 1;
  return comm.all(own.negative) ? -1 : 0;
}

/// Sets A_ and P_: scaled by the powers of two of choose_scales(). Where A is negative definite, A_ is -A, and P_ has
/// the sign for which (b, P b) > 0. Collective.
template <Scalar T, Memory M>
void System<T, M>::scale_operators(Method method, Report& report) {
  using R = real_t<T>;
  scaled_A_ = std::make_unique<op::Scaled<T, M>>(*given_A_, std::ldexp(R(negated_ ? -1 : 1), -a_exponent_));
  A_ = scaled_A_.get();
  if (given_P_) {
    if (negated_) {
      V z(space_);
      given_P_->apply(*b_, z);
      P_sign_ = real(layout::dot(*b_, z)) < 0 ? -1 : 1;
    }
    scale_preconditioner(P_rescaled_ ? P_exponent_ : a_exponent_);
  }
  if (!negated_) return;
  layout::scale(T(-1), own_b());
  b_checksum_ = checksum_of_b();
  report.warnings.push_back(message(
      to_string(method),
      " solves -A x = -b: ", given_A_->has_diagonal() ? "the diagonal of A is negative" : "(r, A r) is negative"));
}

/// P_ := the given P times 2^e, with its sign. Local.
template <Scalar T, Memory M>
void System<T, M>::scale_preconditioner(int e) {
  P_exponent_ = e;
  scaled_P_ = std::make_unique<op::Scaled<T, M>>(*given_P_, std::ldexp(real_t<T>(P_sign_), e));
  P_ = scaled_P_.get();
}

template <Scalar T, Memory M>
bool System<T, M>::rescale_preconditioner() {
  if (!given_P_ || std::exchange(P_rescaled_, true)) return false;
  V z(space_);
  given_P_->apply(*b_, z);
  const double size = layout::norm(z) / layout::norm(*b_);
  constexpr int most = std::numeric_limits<real_t<T>>::max_exponent;
  if (!(size > 0) || !std::isfinite(size) || std::abs(P_exponent_ + std::ilogb(size)) <= most / 8) return false;
  scale_preconditioner(std::clamp(-std::ilogb(size), 1 - most, most - 1));
  return true;
}

template <Scalar T, Memory M>
bool System<T, M>::turn_sign(V& r, Method method, Report& report) {
  if (negated_ || given_A_->has_diagonal()) return false;
  V Ar(space_);
  A_->apply(r, Ar);
  if (!(real(layout::dot(r, Ar)) < 0)) return false;
  negated_ = true;
  scale_operators(method, report);
  layout::scale(T(-1), r);
  return true;
}

template <Scalar T, Memory M>
bool System<T, M>::diagonal_varies(const Traits& traits) {
  if (P_ || diagonal_looked_at_ || traits.parameters == Traits::Parameters::given || !given_A_->has_diagonal())
    return !P_ && !inverse_.empty();
  diagonal_looked_at_ = true;
  const bool positive = traits.matrix == Traits::Matrix::definite;
  auto d = given_A_->diagonal();
  double low = std::numeric_limits<double>::infinity(), high = 0;
  bool fits = true;
  for (T& a : d) {
    if (negated_) a = -a;
    for (int e = -a_exponent_; e != 0;) {
      const int now = std::clamp(e, -1000, 1000);
      a *= T(real_t<T>(std::ldexp(1.0, now)));
      e -= now;
    }
    const double size = std::abs(a);
    low = std::min(low, size);
    high = std::max(high, size);
    fits = fits && (!positive || real(a) > 0);
    if (traits.matrix == Traits::Matrix::hermitian) a = T(real_t<T>(size));
    a = T(1) / a;
    fits = fits && size > 0 && is_finite(a);
  }
  const auto& comm = space_.comm();
  high = comm.all_max(high);
  low = -comm.all_max(-low);
  if (!comm.all(fits) || !(high > 4 * low)) return false;
  inverse_ = std::move(d);
  inverse_.resize(std::max<std::size_t>(inverse_.size(), 1));  // not empty on a rank without rows
  return true;
}

template <Scalar T, Memory M>
bool System<T, M>::scale_by_diagonal(const Traits& traits) {
  if (!diagonal_varies(traits)) return false;
  V inverse(space_);
  inverse.assign(std::span<const T>(inverse_).first(std::size_t(space_.local_size())));
  diagonal_ = std::make_unique<op::Diagonal<T, M>>(std::move(inverse), "jacobi");
  release(inverse_);
  P_ = diagonal_.get();
  return true;
}

}  // namespace tacit::krylov
