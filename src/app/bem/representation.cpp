#include <tacit/app/bem/representation.hpp>

#include "kernel_values.hpp"
#include "pair_rules.hpp"
#include "triangles.hpp"

#include <tacit/base/error.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tacit::app::bem {
namespace {

constexpr double four_pi = 4 * std::numbers::pi;
constexpr std::size_t points = 7, together = 32;  // points of a triangle; triangles whose points are summed together
constexpr double near = 2;                        // triangles closer than so many of their longest edges are divided
constexpr int deepest = 8;

double longest2(const Corners& t) {
  double longest = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    const Point e = t[(k + 1) % 3] - t[k];
    longest = std::max(longest, inner_product(e, e));
  }
  return longest;
}
double real_part(double v) {
  return v;
}
double real_part(const std::complex<double>& v) {
  return v.real();
}
double imaginary_part(double) {
  return 0;
}
double imaginary_part(const std::complex<double>& v) {
  return v.imag();
}

}  // namespace

// Of each point its weight times the densities, the second times the normal.
template <class T>
struct Representation<T>::Densities {
  bool single = false, twofold = false, gradient = false;
  std::vector<std::array<T, 3>> single_at, twofold_at;  // at corners of triangles
  std::vector<double> charge[2], dipole[3][2];
};

template <class T>
struct Representation<T>::Sum {
  T value{};
  std::array<T, 3> gradient{};
};

template <class T>
Representation<T>::Representation(const Mesh& mesh, Elements elements, double wavenumber)
    : elements_(elements),
      wavenumber_(wavenumber),
      functions_(elements == Elements::linear ? mesh.vertices.size() : std::size_t(mesh.size())) {
  const TriangleRule& rule = triangle_rule(int(points));
  for (std::size_t t = 0; t < std::size_t(mesh.size()); ++t) {
    Corners c;
    for (std::size_t k = 0; k < 3; ++k) c[k] = mesh.vertices[std::size_t(mesh.triangles[t][k])];
    const Point twice = cross(c[1] - c[0], c[2] - c[0]);
    corners_.push_back(c), centroid_.push_back(mesh.centroid(Local(t)));
    normal_.push_back((1 / length(twice)) * twice), area_.push_back(length(twice) / 2);
    size2_.push_back(longest2(c));
    const Local own = Local(t);
    of_corner_.push_back(elements == Elements::linear ? mesh.triangles[t] : std::array<Local, 3>{own, own, own});
    for (std::size_t q = 0; q < points; ++q) {
      const Point at = c[0] + (rule.second[q] * (c[1] - c[0]) + rule.third[q] * (c[2] - c[0]));
      for (std::size_t d = 0; d < 3; ++d) x_[d].push_back(at[d]);
    }
  }
}

template <class T>
std::array<T, 3> Representation<T>::at_corners(std::span<const T> density, std::size_t triangle) const {
  if (density.empty()) return {};
  const auto& f = of_corner_[triangle];
  return {density[std::size_t(f[0])], density[std::size_t(f[1])], density[std::size_t(f[2])]};
}

template <class T>
auto Representation<T>::at_points(std::span<const T> single, std::span<const T> twofold) const -> Densities {
  for (const auto& density : {single, twofold})
    require(density.empty() || density.size() == functions_, density.size(), " densities for ", functions_,
            elements_ == Elements::linear ? " vertices" : " triangles");
  Densities of;
  of.single = !single.empty(), of.twofold = !twofold.empty();
  const TriangleRule& rule = triangle_rule(int(points));
  const auto put = [](std::vector<double>(&to)[2], const T& value) {
    to[0].push_back(real_part(value)), to[1].push_back(imaginary_part(value));
  };
  for (std::size_t t = 0; t < corners_.size(); ++t) {
    const auto one = at_corners(single, t), two = at_corners(twofold, t);
    of.single_at.push_back(one), of.twofold_at.push_back(two);
    for (std::size_t q = 0; q < points; ++q) {
      const double weight = rule.w[q] * area_[t] / four_pi, a = rule.second[q], b = rule.third[q], c = 1 - a - b;
      put(of.charge, weight * (c * one[0] + a * one[1] + b * one[2]));
      const T strength = weight * (c * two[0] + a * two[1] + b * two[2]);
      for (std::size_t d = 0; d < 3; ++d) put(of.dipole[d], normal_[t][d] * strength);
    }
  }
  return of;
}

// Adds the points [begin, end), which are at most `together` triangles'.
template <class T>
void Representation<T>::add_points(const Densities& of, std::size_t begin, std::size_t end, const Point& p,
                                   Sum& sum) const {
  constexpr int parts = parts_of<T>;
  constexpr std::size_t most = points * together;
  double d[3][most], value[parts][most], slope[parts][most];
  double* values[parts];
  double* slopes[parts];
  for (int part = 0; part < parts; ++part) values[part] = value[part], slopes[part] = slope[part];
  const int n = int(end - begin);
  for (std::size_t c = 0; c < 3; ++c) {
    const double *const x = x_[c].data() + begin, at = p[c];
    double* const to = d[c];
#pragma omp simd
    for (int q = 0; q < n; ++q) to[q] = at - x[q];
  }
  kernels<T>(d[0], d[1], d[2], n, wavenumber_, values, of.twofold || of.gradient ? slopes : nullptr);
  // The sum of w f, or its real and imaginary parts.
  const auto product = [n](const double* const* f, const double* re, const double* im) {
    double a = 0, b = 0;
    if constexpr (is_complex<T>) {
#pragma omp simd reduction(+ : a, b)
      for (int q = 0; q < n; ++q) a += re[q] * f[0][q] - im[q] * f[1][q], b += re[q] * f[1][q] + im[q] * f[0][q];
      return T(a, b);
    } else {
#pragma omp simd reduction(+ : a)
      for (int q = 0; q < n; ++q) a += re[q] * f[0][q];
      return (void)im, (void)b, a;
    }
  };
  const double *const re = of.charge[0].data() + begin, *const im = of.charge[1].data() + begin;
  if (of.single) sum.value += product(values, re, im);
  if (!of.twofold && !of.gradient) return;
  double along[parts][most];
  const double* lengths[parts];
  for (std::size_t c = 0; c < 3; ++c) {
    for (int part = 0; part < parts; ++part) {
      lengths[part] = along[part];
      double *const to = along[part], *const from = slope[part];
#pragma omp simd
      for (int q = 0; q < n; ++q) to[q] = d[c][q] * from[q];
    }
    if (of.twofold) sum.value -= product(lengths, of.dipole[c][0].data() + begin, of.dipole[c][1].data() + begin);
    if (of.gradient) sum.gradient[c] += product(lengths, re, im);
  }
}

template <class T>
void Representation<T>::add_near(const std::array<Point, 3>& c, const std::array<T, 3>& single,
                                 const std::array<T, 3>& twofold, const Point& normal, const Point& p, int depth,
                                 Sum& sum) const {
  const Point middle_of = (1.0 / 3) * (c[0] + c[1] + c[2]), d = p - middle_of;
  const double longest = longest2(c), area = area_of(c);
  if (inner_product(d, d) > near * near * longest) {
    const TriangleRule& rule = triangle_rule(int(points));
    double x[3][points], value[2][points], slope[2][points];
    double *values[2] = {value[0], value[1]}, *slopes[2] = {slope[0], slope[1]};
    for (std::size_t q = 0; q < points; ++q) {
      const Point at = p - (c[0] + (rule.second[q] * (c[1] - c[0]) + rule.third[q] * (c[2] - c[0])));
      for (std::size_t k = 0; k < 3; ++k) x[k][q] = at[k];
    }
    kernels<T>(x[0], x[1], x[2], int(points), wavenumber_, values, slopes);
    for (std::size_t q = 0; q < points; ++q) {
      const double w = rule.w[q] * area / four_pi, a = rule.second[q], b = rule.third[q], o = 1 - a - b;
      const T one = w * (o * single[0] + a * single[1] + b * single[2]),
              two = w * (o * twofold[0] + a * twofold[1] + b * twofold[2]);
      const T g = joined_parts<T>(slopes, q);
      sum.value += one * joined_parts<T>(values, q) -
                   two * g * (normal[0] * x[0][q] + normal[1] * x[1][q] + normal[2] * x[2][q]);
      for (std::size_t k = 0; k < 3; ++k) sum.gradient[k] += one * g * x[k][q];
    }
    return;
  }
  if (depth == 0) {
    const Corners seen{c[0] - p, c[1] - p, c[2] - p};
    const T one = (single[0] + single[1] + single[2]) / (3 * four_pi),
            two = (twofold[0] + twofold[1] + twofold[2]) / (3 * four_pi);
    Point field = field_at_origin(seen);
    // In the plane, up to rounding errors, what jumps has the mean of both sides, which is 0.
    if (std::abs(inner_product(normal, seen[0])) < 1e-9 * std::sqrt(longest))
      field = field - inner_product(normal, field) * normal;
    sum.value += one * potential_at_origin(seen) + two * inner_product(normal, field);
    if constexpr (is_complex<T>) sum.value += one * T(0, wavenumber_) * area;
    for (std::size_t k = 0; k < 3; ++k) sum.gradient[k] -= one * field[k];
    return;
  }
  const auto halfway = [](const auto& v) {
    return std::array{0.5 * (v[0] + v[1]), 0.5 * (v[1] + v[2]), 0.5 * (v[2] + v[0])};
  };
  const auto m = halfway(c);
  const auto s = halfway(single), t = halfway(twofold);
  add_near({c[0], m[0], m[2]}, {single[0], s[0], s[2]}, {twofold[0], t[0], t[2]}, normal, p, depth - 1, sum);
  add_near({m[0], c[1], m[1]}, {s[0], single[1], s[1]}, {t[0], twofold[1], t[1]}, normal, p, depth - 1, sum);
  add_near({m[2], m[1], c[2]}, {s[2], s[1], single[2]}, {t[2], t[1], twofold[2]}, normal, p, depth - 1, sum);
  add_near({m[0], m[1], m[2]}, {s[0], s[1], s[2]}, {t[0], t[1], t[2]}, normal, p, depth - 1, sum);
}

template <class T>
auto Representation<T>::sum_at(const Densities& of, const Point& p) const -> Sum {
  Sum sum;
  const std::size_t n = corners_.size();
  for (std::size_t begin = 0; begin < n; begin += together) {
    const std::size_t end = std::min(n, begin + together);
    bool close[together], any = false;
    for (std::size_t t = begin; t < end; ++t) {
      const Point d = p - centroid_[t];
      any |= close[t - begin] = inner_product(d, d) <= near * near * size2_[t];
    }
    if (!any) {
      add_points(of, points * begin, points * end, p, sum);
      continue;
    }
    for (std::size_t t = begin; t < end; ++t) {
      if (!close[t - begin]) add_points(of, points * t, points * (t + 1), p, sum);
      else add_near(corners_[t], of.single_at[t], of.twofold_at[t], normal_[t], p, deepest, sum);
    }
  }
  return sum;
}

template <class T>
void Representation<T>::potential(std::span<const T> single, std::span<const T> twofold, std::span<const Point> at,
                                  T* out) const {
  const Densities of = at_points(single, twofold);
  exec::parallel_for(
      at.size(), true, [&](std::size_t k) { out[k] = sum_at(of, at[k]).value; }, 4);
}

template <class T>
void Representation<T>::gradient(std::span<const T> single, std::span<const Point> at, std::array<T, 3>* out) const {
  Densities of = at_points(single, {});
  of.gradient = true;
  exec::parallel_for(
      at.size(), true, [&](std::size_t k) { out[k] = sum_at(of, at[k]).gradient; }, 4);
}

// exp(i k |x - y|) / (4 pi |x - y|) behaves as exp(i k r) / (4 pi r) times exp(-i k d . y) far away in direction d.
template <class T>
void Representation<T>::far_field(std::span<const T> single, std::span<const T> twofold,
                                  std::span<const Point> directions, T* out) const {
  const Densities of = at_points(single, twofold);
  exec::parallel_for(
      directions.size(), true,
      [&](std::size_t k) {
        const Point& d = directions[k];
        double re = 0, im = 0;
        for (std::size_t q = 0; q < x_[0].size(); ++q) {
          double s, c;
          sine_and_cosine(-wavenumber_ * (d[0] * x_[0][q] + d[1] * x_[1][q] + d[2] * x_[2][q]), s, c);
          // The derivative along the normal is -i k d . n times the exponential.
          double dipole[2] = {};
          for (std::size_t a = 0; a < 3; ++a)
            dipole[0] += d[a] * of.dipole[a][0][q], dipole[1] += d[a] * of.dipole[a][1][q];
          const double a = of.charge[0][q] + wavenumber_ * dipole[1], b = of.charge[1][q] - wavenumber_ * dipole[0];
          re += a * c - b * s, im += a * s + b * c;
        }
        if constexpr (is_complex<T>) out[k] = T(re, im);
        else out[k] = re;
      },
      4);
}

template class Representation<double>;
template class Representation<std::complex<double>>;

}  // namespace tacit::app::bem
