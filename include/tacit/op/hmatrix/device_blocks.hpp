// DeviceBlocks: computes the blocks of an HMatrix on a device from a compiled entry functor, many at a time.
//
//   struct Entry { TACIT_HD double operator()(Local i, Local j) const; .. };      // op/kernels/crosses.hpp
//   DeviceBlocks<double, Entry, Host> maker(devices, tree->order(), tree->order(), entry);
//   HMatrix<double> A(space, tree, entries_on_the_host, options, &maker);
//
// It is a template on the functor, to be instantiated where that is defined: for Host (virtual devices) by any
// compiler, for Device by nvcc (as in app/bem).
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/devices.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>
#include <tacit/op/kernels/crosses.hpp>
#include <tacit/op/kernels/cut_crosses.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op {

struct DeviceBlocksOptions {
  /// Bytes of device memory for the results of one make(): room for `crosses` crosses of each block, and dense entries.
  double room = 1 << 30;
  /// The crosses that a block has room for at first; a block that needs more continues in a later round.
  Local crosses = 12;
};

/// Counts since this object was made.
struct DeviceBlocksCounts {
  Global batches = 0;     ///< calls of make()
  Global rounds = 0;      ///< launches of the cross kernel: 1 for each batch, and more for blocks that had to wait
  Global waited = 0;      ///< blocks that had to wait for memory, summed over rounds
  Global cut = 0;         ///< blocks recompressed on the device; the others are recompressed on the host
  Global given_up = 0;    ///< blocks that the host computes by the entry function
  double entries = 0;     ///< evaluated on the device
  double bytes_back = 0;  ///< crosses and entries copied to the host
  double cross_seconds = 0, cut_seconds = 0, entry_seconds = 0;  ///< of the kernels, including copies of states
  double seconds = 0;                                            ///< of make()
};

/// Uses the first of `devices`. T is the type of crosses, float or double. Only take() may be called by several threads
/// at once.
template <class T, class Entry, Memory M>
class DeviceBlocks final : public BlockMaker<T> {
 public:
  /// The pointers in `entry` are to that device's memory. Error(usage) without devices.
  DeviceBlocks(std::shared_ptr<exec::Devices<M>> devices, std::span<const Global> row_order,
               std::span<const Global> column_order, const Entry& entry, const DeviceBlocksOptions& options = {})
      : devices_(std::move(devices)), entry_(entry), options_(options) {
    require(devices_ && devices_->size() >= 1, "blocks made on a device without a device");
    require(options.room > 0 && options.crosses >= 1, "blocks made on a device in ", options.room, " bytes, ",
            options.crosses, " crosses at first");
    order_[0] = upload(local(row_order)), order_[1] = upload(local(column_order));
  }

  /// Error(usage) for Compression::svd, which the device does not have.
  std::size_t make(std::span<const WantedBlock> wanted, const CompressOptions& options) override;
  RawBlock<T> take(std::size_t k) const override;

  const DeviceBlocksCounts& counts() const { return counts_; }
  /// On virtual devices: uses a real thread for every member of a team, for the race checker. Slow.
  void race_check(bool on) { race_check_ = on; }

 private:
  template <class V>
  using On = exec::DeviceArray<V, M>;
  using Kernel = TakeCrosses<T, Entry>;

  template <class V>
  On<V> upload(const std::vector<V>& host) {
    return devices_->array(0, std::span<const V>(host));
  }
  template <class V>
  std::vector<V> download(const On<V>& from, std::size_t count) {
    std::vector<V> host(count);
    devices_->to_host(from, 0, count, host.data());
    devices_->wait(0);
    return host;
  }
  template <class K>
  void launch(std::size_t blocks, const K& kernel) {
    if constexpr (std::same_as<M, Host>)
      if (race_check_) return exec::launch_threads(Global(blocks), kernel);
    devices_->launch(0, Global(blocks), kernel);
  }
  static std::vector<Local> local(std::span<const Global> order) { return {order.begin(), order.end()}; }
  static std::int64_t pages(Local crosses) { return (crosses + crosses_of_page - 1) / crosses_of_page; }

  std::int64_t room_for(const std::vector<Local>& todo, Local crosses) const;
  void take_crosses(const CompressOptions& options);
  void gather_crosses(const On<CrossTask>& task, On<CrossState>& state, On<T*>& page);
  void make_entries();

  std::shared_ptr<exec::Devices<M>> devices_;
  Entry entry_;
  DeviceBlocksOptions options_;
  DeviceBlocksCounts counts_;
  On<Local> order_[2];
  bool race_check_ = false;

  // Of the last make(), on the host.
  struct Place {
    bool dense;
    std::int64_t at;  // of its task, or of its entries
  };
  std::vector<Place> places_;
  std::vector<Block> blocks_;
  std::vector<CrossTask> tasks_;
  std::vector<CrossState> states_;
  std::vector<std::int64_t> first_;  // of each task's crosses
  std::vector<T> crosses_, entries_;
  std::vector<double> sigma_;
  std::vector<EntryTask> entry_tasks_;
  std::int64_t page_count_ = 0, line_count_ = 0, entry_count_ = 0;
};

template <class T, class Entry, Memory M>
std::size_t DeviceBlocks<T, Entry, M>::make(std::span<const WantedBlock> wanted, const CompressOptions& options) {
  const Span span("blocks on a device", "op");
  require(options.method != Compression::svd,
          "singular values of all entries are the host's: on a device blocks are "
          "compressed by aca or aca+");
  const double start = wall_time();
  ++counts_.batches;
  places_.clear(), tasks_.clear(), entry_tasks_.clear(), blocks_.clear();
  page_count_ = line_count_ = entry_count_ = 0;
  double bytes = 0;
  for (const auto& [block, tolerance] : wanted) {
    const Local m = block.rows(), n = block.columns();
    const double needed = sizeof(T) * (block.admissible ? (options_.crosses + 1) * (double(m) + n) : double(m) * n);
    if (!places_.empty() && bytes + needed > options_.room) break;
    bytes += needed;
    blocks_.push_back(block);
    if (block.admissible) {
      places_.push_back({false, std::int64_t(tasks_.size())});
      const Local limit = most_crosses(m, n, options);
      tasks_.push_back({{block.row_begin, block.column_begin},
                        {m, n},
                        limit,
                        enough_crosses(m, n, options),
                        tolerance.relative,
                        tolerance.absolute,
                        page_count_,
                        line_count_});
      page_count_ += pages(limit), line_count_ += std::int64_t(m) + n;
    } else {
      places_.push_back({true, entry_count_});
      const Local some = std::max<Local>(1, EntryTask::most / std::max<Local>(1, m));
      for (Local j = 0; j < n; j += some)
        entry_tasks_.push_back(
            {{block.row_begin, block.column_begin + j}, m, std::min(some, n - j), entry_count_ + std::int64_t(j) * m});
      entry_count_ += std::int64_t(m) * n;
    }
  }
  take_crosses(options);
  make_entries();
  counts_.seconds += wall_time() - start;
  return places_.size();
}

/// The numbers of pages for as many crosses of each block.
template <class T, class Entry, Memory M>
std::int64_t DeviceBlocks<T, Entry, M>::room_for(const std::vector<Local>& todo, Local crosses) const {
  std::int64_t size = 0;
  for (const Local k : todo) {
    const CrossTask& t = tasks_[std::size_t(k)];
    size += CrossPages<T>::numbers(t.count[0], t.count[1]) * pages(std::min(crosses, std::max<Local>(1, t.limit)));
  }
  return size;
}

template <class T, class Entry, Memory M>
void DeviceBlocks<T, Entry, M>::take_crosses(const CompressOptions& options) {
  states_.clear(), first_.clear(), crosses_.clear(), sigma_.clear();
  if (tasks_.empty()) return;
  auto& devices = *devices_;
  const auto task = upload(tasks_);
  auto state = devices.template array<CrossState>(0, tasks_.size());
  auto used = devices.template array<char>(0, std::size_t(line_count_));
  auto page = devices.template array<T*>(0, std::size_t(page_count_));
  auto reference =
      devices.template array<T>(0, options.method == Compression::aca_plus ? std::size_t(line_count_) : std::size_t(0));
  std::vector<On<T>> rooms;
  std::vector<Local> todo(tasks_.size());
  for (std::size_t i = 0; i < todo.size(); ++i) todo[i] = Local(i);
  Kernel kernel{entry_,
                {order_[0].data(), order_[1].data()},
                task.data(),
                nullptr,
                state.data(),
                used.data(),
                reference.data(),
                page.data(),
                nullptr,
                0,
                nullptr,
                cross_share,
                options.samples,
                options.method == Compression::aca_plus,
                options.verify && options.cut_rank == 0,
                false};
  // All blocks have the same tolerances.
  for (const CrossTask& t : tasks_)
    kernel.tracks_norm = kernel.tracks_norm || tracks_norm({t.relative, t.absolute}, options);
  for (Local crosses = options_.crosses; !todo.empty(); crosses *= 2) {
    const std::int64_t size = room_for(todo, crosses);
    rooms.push_back(devices.template array<T>(0, std::size_t(size)));
    const auto list = upload(todo);
    auto taken = devices.template array<std::int64_t>(0, 1);
    kernel.todo = list.data();
    kernel.room = rooms.back().data(), kernel.room_size = size;
    kernel.taken = taken.data();
    const double start = wall_time();
    launch(todo.size(), kernel);
    ++counts_.rounds;
    states_ = download(state, tasks_.size());
    counts_.cross_seconds += wall_time() - start;
    std::erase_if(todo, [&](Local k) { return states_[std::size_t(k)].status != CrossStatus::waiting; });
    counts_.waited += Global(todo.size());
  }
  auto sigma = devices.template array<double>(0, options.recompress ? tasks_.size() * CutCrosses<T>::most : 0);
  if (options.recompress) {
    const double start = wall_time();
    launch(tasks_.size(), CutCrosses<T>{task.data(), state.data(), page.data(), sigma.data(), cut_share,
                                        options.truncation == Norm::spectral, options.cut_rank});
    states_ = download(state, tasks_.size());
    counts_.cut_seconds += wall_time() - start;
    sigma_ = download(sigma, sigma.size());
  }
  gather_crosses(task, state, page);
}

/// Brings the crosses of blocks that are done to the host.
template <class T, class Entry, Memory M>
void DeviceBlocks<T, Entry, M>::gather_crosses(const On<CrossTask>& task, On<CrossState>& state, On<T*>& page) {
  auto& devices = *devices_;
  std::int64_t size = 0;
  for (std::size_t k = 0; k < tasks_.size(); ++k) {
    const CrossState& s = states_[k];
    first_.push_back(size);
    const bool good = s.status == CrossStatus::done || s.status == CrossStatus::cut;
    if (good) size += std::int64_t(s.rank) * (std::int64_t(tasks_[k].count[0]) + tasks_[k].count[1]);
    counts_.entries += double(s.entries);
    counts_.cut += s.status == CrossStatus::cut, counts_.given_up += !good;
  }
  const auto to = upload(first_);
  auto out = devices.template array<T>(0, std::size_t(size));
  launch(tasks_.size(), GatherCrosses<T>{task.data(), state.data(), page.data(), to.data(), out.data()});
  crosses_ = download(out, std::size_t(size));
  counts_.bytes_back += double(size) * sizeof(T);
}

template <class T, class Entry, Memory M>
void DeviceBlocks<T, Entry, M>::make_entries() {
  entries_.clear();
  if (entry_tasks_.empty()) return;
  const auto task = upload(entry_tasks_);
  auto out = devices_->template array<T>(0, std::size_t(entry_count_));
  const double start = wall_time();
  launch(entry_tasks_.size(),
         MakeEntries<T, Entry>{entry_, {order_[0].data(), order_[1].data()}, task.data(), out.data()});
  devices_->wait(0);
  counts_.entry_seconds += wall_time() - start;
  entries_ = download(out, std::size_t(entry_count_));
  counts_.entries += double(entry_count_), counts_.bytes_back += double(entry_count_) * sizeof(T);
}

template <class T, class Entry, Memory M>
RawBlock<T> DeviceBlocks<T, Entry, M>::take(std::size_t k) const {
  const Place place = places_[k];
  RawBlock<T> raw;
  if (place.dense) {
    raw.dense = true;
    raw.entries = Global(blocks_[k].rows()) * blocks_[k].columns();
    raw.u.assign(entries_.begin() + place.at, entries_.begin() + place.at + raw.entries);
    return raw;
  }
  const CrossTask& t = tasks_[std::size_t(place.at)];
  const CrossState& s = states_[std::size_t(place.at)];
  raw.entries = s.entries;
  raw.given_up = s.status != CrossStatus::done && s.status != CrossStatus::cut;
  if (raw.given_up) return raw;
  raw.rank = s.rank, raw.norm = std::sqrt(std::max(s.norm2, 0.0)), raw.error = s.error;
  const auto u = crosses_.begin() + first_[std::size_t(place.at)], v = u + std::int64_t(s.rank) * t.count[0];
  raw.u.assign(u, v), raw.v.assign(v, v + std::int64_t(s.rank) * t.count[1]);
  if (s.status == CrossStatus::cut) {
    const auto sigma = sigma_.begin() + place.at * CutCrosses<T>::most;
    raw.sigma.assign(sigma, sigma + s.rank);
  }
  return raw;
}

}  // namespace tacit::op
