// Vectors of PETSc without elements of their own, for calls with those of Tacit's vectors.
#pragma once

#include "objects.hpp"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::petsc {

/// A pair of vectors that a Mat maps from and to, which take the elements of Tacit's for the time of a call.
class Borrowed {
 public:
  explicit Borrowed(Mat A) {
    if (has_plain_vectors(A)) make_without_elements(A);
    else ok(MatCreateVecs(A, &x_, &y_));
  }
  Borrowed(const Borrowed&) = delete;
  ~Borrowed() {
    (void)VecDestroy(&x_);
    (void)VecDestroy(&y_);
  }
  /// f(x, y) for the elements at x and y.
  template <class F>
  void call(const T* x, T* y, const F& f) const {
    place(x_, x);
    place(y_, y);
    const PetscErrorCode code = f(x_, y_);
    for (const Vec v : {x_, y_}) each_part(v, [](Vec part) { ok(VecResetArray(part)); });
    ok(code);
  }
  /// f(y) for the elements at y.
  template <class F>
  void write(T* y, const F& f) const {
    place(y_, y);
    const PetscErrorCode code = f(y_);
    each_part(y_, [](Vec part) { ok(VecResetArray(part)); });
    ok(code);
  }

 private:
  /// Whether MatCreateVecs() makes vectors of processors, which may be made without elements as well.
  static bool has_plain_vectors(Mat A) {
    VecType type = nullptr;
    PetscBool sequential = PETSC_FALSE, parallel = PETSC_FALSE;
    ok(PetscObjectBaseTypeCompare(PetscObject(A), MATSEQAIJ, &sequential));
    ok(PetscObjectBaseTypeCompare(PetscObject(A), MATMPIAIJ, &parallel));
    ok(MatGetVecType(A, &type));
    if (!type || (!sequential && !parallel)) return false;
    for (const char* const plain : {VECSTANDARD, VECSEQ, VECMPI})
      if (std::strcmp(type, plain) == 0) return true;
    return false;
  }
  void make_without_elements(Mat A) {
    PetscInt rows = 0, columns = 0, all_rows = 0, all_columns = 0, row_block = 1, column_block = 1;
    int ranks = 1;
    ok(MatGetLocalSize(A, &rows, &columns));
    ok(MatGetSize(A, &all_rows, &all_columns));
    ok(MatGetBlockSizes(A, &row_block, &column_block));
    MPI_Comm_size(comm_of(A), &ranks);
    const auto make = [&](PetscInt block, PetscInt count, PetscInt all, Vec* v) {
      if (ranks == 1) ok(VecCreateSeqWithArray(comm_of(A), block, count, nullptr, v));
      else ok(VecCreateMPIWithArray(comm_of(A), block, count, all, nullptr, v));
    };
    make(column_block, columns, all_columns, &x_);
    make(row_block, rows, all_rows, &y_);
  }
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

/// The pairs of a Mat that nobody uses at the moment. A pair has one user at a time, and solves may be nested.
class Pairs : public std::enable_shared_from_this<Pairs> {
 public:
  using Loan = std::shared_ptr<const Borrowed>;
  /// A pair, which comes back when the loan ends. Collective.
  Loan lend(Mat A) {
    std::unique_ptr<Borrowed> pair;
    if (free_.empty()) pair = std::make_unique<Borrowed>(A);
    else pair = std::move(free_.back()), free_.pop_back();
    return Loan(pair.release(), [pairs = shared_from_this()](Borrowed* p) { pairs->free_.emplace_back(p); });
  }

 private:
  std::vector<std::unique_ptr<Borrowed>> free_;
};

}  // namespace tacit::petsc
