// least_squares: x with the least ||b - A x||^2 + damp^2 ||x||^2, A of any shape and rank.
//
//   Vector<double> x(A.domain());
//   const auto report = krylov::least_squares(A, b, x, {.method = LeastSquaresMethod::lsmr, .damp = 0.1});
//
// A needs its product and that with A^H, nothing else. Rows and columns may be spread over ranks in any way.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace tacit::krylov {

enum class LeastSquaresMethod {
  lsmr,          ///< the least ||A^H r|| over the Krylov space: Fong and Saunders (2011), doi 10.1137/10079687X
  lsqr,          ///< the least ||r||: Paige and Saunders (1982), doi 10.1145/355984.355989
  cg,            ///< conjugate gradients on the normal equations, as in solve(), and its variants
  pipelined_cg,  ///< its reduction hidden behind the products
  ca_cg          ///< s-step: one reduction for `step` iterations
};

struct LeastSquaresOptions {
  LeastSquaresMethod method = LeastSquaresMethod::lsmr;
  /// Converged means, recomputed, with r = b - A x:
  ///   ||r|| <= btol ||b|| + atol ||A|| ||x||     A x = b has a solution, and this is one (Met::residual), or
  ///   ||A^H r|| <= atol ||A|| ||r||              x is a least-squares solution (Met::gradient).
  /// With damp, r and A stand for (r; -damp x) and (A; damp I). ||A|| is the largest lower bound of the 2-norm that the
  /// solve has come across. The term with ||x|| counts up to ||b|| / 100. [default_rtol()]
  std::optional<double> atol, btol;
  double damp = 0;
  /// Ends the solve (`stopped`) where the estimated condition of A exceeds this. Absent: 1 / epsilon (`stagnated`).
  std::optional<double> condition_limit;
  std::optional<int> max_iterations;  ///< pairs of products with A and A^H. [default_max_iterations()]
  std::optional<int> step;            ///< of ca_cg
  bool history = true;
  /// Called on every rank after each iteration of lsmr and lsqr, as Options::callback of solve().
  std::function<bool(const State&)> callback;
  bool callback_stops = true;
  bool check_memory = true;  ///< compare A and b with their checksums when x is judged (Reason::damaged)
};

/// The methods with the options that only some take, and the descriptions of all options. check(): Error(usage) for
/// values out of range and for options that the method does not take.
std::span<const Described> least_squares_methods();
std::span<const Option<LeastSquaresOptions>> least_squares_options();
void check(const LeastSquaresOptions& options);

/// What the recomputed numbers of x meet: neither of the two goals of LeastSquaresOptions::atol, or one of them.
enum class Met { neither, residual, gradient };
/// What ended the iteration: the x that it began with met a goal; a goal; a limit of the condition; the same at the
/// rounding errors of the scalar; the limit of iterations; anything else.
enum class Ending {
  start,
  residual,
  gradient,
  condition,
  residual_rounding,
  gradient_rounding,
  condition_rounding,
  iterations,
  other
};

/// residual_norm is ||b - A x|| / ||b||, also with damp; `history` the same of the recurrence, with (r; -damp x).
/// `precond` is the name of P.
struct LeastSquaresReport : Report {
  Met met = Met::neither;
  Ending ending = Ending::other;
  double gradient_norm = 0;  ///< ||A^H r|| / (||A|| ||r||), recomputed, with damp as above; with P of A P
  // The norms themselves, recomputed: of b - A x, of (b - A x; -damp x), of A^H (b - A x) - damp^2 x, and of x.
  double residual = 0, damped_residual = 0, gradient = 0, solution = 0;
  double matrix_norm = 0;     ///< ||A||, a lower bound of the 2-norm; with P of A P
  double frobenius_norm = 0;  ///< an estimate that grows with the iterations; with P of A P
  double condition = 0;       ///< an estimate of the condition of A, with P of A P; 0: none (normal equations)
  std::vector<double> gradient_history;  ///< the recurrence's ||A^H r_k|| / ||A^H r_0||, with P ||P^H A^H r_k|| ..
};

/// Solves from the x that is given. On return x is finite, and the report has its recomputed residual and gradient.
///
/// Where A has dependent columns the solution is not unique: from x = 0, without P, it is the shortest one.
///
/// P, a preconditioner from the right, is any linear map with an adjoint product: y with the least ||b - A P y|| is
/// looked for, and x = x_0 + P y. Where P^H A^H r vanishes and A^H r does not, P is singular, and x is not said to be
/// converged. precond::column_scaling() makes one that gives all columns of A the length 1.
///
/// Whenever the recurrence of the method meets a goal it is recomputed, and where it does not hold the method solves
/// for a correction of x (report.restarts), until it holds or gets no nearer (`stagnated`). A, b and damp are scaled by
/// powers of two where squares could overflow or underflow. b = 0 gives x = 0.
///
/// `variance`, with lsqr and without P: on return the estimate of the diagonal of (A^H A + damp^2 I)^-1, which grows
/// to that with the iterations. Paige and Saunders (1982).
///
/// Collective. An iteration of lsqr or lsmr costs one product with A and one with A^H, and two reductions, both hidden
/// behind the products (one more product a run, on several ranks); beside the products 3 vectors of traffic of the
/// range and 8 (lsqr) or 10 (lsmr) of the domain. Vectors: 2 of the range and 5 (lsqr) or 6 of the domain; with damp
/// one more of the domain, with P two, with scales one of the range. Error(usage): spaces that do not fit, options out
/// of range, an A or P without adjoint.
template <Scalar T, Memory M>
LeastSquaresReport least_squares(const op::Operator<T, M>& A, const op::Operator<T, M>* P,
                                 const layout::Vector<T, M>& b, layout::Vector<T, M>& x,
                                 const LeastSquaresOptions& options = {}, layout::Vector<T, M>* variance = nullptr);

}  // namespace tacit::krylov

namespace tacit {
template <>
inline constexpr auto names_of<krylov::LeastSquaresMethod> =
    named<krylov::LeastSquaresMethod>("method", {{krylov::LeastSquaresMethod::lsmr, "lsmr"},
                                                 {krylov::LeastSquaresMethod::lsqr, "lsqr"},
                                                 {krylov::LeastSquaresMethod::cg, "cg"},
                                                 {krylov::LeastSquaresMethod::pipelined_cg, "pipelined-cg"},
                                                 {krylov::LeastSquaresMethod::ca_cg, "ca-cg"}});
template <>
inline constexpr auto names_of<krylov::Met> = named<krylov::Met>("met", {{krylov::Met::neither, "neither"},
                                                                         {krylov::Met::residual, "residual"},
                                                                         {krylov::Met::gradient, "gradient"}});
template <>
inline constexpr auto names_of<krylov::Ending> =
    named<krylov::Ending>("ending", {{krylov::Ending::start, "start"},
                                     {krylov::Ending::residual, "residual"},
                                     {krylov::Ending::gradient, "gradient"},
                                     {krylov::Ending::condition, "condition"},
                                     {krylov::Ending::residual_rounding, "residual rounding"},
                                     {krylov::Ending::gradient_rounding, "gradient rounding"},
                                     {krylov::Ending::condition_rounding, "condition rounding"},
                                     {krylov::Ending::iterations, "iterations"},
                                     {krylov::Ending::other, "other"}});
}  // namespace tacit
