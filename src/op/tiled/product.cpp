#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include "block.hpp"
#include "vectors16.hpp"

#include <cfloat>
#include <cmath>
#include <type_traits>
#include <utility>

namespace tacit::op {
namespace {

// One row times the columns of a register tile.
template <class T, class Index>
using RowKernel = void (*)(const Index*, const T*, std::uint32_t, const T*, std::size_t, int, T*, bool,
                           const Clamp<T>*);

template <class T, class Index, int Z, bool Tail>
RowKernel<T, Index> kernel_of(bool in_order) {
  constexpr int chains = Z == 1 ? 8 : Z == 2 ? 4 : Z <= 4 ? 2 : 1;
  if (in_order) return &detail::multiply_row<Z, 1, Tail, T, Index>;
  return &detail::multiply_row<Z, chains, Tail, T, Index>;
}

template <class T, class Index, int... Z>
RowKernel<T, Index> kernel_for(int vectors, bool tail, bool in_order, std::integer_sequence<int, Z...>) {
  RowKernel<T, Index> found = nullptr;
  ((vectors == Z + 1
        ? void(found = tail ? kernel_of<T, Index, Z + 1, true>(in_order) : kernel_of<T, Index, Z + 1, false>(in_order))
        : void()),
   ...);
  return found;
}

// The same for 16-bit vectors; 1, 2, 4 or 8 registers.
template <class Index>
using NarrowKernel = void (*)(const Index*, const float*, std::uint32_t, const std::uint16_t*, std::size_t, int, float*,
                              bool, const float*, const Clamp<float>*);

template <class Index, Vectors kind>
NarrowKernel<Index> narrow_kernel_of(int vectors) {
  return vectors >= 8   ? &detail::multiply_row16<8, kind, Index>
         : vectors >= 4 ? &detail::multiply_row16<4, kind, Index>
         : vectors >= 2 ? &detail::multiply_row16<2, kind, Index>
                        : &detail::multiply_row16<1, kind, Index>;
}
template <class Index>
NarrowKernel<Index> narrow_kernel_for(Vectors kind, int vectors) {
  return kind == Vectors::half ? narrow_kernel_of<Index, Vectors::half>(vectors)
                               : narrow_kernel_of<Index, Vectors::bfloat16>(vectors);
}

constexpr std::size_t piece = 2048;  // rows of vectors that are permuted together
constexpr int narrowest = 8;         // vectors of fewer columns are rounded, but not stored in 16 bits

template <class T>
void grow(exec::Array<T>& a, std::size_t n) {
  if (a.size() < n) a = exec::Array<T>(n);
}

}  // namespace

template <class T>
void TiledMatrix<T>::prepare(const T* x, int x_stride, int k, Vectors vectors, Copy& copy) const {
  const auto n = std::size_t(columns_), wide = std::size_t(k), pieces = (n + piece - 1) / piece;
  const bool parallel = n * wide > 16384;
  const auto row = [&](std::size_t j) {
    return x + (column_order_.empty() ? j : std::size_t(column_order_[j])) * std::size_t(x_stride);
  };
  copy.in_16_bits = vectors != Vectors::full && k >= narrowest && !in_order_;
  copy.stride = copy.in_16_bits ? (k + 15) / 16 * 16 : k;
  if (vectors == Vectors::full) {
    grow(copy.full, n * wide);
    exec::each(pieces, parallel, [&](std::size_t p) {
      for (std::size_t j = p * piece; j < std::min(n, (p + 1) * piece); ++j)
        std::copy_n(row(j), k, copy.full.data() + j * wide);
    });
    return;
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    // Powers of two that scale the columns to 2^14, or less where sums of large entries would overflow.
    std::vector<float> most(pieces * wide, 0), down(std::size_t(copy.stride), 1);
    exec::each(pieces, parallel, [&](std::size_t p) {
      float* const m = most.data() + p * wide;
      for (std::size_t j = p * piece; j < std::min(n, (p + 1) * piece); ++j) {
        const float* const from = row(j);
#pragma omp simd
        for (int c = 0; c < k; ++c) {
          const float a = std::abs(from[c]);
          m[c] = a > m[c] && a <= FLT_MAX ? a : m[c];
        }
      }
    });
    const int room =
        126 - int(std::bit_width(longest_)) - (largest_ > 0 && std::isfinite(largest_) ? std::ilogb(largest_) : 0);
    copy.up.assign(std::size_t(copy.stride), 1);
    for (std::size_t c = 0; c < wide; ++c) {
      float largest = 0;
      for (std::size_t p = 0; p < pieces; ++p) largest = std::max(largest, most[p * wide + c]);
      const int exponent = largest > 0 ? std::clamp(std::ilogb(largest) - std::min(14, room), -126, 126) : 0;
      copy.up[c] = std::ldexp(1.0f, exponent), down[c] = std::ldexp(1.0f, -exponent);
    }
    const auto stride = std::size_t(copy.stride);
    if (copy.in_16_bits) grow(copy.narrow, n * stride);
    else grow(copy.full, n * wide);
    const bool halves = vectors == Vectors::half;
    // Rounding errors are carried from row to row within each piece.
    exec::each(pieces, parallel, [&](std::size_t p) {
      std::vector<float> carry(wide, 0.0f);
      std::vector<std::uint16_t> row16(copy.in_16_bits ? 0 : wide);
      for (std::size_t j = p * piece; j < std::min(n, (p + 1) * piece); ++j) {
        std::uint16_t* const to = copy.in_16_bits ? copy.narrow.data() + j * stride : row16.data();
        if (halves) detail::narrow<Vectors::half>(row(j), down.data(), carry.data(), k, to);
        else detail::narrow<Vectors::bfloat16>(row(j), down.data(), carry.data(), k, to);
        if (copy.in_16_bits) std::fill(to + k, to + stride, std::uint16_t(0));
        else
          for (std::size_t c = 0; c < wide; ++c)
            copy.full[j * wide + c] = copy.up[c] * (halves ? detail::of_half(to[c]) : detail::of_bfloat16(to[c]));
      }
    });
  }
}

template <class T>
void TiledMatrix<T>::multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                              const Clamp<T>* clamp) const {
  multiply_in(vectors_, x, x_stride, y, y_stride, k, comm, clamp);
}

template <class T>
void TiledMatrix<T>::multiply_full(const T* x, int x_stride, T* y, int y_stride, int k,
                                   const comm::Communicator* comm) const {
  multiply_in(Vectors::full, x, x_stride, y, y_stride, k, comm, nullptr);
}

template <class T>
void TiledMatrix<T>::multiply_in(Vectors vectors, const T* x, int x_stride, T* y, int y_stride, int k,
                                 const comm::Communicator* comm, const Clamp<T>* clamp) const {
  const bool watched = Trace::on();
  const Span span("tiled product", "op", watched ? std::int64_t(bytes()) : 0);
  if (watched) {
    const double read = vectors == Vectors::full ? sizeof(T) : 2, written = sizeof(T);
    Trace::work("tiled product", bytes() + k * (read * columns_ + written * rows_), 2.0 * double(entries_) * k);
  }
  std::unique_ptr<Copy> copy;
  if (!column_order_.empty() || vectors != Vectors::full) {
    {
      const std::lock_guard lock(spare_->mutex);
      if (!spare_->copies.empty()) copy = std::move(spare_->copies.back()), spare_->copies.pop_back();
    }
    if (!copy) copy = std::make_unique<Copy>();
    prepare(x, x_stride, k, vectors, *copy);
    if (!copy->in_16_bits) x = copy->full.data(), x_stride = k;
  }
  const auto polled = [&](std::size_t b) {
    multiply_block(blocks_[b], x, x_stride, y, y_stride, k, copy && copy->in_16_bits ? copy.get() : nullptr, clamp);
    if (comm && exec::may_poll()) comm->poll();
  };
  exec::each(blocks_.size(), entries_ * Global(k) > 20000, polled, 1);
  if (copy) {
    const std::lock_guard lock(spare_->mutex);
    spare_->copies.push_back(std::move(copy));
  }
}

// A block's segments, with values of one precision.
template <class T>
struct TiledMatrix<T>::Block::Segments {
  const TiledMatrix& of;
  const Block& b;
  std::vector<T>& scratch;

  Segments(const TiledMatrix& matrix, const Block& block) : of(matrix), b(block), scratch(mine()) {
    if (scratch.size() < b.longest + 16) scratch.resize(b.longest + 16);
  }
  static std::vector<T>& mine() {
    static thread_local std::vector<T> values;
    return values;
  }
  std::size_t row_at(std::size_t r) const {
    const std::size_t place = std::size_t(b.begin) + r;
    return of.order_.empty() ? place : std::size_t(of.order_[place]);
  }
  const T* values(std::size_t segment) const {
    const std::uint32_t from = b.value_start[segment], n = b.value_start[segment + 1] - from;
    if (of.values_ == Values::full) return static_cast<const T*>(b.values) + from;
    detail::widen(of.values_, b.values, from, n, b.scale, scratch.data());
    return scratch.data();
  }
  void multiply_column(const T* x, T* y, int y_stride, const Clamp<T>* clamp) const;
};

template <class T>
void TiledMatrix<T>::Block::Segments::multiply_column(const T* x, T* y, int y_stride, const Clamp<T>* clamp) const {
  const bool bitmap = of.format_ == TiledFormat::bitmap, list = of.format_ == TiledFormat::list;
  const std::size_t stage = bitmap ? detail::bitmap_stage : detail::list_stage, rows = std::size_t(b.rows);
  const bool halves = sizeof(T) == sizeof(float) && of.values_ == Values::half && bitmap;
  for (int s = 0; s < of.stages_; ++s) {
    const T* const from = x + std::size_t(s) * stage;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t segment = std::size_t(s) * rows + r;
      const std::uint32_t first = b.item_start[segment], n = b.item_start[segment + 1] - first;
      T sum;
      if constexpr (sizeof(T) == sizeof(float)) {
        if (halves)
          sum = b.scale * detail::multiply_runs_of_halves(
                              static_cast<const std::uint32_t*>(b.items) + first, n,
                              static_cast<const std::uint16_t*>(b.values) + b.value_start[segment], from);
      }
      if (!halves) {
        const T* const value = values(segment);
        const auto* const words = static_cast<const std::uint32_t*>(b.items) + first;
        sum = bitmap ? detail::multiply_runs(words, n, value, from)
              : list ? detail::multiply_list(static_cast<const std::uint16_t*>(b.items) + first, n, value, from)
                     : detail::multiply_list(words, n, value, from);
      }
      T& to = y[row_at(r) * std::size_t(y_stride)];
      if (s > 0) sum = to + sum;
      if (clamp && s == of.stages_ - 1) {
        sum += clamp->bias;
        sum = clamp->low > sum ? clamp->low : sum;
        sum = clamp->high < sum ? clamp->high : sum;
      }
      to = sum;
    }
  }
}

template <class T>
void TiledMatrix<T>::multiply_block(const Block& b, const T* x, int x_stride, T* y, int y_stride, int k,
                                    const Copy* copy, const Clamp<T>* clamp) const {
  const typename Block::Segments segments(*this, b);
  if (k == 1 && x_stride == 1) return segments.multiply_column(x, y, y_stride, clamp);
  const bool bitmap = format_ == TiledFormat::bitmap, list = format_ == TiledFormat::list;
  const std::size_t stage = bitmap ? detail::bitmap_stage : detail::list_stage, rows = std::size_t(b.rows);
  thread_local std::vector<std::uint32_t> index_scratch;
  if (index_scratch.size() < b.longest + 16) index_scratch.resize(b.longest + 16);
  for (int column = 0; column < k;) {
    int columns = std::min(tile_, k - column), vectors = (columns + detail::lanes<T> - 1) / detail::lanes<T>;
    if (copy) vectors = int(std::bit_floor(unsigned(vectors))), columns = std::min(columns, vectors * detail::lanes<T>);
    const int tail = columns - (vectors - 1) * detail::lanes<T>;
    constexpr std::make_integer_sequence<int, detail::most_vectors> all{};
    const auto wide_kernel = kernel_for<T, std::uint32_t>(vectors, tail != detail::lanes<T>, in_order_, all);
    const auto kernel = kernel_for<T, std::uint16_t>(vectors, tail != detail::lanes<T>, in_order_, all);
    for (int s = 0; s < stages_; ++s) {
      const bool ends = s == stages_ - 1;
      const T* const from = copy ? nullptr : x + std::size_t(s) * stage * std::size_t(x_stride) + column;
      const Clamp<T>* const last = ends ? clamp : nullptr;
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t segment = std::size_t(s) * rows + r;
        const std::uint32_t first = b.item_start[segment], n = b.item_start[segment + 1] - first;
        if (s > 0 && n == 0 && !last && !(copy && ends)) continue;
        const T* const value = segments.values(segment);
        T* const to = y + segments.row_at(r) * std::size_t(y_stride) + column;
        const auto* words = static_cast<const std::uint32_t*>(b.items) + first;
        std::uint32_t count = n;
        if (bitmap) count = detail::decode(words, n, index_scratch.data()), words = index_scratch.data();
        const auto* const shorts = static_cast<const std::uint16_t*>(b.items) + first;
        if constexpr (sizeof(T) == sizeof(float)) {
          if (copy) {
            const std::uint16_t* const narrow =
                copy->narrow.data() + std::size_t(s) * stage * std::size_t(copy->stride) + column;
            const float* const up = ends ? copy->up.data() + column : nullptr;
            if (list)
              narrow_kernel_for<std::uint16_t>(vectors_, vectors)(shorts, value, n, narrow, std::size_t(copy->stride),
                                                                  columns, to, s == 0, up, last);
            else
              narrow_kernel_for<std::uint32_t>(vectors_, vectors)(
                  words, value, count, narrow, std::size_t(copy->stride), columns, to, s == 0, up, last);
            continue;
          }
        }
        if (list) kernel(shorts, value, n, from, std::size_t(x_stride), tail, to, s == 0, last);
        else wide_kernel(words, value, count, from, std::size_t(x_stride), tail, to, s == 0, last);
      }
    }
    column += columns;
  }
}

template void TiledMatrix<float>::multiply(const float*, int, float*, int, int, const comm::Communicator*,
                                           const Clamp<float>*) const;
template void TiledMatrix<double>::multiply(const double*, int, double*, int, int, const comm::Communicator*,
                                            const Clamp<double>*) const;
template void TiledMatrix<float>::multiply_full(const float*, int, float*, int, int, const comm::Communicator*) const;
template void TiledMatrix<double>::multiply_full(const double*, int, double*, int, int,
                                                 const comm::Communicator*) const;

}  // namespace tacit::op
