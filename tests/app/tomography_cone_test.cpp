// Projectors of fan and cone beams: chords of boxes, the adjoint, and ranks that share a volume.
#include <gtest/gtest.h>
#include <tacit/app/tomography/cone.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <limits>
#include <numbers>

using namespace tacit;
using namespace tacit::app::tomography;
using comm::Communicator;
using layout::Vector;

namespace {

ConeGeometry turning(Local views, bool fan, double source = 40, double detector = 12) {
  ConeGeometry g;
  g.width = 9, g.height = 8, g.depth = fan ? 1 : 7;
  g.rows = fan ? 1 : 6, g.columns = 17;
  g.voxel = {1, 0.9, 1.2};
  for (Local i = 0; i < views; ++i) {
    const double t = 0.1 + 2 * std::numbers::pi * i / views, c = std::cos(t), s = std::sin(t);
    g.views.push_back(
        {{source * s, -source * c, 0}, {-detector * s, detector * c, 0}, {1.1 * c, 1.1 * s, 0}, {0, 0, 1.3}});
  }
  return g;
}

// Whole columns of a vector, on every rank.
template <class T>
std::vector<T> whole(const Vector<T>& v) {
  return v.space().comm().all_gather(std::span<const T>(v.data(), v.size()));
}

template <class T>
Vector<T> waves(const layout::Space& space, int k) {
  Vector<T> v(space, k);
  for (Local i = 0; i < space.local_size(); ++i)
    for (int c = 0; c < k; ++c)
      v.data()[std::size_t(i) * std::size_t(k) + std::size_t(c)] = T(1 + std::sin(1.3 * double(space.begin() + i) + c));
  return v;
}

TEST(ConeProjector, IsTheSameOnAnyNumberOfRanks) {
  for (const bool fan : {false, true})
    for (const int k : {1, 3, 21}) {
      const ConeProjector projector(turning(5, fan));
      const auto alone = projector.matrix<double>(Communicator::self());
      Vector<double> y(alone->range(), k), x(alone->domain(), k);
      alone->apply(waves<double>(alone->domain(), k), y);
      alone->apply_adjoint(waves<double>(alone->range(), k), x);
      test::on_ranks([&](const Communicator& comm) {
        const auto a = projector.matrix<double>(comm);
        EXPECT_EQ(a->entries(), alone->entries());
        Vector<double> there(a->range(), k), back(a->domain(), k);
        a->apply(waves<double>(a->domain(), k), there);
        a->apply_adjoint(waves<double>(a->range(), k), back);
        const auto p = whole(there), q = whole(back);
        for (std::size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], y.data()[i], 1e-12 * (1 + std::abs(p[i])));
        for (std::size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(q[i], x.data()[i], 1e-12 * (1 + std::abs(q[i])));
      });
    }
}

TEST(ConeProjector, HasTheChordsOfABoxAndItsAdjoint) {
  const ConeProjector projector(turning(7, false));
  const auto& g = projector.geometry();
  const auto a = projector.matrix<double>(Communicator::self());
  Vector<double> ones(a->domain(), 1), sums(a->range(), 1), back(a->domain(), 1);
  layout::fill(ones, 1.0);
  a->apply(ones, sums);
  const double half[] = {4.5, 3.6, 4.2};
  std::size_t at = 0;
  for (const View& v : g.views)
    for (Local i = 0; i < g.rows; ++i)
      for (Local j = 0; j < g.columns; ++j, ++at) {
        double from = 0, to = 1e9, square = 0;
        for (std::size_t c = 0; c < 3; ++c) {
          const double way = v.detector[c] + (i - 2.5) * v.down[c] + (j - 8) * v.right[c] - v.source[c];
          const double low = (-half[c] - v.source[c]) / way, high = (half[c] - v.source[c]) / way;
          from = std::max(from, std::min(low, high)), to = std::min(to, std::max(low, high)), square += way * way;
        }
        ASSERT_NEAR(sums.data()[at], std::max(0.0, to - from) * std::sqrt(square), 1e-11);
      }
  const auto x = waves<double>(a->domain(), 1), y = waves<double>(a->range(), 1);
  Vector<double> ax(a->range(), 1);
  a->apply(x, ax);
  a->apply_adjoint(y, back);
  double left = 0, right = 0;
  for (std::size_t i = 0; i < ax.size(); ++i) left += ax.data()[i] * y.data()[i];
  for (std::size_t i = 0; i < x.size(); ++i) right += x.data()[i] * back.data()[i];
  EXPECT_NEAR(left, right, 1e-13 * left);
}

TEST(ConeProjector, RefusesWhatIsNoView) {
  auto within = turning(3, false, 2), plane = turning(3, true), none = turning(0, true), wild = turning(3, false);
  plane.views[1].detector = plane.views[1].source;
  wild.views[2].down[1] = std::numeric_limits<double>::infinity();
  for (const auto& [g, text] : {std::pair(within, "within the volume"), std::pair(plane, "source of view 1"),
                                std::pair(none, "0 views"), std::pair(wild, "view 2 has a number")}) {
    try {
      const ConeProjector projector(g);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }
}

}  // namespace
