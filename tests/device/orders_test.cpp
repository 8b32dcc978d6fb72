// Results do not depend on the order in which streams work: a missing wait or event would show under some seed.
#include "device/orders.hpp"
#include "contract/operator_cases.hpp"
#include "support/communicators.hpp"
#include "support/memory.hpp"
#include "support/methods.hpp"

#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tacit::test {
namespace {

/// Runs f under each order; its result is the same in all.
template <class F>
void in_every_order(const F& f) {
  EXPECT_EQ(orders_that_differ(f), 0);
}

TEST(Orders, OfStreamsDoNotChangeSolves) {
  const auto a = grid<double>(6, 5, 0.3);
  const auto A = a.on<Device>(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 4);
  const auto P = precond::make<double, Device>("amg", *A, {.coarsest = 8});
  for (const auto method :
       {krylov::Method::bicgstab, krylov::Method::gmres, krylov::Method::ca_gmres, krylov::Method::pipelined_gmres}) {
    auto o = with(method, 1e-12);
    o.max_iterations = 4, o.explain = false;
    in_every_order([&] { return run(*A, b, o, P.get()).x; });
  }
}

TEST(Orders, OfStreamsDoNotChangeTriangularSolves) {
  const auto a = grid<double>(9, 8, 0.3), hermitian = grid<double>(9, 8);
  const auto A = a.on<Device>(comm::Communicator::self()), H = hermitian.on<Device>(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 4);
  const auto P = precond::make<double, Device>("ilu0", *A), Q = precond::make<double, Device>("ic0", *H);
  auto few = with(krylov::Method::bicgstab, 1e-12), of_cg = with(krylov::Method::pipelined_cg, 1e-12);
  few.max_iterations = 4, few.explain = false, of_cg.max_iterations = 4, of_cg.explain = false;
  in_every_order([&] { return run(*A, b, few, P.get()).x; });
  in_every_order([&] { return run(*H, b, of_cg, Q.get()).x; });
}

// Applies one after another share the vectors between them.
TEST(Orders, OfStreamsDoNotChangeWideLevels) {
  const auto a = chains<double>(600, 4);
  const auto A = a.on<Device>(comm::Communicator::self());
  const auto x = spread<double, Device>(A->domain(), random_vector<double>(a.n, 4));
  const auto z = spread<double, Device>(A->domain(), random_vector<double>(a.n, 5));
  in_every_order([&] {
    const auto P = precond::make<double, Device>("ilu0", *A);
    layout::Vector<double, Device> y(A->range()), w(A->range());
    for (int i = 0; i < 3; ++i) P->apply(x, y), P->apply(z, w);
    auto both = y.to_host();
    const auto second = w.to_host();
    both.insert(both.end(), second.begin(), second.end());
    return both;
  });
}

TEST(Orders, OfStreamsDoNotChangeProductsOfRanks) {
  const auto a = scattered<double>(40, 4, 3);
  const auto b = random_vector<double>(a.n, 4);
  in_every_order([&] {
    std::vector<double> result;
    comm::run_threads(3, [&](const comm::Communicator& comm) {
      const auto A = a.on<Device>(comm);
      const auto x = spread<double, Device>(A->domain(), b);
      layout::Vector<double, Device> y(A->range()), z(A->range());
      auto first = A->start(x, y), second = A->start(x, z);
      second.wait(), first.wait();
      const auto all = whole(y), same = whole(z);
      if (comm.rank() == 0) {
        EXPECT_EQ(all, same);
        result = all;
      }
    });
    return result;
  });
}

}  // namespace
}  // namespace tacit::test
