// Reconstruction: CGLS and SIRT for many slices at once, each slice with its own scalars and its own stopping.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/operator.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tacit::app::tomography {

enum class Method {
  cgls,  ///< min |b - A x| by conjugate gradients from x0: Hestenes and Stiefel (1952), doi 10.6028/jres.049.044
  sirt   ///< x := x + w C A^T R (b - A x), R and C the inverse sums of rows and columns; Gilbert (1972),
         ///< doi 10.1016/0022-5193(72)90180-4
};

/// Why the iteration of a slice ended.
enum class End {
  iterations,   ///< the limit of iterations was reached
  discrepancy,  ///< |b - A x|, recomputed, is at most ReconstructOptions::discrepancy
  gradient,     ///< the gradient's norm is below the tolerance (or 0): a least-squares solution
  corner,       ///< the corner of the L-curve was passed; x is the iterate at the corner
  non_finite,   ///< a norm is not finite
  callback      ///< the callback returned true
};

struct State {
  int iteration = 0;
  const std::vector<double>* residual = nullptr;  ///< |b - A x| of each slice
  double seconds = 0;
};

struct ReconstructOptions {
  Method method = Method::cgls;
  int iterations = 30;
  /// Ends a slice at |b - A x| <= discrepancy, the norm of its noise (Morozov's discrepancy principle); 0: off.
  double discrepancy = 0;
  /// Ends a slice when its gradient, |A^T r| (sirt: |A^T R r|) with r = b - A x, is at most `tolerance` times that of
  /// the initial x; 0: off.
  double tolerance = 0;
  /// Ends a slice three iterations past the point of largest curvature of (log |b - A x|, log |x|), and returns that
  /// iterate: Hansen and O'Leary (1993), doi 10.1137/0914086. One more image in memory.
  bool l_curve = false;
  /// cgls: keeps every gradient orthogonal to this number of first gradients, as in exact arithmetic all of them are.
  /// Otherwise rounding errors bring back components along the first ones (the largest singular values above all),
  /// which costs one or two iterations in float, and more with 16-bit values. 1, or 5 where products read vectors in 16
  /// bits (op::Adjustable), unless given. Memory: an image of each slice for each; no additional reductions. Ended for
  /// a slice in which these components make up half of a later gradient. Paige (1971), The computation of eigenvalues
  /// and eigenvectors of very large sparse matrices.
  std::optional<int> reorthogonalise;
  double relaxation = 1;     ///< sirt: w
  bool nonnegative = false;  ///< sirt: x := max(x, 0) in each iteration
  /// Called after every iteration, on all ranks; all slices end where it returns true on some rank. Costs a reduction.
  std::function<bool(const State&)> callback;
};

/// The methods with their options, and the descriptions of all options. check(): Error(usage) for values out of range
/// and for options that the method does not have.
std::span<const Described> methods();
std::span<const Option<ReconstructOptions>> reconstruct_options();
void check(const ReconstructOptions& options);

struct ReconstructResult {
  /// By iteration from 0, then slice: |b - A x| by the recurrence, and the gradient's norm (see tolerance).
  std::vector<std::vector<double>> residual, gradient;
  std::vector<int> iterations;  ///< of each slice
  std::vector<End> end;
  std::vector<double> final_residual;  ///< |b - A x|, recomputed
  double seconds = 0;
};

/// Reconstructs slices: the columns of b are their sinograms, those of x their images (on entry the initial guess).
/// Collective. An iteration costs one product with A and one with A^T, and three reductions (cgls) or two (sirt), one
/// of them during the product with A^T, of a number for each slice (cgls: more with reorthogonalise; l_curve: one
/// reduction more). Sums are formed in double, in one order for any number of threads. A slice has the same result
/// alone and among others, to rounding. Memory for each slice: 2 sinograms, and 2 images (sirt: 1) besides those of
/// reorthogonalise and l_curve. Of an op::Adjustable A the final residual is computed in full, and cgls takes products
/// in 16 bits once their rounding errors are below 2^-18 of the first gradient, of the slice that has decreased least;
/// sirt takes them from the beginning. Error(usage): vectors that do not fit A, options out of range; Error(usage) also
/// for A.fault(). M = Device: the same iteration with all vectors in device memory; the host waits for each sum, and
/// numbers by column are all that is copied.
template <class T, Memory M>
ReconstructResult reconstruct(const op::Operator<T, M>& A, const layout::Vector<T, M>& b, layout::Vector<T, M>& x,
                              const ReconstructOptions& options = {});

}  // namespace tacit::app::tomography

namespace tacit {
template <>
inline constexpr auto names_of<app::tomography::Method> = named<app::tomography::Method>(
    "method", {{app::tomography::Method::cgls, "cgls"}, {app::tomography::Method::sirt, "sirt"}});
template <>
inline constexpr auto names_of<app::tomography::End> =
    named<app::tomography::End>("end", {{app::tomography::End::iterations, "iterations"},
                                        {app::tomography::End::discrepancy, "discrepancy"},
                                        {app::tomography::End::gradient, "gradient"},
                                        {app::tomography::End::corner, "corner"},
                                        {app::tomography::End::non_finite, "non_finite"},
                                        {app::tomography::End::callback, "callback"}});
}  // namespace tacit
