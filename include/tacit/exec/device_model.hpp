// Clocks of virtual devices, for simulated ranks (comm/simulate.hpp) with several accelerators: kernels advance the
// device's clock by their declared work, copies advance the links' clocks by their bytes, and the rank's clock advances
// where the host waits.
#pragma once

#include <tacit/base/virtual_clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace tacit::exec {

/// Rates in bytes per second, times in seconds. A parameter of 0 costs nothing.
struct DeviceModel {
  double bandwidth = 0;               ///< of a device's memory, in kernels on vectors
  double product = 0;                 ///< of a device's memory, in products of many small blocks (bytes of the matrix)
  double kernel = 0;                  ///< a fixed time for every kernel
  double scalars = 0;                 ///< time until the host has the sums of a kernel
  double to_device = 0, to_host = 0;  ///< of a link to the host; copies of one direction follow each other
  double peer = 0;                    ///< between devices over direct links, each pair at the same time
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

/// The name of the kernels whose bytes are those of the matrix. They count as launched by themselves.
inline constexpr const char* product_on_devices = "hmatrix product on devices";

/// The name under which a CUDA device declares what its next kernel reads from another one (Devices::declare_to).
inline constexpr const char* read_over_link = "read over a link";

/// Copies in pieces (DevicePath::copy): the bytes of one, and how many of a device may be on their way.
inline constexpr std::size_t piece_bytes = 512 * 1024;
inline constexpr int pieces_of_device = 4;

class DeviceClock final : public VirtualClock {
 public:
  explicit DeviceClock(const DeviceModel& model) : model_(&model) {}
  double now() const noexcept override { return time; }
  void work(const char* name, double bytes, double) override {
    const bool product = name == product_on_devices || std::strcmp(name, product_on_devices) == 0;
    const double rate = product ? model_->product : model_->bandwidth;
    const double moved = rate > 0 ? bytes / rate : 0,
                 read = model_->peer > 0 ? std::exchange(over_link, 0.0) / model_->peer : 0;
    advance(std::max(moved, read) + (product ? 0 : model_->kernel), product ? products : vectors);
  }
  void advance(double seconds, double& counted) { time += seconds, counted += seconds; }
  double time = 0, products = 0, vectors = 0, copies = 0;
  double over_link = 0;  // bytes that the next kernel reads from other devices

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
  /// The fixed time of a kernel that declares no bytes of its own.
  void launched(int device, bool of_product) {
    auto& clock = at_host(device);
    clock.advance(model_.kernel, of_product ? clock.products : clock.vectors);
  }
  void mark(int device) { marks_[std::size_t(device)] = at_host(device).time; }
  void follow(int device, int marked) {
    auto& clock = at_host(device);
    clock.time = std::max(clock.time, marks_[std::size_t(marked)]);
  }
  void mark_host_read(int device) { read_[std::size_t(device)] = clocks_[std::size_t(device)].time; }
  void wait_host_read(int device) { host_until(read_[std::size_t(device)]); }
  void direct(int from, int to, double bytes) {
    auto& clock = at_host(to);
    const double seconds = model_.peer > 0 ? bytes / model_.peer : 0;
    clock.time += seconds, clock.copies += seconds;
    clocks_[std::size_t(from)].copies += seconds;
  }
  /// As Queues<Device>::staged(): a piece leaves when the place of an earlier one is free again.
  void staged(int from, int to, double bytes) {
    auto &source = at_host(from), &target = at_host(to);
    const double begin = source.time;
    double out = begin, free[pieces_of_device] = {};
    int k = 0;
    for (double left = bytes; left > 0; left -= double(piece_bytes), k = (k + 1) % pieces_of_device) {
      const double piece = std::min(left, double(piece_bytes));
      out = through(from, up_, piece, model_.to_host, std::max(out, free[k]));
      target.time = free[k] = through(to, down_, piece, model_.to_device, std::max(out, target.time));
    }
    source.time = out;
    source.copies += out - begin, target.copies += target.time - begin;
  }
  void reads_over_link(int device, double bytes) { clocks_[std::size_t(device)].over_link += bytes; }
  void wait(int device) { host_until(clocks_[std::size_t(device)].time); }
  void read_scalars(int device) {
    auto& clock = clocks_[std::size_t(device)];
    clock.copies += model_.scalars;
    host_until(clock.time + model_.scalars);
  }
  DeviceTimes times() const { return {clocks_[0].products, clocks_[0].vectors, clocks_[0].copies, waits_}; }
  /// To be called when the ranks' clocks are restarted.
  void restart() {
    for (auto& clock : clocks_) clock.time = clock.products = clock.vectors = clock.copies = clock.over_link = 0;
    for (auto* times : {&down_, &up_, &aside_, &marks_, &read_}) times->assign(ids_.size(), 0.0);
    waits_ = 0;
  }

 private:
  // The time when a copy that can begin at `begin` has passed a link.
  double through(int device, std::vector<double>& links, double bytes, double rate, double begin) {
    // The devices that share a link have consecutive numbers.
    const int link = ids_[std::size_t(device)] / std::max(1, model_.link);
    std::size_t at = 0;
    while (ids_[at] / std::max(1, model_.link) != link) ++at;
    return links[at] = std::max(begin, links[at]) + (rate > 0 ? bytes / rate : 0);
  }
  // The same for a copy enqueued now.
  double over_link(int device, std::vector<double>& links, double bytes, double rate) {
    const double begin = at_host(device).time, end = through(device, links, bytes, rate, begin);
    clocks_[std::size_t(device)].copies += end - begin;
    return end;
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
  std::vector<double> down_, up_, aside_, marks_, read_;
  double waits_ = 0;
};

}  // namespace detail
}  // namespace tacit::exec
