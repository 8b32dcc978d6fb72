// RowList: some rows of a matrix; and what the exchange of their vectors needs.
#include <tacit/base/trace.hpp>
#include <tacit/op/local_matrix.hpp>
#include "add_multiple.hpp"
#include "base/lanes.hpp"

#include <complex>
#include <cstring>
#include <numeric>
#include <utility>

namespace tacit::op {

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

namespace {
// A row of n entries times one of `columns` interleaved columns of x.
template <class T>
TACIT_COMPILED_ONCE T row_times(const T* value, const Local* column, Global n, const T* x, int columns) {
  T sum{};
  for (Global k = 0; k < n; ++k) add_product(value[k], x[std::ptrdiff_t(column[k]) * columns], sum);
  return sum;
}
}  // namespace

template <Scalar T, Memory M>
T RowList<T, M>::row_sum(Local i, const T* x, int columns) const {
  const Global first = start_[i];
  return row_times(value_.data() + first, column_.data() + first, start_[i + 1] - first, x, columns);
}

template <Scalar T, Memory M>
void RowList<T, M>::multiply(std::span<const Local> places, const T* x, T* z, int columns) const {
  for (const Local i : places)
    for (int c = 0; c < columns; ++c) z[std::ptrdiff_t(i) * columns + c] = row_sum(i, x + c, columns);
}
template <Scalar T, Memory M>
void RowList<T, M>::add(const T* z, T* y, int columns, Local from, Local to) const {
  for (Local i = from; i < to; ++i)
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(row_[i]) * columns + c] += z[std::ptrdiff_t(i) * columns + c];
}

template <Scalar T, Memory M>
void RowList<T, M>::multiply_add(const T* x, T* y, int columns) const {
  const Local n = count();
  exec::settle();
  exec::parallel_for(std::size_t(n), n > 2048, [&](std::size_t i) {
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(row_[i]) * columns + c] += row_sum(Local(i), x + c, columns);
  });
  if (Trace::on())
    Trace::work("product", bytes() + 3.0 * n * columns * sizeof(T),
                (is_complex<T> ? 8.0 : 2.0) * columns * double(entries()));
}

template <Scalar T, Memory M>
void RowList<T, M>::multiply_add(Local begin, Local end, const T* x, T* y, int columns) const {
  for (Local i = place(begin); i < count() && row_[i] < end; ++i)
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(row_[i]) * columns + c] += row_sum(i, x + c, columns);
}

template <Scalar T, Memory M>
void RowList<T, M>::start_add(exec::Tasks& tasks, std::shared_ptr<const std::vector<T>> x, T* y, std::size_t n) const {
  const std::size_t rows = exec::Tasks::block_of(n);
  const Local* const begin = row_.data();
  for (Local i = 0; i < count();) {
    const std::size_t b = std::size_t(begin[i]) / rows;
    const Local end = Local(std::lower_bound(begin + i, begin + count(), Local(std::min(n, (b + 1) * rows))) - begin);
    const void* const writes[] = {y + b * rows};
    tasks.start("ghost product", {}, writes, true, [this, x, y, i, end] {
      for (Local at = i; at < end; ++at) y[row_[at]] += row_sum(at, x->data(), 1);
    });
    i = end;
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
  a.start.reserve(std::size_t(total) + 1);
  for (Local i = 0; i < count(); ++i) {
    a.start.resize(std::size_t(row_[i]) + 1, a.start.back());
    a.start.push_back(start_[i + 1]);
  }
  a.start.resize(std::size_t(total) + 1, a.start.back());
  a.column.assign(column_.data(), column_.data() + column_.size());
  a.value.assign(value_.data(), value_.data() + value_.size());
  return a;
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
  LocalRows<T> t{a.count(), a.column_begin, a.row_begin};
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

#define TACIT_INSTANTIATE(T)                                                             \
  template class RowList<T, Host>;                                                       \
  template void unpack_add<T, Host>(const T*, const exec::Array<Local, Host>&, int, T*); \
  template void receive<T, Host>(const T*, std::size_t, exec::Array<T, Host>&);          \
  template LocalRows<T> adjoint<T>(const LocalRows<T>&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
