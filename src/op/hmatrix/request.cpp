#include <tacit/op/hmatrix/request.hpp>

namespace tacit::op {

std::span<const Option<HMatrixRequest>> hmatrix_options() {
  using O = HMatrixRequest;
  static const std::vector<Option<O>> all{
      option<O>(
          "tolerance", [](O & o) -> auto& { return o.matrix.tolerance; }, positive(),
          "relative error of the matrix, in the Frobenius norm"),
      option<O>(
          "measure", [](O & o) -> auto& { return o.matrix.measure; },
          "the error is that of the whole matrix, or of every block by itself, which is stricter"),
      option<O>(
          "storage", [](O & o) -> auto& { return o.matrix.storage; },
          "automatic: the lowest of float64, float32 and 16 bits that keeps the tolerance, block by block and "
          "column by column; single: without 16 bits; full: the scalar's own"),
      option<O>(
          "compression", [](O & o) -> auto& { return o.matrix.compress.method; },
          "crosses (aca+, aca) or the singular values of all entries (svd)"),
      option<O>(
          "admissibility", [](O & o) -> auto& { return o.matrix.admissibility.kind; },
          "blocks are far where the smaller or the larger diameter is at most eta times the distance; weak: "
          "where they do not overlap; none: nowhere"),
      option<O>(
          "eta", [](O & o) -> auto& { return o.matrix.admissibility.eta; }, positive(),
          "of the admissibility smaller and larger"),
      option<O>(
          "leaf_size", [](O & o) -> auto& { return o.tree.leaf_size; }, at_least(1, "point"),
          "points of a cluster that is not cut any more"),
      option<O>(
          "bisection", [](O & o) -> auto& { return o.tree.bisection; },
          "clusters are cut into halves of equal number, or of equal size"),
      option<O>(
          "recompress", [](O & o) -> auto& { return o.matrix.compress.recompress; },
          "ranks become those of the singular values of each low-rank block"),
      option<O>(
          "verify", [](O & o) -> auto& { return o.matrix.compress.verify; },
          "rows and columns that the crosses left out are looked at"),
      option<O>(
          "max_rank", [](O & o) -> auto& { return o.matrix.compress.max_rank; }, at_least(0, "(0: no limit)"),
          "blocks that need a higher rank stay dense"),
      option<O>(
          "cut_rank", [](O & o) -> auto& { return o.matrix.compress.cut_rank; }, at_least(0, "(0: no limit)"),
          "low-rank blocks are cut to this rank, whatever the error: a matrix to precondition with"),
      option<O>(
          "symmetry", [](O & o) -> auto& { return o.matrix.symmetry; },
          "symmetric (A = A^T) or hermitian: blocks above the diagonal are neither evaluated nor kept"),
      option<O>(
          "sampled_rows", [](O & o) -> auto& { return o.matrix.sampled_rows; }, at_least(1, "row"),
          "rows by which the norm is estimated and the error measured"),
  };
  return all;
}

}  // namespace tacit::op
