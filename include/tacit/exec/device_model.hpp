// Clocks of virtual devices, for simulated ranks (comm/simulate.hpp) with several accelerators: kernels advance the
// device's clock by their declared work, copies advance the links' clocks by their bytes, and the rank's clock advances
// where the host waits.
#pragma once

#include <tacit/base/virtual_clock.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tacit::exec {

/// Rates in bytes per second, times in seconds. A parameter of 0 costs nothing.
struct DeviceModel {
  double bandwidth = 0;               ///< of a device's memory, in kernels on vectors
  double product = 0;                 ///< of a device's memory, in products of many small blocks (bytes of the matrix)
  double kernel = 0;                  ///< a fixed time for every kernel
  double scalars = 0;                 ///< time until the host has the sums of a kernel
  double to_device = 0, to_host = 0;  ///< of a link to the host; copies of one direction follow each other
  double copy = 0;                    ///< between devices through the driver; copies of one source follow each other
  double peer = 0;                    ///< between devices over direct links, concurrently
  int link = 1;                       ///< neighbouring devices that share a link to the host
  double host = 0;  ///< of the rank's clock (MachineModel::bandwidth), to express a waiting time in bytes
};

/// Times of the first device since they were last set to zero.
struct DeviceTimes {
  double product = 0, vectors = 0;  ///< kernels
  double copies =
      0;  ///< to, from and between devices, and until the host has sums, including those hidden behind other work
  double waits = 0;  ///< of the host for any device
};

namespace detail {

/// The name of the kernel whose bytes are those of the matrix.
inline constexpr const char* product_on_devices = "hmatrix product on devices";

class DeviceClock final : public VirtualClock {
 public:
  explicit DeviceClock(const DeviceModel& model) : model_(&model) {}
  double now() const noexcept override { return time; }
  void work(const char* name, double bytes, double) override {
    const bool product = name == product_on_devices || std::strcmp(name, product_on_devices) == 0;
    const double rate = product ? model_->product : model_->bandwidth;
    const double seconds = model_->kernel + (rate > 0 ? bytes / rate : 0);
    time += seconds;
    (product ? products : vectors) += seconds;
  }
  double time = 0, products = 0, vectors = 0, copies = 0;

 private:
  const DeviceModel* model_;
};

/// The clocks of a group of devices and of their links.
class DeviceClocks {
 public:
  DeviceClocks(const DeviceModel& model, const std::vector<int>& ids) : model_(model), ids_(ids) {
    clocks_.assign(ids.size(), DeviceClock(model_));
    restart();
  }
  DeviceClocks(const DeviceClocks&) = delete;
  DeviceClocks& operator=(const DeviceClocks&) = delete;

  /// The device's clock, advanced to the host's: work enqueued now cannot start earlier.
  DeviceClock& at_host(int device) {
    auto& clock = clocks_[std::size_t(device)];
    clock.time = std::max(clock.time, wall_time());
    return clock;
  }
  void to_device(int device, double bytes) { at_host(device).time = over_link(device, down_, bytes, model_.to_device); }
  void to_host(int device, double bytes) { at_host(device).time = over_link(device, up_, bytes, model_.to_host); }
  void to_host_aside(int device, double bytes) {
    aside_[std::size_t(device)] = over_link(device, up_, bytes, model_.to_host);
  }
  void wait_aside(int device) { host_until(aside_[std::size_t(device)]); }
  void between(int from, int to, double bytes, bool peer) {
    auto &source = at_host(from), &target = at_host(to);
    const double rate = peer ? model_.peer : model_.copy, seconds = rate > 0 ? bytes / rate : 0;
    target.time = std::max(source.time, target.time) + seconds;
    source.copies += seconds, target.copies += seconds;
    if (!peer) source.time = target.time;
  }
  void wait(int device) { host_until(clocks_[std::size_t(device)].time); }
  void read_scalars(int device) {
    auto& clock = clocks_[std::size_t(device)];
    clock.copies += model_.scalars;
    host_until(clock.time + model_.scalars);
  }
  DeviceTimes times() const { return {clocks_[0].products, clocks_[0].vectors, clocks_[0].copies, waits_}; }
  /// To be called when the ranks' clocks are restarted.
  void restart() {
    for (auto& clock : clocks_) clock.time = clock.products = clock.vectors = clock.copies = 0;
    for (auto* times : {&down_, &up_, &aside_}) times->assign(ids_.size(), 0.0);
    waits_ = 0;
  }

 private:
  // The time when a copy enqueued now completes.
  double over_link(int device, std::vector<double>& links, double bytes, double rate) {
    // The devices that share a link have consecutive numbers.
    const int link = ids_[std::size_t(device)] / std::max(1, model_.link);
    std::size_t at = 0;
    while (ids_[at] / std::max(1, model_.link) != link) ++at;
    const double begin = at_host(device).time;
    links[at] = std::max(begin, links[at]) + (rate > 0 ? bytes / rate : 0);
    clocks_[std::size_t(device)].copies += links[at] - begin;
    return links[at];
  }
  void host_until(double instant) {
    const double seconds = instant - wall_time();
    if (seconds <= 0) return;
    waits_ += seconds;
    Trace::work("wait for devices", seconds * model_.host);
  }

  DeviceModel model_;
  std::vector<int> ids_;
  std::vector<DeviceClock> clocks_;
  std::vector<double> down_, up_, aside_;
  double waits_ = 0;
};

}  // namespace detail
}  // namespace tacit::exec
