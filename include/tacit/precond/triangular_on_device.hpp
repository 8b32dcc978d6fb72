// TriangularOnDevice: solves with sparse factors L and U, by levels, in the memory of a device.
#pragma once

#include <tacit/exec/memory.hpp>
#include <tacit/precond/triangular_factors.hpp>

#include <span>
#include <vector>

namespace tacit::precond {

/// The levels [first, last) of one launch of `blocks` teams.
struct LevelRun {
  Local first, last, blocks;
};
/// Launches for levels whose rows begin at level_row[level], by teams that solve `rows_at_once` rows at the same time:
/// consecutive levels of at most twice as many rows are one launch of one team, which waits for itself between them;
/// any other level is a launch of as many teams as it fills.
std::vector<LevelRun> level_runs(std::span<const Local> level_row, Local rows_at_once);

/// y = D_c P_c^T U^-1 L^-1 P_r D_r x in memory M. Rows are stored in the order of their levels
/// (kernels/triangular.hpp), those of L and those of U each in their own, and their longest first. Sums within a row
/// have a fixed order, so results have the same bits each time; they are those of a solve row by row up to rounding. M
/// = Host runs the same kernels on the processor. Construction: host memory for a second copy of the factors meanwhile.
/// Memory: a value and a column for each entry, up to 20 bytes and two scalars for a row, and two scalars for each row
/// of each column of x. A solve reads the factors once and moves 8 vectors. Error(usage): 2^30 rows or more. Local; no
/// member waits for the device.
template <Scalar T, Memory M>
class TriangularOnDevice {
 public:
  explicit TriangularOnDevice(const TriangularFactors<T>& factors);
  /// Takes x, of `columns` columns side by side; allocates where their number is not that of the last time.
  void load(const T* x, int columns);
  /// Solves with L, then with U: launches() launches, which are the same ones for the same number of columns.
  void solve();
  void store(T* y) const;

  Local rows() const { return rows_; }
  /// Of L and of U together: the solves that wait for each other.
  Local levels() const { return levels_; }
  int launches() const { return int(runs_.size()); }
  /// Read by solve() of one column, vectors included.
  double bytes() const;

 private:
  template <int Lanes, int K>
  void solve_levels();
  Local rows_, levels_, scaled_begin_, scaled_end_;
  int lanes_, columns_ = 0;
  bool negative_;
  std::vector<LevelRun> runs_;
  exec::Array<Local, M> level_row_, level_slice_, column_, from_, row_, place_;
  exec::Array<Global, M> slice_begin_;
  exec::Array<T, M> value_, inverse_, z_;
  exec::Array<int, M> before_, after_;
};

}  // namespace tacit::precond
