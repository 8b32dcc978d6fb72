// Space: how the elements of a vector are spread over ranks, which decides what a reduction needs.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/sums.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tacit::layout {

/// Contiguous ranges of global indices: rank r owns [begin(r), end(r)). Some may be empty.
class Partition {
 public:
  Partition() = default;
  /// offsets[0] = 0 <= offsets[1] <= ... <= offsets[P] = n.
  explicit Partition(std::vector<Global> offsets) : offsets_(std::move(offsets)) {
    require(offsets_.size() >= 2 && offsets_.front() == 0 && std::is_sorted(offsets_.begin(), offsets_.end()),
            "a partition's offsets start at 0 and do not fall");
  }
  /// n indices in P ranges whose lengths differ by at most one.
  static Partition blocks(Global n, int parts) {
    require(n >= 0 && parts >= 1, "a partition of ", n, " indices into ", parts, " parts");
    std::vector<Global> offsets(parts + 1);
    for (int r = 0; r <= parts; ++r) offsets[r] = n / parts * r + std::min<Global>(r, n % parts);
    return Partition(std::move(offsets));
  }
  /// Rank r owns counts[r] indices.
  static Partition of_counts(std::span<const Global> counts) {
    std::vector<Global> offsets{0};
    for (Global c : counts) offsets.push_back(offsets.back() + c);
    return Partition(std::move(offsets));
  }
  Global size() const { return offsets_.back(); }
  int parts() const { return int(offsets_.size()) - 1; }
  Global begin(int rank) const { return offsets_[rank]; }
  Global end(int rank) const { return offsets_[rank + 1]; }
  /// The rank that owns a global index; O(log P).
  int owner(Global index) const {
    return int(std::upper_bound(offsets_.begin(), offsets_.end(), index) - offsets_.begin()) - 1;
  }
  std::span<const Global> offsets() const { return offsets_; }
  friend bool operator==(const Partition&, const Partition&) = default;

 private:
  std::vector<Global> offsets_{0, 0};
};

/// A reduction of sums that devices compute (Space::sum); wait() may be called once.
template <class Started>
class [[nodiscard]] SumsOfDevices {
  using Total = decltype(std::declval<Started&>().wait());
  using Reduction = comm::PendingSums<Total::count, typename Total::scalar>;

 public:
  /// To be waited for; counted on `one_rank` where it is not null.
  SumsOfDevices(Started own, const comm::Communicator* one_rank) : own_(std::move(own)), one_rank_(one_rank) {}
  explicit SumsOfDevices(Reduction reduction) : reduction_(std::move(reduction)) {}
  Total wait() {
    if (reduction_) return reduction_->wait();
    return one_rank_ ? one_rank_->sum(own_->wait()).wait() : own_->wait();
  }

 private:
  std::optional<Started> own_;
  const comm::Communicator* one_rank_ = nullptr;
  std::optional<Reduction> reduction_;
};

/// Distributed: every rank holds its own range; a sum over all elements is one reduction.
/// Replicated: every rank holds all elements, with the same bits; a sum needs no message.
class Space {
 public:
  static Space distributed(comm::Communicator comm, Partition partition) {
    require(partition.parts() == comm.size(), "a partition into ", partition.parts(), " parts for ", comm.size(),
            " ranks");
    return Space(std::move(comm), std::move(partition), false);
  }
  static Space distributed(comm::Communicator comm, Global n) {
    auto partition = Partition::blocks(n, comm.size());
    return Space(std::move(comm), std::move(partition), false);
  }
  static Space replicated(comm::Communicator comm, Global n) { return Space(std::move(comm), Partition({0, n}), true); }
  /// The same elements, on the group of devices given by `place`.
  Space on(std::shared_ptr<exec::Place> place) const {
    return Space(impl_->comm, impl_->partition, impl_->replicated, std::move(place));
  }
  /// The same elements, with reductions made together with others' by `sums`, which must outlive the space's vectors.
  Space merging(comm::MergedSums& sums) const {
    return Space(impl_->comm, impl_->partition, impl_->replicated, impl_->place, &sums);
  }

  const comm::Communicator& comm() const { return impl_->comm; }
  const Partition& partition() const { return impl_->partition; }
  bool is_replicated() const { return impl_->replicated; }
  /// Whether reductions are made together with those of other computations: whoever runs them is in a collective call
  /// already, and lets the others run while this computation waits.
  bool is_merging() const { return impl_->sums != nullptr; }
  /// The group of devices; null where the vectors are on none.
  const std::shared_ptr<exec::Place>& place() const { return impl_->place; }
  Global size() const { return impl_->partition.size(); }
  Global begin() const { return impl_->partition.begin(part()); }
  Global end() const { return impl_->partition.end(part()); }
  /// Elements on this rank.
  Local local_size() const { return impl_->local_size; }

  /// Starts the reduction of sums that each rank formed over its own elements. Collective; one reduction if
  /// distributed, none if replicated.
  template <int K, class T>
  comm::PendingSums<K, T> sum(const exec::Sums<K, T>& own) const {
    if (impl_->replicated) return comm::PendingSums<K, T>(own);
    if (impl_->sums && impl_->comm.size() > 1) return comm::PendingSums<K, T>(start_sum(own.v, K));
    return impl_->comm.sum(own);
  }
  /// The same for sums that devices are still computing. Where the reduction needs messages, these are sent when the
  /// sums are there and the host polls or waits for another thing, such as a halo; the host waits for the device in
  /// wait() only, or here where the space merges reductions.
  template <class Started>
  requires requires(Started s) { s.wait(); }
  SumsOfDevices<Started> sum(Started own) const {
    require(impl_->replicated || !impl_->place, "sums over a group of devices, of elements that are spread over ranks");
    if (!needs_messages()) return SumsOfDevices<Started>(std::move(own), impl_->replicated ? nullptr : &impl_->comm);
    using Total = decltype(own.wait());
    using T = typename Total::scalar;
    if constexpr (requires { own.ready(); })  // those of a group, which is replicated, have none
      return SumsOfDevices<Started>(
          comm::PendingSums<Total::count, T>(start_sum<T>(std::move(own), Total::count, [](Started& s, T* to) {
            std::memcpy(to, s.wait().v, Total::count * sizeof(T));
          })));
    else return SumsOfDevices<Started>(sum(own.wait()));
  }
  /// Starts the reduction of n values of T that write(started, T*) gives when started.ready(). Where the space needs
  /// messages; collective.
  template <class T, class Started, class Write>
  comm::PendingSum start_sum(Started started, std::size_t n, Write write) const {
    if (!impl_->sums)
      return impl_->comm.template start_sum<T>(
          std::make_shared<comm::StartedValues<T, Started, Write>>(std::move(started), std::move(write)), n);
    std::vector<T> values(n);
    started.wait();
    write(started, values.data());
    return start_sum(values.data(), n);
  }
  /// Whether a reduction sends messages. The same on all ranks.
  bool needs_messages() const { return !impl_->replicated && impl_->comm.size() > 1; }
  /// Counts a reduction of n values of T that is not started, because it needs no messages. Local.
  template <class T>
  void count_sum(std::size_t n) const {
    if (!impl_->replicated) impl_->comm.count_local_sum(n * (sizeof(T) / sizeof(real_or_self_t<T>)));
  }
  /// Starts the reduction (sum, maximum or minimum) of n values, such as a Gram block; the caller gives wait() the
  /// place of the result.
  template <class T>
  comm::PendingSum start_sum(const T* values, std::size_t n, comm::Operation operation = comm::Operation::sum) const {
    if (impl_->replicated) return comm::PendingSum(values, n);
    if (impl_->sums && impl_->comm.size() > 1) return impl_->sums->start(values, n, operation);
    return impl_->comm.start_sum(values, n, operation);
  }
  /// Sums n values in place over the space. Collective; one reduction if distributed.
  template <class T>
  void sum(T* values, std::size_t n) const {
    if (!impl_->replicated) start_sum(values, n).wait(values);
  }

  /// The same of all numbers but the last, of which it is the maximum; two reductions where they are made together with
  /// those of other computations.
  void sum_and_max(std::span<double> values) const {
    if (impl_->replicated) return;
    if (!impl_->sums || impl_->comm.size() == 1)
      return impl_->comm.start_sum(values.data(), values.size(), comm::Operation::sum_and_max).wait(values.data());
    const std::size_t sums = values.size() - 1;
    auto sum = start_sum(values.data(), sums);
    auto most = start_sum(values.data() + sums, 1, comm::Operation::max);
    sum.wait(values.data());
    most.wait(values.data() + sums);
  }

  /// Equal spaces: their vectors may be combined in one sweep. Threads then take one turn at both (comm/turn.hpp).
  friend bool operator==(const Space& a, const Space& b) {
    if (a.impl_ == b.impl_) return true;
    const bool equal = a.comm() == b.comm() && a.is_replicated() == b.is_replicated() &&
                       a.partition() == b.partition() && a.place() == b.place();
    if (equal) a.comm().join(b.comm());
    return equal;
  }

 private:
  struct Impl {
    comm::Communicator comm;
    Partition partition;
    bool replicated;
    Local local_size;
    std::shared_ptr<exec::Place> place;
    comm::MergedSums* sums;
  };
  Space(comm::Communicator comm, Partition partition, bool replicated, std::shared_ptr<exec::Place> place = nullptr,
        comm::MergedSums* sums = nullptr) {
    const int part = replicated ? 0 : comm.rank();
    const Local n = checked_cast<Local>(partition.end(part) - partition.begin(part), "a rank's number of elements");
    impl_ = std::make_shared<const Impl>(
        Impl{std::move(comm), std::move(partition), replicated, n, std::move(place), sums});
  }
  int part() const { return impl_->replicated ? 0 : impl_->comm.rank(); }
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tacit::layout
