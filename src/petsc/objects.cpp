#include "objects.hpp"

#include <tacit/op/diagonal.hpp>
#include <tacit/op/noted.hpp>

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

/// What a Mat keeps of csr_of().
struct Rows {
  std::shared_ptr<op::Csr<T>> matrix;
  PetscObjectState state = 0, structure = 0;
  bool ascending = false;  ///< columns: then update_values() takes the numbers in PETSc's order
  std::optional<bool> hermitian;
  int products = 0;  ///< that were left to PETSc
};
/// After so many products by MatMult() a copy of the rows would have paid for itself: it costs as much as 10 to 20 of
/// them, and saves a part of each.
constexpr int worth_a_copy = 100;
PetscErrorCode free_rows(void* rows) {
  delete static_cast<Rows*>(rows);
  return 0;
}
Rows& rows_kept_by(Mat A) {
  PetscContainer container = nullptr;
  void* kept = nullptr;
  ok(PetscObjectQuery(PetscObject(A), "tacit_rows", reinterpret_cast<PetscObject*>(&container)));
  if (container) {
    ok(PetscContainerGetPointer(container, &kept));
    return *static_cast<Rows*>(kept);
  }
  auto made = std::make_unique<Rows>();
  ok(PetscContainerCreate(comm_of(A), &container));
  ok(PetscContainerSetPointer(container, made.get()));
  ok(PetscContainerSetUserDestroy(container, free_rows));
  Rows& rows = *made.release();
  ok(PetscObjectCompose(PetscObject(A), "tacit_rows", PetscObject(container)));
  ok(PetscContainerDestroy(&container));
  return rows;
}

layout::Space space_of(Mat A) {
  PetscInt rows = 0, columns = 0;
  const PetscInt* offsets = nullptr;
  ok(MatGetLocalSize(A, &rows, &columns));
  ok(MatGetOwnershipRanges(A, &offsets));
  const auto& comm = communicator_of(comm_of(A));
  require(comm.all(rows == columns), "a solve needs a square matrix with rows and columns spread alike; rank ",
          comm.rank(), " has ", rows, " rows and ", columns, " columns");
  return layout::Space::distributed(comm, layout::Partition(std::vector<Global>(offsets, offsets + comm.size() + 1)));
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
void take_rows(Mat A, Rows& kept, bool new_numbers_only) {
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

/// Vectors of PETSc that take the elements of Tacit's for the time of a call.
class Borrowed {
 public:
  explicit Borrowed(Mat A) { ok(MatCreateVecs(A, &x_, &y_)); }
  Borrowed(const Borrowed&) = delete;
  ~Borrowed() {
    (void)VecDestroy(&x_);
    (void)VecDestroy(&y_);
  }
  template <class F>
  void call(const T* x, T* y, const F& f) const {
    place(x_, x);
    place(y_, y);
    const PetscErrorCode code = f(x_, y_);
    for (const Vec v : {x_, y_}) each_part(v, [](Vec part) { ok(VecResetArray(part)); });
    ok(code);
  }

 private:
  static void place(Vec v, const T* elements) {
    each_part(v, [&](Vec part) {
      PetscInt count = 0;
      ok(VecGetLocalSize(part, &count));
      ok(VecPlaceArray(part, elements));
      elements += count;
    });
  }
  Vec x_ = nullptr, y_ = nullptr;
};

/// What a solve looks at before it begins: the largest entry, and one that is not finite.
struct Entries {
  double largest = 0;
  std::string fault;
};
/// Of an AIJ matrix: one pass over its values. Collective.
Entries entries_of(Mat A, const comm::Communicator& comm) {
  Mat own = A, others = nullptr;
  const PetscInt* column_of = nullptr;
  PetscBool parallel = PETSC_FALSE;
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
  if (parallel) ok(MatMPIAIJGetSeqAIJ(A, &own, &others, &column_of));
  double largest = 0;
  bool finite = true;
  for (const Mat one : {own, others}) {
    if (!one) continue;
    const Block block(one);
    for (const T value : std::span(block.value, block.entries())) {
      largest = std::max({largest, double(std::abs(real(value))), double(std::abs(std::imag(value)))});
      finite = finite && is_finite(value);
    }
  }
  Entries found{comm.all_max(largest), ""};
  const Global first = comm.all_min(Global(finite ? comm.size() : comm.rank()));
  if (first < comm.size()) found.fault = message("the matrix has a value that is not finite on rank ", first);
  return found;
}

/// y = A x by MatMult(): no copies, and no message but PETSc's own.
class Product : public op::Operator<T, Host> {
 public:
  /// `rows`: what A keeps where it is an AIJ matrix.
  explicit Product(Mat A, Rows* rows = nullptr) : Operator(space_of(A), space_of(A)), A_(A), rows_(rows), vectors_(A) {
    if (rows) entries_ = entries_of(A, range().comm());
    ok(PetscObjectReference(PetscObject(A)));
    ok(MatHasOperation(A, MATOP_GET_DIAGONAL, &has_diagonal_));
  }
  ~Product() override { (void)MatDestroy(&A_); }
  std::string name() const override { return message("PETSc ", PetscObject(A_)->type_name); }
  double largest() const override { return entries_.largest; }
  std::string fault() const override { return entries_.fault; }
  bool has_diagonal() const override { return has_diagonal_; }
  std::vector<T> diagonal() const override {
    std::vector<T> d(std::size_t(range().local_size())), unused(d.size());
    vectors_.call(unused.data(), d.data(), [&](Vec, Vec y) { return MatGetDiagonal(A_, y); });
    return d;
  }

 protected:
  int begin(const Vector<T>&, Vector<T>&, bool) const override { return 0; }
  void finish(const Vector<T>& x, Vector<T>& y, bool, int) const override {
    require(x.columns() == 1, "PETSc's product has one column, not ", x.columns());
    vectors_.call(x.data(), y.data(), [&](Vec from, Vec to) { return MatMult(A_, from, to); });
    if (rows_) ++rows_->products;
  }

 private:
  Mat A_;
  Rows* rows_;
  Entries entries_;
  Borrowed vectors_;
  PetscBool has_diagonal_ = PETSC_FALSE;
};

/// y = PCApply(x). Belongs to one solve, which the PC outlives.
class Precond : public op::Operator<T, Host>, public op::Varying {
 public:
  Precond(PC pc, const layout::Space& space) : Operator(space, space), pc_(pc), vectors_(pc->pmat) {
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
    vectors_.call(x.data(), y.data(), [&](Vec from, Vec to) { return PCApply(pc_, from, to); });
  }

 private:
  PC pc_;
  Borrowed vectors_;
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

std::shared_ptr<op::Csr<T>> csr_of(Mat A) {
  PetscBool sequential = PETSC_FALSE, parallel = PETSC_FALSE;
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATSEQAIJ, &sequential));
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
  if (!sequential && !parallel) return nullptr;
  Rows& kept = rows_kept_by(A);
  PetscObjectState state = 0, structure = 0;
  ok(PetscObjectStateGet(PetscObject(A), &state));
  ok(MatGetNonzeroState(A, &structure));
  const bool same_places = kept.matrix && kept.structure == structure && (parallel || kept.ascending);
  if (kept.matrix && kept.state == state && kept.structure == structure) return kept.matrix;
  kept.hermitian.reset();
  take_rows(A, kept, same_places);
  kept.state = state, kept.structure = structure;
  return kept.matrix;
}

std::shared_ptr<op::Csr<T>> csr_by_force(Mat A) {
  if (auto rows = csr_of(A)) return rows;
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
  Rows& kept = rows_kept_by(A);
  if (!kept.hermitian) kept.hermitian = op::is_hermitian(*rows);
  return *kept.hermitian;
}

std::shared_ptr<const op::Operator<T, Host>> operator_of(Mat A, PC pc) {
  PetscBool sequential = PETSC_FALSE, parallel = PETSC_FALSE, none = PETSC_FALSE, jacobi = PETSC_FALSE;
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATSEQAIJ, &sequential));
  ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
  if (!sequential && !parallel) return std::make_shared<Product>(A);
  ok(PetscObjectTypeCompare(PetscObject(pc), PCNONE, &none));
  ok(PetscObjectTypeCompare(PetscObject(pc), PCJACOBI, &jacobi));
  Rows& kept = rows_kept_by(A);
  if (none || jacobi || is_of_tacit(pc) || kept.matrix || kept.products >= worth_a_copy) return csr_of(A);
  return std::make_shared<Product>(A, &kept);
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
