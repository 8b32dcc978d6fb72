// The distribution of the rows of an H-matrix over ranks.
#pragma once

#include <tacit/comm/communicator.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace tacit::op::detail {

/// Element-wise sums over ranks, which are exact for whole numbers. Collective.
template <class V>
std::vector<V> sum_over_ranks(const comm::Communicator& comm, std::vector<V> values) {
  using Number = real_or_self_t<V>;
  auto* const begin = reinterpret_cast<Number*>(values.data());
  const std::size_t count = values.size() * (sizeof(V) / sizeof(Number));
  std::vector<double> sums(begin, begin + count);
  sums.push_back(0);  // of the last number all_sum_and_max() finds the maximum
  comm.all_sum_and_max(sums);
  std::transform(sums.begin(), sums.end() - 1, begin, [](double sum) { return Number(sum); });
  return values;
}

// The cost of rows [s, e) on one rank, for s and e at multiples of `chunk` rows (pieces): dense blocks and U in
// proportion to rows, and the whole V of every block of which the rank has a part.
class RowCost {
 public:
  RowCost(Local rows, Local chunk) : rows_(rows), chunk_(chunk), change_(std::size_t(rows) + 1) {
    const std::size_t count = (std::size_t(rows) + std::size_t(chunk) - 1) / std::size_t(chunk);
    begins_.resize(count), covers_.resize(count + 1);
  }
  /// Adds a cost that is distributed evenly over rows [begin, end).
  void add_rows(Local begin, Local end, double cost) {
    if (end <= begin) return;
    change_[std::size_t(begin)] += cost / (end - begin);
    change_[std::size_t(end)] -= cost / (end - begin);
  }
  /// Adds a cost for each rank that has one of the rows [begin, end).
  void add_block(Local begin, Local end, double cost) {
    if (end <= begin) return;
    const std::size_t first = std::size_t(begin / chunk_), last = std::size_t((end - 1) / chunk_);
    begins_[first] += cost;
    if (first < last) covers_[first + 1] += cost, covers_[last + 1] -= cost;  // differences, until sum()
  }
  /// Sums over ranks, after all costs were added.
  void sum(const comm::Communicator& comm) {
    const std::size_t count = begins_.size();
    std::vector<double> all(2 * count);
    double now = 0, covering = 0;
    for (std::size_t i = 0; i < std::size_t(rows_); ++i) {
      now += change_[i];
      all[i / std::size_t(chunk_)] += now + 1;  // every row counts at least 1
    }
    for (std::size_t c = 0; c < count; ++c) {
      all[c] += begins_[c];
      covering += covers_[c];
      all[count + c] = covering;
    }
    all = sum_over_ranks(comm, all);
    up_to_.assign(count + 1, 0.0);
    for (std::size_t c = 0; c < count; ++c) up_to_[c + 1] = up_to_[c] + all[c], covers_[c] = all[count + c];
    covers_.resize(count);
  }
  /// The cost of rows [begin, end), which are whole pieces.
  double of(Global begin, Global end) const { return cost(piece(begin), piece(end)); }
  /// Contiguous pieces for each rank, with costs as equal as whole pieces allow: rank r has rows [cut[r], cut[r + 1]).
  /// `more`: known additional costs of each rank (the parts of a divided block may have other ranks than the whole), or
  /// empty.
  std::vector<Global> cut(int ranks, std::vector<double> more = {}) const {
    const std::size_t count = begins_.size();
    more.resize(std::size_t(ranks));
    std::vector<std::size_t> at(std::size_t(ranks) + 1);
    // Cuts such that the cost of every rank but the last is nearest to `each`; returns the cost of the last.
    const auto deal = [&](double each) {
      for (int r = 0; r + 1 < ranks; ++r) {
        const std::size_t s = at[std::size_t(r)];
        const double wanted = each - more[std::size_t(r)] - (s < count ? covers_[s] : 0.0) + up_to_[s];
        auto e =
            std::size_t(std::lower_bound(up_to_.begin() + std::ptrdiff_t(s), up_to_.end(), wanted) - up_to_.begin());
        e = std::min(e, count);
        if (e > s && wanted - up_to_[e - 1] < up_to_[e] - wanted) --e;
        at[std::size_t(r) + 1] = e;
      }
      at.back() = count;
      return cost(at[std::size_t(ranks) - 1], count) + more.back();
    };
    // The cost of the last rank decreases with `each`, which allows bisection.
    double low = 0, high = covers_[0] + up_to_[count];
    for (const double c : covers_) high = std::max(high, c + up_to_[count]);
    for (const double m : more) high += std::abs(m);
    for (int step = 0; step < 60; ++step) {
      const double middle = (low + high) / 2;
      (deal(middle) > middle ? low : high) = middle;
    }
    deal(high);
    // Costs jump where a cut enters a block. So cuts near these are searched for the least sum of (relative
    // deviation)^4, by dynamic programming over ranks.
    constexpr std::ptrdiff_t reach = 24;
    struct State {
      double sum;
      std::size_t at, from;
    };
    std::vector<std::vector<State>> states{{{0, 0, 0}}};
    for (int r = 1; r <= ranks; ++r) {
      const auto middle = std::ptrdiff_t(at[std::size_t(r)]), width = std::min<std::ptrdiff_t>(reach, middle / 2);
      auto& next = states.emplace_back();
      for (std::ptrdiff_t e = r < ranks ? middle - width : middle; e <= (r < ranks ? middle + width : middle); ++e) {
        if (e < 0 || std::size_t(e) > count) continue;
        State best{std::numeric_limits<double>::infinity(), std::size_t(e), 0};
        const auto& before = states[std::size_t(r) - 1];
        for (std::size_t k = 0; k < before.size(); ++k) {
          if (before[k].at > std::size_t(e)) continue;
          const double off = (cost(before[k].at, std::size_t(e)) + more[std::size_t(r) - 1]) / high - 1,
                       sum = before[k].sum + off * off * off * off;
          if (sum < best.sum) best.sum = sum, best.from = k;
        }
        if (best.sum < std::numeric_limits<double>::infinity()) next.push_back(best);
      }
    }
    std::size_t k = 0;
    for (int r = ranks; r > 0; --r) {
      const State& s = states[std::size_t(r)][k];
      at[std::size_t(r)] = s.at, k = s.from;
    }
    std::vector<Global> cuts;
    for (const std::size_t c : at) cuts.push_back(std::min<Global>(Global(c) * chunk_, rows_));
    return cuts;
  }

 private:
  double cost(std::size_t s, std::size_t e) const { return e > s ? covers_[s] + up_to_[e] - up_to_[s] : 0.0; }
  std::size_t piece(Global row) const { return std::size_t((row + chunk_ - 1) / chunk_); }
  Local rows_, chunk_;
  std::vector<double> change_, begins_, covers_, up_to_;
};

}  // namespace tacit::op::detail
