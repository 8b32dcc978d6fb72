// StagedMatrix: a sparse matrix whose blocks of rows copy what they read into a team's shared memory first, stage by
// stage.
#pragma once

#include <tacit/exec/memory.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include <string>

namespace tacit::op {

/// What staging in blocks of rows and buffers of so many columns comes to.
struct Staging {
  double reuse = 0;   ///< entries over columns staged
  double stages = 0;  ///< a block, on average
  double warp_padding =
      0;  ///< entries over nonzeros where every warp of 32 rows is padded to its longest, stage by stage
};
/// Of a matrix made by `source`; nothing is stored. `capacity`: columns of a stage. Local; O(entries log).
template <class T>
Staging staging_of(Local rows, Local columns, const RowSource<T>& source, int block_rows, int capacity);

/// Map, buffer and 16-bit local indices as in Hidayetoglu et al. (2020), doi 10.1109/SC41405.2020.00041, but with
/// columns across lanes: no padding and no bank conflicts. Blocks of 128 rows (32 columns at once) or 256 (8 or 1).
template <class T, Memory M>
class StagedMatrix {
 public:
  /// `columns_at_once`: 1, 8 or 32, which the stages are cut for. values: full or half.
  StagedMatrix(Local rows, Local columns, const RowSource<T>& source, int columns_at_once,
               Values values = Values::full);

  Local rows() const { return rows_; }
  Local columns() const { return columns_; }
  Global entries() const { return entries_; }
  const Staging& staging() const { return staging_; }
  double bytes() const;
  /// Y = A X, k interleaved columns. On the host a thread plays each team; `race_check` runs real threads instead
  /// (slow).
  void multiply(const T* x, T* y, int k, bool race_check = false) const;

 private:
  template <class V, int K>
  void launch(const V* value, const T* x, T* y, int k, bool race_check) const;
  Local rows_ = 0, columns_ = 0;
  int at_once_ = 1;
  bool half_ = false;
  Global entries_ = 0;
  Staging staging_;
  std::int64_t blocks_ = 0;
  exec::Array<std::int32_t, M> stage_begin_;
  exec::Array<Global, M> map_begin_, entry_begin_;
  exec::Array<Local, M> map_;
  exec::Array<std::uint16_t, M> slot_, halves_;
  exec::Array<T, M> value_, scale_;
};

}  // namespace tacit::op
