// Goes through all orders in which messages and notices can arrive at simulated ranks (comm::simulate_in_order), by
// depth-first search. Ranks continue as soon as something has arrived for them.
// Orders that no rank can distinguish are tested once: two arrivals depend on each other only if they are at the same
// rank and one of them is a notice (a receive names its sender and tag, so it finds the same message in any order;
// whether a notice is found depends on what has arrived before it). One order of each equivalence class is run: dynamic
// partial-order reduction (Flanagan, Godefroid 2005, doi 10.1145/1040305.1040315) with sleep sets (Godefroid 1996).
#pragma once

#include <tacit/comm/simulate.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace tacit::test {

class Interleavings {
 public:
  /// Runs at most `most` orders in an exploration. Without `reduce` all orders are run, also equivalent ones.
  explicit Interleavings(std::int64_t most, bool reduce = true) : most_(most), reduce_(reduce) {}

  /// Calls `run` with one scheduler after the other, until all orders have been run. Returns false where the limit was
  /// reached; as many random orders follow then.
  bool explore(const std::function<void(const comm::Scheduler&)>& run) {
    nodes_.clear();
    const std::int64_t before = runs_;
    do {
      taken_.clear(), before_.clear(), depth_of_.clear(), turn_.clear();
      asleep_ = false;
      run([this](const std::vector<comm::Step>& possible) { return choose(possible); });
      if (taken_.size() < nodes_.size()) ++strays_;
      ++runs_;
      redundant_ += asleep_;
    } while (next() && runs_ < before + most_);
    if (nodes_.empty()) return true;
    std::minstd_rand random(unsigned(before) + 1);
    for (; runs_ < before + 2 * most_; ++runs_)
      run([&](const std::vector<comm::Step>& possible) {
        return possible[0].what == comm::Step::What::turn ? 0 : random() % possible.size();
      });
    return false;
  }

  std::int64_t runs() const { return runs_; }            ///< in all explorations
  std::int64_t redundant() const { return redundant_; }  ///< runs whose order was equivalent to an earlier one
  std::int64_t longest() const { return longest_; }      ///< most arrivals in a run
  std::int64_t strays() const { return strays_; }        ///< runs in which the same choices led to other arrivals

 private:
  using Id = comm::Step::Id;
  using Set = std::vector<std::uint64_t>;  // of arrivals, by their depth in the run
  struct Node {
    std::vector<comm::Step> possible;
    std::size_t chosen = 0;
    std::set<Id> todo, asleep;
  };
  static bool dependent(const comm::Step& a, const comm::Step& b) {
    return a.rank == b.rank && (a.what == comm::Step::What::notice || b.what == comm::Step::What::notice);
  }
  static bool has(const Set& set, std::size_t i) { return i / 64 < set.size() && (set[i / 64] >> (i % 64) & 1); }
  static void add(Set& set, const Set& other) {
    if (set.size() < other.size()) set.resize(other.size());
    for (std::size_t i = 0; i < other.size(); ++i) set[i] |= other[i];
  }

  std::size_t choose(const std::vector<comm::Step>& possible) {
    if (asleep_) return 0;
    if (possible[0].what == comm::Step::What::turn) {
      if (!taken_.empty()) turn_[possible[0].id] = taken_.size() - 1;  // the arrival that the rank has waited for
      return 0;
    }
    const std::size_t depth = taken_.size();
    if (depth == nodes_.size() && !enter(possible)) {
      asleep_ = true;  // equivalent to an earlier order: any choice until its end
      return 0;
    }
    const Node& node = nodes_[depth];
    if (node.possible.size() != possible.size() || node.possible[node.chosen].id != possible[node.chosen].id) {
      ++strays_, asleep_ = true;
      return 0;
    }
    take(possible[node.chosen]);
    return node.chosen;
  }

  bool enter(const std::vector<comm::Step>& possible) {
    Node node{possible, 0, {}, {}};
    if (!nodes_.empty() && reduce_) {
      const Node& last = nodes_.back();
      for (const auto& s : last.possible)
        if (last.asleep.contains(s.id) && !dependent(s, last.possible[last.chosen])) node.asleep.insert(s.id);
    }
    while (node.chosen < possible.size() && node.asleep.contains(possible[node.chosen].id)) ++node.chosen;
    if (node.chosen == possible.size()) return false;
    if (!reduce_)
      for (const auto& s : possible) node.todo.insert(s.id);
    nodes_.push_back(std::move(node));
    return true;
  }

  // Records what the arrival depends on, and with which earlier arrivals it might be exchanged.
  void take(const comm::Step& step) {
    Set sent;  // the arrivals that this one depends on: it cannot come before them
    const auto comes_after = [&](const Id& id) {
      if (const auto earlier = depth_of_.find(id); earlier != depth_of_.end()) add(sent, before_[earlier->second]);
    };
    comes_after(step.after);
    for (const Id& id : *step.seen) comes_after(id);
    if (const auto began = turn_.find({step.rank, step.awaited}); began != turn_.end())
      add(sent, before_[began->second]);
    Set after = sent;
    bool raced = !reduce_;
    for (std::size_t i = taken_.size(); i-- > 0;) {
      if (!dependent(taken_[i], step)) continue;
      if (!raced && !has(sent, i)) race(i, step, sent), raced = true;
      add(after, before_[i]);
    }
    const std::size_t depth = taken_.size();
    if (after.size() < depth / 64 + 1) after.resize(depth / 64 + 1);
    after[depth / 64] |= std::uint64_t(1) << (depth % 64);
    taken_.push_back(step);
    before_.push_back(std::move(after));
    depth_of_[step.id] = depth;
    longest_ = std::max(longest_, std::int64_t(taken_.size()));
  }

  // The arrival might come before the i-th: it, or an arrival that leads to it, is to be tried there as well.
  void race(std::size_t i, const comm::Step& step, const Set& sent) {
    Node& node = nodes_[i];
    const auto possible = [&](const Id& id) {
      return std::any_of(node.possible.begin(), node.possible.end(), [&](const auto& s) { return s.id == id; });
    };
    if (possible(step.id)) return void(node.todo.insert(step.id));
    for (std::size_t k = i + 1; k < taken_.size(); ++k)
      if (has(sent, k) && possible(taken_[k].id)) return void(node.todo.insert(taken_[k].id));
    for (const auto& s : node.possible) node.todo.insert(s.id);
  }

  // Goes back to the last depth with an arrival that is still to be tried; false where there is none.
  bool next() {
    for (; !nodes_.empty(); nodes_.pop_back()) {
      Node& node = nodes_.back();
      node.asleep.insert(node.possible[node.chosen].id);
      for (std::size_t c = 0; c < node.possible.size(); ++c)
        if (const Id& id = node.possible[c].id; node.todo.contains(id) && !node.asleep.contains(id)) {
          node.chosen = c;
          return true;
        }
    }
    return false;
  }

  const std::int64_t most_;
  const bool reduce_;
  std::vector<Node> nodes_;
  std::int64_t runs_ = 0, redundant_ = 0, longest_ = 0, strays_ = 0;
  // State of the current run.
  bool asleep_ = false;
  std::vector<comm::Step> taken_;
  std::vector<Set> before_;                    // by depth: the arrivals before it in every equivalent order, and itself
  std::map<Id, std::size_t> depth_of_, turn_;  // by arrival; by turn: the arrival that the rank has waited for
};

}  // namespace tacit::test
