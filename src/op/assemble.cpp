#include <tacit/op/assemble.hpp>

#include <tacit/base/error.hpp>
#include <tacit/exec/parallel.hpp>

#include "entries.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

namespace tacit::op {
namespace {

using Parcel = comm::Communicator::Parcel;

/// Calls f(row, column, value) for the entries of a piece and their mirror images.
template <Scalar T, class F>
void each_entry(const io::EntryPiece<T>& piece, io::Symmetry symmetry, F&& f) {
  const Local *const row = piece.row.data(), *const column = piece.column.data();
  const T* const value = piece.value.data();
  const auto n = std::size_t(piece.count);
  if (symmetry == io::Symmetry::general) {
    for (std::size_t k = 0; k < n; ++k) f(row[k], column[k], value[k]);
    return;
  }
  for (std::size_t k = 0; k < n; ++k) {
    f(row[k], column[k], value[k]);
    if (row[k] != column[k]) f(column[k], row[k], io::mirrored(symmetry, value[k]));
  }
}

/// The pieces of this rank and the entries that have arrived, in the order of the file.
template <Scalar T>
class Sources {
 public:
  Sources(io::EntryPieces<T>& own, const std::vector<Parcel>& arrived, int rank) : own_(own), users_(own.piece.size()) {
    for (const Parcel& p : arrived) (p.rank < rank ? before_ : behind_).push_back(entries_of(p));
    bounds_.resize(own.piece.size());
    exec::parallel_for(
        bounds_.size(), bounds_.size() > 1,
        [&](std::size_t i) {
          each_entry(own.piece[i], own.symmetry, [&](Local r, Local, const T&) { bounds_[i].add(r); });
        },
        1);
  }

  /// f(row, column, value) for all entries of rows [first, last), in their order. `users` > 0: this is one of as many
  /// calls, the last of which frees a piece when it has been through it.
  template <class F>
  void each(Global first, Global last, int users, F&& f) {
    const auto arrived = [&](const std::vector<std::span<const Entry<T>>>& all) {
      for (const auto& entries : all)
        for (const Entry<T>& e : entries)
          if (e.row >= first && e.row < last) f(Local(e.row), Local(e.column), e.value);
    };
    arrived(before_);
    for (std::size_t i = 0; i < own_.piece.size(); ++i) {
      auto& piece = own_.piece[i];
      if (bounds_[i].low < last && bounds_[i].high >= first)
        each_entry(piece, own_.symmetry, [&](Local r, Local c, const T& v) {
          if (r >= first && r < last) f(r, c, v);
        });
      if (users > 0 && ++users_[i] == users) piece = {};
    }
    arrived(behind_);
  }

 private:
  struct Bounds {
    Global low = std::numeric_limits<Global>::max(), high = -1;
    void add(Global row) { low = std::min(low, row), high = std::max(high, row); }
  };
  static std::span<const Entry<T>> entries_of(const Parcel& p) {
    return {reinterpret_cast<const Entry<T>*>(p.bytes.data()), p.bytes.size() / sizeof(Entry<T>)};
  }
  io::EntryPieces<T>& own_;
  std::vector<Bounds> bounds_;
  std::vector<std::atomic<int>> users_;
  std::vector<std::span<const Entry<T>>> before_, behind_;
};

/// Sends the entries of other ranks' rows; returns those that have arrived, by sender.
template <Scalar T>
std::vector<Parcel> exchange(const comm::Communicator& comm, const layout::Partition& partition,
                             const io::EntryPieces<T>& entries) {
  if (comm.size() == 1) return {};
  const Global first = partition.begin(comm.rank()), last = partition.end(comm.rank());
  std::vector<std::vector<std::byte>> by_owner(std::size_t(comm.size()));
  for (const auto& piece : entries.piece)
    each_entry(piece, entries.symmetry, [&](Local r, Local c, const T& v) {
      if (r >= first && r < last) return;
      const Entry<T> entry{r, c, v};
      const auto bytes = std::as_bytes(std::span(&entry, 1));
      auto& to = by_owner[std::size_t(partition.owner(r))];
      to.insert(to.end(), bytes.begin(), bytes.end());
    });
  std::vector<Parcel> parcels;
  for (int r = 0; r < comm.size(); ++r)
    if (!by_owner[std::size_t(r)].empty()) parcels.push_back({r, std::move(by_owner[std::size_t(r)])});
  return comm.sparse_exchange(parcels);
}

}  // namespace

template <Scalar T>
io::CompressedRows<T, Local> assemble(const comm::Communicator& comm, const layout::Partition& partition,
                                      io::EntryPieces<T>&& entries) {
  return comm::collective(comm, [&] {
    require(entries.rows == partition.size(), "entries of a matrix with ", entries.rows, " rows for ", partition.size(),
            " rows");
    const Global first = partition.begin(comm.rank()), last = partition.end(comm.rank());
    checked_cast<Local>(last - first, "a rank's number of rows");
    const std::vector<Parcel> arrived = exchange(comm, partition, entries);
    Sources<T> sources(entries, arrived, comm.rank());
    // Each thread counts, then stores, the entries of its own rows.
    const auto parts = std::size_t(last - first > 4096 ? exec::threads_now() : 1);
    const auto cut = [&](std::size_t p) { return first + (last - first) * Global(p) / Global(parts); };
    io::CompressedRows<T, Local> rows;
    rows.rows = entries.rows, rows.columns = entries.columns, rows.first = first;
    auto& start = rows.start;
    start.assign(std::size_t(last - first) + 2, 0);
    exec::parallel_for(
        parts, parts > 1,
        [&](std::size_t p) {
          sources.each(cut(p), cut(p + 1), 0, [&](Local r, Local, const T&) { ++start[std::size_t(r - first) + 2]; });
        },
        1);
    std::partial_sum(start.begin(), start.end(), start.begin());
    rows.column = Buffer<Local>(std::size_t(start.back()));
    rows.value = Buffer<T>(std::size_t(start.back()));
    // start[i + 1] is where the next entry of row i goes, and in the end where row i + 1 begins.
    exec::parallel_for(
        parts, parts > 1,
        [&](std::size_t p) {
          sources.each(cut(p), cut(p + 1), int(parts), [&](Local r, Local c, const T& v) {
            const auto k = std::size_t(start[std::size_t(r - first) + 1]++);
            rows.column[k] = c, rows.value[k] = v;
          });
        },
        1);
    start.pop_back();
    sort_entries(start, rows.column.data(), rows.value.data());
    return rows;
  });
}

#define TACIT_INSTANTIATE(T)                                                                             \
  template io::CompressedRows<T, Local> assemble<T>(const comm::Communicator&, const layout::Partition&, \
                                                    io::EntryPieces<T>&&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
