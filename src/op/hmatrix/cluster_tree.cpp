#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>

#include <numeric>
#include <string>
#include <utility>

namespace tacit::op {
namespace {

constexpr std::size_t most_named = 6;  // coordinates of a point in a message

// The box around items of `d` numbers each, or of two corners, the second of which begins at `high`.
template <class It>
void surround(const std::vector<double>& items, It begin, It end, std::size_t d, std::size_t high,
              std::vector<double>& box) {
  std::fill_n(box.begin(), d, std::numeric_limits<double>::infinity());
  std::fill_n(box.begin() + std::ptrdiff_t(d), d, -std::numeric_limits<double>::infinity());
  for (auto i = begin; i < end; ++i) {
    const double* const p = items.data() + std::size_t(*i) * (d + high);
    for (std::size_t k = 0; k < d; ++k) box[k] = std::min(box[k], p[k]), box[k + d] = std::max(box[k + d], p[k + high]);
  }
}

// The length of a vector whose squares may leave the range of double.
template <class F>
double length_of(std::size_t d, F&& side) {
  double sum = 0, length = 0;
  for (std::size_t k = 0; k < d; ++k) sum += side(k) * side(k);
  if (sum > 0x1p-960 && sum < 0x1p+960) return std::sqrt(sum);
  for (std::size_t k = 0; k < d; ++k) length = std::hypot(length, side(k));
  return length;
}

void check(const Coordinates& g) {
  const auto d = std::size_t(std::max(g.dimension, 0));
  require(g.dimension >= 1 && g.size() >= 1 && g.points.size() % d == 0, "a cluster tree without points");
  require(g.boxes.empty() || g.boxes.size() == 2 * g.points.size(), g.boxes.size() / (2 * d), " boxes for ", g.size(),
          " points");
  const auto finite = [](double v) { return std::isfinite(v); };
  for (std::size_t i = 0; i < std::size_t(g.size()); ++i) {
    const double* const p = g.points.data() + i * d;
    if (!std::all_of(p, p + d, finite)) {
      std::string place;
      for (std::size_t c = 0; c < d; ++c) {
        if (d > most_named && std::isfinite(p[c])) continue;
        place += (place.empty() ? "" : ", ") + (d > most_named ? message("coordinate ", c, ": ", p[c]) : message(p[c]));
      }
      throw Error(ErrorKind::input, message("point ", i, " is at (", place, ")"));
    }
    if (g.boxes.empty()) continue;
    const double* const b = g.boxes.data() + 2 * i * d;
    bool good = std::all_of(b, b + 2 * d, finite);
    for (std::size_t c = 0; c < d; ++c) good = good && b[c] <= b[c + d];
    if (!good) throw Error(ErrorKind::input, message("the box of element ", i, " is empty or not finite"));
  }
}

}  // namespace

Coordinates coordinates_of(const Geometry& geometry) {
  require(geometry.boxes.empty() || geometry.boxes.size() == geometry.points.size(), geometry.boxes.size(),
          " boxes for ", geometry.points.size(), " points");
  Coordinates c{3, {}, {}};
  for (const Point& p : geometry.points) c.points.insert(c.points.end(), p.begin(), p.end());
  for (const Box& b : geometry.boxes)
    for (const Point& p : {b.low, b.high}) c.boxes.insert(c.boxes.end(), p.begin(), p.end());
  return c;
}

ClusterTree::ClusterTree(Coordinates geometry, const TreeOptions& options)
    : dimension_(geometry.dimension), options_(options) {
  require(options.leaf_size >= 1, "clusters of at most ", options.leaf_size, " indices");
  if (options_.quantum == 0) options_.quantum = options.leaf_size >= 32 ? 16 : 1;
  require(options_.quantum >= 1 && options_.quantum <= options_.leaf_size, "cuts at multiples of ", options.quantum,
          " indices in a tree whose leaves hold at most ", options.leaf_size);
  check(geometry);
  order_.resize(std::size_t(checked_cast<Local>(geometry.size(), "the number of points")));
  std::iota(order_.begin(), order_.end(), Global(0));
  divide(geometry);
  points_ = std::move(geometry.points);
  // Inside a leaf indices ascend, so that the caller's data are read in ascending order.
  for (const Cluster& c : clusters_)
    if (c.is_leaf()) std::sort(order_.begin() + c.begin, order_.begin() + c.end);
}

void ClusterTree::divide(const Coordinates& geometry) {
  const auto d = std::size_t(dimension_);
  std::vector<double> places(2 * d);  // around the points of a cluster
  clusters_.push_back({0, Local(order_.size()), {-1, -1}, 0});
  for (std::size_t c = 0; c < clusters_.size(); ++c) {
    Cluster& cluster = clusters_[c];
    const auto begin = order_.begin() + cluster.begin, end = order_.begin() + cluster.end;
    surround(geometry.points, begin, end, d, 0, places);
    if (!geometry.boxes.empty()) {
      std::vector<double> box(2 * d);
      surround(geometry.boxes, begin, end, d, d, box);
      boxes_.insert(boxes_.end(), box.begin(), box.end());
    } else {
      boxes_.insert(boxes_.end(), places.begin(), places.end());
    }
    depth_ = std::max(depth_, cluster.level);
    if (cluster.size() <= options_.leaf_size) continue;

    const double *const low = places.data(), *const high = low + d;
    std::size_t axis = 0;
    for (std::size_t k = 1; k < d; ++k)
      if (high[k] - low[k] > high[axis] - low[axis]) axis = k;
    const auto place = [&](Global i) { return geometry.points[std::size_t(i) * d + axis]; };
    Local half = cluster.size() / 2;
    if (options_.bisection == Bisection::midpoint && high[axis] > low[axis]) {
      const double middle = low[axis] + (high[axis] - low[axis]) / 2;
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
    clusters_.push_back({from, from + half, {-1, -1}, level});  // invalidates `cluster`
    clusters_.push_back({from + half, to, {-1, -1}, level});
  }
}

double ClusterTree::diameter(int cluster) const {
  const auto b = box(cluster);
  const std::size_t d = b.size() / 2;
  return length_of(d, [&](std::size_t k) { return b[k + d] - b[k]; });
}

double ClusterTree::distance(int cluster, const ClusterTree& other, int of_other) const {
  const auto a = box(cluster), b = other.box(of_other);
  const std::size_t d = a.size() / 2;
  return length_of(d, [&](std::size_t k) { return std::max({0.0, b[k] - a[k + d], a[k] - b[k + d]}); });
}

std::vector<Block> block_tree(const ClusterTree& rows, const ClusterTree& columns, const Admissibility& rule) {
  using Kind = Admissibility::Kind;
  require(rule.eta > 0, "an admissibility condition with eta = ", rule.eta);
  require(rows.dimension() == columns.dimension(), "rows are points of ", rows.dimension(), " coordinates, columns of ",
          columns.dimension());
  const bool one_tree = &rows == &columns;
  const auto admissible = [&](int i, int j) {
    const Cluster &s = rows.clusters()[std::size_t(i)], &t = columns.clusters()[std::size_t(j)];
    if (rule.kind == Kind::none || s.size() < rule.least || t.size() < rule.least) return false;
    if (rule.kind == Kind::weak && one_tree) return s.end <= t.begin || t.end <= s.begin;
    const double gap = rows.distance(i, columns, j), a = rows.diameter(i), b = columns.diameter(j);
    // Of clusters of one point each, all entries are alike, however near the points are; but for the diagonal.
    if (a == 0 && b == 0 && !(one_tree && s.begin < t.end && t.begin < s.end)) return true;
    if (!(gap > 0)) return false;
    if (rule.kind == Kind::weak) return true;
    return (rule.kind == Kind::smaller ? std::min(a, b) : std::max(a, b)) <= rule.eta * gap;
  };
  std::vector<Block> leaves;
  std::vector<std::pair<int, int>> open{{0, 0}};
  while (!open.empty()) {
    const auto [i, j] = open.back();
    open.pop_back();
    const Cluster &s = rows.clusters()[std::size_t(i)], &t = columns.clusters()[std::size_t(j)];
    const bool low_rank = admissible(i, j);
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
