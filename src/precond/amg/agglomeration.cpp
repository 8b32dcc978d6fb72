#include "agglomeration.hpp"

#include <tacit/precond/bottom.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>

namespace tacit::precond {

using layout::Partition;
using layout::Space;

Gathering::Gathering(Space from, int by) : from_(std::move(from)), to_(from_) {
  const auto& partition = from_.partition();
  const int ranks = partition.parts();
  std::vector<Global> counts(std::size_t(ranks), 0);
  int used = 0;
  for (int r = 0; r < ranks; ++r) {
    const Global n = partition.end(r) - partition.begin(r);
    if (n == 0) continue;
    if (r == from_.comm().rank()) target_ = used / by;
    counts[std::size_t(used++ / by)] += n;
  }
  to_ = Space::distributed(from_.comm(), Partition::of_counts(counts));
}

std::vector<std::vector<std::byte>> Gathering::sent(std::span<const std::byte> own) const {
  const auto& comm = from_.comm();
  std::vector<std::vector<std::byte>> all;
  if (comm.size() == 1) {
    all.emplace_back(own.begin(), own.end());
    return all;
  }
  std::vector<comm::Communicator::Parcel> parcels;
  if (!own.empty()) parcels.push_back({target_, {own.begin(), own.end()}});
  for (auto& parcel : comm.sparse_exchange(parcels)) all.push_back(std::move(parcel.bytes));
  return all;
}

template <Scalar T>
op::Rows<T> Gathering::moved(const op::Rows<T>& own) const {
  std::vector<Local> lengths(std::size_t(own.count()));
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = Local(own.start[i + 1] - own.start[i]);
  op::Rows<T> rows;
  for (const Local n : moved(lengths)) rows.start.push_back(rows.start.back() + n);
  rows.column = moved(own.column);
  rows.value = moved(own.value);
  return rows;
}

template <Scalar T>
std::unique_ptr<op::Csr<T>> Gathering::mover() const {
  op::Rows<T> rows;
  for (Global i = to_.begin(); i < to_.end(); ++i) {
    rows.column.push_back(i);
    rows.value.push_back(T(1));
    rows.start.push_back(Global(rows.column.size()));
  }
  return std::make_unique<op::Csr<T>>(to_, from_, std::move(rows));
}

int ranks_in_use(const Space& space) {
  if (space.is_replicated()) return 1;
  const auto& offsets = space.partition().offsets();
  int used = 0;
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) used += offsets[r + 1] > offsets[r];
  return std::max(used, 1);
}

template <Scalar T>
std::vector<int> neighbours_of(const op::Rows<T>& rows, const Space& space) {
  const auto& partition = space.partition();
  const int ranks = partition.parts(), own = space.comm().rank();
  std::vector<int> place(std::size_t(ranks), 0);  // of a rank among those with rows
  for (int r = 0, used = 0; r < ranks; ++r) {
    place[std::size_t(r)] = used;
    used += partition.end(r) > partition.begin(r);
  }
  std::vector<int> groups;
  Global first = space.begin(), last = space.end();  // of the rank that the column before belongs to
  for (const Global c : rows.column) {
    if (c >= first && c < last) continue;
    const int owner = partition.owner(c);
    first = partition.begin(owner), last = partition.end(owner);
    groups.push_back(place[std::size_t(owner)]);
  }
  std::vector<Global> others;
  int mine = place[std::size_t(own)];
  for (int on = ranks_in_use(space);; on = (on + 1) / 2) {
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    others.push_back(Global(groups.size()) - std::count(groups.begin(), groups.end(), mine));
    if (on <= 1) break;
    mine /= 2;
    for (int& group : groups) group /= 2;
  }
  space.start_sum(others.data(), others.size(), comm::Operation::max).wait(others.data());
  return {others.begin(), others.end()};
}

namespace {

int groups_of(int k, const Spread& l) {
  return int((l.ranks + (Global(1) << k) - 1) >> k);
}

// A rank that others move to receives a message from each, and answers it, one after the other.
double moved(int from, int k, const Spread& l) {
  return 2 * l.latency + l.message * groups_of(from, l) / groups_of(k, l);
}

// Seconds of a V-cycle on the level so many below l, and on all coarser ones, on groups of 2^k ranks: [k].
std::vector<double> seconds_below(int below, const Spread& l) {
  const double entry = double(l.number_bytes + 4) / l.bandwidth;
  const double fewer = std::pow(std::max(l.coarsening, 1.1), below);
  const double rows = double(l.rows) / fewer, entries = double(l.entries) / fewer;
  const std::vector<double> coarser = rows > double(l.coarsest) ? seconds_below(below + 1, l) : std::vector<double>();
  std::vector<double> seconds;
  for (int k = 0; k == 0 || groups_of(k - 1, l) > 1; ++k) {
    const int ranks = groups_of(k, l);
    // No aggregate crosses ranks. Coarsening ends where ranks have a row or two, of which few join.
    const double n = below > 0 ? std::max(rows, double(ranks)) : rows;
    if (coarser.empty() || (n <= 2.0 * ranks && n <= double(largest_direct))) {
      const double sum = (l.latency + l.message) * std::ceil(std::log2(double(ranks)));
      seconds.push_back(sum + n * n / ranks * double(l.number_bytes) / l.bandwidth);
      continue;
    }
    const int others = std::min(l.neighbours[std::min(std::size_t(k), l.neighbours.size() - 1)], ranks - 1);
    const double messages = ranks > 1 ? l.latency + l.message * others : 0;
    double least = coarser[std::size_t(k)];
    for (int next = k + 1; next < int(coarser.size()); ++next)
      least = std::min(least, moved(k, next, l) + coarser[std::size_t(next)]);
    // Products with A, and one with P and R each.
    seconds.push_back((2 * l.sweeps + 2) * (messages + entries / ranks * entry) + least);
  }
  return seconds;
}

}  // namespace

std::vector<double> seconds_of(const Spread& level) {
  auto seconds = seconds_below(0, level);
  for (int k = 1; k < int(seconds.size()); ++k) seconds[std::size_t(k)] += moved(0, k, level);
  return seconds;
}

int cheapest_gathering(const Spread& l, std::string& why) {
  const auto seconds = seconds_of(l);
  const double stay = seconds[0];
  auto best = int(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
  if (seconds[std::size_t(best)] > 0.9 * stay) best = 0;
  char text[200];
  std::snprintf(text, sizeof text,
                "levels of %ld unknowns and fewer on %d of %d ranks: %.3g us a cycle predicted, %.3g us on all",
                long(l.rows), groups_of(best, l), l.ranks, 1e6 * seconds[std::size_t(best)], 1e6 * stay);
  why = text;
  return 1 << best;
}

#define TACIT_INSTANTIATE(T)                                       \
  template op::Rows<T> Gathering::moved(const op::Rows<T>&) const; \
  template std::unique_ptr<op::Csr<T>> Gathering::mover() const;   \
  template std::vector<int> neighbours_of(const op::Rows<T>&, const Space&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
