// The units of a solve: A and b are scaled by powers of two, exactly, and x is scaled back. Part of solve_impl.hpp.
#pragma once

namespace tacit::krylov {
namespace {

// From here on: A' = A / 2^a, P' = P 2^a, b' = b / 2^e, x' = x 2^(a - e). All exact.
template <Scalar T, Memory M>
void Solve<T, M>::balance_scales(double b_norm) {
  if (!std::isfinite(b_norm)) {  // finite elements, but their norm overflows
    b_exponent_ = std::numeric_limits<double>::max_exponent / 2;
    scale_by_power(b_, -b_exponent_);
    b_norm = length(b_);
  }
  const int e = balance<T>(b_norm);
  if (e) scale_by_power(b_, -e);
  b_norm_ = e ? length(b_) : b_norm;  // the norm of a subnormal b has few digits
  b_exponent_ += e;
  double size = A_->largest();
  if (size == 0) {  // unknown: estimated from A b
    Vector<T, M> y(space_);
    A_->apply(b_, y);
    size = length(y) / b_norm_;
  }
  a_exponent_ = balance<T>(size);
  // Where A is tiny 2^-a would overflow.
  constexpr int limit = std::numeric_limits<real_t<T>>::max_exponent - 1;
  a_exponent_ = std::clamp(a_exponent_, -limit, limit);
  A_size_ = std::ldexp(size, -a_exponent_);
  if (a_exponent_ || negated_) scale_operators();
  if (a_exponent_ != b_exponent_) scale_by_power(x_, a_exponent_ - b_exponent_);
  const double rtol = options_.rtol.value_or(default_rtol<T>());
  goal_ = std::max(rtol * b_norm_, std::ldexp(options_.atol, -b_exponent_));
  if (const double known = given_A_->accuracy(); known > rtol) {
    std::ostringstream text;
    text << "rtol is " << std::setprecision(2) << rtol << ", and the " << given_A_->name() << " operator is good to "
         << known << ": digits of the solution beyond that are those of the approximation";
    report_.warnings.push_back(text.str());
  }
}

template <Scalar T, Memory M>
void Solve<T, M>::undo_scales() {
  const int e = b_exponent_ - a_exponent_;
  if (e == 0) return;
  Vector<T, M> exact = x_;
  scale_by_power(x_, e);
  if (report_.reason == Reason::damaged) return;  // its residual is not to be recomputed
  if (first_non_finite(x_) >= 0) {
    layout::fill(x_, T(0));
    report_.reason = Reason::non_finite;
    report_.detail = "the solution is too large for its scalar type";
    report_.advice = "Scale the right-hand side down.";
    report_.residual_norm = 1;
    return;
  }
  // Elements that become subnormal lose digits, and smaller ones vanish: the rounded x has another residual.
  Vector<T, M> rounded = x_;
  scale_by_power(rounded, -e);
  layout::subtract(rounded, exact, exact);
  if (layout::norm(exact) == 0) return;
  std::swap(x_, rounded);
  const double norm = true_residual(x_, exact);
  std::swap(x_, rounded);
  report_.residual_norm = norm / b_norm_;
  if (report_.converged() && !reached(norm, goal_)) {
    report_.reason = Reason::stagnated;
    report_.detail = message("the solution is too small for its scalar type: what is left of it has a residual of ",
                             report_.residual_norm, " of ||b||");
    report_.advice = "Scale the right-hand side up.";
  }
}

}  // namespace
}  // namespace tacit::krylov
