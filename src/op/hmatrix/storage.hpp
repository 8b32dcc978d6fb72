// Storage of an H-matrix for products: every stored number is read once, in the order of memory.
//
//   t = diag(sigma) V^H x     one task for each low-rank block: V by columns, x in the order of the clusters
//   y = P [x; t]              one task for each panel: up to 64 rows of all dense blocks and all U, by columns; the
//                             sums for the rows of y stay in registers
// Threads write to disjoint elements, so no vectors are needed for each thread, and the order of sums depends on the
// matrix only. A complex column is stored as its real part followed by its imaginary part. Numbers are stored in up to
// three precisions: the scalar's own, float, and 16-bit integers with a scale.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include "kernels.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace tacit::op::detail {

inline constexpr int formats = 3;
enum Format : int { native, single, fixed };

/// A compressed block in its storage formats. Low rank: count[f] columns of U and of V in format f, in the order
/// native, single, fixed. Dense: all columns in one format.
template <Scalar T>
struct Packed {
  using R = real_t<T>;
  Block block;
  Local rank = 0;
  bool dense = false;
  Local count[formats] = {};
  std::tuple<std::vector<R>, std::vector<float>, std::vector<std::int16_t>> data;  // by format: U, then V
  std::vector<double> scale;  ///< factor of each column's product: sigma times the integers' unit
  double norm = 0, error = 0;
  double missed2 = 0;  ///< squared error of sampled entries, see SampledEntries
  double before2 = 0;  ///< squared error before storage, estimated
  /// How low rank was compared with entries: not, by some lines (of which the next two are, see LineErrors), by all.
  enum class Compared : char { no, lines, all } compared = Compared::no;
  double lines2 = 0, spread2 = 0;
  bool failed = false;      ///< lines showed an error above the tolerance
  double largest = 0;       ///< magnitude of an entry, where dense
  std::vector<T> diagonal;  ///< of A, where this block has a part of it

  double bytes() const {
    return double(std::get<0>(data).size() * sizeof(R) + std::get<1>(data).size() * sizeof(float) +
                  std::get<2>(data).size() * sizeof(std::int16_t));
  }
  /// Real columns that a column of T is stored as.
  static constexpr int parts = is_complex<T> ? 2 : 1;
};

/// Stores a compressed block in the lowest precisions, of those that `storage` permits, with which the rounding error
/// stays below `allowed` (Frobenius). Local.
template <Scalar T>
Packed<T> pack(const Block& block, const Compressed<T>& c, double allowed, StoragePrecision storage);

template <class R>
struct KernelPlan;

template <Scalar T>
class Storage {
 public:
  using R = real_t<T>;
  /// Rows [first_row, first_row + rows) of a matrix with `columns` columns; `blocks`, in any order, cover their entries
  /// once. Local. `both`: for multiply_both, over one tree; blocks are those on and below the diagonal.
  Storage(Local first_row, Local rows, Local columns, std::vector<Packed<T>> blocks, bool both = false);

  /// y = A x. x: all elements, in the caller's order, k interleaved columns; order[p]: the element at position p of the
  /// column tree. y: own rows in the order of the row tree, k interleaved.
  void multiply(const T* x, std::span<const Global> order, T* y, int k, const comm::Communicator& comm) const;
  /// y = A^H x for A the own rows: x as y above, y: all columns in the order of the tree.
  void multiply_adjoint(const T* x, T* y, int k, const comm::Communicator& comm) const;

  /// y = (B + C) x, with B the blocks and C their mirror blocks, A^H (`conjugates`: A^T) of each except diagonal ones.
  /// x: all elements in the caller's order; y: all columns in the order of the tree, this rank's part of the sums.
  /// Dense blocks and U are read once, V twice (before U and after).
  void multiply_both(const T* x, std::span<const Global> order, T* y, int k, bool conjugates,
                     const comm::Communicator& comm) const;
  /// The blocks for which `wanted` is true, in their storage formats (without norms and errors).
  std::vector<Packed<T>> blocks(const std::function<bool(const Block&)>& wanted) const;
  /// For team kernels (plan.hpp). Real scalars. Local; O(number of columns of all panels).
  KernelPlan<R> kernel_plan() const;
  /// The blocks for which `wanted` is true, in numbers of T.
  std::vector<BlockMatrix<T>> unpack(const std::function<bool(const Block&)>& wanted) const;

  /// A storage as it was, from saved(); keeps the owners of the parts.
  explicit Storage(const std::vector<SavedPart>& parts);
  /// Appends what the constructor above takes: the tables, and the numbers as they lie.
  void save(std::vector<SavedPart>& parts) const;

  /// Whether the numbers of all blocks are what the constructor stored, by a checksum. Local; one pass.
  bool intact() const { return checksum() == made_; }
  Local rows() const { return rows_; }
  Local columns() const { return columns_; }
  std::array<double, formats> bytes() const;  ///< of matrix numbers
  double factor_bytes() const;                ///< the part of these for V
  double index_bytes() const;                 ///< of everything else that a product reads, except vectors
  double flops() const { return flops_; }

 private:
  template <int F>
  using Stored = std::tuple_element_t<F, std::tuple<R, float, std::int16_t>>;
  static constexpr int parts = is_complex<T> ? 2 : 1;
  static constexpr std::size_t width[formats] = {sizeof(R), sizeof(float), sizeof(std::int16_t)};

  struct Panel {
    Local begin, rows;             // from first_row
    std::size_t data[formats];     // offset of its numbers
    std::size_t run[formats + 1];  // its runs in runs_, by format
    std::size_t columns[formats];  // of T
    std::size_t work[formats];     // first column's position in the adjoint's work array
  };
  struct Factor {  // V of one block in one format
    int format;
    Local begin, rows, count;  // the block's columns of A are V's rows
    std::size_t data;
    std::uint32_t t;  // position of its results after x
  };
  struct Piece {  // some columns of a dense block in one panel, for the adjoint
    int format;
    Local begin, count;
    std::size_t work;
    double scale;
  };
  struct Adjoint;

  template <int K>
  void forward(const T* x, std::span<const Global> order, T* y, int k, int column,
               const comm::Communicator& comm) const;
  template <int K>
  void backward(const T* x, T* y, int k, int column, const comm::Communicator& comm) const;
  template <int K>
  void both(const T* x, std::span<const Global> order, T* y, int k, int column, bool conjugates,
            const comm::Communicator& comm) const;
  template <int F, int K>
  void project(const Factor& f, std::vector<R>& buffer) const;
  /// z = [x; diag(s) V^H x] of all factors. `zeroed`: where these columns of y begin, or null.
  template <int K>
  void project_all(const T* x, std::span<const Global> order, int k, int column, T* zeroed,
                   const comm::Communicator& comm) const;
  /// f(y_rc, its value) from K planes of sums of real and imaginary parts.
  template <int K, class F>
  static void each_value(const R* sum, Local rows, T* y, int k, F&& f);
  /// t = diag(s) U^H x, block by block: the sum of w over the block's panels in order.
  template <int K>
  void sum_panels(R* t, std::ptrdiff_t ldt) const;
  /// f(y_rc, its part of V t + the dense blocks' w), cell by cell.
  template <int K, class F>
  void multiply_cells(const R* t, std::ptrdiff_t ldt, T* y, int k, const comm::Communicator& comm, F&& f) const;
  /// Factors, and the positions of their results after x. Returns how many numbers they have in each format.
  std::array<std::size_t, formats> place_factors(const std::vector<Packed<T>>& blocks);
  /// Between two neighbouring cuts a block has either all rows or none.
  void cut_panels();
  std::vector<std::vector<std::uint32_t>> blocks_of_panels() const;
  /// Runs of columns and what the adjoint needs of them. Returns how many numbers panels have in each format.
  std::array<std::size_t, formats> place_panels(const std::vector<Packed<T>>& blocks,
                                                const std::vector<std::vector<std::uint32_t>>& of_panel, bool both);
  void fill(std::vector<Packed<T>>& blocks, const std::vector<std::vector<std::uint32_t>>& of_panel);
  std::uint64_t checksum() const;
  void reserve(int planes) const;
  void build_adjoint() const;

  Local first_row_, rows_, columns_;
  std::uint64_t made_ = 0;
  template <template <class> class A>
  using EachFormat = std::tuple<A<R>, A<float>, A<std::int16_t>>;
  template <class S>
  using Owned = exec::Array<S>;
  template <class S>
  using Seen = exec::View<const S>;
  void see_owned();
  EachFormat<Owned> own_panels_, own_factors_;  // empty where `owners_` have the numbers
  std::vector<std::shared_ptr<const void>> owners_;
  EachFormat<Seen> panel_data_, factor_data_;
  std::vector<Panel> panels_;
  std::vector<Run> runs_;
  std::vector<Factor> factors_;
  std::vector<double> t_scale_;
  // Cumulative costs, by which the work is divided equally among threads.
  std::vector<std::size_t> panel_cost_{0}, factor_cost_{0};
  // For the adjoint: the positions of the factors' blocks in the panels, and of the dense blocks' columns.
  struct Held {
    std::uint32_t factor;
    std::size_t work;
  };
  std::vector<Held> held_;
  struct Kept {  // a block as given to the constructor, in the order within panels
    Block block;
    bool dense;
    std::uint32_t first_factor, first_t;
    Local count[formats];
    double scale;
  };
  std::vector<Kept> kept_;
  std::vector<Piece> pieces_;
  std::size_t work_columns_ = 0;
  double flops_ = 0;
  mutable std::size_t ld_ = 0;
  mutable exec::Array<R> z_;
  mutable std::shared_ptr<const Adjoint> adjoint_;
};

}  // namespace tacit::op::detail
