#include "pair_integrals.hpp"

#include "kernel_values.hpp"
#include "near_pairs.hpp"
#include "pair_rules.hpp"

#include <algorithm>
#include <cmath>
#include <complex>

namespace tacit::app::bem {
namespace {

// Beyond this shape, the longest edge squared over twice the area (1.15 of an equilateral triangle, 2 of half a
// square), and below this sine between edges from a common corner, the rules of triangles that touch converge slowly.
constexpr double slim = 2.4, narrow = 0.35;

double longest2(const Corners& t) {
  double longest = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    const Point e = t[(k + 1) % 3] - t[k];
    longest = std::max(longest, inner_product(e, e));
  }
  return longest;
}

// The corners that two triangles have in common, which come first in of_s and of_t.
struct Contact {
  int common = 0;
  std::array<std::size_t, 3> of_s{}, of_t{};
};

Contact contact(const Corners& s, const Corners& t) {
  Contact made;
  bool in_s[3] = {}, in_t[3] = {};
  std::size_t count = 0;
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t l = 0; l < 3; ++l)
      if (s[k] == t[l]) {
        made.of_s[count] = k, made.of_t[count++] = l, in_s[k] = in_t[l] = true;
        break;
      }
  made.common = int(count);
  for (std::size_t end_s = count, end_t = count, k = 0; k < 3; ++k) {
    if (!in_s[k]) made.of_s[end_s++] = k;
    if (!in_t[k]) made.of_t[end_t++] = k;
  }
  return made;
}

// Whether a direction from the corner of a sector is close to the sector between e and f, or in it.
bool close_to_sector(const Point& d, const Point& e, const Point& f) {
  const auto sine = [](const Point& a, const Point& b) { return length(cross(a, b)) / (length(a) * length(b)); };
  for (const Point* edge : {&e, &f})
    if (inner_product(d, *edge) > 0 && sine(d, *edge) < narrow) return true;
  const Point n = cross(e, f);
  const double above = inner_product(d, n) / inner_product(n, n);
  if (std::abs(above) * length(n) > narrow * length(d)) return false;
  const Point foot = d - above * n;  // between the edges where it is to the left of one and to the right of the other
  return inner_product(cross(e, foot), n) >= 0 && inner_product(cross(foot, f), n) >= 0;
}

// Whether two triangles that touch are close to each other elsewhere, too: at a sharp angle, or along a part of an
// edge.
bool is_narrow(const Corners& s, const Corners& t, const Contact& at) {
  const auto arm = [&](const Corners& c, const std::array<std::size_t, 3>& of, std::size_t k) {
    return c[of[k]] - c[of[0]];
  };
  if (at.common == 2) {
    const Point e = arm(s, at.of_s, 1), d = arm(s, at.of_s, 2), f = arm(t, at.of_t, 2);
    const Point m = cross(e, d), n = cross(e, f);  // the angle between these is that at the edge
    return inner_product(m, n) > 0 && length(cross(m, n)) < narrow * length(m) * length(n);
  }
  for (std::size_t k = 1; k < 3; ++k) {
    if (close_to_sector(arm(s, at.of_s, k), arm(t, at.of_t, 1), arm(t, at.of_t, 2))) return true;
    if (close_to_sector(arm(t, at.of_t, k), arm(s, at.of_s, 1), arm(s, at.of_s, 2))) return true;
  }
  return false;
}

template <class T>
class Pairs {
 public:
  Pairs(const Corners& first, const Corners& second, const BoundaryForm<T>& form, const PairAccuracy& accuracy)
      : form_(form), accuracy_(accuracy), normal_{unit_normal(first), unit_normal(second)} {
    const T both = form.hypersingular * (form.wavenumber * form.wavenumber * inner_product(normal_[0], normal_[1]));
    value_ = form.single_layer - both;
    slope_ = form.adjoint * normal_[0] - form.double_layer * normal_[1];
  }

  void add(const Corners& s, const Corners& t);
  PairIntegral<T> result() const;

 private:
  static Point unit_normal(const Corners& t) {
    const Point n = cross(t[1] - t[0], t[2] - t[0]);
    return (1 / length(n)) * n;
  }
  void add_by(const PairRule& rule, const Corners& s, const Corners& t, const Contact& at);
  void add_points(const double (&first)[2][64], const double (&second)[2][64], const double* const* f,
                  const double* const* g, const double* w, int n);

  const BoundaryForm<T>& form_;
  const PairAccuracy& accuracy_;
  Point normal_[2], slope_;
  T value_;
  double moments_[parts_of<T>][3][3] = {}, plain_[parts_of<T>] = {};
  PairMoments<T> near_;
};

// Sums of F times the products of 1 and the coordinates of x with those of y.
template <class T>
void Pairs<T>::add_points(const double (&first)[2][64], const double (&second)[2][64], const double* const* f,
                          const double* const* g, const double* w, int n) {
  for (int part = 0; part < parts_of<T>; ++part) {
    const double* const v = f[part];
    double m00 = 0, m01 = 0, m02 = 0, m10 = 0, m11 = 0, m12 = 0, m20 = 0, m21 = 0, m22 = 0, plain = 0;
#pragma omp simd reduction(+ : m00, m01, m02, m10, m11, m12, m20, m21, m22, plain)
    for (int i = 0; i < n; ++i) {
      const double a = w[i] * v[i], b = a * first[0][i], c = a * first[1][i];
      m00 += a, m01 += a * second[0][i], m02 += a * second[1][i];
      m10 += b, m11 += b * second[0][i], m12 += b * second[1][i];
      m20 += c, m21 += c * second[0][i], m22 += c * second[1][i];
      plain += w[i] * g[part][i];
    }
    const double sums[3][3] = {{m00, m01, m02}, {m10, m11, m12}, {m20, m21, m22}};
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) moments_[part][a][b] += sums[a][b];
    plain_[part] += plain;
  }
}

template <class T>
void Pairs<T>::add_by(const PairRule& rule, const Corners& first_of, const Corners& second_of, const Contact& corners) {
  constexpr int chunk = 64, parts = parts_of<T>;
  constexpr double second_at[] = {0, 1, 0}, third_at[] = {0, 0, 1};  // barycentric coordinates at corners
  const double scale = 4 * area_of(first_of) * area_of(second_of);
  const auto &i = corners.of_s, &j = corners.of_t;
  const Corners s{first_of[i[0]], first_of[i[1]], first_of[i[2]]}, t{second_of[j[0]], second_of[j[1]], second_of[j[2]]};
  const Point s1 = s[1] - s[0], s2 = s[2] - s[1], t1 = t[1] - t[0], t2 = t[2] - t[1], origin = s[0] - t[0];
  const bool gradient = form_.has_gradient();
  double d[3][chunk], first[2][chunk], second[2][chunk], w[chunk], value[parts][chunk], slope[parts][chunk],
      f[parts][chunk];
  double* values[parts];
  double* slopes[parts];
  const double* sums[parts];
  const double* plain[parts];
  for (int part = 0; part < parts; ++part)
    values[part] = value[part], slopes[part] = slope[part], sums[part] = f[part], plain[part] = value[part];
  for (int at = 0; at < rule.size(); at += chunk) {
    const int n = std::min(chunk, rule.size() - at);
    const double *x1 = rule.x1.data() + at, *x2 = rule.x2.data() + at, *y1 = rule.y1.data() + at,
                 *y2 = rule.y2.data() + at;
    const auto along = [n](const double* a, const double* b, const double* of, const auto& at, double* to) {
      const double o = of[at[0]], p = of[at[1]] - of[at[0]], q = of[at[2]] - of[at[1]];
#pragma omp simd
      for (int k = 0; k < n; ++k) to[k] = o + a[k] * p + b[k] * q;
    };
    along(x1, x2, second_at, i, first[0]), along(x1, x2, third_at, i, first[1]);
    along(y1, y2, second_at, j, second[0]), along(y1, y2, third_at, j, second[1]);
    for (std::size_t c = 0; c < 3; ++c) {
      double* const to = d[c];
#pragma omp simd
      for (int k = 0; k < n; ++k) to[k] = origin[c] + (x1[k] * s1[c] - y1[k] * t1[c]) + (x2[k] * s2[c] - y2[k] * t2[c]);
    }
    kernels<T>(d[0], d[1], d[2], n, form_.wavenumber, values, gradient ? slopes : nullptr);
    for (int k = 0; k < n; ++k) w[k] = scale * rule.w[std::size_t(at + k)];
    if constexpr (is_complex<T>) {
      const double re = value_.real(), im = value_.imag();
#pragma omp simd
      for (int k = 0; k < n; ++k)
        f[0][k] = re * value[0][k] - im * value[1][k], f[1][k] = re * value[1][k] + im * value[0][k];
    } else {
      for (int k = 0; k < n; ++k) f[0][k] = value_ * value[0][k];
    }
    if (gradient)
      for (int part = 0; part < parts; ++part) {
        double *const to = f[part], *const from = slope[part];
#pragma omp simd
        for (int k = 0; k < n; ++k)
          to[k] += (slope_[0] * d[0][k] + slope_[1] * d[1][k] + slope_[2] * d[2][k]) * from[k];
      }
    add_points(first, second, sums, plain, w, n);
  }
}

template <class T>
void Pairs<T>::add(const Corners& s, const Corners& t) {
  const Contact at = contact(s, t);
  const double size2_s = longest2(s), size2_t = longest2(t);
  bool regular = true;
  if (at.common == 0) {
    const Point d = (1.0 / 3) * ((s[0] + s[1] + s[2]) - (t[0] + t[1] + t[2]));
    const double distance = length(d), size = std::sqrt(std::max(size2_s, size2_t));
    if (distance > accuracy_.seven * size) return add_by(apart_rule(7), s, t, at);
    if (distance > accuracy_.sixteen * size) return add_by(apart_rule(16), s, t, at);
    regular = false;
  } else {
    regular =
        std::max(size2_s / area_of(s), size2_t / area_of(t)) < 2 * slim && !(at.common < 3 && is_narrow(s, t, at));
  }
  // A triangle and itself need a point more than an edge or a corner for the same error, derivatives two more at edges.
  const int more = at.common == 3 ? 0 : !form_.has_gradient() ? -1 : at.common == 2 ? 1 : 0;
  if (regular) return add_by(touching_rule(Common(at.common), accuracy_.touching + more), s, t, at);
  add_near_pair(s, t, form_, near_);
}

template <class T>
PairIntegral<T> Pairs<T>::result() const {
  const auto joined = [](double re, double im) {
    if constexpr (is_complex<T>) return T(re, im);
    else return (void)im, re;
  };
  const int last = parts_of<T> - 1;
  T m[3][3];
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) m[a][b] = joined(moments_[0][a][b], moments_[last][a][b]) + near_.with[a][b];
  PairIntegral<T> made;
  made.plain = joined(plain_[0], plain_[last]) + near_.plain;
  // phi_0 = 1 - phi_1 - phi_2.
  for (int b = 0; b < 3; ++b) m[0][b] = m[0][b] - m[1][b] - m[2][b];
  for (int a = 0; a < 3; ++a) m[a][0] = m[a][0] - m[a][1] - m[a][2];
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) made.linear[a][b] = m[a][b];
  return made;
}

}  // namespace

PairAccuracy::PairAccuracy(double accuracy)
    : touching(accuracy >= 1e-5   ? 4
               : accuracy >= 1e-6 ? 5
               : accuracy >= 1e-7 ? 6
               : accuracy >= 1e-9 ? 7
                                  : 8),
      seven(std::clamp(std::pow(1.6e-4 / accuracy, 1.0 / 6), 1.6, 16.0)),
      sixteen(std::clamp(std::pow(1e-5 / accuracy, 1.0 / 9), 1.2, 4.0)) {}

template <class T>
PairIntegral<T> pair_integral(const Corners& first, const Corners& second, const BoundaryForm<T>& form,
                              const PairAccuracy& accuracy) {
  Pairs<T> pairs(first, second, form, accuracy);
  pairs.add(first, second);
  return pairs.result();
}

template PairIntegral<double> pair_integral(const Corners&, const Corners&, const BoundaryForm<double>&,
                                            const PairAccuracy&);
template PairIntegral<std::complex<double>> pair_integral(const Corners&, const Corners&,
                                                          const BoundaryForm<std::complex<double>>&,
                                                          const PairAccuracy&);

}  // namespace tacit::app::bem
