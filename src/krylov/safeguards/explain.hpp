// The explanation of a failed solve: which property of A, P, b or the arithmetic is the cause? Every statement is
// checked by products. Part of solve_impl.hpp; the search for null vectors is in null_vector.hpp.
#pragma once

namespace tacit::krylov {
namespace {

/// 1 or -1 where all of A's diagonal has this sign, 0 where signs differ or an entry is zero. 1 where A does not know
/// its diagonal. Collective.
template <Scalar T, Memory M>
int Solve<T, M>::sign_of_diagonal() {
  if (!given_A_->has_diagonal()) return 1;
  const auto d = given_A_->diagonal();
  const auto& comm = space_.comm();
  const bool positive = comm.all(std::all_of(d.begin(), d.end(), [](T a) { return real(a) > 0; }));
  const bool negative = comm.all(std::all_of(d.begin(), d.end(), [](T a) { return real(a) < 0; }));
  return positive ? 1 : negative ? -1 : 0;
}

/// Sets A_ and P_: scaled by the powers of two of balance_scales(). Where A is negative definite, A_ is -A, and P_ has
/// the sign for which (b, P b) > 0. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::scale_operators() {
  using R = real_t<T>;
  scaled_A_ = std::make_unique<op::Scaled<T, M>>(*given_A_, std::ldexp(R(negated_ ? -1 : 1), -a_exponent_));
  A_ = scaled_A_.get();
  if (given_P_) {
    if (negated_) {
      Vector<T, M> z(space_);
      given_P_->apply(b_, z);
      P_sign_ = real(layout::dot(b_, z)) < 0 ? -1 : 1;
    }
    scale_preconditioner(P_rescaled_ ? P_exponent_ : a_exponent_);
  }
  if (!negated_) return;
  layout::scale(T(-1), b_);
  b_checksum_ = checksum_of_b();
  report_.warnings.push_back(message(
      to_string(method_),
      " solves -A x = -b: ", given_A_->has_diagonal() ? "the diagonal of A is negative" : "(r, A r) is negative"));
}

/// P_ := the given P times 2^e, with its sign. Local.
template <Scalar T, Memory M>
void Solve<T, M>::scale_preconditioner(int e) {
  P_exponent_ = e;
  scaled_P_ = std::make_unique<op::Scaled<T, M>>(*given_P_, std::ldexp(real_t<T>(P_sign_), e));
  P_ = scaled_P_.get();
}

/// After a run that has brought nothing: where P makes vectors so much longer or shorter that inner products of its
/// results may leave the range, scales it by a power of two. Methods with parameters of P A keep their P; others give
/// the same iterates. Once. One apply of P. Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::rescale_preconditioner() {
  const bool sees_size = method_ == Method::richardson || method_ == Method::direct ||
                         (method_ == Method::chebyshev && (options_.lambda_min || options_.lambda_max));
  if (!given_P_ || sees_size || std::exchange(P_rescaled_, true)) return false;
  Vector<T, M> z(space_);
  given_P_->apply(b_, z);
  const double size = layout::norm(z) / layout::norm(b_);
  constexpr int most = std::numeric_limits<real_t<T>>::max_exponent;
  if (!(size > 0) || !std::isfinite(size) || std::abs(P_exponent_ + std::ilogb(size)) <= most / 8) return false;
  scale_preconditioner(std::clamp(-std::ilogb(size), 1 - most, most - 1));
  iteration_.reset();
  return true;
}

/// After a breakdown of cg in its first iteration: where A does not know its diagonal and (r, A r) < 0, takes -A in its
/// place (and P with the sign that scale_operators() finds). Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::turn_sign(const Monitor& monitor, Vector<T, M>& r) {
  if (classical_of(method_) != Method::cg || negated_ || monitor.iterations() > 0 || given_A_->has_diagonal())
    return false;
  Vector<T, M> Ar(space_);
  A_->apply(r, Ar);
  if (!(real(layout::dot(r, Ar)) < 0)) return false;
  negated_ = true;
  scale_operators();
  layout::scale(T(-1), r);
  iteration_.reset();
  return true;
}

/// An estimate of ||B - B^H|| / ||B||, Frobenius: of (q, B p) - (B q, p) for pseudo-random p and q. Rounding stays far
/// below sqrt(epsilon); NaN where products are not finite. Where a null space is given: of B on its complement. Two
/// products with B. Collective.
template <Scalar T, Memory M>
double Solve<T, M>::asymmetry(const op::Operator<T, M>& B) {
  Vector<T, M> p(space_), q(space_), Bp(space_), Bq(space_);
  scatter(p, 1);
  scatter(q, 2);
  if constexpr (!is_group<M>)  // results of P are projected
    if (null_) null_->right().project(p), null_->right().project(q);
  B.apply(p, Bp);
  B.apply(q, Bq);
  const double size = (layout::norm(q) * layout::norm(Bp) + layout::norm(p) * layout::norm(Bq)) / 2;
  return double(std::abs(layout::dot(q, Bp) - layout::dot(Bq, p))) / size * std::sqrt(double(space_.size()));
}

/// ||B (p + q) - B p - B q|| / (||B p|| + ||B q||) for pseudo-random p and q: rounding error where B is linear. Three
/// applies of B. Collective.
template <Scalar T, Memory M>
double Solve<T, M>::nonlinearity(const op::Operator<T, M>& B) {
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

/// cg has made no progress, and (A b, A b) differs from (A A b, b), so A is far from Hermitian on the Krylov space.
/// (There a matrix may be Hermitian that is not so elsewhere, as with identity rows for boundary values.) Two products.
/// Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::is_hopeless(double norm) {
  if (hermitian_ || !needs_hermitian() || !(norm > 0.1 * b_norm_)) return false;
  Vector<T, M> Ab(space_), AAb(space_);
  A_->apply(b_, Ab);
  A_->apply(Ab, AAb);
  const T square = layout::dot(Ab, Ab);
  hopeless_ = double(std::abs(square - layout::dot(AAb, b_))) > 1e-3 * double(real(square));
  return hopeless_;
}

/// y := A^H x, where A has an adjoint product or is Hermitian. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::apply_adjoint(const Vector<T, M>& x, Vector<T, M>& y) {
  if (!may_use_adjoint_) return A_->apply(x, y);
  Vector<T, M> scaled = x;
  layout::scale(T(std::ldexp(real_t<T>(negated_ ? -1 : 1), -a_exponent_)), scaled);
  given_A_->apply_adjoint(scaled, y);
}

/// What the words of a failure say after the last product. Local.
template <Scalar T, Memory M>
void Solve<T, M>::say(const std::string& cause, const std::string& advice) {
  report_.detail += (report_.detail.empty() ? "" : "; ") + cause;
  report_.advice = advice;
}
/// As say(), in place of what the method made of the scalar that vanished. Local.
template <Scalar T, Memory M>
void Solve<T, M>::say_instead(const std::string& cause, const std::string& advice) {
  report_.detail.resize(std::min(report_.detail.size(), report_.detail.find(": ")));
  say(cause, advice);
}

/// Completes detail and advice of a solve that has failed, within the allowance (allowance.hpp) where it was not asked
/// for. Takes the time that this takes. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::explain() {
  const bool asked = options_.explain.value_or(false);
  if (!options_.explain.value_or(true) || !residual_ || report_.converged() || report_.reason == Reason::stopped)
    return;
  const bool cut_off = report_.reason == Reason::max_iterations && options_.spent.iterations == 0;
  if (!asked && cut_off && is_cut_off_early(report_.iterations, space_.size())) return;
  if (options_.before_explaining) options_.before_explaining();
  const double from = wall_time();
  if (!asked) allow();
  const std::string before = report_.detail;
  look_into_cause();
  if (allowance_.fell_short && report_.detail == before)
    report_.advice += std::string(report_.advice.empty() ? "" : " ") +
                      "explain=True looks into the cause for longer than the solve took.";
  report_.explain_seconds = space_.comm().all_max(wall_time() - from);
}

/// About a dozen products, for signs what curvatures() allows, and for null vectors affordable_steps(). The report's
/// counts are without them. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::look_into_cause() {
  const bool cut_off = report_.reason == Reason::max_iterations;
  if (report_.reason == Reason::damaged) return;                                 // products prove nothing
  if (method_ == Method::direct && report_.reason == Reason::breakdown) return;  // the detail is the cause
  const bool broken = report_.reason == Reason::non_finite || report_.reason == Reason::breakdown;
  const bool doubtful = noted_ && noted_->is_doubtful();
  if (broken && !doubtful && explain_non_finite()) return;
  if (!doubtful && (report_.reason == Reason::non_finite || explain_changing_products())) return;
  if (!affords(2, 0, 10, 7)) return;
  const double noise = std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon()));
  const double skew = asymmetry(*A_);
  const bool hermitian = skew <= std::max(noise, 4 * given_A_->accuracy()), coarse = report_.residual_norm > noise;
  if ((coarse || cut_off) && (explain_nonlinearity() || (needs_hermitian() && explain_asymmetry(skew, hermitian))))
    return;
  if (coarse && hermitian && explain_signs()) return;
  if (doubtful) {
    say_instead(message("the preconditioner ", given_P_->name(), " is the likely cause: ", noted_->note()),
                "Use another preconditioner (ilut with a smaller drop, or none), or order the rows so that no diagonal "
                "entry is zero.");
    return;
  }
  // A user's function may announce an adjoint product that fails, as SciPy's operators do; such a function does not
  // know its diagonal. A Hermitian A needs none.
  may_use_adjoint_ = !hermitian && given_A_->has_adjoint() && given_A_->has_diagonal();
  if (coarse && (hermitian || may_use_adjoint_) && explain_singularity()) return;
  explain_rounding();
}

/// Do A and P turn finite vectors into NaN or Inf? Up to six products. Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::explain_non_finite() {
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
bool Solve<T, M>::explain_changing_products() {
  const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
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
bool Solve<T, M>::explain_nonlinearity() {
  if (!given_P_ || is_flexible() || !affords(0, 3, 10, 3)) return false;
  const double bent = nonlinearity(*given_P_);
  if (!(bent > std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon())))) return false;
  say(message("the preconditioner P, ", given_P_->name(), ", is not a linear map: P (p + q) - P p - P q is about ",
              about(bent), " of P p"),
      "Use fgmres, which takes such a preconditioner.");
  return true;
}

/// Is A, or P, given to a method for Hermitian matrices, not Hermitian? Two products. Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::explain_asymmetry(double skew, bool hermitian) {
  const std::string name = to_string(classical_of(method_));
  if (skew > 0 && !hermitian) {
    say(message("the matrix A is not Hermitian: A - A^H is about ", about(skew), " of A"),
        message(name, " needs a Hermitian ", method_ == Method::minres ? "" : "positive definite ",
                "matrix, and this one is not Hermitian; use gmres or bicgstab."));
    return true;
  }
  const double of_P = P_ && hermitian && affords(0, 2, 10, 7) ? asymmetry(*P_) : 0;
  if (!(of_P > std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon())))) return false;
  say(message("the preconditioner P, ", given_P_ ? given_P_->name() : "", ", is not Hermitian: P - P^H is about ",
              about(of_P), " of P"),
      message(name,
              " needs a Hermitian positive definite preconditioner, and this P is not Hermitian; use another one, "
              "or gmres or bicgstab."));
  return true;
}

template <Scalar T, Memory M>
std::string Solve<T, M>::rounding_advice(double level) const {
  constexpr bool is_double = std::same_as<real_t<T>, double>;
  if (level > 0.1) return is_double ? "Scale or regularise the problem." : "Use double precision.";
  return message("Ask for a tolerance above ", about(level),
                 is_double ? ", or scale or regularise the problem." : ", or use double precision.");
}

/// Is the residual rounding error of b - A x? Then x is as good as its scalar type allows. Two products. Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::explain_rounding() {
  if (!affords(2, 0, 10, 3)) return false;
  const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
  Vector<T, M> x = x_, y(space_);
  scale_by_power(x, a_exponent_ - b_exponent_);
  const double noise = noise_of(x), norm = report_.residual_norm * b_norm_;
  if (!std::isfinite(noise) || !(norm <= 100 * std::max(noise, epsilon * b_norm_))) return false;
  scatter(y, 7);
  const double length = layout::norm(y);
  A_->apply(y, x);
  // ||x|| <= ||A^-1|| ||A x||, so ||A|| ||x|| / ||A x|| is a lower bound of the condition.
  const double A_norm = layout::norm(x) / length,
               condition = A_norm * layout::norm(x_) / b_norm_ * std::ldexp(1.0, a_exponent_ - b_exponent_);
  std::string cause = message("this is the rounding error of b - A x in ",
                              (std::same_as<real_t<T>, double> ? "double precision" : "single precision"));
  if (condition > 1e4)
    cause += message("; A is ill-conditioned, or nearly singular: its condition is at least about ", about(condition));
  say_instead(cause, rounding_advice(10 * report_.residual_norm));
  return true;
}

/// Does a Hermitian A have eigenvalues of both signs, and how large are they? Runs conjugate gradients on a random
/// right-hand side: (p, A p) / (p, p) is a value between the extreme eigenvalues. At most 200 products; of a large A no
/// more than the solve did, or 20. Collective.
template <Scalar T, Memory M>
auto Solve<T, M>::curvatures() -> Curvatures {
  Curvatures found;
  const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
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
bool Solve<T, M>::explain_signs() {
  const bool richardson = method_ == Method::richardson;
  if (!richardson && !needs_definite()) return false;
  if (report_.reason == Reason::breakdown && report_.detail.starts_with("(r, P r)")) return false;
  const Curvatures found = curvatures();
  const char* const use = richardson ? "No relaxation makes richardson converge for it; use gmres or bicgstab."
                                     : "It needs a positive definite matrix and preconditioner; use gmres or bicgstab.";
  if (found.positive && found.negative) {
    if (report_.detail.find("the matrix is not positive definite") == std::string::npos)
      say("the matrix A is not positive definite: (p, A p) has both signs", use);
    return true;
  }
  if (richardson && report_.reason == Reason::diverged && !P_ && (found.positive || found.negative)) {
    const double relaxation = options_.relaxation.value_or(1);
    const double most = std::ldexp(2 / found.largest, -a_exponent_);
    if ((relaxation > 0) == found.negative)
      say(message("the eigenvalues of A are ", found.negative ? "negative" : "positive",
                  ", and relaxation = ", relaxation, " has the wrong sign"),
          "Change the sign of relaxation, or use cg.");
    else if (std::abs(relaxation) > most)
      say(message("relaxation = ", relaxation, " is above 2 / lambda_max, which is at most ", about(most)),
          "Use a smaller relaxation, a preconditioner, or cg.");
    return true;
  }
  if (method_ == Method::chebyshev && options_.lambda_max && !P_ &&
      std::ldexp(found.largest, a_exponent_) > *options_.lambda_max) {
    say(message("lambda_max = ", *options_.lambda_max, " is below the largest eigenvalue, which is at least ",
                about(std::ldexp(found.largest, a_exponent_))),
        "Give a larger lambda_max, or none.");
    return true;
  }
  return false;
}

}  // namespace
}  // namespace tacit::krylov
