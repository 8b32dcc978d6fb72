#include <tacit/op/csr.hpp>
#include <tacit/op/local_matrix.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::op {
namespace {

// Entries a thread multiplies between two polls: some tens of microseconds.
constexpr Global block_entries = 1 << 16;

bool polling_thread() {
#ifdef _OPENMP
  return omp_get_thread_num() == 0;
#else
  return true;
#endif
}

template <class T>
exec::Array<T, Host> array(const std::vector<T>& v) {
  return exec::Array<T, Host>::from(std::span<const T>(v));
}

constexpr int column_tile = 8;  // columns of x that are multiplied at once

}  // namespace

template <Scalar T, Memory M>
struct LocalMatrix<T, M>::Storage {
  Local rows = 0, columns = 0;
  Global entries = 0;
  bool sell = false, narrow = false;
  exec::Array<Global, Host> start;         // CSR: of rows; SELL: of slices, in entries
  exec::Array<std::int16_t, Host> offset;  // column - row (CSR) or column - first row of the slice (SELL)
  exec::Array<Local, Host> column;
  exec::Array<T, Host> value;
  exec::Array<std::uint8_t, Host> width;   // SELL: entries of each row that are not padding, capped
  std::vector<Local> long_width;           // the same where a row has more than 255
  std::vector<Local> empty;                // SELL: rows without entries among others that have some
  std::vector<Local> block;                // first row of each block of about block_entries

  Local row_width(Local r) const { return long_width.empty() ? Local(width[r]) : long_width[r]; }
};

namespace {

// One row of CSR times one column of x. Index is the row's column list: offsets from r or absolute.
template <class T, class Index>
inline T csr_row(const T* value, const Index* index, Global n, const T* x) {
  T sum{};
  for (Global k = 0; k < n; ++k) sum += value[k] * x[index[k]];
  return sum;
}

template <class T, class Index>
inline void csr_row_columns(const T* value, const Index* index, Global n, const T* x, T* y, int columns) {
  for (int c0 = 0; c0 < columns; c0 += column_tile) {
    const int m = std::min(column_tile, columns - c0);
    T sum[column_tile] = {};
    for (Global k = 0; k < n; ++k) {
      const T a = value[k];
      const T* const xk = x + std::ptrdiff_t(index[k]) * columns + c0;
      for (int c = 0; c < m; ++c) sum[c] += a * xk[c];
    }
    for (int c = 0; c < m; ++c) y[c0 + c] = sum[c];
  }
}

// One slice of SELL times one column of x: lane l is a row, so a step of j is one SIMD instruction wide.
template <int C, class T, class Index>
inline void sell_slice(const T* value, const Index* index, Global width, const T* x, T* sum) {
  T acc[C] = {};
  for (Global j = 0; j < width; ++j) {
#pragma GCC ivdep
    for (int l = 0; l < C; ++l) acc[l] += value[j * C + l] * x[index[j * C + l]];
  }
  for (int l = 0; l < C; ++l) sum[l] = acc[l];
}

}  // namespace

template <Scalar T, Memory M>
LocalMatrix<T, M>::LocalMatrix(const LocalRows<T>& a, Format format) : s_(std::make_unique<Storage>()) {
  Storage& s = *s_;
  const Local n = a.count();
  s.rows = n;
  s.columns = a.columns;
  s.entries = a.start.back();
  const Local slices = (n + slice - 1) / slice;
  std::vector<Global> slice_start(std::size_t(slices) + 1, 0);
  bool narrow_rows = true, narrow_slices = true;
  for (Local q = 0; q < slices; ++q) {
    Global width = 0;
    for (Local r = q * slice; r < std::min(n, (q + 1) * slice); ++r) {
      width = std::max(width, a.start[r + 1] - a.start[r]);
      for (Global k = a.start[r]; k < a.start[r + 1]; ++k) {
        const Global from_row = Global(a.column[k]) - r, from_slice = Global(a.column[k]) - q * slice;
        narrow_rows &= from_row >= INT16_MIN && from_row <= INT16_MAX;
        narrow_slices &= from_slice >= INT16_MIN && from_slice <= INT16_MAX;
      }
    }
    slice_start[q + 1] = slice_start[q] + width * slice;
  }
  // Offsets are taken from the row (or the slice's first row), which must be a column too.
  narrow_rows &= n <= a.columns;
  narrow_slices &= n <= a.columns;
  const Global padded = slice_start[slices];
  s.sell = format == Format::sell || (format == Format::automatic && padded <= s.entries + s.entries / 10);
  s.narrow = s.sell ? narrow_slices : narrow_rows;

  if (!s.sell) {
    s.start = array(a.start);
    s.value = array(a.value);
    if (s.narrow) {
      s.offset = exec::Array<std::int16_t, Host>(a.column.size());
      for (Local r = 0; r < n; ++r)
        for (Global k = a.start[r]; k < a.start[r + 1]; ++k) s.offset[k] = std::int16_t(a.column[k] - r);
    } else {
      s.column = array(a.column);
    }
  } else {
    s.value = exec::Array<T, Host>(padded);
    if (s.narrow) s.offset = exec::Array<std::int16_t, Host>(padded);
    else s.column = exec::Array<Local, Host>(padded);
    s.width = exec::Array<std::uint8_t, Host>(n);
    Global widest = 0;
    for (Local r = 0; r < n; ++r) widest = std::max(widest, a.start[r + 1] - a.start[r]);
    if (widest > 255) s.long_width.resize(n);
    for (Local q = 0; q < slices; ++q) {
      const Local width = Local((slice_start[q + 1] - slice_start[q]) / slice), base = q * slice;
      for (int l = 0; l < slice; ++l) {
        const Local r = base + l;
        const Global first = r < n ? a.start[r] : 0, count = r < n ? a.start[r + 1] - first : 0;
        if (r < n) {
          if (s.long_width.empty()) s.width[r] = std::uint8_t(count);
          else s.long_width[r] = Local(count);
        }
        // Padding multiplies zero by an element the row reads anyway, so that a NaN elsewhere cannot leak into it. A row
        // that reads none is cleared afterwards.
        if (r < n && !count && width) s.empty.push_back(r);
        const Local idle = count ? a.column[first] : std::min(base, std::max<Local>(0, a.columns - 1));
        for (Local j = 0; j < width; ++j) {
          const Global to = slice_start[q] + Global(j) * slice + l;
          const Local column = j < count ? a.column[first + j] : idle;
          s.value[to] = j < count ? a.value[first + j] : T{};
          if (s.narrow) s.offset[to] = std::int16_t(column - base);
          else s.column[to] = column;
        }
      }
    }
    s.start = array(slice_start);
  }

  s.block = {0};
  Global since = 0;
  for (Local r = 0; r < n; ++r) {
    since += a.start[r + 1] - a.start[r] + 1;
    if (since >= block_entries && (r + 1) % slice == 0) s.block.push_back(r + 1), since = 0;
  }
  if (s.block.back() != n || n == 0) s.block.push_back(n);
}

template <Scalar T, Memory M>
LocalMatrix<T, M>::~LocalMatrix() = default;
template <Scalar T, Memory M>
LocalMatrix<T, M>::LocalMatrix(LocalMatrix&&) noexcept = default;

template <Scalar T, Memory M>
void LocalMatrix<T, M>::multiply(const T* x, T* y, int columns, const comm::Communicator& comm) const {
  const Storage& s = *s_;
  const int blocks = int(s.block.size()) - 1;
  const auto csr = [&](Local begin, Local end, const auto* index, bool relative) {
    for (Local r = begin; r < end; ++r) {
      const Global first = s.start[r], n = s.start[r + 1] - first;
      const T* const origin = relative ? x + std::ptrdiff_t(r) * columns : x;
      if (columns == 1) y[r] = csr_row(s.value.data() + first, index + first, n, origin);
      else csr_row_columns(s.value.data() + first, index + first, n, origin, y + std::ptrdiff_t(r) * columns, columns);
    }
  };
  const auto sell = [&](Local begin, Local end, const auto* index, bool relative) {
    for (Local base = begin; base < end; base += slice) {
      const Local q = base / slice;
      const Global first = s.start[q], width = (s.start[q + 1] - first) / slice;
      const T* const origin = relative ? x + std::ptrdiff_t(base) * columns : x;
      const T* const value = s.value.data() + first;
      const auto* const column = index + first;
      const Local rows = std::min<Local>(slice, end - base);
      if (columns == 1 && rows == slice) {
        sell_slice<slice>(value, column, width, origin, y + base);
      } else if (columns == 1) {
        T sum[slice];
        sell_slice<slice>(value, column, width, origin, sum);
        std::copy_n(sum, rows, y + base);
      } else {
        for (Local l = 0; l < rows; ++l) {
          for (int c0 = 0; c0 < columns; c0 += column_tile) {
            const int m = std::min(column_tile, columns - c0);
            T sum[column_tile] = {};
            for (Global j = 0; j < width; ++j) {
              const T a = value[j * slice + l];
              const T* const xj = origin + std::ptrdiff_t(column[j * slice + l]) * columns + c0;
              for (int c = 0; c < m; ++c) sum[c] += a * xj[c];
            }
            std::copy_n(sum, m, y + std::ptrdiff_t(base + l) * columns + c0);
          }
        }
      }
    }
  };
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (int b = 0; b < blocks; ++b) {
    const Local begin = s.block[b], end = s.block[b + 1];
    if (s.sell && s.narrow) sell(begin, end, s.offset.data(), true);
    else if (s.sell) sell(begin, end, s.column.data(), false);
    else if (s.narrow) csr(begin, end, s.offset.data(), true);
    else csr(begin, end, s.column.data(), false);
    for (auto r = std::lower_bound(s.empty.begin(), s.empty.end(), begin); r != s.empty.end() && *r < end; ++r)
      std::fill_n(y + std::ptrdiff_t(*r) * columns, columns, T{});
    if (polling_thread()) comm.poll();
  }
}

template <Scalar T, Memory M>
LocalRows<T> LocalMatrix<T, M>::rows() const {
  const Storage& s = *s_;
  LocalRows<T> a;
  a.columns = s.columns;
  a.start.reserve(s.rows + 1);
  a.column.reserve(s.entries);
  a.value.reserve(s.entries);
  for (Local r = 0; r < s.rows; ++r) {
    const Local q = r / slice;
    const Global first = s.sell ? s.start[q] + r % slice : s.start[r];
    const Global count = s.sell ? s.row_width(r) : s.start[r + 1] - first, step = s.sell ? slice : 1;
    for (Global j = 0; j < count; ++j) {
      const Global k = first + j * step;
      a.column.push_back(s.narrow ? Local((s.sell ? q * slice : r) + s.offset[k]) : s.column[k]);
      a.value.push_back(s.value[k]);
    }
    a.start.push_back(Global(a.column.size()));
  }
  return a;
}

template <Scalar T, Memory M>
double LocalMatrix<T, M>::bytes() const {
  const Storage& s = *s_;
  return double(s.value.size()) * (sizeof(T) + (s.narrow ? 2 : 4)) + double(s.start.size()) * sizeof(Global);
}

template <Scalar T, Memory M>
std::string LocalMatrix<T, M>::storage() const {
  return std::string(s_->sell ? "sell-" + std::to_string(slice) : "csr") + (s_->narrow ? " (16-bit offsets)" : "");
}

template <Scalar T, Memory M>
RowList<T, M>::RowList(const LocalRows<T>& a) {
  std::vector<Local> row;
  std::vector<Global> start{0};
  for (Local r = 0; r < a.count(); ++r)
    if (a.start[r + 1] > a.start[r]) row.push_back(r), start.push_back(a.start[r + 1]);
  row_ = exec::Array<Local, M>::from(row);
  start_ = exec::Array<Global, M>::from(start);
  column_ = exec::Array<Local, M>::from(a.column);
  value_ = exec::Array<T, M>::from(a.value);
}

template <Scalar T, Memory M>
void RowList<T, M>::multiply_add(const T* x, T* y, int columns) const {
  const Local n = count();
#pragma omp parallel for schedule(static) if (n > 2048)
  for (Local i = 0; i < n; ++i)
    for (int c = 0; c < columns; ++c) {
      T sum{};
      for (Global k = start_[i]; k < start_[i + 1]; ++k) sum += value_[k] * x[std::ptrdiff_t(column_[k]) * columns + c];
      y[std::ptrdiff_t(row_[i]) * columns + c] += sum;
    }
}

template <Scalar T, Memory M>
double RowList<T, M>::bytes() const {
  return double(value_.size()) * (sizeof(T) + sizeof(Local)) + double(count()) * (sizeof(Local) + sizeof(Global));
}

template <Scalar T, Memory M>
LocalRows<T> RowList<T, M>::rows(Local total, Local columns) const {
  LocalRows<T> a;
  a.columns = columns;
  Local next = 0;
  for (Local i = 0; i < count(); ++i) {
    for (; next < row_[i]; ++next) a.start.push_back(a.start.back());
    a.start.push_back(start_[i + 1]);
    ++next;
  }
  for (; next < total; ++next) a.start.push_back(a.start.back());
  a.column.assign(column_.data(), column_.data() + column_.size());
  a.value.assign(value_.data(), value_.data() + value_.size());
  return a;
}

template <Scalar T, Memory M>
void pack(const T* x, const exec::Array<Local, M>& index, int columns, T* out) {
  const std::size_t n = index.size();
  if (columns == 1) {
    for (std::size_t i = 0; i < n; ++i) out[i] = x[index[i]];
  } else {
    for (std::size_t i = 0; i < n; ++i) std::copy_n(x + std::ptrdiff_t(index[i]) * columns, columns, out + i * columns);
  }
}

template <Scalar T, Memory M>
void unpack_add(const T* in, const exec::Array<Local, M>& index, int columns, T* y) {
  for (std::size_t i = 0; i < index.size(); ++i)
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(index[i]) * columns + c] += in[i * columns + c];
}

template <Scalar T, Memory M>
void receive(const T* in, std::size_t n, exec::Array<T, M>& out) {
  if (n) std::memcpy(out.data(), in, n * sizeof(T));
}

template <Scalar T>
LocalRows<T> adjoint(const LocalRows<T>& a) {
  LocalRows<T> t;
  t.columns = a.count();
  t.start.assign(std::size_t(a.columns) + 1, 0);
  for (Local c : a.column) ++t.start[c + 1];
  std::partial_sum(t.start.begin(), t.start.end(), t.start.begin());
  t.column.resize(a.column.size());
  t.value.resize(a.value.size());
  std::vector<Global> next(t.start.begin(), t.start.end() - 1);
  for (Local r = 0; r < a.count(); ++r)
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k) {
      const Global to = next[a.column[k]]++;
      t.column[to] = r;
      t.value[to] = conj(a.value[k]);
    }
  return t;
}

#define TACIT_INSTANTIATE(T)                                                                     \
  template class LocalMatrix<T, Host>;                                                           \
  template class RowList<T, Host>;                                                               \
  template void pack<T, Host>(const T*, const exec::Array<Local, Host>&, int, T*);               \
  template void unpack_add<T, Host>(const T*, const exec::Array<Local, Host>&, int, T*);         \
  template void receive<T, Host>(const T*, std::size_t, exec::Array<T, Host>&);                  \
  template LocalRows<T> adjoint<T>(const LocalRows<T>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::op
