// Projectors and reconstructions in device memory against those in host memory.
#include <gtest/gtest.h>
#include <tacit/app/tomography/projector.hpp>
#include <tacit/app/tomography/reconstruct.hpp>

#include "support/communicators.hpp"
#include "support/memory.hpp"
#include "support/reference.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace tacit::test {
namespace {

using namespace app::tomography;
using comm::Communicator;
using layout::Vector;

template <class T>
class TomographyInMemory : public testing::Test {};
TYPED_TEST_SUITE(TomographyInMemory, RealsInMemory);

Projector scan(Local n, int angles) {
  Geometry g{n, Local(n - 3), n, {}, n / 2.0 + 0.3, 1.1};
  for (int i = 0; i < angles; ++i) g.angles.push_back(std::numbers::pi * i / angles);
  return Projector(std::move(g));
}

op::TiledSpmmOptions for_columns(int k) {
  op::TiledSpmmOptions o;
  o.matrix.format = op::TiledFormat::list;
  o.matrix.columns = k;
  return o;
}

template <class T>
double norm_of(const std::vector<T>& v) {
  double sum = 0;
  for (const T a : v) sum += double(a) * double(a);
  return std::sqrt(sum);
}
template <class T>
double distance(const std::vector<T>& a, const std::vector<T>& b) {
  auto difference = a;
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] -= b.at(i);
  return norm_of(difference);
}

// y = A x and A^T y for 1, 5 and 40 columns, on ranks with and without groups, values and vectors in full and in
// halves.
TYPED_TEST(TomographyInMemory, ProductsEqualTheHosts) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  const auto projector = scan(28, 23);
  on_ranks(
      [&](const Communicator& comm) {
        for (const int k : {1, 5, 40})
          for (const bool half : {false, true}) {
            if (half && sizeof(T) == 8) continue;
            auto o = for_columns(k);
            const auto host = projector.matrix<T>(comm, o);
            if (half) o.matrix.values = op::Values::half, o.matrix.vectors = op::Vectors::half;
            if (comm.size() == 2) o.groups = {2};
            const auto device = projector.on_device<T, M>(comm, o);
            EXPECT_EQ(device->entries(), host->entries());
            EXPECT_EQ(device->fault(), "");
            const double bound = half ? 1e-3 : 30 * std::numeric_limits<T>::epsilon();
            const auto x = vector_of<T>(host->domain(), 4, k), b = vector_of<T>(host->range(), 5, k);
            Vector<T> y(host->range(), k), z(host->domain(), k);
            host->apply(x, y), host->apply_adjoint(b, z);
            const auto there = vector_from<T, M>(device->domain(), x.to_host(), k),
                       right = vector_from<T, M>(device->range(), b.to_host(), k);
            Vector<T, M> u(device->range(), k), v(device->domain(), k), w(device->range(), k);
            {  // two products at once
              auto first = device->start(there, u);
              auto second = device->start(there, w);
              first.wait(), second.wait();
            }
            device->apply_adjoint(right, v);
            EXPECT_EQ(u.to_host(), w.to_host());
            EXPECT_LE(distance(u.to_host(), y.to_host()), bound * norm_of(y.to_host())) << k << half;
            EXPECT_LE(distance(v.to_host(), z.to_host()), bound * norm_of(z.to_host())) << k << half;
            // Vectors in full, with messages in 16 bits and in full.
            o.matrix.values = op::Values::full;
            const auto rounded = projector.on_device<T, M>(comm, o);
            for (const double relative : {0x1p-13, 0.0}) {
              const auto& full = rounded->accurate_to(relative);
              full.apply(there, u), full.apply_adjoint(right, v);
              const double room = half && relative > 0 ? 1e-4 : 30 * std::numeric_limits<T>::epsilon();
              EXPECT_LE(distance(u.to_host(), y.to_host()), room * norm_of(y.to_host())) << k << half << relative;
              EXPECT_LE(distance(v.to_host(), z.to_host()), room * norm_of(z.to_host())) << k << half << relative;
              EXPECT_EQ(&full == rounded.get(), !half);
            }
          }
      },
      ranks_of({1, 2, 3}));
}

// The same iterations and ends for every slice, and histories and images to rounding (which cgls amplifies about
// tenfold in each iteration); ten gradients are two passes of LeaveOut.
TYPED_TEST(TomographyInMemory, ReconstructsAsOnTheHost) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  const auto projector = scan(24, 20);
  const int k = 3;
  on_ranks(
      [&](const Communicator& comm) {
        const auto o = for_columns(k);
        const auto host = projector.matrix<T>(comm, o);
        const auto device = projector.on_device<T, M>(comm, o);
        const auto images = vector_of<T>(host->domain(), 11, k);
        Vector<T> b(host->range(), k);
        host->apply(images, b);
        auto elements = b.to_host();
        for (std::size_t i = 0; i < elements.size(); ++i) elements[i] *= T(1 + 3 * (i % k));  // slices of other sizes
        b.assign(elements);
        const double norm = layout::norm(b);
        std::vector<int> ended;  // iterations of the slices of the last reconstruction
        const auto same = [&](const ReconstructOptions& given, double scale, double bound) {
          auto scaled = elements;
          for (T& v : scaled) v *= T(scale);
          b.assign(scaled);
          Vector<T> x(host->domain(), k);
          Vector<T, M> y(device->domain(), k);
          const auto expected = reconstruct(*host, b, x, given);
          const auto found = reconstruct(*device, vector_from<T, M>(device->range(), scaled, k), y, given);
          EXPECT_EQ(found.iterations, expected.iterations);
          EXPECT_EQ(found.end, expected.end);
          ASSERT_EQ(found.residual.size(), expected.residual.size());
          for (std::size_t i = 0; i < found.residual.size(); ++i)
            for (std::size_t c = 0; c < k; ++c) {
              EXPECT_NEAR(found.residual[i][c], expected.residual[i][c], bound * expected.residual[0][c]) << i;
              EXPECT_NEAR(found.gradient[i][c], expected.gradient[i][c], bound * expected.gradient[0][c]) << i;
            }
          for (std::size_t c = 0; c < k; ++c)
            EXPECT_NEAR(found.final_residual[c], expected.final_residual[c], bound * expected.residual[0][c]);
          EXPECT_LE(distance(y.to_host(), x.to_host()), 100 * bound * norm_of(x.to_host()));
          ended = expected.iterations;
        };
        const double unit = std::numeric_limits<T>::epsilon();
        ReconstructOptions cgls;
        cgls.iterations = 5;
        for (const int kept : {0, 1, 10}) cgls.reorthogonalise = kept, same(cgls, 1, 1e3 * unit);
        cgls.iterations = 11;
        same(cgls, 1, 1e4 * unit);
        cgls.reorthogonalise = 1, cgls.iterations = 4;
        same(cgls, sizeof(T) == 4 ? 1e30 : 1e200, 1e3 * unit);  // scaled by a power of two
        cgls.discrepancy = 0.1 * norm, cgls.iterations = 30;
        same(cgls, 1, 1e4 * unit);
        EXPECT_NE(ended[0], ended[2]);
        ReconstructOptions sirt;
        sirt.method = Method::sirt, sirt.iterations = 20, sirt.nonnegative = true;
        same(sirt, 1, 100 * unit);
        sirt.nonnegative = false, sirt.l_curve = true;
        same(sirt, 1, 100 * unit);
      },
      ranks_of({1, 3}));
}

// A slice with a number that is not finite ends alone.
TYPED_TEST(TomographyInMemory, NonFiniteSlicesEndAlone) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  const auto device = scan(12, 9).on_device<T, M>(Communicator::self(), for_columns(2));
  const auto n = std::size_t(device->range().size());
  std::vector<T> b(2 * n, T(1));
  b[7] = std::numeric_limits<T>::quiet_NaN();  // of slice 1
  Vector<T, M> x(device->domain(), 2);
  ReconstructOptions o;
  o.iterations = 4;
  const auto r = reconstruct(*device, vector_from<T, M>(device->range(), b, 2), x, o);
  EXPECT_EQ(r.end[1], End::non_finite);
  EXPECT_EQ(r.end[0], End::iterations);
  EXPECT_EQ(r.iterations, (std::vector<int>{4, 0}));
  EXPECT_LT(r.final_residual[0], 0.5 * r.residual[0][0]);
}

TYPED_TEST(TomographyInMemory, RefusesWhatADeviceDoesNotStore) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  const auto projector = scan(12, 9);
  const auto refused = [&](auto change) {
    op::TiledSpmmOptions o;
    change(o);
    EXPECT_THROW((projector.on_device<T, M>(Communicator::self(), o)), Error);
  };
  refused([](auto& o) { o.matrix.format = op::TiledFormat::computed; });
  refused([](auto& o) { o.matrix.format = op::TiledFormat::bitmap; });
  refused([](auto& o) { o.matrix.values = op::Values::bfloat16; });
  refused([](auto& o) { o.matrix.vectors = op::Vectors::bfloat16; });
  refused([](auto& o) { o.matrix.tune = true; });
  refused([](auto& o) { o.matrix.block_rows = 64; });
  refused([](auto& o) { o.minibatch = 4; });
}

}  // namespace
}  // namespace tacit::test
