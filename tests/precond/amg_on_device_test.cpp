// The cycle of algebraic multigrid by launches, on a device or by the processor, compared with that on the host.
#include <tacit/comm/communicator.hpp>
#include <tacit/precond/amg_on_device.hpp>

#include "support/communicators.hpp"
#include "support/memory.hpp"
#include "support/reference.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::Amg;
using precond::AmgOnDevice;
using precond::AmgOptions;
using precond::AmgSmoother;
using precond::Cycle;

/// The result of the cycle on this rank.
template <class T, class M>
std::vector<T> image(const AmgOnDevice<T, M>& cycle, const Vector<T>& x) {
  layout::Vector<T, M> y(cycle.range(), x.columns());
  cycle.apply(vector_from<T, M>(x.space(), x.to_host(), x.columns()), y);
  return y.to_host();
}

template <class T>
class AmgOnDeviceOf : public testing::Test {};
TYPED_TEST_SUITE(AmgOnDeviceOf, ScalarsInMemory);

TYPED_TEST(AmgOnDeviceOf, CyclesAreThoseOfTheHost) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(13, 9);
        const auto A = a.on(comm);
        const auto there = a.template on<M>(A->range());
        for (const auto smoother :
             {AmgSmoother::spai0, AmgSmoother::jacobi, AmgSmoother::l1_jacobi, AmgSmoother::chebyshev})
          for (const Cycle cycle : {Cycle::v, Cycle::w, Cycle::f, Cycle::k, Cycle::mult_additive})
            for (const int columns : {1, 3}) {
              AmgOptions<T> o;
              o.coarsest = 4, o.smoother = smoother, o.cycle = cycle;
              if (columns > 1 && smoother != AmgSmoother::spai0) continue;
              if (is_repeated() && smoother != AmgSmoother::spai0 && cycle != Cycle::v) continue;
              if (columns > 1 && cycle == Cycle::k && !on_host) continue;  // as documented
              if (cycle == Cycle::mult_additive && smoother == AmgSmoother::chebyshev) continue;
              if (cycle != Cycle::mult_additive) o.sweeps = 2;
              const Amg<T> host(*A, o);
              const AmgOnDevice<T, M> device(*there, o);
              EXPECT_EQ(device.has_adjoint(), host.has_adjoint());
              EXPECT_EQ(device.varies(), host.varies());
              Vector<T> x(A->range(), columns), y(A->range(), columns), z(A->range(), columns);
              for (std::size_t i = 0; i < x.size(); ++i)
                x.data()[i] = T(std::cos(real_t<T>(2 * std::size_t(A->range().begin()) + i)));
              host.apply(x, y);
              z.assign(image(device, x));
              layout::axpy(T(-1), y, z);
              EXPECT_LE(layout::norm(z), 200 * double(std::numeric_limits<real_t<T>>::epsilon()) * layout::norm(y))
                  << to_string(smoother) << ' ' << to_string(cycle) << ' ' << columns;
            }
      },
      ranks_of({1, 2}));
}

/// The last level too large for an inverse, and one level alone.
TEST(AmgOnDevice, LastLevels) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto large = grid<double>(60, 50), small = grid<double>(5, 4);
        for (const auto* a : {&large, &small}) {
          const auto A = a->on(comm);
          AmgOptions<double> o;
          o.max_levels = 1;
          const Amg<double> host(*A, o);
          const auto there = a->on<TestMemory>(A->range());
          const AmgOnDevice<double, TestMemory> device(*there, o);
          EXPECT_EQ(host.is_doubtful(), device.is_doubtful());
          const auto x = spread(A->range(), random_vector<double>(a->n, 3));
          Vector<double> y(A->range()), z(A->range());
          host.apply(x, y);
          z.assign(image(device, x));
          layout::axpy(-1.0, y, z);
          EXPECT_LE(layout::norm(z), 1e-13 * layout::norm(y));
        }
      },
      ranks_of({1, 2}));
}

TEST(AmgOnDevice, RefusesWhatItHasNot) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto A = grid<double>(9, 9).on<TestMemory>(comm);
        AmgOptions<double> o;
        o.smoother = AmgSmoother::gauss_seidel;
        EXPECT_THROW((AmgOnDevice<double, TestMemory>(*A, o)), Error);
        o.smoother = AmgSmoother::spai0, o.single_levels = true;
        EXPECT_THROW((AmgOnDevice<double, TestMemory>(*A, o)), Error);
      },
      ranks_of({1, 2}));
}

}  // namespace
}  // namespace tacit::test
