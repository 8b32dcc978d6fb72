// HMatrixOnDevices: an H-matrix, of one rank or of several, whose blocks are on the devices of each process. Yamazaki
// et al. 2018, several GPUs for each process.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/exec/group.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op {

/// How the blocks of a process are distributed over its devices.
enum class BlockDeal {
  rows,        ///< blocks in the order of their rows, cut at equal bytes: partial results overlap little
  round_robin  ///< in turn, the largest first (as in the paper, for batches): partial results overlap everywhere
};

struct DeviceProductOptions {
  exec::DevicePath path = exec::DevicePath::peer;
  BlockDeal deal = BlockDeal::rows;
  /// Of the group of all vectors, where they may be changed between solves.
  exec::VectorWork work = exec::VectorWork::redundant;
  exec::DeviceOverlap overlap = exec::DeviceOverlap::gather;
};
/// The table of these, for Python, the command line and documents.
std::span<const Option<DeviceProductOptions>> device_product_options();

/// y = A x with x and y, of one column, whole on every device of every process (replicated, however the vectors of the
/// matrix in host memory are spread). In a product each device multiplies its
/// blocks (U and V of a block are on one device, so t = V^T x is not copied); partial results are added on the first
/// device in the order of the devices; the rank's rows are copied to the host and gathered over the ranks; and y is
/// copied to all devices. The host waits twice, before and after the messages (by DevicePath::host also for each
/// partial result). There is no reduction between ranks. float and double.
///
/// start() enqueues the multiplication and the copy of the own rows to the host, and returns. The rows are sent to the
/// other ranks when the host next waits for sums (with DeviceOverlap::copy: in wait()). Sweeps started after start()
/// work beside the copy and the messages; those started before it do not. One product at a time.
///
/// Copies of a product, for D devices of which d beside the first have blocks: the own rows to the host; d partial
/// results read by the first device (copied there, through the host by DevicePath::host); y from the host to the first
/// device and D - 1 times between devices (from the host to all D by DevicePath::host). Host memory: page-locked, the
/// own rows and y.
template <Scalar T, Memory M>
class HMatrixOnDevices final : public Operator<T, Group<M>> {
 public:
  using Vector = layout::Vector<T, Group<M>>;

  /// Copies the matrix to the devices; `matrix` is kept for the transfer of vectors between ranks. Collective.
  /// Error(usage) unless it is square, and where only one triangle is stored.
  HMatrixOnDevices(std::shared_ptr<const HMatrix<T>> matrix, std::shared_ptr<exec::Devices<M>> devices,
                   const DeviceProductOptions& options = {});
  ~HMatrixOnDevices() override;

  /// The group of all vectors in the operator's space: how devices share the work, and what overlaps with a product.
  exec::DeviceGroup<M>& group() const { return *group_; }
  const HMatrix<T>& matrix() const { return *matrix_; }

  std::string name() const override { return "hmatrix on devices"; }
  bool has_diagonal() const override { return matrix_->has_diagonal(); }
  /// Whole. Collective.
  std::vector<T> diagonal() const override;
  double largest() const override { return matrix_->largest(); }
  double accuracy() const override { return matrix_->accuracy(); }
  Cost cost() const override { return matrix_->cost(); }

  /// Bytes of the matrix on each device, which a product reads.
  const std::vector<double>& bytes() const { return bytes_; }
  /// The range of rows that each device's blocks lie in, relative to the rank's first row.
  std::span<const std::pair<Local, Local>> rows() const { return rows_; }

 protected:
  int begin(const Vector& x, Vector& y, bool adjoint) const override;
  void finish(const Vector& x, Vector& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  struct Part;
  HMatrixOnDevices(std::shared_ptr<const HMatrix<T>> matrix, std::shared_ptr<exec::DeviceGroup<M>> group,
                   const DeviceProductOptions& options);
  void post() const;
  void release_buffers() const noexcept;
  std::shared_ptr<const HMatrix<T>> matrix_;
  std::unique_ptr<const OwnRows<T>> own_rows_;  // of replicated vectors; null where the matrix has those
  const OwnRows<T>* transfer_ = nullptr;
  std::shared_ptr<exec::DeviceGroup<M>> group_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<double> bytes_;
  std::vector<std::pair<Local, Local>> rows_;
  mutable std::vector<exec::DeviceArray<T, M>> partial_;
  mutable exec::DeviceArray<T, M> scratch_;
  mutable exec::HostBuffer<T, M> own_, whole_;
  mutable bool busy_ = false;
  mutable std::optional<int> token_;  // of the rows being sent to all ranks
};

}  // namespace tacit::op

template <>
inline constexpr auto tacit::names_of<tacit::op::BlockDeal> = tacit::named<tacit::op::BlockDeal>(
    "deal of blocks", {{tacit::op::BlockDeal::rows, "rows"}, {tacit::op::BlockDeal::round_robin, "round_robin"}});
