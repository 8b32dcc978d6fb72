// What an iteration asks of a device: launches, copies, waits and allocations of each method, as the runtime of
// tests/cuda_on_host counts them, and the traffic that the kernels declare beside that of docs/theory/methods.md.
// With TACIT_TEST_SHOW the table is printed.
#include "support/memory.hpp"
#include "support/methods.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/exec/gpus.hpp>
#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace tacit::test {
namespace {

using krylov::Options;

/// Of a solve, or per iteration.
struct Spent {
  double launches, to_host, bytes_to_host, to_device, bytes_to_device, on_device, waits, overlapped, allocations;
  double reductions, products, bytes;  ///< bytes: that kernels on vectors declare
};
Spent operator-(const Spent& a, const Spent& b) {
  return {a.launches - b.launches,
          a.to_host - b.to_host,
          a.bytes_to_host - b.bytes_to_host,
          a.to_device - b.to_device,
          a.bytes_to_device - b.bytes_to_device,
          a.on_device - b.on_device,
          a.waits - b.waits,
          a.overlapped - b.overlapped,
          a.allocations - b.allocations,
          a.reductions - b.reductions,
          a.products - b.products,
          a.bytes - b.bytes};
}
Spent operator/(const Spent& a, double n) {
  return {a.launches / n,        a.to_host / n,    a.bytes_to_host / n, a.to_device / n,
          a.bytes_to_device / n, a.on_device / n,  a.waits / n,         a.overlapped / n,
          a.allocations / n,     a.reductions / n, a.products / n,      a.bytes / n};
}
Spent so_far() {
  const auto c = cuda_on_host::counts();
  return {double(c.launches),
          double(c.copies_to_host),
          double(c.bytes_to_host),
          double(c.copies_to_device),
          double(c.bytes_to_device),
          double(c.copies_on_device),
          double(c.waits),
          double(c.overlapped_waits),
          double(c.allocations),
          0,
          0,
          0};
}

/// Iterations few + 1, .., many of a solve that does not converge before.
template <class T>
Spent per_iteration(const op::Operator<T, Device>& A, const op::Operator<T, Device>* P, const std::vector<T>& b,
                    Options o, int few, int many) {
  const auto rhs = spread<T, Device>(A.range(), b);
  const auto solve = [&](int iterations) {
    o.max_iterations = iterations;
    layout::Vector<T, Device> x(A.domain());
    const Spent before = so_far();
    Trace::start();
    const auto report = krylov::solve<T, Device>(A, P, rhs, x, o);
    Trace::stop();
    Spent spent = so_far() - before;
    EXPECT_EQ(report.iterations, iterations) << report.detail;
    spent.reductions = double(report.counts.reductions), spent.products = double(report.counts.operator_applies);
    for (const auto& e : Trace::take())
      if (std::string(e.category) == "exec") spent.bytes += double(e.bytes);
    return spent;
  };
  solve(many);  // allocates what is kept
  const Spent less = solve(few), more = solve(many);
  EXPECT_EQ(more.allocations, 0) << "solves one after another allocate nothing";
  return (more - less) / double(many - few);
}

/// Vectors read or written beside products in one iteration, as of docs/theory/methods.md; 0: it depends.
double traffic_of(const std::string& method, bool with_P) {
  static const std::map<std::string, std::pair<double, double>> known{
      {"cocg", {10, 12}},     {"cocr", {14, 19}},    {"cg", {10, 12}},           {"minres", {11, 16}},
      {"bicgstab", {18, 19}}, {"chebyshev", {8, 8}}, {"pipelined-cg", {13, 18}}, {"pipelined-bicgstab", {22, 22}},
      {"richardson", {4, 6}}, {"idr", {23.2, 25}}};
  const auto found = known.find(method);
  return found == known.end() ? 0 : with_P ? found->second.second : found->second.first;
}

TEST(Counts, OfAnIteration) {
  using T = double;
  exec::keep_device_memory(true);
  const bool show = std::getenv("TACIT_TEST_SHOW") != nullptr;
  const auto a = grid<T>(24, 20);
  const auto b = random_vector<T>(a.n, 4);
  const auto A = a.on<Device>(comm::Communicator::self());
  const auto spai = precond::make<T, Device>("fsai", *A);
  if (show)
    std::printf(
        "| method | launches | copies to the host | bytes | to the device | on the device | waits | with work queued "
        "behind | allocations | reductions | products | vectors moved | documented |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const op::Operator<T, Device>* P :
       {(const op::Operator<T, Device>*)nullptr, (const op::Operator<T, Device>*)spai.get()})
    for (const auto& m : all_methods()) {
      Options o;
      m.choose(o);
      o.rtol = 0, o.history = false, o.explain = false, o.fallbacks = false;
      if (krylov::takes(o.method, "replacement")) o.replacement = 0;
      if (P && o.lambda_min) o.lambda_min = *o.lambda_min / 4, o.lambda_max = *o.lambda_max / 4;
      if (P && o.method == krylov::Method::richardson) o.relaxation = 0.7;
      // Both within one cycle.
      const int restart = o.restart.value_or(krylov::default_restart), few = restart < 20 ? restart + 2 : 6;
      const Spent s = per_iteration(*A, P, b, o, few, few + (restart < 20 ? 8 : 20));
      SCOPED_TRACE(m.name + (P ? " with P" : ""));
      // A solve reads its sums when it needs them, and nothing else; no iteration copies a vector between memories.
      EXPECT_LT(s.bytes_to_host + s.bytes_to_device, double(a.n * sizeof(T)));
      const double moved = s.bytes / double(a.n * sizeof(T)), documented = traffic_of(m.name, P != nullptr);
      if (documented > 0) {
        EXPECT_LE(moved, 1.15 * documented);
        EXPECT_LE(s.waits, s.reductions + 1e-9);
      }
      // Pipelined methods queue the next product before they wait for sums, so that the device does not.
      if (m.name.starts_with("pipelined")) {
        EXPECT_EQ(s.overlapped, s.waits);
        EXPECT_GT(s.waits, 0);
      }
      if (show)
        std::printf("| %s%s | %.2f | %.2f | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f | %s |\n",
                    m.name.c_str(), P ? ", P" : "", s.launches, s.to_host, s.bytes_to_host, s.to_device, s.on_device,
                    s.waits, s.overlapped, s.allocations, s.reductions, s.products, moved,
                    documented > 0 ? std::to_string(documented).substr(0, 4).c_str() : "");
    }
  exec::keep_device_memory(false);
}

/// What one rank of two asks of its device in an iteration; counted over both, which are alike.
Spent on_two_ranks(const Options& o, const char* kind, int few, int many) {
  using T = double;
  Spent all{};
  comm::run_threads(2, [&](const comm::Communicator& comm) {
    const exec::UseGpu use(comm.rank());
    const auto a = grid<T>(24, 20);
    const auto A = a.on<Device>(comm);
    const auto P = kind ? precond::make<T, Device>(kind, *A) : nullptr;
    const auto b = random_vector<T>(a.n, 4);
    const auto rhs = spread<T, Device>(A->range(), b);
    const auto solve = [&](int iterations) {
      Options now = o;
      now.max_iterations = iterations;
      layout::Vector<T, Device> x(A->domain());
      (void)comm.all_sum(Global(1));
      const Spent before = so_far();
      (void)comm.all_sum(Global(1));
      const auto report = krylov::solve<T, Device>(*A, P.get(), rhs, x, now);
      (void)comm.all_sum(Global(1));
      Spent spent = so_far() - before;
      (void)comm.all_sum(Global(1));
      EXPECT_EQ(report.iterations, iterations) << report.detail;
      spent.reductions = 2 * double(report.counts.reductions),
      spent.products = 2 * double(report.counts.operator_applies);
      return spent;
    };
    solve(many);
    const Spent less = solve(few), more = solve(many);
    if (comm.rank() == 0) all = (more - less) / (2.0 * (many - few));
  });
  return all;
}

// Sums are not waited for before they are sent: what the host waits for is packed for neighbours, or, where nothing is
// exchanged, sums; and the device has work behind it.
TEST(Counts, OfAnIterationOnTwoRanks) {
  exec::keep_device_memory(true);
  const bool show = std::getenv("TACIT_TEST_SHOW") != nullptr;
  if (show)
    std::printf(
        "| method, a rank of two | launches | copies to the host | to the device | waits | with work queued behind | "
        "reductions | products |\n|---|---|---|---|---|---|---|---|\n");
  for (const char* P : {"", "jacobi", "fsai"})
    for (const auto& m : all_methods()) {
      const bool pipelined = m.name.starts_with("pipelined");
      if (!pipelined && !(show || m.name == "cg" || m.name == "bicgstab")) continue;
      Options o;
      m.choose(o);
      o.rtol = 0, o.history = false, o.explain = false, o.fallbacks = false;
      if (krylov::takes(o.method, "replacement")) o.replacement = 0;
      if (*P && o.lambda_min) o.lambda_min = *o.lambda_min / 4, o.lambda_max = *o.lambda_max / 4;
      if (*P && o.method == krylov::Method::richardson) o.relaxation = 0.7;
      const int restart = o.restart.value_or(krylov::default_restart), few = restart < 20 ? restart + 2 : 6;
      SCOPED_TRACE(m.name + " " + P);
      const Spent s = on_two_ranks(o, *P ? P : nullptr, few, few + (restart < 20 ? 8 : 20));
      if (pipelined) {
        EXPECT_EQ(s.overlapped, s.waits) << "the host waits for a device that has nothing else to do";
        EXPECT_GT(s.waits, 0);
        // One for each exchange, of A and of an fsai of two factors.
        EXPECT_LE(s.waits, s.products * (std::string(P) == "fsai" ? 3 : 1) + 1e-9);
      }
      if (show)
        std::printf("| %s %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", m.name.c_str(), P, s.launches,
                    s.to_host, s.to_device, s.waits, s.overlapped, s.reductions, s.products);
    }
  exec::keep_device_memory(false);
}

}  // namespace
}  // namespace tacit::test
