#include <tacit/base/error.hpp>
#include <tacit/op/hmatrix/point_kernels.hpp>

#include "elementary.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <utility>
#include <vector>

namespace tacit::op {
namespace {

using namespace detail;

constexpr double quarter_over_pi = 0.25 * std::numbers::inv_pi;

// Functions of the squared distance.
struct Laplace {
  double operator()(double r2) const { return r2 > 0 ? quarter_over_pi / std::sqrt(r2) : 0.0; }
};
struct Yukawa {
  double kappa;
  double operator()(double r2) const {
    const double r = std::sqrt(r2), size = r2 > 0 ? quarter_over_pi / r : 0.0;
    return size * exp_of_negative(-kappa * r);
  }
};
struct Helmholtz {
  double kappa;
  SineCosine operator()(double r2) const {
    const double r = std::sqrt(r2), size = r2 > 0 ? quarter_over_pi / r : 0.0;
    const SineCosine wave = sine_cosine(kappa * r);
    return {size * wave.sine, size * wave.cosine};
  }
};
struct Gaussian {
  double operator()(double r2) const { return exp_of_negative(-0.5 * r2); }
};
struct Matern12 {
  double operator()(double r2) const { return exp_of_negative(-std::sqrt(r2)); }
};
struct Matern32 {
  double operator()(double r2) const {
    const double a = std::sqrt(3 * r2);
    return (1 + a) * exp_of_negative(-a);
  }
};
struct Matern52 {
  double operator()(double r2) const {
    const double a2 = 5 * r2, a = std::sqrt(a2);
    return (1 + a + a2 * (1.0 / 3)) * exp_of_negative(-a);
  }
};
struct Matern {
  std::shared_ptr<const MaternTable> table;
  double squared;  // 2 nu
  double operator()(double r2) const { return (*table)(std::sqrt(squared * r2)); }
};
struct InverseMultiquadric {
  double operator()(double r2) const { return 1 / std::sqrt(1 + r2); }
};
struct ThinPlate {
  double operator()(double r2) const { return r2 >= std::numeric_limits<double>::min() ? 0.5 * r2 * log_of(r2) : 0.0; }
};

constexpr std::size_t most = 256;  // points at a time

// The points of a tree by coordinates, in its order.
class Ordered {
 public:
  explicit Ordered(std::shared_ptr<const ClusterTree> tree) : tree_(std::move(tree)) {
    const std::size_t n = std::size_t(tree_->size()), d = std::size_t(tree_->dimension());
    x_.resize(n * d);
    for (std::size_t p = 0; p < n; ++p) {
      const auto point = tree_->point(tree_->order()[p]);
      for (std::size_t k = 0; k < d; ++k) x_[k * n + p] = point[k];
    }
  }
  const ClusterTree& tree() const { return *tree_; }
  std::size_t dimension() const { return std::size_t(tree_->dimension()); }
  // The first coordinates of a list that is a part of the tree's order; null for another one.
  const double* find(std::span<const Global> list) const {
    const auto all = tree_->order();
    const std::less<const Global*> before;
    const bool inside = !before(list.data(), all.data()) && !before(all.data() + all.size(), list.data() + list.size());
    return inside ? x_.data() + (list.data() - all.data()) : nullptr;
  }

 private:
  std::shared_ptr<const ClusterTree> tree_;
  std::vector<double> x_;
};

// The squared distances from y to `count` points, coordinate k of which begins at x + k distance.
void squares(const double* x, std::size_t distance, std::span<const double> y, std::size_t count, double* r2) {
  if (y.size() == 3) {
    const double *const x1 = x + distance, *const x2 = x1 + distance;
    const double y0 = y[0], y1 = y[1], y2 = y[2];
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i)
      r2[i] = (x[i] - y0) * (x[i] - y0) + (x1[i] - y1) * (x1[i] - y1) + (x2[i] - y2) * (x2[i] - y2);
    return;
  }
  std::fill_n(r2, count, 0.0);
  for (std::size_t k = 0; k < y.size(); ++k, x += distance) {
    const double at = y[k];
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) r2[i] += (x[i] - at) * (x[i] - at);
  }
}

// variance f(r2)
template <Scalar T, class F>
void evaluate(const F& f, double variance, const double* r2, std::size_t count, T* out, std::ptrdiff_t stride) {
  if constexpr (std::is_same_v<F, Helmholtz>) {
    double re[most], im[most];
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      const SineCosine v = f(r2[i]);
      re[i] = variance * v.cosine, im[i] = variance * v.sine;
    }
    for (std::size_t i = 0; i < count; ++i) out[std::ptrdiff_t(i) * stride] = T(real_t<T>(re[i]), real_t<T>(im[i]));
  } else if (!is_complex<T> && stride == 1) {
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) out[i] = T(real_t<T>(variance * f(r2[i])));
  } else {
    double value[most];
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) value[i] = variance * f(r2[i]);
    for (std::size_t i = 0; i < count; ++i) out[std::ptrdiff_t(i) * stride] = T(real_t<T>(value[i]));
  }
}

// The points of rows and of columns, and what is added where they are one.
struct Sides {
  std::shared_ptr<const ClusterTree> rows, columns;
  double nugget;

  template <Scalar T>
  void add_nugget(std::span<const Global> i, std::span<const Global> j, T* out) const {
    if (nugget == 0) return;
    for (std::size_t c = 0; c < j.size(); ++c)
      for (std::size_t r = 0; r < i.size(); ++r)
        if (i[r] == j[c]) out[r + c * i.size()] += real_t<T>(nugget);
  }
};

Sides sides_of(std::shared_ptr<const ClusterTree> rows, std::shared_ptr<const ClusterTree> columns, double nugget) {
  require(rows != nullptr, "kernel entries without points");
  require(!columns || columns->dimension() == rows->dimension(), "rows are points of ", rows->dimension(),
          " coordinates, columns of ", columns ? columns->dimension() : 0);
  require(nugget == 0 || !columns, "a nugget, which is added on the diagonal, with other points as columns");
  if (!columns) columns = rows;
  return {std::move(rows), std::move(columns), nugget};
}

// Where points lie, coordinate by coordinate: in the tree's order, or gathered.
struct Placed {
  const double* x;
  std::size_t distance;
};
Placed placed(const Ordered& side, std::span<const Global> list, std::vector<double>& room) {
  if (const double* const found = side.find(list)) return {found, std::size_t(side.tree().size())};
  room.resize(side.dimension() * most);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto point = side.tree().point(list[i]);
    for (std::size_t k = 0; k < point.size(); ++k) room[k * most + i] = point[k];
  }
  return {room.data(), most};
}

template <Scalar T, class F>
EntryFunction<T> entries_by(F f, double variance, Sides sides) {
  const auto rows = std::make_shared<const Ordered>(sides.rows);
  const auto columns = sides.columns == sides.rows ? rows : std::make_shared<const Ordered>(sides.columns);
  return [=, f = std::move(f), sides = std::move(sides)](std::span<const Global> i, std::span<const Global> j, T* out) {
    // Each point of the shorter list meets the longer one, some points at a time.
    const bool by_rows = i.size() >= j.size();
    const auto longer = by_rows ? i : j, shorter = by_rows ? j : i;
    const Ordered& side = by_rows ? *rows : *columns;
    const ClusterTree& other = by_rows ? columns->tree() : rows->tree();
    const auto m = std::ptrdiff_t(i.size()), along = by_rows ? 1 : m, across = by_rows ? m : 1;
    thread_local std::vector<double> room;
    double r2[most];
    for (std::size_t first = 0; first < longer.size(); first += most) {
      const auto part = longer.subspan(first, std::min(most, longer.size() - first));
      const Placed points = placed(side, part, room);
      for (std::size_t k = 0; k < shorter.size(); ++k) {
        squares(points.x, points.distance, other.point(shorter[k]), part.size(), r2);
        evaluate(f, variance, r2, part.size(), out + std::ptrdiff_t(first) * along + std::ptrdiff_t(k) * across, along);
      }
    }
    sides.add_nugget(i, j, out);
  };
}

// A bound of the distances between rows and columns.
double reach(const Sides& sides) {
  const auto a = sides.rows->box(0), b = sides.columns->box(0);
  const std::size_t d = a.size() / 2;
  double sum = 0;
  for (std::size_t k = 0; k < d; ++k) {
    const double side = std::max(a[k + d], b[k + d]) - std::min(a[k], b[k]);
    sum += side * side;
  }
  return std::sqrt(sum);
}

template <Scalar T>
EntryFunction<T> helmholtz(const PointKernel& k, Sides sides) {
  if constexpr (is_complex<T>) {
    const double most = std::abs(k.kappa) * reach(sides);
    require(most <= 1e6, "helmholtz with kappa = ", k.kappa, ": waves of ", most,
            " radians across the points; up to 1e6 are possible");
    return entries_by<T>(Helmholtz{k.kappa}, k.variance, std::move(sides));
  } else {
    require(false, "the kernel helmholtz is complex, and the matrix is of ", scalar_name<T>());
    return {};
  }
}

}  // namespace

std::span<const Option<PointKernel>> point_kernel_options() {
  using O = PointKernel;
  static const std::vector<Option<O>> all{
      option<O>("kernel", &O::kernel,
                "k(r), r the distance over the length scale: laplace 1/(4 pi r), helmholtz exp(i kappa r)/(4 pi r), "
                "yukawa exp(-kappa r)/(4 pi r), 0 at r = 0; gaussian exp(-r^2/2); matern12, matern32, matern52, and "
                "matern for any nu; inverse_multiquadric 1/sqrt(1 + r^2); thin_plate r^2 log r"),
      option<O>("variance", &O::variance, any_but_zero(), "factor of the kernel"),
      option<O>("nugget", &O::nugget, not_negative(), "added on the diagonal"),
      option<O>("kappa", &O::kappa, not_negative(), "wave number, or decay").needing("kernel=helmholtz,yukawa"),
      option<O>("nu", &O::nu, between(0.05, 30, "(smoothness)"), "of K_nu").needing("kernel=matern"),
  };
  return all;
}

template <Scalar T>
EntryFunction<T> kernel_entries(const PointKernel& k, std::shared_ptr<const ClusterTree> rows,
                                std::shared_ptr<const ClusterTree> columns) {
  check_values(point_kernel_options(), k);
  Sides sides = sides_of(std::move(rows), std::move(columns), k.nugget);
  const auto by = [&](auto f) { return entries_by<T>(std::move(f), k.variance, std::move(sides)); };
  switch (k.kernel) {
    case KernelName::laplace:
      return by(Laplace{});
    case KernelName::helmholtz:
      return helmholtz<T>(k, std::move(sides));
    case KernelName::yukawa:
      return by(Yukawa{k.kappa});
    case KernelName::gaussian:
      return by(Gaussian{});
    case KernelName::matern12:
      return by(Matern12{});
    case KernelName::matern32:
      return by(Matern32{});
    case KernelName::matern52:
      return by(Matern52{});
    case KernelName::matern:
      if (k.nu == 0.5) return by(Matern12{});
      if (k.nu == 1.5) return by(Matern32{});
      if (k.nu == 2.5) return by(Matern52{});
      return by(Matern{std::make_shared<const MaternTable>(k.nu), 2 * k.nu});
    case KernelName::inverse_multiquadric:
      return by(InverseMultiquadric{});
    case KernelName::thin_plate:
      return by(ThinPlate{});
  }
  return {};
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
