// Entries for pairs of points: points by coordinates in the order of their tree, their squared distances, and the loop
// over a block.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op::detail {

inline constexpr std::size_t most_points = 256;  // at a time

/// Where points lie, coordinate by coordinate: coordinate k begins at x + k distance.
struct Placed {
  const double* x;
  std::size_t distance;
};

/// The points of a tree by coordinates, in its order.
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
  /// Up to `most_points`; a list that is a part of the tree's order is read where it is, another one gathered.
  Placed placed(std::span<const Global> list, std::vector<double>& room) const {
    const auto all = tree_->order();
    const std::less<const Global*> before;
    if (!before(list.data(), all.data()) && !before(all.data() + all.size(), list.data() + list.size()))
      return {x_.data() + (list.data() - all.data()), all.size()};
    room.resize(dimension() * most_points);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto point = tree_->point(list[i]);
      for (std::size_t k = 0; k < point.size(); ++k) room[k * most_points + i] = point[k];
    }
    return {room.data(), most_points};
  }

 private:
  std::shared_ptr<const ClusterTree> tree_;
  std::vector<double> x_;
};

/// The squared distances from y to `count` points.
inline void squared_distances(Placed points, std::span<const double> y, std::size_t count, double* r2) {
  const double* x = points.x;
  if (y.size() == 3) {
    const double *const x1 = x + points.distance, *const x2 = x1 + points.distance;
    const double y0 = y[0], y1 = y[1], y2 = y[2];
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i)
      r2[i] = (x[i] - y0) * (x[i] - y0) + (x1[i] - y1) * (x1[i] - y1) + (x2[i] - y2) * (x2[i] - y2);
    return;
  }
  std::fill_n(r2, count, 0.0);
  for (std::size_t k = 0; k < y.size(); ++k, x += points.distance) {
    const double at = y[k];
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) r2[i] += (x[i] - at) * (x[i] - at);
  }
}
/// The same of point i, whose squares may leave the range of double.
inline long double long_square(Placed points, std::span<const double> y, std::size_t i) {
  long double sum = 0;
  for (std::size_t k = 0; k < y.size(); ++k) {
    const long double d = static_cast<long double>(points.x[k * points.distance + i]) - y[k];
    sum += d * d;
  }
  return sum;
}

/// The points of rows and of columns, and what is added where they are one.
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
  /// A bound of the distances between rows and columns.
  double reach() const {
    const auto a = rows->box(0), b = columns->box(0);
    const std::size_t d = a.size() / 2;
    double sum = 0;
    for (std::size_t k = 0; k < d; ++k) sum = std::hypot(sum, std::max(a[k + d], b[k + d]) - std::min(a[k], b[k]));
    return sum;
  }
  /// Whether powers of a distance up to the third may leave the range of double.
  bool is_extreme() const {
    constexpr double least = 0x1p-280, most = 0x1p+329;  // differences of coordinates are at least their last place
    const auto small = [](double x) { return x != 0 && std::abs(x) < least; };
    return reach() > most || std::ranges::any_of(rows->points(), small) ||
           std::ranges::any_of(columns->points(), small);
  }
};

inline Sides sides_of(std::shared_ptr<const ClusterTree> rows, std::shared_ptr<const ClusterTree> columns,
                      double nugget) {
  require(rows != nullptr, "kernel entries without points");
  require(!columns || columns->dimension() == rows->dimension(), "rows are points of ", rows->dimension(),
          " coordinates, columns of ", columns ? columns->dimension() : 0);
  require(nugget == 0 || !columns, "a nugget, which is added on the diagonal, with other points as columns");
  if (!columns) columns = rows;
  Sides sides{std::move(rows), std::move(columns), nugget};
  if (!std::isfinite(sides.reach()))
    throw Error(ErrorKind::input, "points whose distances are above the largest number of double");
  return sides;
}

/// Entries by `pairs`, for some points at a time, each of which meets one other point:
///   pairs.is_complex(); pairs.meet(points, list, y, other, by_rows, re, im): `list` has the indices of the points, and
///   y is the point of index `other`; they are rows, and y a column, or (by_rows = false) the other way round.
template <Scalar T, class Pairs>
EntryFunction<T> entries_by(Pairs pairs, Sides sides) {
  const auto rows = std::make_shared<const Ordered>(sides.rows);
  const auto columns = sides.columns == sides.rows ? rows : std::make_shared<const Ordered>(sides.columns);
  return [=, pairs = std::move(pairs), sides = std::move(sides)](std::span<const Global> i, std::span<const Global> j,
                                                                 T* out) {
    // Each point of the shorter list meets the longer one.
    const bool by_rows = i.size() >= j.size();
    const auto longer = by_rows ? i : j, shorter = by_rows ? j : i;
    const Ordered& side = by_rows ? *rows : *columns;
    const ClusterTree& other = by_rows ? columns->tree() : rows->tree();
    const auto m = std::ptrdiff_t(i.size()), along = by_rows ? 1 : m, across = by_rows ? m : 1;
    thread_local std::vector<double> room;
    double re[most_points], im[most_points];
    for (std::size_t first = 0; first < longer.size(); first += most_points) {
      const auto part = longer.subspan(first, std::min(most_points, longer.size() - first));
      const Placed points = side.placed(part, room);
      for (std::size_t k = 0; k < shorter.size(); ++k) {
        T* const to = out + std::ptrdiff_t(first) * along + std::ptrdiff_t(k) * across;
        if constexpr (std::same_as<T, double>) {
          if (along == 1) {
            pairs.meet(points, part, other.point(shorter[k]), shorter[k], by_rows, to, im);
            continue;
          }
        }
        pairs.meet(points, part, other.point(shorter[k]), shorter[k], by_rows, re, im);
        for (std::size_t p = 0; p < part.size(); ++p) {
          T& a = to[std::ptrdiff_t(p) * along];
          if constexpr (is_complex<T>) a = T(real_t<T>(re[p]), pairs.is_complex() ? real_t<T>(im[p]) : real_t<T>(0));
          else a = T(re[p]);
        }
      }
    }
    sides.add_nugget(i, j, out);
  };
}

}  // namespace tacit::op::detail
