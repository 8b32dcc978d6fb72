// What a solve allocates in host memory: nothing within iterations, and as many vectors as the table of methods says.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/base/sanitizers.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

// Allocations of this program are counted; gcc sees the free() in operator delete, but not the malloc() in new.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
namespace {
std::atomic<long> allocations{0};
}
void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

// Those of vectors apart, by their size: host_allocate() calls this. Sanitizers have one of their own.
#if defined(__GLIBC__) && !defined(TACIT_ADDRESS_SANITIZER) && !defined(TACIT_THREAD_SANITIZER)
#define TACIT_COUNTS_VECTORS 1
#endif
namespace {
std::atomic<std::size_t> bytes_of_vector{0};
[[maybe_unused]] std::atomic<int> vectors{0};
}  // namespace
#ifdef TACIT_COUNTS_VECTORS
extern "C" void* __libc_malloc(std::size_t n) noexcept;
extern "C" void* malloc(std::size_t n) noexcept {
  constexpr std::size_t beside = 2 * sizeof(std::size_t) + 127;  // for the place in memory
  const std::size_t bytes = bytes_of_vector;
  if (bytes > 0 && n > beside && (n - beside) % bytes == 0) vectors += int(n / bytes);  // of several columns, too
  return __libc_malloc(n);
}
#endif

namespace tacit::test {
namespace {

using krylov::Options;
using layout::Vector;

template <class T>
class Allocations : public testing::Test {};
TYPED_TEST_SUITE(Allocations, AllScalars);

TYPED_TEST(Allocations, AreNotPartOfIterations) {
  using T = TypeParam;
  if (under_mpi()) GTEST_SKIP();
  const auto a = grid<T>(80, 80);  // rounding level is not reached in 240 iterations
  const auto b = random_vector<T>(a.n, 4);
  const auto A = a.on(comm::Communicator::self());
  for (const auto& m : all_methods<T>()) {
    Options o;
    m.choose(o);
    o.history = false;
    o.explain = false;
    o.rtol = 0;
    if (replaces(o.method)) o.replacement = 0;  // a replacement allocates a warning
    if (krylov::takes(o.method, "restart")) o.restart = 100;
    if (krylov::takes(o.method, "relaxation")) o.relaxation = 0.2;
    if (o.method == krylov::Method::chebyshev) o.lambda_min = 0.05, o.lambda_max = 8;
    const auto rhs = spread(A->range(), b);
    const auto count = [&](int iterations) {
      o.max_iterations = iterations;
      Vector<T> x(A->domain());
      const long from = allocations;
      krylov::solve<T, Host>(*A, nullptr, rhs, x, o);
      return allocations - from;
    };
    count(60);  // allocates the buffers that are kept
    const long few = count(10), many = count(60);
    if (m.applies == 0) {
      // Block lengths vary and Ritz values are computed mostly in the first iterations of a run; later, fewer
      // allocations than blocks of eight.
      EXPECT_LT(count(240) - count(120), 120 / 8) << m.name;
    } else if (classical_of(o.method) == krylov::Method::gmres && o.method != krylov::Method::gmres) {
      // Basis vectors, and the buffers of each reduction.
      EXPECT_LE(many - few, 50 * 6 + 60) << m.name;
    } else if (o.method != krylov::Method::gmres && o.method != krylov::Method::fgmres) {
      EXPECT_EQ(few, many) << m.name;
    } else {
      // gmres allocates its basis as it grows: for each vector its memory and an entry of a list, and small lists that
      // double.
      EXPECT_LE(many - few, 50 * 2 + 30) << m.name;
      if (krylov::takes(o.method, "restart")) o.restart = 20;
      const long three = count(60), six = count(120);
      EXPECT_LE(six - three, 3 * 65) << m.name;  // the small lists of a cycle, but no vectors
    }
  }
}

/// The column "vectors" of docs/theory/methods.md, without P and with one that is not a diagonal.
struct Vectors {
  std::string method;
  int alone, preconditioned;
};

TYPED_TEST(Allocations, AreTheVectorsOfTheTable) {
  using T = TypeParam;
#ifndef TACIT_COUNTS_VECTORS
  GTEST_SKIP() << "not with this sanitizer or C library";
#endif
  if (under_mpi()) GTEST_SKIP();
  constexpr int m = 40, s = 4;
  const std::vector<Vectors> table = {
      {"cg", 4, 5},
      {"minres", 6, 8},
      {"cocg", 5, 6},
      {"cocr", 6, 8},
      {"bicgstab", 7, 9},
      {"idr", 3 * 4 + 6, 3 * 4 + 6},
      {"idr 1", 3 + 6, 3 + 6},
      {"gmres one-reduction", m + 3, m + 5},
      {"gmres cgs2", m + 3, m + 5},
      {"gmres left", m + 3, m + 4},
      {"fgmres", m + 3, 2 * m + 3},
      {"ca-gmres left", m + 3, m + 4},
      {"richardson", 3, 5},
      {"chebyshev", 4, 5},
      {"pipelined-cg", 9, 12},
      {"pipelined-bicgstab", 12, 13},
      {"pipelined-gmres 5", 2 * 12 + 2, 2 * 12 + 4},
      // Two more where residuals are replaced.
      {"ca-cg monomial 4", 2 * s + 4, 4 * s + 6},
      {"ca-bicgstab newton 8", 4 * 8 + 5, 4 * 8 + 9},
  };
  const auto a = grid<T>(37, 41);
  const auto A = a.on(comm::Communicator::self());
  const auto b = spread(A->range(), random_vector<T>(a.n, 4));
  // Without memory of its own; and no method ends before its vectors have been used.
  const Custom<T, Host> P(A->range(), [](const auto& x, auto& y) { layout::copy(x, y); });
  std::size_t met = 0;
  for (const auto& named : all_methods<T>()) {
    const auto row = std::ranges::find(table, named.name, &Vectors::method);
    if (row == table.end()) continue;
    ++met;
    for (const bool preconditioned : {false, true}) {
      Options o;
      named.choose(o);
      o.explain = o.fallbacks = false;
      o.rtol = 0;
      if (krylov::takes(o.method, "relaxation")) o.relaxation = 0.2;
      if (o.method == krylov::Method::chebyshev) o.lambda_min = 0.05, o.lambda_max = 8;
      if (named.applies == 0 && krylov::takes(o.method, "replacement")) o.replacement = 0;
      o.max_iterations = o.restart.value_or(m);  // a second cycle has d beside x
      Vector<T> x(A->domain());
      bytes_of_vector = std::size_t(a.n) * sizeof(T), vectors = 0;
      krylov::solve<T, Host>(*A, preconditioned ? &P : nullptr, b, x, o);
      bytes_of_vector = 0;
      // d is x in a first run from x = 0, and a b that is not scaled is the caller's.
      const int expected = (preconditioned ? row->preconditioned : row->alone) - 1;
      EXPECT_EQ(vectors, expected) << named.name << (preconditioned ? " with P" : "");
    }
  }
  EXPECT_EQ(met, table.size() - (is_complex<T> ? 2 : 0));  // without cocg and cocr
}

}  // namespace
}  // namespace tacit::test
