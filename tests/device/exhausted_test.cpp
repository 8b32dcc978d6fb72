// Device memory that runs out: each allocation in turn finds none. That is an error, after which everything works.
#include <tacit/exec/gpus.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg_on_device.hpp>
#include <tacit/precond/make.hpp>

#include "support/systems.hpp"

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using Operator = op::Operator<double, Device>;
using Vector = layout::Vector<double, Device>;
using Values = std::vector<double>;

class Exhausted : public testing::Test {
 protected:
  void SetUp() override { exec::keep_device_memory(false); }  // which would be used instead
  void TearDown() override { cuda_on_host::refuse_memory(std::nullopt); }
};

Values applied(const Operator& P, int columns, bool adjoint) {
  Vector x(adjoint ? P.range() : P.domain(), columns), y(adjoint ? P.domain() : P.range(), columns);
  x.assign(random_vector<double>(Global(x.size()), 3));
  if (adjoint) P.apply_adjoint(x, y);
  else P.apply(x, y);
  return y.to_host();
}

/// f() of what make() makes, with each of its allocations in turn finding no memory, and once more without.
template <class Make, class F>
void expect_recovery(const Make& make, const F& f) {
  const Values expected = f(*make());
  int refused = 0;
  for (bool met = true; met && refused < 500; ++refused) {
    const auto made = make();
    cuda_on_host::refuse_memory(refused);
    try {
      EXPECT_EQ(f(*made), expected) << "without allocation " << refused;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::environment) << e.what();
    }
    met = cuda_on_host::refuse_memory(std::nullopt);
    ASSERT_EQ(f(*made), expected) << "after allocation " << refused << " had failed";
  }
  EXPECT_GT(refused, 2);
}

TEST_F(Exhausted, Products) {
  const auto a = grid<double>(9, 7);
  const auto& self = comm::Communicator::self();
  for (const bool adjoint : {false, true})
    for (const int columns : {1, 3})
      expect_recovery([&] { return a.on<Device>(self); },
                      [&](const Operator& A) { return applied(A, columns, adjoint); });
}

TEST_F(Exhausted, Preconditioners) {
  const auto A = grid<double>(9, 7).on<Device>(comm::Communicator::self());
  for (const char* name : {"jacobi", "spai", "fsai", "polynomial", "schwarz"}) {
    precond::Options o;
    if (name == std::string("schwarz")) o.solver = precond::Kind::spai;
    SCOPED_TRACE(name);
    expect_recovery([&] { return precond::make<double, Device>(name, *A, o); },
                    [](const Operator& P) { return applied(P, 2, false); });
  }
}

TEST_F(Exhausted, CyclesOfAmg) {
  const auto A = grid<double>(24, 20).on<Device>(comm::Communicator::self());
  precond::AmgOptions<double> o;
  o.coarsest = 8;
  using precond::AmgSmoother, precond::Cycle;
  for (const auto& [smoother, cycle] : {std::pair(AmgSmoother::spai0, Cycle::v),
                                        {AmgSmoother::chebyshev, Cycle::w},
                                        {AmgSmoother::spai0, Cycle::mult_additive}}) {
    o.smoother = smoother, o.cycle = cycle;
    SCOPED_TRACE(to_string(cycle));
    expect_recovery([&] { return std::make_unique<precond::AmgOnDevice<double, Device>>(*A, o); },
                    [](const Operator& P) {
                      applied(P, 2, false);
                      return applied(P, 2, false);
                    });
  }
}

TEST_F(Exhausted, Solves) {
  const auto a = grid<double>(5, 4);
  for (const auto method : {krylov::Method::cg, krylov::Method::gmres, krylov::Method::pipelined_bicgstab})
    expect_recovery([&] { return a.on<Device>(comm::Communicator::self()); },
                    [&](const Operator& A) {
                      Vector b(A.range()), x(A.domain());
                      b.assign(random_vector<double>(a.n, 5));
                      krylov::Options o;
                      o.method = method;
                      krylov::solve<double, Device>(A, nullptr, b, x, o);
                      return x.to_host();
                    });
}

// One rank of two finds no memory: both have the error, and the next product works.
TEST_F(Exhausted, OneRankOfTwo) {
  const auto a = grid<double>(9, 7);
  comm::run_threads(2, [&](const comm::Communicator& comm) {
    const auto product = [&](const Operator& A) {
      return comm::collective(comm, [&] { return applied(A, 3, false); });
    };
    const auto expected = product(*a.on<Device>(comm));
    for (int refused = 0; refused < 12; ++refused) {
      const auto A = a.on<Device>(comm);
      comm.all_sum(Global(1));
      if (comm.rank() == 0) cuda_on_host::refuse_memory(refused);
      comm.all_sum(Global(1));
      try {
        EXPECT_EQ(product(*A), expected);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::environment) << e.what();
      }
      comm.all_sum(Global(1));
      if (comm.rank() == 0) cuda_on_host::refuse_memory(std::nullopt);
      comm.all_sum(Global(1));
      EXPECT_EQ(product(*A), expected) << "after allocation " << refused << " had failed";
    }
  });
}

}  // namespace
}  // namespace tacit::test
