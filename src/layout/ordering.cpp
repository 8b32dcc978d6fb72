#include <tacit/layout/ordering.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cstdlib>

#ifdef TACIT_HAVE_AMD
#include <amd.h>
#endif

namespace tacit::layout {

LocalGraph symmetrised(const LocalGraph& g) {
  const Local n = g.vertices();
  std::vector<Global> count(std::size_t(n) + 1, 0);
  const auto each = [&](auto&& f) {
    for (Local i = 0; i < n; ++i)
      for (Global k = g.start[i]; k < g.start[i + 1]; ++k) {
        const Local j = g.column[k];
        if (j != i && j >= 0 && j < n) f(i, j);
      }
  };
  each([&](Local i, Local j) { ++count[i + 1], ++count[j + 1]; });
  for (Local i = 0; i < n; ++i) count[i + 1] += count[i];
  std::vector<Local> both(std::size_t(count.back()));
  std::vector<Global> next(count.begin(), count.end() - 1);
  each([&](Local i, Local j) { both[next[i]++] = j, both[next[j]++] = i; });
  LocalGraph s;
  s.start.reserve(std::size_t(n) + 1);
  for (Local i = 0; i < n; ++i) {
    const auto begin = both.begin() + count[i], end = both.begin() + count[i + 1];
    std::sort(begin, end);
    s.column.insert(s.column.end(), begin, std::unique(begin, end));
    s.start.push_back(Global(s.column.size()));
  }
  return s;
}

namespace {

// Breadth-first levels of the component of `root`, among the vertices not yet numbered.
class Levels {
 public:
  explicit Levels(const LocalGraph& g) : g_(g), seen_(std::size_t(g.vertices()), 0) {}

  /// Fills order() with the component level by level; returns the number of levels.
  Local grow(Local root, const std::vector<char>& numbered) {
    ++round_;
    order_.assign(1, root);
    seen_[root] = round_;
    last_ = 0;
    Local levels = 0;
    for (std::size_t begin = 0; begin < order_.size(); ++levels) {
      const std::size_t end = order_.size();
      last_ = begin;
      for (; begin < end; ++begin)
        for (Global k = g_.start[order_[begin]]; k < g_.start[order_[begin] + 1]; ++k) {
          const Local j = g_.column[k];
          if (seen_[j] == round_ || numbered[j]) continue;
          seen_[j] = round_;
          order_.push_back(j);
        }
    }
    return levels;
  }
  const std::vector<Local>& order() const { return order_; }
  /// The vertex of least degree in the last level.
  Local farthest() const {
    return *std::min_element(order_.begin() + std::ptrdiff_t(last_), order_.end(),
                             [&](Local a, Local b) { return degree(a) < degree(b); });
  }
  Global degree(Local v) const { return g_.start[v + 1] - g_.start[v]; }

 private:
  const LocalGraph& g_;
  std::vector<std::int64_t> seen_;
  std::int64_t round_ = 0;
  std::vector<Local> order_;
  std::size_t last_ = 0;
};

}  // namespace

std::vector<Local> reverse_cuthill_mckee(const LocalGraph& g) {
  const Local n = g.vertices();
  std::vector<Local> order;
  order.reserve(std::size_t(n));
  std::vector<char> numbered(std::size_t(n), 0);
  Levels levels(g);
  for (Local first = 0; first < n; ++first) {
    if (numbered[first]) continue;
    // Pseudo-peripheral vertex: repeat from the farthest vertex until the number of levels does not grow.
    Local root = first, depth = levels.grow(root, numbered);
    for (;;) {
      const Local far = levels.farthest(), deeper = levels.grow(far, numbered);
      if (deeper <= depth) break;
      root = far;
      depth = deeper;
    }
    const std::size_t begin = order.size();
    order.push_back(root);
    numbered[root] = 1;
    for (std::size_t at = begin; at < order.size(); ++at) {
      const std::size_t children = order.size();
      for (Global k = g.start[order[at]]; k < g.start[order[at] + 1]; ++k) {
        const Local j = g.column[k];
        if (numbered[j]) continue;
        numbered[j] = 1;
        order.push_back(j);
      }
      std::stable_sort(order.begin() + std::ptrdiff_t(children), order.end(),
                       [&](Local a, Local b) { return levels.degree(a) < levels.degree(b); });
    }
    std::reverse(order.begin() + std::ptrdiff_t(begin), order.end());
  }
  return order;
}

bool amd_built() noexcept {
#ifdef TACIT_HAVE_AMD
  return true;
#else
  return false;
#endif
}

std::vector<Local> minimum_degree(const LocalGraph& g) {
#ifdef TACIT_HAVE_AMD
  using Index = SuiteSparse_long;  // AMD's memory is in units of the index, and passes 2^31 before the graph does
  const auto n = Index(g.vertices());
  std::vector<Index> start(g.start.begin(), g.start.end()), column(g.column.begin(), g.column.end()),
      order(std::size_t(n) + 1);
  column.push_back(0);  // AMD refuses null pointers, also for graphs without edges
  if (n == 0) return {};
  const auto status = amd_l_order(n, start.data(), column.data(), order.data(), nullptr, nullptr);
  if (status < AMD_OK)
    throw Error(status == AMD_OUT_OF_MEMORY ? ErrorKind::memory : ErrorKind::environment,
                message("AMD could not order a graph of ", n, " vertices and ", g.column.size(), " neighbours",
                        status == AMD_OUT_OF_MEMORY ? ": not enough memory" : ""));
  return {order.begin(), order.begin() + n};
#else
  static_cast<void>(g);
  throw Error(ErrorKind::environment, "this build of Tacit has no AMD, which orders by minimum degree; take rcm");
#endif
}

Global bandwidth(const LocalGraph& g, std::span<const Local> place) {
  Global widest = 0;
  for (Local i = 0; i < g.vertices(); ++i)
    for (Global k = g.start[i]; k < g.start[i + 1]; ++k)
      if (const Local j = g.column[k]; j >= 0 && j < g.vertices())
        widest = std::max<Global>(widest, std::abs(Global(place[i]) - Global(place[j])));
  return widest;
}

}  // namespace tacit::layout
