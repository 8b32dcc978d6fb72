// Gram-Schmidt on blocks of vectors: [Q V]^H V and (V - Q C) W, each one pass over memory.
//
// Everything is done on real numbers, piece after piece of a few hundred: the block's piece is copied into the cache
// (vectors whose addresses differ by powers of two would fight for the same lines there), then the basis passes in groups of
// `rows` vectors, each group against tiles of `cols` columns held in registers, while the next group is fetched a line
// at a time (all of it at once would fill the buffers that loads wait in). A
// complex column v stands as two: v and -i v, whose real dot products with q are the real and the imaginary part of
// q^H v; the combination Q c is Q Re c + i (Q Im c).
#include <tacit/base/trace.hpp>
#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

namespace tacit::exec {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, rows = 4, cols = 5;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, rows = 2, cols = 5;
#else
constexpr int vector_bytes = 16, rows = 2, cols = 5;
#endif
constexpr std::size_t piece_bytes = 2048;  // of a column
template <class R>
constexpr std::size_t piece = piece_bytes / sizeof(R);
template <class R>
constexpr int width = vector_bytes / int(sizeof(R));

template <class R, int Bytes>
struct Pack {
  typedef R type __attribute__((vector_size(Bytes)));
};
template <class R>
using Packed = typename Pack<R, vector_bytes>::type;

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
const part_t<S>* parts(const S* p) {
  return reinterpret_cast<const part_t<S>*>(p);
}
template <class S>
  requires(!std::is_const_v<S>)
part_t<S>* parts(S* p) {
  return reinterpret_cast<part_t<S>*>(p);
}

template <class R, class S>
inline Packed<R> load(const S* p) {
  constexpr int w = width<R>;
  if constexpr (std::same_as<S, Bfloat16>) {
    typename Pack<std::uint16_t, 2 * w>::type half;
    std::memcpy(&half, p, sizeof half);
    const auto whole = __builtin_convertvector(half, typename Pack<std::uint32_t, 4 * w>::type) << 16;
    const auto single = std::bit_cast<typename Pack<float, 4 * w>::type>(whole);
    if constexpr (std::same_as<R, float>) return single;
    else return __builtin_convertvector(single, Packed<R>);
  } else {
    typename Pack<S, int(sizeof(S)) * w>::type v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (std::same_as<R, S>) return v;
    else return __builtin_convertvector(v, Packed<R>);
  }
}
/// The first `count` values at p, then zeros.
template <class R, class S>
inline Packed<R> load_some(const S* p, std::size_t count) {
  S some[width<R>] = {};
  std::memcpy(static_cast<void*>(some), p, count * sizeof(S));
  return load<R>(some);
}
template <class R>
inline void save(const Packed<R>& v, R* p) {
  std::memcpy(p, &v, sizeof v);
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

/// What a tile asks for while it computes: A streams, a line of each at every step.
template <int A, class S>
struct Ahead {
  const S* p[A > 0 ? A : 1];
  void fetch(std::size_t i) const {
    if constexpr (A > 0)
#pragma GCC unroll 4
      for (int a = 0; a < A; ++a) __builtin_prefetch(p[a] + i);
  }
};
/// Streams that are still to be asked for, handed out over the tiles that are left.
template <class S>
class Streams {
 public:
  void add(const S* p) { p_[count_++] = p; }
  /// f(Ahead) with this tile's share: 0, 2 or 4 streams.
  template <class F>
  void share(int tiles_left, F&& f) {
    const int open = count_ - done_, share = (open + tiles_left - 1) / tiles_left;
    if (share == 0) f(Ahead<0, S>{});
    else if (share <= 2) f(take<2>());
    else f(take<4>());
  }

 private:
  template <int A>
  Ahead<A, S> take() {
    Ahead<A, S> ahead;
    for (int a = 0; a < A; ++a) ahead.p[a] = p_[std::min(done_ + a, count_ - 1)];
    done_ = std::min(done_ + A, count_);
    return ahead;
  }
  const S* p_[64];
  int count_ = 0, done_ = 0;
};

/// sums[g K' + k] += q_g v_k, lane by lane, over m numbers; columns of v are piece<R> apart, those of sums `ld` vectors.
template <int G, int K, class R, class S, class A>
void dots_tile(const S* const* q, const R* v, std::size_t m, Packed<R>* sums, int ld, const A& ahead) {
  constexpr int w = width<R>;
  Packed<R> acc[G][K] = {};
  const std::size_t full = m / w * w;
  for (std::size_t i = 0; i < full; i += w) {
    Packed<R> vi[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) vi[k] = load<R>(v + k * piece<R> + i);
    ahead.fetch(i);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      const Packed<R> qi = load<R>(q[g] + i);
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) acc[g][k] += qi * vi[k];
    }
  }
  if (full < m)
    for (int g = 0; g < G; ++g) {
      const Packed<R> qi = load_some<R>(q[g] + full, m - full);
      for (int k = 0; k < K; ++k) acc[g][k] += qi * load<R>(v + k * piece<R> + full);
    }
  for (int g = 0; g < G; ++g)
    for (int k = 0; k < K; ++k) sums[g * ld + k] += acc[g][k];
}

/// out_k += sum_g c[g ld + k] q_g over m numbers; columns of out are piece<R> apart and reach up to a whole vector.
template <int G, int K, class R, class S, class A>
void combine_tile(const S* const* q, const R* c, int ld, std::size_t m, R* out, const A& ahead) {
  constexpr int w = width<R>;
  Packed<R> a[G][K];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) a[g][k] = c[g * ld + k] - Packed<R>{};
  const std::size_t full = m / w * w;
  for (std::size_t i = 0; i < full; i += w) {
    Packed<R> o[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) o[k] = load<R>(out + k * piece<R> + i);
    ahead.fetch(i);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      const Packed<R> qi = load<R>(q[g] + i);
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) o[k] += a[g][k] * qi;
    }
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) save<R>(o[k], out + k * piece<R> + i);
  }
  if (full < m)
    for (int k = 0; k < K; ++k) {
      Packed<R> o = load<R>(out + k * piece<R> + full);
      for (int g = 0; g < G; ++g) o += a[g][k] * load_some<R>(q[g] + full, m - full);
      save<R>(o, out + k * piece<R> + full);
    }
}

/// f(integral constants G, K) for G = g, K = k.
template <class F>
void with_tile(int g, int k, F&& f) {
  const auto columns = [&](auto G) {
    switch (k) {
      case 1: return f(G, std::integral_constant<int, 1>{});
      case 2: return f(G, std::integral_constant<int, 2>{});
      case 3: return f(G, std::integral_constant<int, 3>{});
      case 4: return f(G, std::integral_constant<int, 4>{});
      default: return f(G, std::integral_constant<int, 5>{});
    }
  };
  static_assert(cols == 5 && (rows == 2 || rows == 4));
  if (g == 1) columns(std::integral_constant<int, 1>{});
  else if (g == 2 || rows == 2) columns(std::integral_constant<int, 2>{});
  else if (g == 3) columns(std::integral_constant<int, rows == 4 ? 3 : 2>{});
  else columns(std::integral_constant<int, rows>{});
}

/// Rows of a basis, a group at a time: f(first row, how many, the streams to ask for: the next group, or the first of the
/// next piece if there is one).
template <class S, class F>
void each_group(const S* const* q, int j, std::size_t begin, std::size_t m, bool more, F&& f) {
  for (int i = 0; i < j; i += rows) {
    const int g = std::min(rows, j - i);
    const int after = i + g;
    Streams<S> streams;
    if (after < j) {
      for (int a = after; a < std::min(after + rows, j); ++a) streams.add(q[a] + begin);
    } else if (more) {
      for (int a = 0; a < std::min(rows, j); ++a) streams.add(q[a] + begin + m);
    }
    f(i, g, streams);
  }
}

/// One piece of a block of s columns of T as columns of reals in the cache, and what passes over it.
template <class T, class S>
class Piece {
 public:
  using R = real_t<T>;
  using Q = part_t<S>;
  static constexpr int per = is_complex<T> ? 2 : 1;  // real columns of a column
  static std::size_t numbers(int s) { return std::size_t(s) * per * piece<R>; }

  Piece(int s, R* storage) : s_(s), columns_(s * per), v_(storage) {}
  R* column(int c) const { return v_ + std::size_t(c) * per * piece<R>; }

  void take(const T* const* v, std::size_t begin, std::size_t m) {
    for (int c = 0; c < s_; ++c) {
      std::memcpy(column(c), parts(v[c]) + begin, m * sizeof(R));
      pad(column(c), m);
    }
  }
  void clear(std::size_t m) {
    for (int c = 0; c < columns_; ++c) std::fill_n(v_ + c * piece<R>, (m + width<R> - 1) / width<R> * width<R>, R(0));
  }
  /// For a complex T: -i v beside each v.
  void rotate(std::size_t m) {
    if constexpr (is_complex<T>)
      for (int c = 0; c < s_; ++c) {
        const R* const a = column(c);
        R* const b = column(c) + piece<R>;
        for (std::size_t i = 0; i < m; i += 2) b[i] = a[i + 1], b[i + 1] = -a[i];
        pad(b, m);
      }
  }
  /// For a complex T: v := a + i b of the two columns that combine() made.
  void unrotate(std::size_t m) {
    if constexpr (is_complex<T>)
      for (int c = 0; c < s_; ++c) {
        R* const a = column(c);
        const R* const b = column(c) + piece<R>;
        for (std::size_t i = 0; i < m; i += 2) a[i] -= b[i + 1], a[i + 1] += b[i];
      }
  }

  /// sums (j + s rows of s per vectors) += [Q V]^T (columns); of V^T V nothing left of the diagonal's tile. `coming`: where
  /// the block stands in the next piece.
  void dots(const Q* const* q, int j, bool own, const T* const* coming, std::size_t begin, std::size_t m, bool more,
            Packed<R>* sums) const {
    Opened<Q> opened;
    each_group(q, j, begin, m, more, [&](int i, int g, Streams<Q>& streams) {
      const R* at[rows];
      for (int a = 0; a < g; ++a) at[a] = opened.row(a, q[i + a] + begin, m);
      each_tile(g, 0, [&](auto G, auto K, int k, int left) {
        streams.share(left, [&](const auto& ahead) {
          dots_tile<G(), K(), R>(at, v_ + k * piece<R>, m, sums + std::size_t(i) * columns_ + k, columns_, ahead);
        });
      });
    });
    if (!own) return;
    each_own(coming, begin + m, more, [&](int i, const R* const* at, auto G, auto K, int k, const auto& ahead) {
      dots_tile<G(), K(), R>(at, v_ + k * piece<R>, m, sums + std::size_t(j + i) * columns_ + k, columns_, ahead);
    });
  }
  /// columns += Q C, C in reals, row after row.
  template <class P>
  void combine(const P* const* q, int j, const R* C, std::size_t begin, std::size_t m, bool more) {
    Opened<P> opened;
    each_group(q, j, begin, m, more, [&](int i, int g, Streams<P>& streams) {
      const R* at[rows];
      for (int a = 0; a < g; ++a) at[a] = opened.row(a, q[i + a] + begin, m);
      each_tile(g, 0, [&](auto G, auto K, int k, int left) {
        streams.share(left, [&](const auto& ahead) {
          combine_tile<G(), K(), R>(at, C + std::size_t(i) * columns_ + k, columns_, m, v_ + k * piece<R>, ahead);
        });
      });
    });
  }
  /// columns += V W, W upper triangular.
  void combine_own(const Piece& v, const R* W, const T* const* coming, std::size_t begin, std::size_t m, bool more) {
    v.each_own(coming, begin + m, more, [&](int i, const R* const* at, auto G, auto K, int k, const auto& ahead) {
      combine_tile<G(), K(), R>(at, W + std::size_t(i) * columns_ + k, columns_, m, v_ + k * piece<R>, ahead);
    });
  }
  void put(int c, T* to, std::size_t begin, std::size_t m) const {
    std::memcpy(parts(to) + begin, column(c), m * sizeof(R));
  }
  void put_narrow(int c, S* to, std::size_t begin, std::size_t m) const {
    const R* const from = column(c);
    Q* const at = parts(to) + begin;
    for (std::size_t i = 0; i < m; ++i) narrow(from[i], at[i]);
  }

 private:
  /// A group's rows as R: where they are, or converted once for all the tiles.
  template <class P>
  struct Opened {
    Packed<R> values[std::same_as<P, R> ? 1 : rows * int(piece<R>) / width<R>];
    const R* row(int a, const P* from, std::size_t m) {
      if constexpr (std::same_as<P, R>) {
        return from;
      } else {
        Packed<R>* const to = values + std::size_t(a) * piece<R> / width<R>;
        const std::size_t full = m / width<R>;
        for (std::size_t i = 0; i < full; ++i) to[i] = load<R>(from + i * width<R>);
        if (m % width<R>) to[full] = load_some<R>(from + full * width<R>, m % width<R>);
        return reinterpret_cast<const R*>(to);
      }
    }
  };
  /// f(G, K, first column, tiles left with this one) over tiles of g rows from column `from` on.
  template <class F>
  void each_tile(int g, int from, F&& f) const {
    for (int k = from; k < columns_; k += cols)
      with_tile(g, std::min(cols, columns_ - k),
                [&](auto G, auto K) { f(G, K, k, (columns_ - k + cols - 1) / cols); });
  }
  /// The tiles of the upper triangle with the block's own columns as rows; meanwhile the next piece of the block is
  /// fetched from `coming`.
  template <class F>
  void each_own(const T* const* coming, std::size_t next, bool more, F&& f) const {
    int tiles = 0;
    for (int i = 0; i < s_; i += rows) tiles += (columns_ - i * per / cols * cols + cols - 1) / cols;
    Streams<R> streams;
    for (int c = 0; more && c < std::min(s_, 64); ++c) streams.add(parts(coming[c]) + next);
    for (int i = 0; i < s_; i += rows) {
      const R* at[rows];
      for (int a = 0; a < std::min(rows, s_ - i); ++a) at[a] = column(i + a);
      each_tile(std::min(rows, s_ - i), i * per / cols * cols, [&](auto G, auto K, int k, int) {
        streams.share(tiles--, [&](const auto& ahead) { f(i, at, G, K, k, ahead); });
      });
    }
  }
  static void pad(R* column, std::size_t m) {
    for (; m % width<R> != 0; ++m) column[m] = R(0);
  }
  int s_, columns_;
  R* v_;
};

/// How n numbers are shared out: parts of whole runs; depends on n alone.
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

/// f(begin, m, whether there is another) for the pieces of part p.
template <class R, class F>
void each_piece(const Cut& cut, std::size_t p, F&& f) {
  const std::size_t end = std::min((p + 1) * cut.length, cut.n);
  for (std::size_t begin = p * cut.length; begin < end; begin += piece<R>) {
    const std::size_t m = std::min(piece<R>, end - begin);
    f(begin, m, begin + m < end);
  }
}

/// A thread's scratch, kept from call to call.
template <class R>
R* scratch(std::size_t numbers) {
  static thread_local std::vector<Packed<R>> memory;
  const std::size_t vectors = (numbers + width<R> - 1) / width<R>;
  if (memory.size() < vectors) memory.resize(vectors + vectors / 2);
  return reinterpret_cast<R*>(memory.data());
}

/// Coefficients C (j x s of T, leading dimension ld) times `sign`, as reals row after row.
template <class T, class R>
void spread_coefficients(const T* C, int j, int ld, int s, R sign, std::vector<R>& rows_of_reals) {
  for (int i = 0; i < j; ++i)
    for (int c = 0; c < s; ++c) {
      const T a = sign * C[std::size_t(c) * ld + i];
      rows_of_reals.push_back(real(a));
      if constexpr (is_complex<T>) rows_of_reals.push_back(a.imag());
    }
}

/// The sums of all parts, part after part, as [Q V]^H V.
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

/// What every kernel here is: pieces of V are taken, combined, put back and multiplied, as asked for.
template <class T, class S>
struct Task {
  using R = real_t<T>;
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
    constexpr int per = is_complex<T> ? 2 : 1;
    if (s == 0) return;
    const int columns = s * per;
    const Cut cut(n * per);
    // Kept from call to call: a loop of blocks does not allocate.
    static thread_local std::vector<const part_t<S>*> basis;
    static thread_local std::vector<R> outer, inner, partial_store;
    static thread_local std::vector<T> CW, upper;
    basis.resize(j), outer.clear(), inner.clear();
    for (int i = 0; i < j; ++i) basis[i] = parts(q[i]);
    // (V - Q C) W = Q (-C W) + V W.
    if (combine) spread_coefficients(C, j, j, s, R(1), outer);
    if (update && !W) spread_coefficients(C, j, j, s, R(-1), outer);
    if (update && W) {
      CW.assign(std::size_t(j) * s, T(0));
      for (int c = 0; c < s; ++c)
        for (int l = 0; l <= c; ++l)
          for (int i = 0; i < j; ++i)
            CW[std::size_t(c) * j + i] += C[std::size_t(l) * j + i] * W[std::size_t(c) * s + l];
      spread_coefficients(CW.data(), j, j, s, R(-1), outer);
      upper.assign(W, W + std::size_t(s) * s);
      for (int c = 0; c < s; ++c) std::fill(upper.begin() + c * s + c + 1, upper.begin() + (c + 1) * s, T(0));
      spread_coefficients(upper.data(), s, s, s, R(1), inner);
    }
    const std::size_t sums = gram ? std::size_t(j + (own ? s : 0)) * columns : 0;
    if (partial_store.size() < sums * cut.count) partial_store.resize(sums * cut.count);
    // What the threads see are these pointers: the stores are the calling thread's.
    R* const partial = partial_store.data();
    const part_t<S>* const* const qs = basis.data();
    const R *const outside = outer.data(), *const inside = inner.data();
    const std::size_t block = Piece<T, S>::numbers(s);
#pragma omp parallel for schedule(static) if (cut.parallel())
    for (std::size_t p = 0; p < cut.count; ++p) {
      R* const memory = scratch<R>(2 * block + sums * width<R>);
      Packed<R>* const acc = reinterpret_cast<Packed<R>*>(memory + 2 * block);
      for (std::size_t i = 0; i < sums; ++i) acc[i] = Packed<R>{};
      each_piece<R>(cut, p, [&](std::size_t begin, std::size_t m, bool more) {
        Piece<T, S> first(s, memory), second(s, memory + block);
        first.take(v, begin, m);
        Piece<T, S>* now = &first;
        if (update || combine) {
          if (W) {
            second.clear(m);
            second.combine_own(first, inside, v, begin, m, more);
            now = &second;
          } else if (is_complex<T>) {
            for (int c = 0; c < s; ++c) std::fill_n(first.column(c) + piece<R>, piece<R>, R(0));
          }
          now->combine(qs, j, outside, begin, m, more && !gram);
          now->unrotate(m);
          for (int c = 0; c < s; ++c) {
            if (stored) now->put_narrow(c, stored[c], begin, m);
            if (!stored || c == s - 1) now->put(c, v[c], begin, m);
          }
        }
        if (gram) {
          now->rotate(m);
          now->dots(qs, j, own, v, begin, m, more, acc);
        }
      });
      for (std::size_t i = 0; i < sums; ++i) {
        R sum = 0;
        for (int l = 0; l < width<R>; ++l) sum += acc[i][l];
        partial[p * sums + i] = sum;
      }
    }
    if (gram) collect<T>(partial, cut.count, j, own, s, G);
  }
};

template <class T, class S>
std::int64_t traffic(int j, int s, int passes, std::size_t n) {
  return std::int64_t((j * sizeof(S) + std::size_t(passes) * s * sizeof(T)) * n);
}

}  // namespace

template <Scalar T, Memory M>
void block_dots(const T* const* q, int j, const T* const* v, int s, std::size_t n, T* G) {
  const bool own = j >= s && std::equal(v, v + s, q + (j - s));
  const Span span("block dots", "exec", traffic<T, T>(own ? j - s : j, s, 1, n));
  Task<T, T> task{q, own ? j - s : j, const_cast<T* const*>(v), s, n};
  task.gram = true, task.own = own, task.G = G;
  task();
}

template <Scalar T, Memory M, class S>
void block_gram(const S* const* q, int j, const T* const* v, int s, std::size_t n, T* G) {
  const Span span("block dots", "exec", traffic<T, S>(j, s, 1, n));
  Task<T, S> task{q, j, const_cast<T* const*>(v), s, n};
  task.gram = true, task.G = G;
  task();
}

template <Scalar T, Memory M, class S>
void block_update_stored(const S* const* q, int j, const T* C, T* const* v, int s, const T* W, S* const* stored,
                         std::size_t n) {
  const Span span("block update", "exec", traffic<T, S>(j, s, 2, n));
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
  const Span span("block update and dots", "exec", traffic<T, S>(j, s, 2, n));
  Task<T, S> task{q, j, v, s, n};
  task.update = true, task.gram = true, task.C = C, task.W = W, task.G = G;
  task();
}

template <Scalar T, Memory M, class S>
void block_combine_stored(const S* const* y, int j, const T* C, T* const* x, int s, std::size_t n) {
  const Span span("block combine", "exec", traffic<T, S>(j, s, 2, n));
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
  const auto* const a = parts(from);
  auto* const b = parts(to);
  const std::size_t numbers = n * (is_complex<T> ? 2 : 1);
#pragma omp parallel for schedule(static) if (n > detail::parallel_from)
  for (std::size_t i = 0; i < numbers; ++i) narrow(a[i], b[i]);
}

#define TACIT_INSTANTIATE_STORED(T, S)                                                                                 \
  template void block_gram<T, Host, S>(const S* const*, int, const T* const*, int, std::size_t, T*);                   \
  template void block_update_stored<T, Host, S>(const S* const*, int, const T*, T* const*, int, const T*, S* const*,   \
                                                std::size_t);                                                          \
  template void block_update_gram<T, Host, S>(const S* const*, int, const T*, T* const*, int, const T*, std::size_t,   \
                                              T*);                                                                     \
  template void block_combine_stored<T, Host, S>(const S* const*, int, const T*, T* const*, int, std::size_t);         \
  template void store<T, Host, S>(const T*, S*, std::size_t);
#define TACIT_INSTANTIATE(T)                                                                                         \
  TACIT_INSTANTIATE_STORED(T, T)                                                                                     \
  TACIT_INSTANTIATE_STORED(T, Short<T>)                                                                              \
  template void block_dots<T, Host>(const T* const*, int, const T* const*, int, std::size_t, T*);                    \
  template void block_update<T, Host>(const T* const*, int, const T*, T* const*, int, const T*, std::size_t);        \
  template void block_combine<T, Host>(const T* const*, int, const T*, T* const*, int, std::size_t);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)
TACIT_INSTANTIATE_STORED(double, float)
TACIT_INSTANTIATE_STORED(std::complex<double>, std::complex<float>)

}  // namespace tacit::exec
