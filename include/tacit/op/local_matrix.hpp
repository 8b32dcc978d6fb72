// LocalMatrix and RowList: storage and products of one rank's part of a sparse matrix, with local indices.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/op/recurrence.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::op {

/// Rows in compressed form with local column indices: LocalMatrix is built from them, and rows() returns them.
template <Scalar T>
struct LocalRows {
  Local columns = 0;
  Global row_begin = 0, column_begin = 0;  ///< global indices of row and column 0; dense blocks are aligned globally
  std::vector<Global> start{0};
  std::vector<Local> column{};
  std::vector<T> value{};
  Local count() const { return Local(start.size()) - 1; }
};

/// A square block as its strictly lower part, its diagonal (zero where there is no entry) and its strictly upper part.
template <Scalar T>
struct SplitRows {
  LocalRows<T> lower, upper;
  std::vector<T> diagonal{};
};

/// Rows over arrays of another owner; columns ascend in each row, and start[0] is 0.
template <Scalar T>
struct LocalRowsView {
  Local columns = 0;
  Global row_begin = 0, column_begin = 0;
  std::span<const Global> start;
  std::span<const Local> column;
  std::span<const T> value;
  LocalRowsView() = default;
  LocalRowsView(const LocalRows<T>& a)
      : columns(a.columns),
        row_begin(a.row_begin),
        column_begin(a.column_begin),
        start(a.start),
        column(a.column),
        value(a.value) {}
  Local count() const { return Local(start.size()) - 1; }
};

/// How the entries in the rank's own columns are stored. `automatic`: dense blocks (BSR) where these save a twentieth
/// of bytes, else SELL-8 where padding adds at most half (complex, device: SELL-32: a tenth), else CSR; 16-bit offsets
/// where these suffice. `bsr`, in host memory only, uses the block size from 2 to 8 that takes the fewest bytes;
/// entries outside full blocks, and of blocks that ranks share, are stored by rows. No zeros are filled in.
enum class Format { automatic, csr, sell, bsr };

/// y = A x, A in SELL-8, CSR or BSR. Column indices are 32-bit numbers or, where the band is narrow enough, 16-bit
/// offsets from the row. A slice whose eight rows have one pattern (grids) has one index for each diagonal, BSR one for
/// each block. A product of doubles thus reads 12, 10 or 8.6 bytes for an entry, and 8.2 with blocks of 3 x 3. Within
/// 8,192 rows, equal slices share one copy of their pattern, or of their values: a grid of constant coefficients takes
/// 2 bytes a row. In SELL and CSR real values are float or bfloat16 where all are exact there: products have the same
/// bits. Kourtis, Goumas, Koziris (2008), Proceedings of Computing Frontiers.
template <Scalar T, Memory M = Host>
class LocalMatrix {
 public:
  /// Rows of a slice of SELL: the doubles of a 64-byte register; on the device a warp.
  static constexpr int slice = std::same_as<M, Host> ? 8 : 32;

  /// Copies the entries into the storage; on the host by all threads, and reads them twice.
  LocalMatrix(const LocalRowsView<T>& rows, Format format);
  ~LocalMatrix();
  LocalMatrix(LocalMatrix&&) noexcept;

  /// y = A x for interleaved columns. Polls `comm` between blocks of rows, so that messages in flight advance. Local.
  void multiply(const T* x, T* y, int columns, const comm::Communicator& comm) const;
  /// The number of blocks of rows that are multiplied as units, and the first row of a block. Host.
  int blocks() const;
  Local first_row(int block) const;
  /// Rows of blocks [from, to). Host.
  void multiply(int from, int to, const T* x, T* y, int columns) const;
  /// The rows of a block of A x, one column, into an array that begins with them. Host.
  void multiply_block(int block, const T* x, T* y) const;
  /// The same for two vectors, whose products have the same bits as those one by one. Host.
  void multiply_block(int block, const std::array<const T*, 2>& x, const std::array<T*, 2>& y) const;
  /// The first of the blocks whose rows are read by the rows of this block or of later ones. A is square. Host.
  int lowest(int block) const;
  /// So many blocks from the first on have all rows that the rows of this block and those before it read, and all rows
  /// that read one of these. A is square. Host.
  int needs(int block) const;
  /// Starts y = A x for one column as tasks; each block of rows waits for the blocks of x that it reads. Host.
  void start(exec::Tasks& tasks, const T* x, T* y) const;
  /// For a square matrix: v[c + 1] = (A v[c] - alpha_c v[c] - beta_c v[c - 1]) / gamma_c, v[-1] = `before`. All
  /// steps advance together, block of rows after block of rows, so that a banded matrix is read from memory once; the
  /// same bits for any number of threads.
  void powers(T* const* v, std::span<const RecurrenceStep<T>> steps,
              const T* before) const requires std::same_as<M, Host>;
  LocalRows<T> rows() const;
  /// The same into arrays of the caller: row i from `begin[i]` on, columns counted from `shift`. Host.
  void copy_rows(const Global* begin, Global shift, Global* column, T* value) const requires std::same_as<M, Host>;
  /// Values alone; `begin` may be null: all rows in turn. Host.
  void copy_values(const Global* begin, T* to) const requires std::same_as<M, Host>;
  /// Rows and columns [first, first + count), numbered from 0. `with_upper`: not only its lower part and diagonal. Two
  /// passes over the storage by all threads; no memory but the result. Host.
  LocalRows<T> block(Local first, Local count) const requires std::same_as<M, Host>;
  SplitRows<T> split_block(Local first, Local count, bool with_upper) const requires std::same_as<M, Host>;
  Global entries() const requires std::same_as<M, Host>;
  /// Whether every entry and its mirror entry agree (op/hermitian.hpp), for a square matrix with these a_ii. Reads the
  /// storage, without a copy, by all threads. Host.
  bool mirrors_itself(std::span<const T> diagonal) const;
  /// Adds to sums[0] all |a_ij| where b divides i - j, which is not 0, to sums[1] those where Re(a_ij conj(a_ii)) > 0,
  /// of a square matrix with these a_ii; same bits for any number of threads. Host.
  void add_couplings(std::span<const T> diagonal, int b, double* sums) const requires std::same_as<M, Host>;
  /// In a sample of the nodes of b unknowns: adds to sums[0] the entries, to sums[1] b^2 for each node that a node is
  /// coupled to. Host.
  void add_node_couplings(int b, double* sums) const requires std::same_as<M, Host>;
  /// Adds the number of entries of each row to count[row]. Host.
  void count_entries(std::span<Local> count) const;
  /// Replaces the values: those of row i, by columns, from values[begin[i]] on; null: of all rows in turn. Stores the
  /// entries (i, i) in diagonal[i], where that is not null. One pass, by all threads. Host.
  void set_values(const Global* begin, const T* values, T* diagonal) requires std::same_as<M, Host>;
  /// Of everything that a product reads. Host.
  std::uint64_t checksum() const requires std::same_as<M, Host>;
  double bytes() const;  ///< of the stored matrix
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
  /// As above, for rows [begin, end) of y. Host.
  void multiply_add(Local begin, Local end, const T* x, T* y, int columns) const;
  /// Starts y[row[i]] += A_i x as tasks that run before the waiting ones; y has n elements. x is read when they run.
  /// Host.
  void start_add(exec::Tasks& tasks, std::shared_ptr<const std::vector<T>> x, T* y, std::size_t n) const;
  /// z_i = A_i x for the rows at these places of the list. Host.
  void multiply(std::span<const Local> places, const T* x, T* z, int columns) const;
  /// y[row[i]] += z_i for places [from, to). Host.
  void add(const T* z, T* y, int columns, Local from, Local to) const;
  /// The first place of the list whose row is this one or a later one. Host.
  Local place(Local row) const {
    return Local(std::lower_bound(row_.data(), row_.data() + count(), row) - row_.data());
  }
  Local row(Local i) const { return row_.data()[i]; }
  /// Columns and values of the i-th row. Host.
  std::span<const Local> columns_of(Local i) const { return part(column_, i); }
  std::span<const T> values_of(Local i) const { return part(value_, i); }
  const T* values() const { return value_.data(); }
  /// Replaces the values, in the order of rows. Host.
  void set_values(const T* values) requires std::same_as<M, Host> { std::copy_n(values, value_.size(), value_.data()); }
  /// Of rows, columns and values. Host.
  std::uint64_t checksum() const requires std::same_as<M, Host> {
    return exec::Checksum().add(row_).add(start_).add(column_).add(value_).value();
  }
  Local count() const { return Local(row_.size()); }
  Global entries() const { return Global(column_.size()); }
  double bytes() const;
  LocalRows<T> rows(Local total, Local columns) const;

 private:
  template <class V>
  std::span<const V> part(const exec::Array<V, M>& of, Local i) const {
    return {of.data() + start_.data()[i], std::size_t(start_.data()[i + 1] - start_.data()[i])};
  }
  T row_sum(Local i, const T* x, int columns) const;  ///< row i of the list times one of x's `columns` columns
  exec::Array<Local, M> row_;
  exec::Array<Global, M> start_;
  exec::Array<Local, M> column_;
  exec::Array<T, M> value_;
};

/// Copies n elements from M to host memory. meanwhile() gives the device its next work, before the host waits for them.
template <Scalar T, Memory M>
void fetch(const T* from, std::size_t n, T* out, const std::function<void()>& meanwhile);
/// The same of out[i k + c] = x[index[i] k + c] for k = `columns`: packs the elements for neighbours.
template <Scalar T, Memory M>
void pack(const T* x, const exec::Array<Local, M>& index, int columns, T* out, const std::function<void()>& meanwhile);
/// y[index[i] k + c] += in[i k + c] for k = `columns`; `in` is in host memory. On the host in the order of i; on the
/// device by atomic additions, so that the last bits may vary.
template <Scalar T, Memory M>
void unpack_add(const T* in, const exec::Array<Local, M>& index, int columns, T* y);
/// Copies n elements from host memory to M, in the order of the device's work; `in` may change on return.
template <Scalar T, Memory M>
void receive(const T* in, std::size_t n, exec::Array<T, M>& out);

/// A^H, also by rows. Local.
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
