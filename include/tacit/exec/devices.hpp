// Devices: the accelerators of one process, each with its own memory, and the copies of vectors between them and the
// host. Yamazaki et al. 2018, "Analyzing performance of BiCGStab with hierarchical matrix on GPU clusters".
//
//   Devices<Host>    virtual devices: host memory, kernels run on the CPU; same code, same counted copies
//   Devices<Device>  CUDA devices, in files compiled by nvcc
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/names.hpp>
#include <tacit/exec/device_model.hpp>
#include <tacit/exec/launch.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/sweep.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::exec {

/// How vectors travel between the devices of a process (figures 12 and 13 of the paper).
enum class DevicePath {
  /// Through page-locked host memory, a whole part at a time, for which the host waits; a broadcast goes from the host
  /// to all devices at once (the paper's "set").
  host,
  /// From device to device through page-locked host memory in pieces: one leaves its device while the one before
  /// reaches the other, and the host does not wait. A broadcast goes to the first device, then to the others.
  copy,
  /// Over direct links. Sums read the memory of the other device; a broadcast goes to the first device, then to all
  /// others at once. Without a direct link the driver copies.
  peer
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
  /// Copies of vectors, or parts of them. between: also parts that a kernel reads over a direct link.
  Global to_devices = 0, to_host = 0, between = 0;
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
  void launched(int device, bool of_product) const {
    if (clocks) clocks->launched(device, of_product);
  }
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
  void mark(int device) const {
    if (clocks) clocks->mark(device);
  }
  void follow(int device, int marked) const {
    if (clocks) clocks->follow(device, marked);
  }
  void mark_host_read(int device) const {
    if (clocks) clocks->mark_host_read(device);
  }
  void wait_host_read(int device) const {
    if (clocks) clocks->wait_host_read(device);
  }
  void direct(int source, int target, void* to, const void* from, std::size_t bytes) {
    if (clocks) clocks->direct(source, target, double(bytes));
    std::memcpy(to, from, bytes);
  }
  void staged(int source, int target, void* to, const void* from, std::size_t bytes) {
    if (clocks) clocks->staged(source, target, double(bytes));
    std::memcpy(to, from, bytes);
  }
  bool can_read(int, int) const { return true; }
  void reads_over_link(int device, std::size_t bytes) const {
    if (clocks) clocks->reads_over_link(device, double(bytes));
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

/// src/exec/devices.cu. Each device has a queue for its work and one for copies that leave it meanwhile. Nothing here
/// waits but what is called so, and copies of host memory that is not page-locked.
template <>
class Queues<Device> {
 public:
  class Use {
   public:
    Use(int id, void* stream, VirtualClock* clock);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    int id_before_;
    void* stream_before_;
    VirtualClock* host_;
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
  /// What has been enqueued on a device so far is what others follow: their later work comes after it.
  void mark(int device) const;
  void follow(int device, int marked) const;
  /// The same for the host, of copies that read its memory.
  void mark_host_read(int device) const;
  void wait_host_read(int device) const;
  /// A copy over a direct link in the target's queue, which has to follow the source, and the source it.
  void direct(int source, int target, void* to, const void* from, std::size_t bytes);
  /// A copy in pieces through page-locked memory, after the earlier work of both and before their later work.
  void staged(int source, int target, void* to, const void* from, std::size_t bytes);
  /// Whether kernels of `device` can read the memory of `owner`.
  bool can_read(int device, int owner) const;
  void reads_over_link(int device, std::size_t bytes) const {
    if (!clock) return;
    const auto on = use(device);
    Trace::work(read_over_link, double(bytes));
  }
  void wait(int device) const;
  void read_scalars(int device) const { wait(device); }
  std::byte* staging(std::size_t bytes);  ///< page-locked; growing it waits for all queues
  VirtualClock* clock = nullptr;          ///< Devices::declare_to()

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Page-locked memory, which every device can copy from and to while it works. Error(environment) without a device.
void* pinned_allocate(std::size_t bytes);
void pinned_free(void* p) noexcept;

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

/// n elements of host memory, zero at first, for copies to and from devices of M. For CUDA's they are page-locked: a
/// copy of other memory passes through a buffer of the driver while the host waits, so that nothing overlaps with it.
/// No device may be copying from or to it when it is destroyed.
template <class T, Memory M>
class HostBuffer {
 public:
  HostBuffer() = default;
  explicit HostBuffer(std::size_t n) : n_(n) {
    if (n == 0) return;
    if constexpr (std::same_as<M, Host>) {
      p_ = static_cast<T*>(host_allocate(n * sizeof(T)));
    } else {
      p_ = static_cast<T*>(detail::pinned_allocate(n * sizeof(T)));
      std::memset(static_cast<void*>(p_), 0, n * sizeof(T));
    }
  }
  HostBuffer(HostBuffer&& other) noexcept : p_(std::exchange(other.p_, nullptr)), n_(std::exchange(other.n_, 0)) {}
  HostBuffer& operator=(HostBuffer other) noexcept {
    std::swap(p_, other.p_);
    std::swap(n_, other.n_);
    return *this;
  }
  ~HostBuffer() {
    if (!p_) return;
    if constexpr (std::same_as<M, Host>) host_free(p_);
    else detail::pinned_free(p_);
  }
  T* data() { return p_; }
  const T* data() const { return p_; }
  std::size_t size() const { return n_; }

 private:
  T* p_ = nullptr;
  std::size_t n_ = 0;
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
  /// For CUDA devices used by a thread with a virtual clock (a simulated rank): kernels declare their work to this
  /// clock while a device is the current one, and not to the thread's.
  void declare_to(VirtualClock* clock) requires(std::same_as<M, Device>) { queues_.clock = clock; }
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
  void launch(int device, Global blocks, const Kernel& kernel) const {
    if (blocks == 0) return;
    if constexpr (std::same_as<M, Host>) {
      queues_.launched(device, true);
      exec::launch<M>(blocks, kernel);
    } else {
      const auto use = queues_.use(device);
      exec::launch<M>(blocks, kernel);
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
  /// host. After the earlier work of both devices and before their later work.
  template <class T>
  void between(const DeviceArray<T, M>& from, std::size_t first, std::size_t count, DeviceArray<T, M>& to,
               DevicePath path, std::size_t at = 0) {
    const std::size_t bytes = count * sizeof(T);
    if (path == DevicePath::host) {
      T* const staging = reinterpret_cast<T*>(queues_.staging(bytes));
      queues_.mark(0);
      if (from.device != 0) queues_.follow(from.device, 0);  // which may be copying the last sum's parts from there
      to_host(from, first, count, staging);
      wait(from.device);
      from_staging(staging, count, to, at);
      wait(to.device);  // before the staging memory is reused
      return;
    }
    count_between(bytes);
    if (count == 0) return;
    if (path == DevicePath::copy) {
      queues_.staged(from.device, to.device, to.data() + at, from.data() + first, bytes);
      return;
    }
    queues_.mark(from.device);
    queues_.follow(to.device, from.device);
    queues_.direct(from.device, to.device, to.data() + at, from.data() + first, bytes);
    queues_.mark(to.device);
    queues_.follow(from.device, to.device);
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
      queues_.launched(device, false);  // the kernel that adds the sums of blocks
      return sweep(in, io, out, f);
    } else {
#ifdef __CUDACC__
      const Span span("sweep", "exec", detail::sweep_bytes(n, in, io, out));
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
  /// of the devices for every path. `scratch` is on the first device and as long as the longest part. By `host` all
  /// parts leave their devices at once, and the host waits for each; by `peer` the first device reads them where they
  /// are.
  template <class T>
  void sum_on_first(std::vector<DeviceArray<T, M>>& parts, std::span<const std::pair<Local, Local>> rows,
                    DeviceArray<T, M>& scratch, DevicePath path) {
    const auto from = [&](std::size_t d) { return std::size_t(rows[d].first); };
    const auto count = [&](std::size_t d) { return std::size_t(rows[d].second) - from(d); };
    const auto add = [&](std::size_t d, const View<const T, M>& part) {
      on(0, [&] { sweep(reads(part), updates(parts[0].part(from(d), count(d))), writes(), detail::AddInto<T>{}); });
    };
    T* staging = nullptr;
    if (path == DevicePath::host) {
      std::size_t all = 0;
      for (std::size_t d = 1; d < parts.size(); ++d) all += count(d);
      staging = reinterpret_cast<T*>(queues_.staging(all * sizeof(T)));
      queues_.mark(0);  // the copies of the last sum from the staging memory
      std::size_t at = 0;
      for (std::size_t d = 1; d < parts.size(); at += count(d++)) {
        if (count(d) == 0) continue;
        queues_.follow(int(d), 0);
        to_host(parts[d], from(d), count(d), staging + at);
      }
    }
    for (std::size_t d = 1; d < parts.size(); ++d) {
      const std::size_t bytes = count(d) * sizeof(T);
      if (bytes == 0) continue;
      const View<const T, M> copied = std::as_const(scratch).part(0, count(d));
      if (path == DevicePath::host) {
        wait(int(d));
        from_staging(staging, count(d), scratch, 0);
        staging += count(d);
        add(d, copied);
      } else if (path == DevicePath::copy || !queues_.can_read(0, int(d))) {
        between(parts[d], from(d), count(d), scratch, path);
        add(d, copied);
      } else {
        count_between(bytes);
        queues_.mark(int(d));
        queues_.follow(0, int(d));
        queues_.reads_over_link(0, bytes);
        add(d, std::as_const(parts[d]).part(from(d), count(d)));
        queues_.mark(0);
        queues_.follow(int(d), 0);  // before the part is written again
      }
    }
  }
  /// Broadcasts elements of the host to all devices: a copy to each, or one to the first device and one from there to
  /// each other. `host` must not change until wait_for_broadcast() or until the devices have been waited for.
  template <class T>
  void broadcast(const T* host, std::span<DeviceArray<std::type_identity_t<T>, M>> to, DevicePath path) {
    readers_ = path == DevicePath::host ? int(to.size()) : 1;
    for (int d = 0; d < readers_; ++d) {
      to_device(host, to[std::size_t(d)]);
      queues_.mark_host_read(d);
    }
    const std::size_t bytes = to[0].size() * sizeof(T);
    if (path == DevicePath::peer) queues_.mark(0);
    for (int d = readers_; d < int(to.size()); ++d) {
      count_between(bytes);
      if (bytes == 0) continue;
      if (path == DevicePath::copy) {
        queues_.staged(0, d, to[std::size_t(d)].data(), to[0].data(), bytes);
      } else {
        queues_.follow(d, 0);
        queues_.direct(0, d, to[std::size_t(d)].data(), to[0].data(), bytes);
        queues_.mark(d);
      }
    }
    // The first device's later work may overwrite what the others read; it waits for them when all have begun.
    if (path == DevicePath::peer)
      for (int d = readers_; d < int(to.size()); ++d) queues_.follow(0, d);
  }
  /// Until the last broadcast() has read its elements of the host, which may then change.
  void wait_for_broadcast() {
    for (int d = 0; d < readers_; ++d) {
      ++traffic_.waits;
      queues_.wait_host_read(d);
    }
    readers_ = 0;
  }
  /// Gives every device, which has the elements [first, second) of part(d), the parts of the others: a copy for each
  /// pair of devices. By `peer` all of them at once.
  template <class T, class Part>
  void complete(std::span<DeviceArray<T, M>> copies, const Part& part, DevicePath path) {
    const int count = int(copies.size());
    const auto pairs = [&](const auto& f) {
      for (int source = 0; source < count; ++source)
        for (int target = 0; target < count; ++target)
          if (target != source) f(source, target);
    };
    if (path != DevicePath::peer) {
      pairs([&](int source, int target) {
        const auto [from, end] = part(source);
        between(copies[std::size_t(source)], from, end - from, copies[std::size_t(target)], path, from);
      });
      return;
    }
    for (int d = 0; d < count; ++d) queues_.mark(d);
    pairs([&](int source, int target) { queues_.follow(target, source); });
    pairs([&](int source, int target) {
      const auto [from, end] = part(source);
      const std::size_t bytes = (end - from) * sizeof(T);
      count_between(bytes);
      if (bytes > 0)
        queues_.direct(source, target, copies[std::size_t(target)].data() + from,
                       copies[std::size_t(source)].data() + from, bytes);
    });
    for (int d = 0; d < count; ++d) queues_.mark(d);
    pairs([&](int source, int target) { queues_.follow(source, target); });
  }

 private:
  static const std::vector<int>& checked(const std::vector<int>& ids) {
    require(!ids.empty(), "a group without devices");
    return ids;
  }
  void count_between(std::size_t bytes) {
    ++traffic_.between, traffic_.bytes_between += double(bytes);
  }
  template <class T>
  void from_staging(const T* staging, std::size_t count, DeviceArray<T, M>& to, std::size_t at) {
    ++traffic_.to_devices, traffic_.bytes_to_devices += double(count * sizeof(T));
    if (count > 0) queues_.to_device(to.device, to.data() + at, staging, count * sizeof(T));
  }
  std::vector<int> ids_;
  mutable detail::Queues<M> queues_;
  DeviceTraffic traffic_;
  int readers_ = 0;  // the first devices, which read the host's elements of the last broadcast
};

}  // namespace tacit::exec

template <>
inline constexpr auto tacit::names_of<tacit::exec::DevicePath> =
    tacit::named<tacit::exec::DevicePath>("path between devices", {{tacit::exec::DevicePath::host, "host"},
                                                                   {tacit::exec::DevicePath::copy, "copy"},
                                                                   {tacit::exec::DevicePath::peer, "peer"}});
