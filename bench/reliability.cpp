// Compares reported with true residuals: every method on families of systems from well to extremely badly scaled, with
// several right-hand sides and tolerances from moderate to near machine precision, without preconditioner. ||b - A x||
// is recomputed in higher precision from the gathered x.
//
//   bench_reliability [--ranks 1] [--size 40] [--plain] [--list] [--json FILE] [--export FOLDER]
//                     [METHOD[:NAME=VALUE] ...]
//
// METHOD: auto, cg, chebyshev, bicgstab and gmres if none is given. NAME=VALUE: one of depth, step, replacement
// (pipelined-cg:depth=3).
// --ranks: block rows on N ranks, threads of this process; under mpiexec on its processes. --size: grids of N x N.
// --plain: without fallbacks. --list: one line per case. --export: writes the systems for other solvers
// (reliability_peers.py), without solving. "possible": the exact solution, rounded to double, meets the tolerance.
// Reported convergence counts as FALSE where the recomputed residual exceeds 10 times the tolerance; failures to
// converge that are reported count as "honest". Exit code 1: there are false reports or non-finite results.
//
// A second table compares pipelined and s-step methods with their classical method, where that is in the list: ratios
// of iterations, reductions and products (median, and the worst case with its name) over the cases that both solve.
#include <tacit/comm/communicator.hpp>
#include <tacit/io/matrix_market.hpp>
#include <tacit/krylov/solve.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <utility>

#include "reliability_systems.hpp"

namespace {

using namespace tacit;
using bench::RightHandSide;
using bench::System;

constexpr double tolerances[] = {1e-6, 1e-8, 1e-10, 1e-13};

struct Case {
  std::string method;
  const System& system;
  const RightHandSide& f;
  double rtol, truth;
  krylov::Report report;
};

krylov::Options options_of(const std::string& text) {
  krylov::Options options;
  const auto colon = text.find(':'), at = text.find('=');
  options.method = tacit::value_of<krylov::Method>(text.substr(0, colon));
  if (colon == std::string::npos) return options;
  require(at != std::string::npos, text, " has an option without a value");
  const std::string name = text.substr(colon + 1, at - colon - 1);
  const int value = std::stoi(text.substr(at + 1));
  if (name == "depth") options.depth = value;
  else if (name == "step") options.step = value;
  else if (name == "replacement") options.replacement = value;
  else throw Error(ErrorKind::usage, message("unknown option ", name, "; depth, step and replacement are known here"));
  return options;
}

struct Settings {
  std::vector<std::string> methods;
  bool fallbacks = true, list = false;
};

/// Collective; the cases are complete on rank 0.
std::vector<Case> solve_all(const comm::Communicator& comm, const std::vector<System>& systems,
                            const Settings& settings) {
  std::vector<Case> cases;
  for (const auto& method : settings.methods)
    for (const System& system : systems) {
      krylov::Options options = options_of(method);
      options.fallbacks = settings.fallbacks;
      if (!system.positive &&
          (krylov::classical_of(options.method) == krylov::Method::cg || options.method == krylov::Method::chebyshev))
        continue;
      const auto space = layout::Space::distributed(comm, system.n());
      const Global first = system.a.start[space.begin()], last = system.a.start[space.end()];
      op::Rows<double> rows;
      for (Global i = space.begin(); i < space.end(); ++i) rows.start.push_back(system.a.start[i + 1] - first);
      rows.column.assign(system.a.column.begin() + first, system.a.column.begin() + last);
      rows.value.assign(system.a.value.begin() + first, system.a.value.begin() + last);
      const op::Csr<double> A(space, space, std::move(rows));
      for (const RightHandSide& f : system.b)
        for (const double rtol : tolerances) {
          layout::Vector<double> b(space), x(space);
          b.assign(std::span(f.b).subspan(space.begin(), space.local_size()));
          options.rtol = rtol;
          auto report = krylov::solve<double, Host>(A, nullptr, b, x, options, system.positive);
          const auto mine = x.to_host();
          const auto answer = comm.all_gather(std::span<const double>(mine));
          if (comm.rank() != 0) continue;
          report.history.clear();
          cases.push_back({method, system, f, rtol, bench::true_residual(system.a, f.b, answer), std::move(report)});
          const Case& c = cases.back();
          if (settings.list)
            std::printf("%-10s %-20s %-9s %.0e  %-14s it %6d restarts %4d true %.2e reported %.2e possible %.2e  %s\n",
                        method.c_str(), system.name.c_str(), f.name.c_str(), rtol, to_string(c.report.reason),
                        c.report.iterations, c.report.restarts, c.truth, c.report.residual_norm, f.attainable,
                        c.report.detail.c_str());
        }
    }
  return cases;
}

/// Returns the number of false reports of convergence and of non-finite results.
int print_table(const std::vector<Case>& cases, const std::vector<std::string>& methods, int ranks) {
  std::printf("%-30s %5s %8s %8s %8s %8s %10s %10s %9s  honest failures by reason\n", "method", "ranks", "possible",
              "true", "FALSE", "honest", "non-finite", "worst", "seconds");
  int faults = 0;
  for (const auto& method : methods)
    for (const bool positive : {true, false}) {
      int count = 0, possible = 0, right = 0, wrong = 0, honest = 0, non_finite = 0;
      double worst = 0, seconds = 0;
      std::map<std::string, int> reasons;
      for (const Case& c : cases) {
        if (c.method != method || c.system.positive != positive) continue;
        ++count;
        possible += c.f.attainable <= c.rtol;
        seconds += c.report.seconds;
        if (!std::isfinite(c.truth)) ++non_finite;
        else if (!c.report.converged()) ++honest, ++reasons[to_string(c.report.reason)];
        else ++(c.truth <= 10 * c.rtol ? right : wrong), worst = std::max(worst, c.truth / c.rtol);
      }
      if (count == 0) continue;
      std::printf("%-30s %5d %8d %8d %8d %8d %10d %10.3f %9.1f ",
                  (method + (positive ? ", positive definite" : ", general")).c_str(), ranks, possible, right, wrong,
                  honest, non_finite, worst, seconds);
      for (const auto& [reason, n] : reasons) std::printf(" %s %d", reason.c_str(), n);
      std::printf("\n");
      faults += wrong + non_finite;
    }
  return faults;
}

/// The median of an unsorted list, and the position of its largest element.
std::pair<double, std::size_t> median_and_worst(std::vector<double> ratios) {
  const auto worst = std::size_t(std::max_element(ratios.begin(), ratios.end()) - ratios.begin());
  std::nth_element(ratios.begin(), ratios.begin() + std::ptrdiff_t(ratios.size() / 2), ratios.end());
  return {ratios[ratios.size() / 2], worst};
}

/// Prints ratios of variants to their classical method.
void print_ratios(const std::vector<Case>& cases, const std::vector<std::string>& methods) {
  bool titled = false;
  for (const auto& method : methods) {
    const std::string classical = krylov::to_string(krylov::classical_of(options_of(method).method));
    if (method == classical || std::find(methods.begin(), methods.end(), classical) == methods.end()) continue;
    std::vector<double> iterations, sums, products;
    std::vector<const Case*> solved;
    int worse = 0, lost = 0, gained = 0;
    for (const Case& c : cases) {
      if (c.method != method) continue;
      const auto other = std::find_if(cases.begin(), cases.end(), [&](const Case& o) {
        return o.method == classical && &o.f == &c.f && o.rtol == c.rtol;
      });
      const auto &one = other->report, &mine = c.report;
      lost += one.converged() && !mine.converged();
      gained += mine.converged() && !one.converged();
      if (!one.converged() || !mine.converged() || one.iterations == 0) continue;
      const auto over = [](auto a, auto b) { return double(a) / double(std::max<decltype(b)>(b, 1)); };
      iterations.push_back(over(mine.iterations, one.iterations));
      sums.push_back(over(mine.counts.reductions, one.counts.reductions));
      products.push_back(over(mine.counts.operator_applies, one.counts.operator_applies));
      worse += mine.iterations > 1.05 * one.iterations + 2;
      solved.push_back(&c);
    }
    if (solved.empty()) continue;
    if (!std::exchange(titled, true))
      std::printf("\n%-24s %7s %5s %6s   %s\n", "over the classical one", "solved", "lost", "gained",
                  "iterations: median, worst (of it)   more than 5 % (+ 2) worse   sums, products: median, worst");
    const auto [median, at] = median_and_worst(iterations);
    const auto [of_sums, sums_at] = median_and_worst(sums);
    const auto [of_products, products_at] = median_and_worst(products);
    const Case& worst = *solved[at];
    std::printf("%-24s %7zu %5d %6d   %5.3f %5.2f (%s, %s, %.0e: %d)   %d   %5.3f %5.2f   %5.3f %5.2f\n",
                method.c_str(), solved.size(), lost, gained, median, iterations[at], worst.system.name.c_str(),
                worst.f.name.c_str(), worst.rtol, worst.report.iterations, worse, of_sums, sums[sums_at], of_products,
                products[products_at]);
  }
}

void write_json(const std::string& path, const std::vector<Case>& cases, Global size, int ranks, bool fallbacks) {
  std::ofstream out(path);
  out << std::boolalpha << "{\"size\": " << size << ", \"ranks\": " << ranks << ", \"fallbacks\": " << fallbacks
      << ", \"cases\": [";
  for (const Case& c : cases) {
    out << (&c == cases.data() ? "\n" : ",\n") << "  {\"method\": \"" << c.method << "\", \"system\": \""
        << c.system.name << "\", \"positive\": " << c.system.positive << ", \"rhs\": \"" << c.f.name
        << "\", \"rtol\": " << c.rtol << ", \"attainable\": " << c.f.attainable << ", \"reason\": \""
        << to_string(c.report.reason) << "\", \"claim\": " << c.report.converged()
        << ", \"iterations\": " << c.report.iterations << ", \"restarts\": " << c.report.restarts
        << ", \"sums\": " << c.report.counts.reductions << ", \"products\": " << c.report.counts.operator_applies
        << ", \"seconds\": " << c.report.seconds << ", \"true_residual\": ";
    if (std::isfinite(c.truth)) out << c.truth << "}";
    else out << "null}";
  }
  out << "\n]}\n";
  require(bool(out.flush()), "cannot write ", path);
}

/// S.mtx for system S, S-R.mtx for its right-hand side R, and index.json, which names them.
void export_systems(const std::filesystem::path& folder, const std::vector<System>& systems, Global size) {
  std::filesystem::create_directories(folder);
  std::ofstream out(folder / "index.json");
  out << std::boolalpha << "{\"size\": " << size << ", \"tolerances\": [";
  for (const double& rtol : tolerances) out << (&rtol == tolerances ? "" : ", ") << rtol;
  out << "], \"systems\": [";
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const System& system = systems[s];
    std::string file = "s";
    file += std::to_string(s);
    const auto& column = system.a.column;
    const auto& value = system.a.value;
    io::Triplets<double> entries{
        system.n(), system.n(), {}, {column.begin(), column.end()}, {value.begin(), value.end()}};
    for (Local i = 0; i < system.a.count(); ++i)
      entries.row.insert(entries.row.end(), system.a.start[i + 1] - system.a.start[i], i);
    io::write_matrix_market((folder / (file + ".mtx")).string(), entries);
    out << (s ? ",\n" : "\n") << "  {\"name\": \"" << system.name << "\", \"positive\": " << system.positive
        << ", \"matrix\": \"" << file << ".mtx\", \"rhs\": [";
    for (std::size_t r = 0; r < system.b.size(); ++r) {
      const RightHandSide& f = system.b[r];
      const std::string rhs = file + "-" + std::to_string(r) + ".mtx";
      io::write_matrix_market_array((folder / rhs).string(), io::Dense<double>{system.n(), 1, f.b});
      out << (r ? ", " : "") << "{\"name\": \"" << f.name << "\", \"file\": \"" << rhs
          << "\", \"attainable\": " << f.attainable << "}";
    }
    out << "]}";
  }
  out << "\n]}\n";
  require(bool(out.flush()), "cannot write ", (folder / "index.json").string());
}

}  // namespace

int main(int argc, char** argv) try {
  std::string json, folder;
  Global size = 40;
  int ranks = 1;
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&] {
      require(i + 1 < argc, arg, " needs a value");
      return std::string(argv[++i]);
    };
    if (arg == "--json") json = value();
    else if (arg == "--export") folder = value();
    else if (arg == "--size") size = std::stoll(value());
    else if (arg == "--ranks") ranks = std::stoi(value());
    else if (arg == "--list") settings.list = true;
    else if (arg == "--plain") settings.fallbacks = false;
    else settings.methods.push_back(arg);
  }
  if (settings.methods.empty()) settings.methods = {"auto", "cg", "chebyshev", "bicgstab", "gmres"};
  const auto systems = bench::systems(size);
  if (!folder.empty()) return export_systems(folder, systems, size), 0;
  int faults = 0;
  const auto run = [&](const comm::Communicator& comm) {
    const auto cases = solve_all(comm, systems, settings);
    if (comm.rank() != 0) return;
    faults = print_table(cases, settings.methods, comm.size());
    print_ratios(cases, settings.methods);
    if (!json.empty()) write_json(json, cases, size, comm.size(), settings.fallbacks);
  };
  if (comm::mpi_launched()) run(comm::mpi_world());
  else if (ranks == 1) run(comm::Communicator::self());
  else comm::run_threads(ranks, run);
  return faults != 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 2;
}
