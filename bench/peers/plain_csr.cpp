// The product of a sparse matrix in compressed rows and 1, 2, 4, .. 64 interleaved columns, as one writes it by hand:
// the number of columns is known at compile time, sums stay in registers, threads take pieces of rows. A peer for
// spmm.py, which loads it as a shared library. Compiled for this processor.
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif

template <int k, class T>
void rows_times(std::int64_t from, std::int64_t to, const std::int32_t* start, const std::int32_t* column,
                const T* value, const T* x, T* y) {
  constexpr int lanes = std::min(k, register_bytes / int(sizeof(T))), parts = k / lanes;
  typedef T V __attribute__((vector_size(lanes * sizeof(T))));
  for (std::int64_t r = from; r < to; ++r) {
    if constexpr (k == 1) {
      T sum = 0;
      for (std::int32_t e = start[r]; e < start[r + 1]; ++e) sum += value[e] * x[column[e]];
      y[r] = sum;
      continue;
    }
    V sum[parts] = {};
    for (std::int32_t e = start[r]; e < start[r + 1]; ++e) {
      const T a = value[e];
      const T* const row = x + std::int64_t(column[e]) * k;
#pragma GCC unroll 16
      for (int p = 0; p < parts; ++p) {
        V v;
        std::memcpy(&v, row + p * lanes, sizeof v);
        sum[p] += a * v;
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < parts; ++p) std::memcpy(y + r * k + p * lanes, &sum[p], sizeof(V));
  }
}

template <int k, class T>
void multiply(std::int64_t rows, const std::int32_t* start, const std::int32_t* column, const T* value, const T* x,
              T* y, int threads) {
  constexpr std::int64_t piece = 512;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (std::int64_t r = 0; r < rows; r += piece)
    rows_times<k>(r, std::min(rows, r + piece), start, column, value, x, y);
}

template <class T>
int multiply(std::int64_t rows, const std::int32_t* start, const std::int32_t* column, const T* value, const T* x, T* y,
             int k, int threads) {
  switch (k) {
    case 1:
      return multiply<1>(rows, start, column, value, x, y, threads), 0;
    case 2:
      return multiply<2>(rows, start, column, value, x, y, threads), 0;
    case 4:
      return multiply<4>(rows, start, column, value, x, y, threads), 0;
    case 8:
      return multiply<8>(rows, start, column, value, x, y, threads), 0;
    case 16:
      return multiply<16>(rows, start, column, value, x, y, threads), 0;
    case 32:
      return multiply<32>(rows, start, column, value, x, y, threads), 0;
    case 64:
      return multiply<64>(rows, start, column, value, x, y, threads), 0;
    default:
      return 1;
  }
}

}  // namespace

/// y = A x. 0, or 1 for a number of columns that there is no kernel for.
extern "C" int plain_csr_float64(std::int64_t rows, const std::int32_t* start, const std::int32_t* column,
                                 const double* value, const double* x, double* y, int k, int threads) {
  return multiply(rows, start, column, value, x, y, k, threads);
}
extern "C" int plain_csr_float32(std::int64_t rows, const std::int32_t* start, const std::int32_t* column,
                                 const float* value, const float* x, float* y, int k, int threads) {
  return multiply(rows, start, column, value, x, y, k, threads);
}
