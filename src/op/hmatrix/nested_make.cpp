#include "nested_make.hpp"

#include <tacit/base/error.hpp>
#include <tacit/base/lapack.hpp>
#include <tacit/op/hmatrix/hash.hpp>

#include "crosses.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace tacit::op::detail {
namespace {

constexpr int none = -1;
// The number of columns that is sampled of the far blocks of each cluster above: halved from one to the next, and at
// least this.
constexpr int least_samples = 8;
// Samples for each point of a skeleton: with fewer, a basis fits the samples better than the far field.
constexpr std::size_t samples_of_step = 12;
// Where the norm of the samples is that of fewer, they are doubled, up to so many times as many.
constexpr double least_effective = 16;
constexpr int most_doubled = 8;
// The squared residual, over the squared norm, that is found by squares: a hundred times their rounding errors.
constexpr double least_of_squares = 1e-12;
constexpr double single_error2 = 0x1p-48 / 3;  // squared relative rounding error of float, in the mean

/// Sampled positions of the other tree, and how many columns each stands for.
struct Samples {
  std::vector<Local> at;
  std::vector<double> weight2;
  bool all = true;  // of the whole far field
  // How many there are without those of blocks that are divided and of the nearest points, which are alike in part.
  std::size_t spread = 0;
  void add(Local p, double w) { at.push_back(p), weight2.push_back(w); }
};

/// A part of a far block's columns: positions, in the order of the tree or as `points` says.
struct Part {
  Local begin, size;
  std::vector<Local> points;
  Local at(Local k) const { return points.empty() ? begin + k : points[std::size_t(k)]; }
};

/// Divides the clusters of a far field until the points of a part have about the same distance from `box`. A far block
/// of a small and a large cluster may have points at the distance of the small one's size and others that are a
/// thousand times as far, whose entries have nothing in common.
class Parts {
 public:
  Parts(std::span<const double> box, const ClusterTree& other) : box_(box), other_(other) {}
  /// Appends the parts of the cluster.
  void add(std::int32_t cluster, std::vector<Part>& to) const {
    const Cluster& s = other_.clusters()[std::size_t(cluster)];
    const auto [near2, far2] = distances2(other_.box(cluster));
    if (far2 <= most_ratio2 * near2 || s.size() == 1) return to.push_back({s.begin, s.size(), {}});
    if (!s.is_leaf()) return add(s.child[0], to), add(s.child[1], to);
    // By powers of two of the distance; what is nearest to the box on its own.
    std::map<int, Part> groups;
    for (Local p = s.begin; p < s.end; ++p) {
      const double d2 = distance2(p);
      Part& group = groups[d2 > 0 ? std::ilogb(d2) / 2 : std::numeric_limits<int>::min()];
      group.points.push_back(p), ++group.size;
    }
    for (auto& [exponent, group] : groups) to.push_back(std::move(group));
  }
  /// A point of the cluster that is nearest to the box or nearly so.
  Local nearest(std::int32_t cluster) const {
    const Cluster* s = &other_.clusters()[std::size_t(cluster)];
    while (!s->is_leaf()) {
      const bool second = distances2(other_.box(s->child[1])).first < distances2(other_.box(s->child[0])).first;
      s = &other_.clusters()[std::size_t(s->child[second ? 1 : 0])];
    }
    Local best = s->begin;
    double least = distance2(best);
    for (Local p = s->begin + 1; p < s->end; ++p)
      if (const double d2 = distance2(p); d2 < least) least = d2, best = p;
    return best;
  }

 private:
  static constexpr double most_ratio2 = 16;
  double distance2(Local p) const {
    const auto x = other_.point(other_.order()[std::size_t(p)]);
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double side = std::max({0.0, box_[k] - x[k], x[k] - box_[k + x.size()]});
      sum += side * side;
    }
    return sum;
  }
  // Of the points of the other box that are nearest to and farthest from the box.
  std::pair<double, double> distances2(std::span<const double> b) const {
    double near2 = 0, far2 = 0;
    const std::size_t d = b.size() / 2;
    for (std::size_t k = 0; k < d; ++k) {
      const double below = box_[k] - b[k], above = b[k + d] - box_[k + d];
      const double gap = std::max({0.0, box_[k] - b[k + d], b[k] - box_[k + d]}), end = std::max({0.0, below, above});
      near2 += gap * gap, far2 += end * end;
    }
    return {near2, far2};
  }
  std::span<const double> box_;
  const ClusterTree& other_;
};

// Stratified samples of parts of the far field, so that every part is met where there are not more than `wanted`.
void sample_parts(const std::vector<Part>& parts, int wanted, Hash& hash, Samples& to) {
  Global all = 0;
  for (const Part& s : parts) all += s.size;
  const auto uniform = [&] { return double(hash.next() >> 11) * 0x1p-53; };
  const Global blocks = Global(parts.size());
  if (all <= wanted) {
    for (const Part& s : parts)
      for (Local k = 0; k < s.size; ++k) to.add(s.at(k), 1);
    return;
  }
  to.all = false;
  const Global taken = std::min<Global>(blocks, wanted);
  const double shift = uniform();
  for (Global k = 0; k < taken; ++k) {
    const Part& s =
        parts[std::size_t(taken < blocks ? Global((double(k) + shift) * double(blocks) / double(taken)) : k)];
    const Global count = std::clamp<Global>(wanted / blocks + (k < wanted % blocks ? 1 : 0), 1, Global(s.size));
    const double stride = double(s.size) / double(count);
    for (Global q = 0; q < count; ++q) {
      const auto p = Local((double(q) + uniform()) * stride);
      to.add(s.at(std::min(p, s.size - 1)), stride * double(blocks) / double(taken));
    }
  }
}

template <Scalar T>
struct Work {
  using W = InDouble<T>;
  std::vector<W> g;           // samples x candidates, by columns
  std::vector<W> q, r;        // samples x steps; steps x candidates: G = Q R
  std::vector<Local> pivot;   // candidates
  std::vector<double> left2;  // squared norms of the residual's columns
};

template <class W>
double square_of(const W* v, std::size_t n) {
  double sum = 0;
  const auto* const a = reinterpret_cast<const double*>(v);
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n * (sizeof(W) / sizeof(double)); ++i) sum += a[i] * a[i];
  return sum;
}
// x^H y.
inline double inner(const double* x, const double* y, std::size_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}
inline std::complex<double> inner(const std::complex<double>* x, const std::complex<double>* y, std::size_t n) {
  return dot(x, y, Local(n));
}

// g = Q R with the columns of g as pivots, the largest residual first, until the squared sum of residuals is at most
// `allowed2`. By modified Gram-Schmidt: g becomes the residual.
template <Scalar T>
void pivoted_qr(Work<T>& work, std::size_t rows, std::size_t columns, double allowed2) {
  using W = InDouble<T>;
  auto& left2 = work.left2;
  left2.resize(columns);
  for (std::size_t j = 0; j < columns; ++j) left2[j] = square_of(work.g.data() + j * rows, rows);
  work.pivot.clear(), work.q.clear(), work.r.clear();
  std::vector<char> used(columns, 0);
  for (std::size_t step = 0; step < std::min(rows, columns); ++step) {
    double sum = 0, most = 0;
    std::size_t best = columns;
    for (std::size_t j = 0; j < columns; ++j) {
      if (used[j]) continue;
      sum += left2[j];
      if (left2[j] > most) most = left2[j], best = j;
    }
    if (best == columns || !(sum > allowed2)) break;
    used[best] = 1;
    work.pivot.push_back(Local(best));
    work.q.insert(work.q.end(), work.g.begin() + std::ptrdiff_t(best * rows),
                  work.g.begin() + std::ptrdiff_t((best + 1) * rows));
    W* const q = work.q.data() + step * rows;
    const double size = std::sqrt(most);
    for (std::size_t i = 0; i < rows; ++i) q[i] /= size;
    work.r.resize((step + 1) * columns, W(0));
    W* const r = work.r.data() + step * columns;
    for (std::size_t j = 0; j < columns; ++j) {
      if (j == best) r[j] = size;
      if (used[j]) continue;
      W* const v = work.g.data() + j * rows;
      const W c = inner(q, v, rows);
      r[j] = c;
      for (std::size_t i = 0; i < rows; ++i) v[i] -= c * q[i];
      left2[j] = square_of(v, rows);
    }
  }
}

// R of the same factorisation as the Cholesky factor of G^H G with pivots: the work is a matrix product. Half of the
// digits are lost.
template <Scalar T>
void pivoted_cholesky(Work<T>& work, std::size_t rows, std::size_t columns, double allowed2) {
  using W = InDouble<T>;
  work.pivot.clear(), work.r.clear();
  std::vector<W>& square = work.q;
  square.resize(columns * columns);
  lapack::gemm('C', 'N', int(columns), int(columns), int(rows), W(1), work.g.data(), int(rows), work.g.data(),
               int(rows), W(0), square.data(), int(columns));
  auto& left2 = work.left2;
  left2.resize(columns);
  for (std::size_t j = 0; j < columns; ++j) left2[j] = std::real(square[j + j * columns]);
  std::vector<char> used(columns, 0);
  for (std::size_t step = 0; step < std::min(rows, columns); ++step) {
    double sum = 0, most = 0;
    std::size_t best = columns;
    for (std::size_t j = 0; j < columns; ++j) {
      if (used[j]) continue;
      sum += std::max(left2[j], 0.0);
      if (left2[j] > most) most = left2[j], best = j;
    }
    if (best == columns || !(sum > allowed2)) break;
    used[best] = 1;
    work.pivot.push_back(Local(best));
    work.r.resize((step + 1) * columns, W(0));
    W* const r = work.r.data() + step * columns;
    // Row `best` of the square, without what earlier rows of R explain.
    for (std::size_t j = 0; j < columns; ++j)
      if (!used[j] || j == best) r[j] = square[best + j * columns];
    for (std::size_t l = 0; l < step; ++l) {
      const W* const before = work.r.data() + l * columns;
      const W c = conj(before[best]);
      for (std::size_t j = 0; j < columns; ++j)
        if (!used[j] || j == best) r[j] -= c * before[j];
    }
    const double size = std::sqrt(most);
    for (std::size_t j = 0; j < columns; ++j) {
      if (j == best) r[j] = size;
      else if (!used[j]) r[j] /= size, left2[j] -= abs2(r[j]);
    }
  }
}

// X^T: steps x candidates, with g = g(:, pivots) X^T, from R (rows of work.r, upper triangular in the pivots).
template <Scalar T>
std::vector<InDouble<T>> interpolation(const Work<T>& work, std::size_t columns) {
  using W = InDouble<T>;
  const std::size_t k = work.pivot.size();
  std::vector<W> triangle(k * k), x(k * columns);
  for (std::size_t l = 0; l < k; ++l) {
    for (std::size_t j = l; j < k; ++j) triangle[l + j * k] = work.r[l * columns + std::size_t(work.pivot[j])];
    for (std::size_t j = 0; j < columns; ++j) x[l + j * k] = work.r[l * columns + j];
  }
  if (k > 0) lapack::trsm('L', 'U', 'N', 'N', int(k), int(columns), triangle.data(), int(k), x.data(), int(k));
  return x;
}

// Left singular vectors of m (rows x columns, overwritten by them) and singular values, descending: one-sided Jacobi
// rotations (Hestenes 1958), which converge fast where the columns come from a QR factorisation with pivoting.
template <class W>
std::vector<double> left_singular(std::vector<W>& m, std::size_t rows, std::size_t columns) {
  std::vector<double> size2(columns);
  constexpr double nothing = 1e-15, done = 1e-8;
  constexpr int sweeps = 40;
  double worst = 1;
  for (int sweep = 0; sweep < sweeps && worst > done; ++sweep) {
    worst = 0;
    for (std::size_t j = 0; j < columns; ++j) size2[j] = square_of(m.data() + j * rows, rows);
    for (std::size_t p = 0; p + 1 < columns; ++p)
      for (std::size_t q = p + 1; q < columns; ++q) {
        W *const x = m.data() + p * rows, *const y = m.data() + q * rows;
        const W xy = inner(x, y, rows);
        const double length = std::abs(xy), size = std::sqrt(std::max(size2[p], 0.0) * std::max(size2[q], 0.0));
        if (!(length > nothing * size) || size <= 0) continue;
        worst = std::max(worst, length / size);
        const W phase = xy / length;
        const double zeta = (size2[q] - size2[p]) / (2 * length);
        const double t = std::copysign(1 / (std::abs(zeta) + std::sqrt(1 + zeta * zeta)), zeta);
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        const W forward = s * phase, back = s * conj(phase);
        for (std::size_t i = 0; i < rows; ++i) {
          const W u = x[i], v = y[i];
          x[i] = c * u - back * v;
          y[i] = forward * u + c * v;
        }
        size2[p] -= t * length, size2[q] += t * length;
      }
  }
  for (std::size_t j = 0; j < columns; ++j) size2[j] = square_of(m.data() + j * rows, rows);
  std::vector<std::size_t> order(columns);
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size2[a] > size2[b]; });
  std::vector<W> sorted(rows * columns);
  std::vector<double> sigma(columns);
  for (std::size_t j = 0; j < columns; ++j) {
    sigma[j] = std::sqrt(size2[order[j]]);
    for (std::size_t i = 0; i < rows && sigma[j] > 0; ++i) sorted[i + j * rows] = m[i + order[j] * rows] / sigma[j];
  }
  m = std::move(sorted);
  return sigma;
}

/// One cluster's results besides its skeleton.
template <Scalar T>
struct Pieces {
  typename NestedBasis<T>::Numbers leaf_numbers, transfer_numbers;
  SmallMatrix leaf, transfer;
};

template <Scalar T>
class BasisMaker {
 public:
  using W = InDouble<T>;
  BasisMaker(const BasisSide<T>& side, const BasisBudget& budget)
      : side(side), budget(budget), skeletons(side.tree.clusters().size()), pieces(side.tree.clusters().size()) {}

  /// Makes the basis of a cluster whose children are made. Thread-safe for clusters of one level.
  void make(std::int32_t cluster);

  const BasisSide<T>& side;
  const BasisBudget& budget;
  std::vector<Skeleton<T>> skeletons;
  std::vector<Pieces<T>> pieces;
  std::vector<double> error2 = std::vector<double>(skeletons.size(), 0.0), stored2 = error2;
  std::atomic<Global> entries = 0;

 private:
  Samples samples_of(std::int32_t cluster, int wanted) const;
  /// The QR factorisation of the samples of these candidates, with enough of them. Returns their number.
  std::size_t factorise(std::int32_t cluster, const std::vector<Local>& points, Work<T>& work);
  void evaluate(const std::vector<Local>& points, const Samples& samples, std::vector<W>& g);
  /// Rows of `m` (candidates x count) in the coordinates of the children: C of each times its rows.
  std::vector<W> in_children(std::int32_t cluster, const std::vector<W>& m, std::size_t candidates,
                             std::size_t count) const;
  void store(std::int32_t cluster, const std::vector<W>& w, std::size_t rows, const std::vector<double>& sigma);
};

template <Scalar T>
Samples BasisMaker<T>::samples_of(std::int32_t cluster, int wanted) const {
  Samples samples;
  const Parts parts(side.tree.box(cluster), side.other);
  for (std::int32_t above = cluster; above >= 0; above = side.far.parent[std::size_t(above)]) {
    Hash hash{(std::uint64_t(cluster) * 0x9e3779b97f4a7c15u) ^ (std::uint64_t(above) << 1 | (side.rows ? 1 : 0))};
    std::vector<Part> whole, divided;
    for (const std::int32_t s : side.far.of(above)) {
      const std::size_t first = divided.size();
      parts.add(s, divided);
      if (divided.size() == first + 1 && divided.back().points.empty())
        whole.push_back(std::move(divided.back())), divided.pop_back();
    }
    const std::size_t before = samples.at.size();
    if (!whole.empty()) sample_parts(whole, wanted, hash, samples);
    if (!divided.empty()) sample_parts(divided, std::max(wanted, int(divided.size())), hash, samples);
    samples.spread += std::min(samples.at.size() - before, std::size_t(wanted));
    if (above == cluster && !samples.all)
      for (const std::int32_t s : side.far.of(cluster)) samples.add(parts.nearest(s), 1);
    wanted = std::max(least_samples, wanted / 2);
  }
  return samples;
}

template <Scalar T>
void BasisMaker<T>::evaluate(const std::vector<Local>& points, const Samples& samples, std::vector<W>& g) {
  const std::size_t m = points.size(), p = samples.at.size();
  std::vector<Global> own(m), others(p);
  for (std::size_t i = 0; i < m; ++i) own[i] = side.tree.order()[std::size_t(points[i])];
  for (std::size_t j = 0; j < p; ++j) others[j] = side.other.order()[std::size_t(samples.at[j])];
  std::vector<T> values(m * p);
  const auto& [i, j] = side.rows ? std::tie(own, others) : std::tie(others, own);
  side.entry(i, j, values.data());
  check_finite<T>(values, i, j);
  entries += Global(values.size());
  g.resize(m * p);
  for (std::size_t b = 0; b < p; ++b) {
    const double weight = std::sqrt(samples.weight2[b]);
    for (std::size_t a = 0; a < m; ++a)
      g[b + a * p] = weight * (side.rows ? W(values[a + b * m]) : W(conj(values[b + a * p])));
  }
}

template <Scalar T>
auto BasisMaker<T>::in_children(std::int32_t cluster, const std::vector<W>& m, std::size_t candidates,
                                std::size_t count) const -> std::vector<W> {
  const Cluster& t = side.tree.clusters()[std::size_t(cluster)];
  if (t.is_leaf()) return m;
  const auto &a = skeletons[std::size_t(t.child[0])], &b = skeletons[std::size_t(t.child[1])];
  const std::size_t rows = a.d.size() + b.d.size();
  std::vector<W> out(rows * count), room;
  std::size_t row = 0, from = 0;
  for (const auto* child : {&a, &b}) {
    const int k = int(child->rank()), points = int(child->points.size());
    if (k > 0) {
      lapack::gemm('N', 'N', k, int(count), points, W(1), child->c(room), k, m.data() + from, int(candidates), W(0),
                   out.data() + row, int(rows));
      for (std::size_t j = 0; j < count; ++j)
        for (int i = 0; i < k; ++i) out[row + std::size_t(i) + j * rows] *= child->d[std::size_t(i)];
    }
    row += std::size_t(k), from += std::size_t(points);
  }
  return out;
}

// The basis matrix of a leaf, or the transfer matrices of the children, from the singular vectors.
template <Scalar T>
void BasisMaker<T>::store(std::int32_t cluster, const std::vector<W>& w, std::size_t rows,
                          const std::vector<double>& sigma) {
  const Cluster& t = side.tree.clusters()[std::size_t(cluster)];
  const auto& d = skeletons[std::size_t(cluster)].d;
  const std::size_t k = d.size();
  double size2 = 0;  // an error of 1 in a number of column j is one of sigma_j / d_j in the matrix
  for (std::size_t j = 0; j < k; ++j) size2 += (sigma[j] / d[j]) * (sigma[j] / d[j]);
  std::vector<W> block;
  const auto take = [&](std::size_t first, std::size_t count, const double* below, Pieces<T>& to, bool leaf) {
    double weight = 0;
    block.resize(count * k);
    for (std::size_t i = 0; i < count; ++i) weight += below ? below[i] * below[i] : 1;
    for (std::size_t j = 0; j < k; ++j)
      for (std::size_t i = 0; i < count; ++i)
        block[i + j * count] = w[first + i + j * rows] * d[j] / (below ? below[i] : 1.0);
    (leaf ? to.leaf : to.transfer) =
        pack_small<T>(block.data(), count, k, weight * size2, budget.stored2 * double(count * k), budget.storage,
                      leaf ? to.leaf_numbers : to.transfer_numbers, stored2[std::size_t(cluster)]);
  };
  if (t.is_leaf()) return take(0, rows, nullptr, pieces[std::size_t(cluster)], true);
  std::size_t first = 0;
  for (const int c : t.child) {
    const auto& below = skeletons[std::size_t(c)].d;
    if (!below.empty()) take(first, below.size(), below.data(), pieces[std::size_t(c)], false);
    first += below.size();
  }
}

// Whether many samples have a part in the norm of all: the square of the sum of their squared norms, over the sum of
// the squares of these. Where only a few do, as for a kernel that decays fast, others that matter may be missing.
template <class W>
bool is_spread(const std::vector<W>& g, std::size_t samples) {
  std::vector<double> size2(samples);
  for (std::size_t at = 0; at < g.size(); at += samples)
    for (std::size_t b = 0; b < samples; ++b) size2[b] += abs2(g[at + b]);
  double sum = 0, sum2 = 0;
  for (const double s : size2) sum += s, sum2 += s * s;
  return !(sum * sum < least_effective * sum2);
}

template <Scalar T>
std::size_t BasisMaker<T>::factorise(std::int32_t cluster, const std::vector<Local>& points, Work<T>& work) {
  int wanted = budget.samples;
  for (const int child : side.tree.clusters()[std::size_t(cluster)].child)
    if (child >= 0) wanted = std::max(wanted, int(samples_of_step * skeletons[std::size_t(child)].points.size() / 2));
  for (int most = most_doubled * wanted;; wanted *= 2) {
    const Samples samples = samples_of(cluster, wanted);
    if (samples.at.empty()) return 0;
    evaluate(points, samples, work.g);
    const double rounding = 1.6 * double(std::numeric_limits<real_t<T>>::epsilon());
    const double whole2 = square_of(work.g.data(), work.g.size());
    const bool few = wanted < most && !is_spread(work.g, samples.at.size());
    const double allowed2 = std::max(budget.skeleton2, rounding * rounding * whole2);
    if (allowed2 > least_of_squares * whole2) pivoted_cholesky(work, samples.at.size(), points.size(), allowed2);
    else pivoted_qr(work, samples.at.size(), points.size(), allowed2);
    if (samples.all || (!few && samples.spread >= samples_of_step * work.pivot.size())) return samples.at.size();
  }
}

template <Scalar T>
void BasisMaker<T>::make(std::int32_t cluster) {
  const Cluster& t = side.tree.clusters()[std::size_t(cluster)];
  std::vector<Local> points;
  if (t.is_leaf()) {
    points.resize(std::size_t(t.size()));
    std::iota(points.begin(), points.end(), t.begin);
  } else {
    for (const int c : t.child)
      points.insert(points.end(), skeletons[std::size_t(c)].points.begin(), skeletons[std::size_t(c)].points.end());
  }
  if (points.empty()) return;
  Work<T> work;
  if (factorise(cluster, points, work) == 0) return;
  const std::size_t columns = points.size();
  const std::size_t steps = work.pivot.size();
  if (steps == 0) return;
  // G in the children's coordinates is B R^T times an orthonormal matrix.
  std::vector<W> m = in_children(cluster, work.r, columns, steps);
  const std::size_t dimension = m.size() / steps;
  auto sigma = left_singular(m, dimension, steps);
  double tail2 = 0;
  std::size_t k = std::min(steps, dimension);
  const double rounding = 1.6 * double(std::numeric_limits<real_t<T>>::epsilon());
  const double cut2 = std::max(budget.cut2, rounding * rounding * sigma[0] * sigma[0]);
  for (std::size_t j = k; j < sigma.size(); ++j) tail2 += sigma[j] * sigma[j];
  for (; k > 0 && tail2 + sigma[k - 1] * sigma[k - 1] <= cut2; --k) tail2 += sigma[k - 1] * sigma[k - 1];
  error2[std::size_t(cluster)] = tail2;
  if (k == 0) return;
  Skeleton<T>& made = skeletons[std::size_t(cluster)];
  for (std::size_t j = 0; j < k; ++j) made.d.push_back(std::sqrt(sigma[j] / sigma[0]));
  store(cluster, m, dimension, sigma);
  for (const Local p : work.pivot) made.points.push_back(points[std::size_t(p)]);
  // C = D^-1 W^H B X.
  const auto xt = interpolation(work, columns);
  std::vector<W> x(xt.size());
  for (std::size_t l = 0; l < steps; ++l)
    for (std::size_t i = 0; i < columns; ++i) x[i + l * columns] = xt[l + i * steps];
  const auto bx = in_children(cluster, x, columns, steps);
  std::vector<W> c(k * steps);
  lapack::gemm('C', 'N', int(k), int(steps), int(dimension), W(1), m.data(), int(dimension), bx.data(), int(dimension),
               W(0), c.data(), int(k));
  for (std::size_t l = 0; l < steps; ++l)
    for (std::size_t j = 0; j < k; ++j) c[j + l * k] /= made.d[j];
  made.set(std::move(c), budget.single);
}

// --- several ranks
// ----------------------------------------------------------------------------------------------------

template <class V>
void put(std::vector<std::byte>& to, const V* values, std::size_t count) {
  const std::size_t at = to.size();
  to.resize(at + count * sizeof(V));
  if (count > 0) std::memcpy(to.data() + at, values, count * sizeof(V));
}
template <class V>
void get(const std::byte*& from, V* values, std::size_t count) {
  if (count > 0) std::memcpy(static_cast<void*>(values), from, count * sizeof(V));
  from += count * sizeof(V);
}
template <Scalar T>
void put_skeleton(std::vector<std::byte>& to, std::int32_t cluster, const Skeleton<T>& s) {
  const std::int32_t head[4]{cluster, s.rank(), std::int32_t(s.points.size()), s.c_single.empty() ? 0 : 1};
  put(to, head, 4), put(to, s.points.data(), s.points.size()), put(to, s.d.data(), s.d.size());
  put(to, s.c_double.data(), s.c_double.size()), put(to, s.c_single.data(), s.c_single.size());
}
template <Scalar T>
void get_skeletons(std::span<const std::byte> from, std::vector<Skeleton<T>>& to) {
  for (const std::byte* p = from.data(); p < from.data() + from.size();) {
    std::int32_t head[4];
    get(p, head, 4);
    Skeleton<T>& s = to[std::size_t(head[0])];
    s.points.resize(std::size_t(head[2])), s.d.resize(std::size_t(head[1]));
    (head[3] != 0 ? s.c_single.resize(s.points.size() * s.d.size()) : s.c_double.resize(s.points.size() * s.d.size()));
    get(p, s.points.data(), s.points.size()), get(p, s.d.data(), s.d.size());
    get(p, s.c_double.data(), s.c_double.size()), get(p, s.c_single.data(), s.c_single.size());
  }
}

// The rank whose range a cluster is inside, or -1 where it meets several.
int owner_of(const Cluster& c, std::span<const Global> cuts) {
  const auto after = std::upper_bound(cuts.begin(), cuts.end(), Global(c.begin)) - 1;
  // The last of equal cuts begins the rank that is not empty.
  return Global(c.end) <= *(after + 1) ? int(after - cuts.begin()) : none;
}

// The ranks of all clusters, from those that each rank has made.
template <Scalar T>
std::vector<Local> all_ranks(const comm::Communicator& comm, const ClusterTree& tree, std::span<const Global> cuts,
                             const std::vector<Skeleton<T>>& skeletons) {
  const auto& clusters = tree.clusters();
  std::vector<Local> rank(clusters.size()), own;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    rank[c] = skeletons[c].rank();
    if (owner_of(clusters[c], cuts) == comm.rank()) own.push_back(rank[c]);
  }
  if (comm.size() == 1) return rank;
  const auto all = comm.all_gather(std::span<const Local>(own));
  std::vector<std::vector<std::size_t>> of(static_cast<std::size_t>(comm.size()));
  for (std::size_t c = 0; c < clusters.size(); ++c)
    if (const int q = owner_of(clusters[c], cuts); q >= 0) of[std::size_t(q)].push_back(c);
  std::size_t at = 0;
  for (const auto& list : of)
    for (const std::size_t c : list) rank[c] = all[at++];
  return rank;
}

// The clusters below those that ranks share, from the rank that has made them.
template <Scalar T>
void share_borders(const comm::Communicator& comm, const BasisSide<T>& side, std::span<const Global> cuts,
                   std::vector<Skeleton<T>>& skeletons) {
  const auto& clusters = side.tree.clusters();
  std::vector<std::byte> bytes;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const std::int32_t above = side.far.parent[c];
    if (owner_of(clusters[c], cuts) == comm.rank() && above >= 0 &&
        owner_of(clusters[std::size_t(above)], cuts) == none)
      put_skeleton(bytes, std::int32_t(c), skeletons[c]);
  }
  for (const auto& from : comm.all_gather_bytes(bytes)) get_skeletons<T>(from, skeletons);
}

template <Scalar T>
std::shared_ptr<const NestedBasis<T>> basis_of(const ClusterTree& tree, const std::vector<Local>& rank, Local first,
                                               Local last, std::vector<Pieces<T>>& pieces) {
  auto nodes = nodes_within(tree, rank, first, last);
  typename NestedBasis<T>::Numbers numbers;
  const auto append = [&](SmallMatrix m, typename NestedBasis<T>::Numbers& from) {
    each_format([&](auto f) {
      if (f != m.format) return;
      auto &to = std::get<f>(numbers), &in = std::get<f>(from);
      m.data = to.size();
      to.insert(to.end(), in.begin(), in.end());
      in = std::remove_cvref_t<decltype(in)>();  // not {}, which keeps the memory
    });
    return m;
  };
  std::array<std::size_t, formats> all{};
  for (const BasisNode& n : nodes)
    each_format([&](auto f) {
      Pieces<T>& p = pieces[std::size_t(n.cluster)];
      all[f] += std::get<f>(p.leaf_numbers).size() + std::get<f>(p.transfer_numbers).size();
    });
  each_format([&](auto f) { std::get<f>(numbers).reserve(all[f]); });
  for (BasisNode& n : nodes) {
    Pieces<T>& p = pieces[std::size_t(n.cluster)];
    if (n.count > 0) n.leaf = append(p.leaf, p.leaf_numbers);
    if (n.parent >= 0) n.transfer = append(p.transfer, p.transfer_numbers);
  }
  return std::make_shared<const NestedBasis<T>>(first, last - first, std::move(nodes), std::move(numbers));
}

}  // namespace

template <Scalar T>
SmallMatrix pack_small(const InDouble<T>* matrix, std::size_t m, std::size_t n, double weights, double allowed2,
                       StoragePrecision storage, typename NestedBasis<T>::Numbers& numbers, double& error2) {
  using R = real_t<T>;
  constexpr std::size_t parts = is_complex<T> ? 2 : 1;
  const auto* const v = reinterpret_cast<const double*>(matrix);
  double most = 0, sum2 = 0;
  for (std::size_t i = 0; i < m * n * parts; ++i) most = std::max(most, std::abs(v[i])), sum2 += v[i] * v[i];
  SmallMatrix made;
  const double unit = fixed_unit(most), as_fixed = most >= least_fixed ? unit * unit / 12 * parts * weights : 0;
  const double as_single = m * n > 0 ? single_error2 * sum2 / double(m * n) * weights : 0;
  if (storage == StoragePrecision::automatic && as_fixed <= allowed2) {
    made = {fixed, 0, unit};
    error2 += as_fixed;
  } else if (storage != StoragePrecision::full && !std::is_same_v<R, float> && as_single <= allowed2) {
    made = {single, 0, 1};
    error2 += as_single;
  }
  each_format([&](auto f) {
    if (f != made.format) return;
    auto& to = std::get<f>(numbers);
    using S = typename std::remove_reference_t<decltype(to)>::value_type;
    made.data = to.size();
    to.resize(to.size() + m * n * parts);
    S* out = to.data() + made.data;
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t p = 0; p < parts; ++p)
        for (std::size_t i = 0; i < m; ++i) {
          const double a = v[(i + j * m) * parts + p];
          if constexpr (std::is_integral_v<S>) *out++ = S(std::int32_t(std::nearbyint(a / unit)));
          else *out++ = S(a);
        }
  });
  return made;
}

std::vector<BasisNode> nodes_within(const ClusterTree& tree, std::span<const Local> rank, Local first, Local last) {
  std::vector<BasisNode> nodes;
  std::uint32_t at = 0;
  struct Open {
    std::int32_t cluster, parent;
    int which;
  };
  std::vector<Open> open{{0, none, 0}};
  while (!open.empty()) {
    const Open next = open.back();
    open.pop_back();
    const Cluster& c = tree.clusters()[std::size_t(next.cluster)];
    if (c.begin >= last || c.end <= first) continue;
    std::int32_t node = none;
    if (const Local k = rank[std::size_t(next.cluster)]; k > 0) {
      node = std::int32_t(nodes.size());
      if (next.parent >= 0) nodes[std::size_t(next.parent)].child[next.which] = node;
      nodes.push_back(
          {next.cluster, next.parent, {none, none}, 0, c.begin - first, c.is_leaf() ? c.size() : 0, k, at, {}, {}});
      at += std::uint32_t(k);
    }
    if (c.is_leaf()) continue;
    for (int w = 1; w >= 0; --w) open.push_back({c.child[w], node, w});
  }
  for (std::size_t i = nodes.size(); i-- > 0;) {
    nodes[i].end = std::max(nodes[i].end, std::int32_t(i + 1));
    if (const std::int32_t p = nodes[i].parent; p >= 0)
      nodes[std::size_t(p)].end = std::max(nodes[std::size_t(p)].end, nodes[i].end);
  }
  return nodes;
}

template <Scalar T>
MadeBases<T> make_bases(const comm::Communicator& comm, const BasisSide<T>& side, std::span<const Global> cuts,
                        const BasisBudget& budget) {
  const lapack::OneThread one;
  BasisMaker<T> maker(side, budget);
  const auto& clusters = side.tree.clusters();
  const int rank = comm.rank();
  std::vector<std::vector<std::int32_t>> levels(std::size_t(side.tree.depth()) + 1);
  for (std::size_t c = 0; c < clusters.size(); ++c)
    if (owner_of(clusters[c], cuts) == rank) levels[std::size_t(clusters[c].level)].push_back(std::int32_t(c));
  const auto make = [&](const std::vector<std::int32_t>& list) {
    exec::parallel_for(
        list.size(), side.concurrent,
        [&](std::size_t k) {
          if (exec::may_poll()) comm.check(), comm.check_interrupt();
          maker.make(list[k]);
        },
        1);
  };
  for (std::size_t l = levels.size(); l-- > 0;) make(levels[l]);
  MadeBases<T> made;
  for (std::size_t c = 0; c < clusters.size(); ++c) made.error2 += maker.error2[c], made.stored2 += maker.stored2[c];
  if (comm.size() > 1) {
    share_borders(comm, side, cuts, maker.skeletons);
    for (auto& level : levels) level.clear();
    for (std::size_t c = 0; c < clusters.size(); ++c)
      if (owner_of(clusters[c], cuts) == none) levels[std::size_t(clusters[c].level)].push_back(std::int32_t(c));
    for (std::size_t l = levels.size(); l-- > 0;) make(levels[l]);
    for (const auto& level : levels)
      for (const std::int32_t c : level)
        if (rank == 0) made.error2 += maker.error2[std::size_t(c)], made.stored2 += maker.stored2[std::size_t(c)];
  }
  made.rank = all_ranks(comm, side.tree, cuts, maker.skeletons);
  made.basis =
      basis_of(side.tree, made.rank, Local(cuts[std::size_t(rank)]), Local(cuts[std::size_t(rank) + 1]), maker.pieces);
  made.skeletons = std::move(maker.skeletons);
  made.entries = maker.entries;
  return made;
}

template <Scalar T>
void fetch_skeletons(const comm::Communicator& comm, const ClusterTree& tree, std::span<const Global> cuts,
                     const std::vector<std::int32_t>& wanted, std::vector<Skeleton<T>>& skeletons) {
  if (comm.size() == 1) return;
  std::vector<std::vector<std::int32_t>> asked(static_cast<std::size_t>(comm.size()));
  for (const std::int32_t c : wanted)
    if (const int q = owner_of(tree.clusters()[std::size_t(c)], cuts); q >= 0 && q != comm.rank())
      asked[std::size_t(q)].push_back(c);
  std::vector<comm::Communicator::Parcel> requests, answers;
  for (int q = 0; q < comm.size(); ++q) {
    const auto& list = asked[std::size_t(q)];
    if (list.empty()) continue;
    requests.push_back({q, {}});
    put(requests.back().bytes, list.data(), list.size());
  }
  for (const auto& request : comm.sparse_exchange(requests)) {
    std::vector<std::int32_t> list(request.bytes.size() / sizeof(std::int32_t));
    const std::byte* from = request.bytes.data();
    get(from, list.data(), list.size());
    answers.push_back({request.rank, {}});
    for (const std::int32_t c : list) put_skeleton(answers.back().bytes, c, skeletons[std::size_t(c)]);
  }
  for (const auto& answer : comm.sparse_exchange(answers)) get_skeletons<T>(answer.bytes, skeletons);
}

#define TACIT_INSTANTIATE(T)                                                                                         \
  template MadeBases<T> make_bases(const comm::Communicator&, const BasisSide<T>&, std::span<const Global>,          \
                                   const BasisBudget&);                                                              \
  template void fetch_skeletons(const comm::Communicator&, const ClusterTree&, std::span<const Global>,              \
                                const std::vector<std::int32_t>&, std::vector<Skeleton<T>>&);                        \
  template SmallMatrix pack_small<T>(const InDouble<T>*, std::size_t, std::size_t, double, double, StoragePrecision, \
                                     NestedBasis<T>::Numbers&, double&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op::detail
