#include "borrowed.hpp"

#include <tacit/exec/pairs.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/op/noted.hpp>
#include "op/known_signs.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace tacit::petsc {
namespace {

using layout::Vector;

int free_communicator(MPI_Comm, int, void* value, void*) {
  delete static_cast<comm::Communicator*>(value);
  return MPI_SUCCESS;
}
/// The attribute of MPI communicators that keeps Tacit's.
int attribute() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_communicator, &made, nullptr);
    return made;
  }();
  return key;
}

/// What a Mat keeps for the next solve with it.
struct Kept {
  // Of csr_of():
  std::shared_ptr<op::Csr<T>> matrix;
  PetscObjectState state = 0, structure = 0;
  bool ascending = false;  ///< columns: then update_values() takes the numbers in PETSc's order
  std::optional<bool> hermitian;
  // Of its products by MatMult():
  int products = 0;
  PetscObjectState looked_at = -1;  ///< the state that these are of
  double largest = 0;               ///< of this rank; infinite where an entry is not finite
  std::optional<op::Signs> signs;
  std::optional<layout::Space> space;
  std::shared_ptr<Pairs> pairs = std::make_shared<Pairs>();
};
/// After so many products by MatMult() a copy of the rows would have paid for itself: it costs as much as 10 to 20 of
/// them, and saves a part of each.
constexpr int worth_a_copy = 100;
PetscErrorCode free_kept(void* kept) {
  delete static_cast<Kept*>(kept);
  return 0;
}
Kept& kept_by(Mat A) {
  PetscContainer container = nullptr;
  void* found = nullptr;
  ok(PetscObjectQuery(PetscObject(A), "tacit_kept", reinterpret_cast<PetscObject*>(&container)));
  if (container) {
    ok(PetscContainerGetPointer(container, &found));
    return *static_cast<Kept*>(found);
  }
  auto made = std::make_unique<Kept>();
  ok(PetscContainerCreate(comm_of(A), &container));
  ok(PetscContainerSetPointer(container, made.get()));
  ok(PetscContainerSetUserDestroy(container, free_kept));
  Kept& kept = *made.release();
  ok(PetscObjectCompose(PetscObject(A), "tacit_kept", PetscObject(container)));
  ok(PetscContainerDestroy(&container));
  return kept;
}
PetscObjectState state_of(Mat A) {
  PetscObjectState state = 0;
  ok(PetscObjectStateGet(PetscObject(A), &state));
  return state;
}

/// A sequential AIJ matrix, whose arrays are read while this object exists.
class Block {
 public:
  explicit Block(Mat A) : A_(A) {
    PetscBool done = PETSC_FALSE;
    ok(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &rows, &start, &column, &done));
    require(done, "PETSc does not give the rows of a matrix");
    ok(MatSeqAIJGetArrayRead(A, &value));
  }
  Block(const Block&) = delete;
  ~Block() {
    PetscBool done = PETSC_FALSE;
    (void)MatSeqAIJRestoreArrayRead(A_, &value);
    (void)MatRestoreRowIJ(A_, 0, PETSC_FALSE, PETSC_FALSE, &rows, &start, &column, &done);
  }
  std::size_t entries() const { return std::size_t(start[rows]); }
  bool ascends() const {
    for (PetscInt i = 0; i < rows; ++i)
      if (!std::is_sorted(column + start[i], column + start[i + 1])) return false;
    return true;
  }
  PetscInt rows = 0;
  const PetscInt *start = nullptr, *column = nullptr;
  const PetscScalar* value = nullptr;

 private:
  Mat A_;
};

/// This rank's rows of an mpiaij matrix, columns ascending where those of its two blocks do.
op::Rows<T> joined(const Block& own, const Block& others, const PetscInt* column_of, Global first) {
  op::Rows<T> all;
  all.column.reserve(own.entries() + others.entries());
  all.value.reserve(own.entries() + others.entries());
  for (PetscInt i = 0; i < own.rows; ++i) {
    PetscInt k = others.start[i];
    const auto put_others = [&](bool before) {
      for (; k < others.start[i + 1] && (!before || column_of[others.column[k]] < first); ++k)
        all.column.push_back(column_of[others.column[k]]), all.value.push_back(others.value[k]);
    };
    put_others(true);
    for (PetscInt j = own.start[i]; j < own.start[i + 1]; ++j)
      all.column.push_back(first + own.column[j]), all.value.push_back(own.value[j]);
    put_others(false);
    all.start.push_back(Global(all.column.size()));
  }
  return all;
}

/// Fills or updates `kept` from the arrays of a sequential or parallel AIJ matrix. Collective.
void take_rows(Mat A, Kept& kept, bool new_numbers_only) {
  const layout::Space space = new_numbers_only ? kept.matrix->range() : space_of(A);
  Mat own = A, others = nullptr;
  const PetscInt* column_of = nullptr;
  PetscBool parallel = PETSC_FALSE;
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
  if (parallel) ok(MatMPIAIJGetSeqAIJ(A, &own, &others, &column_of));
  const Block inside(own);
  if (!parallel) {
    if (new_numbers_only) return kept.matrix->update_values({inside.value, inside.entries()});
    kept.ascending = inside.ascends();
    const std::vector<Global> start(inside.start, inside.start + inside.rows + 1);
    kept.matrix = std::make_shared<op::Csr<T>>(
        space, space,
        op::RowsView<T, PetscInt>{start, {inside.column, inside.entries()}, {inside.value, inside.entries()}});
    return;
  }
  const Block outside(others);
  const bool ascending = space.comm().all(inside.ascends() && outside.ascends());
  auto rows = joined(inside, outside, column_of, space.begin());
  if (!ascending) op::sort_rows(rows);
  if (new_numbers_only) return kept.matrix->update_values(rows.value);
  kept.ascending = ascending;
  kept.matrix = std::make_shared<op::Csr<T>>(space, space, std::move(rows));
}

/// The largest magnitude among this rank's entries of an AIJ matrix, infinite where one is not finite. One pass over
/// its values. Local.
double largest_of(Mat A) {
  Mat own = A, others = nullptr;
  const PetscInt* column_of = nullptr;
  PetscBool parallel = PETSC_FALSE;
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
  if (parallel) ok(MatMPIAIJGetSeqAIJ(A, &own, &others, &column_of));
  double largest = 0;
  for (const Mat one : {own, others}) {
    if (!one) continue;
    const Block block(one);
    const auto* const parts = reinterpret_cast<const real_t<T>*>(block.value);
    const std::size_t count = block.entries() * (sizeof(T) / sizeof(real_t<T>));
    largest = std::max(largest, exec::largest_magnitude<real_t<T>, Host>(parts, count));
  }
  return largest;
}

/// y = A x by MatMult(): no copies, and no message but PETSc's own.
class Product : public op::Operator<T, Host>, public op::KnowsSigns {
 public:
  /// `has_entries`: A is an AIJ matrix, whose entries are looked at once for their numbers.
  Product(Mat A, const layout::Space& space, bool has_entries)
      : Operator(space, space), A_(A), kept_(kept_by(A)), vectors_(kept_.pairs->lend(A)), knows_state_(has_entries) {
    ok(PetscObjectReference(PetscObject(A)));
    ok(MatHasOperation(A, MATOP_GET_DIAGONAL, &has_diagonal_));
    if (has_entries) look_at_entries();
  }
  ~Product() override { (void)MatDestroy(&A_); }
  std::string name() const override { return message("PETSc ", PetscObject(A_)->type_name); }
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  bool has_diagonal() const override { return has_diagonal_; }
  std::vector<T> diagonal() const override {
    std::vector<T> d(std::size_t(range().local_size()));
    vectors_->write(d.data(), [&](Vec y) { return MatGetDiagonal(A_, y); });
    return d;
  }
  op::Signs signs_of_diagonal() const override {
    if (!knows_state_) return op::signs_of(diagonal());
    if (!kept_.signs) kept_.signs = op::signs_of(diagonal());
    return *kept_.signs;
  }

 protected:
  int begin(const Vector<T>&, Vector<T>&, bool) const override { return 0; }
  void finish(const Vector<T>& x, Vector<T>& y, bool, int) const override {
    require(x.columns() == 1, "PETSc's product has one column, not ", x.columns());
    vectors_->call(x.data(), y.data(), [&](Vec from, Vec to) { return MatMult(A_, from, to); });
    ++kept_.products;
  }

 private:
  void look_at_entries() {
    if (const PetscObjectState now = state_of(A_); kept_.looked_at != now)
      kept_.largest = largest_of(A_), kept_.signs.reset(), kept_.looked_at = now;
    const auto& comm = range().comm();
    largest_ = comm.all_max(kept_.largest);
    if (std::isfinite(largest_)) return;
    const Global first = comm.all_min(Global(std::isfinite(kept_.largest) ? comm.size() : comm.rank()));
    fault_ = message("the matrix has a value that is not finite on rank ", first);
  }

  Mat A_;
  Kept& kept_;
  Pairs::Loan vectors_;
  bool knows_state_;
  double largest_ = 0;
  std::string fault_;
  PetscBool has_diagonal_ = PETSC_FALSE;
};

/// y = PCApply(x). Belongs to one solve, which the PC outlives.
class Precond : public op::Operator<T, Host>, public op::Varying {
 public:
  Precond(PC pc, const layout::Space& space)
      : Operator(space, space), pc_(pc), vectors_(kept_by(pc->pmat).pairs->lend(pc->pmat)) {
    PetscBool is_ksp = PETSC_FALSE;
    ok(PetscObjectTypeCompare(PetscObject(pc), PCKSP, &is_ksp));
    varies_ = is_ksp;
  }
  std::string name() const override { return message("PETSc ", PetscObject(pc_)->type_name); }
  bool varies() const override { return varies_; }

 protected:
  int begin(const Vector<T>&, Vector<T>&, bool) const override { return 0; }
  void finish(const Vector<T>& x, Vector<T>& y, bool, int) const override {
    require(x.columns() == 1, "PETSc's preconditioner has one column, not ", x.columns());
    vectors_->call(x.data(), y.data(), [&](Vec from, Vec to) { return PCApply(pc_, from, to); });
  }

 private:
  PC pc_;
  Pairs::Loan vectors_;
  bool varies_ = false;
};

}  // namespace

void copy_from(Vec v, T* to) {
  each_part(v, [&](Vec part) {
    PetscInt count = 0;
    const PetscScalar* values = nullptr;
    ok(VecGetLocalSize(part, &count));
    ok(VecGetArrayRead(part, &values));
    to = std::copy_n(values, count, to);
    ok(VecRestoreArrayRead(part, &values));
  });
}
void copy_to(const T* from, Vec v) {
  each_part(v, [&](Vec part) {
    PetscInt count = 0;
    PetscScalar* values = nullptr;
    ok(VecGetLocalSize(part, &count));
    ok(VecGetArrayWrite(part, &values));
    std::copy_n(from, count, values);
    from += count;
    ok(VecRestoreArrayWrite(part, &values));
  });
}

layout::Space space_of(Mat A) {
  const PetscInt *rows = nullptr, *columns = nullptr;
  ok(MatGetOwnershipRanges(A, &rows));
  ok(MatGetOwnershipRangesColumn(A, &columns));
  auto& kept = kept_by(A).space;
  const auto& comm = communicator_of(comm_of(A));
  const int ranks = comm.size(), rank = comm.rank();
  if (kept && std::equal(rows, rows + ranks + 1, kept->partition().offsets().begin())) return *kept;
  // Every rank has the ranges of all.
  require(std::equal(rows, rows + ranks + 1, columns),
          "a solve needs a square matrix with rows and columns spread alike; rank ", rank, " has ",
          rows[rank + 1] - rows[rank], " rows and ", columns[rank + 1] - columns[rank], " columns");
  kept = layout::Space::distributed(comm, layout::Partition(std::vector<Global>(rows, rows + ranks + 1)));
  return *kept;
}

const comm::Communicator& communicator_of(MPI_Comm comm) {
  void* kept = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, attribute(), &kept, &found);
  if (!found) {
    auto made = std::make_unique<comm::Communicator>(comm::mpi_from_fortran(int(MPI_Comm_c2f(comm))));
    MPI_Comm_set_attr(comm, attribute(), made.get());
    kept = made.release();
  }
  return *static_cast<comm::Communicator*>(kept);
}

std::shared_ptr<op::Csr<T>> csr_of(Mat A, const std::shared_ptr<op::Csr<T>>& own) {
  PetscBool sequential = PETSC_FALSE, parallel = PETSC_FALSE;
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATSEQAIJ, &sequential));
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
  if (!sequential && !parallel) return nullptr;
  Kept& kept = kept_by(A);
  const PetscObjectState state = state_of(A);
  PetscObjectState structure = 0;
  ok(MatGetNonzeroState(A, &structure));
  const bool same_places = kept.matrix && kept.structure == structure && (parallel || kept.ascending);
  if (kept.matrix && kept.state == state && kept.structure == structure) return kept.matrix;
  kept.hermitian.reset();
  // A preconditioner that PETSc does not set up again (KSPSetReusePreconditioner(), lagged ones of SNES) multiplies by
  // the numbers that it was made of: these stay its own.
  const bool is_shared = kept.matrix.use_count() > (own == kept.matrix ? 2 : 1);
  take_rows(A, kept, communicator_of(comm_of(A)).all(same_places && !is_shared));
  kept.state = state, kept.structure = structure;
  return kept.matrix;
}

std::shared_ptr<op::Csr<T>> csr_by_force(Mat A, const std::shared_ptr<op::Csr<T>>& own) {
  if (auto rows = csr_of(A, own)) return rows;
  Mat converted = nullptr;
  ok(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &converted));
  const std::unique_ptr<Mat, void (*)(Mat*)> owner(&converted, [](Mat* m) { (void)MatDestroy(m); });
  auto rows = csr_of(converted);
  require(bool(rows), "PETSc converts a matrix of type ", PetscObject(A)->type_name, " to ",
          PetscObject(converted)->type_name, ", not to AIJ");
  return rows;
}

bool is_hermitian(Mat A) {
  const auto rows = csr_of(A);
  Kept& kept = kept_by(A);
  if (!kept.hermitian) kept.hermitian = op::is_hermitian(*rows);
  return *kept.hermitian;
}

std::shared_ptr<const op::Operator<T, Host>> operator_of(Mat A, PC pc) {
  PetscBool sequential = PETSC_FALSE, parallel = PETSC_FALSE, none = PETSC_FALSE, jacobi = PETSC_FALSE;
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATSEQAIJ, &sequential));
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
  if (!sequential && !parallel) return std::make_shared<Product>(A, space_of(A), false);
  ok(PetscObjectTypeCompare(PetscObject(pc), PCNONE, &none));
  ok(PetscObjectTypeCompare(PetscObject(pc), PCJACOBI, &jacobi));
  Kept& kept = kept_by(A);
  if (none || jacobi || is_of_tacit(pc) || kept.matrix || kept.products >= worth_a_copy) return csr_of(A);
  return std::make_shared<Product>(A, space_of(A), true);
}

std::shared_ptr<const op::Operator<T, Host>> operator_of(PC pc, const layout::Space& space) {
  PetscBool none = PETSC_FALSE, jacobi = PETSC_FALSE;
  ok(PetscObjectTypeCompare(PetscObject(pc), PCNONE, &none));
  ok(PetscObjectTypeCompare(PetscObject(pc), PCJACOBI, &jacobi));
  if (none) return nullptr;
  if (is_of_tacit(pc)) return operator_of_tacit(pc);
  auto applied = std::make_shared<Precond>(pc, space);
  if (!jacobi) return applied;
  // The diagonal itself, which methods fold into their sweeps.
  Vector<T> ones(space), inverse(space);
  layout::fill(ones, T(1));
  applied->apply(ones, inverse);
  return std::make_shared<op::Diagonal<T>>(std::move(inverse), "PETSc jacobi");
}

}  // namespace tacit::petsc
