// Rows of matrices over coarse points, made by threads.
#pragma once

#include "splitting.hpp"

#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tacit::precond {

inline std::size_t begin_of(const std::vector<Global>& start, std::size_t i) {
  return std::size_t(start[i]);
}

/// Some rows, as a thread makes them.
template <class T>
struct Piece {
  std::vector<Local> length;
  std::vector<Global> column;
  std::vector<T> value;
};

/// The rows that f(i, scratch, piece) appends to the piece; threads share them, each with a scratch().
template <class T, class Scratch, class F>
op::Rows<T> rows_of(std::size_t n, Scratch&& scratch, F&& f) {
  constexpr std::size_t rows = 4096;
  std::vector<Piece<T>> pieces((n + rows - 1) / rows);
  exec::parallel_claims(pieces.size(), 1, pieces.size() > 1, [&](exec::Claims& claims) {
    auto own = scratch();
    claims.each([&](std::size_t p) {
      for (std::size_t i = p * rows; i < std::min(n, (p + 1) * rows); ++i) {
        const std::size_t before = pieces[p].column.size();
        f(i, own, pieces[p]);
        pieces[p].length.push_back(Local(pieces[p].column.size() - before));
      }
    });
  });
  op::Rows<T> all;
  std::vector<std::size_t> at(pieces.size() + 1, 0);
  for (std::size_t p = 0; p < pieces.size(); ++p) at[p + 1] = at[p] + pieces[p].column.size();
  all.start.reserve(n + 1);
  for (const auto& p : pieces)
    for (const Local length : p.length) all.start.push_back(all.start.back() + length);
  all.column.resize(at.back());
  all.value.resize(at.back());
  exec::parallel_for(
      pieces.size(), pieces.size() > 1,
      [&](std::size_t p) {
        std::copy(pieces[p].column.begin(), pieces[p].column.end(), all.column.begin() + std::ptrdiff_t(at[p]));
        std::copy(pieces[p].value.begin(), pieces[p].value.end(), all.value.begin() + std::ptrdiff_t(at[p]));
      },
      1);
  return all;
}

/// The weights of a row, gathered by coarse points; these are numbered as the rank knows them.
template <class T>
class Weights {
 public:
  explicit Weights(std::size_t points) : place_(points, 0) {}
  void clear() { point_.clear(), weight_.clear(); }
  static constexpr std::uint32_t absent = std::numeric_limits<std::uint32_t>::max();
  /// The place of a point's weight in all(); `absent` where it has none.
  std::uint32_t find(Local c) const {
    const std::uint32_t at = place_[std::size_t(c)];
    return at < point_.size() && point_[at] == c ? at : absent;
  }
  /// The same, with a weight of 0 where there was none.
  std::uint32_t insert(Local c) {
    if (const std::uint32_t at = find(c); at != absent) return at;
    const auto at = place_[std::size_t(c)] = std::uint32_t(point_.size());
    point_.push_back(c), weight_.push_back(T(0));
    return at;
  }
  std::vector<T>& all() { return weight_; }
  /// For the caller's own use.
  std::vector<std::pair<std::uint32_t, T>> scratch;
  /// Appends the `most` largest weights (0: all) times a factor that keeps their sum, by ascending columns. Of equal
  /// ones those of lower columns are kept.
  template <class F>
  void append(int most, F&& global, Piece<T>& to) {
    using R = real_t<T>;
    order_.clear();
    T sum{}, kept{}, factor(1);
    R size = 0;
    for (std::size_t k = 0; k < point_.size(); ++k)
      if (weight_[k] != T(0)) order_.push_back({global(point_[k]), weight_[k]}), sum += weight_[k];
    const auto few = std::size_t(most);
    const bool cut = most > 0 && order_.size() > few;
    if (cut) {
      std::nth_element(order_.begin(), order_.begin() + most, order_.end(), [](const auto& a, const auto& b) {
        const R p = std::abs(a.second), q = std::abs(b.second);
        return p > q || (p == q && a.first < b.first);
      });
      order_.resize(few);
    }
    std::sort(order_.begin(), order_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (cut) {
      for (const auto& [c, w] : order_) kept += w, size += std::abs(w);
      // Where weights nearly cancel, a factor would only make them large.
      if (std::abs(kept) > size / 4) factor = sum / kept;
    }
    for (const auto& [c, w] : order_) to.column.push_back(c), to.value.push_back(factor * w);
  }

 private:
  std::vector<std::uint32_t> place_;
  std::vector<Local> point_;
  std::vector<T> weight_;
  std::vector<std::pair<Global, T>> order_;
};

/// The coarse points that a rank knows of, numbered by their columns: its own first, then others.
class CoarseColumns {
 public:
  CoarseColumns(const layout::Space& space, std::vector<Global> others)
      : first_(space.begin()), own_(space.local_size()), others_(std::move(others)) {
    std::sort(others_.begin(), others_.end());
    others_.erase(std::unique(others_.begin(), others_.end()), others_.end());
  }
  bool is_own(Global c) const { return c >= first_ && c < first_ + own_; }
  Local operator()(Global c) const {
    if (is_own(c)) return Local(c - first_);
    return own_ + Local(std::lower_bound(others_.begin(), others_.end(), c) - others_.begin());
  }
  Global global(Local c) const { return c < own_ ? first_ + c : others_[std::size_t(c - own_)]; }
  std::size_t count() const { return std::size_t(own_) + others_.size(); }

 private:
  Global first_;
  Local own_;
  std::vector<Global> others_;
};

/// The columns of the halo's coarse points of other ranks.
inline std::vector<Global> ghosts_of(const CoarsePoints& coarse, const Graph& g) {
  std::vector<Global> found;
  for (std::size_t i = g.size(); i < coarse.number.size(); ++i)
    if (coarse.number[i] >= 0) found.push_back(coarse.number[i]);
  return found;
}

}  // namespace tacit::precond
