// StagedMatrix: a sparse matrix whose products copy the rows of X that a block reads to a team's shared memory, stage
// by stage.
#pragma once

#include <tacit/exec/memory.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tacit::op {

/// Statistics of staging with given block rows and buffer size.
struct Staging {
  double reuse = 0;   ///< entries over columns staged
  double stages = 0;  ///< of a block, on average
  double warp_padding =
      0;  ///< stored entries over given ones if every 32 rows were padded to the longest of them in each stage
};
/// The statistics for the matrix that `source` makes; stores no matrix. `capacity`: columns of a stage. Local;
/// O(entries log).
template <class T>
Staging staging_of(Local rows, Local columns, const RowSource<T>& source, int block_rows, int capacity);

/// Counts of a staged matrix, from its layout.
struct StagedCounts {
  double reuse = 0;    ///< entries over columns staged
  double stages = 0;   ///< of a block, on average
  double stored = 0;   ///< stored entries, with padding, over entries
  double steps = 0;    ///< of all slices; a step reads one entry for every row of its slice
  double padding = 0;  ///< steps times rows of a slice, over entries: multiplications over necessary ones
  /// The mean number of turns in which shared memory reads the words of X for a step: 1 without bank conflicts (words
  /// of one bank are read in turn). With entries in the order of the source, and in the stored order.
  double turns_as_given = 0, turns = 0;
};

/// Map, buffer and 16-bit local indices as in Hidayetoglu et al. (2020), doi 10.1109/SC41405.2020.00041; but the lanes
/// of a warp work on different columns of X, and on several rows only where there are fewer columns than lanes. Blocks
/// of 128 rows (32 lanes) or 256 (8 or 1). A product of any number of columns is one launch (with vectors in halves
/// four). Where a warp works on several rows, a greedy colouring orders their entries
/// so that few of one step are in the same bank of shared memory.
template <class T, Memory M>
class StagedMatrix {
 public:
  /// `columns_at_once`: 1, 8 or 32; for vectors in halves 16 or 64, two in each lane. values: full or half. vectors:
  /// full, or half (for floats): products read a copy of X in halves, each column scaled by a power of two of its own,
  /// as in TiledMatrix but without error diffusion. row_order: row i of the source is row row_order[i] of Y, for rows
  /// whose common columns are not those of neighbours; empty: row i. Blocks are laid out in parallel. Error(usage) for
  /// other values.
  StagedMatrix(Local rows, Local columns, const RowSource<T>& source, int columns_at_once, Values values = Values::full,
               Vectors vectors = Vectors::full, std::span<const Local> row_order = {});

  Local rows() const { return rows_; }
  Local columns() const { return columns_; }
  Global entries() const { return entries_; }
  const StagedCounts& counts() const { return counts_; }
  double bytes() const;
  double largest() const { return largest_; }  ///< of the finite |a_ij|

  /// What a product does besides Y = A X, in the same pass.
  struct After {
    bool race_check = false;          ///< on the host: every member of a team is a real thread (slow)
    const Clamp<T>* clamp = nullptr;  ///< y := min(max(y + bias, low), high)
    std::uint32_t* alive = nullptr;   ///< of columns, in memory M: set to 1 where an element of Y is above 0 or NaN
    bool full_vectors = false;        ///< reads X in full, half as many columns at a time, also with vectors in halves
  };
  /// Y = A X, k interleaved columns; does not wait for the device. On the host one thread runs each team.
  void multiply(const T* x, T* y, int k, const After& after) const;
  void multiply(const T* x, T* y, int k, bool race_check = false) const { multiply(x, y, k, After{race_check}); }

 private:
  template <class V, int Lanes, bool Packed, class Cell>
  void launch(const V* value, const Cell* x, int cells, const T* up, T* y, int k, const After& after) const;
  template <class V>
  void with_values(const V* value, const T* x, T* y, int k, const After& after) const;
  Local rows_ = 0, columns_ = 0;
  int at_once_ = 1, longest_ = 0;
  double largest_ = 0;
  bool half_ = false, packed_ = false;
  Global entries_ = 0;
  StagedCounts counts_;
  std::int64_t blocks_ = 0;
  exec::Array<std::int32_t, M> part_begin_;
  exec::Array<Global, M> map_begin_, quad_begin_;
  exec::Array<std::uint32_t, M> slice_;
  exec::Array<Local, M> map_, order_;
  exec::Array<std::uint16_t, M> slot_, halves_;
  exec::Array<T, M> value_, scale_;
  // For vectors in halves: written by every product, so only one product may be in flight.
  mutable exec::Array<std::uint32_t, M> cells_;
  mutable exec::Array<float, M> most_, up_;
};

}  // namespace tacit::op
