// The product kernels of one rank's part of a sparse matrix, local indices.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/op/recurrence.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::op {

/// Rows in compressed form with local column indices: what local matrices are built from and give back.
template <Scalar T>
struct LocalRows {
  Local columns = 0;
  Global row_begin = 0, column_begin = 0;  ///< in the whole matrix: dense blocks are counted from its row and column 0
  std::vector<Global> start{0};
  std::vector<Local> column{};
  std::vector<T> value{};
  Local count() const { return Local(start.size()) - 1; }
};

/// How the own part is stored. `automatic` takes dense blocks (BSR) where these make the matrix smaller by a twentieth,
/// else SELL-8 where padding stays below a tenth, CSR elsewhere. All store 16-bit column offsets where they reach.
/// `bsr`, of host memory only, finds the block size from 2 to 8 that takes the fewest bytes; entries outside full
/// blocks, and in blocks that ranks share, are kept in rows beside them. No zero is filled in.
enum class Format { automatic, csr, sell, bsr };

/// y = A x, A in SELL-8, CSR or BSR. Column indices are 32-bit numbers or, where the band is narrow enough, 16-bit
/// offsets from the row; where the eight rows of a slice repeat one pattern (grids), one number for a diagonal of them;
/// in BSR one for a block. So a product of doubles moves 12, 10 or 8.6 bytes an entry, with blocks of 3 x 3 8.2.
template <Scalar T, Memory M = Host>
class LocalMatrix {
 public:
  /// Slices of SELL: rows that one SIMD register of doubles holds; a warp on the device.
  static constexpr int slice = std::same_as<M, Host> ? 8 : 32;

  LocalMatrix(const LocalRows<T>& rows, Format format);
  ~LocalMatrix();
  LocalMatrix(LocalMatrix&&) noexcept;

  /// y = A x for k interleaved columns. Polls `comm` between blocks of rows, so that what is in flight advances.
  void multiply(const T* x, T* y, int columns, const comm::Communicator& comm) const;
  /// Blocks of rows that are multiplied as one; where block b begins. Host.
  int blocks() const;
  Local first_row(int block) const;
  /// Rows of blocks [from, to). Host.
  void multiply(int from, int to, const T* x, T* y, int columns) const;
  /// Starts y = A x for one column as tasks; a block of rows waits for the blocks of x that it reads. Host.
  void start(exec::Tasks& tasks, const T* x, T* y) const;
  /// A square matrix: v[c + 1] = (A v[c] - alpha_c v[c] - beta_c v[c - 1]) / gamma_c, v[-1] = `before`. One thread
  /// works on all of them at once, block after block of rows, so that a banded matrix comes from memory once for all
  /// steps.
  void powers(T* const* v, std::span<const RecurrenceStep<T>> steps,
              const T* before) const requires std::same_as<M, Host>;
  LocalRows<T> rows() const;
  double bytes() const;  ///< of the matrix, once
  std::string storage() const;

 private:
  struct Storage;
  std::unique_ptr<Storage> s_;
};

/// Some rows of a matrix: y[row[i]] += A_i x.
template <Scalar T, Memory M = Host>
class RowList {
 public:
  /// The rows of `rows` that have entries.
  explicit RowList(const LocalRows<T>& rows);
  void multiply_add(const T* x, T* y, int columns) const;
  /// The same for rows [begin, end) of y. Host.
  void multiply_add(Local begin, Local end, const T* x, T* y, int columns) const;
  /// Starts y[row[i]] += A_i x as tasks, y of n elements, before all that waits; x is read when they run. Host.
  void start_add(exec::Tasks& tasks, std::shared_ptr<const std::vector<T>> x, T* y, std::size_t n) const;
  /// z_i = A_i x for the rows at these places of the list. Host.
  void multiply(std::span<const Local> places, const T* x, T* z, int columns) const;
  /// y[row[i]] += z_i for places [from, to). Host.
  void add(const T* z, T* y, int columns, Local from, Local to) const;
  /// The first place of the list that stands in this row or a later one. Host.
  Local place(Local row) const {
    return Local(std::lower_bound(row_.data(), row_.data() + count(), row) - row_.data());
  }
  Local row(Local i) const { return row_.data()[i]; }
  /// Columns and values of the i-th row. Host.
  std::span<const Local> columns_of(Local i) const { return part(column_, i); }
  std::span<const T> values_of(Local i) const { return part(value_, i); }
  Local count() const { return Local(row_.size()); }
  Global entries() const { return Global(column_.size()); }
  double bytes() const;
  LocalRows<T> rows(Local total, Local columns) const;

 private:
  template <class V>
  std::span<const V> part(const exec::Array<V, M>& of, Local i) const {
    return {of.data() + start_.data()[i], std::size_t(start_.data()[i + 1] - start_.data()[i])};
  }
  T row_sum(Local i, const T* x, int columns) const;  ///< row i of the list times a column of x, of `columns`
  exec::Array<Local, M> row_;
  exec::Array<Global, M> start_;
  exec::Array<Local, M> column_;
  exec::Array<T, M> value_;
};

/// out[i k + c] = x[index[i] k + c]: packs what a neighbour needs. `out` is host memory; x lives in M.
template <Scalar T, Memory M>
void pack(const T* x, const exec::Array<Local, M>& index, int columns, T* out);
/// y[index[i] k + c] += in[i k + c], in the order of i; `in` is host memory.
template <Scalar T, Memory M>
void unpack_add(const T* in, const exec::Array<Local, M>& index, int columns, T* y);
/// Host memory into M.
template <Scalar T, Memory M>
void receive(const T* in, std::size_t n, exec::Array<T, M>& out);

/// A^H in the same form.
template <Scalar T>
LocalRows<T> adjoint(const LocalRows<T>& a);

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::Format> = named<op::Format>("storage format", {{op::Format::automatic, "automatic"},
                                                                                  {op::Format::csr, "csr"},
                                                                                  {op::Format::sell, "sell"},
                                                                                  {op::Format::bsr, "bsr"}});
}  // namespace tacit
