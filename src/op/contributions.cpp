#include <tacit/op/contributions.hpp>

#include <tacit/base/error.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

namespace tacit::op {
namespace {

using Parcel = comm::Communicator::Parcel;

/// A place as ranks send it.
struct Place {
  Global row;
  Global column;  // twice, and 1 where it is inserted
};

constexpr std::size_t few = 4096;

template <class Real>
bool smaller(Real a, Real b) {
  const Real p = std::abs(a), q = std::abs(b);
  return p != q ? p < q : a < b;
}

/// The sum from the smallest magnitude to the largest; sorts the values.
template <class Real>
Real sum_of(std::span<Real> v) {
  if (v.size() == 1) return v[0];
  if (v.size() == 2) return v[0] + v[1];
  if (v.size() <= 32) {
    for (std::size_t i = 1; i < v.size(); ++i)
      for (std::size_t k = i; k > 0 && smaller(v[k], v[k - 1]); --k) std::swap(v[k], v[k - 1]);
  } else if (std::none_of(v.begin(), v.end(), [](Real a) { return std::isnan(a); })) {
    std::sort(v.begin(), v.end(), smaller<Real>);
  }
  Real sum = v[0];
  for (std::size_t i = 1; i < v.size(); ++i) sum += v[i];
  return sum;
}

}  // namespace

/// A contribution on its way to its entry.
struct Contributions::Slot {
  Global column;  // as in Place
  Local source;
  Global place() const { return column >> 1; }
};

namespace {

/// Sorts by place; equal ones stay in their order.
template <class Slot>
void sort_by_place(Slot* first, Slot* last) {
  const auto before = [](const Slot& a, const Slot& b) { return a.place() < b.place(); };
  if (last - first > 64) return std::stable_sort(first, last, before);
  for (Slot* i = first + 1; i < last; ++i) {
    const Slot moving = *i;
    Slot* to = i;
    for (; to > first && before(moving, to[-1]); --to) *to = to[-1];
    *to = moving;
  }
}

}  // namespace

Contributions::Contributions(const comm::Communicator& comm, layout::Partition rows, Global columns,
                             std::span<const Global> row, std::span<const Global> column,
                             std::span<const std::uint8_t> inserted)
    : comm_(comm), rows_(std::move(rows)), columns_(columns), pattern_(std::make_shared<comm::Pattern>()) {
  comm::collective(comm_, [&] {
    require(row.size() == column.size() && (inserted.empty() || inserted.size() == row.size()), "contributions with ",
            row.size(), " rows, ", column.size(), " columns and ", inserted.size(), " marks");
    given_ = checked_cast<Local>(row.size(), "the number of a rank's contributions");
    const Places places{row, column, inserted};
    const auto arrived = send(places);
    order(places, arrived);
  });
}

/// Sends the places of other ranks' rows, and makes the pattern of their values; returns what has arrived.
std::vector<Parcel> Contributions::send(const Places& given) {
  const auto& [row, column, inserted] = given;
  const Global begin = rows_.begin(comm_.rank()), end = rows_.end(comm_.rank());
  std::map<int, std::vector<Local>> away;
  for (std::size_t i = 0; i < row.size(); ++i) {
    require(row[i] >= 0 && row[i] < rows_.size() && column[i] >= 0 && column[i] < columns_, "entry (", row[i], ", ",
            column[i], ") lies outside a matrix of ", rows_.size(), " by ", columns_, " (counted from 0)");
    if (row[i] < begin || row[i] >= end) away[rows_.owner(row[i])].push_back(Local(i));
  }
  std::vector<Parcel> parcels;
  for (const auto& [rank, positions] : away) {
    pattern_->send_ranks.push_back(rank);
    pattern_->send_offsets.push_back(Local(pattern_->send_index.size()));
    pattern_->send_index.insert(pattern_->send_index.end(), positions.begin(), positions.end());
    std::vector<Place> places;
    for (const Local i : positions) places.push_back({row[std::size_t(i)], given.key(std::size_t(i))});
    const auto bytes = std::as_bytes(std::span(places));
    parcels.push_back({rank, {bytes.begin(), bytes.end()}});
  }
  pattern_->send_offsets.push_back(Local(pattern_->send_index.size()));
  auto arrived = comm_.sparse_exchange(parcels);
  std::size_t ghosts = 0;
  for (const auto& parcel : arrived) {
    pattern_->receive_ranks.push_back(parcel.rank);
    pattern_->receive_offsets.push_back(Local(ghosts));
    ghosts += parcel.bytes.size() / sizeof(Place);
    checked_cast<Local>(row.size() + ghosts, "the number of contributions to a rank's rows");
  }
  pattern_->receive_offsets.push_back(Local(ghosts));
  pattern_->ghosts.resize(ghosts);  // arrivals by their numbers
  std::iota(pattern_->ghosts.begin(), pattern_->ghosts.end(), Global(0));
  return arrived;
}

/// f(row from 0, column key, source) for all contributions to this rank's rows, by sender and as given.
template <class F>
void Contributions::each(const Places& given, const std::vector<Parcel>& arrived, F&& f) const {
  const Global begin = rows_.begin(comm_.rank()), end = rows_.end(comm_.rank());
  const auto own = [&] {
    for (std::size_t i = 0; i < given.row.size(); ++i)
      if (given.row[i] >= begin && given.row[i] < end) f(std::size_t(given.row[i] - begin), given.key(i), Local(i));
  };
  bool done = false;
  Local source = given_;
  for (const auto& parcel : arrived) {
    if (!done && parcel.rank > comm_.rank()) own(), done = true;
    for (std::size_t at = 0; at < parcel.bytes.size(); at += sizeof(Place)) {
      Place place;
      std::memcpy(&place, parcel.bytes.data() + at, sizeof place);
      f(std::size_t(place.row - begin), place.column, source++);
    }
  }
  if (!done) own();
}

/// Finds the entries, and the contributions to each.
void Contributions::order(const Places& given, const std::vector<Parcel>& arrived) {
  const std::size_t rows = std::size_t(rows_.end(comm_.rank()) - rows_.begin(comm_.rank()));
  // After the second pass next[r + 1] is where row r ends, so that next[r] is where it begins.
  std::vector<Local> next(rows + 2, 0);
  each(given, arrived, [&](std::size_t r, Global, Local) { ++next[r + 2]; });
  std::partial_sum(next.begin(), next.end(), next.begin());
  const auto count = std::size_t(next.back());
  const auto slots = std::make_unique_for_overwrite<Slot[]>(count);
  each(given, arrived, [&](std::size_t r, Global key, Local source) {
    slots[std::size_t(next[r + 1]++)] = {key, source};
  });
  start_.assign(rows + 1, 0);
  exec::parallel_for(rows, rows > few, [&](std::size_t r) {
    Slot *const first = slots.get() + next[r], *const last = slots.get() + next[r + 1];
    sort_by_place(first, last);
    Global entries = first < last;
    for (const Slot* s = first; s + 1 < last; ++s) entries += s[0].place() != s[1].place();
    start_[r + 1] = entries;
  });
  std::partial_sum(start_.begin(), start_.end(), start_.begin());
  const auto entries = std::size_t(start_.back());
  column_.resize(entries), first_.resize(entries + 1), source_.resize(count), inserted_.resize(entries);
  first_[entries] = Local(count);
  std::atomic<bool> any_inserted = false;
  exec::parallel_for(rows, rows > few, [&](std::size_t r) {
    auto e = std::size_t(start_[r]);
    for (Local k = next[r]; k < next[r + 1]; ++k) {
      const Slot& s = slots[std::size_t(k)];
      source_[std::size_t(k)] = s.source;
      if (k > next[r] && slots[std::size_t(k) - 1].place() == s.place()) {
        if (((slots[std::size_t(k) - 1].column ^ s.column) & 1) != 0) refuse_both(r, slots[std::size_t(k) - 1], s);
        continue;
      }
      column_[e] = s.place(), first_[e] = k, inserted_[e] = std::uint8_t(s.column & 1);
      if (inserted_[e] && !any_inserted.load(std::memory_order_relaxed)) any_inserted = true;
      ++e;
    }
  });
  if (!any_inserted) inserted_ = {};
}

void Contributions::refuse_both(std::size_t row, const Slot& a, const Slot& b) const {
  const Slot &added = a.column & 1 ? b : a, &inserted = a.column & 1 ? a : b;
  throw Error(ErrorKind::usage,
              message("entry (", rows_.begin(comm_.rank()) + Global(row), ", ", a.place(),
                      ") is both added to (by rank ", rank_of(added.source), ") and inserted (by rank ",
                      rank_of(inserted.source), "); choose one for each entry"));
}

comm::Exchange& Contributions::exchange(std::size_t bytes) {
  auto& kept = exchanges_[bytes];
  if (!kept) kept = std::make_unique<comm::Exchange>(comm_, pattern_, bytes);
  return *kept;
}

int Contributions::rank_of(Local source) const {
  if (source < given_) return comm_.rank();
  const auto& offsets = pattern_->receive_offsets;
  const auto at = std::upper_bound(offsets.begin(), offsets.end(), source - given_) - offsets.begin() - 1;
  return pattern_->receive_ranks[std::size_t(at)];
}

template <class Real>
bool Contributions::total(std::size_t entry, int width, int part, const Real* own, const Real* arrived,
                          std::vector<Real>& values, Real& result) const {
  const auto value_of = [&](Local k) {
    const Local s = source_[std::size_t(k)];
    return s < given_ ? own[std::size_t(s) * std::size_t(width) + std::size_t(part)]
                      : arrived[std::size_t(s - given_) * std::size_t(width) + std::size_t(part)];
  };
  const Local first = first_[entry], last = first_[entry + 1];
  if (inserted_.empty() || !inserted_[entry]) {
    values.clear();
    for (Local k = first; k < last; ++k) values.push_back(value_of(k));
    result = sum_of<Real>(values);
    return true;
  }
  // The last value of each rank; these must be the same.
  bool same = true, found = false;
  for (Local k = first; k < last; ++k) {
    if (k + 1 < last && rank_of(source_[std::size_t(k)]) == rank_of(source_[std::size_t(k) + 1])) continue;
    const Real v = value_of(k);
    if (!found) result = v, found = true;
    const Real near = 64 * std::numeric_limits<Real>::epsilon() * std::max(std::abs(v), std::abs(result));
    same = same && (v == result || std::abs(v - result) <= near || (std::isnan(v) && std::isnan(result)));
  }
  return same;
}

void Contributions::require_numbers(std::size_t of_contributions, std::size_t of_entries, int width) const {
  const auto w = std::size_t(width);
  require(of_contributions == std::size_t(given_) * w && of_entries == column_.size() * w, given_,
          " contributions with ", of_contributions, " numbers, and ", column_.size(), " entries with ", of_entries,
          "; ", width, " for each are needed");
}

template <class Real>
void Contributions::sum(std::span<const Real> contributions, int width, std::span<Real> entries) {
  comm::collective(comm_, [&] {
    const auto w = std::size_t(width);
    require_numbers(contributions.size(), entries.size(), width);
    comm::Exchange* const others = comm_.size() > 1 ? &exchange(w * sizeof(Real)) : nullptr;
    const Real* arrived = nullptr;
    int number = 0;
    if (others) {
      number = others->open();
      others->post(number, contributions.data());
      others->wait(number);
      arrived = reinterpret_cast<const Real*>(others->incoming(number));
    }
    std::atomic<Global> unlike = -1;
    exec::parallel_claims(column_.size(), few, column_.size() > few, [&](exec::Claims& claims) {
      std::vector<Real> values;
      claims.each([&](std::size_t e) {
        for (int c = 0; c < width; ++c)
          if (!total(e, width, c, contributions.data(), arrived, values, entries[e * w + std::size_t(c)]))
            unlike = Global(e);
      });
    });
    if (others) others->close(number);
    if (unlike < 0) return;
    const auto row = std::upper_bound(start_.begin(), start_.end(), unlike.load()) - start_.begin() - 1;
    throw Error(ErrorKind::usage,
                message("entry (", rows_.begin(comm_.rank()) + Global(row), ", ", column_[std::size_t(unlike.load())],
                        ") is inserted by several ranks with different values; give one value, or "
                        "add the contributions"));
  });
}

template <class Real>
void Contributions::spread(std::span<const Real> entries, int width, std::span<Real> contributions) {
  comm::collective(comm_, [&] {
    const auto w = std::size_t(width);
    require_numbers(contributions.size(), entries.size(), width);
    comm::Exchange* const others = comm_.size() > 1 ? &exchange(w * sizeof(Real)) : nullptr;
    const int number = others ? others->open(false) : 0;
    Real* const leaving = others ? reinterpret_cast<Real*>(others->outgoing(number)) : nullptr;
    for (std::size_t e = 0; e < column_.size(); ++e)
      for (Local k = first_[e]; k < first_[e + 1]; ++k) {
        const Local s = source_[std::size_t(k)];
        Real* const to = s < given_ ? contributions.data() + std::size_t(s) * w : leaving + std::size_t(s - given_) * w;
        std::copy_n(entries.data() + e * w, w, to);
      }
    if (!others) return;
    others->post(number);
    others->wait(number);
    const Real* from = reinterpret_cast<const Real*>(others->incoming(number));
    for (const Local i : pattern_->send_index) {
      std::copy_n(from, w, contributions.data() + std::size_t(i) * w);
      from += w;
    }
    others->close(number);
  });
}

#define TACIT_INSTANTIATE(Real)                                                        \
  template void Contributions::sum<Real>(std::span<const Real>, int, std::span<Real>); \
  template void Contributions::spread<Real>(std::span<const Real>, int, std::span<Real>);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)

}  // namespace tacit::op
