// Clocks of virtual devices, for processes with several accelerators on simulated ranks (comm/simulate.hpp): a device
// goes on by what its kernels declare, a copy by its bytes, and the rank's clock where the host waits.
#pragma once

#include <tacit/base/virtual_clock.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tacit::exec {

/// Bytes a second, and seconds. What is left at 0 costs nothing.
struct DeviceModel {
  double bandwidth = 0;               ///< of a device's memory: vectors
  double product = 0;                 ///< of the same in products of many small blocks, bytes of the matrix
  double kernel = 0;                  ///< what every kernel costs beside
  double scalars = 0;                 ///< until the host has the sums of a kernel
  double to_device = 0, to_host = 0;  ///< of a link to the host, one copy after the other each way
  double copy = 0;                    ///< between devices by the driver: the source sends one after the other
  double peer = 0;                    ///< between devices over direct links, all at a time
  int link = 1;                       ///< neighbouring devices that share a link to the host
  double host =
      0;  ///< at which the rank's clock goes on (MachineModel::bandwidth): it is told in bytes how long it waits
};

/// Of the first device, since they were last set to zero.
struct DeviceTimes {
  double product = 0, vectors = 0;  ///< kernels
  double copies = 0;  ///< to, from and between devices, and until the host has sums; also where other work hides them
  double waits = 0;   ///< of the host, for any device
};

namespace detail {

/// The kernel whose bytes are a matrix's.
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

  /// The device's, which is not behind the host's: what is enqueued now starts now at the earliest.
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
  /// When every rank's clock is.
  void restart() {
    for (auto& clock : clocks_) clock.time = clock.products = clock.vectors = clock.copies = 0;
    for (auto* times : {&down_, &up_, &aside_}) times->assign(ids_.size(), 0.0);
    waits_ = 0;
  }

 private:
  // When a copy that is enqueued now is done.
  double over_link(int device, std::vector<double>& links, double bytes, double rate) {
    // The group's devices of one link follow each other.
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
