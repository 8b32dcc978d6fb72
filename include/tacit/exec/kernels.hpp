// The element-wise and Gram-Schmidt kernels of the device, written over a Team (team.hpp) and on kernel_scalar_t.
// sweep.cuh and src/exec/device_kernels.cu launch them on the GPU; tests/exec/team_kernels.cpp runs them here.
#pragma once

#include <tacit/base/complex.hpp>
#include <tacit/exec/pack.hpp>
#include <tacit/exec/team.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace tacit::exec {

struct NothingShared {};

/// The largest number of blocks of a kernel that returns sums: eight teams on each of the 132 multiprocessors of an
/// H200. A constant, so that sums have the same bits on every device.
inline constexpr Global most_blocks = 1056;

/// The number of blocks for `items` pieces of work of which a team does `per_block` at a time; from 1 to most_blocks.
inline Global blocks_for(Global items, Global per_block) {
  return std::clamp<Global>((items + per_block - 1) / per_block, 1, most_blocks);
}

/// The types of the vectors of a sweep.
template <class... T>
struct Types {};

/// One pass over n elements: x_u, y_w = f(x_r, x_u) for all elements, W of them at a time; partial[block] = the block's
/// share of the sums that f returns (unused when it returns nothing). Block b of `blocks` does packets b Threads + t,
/// (b + blocks) Threads + t, ..., so the sums depend on n, W and `blocks` only.
template <class F, class Read, class Update, class Write, int W, int Threads>
struct SweepPass;
template <class F, class... R, class... U, class... V, int W, int Threads>
struct SweepPass<F, Types<R...>, Types<U...>, Types<V...>, W, Threads> {
  static constexpr int threads = Threads;
  static constexpr int width = Packet<char, W>::count;
  using Shared = NothingShared;
  using Result =
      decltype(std::declval<const F&>()(std::declval<const R&>()..., std::declval<U&>()..., std::declval<V&>()...));
  static constexpr bool has_sums = !std::is_void_v<Result>;
  using Total = std::conditional_t<has_sums, Result, NothingShared>;

  Global n, blocks;
  F f;
  Pack<const R*...> in;
  Pack<U*...> io;
  Pack<V*...> out;
  Total* partial;

  template <Team T>
  TACIT_HD void operator()(const T& team, Shared&) const {
    constexpr std::index_sequence_for<R...> r;
    constexpr std::index_sequence_for<U...> u;
    constexpr std::index_sequence_for<V...> v;
    const Global packets = n / width;
    Total total{};
    for_items<Threads>(team, [&](int t) {
      for (Global p = team.block() * Threads + t; p < packets; p += blocks * Threads)
        step<W>(p * width, total, r, u, v);
      if constexpr (width > 1)
        if (const Global i = packets * width + t; team.block() == 0 && i < n) step<0>(i, total, r, u, v);
    });
    if constexpr (has_sums) {
      total = team.sum(total);
      if (team.rank() == 0) partial[team.block()] = total;
    }
  }

 private:
  template <int Width, std::size_t... r, std::size_t... u, std::size_t... v>
  TACIT_HD void step(Global i, Total& total, std::index_sequence<r...>, std::index_sequence<u...>,
                     std::index_sequence<v...>) const {
    // All loads stand before all stores: they are in flight together.
    Pack<Packet<R, Width>...> a{{Packet<R, Width>::load(get<r>(in) + i)}...};
    Pack<Packet<U, Width>...> b{{Packet<U, Width>::load(get<u>(io) + i)}...};
    Pack<Packet<V, Width>...> c{};
    TACIT_UNROLL
    for (int j = 0; j < Packet<char, Width>::count; ++j) {
      if constexpr (has_sums)
        add_to(total, f(static_cast<const R&>(get<r>(a).v[j])..., get<u>(b).v[j]..., get<v>(c).v[j]...));
      else f(static_cast<const R&>(get<r>(a).v[j])..., get<u>(b).v[j]..., get<v>(c).v[j]...);
    }
    (get<u>(b).store(get<u>(io) + i), ...);
    (get<v>(c).store(get<v>(out) + i), ...);
  }
};

/// out[c] = sum over p < parts of partial[p columns + c], one block for each column c. The order of additions depends
/// on `parts` only.
template <class V, int Threads>
struct SumParts {
  static constexpr int threads = Threads;
  using Shared = NothingShared;
  Global parts, columns;
  const V* partial;
  V* out;

  template <Team T>
  TACIT_HD void operator()(const T& team, Shared&) const {
    V total{};
    for (Global p = team.rank(); p < parts; p += T::threads) add_to(total, partial[p * columns + team.block()]);
    total = team.sum(total);
    if (team.rank() == 0) out[team.block()] = total;
  }
};

/// partial[s columns + c] = the share of slice s of q_c^H v = sum_i conj(q_c[i]) v[i], for all c < columns <= Most.
/// A block does one slice of the rows and C columns; blocks of one slice have consecutive numbers, so that v is read
/// from memory once. The pointers to the columns are arguments of the launch.
template <class T, int Most, int C, int W, int Threads>
struct BasisDots {
  static constexpr int threads = Threads;
  static constexpr int width = Packet<char, W>::count;
  using Shared = NothingShared;
  Global n;
  int columns;
  Global slices;
  const T* v;
  T* partial;
  const T* q[Most];

  /// The number of groups of C columns; the kernel has slices * groups() blocks.
  TACIT_HD int groups() const { return (columns + C - 1) / C; }

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const Global slice = team.block() / groups();
    const int first = static_cast<int>(team.block() % groups()) * C;
    const int count = columns - first < C ? columns - first : C;
    const Global packets = n / width;
    Sums<C, T> total{};
    for_items<Threads>(team, [&](int t) {
      for (Global p = slice * Threads + t; p < packets; p += slices * Threads) step<W>(p * width, first, count, total);
      if constexpr (width > 1)
        if (const Global i = packets * width + t; slice == 0 && i < n) step<0>(i, first, count, total);
    });
    total = team.sum(total);
    if (team.rank() == 0) {
      TACIT_UNROLL
      for (int c = 0; c < C; ++c)
        if (c < count) partial[slice * columns + first + c] = total[c];
    }
  }

 private:
  template <int Width>
  TACIT_HD void step(Global i, int first, int count, Sums<C, T>& total) const {
    const auto x = Packet<T, Width>::load(v + i);
    Packet<T, Width> a[C];
    TACIT_UNROLL
    for (int c = 0; c < C; ++c)
      if (c < count) a[c] = Packet<T, Width>::load(q[first + c] + i);
      else a[c] = {};
    TACIT_UNROLL
    for (int c = 0; c < C; ++c) {
      TACIT_UNROLL
      for (int j = 0; j < Packet<T, Width>::count; ++j) total[c] += conj(a[c].v[j]) * x.v[j];
    }
  }
};

/// v = scale (v + sum over c < columns of a_c q_c), at most Most columns in one pass; where `partial` is not null,
/// partial[block] = the block's share of v^H v of the new v. Pointers and factors are arguments of the launch.
template <class T, int Most, int W, int Threads>
struct BasisUpdate {
  static constexpr int threads = Threads;
  static constexpr int width = Packet<char, W>::count;
  using Shared = NothingShared;
  Global n;
  int columns;
  Global blocks;
  T scale;
  T* v;
  T* partial;
  const T* q[Most];
  T a[Most];

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const Global packets = n / width;
    T total{};
    for_items<Threads>(team, [&](int t) {
      for (Global p = team.block() * Threads + t; p < packets; p += blocks * Threads) step<W>(p * width, total);
      if constexpr (width > 1)
        if (const Global i = packets * width + t; team.block() == 0 && i < n) step<0>(i, total);
    });
    if (partial) {
      total = team.sum(total);
      if (team.rank() == 0) partial[team.block()] = total;
    }
  }

 private:
  template <int Width>
  TACIT_HD void step(Global i, T& total) const {
    auto x = Packet<T, Width>::load(v + i);
    TACIT_UNROLL_BY(4)
    for (int c = 0; c < columns; ++c) {
      const auto b = Packet<T, Width>::load(q[c] + i);
      TACIT_UNROLL
      for (int j = 0; j < Packet<T, Width>::count; ++j) x.v[j] += a[c] * b.v[j];
    }
    TACIT_UNROLL
    for (int j = 0; j < Packet<T, Width>::count; ++j) {
      x.v[j] *= scale;
      total += T(abs2(x.v[j]));
    }
    x.store(v + i);
  }
};

/// out[i k + c] = x[index[i] k + c] for i < n, c < k: packs the send buffer of a halo exchange. x and out are aligned
/// to sizeof(T).
template <class T, int Threads>
struct Gather {
  static constexpr int threads = Threads;
  using Shared = NothingShared;
  Global n;
  int k;
  const Local* index;
  const T* x;
  T* out;

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    for_items<Threads>(team, [&](int t) {
      const Global at = team.block() * Threads + t;
      if (k == 1) {
        if (at < n) Packet<T, 1>::load(x + index[at]).store(out + at);
      } else if (at < n * k) {
        const Global i = at / k;
        Packet<T, 1>::load(x + Global(index[i]) * k + (at - i * k)).store(out + at);
      }
    });
  }
};

/// x[index[i] k + c] += values[i k + c] for i < n, c < k. Distinct: no index occurs twice. Otherwise additions are
/// atomic, and the last bits of x depend on timing.
template <class T, bool Distinct, int Threads>
struct ScatterAdd {
  static constexpr int threads = Threads;
  using Shared = NothingShared;
  Global n;
  int k;
  const Local* index;
  const T* values;
  T* x;

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    for_items<Threads>(team, [&](int t) {
      const Global at = team.block() * Threads + t;
      if (at >= n * k) return;
      const Global i = at / k;
      T* const to = x + Global(index[i]) * k + (at - i * k);
      if constexpr (Distinct) *to += values[at];
      else atomic_add(to, values[at]);
    });
  }
};

}  // namespace tacit::exec
