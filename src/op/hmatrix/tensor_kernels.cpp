#include "tensor_kernels.hpp"

#include "radial.hpp"

#include <cmath>
#include <numbers>

namespace tacit::op::detail {
namespace {

constexpr std::size_t dimension = 3;

// G_ab = same(r^2) delta_ab + along(r^2) r_a r_b, r = x - y. Both parts of a value of r^2.
template <class R>
struct Parts {
  R same, along;
};

// Kelvin's solution of linear elasticity, regularised by s^2 = r^2 + epsilon^2 (de Goes and James 2017, doi
// 10.1145/3072959.3073595), in units of 1 / (16 pi (1 - nu) G):
//   (3 - 4 nu) / s delta + r r^T / s^3 + 2 (1 - nu) epsilon^2 / s^3 delta
// With nu = 1/2 and G the viscosity, it is the Stokeslet of Cortez 2001, doi 10.1137/S106482750038146X, Cortez, Fauci
// and Medovikov 2005.
struct Kelvin {
  double unit, first, second, epsilon2;
  template <class R>
  Parts<R> operator()(R r2) const {
    const R s2 = r2 + R(epsilon2), inverse = s2 > 0 ? 1 / std::sqrt(s2) : R(0), cube = inverse * inverse * inverse;
    return {R(unit) * (R(first) * inverse + R(second) * cube), R(unit) * cube};
  }
};

// Rotne and Prager 1969, doi 10.1063/1.1670977: mobilities of spheres of radius a, in units of 1 / (8 pi viscosity).
struct Spheres {
  double unit, a;
  template <class R>
  Parts<R> operator()(R r2) const {
    const R r = std::sqrt(r2), inverse = r2 > 0 ? 1 / r : R(0), square = R(a) * R(a) * inverse * inverse;
    const R apart_same = inverse * (1 + R(2.0 / 3) * square),
            apart_along = inverse * inverse * inverse * (1 - 2 * square);
    const R self = R(4.0 / 3) / R(a), over = R(1.0 / 32) / R(a);
    const bool apart = r > 2 * R(a);
    return {R(unit) * (apart ? apart_same : self * (1 - 9 * over * r)),
            R(unit) * (apart ? apart_along : self * 3 * over * inverse)};
  }
};

template <class F>
struct TensorPairs {
  F f;
  bool extreme;

  static bool is_complex() { return false; }
  void meet(Placed points, std::span<const Global> list, std::span<const double> y, Global other, bool, double* re,
            double*) const {
    // Of points in the order of their components: the difference in a point's own component, and in that of `other`.
    double r2[most_points], own[most_points], same[most_points];
    const std::size_t count = list.size();
    squared_distances(points, y, count, r2);
    const auto b = std::size_t(other) % dimension;
    const double *const along = points.x + b * points.distance, at = y[b];
    for (std::size_t i = 0; i < count; ++i) {
      const auto a = std::size_t(list[i]) % dimension;
      own[i] = points.x[a * points.distance + i] - y[a];
      same[i] = a == b ? 1 : 0;
    }
    const F g = f;
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      const Parts<double> p = g(r2[i]);
      re[i] = p.same * same[i] + p.along * (own[i] * (along[i] - at));  // symmetric to the bit
    }
    if (!extreme) return;
    for (std::size_t i = 0; i < count; ++i) {
      if (r2[i] >= least_square && r2[i] <= most_square) continue;
      const auto p = f(long_square(points, y, i));
      const auto a = std::size_t(list[i]) % dimension;
      const auto d = [&](std::size_t k) { return static_cast<long double>(points.x[k * points.distance + i]) - y[k]; };
      re[i] = double(p.same * same[i] + p.along * (d(a) * d(b)));
    }
  }
};

// Three indices of one point each.
void check_components(const ClusterTree& tree) {
  require(tree.dimension() == int(dimension), "a kernel of three components for points of ", tree.dimension(),
          " coordinates");
  require(tree.size() % Local(dimension) == 0, "a kernel of three components for ", tree.size(), " indices");
  for (Global i = 0; i < tree.size(); ++i)
    require(std::ranges::equal(tree.point(i), tree.point(i - i % Global(dimension))), "index ", i,
            " is not at the point of the other components");
}

}  // namespace

template <Scalar T>
EntryFunction<T> tensor_entries(const PointKernel& k, Sides sides) {
  require(k.derivative == KernelDerivative::none, "a derivative of the kernel ", to_string(k.kernel));
  check_components(*sides.rows), check_components(*sides.columns);
  const bool extreme = sides.is_extreme();
  if (k.kernel == KernelName::rpy)
    return entries_by<T>(TensorPairs<Spheres>{{k.variance / (8 * std::numbers::pi), k.radius}, extreme},
                         std::move(sides));
  const double nu = k.kernel == KernelName::kelvin ? k.poisson : 0.5, e2 = k.epsilon * k.epsilon;
  const Kelvin f{k.variance / (16 * std::numbers::pi * (1 - nu)), 3 - 4 * nu, 2 * (1 - nu) * e2, e2};
  return entries_by<T>(TensorPairs<Kelvin>{f, extreme}, std::move(sides));
}

#define TACIT_INSTANTIATE(T) template EntryFunction<T> tensor_entries(const PointKernel&, Sides);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op::detail
