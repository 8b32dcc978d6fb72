// Devices: the accelerators of one process, each with its own memory, and the copies of vectors between them and the
// host. Yamazaki et al. 2018, "Analyzing performance of BiCGStab with hierarchical matrix on GPU clusters".
//
//   Devices<Host>    virtual devices: host memory, kernels run by the processor; same code, same counted copies
//   Devices<Device>  CUDA devices, in files compiled by nvcc
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/exec/device_model.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/exec/team.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::exec {

/// How vectors are copied between the devices of a process (figures 12 and 13 of the paper).
enum class DevicePath {
  host,  ///< through pinned host memory; a broadcast goes from the host to every device (the paper's "set")
  copy,  ///< by the driver's copy from device to device; a broadcast goes to the first device, then to the others
  peer   ///< as copy, over direct links
};

/// The CUDA devices that this process sees; 0 where CUDA refuses. In builds with CUDA.
int device_count() noexcept;

/// The devices that one process of a node uses.
enum class ProcessLayout { per_gpu, per_socket, per_node };

/// The devices of process number `process` of a node, whose devices are numbered socket by socket. Local. Error(usage)
/// where the layout has no such process, or the number of devices is not a multiple of the sockets.
inline std::vector<int> devices_of_process(ProcessLayout layout, int devices, int sockets, int process) {
  require(devices >= 1 && sockets >= 1 && devices % sockets == 0, devices, " devices on ", sockets, " sockets");
  const int each = layout == ProcessLayout::per_gpu      ? 1
                   : layout == ProcessLayout::per_socket ? devices / sockets
                                                         : devices;
  require(process >= 0 && process < devices / each, "process ", process, " of a node whose ", devices,
          " devices are dealt ", each, " at a time");
  std::vector<int> own;
  for (int d = 0; d < each; ++d) own.push_back(process * each + d);
  return own;
}

/// Copies between memories since the group was made.
struct DeviceTraffic {
  Global to_devices = 0, to_host = 0, between = 0;  ///< copies of vectors, or parts of them
  double bytes_to_devices = 0, bytes_to_host = 0, bytes_between = 0;
  Global scalars = 0;  ///< sums that the host has read from devices
  Global reads = 0;    ///< the number of such reads
  Global waits = 0;    ///< times that the host waited for a device
};

namespace detail {

/// The queues of a group, one for each device, which do their work in order. `Use` makes a device the current one.
template <Memory M>
class Queues;

template <>
class Queues<Host> {
 public:
  class Use {
   public:
    explicit Use(DeviceClock* clock) : host_(clock ? virtual_clock() : nullptr) {
      if (host_) Trace::use(clock);
    }
    ~Use() {
      if (host_) Trace::use(host_);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    VirtualClock* host_;
  };
  explicit Queues(const std::vector<int>&) {}
  Use use(int device) const { return Use(clocks ? &clocks->at_host(device) : nullptr); }
  void to_device(int device, void* to, const void* from, std::size_t bytes) {
    if (clocks) clocks->to_device(device, double(bytes));
    std::memcpy(to, from, bytes);
  }
  void to_host(int device, void* to, const void* from, std::size_t bytes) {
    if (clocks) clocks->to_host(device, double(bytes));
    std::memcpy(to, from, bytes);
  }
  void to_host_aside(int device, void* to, const void* from, std::size_t bytes) {
    if (clocks) clocks->to_host_aside(device, double(bytes));
    std::memcpy(to, from, bytes);
  }
  void wait_aside(int device) const {
    if (clocks) clocks->wait_aside(device);
  }
  void between(int source, int target, void* to, const void* from, std::size_t bytes, bool peer) {
    if (clocks) clocks->between(source, target, double(bytes), peer);
    std::memcpy(to, from, bytes);
  }
  void wait(int device) const {
    if (clocks) clocks->wait(device);
  }
  void read_scalars(int device) const {
    if (clocks) clocks->read_scalars(device);
  }
  std::unique_ptr<DeviceClocks> clocks;
  std::byte* staging(std::size_t bytes) {
    if (staging_.size() < bytes) staging_.resize(bytes);
    return staging_.data();
  }

 private:
  std::vector<std::byte> staging_;
};

/// src/exec/devices.cu. Copies are enqueued: to_device and between do not wait, to_host waits for the earlier work of
/// its device; between() runs after the earlier work of its source.
template <>
class Queues<Device> {
 public:
  class Use {
   public:
    Use(int id, void* stream);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    int id_before_;
    void* stream_before_;
  };
  /// Error(environment) for a missing device. Direct links are enabled where available.
  explicit Queues(const std::vector<int>& ids);
  ~Queues();
  Use use(int device) const;
  void to_device(int device, void* to, const void* from, std::size_t bytes);
  void to_host(int device, void* to, const void* from, std::size_t bytes);
  /// Copies after the earlier work of its device, which goes on meanwhile.
  void to_host_aside(int device, void* to, const void* from, std::size_t bytes);
  void wait_aside(int device) const;
  void between(int from_device, int to_device, void* to, const void* from, std::size_t bytes, bool peer);
  void wait(int device) const;
  void read_scalars(int device) const { wait(device); }
  std::byte* staging(std::size_t bytes);  ///< pinned; growing it waits for all queues

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

template <class T>
struct AddInto {
  TACIT_HD void operator()(T x, T& y) const { y = y + x; }
};
template <class T>
struct CopyInto {
  TACIT_HD void operator()(T x, T& y) const { y = x; }
};

}  // namespace detail

/// n elements on one device of a group.
template <class T, Memory M>
struct DeviceArray {
  int device = 0;  ///< its place in the group
  Array<T, M> array;
  T* data() { return array.data(); }
  const T* data() const { return array.data(); }
  std::size_t size() const { return array.size(); }
  View<T, M> part(std::size_t from, std::size_t count) { return {array.data() + from, count}; }
  View<const T, M> part(std::size_t from, std::size_t count) const { return {array.data() + from, count}; }
};

/// The devices of a process. Not for concurrent use by several host threads; each rank has its own group.
template <Memory M>
class Devices {
 public:
  /// The devices of these numbers, at least one. Virtual devices may have any numbers.
  explicit Devices(std::vector<int> ids) : ids_(std::move(ids)), queues_(checked(ids_)) {}
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  int size() const { return int(ids_.size()); }
  int id(int device) const { return ids_[std::size_t(device)]; }
  /// For virtual devices of a simulated rank: from now on kernels and copies take the times of the model, on clocks of
  /// their own, and the rank's clock waits where the host would. Without a model, kernels advance the rank's clock one
  /// device after the other, and copies take no time.
  void simulate(const DeviceModel& model) requires(std::same_as<M, Host>) {
    queues_.clocks = std::make_unique<detail::DeviceClocks>(model, ids_);
  }
  /// The clocks of simulated devices, null otherwise; call restart() when the ranks' clocks are restarted
  /// (comm::restart_clocks).
  detail::DeviceClocks* clocks() const requires(std::same_as<M, Host>) { return queues_.clocks.get(); }
  const DeviceTraffic& traffic() const { return traffic_; }

  /// An array of n zeros on a device, or of n elements copied from the host.
  template <class T>
  DeviceArray<T, M> array(int device, std::size_t n) {
    const auto use = queues_.use(device);
    return {device, Array<T, M>(n)};
  }
  template <class T>
  DeviceArray<T, M> array(int device, std::span<const T> host) {
    auto a = array<T>(device, host.size());
    if (host.empty()) return a;
    queues_.to_device(device, a.data(), host.data(), host.size_bytes());
    queues_.wait(device);
    return a;
  }

  /// Runs f() with the device as the current one, so that sweeps on views of its arrays run there.
  template <class F>
  decltype(auto) on(int device, F&& f) const {
    const auto use = queues_.use(device);
    return f();
  }
  /// Runs a team kernel, whose pointers are to this device's memory, on blocks [0, blocks).
  template <class Kernel>
  void launch([[maybe_unused]] int device, Global blocks, const Kernel& kernel) const {
    if constexpr (std::same_as<M, Host>) {
      if (blocks > 0) launch_serial(blocks, kernel);
    } else {
#ifdef __CUDACC__
      const auto use = queues_.use(device);
      launch_cuda(blocks, kernel);
#else
      static_assert(std::same_as<M, Host>, "kernels on CUDA devices are compiled by nvcc");
#endif
    }
  }

  /// One copy from the host; `host` must not change until the device has been waited for.
  template <class T>
  void to_device(const T* host, DeviceArray<T, M>& to) {
    ++traffic_.to_devices, traffic_.bytes_to_devices += double(to.size() * sizeof(T));
    if (to.size() > 0) queues_.to_device(to.device, to.data(), host, to.size() * sizeof(T));
  }
  /// One copy to the host; `host` is valid after wait().
  template <class T>
  void to_host(const DeviceArray<T, M>& from, std::size_t first, std::size_t count, T* host) {
    ++traffic_.to_host, traffic_.bytes_to_host += double(count * sizeof(T));
    if (count > 0) queues_.to_host(from.device, host, from.data() + first, count * sizeof(T));
  }
  /// The same concurrently with later work of the device; until wait_aside(), `from` must not change and `host` is not
  /// valid. One at a time.
  template <class T>
  void to_host_aside(const DeviceArray<T, M>& from, std::size_t first, std::size_t count, T* host) {
    ++traffic_.to_host, traffic_.bytes_to_host += double(count * sizeof(T));
    if (count > 0) queues_.to_host_aside(from.device, host, from.data() + first, count * sizeof(T));
  }
  void wait_aside(int device) {
    ++traffic_.waits;
    queues_.wait_aside(device);
  }
  /// to[at .. at + count) := from[first .. first + count), between devices by the path: one copy, or two through the
  /// host.
  template <class T>
  void between(const DeviceArray<T, M>& from, std::size_t first, std::size_t count, DeviceArray<T, M>& to,
               DevicePath path, std::size_t at = 0) {
    const std::size_t bytes = count * sizeof(T);
    if (path == DevicePath::host) {
      T* const staging = reinterpret_cast<T*>(queues_.staging(bytes));
      to_host(from, first, count, staging);
      wait(from.device);
      ++traffic_.to_devices, traffic_.bytes_to_devices += double(bytes);
      if (count > 0) queues_.to_device(to.device, to.data() + at, staging, bytes);
      wait(to.device);  // before the staging memory is reused
      return;
    }
    ++traffic_.between, traffic_.bytes_between += double(bytes);
    if (count > 0)
      queues_.between(from.device, to.device, to.data() + at, from.data() + first, bytes, path == DevicePath::peer);
  }
  void wait(int device) {
    ++traffic_.waits;
    queues_.wait(device);
  }
  /// Starts a sweep with sums over n elements of a device; sums() gets them.
  template <class In, class Io, class Out, class F>
  auto start_sums(int device, [[maybe_unused]] std::size_t n, const In& in, const Io& io, const Out& out,
                  const F& f) const {
    const auto use = queues_.use(device);
    if constexpr (std::same_as<M, Host>) {
      return sweep(in, io, out, f);
    } else {
#ifdef __CUDACC__
      return start_device_sweep(n, in, io, out, f);
#else
      static_assert(std::same_as<M, Host>, "kernels on CUDA devices are compiled by nvcc");
#endif
    }
  }
  /// The result of start_sums() of this device; the host waits. To be called before other sums are started there.
  template <class S>
  auto sums(int device, const S& started) {
    queues_.read_scalars(device);
    ++traffic_.reads;
    if constexpr (std::same_as<M, Host>) {
      traffic_.scalars += S::count;
      return started;
    } else {
      auto values = started.get();
      traffic_.scalars += decltype(values)::count;
      return values;
    }
  }

  /// First half of a local all-reduce: first += the part [begin[d], end[d]) of every other device's array, in the order
  /// of the devices for every path. `scratch` is on the first device and as long as the longest part.
  template <class T>
  void sum_on_first(std::vector<DeviceArray<T, M>>& parts, std::span<const std::pair<Local, Local>> rows,
                    DeviceArray<T, M>& scratch, DevicePath path) {
    for (std::size_t d = 1; d < parts.size(); ++d) {
      const std::size_t from = std::size_t(rows[d].first), count = std::size_t(rows[d].second) - from;
      if (count == 0) continue;
      between(parts[d], from, count, scratch, path);
      on(0, [&] {
        sweep(reads(std::as_const(scratch).part(0, count)), updates(parts[0].part(from, count)), writes(),
              detail::AddInto<T>{});
      });
    }
  }
  /// Broadcasts elements of the host to all devices: a copy to each, or one to the first device and one from there to
  /// each other.
  template <class T>
  void broadcast(const T* host, std::span<DeviceArray<std::type_identity_t<T>, M>> to, DevicePath path) {
    to_device(host, to[0]);
    for (std::size_t d = 1; d < to.size(); ++d) {
      if (path == DevicePath::host) to_device(host, to[d]);
      else between(to[0], 0, to[0].size(), to[d], path);
    }
  }

 private:
  static const std::vector<int>& checked(const std::vector<int>& ids) {
    require(!ids.empty(), "a group without devices");
    return ids;
  }
  std::vector<int> ids_;
  mutable detail::Queues<M> queues_;
  DeviceTraffic traffic_;
};

}  // namespace tacit::exec
