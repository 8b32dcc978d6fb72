// Options of a solve. Unknown names are refused, with the nearest known one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::krylov {

enum class Method { automatic, cg, bicgstab, gmres, richardson, chebyshev };
enum class Side { right, left, flexible };
/// How GMRES makes its basis orthogonal; all-reduces per vector, passes over the basis per vector.
enum class Orthogonalisation {
  one_reduction,  ///< classical Gram-Schmidt, norm by Pythagoras; 1, 2 (a second round, 1 and 2 more, on cancellation)
  cgs,            ///< classical Gram-Schmidt, norm by itself; 2, 2
  cgs2,           ///< twice; 3, 4
  mgs             ///< modified Gram-Schmidt; j + 1 for vector j, 2
};
Method method_of(std::string_view name);
Side side_of(std::string_view name);
Orthogonalisation orthogonalisation_of(std::string_view name);
const char* to_string(Method method);
const char* to_string(Side side);
const char* to_string(Orthogonalisation orthogonalisation);
std::vector<std::string> method_names();

/// The state that a callback sees after each iteration.
struct State {
  int iteration;
  double residual_norm;  ///< the recurrence's ||r_k|| / ||b||
  /// This rank's part of x_k in host memory, as `count` scalars of the solve's type; collective.
  std::function<void(void* x)> solution;
};

struct Options {
  Method method = Method::automatic;
  double rtol = 1e-8;  ///< relative to ||b||
  double atol = 0;
  /// Products with A in cg, gmres, richardson, chebyshev; pairs of them in bicgstab. Default: 10 n, at least 1000, at
  /// most 50000.
  std::optional<int> max_iterations;
  int restart = 30;         ///< vectors in a cycle of gmres
  Side side = Side::right;  ///< of the preconditioner in gmres
  Orthogonalisation orthogonalisation = Orthogonalisation::one_reduction;
  double relaxation = 1;  ///< omega of richardson: x += omega M (b - A x)
  /// Bounds of the spectrum of M A for chebyshev; estimated by a few steps of Lanczos when absent.
  std::optional<double> lambda_min, lambda_max;
  double divergence = 1e10;  ///< `diverged` when ||r|| exceeds this multiple of max(||b||, ||r_0||)
  /// What may be done where the method gets no further: scale by the diagonal when P is none and the diagonal varies
  /// (not for richardson), another shadow residual in bicgstab, longer cycles in gmres (up to 4 restart vectors). Each
  /// is told in report.warnings. False: the method as it stands, and its honest failure.
  bool fallbacks = true;
  bool history = true;
  /// Returns true to stop. Called on every rank after each iteration; may throw (all ranks then throw the same Error).
  std::function<bool(const State&)> callback;
};

}  // namespace tacit::krylov
