// The explanation of a failed solve: is the cause the preconditioner's construction, a matrix that is not Hermitian, or
// a right-hand side outside the range of a singular matrix? Part of solve_impl.hpp.
#pragma once

namespace tacit::krylov {
namespace {

std::string about(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

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
    R sign = 1;
    if (negated_) {
      Vector<T, M> z(space_);
      given_P_->apply(b_, z);
      if (real(layout::dot(b_, z)) < 0) sign = -1;
    }
    scaled_P_ = std::make_unique<op::Scaled<T, M>>(*given_P_, std::ldexp(sign, a_exponent_));
    P_ = scaled_P_.get();
  }
  if (!negated_) return;
  layout::scale(T(-1), b_);
  report_.warnings.push_back(message(
      to_string(method_),
      " solves -A x = -b: ", given_A_->has_diagonal() ? "the diagonal of A is negative" : "(r, A r) is negative"));
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
/// below sqrt(epsilon); NaN where products are not finite. Two products with B. Collective.
template <Scalar T, Memory M>
double Solve<T, M>::asymmetry(const op::Operator<T, M>& B) {
  Vector<T, M> p(space_), q(space_), Bp(space_), Bq(space_);
  scatter(p, 1);
  scatter(q, 2);
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

/// Names a P that is not linear, or an A or P that is not Hermitian, where the method needs that. `skew`: asymmetry(A).
/// Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::explain_kind(double skew, bool hermitian) {
  const double noise = std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon()));
  const std::string P_name = message("the preconditioner P", given_P_ ? ", " + given_P_->name() + "," : "");
  const auto says = [&](const std::string& text, std::string advice) {
    report_.detail += (report_.detail.empty() ? "" : "; ") + text;
    report_.advice = std::move(advice);
    return true;
  };
  if (given_P_ && !is_flexible())
    if (const double bent = nonlinearity(*given_P_); bent > noise)
      return says(message(P_name, " is not a linear map, or changes from call to call: P (p + q) - P p - P q is about ",
                          about(bent), " of P p"),
                  "Use fgmres, which takes such a preconditioner.");
  if (!needs_hermitian()) return false;
  const std::string who = to_string(classical_of(method_)),
                    kind = method_ == Method::minres ? "Hermitian" : "Hermitian positive definite";
  if (skew > 0 && !hermitian)
    return says(message("the matrix A is not Hermitian: A - A^H is about ", about(skew), " of A"),
                message(who, " needs a ", kind, " matrix, and this one is not Hermitian; use gmres or bicgstab."));
  if (const double of_P = P_ && hermitian ? asymmetry(*P_) : 0; of_P > noise)
    return says(message(P_name, " is not Hermitian: P - P^H is about ", about(of_P), " of P"),
                message(who,
                        " needs a Hermitian positive definite preconditioner, and this one is not Hermitian; use "
                        "another one, or gmres or bicgstab."));
  return false;
}

/// Completes detail and advice of a solve that has failed, where a few products can tell why. The report's counts and
/// seconds are without them. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::explain() {
  const double noise = std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon()));
  // A solve that was soon cut off, or that is as good as the scalar allows, needs no explanation.
  if (!residual_ || report_.converged() || report_.reason == Reason::stopped || report_.residual_norm <= noise ||
      (report_.reason == Reason::max_iterations && report_.iterations < 100))
    return;
  const auto add = [&](const std::string& text) { report_.detail += (report_.detail.empty() ? "" : "; ") + text; };
  if (noted_ && noted_->is_doubtful()) {
    // Drops the text after the value that vanished: it assumes a sound preconditioner.
    report_.detail.resize(std::min(report_.detail.size(), report_.detail.find(": ")));
    add(message("the preconditioner ", given_P_->name(), " is the likely cause: ", noted_->note()));
    report_.advice =
        "Use another preconditioner (ilut with a smaller drop, or none), or order the rows so that no diagonal entry "
        "is "
        "zero.";
    return;
  }
  const double skew = asymmetry(*A_);
  const bool hermitian = skew <= std::max(noise, 4 * given_A_->accuracy());
  if (explain_kind(skew, hermitian)) return;
  // A Hermitian A needs no adjoint product. A user's function may announce an adjoint product that fails, as SciPy's
  // operators do; such a function does not know its diagonal.
  may_use_adjoint_ = !hermitian && given_A_->has_adjoint() && given_A_->has_diagonal();
  if (report_.reason != Reason::non_finite && (hermitian || may_use_adjoint_)) explain_inconsistency();
}

/// For a y of length 1, ||b - A x|| >= |(y, b - A x)| for every x. So where A^H y is nearly zero, ||b - A x|| is at
/// least about |(y, b)| unless x is as long as 1 / ||A^H y||. Looks for such a y. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::explain_inconsistency() {
  const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
  Vector<T, M> y(space_), s(space_);
  scatter(y, 3);
  apply_adjoint(y, s);
  const double A_norm = layout::norm(s) / layout::norm(y), b_norm = layout::norm(b_);
  const double goal = goal_ * (options_.norm == Norm::max ? std::sqrt(double(space_.size())) : 1);
  const double least = std::max(10 * goal, std::sqrt(epsilon) * b_norm);
  const auto names_cause = [&](const char* which, const char* part) {
    const double size = layout::norm(y), level = double(std::abs(layout::dot(y, b_))) / size;
    if (!(layout::norm(s) <= 4096 * epsilon * A_norm * size) || !(level > least)) return false;
    report_.detail +=
        message(report_.detail.empty() ? "" : "; ", "the system is inconsistent: A is singular, or nearly so, and ",
                which, ", so that no x brings ||b - A x|| below ", about(level / b_norm), " of ||b||");
    report_.advice = message("Take ", part,
                             " out of b, or solve A^H A x = A^H b for the x of least residual; a longer restart "
                             "or another method does not help.");
    return true;
  };
  // y := b in those rows where A is zero, whose product with random numbers is exactly zero.
  scatter(y, 4);
  A_->apply(y, s);
  auto part = b_.to_host();
  const auto image = s.to_host();
  for (std::size_t i = 0; i < part.size(); ++i)
    if (image[i] != T(0)) part[i] = T(0);
  y.assign(part);
  apply_adjoint(y, s);
  if (names_cause("it has rows of zeros where b is not zero", "what stands in these rows")) return;
  layout::fill(y, T(1));
  apply_adjoint(y, s);
  if (names_cause("each of its columns adds up to zero while b does not", "the mean")) return;
  if (report_.reason == Reason::max_iterations) return;
  // Minimises ||b - A x|| by conjugate gradients on A^H A, from the present residual where that is known.
  layout::copy(stale_ ? b_ : *residual_, y);
  apply_adjoint(y, s);
  Vector<T, M> p = s, q(space_);
  double square = double(real(layout::dot(s, s)));
  const auto most = std::clamp<std::int64_t>(report_.counts.operator_applies / 2, 100, 500);
  for (std::int64_t k = 0; k < most && layout::norm(y) > least; ++k) {
    if (names_cause("b has a part that is orthogonal to its range", "that part")) return;
    A_->apply(p, q);
    const double alpha = square / double(real(layout::dot(q, q))), before = square;
    if (!std::isfinite(alpha)) return;
    layout::axpy(T(real_t<T>(-alpha)), q, y);
    apply_adjoint(y, s);
    square = double(real(layout::dot(s, s)));
    layout::scale(T(real_t<T>(square / before)), p);
    layout::axpy(T(1), s, p);
  }
}

}  // namespace
}  // namespace tacit::krylov
