#include "triangles.hpp"

#include <tacit/app/bem/single_layer.hpp>

#include <tacit/base/error.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tacit::app::bem {
namespace {

using Shapes = Shape<Vec>;

// Compiled once: otherwise gcc might contract different products in the loops over rows and over columns, and an entry
// would depend on the loop that computes it.
[[gnu::noinline]] Vec seven_points(const Vec* d, const Vec& value, const Shapes& s) {
  return seven_point_mean(d, value, s);
}

// The mean of 1 / r over triangles with centroids at d; r2 = d . d. `near`: some triangle may be too near for
// quadrature.
inline Vec mean(const Vec* d, Vec r2, const Shapes& s, Vec size2, const double* reach, bool& near) {
  const Vec value = reciprocal_root(r2);
  near = false;
  const Below close = below(r2, reach[2] * size2);
  if (!any(close)) return value;
  const Vec moments = moment_mean(d, value, s);
  const Below closer = below(r2, reach[1] * size2);
  if (!any(closer)) [[likely]]
    return choose(close, moments, value);
  near = true;
  const Vec seven = seven_points(d, value, s);
  return choose(closer, seven, choose(close, moments, value));
}

// Stores the first `count` lanes.
inline void store(Vec v, std::size_t count, double* out) {
  if (count == lanes) [[likely]]
    std::memcpy(out, &v, sizeof v);
  else std::memcpy(out, &v, count * sizeof(double));
}

// The mean of -d / r^3 over triangles with centroids at d.
void mean_field(const Vec* d, const Vec* u, const Vec* v, Vec size2, const double* reach, Vec* field) {
  const auto add = [&](const Vec* x, double weight) {
    const Vec y = reciprocal_root(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    const Vec factor = weight * y * y * y;
    for (int k = 0; k < 3; ++k) field[k] -= factor * x[k];
  };
  const auto orbit = [&](double s, double weight) {
    Vec x[3], y[3], z[3];
    for (int k = 0; k < 3; ++k) {
      const Vec su = s * u[k], sv = s * v[k];
      x[k] = d[k] + su, y[k] = d[k] + sv, z[k] = d[k] - (su + sv);
    }
    add(x, weight), add(y, weight), add(z, weight);
  };
  const Vec r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
  field[0] = field[1] = field[2] = Vec{};
  // The error of the derivative has one power of h / d less, and is about three times as large.
  if (!any(r2 < 9.0 * reach[2] * size2)) return add(d, 1);
  add(d, 0.225), orbit(inner, inner_weight), orbit(outer, outer_weight);
}

// Whether these indices are consecutive.
bool neighbours(std::span<const Global> index) {
  const Global first = index.front();
  if (index.back() - first != Global(index.size()) - 1) return false;
  const Global* const at = index.data();
  Global different = 0;
#pragma omp simd reduction(| : different)
  for (std::size_t i = 0; i < index.size(); ++i) different |= at[i] - first - Global(i);
  return different == 0;
}

}  // namespace

double potential_at_origin(const Corners& a) {
  const double corners[3][3] = {{a[0][0], a[0][1], a[0][2]}, {a[1][0], a[1][1], a[1][2]}, {a[2][0], a[2][1], a[2][2]}};
  return exact_potential(corners);
}

Point field_at_origin(const Corners& a) {
  Point e[3];
  double r[3];
  for (std::size_t k = 0; k < 3; ++k) e[k] = a[(k + 1) % 3] - a[k], r[k] = length(a[k]);
  Point normal = cross(e[0], e[1]);
  normal = (1 / length(normal)) * normal;
  // The gradient in y of 1 / |y| integrates to edge normals times logarithms and the normal times the solid angle.
  Point field{};
  for (std::size_t k = 0; k < 3; ++k) {
    const double edge = length(e[k]), ends = r[k] + r[(k + 1) % 3];
    const double less = ends_less_edge(a[k].data(), e[k].data(), edge, r[k], r[(k + 1) % 3]);
    if (!(less > 0)) continue;  // on the edge the field is infinite, but not its mean over both sides
    field = field + (std::log((ends + edge) / less) / edge) * cross(e[k], normal);
  }
  const double height = inner_product(a[0], normal);
  const double triple = inner_product(a[0], cross(a[1], a[2]));
  const double angle =
      2 * std::atan2(std::abs(triple), r[0] * r[1] * r[2] + inner_product(a[0], a[1]) * r[2] +
                                           inner_product(a[1], a[2]) * r[0] + inner_product(a[2], a[0]) * r[1]);
  const double side = std::abs(height) <= 1e-14 * (r[0] + r[1] + r[2]) ? 0 : height > 0 ? 1 : -1;
  return field - (side * angle) * normal;
}

void check(const Mesh& mesh, const GroundedPlane& plane) {
  require(plane.axis >= 0 && plane.axis < 3 && std::isfinite(plane.value), "a plane where coordinate ", plane.axis,
          " is ", plane.value);
  const std::size_t axis = std::size_t(plane.axis);
  double side = 0;
  for (Local t = 0; t < mesh.size(); ++t) {
    const Point c = mesh.centroid(t);
    const double height = c[axis] - plane.value;
    if (side == 0) side = height < 0 ? -1 : 1;
    double lowest = INFINITY, reach = 0;
    for (const Local v : mesh.triangles[std::size_t(t)]) {
      const Point& p = mesh.vertices[std::size_t(v)];
      lowest = std::min(lowest, (p[axis] - plane.value) * side);
      reach = std::max(reach, length(p - c));
    }
    if (lowest < 0 || std::abs(height) <= 1e-9 * reach)
      throw Error(ErrorKind::input,
                  message("triangle ", t, lowest < 0 ? " reaches beyond" : " lies in", " the grounded plane ",
                          "xyz"[axis], " = ", plane.value, "; all have to be on one side of it"));
  }
}

SingleLayer::SingleLayer(const Mesh& mesh, double accuracy, double factor, const std::optional<GroundedPlane>& plane)
    : factor_(factor), plane_(plane) {
  require(accuracy > 0 && accuracy < 1, "entries of a single layer to a relative accuracy of ", accuracy);
  // Relative errors at distance d for nearly equilateral triangles with longest edge h: 0.025 (h/d)^2 of one point,
  // 0.0045 (h/d)^4 with the moments and 1.6e-4 (h/d)^6 of seven points; slim triangles are at most twice as bad.
  const double seven = std::max(1.5, std::pow(1.6e-4 / accuracy, 1.0 / 6)),
               moments = std::max(seven, std::pow(4.5e-3 / accuracy, 0.25)),
               one = std::max(moments, std::sqrt(0.025 / accuracy));
  reach_[0] = seven * seven, reach_[1] = moments * moments, reach_[2] = one * one;
  if (plane) check(mesh, *plane);
  for (Local t = 0; t < mesh.size(); ++t) {
    const Point c = mesh.centroid(t);
    const auto& corners = mesh.triangles[std::size_t(t)];
    double longest = 0, square[3];
    for (std::size_t k = 0; k < 3; ++k) {
      const Point &a = mesh.vertices[std::size_t(corners[k])], &b = mesh.vertices[std::size_t(corners[(k + 1) % 3])];
      double length2 = 0;
      for (std::size_t d = 0; d < 3; ++d) length2 += (a[d] - b[d]) * (a[d] - b[d]);
      longest = std::max(longest, length2);
      square[k] = inner_product(a - c, a - c);
      if (k < 2)
        for (std::size_t d = 0; d < 3; ++d) corner_[k][d].push_back(a[d] - c[d]);
    }
    for (std::size_t d = 0; d < 3; ++d) x_[d].push_back(c[d]);
    area_.push_back(mesh.area(t));
    size2_.push_back(longest);
    moment_[0].push_back((square[0] + square[1] + square[2]) / 24);
    moment_[1].push_back((square[0] - square[2]) / 5), moment_[2].push_back((square[1] - square[2]) / 5);
    if (!(area_.back() > 0) || !std::isfinite(area_.back()))
      throw Error(ErrorKind::input, message("triangle ", t, " has area ", area_.back()));
    if (!plane) continue;
    const Point m = plane->mirrored(c);
    for (std::size_t d = 0; d < 3; ++d) image_[d].push_back(m[d]);
  }
}

LayerNumbers SingleLayer::numbers() const {
  LayerNumbers at{};
  for (std::size_t k = 0; k < 3; ++k) {
    at.x[k] = x_[k].data(), at.moment[k] = moment_[k].data(), at.reach[k] = reach_[k];
    at.corner[0][k] = corner_[0][k].data(), at.corner[1][k] = corner_[1][k].data();
    at.image[k] = plane_ ? image_[k].data() : nullptr;
  }
  at.area = area_.data(), at.size2 = size2_.data(), at.factor = factor_;
  return at;
}

Corners SingleLayer::seen_from(const Point& p, std::size_t t) const {
  Corners a;
  for (std::size_t d = 0; d < 3; ++d) {
    const double c = x_[d][t] - p[d];
    a[0][d] = c + corner_[0][d][t], a[1][d] = c + corner_[1][d][t];
    a[2][d] = c - (corner_[0][d][t] + corner_[1][d][t]);
  }
  return a;
}

void SingleLayer::row(const Point& p, std::span<const Global> columns, double* out) const {
  const std::size_t n = columns.size();
  const bool packed = neighbours(columns);
  const std::vector<double>* const arrays[] = {
      &x_[0],         &x_[1],         &x_[2],      &corner_[0][0], &corner_[0][1], &corner_[0][2], &corner_[1][0],
      &corner_[1][1], &corner_[1][2], &moment_[0], &moment_[1],    &moment_[2],    &area_,         &size2_};
  constexpr int fields = 14;
  double buffer[fields][lanes];
  for (std::size_t j = 0; j < n; j += lanes) {
    const std::size_t count = std::min<std::size_t>(lanes, n - j);
    const double* from[fields];
    if (packed && count == lanes) {
      for (int f = 0; f < fields; ++f) from[f] = arrays[f]->data() + columns[j];
    } else {
      for (std::size_t l = 0; l < lanes; ++l)
        for (int f = 0; f < fields; ++f) buffer[f][l] = (*arrays[f])[std::size_t(columns[j + std::min(l, count - 1)])];
      for (int f = 0; f < fields; ++f) from[f] = buffer[f];
    }
    Vec d[3];
    Shapes shape;
    for (int k = 0; k < 3; ++k)
      d[k] = load(from[k]) - p[std::size_t(k)], shape.u[k] = load(from[3 + k]), shape.v[k] = load(from[6 + k]);
    shape.second = load(from[9]), shape.third[0] = load(from[10]), shape.third[1] = load(from[11]);
    const Vec size2 = load(from[13]), r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    bool close_by;
    const Vec value = mean(d, r2, shape, size2, reach_, close_by) * (load(from[12]) * factor_);
    store(value, count, out + j);
    if (!close_by) [[likely]]
      continue;
    if (const Below near = below(r2, reach_[0] * size2); any(near))
      for (std::size_t l = 0; l < count; ++l)
        if (at(near, l)) out[j + l] = factor_ * potential_at_origin(seen_from(p, std::size_t(columns[j + l])));
  }
}

void SingleLayer::column(const std::vector<double>* x, std::span<const Global> rows, std::size_t j, double* out) const {
  const std::size_t m = rows.size();
  const bool packed = neighbours(rows);
  double buffer[3][lanes];
  Shapes shape;
  for (int k = 0; k < 3; ++k) shape.u[k] = all(corner_[0][k][j]), shape.v[k] = all(corner_[1][k][j]);
  shape.second = all(moment_[0][j]), shape.third[0] = all(moment_[1][j]), shape.third[1] = all(moment_[2][j]);
  const Vec weight = all(area_[j] * factor_), size2 = all(size2_[j]);
  for (std::size_t i = 0; i < m; i += lanes) {
    const std::size_t count = std::min<std::size_t>(lanes, m - i);
    Vec d[3];
    if (packed && count == lanes) {
      for (int k = 0; k < 3; ++k) d[k] = x_[k][j] - load(x[k].data() + std::size_t(rows[i]));
    } else {
      for (std::size_t l = 0; l < lanes; ++l)
        for (int k = 0; k < 3; ++k) buffer[k][l] = x[k][std::size_t(rows[i + std::min(l, count - 1)])];
      for (int k = 0; k < 3; ++k) d[k] = x_[k][j] - load(buffer[k]);
    }
    const Vec r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    bool close_by;
    const Vec value = mean(d, r2, shape, size2, reach_, close_by) * weight;
    store(value, count, out + i);
    if (!close_by) [[likely]]
      continue;
    if (const Below near = below(r2, reach_[0] * size2); any(near))
      for (std::size_t l = 0; l < count; ++l)
        if (at(near, l)) {
          const std::size_t at = std::size_t(rows[i + l]);
          out[i + l] = factor_ * potential_at_origin(seen_from({x[0][at], x[1][at], x[2][at]}, j));
        }
  }
}

void SingleLayer::operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const {
  if (rows.empty() || columns.empty()) return;
  thread_local std::vector<double> image;
  const auto centre = [](const std::vector<double>* x, Global i) {
    return Point{x[0][std::size_t(i)], x[1][std::size_t(i)], x[2][std::size_t(i)]};
  };
  const auto subtract = [&](double* from) {
    for (std::size_t k = 0; k < image.size(); ++k) from[k] -= image[k];
  };
  if (rows.size() == 1) {
    row(centre(x_, rows[0]), columns, out);
    if (plane_) {
      image.resize(columns.size());
      row(centre(image_, rows[0]), columns, image.data());
      subtract(out);
    }
    return;
  }
  for (std::size_t j = 0; j < columns.size(); ++j, out += rows.size()) {
    column(x_, rows, std::size_t(columns[j]), out);
    if (plane_) {
      image.resize(rows.size());
      column(image_, rows, std::size_t(columns[j]), image.data());
      subtract(out);
    }
  }
}

void SingleLayer::potential(std::span<const double> density, std::span<const Point> points, double* out) const {
  require(density.size() == area_.size(), density.size(), " densities for ", area_.size(), " triangles");
  std::vector<Global> every(area_.size());
  std::iota(every.begin(), every.end(), Global(0));
  exec::parallel_claims(points.size(), 4, true, [&](exec::Claims& claims) {
    std::vector<double> entries(area_.size());
    const auto sum = [&](const Point& p) {
      row(p, every, entries.data());
      double total = 0;
#pragma omp simd reduction(+ : total)
      for (std::size_t j = 0; j < entries.size(); ++j) total += density[j] * entries[j];
      return total;
    };
    claims.each([&](std::size_t k) {
      const Point& p = points[k];
      out[k] = sum(p) - (plane_ ? sum(plane_->mirrored(p)) : 0);
    });
  });
}

Point SingleLayer::field_of(std::span<const double> density, const Point& p) const {
  Vec total[3] = {};
  Point near_ones{};
  const std::size_t n = area_.size();
  const auto part = [&](const std::vector<double>& of, std::size_t j, std::size_t count) {
    if (count == lanes) return load(of.data() + j);
    double buffer[lanes];
    for (std::size_t l = 0; l < lanes; ++l) buffer[l] = of[j + std::min(l, count - 1)];
    return load(buffer);
  };
  for (std::size_t j = 0; j < n; j += lanes) {
    const std::size_t count = std::min<std::size_t>(lanes, n - j);
    Vec d[3], u[3], v[3], field[3], weight = {};
    for (std::size_t k = 0; k < 3; ++k)
      d[k] = part(x_[k], j, count) - p[k], u[k] = part(corner_[0][k], j, count), v[k] = part(corner_[1][k], j, count);
    const Vec size2 = part(size2_, j, count), r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    const Mask near = r2 < 2.25 * reach_[0] * size2;
    for (int l = 0; l < lanes; ++l) {
      const std::size_t at = j + std::size_t(l);
      if (std::size_t(l) < count && !near[l]) {
        weight[l] = density[at] * area_[at];
        continue;
      }
      if (std::size_t(l) < count) near_ones = near_ones + density[at] * field_at_origin(seen_from(p, at));
      for (std::size_t k = 0; k < 3; ++k) d[k][l] = 1, u[k][l] = v[k][l] = 0;  // any finite value, multiplied by 0
    }
    mean_field(d, u, v, size2, reach_, field);
    for (std::size_t k = 0; k < 3; ++k) total[k] += weight * field[k];
  }
  Point sum = near_ones;
  for (std::size_t k = 0; k < 3; ++k)
    for (int l = 0; l < lanes; ++l) sum[k] += total[k][l];
  return factor_ * sum;
}

void SingleLayer::field(std::span<const double> density, std::span<const Point> points, Point* out) const {
  require(density.size() == area_.size(), density.size(), " densities for ", area_.size(), " triangles");
  exec::parallel_for(
      points.size(), true,
      [&](std::size_t k) {
        const Point& p = points[k];
        out[k] = field_of(density, p);
        if (!plane_) return;
        Point image = field_of(density, plane_->mirrored(p));  // the field of the mirrored charge
        image[std::size_t(plane_->axis)] = -image[std::size_t(plane_->axis)];
        out[k] = out[k] - image;
      },
      4);
}

}  // namespace tacit::app::bem
