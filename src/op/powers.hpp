// The ghost rows of a matrix powers kernel: with them a rank multiplies by a matrix several times after one exchange.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/csr.hpp>
#include "local_matrix/add_multiple.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace tacit::op {

/// Ghosts by levels: level 1 are the columns of own rows that other ranks own, level l + 1 the new columns of the rows
/// of level l. A ghost row is summed in its owner's order: first the columns that the owner owns, then the others.
template <Scalar T>
class Surroundings {
 public:
  /// The exchange of the ghosts of `steps` levels.
  struct Reach {
    std::shared_ptr<const comm::Pattern> pattern;
    std::vector<Local> place;  // position of each received element among the ghosts by levels
    std::map<int, std::unique_ptr<comm::Exchange>> exchanges;  // by values for each element
  };

  Surroundings(const layout::Space& space, const comm::Pattern& near) : space_(space) {
    level_end_.push_back(0);
    append(near.ghosts);
  }

  Local ghosts(int level) const { return level_end_[std::size_t(level)]; }  ///< up to this level
  int levels() const { return int(level_end_.size()) - 1; }                 ///< that are known
  /// One level more. Collective. `own`: this rank's rows.
  void grow(const Rows<T>& own) { fetch(own); }
  /// f(global column, value) for the entries of a ghost row.
  template <class F>
  void each_entry(Local ghost, F&& f) const {
    for (Global e = start_[2 * std::size_t(ghost)]; e < start_[2 * std::size_t(ghost) + 2]; ++e) {
      const Local at = column_[std::size_t(e)];
      f(at >= 0 ? ghosts_[std::size_t(at)] : space_.begin() + Global(~at), value_[std::size_t(e)]);
    }
  }

  /// The Reach for a number of steps; null where it is not made yet.
  Reach* find(int steps) {
    const auto found = reaches_.find(steps);
    return found == reaches_.end() ? nullptr : &found->second;
  }
  /// Makes the Reach for a number of steps. Collective. rows() returns this rank's rows.
  template <class Own>
  Reach& make(int steps, Own&& rows) {
    Reach& r = reaches_[steps];
    const auto& comm = space_.comm();
    if (levels() < steps) {
      const auto own = rows();
      while (levels() < steps) fetch(own);
    }
    std::vector<Global> needed(ghosts_.begin(), ghosts_.begin() + ghosts(steps));
    std::sort(needed.begin(), needed.end());
    for (const Global g : needed) r.place.push_back(position_.at(g));
    r.pattern = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(comm, space_.partition().offsets(), std::move(needed)));
    return r;
  }
  comm::Exchange& exchange(Reach& r, int values) const {
    auto& e = r.exchanges[values];
    if (!e) e = std::make_unique<comm::Exchange>(space_.comm(), r.pattern, sizeof(T) * std::size_t(values));
    return *e;
  }

  /// y_i = A_i x for the first n ghost rows, with K columns (0: `columns`); x holds the ghost elements, `own` those
  /// that this rank owns.
  template <int K>
  void multiply(Local n, const T* x, const T* own, T* y, int columns) const {
    const int k = K > 0 ? K : columns;
    exec::parallel_for(std::size_t(n), n > 2048, [&](std::size_t i) {
      const Global near = start_[2 * i], far = start_[2 * i + 1], end = start_[2 * i + 2];
      T* const to = y + std::ptrdiff_t(i) * k;
      constexpr int tile = K > 0 ? K : 4;
      for (int c0 = 0; c0 < k; c0 += tile) {
        const int m = K > 0 ? K : std::min(tile, k - c0);
        T sum[tile] = {};
        for (Global e = near; e < far; ++e) {
          const T a = value_[e];
          const T* const from = x + std::ptrdiff_t(column_[e]) * k + c0;
          for (int c = 0; c < m; ++c) add_product(a, from[c], sum[c]);
        }
        if (far < end) {
          T rest[tile] = {};
          for (Global e = far; e < end; ++e) {
            const T a = value_[e];
            const Local at = column_[e];
            const T* const from = (at >= 0 ? x + std::ptrdiff_t(at) * k : own + std::ptrdiff_t(~at) * k) + c0;
            for (int c = 0; c < m; ++c) add_product(a, from[c], rest[c]);
          }
          for (int c = 0; c < m; ++c) sum[c] += rest[c];
        }
        for (int c = 0; c < m; ++c) to[c0 + c] = sum[c];
      }
    });
  }
  void multiply(Local n, const T* x, const T* own, T* y, int columns) const {
    if (columns == 1) multiply<1>(n, x, own, y, 1);
    else if (columns == 2) multiply<2>(n, x, own, y, 2);
    else multiply<0>(n, x, own, y, columns);
    if (n > 0 && Trace::on()) {
      const auto entries = double(start_[2 * std::size_t(n)]);
      Trace::work("product", entries * (sizeof(T) + sizeof(Local)) + 2.0 * n * columns * sizeof(T),
                  (is_complex<T> ? 8 : 2) * columns * entries);
    }
  }

 private:
  /// Appends a level; `found` is ascending.
  void append(const std::vector<Global>& found) {
    for (const Global g : found) {
      position_.emplace(g, Local(ghosts_.size()));
      ghosts_.push_back(g);
    }
    level_end_.push_back(checked_cast<Local>(ghosts_.size(), "the number of ghosts"));
  }

  /// Fetches the rows of the outermost level from their owners, which gives the next level. Collective.
  void fetch(const Rows<T>& own) {
    const auto first = std::size_t(level_end_[level_end_.size() - 2]);
    const std::vector<Global> level(ghosts_.begin() + std::ptrdiff_t(first), ghosts_.end());
    const Rows<T> rows = rows_of_others(space_, own, std::span<const Global>(level));
    std::vector<Global> found;
    for (const Global c : rows.column)
      if ((c < space_.begin() || c >= space_.end()) && !position_.contains(c)) found.push_back(c);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    append(found);
    const auto& partition = space_.partition();
    for (std::size_t i = 0; i < level.size(); ++i) {
      const int owner = partition.owner(level[i]);
      for (const bool near : {true, false}) {
        for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k) {
          const Global c = rows.column[k];
          if ((c >= partition.begin(owner) && c < partition.end(owner)) != near) continue;
          const bool mine = c >= space_.begin() && c < space_.end();
          column_.push_back(mine ? ~Local(c - space_.begin()) : position_.at(c));
          value_.push_back(rows.value[k]);
        }
        start_.push_back(Global(column_.size()));
      }
    }
  }

  layout::Space space_;
  std::vector<Global> ghosts_;    // level after level, ascending in each
  std::vector<Local> level_end_;  // [l]: ghosts up to level l
  std::unordered_map<Global, Local> position_;
  std::vector<Global> start_{0};  // two parts for each row
  std::vector<Local> column_;     // a ghost, or ~(an own column)
  std::vector<T> value_;
  std::map<int, Reach> reaches_;  // by steps
};

}  // namespace tacit::op
