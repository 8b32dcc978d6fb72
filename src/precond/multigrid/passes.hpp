// Passes over a level: steps one after the other, or as one wave. What a step does to a line of cells: lines.hpp.
#pragma once

#include "lines.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include "exec/backoff.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tacit::precond::mg {
namespace detail {

// Bytes of the second-level cache for the planes of a wave, and the least number of lines in a tile.
constexpr std::ptrdiff_t wave_bytes = 1 << 20, least_lines = 16;

int threads_for(std::ptrdiff_t cells) {
  return cells >= parallel_cells && !exec::Tasks::current() ? exec::threads_now() : 1;
}

}  // namespace detail

using namespace detail;

template <class S>
template <int D>
void RedBlackLevel<S>::do_step(const Step& step, const Patch& p, std::ptrdiff_t k, std::ptrdiff_t j0, std::ptrdiff_t j1,
                               Ahead& ahead) {
  const std::ptrdiff_t ny = p.n[1];
  const auto row = [&](std::ptrdiff_t j) { return j >= ny ? j - ny : j; };
  k = p.wrap[2] && k >= p.n[2] ? k - p.n[2] : k;
  switch (step.work) {
    case Work::relax:
    case Work::first_relax:
      for (std::ptrdiff_t j = j0; j < j1; ++j, ahead.fetch())
        relax_line<D>(p, step.colour, row(j), k, step.work == Work::first_relax);
      break;
    case Work::interpolate:
      for (std::ptrdiff_t j = j0; j < j1; ++j, ahead.fetch())
        interpolate_line(p, coarse_->patches_[std::size_t(&p - patches_.data())], 1 << step.colour, row(j), k, false);
      break;
    case Work::norm:
      for (std::ptrdiff_t j = j0; j < j1; ++j, ahead.fetch()) norm_line<D>(p, step.colour, row(j), k);
      break;
    case Work::restriction:
      break;
  }
}

template <class S>
void RedBlackLevel<S>::exchange(int colour) {
  Ghosts& g = ghosts_[std::size_t(colour)];
  if (g.local.empty() && !g.exchange) return;
  const Timed timer(report.exchange);
  const Span span("ghosts", "multigrid");
  S* const u = u_.data();
  if (g.exchange) {
    ++report.exchanges;
    const int number = g.exchange->open();
    S* const out = reinterpret_cast<S*>(g.exchange->outgoing(number));
    for (std::size_t i = 0; i < g.send.size(); ++i) out[i] = u[g.send[i]];
    g.exchange->post(number);
    for (const auto& [to, from] : g.local) u[to] = u[from];
    g.exchange->wait(number);
    const S* const in = reinterpret_cast<const S*>(g.exchange->incoming(number));
    for (const auto& [to, from] : g.remote) u[to] = in[from];
    g.exchange->close(number);
  } else {
    for (const auto& [to, from] : g.local) u[to] = u[from];
  }
}

template <class S>
void RedBlackLevel<S>::exchange_planes(Field& field, std::ptrdiff_t count) {
  if (count == 0) return;
  const Timed timer(report.exchange);
  const Span span("planes", "multigrid");
  ++report.exchanges;
  const Patch& p = patches_[0];
  const auto plane_at = [&](std::ptrdiff_t k) { return field.data() + p.offset - p.line + k * p.plane; };
  auto& planes = some_planes(count);
  auto& e = *planes.exchange;
  const int number = e.open();
  e.post(number, plane_at(0));
  e.wait(number);
  const S* const in = reinterpret_cast<const S*>(e.incoming(number));
  for (const auto& [ghost, k] : planes.ghosts) std::copy_n(in + std::ptrdiff_t(ghost) * p.plane, p.plane, plane_at(k));
  e.close(number);
}

template <class S>
std::array<std::ptrdiff_t, 32> RedBlackLevel<S>::beyond_of(std::span<const Step> steps) {
  std::array<std::ptrdiff_t, 32> beyond{};
  for (std::size_t s = steps.size() - 1; s-- > 0;) beyond[s] = beyond[s + 1] + reads_neighbours(steps[s + 1]);
  return beyond;
}

template <class S>
bool RedBlackLevel<S>::reaches(std::span<const Step> steps) const {
  if (!slab_ || steps.size() > 32) return false;
  const auto beyond = beyond_of(steps);
  if (beyond[0] + reads_neighbours(steps[0]) > slab_->most) return false;
  return std::none_of(steps.begin(), steps.end(), [&](const Step& s) {
    return s.work == Work::interpolate && (linear_ || !coarse_->slab_ || (beyond[0] + 1) / 2 > coarse_->slab_->most);
  });
}

// What a pass of its own over all patches moves: u of both colours, f, coefficients.
template <class S>
void RedBlackLevel<S>::tell_work(const Step& step) const {
  if (!Trace::on()) return;
  double cells = 0;
  for (const Patch& p : patches_) cells += double(p.n[0]) * double(p.n[1]) * double(p.n[2]);
  const double coefficients = constant_ ? 0 : dimensions_, half = cells * (4 * dimensions_ + 1) / 2;
  const auto tell = [&](const char* name, double values, double flops) {
    Trace::work(name, values * cells * sizeof(S), flops);
  };
  switch (step.work) {
    case Work::first_relax:
      return tell("half sweep", 1.0 + (constant_ ? 0 : 0.5), cells / 2);
    case Work::relax:
      return tell("half sweep", 2.0 + (constant_ ? 0 : 0.5) + coefficients, half);
    case Work::interpolate:
      return tell("interpolation", 1.125, cells);
    case Work::norm:
      return tell("norm", 1.5 + coefficients, half);
    case Work::restriction:
      return tell("restriction", 1.625 + coefficients, step.colour < 0 ? 2 * half : half);
  }
}

template <class S>
template <int D>
void RedBlackLevel<S>::sweep_all(std::span<const Step> steps) {
  for (const Step& step : steps) {
    // A half sweep reads ghosts of the other colour; residuals of both colours read all.
    if (step.work == Work::relax) exchange(1 - step.colour);
    if (step.work == Work::restriction || step.work == Work::norm) {
      if (step.colour >= 0) exchange(1 - step.colour);
      else exchange(0), exchange(1);
    }
    const Timed timer(step.work == Work::interpolate                               ? report.interpolation
                      : step.work == Work::relax || step.work == Work::first_relax ? report.smooth
                                                                                   : report.residual);
    const Span span(step.work == Work::interpolate   ? "interpolation"
                    : step.work == Work::restriction ? "restriction"
                    : step.work == Work::norm        ? "norm"
                                                     : "half sweep",
                    "multigrid");
    for (std::size_t i = 0; i < patches_.size(); ++i) {
      const Patch& p = patches_[i];
      const bool parallel = threads_for(p.n[0] * p.n[1] * p.n[2]) > 1;
      if (step.work == Work::restriction) {
        const Patch& c = coarse_->patches_[i];
        const std::ptrdiff_t lines = c.n[1] * c.n[2], pieces = parallel ? std::min<std::ptrdiff_t>(lines, 64) : 1;
        exec::each(std::size_t(pieces), parallel, [&](std::size_t piece) {
          for (std::ptrdiff_t l = lines * std::ptrdiff_t(piece) / pieces;
               l < lines * std::ptrdiff_t(piece + 1) / pieces; ++l)
            restrict_lines<D>(p, c, step.colour, l / c.n[1], l % c.n[1], l % c.n[1] + 1);
        });
      } else {
        const std::ptrdiff_t lines = p.n[1] * p.n[2], pieces = parallel ? std::min<std::ptrdiff_t>(lines, 64) : 1;
        exec::each(std::size_t(pieces), parallel, [&](std::size_t piece) {
          const std::ptrdiff_t end = lines * std::ptrdiff_t(piece + 1) / pieces;
          for (std::ptrdiff_t l = lines * std::ptrdiff_t(piece) / pieces; l < end;) {
            const std::ptrdiff_t k = l / p.n[1], j = l % p.n[1], j1 = std::min(p.n[1], j + end - l);
            Ahead nothing;
            do_step<D>(step, p, k, j, j1, nothing);
            l += j1 - j;
          }
        });
      }
    }
    tell_work(step);
  }
}

// All steps as one wave over a patch without neighbours on other ranks, or with copies of their planes: step s does
// plane k once step s - 1 has done planes k - 1, k and k + 1. Along a periodic axis step s begins s planes later and
// does the first planes last, so that all planes that it reads are those of the step before. Tiles of lines work in the
// same way along the second axis, so that the planes between the first and the last step stay in the cache. Threads
// share the planes and start their parts independently. On a slab, steps also do planes beyond the own ones, each step
// one plane less than the step before; planes that are done twice have the same bits.
template <class S>
struct RedBlackLevel<S>::Wave {
  using Index = std::ptrdiff_t;
  // The state of a part: a thread holds it until it has to wait for another part.
  enum : int { nobody, held, finished };
  struct alignas(64) Part {
    std::atomic<int> state{nobody};
    Index front = 0, step = 0;
  };

  Wave(const RedBlackLevel& level, std::span<const Step> of)
      : p(level.patches_[0]), slab(level.slab_.get()), steps(of), count(Index(of.size())) {
    for (Index s = 0; s < count; ++s) {
      shift[s] = s == 0 ? 0 : shift[s - 1] + 1;
      if (steps[std::size_t(s)].work == Work::restriction) shift[s] += shift[s] % 2;
    }
    most = shift[count - 1] + 1;
    if (slab) beyond = beyond_of(steps);
    const int axes = level.dimensions_;
    const Index ny = p.n[1], nz = p.n[2], arrays = level.constant_ ? 2 : 3 + axes;
    plane_bytes = p.plane * Index(sizeof(S)) * arrays;
    // Lines of a tile.
    tile = axes < 3 ? least_lines
                    : std::max(least_lines, wave_bytes / ((most + 2) * p.line * Index(sizeof(S)) * arrays)) / 2 * 2;
    tiles = std::max<Index>(1, ny / tile);
    tile = (ny / tiles + 1) / 2 * 2;
    if (tile < 2 * most || (axes > 1 && p.wrap[1] && ny < 2 * most)) tiles = 1;
    while (tiles > 1 && (tiles - 1) * tile >= ny - most) --tiles;
    // Parts for threads, each with planes enough.
    if (axes == 3) threads = std::clamp<Index>(threads_for(p.n[0] * ny * nz), 1, std::max<Index>(1, nz / (3 * most)));
    for (Index t = 0; t <= threads; ++t) begin.push_back(t == threads ? nz : nz * t / threads / 2 * 2);
    done = std::vector<std::atomic<Index>>(std::size_t(threads * count));
    part = std::vector<Part>(std::size_t(threads));
  }

  void begin_tile() {
    for (auto& d : done) d.store(-1, std::memory_order_relaxed);
    for (Index t = 0; t < threads; ++t) {
      Part& of = part[std::size_t(t)];
      of.state.store(nobody, std::memory_order_relaxed);
      of.front = begin[std::size_t(t)] - (t == 0 ? beyond[0] : 0), of.step = 0;
    }
  }
  /// Lines of tile J that step s works on.
  std::pair<Index, Index> tile_of(Index J, Index s) const {
    const Index ny = p.n[1];
    if (tiles == 1) return {0, ny};
    return {J == 0 ? (p.wrap[1] ? shift[s] : 0) : J * tile - shift[s],
            J == tiles - 1 ? ny + (p.wrap[1] ? shift[s] : 0) : (J + 1) * tile - shift[s]};
  }
  /// Planes of part t that step s works on.
  std::pair<Index, Index> planes_of(Index t, Index s) const {
    const Index out = beyond[std::size_t(s)];
    return {t > 0 || p.wrap[2]    ? begin[std::size_t(t)] + shift[s]
            : slab && slab->below ? -out
                                  : 0,
            has_next(t) ? begin[std::size_t(t) + 1] + shift[s] : p.n[2] + (slab && slab->above ? out : 0)};
  }
  bool has_next(Index t) const { return t < threads - 1 || p.wrap[2]; }
  /// Whether step s can do plane k of part t: the step before has done the planes above, which are the next part's, or
  /// does so very soon.
  bool is_ready(Index t, Index s, Index k) const {
    if (s == 0 || threads == 1 || !has_next(t) || k + 1 < planes_of(t, s - 1).second) return true;
    const Index there = t == threads - 1 ? k + 1 - p.n[2] : k + 1;
    const auto& next = done[std::size_t((t + 1) % threads * count + s - 1)];
    for (int tries = 0; next.load(std::memory_order_acquire) <= there; exec::relax_processor())
      if (++tries > 200) return false;
    return true;
  }

  const Patch& p;
  const Slab* slab;
  std::span<const Step> steps;
  Index count, most = 1, tile = 1, tiles = 1, threads = 1, plane_bytes = 0;
  Index shift[32];
  std::array<Index, 32> beyond{};
  std::vector<Index> begin;              // the first plane of each part
  std::vector<std::atomic<Index>> done;  // planes of each part that each step has done
  std::vector<Part> part;
};

// Prefetches the planes that the first steps do next. Stored coefficients are too many for a gain (measured).
template <class S>
void RedBlackLevel<S>::look_ahead(const Wave& w, Ahead& ahead, std::ptrdiff_t t, std::ptrdiff_t J,
                                  std::ptrdiff_t front) const {
  ahead.clear();
  const Patch& p = w.p;
  const std::ptrdiff_t hi = w.planes_of(t, 0).second;
  if (!constant_ || w.plane_bytes * p.n[2] <= wave_bytes || front + 1 >= hi) return;
  const auto [j0, j1] = w.tile_of(J, 0);
  const std::ptrdiff_t from = std::max<std::ptrdiff_t>(0, j0 - w.most), lines = std::min(j1 + 1, p.n[1]) - from;
  const auto add = [&](const Field& field, std::ptrdiff_t k) {
    if (k <= hi && k < p.n[2]) ahead.add(field.data() + at(p, from, k), lines * p.line * std::ptrdiff_t(sizeof(S)));
  };
  add(f_, front + 1), add(u_, front + 2);
  ahead.share((j1 - j0) * (w.count - 1));
}

template <class S>
template <int D>
void RedBlackLevel<S>::restrict_planes(const Patch& p, int colour, std::ptrdiff_t k, std::ptrdiff_t j0,
                                       std::ptrdiff_t j1) {
  const Patch& c = coarse_->patches_[0];
  const std::ptrdiff_t kc = D > 2 ? (k >= p.n[2] ? k - p.n[2] : k) / 2 : 0, nc = c.n[1];
  const std::ptrdiff_t a = D > 1 ? j0 / 2 : 0, b = D > 1 ? j1 / 2 : 1;
  restrict_lines<D>(p, c, colour, kc, std::min(a, nc), std::min(b, nc));
  if (b > nc) restrict_lines<D>(p, c, colour, kc, 0, b - nc);
}

// Continues with a part: true at its end, false where it would have to wait. `moved`: set where steps were done.
template <class S>
template <int D>
bool RedBlackLevel<S>::advance(Wave& w, std::ptrdiff_t t, std::ptrdiff_t J, bool& moved) {
  const std::ptrdiff_t last = w.planes_of(t, w.count - 1).second + 2 * w.most;
  auto &front = w.part[std::size_t(t)].front, &s = w.part[std::size_t(t)].step;
  Ahead ahead;
  for (; front < last; ++front, s = 0) {
    look_ahead(w, ahead, t, J, front);
    for (; s < w.count; ++s) {
      const auto [lo, hi] = w.planes_of(t, s);
      const std::ptrdiff_t k = front - w.shift[s];
      if (k < lo || k >= hi) continue;
      if (!w.is_ready(t, s, k)) return false;
      const Step& step = w.steps[std::size_t(s)];
      const auto [j0, j1] = w.tile_of(J, s);
      if (step.work != Work::restriction) do_step<D>(step, w.p, k, j0, j1, ahead);
      else if (D < 3 || k % 2 == 1) restrict_planes<D>(w.p, step.colour, k, j0, j1);
      w.done[std::size_t(t * w.count + s)].store(k + 1, std::memory_order_release);
      moved = true;
    }
  }
  return true;
}

template <class S>
template <int D>
void RedBlackLevel<S>::wave(std::span<const Step> steps) {
  const Timed timer(steps.back().work == Work::restriction ? report.down : report.up);
  const Span span("wave", "multigrid");
  Wave w(*this, steps);
  const std::ptrdiff_t longest = std::max(w.p.n[0], coarse_ ? coarse_->patches_[0].n[0] : 0);
  for (std::ptrdiff_t J = 0; J < w.tiles; ++J) {
    w.begin_tile();
    std::atomic<std::ptrdiff_t> left = w.threads;
    exec::parallel_claims(std::size_t(w.threads), 1, w.threads > 1, [&](exec::Claims& team) {
      // Other threads wait for this one's part, so nothing may throw from here on: memory is allocated before.
      (void)Lines<S>::mine(std::size_t(longest));
      for (std::optional<exec::Backoff> idle(std::in_place); left.load(std::memory_order_acquire) > 0;) {
        bool moved = false, open = false;
        for (std::ptrdiff_t i = 0; i < w.threads && !moved; ++i) {
          const std::ptrdiff_t t = (team.thread() + i) % w.threads;
          auto& state = w.part[std::size_t(t)].state;
          int free = Wave::nobody;
          if (!state.compare_exchange_strong(free, Wave::held, std::memory_order_acq_rel)) continue;
          open = true;
          const bool ended = advance<D>(w, t, J, moved);
          state.store(ended ? Wave::finished : Wave::nobody, std::memory_order_release);
          if (ended) left.fetch_sub(1, std::memory_order_acq_rel);
        }
        if (!open && team.thread() > 0) return;  // others have them all
        if (moved) idle.emplace();
        else idle->pause();
      }
    });
  }
  for (const Step& step : steps) tell_work(step);
}

template <class S>
void RedBlackLevel<S>::run(std::span<const Step> steps) {
  if (steps.empty()) return;
  for (const Step& s : steps) report.half_sweeps += s.work == Work::relax || s.work == Work::first_relax;
  bool together = (independent_ || reaches(steps)) && one_pass && steps.size() > 1 && !exec::Tasks::current();
  bool interpolates = false;
  for (const Step& s : steps) {
    interpolates = interpolates || s.work == Work::interpolate;
    if (s.work == Work::restriction) coarse_->f_beyond_ = 0;
    if (s.work == Work::restriction || s.work == Work::interpolate) together = together && paired_;
    if (s.work == Work::interpolate && linear_) {
      coarse_->exchange(0), coarse_->exchange(1);
    }
  }
  // An axis that closes on itself within the steps' reach is swept step by step.
  if (together && patches_[0].wrap[2]) together = patches_[0].n[2] >= 4 * std::ptrdiff_t(steps.size()) + 4;
  if (together && slab_) {
    const std::ptrdiff_t beyond = beyond_of(steps)[0], reads = beyond + reads_neighbours(steps[0]);
    f_wanted_ = std::max(f_wanted_, beyond);
    if (f_beyond_ < beyond) exchange_planes(f_, f_wanted_), f_beyond_ = f_wanted_;
    if (steps[0].work != Work::first_relax) exchange_planes(u_, reads);
    if (interpolates) coarse_->exchange_planes(coarse_->u_, (beyond + 1) / 2);
  }
  if (together) {
    dimensions_ == 3 ? wave<3>(steps) : dimensions_ == 2 ? wave<2>(steps) : wave<1>(steps);
  } else {
    dimensions_ == 3 ? sweep_all<3>(steps) : dimensions_ == 2 ? sweep_all<2>(steps) : sweep_all<1>(steps);
  }
  if (steps.back().work == Work::norm) {
    auto &largest = this->largest, &squares = this->squares;
    largest = squares = 0;
    for (std::size_t i = 0; i < line_largest_.size(); ++i) {
      largest = std::isnan(line_largest_[i]) ? line_largest_[i] : std::max(largest, line_largest_[i]);
      squares += line_squares_[i];
    }
    if (std::isnan(squares)) largest = squares;
  }
}

template <class S>
template <int D>
void RedBlackLevel<S>::residual_field() {
  exchange(0), exchange(1);
  const Timed timer(report.residual);
  tell_work({Work::restriction, -1});
  for (const Patch& p : patches_)
    exec::each(std::size_t(p.n[2] * p.n[1]), threads_for(p.n[0] * p.n[1] * p.n[2]) > 1, [&](std::size_t l) {
      const std::ptrdiff_t j = std::ptrdiff_t(l) % p.n[1], k = std::ptrdiff_t(l) / p.n[1];
      for (int half = 0; half < 2; ++half)
        residual_half<D, false>(p, half, j, k, r_.data() + at(p, j, k) + half * p.half + first_of(half));
    });
}

template <class S>
void RedBlackLevel<S>::smooth_whole(const MultigridOptions& options, int sweeps, bool from_zero) {
  if (from_zero) clear_u();
  if (r_.size() == 0) r_ = Field(u_.size()), p_ = Field(u_.size());
  if (options.smoother == Smoother::l1_jacobi && inverse_l1_.size() == 0) inverse_l1_ = inverse_row_sums();
  const Field& inverse = options.smoother == Smoother::l1_jacobi ? inverse_l1_ : inverse_;
  // Chebyshev's iteration on [2 / range, 2]: rows of D^-1 A have sums of magnitudes of at most 2.
  const double upper = 2, lower = upper / options.range(), theta = 0.5 * (upper + lower), delta = 0.5 * (upper - lower);
  double rho = delta / theta;
  for (int i = 0; i < sweeps; ++i) {
    dimensions_ == 3 ? residual_field<3>() : dimensions_ == 2 ? residual_field<2>() : residual_field<1>();
    const Timed timer(report.smooth);
    S a = 0, b = 1;
    if (options.smoother == Smoother::jacobi) b = S(options.omega());
    if (options.smoother == Smoother::chebyshev) {
      if (i == 0) {
        b = S(1 / theta);
      } else {
        const double next = 1 / (2 * theta / delta - rho);
        a = S(next * rho), b = S(2 * next / delta);
        rho = next;
      }
    }
    // r and p are zero at ghosts, so those of u keep their values.
    S *const u = u_.data(), *const step = p_.data();
    const S *const r = r_.data(), *const d = inverse.data();
    const auto n = std::ptrdiff_t(u_.size());
    const std::ptrdiff_t pieces = n / 4096 + 1;
    exec::each(std::size_t(pieces), threads_for(n) > 1, [&](std::size_t piece) {
      for (std::ptrdiff_t m = n * std::ptrdiff_t(piece) / pieces; m < n * std::ptrdiff_t(piece + 1) / pieces; ++m) {
        const S change = b * (d[m] * r[m]);
        step[m] = i == 0 ? change : a * step[m] + change;  // p is not read: an earlier solve may have overflowed
        u[m] += step[m];
      }
    });
    Trace::work("smoother", 6.0 * double(n) * sizeof(S), 6.0 * double(n));
    for (const Patch& p : patches_)
      if (p.wrap[0])
        for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
          for (std::ptrdiff_t j = 0; j < p.n[1]; ++j)
            wrap_ends(p, 0, u + at(p, j, k)), wrap_ends(p, 1, u + at(p, j, k));
    report.half_sweeps += 2;
  }
}

template <class S>
void RedBlackLevel<S>::residual_to(std::span<S> r) {
  if (r_.size() == 0) r_ = Field(u_.size()), p_ = Field(u_.size());
  dimensions_ == 3 ? residual_field<3>() : dimensions_ == 2 ? residual_field<2>() : residual_field<1>();
  store(r_, r);
}

}  // namespace tacit::precond::mg
