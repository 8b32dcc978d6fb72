// Several steps of Richardson's iteration in one pass over a grid.
#include "stencil_impl.hpp"

#include <tacit/base/trace.hpp>
#include "base/registers.hpp"
#include "exec/ahead.hpp"

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#ifdef __unix__
#include <unistd.h>
#endif

namespace tacit::op {
namespace {

using namespace stencils;

// Lines of a tile and slabs of a chunk. They depend on the grid and the steps only, so that the order of sums of
// squares is fixed.
struct Blocking {
  std::ptrdiff_t lines = 1, slabs = 1;
};
// More steps would save little memory traffic, and compute more twice in the overlaps of tiles.
constexpr int most_steps = 6;

std::ptrdiff_t second_cache() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return std::ptrdiff_t(bytes);
#endif
  return std::ptrdiff_t(1) << 20;
}

Blocking blocking(const Axes& axes, std::size_t element, int steps) {
  const std::ptrdiff_t ny = std::ptrdiff_t(axes.n[1]), line = std::ptrdiff_t(axes.n[0]) * std::ptrdiff_t(element);
  // Each step reads three slabs of its input and one of f; the next slabs of x and of f are prefetched.
  const std::ptrdiff_t fit = second_cache() * 3 / 4 / ((4 * steps + 2) * line) - steps;
  Blocking b;
  b.lines = std::clamp<std::ptrdiff_t>(fit, std::min<std::ptrdiff_t>(ny, 8), ny);
  const std::ptrdiff_t tiles = (ny + b.lines - 1) / b.lines;
  b.lines = (ny + tiles - 1) / tiles;
  b.slabs = std::max<std::ptrdiff_t>(64, 16 * steps);
  return b;
}

// 64 bytes of a line.
template <class S>
struct Wide {
  static constexpr std::ptrdiff_t lanes = 64 / sizeof(S);
  using V = Registers<S, int(lanes)>;
  /// Lanes by .. of a, then lanes of b.
  template <int by>
  static V shifted(const V& a, const V& b) {
    constexpr int first = by / V::lanes;
    const auto of = [&](int i) { return i < V::parts ? a.part[i] : b.part[i - V::parts]; };
    return V::each([&](int i) __attribute__((always_inline)) {
      return shuffled<[](int l) { return by % V::lanes + l; }>(of(first + i), of(first + i + 1));
    });
  }
  static double sum(const V& v) {
    S all[lanes];
    v.store(all);
    double total = 0;
    for (const S s : all) total += double(s);
    return total;
  }
};

// A line with zeros before and after it: out = x + omega (scale (f - A x)) on its n points, at least one register; the
// squares of f - A x are added to `squares`. Lines must not overlap. Varying: `scales` has the scale of each point.
template <bool Middle, bool Varying, class S>
__attribute__((noinline)) void star_step(const S* line, const S* ym, const S* yp, const S* zm, const S* zp,
                                         const Table<S>& t, const S* f, S omega, S scale, const S* scales,
                                         std::ptrdiff_t n, const typename Wide<S>::V& last_lanes, S* __restrict out,
                                         typename Wide<S>::V& squares) {
  const S c = t[slot(0, 0, 0)], xl = t[slot(-1, 0, 0)], xr = t[slot(1, 0, 0)], yl = t[slot(0, -1, 0)],
          yr = t[slot(0, 1, 0)], zl = t[slot(0, 0, -1)], zr = t[slot(0, 0, 1)];
  using W = Wide<S>;
  using V = typename W::V;
  constexpr std::ptrdiff_t w = W::lanes;
  const auto at = [&](std::ptrdiff_t i, V left, V x, V right) {
    V r = V::load(f + i) - zl * V::load(zm + i);
    if constexpr (Middle) r -= yl * V::load(ym + i);
    r -= xl * left;
    r -= c * x;
    r -= xr * right;
    if constexpr (Middle) r -= yr * V::load(yp + i);
    r -= zr * V::load(zp + i);
    if constexpr (Varying) (x + omega * (V::load(scales + i) * r)).store(out + i);
    else (x + omega * (scale * r)).store(out + i);
    return r;
  };
  // Neighbours on the line come from the previous and next register, where these lie on it.
  V all{};
  std::ptrdiff_t i = 0;
  V left = V::load(line - 1), x = V::load(line);
  for (; i + 2 * w <= n; i += w) {
    const V next = V::load(line + i + w), r = at(i, left, x, W::template shifted<1>(x, next));
    all += r * r;
    left = W::template shifted<int(w) - 1>(x, next);
    x = next;
  }
  const V r = at(i, left, x, V::load(line + i + 1));
  all += r * r;
  if (i + w < n) {  // the last register overlaps the one before it
    const std::ptrdiff_t last = n - w;
    const V again = at(last, V::load(line + last - 1), V::load(line + last), V::load(line + last + 1));
    all += again * again * last_lanes;
  }
  squares += all;
}

// The same step where v = A x has been computed; returns the sum of squares.
template <class S>
double step(const S* x, const S* v, const S* f, S omega, S scale, const S* scales, std::ptrdiff_t n,
            S* __restrict out) {
  double squares = 0;
  if (scales) {
#pragma omp simd reduction(+ : squares)
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      const S r = f[i] - v[i];
      squares += double(r) * double(r);
      out[i] = x[i] + omega * (scales[i] * r);
    }
    return squares;
  }
#pragma omp simd reduction(+ : squares)
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const S r = f[i] - v[i];
    squares += double(r) * double(r);
    out[i] = x[i] + omega * (scale * r);
  }
  return squares;
}

// Slabs of an array, numbered as in the whole grid: own ones, and ghosts below and above them.
template <class S>
struct Slabs {
  const S *below, *own, *above;
  Global low, first, last;  // first slab of `below`; own slabs
  std::ptrdiff_t slab;
  const S* at(Global z) const {
    if (z < first) return below + std::ptrdiff_t(z - low) * slab;
    return z < last ? own + std::ptrdiff_t(z - first) * slab : above + std::ptrdiff_t(z - last) * slab;
  }
};

// Waits for ghosts when a thread of the team first needs them. Thread 0 waits for messages, the others for thread 0.
class Arrival {
 public:
  Arrival(const comm::Communicator& comm, std::function<void()> wait) : comm_(comm), wait_(std::move(wait)) {}
  /// Waits until the ghosts have arrived. False after an error, which thread 0 throws.
  bool operator()(int thread) {
    if (thread == 0 && state_.load(std::memory_order_relaxed) == pending) {
      try {
        wait_();
      } catch (...) {
        state_.store(failed, std::memory_order_release);
        throw;
      }
      state_.store(here, std::memory_order_release);
    }
    int state;
    while ((state = state_.load(std::memory_order_acquire)) == pending) std::this_thread::yield();
    return state == here;
  }
  /// Releases the other threads after an error of thread 0.
  void give_up() {
    int expected = pending;
    state_.compare_exchange_strong(expected, failed, std::memory_order_release, std::memory_order_relaxed);
  }
  /// Lets messages advance, on thread 0.
  void poll(int thread) const {
    if (thread == 0) comm_.poll();
  }

 private:
  enum : int { pending, here, failed };
  const comm::Communicator& comm_;
  std::function<void()> wait_;
  std::atomic<int> state_{pending};
};

// Several steps on a tile: slab after slab, with each step one slab behind the one before.
template <class S>
class Wave {
 public:
  Wave(const Part& part, const Kernel<S>& kernel, int steps, S omega, S scale)
      : part_(part), kernel_(kernel), steps_(steps), omega_(omega), scale_(scale) {}

  /// Does all steps on lines [y0, y1) of slabs [z0, z1), from the first slab or (downward) from the last; writes the
  /// result to `to` (own slabs) and the squares of each step. `d`: the diagonal, where it varies. Waits on `ghosts`
  /// before the first ghost is read.
  void run(const Slabs<S>& x, const Slabs<S>& f, const Slabs<S>* d, S* to, std::ptrdiff_t y0, std::ptrdiff_t y1,
           Global z0, Global z1, bool downward, Arrival& ghosts, int thread, double* squares) const {
    const std::ptrdiff_t nx = part_.nx, ny = part_.ny;
    const Global all = part_.axes.n[2];
    // Slabs numbered in the order of processing.
    const Global from = downward ? all - z1 : z0, end = downward ? all - z0 : z1;
    const auto slab_of = [&](Global w) { return downward ? all - 1 - w : w; };
    // The lines of step c that later steps read.
    const auto first_line = [&](int c) { return std::max<std::ptrdiff_t>(0, y0 - (steps_ - 1 - c)); };
    const auto last_line = [&](int c) { return std::min<std::ptrdiff_t>(ny, y1 + (steps_ - 1 - c)); };
    const auto first_slab = [&](int c) { return std::max<Global>(0, from - (steps_ - 1 - c)); };
    const auto last_slab = [&](int c) { return std::min<Global>(all, end + (steps_ - 1 - c)); };
    // A ring of three slabs for x and for the results of each step but the last. Their lines begin at cache lines, with
    // a zero before and after them.
    using W = Wide<S>;
    constexpr std::ptrdiff_t unit = W::lanes, element = sizeof(S);
    const std::ptrdiff_t base = std::max<std::ptrdiff_t>(0, y0 - steps_),
                         top = std::min<std::ptrdiff_t>(ny, y1 + steps_);
    const std::ptrdiff_t pitch = (nx + unit + 1) / unit * unit, ring = (top - base) * pitch;
    static thread_local std::vector<S> memory;
    const std::size_t needed = std::size_t(3 * ring * steps_ + pitch + 3 * unit);
    if (memory.size() < needed) memory.resize(needed);
    S* const kept = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64 / sizeof(S) + unit;
    S* const v = kept + 3 * ring * steps_;
    kept[-1] = S(0);
    for (std::ptrdiff_t l = 0; l < 3 * steps_ * (top - base); ++l)
      kept[l * pitch + nx] = kept[(l + 1) * pitch - 1] = S(0);
    const auto version = [&](int c, Global z) {  // line 0 of slab z of the input of step c
      return kept + (3 * c + std::ptrdiff_t(z % 3)) * ring - base * pitch;
    };
    S last[unit] = {};
    std::fill(last + unit - nx % unit, last + unit, S(1));
    const auto last_lanes = W::V::load(last);
    const bool fast = kernel_.star() && nx >= unit && part_.axes.boundary[0] == Boundary::dirichlet;
    const auto fetch = [&](Global w) {
      if (w < 0 || w >= all) return true;
      const Global z = slab_of(w);
      if ((z < x.first || z >= x.last) && !ghosts(thread)) return false;
      const S* const values = x.at(z);
      S* const into = version(0, z);
      for (std::ptrdiff_t l = base; l < top; ++l) std::copy_n(values + l * nx, nx, into + l * pitch);
      return true;
    };
    const auto has = [&](int c, Global t) { return t - c >= first_slab(c) && t - c < last_slab(c); };
    // Prefetches the next slabs while the current ones are computed.
    exec::Ahead ahead;
    const auto look_ahead = [&](Global t) {
      ahead.clear();
      const auto add = [&](const S* values, Global w, std::ptrdiff_t l, std::ptrdiff_t end_line) {
        if (w >= all || slab_of(w) < x.first || slab_of(w) >= x.last) return;
        ahead.add(values + (std::ptrdiff_t(slab_of(w) - x.first) * ny + l) * nx, (end_line - l) * nx * element);
      };
      if (t + 1 < last_slab(0)) {
        add(x.own, t + 2, base, top);
        add(f.own, t + 1, first_line(0), last_line(0));
        if (d) add(d->own, t + 1, first_line(0), last_line(0));
      }
      std::ptrdiff_t lines = 0;
      for (int c = 0; c < steps_; ++c)
        if (has(c, t)) lines += last_line(c) - first_line(c);
      ahead.share(lines);
    };
    if (!fetch(first_slab(0) - 1) || !fetch(first_slab(0))) return;
    for (Global t = first_slab(0); t < end + steps_ - 1; ++t) {
      if (t < last_slab(0) && !fetch(t + 1)) return;
      if (t % 4 == 0) ghosts.poll(thread);
      if (steps_ > 1) look_ahead(t);  // hardware prefetching suffices for a single step
      for (int c = 0; c < steps_; ++c) {
        if (!has(c, t)) continue;
        const Global z = slab_of(t - c);
        const bool inside = z >= z0 && z < z1, last = c == steps_ - 1;
        const S* const slabs[3] = {z > 0 ? version(c, z - 1) : nullptr, version(c, z),
                                   z + 1 < all ? version(c, z + 1) : nullptr};
        const S *const right_side = f.at(z), *const diagonal = d ? d->at(z) : nullptr;
        S* const out = last ? to + std::ptrdiff_t(z - x.first) * nx * ny : version(c + 1, z);
        const std::ptrdiff_t to_next = last ? nx : pitch;
        typename W::V counted{}, beside{};  // squares of this tile's lines, and of overlapping ones
        double sum = 0;
        for (std::ptrdiff_t l = first_line(c); l < last_line(c); ++l, ahead.fetch()) {
          const bool own = inside && l >= y0 && l < y1;
          const S *const f_line = right_side + l * nx, *const d_line = diagonal ? diagonal + l * nx : nullptr;
          S* const out_line = out + l * to_next;
          if (fast) {
            const S* const none = kernel_.nothing();
            const S* const line = slabs[1] + l * pitch;
            const S *const ym = l > 0 ? line - pitch : none, *const yp = l + 1 < ny ? line + pitch : none;
            const S *const zm = slabs[0] ? slabs[0] + l * pitch : none, *const zp =
                                                                            slabs[2] ? slabs[2] + l * pitch : none;
            const auto& table = kernel_.table_of(1, l, z);
            auto& squares_of = own ? counted : beside;
            const auto with = [&]<bool Middle, bool Varying>() {
              star_step<Middle, Varying>(line, ym, yp, zm, zp, table, f_line, omega_, scale_, d_line, nx, last_lanes,
                                         out_line, squares_of);
            };
            if (part_.axes.real[1])
              d_line ? with.template operator()<true, true>() : with.template operator()<true, false>();
            else d_line ? with.template operator()<false, true>() : with.template operator()<false, false>();
          } else {
            const double s = any_line(slabs, pitch, f_line, d_line, l, z, v, out_line);
            if (own) sum += s;
          }
        }
        squares[c] += sum + W::sum(counted);
      }
    }
  }

 private:
  // A step on a line for any stencil and boundary conditions.
  double any_line(const S* const* slabs, std::ptrdiff_t pitch, const S* f, const S* d, std::ptrdiff_t l, Global z, S* v,
                  S* out) const {
    const std::ptrdiff_t nx = part_.nx, ny = part_.ny;
    const S* lines[9];
    for (int sz = 0; sz < 3; ++sz)
      for (int sy = -1; sy <= 1; ++sy) {
        const bool there = slabs[sz] && l + sy >= 0 && l + sy < ny && !(kernel_.star() && sy && sz != 1);
        lines[3 * sz + 1 + sy] = there ? slabs[sz] + (l + sy) * pitch : nullptr;
      }
    kernel_.line_of(lines, l, z, v);
    return step(lines[4], v, f, omega_, scale_, d, nx, out);
  }

  const Part& part_;
  const Kernel<S>& kernel_;
  int steps_;
  S omega_, scale_;
};

}  // namespace

template <Scalar T>
int Stencil<T>::sweeps_at_once() const {
  const auto periodic = [&](int axis) { return grid_.boundary[std::size_t(axis)] == Boundary::periodic; };
  if (is_complex<T> || grid_.dimensions == 1 || periodic(grid_.dimensions - 1) ||
      (grid_.dimensions == 3 && periodic(1)))
    return 1;
  return most_steps;
}

template <Scalar T>
void Stencil<T>::sweeps(const Vector<T, Host>& f, T omega, T scale, const Vector<T, Host>* scaling, Vector<T, Host>& x,
                        Vector<T, Host>& other, std::span<double> squares, bool again) const {
  const int steps = int(squares.size());
  require(steps >= 1 && steps <= sweeps_at_once() && sweeps_at_once() > 1, steps,
          " sweeps at once of a stencil that does ", sweeps_at_once());
  for (const auto* v :
       {&f, static_cast<const Vector<T, Host>*>(&x), static_cast<const Vector<T, Host>*>(&other), scaling})
    require(!v || (v->space() == this->domain() && v->columns() == 1),
            "sweeps of a stencil with vectors of another space");
  if constexpr (!is_complex<T>) {
    const exec::Tasks::InOrder in_order(true);
    const Span span("stencil sweeps", "op", Trace::on() ? std::int64_t((scaling ? 4 : 3) * x.size() * sizeof(T)) : 0);
    Parts& p = *parts_;
    const auto& part = p.part;
    const auto& space = this->domain();
    const auto& comm = space.comm();
    const std::ptrdiff_t slab = std::ptrdiff_t(grid_.slab());
    const Global first = space.begin() / slab, last = space.end() / slab, all = part.axes.n[2];
    for (int c = 0; c < steps; ++c) this->count_apply();
    std::fill(squares.begin(), squares.end(), 0.0);

    typename Parts::Deep* deep = nullptr;
    bool known = true;
    int values = -1, sides = -1;  // numbers of the exchanges in flight
    if (comm.size() > 1) {
      // Depends only on the sequence of calls, which is the same on all ranks.
      deep = p.last_deep;
      known = again && deep && deep->steps >= steps && deep->known[0] == &f && deep->known[1] == scaling;
      if (!known) deep = &p.deep[{steps, scaling != nullptr}];
      p.last_deep = deep;
      deep->steps = std::max(deep->steps, steps);
    }
    const int depth = deep ? deep->steps : 0;
    const Global low = std::max<Global>(0, first - depth), high = std::min<Global>(all, last + depth);
    const auto below = std::size_t(last > first ? (first - low) * slab : 0),
               above = std::size_t(last > first ? (high - last) * slab : 0);
    if (deep) {
      if (!deep->values) {
        std::shared_ptr<const comm::Pattern> pattern;
        comm::collective(comm, [&] {
          std::vector<Global> needed;
          needed.reserve(below + above);
          if (last > first)
            for (Global i = low * slab; i < high * slab; ++i)
              if (i < space.begin() || i >= space.end()) needed.push_back(i);
          pattern = std::make_shared<const comm::Pattern>(
              comm::Pattern::build(comm, space.partition().offsets(), std::move(needed)));
        });
        deep->f.resize(below + above);
        if (scaling) deep->d.resize(below + above);
        deep->sides = std::make_unique<comm::Exchange>(comm, pattern, (scaling ? 2 : 1) * sizeof(T));
        deep->values = std::make_unique<comm::Exchange>(comm, pattern, sizeof(T));
      }
      values = deep->values->open();
      deep->values->post(values, x.data());
      if (!known) {
        deep->known[0] = &f, deep->known[1] = scaling;
        auto& e = *deep->sides;
        sides = e.open();
        if (!scaling) {
          e.post(sides, f.data());
        } else {
          T* out = reinterpret_cast<T*>(e.outgoing(sides));
          for (const Local i : e.pattern().send_index) *out++ = f.data()[i], *out++ = scaling->data()[i];
          e.post(sides);
        }
      }
    }
    Arrival arrival(comm, [&] {
      if (!deep) return;
      if (!known) {
        deep->sides->wait(sides);
        const T* in = reinterpret_cast<const T*>(deep->sides->incoming(sides));
        for (std::size_t i = 0; i < deep->f.size(); ++i) {
          deep->f[i] = *in++;
          if (scaling) deep->d[i] = *in++;
        }
        deep->sides->close(sides);
      }
      deep->values->wait(values);
    });
    const T* const x_ghosts = deep ? reinterpret_cast<const T*>(deep->values->incoming(values)) : nullptr;
    const auto slabs = [&](const T* own, const T* ghosts) {
      return Slabs<T>{ghosts, own, ghosts ? ghosts + below : nullptr, low, first, last, slab};
    };
    const auto xs = slabs(x.data(), x_ghosts), fs = slabs(f.data(), deep ? deep->f.data() : nullptr),
               ds = slabs(scaling ? scaling->data() : nullptr, deep && scaling ? deep->d.data() : nullptr);
    const auto& kernel = *p.real_kernel[0];
    kernel.prepare();
    const Wave<T> wave(part, kernel, steps, omega, scale);

    // Chunks of slabs and tiles of lines. Those that read no ghost come first; those that read ghosts on one side only
    // are processed towards that side, so that most of their work precedes the wait.
    const Blocking b = blocking(part.axes, sizeof(T), steps);
    const auto count = [](std::ptrdiff_t n, std::ptrdiff_t size) {
      return n > 0 ? std::max<std::ptrdiff_t>(1, n / size) : 0;
    };
    const std::ptrdiff_t tiles = (part.ny + b.lines - 1) / b.lines, own = std::ptrdiff_t(last - first),
                         chunks = count(own, b.slabs);
    std::vector<double> sums(std::size_t(chunks * tiles * steps));
    const auto chunk_at = [&](std::ptrdiff_t c) { return first + own * c / chunks; };
    const auto reads_below = [&](std::ptrdiff_t c) { return first > 0 && chunk_at(c) - steps < first; };
    const auto reads_above = [&](std::ptrdiff_t c) { return last < all && chunk_at(c + 1) + steps > last; };
    std::vector<std::ptrdiff_t> items[3];  // by the number of sides on which they read ghosts
    for (std::ptrdiff_t c = 0; c < chunks; ++c)
      for (std::ptrdiff_t t = 0; t < tiles; ++t) items[reads_below(c) + reads_above(c)].push_back(c * tiles + t);
    const auto run = [&](std::ptrdiff_t item, int thread) {
      const std::ptrdiff_t c = item / tiles, t = item % tiles;
      wave.run(xs, fs, scaling ? &ds : nullptr, other.data(), part.ny * t / tiles, part.ny * (t + 1) / tiles,
               chunk_at(c), chunk_at(c + 1), reads_below(c) && !reads_above(c), arrival, thread,
               sums.data() + item * steps);
    };
    const auto count_work = [&](std::size_t n) {
      const double points = double(own * slab) * double(n) / double(std::max<std::ptrdiff_t>(1, chunks * tiles));
      Trace::work("sweeps", points * (scaling ? 4 : 3) * sizeof(T), points * steps * (parts_->operations + 4));
    };
    if (exec::Tasks::current() || !comm.has_threads()) {  // threads must not wait within a loop
      for (int sides_read = 0; sides_read < 3; ++sides_read) {
        const auto& some = items[sides_read];
        if (sides_read == 1) (void)arrival(0);
        exec::each(some.size(), some.size() > 1, [&](std::size_t i) { run(some[i], exec::may_poll() ? 0 : 1); });
        count_work(some.size());
      }
    } else {
      const int threads = chunks * tiles > 1 ? exec::team_size() : 1;
      const auto share = [&](int thread) {
        try {
          for (const auto& some : items)
            for (std::size_t i = some.size() * std::size_t(thread) / std::size_t(threads);
                 i < some.size() * std::size_t(thread + 1) / std::size_t(threads); ++i)
              run(some[i], thread);
          if (thread == 0) (void)arrival(0);  // other threads may still wait for the ghosts
        } catch (...) {
          if (thread == 0) arrival.give_up();
          throw;
        }
      };
      if (threads > 1) exec::run_team(share);
      else share(0);
      count_work(std::size_t(chunks * tiles));
    }
    if (deep) deep->values->close(values);
    for (std::size_t i = 0; i < sums.size(); ++i) squares[i % std::size_t(steps)] += sums[i];
    std::swap(x, other);
  }
}

#define TACIT_INSTANTIATE(T)                                                                               \
  template int Stencil<T>::sweeps_at_once() const;                                                         \
  template void Stencil<T>::sweeps(const Vector<T, Host>&, T, T, const Vector<T, Host>*, Vector<T, Host>&, \
                                   Vector<T, Host>&, std::span<double>, bool) const;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
