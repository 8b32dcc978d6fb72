#include <tacit/app/multigrid/bottom.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/machine.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tacit::app {
namespace {

// A coarsest-level solve by a Krylov method; where one rank has all cells, on that rank only.
template <Scalar T>
class Krylov final : public precond::Bottom<T> {
 public:
  Krylov(std::shared_ptr<const op::FiniteVolume<T>> A, krylov::Options options, std::string why = {})
      : all_(A),
        options_(std::move(options)),
        why_(std::move(why)),
        gathered_(A->boxes().ranks_in_use() <= 1 && A->range().comm().size() > 1) {
    options_.explain = false;
    if (gathered_) a_ = A->alone(), solver_ = A->boxes().patches().empty() ? 0 : A->boxes().owner(0);
    else a_ = std::move(A);
  }
  std::string name() const override { return krylov::to_string(options_.method); }
  std::string choice() const override { return why_; }

  precond::BottomOutcome solve(const layout::Vector<T>& f, layout::Vector<T>& u) override {
    precond::BottomOutcome outcome;
    if (!gathered_) {
      outcome = solve_here(*a_, f, u);
      return outcome;
    }
    double sums[3] = {0, 0, 0};  // iterations, failures, length of warnings
    std::string all;
    if (a_) {
      layout::Vector<T> here(a_->range()), there(a_->range());
      std::copy_n(f.data(), f.size(), here.data());
      outcome = solve_here(*a_, here, there);
      std::copy_n(there.data(), there.size(), u.data());
      for (const auto& w : outcome.warnings) all += w + '\n';
      sums[0] = outcome.iterations, sums[1] = outcome.solved ? 0 : 1, sums[2] = double(all.size());
    }
    f.space().start_sum(sums, 3).wait(sums);
    outcome.iterations = int(sums[0]);
    outcome.solved = sums[1] == 0;
    if (sums[2] == 0) return outcome;
    all = all_->range().comm().broadcast(all, solver_);
    outcome.warnings.clear();
    for (std::size_t at = 0, end; at < all.size(); at = end + 1)
      end = all.find('\n', at), outcome.warnings.push_back(all.substr(at, end - at));
    return outcome;
  }

 private:
  precond::BottomOutcome solve_here(const op::FiniteVolume<T>& A, const layout::Vector<T>& f,
                                    layout::Vector<T>& u) const {
    precond::BottomOutcome outcome;
    auto report = krylov::solve<T, Host>(A, nullptr, f, u, options_, true);
    outcome.iterations = report.iterations;
    const std::string name = krylov::to_string(options_.method);
    for (const auto& w : report.warnings) outcome.warnings.push_back("bottom " + name + ": " + w);
    outcome.solved = report.converged();
    if (outcome.solved) return outcome;
    outcome.warnings.push_back("bottom " + name + ": " + krylov::to_string(report.reason) + ", " + report.detail);
    const auto classical = krylov::classical_of(options_.method);
    if (classical != options_.method) {
      krylov::Options o;
      o.method = classical;
      o.rtol = options_.rtol, o.atol = options_.atol, o.norm = options_.norm;
      o.max_iterations = options_.max_iterations, o.history = false, o.explain = false;
      report = krylov::solve<T, Host>(A, nullptr, f, u, o, true);
      outcome.iterations += report.iterations;
      outcome.solved = report.converged();
      outcome.warnings.push_back(
          std::string("bottom: continued with ") + krylov::to_string(classical) +
          (outcome.solved ? ", which converged" : ", which did not converge: continued with the smoother"));
    }
    return outcome;
  }

  std::shared_ptr<const op::FiniteVolume<T>> all_;
  std::shared_ptr<const op::FiniteVolume<T>> a_;
  krylov::Options options_;
  std::string why_;
  bool gathered_;
  int solver_ = 0;  // the rank that has all cells
};

// Times of products of the coarsest operator (three for one column, three for two) and of the machine. Collective.
template <Scalar T>
BottomPrices measured(const op::FiniteVolume<T>& A) {
  const auto& comm = A.range().comm();
  const auto machine = model::measure(comm);
  BottomPrices prices;
  for (const int columns : {1, 2}) {
    layout::Vector<T> x(A.range(), columns), y(A.range(), columns);
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double from = wall_time();
      A.apply(x, y);
      if (i > 0) least = std::min(least, wall_time() - from);
    }
    (columns == 1 ? prices.product : prices.pair) = comm.all_max(least);
  }
  prices.vector =
      comm.all_max(double(A.range().local_size()) * sizeof(T)) / (4 * machine.bandwidth);  // in cache: 4 times as fast
  prices.sum = machine.sum_latency;
  return prices;
}

}  // namespace

double seconds_an_iteration(int step, const BottomPrices& p) {
  // Passes over vectors for updates and norms; a block of s steps has the Gram matrix of 4 s + 2 vectors, whose flops
  // are counted as passes, and three linear combinations.
  if (step == 0) return 2 * p.product + 14 * p.vector + 3 * p.sum;
  const double s = step, columns = 4 * s + 2;
  return 2 * p.pair + (columns * columns / 8 + 4 * columns) / s * p.vector + p.sum / s;
}

int cheapest_step(const BottomPrices& prices, std::string& why) {
  const double classical = seconds_an_iteration(0, prices);
  int best = 0;
  double least = classical;
  for (const int step : {2, 4, 8})
    if (const double seconds = seconds_an_iteration(step, prices); seconds < 0.9 * least) best = step, least = seconds;
  char text[200];
  std::snprintf(text, sizeof text, "%s: %.3g us an iteration predicted, bicgstab %.3g us (product %.3g, sum %.3g us)",
                best ? message("ca-bicgstab, s = ", best).c_str() : "bicgstab", 1e6 * least, 1e6 * classical,
                1e6 * prices.product, 1e6 * prices.sum);
  why = text;
  return best;
}

precond::ForkChoice choose_at(const precond::Fork& f) {
  double cells = 1, longest = 1;
  for (const Global n : f.cells) cells *= double(n), longest = std::max(longest, double(n));
  const double parts = std::pow(2.0, f.dimensions), number = double(f.number_bytes);
  // Levels this small are in cache, about four times as fast as memory.
  const auto pass = [&](double n, int ranks) { return n / ranks * number / (4 * f.bandwidth); };
  // The time of messages in a product: its time without the memory traffic, at least an eighth of a reduction.
  const double message_seconds = std::max({0.0, f.product - 5 * pass(cells, f.ranks), f.sum / 8});
  // The work of a level: half sweeps, residual and interpolation, with six numbers for each cell.
  const auto level = [&](double n, int ranks) {
    return (2 * f.sweeps + 2) * ((ranks > 1 ? message_seconds : 0) + 6 * pass(n, ranks) / 2);
  };
  double moved = 2 * message_seconds, n = cells;
  int ranks = f.fewer;
  for (;; n /= parts) {
    int fewer = ranks;
    while (fewer > 1 && n < double(f.agglomerate_below) * fewer) fewer = (fewer + 1) / 2;
    if (fewer < ranks) moved += 2 * message_seconds;
    ranks = fewer;
    moved += level(n, ranks);
    if (n <= parts * parts) break;
  }
  double stayed = 0;
  n = cells;
  for (Global least = f.least_box; least >= 2 * f.smallest_box && n > parts; least /= 2, n /= parts, longest /= 2)
    stayed += level(n, f.ranks);
  const double share = n / cells;
  BottomPrices prices{message_seconds + (f.product - message_seconds) * share,
                      message_seconds + std::max(f.pair - message_seconds, f.product - message_seconds) * share,
                      pass(n, f.ranks), f.sum};
  std::string bottom;
  if (n <= 512) {
    stayed += f.sum + n * n * 2e-10;
    bottom = "direct";
  } else {
    const int step = cheapest_step(prices, bottom);
    stayed += 2 * longest * seconds_an_iteration(step, prices);
    bottom = step ? message("ca-bicgstab, s = ", step) : "bicgstab";
  }
  precond::ForkChoice choice;
  choice.move = moved <= stayed;
  char text[240];
  std::snprintf(
      text, sizeof text,
      "levels of %ld cells and fewer %s: predicted %.3g ms a cycle on %s, %.3g ms on %d with %s for %ld cells",
      long(cells), choice.move ? "move" : "stay", 1e3 * moved,
      f.fewer == 1 ? "one rank" : message("at most ", f.fewer, " ranks").c_str(), 1e3 * stayed, f.ranks, bottom.c_str(),
      long(n));
  choice.why = text;
  return choice;
}

template <Scalar T>
std::shared_ptr<precond::Multigrid<T>> make_multigrid(std::shared_ptr<const op::FiniteVolume<T>> A,
                                                      precond::MultigridOptions options, const BottomOptions& bottom) {
  const bool automatic = bottom.name == "automatic" || bottom.name == "auto";
  // W-cycles visit the coarsest level too often for a Krylov method.
  if (automatic && !options.agglomerates && options.cycle != precond::Cycle::w) options.agglomerates = choose_at;
  return std::make_shared<precond::Multigrid<T>>(std::move(A), options, make_bottom<T>(bottom),
                                                 make_bottom<float>(bottom));
}
template std::shared_ptr<precond::Multigrid<float>> make_multigrid(std::shared_ptr<const op::FiniteVolume<float>>,
                                                                   precond::MultigridOptions, const BottomOptions&);
template std::shared_ptr<precond::Multigrid<double>> make_multigrid(std::shared_ptr<const op::FiniteVolume<double>>,
                                                                    precond::MultigridOptions, const BottomOptions&);

std::vector<std::string> bottom_names() {
  std::vector<std::string> names{"automatic", "direct", "smoother"};
  for (auto& n : tacit::names<krylov::Method>())
    if (n != "auto" && n != "automatic") names.push_back(n);
  return names;
}

std::span<const Option<MultigridRequest>> multigrid_options() {
  using O = MultigridRequest;
  using L = precond::MultigridOptions;
  using B = BottomOptions;
  using K = krylov::Options;
  const char* const named = "of a bottom that names a Krylov method: as in solve";
  static const std::vector<Option<O>> all{
      option<O>("cycle", within(&O::levels, &L::cycle),
                "F: full multigrid, a solve goes on with V; U: a V-cycle that ends where boxes have smallest_box cells "
                "along an axis, no box moves to another rank"),
      option<O>("smoother", within(&O::levels, &L::smoother), "gauss-seidel is red-black"),
      option<O>("interpolation", within(&O::levels, &L::interpolation),
                "of corrections; above linear exact for averages over cells",
                "constant; quadratic with the fourth-order stencil"),
      option<O>("restriction", within(&O::levels, &L::restriction),
                "of residuals: the adjoint of this interpolation; constant sums them over the children"),
      option<O>("full_interpolation", within(&O::levels, &L::full_interpolation), "of solutions, by the F-cycle",
                "linear; quartic with the fourth-order stencil"),
      option<O>("pre", within(&O::levels, &L::pre), between(0, 1000, "sweeps"), "sweeps before the coarser level"),
      option<O>("post", within(&O::levels, &L::post), between(0, 1000, "sweeps"), "sweeps after it"),
      option<O>("symmetric", within(&O::levels, &L::symmetric), "sweeps after mirror those before: for cg"),
      option<O>("bottom", within(&O::bottom, &B::name), bottom_names(),
                "solver of the coarsest level; automatic: direct for few cells, else the cheapest of bicgstab and "
                "ca-bicgstab by measured reductions and products")
          .with_options_of("solve"),
      option<O>("bottom_reduction", within(&O::bottom, &B::krylov, &K::rtol), positive(),
                "a bottom solve reduces its residual by this factor"),
      option<O>("bottom_norm", within(&O::bottom, &B::krylov, &K::norm), "of that residual"),
      option<O>("bottom_max_iterations", within(&O::bottom, &B::krylov, &K::max_iterations), at_least(0, "iterations"),
                "of a bottom solve", "1000"),
      option<O>("step", within(&O::bottom, &B::krylov, &K::step), at_least(1, "iteration"), named, "by method"),
      option<O>("basis", within(&O::bottom, &B::krylov, &K::basis), named, "by method"),
      option<O>("powers", within(&O::bottom, &B::krylov, &K::powers), named, "products"),
      option<O>("depth", within(&O::bottom, &B::krylov, &K::depth), at_least(1, "reduction"), named, "by method"),
      option<O>("smallest_box", within(&O::levels, &L::smallest_box), at_least(1, "cell"),
                "an axis is coarsened while its boxes have at least twice as many cells", "2; 4 for U"),
      option<O>("agglomerate_below", within(&O::levels, &L::agglomerate_below), at_least(0, "cells"),
                "levels with fewer cells a rank move to fewer ranks; 0: none moves",
                "4096; 0 for U; with the automatic bottom they stay where a Krylov method on all ranks is predicted to "
                "be cheaper"),
      option<O>("levels", within(&O::levels, &L::levels), at_least(0, "levels (0: as many as go)"), "at most"),
      option<O>("single_levels", within(&O::levels, &L::single_levels),
                "levels in float32, residuals and solutions in float64"),
      option<O>("relaxation", within(&O::levels, &L::relaxation),
                Range{.least = 0, .most = 2, .open_below = true, .open_above = true, .needed = "a number in (0, 2)"},
                "of the smoother jacobi", "6/7"),
      option<O>("chebyshev_range", within(&O::levels, &L::chebyshev_range),
                Range{.least = 1, .open_below = true, .needed = "a number > 1"},
                "the smoother chebyshev smooths [lambda_max / range, lambda_max]", "4"),
      option<O>("bottom_cells", &O::bottom_cells, at_least(1, "cell"),
                "of a device: the bottom is the first level of at most so many cells", "4096"),
  };
  return all;
}

std::span<const Option<precond::MultigridSolve>> multigrid_solve_options() {
  using O = precond::MultigridSolve;
  static const std::vector<Option<O>> all{
      option<O>("rtol", &O::rtol, not_negative(), "converged means ||f - A x|| <= max(rtol ||f||, atol), recomputed"),
      option<O>("atol", &O::atol, not_negative(), "see rtol"),
      option<O>("max_cycles", &O::max_cycles, at_least(0, "cycles"), "at most"),
      option<O>("norm", &O::norm, "of the residual: the largest magnitude (max), or 2"),
  };
  return all;
}

template <Scalar T>
precond::MakeBottom<T> make_bottom(const BottomOptions& options) {
  const auto& k = options.krylov;
  const bool automatic = options.name == "automatic" || options.name == "auto";
  if (automatic || options.name == "smoother" || options.name == "direct")
    require(!k.step && !k.basis && !k.powers && !k.depth, "step, basis, powers and depth are options of a Krylov ",
            "bottom that is named; the bottom is \"", options.name, "\"");
  if (options.name == "smoother") return {};
  if (options.name == "direct") return precond::direct_bottom<T>();
  if (automatic) {
    return [options](std::shared_ptr<const op::FiniteVolume<T>> A) -> std::unique_ptr<precond::Bottom<T>> {
      const bool small = A->range().size() <= 512 || (A->boxes().ranks_in_use() <= 1 && A->range().size() <= 1024);
      if (small) return precond::direct_bottom<T>()(A);
      auto chosen = options;
      chosen.krylov.method = krylov::Method::bicgstab;
      // On one rank there are no reductions for an s-step method to save.
      if (A->boxes().ranks_in_use() <= 1)
        return std::make_unique<Krylov<T>>(std::move(A), chosen.krylov, "bicgstab: on one rank");
      std::string why;
      if (const int step = cheapest_step(measured(*A), why); step > 0)
        chosen.krylov.method = krylov::Method::ca_bicgstab, chosen.krylov.step = step;
      return std::make_unique<Krylov<T>>(std::move(A), chosen.krylov, why);
    };
  }
  auto o = options.krylov;
  o.method = value_of<krylov::Method>(options.name);
  krylov::check(o);
  return [o](std::shared_ptr<const op::FiniteVolume<T>> A) -> std::unique_ptr<precond::Bottom<T>> {
    return std::make_unique<Krylov<T>>(std::move(A), o);
  };
}

template precond::MakeBottom<float> make_bottom<float>(const BottomOptions&);
template precond::MakeBottom<double> make_bottom<double>(const BottomOptions&);

}  // namespace tacit::app
