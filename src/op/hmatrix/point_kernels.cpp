#include <tacit/base/error.hpp>
#include <tacit/op/hmatrix/point_kernels.hpp>

#include "radial.hpp"
#include "tensor_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <utility>
#include <vector>

namespace tacit::op {
namespace {

using namespace detail;

// Entries of a function of the distance.
struct RadialPairs {
  std::shared_ptr<const Radial> f;
  std::size_t axis;
  bool extreme;  // distances of any size

  bool is_complex() const { return f->is_complex(); }
  void meet(Placed points, std::span<const Global> list, std::span<const double> y, Global, bool by_rows, double* re,
            double* im) const {
    double r2[most_points], d[most_points];
    const double* along = nullptr;
    const std::size_t count = list.size();
    squared_distances(points, y, count, r2);
    const double* const x = points.x + axis * points.distance;
    const double sign = by_rows ? 1 : -1;
    if (f->is_directed()) {
      const double at = y[axis];
#pragma omp simd
      for (std::size_t i = 0; i < count; ++i) d[i] = sign * (x[i] - at);
      along = d;
    }
    f->evaluate(r2, along, count, re, im);
    if (!extreme) return;
    for (std::size_t i = 0; i < count; ++i) {
      if (r2[i] >= least_square && r2[i] <= most_square) continue;
      const auto exact = f->value(long_square(points, y, i), sign * (static_cast<long double>(x[i]) - y[axis]));
      re[i] = exact.real();
      if (f->is_complex()) im[i] = exact.imag();
    }
  }
};

template <Scalar T>
EntryFunction<T> radial_entries(const PointKernel& k, Sides sides) {
  const int d = sides.rows->dimension();
  const bool along = k.derivative != KernelDerivative::none;
  require(along || k.axis < 0, "axis = ", k.axis, " without a derivative");
  require(k.axis < d && (k.axis >= 0 || k.derivative != KernelDerivative::target), "a derivative along axis ", k.axis,
          " of points of ", d, " coordinates");
  auto f = radial_of(k);
  require(is_complex<T> || !f->is_complex(), "the kernel ", to_string(k.kernel), " is complex, and the matrix is of ",
          scalar_name<T>());
  if (k.kernel == KernelName::helmholtz) {
    const double most = std::abs(k.kappa) * sides.reach();
    require(most <= 1e6, "helmholtz with kappa = ", k.kappa, ": waves of ", most,
            " radians across the points; up to 1e6 are possible");
  }
  if (along) sides.nugget = 0;  // which does not depend on points or lengths
  const bool extreme = sides.is_extreme();
  return entries_by<T>(RadialPairs{std::move(f), std::size_t(std::max(k.axis, 0)), extreme}, std::move(sides));
}

}  // namespace

std::span<const Option<PointKernel>> point_kernel_options() {
  using O = PointKernel;
  static const std::vector<Option<O>> all{
      option<O>(
          "kernel", &O::kernel,
          "k(r), r the distance over the length scale: laplace 1/(4 pi r), helmholtz exp(i kappa r)/(4 pi r), "
          "yukawa exp(-kappa r)/(4 pi r), 0 at r = 0; gaussian exp(-r^2/2); matern12, matern32, matern52, and "
          "matern for any nu; inverse_multiquadric 1/sqrt(1 + r^2); thin_plate r^2 log r; of three components, at "
          "points of three coordinates: stokeslet, kelvin, rpy"),
      option<O>("variance", &O::variance, any_but_zero(), "factor of the kernel"),
      option<O>("nugget", &O::nugget, not_negative(), "added on the diagonal"),
      option<O>("kappa", &O::kappa, not_negative(), "wave number, or decay").needing("kernel=helmholtz,yukawa"),
      option<O>("nu", &O::nu, between(0.05, 30, "(smoothness)"), "of K_nu").needing("kernel=matern"),
      option<O>("epsilon", &O::epsilon, not_negative(), "regularises: s^2 = r^2 + epsilon^2 in place of r^2")
          .needing("kernel=stokeslet,kelvin"),
      option<O>("poisson", &O::poisson, between(-1, 0.5, "(Poisson's ratio)"), "Poisson's ratio")
          .needing("kernel=kelvin"),
      option<O>("radius", &O::radius, positive(), "of the spheres").needing("kernel=rpy"),
  };
  return all;
}

template <Scalar T>
EntryFunction<T> kernel_entries(const PointKernel& k, std::shared_ptr<const ClusterTree> rows,
                                std::shared_ptr<const ClusterTree> columns) {
  check_values(point_kernel_options(), k);
  Sides sides = sides_of(std::move(rows), std::move(columns), k.nugget);
  if (components_of(k.kernel) > 1) return tensor_entries<T>(k, std::move(sides));
  return radial_entries<T>(k, std::move(sides));
}

template <Scalar T>
EntryFunction<T> kernel_entries(BlockOfPoints function, void* data, double nugget,
                                std::shared_ptr<const ClusterTree> rows, std::shared_ptr<const ClusterTree> columns) {
  require(function != nullptr, "kernel entries without a function");
  return [=, sides = sides_of(std::move(rows), std::move(columns), nugget)](std::span<const Global> i,
                                                                            std::span<const Global> j, T* out) {
    thread_local std::vector<double> x, y, values;
    constexpr std::size_t parts = is_complex<T> ? 2 : 1;
    const auto gather = [](const ClusterTree& all, std::span<const Global> at, std::vector<double>& into) {
      into.clear();
      for (const Global k : at) into.insert(into.end(), all.point(k).begin(), all.point(k).end());
    };
    gather(*sides.rows, i, x), gather(*sides.columns, j, y);
    values.resize(i.size() * j.size() * parts);
    function(long(i.size()), x.data(), long(j.size()), y.data(), values.data(), data);
    for (std::size_t c = 0; c < j.size(); ++c)
      for (std::size_t r = 0; r < i.size(); ++r) {
        const double* const v = values.data() + (r * j.size() + c) * parts;
        if constexpr (is_complex<T>) out[r + c * i.size()] = T(real_t<T>(v[0]), real_t<T>(v[1]));
        else out[r + c * i.size()] = T(v[0]);
      }
    sides.add_nugget(i, j, out);
  };
}

template <Scalar T>
EntryFunction<T> kernel_entries(PairOfPoints function, void* data, double nugget,
                                std::shared_ptr<const ClusterTree> rows, std::shared_ptr<const ClusterTree> columns) {
  require(function != nullptr, "kernel entries without a function");
  require(!is_complex<T>, "a function of pairs of points gives real entries, and the matrix is of ", scalar_name<T>());
  return [=, sides = sides_of(std::move(rows), std::move(columns), nugget)](std::span<const Global> i,
                                                                            std::span<const Global> j, T* out) {
    thread_local std::vector<double> both;
    const auto d = std::ptrdiff_t(sides.rows->dimension());
    both.resize(2 * std::size_t(d));
    for (std::size_t c = 0; c < j.size(); ++c)
      for (std::size_t r = 0; r < i.size(); ++r) {
        // For each pair anew, as the function may write there.
        std::ranges::copy(sides.rows->point(i[r]), both.begin());
        std::ranges::copy(sides.columns->point(j[c]), both.begin() + d);
        out[r + c * i.size()] = T(real_t<T>(function(int(2 * d), both.data(), data)));
      }
    sides.add_nugget(i, j, out);
  };
}

#define TACIT_INSTANTIATE(T)                                                                                 \
  template EntryFunction<T> kernel_entries(const PointKernel&, std::shared_ptr<const ClusterTree>,           \
                                           std::shared_ptr<const ClusterTree>);                              \
  template EntryFunction<T> kernel_entries(BlockOfPoints, void*, double, std::shared_ptr<const ClusterTree>, \
                                           std::shared_ptr<const ClusterTree>);                              \
  template EntryFunction<T> kernel_entries(PairOfPoints, void*, double, std::shared_ptr<const ClusterTree>,  \
                                           std::shared_ptr<const ClusterTree>);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
