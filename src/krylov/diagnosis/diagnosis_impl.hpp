// Diagnosis of a failed solve: which property of A, P, b or the arithmetic is the cause? Every statement is checked by
// products.
#pragma once

#include "case.hpp"
#include "diagnosis.hpp"
#include "null_vectors.hpp"

#include <tacit/krylov/solve.hpp>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Diagnosis final : private Case<T, M> {
 public:
  using Case<T, M>::Case;
  /// Completes detail and advice. About a dozen products, for signs what curvatures() allows, and for null vectors what
  /// NullVectors does. The report's counts are without them. Collective.
  void look_into_cause();
  /// Allows what the solve has cost, or 10 ms where that is more; the solves of one call share these. Some reductions.
  /// Collective.
  void allow();

 private:
  using Base = Case<T, M>;
  using Base::A_, Base::P_, Base::b_, Base::space_, Base::options_, Base::report_, Base::system_;
  using Base::affords, Base::asymmetry, Base::epsilon, Base::is_small, Base::products_spent, Base::say,
      Base::say_instead, Base::is_double;
  using Base::given_A_, Base::given_P_, Base::method_, Base::allowance_, Base::effort_, Base::solves_of_call_,
      Base::has_tried_others_;

  double nonlinearity(const op::Operator<T, M>& B) const;
  bool explain_non_finite();
  bool explain_changing_products();
  bool explain_nonlinearity();
  bool explain_asymmetry(double skew, bool hermitian);
  bool explain_transpose(bool hermitian);
  bool explain_rounding();
  struct Curvatures {
    bool positive = false, negative = false;
    double largest = 0;  // a lower bound of the largest eigenvalue's magnitude
  };
  Curvatures curvatures();
  bool explain_signs();
  bool explain_parameters(const Curvatures& found);
};

/// Allows what the solve has cost, or 10 ms where that is more; the solves of one call share these. Some reductions.
/// Collective.
template <Scalar T, Memory M>
void Diagnosis<T, M>::allow() {
  // A core with its vectors in cache, and a network: small numbers would deny small systems their explanation.
  constexpr double bandwidth = 1e10, flop_rate = 4e9, call = 1e-6, message_time = 2e-6, least = 0.01;
  constexpr double slow = 1e-3;  // of an apply: what load on the machine seldom makes of a fast one
  const auto& comm = space_.comm();
  Allowance a;
  a.vector = comm.all_max(double(space_.local_size()) * sizeof(T)) / bandwidth;
  a.sum = call;
  if (!space_.is_replicated()) a.sum += message_time * std::bit_width(unsigned(comm.size() - 1));
  const auto price = [&](const op::Operator<T, M>* B) {
    if (!B) return 0.0;
    const op::Cost c = B->cost();
    const double counted = c.bytes / bandwidth + c.flops / flop_rate + call + (c.messages > 0 ? message_time : 0);
    return comm.all_max(c.bytes > 0 ? counted : 20 * call + 12 * a.vector);  // a user's function does not tell
  };
  a.product = price(A_);
  a.precondition = price(P_);
  const auto& counts = effort_.counts;
  double solve = double(counts.operator_applies) * a.product + double(counts.preconditioner_applies) * a.precondition +
                 double(counts.reductions) * a.sum + effort_.iterations * Base::vectors_an_iteration() * a.vector;
  // Where the solve took far longer than what was counted, an operator may cost more than it tells, or the machine was
  // busy: an apply of each by the clock tells these apart. The time of one of several columns is that of all.
  if (solves_of_call_ == 1 && !has_tried_others_ && report_.seconds > slow && report_.seconds > 30 * solve) {
    const double from = wall_time();
    Vector<T, M> y(space_);
    const auto timed = [&](const op::Operator<T, M>* B, double& price) {
      if (!B) return;
      const double begin = wall_time();
      B->apply(b_, y);
      const double seconds = comm.all_max(wall_time() - begin);
      if (seconds > slow && seconds > 30 * price) price = seconds, solve = report_.seconds;
    };
    timed(A_, a.product), timed(P_, a.precondition);
    solve -= comm.all_max(wall_time() - from);
  }
  a.left = std::max(solve, least / std::max(1, solves_of_call_));
  allowance_ = a;
}

/// ||B (p + q) - B p - B q|| / (||B p|| + ||B q||) for pseudo-random p and q: rounding error where B is linear. Three
/// applies of B. Collective.
template <Scalar T, Memory M>
double Diagnosis<T, M>::nonlinearity(const op::Operator<T, M>& B) const {
  Vector<T, M> p(space_), q(space_), Bp(space_), Bq(space_);
  scatter(p, 1);
  scatter(q, 2);
  B.apply(p, Bp);
  B.apply(q, Bq);
  const double size = layout::norm(Bp) + layout::norm(Bq);
  layout::axpy(T(1), Bp, Bq);
  layout::axpy(T(1), p, q);
  B.apply(q, Bp);
  layout::axpy(T(-1), Bp, Bq);
  return layout::norm(Bq) / size;
}

template <Scalar T, Memory M>
void Diagnosis<T, M>::look_into_cause() {
  const bool cut_off = report_.reason == Reason::max_iterations;
  if (report_.reason == Reason::damaged) return;                                        // products prove nothing
  if (traits_of(method_).needs_factors && report_.reason == Reason::breakdown) return;  // the detail is the cause
  const bool broken = report_.reason == Reason::non_finite || report_.reason == Reason::breakdown;
  const auto* const noted = system_.noted();
  const bool doubtful = noted && noted->is_doubtful();
  if (broken && !doubtful && explain_non_finite()) return;
  if (!doubtful && (report_.reason == Reason::non_finite || explain_changing_products())) return;
  if (!affords(2, 0, 10, 7)) return;
  const double noise = std::sqrt(epsilon);
  const double skew = asymmetry(*A_);
  const bool hermitian = skew <= std::max(noise, 4 * given_A_->accuracy()), coarse = report_.residual_norm > noise;
  if ((coarse || cut_off) &&
      (explain_nonlinearity() || (needs_hermitian(method_) && explain_asymmetry(skew, hermitian)) ||
       (traits_of(method_).symmetric && explain_transpose(hermitian))))
    return;
  if (coarse && hermitian && explain_signs()) return;
  if (doubtful) {
    say_instead(message("the preconditioner ", given_P_->name(), " is the likely cause: ", noted->note()),
                "Use another preconditioner (ilut with a smaller drop, or none), or order the rows so that no diagonal "
                "entry is zero.");
    return;
  }
  // A user's function may announce an adjoint product that fails, as SciPy's operators do; such a function does not
  // know its diagonal. A Hermitian A needs none.
  const bool may_use_adjoint = !hermitian && given_A_->has_adjoint() && given_A_->has_diagonal();
  if (coarse && (hermitian || may_use_adjoint) && NullVectors<T, M>(*this, may_use_adjoint).explain()) return;
  explain_rounding();
}

/// Do A and P turn finite vectors into NaN or Inf? Up to six products. Collective.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_non_finite() {
  Vector<T, M> from(space_), to(space_);
  const auto spoils = [&](const op::Operator<T, M>* B) {
    if (!B) return false;
    for (int k = 0; k < 3; ++k) {
      if (!affords(B == A_, B != A_, 2, 1)) return false;
      if (k == 0) layout::copy(b_, from);
      else scatter(from, std::uint64_t(5 + k));
      B->apply(from, to);
      if (const Global i = first_non_finite(to); i >= 0) {
        const bool is_A = B == A_;
        report_.reason = Reason::non_finite;
        say_instead(message(is_A ? "the operator A (" : "the preconditioner P (", B->name(),
                            ") gives NaN or Inf for a finite vector, first at index ", i),
                    is_A ? "Look at how the product comes about." : "Use another preconditioner.");
        return true;
      }
    }
    return false;
  };
  return spoils(P_) || spoils(A_);
}

/// Do two products with the same vector differ by more than rounding? Four products. Collective.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_changing_products() {
  Vector<T, M> v(space_), first(space_), second(space_);
  scatter(v, 6);
  const auto changes = [&](const op::Operator<T, M>* B) {
    if (!affords(B == A_ ? 2 : 0, B == A_ ? 0 : 2, 5, 2)) return 0.0;
    B->apply(v, first);
    B->apply(v, second);
    const double size = layout::norm(first);
    layout::subtract(second, first, second);
    const double change = layout::norm(second) / size;
    return change > 1e4 * epsilon ? change : 0.0;
  };
  if (const double change = changes(A_); change > 0) {
    say_instead(message("the product of A (", given_A_->name(), ") with the same vector changes from call to call, by ",
                        about(change)),
                "Make the product a function of its argument only; no method converges further than it is repeatable.");
    return true;
  }
  if (const double change = given_P_ && !op::varies(given_P_) ? changes(given_P_) : 0; change > 0) {
    say_instead(message("the preconditioner ", given_P_->name(), " changes from call to call, by ", about(change)),
                "Use fgmres, or a preconditioner that is a function of its argument only.");
    return true;
  }
  return false;
}

/// Is P, given to a method that takes it for a linear map, none? Three applies. Collective.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_nonlinearity() {
  if (!given_P_ || is_flexible(method_, options_.side.value_or(Side::right)) || !affords(0, 3, 10, 3)) return false;
  const double bent = nonlinearity(*given_P_);
  if (!(bent > std::sqrt(epsilon))) return false;
  say(message("the preconditioner P, ", given_P_->name(), ", is not a linear map: P (p + q) - P p - P q is about ",
              about(bent), " of P p"),
      "Use fgmres, which takes such a preconditioner.");
  return true;
}

/// Is A, or P, given to a method for Hermitian matrices, not Hermitian? Two products. Collective.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_asymmetry(double skew, bool hermitian) {
  const std::string name = to_string(classical_of(method_));
  if (skew > 0 && !hermitian) {
    say(message("the matrix A is not Hermitian: A - A^H is about ", about(skew), " of A"),
        message(name, " needs a Hermitian ", needs_definite(method_) ? "positive definite " : "",
                "matrix, and this one is not Hermitian; use gmres or bicgstab."));
    return true;
  }
  const double of_P = P_ && hermitian && affords(0, 2, 10, 7) ? asymmetry(*P_) : 0;
  if (!(of_P > std::sqrt(epsilon))) return false;
  say(message("the preconditioner P, ", given_P_ ? given_P_->name() : "", ", is not Hermitian: P - P^H is about ",
              about(of_P), " of P"),
      message(name,
              " needs a Hermitian positive definite preconditioner, and this P is not Hermitian; use another one, "
              "or gmres or bicgstab."));
  return true;
}

/// Is A, or P, given to a method for A = A^T, another one? Two products, and two applies of P. Collective.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_transpose(bool hermitian) {
  if (!affords(2, 0, 10, 7)) return false;
  const std::string name = to_string(method_);
  const double of_A = asymmetry(*A_, true);
  if (of_A > std::max(std::sqrt(epsilon), 4 * given_A_->accuracy())) {
    say(message("the matrix A is not symmetric: A - A^T is about ", about(of_A), " of A"),
        message(name, " needs A = A^T, without conjugation, and this matrix is ",
                hermitian ? "Hermitian: use cg or minres." : "another one: use gmres or bicgstab."));
    return true;
  }
  const double of_P = P_ && affords(0, 2, 10, 7) ? asymmetry(*P_, true) : 0;
  if (!(of_P > std::sqrt(epsilon))) return false;
  say(message("the preconditioner P, ", given_P_ ? given_P_->name() : "", ", is not symmetric: P - P^T is about ",
              about(of_P), " of P"),
      message(name, " needs P = P^T, without conjugation; use another one (jacobi, ilu0), or gmres or bicgstab."));
  return true;
}

/// Is the residual rounding error of b - A x? Then x is as good as its scalar type allows. Two products. Collective.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_rounding() {
  if (!affords(2, 0, 10, 3)) return false;
  Vector<T, M> x = system_.x(), y(space_);
  scale_by_power(x, system_.a_exponent() - system_.b_exponent());
  const double noise = system_.noise_of(x), norm = report_.residual_norm * system_.b_norm();
  if (!std::isfinite(noise) || !(norm <= 100 * std::max(noise, epsilon * system_.b_norm()))) return false;
  scatter(y, 7);
  const double length = layout::norm(y);
  A_->apply(y, x);
  // ||x|| <= ||A^-1|| ||A x||, so ||A|| ||x|| / ||A x|| is a lower bound of the condition.
  const double A_norm = layout::norm(x) / length,
               condition = A_norm * layout::norm(system_.x()) / system_.b_norm() *
                           std::ldexp(1.0, system_.a_exponent() - system_.b_exponent());
  std::string cause =
      message("this is the rounding error of b - A x in ", (is_double ? "double precision" : "single precision"));
  if (condition > 1e4)
    cause += message("; A is ill-conditioned, or nearly singular: its condition is at least about ", about(condition));
  say_instead(cause, rounding_advice(10 * report_.residual_norm, is_double));
  return true;
}

/// Does a Hermitian A have eigenvalues of both signs, and how large are they? Runs conjugate gradients on a random
/// right-hand side: (p, A p) / (p, p) is a value between the extreme eigenvalues. At most 200 products; of a large A no
/// more than the solve did, or 20. Collective.
template <Scalar T, Memory M>
auto Diagnosis<T, M>::curvatures() -> Curvatures {
  Curvatures found;
  Vector<T, M> r(space_), p(space_), v(space_);
  scatter(r, 8);
  layout::copy(r, p);
  double rr = double(real(layout::dot(r, r)));
  const double start = rr;
  const auto most = std::min<Global>(200, is_small() ? 2 * space_.size() : std::max<Global>(20, products_spent()));
  for (Global k = 0; k < most && rr > epsilon * epsilon * start && affords(1, 0, 14, 4); ++k) {
    space_.comm().check_interrupt();
    A_->apply(p, v);
    const double pv = double(real(layout::dot(p, v))), pp = double(real(layout::dot(p, p))), size = layout::norm(v);
    if (!std::isfinite(pv) || !(size > 0)) break;
    found.largest = std::max(found.largest, size / std::sqrt(pp));
    const bool rounding = std::abs(pv) <= 1e3 * epsilon * found.largest * pp;
    if (!rounding) (pv > 0 ? found.positive : found.negative) = true;
    if (rounding || (found.positive && found.negative)) break;
    layout::axpy(T(real_t<T>(-rr / pv)), v, r);
    const double before = std::exchange(rr, double(real(layout::dot(r, r))));
    layout::scale(T(real_t<T>(rr / before)), p);
    layout::axpy(T(1), r, p);
  }
  return found;
}

/// For methods that need eigenvalues of one sign, and parameters that fit them. Collective.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_signs() {
  const bool richardson = traits_of(method_).parameters == Traits::Parameters::given;
  if (!richardson && !needs_definite(method_)) return false;
  if (report_.reason == Reason::breakdown && report_.detail.starts_with("(r, P r)")) return false;
  const Curvatures found = curvatures();
  const char* const use = richardson ? "No relaxation makes richardson converge for it; use gmres or bicgstab."
                                     : "It needs a positive definite matrix and preconditioner; use gmres or bicgstab.";
  if (found.positive && found.negative) {
    if (report_.detail.find("the matrix is not positive definite") == std::string::npos)
      say("the matrix A is not positive definite: (p, A p) has both signs", use);
    return true;
  }
  return explain_parameters(found);
}

/// Do parameters of the method fit the eigenvalues? Local.
template <Scalar T, Memory M>
bool Diagnosis<T, M>::explain_parameters(const Curvatures& found) {
  const bool richardson = traits_of(method_).parameters == Traits::Parameters::given;
  if (richardson && report_.reason == Reason::diverged && !P_ && (found.positive || found.negative)) {
    const double relaxation = options_.relaxation.value_or(1);
    const double most = std::ldexp(2 / found.largest, -system_.a_exponent());
    if ((relaxation > 0) == found.negative)
      say(message("the eigenvalues of A are ", found.negative ? "negative" : "positive",
                  ", and relaxation = ", relaxation, " has the wrong sign"),
          "Change the sign of relaxation, or use cg.");
    else if (std::abs(relaxation) > most)
      say(message("relaxation = ", relaxation, " is above 2 / lambda_max, which is at most ", about(most)),
          "Use a smaller relaxation, a preconditioner, or cg.");
    return true;
  }
  if (options_.lambda_max && !P_ && std::ldexp(found.largest, system_.a_exponent()) > *options_.lambda_max) {
    say(message("lambda_max = ", *options_.lambda_max, " is below the largest eigenvalue, which is at least ",
                about(std::ldexp(found.largest, system_.a_exponent()))),
        "Give a larger lambda_max, or none.");
    return true;
  }
  return false;
}

template <Scalar T, Memory M>
void diagnose(const Failed<T, M>& failed, Report& report) {
  const Options& options = failed.options;
  const auto& space = failed.system.space();
  const bool in_full = options.explain.value_or(false);
  const bool cut_off = report.reason == Reason::max_iterations && !failed.has_tried_others;
  if (!in_full && cut_off && is_cut_off_early(report.iterations, space.size())) return;
  if (options.before_explaining) options.before_explaining();
  const double from = wall_time();
  Allowance allowance;
  Diagnosis<T, M> diagnosis(failed, report, allowance);
  if (!in_full) diagnosis.allow();
  const std::string before = report.detail;
  diagnosis.look_into_cause();
  if (allowance.fell_short && report.detail == before)
    report.advice += std::string(report.advice.empty() ? "" : " ") +
                     "explain=True looks into the cause for longer than the solve took.";
  report.explain_seconds = space.comm().all_max(wall_time() - from);
}

}  // namespace tacit::krylov
