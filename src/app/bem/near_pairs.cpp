#include "near_pairs.hpp"

#include "distance.hpp"
#include "kernel_values.hpp"
#include "pair_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

namespace tacit::app::bem {
namespace {

constexpr int deepest = 14;          // halvings of the outer triangle
constexpr double most_edges = 1.01;  // an outer piece is at most so many times as long as the inner triangle
constexpr std::size_t inside = 16;   // points on the inner triangle, for what is smooth

// A point of the outer triangle, with its second and third barycentric coordinates in the whole one.
struct Place {
  Point at;
  double second = 0, third = 0;
};
Place between(double s, const Place& a, const Place& b) {
  return {(1 - s) * a.at + s * b.at, (1 - s) * a.second + s * b.second, (1 - s) * a.third + s * b.third};
}
using Outer = std::array<Place, 3>;

Corners corners_of(const Outer& t) {
  return {t[0].at, t[1].at, t[2].at};
}

// Integrals over a triangle of 1, and of its second and third barycentric coordinate, times 1 / r and times the
// derivative of 1 / r along its normal.
class Inner {
 public:
  explicit Inner(const Corners& t) : t_(t) {
    const Point twice = cross(t[1] - t[0], t[2] - t[0]);
    area_ = length(twice) / 2;
    normal_ = (1 / (2 * area_)) * twice;
    for (std::size_t k = 0; k < 3; ++k) {
      const Point e = t[(k + 1) % 3] - t[k];
      edge_[k] = length(e);
      outwards_[k] = (1 / edge_[k]) * cross(e, normal_);
    }
    // Of the function that is 1 at corner k: against the normal of the opposite edge, over the height.
    for (std::size_t k = 0; k < 2; ++k) {
      const std::size_t opposite = (k + 2) % 3;
      slope_[k] = (-edge_[opposite] / (2 * area_)) * outwards_[opposite];
    }
    longest_ = *std::max_element(edge_, edge_ + 3);
  }

  void at(const Point& p, double (&value)[3], double (&derivative)[3]) const {
    const Corners seen{t_[0] - p, t_[1] - p, t_[2] - p};
    const double height = -inner_product(normal_, seen[0]);
    double r[3], logs[3];
    for (std::size_t k = 0; k < 3; ++k) r[k] = length(seen[k]);
    Point first{}, second{};  // of (y - foot) / r, and of (y - foot) / r^3 but for the sign
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t l = (k + 1) % 3;
      const Point e = seen[l] - seen[k];
      const double less = std::max(ends_less_edge(seen[k].data(), e.data(), edge_[k], r[k], r[l]), 1e-300);
      logs[k] = std::log((r[k] + r[l] + edge_[k]) / less);
      const double from = inner_product(seen[k], e) / edge_[k], to = inner_product(seen[l], e) / edge_[k];
      const double across = inner_product(seen[k], outwards_[k]);
      const double part = 0.5 * ((across * across + height * height) * logs[k] + to * r[l] - from * r[k]);
      first = first + part * outwards_[k], second = second + logs[k] * outwards_[k];
    }
    value[0] = potential_at_origin(seen);
    derivative[0] = inner_product(normal_, field_at_origin(seen));
    const Point foot = p - t_[0];
    for (std::size_t k = 0; k < 2; ++k) {
      const double here = inner_product(slope_[k], foot);
      value[k + 1] = here * value[0] + inner_product(slope_[k], first);
      derivative[k + 1] = here * derivative[0] - height * inner_product(slope_[k], second);
    }
  }

  const Corners& corners() const { return t_; }
  const Point& normal() const { return normal_; }
  double area() const { return area_; }
  double longest() const { return longest_; }

 private:
  Corners t_;
  Point normal_, outwards_[3], slope_[2];
  double edge_[3], area_, longest_;
};

// One pass: the outer triangle by points, the inner one exactly.
template <class T>
class Pass {
 public:
  // value: what 1 / r is multiplied by; slope: what its derivative along the inner triangle's normal is.
  // outer_is_first: whether points x are outside. plain: whether the sum of G is wanted.
  Pass(const Inner& inner, double wavenumber, T value, double slope, bool outer_is_first, bool plain,
       PairMoments<T>& to)
      : inner_(inner),
        wavenumber_(wavenumber),
        value_(value),
        slope_(slope),
        outer_is_first_(outer_is_first),
        plain_(plain),
        to_(to) {}

  void add(const Outer& t, int depth);

 private:
  void point(const Place& p, double weight);
  void add_waves(const Point& p, double weight, T (&of)[3], T& plain) const;
  void graded_to_edge(const Place& a, const Place& b, const Place& c, const GaussRule& rule);
  void graded_to_corner(const Place& a, const Place& b, const Place& c);
  void apart(const Outer& t, int depth);

  const Inner& inner_;
  double wavenumber_;
  T value_;
  double slope_;
  bool outer_is_first_, plain_;
  PairMoments<T>& to_;
};

// What waves add: (exp(i k r) - 1) / r and the derivative of this.
template <class T>
void Pass<T>::add_waves(const Point& p, double weight, T (&of)[3], T& plain) const {
  if constexpr (is_complex<T>) {
    const TriangleRule& rule = triangle_rule(int(inside));
    const Corners& t = inner_.corners();
    for (std::size_t q = 0; q < inside; ++q) {
      const double a = rule.second[q], b = rule.third[q], w = weight * rule.w[q] * inner_.area();
      const Point d = p - (t[0] + (a * (t[1] - t[0]) + b * (t[2] - t[0])));
      const double r = length(d), x = wavenumber_ * r;
      double s, c, half_s, half_c;
      sine_and_cosine(x, s, c), sine_and_cosine(x / 2, half_s, half_c);
      const T more = 2 * half_s * T(-half_s, half_c) / r;
      // Minus the derivative along d over r; of 1 / r it is 1 / r^3. A series where that of both cancels.
      const T fall =
          x > 1e-3 ? (T(1, -x) * T(c, s) - 1.0) / (r * r * r) : T(0.5, x / 3) * wavenumber_ * wavenumber_ / r;
      const T here = w * (value_ * more + slope_ * inner_product(inner_.normal(), d) * fall);
      of[0] += here, of[1] += a * here, of[2] += b * here;
      plain += w * more;
    }
  }
}

template <class T>
void Pass<T>::point(const Place& p, double weight) {
  double value[3], derivative[3];
  inner_.at(p.at, value, derivative);
  T of[3], plain = weight * value[0];
  for (int k = 0; k < 3; ++k) of[k] = weight * (value_ * value[k] + T(slope_ * derivative[k]));
  if (wavenumber_ > 0) add_waves(p.at, weight, of, plain);
  const double outer[3] = {1, p.second, p.third};
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) (outer_is_first_ ? to_.with[a][b] : to_.with[b][a]) += outer[a] * of[b];
  if (plain_) to_.plain += plain;
}

// Triangles with the edge from a to b in common with the inner one, where the potential behaves like t log t.
template <class T>
void Pass<T>::graded_to_edge(const Place& a, const Place& b, const Place& c, const GaussRule& rule) {
  const double area = area_of({a.at, b.at, c.at});
  for (std::size_t i = 0; i < rule.x.size(); ++i) {
    const double u = rule.x[i], t = u * u * u, weight = rule.w[i] * 3 * u * u * (1 - t);
    for (std::size_t j = 0; j < rule.x.size(); ++j) {
      const double v = rule.x[j], s = v * v * (3 - 2 * v);
      point(between(t, between(s, a, b), c), 2 * area * weight * rule.w[j] * 6 * v * (1 - v));
    }
  }
}

// Triangles with the corner a in common.
template <class T>
void Pass<T>::graded_to_corner(const Place& a, const Place& b, const Place& c) {
  const GaussRule& rule = gauss_rule(12);
  const double area = area_of({a.at, b.at, c.at});
  for (std::size_t i = 0; i < rule.x.size(); ++i) {
    const double u = rule.x[i], t = u * u, weight = rule.w[i] * 2 * u * t;
    for (std::size_t j = 0; j < rule.x.size(); ++j) {
      const double v = rule.x[j], s = v * v * (3 - 2 * v);
      point(between(t, a, between(s, b, c)), 2 * area * weight * rule.w[j] * 6 * v * (1 - v));
    }
  }
}

// The longest edge is divided, so that slim triangles give few pieces.
std::array<Outer, 2> halves(const Outer& t, double& longest) {
  std::size_t cut = 0;
  longest = 0;
  for (std::size_t k = 0; k < 3; ++k)
    if (const double edge = length(t[(k + 1) % 3].at - t[k].at); edge > longest) longest = edge, cut = k;
  const Place &a = t[cut], &b = t[(cut + 1) % 3], &c = t[(cut + 2) % 3], middle_of = between(0.5, a, b);
  return {Outer{a, middle_of, c}, Outer{middle_of, b, c}};
}

template <class T>
void Pass<T>::apart(const Outer& t, int depth) {
  const Place c = between(1.0 / 3, between(0.5, t[0], t[1]), t[2]);
  double longest;
  const auto parts = halves(t, longest);
  if (depth > 0 && longest > 0.8 * distance_to(inner_.corners(), c.at))
    return apart(parts[0], depth - 1), apart(parts[1], depth - 1);
  const double area = area_of(corners_of(t));
  point(c, 0.225 * area);
  for (const Place& corner : t)
    for (const auto& [to, weight] : {std::pair{inner, inner_weight}, std::pair{outer, outer_weight}})
      point(between(to, c, corner), weight * area);
}

template <class T>
void Pass<T>::add(const Outer& t, int depth) {
  std::array<std::size_t, 3> common{};
  std::size_t count = 0;
  for (std::size_t k = 0; k < 3; ++k)
    for (const Point& p : inner_.corners())
      if (t[k].at == p) {
        common[count++] = k;
        break;
      }
  if (count == 0) return apart(t, depth);
  double longest;
  const auto parts = halves(t, longest);
  if (count == 1 && depth > 0 && longest > most_edges * inner_.longest())
    return add(parts[0], depth - 1), add(parts[1], depth - 1);
  if (count == 1) return graded_to_corner(t[common[0]], t[(common[0] + 1) % 3], t[(common[0] + 2) % 3]);
  if (count == 2) return graded_to_edge(t[common[0]], t[common[1]], t[3 - common[0] - common[1]], gauss_rule(12));
  const Place c = between(1.0 / 3, between(0.5, t[0], t[1]), t[2]);
  for (std::size_t k = 0; k < 3; ++k) graded_to_edge(t[k], t[(k + 1) % 3], c, gauss_rule(16));
}

}  // namespace

template <class T>
void add_near_pair(const Corners& first, const Corners& second, const BoundaryForm<T>& form, PairMoments<T>& to) {
  const Inner x(first), y(second);
  const auto outer = [](const Corners& t) { return Outer{Place{t[0], 0, 0}, Place{t[1], 1, 0}, Place{t[2], 0, 1}}; };
  const T value = form.single_layer -
                  form.hypersingular * (form.wavenumber * form.wavenumber * inner_product(x.normal(), y.normal()));
  // G is symmetric: over the smaller triangle points are as dense as its potential needs.
  const bool first_is_outer = x.area() <= y.area();
  const auto pass = [&](const T& single, double slope, bool outer_is_first, bool plain) {
    if (single == T{} && slope == 0 && !plain) return;
    Pass<T>(outer_is_first ? y : x, form.wavenumber, single, slope, outer_is_first, plain, to)
        .add(outer(outer_is_first ? first : second), deepest);
  };
  pass(first_is_outer ? value : T{}, form.double_layer, true, first_is_outer);
  pass(first_is_outer ? T{} : value, form.adjoint, false, !first_is_outer);
}

template void add_near_pair(const Corners&, const Corners&, const BoundaryForm<double>&, PairMoments<double>&);
template void add_near_pair(const Corners&, const Corners&, const BoundaryForm<std::complex<double>>&,
                            PairMoments<std::complex<double>>&);

}  // namespace tacit::app::bem
