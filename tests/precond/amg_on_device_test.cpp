// The cycle of algebraic multigrid by launches, as on a device, compared with that on the host.
#include <tacit/comm/communicator.hpp>
#include <tacit/precond/amg_on_device.hpp>

#include "support/communicators.hpp"
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

template <class T>
class AmgOnDeviceOf : public testing::Test {};
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(AmgOnDeviceOf, Scalars);

TYPED_TEST(AmgOnDeviceOf, CyclesAreThoseOfTheHost) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(13, 9);
        const auto A = a.on(comm);
        for (const auto smoother :
             {AmgSmoother::spai0, AmgSmoother::jacobi, AmgSmoother::l1_jacobi, AmgSmoother::chebyshev})
          for (const Cycle cycle : {Cycle::v, Cycle::w, Cycle::f, Cycle::k, Cycle::mult_additive})
            for (const int columns : {1, 3}) {
              AmgOptions<T> o;
              o.coarsest = 4, o.smoother = smoother, o.cycle = cycle;
              if (columns > 1 && smoother != AmgSmoother::spai0) continue;
              if (cycle == Cycle::mult_additive && smoother == AmgSmoother::chebyshev) continue;
              if (cycle != Cycle::mult_additive) o.sweeps = 2;
              const Amg<T> host(*A, o);
              const AmgOnDevice<T, Host> device(*A, o);
              EXPECT_EQ(device.has_adjoint(), host.has_adjoint());
              EXPECT_EQ(device.varies(), host.varies());
              Vector<T> x(A->range(), columns), y(A->range(), columns), z(A->range(), columns);
              for (std::size_t i = 0; i < x.size(); ++i)
                x.data()[i] = T(std::cos(real_t<T>(2 * std::size_t(A->range().begin()) + i)));
              host.apply(x, y);
              device.apply(x, z);
              layout::axpy(T(-1), y, z);
              EXPECT_LE(layout::norm(z), 200 * double(std::numeric_limits<real_t<T>>::epsilon()) * layout::norm(y))
                  << to_string(smoother) << ' ' << to_string(cycle) << ' ' << columns;
            }
      },
      {1, 2});
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
          const AmgOnDevice<double, Host> device(*A, o);
          EXPECT_EQ(host.is_doubtful(), device.is_doubtful());
          const auto x = spread(A->range(), random_vector<double>(a->n, 3));
          Vector<double> y(A->range()), z(A->range());
          host.apply(x, y);
          device.apply(x, z);
          layout::axpy(-1.0, y, z);
          EXPECT_LE(layout::norm(z), 1e-13 * layout::norm(y));
        }
      },
      {1, 2});
}

TEST(AmgOnDevice, RefusesWhatItHasNot) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto A = grid<double>(9, 9).on(comm);
        AmgOptions<double> o;
        o.smoother = AmgSmoother::gauss_seidel;
        EXPECT_THROW((AmgOnDevice<double, Host>(*A, o)), Error);
        o.smoother = AmgSmoother::spai0, o.single_levels = true;
        EXPECT_THROW((AmgOnDevice<double, Host>(*A, o)), Error);
      },
      {1, 2});
}

}  // namespace
}  // namespace tacit::test
