// Gram matrices in twice the precision of the vectors. Compiled without contraction, since the error terms below are
// exact only where each operation is rounded separately.
#include <tacit/base/trace.hpp>
#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include "base/double_double.hpp"

#include <algorithm>
#include <vector>

namespace tacit::exec {
namespace {

constexpr int lanes = 8;
constexpr std::size_t chunk = 1024;

/// Sums of products in each lane, as a number and its error term.
struct Wide {
  double high[lanes] = {}, low[lanes] = {};
  void add(const double* a, const double* b) {
#pragma GCC ivdep
    for (int l = 0; l < lanes; ++l) {
      const double p = a[l] * b[l], error = __builtin_fma(a[l], b[l], -p);
      const double s = high[l] + p, part = s - high[l];
      low[l] += ((high[l] - (s - part)) + (p - part)) + error;
      high[l] = s;
    }
  }
  DoubleDouble total() const {
    DoubleDouble sum;
    for (int l = 0; l < lanes; ++l) sum = sum + DoubleDouble::sum(high[l], low[l]);
    return sum;
  }
};
/// The same for products of floats, which are exact in double.
struct Plain {
  double sum[lanes] = {};
  void add(const double* a, const double* b) {
#pragma GCC ivdep
    for (int l = 0; l < lanes; ++l) sum[l] += a[l] * b[l];
  }
  DoubleDouble total() const {
    DoubleDouble all;
    for (int l = 0; l < lanes; ++l) all = all + DoubleDouble(sum[l]);
    return all;
  }
};

}  // namespace

template <Scalar T, Memory M>
void precise_gram(const T* const* v, int s, std::size_t n, real_t<T>* high, real_t<T>* low) {
  using R = real_t<T>;
  using Accumulator = std::conditional_t<std::same_as<R, double>, Wide, Plain>;
  constexpr int per = is_complex<T> ? 2 : 1;
  const Span span("precise dots", "exec", std::int64_t(s * n * sizeof(T)));
  const std::size_t pairs = std::size_t(s) * (s + 1) / 2, sums = pairs * per;
  const std::size_t chunks = (n + chunk - 1) / chunk;
  std::vector<DoubleDouble> partial(chunks * sums);
  each(chunks, n > detail::parallel_from, [&](std::size_t p) {
    const std::size_t begin = p * chunk, m = std::min(chunk, n - begin), padded = (m + lanes - 1) / lanes * lanes;
    // Real and imaginary parts separately, as doubles, padded with zeros to whole registers.
    std::vector<double> parts(std::size_t(s) * per * padded, 0.0);
    for (int c = 0; c < s; ++c)
      for (std::size_t i = 0; i < m; ++i) {
        parts[(std::size_t(c) * per) * padded + i] = double(real(v[c][begin + i]));
        if constexpr (per == 2) parts[(std::size_t(c) * per + 1) * padded + i] = double(v[c][begin + i].imag());
      }
    std::size_t at = p * sums;
    for (int c = 0; c < s; ++c)
      for (int i = 0; i <= c; ++i) {
        const double *a = parts.data() + std::size_t(i) * per * padded,
                     *b = parts.data() + std::size_t(c) * per * padded;
        Accumulator re, im, minus;
        for (std::size_t e = 0; e < padded; e += lanes) {
          re.add(a + e, b + e);
          if constexpr (per == 2) {
            re.add(a + padded + e, b + padded + e);
            im.add(a + e, b + padded + e);
            minus.add(a + padded + e, b + e);
          }
        }
        partial[at++] = re.total();
        if constexpr (per == 2) partial[at++] = im.total() - minus.total();
      }
  });
  for (std::size_t i = 0; i < sums; ++i) {
    DoubleDouble sum;
    for (std::size_t p = 0; p < chunks; ++p) sum = sum + partial[p * sums + i];
    high[i] = R(sum.high);
    low[i] = R((sum - DoubleDouble(double(high[i]))).high);
  }
}

#define TACIT_INSTANTIATE(T) \
  template void precise_gram<T, Host>(const T* const*, int, std::size_t, real_t<T>*, real_t<T>*);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::exec
