// The cost of long blocks: iterations of the s-step methods compared with those of the classical ones.
//
//   bench_steps [--size 24] [--plain] [STEP ...]
//
// Systems: convection-diffusion with central differences and Peclet numbers 0.5 and 0.25, tolerance 1e-10; those of
// bench_reliability (grids of SIZE^2), tolerance 1e-8. STEP: 10 if none is given. --plain: without fallbacks.
// One line per system and method: iterations of the classical method (- if it did not converge), then for each basis
// and step: iterations / restarts (reductions per iteration), and marks: x if the method did not converge although the
// classical one did, ! if it reported convergence falsely (the residual, recomputed in higher precision, exceeds 1.1
// times the tolerance), m if it ended as another method.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "reliability_systems.hpp"

namespace {

using namespace tacit;
using bench::System;

System convection(Global n, bool ones) {
  System s{message("convection ", n), false, {}, {}};
  s.a = bench::assemble(n, n, [](Global, Global, const auto& put) {
    put(0, -1, -1.25), put(-1, 0, -1.5), put(0, 0, 4), put(1, 0, -0.5), put(0, 1, -0.75);
  });
  std::vector<double> b(std::size_t(n * n), 1.0);
  for (std::size_t i = 0; !ones && i < b.size(); ++i) b[i] = bench::noise(1, i);
  s.b.push_back({ones ? "ones" : "random", std::move(b), 0});
  return s;
}

struct Sums {
  double most = 0, log_sum = 0;
  int solves = 0, worse = 0, failed = 0, unconfirmed = 0;
};

void compare(const System& system, double rtol, krylov::Method classical, krylov::Method method, bool fallbacks,
             const std::vector<int>& steps, std::vector<Sums>& sums) {
  const auto comm = comm::Communicator::self();
  const auto space = layout::Space::distributed(comm, system.n());
  const op::Csr<double> A(space, space, system.a);
  for (const auto& f : system.b) {
    layout::Vector<double> b(space);
    b.assign(f.b);
    const auto solve = [&](krylov::Options o) {
      o.rtol = rtol, o.fallbacks = fallbacks, o.history = false;
      layout::Vector<double> x(space);
      auto report = krylov::solve<double, Host>(A, nullptr, b, x, o, system.positive);
      return std::pair{report, bench::true_residual(system.a, f.b, x.to_host())};
    };
    krylov::Options o;
    o.method = classical;
    const auto reference = solve(o).first;
    std::printf("%-20s %-8s %-11s %6d%-2s", system.name.c_str(), f.name.c_str(), krylov::to_string(method),
                reference.iterations, reference.converged() ? "" : "-");
    std::size_t at = 0;
    for (const auto basis : {krylov::Basis::monomial, krylov::Basis::newton, krylov::Basis::chebyshev})
      for (const int s : steps) {
        o.method = method, o.basis = basis, o.step = s;
        const auto [r, truth] = solve(o);
        const bool lie = r.converged() && truth > 1.1 * rtol;
        const bool worse = reference.converged() && !r.converged();
        std::printf("%7d/%-2d(%.2f)%s%s%s", r.iterations, r.restarts,
                    double(r.counts.reductions) / std::max(r.iterations, 1), lie ? "!" : "", worse ? "x" : "",
                    r.method != krylov::to_string(method) ? "m" : "");
        Sums& sum = sums[at++];
        sum.failed += worse, sum.unconfirmed += lie;
        if (!reference.converged() || !r.converged() || reference.iterations == 0) continue;
        const double ratio = double(r.iterations) / reference.iterations;
        ++sum.solves;
        sum.log_sum += std::log(ratio);
        sum.most = std::max(sum.most, ratio);
        sum.worse += r.iterations > 1.05 * reference.iterations + 2;
      }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Global size = 24;
  bool fallbacks = true;
  std::vector<int> steps;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--size" && i + 1 < argc) size = std::atoll(argv[++i]);
    else if (std::string(argv[i]) == "--plain") fallbacks = false;
    else steps.push_back(std::atoi(argv[i]));
  }
  if (steps.empty()) steps = {10};
  std::printf("%-20s %-8s %-11s %8s", "system", "b", "method", "classical");
  for (const char* basis : {"mono", "newton", "cheb"})
    for (const int s : steps) std::printf("%16s", message(basis, " ", s).c_str());
  std::printf("\n");
  using enum krylov::Method;
  std::vector<Sums> general(3 * steps.size()), positive(general);
  for (const auto& [n, ones] : {std::pair<Global, bool>{24, false}, {32, false}, {32, true}, {64, true}, {96, true}})
    compare(convection(n, ones), 1e-10, bicgstab, ca_bicgstab, fallbacks, steps, general);
  for (const System& system : bench::systems(size)) {
    compare(system, 1e-8, bicgstab, ca_bicgstab, fallbacks, steps, general);
    if (system.positive) compare(system, 1e-8, cg, ca_cg, fallbacks, steps, positive);
  }
  for (const auto& [name, sums] : {std::pair{"ca-bicgstab", &general}, std::pair{"ca-cg", &positive}}) {
    std::printf("%s:", name);
    for (const Sums& s : *sums)
      std::printf("  [%d solves, mean ratio %.3f, most %.2f, %d above 1.05 (+ 2), %d failed, %d false]", s.solves,
                  std::exp(s.log_sum / std::max(s.solves, 1)), s.most, s.worse, s.failed, s.unconfirmed);
    std::printf("\n");
  }
}
