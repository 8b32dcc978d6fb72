// Several steps of Richardson's iteration in one pass over a grid.
#include "stencil_impl.hpp"

#include <tacit/base/trace.hpp>

#include <vector>

#ifdef __unix__
#include <unistd.h>
#endif

namespace tacit::op {
namespace {

using namespace stencils;

// Steps at once, lines of a tile, slabs of a chunk. They depend on the grid alone, so that sums of squares have one order.
struct Blocking {
  int steps = 4;
  std::ptrdiff_t lines = 1, slabs = 1;
};

std::ptrdiff_t second_cache() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return std::ptrdiff_t(bytes);
#endif
  return std::ptrdiff_t(1) << 20;
}

Blocking blocking(const Axes& axes, std::size_t element) {
  Blocking b;
  const std::ptrdiff_t ny = std::ptrdiff_t(axes.n[1]), line = std::ptrdiff_t(axes.n[0]) * std::ptrdiff_t(element);
  // Of each step three slabs, of f one a step, of x three.
  const auto fit = [&](int steps) { return second_cache() * 3 / 4 / ((4 * steps) * line) - steps; };
  b.steps = 8;
  while (b.steps > 2 && fit(b.steps) < std::min<std::ptrdiff_t>(ny, 4 * b.steps)) --b.steps;
  b.lines = std::clamp<std::ptrdiff_t>(fit(b.steps), std::min<std::ptrdiff_t>(ny, 8), ny);
  const std::ptrdiff_t tiles = (ny + b.lines - 1) / b.lines;
  b.lines = (ny + tiles - 1) / tiles;
  b.slabs = std::max<std::ptrdiff_t>(64, 16 * b.steps);
  return b;
}

// out = x + omega (scale (f - A x)) on n points of a line whose x, f, out begin there; returns the sum of squares of f - A x.
template <bool Middle, class S>
double star_step(const S* line, const S* ym, const S* yp, const S* zm, const S* zp, const Table<S>& t, const S* f, S omega,
                 S scale, std::ptrdiff_t n, S* __restrict out) {
  const S c = t[slot(0, 0, 0)], xl = t[slot(-1, 0, 0)], xr = t[slot(1, 0, 0)], yl = t[slot(0, -1, 0)],
          yr = t[slot(0, 1, 0)], zl = t[slot(0, 0, -1)], zr = t[slot(0, 0, 1)];
  const S *const left = line - 1, *const right = line + 1;
  double squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    S sum = zl * zm[i];
    if constexpr (Middle) sum += yl * ym[i];
    sum += xl * left[i];
    sum += c * line[i];
    sum += xr * right[i];
    if constexpr (Middle) sum += yr * yp[i];
    sum += zr * zp[i];
    const S r = f[i] - sum;
    squares += double(r) * double(r);
    out[i] = line[i] + omega * (scale * r);
  }
  return squares;
}

// The same after v = A x.
template <class S>
double step(const S* x, const S* v, const S* f, S omega, S scale, std::ptrdiff_t n, S* __restrict out) {
  double squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const S r = f[i] - v[i];
    squares += double(r) * double(r);
    out[i] = x[i] + omega * (scale * r);
  }
  return squares;
}

// Slabs of an array: own ones, and ghosts before and after them. Numbers are those of the whole grid.
template <class S>
struct Slabs {
  const S *below, *own, *above;
  Global low, first, last;  // where `below` begins; own ones
  std::ptrdiff_t slab;
  const S* at(Global z) const {
    if (z < first) return below + std::ptrdiff_t(z - low) * slab;
    return z < last ? own + std::ptrdiff_t(z - first) * slab : above + std::ptrdiff_t(z - last) * slab;
  }
};

template <class S>
class Wave {
 public:
  Wave(const Part& part, const Kernel<S>& kernel, int steps, S omega, S scale)
      : part_(part), kernel_(kernel), steps_(steps), omega_(omega), scale_(scale) {}

  /// Lines [y0, y1) of slabs [z0, z1) take all steps; result to `to` (own slabs); squares of each step.
  void run(const Slabs<S>& x, const Slabs<S>& f, S* to, std::ptrdiff_t y0, std::ptrdiff_t y1, Global z0, Global z1,
           double* squares) const {
    const std::ptrdiff_t nx = part_.nx, ny = part_.ny;
    const Global all = part_.axes.n[2];
    // Of step c: what the steps after it read.
    const auto first_line = [&](int c) { return std::max<std::ptrdiff_t>(0, y0 - (steps_ - 1 - c)); };
    const auto last_line = [&](int c) { return std::min<std::ptrdiff_t>(ny, y1 + (steps_ - 1 - c)); };
    const auto first_slab = [&](int c) { return std::max<Global>(0, z0 - (steps_ - 1 - c)); };
    const auto last_slab = [&](int c) { return std::min<Global>(all, z1 + (steps_ - 1 - c)); };
    const std::ptrdiff_t height = last_line(0) - first_line(0), ring = height * nx;
    // Results of steps before the last: three slabs each.
    static thread_local std::vector<S> kept;
    const std::size_t needed = std::size_t(3 * ring * (steps_ - 1) + nx);
    if (kept.size() < needed) kept.resize(needed);
    S* const v = kept.data() + 3 * ring * (steps_ - 1);
    const std::ptrdiff_t base = first_line(0);
    const auto of_step = [&](int c, Global z) {  // line `base` of slab z of step c's result
      return kept.data() + (3 * c + std::ptrdiff_t(z % 3)) * ring;
    };
    for (Global t = first_slab(0); t < z1 + steps_ - 1; ++t)
      for (int c = 0; c < steps_; ++c) {
        const Global z = t - c;
        if (z < first_slab(c) || z >= last_slab(c)) continue;
        const bool inside = z >= z0 && z < z1, last = c == steps_ - 1;
        const auto source = [&](Global at) -> const S* {  // line 0 of a slab of what step c reads
          if (at < 0 || at >= all) return nullptr;
          return c == 0 ? x.at(at) : of_step(c - 1, at) - base * nx;
        };
        const S *const zm = source(z - 1), *const zc = source(z), *const zp = source(z + 1);
        const S* const right_side = f.at(z);
        S* const out = last ? to + std::ptrdiff_t(z - x.first) * nx * ny : of_step(c, z) - base * nx;
        double sum = 0;
        for (std::ptrdiff_t l = first_line(c); l < last_line(c); ++l) {
          const double s = line(zm, zc, zp, right_side + l * nx, l, z, v, out + l * nx);
          if (inside && l >= y0 && l < y1) sum += s;
        }
        squares[c] += sum;
      }
  }

 private:
  double line(const S* zm, const S* zc, const S* zp, const S* f, std::ptrdiff_t l, Global z, S* v, S* out) const {
    const std::ptrdiff_t nx = part_.nx, ny = part_.ny;
    const S* const slabs[3] = {zm, zc, zp};
    const S* lines[9];
    for (int sz = 0; sz < 3; ++sz)
      for (int sy = -1; sy <= 1; ++sy) {
        const bool there = slabs[sz] && l + sy >= 0 && l + sy < ny && !(kernel_.star() && sy && sz != 1);
        lines[3 * sz + 1 + sy] = there ? slabs[sz] + (l + sy) * nx : nullptr;
      }
    if (!kernel_.star() || nx < 3) {
      kernel_.line_of(lines, l, z, v);
      return step(lines[4], v, f, omega_, scale_, nx, out);
    }
    // The ends by themselves, the points between them in one loop.
    double squares = 0;
    for (const std::ptrdiff_t i : {std::ptrdiff_t(0), nx - 1}) {
      kernel_.end_of_line(lines, l, z, i, v);
      squares += step(lines[4] + i, v + i, f + i, omega_, scale_, 1, out + i);
    }
    const auto from = [&](int s) { return lines[s] ? lines[s] + 1 : kernel_.nothing(); };
    const auto& t = kernel_.table_of(l, z);
    if (part_.axes.real[1])
      return squares + star_step<true>(from(4), from(3), from(5), from(1), from(7), t, f + 1, omega_, scale_, nx - 2, out + 1);
    return squares + star_step<false>(from(4), from(3), from(5), from(1), from(7), t, f + 1, omega_, scale_, nx - 2, out + 1);
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
  if (is_complex<T> || grid_.dimensions == 1 || periodic(grid_.dimensions - 1) || (grid_.dimensions == 3 && periodic(1)))
    return 1;
  return blocking(parts_->part.axes, sizeof(T)).steps;
}

template <Scalar T>
void Stencil<T>::sweeps(const Vector<T, Host>& f, T omega, T scale, Vector<T, Host>& x, Vector<T, Host>& other,
                        std::span<double> squares) const {
  const int steps = int(squares.size());
  require(steps >= 1 && steps <= sweeps_at_once() && sweeps_at_once() > 1, steps, " sweeps at once of a stencil that does ",
          sweeps_at_once());
  for (const auto* v : {&f, static_cast<const Vector<T, Host>*>(&x), static_cast<const Vector<T, Host>*>(&other)})
    require(v->space() == this->domain() && v->columns() == 1, "sweeps of a stencil with vectors of another space");
  if constexpr (!is_complex<T>) {
    const exec::Tasks::InOrder in_order(true);
    const Span span("stencil sweeps", "op", Trace::on() ? std::int64_t(3 * x.size() * sizeof(T)) : 0);
    Parts& p = *parts_;
    const auto& part = p.part;
    const auto& space = this->domain();
    const auto& comm = space.comm();
    const std::ptrdiff_t slab = std::ptrdiff_t(grid_.slab());
    const Global first = space.begin() / slab, last = space.end() / slab, all = part.axes.n[2];
    const Global low = std::max<Global>(0, first - steps), high = std::min<Global>(all, last + steps);
    for (int c = 0; c < steps; ++c) this->count_apply();
    std::fill(squares.begin(), squares.end(), 0.0);

    typename Parts::Deep* deep = nullptr;
    int number = -1;
    if (comm.size() > 1) {
      deep = &p.deep[steps];
      if (!deep->exchange) {
        comm::collective(comm, [&] {
          std::vector<Global> needed;
          if (last > first)
            for (Global i = low * slab; i < high * slab; ++i)
              if (i < space.begin() || i >= space.end()) needed.push_back(i);
          deep->pattern = std::make_shared<const comm::Pattern>(
              comm::Pattern::build(comm, space.partition().offsets(), std::move(needed)));
          deep->exchange = std::make_unique<comm::Exchange>(comm, deep->pattern, 2 * sizeof(T));
        });
        const auto below = std::size_t(last > first ? (first - low) * slab : 0), above = std::size_t(last > first ? (high - last) * slab : 0);
        deep->x_below.resize(below), deep->f_below.resize(below);
        deep->x_above.resize(above), deep->f_above.resize(above);
      }
      number = deep->exchange->open();
      T* out = reinterpret_cast<T*>(deep->exchange->outgoing(number));
      for (const Local i : deep->pattern->send_index) *out++ = x.data()[i], *out++ = f.data()[i];
      deep->exchange->post(number);
    }
    const auto slabs = [&](const T* own, std::vector<T> Parts::Deep::*below, std::vector<T> Parts::Deep::*above) {
      return Slabs<T>{deep ? (deep->*below).data() : nullptr, own, deep ? (deep->*above).data() : nullptr, low, first, last, slab};
    };
    const auto xs = slabs(x.data(), &Parts::Deep::x_below, &Parts::Deep::x_above);
    const auto fs = slabs(f.data(), &Parts::Deep::f_below, &Parts::Deep::f_above);
    const auto& kernel = *p.real_kernel[0];
    kernel.prepare();
    const Wave<T> wave(part, kernel, steps, omega, scale);

    // Chunks of slabs and tiles of lines; those that read no ghost come first.
    const Blocking b = blocking(part.axes, sizeof(T));
    const auto count = [](std::ptrdiff_t n, std::ptrdiff_t size) { return n > 0 ? std::max<std::ptrdiff_t>(1, n / size) : 0; };
    const std::ptrdiff_t tiles = (part.ny + b.lines - 1) / b.lines, own = std::ptrdiff_t(last - first), chunks = count(own, b.slabs);
    std::vector<double> sums(std::size_t(chunks * tiles * steps));
    const auto chunk_at = [&](std::ptrdiff_t c) { return first + own * c / chunks; };
    const auto run = [&](bool inner) {
      std::vector<std::ptrdiff_t> items;
      for (std::ptrdiff_t c = 0; c < chunks; ++c) {
        const bool reads_none = (chunk_at(c) - steps >= first || first == 0) && (chunk_at(c + 1) + steps <= last || last == all);
        if (reads_none == inner)
          for (std::ptrdiff_t t = 0; t < tiles; ++t) items.push_back(c * tiles + t);
      }
      exec::each(items.size(), items.size() > 1, [&](std::size_t i) {
        const std::ptrdiff_t c = items[i] / tiles, t = items[i] % tiles;
        wave.run(xs, fs, other.data(), part.ny * t / tiles, part.ny * (t + 1) / tiles, chunk_at(c), chunk_at(c + 1),
                 sums.data() + items[i] * steps);
        if (exec::may_poll()) comm.poll();
      });
    };
    run(true);
    if (deep) {
      deep->exchange->wait(number);
      const T* in = reinterpret_cast<const T*>(deep->exchange->incoming(number));
      for (std::size_t i = 0; i < deep->x_below.size(); ++i) deep->x_below[i] = *in++, deep->f_below[i] = *in++;
      for (std::size_t i = 0; i < deep->x_above.size(); ++i) deep->x_above[i] = *in++, deep->f_above[i] = *in++;
    }
    run(false);
    if (deep) deep->exchange->close(number);
    for (std::size_t i = 0; i < sums.size(); ++i) squares[i % std::size_t(steps)] += sums[i];
    std::swap(x, other);
  }
}

template int Stencil<float>::sweeps_at_once() const;
template int Stencil<double>::sweeps_at_once() const;
template int Stencil<std::complex<float>>::sweeps_at_once() const;
template int Stencil<std::complex<double>>::sweeps_at_once() const;
#define TACIT_INSTANTIATE(T)                                                                                    \
  template void Stencil<T>::sweeps(const Vector<T, Host>&, T, T, Vector<T, Host>&, Vector<T, Host>&, std::span<double>) const;
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::op
