// Sparse products on device memory, for host code: defined in src/op/*_device.cu, in builds with CUDA.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/memory.hpp>

namespace tacit::op {

/// Whether a product overwrites y or adds to it.
enum class Into : bool { overwrite, add };

/// A in compressed rows in device memory, as read by CsrProduct (csr.hpp). Offset is int32 or int64; Column is Local,
/// or int16 for columns counted from the row (with int64 offsets). `row` gives the row of y for each row of A; empty:
/// the same.
template <Scalar T, class Offset, class Column = Local>
struct DeviceCsr {
  exec::View<const Offset, Device> row_begin;  // [rows + 1]
  exec::View<const Column, Device> column;
  exec::View<const T, Device> value;
  exec::View<const Local, Device> row{};
};

/// Rows of a slice of SELL-C-sigma on the device: a warp.
inline constexpr int device_slice_rows = 32;

/// A in SELL-32-sigma in device memory, as read by SellProduct (sell.hpp).
template <Scalar T, class Column = Local>
struct DeviceSell {
  Local rows;
  exec::View<const Global, Device> slice_begin;  // [slices + 1]
  exec::View<const Column, Device> column;
  exec::View<const T, Device> value;
  exec::View<const Local, Device> row{};
};

/// Y = A X (Into::add: Y += A X). X and Y hold `columns` columns side by side, X[j columns + c], in device memory.
/// Enqueued on exec::current_stream(), without waiting or allocating. One pass over A for every 8, 4, 2 or 1 columns:
/// the largest of these, up to 64 bytes of X, that divides `columns`, where x is aligned to 16 bytes. In CSR 1 to 32
/// lanes share a row, depending on the mean row length. Sums within a row have a fixed order. Error(usage) when sizes
/// disagree, or where value, x or y do not start at a multiple of sizeof(T) bytes.
template <Scalar T, class Offset, class Column>
void device_product(const DeviceCsr<T, Offset, Column>& a, exec::View<const T, Device> x, exec::View<T, Device> y,
                    int columns = 1, Into into = Into::overwrite);
template <Scalar T, class Column>
void device_product(const DeviceSell<T, Column>& a, exec::View<const T, Device> x, exec::View<T, Device> y,
                    int columns = 1, Into into = Into::overwrite);

}  // namespace tacit::op
