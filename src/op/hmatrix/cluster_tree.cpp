#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>

#include <numeric>

namespace tacit::op {
namespace {

void check(const Geometry& geometry) {
  require(geometry.size() >= 1, "a cluster tree without points");
  require(geometry.boxes.empty() || geometry.boxes.size() == geometry.points.size(), geometry.boxes.size(),
          " boxes for ", geometry.points.size(), " points");
  const auto finite = [](const Point& p) { return std::isfinite(p[0]) && std::isfinite(p[1]) && std::isfinite(p[2]); };
  for (std::size_t i = 0; i < geometry.points.size(); ++i) {
    const Point& p = geometry.points[i];
    if (!finite(p)) throw Error(ErrorKind::input, message("point ", i, " is at (", p[0], ", ", p[1], ", ", p[2], ")"));
    if (geometry.boxes.empty()) continue;
    const Box& b = geometry.boxes[i];
    if (!finite(b.low) || !finite(b.high) || b.low[0] > b.high[0] || b.low[1] > b.high[1] || b.low[2] > b.high[2])
      throw Error(ErrorKind::input, message("the box of element ", i, " is empty or not finite"));
  }
}

}  // namespace

ClusterTree::ClusterTree(const Geometry& geometry, const TreeOptions& options) : options_(options) {
  require(options.leaf_size >= 1, "clusters of at most ", options.leaf_size, " indices");
  if (options_.quantum == 0) options_.quantum = options.leaf_size >= 32 ? 16 : 1;
  require(options_.quantum >= 1 && options_.quantum <= options_.leaf_size, "cuts at multiples of ", options.quantum,
          " indices in a tree whose leaves hold at most ", options.leaf_size);
  check(geometry);
  const Local n = checked_cast<Local>(geometry.size(), "the number of points");
  order_.resize(std::size_t(n));
  std::iota(order_.begin(), order_.end(), Global(0));
  clusters_.push_back({0, n, {}, {-1, -1}, 0});
  for (std::size_t c = 0; c < clusters_.size(); ++c) {
    Cluster& cluster = clusters_[c];
    const auto begin = order_.begin() + cluster.begin, end = order_.begin() + cluster.end;
    Box places;
    for (auto i = begin; i < end; ++i) {
      places.add(Box::of(geometry.points[std::size_t(*i)]));
      cluster.box.add(geometry.boxes.empty() ? Box::of(geometry.points[std::size_t(*i)])
                                             : geometry.boxes[std::size_t(*i)]);
    }
    depth_ = std::max(depth_, cluster.level);
    if (cluster.size() <= options_.leaf_size) continue;

    int axis = 0;
    for (int d = 1; d < 3; ++d)
      if (places.high[d] - places.low[d] > places.high[axis] - places.low[axis]) axis = d;
    const auto place = [&](Global i) { return geometry.points[std::size_t(i)][std::size_t(axis)]; };
    Local half = cluster.size() / 2;
    if (options_.bisection == Bisection::midpoint && places.high[axis] > places.low[axis]) {
      const double middle = places.low[axis] + (places.high[axis] - places.low[axis]) / 2;
      half = Local(std::count_if(begin, end, [&](Global i) { return place(i) <= middle; }));
    }
    // A cluster that is divided is larger than a quantum, so a multiple of the quantum lies strictly inside.
    const Local q = options_.quantum;
    half = std::clamp((half + q / 2) / q * q, q, (cluster.size() - 1) / q * q);
    std::nth_element(begin, begin + half, end,
                     [&](Global i, Global j) { return place(i) != place(j) ? place(i) < place(j) : i < j; });

    const Local from = cluster.begin, to = cluster.end;
    const int level = cluster.level + 1, first = checked_cast<int>(clusters_.size(), "the number of clusters");
    cluster.child[0] = first, cluster.child[1] = first + 1;
    clusters_.push_back({from, from + half, {}, {-1, -1}, level});  // invalidates `cluster`
    clusters_.push_back({from + half, to, {}, {-1, -1}, level});
  }
  // Inside a leaf indices ascend, so that the caller's data are read in ascending order.
  for (const Cluster& c : clusters_)
    if (c.is_leaf()) std::sort(order_.begin() + c.begin, order_.begin() + c.end);
}

std::vector<Block> block_tree(const ClusterTree& rows, const ClusterTree& columns, const Admissibility& rule) {
  using Kind = Admissibility::Kind;
  require(rule.eta > 0, "an admissibility condition with eta = ", rule.eta);
  const bool one_tree = &rows == &columns;
  const auto admissible = [&](const Cluster& s, const Cluster& t) {
    if (rule.kind == Kind::none || s.size() < rule.least || t.size() < rule.least) return false;
    if (rule.kind == Kind::weak && one_tree) return s.end <= t.begin || t.end <= s.begin;
    const double gap = s.box.distance(t.box);
    if (!(gap > 0)) return false;
    if (rule.kind == Kind::weak) return true;
    const double a = s.box.diameter(), b = t.box.diameter();
    return (rule.kind == Kind::smaller ? std::min(a, b) : std::max(a, b)) <= rule.eta * gap;
  };
  std::vector<Block> leaves;
  std::vector<std::pair<int, int>> open{{0, 0}};
  while (!open.empty()) {
    const auto [i, j] = open.back();
    open.pop_back();
    const Cluster &s = rows.clusters()[std::size_t(i)], &t = columns.clusters()[std::size_t(j)];
    const bool low_rank = admissible(s, t);
    if (low_rank || (s.is_leaf() && t.is_leaf())) {
      leaves.push_back({s.begin, s.end, t.begin, t.end, low_rank});
      continue;
    }
    for (int a = s.is_leaf() ? 0 : 1; a >= 0; --a)
      for (int b = t.is_leaf() ? 0 : 1; b >= 0; --b)
        open.emplace_back(s.is_leaf() ? i : s.child[a], t.is_leaf() ? j : t.child[b]);
  }
  return leaves;
}

}  // namespace tacit::op
