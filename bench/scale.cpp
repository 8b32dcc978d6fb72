// The cost of methods on machines with hundreds or thousands of ranks, by simulated clocks (docs/theory/simulator.md):
// every time is SIMULATED, while the library's solvers really run, with all their arithmetic.
//
//   bench_scale gmres [ranks=240] [n=1024] [points=5] [cycles=20] [restart=30]
//       cycles of GMRES and its variants
//   bench_scale turns [ranks=60,240] [latencies=2,20,200] [n=256] [points=5] [cycles=3]
//       s-step against pipelined s-step GMRES
//   bench_scale bottom [ranks=512] [edge=4] [rtol=1e-3] [solves=9]
//       coarsest-level solves of a V-cycle
//   bench_scale counts [ranks=64] [edge=4] [rtol=1e-3]
//       its messages, counted one by one
//   bench_scale multigrid [ranks=512] [edge=16] [rtol=1e-10]
//       whole solves with truncated V-cycles
//   bench_scale amg [ranks=1,8,64] [points=7] [edge=8] [sigma=0] [rtol=1e-8]
//                   [bottom=800] [coarsest=400] [below=] [step=4] [real=0] [table=0]
//       cg with algebraic multigrid, weak scaling
//
// bottom: solves by the library are not the first with their matrix, as in all cycles but the first. Their right-hand
// sides differ by a percent, since the iterations of BiCGStab depend on rounding; figures are means of all.
//
// amg: boxes of edge^2 or edge^3 unknowns on each rank; sigma: log-normal coefficients, independent in each cell.
// Levels end at so many unknowns: bottom= where a Krylov method solves the last, coarsest= where it is factored, on
// every rank that has rows of it. With real=1 ranks are threads (oversubscribed), and there are counts and no times.
// table=1: work by level.
//
// Options of all: machine=NAME; L= o= noise= kernel= poll= (us), G= (ns per byte), GBps= cacheGBps= cacheKB= Gflops=;
// progress=, delivery=, seed=; only=NAME,..; json=FILE.
#include "boxes.hpp"
#include "harness.hpp"

#include <tacit/app/multigrid/bottom.hpp>
#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/outer.hpp>
#include <tacit/krylov/repeated.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>
#include <tacit/precond/amg.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using namespace tacit;
using comm::MachineModel;
using krylov::Method;
using Vector = layout::Vector<double>;

namespace {

bench::Words given({}, {"machine", "L",      "o",        "noise",  "kernel",   "G",        "GBps",      "cacheGBps",
                        "cacheKB", "Gflops", "progress", "poll",   "delivery", "seed",     "only",      "json",
                        "ranks",   "n",      "points",   "cycles", "restart",  "edge",     "rtol",      "sigma",
                        "bottom",  "step",   "below",    "real",   "table",    "coarsest", "latencies", "solves"});
double number(const char* key, double otherwise) {
  return given.number(key, otherwise);
}
bool wanted(const std::string& name) {
  return !given.has("only") || given.lists("only", name);
}

MachineModel machine(const char* otherwise) {
  MachineModel m = MachineModel::named(given.has("machine") ? given["machine"] : otherwise);
  m.latency = 1e-6 * number("L", 1e6 * m.latency);
  m.overhead = 1e-6 * number("o", 1e6 * m.overhead);
  m.noise = 1e-6 * number("noise", 1e6 * m.noise);
  m.kernel = 1e-6 * number("kernel", 1e6 * m.kernel);
  m.gap = 1e-9 * number("G", 1e9 * m.gap);
  m.bandwidth = 1e9 * number("GBps", 1e-9 * m.bandwidth);
  m.cache_bandwidth = 1e9 * number("cacheGBps", 1e-9 * m.cache_bandwidth);
  m.cache = 1024 * number("cacheKB", m.cache / 1024);
  m.flop_rate = 1e9 * number("Gflops", 1e-9 * m.flop_rate);
  if (given.has("progress")) m.progress = value_of<MachineModel::Progress>(given["progress"]);
  if (given.has("poll")) m.progress = MachineModel::Progress::poll, m.poll_interval = 1e-6 * number("poll", 50);
  if (given.has("delivery")) m.delivery = value_of<MachineModel::Delivery>(given["delivery"]);
  m.seed = std::uint64_t(number("seed", double(m.seed)));
  return m;
}

struct Outcome {
  krylov::Report report;
  comm::SimulatedTimes times;
  double real = 0;  // seconds of real time
  int solves = 1;
};

bench::Rows results;
void print(const std::string& name, const Outcome& o, double& base) {
  const auto& r = o.report;
  const double t = o.times.finish / o.solves, its = std::max(1, r.iterations) / double(o.solves);
  const double sum = o.times.seconds("sum") / o.solves, halo = o.times.seconds("halo") / o.solves;
  const double agree = o.times.seconds("agree") / o.solves, kernels = o.times.kernel_seconds() / o.solves;
  const double sums = double(r.counts.reductions) / o.solves;
  if (base == 0) base = t;
  std::printf(
      "%-28s %6.5g its %9.3f ms  x%-6.2f %8.2f us/it = sums %7.2f + halos %7.2f + agree %6.2f + kernels %7.2f  (%.5g "
      "sums, residual %.1e, %s; %.1f s here)\n",
      name.c_str(), its, 1e3 * t, base / t, 1e6 * t / its, 1e6 * sum / its, 1e6 * halo / its, 1e6 * agree / its,
      1e6 * kernels / its, sums, r.residual_norm, krylov::to_string(r.reason), o.real);
  std::fflush(stdout);
  results.add("{\"name\": \"", name, "\", \"solves\": ", o.solves, ", \"iterations\": ", its, ", \"seconds\": ", t,
              ", \"sums\": ", sums, ", \"exchanges\": ", double(r.counts.exchanges) / o.solves,
              ", \"residual\": ", r.residual_norm, ", \"sum\": ", sum, ", \"halo\": ", halo, ", \"kernels\": ", kernels,
              "}");
}

// ---- GMRES and its variants ----

struct Variant {
  std::string name;
  krylov::Options options;
};
Variant variant(const std::string& name, Method method, int step = 0, int depth = 0, int block = 0) {
  Variant v{name, {}};
  v.options.method = method;
  if (step) v.options.step = step;
  if (depth) v.options.depth = depth;
  if (block) v.options.block = block;
  v.options.fallbacks = false;
  v.options.history = false;
  return v;
}

std::vector<Variant> gmres_variants(int cycles) {
  const int m = int(number("restart", 30));
  std::vector<Variant> variants{variant("gmres (cgs; 2 sums)", Method::gmres),
                                variant("gmres (1 sum)", Method::gmres),
                                variant("pipelined-gmres 1", Method::pipelined_gmres, 0, 1),
                                variant("pipelined-gmres 2", Method::pipelined_gmres, 0, 2),
                                variant("pipelined-gmres 5", Method::pipelined_gmres, 0, 5),
                                variant("ca-gmres 5 (bcgs)", Method::ca_gmres, 5),
                                variant("ca-gmres 10 (bcgs)", Method::ca_gmres, 10),
                                variant("ca-gmres 5 (pip)", Method::ca_gmres, 5),
                                variant("ca-gmres 10 (pip)", Method::ca_gmres, 10),
                                variant("pipelined-ca-gmres 2:5", Method::pipelined_ca_gmres, 0, 2, 5),
                                variant("pipelined-ca-gmres 2:10", Method::pipelined_ca_gmres, 0, 2, 10)};
  for (auto& v : variants) {
    if (v.name.find("cgs;") != v.name.npos) v.options.orthogonalisation = krylov::Orthogonalisation::cgs;
    if (v.name.find("(bcgs)") != v.name.npos) v.options.orthogonalisation = krylov::Orthogonalisation::bcgs;
    if (v.name.find("(pip)") != v.name.npos) v.options.orthogonalisation = krylov::Orthogonalisation::bcgs_pip;
    v.options.restart = m;
    v.options.max_iterations = cycles * m;
    v.options.rtol = 1e-14;
    v.options.explain = false;  // its products would be part of the simulated time
  }
  return variants;
}

Outcome gmres_once(const Variant& v, int ranks, const op::Grid& grid, const op::Weights<double>& weights,
                   const MachineModel& where) {
  Outcome o;
  const double from = wall_time();
  comm::simulate(ranks, where, [&](const comm::Communicator& comm) {
    const auto space = layout::Space::distributed(comm, grid.size());
    const op::Csr<double> A(space, space, op::stencil_rows(grid, weights, space.begin(), space.end()));
    Vector b(space), x(space);
    layout::fill(b, 1.0);
    comm::restart_clocks(comm);
    auto report = krylov::solve<double, Host>(A, nullptr, b, x, v.options);
    const auto times = comm::read_clocks(comm);
    if (comm.rank() == 0) o.report = std::move(report), o.times = times;
  });
  o.real = wall_time() - from;
  return o;
}

void gmres() {
  const int ranks = int(number("ranks", 240)), cycles = int(number("cycles", 20)), m = int(number("restart", 30));
  const auto n = Global(number("n", 1024));
  const int points = int(number("points", 5));
  const auto where = machine("tsubame");
  const auto variants = gmres_variants(cycles);
  const bool box = points == 7 || points == 27;
  const op::Grid grid(box ? std::vector<Global>{n, n, n} : std::vector<Global>{n, n});
  const auto weights = points == 27 ? op::isotropic_laplacian<double>(3) : op::laplacian<double>(box ? 3 : 2);
  std::printf(
      "SIMULATED: %d points of the Laplacian, %ld unknowns (csr, rows dealt out in order), %d cycles of GMRES(%d), "
      "%d ranks\n%s\n",
      points, long(grid.size()), cycles, m, ranks, where.describe().c_str());
  double base = 0;
  for (const auto& v : variants)
    if (wanted(v.name)) print(v.name, gmres_once(v, ranks, grid, weights, where), base);
}

// Where s-step GMRES with one reduction for ten vectors, which waits for it, overtakes pipelined s-step GMRES, which
// has two reductions in flight: by the latency of a message and by ranks.
void turns() {
  const auto n = Global(number("n", 256));
  const int points = int(number("points", 5));
  const auto variants = gmres_variants(int(number("cycles", 3)));
  const bool box = points == 7 || points == 27;
  const op::Grid grid(box ? std::vector<Global>{n, n, n} : std::vector<Global>{n, n});
  const auto weights = points == 27 ? op::isotropic_laplacian<double>(3) : op::laplacian<double>(box ? 3 : 2);
  const auto latencies = given.has("latencies") ? given.numbers("latencies") : std::vector<int>{2, 20, 200};
  MachineModel where = machine("tsubame");
  std::printf("SIMULATED: %d points of the Laplacian, %ld unknowns, %s, but for L\n", points, long(grid.size()),
              where.describe().c_str());
  for (const int ranks : given.has("ranks") ? given.numbers("ranks") : std::vector<int>{60, 240})
    for (const int latency : latencies) {
      where.latency = 1e-6 * latency;
      double best = 0, pipelined = 0;
      for (const auto& v : variants) {
        const bool pipes = v.name.starts_with("pipelined-ca"), steps = v.name == "ca-gmres 10 (pip)";
        if (!pipes && !steps) continue;
        const double t = gmres_once(v, ranks, grid, weights, where).times.finish;
        auto& least = pipes ? pipelined : best;
        least = least == 0 ? t : std::min(least, t);
      }
      std::printf(
          "%5d ranks, L %4d us: ca-gmres 10 with one reduction %8.3f ms, the best pipelined-ca-gmres %8.3f ms: x%.2f\n",
          ranks, latency, 1e3 * best, 1e3 * pipelined, pipelined / best);
      std::fflush(stdout);
      results.add("{\"ranks\": ", ranks, ", \"latency\": ", where.latency, ", \"s_step\": ", best,
                  ", \"pipelined\": ", pipelined, "}");
    }
}

// ---- coarsest-level solves ----

// Pseudo-random elements of this rank.
std::vector<double> scattered(const layout::Space& space) {
  std::vector<double> values(std::size_t(space.local_size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = bench::scatter(std::uint64_t(space.begin()) + i);
  return values;
}

struct Direction {  // p = r + beta (p - omega v)
  double beta, omega;
  void operator()(double r, double v, double& p) const { p = r + beta * (p - omega * v); }
};
struct Minus {  // r -= alpha v
  double alpha;
  void operator()(double v, double& r) const { r -= alpha * v; }
};
struct Step {
  double alpha, omega;
  void operator()(double p, double s, double& x) const { x += alpha * p + omega * s; }
};
struct Dot {
  exec::Sums<1, double> operator()(double a, double b) const { return {{a * b}}; }
};
struct Five {  // (t, s), (t, t), (s, s), (r0, s), (r0, t)
  exec::Sums<5, double> operator()(double t, double s, double r0) const {
    return {{t * s, t * t, s * s, r0 * s, r0 * t}};
  }
};

// Textbook BiCGStab: four dots and two norms, each with a reduction of its own; or with all sums that can be formed at
// the same time in one reduction: two reductions.
krylov::Report bicgstab(const op::Operator<double>& A, const Vector& b, Vector& x, double rtol, int sums) {
  using namespace exec;
  const auto& space = b.space();
  const auto dot = [&](const Vector& u, const Vector& v) {
    return space.sum(sweep(reads(u, v), updates(), writes(), Dot{})).wait()[0];
  };
  krylov::Report report;
  const auto before = space.comm().counters();
  Vector r = b, r0 = b, p = b, v(space), t(space);
  layout::fill(x, 0.0);
  double rho = dot(r0, r), rr = rho;
  const double goal = rtol * std::sqrt(rr);
  report.b_norm = std::sqrt(rr);
  while (std::sqrt(rr) > goal && report.iterations < 10000) {
    A.apply(p, v);
    const double alpha = rho / dot(r0, v);
    sweep(reads(v), updates(r), writes(), Minus{alpha});  // s
    if (sums == 6 && std::sqrt(dot(r, r)) <= goal) {
      layout::axpy(alpha, p, x);
      rr = 0;
      break;
    }
    A.apply(r, t);
    double omega, next = 0;
    if (sums == 6) {
      const double ts = dot(t, r);
      omega = ts / dot(t, t);
    } else {
      const auto [ts, tt, ss, r0s, r0t] = space.sum(sweep(reads(t, r, r0), updates(), writes(), Five{})).wait();
      omega = ts / tt;
      next = r0s - omega * r0t;
      rr = std::max(0.0, ss - omega * ts);
    }
    sweep(reads(p, r), updates(x), writes(), Step{alpha, omega});
    sweep(reads(t), updates(r), writes(), Minus{omega});
    ++report.iterations;
    if (sums == 6) {
      rr = dot(r, r);
      if (std::sqrt(rr) <= goal) break;
      next = dot(r0, r);
    }
    const double beta = next / rho * (alpha / omega);
    rho = next;
    sweep(reads(r, v), updates(p), writes(), Direction{beta, omega});
  }
  report.counts.reductions = (space.comm().counters() - before).reductions;
  A.apply(x, t);
  layout::subtract(b, t, t);
  const double left = layout::norm(t);
  report.residual_norm = left / report.b_norm;
  report.reason = krylov::reached(left, goal) ? krylov::Reason::converged : krylov::Reason::stagnated;
  return report;
}

void bottom() {
  const int ranks = int(number("ranks", 512));
  const auto edge = Global(number("edge", 4)), side = Global(std::lround(std::cbrt(ranks)));
  const double rtol = number("rtol", 1e-3);
  const int solves = int(number("solves", 9));
  require(side * side * side == ranks, "a cube of ranks is needed, not ", ranks);
  const auto where = machine("hopper");
  std::printf(
      "SIMULATED: bottom solve (mean of %d), 0.9 u - 0.9 lap u, periodic, one box of %ld^3 cells a rank (csr), "
      "residual "
      "down to %g, %d ranks\n%s\n",
      solves, long(edge), rtol, ranks, where.describe().c_str());
  std::vector<Variant> variants{variant("textbook bicgstab (6 sums)", Method::bicgstab),
                                variant("textbook bicgstab (2 sums)", Method::bicgstab),
                                variant("bicgstab (ours; 3 sums)", Method::bicgstab),
                                variant("pipelined-bicgstab", Method::pipelined_bicgstab),
                                variant("ca-bicgstab 4", Method::ca_bicgstab, 4),
                                variant("ca-bicgstab 8", Method::ca_bicgstab, 8),
                                variant("cg", Method::cg),
                                variant("pipelined-cg", Method::pipelined_cg),
                                variant("ca-cg 8", Method::ca_cg, 8)};
  double base = 0;
  for (const auto& v : variants) {
    if (!wanted(v.name)) continue;
    Outcome o;
    o.solves = solves;
    const double from = wall_time();
    comm::simulate(ranks, where, [&](const comm::Communicator& comm) {
      const Global cells = edge * edge * edge;
      const auto space = layout::Space::distributed(comm, cells * ranks);
      std::vector<double> f;
      const auto A =
          std::make_shared<const op::Csr<double>>(space, space, bench::box_rows(comm.rank(), side, edge, 0.9, 0.9, f));
      Vector b(space), other(space), x(space);
      other.assign(scattered(space));
      auto options = v.options;
      options.rtol = rtol, options.check_memory = false, options.fallbacks = true;  // as in a cycle
      krylov::Repeated<double> solves(A, options, true);
      const int sums = v.name.find("textbook") == v.name.npos ? 0 : v.name.find("6 sums") == v.name.npos ? 2 : 6;
      comm::collective(comm, [&] {
        if (!sums) (void)solves.solve(other, x);
        comm::restart_clocks(comm);
        krylov::Report all;
        for (int k = 0; k < o.solves; ++k) {
          for (std::size_t i = 0; i < f.size(); ++i) b.data()[i] = f[i] * (1 + 0.01 * k * other.data()[i] / o.solves);
          auto report = sums ? bicgstab(*A, b, x, rtol, sums) : solves.solve(b, x);
          all.iterations += report.iterations, all.counts.reductions += report.counts.reductions;
          all.counts.exchanges += report.counts.exchanges;
          all.residual_norm = std::max(all.residual_norm, report.residual_norm);
          if (k == 0 || all.converged()) all.reason = report.reason;
        }
        const auto times = comm::read_clocks(comm);
        if (comm.rank() == 0) o.report = std::move(all), o.times = times;
      });
    });
    o.real = wall_time() - from;
    print(v.name, o, base);
  }
}

// On a machine where a message takes a second and all else nothing, seconds count what follows one after the other: an
// exchange is one, an all-reduce one for each doubling of the ranks.
struct Counted {
  krylov::Report report;
  double agreements = 0;  // all-reduces that are not reductions of a method
};
Counted counted(const comm::Communicator& comm, const std::function<krylov::Report()>& solve) {
  comm::restart_clocks(comm);
  Counted c{solve()};
  c.agreements = comm::read_clocks(comm).seconds("agree") / std::bit_width(unsigned(comm.size() - 1));
  return c;
}

void counts() {
  const int ranks = int(number("ranks", 64));
  const auto edge = Global(number("edge", 4)), side = Global(std::lround(std::cbrt(ranks)));
  const double rtol = number("rtol", 1e-3);
  require(side * side * side == ranks, "a cube of ranks is needed, not ", ranks);
  MachineModel m;
  m.latency = 1, m.overhead = m.gap = m.noise = m.bandwidth = m.flop_rate = 0,
  m.progress = MachineModel::Progress::ideal;
  std::printf(
      "COUNTED: 0.9 u - 0.9 lap u, periodic, one box of %ld^3 cells a rank (csr), %d ranks, residual down to %g\n"
      "%-20s  a block: sums exchanges | bottom solve, first: its sums agreed exchanges | next: its sums agreed "
      "exchanges, its/s + 3 | solve(): its sums agreed exchanges\n",
      long(edge), ranks, rtol, "");
  for (const auto& v :
       {variant("bicgstab", Method::bicgstab, 0), variant("pipelined-bicgstab", Method::pipelined_bicgstab),
        variant("ca-bicgstab 4", Method::ca_bicgstab, 4), variant("ca-bicgstab 8", Method::ca_bicgstab, 8),
        variant("cg", Method::cg), variant("pipelined-cg", Method::pipelined_cg), variant("ca-cg 8", Method::ca_cg, 8),
        variant("ca-gmres 10", Method::ca_gmres, 10)})
    for (const auto norm : {krylov::Norm::two, krylov::Norm::max}) {
      if (!wanted(v.name)) continue;
      Counted first, next, whole;
      krylov::Report::Counts block;
      const int s = v.options.step.value_or(1);
      comm::simulate(ranks, m, [&](const comm::Communicator& comm) {
        const auto space = layout::Space::distributed(comm, edge * edge * edge * ranks);
        std::vector<double> f;
        const auto A = std::make_shared<const op::Csr<double>>(space, space,
                                                               bench::box_rows(comm.rank(), side, edge, 0.9, 0.9, f));
        Vector b(space), other(space), x(space);
        b.assign(f), other.assign(scattered(space));
        auto options = v.options;
        options.rtol = rtol, options.norm = norm, options.fallbacks = true;
        options.check_memory = false, options.explain = false;
        const auto solve = [&] {
          layout::fill(x, 0.0);
          return krylov::solve<double, Host>(*A, nullptr, b, x, options, true);
        };
        const auto up_to = [&](int iterations) {
          auto o = options;
          o.rtol = 0, o.max_iterations = iterations, o.fallbacks = false;
          if (v.options.step && v.options.method != Method::ca_gmres) o.replacement = 0;
          layout::fill(x, 0.0);
          return krylov::solve<double, Host>(*A, nullptr, b, x, o, true).counts;
        };
        const auto few = up_to(2 * s - 1), more = up_to(3 * s - 1);  // blocks of 1, 2, 4 .. s, and one more
        const auto all = counted(comm, solve);
        krylov::Repeated<double> solves(A, options, true);
        comm::collective(comm, [&] {
          const auto one = counted(comm, [&] { return solves.solve(other, x); });
          const auto two = counted(comm, [&] { return solves.solve(b, x); });
          if (comm.rank() == 0) first = one, next = two;
        });
        if (comm.rank() == 0)
          whole = all, block.reductions = more.reductions - few.reductions,
          block.exchanges = more.exchanges - few.exchanges;
      });
      const auto& n = next.report;
      std::printf("%-20s %4ld %9ld | %5d %4ld %6.0f %6ld | %5d %4ld %6.0f %6ld %6.1f | %5d %4ld %6.0f %6ld%s\n",
                  message(v.name, norm == krylov::Norm::max ? " max" : "").c_str(), long(block.reductions),
                  long(block.exchanges), first.report.iterations, long(first.report.counts.reductions),
                  first.agreements, long(first.report.counts.exchanges), n.iterations, long(n.counts.reductions),
                  next.agreements, long(n.counts.exchanges), double(n.iterations) / s + 3, whole.report.iterations,
                  long(whole.report.counts.reductions), whole.agreements, long(whole.report.counts.exchanges),
                  n.converged() && whole.report.converged() ? "" : "  NOT CONVERGED");
      std::fflush(stdout);
      results.add("{\"name\": \"", v.name, "\", \"norm\": \"", norm == krylov::Norm::max ? "max" : "2",
                  "\", \"step\": ", s, ", \"block_sums\": ", block.reductions,
                  ", \"block_exchanges\": ", block.exchanges, ", \"first_iterations\": ", first.report.iterations,
                  ", \"first_sums\": ", first.report.counts.reductions, ", \"iterations\": ", n.iterations,
                  ", \"sums\": ", n.counts.reductions, ", \"agreements\": ", next.agreements,
                  ", \"exchanges\": ", n.counts.exchanges, ", \"solve_iterations\": ", whole.report.iterations,
                  ", \"solve_sums\": ", whole.report.counts.reductions, ", \"solve_agreements\": ", whole.agreements,
                  "}");
    }
}

void multigrid() {
  const int ranks = int(number("ranks", 512));
  const auto edge = Global(number("edge", 16)), side = Global(std::lround(std::cbrt(ranks)));
  require(side * side * side == ranks, "a cube of ranks is needed, not ", ranks);
  const auto where = machine("hopper");
  const Global N = side * edge;
  std::printf(
      "SIMULATED: truncated V-cycles, 0.9 u - 0.9 lap u, periodic, one box of %ld^3 cells a rank down to 4^3, "
      "residual %g, %d ranks\n%s\n",
      long(edge), number("rtol", 1e-10), ranks, where.describe().c_str());
  double base = 0, base_bottom = 0;
  for (const auto& name : {"bicgstab", "ca-bicgstab", "pipelined-bicgstab"}) {
    if (!wanted(name)) continue;
    precond::MultigridReport report;
    comm::SimulatedTimes times;
    double bottom = 0;
    const double from = wall_time();
    comm::simulate(ranks, where, [&](const comm::Communicator& comm) {
      const auto boxes =
          op::Boxes::whole(comm, op::Domain::uniform({N, N, N}, op::Boundary::periodic), {edge, edge, edge});
      const auto A =
          std::make_shared<const op::FiniteVolume<double>>(boxes, op::coefficients<double>(boxes, 0.9, 0.9, {}, {}));
      precond::MultigridOptions options;
      options.cycle = precond::Cycle::u;
      precond::BottomOptions below;
      below.name = name;
      const precond::Multigrid<double> M(A, options, precond::make_bottom<double>(below));
      Vector f(A->range()), u(A->range());
      f.assign(A->sampled([](double x, double y, double z) {
        return bench::wave(x + .25) * bench::wave(y + .25) * bench::wave(z + .25);
      }));
      precond::MultigridSolve solve;
      solve.rtol = number("rtol", 1e-10);
      comm::restart_clocks(comm);
      auto r = M.solve(f, u, solve);
      const auto t = comm::read_clocks(comm);
      const double here = comm.all_sum(r.levels.back().bottom) / ranks;
      if (comm.rank() == 0) report = std::move(r), times = t, bottom = here;
    });
    if (base == 0) base = times.finish, base_bottom = bottom;
    std::printf(
        "%-20s %2d cycles, %4d bottom iterations: %9.3f ms x%.2f, bottom %9.3f ms (%.0f %%) x%.2f; sums %.3f ms, "
        "halos %.3f ms, kernels %.3f ms (residual %.1e; %.1f s here)\n",
        name, report.cycles, report.bottom_iterations, 1e3 * times.finish, base / times.finish, 1e3 * bottom,
        100 * bottom / times.finish, base_bottom / bottom, 1e3 * times.seconds("sum"), 1e3 * times.seconds("halo"),
        1e3 * times.kernel_seconds(), report.residual_norm, wall_time() - from);
    std::fflush(stdout);
    results.add("{\"name\": \"", name, "\", \"cycles\": ", report.cycles,
                ", \"iterations\": ", report.bottom_iterations, ", \"seconds\": ", times.finish,
                ", \"bottom\": ", bottom, "}");
  }
}

// ---- algebraic multigrid ----

// Rows of -div(c grad u) on the unit square or cube with u = 0 outside, times h^2 (h^3): boxes of edge^d cells, each of
// one rank. c is log-normal and independent in each cell, its harmonic mean taken between cells.
op::Rows<double> diffusion_rows(int rank, const std::array<Global, 3>& boxes, Global edge, int dimensions,
                                double sigma) {
  std::array<Global, 3> n{1, 1, 1}, mine{}, size{1, 1, 1};
  Global rest = rank;
  for (int a = 0; a < dimensions; ++a) {
    const auto i = std::size_t(a);
    size[i] = edge, n[i] = boxes[i] * edge, mine[i] = rest % boxes[i] * edge, rest /= boxes[i];
  }
  const Global cells = size[0] * size[1] * size[2];
  const auto number_of = [&](const std::array<Global, 3>& at) {
    Global owner = 0, inside = 0;
    for (std::size_t a = 3; a-- > 0;)
      owner = owner * boxes[a] + at[a] / size[a], inside = inside * size[a] + at[a] % size[a];
    return owner * cells + inside;
  };
  const auto coefficient = [&](const std::array<Global, 3>& at) {
    double normal = 0;  // of variance 1: twelve uniform numbers of variance 1/3
    const auto cell = std::uint64_t(at[0] + n[0] * (at[1] + n[1] * at[2]));
    for (std::uint64_t k = 0; k < 12 && sigma > 0; ++k) normal += bench::scatter(12 * cell + k) / 2;
    return std::exp(sigma * normal);
  };
  op::Rows<double> rows;
  std::vector<std::pair<Global, double>> row;
  std::array<Global, 3> at{};
  for (Global k = 0; k < cells; ++k) {
    at = {mine[0] + k % size[0], mine[1] + k / size[0] % size[1], mine[2] + k / (size[0] * size[1])};
    const double own = coefficient(at);
    double diagonal = 0;
    row.clear();
    for (std::size_t a = 0; a < std::size_t(dimensions); ++a)
      for (const int d : {-1, 1}) {
        auto other = at;
        other[a] += d;
        if (other[a] < 0 || other[a] >= n[a]) {
          diagonal += 2 * own;
          continue;
        }
        const double next = coefficient(other), mean = 2 * own * next / (own + next);
        diagonal += mean;
        row.push_back({number_of(other), -mean});
      }
    row.push_back({number_of(at), diagonal});
    std::sort(row.begin(), row.end());
    for (const auto& [column, value] : row) rows.column.push_back(column), rows.value.push_back(value);
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

struct AmgOutcome {
  krylov::Report report;
  comm::SimulatedTimes times;
  precond::BottomReport bottom;
  std::vector<precond::AmgLevel> levels;
  std::vector<precond::AmgWork> work;  // of all ranks; seconds: of the rank with the most of them below the first level
  double set_up = 0;                   // simulated
};

AmgOutcome amg_once(const comm::Communicator& comm, const std::array<Global, 3>& boxes, Global edge, int dimensions,
                    const precond::AmgOptions<double>& options) {
  const bool simulated = comm::simulated_machine(comm);
  const Global cells = dimensions == 3 ? edge * edge * edge : edge * edge;
  const auto space = layout::Space::distributed(comm, cells * comm.size());
  const op::Csr<double> A(space, space, diffusion_rows(comm.rank(), boxes, edge, dimensions, number("sigma", 0)));
  AmgOutcome o;
  if (simulated) comm::restart_clocks(comm);
  const precond::Amg<double> M(A, options);
  if (simulated) o.set_up = comm::read_clocks(comm).finish;
  Vector b(space), x(space);
  auto values = scattered(space);
  for (double& v : values) v += 1;
  b.assign(values);
  M.apply(b, x);  // buffers are made by the first cycle
  const auto before = M.work();
  (void)M.take_bottom();
  layout::fill(x, 0.0);
  if (simulated) comm::restart_clocks(comm);
  krylov::Options k;
  k.method = Method::cg, k.rtol = number("rtol", 1e-8), k.history = false, k.explain = false;
  o.report = krylov::solve<double, Host>(A, &M, b, x, k, true);
  if (simulated) o.times = comm::read_clocks(comm);
  o.bottom = M.take_bottom(), o.levels = M.levels(), o.work = M.work();
  for (std::size_t i = 0; i < o.work.size(); ++i) o.work[i] = o.work[i] - before[i];
  // Ranks without rows of the coarse levels wait for them, and count that in the last level that they have.
  double coarse = 0;
  for (std::size_t i = 1; i < o.work.size(); ++i) coarse += o.work[i].seconds;
  const bool most = coarse == comm.all_max(coarse);
  const double shared_by = comm.all_sum(most ? 1.0 : 0.0);
  for (auto& w : o.work) {
    w.seconds = comm.all_sum(most ? w.seconds : 0.0) / shared_by;
    w.messages = comm.all_sum(w.messages), w.bytes = comm.all_sum(w.bytes);
  }
  return o;
}

void print_amg(int ranks, const std::string& name, const AmgOutcome& o, bool simulated, double base) {
  double all = 0, coarse = 0;
  std::int64_t reductions = 0, messages = 0, bytes = 0;
  for (std::size_t i = 0; i < o.work.size(); ++i) {
    all += o.work[i].seconds, coarse += i > 0 ? o.work[i].seconds : 0;
    reductions += o.work[i].reductions, messages += o.work[i].messages, bytes += o.work[i].bytes;
  }
  const double cycles = std::max(1, o.work[0].visits), t = o.times.finish;
  std::printf("%5d ranks  %-26s %2zu levels %3d its", ranks, name.c_str(), o.levels.size(), o.report.iterations);
  if (simulated)
    std::printf("  %9.3f ms x%-5.2f cycle %8.1f us, coarse levels %2.0f %%, last %2.0f %%", 1e3 * t, base / t,
                1e6 * all / cycles, 100 * coarse / all, 100 * o.work.back().seconds / all);
  std::printf("  a cycle: %4.1f bottom its, %5.1f sums, %8.0f messages, %9.1f kB%s%s\n",
              double(o.bottom.iterations) / std::max(1, o.bottom.solves), double(reductions) / cycles,
              double(messages) / cycles, double(bytes) / cycles / 1000, o.bottom.failures ? ", BOTTOM FAILED" : "",
              o.report.converged() ? "" : ", NOT CONVERGED");
  for (std::size_t i = 0; i < o.work.size() && number("table", 0) > 0; ++i) {
    const auto& w = o.work[i];
    std::printf("        level %zu: %8ld rows %9ld entries on %4d ranks", i, long(o.levels[i].rows),
                long(o.levels[i].entries), o.levels[i].ranks);
    if (simulated) std::printf(" %8.1f us", 1e6 * w.seconds / cycles);
    std::printf(" %6.1f sums %8.0f messages %9.1f kB\n", double(w.reductions) / cycles, double(w.messages) / cycles,
                double(w.bytes) / cycles / 1000);
  }
  if (!o.bottom.choice.empty() && number("table", 0) > 0) std::printf("        %s\n", o.bottom.choice.c_str());
  std::fflush(stdout);
  results.add("{\"ranks\": ", ranks, ", \"name\": \"", name, "\", \"simulated\": ", simulated ? "true" : "false",
              ", \"iterations\": ", o.report.iterations, ", \"seconds\": ", t, ", \"set_up\": ", o.set_up,
              ", \"cycle\": ", all / cycles, ", \"coarse\": ", coarse / std::max(all, 1e-300),
              ", \"last\": ", o.work.back().seconds / std::max(all, 1e-300),
              ", \"sums\": ", double(reductions) / cycles, ", \"messages\": ", double(messages) / cycles,
              ", \"bytes\": ", double(bytes) / cycles,
              ", \"bottom_iterations\": ", double(o.bottom.iterations) / std::max(1, o.bottom.solves), "}");
}

void amg() {
  const int points = int(number("points", 7)), dimensions = points == 5 ? 2 : 3;
  require(points == 5 || points == 7, "points is ", points, "; 5 or 7");
  const bool simulated = number("real", 0) == 0;
  const auto edge = Global(number("edge", dimensions == 3 ? 8 : 32));
  const int step = int(number("step", 4));
  const auto where = machine("modern");
  if (simulated) std::printf("SIMULATED: %s\n", where.describe().c_str());
  std::printf("cg + amg, %d points, sigma %g, %ld unknowns a rank, residual %g\n", points, number("sigma", 0),
              long(std::pow(edge, dimensions)), number("rtol", 1e-8));
  precond::AmgOptions<double> spread;
  spread.coarsest = Global(number("coarsest", double(spread.coarsest)));
  auto predicted = spread;
  spread.agglomerate_below = 0;
  std::vector<std::pair<std::string, precond::AmgOptions<double>>> variants;
  variants.emplace_back("direct", spread);
  variants.emplace_back("agglomerated", predicted);
  if (given.has("below")) {
    auto o = spread;
    o.agglomerate_below = Global(number("below", 0));
    variants.emplace_back("agglomerated below " + given["below"], o);
  }
  variants.emplace_back("mult-additive", spread);
  variants.back().second.cycle = precond::Cycle::mult_additive;
  for (const std::string bottom : {"bicgstab", "ca-bicgstab", "ca-cg"}) {
    auto o = spread;
    o.coarsest = Global(number("bottom", 800)), o.bottom.name = bottom;
    if (bottom != "bicgstab") o.bottom.krylov.step = step;
    const std::string name = bottom == "bicgstab" ? bottom : message(bottom, " ", step);
    variants.emplace_back(name, o);
    o.agglomerate_below = predicted.agglomerate_below;
    variants.emplace_back(name + " agglomerated", o);
  }
  for (const int ranks : given.has("ranks") ? given.numbers("ranks") : std::vector<int>{1, 8, 64}) {
    std::array<Global, 3> boxes{1, 1, 1};  // factors of the number of ranks, near each other
    for (int rest = ranks, factor = 2; rest > 1;) {
      if (rest % factor != 0) {
        ++factor;
        continue;
      }
      *std::min_element(boxes.begin(), boxes.begin() + dimensions) *= factor;
      rest /= factor;
    }
    double base = 0;
    for (const auto& variant : variants) {  // clang 14 captures no structured bindings
      const auto& name = variant.first;
      const auto& options = variant.second;
      if (!wanted(name)) continue;
      AmgOutcome outcome;
      const auto rank = [&](const comm::Communicator& comm) {
        auto o = amg_once(comm, boxes, edge, dimensions, options);
        if (comm.rank() == 0) outcome = std::move(o);
      };
      if (simulated) comm::simulate(ranks, where, rank);
      else comm::run_threads(ranks, rank);
      if (base == 0) base = outcome.times.finish;
      print_amg(ranks, name, outcome, simulated, base);
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc > 1 ? argv[1] : "";
  given.take(argc, argv, 2);
  if (what == "gmres") gmres();
  else if (what == "turns") turns();
  else if (what == "bottom") bottom();
  else if (what == "counts") counts();
  else if (what == "multigrid") multigrid();
  else if (what == "amg") amg();
  else return std::puts("bench_scale gmres|turns|bottom|counts|multigrid|amg [key=value ...]"), 2;
  if (given.has("json")) results.write(given["json"]);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
