#include <tacit/precond/matching.hpp>

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
        v_(std::size_t(n_), infinite),
        column_(std::size_t(n_), -1),
        row_(std::size_t(n_), -1),
        from_(std::size_t(n_), -1),
        distance_(std::size_t(n_), infinite),
        settled_(std::size_t(n_), 0) {
    cost_.resize(a.value.size());
    for (Local i = 0; i < n_; ++i) {
      double most = 0;
      each(i, [&](Global k, Local) { most = std::max(most, double(size_of(a.value[k]))); });
      logarithm_[i] = most > 0 ? std::log2(most) : 0;
      each(i, [&](Global k, Local j) {
        const double size = double(size_of(a.value[k]));
        cost_[k] = size > 0 ? std::max(0.0, logarithm_[i] - std::log2(size)) : infinite;
        v_[j] = std::min(v_[j], cost_[k]);
      });
    }
    for (double& v : v_)
      if (v == infinite) v = 0;  // a column of zeros
  }

  Matching run() {
    match_at_once();
    for (Local i = 0; i < n_; ++i)
      if (column_[i] < 0) augment(i);
    Matching m;
    for (Local i = 0, j = 0; i < n_; ++i)
      if (column_[i] < 0) {
        while (row_[j] >= 0) ++j;
        column_[i] = j;
        row_[j] = i;
        ++m.unmatched;
      }
    // |a_ij| 2^(u_i - log2 max_i) 2^v_j = 2^-(c_ij - u_i - v_j) <= 1.
    constexpr double most = std::numeric_limits<real_t<T>>::max_exponent / 2;
    const auto rounded = [&](double e) { return int(std::lround(std::clamp(e, -most, most))); };
    for (Local i = 0; i < n_; ++i) m.row_exponent.push_back(rounded(u_[i] - logarithm_[i]));
    for (Local j = 0; j < n_; ++j) m.column_exponent.push_back(rounded(v_[j]));
    m.column = std::move(column_);
    return m;
  }

 private:
  template <class F>
  void each(Local i, const F& f) const {
    for (Global k = a_.start[i]; k < a_.start[i + 1]; ++k) f(k, a_.column[k]);
  }

  /// Pairs whose reduced cost is zero with the first potentials, the diagonal first.
  void match_at_once() {
    for (Local i = 0; i < n_; ++i) {
      u_[i] = infinite;
      each(i, [&](Global k, Local j) { u_[i] = std::min(u_[i], cost_[k] - v_[j]); });
      if (u_[i] == infinite) u_[i] = 0;  // a row of zeros
    }
    for (const bool diagonal : {true, false})
      for (Local i = 0; i < n_; ++i)
        each(i, [&](Global k, Local j) {
          if ((diagonal && i != j) || column_[i] >= 0 || row_[j] >= 0 || cost_[k] - u_[i] - v_[j] > 0) return;
          column_[i] = j;
          row_[j] = i;
        });
  }

  /// The shortest alternating path from row `root` to a free column (Dijkstra's algorithm with reduced costs).
  void augment(Local root) {
    double shortest = infinite, here = 0;
    Local end = -1;
    heap_.clear();
    touched_.clear();
    settled_columns_.clear();
    for (Local i = root;;) {
      each(i, [&](Global k, Local j) {
        if (settled_[j] || cost_[k] == infinite) return;
        const double d = here + std::max(0.0, cost_[k] - u_[i] - v_[j]);
        if (!(d < shortest) || !(d < distance_[j])) return;
        if (distance_[j] == infinite) touched_.push_back(j);
        distance_[j] = d;
        from_[j] = i;
        if (row_[j] < 0) {
          shortest = d;
          end = j;
        } else {
          heap_.emplace_back(d, j);
          std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        }
      });
      Local next = -1;
      while (!heap_.empty() && next < 0) {
        const auto [d, j] = heap_.front();
        if (!(d < shortest)) break;
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        heap_.pop_back();
        if (!settled_[j] && d == distance_[j]) next = j, here = d;
      }
      if (next < 0) break;
      settled_[next] = 1;
      settled_columns_.push_back(next);
      i = row_[next];
    }
    if (end >= 0) {
      for (const Local j : settled_columns_) {
        const double change = distance_[j] - shortest;
        v_[j] += change;
        u_[row_[j]] -= change;
      }
      u_[root] += shortest;
      for (Local j = end;;) {
        const Local i = from_[j];
        row_[j] = i;
        std::swap(column_[i], j);
        if (i == root) break;
      }
    }
    for (const Local j : touched_) distance_[j] = infinite, settled_[j] = 0;
  }

  const op::LocalRows<T>& a_;
  const Local n_;
  std::vector<double> cost_, logarithm_, u_, v_;
  std::vector<Local> column_, row_, from_;
  // Of the present path.
  std::vector<double> distance_;
  std::vector<char> settled_;
  std::vector<Local> touched_, settled_columns_;
  std::vector<std::pair<double, Local>> heap_;
};

}  // namespace

template <Scalar T>
Matching maximum_product_matching(const op::LocalRows<T>& a) {
  return Assignment<T>(a).run();
}

#define TACIT_INSTANTIATE(T) template Matching maximum_product_matching<T>(const op::LocalRows<T>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::precond
