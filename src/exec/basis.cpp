#include <tacit/exec/basis.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/exec/tasks.hpp>
#include "base/lanes.hpp"
#include "base/registers.hpp"

#include <algorithm>
#include <vector>

namespace tacit::exec {
namespace {

using detail::lanes;
using detail::parallel_from;
// Longer than the chunk of a sweep: the part of v fits the second-level cache, and basis vectors are read in longer
// runs.
constexpr std::size_t chunk_elements = 8192;
constexpr int group = 4;  // vectors whose sums are kept in registers together

template <class T>
T lane_sum(const T (&acc)[lanes]) {
  T sum{};
  for (int l = 0; l < lanes; ++l) sum += acc[l];
  return sum;
}

// Prefetches a few lines ahead: a core alone does not keep enough loads of several streams in flight (measured: 7.8
// GB/s without, 12.3 with, of 12.5). Always inlined: gcc treats a function that only prefetches as one without effect,
// and drops calls of it.
template <class T>
[[gnu::always_inline]] inline void fetch_ahead(const T* p) {
  constexpr std::ptrdiff_t ahead = 1024, line = 64;
  for (std::ptrdiff_t byte = 0; byte < std::ptrdiff_t(lanes * sizeof(T)); byte += line)
    __builtin_prefetch(reinterpret_cast<const char*>(p) + ahead + byte);
}

// The elements of a row of lanes as real numbers, by name in registers: of several arrays of sums gcc 12 makes as many
// numbers, each multiplied and added by itself.
template <class T>
inline constexpr int numbers_of_row = is_complex<T> ? 2 * lanes : lanes;
template <class T>
using Row = Registers<real_t<T>, numbers_of_row<T>>;
template <class T>
[[gnu::always_inline]] inline Row<T> load_row(const T* from) {
  return Row<T>::load(reinterpret_cast<const real_t<T>*>(from));
}
// Numbers 2 l + of(0) and 2 l + of(1) of each pair.
template <auto of, class R>
[[gnu::always_inline]] inline R in_pairs(const R& a) {
  return by_parts<R>(
      [](const auto& x) __attribute__((always_inline)) { return shuffled<of>(x, x); }, a);
}

// Conjugates of elements times v, rounded as conj(q) v is.
template <class T>
class TimesRow {
 public:
  [[gnu::always_inline]] explicit TimesRow(const T* v) : v_(load_row(v)) {
    if constexpr (is_complex<T>) {
      const auto signs = Row<T>::each_lane([](int l) { return l & 1 ? -1 : 1; });
      turned_ = in_pairs<[](int l) { return l ^ 1; }>(v_) * signs;
    }
  }
  [[gnu::always_inline]] Row<T> conjugate(const T* q) const {
    const Row<T> a = load_row(q);
    if constexpr (!is_complex<T>) return a * v_;
    else return in_pairs<[](int l) { return l & ~1; }>(a) * v_ + in_pairs<[](int l) { return l | 1; }>(a) * turned_;
  }

 private:
  Row<T> v_, turned_;  // (x, y) and (y, -x)
};

// acc[g][l] += conj(q_g) v in the rows i of lane l = i mod lanes, over m elements, a multiple of lanes.
template <int G, class T>
void add_rows(const T* const (&q)[G], const T* v, std::size_t m, T (&acc)[G][lanes]) {
  Row<T> sums[G];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) sums[g] = load_row(acc[g]);
  for (std::size_t i = 0; i < m; i += lanes) {
    const TimesRow<T> times(v + i);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      fetch_ahead(q[g] + i);
      sums[g] += times.conjugate(q[g] + i);
    }
  }
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) sums[g].store(reinterpret_cast<real_t<T>*>(acc[g]));
}

// sums[g] = q_g^H v over m elements.
template <int G, class T>
void chunk_dots(const T* const* q, const T* v, std::size_t begin, std::size_t m, T* sums) {
  T acc[G][lanes] = {};
  const T* qg[G];
  for (int g = 0; g < G; ++g) qg[g] = q[g] + begin;
  const std::size_t full = m / lanes * lanes;
  add_rows<G>(qg, v, full, acc);
  for (std::size_t i = full; i < m; ++i)
    for (int g = 0; g < G; ++g) acc[g][i - full] += conj(qg[g][i]) * v[i];
  for (int g = 0; g < G; ++g) sums[g] = lane_sum(acc[g]);
}

template <int G, class T>
void chunk_subtract(const T* const* q, const T* h, std::size_t begin, std::size_t m, T* __restrict v) {
  const T* qg[G];
  for (int g = 0; g < G; ++g) qg[g] = q[g] + begin;
#pragma GCC ivdep
  for (std::size_t i = 0; i < m; ++i) {
    T sum = v[i];
    for (int g = 0; g < G; ++g) sum -= h[g] * qg[g][i];
    v[i] = sum;
  }
}

template <class T>
T square_sum(const T* v, std::size_t m) {
  T acc[lanes] = {};
  const std::size_t full = m / lanes * lanes;
  for (std::size_t i = 0; i < full; i += lanes)
#pragma GCC ivdep
    for (int l = 0; l < lanes; ++l) acc[l] += T(abs2(v[i + l]));
  for (std::size_t i = full; i < m; ++i) acc[i - full] += T(abs2(v[i]));
  return lane_sum(acc);
}

template <class T>
std::vector<Touched> reads_of(const T* const* q, int j) {
  std::vector<Touched> touched;
  for (int i = 0; i < j; ++i) touched.push_back(Touched::read(q[i]));
  return touched;
}

}  // namespace

template <Scalar T, Memory M>
void basis_dots(const T* const* q, int j, const T* v, std::size_t n, T* sums, bool norm) {
  const Span span("basis dots", "exec", std::int64_t((j + 1) * n * sizeof(T)));
  const std::size_t chunks = (n + chunk_elements - 1) / chunk_elements;
  const int k = j + int(norm);
  static thread_local std::vector<T> store;
  if (store.size() < chunks * k) store.resize(chunks * k);
  T* const partial = store.data();
  const auto chunk = [&](std::size_t c) TACIT_COMPILED_ONCE {
    const std::size_t begin = c * chunk_elements, m = std::min(chunk_elements, n - begin);
    const T* const vc = v + begin;  // stays in the cache while the basis passes
    T* const p = partial + c * k;
    int i = 0;
    for (; i + group <= j; i += group) chunk_dots<group>(q + i, vc, begin, m, p + i);
    switch (j - i) {
      case 3:
        chunk_dots<3>(q + i, vc, begin, m, p + i);
        break;
      case 2:
        chunk_dots<2>(q + i, vc, begin, m, p + i);
        break;
      case 1:
        chunk_dots<1>(q + i, vc, begin, m, p + i);
        break;
      default:
        break;
    }
    if (norm) p[j] = square_sum(vc, m);
  };
  if (auto* const tasks = Tasks::current()) {
    auto touched = reads_of(q, j);
    touched.push_back(Touched::read(v));
    tasks->finish("basis dots", n, touched, [&](std::size_t begin, std::size_t end) {
      for (std::size_t c = begin / chunk_elements; c * chunk_elements < end; ++c) chunk(c);
    });
  } else {
    parallel_for(chunks, n > parallel_from, chunk);
  }
  std::fill_n(sums, k, T{});
  for (std::size_t c = 0; c < chunks; ++c)
    for (int i = 0; i < k; ++i) sums[i] += partial[c * k + i];
}

namespace {

// One chunk of v := scale (v - sum_i h_i q_i), and its part of v^H v if needed.
template <class T>
TACIT_COMPILED_ONCE T subtract_chunk(const T* const* q, int j, const T* h, T scale, T* v, std::size_t n, bool norm,
                                     std::size_t c) {
  const std::size_t begin = c * chunk_elements, m = std::min(chunk_elements, n - begin);
  T* const vc = v + begin;
  int i = 0;
  for (; i + group <= j; i += group) chunk_subtract<group>(q + i, h + i, begin, m, vc);
  switch (j - i) {
    case 3:
      chunk_subtract<3>(q + i, h + i, begin, m, vc);
      break;
    case 2:
      chunk_subtract<2>(q + i, h + i, begin, m, vc);
      break;
    case 1:
      chunk_subtract<1>(q + i, h + i, begin, m, vc);
      break;
    default:
      break;
  }
  if (scale != T(1))
    for (std::size_t e = 0; e < m; ++e) vc[e] *= scale;
  return norm ? square_sum(vc, m) : T{};
}

}  // namespace

template <Scalar T, Memory M>
T basis_subtract(const T* const* q, int j, const T* h, T scale, T* v, std::size_t n, bool norm) {
  const Span span("basis subtract", "exec", std::int64_t((j + 2) * n * sizeof(T)));
  const std::size_t chunks = (n + chunk_elements - 1) / chunk_elements;
  auto* const tasks = Tasks::current();
  if (tasks && !norm) {
    auto touched = reads_of(q, j);
    touched.push_back(Touched::write(v));
    tasks->start("basis subtract", n, touched,
                 [q = std::vector<const T*>(q, q + j), h = std::vector<T>(h, h + j), scale, v, n](std::size_t begin,
                                                                                                  std::size_t end) {
                   for (std::size_t c = begin / chunk_elements; c * chunk_elements < end; ++c)
                     subtract_chunk(q.data(), int(q.size()), h.data(), scale, v, n, false, c);
                 });
    return T{};
  }
  static thread_local std::vector<T> store;
  if (store.size() < chunks) store.resize(chunks);
  T* const partial = store.data();
  const auto chunk = [&](std::size_t c) { partial[c] = subtract_chunk(q, j, h, scale, v, n, norm, c); };
  if (tasks) {
    auto touched = reads_of(q, j);
    touched.push_back(Touched::write(v));
    tasks->finish("basis subtract", n, touched, [&](std::size_t begin, std::size_t end) {
      for (std::size_t c = begin / chunk_elements; c * chunk_elements < end; ++c) chunk(c);
    });
  } else {
    parallel_for(chunks, n > parallel_from, chunk);
  }
  T sum{};
  if (norm)
    for (std::size_t c = 0; c < chunks; ++c) sum += partial[c];
  return sum;
}

#define TACIT_INSTANTIATE(T)                                                                \
  template void basis_dots<T, Host>(const T* const*, int, const T*, std::size_t, T*, bool); \
  template T basis_subtract<T, Host>(const T* const*, int, const T*, T, T*, std::size_t, bool);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::exec
