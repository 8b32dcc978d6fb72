// Gram-Schmidt on blocks of device vectors, for the four scalars and their storage types.
#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/basis.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/memory.hpp>
#include "base/double_double.hpp"
#include "exec/block_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

namespace tacit::exec {
namespace {

// The most vectors of one launch, whose pointers are its arguments.
constexpr int most_rows = 64, most_columns = 32;
constexpr int tile = 4, groups = 8;
// The most columns of one launch of a combination, which reads the basis once for them: blocks of ca-gmres have ten.
constexpr int columns_at_once = 12;
// The number of slices is chosen so that there are about most_blocks blocks.
constexpr Global partial_values = most_blocks * groups * tile * tile;

template <int W, class S>
bool all_aligned(const S* const* p, int count) {
  return std::all_of(p, p + count, [](const S* x) { return !x || is_aligned<W>(x); });
}

/// result[c rows + r] = q_r^H v_c for r < rows <= most_rows, c < columns <= most_columns, in host memory that the
/// device writes.
template <int W, class U, class Q>
void launch_tiles(Global n, const Q* const* q, int rows, const U* const* v, int columns, U* partial, U* result) {
  using Kernel = BlockDots<U, Q, most_rows, most_columns, tile, tile, W, groups>;
  Kernel kernel{n, rows, columns, 1, partial, {}, {}};
  std::copy_n(q, rows, kernel.q);
  std::copy_n(v, columns, kernel.v);
  kernel.slices =
      std::clamp<Global>((n / Kernel::width + 31) / 32, 1, std::max<Global>(most_blocks / kernel.teams(), 1));
  launch_cuda(kernel.slices * kernel.teams(), kernel);
  launch_cuda(Global(rows) * columns, SumParts<U, 128>{kernel.slices, Global(rows) * columns, partial, result});
}

/// f(row, rows, column, columns, place of their results) for each launch of q_r^H v_c, r < rows, c < columns.
template <class F>
void each_launch(int rows, int columns, const F& f) {
  std::size_t place = 0;
  for (int c = 0; c < columns; c += most_columns)
    for (int r = 0; r < rows; r += most_rows) {
      const int k = std::min(most_columns, columns - c), m = std::min(most_rows, rows - r);
      f(r, m, c, k, place);
      place += std::size_t(k) * std::size_t(m);
    }
}

/// Queues the launches of q_r^H v_c, r < rows, c < columns, whose results stand in the order of these.
template <class Q, class U>
std::shared_ptr<DeviceResult> start_dots(const Q* const* q, int rows, const U* const* v, int columns, std::size_t n) {
  constexpr int wide = packet_width<U>;
  auto written = device_result(std::size_t(rows) * columns * sizeof(U));
  U* const partial = static_cast<U*>(reduction_space(partial_values * sizeof(U), 0).partial);
  each_launch(rows, columns, [&](int r, int m, int c, int k, std::size_t place) {
    U* const result = static_cast<U*>(written->data()) + place;
    if (all_aligned<wide>(q + r, m) && all_aligned<wide>(v + c, k))
      launch_tiles<wide>(Global(n), q + r, m, v + c, k, partial, result);
    else launch_tiles<0>(Global(n), q + r, m, v + c, k, partial, result);
  });
  written->mark();
  return written;
}
/// G(first + r, c), of leading dimension `height`, from these results; waits for them.
template <class T>
void take_dots(DeviceResult& written, int rows, int columns, T* G, int height, int first) {
  written.wait();
  each_launch(rows, columns, [&](int r, int m, int c, int k, std::size_t place) {
    for (int i = 0; i < k; ++i)
      std::memcpy(static_cast<void*>(G + std::size_t(c + i) * height + first + r),
                  static_cast<const T*>(written.data()) + place + std::size_t(i) * m, std::size_t(m) * sizeof(T));
  });
}

/// G(first + r, c) for all r < rows, c < columns.
template <class T, class Q, class U = kernel_scalar_t<T>>
void dots(const Q* const* q, int rows, const U* const* v, int columns, std::size_t n, T* G, int height, int first) {
  if (rows > 0 && columns > 0) take_dots(*start_dots(q, rows, v, columns, n), rows, columns, G, height, first);
}

template <int C, int W, class U, class Q>
void launch_combination(Global n, const Q* const* q, int narrow, const U* const* v, int wide, const std::vector<U>& a,
                        bool add, U* const* out, Q* const* stored, int columns) {
  using Kernel = BlockCombine<U, Q, most_rows, most_columns, C, W, 256>;
  const ReductionSpace space = reduction_space((most_rows + most_columns) * columns_at_once * sizeof(U), 0);
  // The coefficients share the memory of partial sums, which is safe in the order of the stream.
  upload(space.partial, a.data(), a.size() * sizeof(U));
  const Global blocks = blocks_for(n, Global(Kernel::threads) * Kernel::width);
  Kernel kernel{n, blocks, narrow, wide, add, static_cast<const U*>(space.partial), {}, {}, {}, {}};
  std::copy_n(q, narrow, kernel.q);
  std::copy_n(v, wide, kernel.v);
  for (int c = 0; c < columns; ++c) kernel.out[c] = out[c], kernel.stored[c] = stored ? stored[c] : nullptr;
  launch_cuda(blocks, kernel);
}

/// out_c (+)= sum over q of C(i, c) q_i + sum over v of W(i, c) v_i, with coefficients f(row, c), the rows of the v's
/// after those of the q's.
template <class U, class Q, class F>
void combine(const Q* const* q, int j, const U* const* v, int wide, U* const* out, Q* const* stored, int columns,
             std::size_t n, bool add, F&& f) {
  constexpr int width = packet_width<U>;
  // The first launch reads all v's; later ones add to the results that overwrite them.
  for (int r = 0; r == 0 || r < j; r += most_rows) {
    const int narrow = std::min(most_rows, j - r), mine = r == 0 ? wide : 0;
    const bool last = r + most_rows >= j;
    const auto with = [&](auto count) {
      constexpr int C = count();
      std::vector<U> a(std::size_t(narrow + mine) * C, U(0));
      for (int i = 0; i < narrow; ++i)
        for (int c = 0; c < columns; ++c) a[std::size_t(i) * C + c] = f(r + i, c);
      for (int i = 0; i < mine; ++i)
        for (int c = 0; c < columns; ++c) a[std::size_t(narrow + i) * C + c] = f(j + i, c);
      if (a.empty()) a.resize(1);
      Q* const* const to = last ? stored : nullptr;
      const bool aligned = all_aligned<width>(q + r, narrow) && all_aligned<width>(v, mine) &&
                           all_aligned<width>(out, columns) && (!to || all_aligned<width>(to, columns));
      if (aligned) launch_combination<C, width>(Global(n), q + r, narrow, v, mine, a, add || r > 0, out, to, columns);
      else launch_combination<C, 0>(Global(n), q + r, narrow, v, mine, a, add || r > 0, out, to, columns);
    };
    if (columns == 1) with(std::integral_constant<int, 1>{});
    else if (columns <= 4) with(std::integral_constant<int, 4>{});
    else if (columns <= 8) with(std::integral_constant<int, 8>{});
    else with(std::integral_constant<int, columns_at_once>{});
  }
}
template <class T>
std::int64_t traffic(std::size_t narrow, int j, int s, int passes, std::size_t n) {
  return std::int64_t((j * narrow + std::size_t(passes) * s * sizeof(T)) * n);
}

template <class T>
auto kernel_pointers(const T* const* v, int count) {
  std::vector<const kernel_scalar_t<T>*> pointers;
  for (int i = 0; i < count; ++i) pointers.push_back(kernel_pointer(v[i]));
  return pointers;
}

template <class T, class S>
void gram(const S* const* q, int j, const T* const* v, int s, std::size_t n, T* G, bool own) {
  using U = kernel_scalar_t<T>;
  using Q = kernel_scalar_t<S>;
  if (s == 0) return;
  const auto columns = kernel_pointers(v, s);
  auto rows = kernel_pointers(q, j);
  const int height = j + (own ? s : 0);
  if constexpr (std::is_same_v<Q, U>) {
    if (own) rows.insert(rows.end(), columns.begin(), columns.end());
    dots(rows.data(), height, columns.data(), s, n, G, height, 0);
  } else {
    dots(rows.data(), j, columns.data(), s, n, G, height, 0);
    if (own) dots(columns.data(), s, columns.data(), s, n, G, height, j);
  }
  if (own)
    for (int c = 0; c < s; ++c) {
      for (int i = 0; i < c; ++i) G[std::size_t(i) * height + j + c] = conj(G[std::size_t(c) * height + j + i]);
      G[std::size_t(c) * height + j + c] = T(real(G[std::size_t(c) * height + j + c]));
    }
}

template <class T, class S>
void update(const S* const* q, int j, const T* C, T* const* v, int s, const T* W, S* const* stored, std::size_t n) {
  using U = kernel_scalar_t<T>;
  using Q = kernel_scalar_t<S>;
  require(s <= most_columns, "a block of ", s, " vectors on the device; ", most_columns, " at most");
  std::vector<const Q*> rows;
  for (int i = 0; i < j; ++i) rows.push_back(kernel_pointer(q[i]));
  std::vector<U*> columns;
  std::vector<Q*> narrow;
  for (int c = 0; c < s; ++c) {
    columns.push_back(kernel_pointer(v[c]));
    if (stored) narrow.push_back(kernel_pointer(stored[c]));
  }
  // (V - Q C) W = Q (-C W) + V W. The last columns first, since a column needs the old values of those before it.
  const auto coefficient = [&](int row, int c) {
    T sum(0);
    if (row >= j) {
      if (W) sum = row - j <= c ? W[std::size_t(c) * s + row - j] : T(0);
      else sum = T(real_t<T>(row - j == c));
    } else if (W) {
      for (int l = 0; l <= c; ++l) sum -= C[std::size_t(l) * j + row] * W[std::size_t(c) * s + l];
    } else {
      sum = -C[std::size_t(c) * j + row];
    }
    return *kernel_pointer(&sum);
  };
  for (int first = (s - 1) / columns_at_once * columns_at_once; first >= 0; first -= columns_at_once) {
    const int count = std::min(columns_at_once, s - first);
    std::vector<const U*> before(columns.begin(), columns.begin() + first + count);
    std::vector<U*> out(columns.begin() + first, columns.begin() + first + count);
    std::vector<Q*> to;
    if (stored) to.assign(narrow.begin() + first, narrow.begin() + first + count);
    // With a single launch, columns that are stored elsewhere need not be written here.
    if (stored && j <= most_rows)
      for (int c = 0; c < count; ++c)
        if (first + c != s - 1) out[std::size_t(c)] = nullptr;
    combine<U, Q>(rows.data(), j, before.data(), first + count, out.data(), stored ? to.data() : nullptr, count, n,
                  false, [&](int row, int c) { return coefficient(row, first + c); });
  }
}

/// A sum of products as high + low; each operation must be rounded separately.
struct Twofold {
  double high, low;
  __device__ void add(double a, double b) {
    const double p = __dmul_rn(a, b), error = __fma_rn(a, b, -p);
    const double s = __dadd_rn(high, p), part = __dsub_rn(s, high);
    low = __dadd_rn(low, __dadd_rn(__dadd_rn(__dsub_rn(high, __dsub_rn(s, part)), __dsub_rn(p, part)), error));
    high = s;
  }
  __device__ Twofold& operator+=(const Twofold& b) {
    const double s = __dadd_rn(high, b.high), part = __dsub_rn(s, high);
    low = __dadd_rn(__dadd_rn(low, b.low), __dadd_rn(__dsub_rn(high, __dsub_rn(s, part)), __dsub_rn(b.high, part)));
    high = s;
    return *this;
  }
};

/// Block (slice, pair): the slice's share of v_i^H v_c in twice the digits; real and imaginary part.
template <class U, int Threads>
struct PreciseDots {
  static constexpr int threads = Threads;
  static constexpr int per = is_complex<U> ? 2 : 1;
  using Shared = NothingShared;
  Global n, slices;
  int pairs;
  Twofold* partial;  // slice after slice
  const U* v[most_columns];

  template <Team A>
  __device__ void operator()(const A& team, Shared&) const {
    const Global slice = team.block() / pairs;
    const int pair = static_cast<int>(team.block() % pairs);
    int c = 0;
    while ((c + 1) * (c + 2) / 2 <= pair) ++c;
    const U *const a = v[pair - c * (c + 1) / 2], *const b = v[c];
    Twofold re{0, 0}, im{0, 0};
    for (Global i = slice * Threads + team.rank(); i < n; i += slices * Threads) {
      if constexpr (per == 1) {
        re.add(double(a[i]), double(b[i]));
      } else {
        re.add(double(a[i].real()), double(b[i].real()));
        re.add(double(a[i].imag()), double(b[i].imag()));
        im.add(double(a[i].real()), double(b[i].imag()));
        im.add(-double(a[i].imag()), double(b[i].real()));
      }
    }
    re = team.sum(re);
    if constexpr (per == 2) im = team.sum(im);
    if (team.rank() == 0) {
      partial[(slice * pairs + pair) * per] = re;
      if constexpr (per == 2) partial[(slice * pairs + pair) * per + 1] = im;
    }
  }
};

}  // namespace

template <Scalar T>
void precise(const T* const* v, int s, std::size_t n, real_t<T>* high, real_t<T>* low) {
  using U = kernel_scalar_t<T>;
  using Kernel = PreciseDots<U, 256>;
  require(s <= most_columns, "a block of ", s, " vectors on the device; ", most_columns, " at most");
  const int pairs = s * (s + 1) / 2;
  if (pairs == 0) return;
  const Global slices = std::clamp<Global>((Global(n) + 255) / 256, 1, std::max<Global>(most_blocks / pairs, 1));
  const std::size_t sums = std::size_t(pairs) * Kernel::per;
  const ReductionSpace space = reduction_space(std::size_t(slices) * sums * sizeof(Twofold), 0);
  Kernel kernel{Global(n), slices, pairs, static_cast<Twofold*>(space.partial), {}};
  for (int c = 0; c < s; ++c) kernel.v[c] = kernel_pointer(v[c]);
  launch_cuda(slices * pairs, kernel);
  std::vector<Twofold> parts(std::size_t(slices) * sums);
  copy_to_host(parts.data(), space.partial, parts.size() * sizeof(Twofold));
  for (std::size_t i = 0; i < sums; ++i) {
    DoubleDouble sum;
    for (std::size_t p = 0; p < std::size_t(slices); ++p)
      sum = sum + DoubleDouble::sum(parts[p * sums + i].high, parts[p * sums + i].low);
    high[i] = real_t<T>(sum.high);
    low[i] = real_t<T>((sum - DoubleDouble(double(high[i]))).high);
  }
}

#define TACIT_INSTANTIATE_STORED(T, S)                                                                               \
  template <>                                                                                                        \
  void block_gram<T, Device, S>(const S* const* q, int j, const T* const* v, int s, std::size_t n, T* G) {           \
    const Span span("block dots", "exec", traffic<T>(sizeof(S), j, s, 1, n));                                        \
    gram(q, j, v, s, n, G, true);                                                                                    \
  }                                                                                                                  \
  template <>                                                                                                        \
  void block_update_stored<T, Device, S>(const S* const* q, int j, const T* C, T* const* v, int s, const T* W,       \
                                         S* const* stored, std::size_t n) {                                          \
    const Span span("block update", "exec", traffic<T>(sizeof(S), j, s, 2, n));                                      \
    update(q, j, C, v, s, W, stored, n);                                                                             \
  }                                                                                                                  \
  template <>                                                                                                        \
  void block_update_gram<T, Device, S>(const S* const* q, int j, const T* C, T* const* v, int s, const T* W,         \
                                       std::size_t n, T* G) {                                                        \
    block_update_stored<T, Device, S>(q, j, C, v, s, W, nullptr, n);                                                 \
    block_gram<T, Device, S>(q, j, v, s, n, G);                                                                      \
  }                                                                                                                  \
  template <>                                                                                                        \
  void block_combine_stored<T, Device, S>(const S* const* y, int j, const T* C, T* const* x, int s, std::size_t n) { \
    using U = kernel_scalar_t<T>;                                                                                    \
    using Q = kernel_scalar_t<S>;                                                                                    \
    const Span span("block combine", "exec", traffic<T>(sizeof(S), j, s, 2, n));                                     \
    std::vector<const Q*> rows;                                                                                      \
    for (int i = 0; i < j; ++i) rows.push_back(kernel_pointer(y[i]));                                                \
    for (int first = 0; first < s; first += columns_at_once) {                                                       \
      const int count = std::min(columns_at_once, s - first);                                                        \
      std::vector<U*> out;                                                                                           \
      for (int c = 0; c < count; ++c) out.push_back(kernel_pointer(x[first + c]));                                   \
      combine<U, Q>(rows.data(), j, static_cast<const U* const*>(nullptr), 0, out.data(),                            \
                    static_cast<Q* const*>(nullptr), count, n, true,                                                 \
                    [&](int row, int c) { return *kernel_pointer(&C[std::size_t(first + c) * j + row]); });          \
    }                                                                                                                \
  }                                                                                                                  \
  template <>                                                                                                        \
  void store<T, Device, S>(const T* from, S* to, std::size_t n) {                                                    \
    launch_cuda((Global(n) + 255) / 256, Convert<kernel_scalar_t<T>, kernel_scalar_t<S>, 256>{                       \
                                             Global(n), kernel_pointer(from), kernel_pointer(to)});                  \
  }
#define TACIT_INSTANTIATE(T)                                                                                          \
  TACIT_INSTANTIATE_STORED(T, T)                                                                                      \
  TACIT_INSTANTIATE_STORED(T, Short<T>)                                                                               \
  template <>                                                                                                         \
  void block_dots<T, Device>(const T* const* q, int j, const T* const* v, int s, std::size_t n, T* G) {               \
    const Span span("block dots", "exec", traffic<T>(sizeof(T), j, s, 1, n));                                         \
    gram(q, j, v, s, n, G, false);                                                                                    \
  }                                                                                                                   \
  template <>                                                                                                         \
  void PendingDots<T, Device>::start(const T* const* q, int j, const T* const* v, int s, std::size_t n) {             \
    const Span span("block dots", "exec", traffic<T>(sizeof(T), j, s, 1, n));                                         \
    const auto rows = kernel_pointers(q, j), columns = kernel_pointers(v, s);                                         \
    rows_ = std::size_t(j), G_.resize(rows_ * std::size_t(s));                                                        \
    if (!G_.empty()) result_ = start_dots(rows.data(), j, columns.data(), s, n);                                      \
  }                                                                                                                   \
  template <>                                                                                                         \
  const std::vector<T>& PendingDots<T, Device>::wait() {                                                              \
    if (result_) take_dots(*result_, int(rows_), int(G_.size() / rows_), G_.data(), int(rows_), 0);                   \
    result_.reset();                                                                                                  \
    return G_;                                                                                                        \
  }                                                                                                                   \
  template <>                                                                                                         \
  bool PendingDots<T, Device>::ready() {                                                                              \
    return !result_ || result_->ready();                                                                              \
  }                                                                                                                   \
  template <>                                                                                                         \
  void block_update<T, Device>(const T* const* q, int j, const T* C, T* const* v, int s, const T* W, std::size_t n) { \
    block_update_stored<T, Device, T>(q, j, C, v, s, W, nullptr, n);                                                  \
  }                                                                                                                   \
  template <>                                                                                                         \
  void block_combine<T, Device>(const T* const* y, int j, const T* C, T* const* x, int s, std::size_t n) {            \
    block_combine_stored<T, Device, T>(y, j, C, x, s, n);                                                             \
  }                                                                                                                   \
  template <>                                                                                                         \
  void precise_gram<T, Device>(const T* const* v, int s, std::size_t n, real_t<T>* high, real_t<T>* low) {            \
    const Span span("precise dots", "exec", traffic<T>(0, 0, s, 1, n));                                               \
    precise(v, s, n, high, low);                                                                                      \
  }
TACIT_EACH_SCALAR(Device, TACIT_INSTANTIATE)
TACIT_INSTANTIATE_STORED(double, float)
#if TACIT_SCALARS_Device & 8
TACIT_INSTANTIATE_STORED(std::complex<double>, std::complex<float>)
#endif

}  // namespace tacit::exec
