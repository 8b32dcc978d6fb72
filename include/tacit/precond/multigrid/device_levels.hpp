// Levels of multigrid in a device's memory, and cycles over them: team kernels (kernels/cells.hpp) one after the other
// on the current stream, the last level's system in a single launch (kernels/resident_bicgstab.hpp). Of several ranks
// each has its own cells on its own device. No operator is used here; MultigridOnDevice (on_device.hpp) makes one of
// the cycle.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/precond/kernels/cells.hpp>
#include <tacit/precond/kernels/resident_bicgstab.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tacit::precond {

/// The bottom solver of a device: BiCGStab in one launch.
struct ResidentBottom {
  Global cells = 4096;      ///< the first level of at most so many cells is the last one; 0: all levels are used
  double reduction = 1e-3;  ///< of the largest magnitude of the residual
  int max_iterations = 1000;
  Global teams = 0;  ///< at most; 0: as many as the device holds (on ranks, every device). Rounding depends on it
};

namespace mg {

/// Values that are copied from the places of one field to those of another (of ghosts: the same one), on this rank and
/// from other ranks, by an exchange of one value each.
struct CellCopies {
  std::vector<std::int64_t> own;             ///< to, from, to, from, ..
  std::vector<std::int64_t> sent;            ///< places, in the order in which the exchange sends them
  std::vector<std::int64_t> received;        ///< to, number in what arrives, ..
  std::shared_ptr<comm::Exchange> exchange;  ///< the same on all ranks; null where none sends anything
  bool forward = true;                       ///< the exchange's direction
};

template <class T>
struct MoveData;

/// One level as the host prepares it: this rank's cells of it.
template <class T>
struct LevelData {
  std::array<Global, 3> cells{1, 1, 1};
  int dimensions = 3;
  bool constant = false;
  bool vanishes = true;  ///< the residual is zero at the colour that was swept last
  bool linear = false;   ///< interpolation towards this level from the coarser one
  Global boxes = 1;      ///< of all ranks
  int ranks = 1;         ///< that have cells
  std::size_t size = 0;  ///< of a field
  std::vector<PatchShape> patches;
  std::array<T, 3> weight{};
  std::vector<T> diagonal, inverse, row_sums;  ///< row_sums: 1 / sum of magnitudes, for l1-jacobi
  std::array<std::vector<T>, 3> faces;
  std::vector<std::int32_t> parent, child;  ///< empty on the last level
  std::vector<T> share;
  std::vector<SolutionShare<T>> solution;  ///< as share, of solutions by the F-cycle
  std::array<CellCopies, 2> ghosts;        ///< by colour
  /// Where the next level has its cells on fewer ranks; null: on those of this level.
  std::shared_ptr<const MoveData<T>> move;
};

/// The next level's cells where this level's ranks have them, and the way of f from there to the next level.
template <class T>
struct MoveData {
  LevelData<T> image;  ///< without coefficients
  CellCopies forward;  ///< what is sent arrives once
};

/// The last level's matrix, rows in the order of all ranks' cells; see ResidentBicgstab. Where several ranks have cells
/// of it, each has the whole matrix; else the one that has them all.
template <class T>
struct BottomData {
  std::int32_t n = 0, width = 0;
  std::vector<std::int32_t> column;
  std::vector<T> value, diagonal;
  std::vector<std::int64_t> place;      ///< of this rank's cells
  std::optional<layout::Space> shared;  ///< that of its cells, where several ranks have some
  bool singular = false;
};

template <class T>
struct DeviceData {
  std::vector<LevelData<T>> levels;
  BottomData<T> bottom;
  Global cells = 0;
  bool singular = false;
};

template <class T, Memory M>
class DeviceLevels {
 public:
  /// On several ranks this, the passes, solve_bottom() and cycle() are collective, and norms() of the residual. Of the
  /// options: smoother, pre, post, symmetric, relaxation, chebyshev_range. Error(environment) where CUDA
  /// refuses.
  DeviceLevels(const DeviceData<T>& data, const MultigridOptions& options, const ResidentBottom& bottom);
  ~DeviceLevels();
  DeviceLevels(const DeviceLevels&) = delete;
  DeviceLevels& operator=(const DeviceLevels&) = delete;

  int levels() const;
  const std::array<Global, 3>& cells(int level) const;
  Global boxes(int level) const;
  int ranks(int level) const;

  /// f or u of the finest level := scale (x - mean), and back. x: in natural order in memory M, the first of so many
  /// interleaved columns. Does not wait for the device.
  void load_f(const T* x, T scale = 1, T mean = 0, int columns = 1);
  void load_u(const T* x, T scale = 1, T mean = 0, int columns = 1);
  void store_u(T* x, T scale = 1, T mean = 0, int columns = 1) const;
  void clear_u(int level = 0);
  /// One cycle (V, W or F) on the finest level, which goes on from u or starts from zero. Does not wait for the device,
  /// except for values that other ranks need.
  void cycle(Cycle kind, bool from_zero);
  /// Norms of the finest level's residual, u or f over this rank's cells; after_cycle: the residual only at the cells
  /// where the last half sweep has left one. Waits for the device.
  Norms norms(Quantity what, bool after_cycle = false) const;
  /// The bottom solver's totals on this rank. Waits for the device.
  ResidentCounts counts() const;
  /// The number of kernels started.
  std::int64_t launches() const;

  // The passes of a cycle; each is one launch, and one more for ghosts where there are any (on ranks up to three).
  void half_sweep(int level, int colour, bool from_zero = false);
  void smooth(int level, int sweeps, bool from_zero);  ///< by the options' smoother
  void restrict_residual(int level, int colour);       ///< colour -1: of all cells
  void interpolate(int level, int colour);
  void solve_bottom(bool from_zero = true);

  /// Memory Host only: from now on every member of a team is a thread of its own, for the race checker.
  void race_check(bool on);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mg
}  // namespace tacit::precond
