#include <tacit/app/bem/single_layer.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace tacit::app::bem {
namespace {

constexpr int lanes = 8;
typedef double Vec __attribute__((vector_size(lanes * sizeof(double))));
typedef std::int64_t Mask __attribute__((vector_size(lanes * sizeof(double))));

Vec load(const double* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
Vec all(double a) {
  return Vec{} + a;
}

// 1 / sqrt(a), to the last bit or two.
Vec reciprocal_root(Vec a) {
#ifdef __AVX512F__
  Vec y = (Vec)_mm512_maskz_rsqrt14_pd(0xff, (__m512d)a);
  for (int step = 0; step < 2; ++step) y += y * (0.5 - 0.5 * a * y * y);
  return y;
#else
  Vec y;
  for (int i = 0; i < lanes; ++i) y[i] = 1 / std::sqrt(a[i]);
  return y;
#endif
}
bool any(Mask m) {
  std::int64_t some = 0;
  for (int i = 0; i < lanes; ++i) some |= m[i];
  return some != 0;
}

// Where points stand: the centroid plus this many times a corner less the centroid.
constexpr double middle = 0.5;                                                        // degree 2, three points
constexpr double inner = -0.410426192314066, outer = 0.696140478028352;               // (1 -+ sqrt 15) / 7
constexpr double inner_weight = 0.132394152788506, outer_weight = 0.125939180544827;  // (155 +- sqrt 15) / 1200

// 1 / r averaged over a triangle; d: its centroid less the point, u, v: two corners less the centroid.
Vec mean(const Vec* d, const Vec* u, const Vec* v, Vec size2, const double* reach) {
  const Vec r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
  Vec value = reciprocal_root(r2);
  const Mask close = r2 < reach[2] * size2;
  if (!any(close)) return value;
  const auto orbit = [&](double s) {
    Vec a = {}, b = {}, c = {};
    for (int k = 0; k < 3; ++k) {
      const Vec su = s * u[k], sv = s * v[k];
      const Vec x = d[k] + su, y = d[k] + sv, z = d[k] - (su + sv);
      a += x * x, b += y * y, c += z * z;
    }
    return reciprocal_root(a) + reciprocal_root(b) + reciprocal_root(c);
  };
  const Mask closer = r2 < reach[1] * size2;
  const Vec three = orbit(middle) / 3.0;
  if (any(closer)) {
    const Vec seven = 0.225 * value + inner_weight * orbit(inner) + outer_weight * orbit(outer);
    return closer ? seven : close ? three : value;
  }
  return close ? three : value;
}

bool neighbours(std::span<const Global> index) {
  if (index.back() - index.front() != Global(index.size()) - 1) return false;
  for (std::size_t i = 1; i < index.size(); ++i)
    if (index[i] != index[i - 1] + 1) return false;
  return true;
}

}  // namespace

SingleLayer::SingleLayer(const Mesh& mesh, double accuracy, double factor) : factor_(factor) {
  require(accuracy > 0 && accuracy < 1, "entries of a single layer to a relative accuracy of ", accuracy);
  // Errors of the rules at distance d of triangles whose longest edge is h, near-equilateral ones: 0.025 (h/d)^2,
  // 0.0027 (h/d)^3 and 1.6e-4 (h/d)^6; slim triangles are no worse in their longest edge.
  const double seven = std::max(1.5, std::pow(1.6e-4 / accuracy, 1.0 / 6)),
               three = std::max(seven, std::cbrt(2.7e-3 / accuracy)),
               one = std::max(three, std::sqrt(0.025 / accuracy));
  reach_[0] = seven * seven, reach_[1] = three * three, reach_[2] = one * one;
  for (Local t = 0; t < mesh.size(); ++t) {
    const Point c = mesh.centroid(t);
    const auto& corners = mesh.triangles[std::size_t(t)];
    double longest = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const Point &a = mesh.vertices[std::size_t(corners[k])], &b = mesh.vertices[std::size_t(corners[(k + 1) % 3])];
      double length2 = 0;
      for (std::size_t d = 0; d < 3; ++d) length2 += (a[d] - b[d]) * (a[d] - b[d]);
      longest = std::max(longest, length2);
      if (k < 2)
        for (std::size_t d = 0; d < 3; ++d) corner_[k][d].push_back(a[d] - c[d]);
    }
    for (std::size_t d = 0; d < 3; ++d) x_[d].push_back(c[d]);
    area_.push_back(mesh.area(t));
    size2_.push_back(longest);
    if (!(area_.back() > 0) || !std::isfinite(area_.back()))
      throw Error(ErrorKind::input, message("triangle ", t, " has area ", area_.back()));
  }
}

double SingleLayer::exact(const Point& p, std::size_t t) const {
  // Corners and edges as seen from p.
  double a[3][3], e[3][3], r[3];
  for (std::size_t d = 0; d < 3; ++d) {
    const double c = x_[d][t] - p[d];
    a[0][d] = c + corner_[0][d][t], a[1][d] = c + corner_[1][d][t];
    a[2][d] = c - (corner_[0][d][t] + corner_[1][d][t]);
  }
  const auto inner_product = [](const double* u, const double* v) { return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]; };
  const auto cross = [](const double* u, const double* v, double* w) {
    w[0] = u[1] * v[2] - u[2] * v[1], w[1] = u[2] * v[0] - u[0] * v[2], w[2] = u[0] * v[1] - u[1] * v[0];
  };
  for (int k = 0; k < 3; ++k) {
    for (int d = 0; d < 3; ++d) e[k][d] = a[(k + 1) % 3][d] - a[k][d];
    r[k] = std::sqrt(inner_product(a[k], a[k]));
  }
  double normal[3], other[3];
  cross(e[0], e[1], normal);
  const double twice_area = std::sqrt(inner_product(normal, normal));
  double sum = 0;
  for (int k = 0; k < 3; ++k) {
    const double length = std::sqrt(inner_product(e[k], e[k]));
    cross(e[k], normal, other);
    const double t_edge = inner_product(a[k], other) / (length * twice_area);  // from p's foot to the edge's line
    const double ends = r[k] + r[(k + 1) % 3];
    if (std::abs(t_edge) > 1e-14 * length) sum += t_edge * std::log((ends + length) / (ends - length));
  }
  cross(a[1], a[2], other);
  const double triple = std::abs(inner_product(a[0], other));
  const double angle = 2 * std::atan2(triple, r[0] * r[1] * r[2] + inner_product(a[0], a[1]) * r[2] +
                                                  inner_product(a[1], a[2]) * r[0] + inner_product(a[2], a[0]) * r[1]);
  return sum - triple / twice_area * angle;
}

void SingleLayer::row(std::size_t i, std::span<const Global> columns, double* out) const {
  const std::size_t n = columns.size();
  const bool packed = neighbours(columns);
  double buffer[11][lanes];
  const Point p{x_[0][i], x_[1][i], x_[2][i]};
  for (std::size_t j = 0; j < n; j += lanes) {
    const std::size_t count = std::min<std::size_t>(lanes, n - j);
    Vec d[3], u[3], v[3], area, size2;
    if (packed && count == lanes) {
      const std::size_t at = std::size_t(columns[j]);
      for (int k = 0; k < 3; ++k) {
        d[k] = load(x_[k].data() + at) - p[std::size_t(k)];
        u[k] = load(corner_[0][k].data() + at), v[k] = load(corner_[1][k].data() + at);
      }
      area = load(area_.data() + at), size2 = load(size2_.data() + at);
    } else {
      for (std::size_t l = 0; l < lanes; ++l) {
        const std::size_t at = std::size_t(columns[j + std::min(l, count - 1)]);
        for (int k = 0; k < 3; ++k)
          buffer[k][l] = x_[k][at], buffer[3 + k][l] = corner_[0][k][at], buffer[6 + k][l] = corner_[1][k][at];
        buffer[9][l] = area_[at], buffer[10][l] = size2_[at];
      }
      for (int k = 0; k < 3; ++k)
        d[k] = load(buffer[k]) - p[std::size_t(k)], u[k] = load(buffer[3 + k]), v[k] = load(buffer[6 + k]);
      area = load(buffer[9]), size2 = load(buffer[10]);
    }
    const Vec r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    const Vec value = mean(d, u, v, size2, reach_) * area * factor_;
    const Mask near = r2 < reach_[0] * size2;
    std::memcpy(out + j, &value, count * sizeof(double));
    if (any(near)) [[unlikely]]
      for (std::size_t l = 0; l < count; ++l)
        if (near[l]) out[j + l] = factor_ * exact(p, std::size_t(columns[j + l]));
  }
}

void SingleLayer::column(std::span<const Global> rows, std::size_t j, double* out) const {
  const std::size_t m = rows.size();
  const bool packed = neighbours(rows);
  double buffer[3][lanes];
  Vec u[3], v[3];
  for (int k = 0; k < 3; ++k) u[k] = all(corner_[0][k][j]), v[k] = all(corner_[1][k][j]);
  const Vec area = all(area_[j]), size2 = all(size2_[j]);
  for (std::size_t i = 0; i < m; i += lanes) {
    const std::size_t count = std::min<std::size_t>(lanes, m - i);
    Vec d[3];
    if (packed && count == lanes) {
      for (int k = 0; k < 3; ++k) d[k] = x_[k][j] - load(x_[k].data() + std::size_t(rows[i]));
    } else {
      for (std::size_t l = 0; l < lanes; ++l)
        for (int k = 0; k < 3; ++k) buffer[k][l] = x_[k][std::size_t(rows[i + std::min(l, count - 1)])];
      for (int k = 0; k < 3; ++k) d[k] = x_[k][j] - load(buffer[k]);
    }
    const Vec r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    const Vec value = mean(d, u, v, size2, reach_) * area * factor_;
    const Mask near = r2 < reach_[0] * size2;
    std::memcpy(out + i, &value, count * sizeof(double));
    if (any(near)) [[unlikely]]
      for (std::size_t l = 0; l < count; ++l)
        if (near[l]) {
          const std::size_t at = std::size_t(rows[i + l]);
          out[i + l] = factor_ * exact({x_[0][at], x_[1][at], x_[2][at]}, j);
        }
  }
}

void SingleLayer::operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const {
  if (rows.empty() || columns.empty()) return;
  if (rows.size() == 1) return row(std::size_t(rows[0]), columns, out);
  for (std::size_t j = 0; j < columns.size(); ++j, out += rows.size()) column(rows, std::size_t(columns[j]), out);
}

}  // namespace tacit::app::bem
