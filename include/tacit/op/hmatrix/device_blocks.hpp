// DeviceBlocks: the blocks of an HMatrix made on a device from a compiled entry functor, all of them at once.
//
//   struct Entry { TACIT_HD double operator()(Local i, Local j) const; .. };      // op/kernels/crosses.hpp
//   DeviceBlocks<double, Entry, Host> maker(devices, tree->order(), tree->order(), entry);
//   HMatrix<double> A(space, tree, entries_on_the_host, options, &maker);
//
// A template of the functor: instantiate it where that is known, for Host (virtual devices) by any compiler, for Device
// by nvcc (app/bem does so for its layers).
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/devices.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>
#include <tacit/op/kernels/crosses.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op {

struct DeviceBlocksOptions {
  /// Of device memory for what one make() makes, in bytes: crosses for as many as `crosses` each, and dense entries.
  double room = 1 << 30;
  /// That a block is given room for at first; a block that needs more waits, and goes on in a next round.
  Local crosses = 12;
};

/// What happened since this was made.
struct DeviceBlocksCounts {
  Global batches = 0;     ///< calls of make()
  Global rounds = 0;      ///< launches of crosses: 1 a batch, and those for blocks that had to wait
  Global waited = 0;      ///< blocks, a round
  Global given_up = 0;    ///< blocks left to the entry function
  double entries = 0;     ///< evaluated on the device
  double bytes_back = 0;  ///< crosses and entries that came to the host
};

/// On the first of `devices`. T is what crosses are kept in, float or double. Not for use by several threads at once
/// but for take().
template <class T, class Entry, Memory M>
class DeviceBlocks final : public BlockMaker<T> {
 public:
  /// `entry` and its pointers are of that device. Error(usage) without devices.
  DeviceBlocks(std::shared_ptr<exec::Devices<M>> devices, std::span<const Global> row_order,
               std::span<const Global> column_order, const Entry& entry, const DeviceBlocksOptions& options = {})
      : devices_(std::move(devices)), entry_(entry), options_(options) {
    require(devices_ && devices_->size() >= 1, "blocks made on a device without a device");
    require(options.room > 0 && options.crosses >= 1, "blocks made on a device in ", options.room, " bytes, ",
            options.crosses, " crosses at first");
    order_[0] = upload(local(row_order)), order_[1] = upload(local(column_order));
  }

  /// Error(usage) for singular values of all entries: these are the host's.
  std::size_t make(std::span<const WantedBlock> wanted, const CompressOptions& options) override;
  RawBlock<T> take(std::size_t k) const override;

  const DeviceBlocksCounts& counts() const { return counts_; }
  /// Virtual devices: a real thread for every member of a team, for the race checker. Slow.
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
  static std::int64_t pages(Local crosses) { return (crosses + Kernel::of_page - 1) / Kernel::of_page; }

  void take_crosses(const CompressOptions& options);
  void make_entries();

  std::shared_ptr<exec::Devices<M>> devices_;
  Entry entry_;
  DeviceBlocksOptions options_;
  DeviceBlocksCounts counts_;
  On<Local> order_[2];
  bool race_check_ = false;

  // Of the last make(), on the host.
  struct Slab {
    const T* device;  // where it was
    std::vector<T> numbers;
  };
  struct Place {
    bool dense;
    std::int64_t at;  // of its task, or of its entries
  };
  std::vector<Place> places_;
  std::vector<CrossTask> tasks_;
  std::vector<CrossState> states_;
  std::vector<T*> pages_;
  std::vector<Slab> slabs_;
  std::vector<EntryTask> entry_tasks_;
  std::vector<T> entries_;
  std::vector<Block> blocks_;
  std::int64_t page_count_ = 0, line_count_ = 0, entry_count_ = 0;
};

template <class T, class Entry, Memory M>
std::size_t DeviceBlocks<T, Entry, M>::make(std::span<const WantedBlock> wanted, const CompressOptions& options) {
  const Span span("blocks on a device", "op");
  require(options.method != Compression::svd,
          "singular values of all entries are the host's: on a device blocks are "
          "compressed by aca or aca+");
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
  return places_.size();
}

template <class T, class Entry, Memory M>
void DeviceBlocks<T, Entry, M>::take_crosses(const CompressOptions& options) {
  slabs_.clear(), states_.clear(), pages_.clear();
  if (tasks_.empty()) return;
  auto& devices = *devices_;
  const auto task = upload(tasks_);
  auto state = devices.template array<CrossState>(0, tasks_.size());
  auto used = devices.template array<char>(0, std::size_t(line_count_));
  auto page = devices.template array<T*>(0, std::size_t(page_count_));
  auto reference =
      devices.template array<T>(0, options.method == Compression::aca_plus ? std::size_t(line_count_) : std::size_t(0));
  std::vector<On<T>> rooms;
  std::vector<std::int64_t> taken_of;
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
  // One tolerance of either kind for all.
  for (const CrossTask& t : tasks_)
    kernel.tracks_norm = kernel.tracks_norm || tracks_norm({t.relative, t.absolute}, options);
  for (Local crosses = options_.crosses; !todo.empty(); crosses *= 2) {
    std::int64_t size = 0;
    for (const Local k : todo) {
      const CrossTask& t = tasks_[std::size_t(k)];
      size += Kernel::page_numbers(t.count[0], t.count[1]) * pages(std::min(crosses, std::max<Local>(1, t.limit)));
    }
    rooms.push_back(devices.template array<T>(0, std::size_t(size)));
    const auto list = upload(todo);
    const auto taken = devices.template array<std::int64_t>(0, 1);
    kernel.todo = list.data();
    kernel.room = rooms.back().data(), kernel.room_size = size;
    kernel.taken = const_cast<std::int64_t*>(taken.data());
    launch(todo.size(), kernel);
    ++counts_.rounds;
    states_ = download(state, tasks_.size());
    taken_of.push_back(std::min(size, download(taken, 1)[0]));
    std::erase_if(todo, [&](Local k) { return states_[std::size_t(k)].status != CrossStatus::waiting; });
    counts_.waited += Global(todo.size());
  }
  pages_ = download(page, std::size_t(page_count_));
  for (std::size_t r = 0; r < rooms.size(); ++r) {
    slabs_.push_back({rooms[r].data(), download(rooms[r], std::size_t(taken_of[r]))});
    counts_.bytes_back += double(taken_of[r]) * sizeof(T);
  }
  for (const CrossState& s : states_) {
    counts_.entries += double(s.entries);
    counts_.given_up += s.status != CrossStatus::done;
  }
}

template <class T, class Entry, Memory M>
void DeviceBlocks<T, Entry, M>::make_entries() {
  entries_.clear();
  if (entry_tasks_.empty()) return;
  const auto task = upload(entry_tasks_);
  auto out = devices_->template array<T>(0, std::size_t(entry_count_));
  launch(entry_tasks_.size(),
         MakeEntries<T, Entry>{entry_, {order_[0].data(), order_[1].data()}, task.data(), out.data()});
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
  raw.given_up = s.status != CrossStatus::done;
  if (raw.given_up) return raw;
  raw.rank = s.rank, raw.norm = std::sqrt(std::max(s.norm2, 0.0)), raw.error = s.error;
  const std::size_t m = std::size_t(t.count[0]), n = std::size_t(t.count[1]), of_page = Kernel::of_page;
  raw.u.reserve(std::size_t(s.rank) * m), raw.v.reserve(std::size_t(s.rank) * n);
  for (std::size_t l = 0; l < std::size_t(s.rank); l += of_page) {
    const T* const from = pages_[std::size_t(t.page) + l / of_page];
    const auto slab = std::find_if(slabs_.begin(), slabs_.end(), [&](const Slab& one) {
      return !std::less<>()(from, one.device) && std::less<>()(from, one.device + one.numbers.size());
    });
    const auto page = slab->numbers.begin() + (from - slab->device);
    const std::size_t here = std::min(of_page, std::size_t(s.rank) - l);
    raw.u.insert(raw.u.end(), page, page + std::ptrdiff_t(here * m));
    raw.v.insert(raw.v.end(), page + std::ptrdiff_t(of_page * m), page + std::ptrdiff_t(of_page * m + here * n));
  }
  return raw;
}

}  // namespace tacit::op
