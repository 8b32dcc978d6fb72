// Values of cells that other ranks need, from a device's memory and to it: the ghosts of a level, cells that move to
// fewer ranks, and the last level's cells, which every rank gets.
#pragma once

#include <tacit/exec/devices.hpp>
#include <tacit/exec/kernels.hpp>
#include <tacit/precond/multigrid/device_levels.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

#ifdef __CUDACC__
#include <tacit/exec/cuda.hpp>
#endif

namespace tacit::precond::mg {

template <class V, Memory M>
exec::Array<V, M> array_from(const std::vector<V>& v) {
  return exec::Array<V, M>::from(std::span<const V>(v));
}

/// launch(blocks, kernel) starts a kernel.
template <int Threads, class Launch, class T, Memory M>
void copy_pairs(const Launch& launch, const exec::Array<std::int64_t, M>& pairs, const T* from, T* to) {
  const auto count = std::int64_t(pairs.size() / 2);
  launch((count + Threads - 1) / Threads, CopyPairs<T, Threads>{count, pairs.data(), from, to});
}

/// Copies the same way back: what was received is sent. Of a move, which sends each value to one place.
inline CellCopies reversed(const CellCopies& c) {
  CellCopies back;
  back.exchange = c.exchange, back.forward = !c.forward;
  for (std::size_t i = 0; i < c.own.size(); i += 2) back.own.push_back(c.own[i + 1]), back.own.push_back(c.own[i]);
  back.sent.resize(c.received.size() / 2);
  for (std::size_t i = 0; i < c.received.size(); i += 2) back.sent[std::size_t(c.received[i + 1])] = c.received[i];
  for (std::size_t i = 0; i < c.sent.size(); ++i)
    back.received.push_back(c.sent[i]), back.received.push_back(std::int64_t(i));
  return back;
}

/// CellCopies in memory M. What neighbours need is packed by one launch for all of them and copied to page-locked
/// memory at once; what arrives is copied back at once and put in place by one launch. Copies within the rank are done
/// while messages travel.
template <class T, Memory M, int Threads>
class CellExchange {
 public:
  explicit CellExchange(const CellCopies& c)
      : own_(array_from<std::int64_t, M>(c.own)),
        packed_(array_from<std::int64_t, M>(in_turn(c.sent))),
        received_(array_from<std::int64_t, M>(c.received)),
        exchange_(c.exchange),
        forward_(c.forward) {
    if (!exchange_) return;
    const auto& pattern = exchange_->pattern();
    const std::size_t out = pattern.send_index.size(), in = std::size_t(pattern.ghost_count());
    sent_count_ = forward_ ? out : in, arriving_count_ = forward_ ? in : out;
    require(c.sent.size() == sent_count_, "an exchange of ", sent_count_, " values is given ", c.sent.size());
    if constexpr (!std::same_as<M, Host>) {
      leaving_ = exec::Array<T, M>(sent_count_), arrived_ = exec::Array<T, M>(arriving_count_);
      host_ = exec::HostBuffer<T, M>(sent_count_);
    }
  }

  /// Collective where ranks exchange; waits for the device where this rank sends
  /// something.
  template <class Launch>
  void run(const Launch& launch, const T* from, T* to) {
    if (!exchange_) return copy_pairs<Threads>(launch, own_, from, to);
    const int number = exchange_->open(forward_);
    pack(launch, from, reinterpret_cast<T*>(exchange_->outgoing(number)));
    exchange_->post(number);
    if constexpr (!std::same_as<M, Host>) exchange_->comm().poll();  // sums that the device formed before are there
    copy_pairs<Threads>(launch, own_, from, to);
    exchange_->wait(number);
    unpack(launch, reinterpret_cast<const T*>(exchange_->incoming(number)), to);
    exchange_->close(number);
  }

 private:
  using Pairs = exec::Array<std::int64_t, M>;
  static std::vector<std::int64_t> in_turn(const std::vector<std::int64_t>& places) {
    std::vector<std::int64_t> pairs;
    for (std::size_t i = 0; i < places.size(); ++i) pairs.push_back(std::int64_t(i)), pairs.push_back(places[i]);
    return pairs;
  }
  template <class Launch>
  void pack(const Launch& launch, const T* from, T* out) {
    if constexpr (std::same_as<M, Host>) {
      copy_pairs<Threads>(launch, packed_, from, out);
    } else if (sent_count_ > 0) {
      copy_pairs<Threads>(launch, packed_, from, leaving_.data());
      exec::copy_to_host(host_.data(), leaving_.data(), sent_count_ * sizeof(T));
      std::copy_n(host_.data(), sent_count_, out);
    }
  }
  template <class Launch>
  void unpack(const Launch& launch, const T* in, T* to) {
    if constexpr (std::same_as<M, Host>) {
      copy_pairs<Threads>(launch, received_, in, to);
    } else if (arriving_count_ > 0) {
#ifdef __CUDACC__
      exec::upload(arrived_.data(), in, arriving_count_ * sizeof(T));
#endif
      copy_pairs<Threads>(launch, received_, arrived_.data(), to);
    }
  }

  Pairs own_, packed_, received_;
  std::shared_ptr<comm::Exchange> exchange_;
  bool forward_;
  std::size_t sent_count_ = 0, arriving_count_ = 0;
  exec::Array<T, M> leaving_, arrived_;
  exec::HostBuffer<T, M> host_;
};

/// A vector of the last level, of which several ranks have cells, as a whole on each of them.
template <class T, Memory M, int Threads>
class SharedVector {
 public:
  /// place: of this rank's cells in a field.
  SharedVector(const layout::Space& space, const std::vector<std::int64_t>& place)
      : space_(space), all_(std::size_t(space.size())), host_(std::size_t(space.size())) {
    CellCopies in, out;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const auto number = space.begin() + Global(i);
      in.own.push_back(number), in.own.push_back(place[i]);
      out.own.push_back(place[i]), out.own.push_back(number);
    }
    own_ = array_from<std::int64_t, M>(in.own), back_ = array_from<std::int64_t, M>(out.own);
  }
  T* data() { return all_.data(); }

  /// Collective: one reduction of as many numbers as there are cells, to which each rank adds its own. All get the same
  /// bits. Waits for the device.
  template <class Launch>
  void gather(const Launch& launch, const T* field) {
    copy_pairs<Threads>(launch, own_, field, all_.data());
    const auto first = std::size_t(space_.begin()), count = own_.size() / 2;
    std::fill_n(host_.data(), host_.size(), T(0));
    if constexpr (std::same_as<M, Host>) std::copy_n(all_.data() + first, count, host_.data() + first);
    else if (count > 0) exec::copy_to_host(host_.data() + first, all_.data() + first, count * sizeof(T));
    space_.start_sum(host_.data(), host_.size()).wait(host_.data());
    if constexpr (std::same_as<M, Host>) std::copy_n(host_.data(), host_.size(), all_.data());
    else exec::copy_to_device(all_.data(), host_.data(), host_.size() * sizeof(T));
  }
  /// This rank's cells of the vector into a field.
  template <class Launch>
  void scatter(const Launch& launch, T* field) const {
    copy_pairs<Threads>(launch, back_, all_.data(), field);
  }

 private:
  layout::Space space_;
  exec::Array<std::int64_t, M> own_, back_;
  exec::Array<T, M> all_;
  exec::HostBuffer<T, M> host_;
};

}  // namespace tacit::precond::mg
