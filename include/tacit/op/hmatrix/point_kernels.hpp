// Point kernels: entries k(|x - y|) between points of any dimension, by name or by a compiled function.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/base/names.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <memory>
#include <span>

namespace tacit::op {

/// k(r), r the distance of two points in units of the length scale. What is singular at r = 0 is 0 there. The last
/// three are 3 x 3 matrices of r = x - y, with s^2 = |r|^2 + epsilon^2.
enum class KernelName {
  laplace,               ///< 1 / (4 pi r)
  helmholtz,             ///< exp(i kappa r) / (4 pi r)
  yukawa,                ///< exp(-kappa r) / (4 pi r)
  gaussian,              ///< exp(-r^2 / 2)
  matern12,              ///< exp(-r)
  matern32,              ///< (1 + a) exp(-a), a = sqrt(3) r
  matern52,              ///< (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r
  matern,                ///< 2^(1 - nu) / Gamma(nu) a^nu K_nu(a), a = sqrt(2 nu) r
  inverse_multiquadric,  ///< 1 / sqrt(1 + r^2)
  thin_plate,            ///< r^2 log r
  stokeslet,             ///< ((1 / s + epsilon^2 / s^3) I + r r^T / s^3) / (8 pi)
  kelvin,  ///< ((3 - 4 nu) / s I + 2 (1 - nu) epsilon^2 / s^3 I + r r^T / s^3) / (16 pi (1 - nu)), nu = poisson
  rpy      ///< Rotne and Prager's mobility of spheres of a radius a: apart by more than 2 a,
           ///< ((1 + 2 a^2 / 3 r^2) I + (1 - 2 a^2 / r^2) r r^T / r^2) / (8 pi r)
};
/// The numbers of a point: 3 for the last three, whose trees have the indices 3 p to 3 p + 2 at point p; else 1.
constexpr int components_of(KernelName kernel) {
  return kernel >= KernelName::stokeslet ? 3 : 1;
}

/// What of a kernel the entries are.
enum class KernelDerivative {
  none,    ///< its values
  target,  ///< d / d x_a, x the point of the row, a = axis
  length   ///< d / d length; of one length for each coordinate, that of the coordinate `axis`
};

struct PointKernel {
  KernelName kernel = KernelName::gaussian;
  double variance = 1;  ///< factor of k
  double nugget = 0;    ///< added on the diagonal
  double kappa = 1;
  double nu = 1.5;
  double epsilon = 0;    ///< regularises stokeslet and kelvin; their values at r = 0 are 0 without it
  double poisson = 0.3;  ///< Poisson's ratio
  double radius = 1;     ///< of the spheres of rpy
  KernelDerivative derivative = KernelDerivative::none;
  int axis = -1;  ///< of the derivative; -1 with KernelDerivative::length: one length for all coordinates
};
/// The table of these, for Python and documents.
std::span<const Option<PointKernel>> point_kernel_options();

/// variance k(r) + nugget on the diagonal, or variance times a derivative of k, in units of the length scale (divide by
/// it), for the points of `rows` and of `columns` (null: those of `rows`; with
/// others there is no diagonal), which are divided by the length scale already. May be called from several threads at
/// once. An entry costs d multiplications and 1 to 3 ns; lists that are parts of order() of their tree are read without
/// being gathered. General Matern kernels have a table, made once. Distances whose squares leave
/// the range of double are computed with more digits, one by one. Error(usage): helmholtz with a real T or with more
/// than 10^6 radians across the points; a nugget with `columns`; points of different dimensions; a derivative that the
/// kernel does not have; a kernel of three components with points that are not repeated three times.
template <Scalar T>
EntryFunction<T> kernel_entries(const PointKernel& kernel, std::shared_ptr<const ClusterTree> rows,
                                std::shared_ptr<const ClusterTree> columns = nullptr);

/// Entries of m points x (m x d, by rows) and n points y: out (m x n, by rows). Numbers of complex matrices are two
/// doubles each.
using BlockOfPoints = void (*)(long m, const double* x, long n, const double* y, double* out, void* data);
/// An entry for each pair: xy has the d coordinates of x, followed by those of y. count = 2 d.
using PairOfPoints = double (*)(int count, double* xy, void* data);

/// Entries by a compiled function, which is called from several threads at once, plus the nugget on the diagonal.
/// Error(usage): as kernel_entries(); PairOfPoints with a complex T.
template <Scalar T>
EntryFunction<T> kernel_entries(BlockOfPoints function, void* data, double nugget,
                                std::shared_ptr<const ClusterTree> rows,
                                std::shared_ptr<const ClusterTree> columns = nullptr);
template <Scalar T>
EntryFunction<T> kernel_entries(PairOfPoints function, void* data, double nugget,
                                std::shared_ptr<const ClusterTree> rows,
                                std::shared_ptr<const ClusterTree> columns = nullptr);

}  // namespace tacit::op

template <>
inline constexpr auto tacit::names_of<tacit::op::KernelName> = tacit::named<tacit::op::KernelName>(
    "kernel", {{tacit::op::KernelName::laplace, "laplace"},
               {tacit::op::KernelName::helmholtz, "helmholtz"},
               {tacit::op::KernelName::yukawa, "yukawa"},
               {tacit::op::KernelName::gaussian, "gaussian"},
               {tacit::op::KernelName::matern12, "matern12"},
               {tacit::op::KernelName::matern32, "matern32"},
               {tacit::op::KernelName::matern52, "matern52"},
               {tacit::op::KernelName::matern, "matern"},
               {tacit::op::KernelName::inverse_multiquadric, "inverse_multiquadric"},
               {tacit::op::KernelName::thin_plate, "thin_plate"},
               {tacit::op::KernelName::stokeslet, "stokeslet"},
               {tacit::op::KernelName::kelvin, "kelvin"},
               {tacit::op::KernelName::rpy, "rpy"}});

template <>
inline constexpr auto tacit::names_of<tacit::op::KernelDerivative> =
    tacit::named<tacit::op::KernelDerivative>("derivative", {{tacit::op::KernelDerivative::none, "none"},
                                                             {tacit::op::KernelDerivative::target, "target"},
                                                             {tacit::op::KernelDerivative::length, "length"}});
