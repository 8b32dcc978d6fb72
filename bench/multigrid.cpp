// Multigrid on one rank: the passes of a level compared with their memory traffic, whole solves, a full-multigrid
// cycle, stencils, levels that cannot be agglomerated, and coarsest-level solvers.
//
//   bench_multigrid [sizes=128] [threads=1,2] [only=pass,solve,f,stencils,boxes,bottom] [json=FILE]
//
// Every line is the best of a few runs, which alternate with those that it is compared with. Coarsest-level solvers
// (bottom) run on 8^3, 16^3 and 32^3 cells with one thread.
#include "harness.hpp"

#include <tacit/app/multigrid/bottom.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/memory.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>
#include <vector>

using namespace tacit;
using precond::Multigrid;
using precond::MultigridOptions;
using Operator = op::FiniteVolume<double>;
using Vector = layout::Vector<double>;

namespace {

bench::Rows results;
template <class... A>
std::string text(const char* format, A... a) {
  char buffer[1024];
  std::snprintf(buffer, sizeof buffer, format, a...);
  return buffer;
}

void set_threads([[maybe_unused]] int n) {
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

double wave(double t) {
  t -= std::floor(t);
  return std::abs(4 * t - 2) - 1;
}
double triangle(double x, double y, double z) {
  return wave(x + .25) * wave(y + .25) * wave(z + .25);
}
double bubble(double x, double y, double z) {
  const double r = std::sqrt((x - .5) * (x - .5) + (y - .5) * (y - .5) + (z - .5) * (z - .5));
  return 5.5 + 4.5 * std::tanh(10 * (r - 0.25));
}

std::shared_ptr<const Operator> make(Global n, op::Boundary boundary, const op::Field& beta, Global edge = 0) {
  const bool periodic = boundary == op::Boundary::periodic;
  const auto boxes =
      op::Boxes::whole(comm::Communicator::self(), op::Domain::uniform({n, n, n}, boundary), {edge, edge, edge});
  return std::make_shared<const Operator>(
      boxes, op::coefficients<double>(boxes, periodic ? 0.9 : 0, periodic ? 0.9 : 1, {}, beta));
}

// Two sweeps, residual and restriction on the finest level: combined in one pass, and one after the other.
void passes(Global n, int threads) {
  set_threads(threads);
  const auto A = make(n, op::Boundary::periodic, bubble);
  Vector f(A->range()), u(A->range());
  f.assign(A->sampled(triangle));
  MultigridOptions o;
  o.levels = 2;
  o.post = 0;
  const Multigrid<double> M(A, o);
  double best[2] = {1e9, 1e9};
  for (int i = 0; i < 5; ++i)
    for (const bool together : {true, false}) {
      precond::detail::one_pass(together);
      M.take_levels();
      M.apply(f, u);
      const auto level = M.take_levels().front();
      best[together] = std::min(best[together], level.down + level.smooth + level.residual);
    }
  precond::detail::one_pass(true);
  // The read bandwidth at this time.
  const model::MemoryReader memory(model::beyond_caches(1, threads));
  double bandwidth = 0;
  for (int i = 0; i < 5; ++i) {
    const double from = wall_time(), zero = memory.read();
    bandwidth = std::max(bandwidth, double(memory.bytes()) / (wall_time() - from + zero));
  }
  const double cells = double(n) * double(n) * double(n), floor = cells * 57 / bandwidth;
  std::printf(
      "%4ld^3 variable, %d thread%s: 2 sweeps + residual + restriction  one pass %.4f s, step by step %.4f s (%.2f "
      "times); 57 bytes a cell at %.1f GB/s %.4f s\n",
      long(n), threads, threads > 1 ? "s" : "", best[1], best[0], best[0] / best[1], bandwidth * 1e-9, floor);
  results.add(
      text("{\"what\": \"pass\", \"n\": %ld, \"threads\": %d, \"one_pass\": %.6f, \"separate\": %.6f, \"floor\": %.6f}",
           long(n), threads, best[1], best[0], floor));
}

struct Variant {
  std::string name;
  MultigridOptions options;
  precond::BottomOptions bottom;
};

void solves(Global n, int threads, const op::Field& beta, const char* coefficient) {
  set_threads(threads);
  const auto A = make(n, op::Boundary::periodic, beta);
  Vector f(A->range()), u(A->range());
  f.assign(A->sampled(triangle));
  std::vector<Variant> variants{{"V(2,2)", {}, {}}, {"V(2,2), levels in float", {}, {}}, {"V(2,3)", {}, {}}};
  variants[1].options.single_levels = true;
  variants[2].options.post = 3;
  std::vector<std::unique_ptr<Multigrid<double>>> M;
  for (const auto& v : variants)
    M.push_back(std::make_unique<Multigrid<double>>(A, v.options, precond::make_bottom<double>(v.bottom),
                                                    precond::make_bottom<float>(v.bottom)));
  std::vector<precond::MultigridReport> best(variants.size());
  for (int i = 0; i < (n > 200 ? 2 : 4); ++i)
    for (std::size_t v = 0; v < variants.size(); ++v) {
      layout::fill(u, 0.0);
      auto r = M[v]->solve(f, u);
      if (i == 0 || r.seconds < best[v].seconds) best[v] = r;
    }
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const double rate = double(n) * double(n) * double(n) / best[v].seconds * 1e-6;
    std::printf("%4ld^3 %-9s %d thread%s  %-24s %s, %2d cycles, residual %.1e  %.4f s  %.2f Mdof/s\n", long(n),
                coefficient, threads, threads > 1 ? "s" : " ", variants[v].name.c_str(), to_string(best[v].reason),
                best[v].cycles, best[v].residual_norm, best[v].seconds, rate);
    results.add(
        text("{\"what\": \"solve\", \"n\": %ld, \"coefficient\": \"%s\", \"threads\": %d, \"variant\": \"%s\", "
             "\"cycles\": %d, \"seconds\": %.6f, \"residual_norm\": %.3e}",
             long(n), coefficient, threads, variants[v].name.c_str(), best[v].cycles, best[v].seconds,
             best[v].residual_norm));
  }
}

// One full-multigrid cycle for a Dirichlet problem with a known solution.
void full(Global n, int threads) {
  set_threads(threads);
  const double w = std::numbers::pi;
  const op::Field exact = [=](double x, double y, double z) {
    return std::sin(w * x) * std::sin(w * y) * std::sin(w * z);
  };
  for (const bool variable : {false, true}) {
    const auto A = make(n, op::Boundary::dirichlet, variable ? op::Field(bubble) : op::Field{});
    Vector f(A->range()), u(A->range()), e(A->range());
    f.assign(A->sampled([=](double x, double y, double z) {
      const double r = std::max(1e-300, std::sqrt((x - .5) * (x - .5) + (y - .5) * (y - .5) + (z - .5) * (z - .5)));
      const double c = std::cosh(10 * (r - 0.25)), slope = variable ? 45 / (c * c) / r : 0;
      const double S[3] = {std::sin(w * x), std::sin(w * y), std::sin(w * z)},
                   C[3] = {std::cos(w * x), std::cos(w * y), std::cos(w * z)};
      const double flow = (x - .5) * C[0] * S[1] * S[2] + (y - .5) * S[0] * C[1] * S[2] + (z - .5) * S[0] * S[1] * C[2];
      return -(slope * w * flow - 3 * w * w * (variable ? bubble(x, y, z) : 1.0) * S[0] * S[1] * S[2]);
    }));
    e.assign(A->sampled(exact));
    const auto error = [&](const Vector& v) {
      double most = 0;
      for (std::size_t i = 0; i < v.size(); ++i) most = std::max(most, std::abs(v.data()[i] - e.data()[i]));
      return most;
    };
    const Multigrid<double> V(A, {}, precond::direct_bottom<double>());
    V.solve(f, u);
    const double discretisation = error(u);
    std::vector<MultigridOptions> options(6);
    for (auto& o : options) o.cycle = precond::Cycle::f;
    options[0].pre = options[0].post = 1;
    options[1].post = 1;
    options[3].post = 3;
    options[4].pre = options[4].post = 3;
    options[5].full_interpolation = precond::Interpolation::quadratic;
    for (const auto& o : options) {
      const Multigrid<double> F(A, o, precond::direct_bottom<double>());
      double seconds = 1e9;
      for (int i = 0; i < 5; ++i) {
        const double from = wall_time();
        F.apply(f, u);
        seconds = std::min(seconds, wall_time() - from);
      }
      std::printf(
          "%4ld^3 Dirichlet %-8s %d thread%s  one F-cycle, V(%d,%d), %s full interpolation: error %.3f of the "
          "discretisation's  %.4f s  %.1f Mdof/s\n",
          long(n), variable ? "variable" : "constant", threads, threads > 1 ? "s" : "", o.pre, o.post,
          to_string(o.full_interpolation.value_or(precond::Interpolation::linear)), error(u) / discretisation, seconds,
          double(u.size()) / seconds * 1e-6);
      results.add(
          text("{\"what\": \"F\", \"n\": %ld, \"threads\": %d, \"variable\": %d, \"pre\": %d, \"post\": %d, "
               "\"interpolation\": \"%s\", \"error\": %.4f, \"seconds\": %.6f}",
               long(n), threads, int(variable), o.pre, o.post,
               to_string(o.full_interpolation.value_or(precond::Interpolation::linear)), error(u) / discretisation,
               seconds));
    }
  }
}

// The stencils compared: sweeps, one F-cycle and V-cycles for a Dirichlet problem with a known solution.
void stencils(Global n, int threads) {
  set_threads(threads);
  const double w = std::numbers::pi;
  const op::Field exact = [=](double x, double y, double z) {
    return std::sin(w * x) * std::sin(w * y) * std::sin(w * z);
  };
  const auto boxes =
      op::Boxes::whole(comm::Communicator::self(), op::Domain::uniform({n, n, n}, op::Boundary::dirichlet));
  using op::CellStencil;
  for (const auto& [stencil, stored] : {std::pair{CellStencil::seven_point, false},
                                        {CellStencil::twenty_seven_point, false},
                                        {CellStencil::fourth_order, false},
                                        {CellStencil::fourth_order, true}}) {
    const op::Field beta = stored ? op::Field([](double, double, double) { return 1.0; }) : op::Field{};
    const auto A = std::make_shared<const Operator>(boxes, op::coefficients<double>(boxes, 0, 1, {}, beta, stencil));
    const bool fourth = stencil == CellStencil::fourth_order;
    Vector f(A->range()), u(A->range()), e(A->range());
    f.assign(A->sampled([=](double x, double y, double z) { return 3 * w * w * exact(x, y, z); }));
    e.assign(A->sampled(exact));
    const auto error = [&](const Vector& v) {
      double most = 0;
      for (std::size_t i = 0; i < v.size(); ++i) most = std::max(most, std::abs(v.data()[i] - e.data()[i]));
      return most;
    };
    const Multigrid<double> V(A, {}, precond::direct_bottom<double>());
    const auto report = V.solve(f, u);
    const double discretisation = error(u);
    MultigridOptions o;
    o.cycle = precond::Cycle::f, o.pre = o.post = fourth ? 3 : 2;
    if (!fourth) o.full_interpolation = precond::Interpolation::quadratic;
    const Multigrid<double> F(A, o, precond::direct_bottom<double>());
    double seconds = 1e9, product = 1e9;
    for (int i = 0; i < 3; ++i) {
      double from = wall_time();
      F.apply(f, u);
      seconds = std::min(seconds, wall_time() - from);
    }
    const double reached = error(u);
    for (int i = 0; i < 5; ++i) {
      const double from = wall_time();
      A->apply(e, u);
      product = std::min(product, wall_time() - from);
    }
    const double cells = double(n) * double(n) * double(n);
    std::printf(
        "%4ld^3 %-12s %s %d thread%s  product %.4f s; %2d V-cycles to 1e-10, %.4f s; error %.3e; F-cycle V(%d,%d) %.3f "
        "of it, "
        "%.4f s, %.1f Mdof/s\n",
        long(n), to_string(stencil), stored ? "stored  " : "constant", threads, threads > 1 ? "s" : " ", product,
        report.cycles, report.seconds, discretisation, o.pre, o.post, reached / discretisation, seconds,
        cells / seconds * 1e-6);
    results.add(text(
        "{\"what\": \"stencil\", \"n\": %ld, \"threads\": %d, \"stencil\": \"%s\", \"stored\": %d, \"product\": %.6f, "
        "\"cycles\": %d, \"seconds\": %.6f, \"error\": %.6e, \"f_error\": %.4f, \"f_seconds\": %.6f}",
        long(n), threads, to_string(stencil), int(stored), product, report.cycles, report.seconds, discretisation,
        reached / discretisation, seconds));
  }
}

// Boxes of 8^3 cells without agglomeration: coarsening ends with boxes of 2^3 cells.
void boxes(Global n, int threads) {
  set_threads(threads);
  const auto A = make(n, op::Boundary::periodic, bubble, 8);
  Vector f(A->range()), u(A->range());
  f.assign(A->sampled(triangle));
  std::vector<Variant> variants;
  for (const std::string name : {"bicgstab", "ca-bicgstab", "ca-bicgstab 8", "cg", "ca-cg", "cg to 0.1"}) {
    Variant v{name, {}, {}};
    v.options.cycle = precond::Cycle::u;
    v.options.smallest_box = 2;
    v.bottom.name = name.substr(0, name.find(' '));
    if (name == "ca-bicgstab") v.bottom.krylov.step = 4;
    if (name == "ca-bicgstab 8") v.bottom.krylov.step = 8;
    if (name == "cg to 0.1") v.bottom.krylov.rtol = 0.1;
    variants.push_back(v);
  }
  std::vector<std::unique_ptr<Multigrid<double>>> M;
  for (const auto& v : variants)
    M.push_back(std::make_unique<Multigrid<double>>(A, v.options, precond::make_bottom<double>(v.bottom)));
  std::vector<precond::MultigridReport> best(variants.size());
  for (int i = 0; i < 3; ++i)
    for (std::size_t v = 0; v < variants.size(); ++v) {
      layout::fill(u, 0.0);
      auto r = M[v]->solve(f, u);
      if (i == 0 || r.seconds < best[v].seconds) best[v] = r;
    }
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const auto& r = best[v];
    const double bottom = r.levels.back().bottom;
    std::printf(
        "%4ld^3 in boxes of 8^3, none moved, %d thread%s  bottom %ld^3 %-14s %s, %2d cycles, %3d bottom iterations  "
        "%.4f s, bottom %.4f s (%.1f %%)\n",
        long(n), threads, threads > 1 ? "s" : "", long(r.levels.back().cells[0]), variants[v].name.c_str(),
        to_string(r.reason), r.cycles, r.bottom_iterations, r.seconds, bottom, 100 * bottom / r.seconds);
    results.add(
        text("{\"what\": \"boxes\", \"n\": %ld, \"threads\": %d, \"bottom\": \"%s\", \"cycles\": %d, \"iterations\": "
             "%d, \"seconds\": %.6f, \"bottom_seconds\": %.6f}",
             long(n), threads, variants[v].name.c_str(), r.cycles, r.bottom_iterations, r.seconds, bottom));
  }
}

// A coarsest-level problem alone.
void bottoms(Global n) {
  set_threads(1);
  const auto A = make(n, op::Boundary::periodic, bubble);
  Vector f(A->range()), u(A->range()), r(A->range());
  f.assign(A->sampled([](double x, double y, double z) { return triangle(x, y, z) + std::sin(13 * x + 7 * y) * z; }));
  struct Method {
    const char* name;
    int step;
    double seconds = 1e9;
    krylov::Report report = {};
    double left = 0;
  };
  std::vector<Method> methods{{"bicgstab", 0}, {"ca-bicgstab", 2}, {"ca-bicgstab", 4}, {"ca-bicgstab", 8},
                              {"cg", 0},       {"ca-cg", 4},       {"ca-cg", 8},       {"pipelined-bicgstab", 0}};
  for (int i = 0; i < 4; ++i)
    for (auto& m : methods) {
      auto o = precond::BottomOptions::defaults();
      o.method = tacit::value_of<krylov::Method>(m.name);
      if (m.step) o.step = m.step;
      layout::fill(u, 0.0);
      const double from = wall_time();
      m.report = krylov::solve<double, Host>(*A, nullptr, f, u, o, true);
      m.seconds = std::min(m.seconds, wall_time() - from);
      A->apply(u, r);
      layout::subtract(f, r, r);
      m.left = layout::max_norm(r) / layout::max_norm(f);
    }
  for (const auto& m : methods) {
    std::printf("bottom %ld^3  %-18s s=%d  %3d iterations, %3d sums, residual %.2e  %.3f ms (%.2f of bicgstab's)\n",
                long(n), m.name, m.step, m.report.iterations, int(m.report.counts.reductions), m.left, 1e3 * m.seconds,
                m.seconds / methods[0].seconds);
    results.add(
        text("{\"what\": \"bottom\", \"n\": %ld, \"method\": \"%s\", \"step\": %d, \"iterations\": %d, \"reductions\": "
             "%d, \"residual\": %.3e, \"seconds\": %.6f}",
             long(n), m.name, m.step, m.report.iterations, int(m.report.counts.reductions), m.left, m.seconds));
  }
}

}  // namespace

int main(int count, char** words) {
  bench::Words given{
      {"sizes", "128"}, {"threads", "1,2"}, {"only", "pass,solve,f,stencils,boxes,bottom"}, {"json", ""}};
  given.take(count, words);
  const auto wants = [&](const char* what) { return given.lists("only", what); };
  for (const int n : given.numbers("sizes"))
    for (const int t : given.numbers("threads")) {
      if (wants("pass")) passes(n, t);
      if (wants("solve"))
        solves(n, t, bubble, "bubble"),
            solves(
                n, t, [](double, double, double) { return 1.0; }, "stored"),
            solves(n, t, {}, "constant");
      if (wants("f")) full(n, t);
      if (wants("stencils")) stencils(n, t);
      if (wants("boxes")) boxes(n, t);
    }
  if (wants("bottom"))
    for (const Global n : {8, 16, 32}) bottoms(n);
  results.write(given["json"]);
}
