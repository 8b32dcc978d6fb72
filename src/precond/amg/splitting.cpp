#include "splitting.hpp"

#include "row_making.hpp"

#include <cstdint>
#include <limits>
#include <utility>

namespace tacit::precond {
namespace {

using layout::Space;

std::uint64_t hashed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Points in lists by their number of dependants, first in first out.
class Queues {
 public:
  Queues(std::size_t points, std::size_t most)
      : first_(most + 1, none), last_(most + 1, none), next_(points, none), before_(points, none), of_(points, 0) {}
  void add(std::uint32_t i, std::uint32_t measure) {
    of_[i] = measure;
    next_[i] = none;
    before_[i] = last_[measure];
    if (last_[measure] != none) next_[last_[measure]] = i;
    else first_[measure] = i;
    last_[measure] = i;
    top_ = std::max(top_, measure);
  }
  void remove(std::size_t i) {
    const std::uint32_t m = of_[i], a = before_[i], b = next_[i];
    if (a != none) next_[a] = b;
    else first_[m] = b;
    if (b != none) before_[b] = a;
    else last_[m] = a;
  }
  void move(std::size_t i, int by) {
    remove(i);
    add(std::uint32_t(i), of_[i] + std::uint32_t(by));
  }
  std::size_t measure(std::size_t i) const { return of_[i]; }
  /// The first point of the largest measure; `none` where no list has one of at least 1.
  std::uint32_t top() {
    while (top_ > 0 && first_[top_] == none) --top_;
    return top_ > 0 ? first_[top_] : none;
  }
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

 private:
  std::vector<std::uint32_t> first_, last_, next_, before_, of_;
  std::uint32_t top_ = 0;
};

/// The first pass of Ruge and Stueben on this rank's own points.
std::vector<Part> first_pass(const Graph& g) {
  const std::size_t n = g.size();
  std::vector<Part> part(n, Part::undecided);
  std::vector<std::uint32_t> measure(n, 0);
  std::size_t most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t around = 0;
    each_dependant(g, i, [&](std::size_t j) { measure[i] += j < n, around += j < n; });
    each_strong(g, i, [&](std::size_t) { ++around; });
    most = std::max(most, 2 * around);  // each dependant counts twice once it is fine
  }
  Queues queues(n, most + 1);
  for (std::size_t i = 0; i < n; ++i) queues.add(std::uint32_t(i), measure[i]);
  const auto make_fine = [&](std::size_t i) {
    part[i] = Part::fine;
    queues.remove(i);
    each_strong(g, i, [&](std::size_t k) {
      if (k < n && part[k] == Part::undecided) queues.move(k, 1);
    });
  };
  for (std::size_t i = 0; i < n; ++i)
    if (measure[i] == 0) make_fine(i);
  for (std::uint32_t c = queues.top(); c != Queues::none; c = queues.top()) {
    part[c] = Part::coarse;
    queues.remove(c);
    each_dependant(g, c, [&](std::size_t j) {
      if (j < n && part[j] == Part::undecided) make_fine(j);
    });
    each_strong(g, c, [&](std::size_t k) {
      if (k < n && part[k] == Part::undecided && queues.measure(k) > 0) queues.move(k, -1);
    });
  }
  for (Part& p : part)
    if (p == Part::undecided) p = Part::fine;
  return part;
}

}  // namespace

std::vector<Part> pmis(const Graph& g, std::vector<Part> part) {
  const std::size_t n = g.size();
  part.resize(n, Part::undecided);
  std::vector<double> weight(n);
  const bool parallel = n > 5000;
  exec::parallel_for(n, parallel, [&](std::size_t i) {
    const Global dependants = g.start_of_dependants[i + 1] - g.start_of_dependants[i];
    weight[i] = double(dependants) + double(hashed(std::uint64_t(g.halo.global(Local(i)))) >> 11) * 0x1p-53;
    if (dependants == 0 && part[i] == Part::undecided) part[i] = Part::fine;
  });
  g.halo.update(weight);
  const auto is_heavier = [&](std::size_t i, std::size_t j) {
    return weight[i] > weight[j] || (weight[i] == weight[j] && g.halo.global(Local(i)) < g.halo.global(Local(j)));
  };
  std::vector<Local> left;
  const auto make_fine = [&] {  // what depends on coarse points
    exec::parallel_for(left.size(), parallel, [&](std::size_t k) {
      const auto i = std::size_t(left[k]);
      each_strong(g, i, [&](std::size_t j) {
        if (part[j] == Part::coarse) part[i] = Part::fine;
      });
    });
    left.erase(
        std::remove_if(left.begin(), left.end(), [&](Local i) { return part[std::size_t(i)] != Part::undecided; }),
        left.end());
    g.halo.update(part);
  };
  for (std::size_t i = 0; i < n; ++i)
    if (part[i] == Part::undecided) left.push_back(Local(i));
  g.halo.update(part);
  make_fine();
  std::vector<char> chosen;
  while (g.halo.space().comm().all_sum(Global(left.size())) > 0) {
    chosen.assign(left.size(), 0);
    exec::parallel_for(left.size(), parallel, [&](std::size_t k) {
      const auto i = std::size_t(left[k]);
      bool heaviest = true;
      const auto compare = [&](std::size_t j) {
        if (part[j] == Part::undecided && j != i && !is_heavier(i, j)) heaviest = false;
      };
      each_strong(g, i, compare);
      each_dependant(g, i, compare);
      chosen[k] = heaviest;
    });
    for (std::size_t k = 0; k < left.size(); ++k)
      if (chosen[k]) part[std::size_t(left[k])] = Part::coarse;
    g.halo.update(part);
    make_fine();
  }
  return part;
}

std::vector<Part> hmis(const Graph& g) {
  const std::size_t n = g.size();
  auto part = first_pass(g);
  for (std::size_t i = 0; i < n; ++i) {
    bool inside = true;
    each_strong(g, i, [&](std::size_t j) { inside &= j < n; });
    each_dependant(g, i, [&](std::size_t j) { inside &= j < n; });
    if (part[i] != Part::coarse || !inside) part[i] = Part::undecided;
  }
  return pmis(g, std::move(part));
}

CoarsePoints number_coarse(const Graph& g, const std::vector<Part>& part) {
  Global own = 0;
  for (std::size_t i = 0; i < g.size(); ++i) own += part[i] == Part::coarse;
  const auto& comm = g.halo.space().comm();
  CoarsePoints coarse{Space::distributed(comm, layout::Partition::of_counts(comm.all_gather(own))),
                      std::vector<Global>(g.size(), -1)};
  Global next = coarse.space.begin();
  for (std::size_t i = 0; i < g.size(); ++i)
    if (part[i] == Part::coarse) coarse.number[i] = next++;
  g.halo.update(coarse.number);
  return coarse;
}

std::vector<Part> aggressive(const Graph& g, std::vector<Part> part) {
  const std::size_t n = g.size();
  const auto coarse = number_coarse(g, part);
  // The coarse points on which each point depends, of own and of other ranks' points.
  op::Rows<float> first = rows_of<float>(
      n, [] { return 0; },
      [&](std::size_t i, int, Piece<float>& to) {
        each_strong(g, i, [&](std::size_t j) {
          if (part[j] == Part::coarse) to.column.push_back(coarse.number[j]), to.value.push_back(1);
        });
      });
  const auto fetched = op::rows_of_others(g.halo.space(), first, g.halo.others());
  CoarseColumns columns(coarse.space, [&] {
    auto all = ghosts_of(coarse, g);
    all.insert(all.end(), fetched.column.begin(), fetched.column.end());
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](Global c) { return c >= coarse.space.begin() && c < coarse.space.end(); }),
              all.end());
    return all;
  }());
  std::vector<Local> own;
  for (std::size_t i = 0; i < n; ++i)
    if (part[i] == Part::coarse) own.push_back(Local(i));
  const auto far = rows_of<float>(
      own.size(), [&] { return Weights<float>(columns.count()); },
      [&](std::size_t c, Weights<float>& reached, Piece<float>& to) {
        const auto i = std::size_t(own[c]);
        reached.clear();
        const auto reach = [&](Global column) {
          if (column != coarse.number[i]) reached.insert(columns(column));
        };
        each_strong(g, i, [&](std::size_t j) {
          if (part[j] == Part::coarse) reach(coarse.number[j]);
          const auto& from = j < n ? first : fetched;
          const std::size_t row = j < n ? j : j - n;
          for (auto k = begin_of(from.start, row); k < begin_of(from.start, row + 1); ++k) reach(from.column[k]);
        });
        for (float& w : reached.all()) w = 1;
        reached.append(
            0, [&](Local k) { return columns.global(k); }, to);
      });
  const auto kept = pmis(graph_of(coarse.space, far.start, far.column));
  for (std::size_t c = 0; c < own.size(); ++c) {
    // Without couplings to others it is kept: nothing else would represent it.
    const bool alone = far.start[c] == far.start[c + 1];
    if (kept[c] == Part::fine && !alone) part[std::size_t(own[c])] = Part::fine;
  }
  part.resize(n);
  g.halo.update(part);
  return part;
}

}  // namespace tacit::precond
