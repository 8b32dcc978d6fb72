// Csr<T, Device>: a rank's part of a sparse matrix in device memory, and the packing of its halo.
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/device_kernels.hpp>
#include <tacit/op/kernels/device_products.hpp>
#include <tacit/op/local_matrix.hpp>
#include "op/kernels/sell.hpp"

#include "csr_impl.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace tacit::op {
namespace {

template <class T>
exec::Array<T, Device> on_device(const std::vector<T>& v) {
  return exec::Array<T, Device>::from(std::span<const T>(v));
}
template <class T>
exec::Array<T, Device> on_device(std::span<const T> v) {
  return exec::Array<T, Device>::from(v);
}
template <class T>
std::vector<T> to_host(const exec::Array<T, Device>& a) {
  std::vector<T> v(a.size());
  if (!v.empty()) exec::copy_to_host(v.data(), a.data(), v.size() * sizeof(T));
  return v;
}

/// One rank's matrix on the device. automatic: SELL-32 where padding adds at most a tenth, else CSR; 16-bit column
/// offsets where the band is narrow.
template <Scalar T>
class DeviceMatrix {
 public:
  DeviceMatrix(const LocalRowsView<T>& a, Format format)
      : rows_(a.count()), columns_(a.columns), row_begin_(on_device(a.start)) {
    constexpr Local C = device_slice_rows;
    const Local slices = (rows_ + C - 1) / C;
    narrow_ = true;
    std::vector<Global> slice_begin{0};
    for (Local s = 0; s < slices; ++s) {
      Global width = 0;
      for (Local r = s * C; r < std::min(rows_, (s + 1) * C); ++r) {
        width = std::max(width, a.start[r + 1] - a.start[r]);
        for (Global e = a.start[r]; e < a.start[r + 1]; ++e)
          // The smallest 16-bit number marks padding.
          narrow_ = narrow_ && std::abs(a.column[e] - r) <= std::numeric_limits<std::int16_t>::max();
      }
      slice_begin.push_back(slice_begin.back() + width * C);
    }
    const Global entries = a.start.back(), padded = slice_begin.back();
    sell_ = format == Format::sell || (format == Format::automatic && padded <= entries + entries / 10);
    if (narrow_) store(a, slice_begin, narrow_columns_);
    else store(a, slice_begin, wide_columns_);
  }

  void multiply(const T* x, T* y, int k) const {
    if (narrow_) multiply(narrow_columns_, x, y, k);
    else multiply(wide_columns_, x, y, k);
  }

  LocalRows<T> rows() const {
    const auto start = to_host(row_begin_), slice_begin = to_host(slice_begin_);
    const auto narrow = to_host(narrow_columns_);
    const auto wide = to_host(wide_columns_);
    const auto value = to_host(value_);
    LocalRows<T> a;
    a.columns = columns_;
    a.start = start;
    a.column.reserve(start.back());
    a.value.reserve(start.back());
    for (Local r = 0; r < rows_; ++r)
      for (Global j = 0; j < start[r + 1] - start[r]; ++j) {
        const Global at =
            sell_ ? slice_begin[r / device_slice_rows] + j * device_slice_rows + r % device_slice_rows : start[r] + j;
        a.column.push_back(narrow_ ? r + narrow[at] : wide[at]);
        a.value.push_back(value[at]);
      }
    return a;
  }

  double bytes() const {
    return double(value_.size()) * (sizeof(T) + (narrow_ ? sizeof(std::int16_t) : sizeof(Local))) +
           double(sell_ ? slice_begin_.size() : row_begin_.size()) * sizeof(Global);
  }
  std::string storage() const {
    return message(sell_ ? "sell-32" : "csr", narrow_ ? " (16-bit offsets)" : "", " on the device");
  }

 private:
  template <class Column>
  void store(const LocalRowsView<T>& a, const std::vector<Global>& slice_begin, exec::Array<Column, Device>& columns) {
    const auto stored = [](Local column, Local row) {
      return Column(std::same_as<Column, Local> ? column : column - row);
    };
    const std::size_t size = sell_ ? slice_begin.back() : a.column.size();
    std::vector<Column> column(size, no_column<Column>);
    std::vector<T> value(size);
    for (Local r = 0; r < rows_; ++r)
      for (Global e = a.start[r]; e < a.start[r + 1]; ++e) {
        const Global j = e - a.start[r];
        const Global at =
            sell_ ? slice_begin[r / device_slice_rows] + j * device_slice_rows + r % device_slice_rows : e;
        column[at] = stored(a.column[e], r);
        value[at] = a.value[e];
      }
    columns = on_device(column);
    value_ = on_device(value);
    if (sell_) slice_begin_ = on_device(slice_begin);
  }
  template <class Column>
  void multiply(const exec::Array<Column, Device>& column, const T* x, T* y, int k) const {
    const exec::View<const T, Device> in(x, std::size_t(columns_) * k);
    const exec::View<T, Device> out(y, std::size_t(rows_) * k);
    if (sell_)
      device_product(DeviceSell<T, Column>{rows_, slice_begin_.view(), column.view(), value_.view()}, in, out, k);
    else device_product(DeviceCsr<T, Global, Column>{row_begin_.view(), column.view(), value_.view()}, in, out, k);
  }

  Local rows_, columns_;
  bool sell_ = false, narrow_ = false;
  exec::Array<Global, Device> row_begin_;    // row offsets, also used to skip the padding of SELL
  exec::Array<Global, Device> slice_begin_;  // SELL
  exec::Array<std::int16_t, Device> narrow_columns_;
  exec::Array<Local, Device> wide_columns_;
  exec::Array<T, Device> value_;
};

/// The rows of a RowList: `row` are the indices of those that have entries, of `total`.
template <Scalar T>
LocalRows<T> spread(Local total, Local columns, const std::vector<Local>& row, const std::vector<Global>& start,
                    std::vector<Local> column, std::vector<T> value) {
  LocalRows<T> a;
  a.columns = columns;
  a.column = std::move(column);
  a.value = std::move(value);
  for (std::size_t i = 0; i < row.size(); ++i) {
    a.start.resize(std::size_t(row[i]) + 1, a.start.back());
    a.start.push_back(start[i + 1]);
  }
  a.start.resize(std::size_t(total) + 1, a.start.back());
  return a;
}

}  // namespace

// Specialisations for each scalar of the members that differ from those for the host.
#define TACIT_SPECIALISE(T)                                                                                        \
  template <>                                                                                                      \
  struct LocalMatrix<T, Device>::Storage : DeviceMatrix<T> {                                                       \
    using DeviceMatrix<T>::DeviceMatrix;                                                                           \
  };                                                                                                               \
  template <>                                                                                                      \
  LocalMatrix<T, Device>::LocalMatrix(const LocalRowsView<T>& a, Format format)                                    \
      : s_(std::make_unique<Storage>(a, format)) {}                                                                \
  template <>                                                                                                      \
  LocalMatrix<T, Device>::~LocalMatrix() = default;                                                                \
  template <>                                                                                                      \
  LocalMatrix<T, Device>::LocalMatrix(LocalMatrix&&) noexcept = default;                                           \
  template <>                                                                                                      \
  void LocalMatrix<T, Device>::multiply(const T* x, T* y, int columns, const comm::Communicator& comm) const {     \
    s_->multiply(x, y, columns);                                                                                   \
    comm.poll();                                                                                                   \
  }                                                                                                                \
  template <>                                                                                                      \
  LocalRows<T> LocalMatrix<T, Device>::rows() const {                                                              \
    return s_->rows();                                                                                             \
  }                                                                                                                \
  template <>                                                                                                      \
  double LocalMatrix<T, Device>::bytes() const {                                                                   \
    return s_->bytes();                                                                                            \
  }                                                                                                                \
  template <>                                                                                                      \
  std::string LocalMatrix<T, Device>::storage() const {                                                            \
    return s_->storage();                                                                                          \
  }                                                                                                                \
  template <>                                                                                                      \
  RowList<T, Device>::RowList(const LocalRows<T>& a) : column_(on_device(a.column)), value_(on_device(a.value)) {  \
    std::vector<Local> row;                                                                                        \
    std::vector<Global> start{0};                                                                                  \
    for (Local r = 0; r < a.count(); ++r)                                                                          \
      if (a.start[r + 1] > a.start[r]) row.push_back(r), start.push_back(a.start[r + 1]);                          \
    row_ = on_device(row);                                                                                         \
    start_ = on_device(start);                                                                                     \
  }                                                                                                                \
  template <>                                                                                                      \
  void RowList<T, Device>::multiply_add(const T* x, T* y, int columns) const {                                     \
    if (count() == 0) return;                                                                                      \
    /* The lengths of x and y are not known here; the product does not use them. */                                \
    device_product(DeviceCsr<T, Global>{start_.view(), column_.view(), value_.view(), row_.view()},                \
                   exec::View<const T, Device>(x, 0), exec::View<T, Device>(y, 0), columns, Into::add);            \
  }                                                                                                                \
  template <>                                                                                                      \
  double RowList<T, Device>::bytes() const {                                                                       \
    return double(value_.size()) * (sizeof(T) + sizeof(Local)) +                                                   \
           double(row_.size()) * (sizeof(Local) + sizeof(Global));                                                 \
  }                                                                                                                \
  template <>                                                                                                      \
  LocalRows<T> RowList<T, Device>::rows(Local total, Local columns) const {                                        \
    return spread<T>(total, columns, to_host(row_), to_host(start_), to_host(column_), to_host(value_));           \
  }                                                                                                                \
  template <>                                                                                                      \
  void fetch<T, Device>(const T* from, std::size_t n, T* out, const std::function<void()>& meanwhile) {            \
    if (n == 0) return meanwhile();                                                                                \
    const auto there = exec::device_result(n * sizeof(T));                                                         \
    exec::start_copy_to_host(*there, from, n * sizeof(T));                                                         \
    meanwhile();                                                                                                   \
    there->wait();                                                                                                 \
    std::memcpy(static_cast<void*>(out), there->data(), n * sizeof(T));                                            \
  }                                                                                                                \
  template <>                                                                                                      \
  void pack<T, Device>(const T* x, const exec::Array<Local, Device>& index, int columns, T* out,                   \
                       const std::function<void()>& meanwhile) {                                                   \
    const std::size_t n = index.size() * columns;                                                                  \
    if (n == 0) return meanwhile();                                                                                \
    T* const packed = static_cast<T*>(exec::reduction_space(n * sizeof(T), 0).partial);                            \
    exec::device_gather<T>(exec::View<const T, Device>(x, 0), index.view(), exec::View<T, Device>(packed, n),      \
                           columns);                                                                               \
    fetch<T, Device>(packed, n, out, meanwhile);                                                                   \
  }                                                                                                                \
  /* Several neighbours may need the same element: additions are atomic, and the last bits depend on timing. */    \
  template <>                                                                                                      \
  void unpack_add<T, Device>(const T* in, const exec::Array<Local, Device>& index, int columns, T* y) {            \
    const std::size_t n = index.size() * columns;                                                                  \
    if (n == 0) return;                                                                                            \
    T* const packed = static_cast<T*>(exec::reduction_space(n * sizeof(T), 0).partial);                            \
    exec::upload(packed, in, n * sizeof(T));                                                                       \
    exec::device_scatter_add<T>(exec::View<const T, Device>(packed, n), index.view(), exec::View<T, Device>(y, 0), \
                                columns, exec::Indices::repeated);                                                 \
  }                                                                                                                \
  template <>                                                                                                      \
  void receive<T, Device>(const T* in, std::size_t n, exec::Array<T, Device>& out) {                               \
    if (n > 0) exec::upload(out.data(), in, n * sizeof(T));                                                        \
  }                                                                                                                \
  template class Csr<T, Device>;
TACIT_EACH_OF_FOUR(TACIT_SPECIALISE)

}  // namespace tacit::op
