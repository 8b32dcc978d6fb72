// Reconstruction: CGLS and SIRT for many slices at once, every slice with its own scalars and its own end.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/operator.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tacit::app::tomography {

enum class Method {
  cgls,  ///< min |b - A x| by conjugate gradients from x0: Hestenes and Stiefel (1952), doi 10.6028/jres.049.044
  sirt   ///< x := x + w C A^T R (b - A x), R and C the inverse sums of rows and columns; Gilbert (1972),
         ///< doi 10.1016/0022-5193(72)90180-4
};

/// Why a slice was ended.
enum class End {
  iterations,   ///< as many as were wished for
  discrepancy,  ///< |b - A x|, recomputed, is at the level of the noise
  gradient,     ///< |A^T (b - A x)| fell far enough: a least-squares solution
  corner,       ///< the corner of the L-curve was passed; x is the one there
  non_finite,   ///< numbers overflowed; x is the last one before
  callback      ///< the callback asked for it
};

struct State {
  int iteration = 0;
  const std::vector<double>* residual = nullptr;  ///< |b - A x| of each slice
  double seconds = 0;
};

struct ReconstructOptions {
  Method method = Method::cgls;
  int iterations = 30;
  /// Ends a slice at |b - A x| <= discrepancy (its noise's norm: Morozov); 0: not.
  double discrepancy = 0;
  /// Ends a slice at |A^T r| <= tolerance |A^T b|; 0: not.
  double tolerance = 0;
  /// Ends a slice three iterations past the point of largest curvature of (log |b - A x|, log |x|), and returns that
  /// iterate: Hansen and O'Leary (1993), doi 10.1137/0914086. One more image in memory.
  bool l_curve = false;
  /// cgls: keeps every gradient orthogonal to the first so many, as they all are in exact arithmetic. What rounding
  /// brings back of them (the largest singular values, above all) costs iterations: one or two in floats, more in 16
  /// bits. An image more in memory for each, no more sums over ranks; given up for a slice where they make up half of a
  /// later gradient. Paige (1971), The computation of eigenvalues and eigenvectors of very large sparse
  /// matrices.
  int reorthogonalise = 1;
  double relaxation = 1;     ///< w of sirt
  bool nonnegative = false;  ///< sirt: x := max(x, 0) in each iteration
  /// Called after every iteration, the same on all ranks; true: end.
  std::function<bool(const State&)> callback;
};

/// The methods and the options, described; Error(usage) at an option that does not fit the method.
std::span<const Described> methods();
std::span<const Option<ReconstructOptions>> reconstruct_options();
void check(const ReconstructOptions& options);

struct ReconstructResult {
  /// By iteration from 0, then slice: |b - A x| by the recurrence, |A^T (b - A x)|.
  std::vector<std::vector<double>> residual, gradient;
  std::vector<int> iterations;  ///< of each slice
  std::vector<End> end;
  std::vector<double> final_residual;  ///< |b - A x|, recomputed
  double seconds = 0;
};

/// Slices are the columns of b (sinograms) and x (images: the start on entry, zero for none). Collective. One product
/// with A and one with A^T an iteration, and two sums over ranks (cgls) or one (sirt), of a number a slice each. Sums
/// are formed in double, in one order for any number of threads. Slices together are the slices alone to rounding.
/// Needs two more images and two more sinograms a slice. Error(usage) on vectors that do not fit A or options out of
/// range.
template <class T>
ReconstructResult reconstruct(const op::Operator<T, Host>& A, const layout::Vector<T>& b, layout::Vector<T>& x,
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
