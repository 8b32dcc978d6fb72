#include "pair_rules.hpp"

#include <tacit/app/bem/integrals.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace tacit::app::bem {
namespace {

// By Newton's method for the roots of the Legendre polynomial.
GaussRule gauss(int n) {
  GaussRule made;
  for (int i = 0; i < n; ++i) {
    double x = std::cos(std::numbers::pi * (i + 0.75) / (n + 0.5)), slope = 1;
    for (int step = 0; step < 50; ++step) {
      double before = 1, value = x;
      for (int k = 2; k <= n; ++k) {
        const double next = ((2 * k - 1) * x * value - (k - 1) * before) / k;
        before = value, value = next;
      }
      slope = n * (x * value - before) / (x * x - 1);
      const double change = value / slope;
      x -= change;
      if (std::abs(change) < 1e-15) break;
    }
    made.x.push_back((1 - x) / 2), made.w.push_back(1 / ((1 - x * x) * slope * slope));
  }
  return made;
}

using Place = std::array<double, 4>;

void add(PairRule& rule, const Place& at, double weight) {
  rule.x1.push_back(at[0]), rule.x2.push_back(at[1]), rule.y1.push_back(at[2]), rule.y2.push_back(at[3]);
  rule.w.push_back(weight);
}
Place turned(const Place& at) {
  return {at[2], at[3], at[0], at[1]};
}

// The parts of a pair of triangles at the point (s, a, b, c) of the unit cube. In each of them the distance of x and y
// is s times an analytic function without zeros, and the weights have the powers that cancel 1 / s and more.
void add_same(PairRule& rule, double s, double a, double b, double c, double w) {
  const double weight = w * s * s * s * a * a * b;
  const Place parts[] = {{s, s * (1 - a + a * b), s * (1 - a * b * c), s * (1 - a)},
                         {s, s * a * (1 - b + b * c), s * (1 - a * b), s * a * (1 - b)},
                         {s * (1 - a * b * c), s * a * (1 - b * c), s, s * a * (1 - b)}};
  for (const Place& part : parts) add(rule, part, weight), add(rule, turned(part), weight);
}
void add_edge(PairRule& rule, double s, double a, double b, double c, double w) {
  const double weight = w * s * s * s * a * a;
  add(rule, {s, s * a * c, s * (1 - a * b), s * a * (1 - b)}, weight);
  add(rule, {s, s * a, s * (1 - a * b * c), s * a * b * (1 - c)}, weight * b);
  add(rule, {s * (1 - a * b), s * a * (1 - b), s, s * a * b * c}, weight * b);
  add(rule, {s * (1 - a * b * c), s * a * b * (1 - c), s, s * a}, weight * b);
  add(rule, {s * (1 - a * b * c), s * a * (1 - b * c), s, s * a * b}, weight * b);
}
void add_vertex(PairRule& rule, double s, double a, double b, double c, double w) {
  const double weight = w * s * s * s * b;
  add(rule, {s, s * a, s * b, s * b * c}, weight);
  add(rule, {s * b, s * b * c, s, s * a}, weight);
}

PairRule touching(Common common, int order) {
  PairRule rule;
  const GaussRule& g = gauss_rule(order);
  for (std::size_t i = 0; i < g.x.size(); ++i)
    for (std::size_t j = 0; j < g.x.size(); ++j)
      for (std::size_t k = 0; k < g.x.size(); ++k)
        for (std::size_t l = 0; l < g.x.size(); ++l) {
          const double w = g.w[i] * g.w[j] * g.w[k] * g.w[l];
          if (common == Common::all) add_same(rule, g.x[i], g.x[j], g.x[k], g.x[l], w);
          else if (common == Common::edge) add_edge(rule, g.x[i], g.x[j], g.x[k], g.x[l], w);
          else add_vertex(rule, g.x[i], g.x[j], g.x[k], g.x[l], w);
        }
  return rule;
}

PairRule apart(int points) {
  const TriangleRule& one = triangle_rule(points);
  PairRule rule;
  for (std::size_t i = 0; i < one.w.size(); ++i)
    for (std::size_t j = 0; j < one.w.size(); ++j)
      add(rule, {one.second[i] + one.third[i], one.third[i], one.second[j] + one.third[j], one.third[j]},
          one.w[i] * one.w[j] / 4);
  return rule;
}

// Adds the points with these barycentric coordinates, in every order.
void add_orbit(TriangleRule& rule, double weight, std::array<double, 3> at) {
  std::sort(at.begin(), at.end());
  do {
    rule.second.push_back(at[1]), rule.third.push_back(at[2]), rule.w.push_back(weight);
  } while (std::next_permutation(at.begin(), at.end()));
}

TriangleRule seven() {
  TriangleRule rule;
  add_orbit(rule, 0.225, {1.0 / 3, 1.0 / 3, 1.0 / 3});
  for (const auto& [to, weight] : {std::pair{inner, inner_weight}, std::pair{outer, outer_weight}})
    add_orbit(rule, weight, {(1 + 2 * to) / 3, (1 - to) / 3, (1 - to) / 3});
  return rule;
}

TriangleRule sixteen() {
  TriangleRule rule;
  add_orbit(rule, 0.144315607677787, {1.0 / 3, 1.0 / 3, 1.0 / 3});
  add_orbit(rule, 0.095091634267285, {0.081414823414554, 0.459292588292723, 0.459292588292723});
  add_orbit(rule, 0.103217370534718, {0.658861384496480, 0.170569307751760, 0.170569307751760});
  add_orbit(rule, 0.032458497623198, {0.898905543365938, 0.050547228317031, 0.050547228317031});
  add_orbit(rule, 0.027230314174435, {0.008394777409958, 0.263112829634638, 0.728492392955404});
  return rule;
}

}  // namespace

const GaussRule& gauss_rule(int n) {
  static const auto rules = [] {
    std::array<GaussRule, 16> made;
    for (int k = 0; k < 16; ++k) made[std::size_t(k)] = gauss(k + 1);
    return made;
  }();
  return rules[std::size_t(std::clamp(n, 1, 16) - 1)];
}

const PairRule& touching_rule(Common common, int order) {
  constexpr int least = 3, most = 8;
  static const auto rules = [] {
    std::array<std::array<PairRule, most - least + 1>, 3> made;
    for (int kind = 0; kind < 3; ++kind)
      for (int n = least; n <= most; ++n)
        made[std::size_t(kind)][std::size_t(n - least)] = touching(Common(kind + 1), n);
    return made;
  }();
  return rules[std::size_t(int(common) - 1)][std::size_t(std::clamp(order, least, most) - least)];
}

const PairRule& apart_rule(int points) {
  static const PairRule few = apart(7), many = apart(16);
  return points == 7 ? few : many;
}

const TriangleRule& triangle_rule(int points) {
  static const TriangleRule few = seven(), many = sixteen();
  return points == 7 ? few : many;
}

}  // namespace tacit::app::bem
