#include <tacit/app/multigrid/bottom.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tacit::app {

using precond::BottomOptions;
using precond::BottomPrices;

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
    const int step = precond::cheapest_step(prices, bottom);
    stayed += 2 * longest * precond::seconds_an_iteration(step, prices);
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
  // W-cycles visit the coarsest level too often for a Krylov method.
  if (bottom.is_automatic() && !options.agglomerates && options.cycle != precond::Cycle::w)
    options.agglomerates = choose_at;
  return std::make_shared<precond::Multigrid<T>>(std::move(A), options, precond::make_bottom<T>(bottom),
                                                 precond::make_bottom<float>(bottom));
}
template std::shared_ptr<precond::Multigrid<float>> make_multigrid(std::shared_ptr<const op::FiniteVolume<float>>,
                                                                   precond::MultigridOptions, const BottomOptions&);
template std::shared_ptr<precond::Multigrid<double>> make_multigrid(std::shared_ptr<const op::FiniteVolume<double>>,
                                                                    precond::MultigridOptions, const BottomOptions&);

std::span<const Option<MultigridRequest>> multigrid_options() {
  using O = MultigridRequest;
  using L = precond::MultigridOptions;
  static const std::vector<Option<O>> all = [] {
    std::vector<Option<O>> made{
        option<O>(
            "cycle", within(&O::levels, &L::cycle), {"V", "W", "F", "K", "U"},
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
        option<O>("symmetric", within(&O::levels, &L::symmetric), "sweeps after mirror those before: for cg")};
    for (auto& o : precond::bottom_options(&O::bottom)) made.push_back(std::move(o));
    for (auto& o :
         {option<O>("smallest_box", within(&O::levels, &L::smallest_box), at_least(1, "cell"),
                    "an axis is coarsened while its boxes have at least twice as many cells", "2; 4 for U"),
          option<O>(
              "agglomerate_below", within(&O::levels, &L::agglomerate_below), at_least(0, "cells"),
              "levels with fewer cells a rank move to fewer ranks; 0: none moves",
              "4096; 0 for U; with the automatic bottom they stay where a Krylov method on all ranks is predicted to "
              "be cheaper"),
          option<O>("levels", within(&O::levels, &L::levels), at_least(0, "levels (0: as many as go)"), "at most"),
          option<O>("single_levels", within(&O::levels, &L::single_levels),
                    "levels in float32, residuals and solutions in float64"),
          option<O>(
              "relaxation", within(&O::levels, &L::relaxation),
              Range{.least = 0, .most = 2, .open_below = true, .open_above = true, .needed = "a number in (0, 2)"},
              "of the smoother jacobi", "6/7"),
          option<O>("chebyshev_range", within(&O::levels, &L::chebyshev_range),
                    Range{.least = 1, .open_below = true, .needed = "a number > 1"},
                    "the smoother chebyshev smooths [lambda_max / range, lambda_max]", "4"),
          option<O>("bottom_cells", &O::bottom_cells, at_least(1, "cell"),
                    "of a device: the bottom is the first level of at most so many cells", "4096")})
      made.push_back(o);
    return made;
  }();
  return all;
}

std::span<const Option<precond::MultigridSolve>> multigrid_solve_options() {
  using O = precond::MultigridSolve;
  static const std::vector<Option<O>> all{
      option<O>("rtol", &O::rtol, not_negative(), "converged means ||f - A x|| <= max(rtol ||f||, atol), recomputed",
                "1e-10; with float32 1e-4"),
      option<O>("atol", &O::atol, not_negative(), "see rtol"),
      option<O>("max_cycles", &O::max_cycles, at_least(0, "cycles"), "at most"),
      option<O>("norm", &O::norm, "of the residual: the largest magnitude (max), or 2"),
  };
  return all;
}

}  // namespace tacit::app
