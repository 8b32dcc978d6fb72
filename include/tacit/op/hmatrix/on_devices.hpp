// HMatrixOnDevices: an H-matrix, of one rank or of several with replicated vectors, whose blocks lie on the devices of
// each process. Yamazaki et al. 2018: several GPUs a process.
#pragma once

#include <tacit/exec/devices.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op {

/// Which device of a process has which of its blocks.
enum class BlockDeal {
  rows,        ///< blocks in the order of their rows, cut at equal bytes: partial results overlap little
  round_robin  ///< one after the other, the largest first (the paper's, which deals batches): they overlap everywhere
};

struct DeviceProductOptions {
  exec::DevicePath path = exec::DevicePath::peer;
  BlockDeal deal = BlockDeal::rows;
};

/// y = A x with x and y on every device of every process. A product: each device multiplies its blocks (V and U of a
/// block are on one device, t = V^T x never travels), partial results are added on the first device in the order of the
/// devices, that rank's rows come to the host, are gathered over the ranks, and the whole of y goes to all devices. The
/// host waits twice: before and after the messages. float and double.
template <Scalar T, Memory M>
class HMatrixOnDevices {
 public:
  using Vectors = std::vector<exec::DeviceArray<T, M>>;  ///< one whole vector on every device

  /// Copies A's numbers to the devices; `matrix` stays as it is, for the way of vectors between ranks. Collective.
  /// Error(usage) unless its vectors are replicated or it has one rank, and where one triangle of it is kept.
  HMatrixOnDevices(std::shared_ptr<const HMatrix<T>> matrix, std::shared_ptr<exec::Devices<M>> devices,
                   const DeviceProductOptions& options = {});
  ~HMatrixOnDevices();

  exec::Devices<M>& devices() const { return *devices_; }
  const HMatrix<T>& matrix() const { return *matrix_; }
  Global size() const { return matrix_->domain().size(); }
  /// Zeros. Elements of the host to all devices, by the path. Those of the first device.
  Vectors vector() const;
  void assign(std::span<const T> host, Vectors& x) const;
  std::vector<T> to_host(const Vectors& x) const;

  /// Collective. Copies a product: for D devices of which d have a part, d - 1 to the first (through the host: there
  /// and back), the own rows to the host, and D from it (or one from it and D - 1 between devices).
  void multiply(const Vectors& x, Vectors& y) const;
  /// The same in three steps, for what goes on behind them: products on the devices and the own rows on their way to
  /// the host; these rows on their way to all ranks (the host waits for them first); all rows, once they are there, on
  /// their way to the devices. One product at a time. y may be x; x is not to be changed before post().
  void begin(const Vectors& x) const;
  void post() const;
  void finish(Vectors& y) const;

  /// Of the matrix, by device; what a product reads.
  const std::vector<double>& bytes() const { return bytes_; }
  /// Rows that a device has a part of, from the rank's first.
  std::span<const std::pair<Local, Local>> rows() const { return rows_; }

 private:
  struct Part;
  std::shared_ptr<const HMatrix<T>> matrix_;
  std::shared_ptr<exec::Devices<M>> devices_;
  DeviceProductOptions options_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<double> bytes_;
  std::vector<std::pair<Local, Local>> rows_;
  mutable Vectors partial_;
  mutable exec::DeviceArray<T, M> scratch_;
  mutable std::vector<T> own_, whole_;
  mutable int token_ = -1;
};

}  // namespace tacit::op
