#include "precond/matching.hpp"

#include "scalar.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace tacit::precond {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Minimises the sum of costs c(i, column[i]) >= 0 over all matchings. Potentials u of rows and v of columns satisfy
/// c(i, j) - u_i - v_j >= 0, with equality for matched pairs.
template <Scalar T>
class Assignment {
 public:
  explicit Assignment(const op::LocalRows<T>& a)
      : a_(a),
        n_(a.count()),
        logarithm_(std::size_t(n_), 0),
        u_(std::size_t(n_), 0),
        column_(std::size_t(n_), -1),
        column_at_(std::size_t(n_)) {
    cost_.resize(a.value.size());
    for (Local i = 0; i < n_; ++i) {
      double most = 0;
      each(i, [&](Global k, Local) { most = std::max(most, double(size_of(a.value[k]))); });
      logarithm_[i] = most > 0 ? std::log2(most) : 0;
      each(i, [&](Global k, Local j) {
        const double size = double(size_of(a.value[k]));
        cost_[k] = size > 0 ? std::max(0.0, logarithm_[i] - std::log2(size)) : infinite;
        column_at_[j].potential = std::min(column_at_[j].potential, cost_[k]);
      });
    }
    for (Column& c : column_at_)
      if (c.potential == infinite) c.potential = 0;  // a column of zeros
  }

  Matching run() {
    match_at_once();
    for (Local i = 0; i < n_; ++i)
      if (column_[i] < 0) augment(i);
    Matching m;
    m.unmatched = match_free();
    restore_diagonal();
    // |a_ij| 2^(u_i - log2 max_i) 2^v_j = 2^-(c_ij - u_i - v_j) <= 1.
    constexpr double most = std::numeric_limits<real_t<T>>::max_exponent / 2;
    const auto rounded = [&](double e) { return int(std::lround(std::clamp(e, -most, most))); };
    for (Local i = 0; i < n_; ++i) m.row_exponent.push_back(rounded(u_[i] - logarithm_[i]));
    for (Local j = 0; j < n_; ++j) m.column_exponent.push_back(rounded(column_at_[j].potential));
    m.column = std::move(column_);
    return m;
  }

 private:
  /// What the search reads of a column, in one place. `distance` and `from`: of the present path.
  struct Column {
    double potential = infinite, distance = infinite;
    Local row = -1, from = -1;
  };

  template <class F>
  void each(Local i, const F& f) const {
    for (Global k = a_.start[i]; k < a_.start[i + 1]; ++k) f(k, a_.column[k]);
  }

  /// Pairs whose reduced cost is zero with the first potentials, the diagonal first.
  void match_at_once() {
    for (Local i = 0; i < n_; ++i) {
      u_[i] = infinite;
      each(i, [&](Global k, Local j) { u_[i] = std::min(u_[i], cost_[k] - column_at_[j].potential); });
      if (u_[i] == infinite) u_[i] = 0;  // a row of zeros
    }
    for (const bool diagonal : {true, false})
      for (Local i = 0; i < n_; ++i)
        each(i, [&](Global k, Local j) {
          if ((diagonal && i != j) || column_[i] >= 0 || column_at_[j].row >= 0 ||
              cost_[k] - u_[i] - column_at_[j].potential > 0)
            return;
          column_[i] = j;
          column_at_[j].row = i;
        });
  }

  /// Gives free rows free columns, the diagonal first. Returns their number.
  Local match_free() {
    Local count = 0, j = 0;
    const auto take = [&](Local i, Local column) { column_[i] = column, column_at_[column].row = i, ++count; };
    for (Local i = 0; i < n_; ++i)
      if (column_[i] < 0 && column_at_[i].row < 0) take(i, i);
    for (Local i = 0; i < n_; ++i)
      if (column_[i] < 0) {
        while (column_at_[j].row >= 0) ++j;
        take(i, j);
      }
    return count;
  }

  /// Replaces cycles of the matching by the diagonal where its product is the same to rounding. The potentials stay:
  /// the reduced costs of these entries are zero as well.
  void restore_diagonal() {
    constexpr double rounding = 1e-12;  // of the sums, relative to their terms
    std::vector<char> seen(std::size_t(n_), 0);
    for (Local i = 0; i < n_; ++i) {
      if (seen[i]) continue;
      double matched = 0, diagonal = 0, size = 1;
      for (Local row = i; !seen[row]; row = column_at_[row].row) {
        seen[row] = 1;
        double own = infinite, taken = infinite;
        each(row, [&](Global k, Local j) {
          if (j == row) own = cost_[k];
          if (j == column_[row]) taken = cost_[k];
        });
        matched += taken, diagonal += own, size += std::abs(logarithm_[row]) + own;
      }
      if (!std::isfinite(diagonal) || !(diagonal <= matched + rounding * size)) continue;
      for (Local row = i; column_[row] != row;) {
        const Local next = column_at_[row].row;
        column_[row] = column_at_[row].row = row;
        row = next;
      }
    }
  }

  /// The shortest alternating path from row `root` to a free column (Dijkstra's algorithm with reduced costs). Most
  /// columns are as far as the one before them and form a queue, so that of equal paths one with few rows is found; the
  /// others wait in a heap.
  void augment(Local root) {
    double shortest = infinite, here = 0;
    Local end = -1;
    heap_.clear();
    level_.clear();
    std::size_t first = 0;  // of level_
    touched_.clear();
    settled_columns_.clear();
    for (Local i = root;;) {
      const double potential = u_[i] - here;
      for (Global k = a_.start[i]; k < a_.start[i + 1]; ++k) {
        const Local j = a_.column[k];
        Column& column = column_at_[j];
        const double d = std::max(here, cost_[k] - potential - column.potential);
        // Settled columns are no farther than `here`.
        if (!(d < shortest) || !(d < column.distance)) continue;
        if (column.distance == infinite) touched_.push_back(j);
        column.distance = d;
        column.from = i;
        if (column.row < 0) {
          shortest = d;
          end = j;
          if (d == here) break;
        } else if (d == here) {
          level_.push_back(j);
        } else {
          heap_.emplace_back(d, j);
          std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        }
      }
      if (shortest == here) break;
      Local next = -1;
      if (first < level_.size()) {
        next = level_[first++];
      } else {
        while (!heap_.empty() && next < 0) {
          const auto [d, j] = heap_.front();
          if (!(d < shortest)) break;
          std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
          heap_.pop_back();
          if (d == column_at_[j].distance) next = j, here = d;
        }
        if (next < 0) break;
      }
      settled_columns_.push_back(next);
      i = column_at_[next].row;
    }
    if (end >= 0) take_path(root, end, shortest);
    for (const Local j : touched_) column_at_[j].distance = infinite;
  }

  /// Matches along the path that ends in column `end`, and adapts the potentials.
  void take_path(Local root, Local end, double shortest) {
    for (const Local j : settled_columns_) {
      const double change = column_at_[j].distance - shortest;
      column_at_[j].potential += change;
      u_[column_at_[j].row] -= change;
    }
    u_[root] += shortest;
    for (Local j = end;;) {
      const Local i = column_at_[j].from;
      column_at_[j].row = i;
      std::swap(column_[i], j);
      if (i == root) break;
    }
  }

  const op::LocalRows<T>& a_;
  const Local n_;
  std::vector<double> cost_, logarithm_, u_;
  std::vector<Local> column_;
  std::vector<Column> column_at_;
  std::vector<Local> touched_, settled_columns_, level_;
  std::vector<std::pair<double, Local>> heap_;
};

}  // namespace

template <Scalar T>
Matching maximum_product_matching(const op::LocalRows<T>& a) {
  return Assignment<T>(a).run();
}

#define TACIT_INSTANTIATE(T) template Matching maximum_product_matching<T>(const op::LocalRows<T>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
