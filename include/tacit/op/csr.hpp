// Csr: a sparse matrix whose rows are spread over ranks: a part on own columns, stored for speed, and a part on ghost
// columns. The own part is multiplied while the halo flies.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/local_matrix.hpp>
#include <tacit/op/operator.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::op {

/// Rows of one rank in compressed form, global column indices, ascending and unique in each row.
template <Scalar T>
struct Rows {
  std::vector<Global> start{0};  ///< row i's entries are [start[i], start[i + 1])
  std::vector<Global> column;
  std::vector<T> value;
  Local count() const { return Local(start.size()) - 1; }
};

/// Rows from entries (global indices, any order, any rank): every entry travels to the owner of its row, duplicates are
/// summed. Error(usage) when an index lies outside. Collective; memory and messages grow with the entries held here.
template <Scalar T>
Rows<T> assemble(const comm::Communicator& comm, const layout::Partition& rows, Global columns,
                 std::span<const Global> row, std::span<const Global> column, std::span<const T> value);

template <Scalar T, Memory M = Host>
class Csr final : public Operator<T, M> {
 public:
  /// Collective. rows.count() == range.local_size(); columns lie in the domain.
  /// Error(usage) on indices out of range or not ascending. A value that is not finite becomes fault().
  Csr(Space range, Space domain, Rows<T> rows, Format format = Format::automatic);
  ~Csr() override;

  std::string name() const override { return "csr"; }
  bool has_adjoint() const override { return true; }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override;
  /// On one rank of the host all steps in one pass over a banded matrix (LocalMatrix::powers).
  void powers(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
              const Vector<T, M>* before = nullptr) const override;
  Cost cost() const override;
  Cost adjoint_cost() const override;
  bool as_tasks() const override { return true; }
  /// In host memory; of products with one or several columns. Adjoint ones, and the engine of tasks, are overlapped.
  bool has_schedules() const override { return std::same_as<M, Host>; }
  /// On the host, where rows and columns are spread alike.
  bool has_powers_kernel() const override;
  /// Rows are summed in the order of their owners: real numbers have the products' own bits, complex ones may differ by
  /// rounding (gcc fuses products and sums of one complex loop and not of another). Keeps the rows of steps.size() - 1
  /// levels from its first call on; the diagonals travel with the vector, a value more for each ghost.
  void powers_kernel(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
                     const Vector<T, M>* before = nullptr, const Diagonals<T, M>& around = {},
                     std::span<Vector<T, M>* const> images = {}) const override;

  /// Entries of the matrix, over all ranks.
  Global entries() const { return entries_; }
  /// max_ij |a_ij| over all ranks.
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  /// This rank's rows, global columns; made anew from the storage.
  Rows<T> rows() const;
  /// This rank's square block: rows and columns it owns, local indices; what block preconditioners work on.
  LocalRows<T> own_block() const;
  const comm::Pattern& pattern() const { return *pattern_; }
  /// "sell-8 (16-bit offsets)" and the like.
  std::string storage() const;

 protected:
  int begin(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  struct Parts;
  comm::Exchange& exchange(int columns) const;
  bool finish_scheduled(const Schedule& schedule, const Vector<T, M>& x, Vector<T, M>& y, int slot) const;
  void build_adjoint() const;
  Global entries_ = 0;
  double largest_ = 0;
  std::string fault_;
  std::shared_ptr<const comm::Pattern> pattern_;
  std::unique_ptr<Parts> parts_;
};

/// Whether A = A^H to rounding (op/hermitian.hpp), checked entry by entry. Collective; messages of one or two
/// transpositions.
template <Scalar T>
bool is_hermitian(const comm::Communicator& comm, const layout::Partition& partition, const Rows<T>& rows);

}  // namespace tacit::op
