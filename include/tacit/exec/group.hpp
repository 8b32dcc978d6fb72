// Group<M>: the devices of a process as one memory space. A vector has a copy on each device, a sweep runs on each, and
// its sums are pending until wait(). Methods run on it unchanged.
//
//   auto devices = std::make_shared<exec::Devices<Host>>(std::vector{0, 1});
//   const op::HMatrixOnDevices<double, Host> A(matrix, devices);
//   layout::Vector<double, Group<Host>> b(A.range()), x(A.domain());
//   b.assign(numbers);
//   krylov::solve<double, Group<Host>>(A, nullptr, b, x, options);
#pragma once

#include <tacit/exec/devices.hpp>
#include <tacit/exec/kernels.hpp>
#include <tacit/exec/pairs.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace tacit::exec {

/// How the devices of a group share vector operations.
enum class VectorWork {
  redundant,  ///< each device does all of them; the host reads the sums of the first
  shared      ///< each device does a part of every sum, and of vectors that no product reads ("hierarchical")
};

/// How long the host of a pipelined method reads sums while the result of a product is communicated.
enum class DeviceOverlap {
  copy,   ///< until the own rows have arrived (the paper's pipe1)
  gather  ///< while rows are sent to all ranks (the paper's pipe2)
};

/// The devices that hold the vectors of a space (layout::Space::on), and how they share the work. Settings may change
/// between solves.
template <Memory M>
class DeviceGroup final : public Place {
 public:
  DeviceGroup(std::shared_ptr<Devices<M>> devices, DevicePath path) : devices_(std::move(devices)), path_(path) {
    require(devices_ != nullptr, "a group without devices");
  }
  Devices<M>& devices() const { return *devices_; }
  int size() const { return devices_->size(); }
  DevicePath path() const { return path_; }

  VectorWork work = VectorWork::redundant;
  DeviceOverlap overlap = DeviceOverlap::gather;
  /// Called once before the host next waits for sums: sends messages that are ready.
  std::function<void()> before_waiting;

  /// A device's part [first, second) of n elements, in whole cache lines.
  std::pair<std::size_t, std::size_t> part(int device, std::size_t n) const {
    const auto cut = [&](int k) { return k == size() ? n : n * std::size_t(k) / std::size_t(size()) / 32 * 32; };
    return {cut(device), cut(device + 1)};
  }

 private:
  std::shared_ptr<Devices<M>> devices_;
  DevicePath path_;
};

/// n elements on each device of the group `place`, zero at first. Error(usage) where `place` is no group.
template <class T, Memory M>
class Array<T, Group<M>> {
 public:
  using scalar = T;
  using memory = Group<M>;

  Array(std::size_t n, const std::shared_ptr<Place>& place) : group_(std::dynamic_pointer_cast<DeviceGroup<M>>(place)) {
    require(group_ != nullptr, "a vector on a group of devices, in a space that names no such group");
    for (int d = 0; d < group_->size(); ++d) copies_.push_back(group_->devices().template array<T>(d, n));
  }
  Array(const Array& other) : Array(other.size(), other.group_) {
    sweep(reads(other.view()), updates(), writes(view()), detail::CopyInto<T>{});
  }
  Array(Array&&) noexcept = default;
  Array& operator=(Array other) noexcept {
    std::swap(group_, other.group_);
    std::swap(copies_, other.copies_);
    std::swap(whole_, other.whole_);
    return *this;
  }

  DeviceGroup<M>& group() const { return *group_; }
  std::size_t size() const { return copies_[0].size(); }
  View<T, Group<M>> view() { return View<T, Group<M>>(*this); }
  View<const T, Group<M>> view() const { return View<const T, Group<M>>(*this); }

  /// Copies elements of the host to all devices, and back.
  void assign(std::span<const T> host) {
    auto& devices = group_->devices();
    devices.broadcast(host.data(), copies_, group_->path());
    for (int d = 0; d < group_->size(); ++d) devices.wait(d);
    whole_ = true;
  }
  void to_host(T* host) const {
    auto& devices = group_->devices();
    for (int d = 0; d < (whole_ ? 1 : group_->size()); ++d) {
      const auto [from, end] = whole_ ? std::pair(std::size_t(0), size()) : group_->part(d, size());
      devices.to_host(copies_[std::size_t(d)], from, end - from, host + from);
      devices.wait(d);
    }
  }

 private:
  friend class View<T, Group<M>>;
  friend class View<const T, Group<M>>;
  /// Gives every device the parts of the others.
  void complete() {
    if (std::exchange(whole_, true)) return;
    group_->devices().complete(
        std::span(copies_), [&](int d) { return group_->part(d, size()); }, group_->path());
  }
  std::shared_ptr<DeviceGroup<M>> group_;
  std::vector<DeviceArray<T, M>> copies_;
  bool whole_ = true;  // else each device has its part only
};

template <class T, Memory M>
class View<T, Group<M>> {
 public:
  using scalar = std::remove_const_t<T>;
  using memory = Group<M>;
  static constexpr bool may_be_parts = false;

  explicit View(std::conditional_t<std::is_const_v<T>, const Array<scalar, Group<M>>, Array<scalar, Group<M>>>& array)
      : array_(const_cast<Array<scalar, Group<M>>*>(&array)) {}
  View own() const { return *this; }
  std::size_t size() const { return array_->size(); }
  DeviceGroup<M>& group() const { return array_->group(); }

  /// The copy on a device, complete after complete(). complete() is allowed on const vectors: it copies parts between
  /// devices and changes no value.
  auto& on(int device) const { return static_cast<Copy&>(array_->copies_[std::size_t(device)]); }
  std::span<DeviceArray<scalar, M>> copies() const requires(!std::is_const_v<T>) { return array_->copies_; }
  void complete() const { array_->complete(); }
  bool whole() const { return array_->whole_; }
  void set_whole(bool whole) const requires(!std::is_const_v<T>) { array_->whole_ = whole; }

 private:
  using Copy = std::conditional_t<std::is_const_v<T>, const DeviceArray<scalar, M>, DeviceArray<scalar, M>>;
  Array<scalar, Group<M>>* array_;
};

/// The result of parts(vector).
template <class T, Memory M>
struct Parts : View<T, Group<M>> {
  static constexpr bool may_be_parts = true;
  explicit Parts(const View<T, Group<M>>& view) : View<T, Group<M>>(view) {}
  Parts own() const { return *this; }
};

/// Pending sums of a sweep on the devices that form them; to be waited for once, before the sums of another sweep are
/// started.
template <class S, Memory M>
class [[nodiscard]] GroupSums {
 public:
  GroupSums(DeviceGroup<M>& group, std::vector<S> started) : group_(&group), started_(std::move(started)) {}
  /// Their total, added in the order of the devices.
  auto wait() {
    if (const auto leave = std::exchange(group_->before_waiting, nullptr)) leave();
    auto& devices = group_->devices();
    auto total = devices.sums(0, started_[0]);
    for (std::size_t d = 1; d < started_.size(); ++d) add_to(total, devices.sums(int(d), started_[d]));
    return total;
  }

 private:
  DeviceGroup<M>* group_;
  std::vector<S> started_;
};

namespace detail {

/// A formula of R read vectors with its sums dropped, and with the updated vectors selected by Drop computed from zeros
/// and dropped.
template <class F, class T, int R, bool... Drop>
struct Without {
  static constexpr int dropped = (0 + ... + int(Drop));
  F f;
  template <class... A>
  TACIT_HD void operator()(A&... a) const {
    T none[sizeof...(Drop) + 1] = {};
    call(Pack<A*...>{{&a}...}, none, std::make_index_sequence<sizeof...(A) + dropped>{});
  }

 private:
  TACIT_HD static constexpr bool drops(int i) {
    constexpr bool drop[] = {Drop..., false};
    return i >= R && i < R + int(sizeof...(Drop)) && drop[i - R];
  }
  TACIT_HD static constexpr int place(int i) {
    int kept = 0;
    for (int j = 0; j < i; ++j) kept += !drops(j);
    return kept;
  }
  template <class P, std::size_t... i>
  TACIT_HD void call(const P& args, T* none, std::index_sequence<i...>) const {
    f(argument<i>(args, none)...);
  }
  template <std::size_t i, class P>
  TACIT_HD static auto& argument(const P& args, T* none) {
    if constexpr (drops(int(i))) return none[i - R];
    else return *get<std::size_t(place(int(i)))>(args);
  }
};

/// Elements [from, end) of the views' copies on a device.
template <template <class...> class List, class... V>
auto on_device(const std::tuple<V...>& views, int device, std::size_t from, std::size_t end) {
  return std::apply(
      [&](const auto&... v) {
        return List<decltype(v.on(device).part(from, end))...>{{v.on(device).part(from, end - from)...}};
      },
      views);
}

template <class V>
auto kept(const V& v) {
  if constexpr (V::may_be_parts) return std::tuple<>();
  else return std::tuple(v);
}

}  // namespace detail

#ifdef __CUDACC__
template <class F, class T, int R, bool... Drop>
struct KernelFormula<detail::Without<F, T, R, Drop...>> {
  using type = detail::Without<typename KernelFormula<F>::type, kernel_scalar_t<T>, R, Drop...>;
};
#endif

/// sweep on a group; does not wait. Redundant: over all elements on every device, with sums on the first. Shared: each
/// device forms the sums over its part; written vectors are complete afterwards, unless they are given as parts() or
/// (in sweeps without sums) computed from vectors of which devices have parts only. Error(usage) where the vectors are
/// of different groups.
template <class F, class... R, class... U, class... W>
auto group_sweep(std::size_t n, const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out, const F& f) {
  constexpr bool writes_some = sizeof...(U) + sizeof...(W) > 0;
  static_assert(!(R::may_be_parts || ...) && !(W::may_be_parts || ...), "parts() is for updated vectors");
  const auto inputs = std::tuple_cat(in.v, io.v);
  const auto outputs = std::tuple_cat(io.v, out.v);
  const auto operands = std::tuple_cat(inputs, out.v);
  auto& group = std::get<0>(operands).group();
  const bool together = std::apply([&](const auto&... v) { return ((&v.group() == &group) && ...); }, operands);
  require(together, "a sweep over vectors of different groups of devices");
  auto& devices = group.devices();
  const bool shared = group.work == VectorWork::shared;
  const auto run = [&](int d, std::size_t from, std::size_t end, const auto& updated, const auto& formula) {
    if (from == end) return;
    using detail::on_device;
    devices.on(d, [&] {
      sweep(on_device<Reads>(in.v, d, from, end), on_device<Updates>(updated, d, from, end),
            on_device<Writes>(out.v, d, from, end), formula);
    });
  };
  using Result = decltype(f(std::declval<const typename R::scalar&>()..., std::declval<typename U::scalar&>()...,
                            std::declval<typename W::scalar&>()...));
  if constexpr (std::is_void_v<Result>) {
    const bool whole = std::apply([](const auto&... v) { return (v.whole() && ...); }, inputs);
    if (!shared && !whole) std::apply([](const auto&... v) { (v.complete(), ...); }, inputs);
    for (int d = 0; d < group.size(); ++d) {
      const auto [from, end] = shared && !whole ? group.part(d, n) : std::pair(std::size_t(0), n);
      run(d, from, end, io.v, f);
    }
    std::apply([&](const auto&... v) { (v.set_whole(whole || !shared), ...); }, outputs);
  } else {
    const auto start = [&](int d, std::size_t from, std::size_t end) {
      using detail::on_device;
      return devices.start_sums(d, end - from, on_device<Reads>(in.v, d, from, end),
                                on_device<Updates>(io.v, d, from, end), on_device<Writes>(out.v, d, from, end), f);
    };
    if (writes_some || !shared)
      std::apply([&](const auto&... v) { ((shared && v.may_be_parts ? void() : v.complete()), ...); }, inputs);
    std::vector<decltype(start(0, 0, n))> started;
    for (int d = 0; d < group.size(); ++d) {
      const auto [from, end] = shared ? group.part(d, n) : std::pair(std::size_t(0), d == 0 ? n : 0);
      if (shared || d == 0) started.push_back(start(d, from, end));
      if constexpr (writes_some) {
        using T = typename std::tuple_element_t<0, decltype(outputs)>::scalar;
        const auto rest = [&](std::size_t a, std::size_t b) {
          if (shared)
            run(d, a, b, std::apply([](const auto&... v) { return std::tuple_cat(detail::kept(v)...); }, io.v),
                detail::Without<F, T, sizeof...(R), U::may_be_parts...>{f});
          else run(d, a, b, io.v, detail::Without<F, T, sizeof...(R), (U::may_be_parts && false)...>{f});
        };
        rest(0, from), rest(end, n);
      }
    }
    std::apply([&](const auto&... v) { (v.set_whole(!(shared && v.may_be_parts)), ...); }, outputs);
    return GroupSums(group, std::move(started));
  }
}

template <Scalar T, Memory M>
double largest_magnitude(View<const T, Group<M>> v) {
  v.complete();
  return v.group().devices().on(0, [&] { return largest_magnitude<T, M>(v.on(0).data(), v.size()); });
}

}  // namespace tacit::exec

template <>
inline constexpr auto tacit::names_of<tacit::exec::VectorWork> =
    tacit::named<tacit::exec::VectorWork>("work on vectors", {{tacit::exec::VectorWork::redundant, "redundant"},
                                                              {tacit::exec::VectorWork::shared, "shared"}});

template <>
inline constexpr auto tacit::names_of<tacit::exec::DeviceOverlap> = tacit::named<tacit::exec::DeviceOverlap>(
    "overlap", {{tacit::exec::DeviceOverlap::copy, "copy"}, {tacit::exec::DeviceOverlap::gather, "gather"}});
