// Rows of A that are evaluated before A is compressed: its norm, its scale, and products to compare with.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

namespace tacit::op::detail {

/// 1 or -1, depending on the index only.
inline double sign_of(Global i) {
  std::uint64_t z = (std::uint64_t(i) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z >> 63) != 0 ? 1.0 : -1.0;
}

/// v 2^e.
template <Scalar T>
T shifted(const T& v, int e) {
  if constexpr (is_complex<T>) return {std::ldexp(v.real(), e), std::ldexp(v.imag(), e)};
  else return std::ldexp(v, e);
}
/// The largest exponent of `count` entries; `none` where all are 0.
inline constexpr int none = std::numeric_limits<int>::min();
template <Scalar T>
int exponent_of(const T* v, std::size_t count) {
  const auto* const parts = reinterpret_cast<const real_t<T>*>(v);
  real_t<T> most(0);
#pragma omp simd reduction(max : most)
  for (std::size_t k = 0; k < count * (sizeof(T) / sizeof(real_t<T>)); ++k) most = std::max(most, std::abs(parts[k]));
  return most > 0 ? std::ilogb(most) : none;
}

/// Squares are in range, as those of the sampled rows are.
template <Scalar T>
double largest_entry(const std::vector<T>& v) {
  if constexpr (is_complex<T>) {
    double largest2 = 0;
    const auto* const parts = reinterpret_cast<const real_t<T>*>(v.data());
#pragma omp simd reduction(max : largest2)
    for (std::size_t k = 0; k < v.size(); ++k) {
      const double re = parts[2 * k], im = parts[2 * k + 1];
      largest2 = std::max(largest2, re * re + im * im);
    }
    return std::sqrt(largest2);
  } else {
    const T* const a = v.data();
    T largest(0);
#pragma omp simd reduction(max : largest)
    for (std::size_t k = 0; k < v.size(); ++k) largest = std::max(largest, std::abs(a[k]));
    return double(largest);
  }
}

/// Numbers from 2^-safe_exponent to 2^safe_exponent, of which sums of squares stay in range, and of doubles their
/// squares: floats are squared in double precision.
template <class R>
inline constexpr int safe_exponent = std::numeric_limits<R>::max_exponent * 3 / (std::is_same_v<R, float> ? 8 : 16);

template <Scalar T>
using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// A sampled row of A in units of 2^exponent: its norm, and its products with two vectors.
template <Scalar T>
struct Sample {
  Local position;
  int exponent;
  double size2;
  Wide<T> random, ones;
  double unlike2;  ///< of the row minus the column, for symmetric matrices
};

/// Evaluates a row, and for symmetric matrices also the column; adds to the number of entries evaluated.
template <Scalar T>
Sample<T> sample_row(Local position, const ClusterTree& rows, std::span<const Global> all,
                     const EntryFunction<T>& entry, const HMatrixOptions& options, Global& evaluated) {
  using R = real_t<T>;
  const auto n = Local(all.size());
  const Global index = rows.order()[std::size_t(position)];
  std::vector<T> row(static_cast<std::size_t>(n));
  entry({&index, 1}, all, row.data());
  evaluated += n;
  for (Local j = 0; j < n; ++j)
    if (!is_finite(row[std::size_t(j)]))
      throw Error(ErrorKind::input, message("the entry at row ", index, ", column ", j, " is ", row[std::size_t(j)]));
  Sample<T> sample{position, exponent_of(row.data(), row.size()), 0, 0, 0, 0};
  // Keeps 2^-exponent (possibly subnormal) and its inverse finite.
  if (sample.exponent != none) sample.exponent = std::max(sample.exponent, std::numeric_limits<R>::min_exponent);
  const R unit = sample.exponent == none ? R(1) : std::ldexp(R(1), -sample.exponent);
  for (Local j = 0; j < n; ++j) {
    const Wide<T> a(row[std::size_t(j)] * unit);
    sample.size2 += abs2(a);
    sample.random += a * sign_of(j);
    sample.ones += a;
  }
  if (options.symmetry == Symmetry::none) return sample;
  std::vector<T> column(static_cast<std::size_t>(n));
  entry(all, {&index, 1}, column.data());
  evaluated += n;
  for (Local j = 0; j < n; ++j) {
    const T mirror = options.symmetry == Symmetry::hermitian ? conj(column[std::size_t(j)]) : column[std::size_t(j)];
    sample.unlike2 += abs2(Wide<T>(row[std::size_t(j)] * unit) - Wide<T>(mirror * unit));
  }
  return sample;
}

/// `wanted` of n positions (all, where there are fewer), spread over all of them.
inline std::vector<Local> sampled_positions(int wanted, Local n) {
  const Local s = Local(std::min<Global>(wanted, n));
  std::vector<Local> found;
  for (Local i = 0; i < s; ++i) {
    const Local from = Local(Global(n) * i / s), to = Local(Global(n) * (i + 1) / s);
    found.push_back(from + Local((std::uint64_t(i) * 0x9e3779b9u) % std::uint64_t(to - from)));
  }
  return found;
}

/// options.sampled_rows rows, spread over all positions and shared by the ranks; all of them on every rank, by
/// position. Collective.
template <Scalar T>
std::vector<Sample<T>> sample_rows(const comm::Communicator& comm, const ClusterTree& rows, const ClusterTree& columns,
                                   const EntryFunction<T>& entry, const HMatrixOptions& options, Global& evaluated) {
  const auto positions = sampled_positions(options.sampled_rows, rows.size());
  std::vector<Global> all(static_cast<std::size_t>(columns.size()));
  std::iota(all.begin(), all.end(), Global(0));
  std::vector<Sample<T>> own;
  for (std::size_t i = std::size_t(comm.rank()); i < positions.size(); i += std::size_t(comm.size()))
    own.push_back(sample_row<T>(positions[i], rows, all, entry, options, evaluated));
  auto samples = comm.all_gather(std::span<const Sample<T>>(own));
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
  return samples;
}

/// What samples say of all of A: entries are divided by 2^exponent where `scaled`, and in these units `mean2` is the
/// mean of the squared norms of rows and `norm` that of A, with a safety margin below the estimate.
struct SampledScale {
  bool scaled = false;
  int exponent = 0;
  double mean2 = 0, norm = 0;
};
template <Scalar T>
SampledScale scale_of(const std::vector<Sample<T>>& samples, Local rows) {
  SampledScale found;
  int top = none;
  for (const auto& sample : samples) top = std::max(top, sample.exponent);
  found.scaled = top != none && std::abs(top) > safe_exponent<real_t<T>>;
  found.exponent = found.scaled ? top : 0;
  const double k = double(samples.size());
  double spread = 0;
  const auto size2 = [&](const auto& sample) {
    return sample.exponent == none ? 0.0 : std::ldexp(sample.size2, 2 * (sample.exponent - found.exponent));
  };
  for (const auto& sample : samples) found.mean2 += size2(sample) / k;
  for (const auto& sample : samples) spread += (size2(sample) - found.mean2) * (size2(sample) - found.mean2);
  spread = k > 1 ? std::sqrt(spread / (k * (k - 1))) : 0;
  found.norm = std::sqrt(std::max(found.mean2 - spread, found.mean2 / 4) * rows);
  return found;
}

}  // namespace tacit::op::detail
