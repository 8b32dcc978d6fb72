// Gram-Schmidt on blocks of vectors: [Q V]^H V and (V - Q C) W, each one pass over memory.
// All work is on real numbers, in pieces of a few hundred, so that a piece of the block stays in the first-level cache
// while all basis vectors are read. Sums: tiles of `rows` basis vectors by up to `most_cols` columns are kept in
// registers. Combinations: a few SIMD registers of up to `most_cols` columns are kept while all basis vectors are read,
// so that the block is written once and in place. Reading a line prefetches the same line of the next piece. A complex
// column v is stored as two real ones: v and -i v, whose real dot products with q are the real and the imaginary part
// of q^H v; the combination Q c is Q Re c + i (Q Im c).
#include <tacit/base/trace.hpp>
#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/exec/tasks.hpp>
#include "base/registers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

namespace tacit::exec {
namespace {

constexpr int most_cols = register_bytes == 64 ? 10 : 5;
/// Accumulators use rows (or vectors) times columns registers.
constexpr int rows_of(int K) {
  return most_cols == 10 ? (K > 5 ? 2 : 4) : 2;
}
template <class R>
constexpr int width = register_bytes / int(sizeof(R));
/// The length of a piece of a block with the given number of columns.
template <class R>
constexpr std::size_t piece_of(int columns) {
  return std::size_t(columns > 12 ? 16 : 32) * width<R>;
}

template <class R, int Bytes>
struct Lanes {
  typedef R type __attribute__((vector_size(Bytes)));
};
template <class R>
using Packed = typename Lanes<R, register_bytes>::type;

/// The real type of a storage type.
template <class S>
struct part_of {
  using type = real_t<S>;
};
template <>
struct part_of<Bfloat16> {
  using type = Bfloat16;
};
template <>
struct part_of<ComplexBfloat16> {
  using type = Bfloat16;
};
template <class S>
using part_t = typename part_of<S>::type;
template <class S>
auto* parts(S* p) {
  using Part = part_t<std::remove_const_t<S>>;
  return reinterpret_cast<std::conditional_t<std::is_const_v<S>, const Part, Part>*>(p);
}

template <class R, class S>
inline Packed<R> load(const S* p) {
  constexpr int w = width<R>;
  if constexpr (std::same_as<S, Bfloat16>) {
    typename Lanes<std::uint16_t, 2 * w>::type half;
    std::memcpy(&half, p, sizeof half);
    const auto whole = __builtin_convertvector(half, typename Lanes<std::uint32_t, 4 * w>::type) << 16;
    const auto single = std::bit_cast<typename Lanes<float, 4 * w>::type>(whole);
    if constexpr (std::same_as<R, float>) return single;
    else return __builtin_convertvector(single, Packed<R>);
  } else {
    typename Lanes<S, int(sizeof(S)) * w>::type v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (std::same_as<R, S>) return v;
    else return __builtin_convertvector(v, Packed<R>);
  }
}
inline std::uint16_t round_to_bfloat(float a) {
  const auto bits = std::bit_cast<std::uint32_t>(a);
  // To nearest, ties to even; NaN stays NaN.
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return std::uint16_t((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}
template <class R, class S>
inline void narrow(R a, S& b) {
  if constexpr (std::same_as<S, Bfloat16>) b.bits = round_to_bfloat(float(a));
  else b = S(a);
}
/// v to p, rounded to S.
template <class R, class S>
inline void save(const Packed<R>& v, S* p) {
  if constexpr (std::same_as<S, Bfloat16>) {
    R all[width<R>];
    std::memcpy(all, &v, sizeof v);
    S rounded[width<R>];
    for (int l = 0; l < width<R>; ++l) narrow(all[l], rounded[l]);
    std::memcpy(static_cast<void*>(p), rounded, sizeof rounded);
  } else {
    const auto rounded = __builtin_convertvector(v, typename Lanes<S, int(sizeof(S)) * width<R>>::type);
    std::memcpy(p, &rounded, sizeof rounded);
  }
}
/// Pairs (a, b) -> (b, -a): -i times complex numbers; i times them is its negative.
template <class R>
inline Packed<R> turned(const Packed<R>& v) {
  Packed<R> sign;
  for (int l = 0; l < width<R>; ++l) sign[l] = R(l % 2 ? -1 : 1);
  return shuffled<[](int l) { return l ^ 1; }>(v, v) * sign;
}
/// v, loaded once: otherwise it would be loaded again for every sum.
template <class R>
inline Packed<R> once(Packed<R> v) {
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#endif
  return v;
}
/// Prefetches the same line of the next piece. Always inlined: gcc treats a function that only prefetches as one
/// without effect, and drops calls of it.
template <class S>
[[gnu::always_inline]] inline void ask(const S* p) {
  __builtin_prefetch(p, 0, 2);
}

/// sums[g ld + k] += q_g v_k, lane by lane, over m numbers. Per = 2: K / 2 complex columns, as v and -i v. `next`: the
/// distance at which q is prefetched; 0: not at all.
template <int G, int K, int Per, class R, class S>
void dots_tile(const S* const* q, const R* const* v, std::size_t m, std::size_t next, Packed<R>* sums, int ld) {
  constexpr int w = width<R>;
  Packed<R> acc[G][K] =
      {};  // starts from zero, since a sum of short sums has smaller rounding errors than one long sum
  const std::size_t full = m / w * w;
  for (std::size_t i = 0; i < full; i += w) {
    if (next)
#pragma GCC unroll 16
      for (int g = 0; g < G; ++g) ask(q[g] + i + next);
    Packed<R> qi[G];
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g) qi[g] = load<R>(q[g] + i);
#pragma GCC unroll 16
    for (int k = 0; k < K; k += Per) {
      const Packed<R> vi = once<R>(load<R>(v[k / Per] + i));
#pragma GCC unroll 16
      for (int g = 0; g < G; ++g) acc[g][k] = mul_add(qi[g], vi, acc[g][k]);
      if constexpr (Per == 2) {
        const Packed<R> ti = turned<R>(vi);
#pragma GCC unroll 16
        for (int g = 0; g < G; ++g) acc[g][k + 1] = mul_add(qi[g], ti, acc[g][k + 1]);
      }
    }
  }
#pragma GCC unroll 16
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k) sums[g * ld + k] += acc[g][k];
  if (full < m) {  // the rest, padded with zeros
    S some_q[G][w] = {};
    R some_v[K / Per][w] = {};
    const S* at_q[G];
    const R* at_v[K / Per];
    for (int g = 0; g < G; ++g)
      at_q[g] = some_q[g], std::memcpy(static_cast<void*>(some_q[g]), q[g] + full, (m - full) * sizeof(S));
    for (int k = 0; k < K / Per; ++k) at_v[k] = some_v[k], std::memcpy(some_v[k], v[k] + full, (m - full) * sizeof(R));
    dots_tile<G, K, Per, R, S>(at_q, at_v, w, 0, sums, ld);
  }
}

/// A combination for the columns of a block: `in` + sum over rows of c[row] q_row and, for a block times W, over its
/// own columns.
template <class T, class S>
struct Combination {
  using R = real_t<T>;
  const part_t<S>* const* q;
  int j;
  const R* c;            // j rows of ld
  const R* w = nullptr;  // own rows: upper triangular, ld; null: the columns themselves
  int ld;
  R* const* v;
  part_t<S>* const* stored = nullptr;  // narrow results; then only column `kept` of v is written
  int kept = -1;
};

/// Real columns [first, first + K) of a combination, E registers of each from `i` on.
template <int E, int K, int Per, class T, class S>
inline void combine_step(const Combination<T, S>& to, int first, std::size_t i, std::size_t next) {
  using R = real_t<T>;
  constexpr int w = width<R>, half = K / 2 / Per * Per;
  const auto load_at = [&](const auto* p, int e) __attribute__((always_inline)) {
    return load<R>(p + i + e * w);
  };
  Packed<R> acc[E][K] = {};
  if (!to.w) {
#pragma GCC unroll 16
    for (int k = 0; k < K; k += Per)
#pragma GCC unroll 16
      for (int e = 0; e < E; ++e) acc[e][k] = load_at(to.v[(first + k) / Per], e);
  } else {
    const auto own = [&](int l, auto from) __attribute__((always_inline)) {
      const R* const c = to.w + std::size_t(l) * to.ld + first;
      Packed<R> x[E];
#pragma GCC unroll 16
      for (int e = 0; e < E; ++e) x[e] = load_at(to.v[l], e);
      if (next)
#pragma GCC unroll 16
        for (int e = 0; e < E; ++e) ask(to.v[l] + i + e * w + next);
#pragma GCC unroll 16
      for (int k = from(); k < K; ++k)
#pragma GCC unroll 16
        for (int e = 0; e < E; ++e) acc[e][k] = mul_add(c[k], x[e], acc[e][k]);
    };
    int l = 0;
    for (; l < (first + half) / Per; ++l) own(l, std::integral_constant<int, 0>{});
    for (; l < (first + K) / Per; ++l) own(l, std::integral_constant<int, half>{});
  }
  for (int r = 0; r < to.j; ++r) {
    const R* const c = to.c + std::size_t(r) * to.ld + first;
    const auto* const q = to.q[r];
    Packed<R> x[E];
#pragma GCC unroll 16
    for (int e = 0; e < E; ++e) x[e] = load_at(q, e);
    if (next)
#pragma GCC unroll 16
      for (int e = 0; e < E; ++e) ask(q + i + e * w + next);
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k)
#pragma GCC unroll 16
      for (int e = 0; e < E; ++e) acc[e][k] = mul_add(c[k], x[e], acc[e][k]);
  }
#pragma GCC unroll 16
  for (int k = 0; k < K; k += Per) {
    const int column = (first + k) / Per;
#pragma GCC unroll 16
    for (int e = 0; e < E; ++e) {
      Packed<R> y = acc[e][k];
      if constexpr (Per == 2) y -= turned<R>(acc[e][k + 1]);
      const std::size_t at = i + e * w;
      if (to.stored) save<R>(y, to.stored[column] + at);
      if (!to.stored || column == to.kept) save<R>(y, to.v[column] + at);
    }
  }
}
/// The last few numbers of a combination, fewer than a register has, followed by zeros. Apart from combine_step(),
/// which is compiled for many numbers of columns.
template <class T, class S>
class Padded {
  using R = real_t<T>;
  using Q = part_t<S>;
  static constexpr std::size_t w = width<R>;

 public:
  static Padded& of_this_thread() {
    static thread_local Padded padded;
    return padded;
  }
  /// `count` numbers from i on, for the columns [first, last) of the block.
  const Combination<T, S>& take(const Combination<T, S>& from, int first, int last, std::size_t i, std::size_t count) {
    const auto j = std::size_t(from.j), columns = std::size_t(last);
    fit(basis_, q_, j), fit(block_, v_, columns), fit(narrow_, stored_, columns);
    for (std::size_t r = 0; r < j; ++r) copy(from.q[r] + i, basis_.data() + r * w, count);
    for (std::size_t c = from.w ? 0 : std::size_t(first); c < columns; ++c)
      copy(from.v[c] + i, block_.data() + c * w, count);
    made_ = from;
    made_.q = q_.data(), made_.v = v_.data(), made_.stored = from.stored ? stored_.data() : nullptr;
    return made_;
  }
  /// The results of the columns [first, last).
  void give(const Combination<T, S>& to, int first, int last, std::size_t i, std::size_t count) const {
    for (int c = first; c < last; ++c) {
      const std::size_t at = std::size_t(c) * w;
      if (to.stored) std::memcpy(static_cast<void*>(to.stored[c] + i), narrow_.data() + at, count * sizeof(Q));
      if (!to.stored || c == to.kept) std::memcpy(to.v[c] + i, block_.data() + at, count * sizeof(R));
    }
  }

 private:
  template <class X, class Pointer>
  static void fit(std::vector<X>& numbers, std::vector<Pointer>& at, std::size_t rows) {
    numbers.resize(std::max(numbers.size(), rows * w)), at.resize(rows);
    for (std::size_t r = 0; r < rows; ++r) at[r] = numbers.data() + r * w;
  }
  template <class X>
  static void copy(const X* from, X* to, std::size_t count) {
    std::memcpy(static_cast<void*>(to), from, count * sizeof(X));
    std::fill(to + count, to + w, X{});
  }
  std::vector<Q> basis_, narrow_;
  std::vector<R> block_;
  std::vector<const Q*> q_;
  std::vector<R*> v_;
  std::vector<Q*> stored_;
  Combination<T, S> made_{};
};
template <int K, int Per, class T, class S>
void combine_columns(const Combination<T, S>& to, int first, std::size_t begin, std::size_t m, std::size_t next) {
  constexpr int w = width<real_t<T>>, E = rows_of(K);
  std::size_t i = begin;
  const std::size_t end = begin + m;
  for (; i + E * w <= end; i += E * w) combine_step<E, K, Per>(to, first, i, next);
  for (; i + w <= end; i += w) combine_step<1, K, Per>(to, first, i, next);
  if (i == end) return;
  Padded<T, S>& padded = Padded<T, S>::of_this_thread();
  combine_step<1, K, Per>(padded.take(to, first / Per, (first + K) / Per, i, end - i), first, 0, 0);
  padded.give(to, first / Per, (first + K) / Per, i, end - i);
}

template <int N>
using Int = std::integral_constant<int, N>;
/// The number of real columns of the next tile, of `left` remaining: 10, 8, 6, 5 .. 1; the two of a complex column stay
/// together.
template <int Per>
constexpr int cols_of(int left) {
  if (Per == 2) return std::min(left, most_cols / 2 * 2);
  if (left >= most_cols) return most_cols;
  return left == 9 ? 8 : left == 7 ? 6 : left;
}
/// f(Int<K>) for K = k.
template <int Per, class F>
void with_columns(int k, F&& f) {
  switch (k) {
    case 2:
      return f(Int<2>{});
    case 4:
      return f(Int<4>{});
    default:
      break;
  }
  if constexpr (most_cols == 10) {
    switch (k) {
      case 6:
        return f(Int<6>{});
      case 8:
        return f(Int<8>{});
      case 10:
        return f(Int<10>{});
      default:
        break;
    }
  }
  if constexpr (Per == 1) {
    switch (k) {
      case 1:
        return f(Int<1>{});
      case 3:
        return f(Int<3>{});
      default:
        return f(Int<5>{});
    }
  }
}
/// f(Int<G>) for G = g <= rows_of(K).
template <int K, class F>
void with_rows(int g, F&& f) {
  if (g == 1) return f(Int<1>{});
  if (rows_of(K) == 2 || g == 2) return f(Int<2>{});
  if constexpr (rows_of(K) == 4) {
    if (g == 3) return f(Int<3>{});
    return f(Int<4>{});
  }
}

/// The division of n numbers into parts of whole runs, which depends on n only.
struct Cut {
  static constexpr std::size_t run = 8192, most = 256;
  std::size_t n, length, count;
  explicit Cut(std::size_t numbers) : n(numbers) {
    const std::size_t runs = (n + run - 1) / run;
    length = std::max<std::size_t>((runs + most - 1) / most, 1) * run;
    count = (n + length - 1) / length;
  }
  bool parallel() const { return n > detail::parallel_from; }
};

/// Scratch memory of a thread, kept between calls.
template <class R>
R* scratch(std::size_t numbers) {
  static thread_local std::vector<Packed<R>> memory;
  const std::size_t vectors = (numbers + width<R> - 1) / width<R>;
  if (memory.size() < vectors) memory.resize(vectors + vectors / 2);
  return reinterpret_cast<R*>(memory.data());
}

/// Coefficients C (j x s of T, leading dimension ld) times `sign`, as real numbers by rows.
template <class T, class R>
void spread_coefficients(const T* C, int j, int ld, int s, R sign, std::vector<R>& rows_of_reals) {
  for (int i = 0; i < j; ++i)
    for (int c = 0; c < s; ++c) {
      const T a = sign * C[std::size_t(c) * ld + i];
      rows_of_reals.push_back(real(a));
      if constexpr (is_complex<T>) rows_of_reals.push_back(a.imag());
    }
}

/// Adds the sums of all parts, in order, to [Q V]^H V.
template <class T>
void collect(const real_t<T>* partial, std::size_t count, int j, bool own, int s, T* G) {
  constexpr int per = is_complex<T> ? 2 : 1;
  const int height = j + (own ? s : 0);
  const std::size_t size = std::size_t(height) * s * per;
  const auto at = [&](int i, int c) {
    real_t<T> sum[2] = {};
    for (std::size_t p = 0; p < count; ++p)
      for (int k = 0; k < per; ++k) sum[k] += partial[p * size + (std::size_t(i) * s + c) * per + k];
    if constexpr (is_complex<T>) return T(sum[0], sum[1]);
    else return sum[0];
  };
  for (int c = 0; c < s; ++c) {
    T* const g = G + std::size_t(c) * height;
    for (int i = 0; i < j; ++i) g[i] = at(i, c);
    if (!own) continue;
    for (int i = 0; i < c; ++i) g[j + i] = at(j + i, c), G[std::size_t(i) * height + j + c] = conj(g[j + i]);
    g[j + c] = T(real(at(j + c, c)));
  }
}

/// The common form of all kernels here: combine and / or multiply pieces of V.
template <class T, class S>
struct Task {
  using R = real_t<T>;
  using Q = part_t<S>;
  static constexpr int per = is_complex<T> ? 2 : 1;
  const S* const* q;
  int j;
  T* const* v;
  int s;
  std::size_t n;
  const T* C = nullptr;  // update
  const T* W = nullptr;
  bool update = false, combine = false, gram = false, own = true;
  S* const* stored = nullptr;
  T* G = nullptr;

  void operator()() const {
    if (s == 0) return;
    const int columns = s * per;
    const Cut cut(n * per);
    // Kept between calls, so that a loop of blocks does not allocate.
    static thread_local std::vector<const Q*> basis_store;
    static thread_local std::vector<R*> block_store;
    static thread_local std::vector<Q*> stored_store;
    static thread_local std::vector<R> outer, inner, partial_store;
    auto* const tasks = Tasks::current();
    basis_store.resize(j), block_store.resize(s), stored_store.resize(s);
    for (int i = 0; i < j; ++i) basis_store[i] = parts(q[i]);
    for (int c = 0; c < s; ++c) block_store[c] = parts(v[c]);
    for (int c = 0; stored && c < s; ++c) stored_store[c] = parts(stored[c]);
    spread(outer, inner);
    const std::size_t sums = gram ? std::size_t(j + (own ? s : 0)) * columns : 0;
    if (partial_store.size() < sums * cut.count) partial_store.resize(sums * cut.count);
    // Threads use these pointers, since the stores are thread-local to the caller.
    R* const partial = partial_store.data();
    const auto made = combination(basis_store, outer, inner, block_store, stored_store);
    if (!tasks) {
      parallel_for(cut.count, cut.parallel(), [&](std::size_t p) { part(p, cut, sums, made, partial); });
      if (gram) collect<T>(partial, cut.count, j, own, s, G);
      return;
    }
    const auto share = [count = cut.length / per](const auto& f, std::size_t begin, std::size_t end) {
      for (std::size_t p = begin / count; p * count < end; ++p) f(p);
    };
    if (gram) {
      tasks->finish("block dots", n, touched(), [&](std::size_t begin, std::size_t end) {
        share([&](std::size_t p) { part(p, cut, sums, made, partial); }, begin, end);
      });
      collect<T>(partial, cut.count, j, own, s, G);
    } else {
      // A task may run after the caller's arguments are destroyed, so they are copied.
      tasks->start("block update", n, touched(),
                   [task = *this, cut, share, basis = basis_store, outside = outer, inside = inner, block = block_store,
                    narrow = stored_store](std::size_t begin, std::size_t end) {
                     const auto kept = task.combination(basis, outside, inside, block, narrow);
                     share([&](std::size_t p) { task.part(p, cut, 0, kept, nullptr); }, begin, end);
                   });
    }
  }

 private:
  /// The coefficients of Q and those of V: (V - Q C) W = Q (-C W) + V W.
  void spread(std::vector<R>& outer, std::vector<R>& inner) const {
    static thread_local std::vector<T> CW, upper;
    outer.clear(), inner.clear();
    if (combine) spread_coefficients(C, j, j, s, R(1), outer);
    if (update && !W) spread_coefficients(C, j, j, s, R(-1), outer);
    if (!update || !W) return;
    CW.assign(std::size_t(j) * s, T(0));
    for (int c = 0; c < s; ++c)
      for (int l = 0; l <= c; ++l)
        for (int i = 0; i < j; ++i) CW[std::size_t(c) * j + i] += C[std::size_t(l) * j + i] * W[std::size_t(c) * s + l];
    spread_coefficients(CW.data(), j, j, s, R(-1), outer);
    upper.assign(W, W + std::size_t(s) * s);
    for (int c = 0; c < s; ++c) std::fill(upper.begin() + c * s + c + 1, upper.begin() + (c + 1) * s, T(0));
    spread_coefficients(upper.data(), s, s, s, R(1), inner);
  }
  Combination<T, S> combination(const std::vector<const Q*>& basis, const std::vector<R>& outer,
                                const std::vector<R>& inner, const std::vector<R*>& block,
                                const std::vector<Q*>& narrow) const {
    const R* const triangle = update && W ? inner.data() : nullptr;
    return {basis.data(), j, outer.data(), triangle, s * per, block.data(), stored ? narrow.data() : nullptr, s - 1};
  }
  std::vector<Touched> touched() const {
    std::vector<Touched> all;
    for (int i = 0; i < j; ++i) all.push_back(Touched::read(q[i]));
    for (int c = 0; c < s; ++c) {
      all.push_back(update || combine ? Touched::write(v[c]) : Touched::read(v[c]));
      if (stored) all.push_back(Touched::write(stored[c]));
    }
    return all;
  }
  /// Processes part p of the elements.
  void part(std::size_t p, const Cut& cut, std::size_t sums, const Combination<T, S>& made, R* partial) const {
    Packed<R>* const acc = reinterpret_cast<Packed<R>*>(scratch<R>(sums * width<R>));
    for (std::size_t i = 0; i < sums; ++i) acc[i] = Packed<R>{};
    const std::size_t end = std::min((p + 1) * cut.length, cut.n), piece = piece_of<R>(s * per);
    for (std::size_t begin = p * cut.length; begin < end; begin += piece) {
      const std::size_t m = std::min(piece, end - begin), next = begin + m < end ? piece : 0;
      if (update || combine) combine_piece(made, begin, m, next);
      if (gram) dots_piece(made.q, made.v, begin, m, next, acc);
    }
    for (std::size_t i = 0; i < sums; ++i) {
      R sum = 0;
      for (int l = 0; l < width<R>; ++l) sum += acc[i][l];
      partial[p * sums + i] = sum;
    }
  }
  /// From the last columns to the first: W is upper triangular, so the columns needed are not overwritten yet.
  void combine_piece(const Combination<T, S>& made, std::size_t begin, std::size_t m, std::size_t next) const {
    const int columns = s * per, most = cols_of<per>(columns);
    const auto tile = [&](int k, int count) {
      // The last columns prefetch the next piece, unless sums follow, which do so.
      with_columns<per>(count,
                        [&](auto K) { combine_columns<K(), per>(made, k, begin, m, k == 0 && !gram ? next : 0); });
    };
    int k = columns / most * most;
    if (const int left = columns - k, first = cols_of<per>(left); left > 0) {
      if (first < left) tile(k + first, left - first);
      tile(k, first);
    }
    while (k > 0) k -= most, tile(k, most);
  }
  /// acc (j + s rows of `columns`) += [Q V]^T (columns); of V^T V only the tiles on and right of the diagonal.
  void dots_piece(const Q* const* basis, R* const* block, std::size_t begin, std::size_t m, std::size_t next,
                  Packed<R>* acc) const {
    const int columns = s * per;
    const auto tiles_from = [&](int from, auto&& f) {
      for (int k = from; k < columns;) {
        const int count = cols_of<per>(columns - k);
        with_columns<per>(count, [&](auto K) { f(K, k); });
        k += count;
      }
    };
    const R* vs[most_cols];
    const auto rows = [&](const auto* const* from, int r, int end, int first_row, int k, auto K, std::size_t ahead) {
      for (int c = 0; c < K() / per; ++c) vs[c] = block[k / per + c] + begin;
      while (r < end) {
        const int g = std::min(rows_of(K()), end - r);
        std::remove_cvref_t<decltype(from[0])> at[4];
        for (int a = 0; a < g; ++a) at[a] = from[r + a] + begin;
        with_rows<K()>(g, [&](auto G_) {
          dots_tile<G_(), K(), per, R>(at, vs, m, ahead, acc + std::size_t(first_row + r) * columns + k, columns);
        });
        r += g;
      }
    };
    tiles_from(0, [&](auto K, int k) { rows(basis, 0, j, 0, k, K, k == 0 ? next : 0); });
    if (!own) return;
    // Rows of the block itself, two at a time, from their own column on.
    for (int r = 0; r < s; r += 2)
      tiles_from(r * per, [&](auto K, int k) { rows(block, r, std::min(r + 2, s), j, k, K, k == r * per ? next : 0); });
  }
};

// Operations of s columns with j others, `passes` times, and with themselves.
template <class T>
double operations(int j, int s, int passes, std::size_t n) {
  return (is_complex<T> ? 8.0 : 2.0) * double(n) * s * (passes * double(j) + 0.5 * s);
}

template <class T, class S>
std::int64_t traffic(int j, int s, int passes, std::size_t n) {
  return std::int64_t((j * sizeof(S) + std::size_t(passes) * s * sizeof(T)) * n);
}

}  // namespace

template <Scalar T, Memory M>
void block_dots(const T* const* q, int j, const T* const* v, int s, std::size_t n, T* G) {
  const bool own = j >= s && std::equal(v, v + s, q + (j - s));
  const Span span("block dots", "exec", traffic<T, T>(own ? j - s : j, s, 1, n),
                  operations<T>(own ? j - s : j, s, 1, n));
  Task<T, T> task{q, own ? j - s : j, const_cast<T* const*>(v), s, n};
  task.gram = true, task.own = own, task.G = G;
  task();
}

template <Scalar T, Memory M, class S>
void block_gram(const S* const* q, int j, const T* const* v, int s, std::size_t n, T* G) {
  const Span span("block dots", "exec", traffic<T, S>(j, s, 1, n), operations<T>(j, s, 1, n));
  Task<T, S> task{q, j, const_cast<T* const*>(v), s, n};
  task.gram = true, task.G = G;
  task();
}

template <Scalar T, Memory M, class S>
void block_update_stored(const S* const* q, int j, const T* C, T* const* v, int s, const T* W, S* const* stored,
                         std::size_t n) {
  const Span span("block update", "exec", traffic<T, S>(j, s, 2, n), operations<T>(j, s, 1, n));
  Task<T, S> task{q, j, v, s, n};
  task.update = true, task.C = C, task.W = W, task.stored = stored;
  task();
}

template <Scalar T, Memory M>
void block_update(const T* const* q, int j, const T* C, T* const* v, int s, const T* W, std::size_t n) {
  block_update_stored<T, M, T>(q, j, C, v, s, W, nullptr, n);
}

template <Scalar T, Memory M, class S>
void block_update_gram(const S* const* q, int j, const T* C, T* const* v, int s, const T* W, std::size_t n, T* G) {
  const Span span("block update and dots", "exec", traffic<T, S>(j, s, 2, n), operations<T>(j, s, 2, n));
  Task<T, S> task{q, j, v, s, n};
  task.update = true, task.gram = true, task.C = C, task.W = W, task.G = G;
  task();
}

template <Scalar T, Memory M, class S>
void block_combine_stored(const S* const* y, int j, const T* C, T* const* x, int s, std::size_t n) {
  const Span span("block combine", "exec", traffic<T, S>(j, s, 2, n), operations<T>(j, s, 1, n));
  Task<T, S> task{y, j, x, s, n};
  task.combine = true, task.C = C;
  task();
}

template <Scalar T, Memory M>
void block_combine(const T* const* y, int j, const T* C, T* const* x, int s, std::size_t n) {
  block_combine_stored<T, M, T>(y, j, C, x, s, n);
}

template <Scalar T, Memory M, class S>
void store(const T* from, S* to, std::size_t n) {
  settle();
  const auto* const a = parts(from);
  auto* const b = parts(to);
  const std::size_t numbers = n * (is_complex<T> ? 2 : 1);
  parallel_for(numbers, n > detail::parallel_from, [&](std::size_t i) { narrow(a[i], b[i]); });
}

#define TACIT_INSTANTIATE_STORED(T, S)                                                                               \
  template void block_gram<T, Host, S>(const S* const*, int, const T* const*, int, std::size_t, T*);                 \
  template void block_update_stored<T, Host, S>(const S* const*, int, const T*, T* const*, int, const T*, S* const*, \
                                                std::size_t);                                                        \
  template void block_update_gram<T, Host, S>(const S* const*, int, const T*, T* const*, int, const T*, std::size_t, \
                                              T*);                                                                   \
  template void block_combine_stored<T, Host, S>(const S* const*, int, const T*, T* const*, int, std::size_t);       \
  template void store<T, Host, S>(const T*, S*, std::size_t);
template <Scalar T, Memory M>
void PendingDots<T, M>::start(const T* const* q, int j, const T* const* v, int s, std::size_t n) {
  G_.resize(std::size_t(j) * std::size_t(s));
  block_dots<T, M>(q, j, v, s, n, G_.data());
}
template <Scalar T, Memory M>
const std::vector<T>& PendingDots<T, M>::wait() {
  return G_;
}
template <Scalar T, Memory M>
bool PendingDots<T, M>::ready() {
  return true;
}

#define TACIT_INSTANTIATE(T)                                                                                  \
  template class PendingDots<T, Host>;                                                                        \
  TACIT_INSTANTIATE_STORED(T, T)                                                                              \
  TACIT_INSTANTIATE_STORED(T, Short<T>)                                                                       \
  template void block_dots<T, Host>(const T* const*, int, const T* const*, int, std::size_t, T*);             \
  template void block_update<T, Host>(const T* const*, int, const T*, T* const*, int, const T*, std::size_t); \
  template void block_combine<T, Host>(const T* const*, int, const T*, T* const*, int, std::size_t);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)
TACIT_INSTANTIATE_STORED(double, float)
#if TACIT_SCALARS_Host & 8
TACIT_INSTANTIATE_STORED(std::complex<double>, std::complex<float>)
#endif

}  // namespace tacit::exec
