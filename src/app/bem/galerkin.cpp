#include <tacit/app/bem/galerkin.hpp>

#include "distance.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tacit::app::bem {
namespace {

// Gauss-Legendre on (0, 1).
struct Gauss {
  int n;
  double x[8], w[8];
};
constexpr Gauss five{
    5,
    {0.0469100770306680, 0.2307653449471585, 0.5, 0.7692346550528415, 0.9530899229693320},
    {0.1184634425280945, 0.2393143352496832, 0.2844444444444444, 0.2393143352496832, 0.1184634425280945}};
constexpr Gauss eight{8,
                      {0.0198550717512319, 0.1016667612931866, 0.2372337950418355, 0.4082826787521751,
                       0.5917173212478249, 0.7627662049581645, 0.8983332387068134, 0.9801449282487681},
                      {0.0506142681451881, 0.1111905172266872, 0.1568533229389436, 0.1813418916891810,
                       0.1813418916891810, 0.1568533229389436, 0.1111905172266872, 0.0506142681451881}};

// The exact potential of `source` at p.
double potential(const Corners& source, const Point& p) {
  return potential_at_origin({source[0] - p, source[1] - p, source[2] - p});
}

// The double integral of 1 / r over a triangle and itself.
double self(const Corners& t) {
  const double a = length(t[1] - t[0]), b = length(t[2] - t[1]), c = length(t[0] - t[2]), round = a + b + c;
  const double area = area_of(t);
  // round - 2 e cancels for the longest edge of a slim triangle, so it comes from Heron's formula.
  const auto part = [&](double e, double f, double g) {
    if (f + g - e > 1e-6 * e) return -std::log1p(-2 * e / round) / e;
    return std::log(round * round * (e + f - g) * (e + g - f) / (16 * area * area)) / e;
  };
  return 4 * area * area / 3 * (part(a, b, c) + part(b, c, a) + part(c, a, b));
}

// The integral of source's potential over the triangle a, b, c, which has the edge from a to b in common with it.
// Points are graded towards the edge, where the potential behaves like t log t, and its ends.
double at_edge(const Point& a, const Point& b, const Point& c, const Corners& source) {
  const double area = area_of({a, b, c});
  double sum = 0;
  for (int i = 0; i < eight.n; ++i) {
    const double u = eight.x[i], t = u * u * u, weight = eight.w[i] * 3 * u * u * (1 - t);
    for (int j = 0; j < eight.n; ++j) {
      const double v = eight.x[j], s = v * v * (3 - 2 * v);
      const Point p = (1 - t) * (a + s * (b - a)) + t * c;
      sum += weight * eight.w[j] * 6 * v * (1 - v) * potential(source, p);
    }
  }
  return 2 * area * sum;
}

// The same for triangles with the common corner a. Points are graded towards it, where the potential behaves like t log
// t.
double at_corner(const Point& a, const Point& b, const Point& c, const Corners& source) {
  const double area = area_of({a, b, c});
  double sum = 0;
  for (int i = 0; i < five.n; ++i) {
    const double u = five.x[i], t = u * u, weight = five.w[i] * 2 * u * t;
    for (int j = 0; j < eight.n; ++j) {
      const double s = eight.x[j];
      sum += weight * eight.w[j] * potential(source, a + t * ((1 - s) * (b - a) + s * (c - a)));
    }
  }
  return 2 * area * sum;
}

// The integral of source's potential over t by seven points on each of its pieces, which are small relative to their
// distance from the source. The longest edge is divided, so that slim triangles give few pieces.
double apart(const Corners& t, const Corners& source, int cuts) {
  const Point c = (1.0 / 3) * (t[0] + t[1] + t[2]);
  std::size_t longest = 0;
  double size = 0;
  for (std::size_t k = 0; k < 3; ++k)
    if (const double edge = length(t[(k + 1) % 3] - t[k]); edge > size) size = edge, longest = k;
  if (cuts > 0 && size > 0.8 * distance_to(source, c)) {
    const Point &a = t[longest], &b = t[(longest + 1) % 3], &opposite = t[(longest + 2) % 3], middle_of = 0.5 * (a + b);
    return apart({a, middle_of, opposite}, source, cuts - 1) + apart({middle_of, b, opposite}, source, cuts - 1);
  }
  double sum = 0.225 * potential(source, c);
  for (std::size_t k = 0; k < 3; ++k)
    sum += inner_weight * potential(source, c + inner * (t[k] - c)) +
           outer_weight * potential(source, c + outer * (t[k] - c));
  return area_of(t) * sum;
}

// The integral of source's potential over t.
double both(const Corners& t, const Corners& source) {
  int common[3], count = 0;
  bool is_common[3] = {};
  for (int k = 0; k < 3; ++k)
    for (const Point& p : source)
      if (t[std::size_t(k)] == p) {
        common[count++] = k, is_common[k] = true;
        break;
      }
  if (count == 3) return self(t);
  if (count == 2) {
    const int third = is_common[0] ? is_common[1] ? 2 : 1 : 0;
    return at_edge(t[std::size_t(common[0])], t[std::size_t(common[1])], t[std::size_t(third)], source);
  }
  if (count == 1) {
    const std::size_t k = std::size_t(common[0]);
    return at_corner(t[k], t[(k + 1) % 3], t[(k + 2) % 3], source);
  }
  return apart(t, source, 10);
}

struct Lanes {
  Vec c[3], u[3], v[3];
};

// The mean of 1 / r over two triangles.
Vec mean(const Lanes& p, const Lanes& q, Vec size2, const double* reach) {
  Vec d[3];
  for (int k = 0; k < 3; ++k) d[k] = q.c[k] - p.c[k];
  const Vec r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
  Vec value = reciprocal_root(r2);
  const Mask close = r2 < reach[2] * size2;
  if (!any(close)) return value;
  // Sum of 1 / r over an orbit of three points of q, seen from a point of p: e = (centroid of q) - (that point).
  const auto around = [&](const Vec* e, double s) {
    Vec a = {}, b = {}, c = {};
    for (int k = 0; k < 3; ++k) {
      const Vec su = s * q.u[k], sv = s * q.v[k];
      const Vec x = e[k] + su, y = e[k] + sv, z = e[k] - (su + sv);
      a += x * x, b += y * y, c += z * z;
    }
    return reciprocal_root(a) + reciprocal_root(b) + reciprocal_root(c);
  };
  const auto at = [&](double s, int which, Vec* e) {
    for (int k = 0; k < 3; ++k) {
      const Vec su = s * p.u[k], sv = s * p.v[k];
      e[k] = d[k] - (which == 0 ? su : which == 1 ? sv : -(su + sv));
    }
  };
  Vec e[3], nine = {};
  for (int which = 0; which < 3; ++which) at(middle, which, e), nine += around(e, middle);
  nine = nine / 9.0;
  const Mask closer = r2 < reach[1] * size2;
  if (!any(closer)) return close ? nine : value;
  const auto seven = [&](const Vec* f) {
    const Vec centre = reciprocal_root(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
    return 0.225 * centre + inner_weight * around(f, inner) + outer_weight * around(f, outer);
  };
  Vec many = 0.225 * seven(d);
  for (int which = 0; which < 3; ++which) {
    at(inner, which, e), many += inner_weight * seven(e);
    at(outer, which, e), many += outer_weight * seven(e);
  }
  return closer ? many : close ? nine : value;
}

}  // namespace

GalerkinLayer::GalerkinLayer(const Mesh& mesh, double accuracy, double factor,
                             const std::optional<GroundedPlane>& plane)
    : factor_(factor), plane_(plane) {
  const SingleLayer checked(mesh, accuracy, factor, plane);
  // Two triangles make at most twice the error of one.
  const double one_of = accuracy / 2;
  const double seven = std::max(1.5, std::pow(1.6e-4 / one_of, 1.0 / 6)),
               three = std::max(seven, std::cbrt(2.7e-3 / one_of)), one = std::max(three, std::sqrt(0.025 / one_of));
  reach_[0] = seven * seven, reach_[1] = three * three, reach_[2] = one * one;
  for (Local t = 0; t < mesh.size(); ++t) {
    Corners corners;
    for (std::size_t k = 0; k < 3; ++k) corners[k] = mesh.vertices[std::size_t(mesh.triangles[std::size_t(t)][k])];
    const auto add = [&](std::vector<double>(&to)[3][3], const Point& c, const Corners& a) {
      for (std::size_t d = 0; d < 3; ++d) {
        to[0][d].push_back(c[d]);
        for (std::size_t k = 0; k < 2; ++k) to[k + 1][d].push_back(a[k][d] - c[d]);
      }
    };
    const Point c = mesh.centroid(t);
    add(x_, c, corners);
    if (plane) {
      Corners mirrored;
      for (std::size_t k = 0; k < 3; ++k) mirrored[k] = plane->mirrored(corners[k]);
      add(image_, plane->mirrored(c), mirrored);
    }
    double longest = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const Point e = corners[(k + 1) % 3] - corners[k];
      longest = std::max(longest, inner_product(e, e));
    }
    corners_.push_back(corners);
    size2_.push_back(longest);
    area_.push_back(mesh.area(t));
    root_.push_back(std::sqrt(area_.back()));
  }
}

double GalerkinLayer::near(std::size_t i, std::size_t j, bool image) const {
  // Integrates over the smaller triangle, so that the result is symmetric in row and column.
  if (area_[i] > area_[j] || (area_[i] == area_[j] && i > j)) std::swap(i, j);
  Corners t = corners_[i];
  if (image)
    for (Point& p : t) p = plane_->mirrored(p);
  return both(t, corners_[j]);
}

// Entries of triangle `fixed` of x (the mesh or its image) with the others: a row or, as both parts are symmetric, a
// column.
void GalerkinLayer::line(const std::vector<double> (&x)[3][3], std::size_t fixed, std::span<const Global> others,
                         bool image, double* out) const {
  Lanes p, q;
  for (int k = 0; k < 3; ++k) p.c[k] = all(x[0][k][fixed]), p.u[k] = all(x[1][k][fixed]), p.v[k] = all(x[2][k][fixed]);
  const std::size_t n = others.size();
  double buffer[lanes];
  for (std::size_t j = 0; j < n; j += lanes) {
    const std::size_t count = std::min<std::size_t>(lanes, n - j);
    const bool packed = count == lanes && others[j + lanes - 1] - others[j] == lanes - 1 &&
                        std::is_sorted(others.begin() + std::ptrdiff_t(j), others.begin() + std::ptrdiff_t(j) + lanes);
    const auto part = [&](const std::vector<double>& of) {
      if (packed) return load(of.data() + std::size_t(others[j]));
      for (std::size_t l = 0; l < lanes; ++l) buffer[l] = of[std::size_t(others[j + std::min(l, count - 1)])];
      return load(buffer);
    };
    for (int k = 0; k < 3; ++k) q.c[k] = part(x_[0][k]), q.u[k] = part(x_[1][k]), q.v[k] = part(x_[2][k]);
    const Vec other_size = part(size2_), own = all(size2_[fixed]);
    const Vec size2 = other_size > own ? other_size : own;
    Vec r2 = {};
    for (int k = 0; k < 3; ++k) r2 += (q.c[k] - p.c[k]) * (q.c[k] - p.c[k]);
    const Vec value = mean(p, q, size2, reach_) * part(root_) * (root_[fixed] * factor_);
    const Mask close = r2 < reach_[0] * size2;
    std::memcpy(out + j, &value, count * sizeof(double));
    if (any(close)) [[unlikely]]
      for (std::size_t l = 0; l < count; ++l)
        if (close[int(l)]) {
          const std::size_t at = std::size_t(others[j + l]);
          out[j + l] = factor_ * near(fixed, at, image) / (root_[fixed] * root_[at]);
        }
  }
}

void GalerkinLayer::operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const {
  if (rows.empty() || columns.empty()) return;
  thread_local std::vector<double> image;
  const auto whole = [&](std::size_t fixed, std::span<const Global> others, double* to) {
    line(x_, fixed, others, false, to);
    if (!plane_) return;
    image.resize(others.size());
    line(image_, fixed, others, true, image.data());
    for (std::size_t k = 0; k < others.size(); ++k) to[k] -= image[k];
  };
  if (rows.size() == 1) return whole(std::size_t(rows[0]), columns, out);
  for (std::size_t j = 0; j < columns.size(); ++j, out += rows.size()) whole(std::size_t(columns[j]), rows, out);
}

}  // namespace tacit::app::bem
