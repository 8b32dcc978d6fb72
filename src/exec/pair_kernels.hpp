// Pairs of vectors (pairs.hpp), written over a Team (team.hpp) and on kernel_scalar_t. src/exec/pairs.cu launches these
// on the GPU; tests/exec/team_pairs_test.cpp runs them here.
#pragma once

#include <tacit/exec/pairs.hpp>
#include "exec/block_kernels.hpp"

#include <cmath>
#include <cstddef>

namespace tacit::exec {

/// Element i of both columns of a pair. W = 2: both at once, from memory aligned to them; W = 0: one after the other.
template <int W, class T>
TACIT_HD Packet<T, 2> load_pair(const T* pair, Global i) {
  static_assert(W == 0 || W == 2);
  if constexpr (W == 2) return Packet<T, 2>::load(pair + 2 * i);
  else return {{pair[2 * i], pair[2 * i + 1]}};
}
template <int W, class T>
TACIT_HD void store_pair(const Packet<T, 2>& value, T* pair, Global i) {
  if constexpr (W == 2) value.store(pair + 2 * i);
  else pair[2 * i] = value.v[0], pair[2 * i + 1] = value.v[1];
}

/// partial[slice * count + k] = the slice's share of sum k of pair_gram(), the products of columns of v[..] with
/// columns of z[..]. A group of 32 lanes holds a tile of 2 pairs by 2 pairs in registers, or of 8 pairs with the shadow
/// vector; teams that share a slice of the elements have consecutive numbers, so that its vectors are read from memory
/// once.
template <class T, int MostPairs, int W, int Groups>
struct PairGram {
  static constexpr int threads = 32 * Groups;
  static constexpr int tile = 2, beside_shadow = 8;
  using Wide = std::conditional_t<is_complex<T>, Complex<double>, double>;  // wide_t, as kernels see it
  using Shared = NothingShared;
  Global n, slices, count;
  int columns;      // of all pairs
  int left, right;  // the first pair of v and of z in this launch, left <= right
  const T* shadow;  // null: none
  Wide* partial;
  const T* v[MostPairs];
  const T* z[MostPairs];

  /// The number of pairs of this launch from `first` on.
  TACIT_HD int pairs(int first) const {
    const int all = (columns + 1) / 2 - first;
    return all < MostPairs ? all : MostPairs;
  }
  TACIT_HD int tiles(int first) const { return (pairs(first) + tile - 1) / tile; }
  /// The number of tiles of products: of the triangle, or of the full square where left and right pairs differ.
  TACIT_HD int products() const {
    const int across = tiles(right);
    return left == right ? across * (across + 1) / 2 : tiles(left) * across;
  }
  TACIT_HD int work() const { return products() + (shadow ? (pairs(right) + beside_shadow - 1) / beside_shadow : 0); }
  /// Teams for each slice; the kernel has slices * teams() blocks.
  TACIT_HD int teams() const { return (work() + Groups - 1) / Groups; }

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const auto lanes = team.template lanes<32>();
    const Global slice = team.block() / teams();
    const int first = static_cast<int>(team.block() % teams()) * Groups;
    for (int g = lanes.group(); g < Groups; g += lanes.groups) {
      const int item = first + g;
      const bool mine = item < work(), product = item < products();
      int a = 0, b = 0;  // the first pair of v and of z in the tile, counted within the launch
      if (mine && product) {
        int up = 0, across = 0;
        if (left == right) {
          while ((across + 1) * (across + 2) / 2 <= item) ++across;
          up = item - across * (across + 1) / 2;
        } else {
          up = item % tiles(left), across = item / tiles(left);
        }
        a = up * tile, b = across * tile;
      } else if (mine) {
        b = (item - products()) * beside_shadow;
      }
      Wide total[16] = {};
      const auto each_element = [&](auto&& step) {
        for (Global base = slice * 32; base < n; base += slices * 32)
          for (int l = lanes.lane(); l < 32; l += lanes.width)
            if (base + l < n) step(base + l);
      };
      if (mine && product) {
        const T *x[tile], *y[tile];
        take(v, a, pairs(left), x), take(z, b, pairs(right), y);
        each_element([&](Global i) { multiply(x, y, i, total); });
      } else if (mine) {
        const T* y[beside_shadow];
        take(z, b, pairs(right), y);
        each_element([&](Global i) { multiply_shadow(y, i, total); });
      }
      TACIT_UNROLL
      for (int k = 0; k < 16; ++k) {
        const Wide sum = lanes.sum(total[k]);
        if (!mine || lanes.lane() != 0) continue;
        Wide* const out = partial + slice * count;
        if (product) {
          const Global up = 2 * (left + a) + k % 4, across = 2 * (right + b) + k / 4;
          if (up <= across && across < columns) out[across * (across + 1) / 2 + up] = sum;
        } else if (const Global across = 2 * (right + b) + k; across < columns) {
          out[Global(columns) * (columns + 1) / 2 + across] = sum;
        }
      }
    }
  }

 private:
  static_assert(MostPairs % tile == 0 && MostPairs % beside_shadow == 0, "launches must not share a tile");
  // Pairs beyond the last repeat it; their sums are dropped.
  template <int Count>
  TACIT_HD static void take(const T* const (&from)[MostPairs], int first, int pairs, const T* (&to)[Count]) {
    TACIT_UNROLL
    for (int k = 0; k < Count; ++k) to[k] = from[first + k < pairs ? first + k : pairs - 1];
  }
  TACIT_HD static void multiply(const T* const (&v)[tile], const T* const (&z)[tile], Global i, Wide (&total)[16]) {
    Packet<T, 2> x[tile], y[tile];
    TACIT_UNROLL
    for (int k = 0; k < tile; ++k) x[k] = load_pair<W>(v[k], i), y[k] = load_pair<W>(z[k], i);
    TACIT_UNROLL
    for (int r = 0; r < 4; ++r) {
      const Wide xr = conj(widened<Wide>(x[r / 2].v[r % 2]));
      TACIT_UNROLL
      for (int c = 0; c < 4; ++c) total[c * 4 + r] += xr * widened<Wide>(y[c / 2].v[c % 2]);
    }
  }
  TACIT_HD void multiply_shadow(const T* const (&z)[beside_shadow], Global i, Wide (&total)[16]) const {
    const Wide s = conj(widened<Wide>(shadow[i]));
    TACIT_UNROLL
    for (int k = 0; k < beside_shadow; ++k) {
      const auto y = load_pair<W>(z[k], i);
      total[2 * k] += s * widened<Wide>(y.v[0]), total[2 * k + 1] += s * widened<Wide>(y.v[1]);
    }
  }
};

/// Starts the kernels of pair_gram() by launch(blocks, kernel): result[k], k < count(), in the order of pairs.hpp. The
/// order of summation depends on n and `columns` only.
template <class T, int MostPairs, int W, int Groups, int SumThreads = 128>
class PairGramPlan {
 public:
  using Kernel = PairGram<T, MostPairs, W, Groups>;
  using Wide = typename Kernel::Wide;
  PairGramPlan(Global n, int columns, const T* shadow)
      : kernel_{n, 1, Global(pair_gram_size(columns, shadow)), columns, 0, 0, shadow, nullptr, {}, {}} {
    // Where there are enough elements, a lane has at least four.
    kernel_.slices = std::clamp<Global>((n + 127) / 128, 1, std::max<Global>(most_blocks / kernel_.teams(), 1));
  }
  Global count() const { return kernel_.count; }
  /// The number of values in `partial`.
  Global partial_size() const { return kernel_.slices * kernel_.count; }

  template <class Launch>
  void operator()(const T* const* v, const T* const* z, Wide* partial, Wide* result, Launch&& launch) {
    const int pairs = (kernel_.columns + 1) / 2;
    kernel_.partial = partial;
    const T* const shadow = kernel_.shadow;
    for (kernel_.right = 0; kernel_.right < pairs; kernel_.right += MostPairs)
      for (kernel_.left = 0; kernel_.left <= kernel_.right; kernel_.left += MostPairs) {
        kernel_.shadow = kernel_.left == kernel_.right ? shadow : nullptr;
        std::copy_n(v + kernel_.left, kernel_.pairs(kernel_.left), kernel_.v);
        std::copy_n(z + kernel_.right, kernel_.pairs(kernel_.right), kernel_.z);
        launch(kernel_.slices * kernel_.teams(), kernel_);
      }
    launch(kernel_.count, SumParts<Wide, SumThreads>{kernel_.slices, kernel_.count, partial, result});
  }

 private:
  Kernel kernel_;
};

/// Where `pair` is not null: pair := (pair where `add`, else 0) + [Y a, Y c]; where x is not null: x := x + Y e. Y is
/// the first `columns` columns of the pairs y, of which `pair` may be one: elements are read before they are written.
template <class T, int MostPairs, int W, int Threads>
struct PairCombine {
  static constexpr int threads = Threads;
  using Shared = NothingShared;
  Global n, blocks;
  int columns;
  bool add;
  T* pair;
  T* x;
  const T* y[MostPairs];
  T a[2 * MostPairs], c[2 * MostPairs], e[2 * MostPairs];

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    for_items<Threads>(team, [&](int t) {
      for (Global i = team.block() * Threads + t; i < n; i += blocks * Threads) step(i);
    });
  }

 private:
  TACIT_HD void step(Global i) const {
    Packet<T, 2> sum{};
    T part(0);
    if (pair && add) sum = load_pair<W>(pair, i);
    TACIT_UNROLL_BY(4)
    for (int k = 0; k < columns / 2; ++k) {
      const auto v = load_pair<W>(y[k], i);
      if (pair) {
        sum.v[0] += a[2 * k] * v.v[0] + a[2 * k + 1] * v.v[1];
        sum.v[1] += c[2 * k] * v.v[0] + c[2 * k + 1] * v.v[1];
      }
      if (x) part += e[2 * k] * v.v[0] + e[2 * k + 1] * v.v[1];
    }
    if (columns % 2 != 0) {  // the second column of this pair is undefined
      const T v = y[columns / 2][2 * i];
      if (pair) sum.v[0] += a[columns - 1] * v, sum.v[1] += c[columns - 1] * v;
      if (x) part += e[columns - 1] * v;
    }
    if (pair) store_pair<W>(sum, pair, i);
    if (x) x[i] += part;
  }
};

/// Starts the kernels of pair_combine() by launch(blocks, kernel).
template <int MostPairs, int W, int Threads, class T, class Launch>
void launch_pair_combine(Global n, T* const* v, int columns, const T* a, const T* c, const T* e, T* x,
                         Launch&& launch) {
  using Kernel = PairCombine<T, MostPairs, W, Threads>;
  const Global blocks = blocks_for(n, Threads);
  // The first launch reads the old v_0; the others add to the new one.
  for (int first = 0; first < columns; first += 2 * MostPairs) {
    Kernel kernel{n,  blocks, std::min(2 * MostPairs, columns - first), first > 0, a ? v[0] : nullptr, x, {}, {},
                  {}, {}};
    std::copy_n(v + first / 2, (kernel.columns + 1) / 2, kernel.y);
    if (a) std::copy_n(a + first, kernel.columns, kernel.a), std::copy_n(c + first, kernel.columns, kernel.c);
    if (x) std::copy_n(e + first, kernel.columns, kernel.e);
    launch(blocks, kernel);
  }
}

/// Column c of the pair v := x.
template <class T, int Threads>
struct PairPut {
  static constexpr int threads = Threads;
  using Shared = NothingShared;
  Global n;
  int c;
  const T* x;
  T* v;

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    for_items<Threads>(team, [&](int t) {
      if (const Global i = team.block() * Threads + t; i < n) v[2 * i + c] = x[i];
    });
  }
};

/// A value whose "sum" over a team is the maximum.
struct Largest {
  double value = 0;
  TACIT_HD Largest& operator+=(const Largest& b) {
    if (b.value > value) value = b.value;
    return *this;
  }
};

/// partial[block] = the block's share of max |v[i stride]|, i < n; infinity for NaN.
template <class T, int Threads>
struct LargestMagnitude {
  static constexpr int threads = Threads;
  using Shared = NothingShared;
  Global n, stride, blocks;
  const T* v;
  Largest* partial;

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    Largest most;
    for_items<Threads>(team, [&](int t) {
      for (Global i = team.block() * Threads + t; i < n; i += blocks * Threads) {
        const double size = magnitude(v[i * stride]);
        most += Largest{size == size ? size : HUGE_VAL};
      }
    });
    most = team.sum(most);
    if (team.rank() == 0) partial[team.block()] = most;
  }

 private:
  TACIT_HD static double magnitude(const T& a) {
    if constexpr (is_complex<T>) return double(abs(a));
    else return fabs(double(a));
  }
};

}  // namespace tacit::exec
