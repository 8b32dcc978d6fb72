// Boundary operators by Galerkin's method: entries against brute force and each other, eigenvalues on the sphere,
// potentials of layers at points, matrices on several ranks.
#include <gtest/gtest.h>
#include <tacit/app/bem/boundary_matrix.hpp>
#include <tacit/app/bem/representation.hpp>
#include <tacit/app/bem/single_layer.hpp>
#include <tacit/base/error.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>

using namespace tacit;
using namespace tacit::app::bem;
using std::numbers::pi;
using C = std::complex<double>;

namespace {

std::vector<Global> numbers(Global n) {
  std::vector<Global> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Global(0));
  return all;
}
template <class T>
std::vector<T> dense(const BoundaryLayer<T>& layer) {
  const auto all = numbers(layer.size());
  std::vector<T> a(all.size() * all.size());
  layer(all, all, a.data());
  return a;
}
template <class T>
double largest(const std::vector<T>& a) {
  double most = 0;
  for (const T& value : a) most = std::max(most, std::abs(value));
  return most;
}
BoundaryForm<double> single() {
  BoundaryForm<double> form;
  form.single_layer = 1;
  return form;
}
// All operators of waves at once.
BoundaryForm<C> waves(double k) {
  BoundaryForm<C> form;
  form.single_layer = C(0.3, -1), form.double_layer = -1, form.adjoint = 0.7, form.hypersingular = C(0, 1 / k);
  form.mass = 0.5, form.wavenumber = k;
  return form;
}

// The mean of triangle 1's potential over triangle 0, by the exact potential at the centroids of many pieces.
double by_pieces(const Mesh& mesh, int cuts) {
  const auto& t = mesh.triangles[0];
  const Point &a = mesh.vertices[std::size_t(t[0])], &b = mesh.vertices[std::size_t(t[1])],
              &c = mesh.vertices[std::size_t(t[2])];
  const SingleLayer layer({mesh.vertices, {mesh.triangles[1]}}, 1e-13);
  std::vector<Point> points;
  for (int i = 0; i < cuts; ++i)
    for (int j = 0; i + j < cuts; ++j)
      for (const bool upper : {false, true}) {
        if (upper && i + j + 2 > cuts) continue;
        const double u = (i + (upper ? 2.0 : 1.0) / 3) / cuts, v = (j + (upper ? 2.0 : 1.0) / 3) / cuts;
        Point p;
        for (std::size_t d = 0; d < 3; ++d) p[d] = a[d] + u * (b[d] - a[d]) + v * (c[d] - a[d]);
        points.push_back(p);
      }
  std::vector<double> phi(points.size());
  const double one = 1;
  layer.potential({&one, 1}, points, phi.data());
  return std::accumulate(phi.begin(), phi.end(), 0.0) / double(points.size());
}

TEST(BoundaryLayer, IntegratesTrianglesThatTouchInAnyWay) {
  const Point a{0, 0, 0}, b{1, 0, 0}, c{0.3, 0.9, 0}, d{0.4, -0.8, 0.3}, e{-0.7, -0.2, 0.4}, f{-0.6, -0.9, 0.1};
  const Point half{0.5, 0, 0}, third{0.37, 0, 0}, thin{0.5, 0.05, 0}, sharp{1, 0.15, 0.02}, wide{0.9, 0.4, 0.3};
  const struct {
    Mesh mesh;
    double within;
  } cases[] = {
      // mostly brute force's error
      {{{a, b, c, d}, {{0, 1, 2}, {1, 0, 3}}}, 1e-5},               // an edge in common
      {{{a, b, c, e, f}, {{0, 1, 2}, {0, 3, 4}}}, 5e-6},            // a corner
      {{{a, b, c}, {{0, 1, 2}, {0, 1, 2}}}, 1e-5},                  // the same
      {{{a, b, thin}, {{0, 1, 2}, {0, 1, 2}}}, 3e-5},               // the same, slim
      {{{a, b, thin, d}, {{0, 1, 2}, {1, 0, 3}}}, 1e-5},            // slim, with an edge
      {{{a, b, thin, sharp, wide}, {{0, 1, 2}, {0, 3, 4}}}, 1e-5},  // narrow at a corner
      {{{a, b, c, half, d}, {{0, 1, 2}, {3, 0, 4}}}, 1e-5},         // half an edge
      {{{a, b, c, third, d}, {{0, 1, 2}, {3, 0, 4}}}, 1e-5},        // a part of an edge
      {{{a, b, c, {0.1, 0.1, 0.05}, {0.9, 0, 0.1}, {0.2, 0.7, 0.06}}, {{0, 1, 2}, {3, 4, 5}}}, 1e-5},  // over it
  };
  for (const auto& [mesh, within] : cases) {
    const BoundaryLayer<double> layer(mesh, Elements::constant, single(), 1e-7);
    const auto entries = dense(layer);
    const double truth = by_pieces(mesh, 400) * mesh.area(0) / (4 * pi);
    EXPECT_NEAR(entries[2], truth, within * truth) << truth;
    EXPECT_NEAR(entries[1], entries[2], within * truth);
  }
}

TEST(BoundaryLayer, IsTheSameForAnyRequest) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Mesh mesh = joined(geodesic_sphere(3), moved(ellipsoid(2, {0.3, 0.5, 0.2}), {2.6, 0.2, 0.1}));
  const BoundaryLayer<C> layer(mesh, Elements::linear, waves(2), 1e-4);
  const auto a = dense(layer), truth = dense(BoundaryLayer<C>(mesh, Elements::linear, waves(2), 1e-7));
  const auto all = numbers(layer.size());
  const std::size_t n = all.size();
  const double most = largest(truth);
  for (std::size_t k = 0; k < a.size(); ++k) ASSERT_LT(std::abs(a[k] - truth[k]), 1e-4 * most);
  std::vector<C> line(n);
  for (const Global i : {Global(5), Global(n - 1)}) {
    layer({&i, 1}, all, line.data());
    for (std::size_t j = 0; j < n; ++j) ASSERT_LT(std::abs(line[j] - a[std::size_t(i) + j * n]), 1e-13 * most);
    layer(all, {&i, 1}, line.data());
    for (std::size_t j = 0; j < n; ++j) ASSERT_LT(std::abs(line[j] - a[j + std::size_t(i) * n]), 1e-13 * most);
  }
}

// K' is the transpose of K, V and W are symmetric, and waves of little k are Laplace's.
TEST(BoundaryLayer, OperatorsBelongTogether) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Mesh mesh = ellipsoid(2, {1, 0.7, 1.4});
  for (const auto elements : {Elements::constant, Elements::linear}) {
    BoundaryForm<C> k, adjoint, v;
    k.double_layer = adjoint.adjoint = 1, v.single_layer = 1;
    k.wavenumber = adjoint.wavenumber = v.wavenumber = 1.5;
    const auto a = dense(BoundaryLayer<C>(mesh, elements, k, 1e-6)),
               b = dense(BoundaryLayer<C>(mesh, elements, adjoint, 1e-6)),
               s = dense(BoundaryLayer<C>(mesh, elements, v, 1e-6));
    const std::size_t n = std::size_t(std::sqrt(double(a.size())) + 0.5);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        ASSERT_LT(std::abs(a[i + j * n] - b[j + i * n]), 1e-4 * largest(a));
        ASSERT_LT(std::abs(s[i + j * n] - s[j + i * n]), 1e-4 * largest(s));
      }
  }
  auto form = waves(1e-6);
  form.single_layer = 2, form.hypersingular = 0.5;
  BoundaryForm<double> still;
  still.single_layer = 2, still.hypersingular = 0.5, still.double_layer = -1, still.adjoint = 0.7, still.mass = 0.5;
  const auto wave = dense(BoundaryLayer<C>(mesh, Elements::linear, form, 1e-6));
  const auto laplace = dense(BoundaryLayer<double>(mesh, Elements::linear, still, 1e-6));
  for (std::size_t k = 0; k < wave.size(); ++k) ASSERT_LT(std::abs(wave[k] - laplace[k]), 1e-6 * largest(laplace));
}

// On spherical harmonics of degree l: V 1 / (2 l + 1), K and K' -1 / (2 (2 l + 1)), W l (l + 1) / (2 l + 1); with waves
// V i k j h, j and h of l at k.
TEST(BoundaryLayer, HasTheEigenvaluesOfTheSphere) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  for (const auto elements : {Elements::constant, Elements::linear}) {
    double errors[2][4][3];
    for (int fine = 0; fine < 2; ++fine) {
      const Mesh mesh = geodesic_sphere(fine ? 4 : 2);
      const auto quotient = [&](const auto& form, int degree) {
        const auto a = dense(BoundaryLayer(mesh, elements, form, 1e-5));
        const std::size_t n = std::size_t(std::sqrt(double(a.size())) + 0.5);
        std::vector<double> y;
        for (std::size_t i = 0; i < n; ++i) {
          const Point p = elements == Elements::linear ? mesh.vertices[i] : mesh.centroid(Local(i));
          const double z = p[2] / std::sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
          y.push_back(degree == 0 ? 1 : degree == 1 ? z : 1.5 * z * z - 0.5);
        }
        double sum = 0;
        for (std::size_t j = 0; j < n; ++j)
          for (std::size_t i = 0; i < n; ++i) sum += y[i] * a[i + j * n] * y[j];
        return sum;
      };
      BoundaryForm<double> forms[5] = {single()};
      forms[1].double_layer = forms[2].adjoint = 1;
      if (elements == Elements::linear) forms[3].hypersingular = 1;
      forms[4].mass = 1;
      for (int l = 0; l < 3; ++l) {
        const double exact[] = {1.0 / (2 * l + 1), -0.5 / (2 * l + 1), -0.5 / (2 * l + 1), l * (l + 1.0) / (2 * l + 1)};
        for (int kind = 0; kind < (elements == Elements::linear ? 4 : 3); ++kind)
          errors[fine][kind][l] = quotient(forms[kind], l) / quotient(forms[4], l) - exact[kind];
      }
    }
    for (int kind = 0; kind < (elements == Elements::linear ? 4 : 3); ++kind)
      for (int l = 0; l < 3; ++l) {
        EXPECT_LT(std::abs(errors[1][kind][l]), 0.015) << kind << ' ' << l;
        if (std::abs(errors[1][kind][l]) > 5e-5) {  // of order 2; of constants K and W are exact
          EXPECT_GT(errors[0][kind][l] / errors[1][kind][l], 3.2) << kind << ' ' << l;
        }
      }
  }
}

TEST(BoundaryLayer, RefusesWhatItCannotDo) {
  const Mesh mesh = geodesic_sphere(1);
  EXPECT_THROW((BoundaryLayer<C>(mesh, Elements::constant, waves(1), 1e-4)), Error);
  BoundaryForm<double> wave;
  wave.wavenumber = 1;
  EXPECT_THROW((BoundaryLayer<double>(mesh, Elements::linear, wave, 1e-4)), Error);
  EXPECT_THROW((BoundaryLayer<C>(mesh, Elements::linear, waves(NAN), 1e-4)), Error);
  Mesh loose = mesh;
  loose.vertices.push_back({5, 5, 5});
  EXPECT_THROW((BoundaryLayer<double>(loose, Elements::linear, single(), 1e-4)), Error);
  Mesh flat = mesh;
  flat.triangles.push_back({0, 1, 1});
  EXPECT_THROW((BoundaryLayer<double>(flat, Elements::linear, single(), 1e-4)), Error);
}

TEST(Representation, OfAConstantIsTheSolidAngle) {
  const Mesh mesh = ellipsoid(5, {1, 2, 0.8});
  const Representation<double> of(mesh, Elements::linear, 0);
  const std::vector<double> one(mesh.vertices.size(), 1.0);
  const std::vector<Point> points{{0.1, 0.2, 0.3}, {0, 1.9, 0}, {0, 0, 0.9}, {3, 3, 3}, mesh.centroid(7), {0.99, 0, 0}};
  std::vector<double> u(points.size());
  of.potential({}, one, points, u.data());
  const double expected[] = {-1, -1, 0, 0, -0.5};
  for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(u[k], expected[k], 2e-4) << k;
}

TEST(Representation, IsTheSingleLayerOfConstantDensities) {
  const Mesh mesh = geodesic_sphere(4);
  std::vector<double> sigma;
  for (Local t = 0; t < mesh.size(); ++t) sigma.push_back(1 + mesh.centroid(t)[0]);
  const std::vector<Point> points{mesh.centroid(3), {0.3, 0.2, 1.0}, {1.2, 0.1, -0.4}, {3, 4, -2}, mesh.vertices[5]};
  const SingleLayer exact(mesh, 1e-10, 1 / (4 * pi));
  const Representation<double> of(mesh, Elements::constant, 0);
  std::vector<double> truth(points.size()), value(points.size());
  std::vector<Point> field(points.size());
  std::vector<std::array<double, 3>> gradient(points.size());
  exact.potential(sigma, points, truth.data()), exact.field(sigma, points, field.data());
  of.potential(sigma, {}, points, value.data()), of.gradient(sigma, points, gradient.data());
  for (std::size_t k = 0; k < points.size(); ++k) {
    EXPECT_NEAR(value[k], truth[k], 2e-6) << k;
    for (std::size_t d = 0; d < 3 && k < 4; ++d) EXPECT_NEAR(gradient[k][d], -field[k][d], 2e-4) << k;
  }
}

TEST(Representation, OfWavesSolvesHelmholtzEquationAndHasItsFarField) {
  const Mesh mesh = ellipsoid(4, {0.5, 0.8, 0.6});
  const double k = 2.5, h = 0.02;
  const Representation<C> of(mesh, Elements::linear, k);
  std::vector<C> single_of, twofold;
  for (const Point& p : mesh.vertices) single_of.push_back(C(p[0], 1)), twofold.push_back(C(1, p[1] * p[2]));
  const Point at{1.1, 0.4, -0.5};
  std::vector<Point> around{at};
  for (std::size_t d = 0; d < 3; ++d)
    for (const double side : {-2 * h, -h, h, 2 * h}) around.push_back(at), around.back()[d] += side;
  std::vector<C> u(around.size());
  of.potential(single_of, twofold, around, u.data());
  C laplacian{};
  for (std::size_t d = 0; d < 3; ++d)
    laplacian +=
        (-u[4 * d + 1] + 16.0 * u[4 * d + 2] - 30.0 * u[0] + 16.0 * u[4 * d + 3] - u[4 * d + 4]) / (12 * h * h);
  EXPECT_LT(std::abs(laplacian + k * k * u[0]), 1e-4 * k * k * std::abs(u[0]));
  const Point direction{2.0 / 3, -1.0 / 3, 2.0 / 3};
  const double r = 2e4;
  const Point away{r * direction[0], r * direction[1], r * direction[2]};
  C far, value;
  of.far_field(single_of, twofold, {&direction, 1}, &far);
  of.potential(single_of, twofold, {&away, 1}, &value);
  EXPECT_LT(std::abs(value * r * std::exp(C(0, -k * r)) - far), 1e-3 * std::abs(far));
}

TEST(BoundaryMatrix, IsTheSameOnAnyNumberOfRanks) {
  const Mesh mesh = geodesic_sphere(5);
  const auto alone = dense(BoundaryLayer<C>(mesh, Elements::linear, waves(1.5), 1e-5));
  test::on_ranks([&](const comm::Communicator& comm) {
    op::HMatrixOptions options;
    options.tolerance = 1e-4;
    const auto made = boundary_matrix<C>(comm, mesh, Elements::linear, waves(1.5), 0.1, {.leaf_size = 16}, options);
    EXPECT_GT(made.matrix->report().low_rank_blocks, 0);
    EXPECT_LE(made.matrix->report().measured_error, 2e-4);
    const std::size_t n = made.order.size();
    layout::Vector<C> x(made.matrix->domain()), y(made.matrix->range());
    const std::size_t first = std::size_t(x.space().begin());
    const auto value = [](Global i) { return C(std::sin(double(i)), std::cos(double(i * i))); };
    for (std::size_t k = 0; k < x.size(); ++k) x.data()[k] = value(made.order[first + k]);
    made.matrix->apply(x, y);
    double error = 0, size = 0;
    for (std::size_t k = 0; k < y.size(); ++k) {
      const std::size_t i = std::size_t(made.order[first + k]);
      C sum{};
      for (std::size_t j = 0; j < n; ++j) sum += alone[i + j * n] / (made.root[i] * made.root[j]) * value(Global(j));
      error += std::norm(sum - y.data()[k]), size += std::norm(sum);
    }
    EXPECT_LT(std::sqrt(error), 2e-3 * std::sqrt(size));
  });
}

}  // namespace
