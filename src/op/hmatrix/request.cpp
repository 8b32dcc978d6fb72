#include <tacit/op/hmatrix/on_devices.hpp>
#include <tacit/op/hmatrix/request.hpp>

namespace tacit::op {

std::span<const Option<HMatrixRequest>> hmatrix_options() {
  using O = HMatrixRequest;
  using M = HMatrixOptions;
  static const std::vector<Option<O>> all{
      option<O>("tolerance", within(&O::matrix, &M::tolerance), positive(),
                "relative error of the matrix, in the Frobenius norm"),
      option<O>("measure", within(&O::matrix, &M::measure),
                "the error is that of the whole matrix, or of every block by itself, which is stricter"),
      option<O>("storage", within(&O::matrix, &M::storage),
                "automatic: the lowest of float64, float32 and 16 bits that keeps the tolerance, block by block and "
                "column by column; single: without 16 bits; full: the scalar's own"),
      option<O>("compression", within(&O::matrix, &M::compress, &CompressOptions::method),
                "crosses (aca+, aca) or the singular values of all entries (svd)"),
      option<O>("admissibility", within(&O::matrix, &M::admissibility, &Admissibility::kind),
                "blocks are far where the smaller or the larger diameter is at most eta times the distance; weak: "
                "where they do not overlap; none: nowhere"),
      option<O>("eta", within(&O::matrix, &M::admissibility, &Admissibility::eta), positive(),
                "a block is far where its diameter is at most so many times the distance")
          .needing("admissibility=smaller,larger"),
      option<O>("leaf_size", &O::leaf_size, at_least(1, "point"), "largest number of points of a leaf cluster",
                "64; with nested bases 32"),
      option<O>("bisection", within(&O::tree, &TreeOptions::bisection),
                "clusters are cut into halves of equal number, or of equal size"),
      option<O>("recompress", within(&O::matrix, &M::compress, &CompressOptions::recompress),
                "ranks become those of the singular values of each low-rank block"),
      option<O>("verify", within(&O::matrix, &M::compress, &CompressOptions::verify),
                "rows and columns that no cross has used are sampled before a block is accepted"),
      option<O>("max_rank", within(&O::matrix, &M::compress, &CompressOptions::max_rank), at_least(0, "(0: no limit)"),
                "blocks that need a higher rank stay dense"),
      option<O>("cut_rank", within(&O::matrix, &M::compress, &CompressOptions::cut_rank), at_least(0, "(0: no limit)"),
                "low-rank blocks are truncated to this rank, whatever the error: for preconditioning"),
      option<O>("symmetry", within(&O::matrix, &M::symmetry),
                "symmetric (A = A^T) or hermitian: blocks above the diagonal are neither evaluated nor stored"),
      option<O>("nested", within(&O::matrix, &M::nested),
                "one basis for all far blocks of a cluster, made of those of its children: less memory and faster "
                "products, for smooth kernels"),
      option<O>("sampled_rows", within(&O::matrix, &M::sampled_rows), at_least(1, "row"),
                "rows by which the norm is estimated and the error measured"),
  };
  return all;
}

std::span<const Option<DeviceProductOptions>> device_product_options() {
  using O = DeviceProductOptions;
  static const std::vector<Option<O>> all{
      option<O>("path", &O::path,
                "how vectors travel between the GPUs of a rank: through the host, which waits; through its memory in "
                "pieces, without waiting; over direct links, where there are any"),
      option<O>("deal", &O::deal,
                "of blocks to GPUs: in the order of rows, cut at equal bytes, so that partial results overlap little; "
                "or in turn, the largest first"),
      option<O>(
          "work", &O::work,
          "on vectors: every GPU does all of it, or a part of every sum and of the vectors that no product reads"),
      option<O>("overlap", &O::overlap,
                "in pipelined-bicgstab the host reads sums until the own rows have arrived (pipe1 of Yamazaki et al. "
                "2018), or also while rows are sent to all ranks (pipe2)"),
  };
  return all;
}

}  // namespace tacit::op
