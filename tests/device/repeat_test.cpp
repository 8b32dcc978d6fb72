// Work that is recorded once and launched as one graph: the cycle of algebraic multigrid, triangular solves.
#include "exec/repeat.hpp"
#include <tacit/base/trace.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg_on_device.hpp>
#include "precond/block_jacobi_on_device.hpp"

#include "support/systems.hpp"

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using precond::AmgOnDevice;
using precond::AmgOptions;
using precond::Cycle;
using Vector = layout::Vector<double, Device>;

struct Applied {
  std::vector<double> y;
  std::int64_t launches, graphs, products, waits;
};

Applied applied(const op::Operator<double, Device>& A, const op::Operator<double, Device>& P, const Vector& x) {
  Vector y(P.range(), x.columns());
  const auto before = cuda_on_host::counts();
  const auto products = A.applies();
  P.apply(x, y);
  const auto after = cuda_on_host::counts();
  return {y.to_host(), after.launches - before.launches, after.graph_launches - before.graph_launches,
          A.applies() - products, after.waits - before.waits};
}

TEST(Repeat, ACycleOfAmgIsOneLaunch) {
  const auto a = grid<double>(24, 20);
  const auto A = a.on<Device>(comm::Communicator::self());
  for (const Cycle cycle : {Cycle::v, Cycle::w, Cycle::f, Cycle::mult_additive, Cycle::k}) {
    AmgOptions<double> o;
    o.coarsest = 8, o.cycle = cycle;
    const AmgOnDevice<double, Device> P(*A, o);
    for (const int columns : {1, 2, 1}) {
      if (columns > 1 && cycle == Cycle::k) continue;
      Vector x(A->domain(), columns), other(A->domain(), columns);
      x.assign(random_vector<double>(a.n * columns, 3)), other.assign(random_vector<double>(a.n * columns, 5));
      const auto first = applied(*A, P, x);
      const auto second = applied(*A, P, x), third = applied(*A, P, x), fourth = applied(*A, P, other);
      if (std::getenv("TACIT_TEST_SHOW") && columns == 1)
        std::printf("%s: %d launches, then %d\n", to_string(cycle), int(first.launches), int(third.launches));
      SCOPED_TRACE(to_string(cycle));
      EXPECT_GT(first.launches, 10);
      EXPECT_EQ(first.graphs, 0);
      EXPECT_EQ(third.y, first.y);
      EXPECT_EQ(second.y, first.y);
      EXPECT_NE(fourth.y, first.y);
      EXPECT_EQ(third.products, first.products);
      EXPECT_EQ(second.products, first.products);
      if (cycle == Cycle::k) {  // its sums are waited for
        EXPECT_EQ(third.graphs, 0);
        continue;
      }
      for (const auto* later : {&second, &third, &fourth}) {
        EXPECT_EQ(later->graphs, 1);
        EXPECT_EQ(later->launches, 3);  // x in, the cycle, y out
        EXPECT_EQ(later->waits, 0);
      }
      Trace::start();
      EXPECT_EQ(applied(*A, P, x).graphs, 0);  // kernels are shown one by one
      Trace::stop();
      Trace::take();
      const AmgOnDevice<double, Device> fresh(*A, o);  // never recorded
      EXPECT_EQ(applied(*A, fresh, other).y, fourth.y);
    }
  }
}

// A kept preconditioner multiplies by the user's matrix on its finest level.
TEST(Repeat, SeesNewNumbersOfTheMatrix) {
  const auto a = grid<double>(24, 20);
  const auto twice = a.map([](Global, Global, double v) { return 2 * v; });
  const auto& self = comm::Communicator::self();
  const auto A = a.on<Device>(self), other = a.on<Device>(self);
  AmgOptions<double> o;
  o.coarsest = 8;
  const AmgOnDevice<double, Device> P(*A, o), never_recorded(*other, o);
  Vector x(A->domain());
  x.assign(random_vector<double>(a.n, 3));
  applied(*A, P, x);
  const auto before = applied(*A, P, x);
  EXPECT_EQ(before.graphs, 1);
  A->become(std::move(*twice.on<Device>(self))), other->become(std::move(*twice.on<Device>(self)));
  const auto expected = applied(*other, never_recorded, x);
  EXPECT_NE(expected.y, before.y);
  EXPECT_EQ(applied(*A, P, x).y, expected.y);
  const auto again = applied(*A, P, x);  // recorded anew
  EXPECT_EQ(again.y, expected.y);
  EXPECT_EQ(again.graphs, 1);
}

// Narrow levels are one launch, wide ones are recorded.
TEST(Repeat, TriangularSolvesAreThreeLaunches) {
  using precond::BlockJacobiOnDevice;
  using precond::Factorisation;
  const auto narrow = grid<double>(64, 64), wide = chains<double>(600, 5);
  for (const auto* a : {&narrow, &wide})
    for (const auto kind : {Factorisation::ilu0, Factorisation::ic0}) {
      const auto A = a->on<Device>(comm::Communicator::self());
      const BlockJacobiOnDevice<double, Device> P(*A, kind), fresh(*A, kind);
      const bool is_narrow = a == &narrow;
      EXPECT_EQ(P.launches(), is_narrow ? 1 : 10);
      if (std::getenv("TACIT_TEST_SHOW"))
        std::printf("%s: %d rows, %d levels, %d launches\n", P.name().c_str(), int(a->n), int(P.levels()),
                    P.launches());
      for (const int columns : {1, 2, 1}) {
        Vector x(A->domain(), columns), other(A->domain(), columns);
        x.assign(random_vector<double>(a->n * columns, 3)), other.assign(random_vector<double>(a->n * columns, 5));
        const auto first = applied(*A, P, x), second = applied(*A, P, x), third = applied(*A, P, x);
        const auto fourth = applied(*A, P, other);
        EXPECT_EQ(first.launches, 2 + P.launches());
        EXPECT_EQ(second.y, first.y);
        EXPECT_EQ(third.y, first.y);
        EXPECT_EQ(fourth.y, applied(*A, fresh, other).y);
        for (const auto* later : {&second, &third, &fourth}) {
          EXPECT_EQ(later->graphs, is_narrow ? 0 : 1);
          EXPECT_EQ(later->launches, 3);  // x in, the levels, y out
          EXPECT_EQ(later->waits, 0);
        }
      }
    }
}

// Factors are those of the numbers that they were made of, as on the host: what is recorded reads no array of A.
TEST(Repeat, FactorsKeepOldNumbersOfTheMatrix) {
  const auto a = chains<double>(600, 4);
  const auto twice = a.map([](Global, Global, double v) { return 2 * v; });
  const auto& self = comm::Communicator::self();
  const auto A = a.on<Device>(self);
  const precond::BlockJacobiOnDevice<double, Device> P(*A);
  Vector x(A->domain());
  x.assign(random_vector<double>(a.n, 3));
  const auto before = applied(*A, P, x).y;
  EXPECT_EQ(applied(*A, P, x).y, before);
  A->become(std::move(*twice.on<Device>(self)));
  const auto after = applied(*A, P, x);
  EXPECT_EQ(after.graphs, 1);
  EXPECT_EQ(after.y, before);
  const precond::BlockJacobiOnDevice<double, Device> anew(*A);
  EXPECT_NE(applied(*A, anew, x).y, before);
}

// An interrupt by the user, say, while a stream is recorded.
TEST(Repeat, PassesOnWhatIsNoFaultOfTheRecording) {
  exec::Array<double, Device> x(1);
  exec::Repeat repeat;
  int calls = 0;
  const auto once = [&] {
    if (++calls == 2) throw Error(ErrorKind::interrupted, "by the user");
    exec::clear_on_device(x.data(), 8);
  };
  repeat(once);
  EXPECT_THROW(repeat(once), Error);
  EXPECT_EQ(calls, 2);
  const auto before = cuda_on_host::counts().graph_launches;
  for (int i = 0; i < 4; ++i) repeat(once);
  EXPECT_EQ(calls, 4);  // as it is, recorded, and then as a graph
  EXPECT_EQ(cuda_on_host::counts().graph_launches - before, 3);
}

TEST(Repeat, GoesOnWithoutWhereItCannotBeRecorded) {
  exec::Repeat repeat;
  int calls = 0;
  const auto waits = [&] {
    ++calls;
    exec::wait_for_device();  // not permitted while a stream is captured
  };
  for (int i = 0; i < 4; ++i) repeat(waits);
  EXPECT_EQ(calls, 5);  // the second is tried and done again
}

}  // namespace
}  // namespace tacit::test
