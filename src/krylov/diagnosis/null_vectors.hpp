// Is A singular, or so nearly that rounding hides a solution, and is b outside its range? A search for a y with
// A^H y = 0, which proves it.
#pragma once

#include "case.hpp"
#include "least_squares.hpp"

namespace tacit::krylov {

/// Looks for such a y, by guesses and by a least-squares solve.
template <Scalar T, Memory M>
class NullVectors final : private Case<T, M> {
 public:
  /// may_use_adjoint: else A is Hermitian.
  NullVectors(const Case<T, M>& of, bool may_use_adjoint) : Case<T, M>(of), may_use_adjoint_(may_use_adjoint) {}
  /// Whether it has named the cause. Collective.
  bool explain();

 private:
  using V = Vector<T, M>;
  using Squares = LeastSquares<T, M>;
  using Base = Case<T, M>;
  using Base::A_, Base::P_, Base::b_, Base::space_, Base::options_, Base::report_, Base::system_;
  using Base::affords, Base::asymmetry, Base::epsilon, Base::is_small, Base::products_spent, Base::say_instead;
  using Base::given_A_, Base::given_P_, Base::residual_, Base::method_, Base::has_tried_others_;

  struct Proof {
    bool singular = false;  // A^H y is rounding error
    double level = 0;       // |(y, b)|: no x of less than `length` has a smaller residual
    double length = std::numeric_limits<double>::infinity(), noise = length;  // of such an x, and of its A x
  };
  void apply_adjoint(const V& x, V& y);
  void gradient(Squares& l);
  bool affords_step(const Squares& l);
  Proof proof(const V& y, const V& Ay);
  bool names_cause(const V& y, const V& Ay, const char* which, const char* part);
  double goal_of_two_norm() const;
  double least_level() const;
  bool by_guesses();
  bool nearly(double b_norm);
  bool blames_preconditioner(const Squares& l, double P_norm);
  Global affordable_steps(Global spent) const;
  int most_steps(bool cut_off) const;
  void take_precond(Squares& l);
  bool solvable(Squares& l, int most);

  bool may_use_adjoint_;
  double A_norm_ = 0;  // an estimate, from below
  Proof nearly_;       // that A is nearly singular, the strongest so far
};

/// y := A^H x, where A has an adjoint product or is Hermitian. Collective.
template <Scalar T, Memory M>
void NullVectors<T, M>::apply_adjoint(const V& x, V& y) {
  if (!may_use_adjoint_) return A_->apply(x, y);
  V scaled = x;
  layout::scale(T(std::ldexp(real_t<T>(system_.negated() ? -1 : 1), -system_.a_exponent())), scaled);
  given_A_->apply_adjoint(scaled, y);
}

/// s and Ay of the present y. Collective.
template <Scalar T, Memory M>
void NullVectors<T, M>::gradient(Squares& l) {
  apply_adjoint(l.y, l.Ay);
  if (!l.P) layout::copy(l.Ay, l.s);
  else if (l.adjoint_of_P) l.P->apply_adjoint(l.Ay, l.s);
  else l.P->apply(l.Ay, l.s);
}

/// Whether a step, with the proof of what its y shows, is allowed still. Local; the same on all ranks.
template <Scalar T, Memory M>
bool NullVectors<T, M>::affords_step(const Squares& l) {
  // cgs2 reads half a basis four times, and there are two bases.
  return affords(2.5, l.P ? 2 : 0, 24 + 4.0 * (l.steps + l.kept), 12);
}

/// For a y of length 1, ||b - A x|| >= |(y, b)| - |(A^H y, x)| for every x: an x with a smaller residual than |(y, b)|
/// is at least |(y, b)| / ||A^H y|| long, and A x then has rounding errors, measured here. What does this y prove?
/// One product. Collective.
template <Scalar T, Memory M>
auto NullVectors<T, M>::proof(const V& y, const V& Ay) -> Proof {
  const double size = layout::norm(y), image = layout::norm(Ay);
  Proof found;
  if (!(size > 0) || !std::isfinite(image)) return found;
  found.level = double(std::abs(layout::dot(y, b_))) / size;
  const double sigma = image / size;
  // Rounding errors of such a length cannot matter: saves the product.
  if (sigma > 0 && epsilon * A_norm_ * std::sqrt(double(space_.size())) * std::max(found.level, least_level()) / sigma <
                       0.1 * least_level())
    return found = Proof{false, found.level, 0, 0};
  if (sigma == 0) {
    found.singular = true;
    return found;
  }
  V v = Ay, digits(space_);
  layout::scale(T(real_t<T>(1 / image)), v);
  scatter(digits, 9);
  exec::sweep(exec::reads(v), exec::updates(digits), exec::writes(), LastDigits<T>{real_t<T>(epsilon)});
  A_->apply(digits, v);
  const double noise = layout::norm(v);  // of A x, for an x of length 1 along A^H y
  found.singular = sigma <= 256 * noise;
  found.length = found.level / sigma;
  found.noise = noise * found.length;
  return found;
}

/// Says what such a y proves of the system, if anything. `which`: why A^H y = 0; `part`: what to take out of b. One
/// product. Collective.
template <Scalar T, Memory M>
bool NullVectors<T, M>::names_cause(const V& y, const V& Ay, const char* which, const char* part) {
  const Proof found = proof(y, Ay);
  if (!(found.level > least_level())) return false;
  const bool passed = options_.norm == Norm::two && report_.residual_norm * system_.b_norm() < 0.9 * found.level;
  // An x of that length may still be exact to the goal.
  const bool too_long = found.noise > goal_of_two_norm();
  if (found.singular && too_long && !passed) {
    say_instead(message("the system is inconsistent: A is singular, or nearly so, and ", which,
                        ", so that no x brings ||b - A x|| below ", about(found.level / layout::norm(b_)), " of ||b||"),
                message("Take ", part,
                        " out of b, or solve A^H A x = A^H b for the x of least residual; a longer restart or another "
                        "method does not help."));
    return true;
  }
  if (found.noise > least_level() / 10 && found.noise > nearly_.noise) nearly_ = found;
  return false;
}

/// The last word where y did prove that A is nearly singular, and no more than that. Local.
template <Scalar T, Memory M>
bool NullVectors<T, M>::nearly(double b_norm) {
  if (!(nearly_.noise > 0)) return false;
  say_instead(message("A is nearly singular: b has a part of ", about(nearly_.level / b_norm),
                      " of ||b|| that only an x can reach whose b - A x has a rounding error of about ",
                      about(nearly_.noise / b_norm), " of ||b||"),
              rounding_advice(nearly_.noise / b_norm, Base::is_double));
  return true;
}

/// The goal, or the least 2-norm that is above a goal for the largest element. Local.
template <Scalar T, Memory M>
double NullVectors<T, M>::goal_of_two_norm() const {
  return system_.goal() * (options_.norm == Norm::max ? std::sqrt(double(space_.size())) : 1);
}

/// The level above which b has a part outside the range: well above the goal and the rounding of b.
template <Scalar T, Memory M>
double NullVectors<T, M>::least_level() const {
  return std::max(10 * goal_of_two_norm(), std::sqrt(epsilon) * layout::norm(b_));
}

/// Null vectors that can be guessed: the rows where A is zero, and the vector of ones. Six products. Collective.
template <Scalar T, Memory M>
bool NullVectors<T, M>::by_guesses() {
  V y(space_), s(space_);
  // y := b in those rows where A is zero, whose product with random numbers is exactly zero.
  scatter(y, 4);
  A_->apply(y, s);
  auto part = b_.to_host();
  const auto image = s.to_host();
  for (std::size_t i = 0; i < part.size(); ++i)
    if (image[i] != T(0)) part[i] = T(0);
  y.assign(part);
  apply_adjoint(y, s);
  if (layout::norm(y) > 0 && layout::norm(y) == layout::norm(b_) && layout::norm(s) == 0) {
    scatter(y, 5);
    A_->apply(y, s);
    if (layout::norm(s) == 0) {
      say_instead("the matrix A is singular, it is zero, and the system is inconsistent", "Look at how A was made.");
      return true;
    }
    y.assign(part);
    layout::fill(s, T(0));
  }
  if (names_cause(y, s, "it has rows of zeros where b is not zero", "what stands in these rows")) return true;
  layout::fill(y, T(1));
  apply_adjoint(y, s);
  return names_cause(y, s, "each of its columns adds up to zero while b does not", "the mean");
}

/// Has P^H A^H y vanished while A^H y has not? Then P maps what would reduce the residual to zero. Collective.
template <Scalar T, Memory M>
bool NullVectors<T, M>::blames_preconditioner(const Squares& l, double P_norm) {
  const double s = layout::norm(l.s), Ay = layout::norm(l.Ay), y = layout::norm(l.y);
  if (!l.P || !(y > least_level()) || !(Ay > 1e-6 * A_norm_ * y)) return false;
  const double small = 1e-2 * std::sqrt(epsilon);
  if (!(s <= small * P_norm * Ay && (l.first == 0 || s <= small * l.first))) return false;
  say_instead(message("the preconditioner ", l.P->name(), " is singular, or nearly so: it maps to zero what would ",
                      "reduce the residual below ", about(y / layout::norm(b_)), " of ||b||"),
              "Use another preconditioner, or none.");
  return true;
}

/// The most steps of both searches together that sweep over no more vectors than the solve did, in `spent` products;
/// or, where those are few, over 1e9 elements. m steps: 3 products each, and both bases twice, 4 m^2 vectors. A product
/// counts as that of a five-point stencil. Local; the same on all ranks.
template <Scalar T, Memory M>
Global NullVectors<T, M>::affordable_steps(Global spent) const {
  const double product = 10, others = 20;
  // cgs2 reads half a basis four times; short recurrences some ten vectors.
  const double iteration = product + Base::vectors_an_iteration();
  const double work = std::max(double(spent) * iteration, 1e9 / double(space_.size())) / 2;
  const double linear = 3 * product + others;
  return std::max<Global>(1, Global((std::sqrt(linear * linear + 16 * work) - linear) / 8));
}

/// The most steps of a search. Collective.
template <Scalar T, Memory M>
int NullVectors<T, M>::most_steps(bool cut_off) const {
  const Global spent = products_spent();
  // At most 512 MiB for both bases.
  const auto room = Global(space_.comm().all_max(double(space_.local_size()) * sizeof(T)));
  return int(std::min({space_.size(),
                       is_small() ? space_.size()
                       : cut_off  ? spent / 8
                                  : std::max<Global>(100, spent / 4),
                       is_small() ? space_.size() : affordable_steps(spent), Global(500),
                       (Global(1) << 28) / std::max<Global>(room, 1)}));
}

/// P, where it is a linear map whose adjoint is known. Two applies of P. Collective.
template <Scalar T, Memory M>
void NullVectors<T, M>::take_precond(Squares& l) {
  if (!P_ || op::varies(given_P_)) return;
  // As for A: a user's function may announce an adjoint product that fails.
  l.adjoint_of_P = P_->has_adjoint() && P_->has_diagonal();
  if (l.adjoint_of_P || (affords(0, 2, 10, 7) && asymmetry(*P_) <= std::sqrt(epsilon))) l.P = P_;
}

/// Looks for the y by a least-squares solve, from the present residual where that is known; where that finds an x,
/// whether A is singular, by another one with a random right-hand side. Collective.
template <Scalar T, Memory M>
bool NullVectors<T, M>::explain() {
  if (!affords(8, 0, 40, 20)) return false;
  Squares l(space_);
  scatter(l.y, 3);
  gradient(l);
  A_norm_ = layout::norm(l.Ay) / layout::norm(l.y);
  const double b_norm = layout::norm(b_);
  nearly_ = {false, 0, 0, 0};
  if (by_guesses()) return true;
  const bool cut_off =
      report_.reason == Reason::max_iterations && !has_tried_others_ && !options_.explain.value_or(false);
  const int most = most_steps(cut_off);
  take_precond(l);
  gradient(l);
  const double P_norm = layout::norm(l.s) / layout::norm(l.Ay);
  layout::copy(residual_ ? *residual_ : b_, l.y);
  const double goal = std::max(0.1 * least_level(), system_.goal());
  for (int k = 0; layout::norm(l.y) > goal; ++k) {
    gradient(l);
    if (names_cause(l.y, l.Ay, "b has a part that is orthogonal to its range", "that part")) return true;
    if (blames_preconditioner(l, P_norm)) return true;
    if (k == most || !affords_step(l) || !l.step(*A_)) return nearly(b_norm);
  }
  if (nearly(b_norm)) return true;
  return !cut_off && solvable(l, most);
}

/// After a least-squares solve that has found an x: says so, and whether A is singular all the same. Collective.
template <Scalar T, Memory M>
bool NullVectors<T, M>::solvable(Squares& l, int most) {
  const std::string advice =
      message(" A least-squares solve finds an x in ", l.steps, " steps: A^H A x = A^H b by cg is another way.");
  l.steps = l.kept = 0;
  l.P = nullptr;
  scatter(l.y, 10);
  const double start = layout::norm(l.y);
  for (int k = 0; layout::norm(l.y) > 1e-9 * start; ++k) {
    gradient(l);
    if (proof(l.y, l.Ay).singular) {
      say_instead("the matrix A is singular, and b is in its range, but no solution was found in the method's space",
                  report_.advice);
      break;
    }
    if (k == most || !affords_step(l) || !l.step(*A_)) break;
  }
  report_.advice += advice;
  return true;
}

}  // namespace tacit::krylov
