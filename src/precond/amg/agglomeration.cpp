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
template op::Rows<float> Gathering::moved(const op::Rows<float>&) const;
template op::Rows<double> Gathering::moved(const op::Rows<double>&) const;
template op::Rows<std::complex<float>> Gathering::moved(const op::Rows<std::complex<float>>&) const;
template op::Rows<std::complex<double>> Gathering::moved(const op::Rows<std::complex<double>>&) const;

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
template std::unique_ptr<op::Csr<float>> Gathering::mover() const;
template std::unique_ptr<op::Csr<double>> Gathering::mover() const;
template std::unique_ptr<op::Csr<std::complex<float>>> Gathering::mover() const;
template std::unique_ptr<op::Csr<std::complex<double>>> Gathering::mover() const;

int ranks_in_use(const Space& space) {
  if (space.is_replicated()) return 1;
  const auto& offsets = space.partition().offsets();
  int used = 0;
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) used += offsets[r + 1] > offsets[r];
  return std::max(used, 1);
}

template <Scalar T>
int neighbours_of(const op::Rows<T>& rows, const Space& space) {
  std::vector<int> owners;
  Global first = space.begin(), last = space.end();  // of the rank that the column before belongs to
  for (const Global c : rows.column) {
    if (c >= first && c < last) continue;
    const int owner = space.partition().owner(c);
    first = space.partition().begin(owner), last = space.partition().end(owner);
    owners.push_back(owner);
  }
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  const Global others = Global(owners.size()) - std::count(owners.begin(), owners.end(), space.comm().rank());
  return int(space.comm().all_max(others));
}
template int neighbours_of(const op::Rows<float>&, const Space&);
template int neighbours_of(const op::Rows<double>&, const Space&);
template int neighbours_of(const op::Rows<std::complex<float>>&, const Space&);
template int neighbours_of(const op::Rows<std::complex<double>>&, const Space&);

double seconds_on(int ranks, const Spread& l) {
  const double entry = double(l.number_bytes + 4) / l.bandwidth;
  // A rank that others move to receives a message from each, and answers it, one after the other.
  double rows = double(l.rows), entries = double(l.entries), seconds = 0;
  if (ranks < l.ranks) seconds = 2 * l.latency + l.message * l.ranks / ranks;
  // Products with A, and one with P and R each. Ranks with a row or two join few of them: coarsening ends there.
  while (rows > double(l.coarsest) && (rows > 2.0 * ranks || rows > double(largest_direct))) {
    const double messages = ranks > 1 ? l.latency + l.message * std::min(l.neighbours, ranks - 1) : 0;
    seconds += (2 * l.sweeps + 2) * (messages + entries / ranks * entry);
    rows /= l.coarsening, entries /= l.coarsening;
  }
  const double sum = (l.latency + l.message) * std::ceil(std::log2(double(ranks)));
  return seconds + sum + rows * rows / ranks * double(l.number_bytes) / l.bandwidth;
}

int cheapest_gathering(const Spread& l, std::string& why) {
  const double stay = seconds_on(l.ranks, l);
  int best = 1, on = l.ranks;
  double least = stay;
  for (int by = 2; by < 2 * l.ranks; by *= 2) {
    const int fewer = (l.ranks + by - 1) / by;
    if (const double seconds = seconds_on(fewer, l); seconds < least) best = by, on = fewer, least = seconds;
  }
  if (least > 0.9 * stay) best = 1, on = l.ranks;
  char text[200];
  std::snprintf(text, sizeof text,
                "levels of %ld unknowns and fewer on %d of %d ranks: %.3g us a cycle predicted, %.3g us on all",
                long(l.rows), on, l.ranks, 1e6 * least, 1e6 * stay);
  why = text;
  return best;
}

}  // namespace tacit::precond
