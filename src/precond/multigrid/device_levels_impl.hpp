// Levels in either memory: instantiated for the host by device_levels.cpp, for CUDA's device by device_levels.cu.
#pragma once

#include <tacit/precond/multigrid/device_levels.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/kernels.hpp>
#include <tacit/exec/launch.hpp>

#include "device_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#ifdef __CUDACC__
#include "exec/gang.cuh"
#else
#include <tacit/exec/gang.hpp>
#endif

namespace tacit::precond::mg {

template <class T, Memory M>
struct DeviceLevels<T, M>::Parts {
  template <class V>
  using On = exec::Array<V, M>;
  // Threads of a team; few where each may be a thread of the host.
  static constexpr int threads = std::same_as<M, Host> ? 8 : 256, resident_threads = threads;
  static constexpr int sum_threads = std::same_as<M, Host> ? 8 : 128;

  struct Level {
    std::array<Global, 3> cells;
    int dimensions;
    bool constant, vanishes, linear;
    On<PatchShape> patches;
    On<T> u, f, step, other, diagonal, inverse, row_sums;
    std::array<On<T>, 3> faces;
    std::array<T, 3> weight;
    On<std::int32_t> parent, child;
    On<T> share;
    On<SolutionShare<T>> solution;
    std::array<CellExchange<T, M, threads>, 2> ghosts;
    On<Piece> of_colour, of_cells;
    Global boxes;
    int ranks;

    Level(const LevelData<T>& d, bool steps)
        : cells(d.cells),
          dimensions(d.dimensions),
          constant(d.constant),
          vanishes(d.vanishes),
          linear(d.linear),
          patches(array_from<PatchShape, M>(d.patches)),
          u(d.size),
          f(d.size),
          step(steps ? d.size : 0),
          other(steps ? d.size : 0),
          diagonal(array_from<T, M>(d.diagonal)),
          inverse(array_from<T, M>(d.inverse)),
          row_sums(array_from<T, M>(d.row_sums)),
          faces{array_from<T, M>(d.faces[0]), array_from<T, M>(d.faces[1]), array_from<T, M>(d.faces[2])},
          weight(d.weight),
          parent(array_from<std::int32_t, M>(d.parent)),
          child(array_from<std::int32_t, M>(d.child)),
          share(array_from<T, M>(d.share)),
          solution(array_from<SolutionShare<T>, M>(d.solution)),
          ghosts{CellExchange<T, M, threads>(d.ghosts[0]), CellExchange<T, M, threads>(d.ghosts[1])},
          of_colour(array_from<Piece, M>(pieces(d.patches, colour_items))),
          of_cells(array_from<Piece, M>(pieces(d.patches, cell_items))),
          boxes(d.boxes),
          ranks(d.ranks) {}

    template <class Count>
    static std::vector<Piece> pieces(const std::vector<PatchShape>& patches, Count count) {
      std::vector<Piece> all;
      for (std::size_t p = 0; p < patches.size(); ++p) {
        const std::int64_t items = count(patches[p]);
        // A team numbers its items by first + thread.
        require(items <= std::numeric_limits<std::int32_t>::max() - threads, "a patch of ", items,
                " cells; on a device it has ", std::numeric_limits<std::int32_t>::max() - threads, " at most");
        for (std::int64_t first = 0; first < items; first += threads)
          all.push_back({std::int32_t(p), std::int32_t(first)});
      }
      return all;
    }
    LevelView<T> view() {
      return {dimensions,
              patches.data(),
              u.data(),
              f.data(),
              inverse.data(),
              {faces[0].data(), faces[1].data(), faces[2].data()},
              {weight[0], weight[1], weight[2]},
              diagonal.data(),
              parent.data(),
              share.data(),
              solution.data(),
              child.data()};
    }
  };

  /// A level's next one where this level's ranks have its cells, and the ways to where it has them itself.
  struct Move {
    Level image;
    CellExchange<T, M, threads> there, back;
    explicit Move(const MoveData<T>& d) : image(d.image, false), there(d.forward), back(reversed(d.forward)) {}
  };

  MultigridOptions options;
  ResidentBottom bottom;
  std::vector<Level> levels;
  std::vector<std::unique_ptr<Move>> moves;  // from each level to the next; null: none
  std::int32_t n = 0, width = 0;
  On<std::int32_t> column;
  On<T> value, diagonal, vectors;  // x, r, r0, t, p, p', v, v'
  On<std::int64_t> place;
  std::optional<SharedVector<T, M, threads>> shared_f, shared_u;
  bool singular;
  Global teams = 1;
  mutable On<Norms> partial;
  On<ResidentSums> partial_sums;
  On<ResidentCounts> counts;
  mutable std::int64_t launches = 0;
  bool race_check = false;

  Parts(const DeviceData<T>& d, const MultigridOptions& o, const ResidentBottom& b)
      : options(o),
        bottom(b),
        n(d.bottom.n),
        width(d.bottom.width),
        column(array_from<std::int32_t, M>(d.bottom.column)),
        value(array_from<T, M>(d.bottom.value)),
        diagonal(array_from<T, M>(d.bottom.diagonal)),
        vectors(8 * std::size_t(n)),
        singular(d.bottom.singular),
        counts(1) {
    const auto& shared = d.bottom.shared;
    const auto own = std::size_t(shared ? Global(shared->local_size()) : Global(n));
    require(!d.levels.empty() && d.bottom.place.size() == own, "levels of a device without a bottom");
    require(b.reduction > 0 && b.reduction < 1 && b.max_iterations >= 0 && b.teams >= 0, "a bottom solve to ",
            b.reduction, " in ", b.max_iterations, " iterations by ", b.teams, " teams");
    for (const auto& level : d.levels) {
      levels.emplace_back(level, o.smoother != Smoother::gauss_seidel);
      moves.push_back(level.move ? std::make_unique<Move>(*level.move) : nullptr);
    }
    if (shared) {
      shared_f.emplace(*shared, d.bottom.place), shared_u.emplace(*shared, d.bottom.place);
      std::vector<std::int64_t> in_turn(static_cast<std::size_t>(n));
      std::iota(in_turn.begin(), in_turn.end(), 0);
      place = array_from<std::int64_t, M>(in_turn);
    } else {
      place = array_from<std::int64_t, M>(d.bottom.place);
    }
    partial = On<Norms>(levels[0].of_colour.size());
    // Few cells for each thread, so that the teams reach their next synchronisation soon.
    teams = std::max<Global>(1, (n + 2 * resident_threads - 1) / (2 * resident_threads));
    if constexpr (std::same_as<M, Host>) {
      teams = std::min<Global>(teams, 3);
    } else {
#ifdef __CUDACC__
      teams = std::min(teams, exec::most_teams<ResidentBicgstab<T, resident_threads>>());
#endif
    }
    if (b.teams > 0) teams = std::min(teams, b.teams);
    // Ranks that solve the same system have the same bits: sums over teams depend on their number alone.
    if (shared) teams = shared->comm().all_min(teams);
    partial_sums = On<ResidentSums>(2 * std::size_t(teams));
  }

  template <class Kernel>
  void launch(Global blocks, const Kernel& kernel) const {
    if (blocks == 0) return;
    ++launches;
    exec::launch<M>(blocks, kernel, race_check);
  }
  template <class Kernel>
  void launch_gang(const Kernel& kernel) {
    ++launches;
    if constexpr (std::same_as<M, Host>) {
      if (race_check) exec::launch_gang_threads(teams, kernel);
      else exec::launch_gang_serial(kernel);
    } else {
#ifdef __CUDACC__
      exec::launch_gang_cuda(teams, kernel);
#endif
    }
  }

  auto launcher() const {
    return [this](Global blocks, const auto& kernel) { launch(blocks, kernel); };
  }
  /// Copies of cells of this colour; -1: of both.
  void exchange(Level& l, int colour) const {
    for (int c = colour < 0 ? 0 : colour; c <= (colour < 0 ? 1 : colour); ++c)
      l.ghosts[std::size_t(c)].run(launcher(), l.u.data(), l.u.data());
  }
  /// The next level, where level i's ranks have its cells.
  Level& beside(std::size_t i) {
    return moves[i] ? moves[i]->image : levels[i + 1];
  }
  void f_to_next(std::size_t i) {
    if (moves[i]) moves[i]->there.run(launcher(), moves[i]->image.f.data(), levels[i + 1].f.data());
  }
  void u_from_next(std::size_t i) {
    if (moves[i]) moves[i]->back.run(launcher(), levels[i + 1].u.data(), moves[i]->image.u.data());
  }
  void clear(On<T>& field) const {
    if constexpr (std::same_as<M, Host>) std::fill_n(field.data(), field.size(), T(0));
    else exec::clear_on_device(field.data(), field.size() * sizeof(T));
  }

  void half_sweep(Level& l, int colour, bool from_zero) {
    if (!from_zero) exchange(l, 1 - colour);
    const auto blocks = Global(l.of_colour.size());
    if (l.constant) launch(blocks, HalfSweep<T, true, threads>{l.view(), l.of_colour.data(), colour, from_zero});
    else launch(blocks, HalfSweep<T, false, threads>{l.view(), l.of_colour.data(), colour, from_zero});
  }

  void smooth(Level& l, int sweeps, bool from_zero, bool mirrored) {
    if (options.smoother != Smoother::gauss_seidel) return smooth_whole(l, sweeps, from_zero);
    if (from_zero && (sweeps == 0 || !l.vanishes)) clear(l.u);
    for (int i = 0; i < 2 * sweeps; ++i) half_sweep(l, (i + mirrored) % 2, from_zero && i == 0 && l.vanishes);
  }

  void smooth_whole(Level& l, int sweeps, bool from_zero) {
    if (from_zero) clear(l.u);
    const T* const scale = options.smoother == Smoother::l1_jacobi ? l.row_sums.data() : l.inverse.data();
    // Chebyshev's iteration on [2 / range, 2], as on the host.
    const double upper = 2, lower = upper / options.range(), theta = 0.5 * (upper + lower),
                 delta = 0.5 * (upper - lower);
    double rho = delta / theta;
    for (int i = 0; i < sweeps; ++i) {
      T a = 0, b = 1;
      if (options.smoother == Smoother::jacobi) b = T(options.omega());
      if (options.smoother == Smoother::chebyshev) {
        b = T(1 / theta);
        if (i > 0) {
          const double next = 1 / (2 * theta / delta - rho);
          a = T(next * rho), b = T(2 * next / delta);
          rho = next;
        }
      }
      exchange(l, -1);
      launch(Global(l.of_cells.size()),
             SmoothStep<T, threads>{l.view(), l.of_cells.data(), scale, l.step.data(), l.other.data(), a, b, i == 0});
      std::swap(l.u, l.other);
    }
  }

  void restrict_residual(std::size_t i, int colour) {
    Level &l = levels[i], &coarse = beside(i);
    exchange(l, colour < 0 ? -1 : 1 - colour);
    const auto blocks = Global(coarse.of_cells.size());
    const auto with = [&]<bool Constant>(std::bool_constant<Constant>) {
      launch(blocks, ResidualRestriction<T, Constant, threads>{l.view(), coarse.patches.data(), coarse.of_cells.data(),
                                                               coarse.f.data(), colour});
    };
    if (l.constant) with(std::true_type{});
    else with(std::false_type{});
    f_to_next(i);
  }

  using Way = typename AddCoarse<T, threads>::Way;
  void interpolate(std::size_t i, int colour) {
    interpolate(i, colour, levels[i].linear ? Way::linear : Way::constant, false);
  }
  void interpolate(std::size_t i, int colour, Way way, bool set) {
    Level &l = levels[i], &coarse = beside(i);
    launch(Global(l.of_colour.size()), AddCoarse<T, threads>{l.view(), coarse.patches.data(), coarse.u.data(),
                                                             l.of_colour.data(), colour, way, set});
  }
  void restrict_f(std::size_t i) {
    Level &l = levels[i], &coarse = beside(i);
    launch(Global(coarse.of_cells.size()),
           SumsOfChildren<T, threads>{l.view(), coarse.patches.data(), coarse.of_cells.data(), coarse.f.data()});
    f_to_next(i);
  }

  void solve_bottom(bool from_zero) {
    if (n == 0) return;  // another rank has all cells
    Level& l = levels.back();
    if (shared_f) {
      shared_f->gather(launcher(), l.f.data());
      if (!from_zero) shared_u->gather(launcher(), l.u.data());
    }
    T* const x = vectors.data();
    const auto vector = [&](int which) { return x + std::size_t(which) * std::size_t(n); };
    launch_gang(ResidentBicgstab<T, resident_threads>{n,
                                                      width,
                                                      column.data(),
                                                      value.data(),
                                                      diagonal.data(),
                                                      place.data(),
                                                      shared_f ? shared_f->data() : l.f.data(),
                                                      shared_u ? shared_u->data() : l.u.data(),
                                                      vector(0),
                                                      vector(1),
                                                      vector(2),
                                                      vector(3),
                                                      {vector(4), vector(5)},
                                                      {vector(6), vector(7)},
                                                      partial_sums.data(),
                                                      counts.data(),
                                                      bottom.reduction,
                                                      bottom.max_iterations,
                                                      smoother_sweeps,
                                                      singular,
                                                      from_zero});
    if (shared_u) shared_u->scatter(launcher(), l.u.data());
  }

  void down(std::size_t i, bool from_zero) {
    Level& l = levels[i];
    smooth(l, options.pre, from_zero, false);
    // The residual is zero at the cells of the last half sweep.
    const bool half = options.smoother == Smoother::gauss_seidel && options.pre > 0 && l.vanishes;
    restrict_residual(i, half ? 0 : -1);
  }
  void up(std::size_t i) {
    Level& l = levels[i];
    u_from_next(i);
    if (l.linear) exchange(beside(i), -1);
    const int first = options.symmetric ? 1 : 0;
    // The first half sweep does not read the cells that it writes.
    const bool skips = options.smoother == Smoother::gauss_seidel && options.post > 0 && l.vanishes;
    if (!skips) interpolate(i, first);
    interpolate(i, 1 - first);
    smooth(l, options.post, false, options.symmetric);
  }
  void go(std::size_t i, bool from_zero, Cycle kind) {
    if (i + 1 == levels.size()) return solve_bottom(from_zero);
    down(i, from_zero);
    go(i + 1, true, kind);
    if (kind == Cycle::w && i + 2 < levels.size()) go(i + 1, false, kind);
    up(i);
  }
  /// Solutions of all levels, from the coarsest to the finest, each improved by a V-cycle. Of corrections to the finest
  /// level's u, unless it starts from zero.
  void full(bool from_zero) {
    const std::size_t last = levels.size() - 1;
    if (last == 0) return solve_bottom(from_zero);
    for (std::size_t i = 0; i < last; ++i)
      require(levels[i].solution.size() > 0 || levels[i].patches.size() == 0, "an F-cycle, and level ", i,
              " has no shares for solutions");
    for (std::size_t i = 0; i < last; ++i) {
      if (i > 0 || from_zero) restrict_f(i);
      else restrict_residual(i, -1);
    }
    solve_bottom(true);
    for (std::size_t i = last; i-- > 0;) {
      u_from_next(i);
      exchange(beside(i), -1);
      for (const int colour : {0, 1}) interpolate(i, colour, Way::solution, i > 0 || from_zero);
      go(i, false, Cycle::v);
    }
  }

  template <class V>
  V read(const V* from) const {
    V value;
    if constexpr (std::same_as<M, Host>) std::memcpy(&value, from, sizeof(V));
    else exec::copy_to_host(&value, from, sizeof(V));
    return value;
  }

  Norms norms(Level& l, Quantity what, int colour) {
    if (what == Quantity::residual) exchange(l, colour < 0 ? -1 : 1 - colour);
    const auto blocks = Global(l.of_colour.size());
    if (blocks == 0) return {};
    if (l.constant)
      launch(blocks, NormsOf<T, true, threads>{l.view(), l.of_colour.data(), colour, what, partial.data()});
    else launch(blocks, NormsOf<T, false, threads>{l.view(), l.of_colour.data(), colour, what, partial.data()});
    if constexpr (std::same_as<M, Host>) {
      Norms total;
      launch(1, exec::SumParts<Norms, sum_threads>{blocks, 1, partial.data(), &total});
      return total;
    } else {
#ifdef __CUDACC__
      auto* const total = static_cast<Norms*>(exec::reduction_space(0, sizeof(Norms)).result);
      launch(1, exec::SumParts<Norms, sum_threads>{blocks, 1, partial.data(), total});
      exec::wait_for_device();
      return *total;
#else
      return {};
#endif
    }
  }
};

template <class T, Memory M>
DeviceLevels<T, M>::DeviceLevels(const DeviceData<T>& data, const MultigridOptions& options,
                                 const ResidentBottom& bottom)
    : parts_(std::make_unique<Parts>(data, options, bottom)) {}
template <class T, Memory M>
DeviceLevels<T, M>::~DeviceLevels() = default;

template <class T, Memory M>
int DeviceLevels<T, M>::levels() const {
  return int(parts_->levels.size());
}
template <class T, Memory M>
const std::array<Global, 3>& DeviceLevels<T, M>::cells(int level) const {
  return parts_->levels[std::size_t(level)].cells;
}
template <class T, Memory M>
Global DeviceLevels<T, M>::boxes(int level) const {
  return parts_->levels[std::size_t(level)].boxes;
}
template <class T, Memory M>
int DeviceLevels<T, M>::ranks(int level) const {
  return parts_->levels[std::size_t(level)].ranks;
}
template <class T, Memory M>
std::int64_t DeviceLevels<T, M>::launches() const {
  return parts_->launches;
}
template <class T, Memory M>
void DeviceLevels<T, M>::race_check(bool on) {
  parts_->race_check = on;
}

template <class T, Memory M>
void DeviceLevels<T, M>::load_f(const T* x, T scale, T mean, int columns) {
  auto& l = parts_->levels[0];
  using Copy = CopyCells<T, true, Parts::threads>;
  parts_->launch(Global(l.of_cells.size()),
                 Copy{l.patches.data(), l.of_cells.data(), x, l.f.data(), scale, mean, columns});
}
template <class T, Memory M>
void DeviceLevels<T, M>::load_u(const T* x, T scale, T mean, int columns) {
  auto& l = parts_->levels[0];
  using Copy = CopyCells<T, true, Parts::threads>;
  parts_->launch(Global(l.of_cells.size()),
                 Copy{l.patches.data(), l.of_cells.data(), x, l.u.data(), scale, mean, columns});
}
template <class T, Memory M>
void DeviceLevels<T, M>::store_u(T* x, T scale, T mean, int columns) const {
  auto& l = parts_->levels[0];
  using Copy = CopyCells<T, false, Parts::threads>;
  parts_->launch(Global(l.of_cells.size()),
                 Copy{l.patches.data(), l.of_cells.data(), l.u.data(), x, scale, mean, columns});
}
template <class T, Memory M>
void DeviceLevels<T, M>::clear_u(int level) {
  parts_->clear(parts_->levels[std::size_t(level)].u);
}

template <class T, Memory M>
void DeviceLevels<T, M>::cycle(Cycle kind, bool from_zero) {
  const Span span("cycle on a device", "multigrid");
  if (kind == Cycle::f) parts_->full(from_zero);
  else parts_->go(0, from_zero, kind);
}
template <class T, Memory M>
Norms DeviceLevels<T, M>::norms(Quantity what, bool after_cycle) const {
  const auto& o = parts_->options;
  auto& l = parts_->levels[0];
  const bool half = after_cycle && o.smoother == Smoother::gauss_seidel && o.post > 0 && l.vanishes && levels() > 1;
  return parts_->norms(l, what, half ? int(o.symmetric) : -1);
}
template <class T, Memory M>
ResidentCounts DeviceLevels<T, M>::counts() const {
  return parts_->read(std::as_const(parts_->counts).data());
}

template <class T, Memory M>
void DeviceLevels<T, M>::half_sweep(int level, int colour, bool from_zero) {
  parts_->half_sweep(parts_->levels[std::size_t(level)], colour, from_zero);
}
template <class T, Memory M>
void DeviceLevels<T, M>::smooth(int level, int sweeps, bool from_zero) {
  parts_->smooth(parts_->levels[std::size_t(level)], sweeps, from_zero, false);
}
template <class T, Memory M>
void DeviceLevels<T, M>::restrict_residual(int level, int colour) {
  parts_->restrict_residual(std::size_t(level), colour);
}
template <class T, Memory M>
void DeviceLevels<T, M>::interpolate(int level, int colour) {
  parts_->interpolate(std::size_t(level), colour);
}
template <class T, Memory M>
void DeviceLevels<T, M>::solve_bottom(bool from_zero) {
  parts_->solve_bottom(from_zero);
}

}  // namespace tacit::precond::mg
