// The projector against rays clipped pixel by pixel, and reconstructions against known results.
#include <gtest/gtest.h>
#include <tacit/app/tomography/projector.hpp>
#include <tacit/app/tomography/reconstruct.hpp>
#include <tacit/op/function.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numbers>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using namespace tacit::app::tomography;
using comm::Communicator;
using layout::Vector;

namespace {

Geometry geometry(Local width, Local height, Local detectors, std::vector<double> degrees, double centre,
                  double pixel = 1) {
  Geometry g{width, height, detectors, std::move(degrees), centre, pixel};
  for (double& t : g.angles) t *= std::numbers::pi / 180;
  return g;
}

// Length of the line x cos t + y sin t = r inside a box, by the slab method.
double clipped(double t, double r, double left, double right, double low, double high) {
  const double c = std::cos(t), s = std::sin(t);
  double from = -1e9, to = 1e9;
  const double point[] = {r * c, r * s}, way[] = {-s, c}, least[] = {left, low}, most[] = {right, high};
  for (int axis = 0; axis < 2; ++axis) {
    if (std::abs(way[axis]) < 1e-12) {
      if (point[axis] < least[axis] || point[axis] >= most[axis]) return 0;
      continue;
    }
    const double a = (least[axis] - point[axis]) / way[axis], b = (most[axis] - point[axis]) / way[axis];
    from = std::max(from, std::min(a, b));
    to = std::min(to, std::max(a, b));
  }
  return std::max(0.0, to - from);
}

std::vector<Geometry> geometries() {
  std::vector<double> many, few{0, 45, 90, 135, 180, 26.565051177077994};
  for (int i = 0; i < 23; ++i) many.push_back(i * 180.0 / 23 + 0.1);
  return {geometry(16, 16, 16, many, 8),      geometry(13, 7, 11, many, 5.2),  geometry(9, 14, 5, few, 2.5),
          geometry(1, 1, 3, few, 1.5),        geometry(20, 20, 1, {33}, 0.5),  geometry(12, 12, 17, few, 8.25),
          geometry(10, 10, 12, many, -3),     geometry(11, 11, 9, many, 20),   geometry(8, 8, 20, many, 10, 2.5),
          geometry(21, 21, 8, many, 4, 0.37), geometry(30, 30, 2, {10, 80}, 1)};
}

TEST(Projector, HasTheLengthOfEveryRayInEveryPixel) {
  for (const auto& g : geometries())
    for (const auto order : {Order::hilbert, Order::natural}) {
      const Projector projector(g, order);
      op::RowBuffer<double> rows, columns;
      rows.start = columns.start = {0};
      projector.ray_rows(0, Local(g.rays()), rows);
      projector.pixel_rows(0, Local(g.pixels()), columns);
      std::map<std::pair<Local, Local>, double> a, b;
      for (std::size_t i = 0; i < std::size_t(g.rays()); ++i)
        for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
          a[{projector.ray_order()[i], projector.pixel_order()[std::size_t(rows.column[k])]}] = rows.value[k];
      for (std::size_t i = 0; i < std::size_t(g.pixels()); ++i)
        for (auto k = std::size_t(columns.start[i]); k < std::size_t(columns.start[i + 1]); ++k)
          b[{projector.ray_order()[std::size_t(columns.column[k])], projector.pixel_order()[i]}] = columns.value[k];
      EXPECT_EQ(a, b);  // bit-identical
      EXPECT_EQ(a.size(), rows.column.size());
      for (Local ray = 0; ray < g.rays(); ++ray) {
        const double t = g.angles[std::size_t(ray / g.detectors)], r = ray % g.detectors + 0.5 - g.centre;
        double sum = 0;
        for (Local pixel = 0; pixel < g.pixels(); ++pixel) {
          const double x = (pixel % g.width - g.width / 2.0) * g.pixel,
                       y = (g.height / 2.0 - 1 - pixel / g.width) * g.pixel;
          const double expected = clipped(t, r, x, x + g.pixel, y, y + g.pixel);
          const auto found = a.find({ray, pixel});
          const double value = found == a.end() ? 0 : found->second;
          sum += value;
          // A ray along a common edge may be assigned to either of the two pixels.
          const bool edge = std::min(std::abs(std::cos(t)), std::abs(std::sin(t))) < 1e-10;
          if (edge) continue;
          ASSERT_NEAR(value, expected, 2e-8 * g.pixel + 1e-12) << "ray " << ray << ", pixel " << pixel;
        }
        const double w = g.width * g.pixel / 2, h = g.height * g.pixel / 2;
        ASSERT_NEAR(sum, clipped(t, r, -w, w, -h, h), 1e-6 * g.pixel * (1 + g.width)) << "ray " << ray;
      }
    }
}

TEST(Projector, KnowsItsEntriesBeforehand) {
  std::vector<double> angles;
  for (int i = 0; i < 50; ++i) angles.push_back(i * 3.6 + 0.3);
  for (const auto& g : {geometry(60, 40, 80, angles, 40), geometry(40, 40, 60, angles, 28, 1.4),
                        geometry(30, 30, 80, angles, 40, 0.3), geometry(40, 40, 40, angles, 500)}) {
    const Projector projector(g);
    const auto a = projector.matrix<float>(Communicator::self());
    const bool all = g.pixel < 1.4;  // rays see the whole image or none of it; else corners are badly estimated
    EXPECT_NEAR(projector.expected_entries(), double(a->entries()), (all ? 0.03 : 0.2) * double(a->entries()));
  }
}

TEST(Projector, RefusesWhatIsNoGeometry) {
  EXPECT_THROW(Projector(geometry(0, 5, 5, {0}, 2)), Error);
  EXPECT_THROW(Projector(geometry(5, 5, 0, {0}, 2)), Error);
  EXPECT_THROW(Projector(geometry(5, 5, 5, {}, 2)), Error);
  EXPECT_THROW(Projector(geometry(5, 5, 5, {0}, NAN)), Error);
  EXPECT_THROW(Projector(geometry(5, 5, 5, {NAN}, 2)), Error);
  EXPECT_THROW(Projector(geometry(5, 5, 5, {0}, 2, 0)), Error);
  EXPECT_THROW(Projector(geometry(60000, 60000, 5, {0}, 2)), Error);
}

template <class T>
std::vector<T> whole_of(const Vector<T>& v) {
  return v.space().comm().all_gather(std::span<const T>(v.data(), v.size()));
}

template <class T>
class Tomography : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Tomography, Reals);

TYPED_TEST(Tomography, ProjectsAlikeOnAnyNumberOfRanks) {
  using T = TypeParam;
  for (const auto& g : geometries()) {
    const Projector projector(g);
    const auto alone = projector.matrix<T>(Communicator::self());
    const int k = 3;
    const auto x = test::vector_of<T>(alone->domain(), 7, k), u = test::vector_of<T>(alone->range(), 8, k);
    Vector<T> y(alone->range(), k), v(alone->domain(), k);
    alone->apply(x, y);
    alone->apply_adjoint(u, v);
    // The adjoint identity (A x, u) = (x, A^T u).
    const double left = double(layout::dot(y, u)), right = double(layout::dot(x, v));
    EXPECT_NEAR(left, right, 200 * std::numeric_limits<T>::epsilon() * (layout::norm(y) * layout::norm(u) + 1e-30));
    test::on_ranks(
        [&](const Communicator& comm) {
          for (const comm::Groups& groups : {comm::Groups{}, comm::Groups{2}}) {
            op::TiledSpmmOptions o;
            o.groups = groups;
            o.minibatch = groups.empty() ? 0 : 2;
            const auto a = projector.matrix<T>(comm, o);
            EXPECT_EQ(a->entries(), alone->entries());
            const auto xr = test::vector_of<T>(a->domain(), 7, k), ur = test::vector_of<T>(a->range(), 8, k);
            Vector<T> yr(a->range(), k), vr(a->domain(), k);
            a->apply(xr, yr);
            a->apply_adjoint(ur, vr);
            const auto all_y = whole_of(yr), all_v = whole_of(vr);
            const double unit =
                64 * std::numeric_limits<T>::epsilon() * (g.width + g.height + double(g.angles.size())) * g.pixel;
            for (std::size_t i = 0; i < all_y.size(); ++i) ASSERT_NEAR(double(all_y[i]), double(y.data()[i]), unit);
            for (std::size_t i = 0; i < all_v.size(); ++i) ASSERT_NEAR(double(all_v[i]), double(v.data()[i]), unit);
          }
        },
        {2, 3, 5});
  }
}

// max |a_i - b_i|, in units of `scale`.
template <class T>
double apart(const std::vector<T>& a, const std::vector<T>& b, double scale) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(double(a[i]) - double(b[i])) / scale);
  return most;
}

op::TiledSpmmOptions in_format(op::TiledFormat format) {
  op::TiledSpmmOptions o;
  o.matrix.format = format;
  return o;
}

// Distances are accurate to a few 1e-9 bins (double: 1e-14); lengths amplify the error by the slope, at most 256 in
// float.
TYPED_TEST(Tomography, ComputesTheEntriesThatItStores) {
  using T = TypeParam;
  auto all = geometries();
  all.push_back(geometry(61, 45, 52, {3, 40, 45, 90, 0.3, 89.9, 135, 179.99, 200, 290}, 25.7));
  all.push_back(geometry(33, 50, 70, {10, 44, 46, 91, 160}, 40, 1.6));
  all.push_back(geometry(50, 50, 30, {10, 44, 46, 91, 160}, 15, 0.6));
  all.push_back(geometry(40, 40, 60, {0.02, 45, 89.97}, 33, 1.9));
  for (const auto& g : all) {
    const Projector projector(g);
    const auto stored = projector.matrix<T>(Communicator::self(), in_format(op::TiledFormat::list));
    const auto computed = projector.matrix<T>(Communicator::self(), in_format(op::TiledFormat::computed));
    EXPECT_TRUE(stored->stores_entries());
    EXPECT_FALSE(computed->stores_entries());
    EXPECT_EQ(computed->entries(), stored->entries());
    EXPECT_GE(computed->largest(), stored->largest() * (1 - 1e-6));
    EXPECT_LE(computed->largest(), std::numbers::sqrt2 * g.pixel * (1 + 1e-6));
    EXPECT_LT(computed->product(false).bytes(), stored->product(false).bytes() + 1e6);
    EXPECT_THROW(computed->forward(), Error);
    for (const int k : {1, 2, 3, 4, 5, 35, 64}) {  // from 32 on lanes are columns
      const auto x = test::vector_of<T>(stored->domain(), 7, k), u = test::vector_of<T>(stored->range(), 8, k);
      Vector<T> y(stored->range(), k), v(stored->domain(), k), yc(computed->range(), k), vc(computed->domain(), k);
      stored->apply(x, y);
      stored->apply_adjoint(u, v);
      computed->apply(test::vector_of<T>(computed->domain(), 7, k), yc);
      computed->apply_adjoint(test::vector_of<T>(computed->range(), 8, k), vc);
      const double unit = (sizeof(T) == 4 ? 1e-6 : 1e-12) * g.pixel;
      EXPECT_LE(apart(whole_of(y), whole_of(yc), unit * (g.width + g.height)), 1)
          << g.width << " x " << g.height << ", " << k << " columns";
      EXPECT_LE(apart(whole_of(v), whole_of(vc), unit * double(g.angles.size() + 4)), 1) << g.width << ", " << k;
      double left = 0, right = 0, size = 1e-30;
      for (std::size_t i = 0; i < yc.size(); ++i) left += double(yc.data()[i]) * double(u.data()[i]);
      for (std::size_t i = 0; i < vc.size(); ++i)
        right += double(vc.data()[i]) * double(x.data()[i]),
            size += std::abs(double(vc.data()[i]) * double(x.data()[i]));
      EXPECT_NEAR(left, right, (sizeof(T) == 4 ? 1e-6 : 1e-12) * size);
    }
  }
}

template <class T>
void expect_alike_on_ranks_and_threads(int k) {
  std::vector<double> angles;
  for (int i = 0; i < 37; ++i) angles.push_back(i * 180.0 / 37);
  const Projector projector(geometry(61, 50, 70, angles, 33.3));
  const auto alone = projector.matrix<T>(Communicator::self(), in_format(op::TiledFormat::computed));
  const auto x = test::vector_of<T>(alone->domain(), 7, k), u = test::vector_of<T>(alone->range(), 8, k);
  Vector<T> y(alone->range(), k), v(alone->domain(), k);
  alone->apply(x, y);
  alone->apply_adjoint(u, v);
  const auto all_y = whole_of(y), all_v = whole_of(v);
#ifdef _OPENMP
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    alone->apply(x, y);
    alone->apply_adjoint(u, v);
    EXPECT_EQ(whole_of(y), all_y);
    EXPECT_EQ(whole_of(v), all_v);
  }
  omp_set_num_threads(before);
#endif
  test::on_ranks(
      [&](const Communicator& comm) {
        for (const comm::Groups& groups : {comm::Groups{}, comm::Groups{2}}) {
          auto o = in_format(op::TiledFormat::computed);
          o.groups = groups;
          o.minibatch = groups.empty() ? 0 : 2;
          const auto a = projector.matrix<T>(comm, o);
          EXPECT_EQ(a->entries(), alone->entries());
          const auto xr = test::vector_of<T>(a->domain(), 7, k), ur = test::vector_of<T>(a->range(), 8, k);
          Vector<T> yr(a->range(), k), vr(a->domain(), k);
          a->apply(xr, yr);
          a->apply_adjoint(ur, vr);
          const double unit = sizeof(T) == 4 ? 1e-6 : 1e-13;
          EXPECT_LE(apart(whole_of(yr), all_y, 110 * unit), 1);
          EXPECT_LE(apart(whole_of(vr), all_v, 37 * unit), 1);
        }
      },
      {1, 2, 3, 4});
}
TYPED_TEST(Tomography, ComputesAlikeOnAnyNumberOfRanksAndThreads) {
  expect_alike_on_ranks_and_threads<TypeParam>(3);
}
TYPED_TEST(Tomography, ComputesManyColumnsAlikeOnAnyNumberOfRanksAndThreads) {
  expect_alike_on_ranks_and_threads<TypeParam>(33);
}

TEST(Projector, ComputesEntriesWhereFasterAndRefusesStoredProperties) {
  std::vector<double> angles;
  for (int i = 0; i < 30; ++i) angles.push_back(i * 6 + 0.7);
  const Projector projector(geometry(20, 20, 20, angles, 10)), fine(geometry(40, 40, 20, angles, 10, 0.3));
  const auto self = Communicator::self();
  auto o = in_format(op::TiledFormat::automatic);
  EXPECT_FALSE(projector.matrix<float>(self, o)->stores_entries());
  EXPECT_TRUE(fine.matrix<float>(self, o)->stores_entries());
  o.matrix.columns = Projector::computed_columns + 1;
  EXPECT_TRUE(projector.matrix<float>(self, o)->stores_entries());
  o = in_format(op::TiledFormat::automatic);
  o.matrix.values = op::Values::half;
  EXPECT_TRUE(projector.matrix<float>(self, o)->stores_entries());
  const auto refused = [&](auto change) {
    auto wrong = in_format(op::TiledFormat::computed);
    change(wrong);
    EXPECT_THROW(projector.matrix<float>(self, wrong), Error);
  };
  refused([](auto& w) { w.matrix.values = op::Values::half; });
  refused([](auto& w) { w.matrix.vectors = op::Vectors::bfloat16; });
  refused([](auto& w) { w.matrix.tune = true; });
  refused([](auto& w) { w.matrix.block_rows = 64; });
  refused([](auto& w) { w.clusters = layout::ClusterOptions{}; });
  o = in_format(op::TiledFormat::computed);
  EXPECT_THROW(op::TiledMatrix<float>(1, 1, {}, o.matrix), Error);

  // A matrix larger than the memory is computed on the fly by default; an explicit storage format is refused.
  std::vector<double> many(4000, 33.0);
  const Projector large(geometry(4000, 4000, 4000, many, 2000), Order::natural);
  EXPECT_THROW(large.matrix<float>(self, in_format(op::TiledFormat::list)), Error);
}

// A disc of radius 0.7 times half the image's width, and its sinogram by A.
template <class T>
struct Disc {
  Projector projector;
  std::shared_ptr<op::TiledSpmm<T>> a;
  Vector<T> image, sinogram;
  Disc(const Communicator& comm, Local n, int angles, int k, const op::TiledSpmmOptions& o = {})
      : projector(of(n, angles)), a(projector.matrix<T>(comm, o)), image(a->domain(), k), sinogram(a->range(), k) {
    for (Local i = 0; i < a->domain().local_size(); ++i) {
      const Local pixel = projector.pixel_order()[std::size_t(a->domain().begin()) + std::size_t(i)];
      const double x = pixel % n + 0.5 - n / 2.0, y = pixel / n + 0.5 - n / 2.0;
      for (int c = 0; c < k; ++c)
        image.data()[std::size_t(i) * std::size_t(k) + std::size_t(c)] = T(std::hypot(x - c, y) < 0.35 * n ? 1 + c : 0);
    }
    a->apply(image, sinogram);
  }
  static Geometry of(Local n, int angles) {
    std::vector<double> t;
    for (int i = 0; i < angles; ++i) t.push_back(180.0 * i / angles);
    return geometry(n, n, n, t, n / 2.0);
  }
};

// sirt is a contraction. In cgls the largest singular value converges within two iterations; the component that
// rounding errors bring back along its vector then grows about tenfold in each iteration until the value is found again
// (Paige 1971). Images are affected much sooner than residuals, where that vector has a small weight.
TYPED_TEST(Tomography, SlicesTogetherEqualSlicesAlone) {
  using T = TypeParam;
  const double unit = std::numeric_limits<T>::epsilon();
  struct Bound {
    Method method;
    int iterations;
    double image, residual;  // in units of the rounding error
  };
  const bool wide = sizeof(T) == 8;
  test::on_ranks(
      [&](const Communicator& comm) {
        const Disc<T> d(comm, 24, 20, 3);
        const auto images = test::vector_of<T>(d.a->domain(), 11, 3);  // without the grid's symmetries
        Vector<T> b(d.a->range(), 3);
        d.a->apply(images, b);
        for (const auto& bound : {Bound{Method::sirt, 16, 60, 10}, Bound{Method::cgls, 4, 3e3, 30},
                                  Bound{Method::cgls, wide ? 8 : 5, wide ? 3e7 : 3e4, 100}}) {
          ReconstructOptions o;
          o.method = bound.method;
          o.iterations = bound.iterations;
          Vector<T> together(d.a->domain(), 3);
          const auto r = reconstruct<T>(*d.a, b, together, o);
          const auto last = std::size_t(bound.iterations);
          ASSERT_EQ(r.residual.size(), last + 1);
          for (std::size_t c = 0; c < 3; ++c) {
            Vector<T> one_b(d.a->range()), x(d.a->domain());
            for (std::size_t i = 0; i < one_b.size(); ++i) one_b.data()[i] = b.data()[i * 3 + c];
            const auto one = reconstruct<T>(*d.a, one_b, x, o);
            for (std::size_t i = 0; i <= last; ++i)
              EXPECT_NEAR(one.residual[i][0], r.residual[i][c], bound.residual * unit * r.residual[0][c]) << i;
            double most = 0;
            for (std::size_t i = 0; i < x.size(); ++i)
              most = std::max(most, std::abs(double(x.data()[i]) - double(together.data()[i * 3 + c])));
            EXPECT_LE(most, bound.image * unit) << (bound.method == Method::cgls ? "cgls" : "sirt");
            EXPECT_LT(r.residual[last][c], 0.5 * r.residual[0][c]);
            EXPECT_NEAR(r.final_residual[c], r.residual[last][c], 100 * unit * r.residual[0][c]);
            for (std::size_t i = 1; i <= last; ++i)
              EXPECT_LE(r.residual[i][c], r.residual[i - 1][c] * (1 + 100 * unit));
          }
        }
      },
      {2, 3});
}

// Histories agree to rounding errors, which cgls amplifies about tenfold in each iteration (largest singular value).
TYPED_TEST(Tomography, ReconstructsAlikeFromStoredAndComputedEntries) {
  using T = TypeParam;
  for (const auto method : {Method::cgls, Method::sirt}) {
    ReconstructOptions o;
    o.method = method;
    o.iterations = 5;
    std::vector<ReconstructResult> results;
    for (const auto format : {op::TiledFormat::bitmap, op::TiledFormat::computed}) {
      const Disc<T> d(Communicator::self(), 32, 24, 2, in_format(format));
      const auto images = test::vector_of<T>(d.a->domain(), 11, 2);
      Vector<T> b(d.a->range(), 2), x(d.a->domain(), 2);
      d.a->apply(images, b);
      results.push_back(reconstruct<T>(*d.a, b, x, o));
    }
    for (std::size_t i = 0; i < results[0].residual.size(); ++i)
      for (std::size_t c = 0; c < 2; ++c)
        EXPECT_NEAR(results[0].residual[i][c], results[1].residual[i][c],
                    (sizeof(T) == 4 ? 1e-5 : 1e-11) * results[0].residual[0][c]);
  }
}

// The recurrence residual falls further where the true one stagnates: End::discrepancy is only reported after the
// residual has been recomputed.
TYPED_TEST(Tomography, ReportedDiscrepancyIsTrue) {
  using T = TypeParam;
  // Rotations of neighbouring components by different angles, then a diagonal scaling: well conditioned and inexact.
  constexpr std::size_t n = 40;
  const auto turn = [](const T* x, T* y, int k, bool back) {
    for (int c = 0; c < k; ++c) {
      std::vector<double> v(n);
      const auto stretch = [&] {
        for (std::size_t i = 0; i < n; ++i) v[i] *= 1 + double(i) / 10;
      };
      for (std::size_t i = 0; i < n; ++i) v[i] = double(x[i * std::size_t(k) + std::size_t(c)]);
      if (back) stretch();
      for (std::size_t j = 0; j + 1 < n; ++j) {
        const std::size_t i = back ? n - 2 - j : j;
        const double angle = (back ? -1 : 1) * (0.3 + 0.1 * double(i)), u = v[i], w = v[i + 1];
        v[i] = std::cos(angle) * u - std::sin(angle) * w, v[i + 1] = std::sin(angle) * u + std::cos(angle) * w;
      }
      if (!back) stretch();
      for (std::size_t i = 0; i < n; ++i) y[i * std::size_t(k) + std::size_t(c)] = T(v[i]);
    }
  };
  const auto space = layout::Space::distributed(Communicator::self(), n);
  const op::Function<T> A(
      space, space, [&](const T* x, T* y, int k) { turn(x, y, k, false); },
      [&](const T* x, T* y, int k) { turn(x, y, k, true); });
  const auto images = test::vector_of<T>(space, 5, 2);
  Vector<T> b(space, 2);
  A.apply(images, b);
  int told = 0, untold = 0;
  for (const auto method : {Method::cgls, Method::sirt})
    for (int e = 1; e < (method == Method::cgls ? 18 : 3); ++e) {
      ReconstructOptions o;
      o.method = method;
      o.iterations = 300;
      o.discrepancy = std::pow(10.0, -e) * layout::norm(b);
      Vector<T> x(space, 2);
      const auto r = reconstruct<T>(A, b, x, o);
      for (std::size_t c = 0; c < 2; ++c) {
        const bool says = r.end[c] == End::discrepancy;
        ++(says ? told : untold);
        EXPECT_EQ(says, r.final_residual[c] <= o.discrepancy) << e << " " << c;
        EXPECT_LE(r.iterations[c], o.iterations);
        EXPECT_EQ(r.residual.size(), r.gradient.size());
        EXPECT_GT(r.residual.size(), std::size_t(r.iterations[c]));
      }
    }
  EXPECT_GT(told, 0);
  EXPECT_GT(untold, 0);
}

TYPED_TEST(Tomography, EndsEverySliceByItsOwnRule) {
  using T = TypeParam;
  const Disc<T> d(Communicator::self(), 24, 20, 3);
  ReconstructOptions o;
  o.iterations = 50;
  o.discrepancy = 20;
  Vector<T> x(d.a->domain(), 3);
  const auto r = reconstruct<T>(*d.a, d.sinogram, x, o);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(r.end[c], End::discrepancy);
    const auto at = std::size_t(r.iterations[c]);
    EXPECT_LE(r.residual[at][c], 20);
    EXPECT_GT(r.residual[at - 1][c], 20);
    EXPECT_NEAR(r.final_residual[c], r.residual[at][c], 1e-3);  // the image is kept afterwards
  }
  EXPECT_LT(r.iterations[0], r.iterations[2]);  // the fainter disc reaches the discrepancy first

  o.discrepancy = 0;
  o.tolerance = 1e-3;
  Vector<T> y(d.a->domain(), 3);
  const auto s = reconstruct<T>(*d.a, d.sinogram, y, o);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(s.end[c], End::gradient);

  // A warm start continues where the last run ended.
  o.tolerance = 0, o.iterations = 0;
  const auto again = reconstruct<T>(*d.a, d.sinogram, y, o);
  EXPECT_EQ(again.iterations, std::vector<int>(3, 0));
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(again.residual[0][c], s.final_residual[c], 1e-3);

  o.iterations = 50;
  int calls = 0;
  o.callback = [&](const State& state) {
    ++calls;
    return state.iteration == 3;
  };
  Vector<T> z(d.a->domain(), 3);
  const auto stopped = reconstruct<T>(*d.a, d.sinogram, z, o);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(stopped.end[1], End::callback);
  EXPECT_EQ(stopped.iterations[1], 3);

  // A sinogram of zeros: no iterations, no division by zero.
  Vector<T> zero(d.a->range(), 1), image(d.a->domain(), 1);
  const auto nothing = reconstruct<T>(*d.a, zero, image, {});
  EXPECT_EQ(nothing.end[0], End::gradient);
  EXPECT_EQ(layout::max_norm(image), 0);
}

TYPED_TEST(Tomography, FindsTheCornerOfTheLCurve) {
  using T = TypeParam;
  Disc<T> d(Communicator::self(), 32, 30, 1);
  for (std::size_t i = 0; i < d.sinogram.size(); ++i) d.sinogram.data()[i] += T(1.5 * test::number<double>(9, i));
  const auto error = [&](const Vector<T>& x) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double(x.data()[i]) - double(d.image.data()[i]), 2);
    return std::sqrt(sum);
  };
  ReconstructOptions o;
  o.iterations = 100;
  Vector<T> fitted(d.a->domain()), corner(d.a->domain());
  reconstruct<T>(*d.a, d.sinogram, fitted, o);
  o.l_curve = true;
  const auto r = reconstruct<T>(*d.a, d.sinogram, corner, o);
  EXPECT_EQ(r.end[0], End::corner);
  EXPECT_LT(r.iterations[0], 40);
  EXPECT_LT(error(corner), error(fitted));
}

TYPED_TEST(Tomography, KeepsSirtPositiveAndRefusesWrongOptions) {
  using T = TypeParam;
  const Disc<T> d(Communicator::self(), 20, 15, 2);
  ReconstructOptions o;
  o.method = Method::sirt;
  o.nonnegative = true;
  o.iterations = 30;
  Vector<T> x(d.a->domain(), 2);
  reconstruct<T>(*d.a, d.sinogram, x, o);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_GE(x.data()[i], T(0));
  const auto refused = [&](auto change) {
    ReconstructOptions wrong;
    change(wrong);
    EXPECT_THROW(reconstruct<T>(*d.a, d.sinogram, x, wrong), Error);
  };
  refused([](auto& w) { w.nonnegative = true; });
  refused([](auto& w) { w.iterations = -1; });
  refused([](auto& w) { w.relaxation = 2; });
  refused([](auto& w) { w.discrepancy = -1; });
  Vector<T> one(d.a->domain());
  EXPECT_THROW(reconstruct<T>(*d.a, d.sinogram, one, {}), Error);
  EXPECT_THROW(reconstruct<T>(*d.a, Vector<T>(d.a->domain(), 2), x, {}), Error);
}

std::vector<float> raw(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<float> values;
  for (float v; in.read(reinterpret_cast<char*>(&v), sizeof v);) values.push_back(v);
  return values;
}

// Products with vectors and messages in 16 bits: accurate ones on demand, with the rest of the bytes.
TEST(TiledSpmm, TakesVectorsAndMessagesInFullOnDemand) {
  const Projector projector(geometry(
      40, 40, 40,
      [] {
        std::vector<double> degrees;
        for (int i = 0; i < 30; ++i) degrees.push_back(6.0 * i);
        return degrees;
      }(),
      20));
  test::on_ranks(
      [&](const Communicator& comm) {
        for (const auto& groups : {comm::Groups{}, comm::Groups{2}})
          for (const auto vectors : {op::Vectors::half, op::Vectors::bfloat16})
            for (const int k : {1, 20}) {
              op::TiledSpmmOptions o;
              o.matrix.format = op::TiledFormat::list, o.groups = groups;
              const auto exact = projector.matrix<float>(comm, o);
              o.matrix.vectors = vectors;
              const auto a = projector.matrix<float>(comm, o);
              const auto x = test::vector_of<float>(a->domain(), 4, k), b = test::vector_of<float>(a->range(), 5, k);
              Vector<float> y(a->range(), k), z(a->domain(), k), u(a->range(), k), v(a->domain(), k);
              const auto bytes_of = [&](const op::Operator<float, Host>& m, double bound) {
                exact->apply(x, y), exact->apply_adjoint(b, z);
                const double ys = layout::norm(y), zs = layout::norm(z);
                const auto before = comm.counters();
                m.apply(x, u), m.apply_adjoint(b, v);
                const auto sent = (comm.counters() - before).bytes;
                const double said = comm.size() > 1 ? m.cost().message_bytes + m.adjoint_cost().message_bytes : 0;
                EXPECT_EQ(double(sent), k * said);
                // The same sum of products twice: <A x, b> = <x, A^T b>.
                const double left = layout::dot(u, b), right = layout::dot(x, v);
                EXPECT_NEAR(left, right, bound * ys * layout::norm(b));
                layout::axpy(-1.0f, u, y), layout::axpy(-1.0f, v, z);
                EXPECT_LE(layout::norm(y), bound * ys);
                EXPECT_LE(layout::norm(z), bound * zs);
                return double(sent);
              };
              const double unit = 4 * op::half_unit(vectors);
              const double coarse = bytes_of(*a, unit), middle = bytes_of(a->accurate_to(0x1p-15), 4 * 0x1p-14),
                           full = bytes_of(a->accurate_to(0), 1e-6);
              EXPECT_EQ(&a->accurate_to(op::half_unit(vectors)), a.get());
              EXPECT_EQ(&exact->accurate_to(0), exact.get());
              EXPECT_EQ(coarse, middle);
              EXPECT_LE(coarse, (0.5 + 0.5 / 16) * full + 16.0 * k * comm.size() * comm.size());
              EXPECT_GE(coarse, 0.5 * full);
            }
      },
      {2, 3, 4});
}

// An artificial sinogram, compared with a reference in double precision.
TYPED_TEST(Tomography, FollowsTheReferenceResiduals) {
  using T = TypeParam;
  const char* const shared = std::getenv("TACIT_TEST_SHARED");
  const std::string folder = std::string(shared ? shared : "../shared") + "/data/tomography/";
  const auto theta = raw(folder + "ADS1_theta.bin"), sinogram = raw(folder + "ADS1_sinogram.bin");
  if (theta.empty()) GTEST_SKIP() << "the data are not here";
  if (test::under_mpi()) GTEST_SKIP() << "once is enough";
  Geometry g{256, 256, 256, {theta.begin(), theta.end()}, 128};
  const Projector projector(g);
  const auto a = projector.matrix<T>(Communicator::self());
  Vector<T> b(a->range()), x(a->domain());
  for (std::size_t i = 0; i < b.size(); ++i) b.data()[i] = T(sinogram[std::size_t(projector.ray_order()[i])]);
  ReconstructOptions o;
  o.iterations = 24;
  const auto r = reconstruct<T>(*a, b, x, o);
  const double squared = r.final_residual[0] * r.final_residual[0];
  if (std::is_same_v<T, double>) EXPECT_LE(squared, 1.01 * 4.9685e2);
  else EXPECT_LE(squared, 1.05 * 6.7644e2);
}

}  // namespace
