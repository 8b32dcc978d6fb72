// Csr: a sparse matrix distributed by rows. A rank stores the entries in own columns separately from those in ghost
// columns, and multiplies the former while the halo exchange is in flight.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/local_matrix.hpp>
#include <tacit/op/operator.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::op {

/// The rows of one rank in compressed form; column indices are global, ascending and unique in each row.
template <Scalar T>
struct Rows {
  std::vector<Global> start{0};  ///< row i's entries are [start[i], start[i + 1])
  exec::Buffer<Global> column;
  exec::Buffer<T> value;
  Local count() const { return Local(start.size()) - 1; }
};

/// The rows of one rank in arrays of another owner: row i has the entries [start[i], start[i + 1]) of `column` (global
/// indices) and `value`, in any order; duplicates are added. Index is std::int32_t or std::int64_t.
template <Scalar T, class Index>
struct RowsView {
  std::span<const Global> start;  ///< from 0
  std::span<const Index> column;
  std::span<const T> value;
  Local count() const { return Local(start.size()) - 1; }
};

/// Sorts each row by its columns and adds duplicates in their order, in place. Local; memory of the longest row.
template <Scalar T>
void sort_rows(Rows<T>& rows);

/// The rows of this rank, from entries given in any order on any rank (global indices): each entry is sent to the owner
/// of its row, and duplicates are summed. Error(usage) when an index is out of range. Collective; one message to each
/// rank that owns rows of entries held here. Memory: the rows, and the entries that are sent or received.
template <Scalar T>
Rows<T> assemble(const comm::Communicator& comm, const layout::Partition& rows, Global columns,
                 std::span<const Global> row, std::span<const Global> column, std::span<const T> value);

/// The rows `needed` (ascending) of a matrix distributed as `space`, fetched from their owners; `own` are this rank's
/// rows. Collective; two messages for each pair of ranks of which one needs a row of the other.
template <Scalar T>
Rows<T> rows_of_others(const Space& space, const Rows<T>& own, std::span<const Global> needed);

template <Scalar T, Memory M = Host>
class Csr;
template <Scalar T>
class RowsAround;  // private: src/op/rows_around.hpp
template <Scalar T>
bool is_hermitian(const Csr<T, Host>& A);

/// y = A x and y = A^H x for a sparse matrix; the parts for the adjoint are made at the first adjoint product. Cost:
/// the stored matrix and both vectors once, one exchange. Memory: the stored matrix and, in host memory, its diagonal.
/// On the device an adjoint product adds ghosts by atomics, so its last bits may vary.
template <Scalar T, Memory M>
class Csr final : public Operator<T, M> {
 public:
  /// Collective. rows.count() must be range.local_size(), and columns indices of the domain.
  /// Error(usage) on indices out of range or not ascending. A value that is not finite becomes fault().
  Csr(Space range, Space domain, Rows<T> rows, Format format = Format::automatic);
  /// The same from arrays that stay the caller's. On one rank ascending 32-bit columns are read in place; otherwise
  /// memory for a copy of the columns, and of the values on several ranks or where columns do not ascend.
  Csr(Space range, Space domain, RowsView<T, std::int32_t> rows, Format format = Format::automatic);
  Csr(Space range, Space domain, RowsView<T, std::int64_t> rows, Format format = Format::automatic);
  ~Csr() override;

  std::string name() const override { return "csr"; }
  bool has_adjoint() const override { return true; }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override;
  /// On one rank, in host memory, a banded matrix is read once for all steps (LocalMatrix::powers).
  void powers(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
              const Vector<T, M>* before = nullptr) const override;
  Cost cost() const override;
  Cost adjoint_cost() const override;
  bool as_tasks() const override { return true; }
  /// True in host memory. Adjoint products, and all products under the task engine, use the overlapped schedule.
  bool has_schedules() const override { return std::same_as<M, Host>; }
  /// True in host memory, where range and domain are equal.
  bool has_powers_kernel() const override;
  /// Ghost rows are summed in the order of their owners' rows: real results equal those of single products bit for bit,
  /// complex ones and those of dense blocks (BSR), on several ranks, differ by rounding. The first call stores the
  /// rows of steps.size() - 1 levels of ghosts; each diagonal adds one value for each ghost to the exchange.
  void powers_kernel(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
                     const Vector<T, M>* before = nullptr, const Diagonals<T, M>& around = {},
                     std::span<Vector<T, M>* const> images = {}) const override;

  /// Stored entries over all ranks, and on this rank.
  Global entries() const { return entries_; }
  Global own_entries() const { return own_entries_; }
  /// max_ij max(|Re a_ij|, |Im a_ij|) over all ranks.
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  /// Of all that products read in host memory: entries, their places, and what is exchanged with other ranks.
  bool intact() const override;
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;
  /// The unknowns in a node of a system of equations: the largest b from 2 to 6 with which, for nodes i, j of unknowns
  /// b i .. b i + b - 1 and b j .. b j + b - 1 that are coupled, nine tenths of the b x b entries are there; else 1.
  /// From a sample of this rank's own columns, the same for any number of threads. Collective. Host.
  int unknowns_in_a_node() const requires std::same_as<M, Host>;
  /// Of a square matrix: the sum of all |a_ij| with i != j, and of those where Re(a_ij conj(a_ii)) > 0; with b unknowns
  /// in a node only between those of the same kind, where b divides i - j. Collective; one reduction, one pass. Host.
  std::array<double, 2> couplings(int b = 1) const requires std::same_as<M, Host>;
  /// The number of entries of each of this rank's rows. Host.
  std::vector<Local> row_lengths() const requires std::same_as<M, Host>;
  /// This rank's rows with global columns, rebuilt from the storage at each call.
  Rows<T> rows() const;
  /// Copies the values of this rank's own_entries() entries, in the order of rows(). Local. Host.
  void copy_values(T* to) const requires std::same_as<M, Host>;
  /// Replaces the values of this rank's entries, in the order of rows(); the structure stays. The operator is then, bit
  /// for bit, what the constructor would make of these numbers; the parts for the adjoint and for powers_kernel() are
  /// made anew at their next use. Preconditioners made from the matrix before keep the old numbers (polynomials, which
  /// multiply by it, use both: make them anew, or call Amg::update()). Host memory. Collective; one pass, no messages
  /// but three reductions. Error(usage): another number of values. A value that is not finite becomes fault().
  void update_values(std::span<const T> values) requires std::same_as<M, Host>;
  /// Becomes `other`, a matrix of the same spaces, in place: what refers to this operator multiplies by it from now on.
  /// Not while a product is pending. Error(usage): other spaces. Local.
  void become(Csr&& other);
  /// How often become() has given it other arrays, for what keeps their addresses. Local.
  std::int64_t times_replaced() const { return times_replaced_; }
  /// This rank's diagonal block (rows and columns that it owns, local indices), for block preconditioners.
  LocalRows<T> own_block() const;
  /// Rows and columns [first, first + count) of it, numbered from 0, also as three parts. Local. Host.
  LocalRows<T> own_block(Local first, Local count) const requires std::same_as<M, Host>;
  SplitRows<T> split_own_block(Local first, Local count, bool with_upper) const requires std::same_as<M, Host>;
  /// Its entries, and whether it is Hermitian to rounding (op/hermitian.hpp). Local. Host.
  Global own_block_entries() const requires std::same_as<M, Host>;
  bool own_block_is_hermitian() const requires std::same_as<M, Host>;
  /// The storage of this rank's entries, where it has all of them: on one rank; null on several ranks. Local. Host.
  const LocalMatrix<T, M>* whole() const requires std::same_as<M, Host>;
  /// This rank's rows with those around them, for so many products after one exchange. Null on all ranks where rows and
  /// columns are spread differently, or where a rank would have more rows of others than own ones. Made at the first
  /// call, and kept until values change. Collective. Host.
  const RowsAround<T>* rows_around(int products) const requires std::same_as<M, Host>;
  const comm::Pattern& pattern() const { return *pattern_; }
  /// The storage as text: "sell-8 (16-bit offsets)".
  std::string storage() const;
  /// The format given to the constructor; storage() has the one used.
  Format format() const;

 protected:
  int begin(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  friend bool is_hermitian<T>(const Csr<T, Host>&);
  struct Parts;
  /// Stores these rows, whose columns ascend; frees `owned`, the arrays that they view. Null: they may stand in any
  /// order, and are sorted in a copy.
  template <class Index>
  void store(RowsView<T, Index> rows, Rows<T>* owned, Format format);
  comm::Exchange& exchange(int columns) const;
  bool finish_scheduled(const Schedule& schedule, const Vector<T, M>& x, Vector<T, M>& y, int slot) const;
  void build_adjoint() const;
  void remember_arrays();
  void find_largest(std::span<const T> values, const std::string& fault);
  std::string fault_at(Global k) const;
  Global entries_ = 0, own_entries_ = 0;
  std::int64_t times_replaced_ = 0;
  double largest_ = 0;
  std::string fault_;
  std::shared_ptr<const comm::Pattern> pattern_;
  std::unique_ptr<Parts> parts_;
};

/// Whether A = A^H to rounding (op/hermitian.hpp), checked entry by entry; false where rows and columns are spread
/// differently. Collective; the entries in columns of other ranks are sent once or twice. Memory: a number for each
/// row, and these entries.
template <Scalar T>
bool is_hermitian(const Csr<T, Host>& A);

}  // namespace tacit::op
