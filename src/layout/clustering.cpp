#include <tacit/layout/clustering.hpp>

#include <tacit/exec/parallel.hpp>
#include <tacit/layout/partitioners.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace tacit::layout {
namespace {

constexpr int dim = 16;  // dimension of the points
constexpr Local leaf = 32;
using Point = std::array<float, dim>;

std::vector<Local> numbers(Local n) {
  std::vector<Local> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Local(0));
  return all;
}

std::uint64_t mixed(std::uint64_t z) {
  z = (z + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
  return z ^ (z >> 32);
}

struct Stored {
  std::vector<Global> start;
  std::vector<Local> column;
  Pattern view(Local columns) const { return {start, column, columns}; }
};

Stored transposed(const Pattern& a) {
  Stored t;
  t.start.assign(std::size_t(a.columns) + 1, 0);
  for (const Local c : a.column) ++t.start[std::size_t(c) + 1];
  std::partial_sum(t.start.begin(), t.start.end(), t.start.begin());
  t.column.resize(a.column.size());
  std::vector<Global> next(t.start.begin(), t.start.end() - 1);
  for (Local r = 0; r < a.rows(); ++r)
    for (Global i = a.start[std::size_t(r)]; i < a.start[std::size_t(r) + 1]; ++i)
      t.column[std::size_t(next[std::size_t(a.column[std::size_t(i)])]++)] = r;
  return t;
}

// --- spectral -------------------------------------------------------------------------------------------------------

// Every row is the mean of its columns; a row without columns is the origin.
void means(const Pattern& a, const std::vector<Point>& of, std::vector<Point>& to) {
  const Local n = a.rows();
  to.resize(std::size_t(n));
  exec::parallel_for(
      std::size_t(n), true,
      [&](std::size_t r) {
        Point sum{};
        const Global first = a.start[r], last = a.start[r + 1];
        for (Global i = first; i < last; ++i) {
          const Point& p = of[std::size_t(a.column[std::size_t(i)])];
#pragma omp simd
          for (int k = 0; k < dim; ++k) sum[k] += p[k];
        }
        const float inverse = last > first ? 1.0f / float(last - first) : 0.0f;
        for (float& s : sum) s *= inverse;
        to[r] = sum;
      },
      256);
}

// Every column is the mean of its rows. Sums are formed of whole numbers: the same in any order, on any number of
// threads.
void column_means(const Pattern& a, const std::vector<Point>& of, std::vector<Point>& to) {
  using Sum = std::array<std::int32_t, dim>;
  const auto m = std::size_t(a.columns);
  std::vector<std::uint32_t> degree(m, 0);
  for (const Local c : a.column) ++degree[std::size_t(c)];
  std::uint32_t longest = 1;
  for (const auto d : degree) longest = std::max(longest, d);
  float largest = 0;
  for (const Point& p : of)
    for (const float v : p) largest = std::max(largest, std::abs(v));
  to.assign(m, Point{});
  if (largest == 0) return;
  const int bits = std::clamp(30 - int(std::bit_width(longest)), 1, 15);
  const float scale = float((1 << bits) - 1) / largest;
  std::vector<Sum> rounded(of.size());
  for (std::size_t i = 0; i < of.size(); ++i)
    for (int k = 0; k < dim; ++k) rounded[i][k] = std::int32_t(std::lrint(of[i][k] * scale));
  const int threads = std::clamp(int((std::size_t(1) << 29) / (m * sizeof(Sum) + 1)), 1, exec::threads());
  std::vector<std::vector<Sum>> part(static_cast<std::size_t>(threads));
  exec::parallel_for(std::size_t(threads), true, [&](std::size_t t) {
    auto& sum = part[t];
    sum.assign(m, Sum{});
    const Local n = a.rows(), first = Local(Global(n) * Global(t) / threads),
                last = Local(Global(n) * Global(t + 1) / threads);
    for (Local r = first; r < last; ++r) {
      const Sum p = rounded[std::size_t(r)];
      for (Global i = a.start[std::size_t(r)]; i < a.start[std::size_t(r) + 1]; ++i) {
        Sum& s = sum[std::size_t(a.column[std::size_t(i)])];
#pragma omp simd
        for (int k = 0; k < dim; ++k) s[k] += p[k];
      }
    }
  });
  exec::parallel_for(m, true, [&](std::size_t c) {
    if (degree[c] == 0) return;
    Sum sum = part[0][c];
    for (int t = 1; t < threads; ++t)
      for (int k = 0; k < dim; ++k) sum[k] += part[std::size_t(t)][c][k];
    for (int k = 0; k < dim; ++k) to[c][k] = float(sum[k]) / (scale * float(degree[c]));
  });
}

// Centres weighted points and makes their coordinates orthonormal; linearly dependent coordinates become 0.
void orthonormalise(std::vector<Point>& points, const std::vector<float>& weight) {
  constexpr std::size_t piece = 4096;
  const std::size_t n = points.size(), pieces = (n + piece - 1) / piece;
  constexpr int size = dim + dim * dim + 1;
  std::vector<std::array<double, size>> partial(pieces);
  exec::parallel_for(pieces, true, [&](std::size_t p) {
    std::array<double, size> sum{};
    std::array<float, dim * dim> gram{};
    for (std::size_t i = p * piece; i < std::min(n, (p + 1) * piece); ++i) {
      const float w = weight[i];
      sum[size - 1] += double(w);
      for (int a = 0; a < dim; ++a) {
        const float wa = w * points[i][a];
        sum[a] += double(wa);
#pragma omp simd
        for (int b = 0; b < dim; ++b) gram[a * dim + b] += wa * points[i][b];
      }
    }
    for (int a = 0; a < dim * dim; ++a) sum[dim + a] = double(gram[a]);
    partial[p] = sum;
  });
  std::array<double, size> all{};
  for (const auto& p : partial)
    for (int k = 0; k < size; ++k) all[k] += p[k];
  const double total = std::max(all[size - 1], 1e-300);
  std::array<float, dim> mean;
  for (int a = 0; a < dim; ++a) mean[a] = float(all[a] / total);
  // L L^T of the covariances; points := L^-1 points.
  double l[dim][dim] = {}, inverse[dim];
  for (int a = 0; a < dim; ++a) {
    const auto covariance = [&](int b) { return all[dim + a * dim + b] / total - all[a] * all[b] / (total * total); };
    const double own = covariance(a);
    double rest = own;
    for (int b = 0; b < a; ++b) {
      double v = covariance(b);
      for (int c = 0; c < b; ++c) v -= l[a][c] * l[b][c];
      l[a][b] = v * inverse[b];
      rest -= l[a][b] * l[a][b];
    }
    const bool independent = own > 0 && rest > 1e-5 * own;
    l[a][a] = independent ? std::sqrt(rest) : 0;
    inverse[a] = independent ? 1 / l[a][a] : 0;
  }
  float lower[dim][dim], unit[dim];
  for (int a = 0; a < dim; ++a) {
    unit[a] = float(inverse[a]);
    for (int b = 0; b < dim; ++b) lower[a][b] = float(l[a][b]);
  }
  exec::parallel_for(n, true, [&](std::size_t i) {
    Point p;
    for (int a = 0; a < dim; ++a) {
      float v = points[i][a] - mean[a];
      for (int b = 0; b < a; ++b) v -= lower[a][b] * p[b];
      p[a] = v * unit[a];
    }
    points[i] = p;
  });
}

// The two directions of the largest extent of some of these points, as functionals of unit variance, by power iteration
// on their covariances; the second is 0 where there is but one.
std::array<Point, 2> long_directions(const std::vector<Point>& points, std::span<const Local> which) {
  const std::size_t step = std::max<std::size_t>(1, which.size() / 1024);
  Point mean{};
  float count = 0;
  for (std::size_t i = 0; i < which.size(); i += step, ++count)
    for (int k = 0; k < dim; ++k) mean[k] += points[std::size_t(which[i])][k];
  for (float& v : mean) v /= count;
  float gram[dim][dim] = {};
  for (std::size_t i = 0; i < which.size(); i += step) {
    Point p;
    for (int k = 0; k < dim; ++k) p[k] = points[std::size_t(which[i])][k] - mean[k];
    for (int a = 0; a < dim; ++a)
#pragma omp simd
      for (int b = 0; b < dim; ++b) gram[a][b] += p[a] * p[b];
  }
  std::array<Point, 2> found{};
  for (Point& v : found) {
    int at = 0;
    for (int k = 1; k < dim; ++k)
      if (gram[k][k] > gram[at][at]) at = k;
    if (!(gram[at][at] > 0)) break;
    for (int k = 0; k < dim; ++k) v[k] = gram[at][k];
    float value = 0;
    for (int round = 0; round < 16; ++round) {
      float size = 0;
      for (const float e : v) size += e * e;
      size = std::sqrt(size);
      Point next{};
      for (int a = 0; a < dim; ++a)
        for (int b = 0; b < dim; ++b) next[a] += gram[a][b] * (v[b] / size);
      value = 0;
      for (int k = 0; k < dim; ++k) value += next[k] * (v[k] / size);
      for (int k = 0; k < dim; ++k) v[k] = round < 15 ? next[k] : v[k] / size;
    }
    if (!(value > 0)) {
      v = Point{};
      break;
    }
    for (int a = 0; a < dim; ++a)
      for (int b = 0; b < dim; ++b) gram[a][b] -= value * v[a] * v[b];
    for (float& e : v) e /= std::sqrt(value / count);
  }
  return found;
}

Point middle_of(const std::vector<Point>& points, std::span<const Local> which) {
  Point sum{};
  for (const Local i : which)
    for (int k = 0; k < dim; ++k) sum[k] += points[std::size_t(i)][k];
  for (float& v : sum) v /= float(which.size());
  return sum;
}

float distance2(const Point& p, const Point& q) {
  float sum = 0;
  for (int k = 0; k < dim; ++k) sum += (p[k] - q[k]) * (p[k] - q[k]);
  return sum;
}

// Recursive bisection of the points into parts of whole blocks, then of whole leaves. Of several directions in the
// plane of the two longest extents, it chooses the one whose parts share the fewest columns (of a sample of the
// pattern).
class Bisection {
 public:
  Bisection(const std::vector<Point>& points, const Pattern& some, Local block)
      : points_(points), some_(some), block_(std::size_t(block)), order_(numbers(Local(points.size()))) {}

  std::vector<Local> run() {
    std::vector<Part> parts{{0, points_.size()}};
    while (!parts.empty()) {
      std::vector<Cut> cuts(parts.size());
      exec::parallel_claims(parts.size(), 1, true, [&](exec::Claims& claims) {
        Scratch scratch;
        scratch.seen.assign(static_cast<std::size_t>(some_.columns), 0);
        claims.each([&](std::size_t p) { cuts[p] = cut(parts[p], scratch); });
      });
      std::vector<Part> next;
      const Point* before = nullptr;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        Cut& c = cuts[p];
        std::size_t at = c.at;
        const auto [begin, end] = parts[p];
        if (at == begin) continue;  // a leaf
        // The half that is nearer to the preceding part comes first, where sizes allow.
        const std::size_t unit = unit_of(end - begin);
        if (before && (end - at) % unit == 0 && distance2(*before, c.second) < distance2(*before, c.first)) {
          std::rotate(order_.begin() + std::ptrdiff_t(begin), order_.begin() + std::ptrdiff_t(at),
                      order_.begin() + std::ptrdiff_t(end));
          at = begin + (end - at);
          std::swap(c.first, c.second);
        }
        before = &c.second;
        for (const Part& half : {Part{begin, at}, Part{at, end}})
          if (half.end - half.begin > std::size_t(leaf)) next.push_back(half);
      }
      parts = std::move(next);
    }
    return std::move(order_);
  }

 private:
  struct Part {
    std::size_t begin, end;
  };
  struct Cut {
    std::size_t at = 0;
    Point first{}, second{};  // the centres
  };
  struct Scratch {
    std::vector<std::pair<float, Local>> key, best;
    std::vector<std::uint32_t> seen;
    std::uint32_t epoch = 0;
  };
  std::size_t unit_of(std::size_t n) const { return n > block_ ? block_ : std::size_t(leaf); }

  // The number of distinct columns that every step-th point reads.
  Global distinct(Scratch& s, std::size_t first, std::size_t last, std::size_t step) const {
    Global n = 0;
    if (++s.epoch == 0) std::fill(s.seen.begin(), s.seen.end(), 0u), s.epoch = 1;
    for (std::size_t i = first; i < last; i += step) {
      const auto r = std::size_t(s.key[i].second);
      for (Global p = some_.start[r]; p < some_.start[r + 1]; ++p)
        n += std::exchange(s.seen[std::size_t(some_.column[std::size_t(p)])], s.epoch) != s.epoch;
    }
    return n;
  }

  Cut cut(const Part& part, Scratch& s) {
    const auto [begin, end] = part;
    const std::size_t n = end - begin, unit = unit_of(n);
    const std::size_t left = std::max<std::size_t>(1, ((n + unit - 1) / unit + 1) / 2) * unit;
    if (n <= std::size_t(leaf) || left >= n) return {begin};
    const std::span<Local> own(order_.data() + begin, n);
    const auto [along, across] = long_directions(points_, own);
    const int turns = n > block_ ? 8 : 4;
    const std::size_t step = std::max<std::size_t>(1, n / 4096);
    Global least = -1;
    for (int turn = 0; turn < turns; ++turn) {
      const float angle = float(turn) * (std::numbers::pi_v<float> / float(turns));
      const float c = std::cos(angle), d = std::sin(angle);
      Point direction;
      for (int k = 0; k < dim; ++k) direction[k] = c * along[k] + d * across[k];
      s.key.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        const Point& q = points_[std::size_t(own[i])];
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int k = 0; k < dim; ++k) sum += direction[k] * q[k];
        s.key[i] = {sum, own[i]};
      }
      std::nth_element(s.key.begin(), s.key.begin() + std::ptrdiff_t(left), s.key.end());
      const Global staged = distinct(s, 0, left, step) + distinct(s, left, n, step);
      if (least < 0 || staged < least) least = staged, std::swap(s.key, s.best);
    }
    for (std::size_t i = 0; i < n; ++i) own[i] = s.best[i].second;
    return {begin + left, middle_of(points_, own.first(left)), middle_of(points_, own.subspan(left))};
  }

  const std::vector<Point>& points_;
  const Pattern& some_;
  std::size_t block_;
  std::vector<Local> order_;
};

std::pair<std::vector<Local>, std::vector<Local>> spectral(const Pattern& a, Local block) {
  // Samples of the rows, dense enough to contain every column several times, and of the columns.
  const double wanted = std::max(double(1 << 21), 32.0 * a.columns);
  const auto step = std::max<std::uint64_t>(1, std::uint64_t(double(a.column.size()) / wanted));
  const auto taken = [step](std::uint64_t i) { return step == 1 || mixed(i) % step == 0; };
  Stored sample;
  sample.start = {0};
  for (Local r = 0; r < a.rows(); ++r) {
    if (!taken(std::uint64_t(r))) continue;
    sample.column.insert(sample.column.end(), a.column.begin() + a.start[std::size_t(r)],
                         a.column.begin() + a.start[std::size_t(r) + 1]);
    sample.start.push_back(Global(sample.column.size()));
  }
  const Pattern rows = sample.view(a.columns);
  const Stored back = transposed(rows);
  const Pattern columns = back.view(rows.rows());
  std::vector<float> weight(std::size_t(a.columns));
  for (std::size_t c = 0; c < weight.size(); ++c) weight[c] = float(back.start[c + 1] - back.start[c]);
  std::vector<Point> of_columns(weight.size()), of_rows;
  for (std::size_t c = 0; c < weight.size(); ++c)
    for (int k = 0; k < dim; ++k) of_columns[c][k] = float(double(mixed(c * dim + std::size_t(k)) >> 11) * 0x1p-52 - 1);
  constexpr int rounds = 12;
  for (int round = 0; round < rounds; ++round) {
    means(rows, of_columns, of_rows);
    means(columns, of_rows, of_columns);
    orthonormalise(of_columns, weight);
  }
  for (int round = 0; round < 2; ++round) {
    means(a, of_columns, of_rows);
    column_means(a, of_rows, of_columns);
  }
  // For each row, its columns in the sample.
  std::vector<Local> number(std::size_t(a.columns), -1);
  Local numbered = 0;
  for (std::size_t c = 0; c < number.size(); ++c)
    if (taken(c)) number[c] = numbered++;
  Stored few;
  few.start = {0};
  for (Local r = 0; r < a.rows(); ++r) {
    for (Global p = a.start[std::size_t(r)]; p < a.start[std::size_t(r) + 1]; ++p)
      if (const Local c = number[std::size_t(a.column[std::size_t(p)])]; c >= 0) few.column.push_back(c);
    few.start.push_back(Global(few.column.size()));
  }
  return {Bisection(of_rows, few.view(numbered), block).run(), Bisection(of_columns, columns, block).run()};
}

// --- greedy ---------------------------------------------------------------------------------------------------------

// Rows are graded, from 0 to 255, by the share of their columns in the block; among equals the latest comes first.
std::vector<Local> greedy(const Pattern& a, const Pattern& columns, Local block) {
  constexpr int grades = 256;
  const Local n = a.rows();
  std::vector<Local> order, shared(std::size_t(n), 0), reached;
  std::vector<std::int16_t> grade(std::size_t(n), -1);  // -2: taken
  std::vector<Local> staged_by(std::size_t(a.columns), -1);
  std::array<std::vector<Local>, grades + 1> queue;
  order.reserve(std::size_t(n));
  Local lowest = 0, next = -1;
  int top = -1;
  const auto best = [&]() -> Local {
    for (; top >= 0; --top)
      while (!queue[std::size_t(top)].empty()) {
        const Local r = queue[std::size_t(top)].back();
        queue[std::size_t(top)].pop_back();
        if (grade[std::size_t(r)] == top) return r;
      }
    return -1;
  };
  for (Local number = 0; Local(order.size()) < n; ++number) {
    for (const Local r : reached) {
      shared[std::size_t(r)] = 0;
      if (grade[std::size_t(r)] != -2) grade[std::size_t(r)] = -1;
    }
    reached.clear();
    for (auto& q : queue) q.clear();
    top = -1;
    for (Local i = 0; i < block && Local(order.size()) < n; ++i) {
      if (next < 0) {
        while (grade[std::size_t(lowest)] == -2) ++lowest;
        next = lowest;
      }
      grade[std::size_t(next)] = -2;
      order.push_back(next);
      for (Global p = a.start[std::size_t(next)]; p < a.start[std::size_t(next) + 1]; ++p) {
        const auto c = std::size_t(a.column[std::size_t(p)]);
        if (std::exchange(staged_by[c], number) == number) continue;
        for (Global q = columns.start[c]; q < columns.start[c + 1]; ++q) {
          const auto r = std::size_t(columns.column[std::size_t(q)]);
          if (grade[r] == -2) continue;
          if (shared[r]++ == 0) reached.push_back(Local(r));
          const auto now = std::int16_t(Global(shared[r]) * grades / (a.start[r + 1] - a.start[r]));
          if (now == grade[r]) continue;
          grade[r] = now;
          queue[std::size_t(now)].push_back(Local(r));
          top = std::max(top, int(now));
        }
      }
      next = best();
    }
  }
  return order;
}

// --- METIS ----------------------------------------------------------------------------------------------------------

std::pair<std::vector<Local>, std::vector<Local>> by_metis(const Pattern& a, Local block) {
  constexpr Global most = 16;  // entries of a row
  const auto self = comm::Communicator::self();
  const Global n = a.rows(), m = a.columns;
  std::vector<Global> start{0}, column;
  for (Local r = 0; r < a.rows(); ++r) {
    const Global first = a.start[std::size_t(r)], length = a.start[std::size_t(r) + 1] - first;
    const Global taken = std::min(most, length);
    // Evenly over the row, from an offset that depends on the row.
    const auto shift = Global(mixed(std::uint64_t(r)) % std::uint64_t(std::max<Global>(1, length)));
    for (Global i = 0; i < taken; ++i)
      column.push_back(n + a.column[std::size_t(first + (shift + i * length / taken) % length)]);
    start.push_back(Global(column.size()));
  }
  for (Local c = 0; c < a.columns; ++c) start.push_back(Global(column.size()));
  const int parts = int((n + block - 1) / block);
  const auto part =
      graph_parts(self, Partition::blocks(n + m, 1), {start, column}, std::max(1, parts), Partitioner::metis);
  auto rows = numbers(a.rows()), columns = numbers(a.columns);
  std::stable_sort(rows.begin(), rows.end(),
                   [&](Local i, Local j) { return part[std::size_t(i)] < part[std::size_t(j)]; });
  std::stable_sort(columns.begin(), columns.end(),
                   [&](Local i, Local j) { return part[std::size_t(n + i)] < part[std::size_t(n + j)]; });
  return {std::move(rows), std::move(columns)};
}

}  // namespace

double row_reuse(const Pattern& a, std::span<const Local> order, Local block) {
  require(block >= 1, "reuse in blocks of ", block, " rows");
  const Local n = a.rows(), blocks = Local((Global(n) + block - 1) / block);
  std::atomic<Global> distinct = 0;
  exec::parallel_claims(std::size_t(blocks), 1, true, [&](exec::Claims& claims) {
    std::vector<Local> stamp(static_cast<std::size_t>(a.columns), -1);
    Global own = 0;
    claims.each([&](std::size_t number) {
      const auto b = Local(number);
      for (Local i = b * block; i < std::min<Global>(n, Global(b + 1) * block); ++i) {
        const auto r = std::size_t(order.empty() ? i : order[std::size_t(i)]);
        for (Global p = a.start[r]; p < a.start[r + 1]; ++p)
          own += std::exchange(stamp[std::size_t(a.column[std::size_t(p)])], b) != b;
      }
    });
    distinct += own;
  });
  return distinct > 0 ? double(a.column.size()) / double(distinct) : 1;
}

double column_reuse(const Pattern& a, std::span<const Local> order, Local block) {
  require(block >= 1, "reuse in blocks of ", block, " columns");
  std::vector<Local> number(static_cast<std::size_t>(a.columns));
  for (std::size_t i = 0; i < number.size(); ++i) number[order.empty() ? i : std::size_t(order[i])] = Local(i) / block;
  const Local n = a.rows(), blocks = Local((Global(a.columns) + block - 1) / block);
  std::atomic<Global> distinct = 0;
  exec::parallel_claims(std::size_t(n), 256, true, [&](exec::Claims& claims) {
    std::vector<Local> stamp(static_cast<std::size_t>(blocks), -1);
    Global own = 0;
    claims.each([&](std::size_t row) {
      const auto r = Local(row);
      for (Global p = a.start[row]; p < a.start[row + 1]; ++p)
        own += std::exchange(stamp[std::size_t(number[std::size_t(a.column[std::size_t(p)])])], r) != r;
    });
    distinct += own;
  });
  return distinct > 0 ? double(a.column.size()) / double(distinct) : 1;
}

Clusters cluster(const Pattern& a, const ClusterOptions& options) {
  require(options.block >= 1, "clusters of ", options.block, " rows");
  require(!a.start.empty() && a.start.back() == Global(a.column.size()), "a pattern of ", a.column.size(), " entries, ",
          a.start.empty() ? Global(0) : a.start.back(), " by its row starts");
  for (const Local c : a.column)
    require(c >= 0 && c < a.columns, "an entry in column ", c, "; columns run from 0 to ", a.columns - 1);
  Clusters found;
  found.how = options.how;
  if (options.how == Clustering::automatic) {
    // The mean number of entries in the column of an entry, which is the cost of a column in the greedy algorithm.
    std::vector<Global> degree(std::size_t(a.columns), 0);
    double squares = 0;
    for (const Local c : a.column) ++degree[std::size_t(c)];
    for (const Global d : degree) squares += double(d) * double(d);
    found.how = squares <= 64 * double(a.column.size()) ? Clustering::greedy : Clustering::spectral;
  }
  if (a.column.empty()) {
    found.rows = numbers(a.rows()), found.columns = numbers(a.columns);
  } else if (found.how == Clustering::spectral) {
    std::tie(found.rows, found.columns) = spectral(a, options.block);
  } else if (found.how == Clustering::metis) {
    std::tie(found.rows, found.columns) = by_metis(a, options.block);
  } else {
    const Stored back = transposed(a);
    const Pattern columns = back.view(a.rows());
    found.rows = greedy(a, columns, options.block);
    found.columns = greedy(columns, a, options.block);
  }
  if (options.how == Clustering::automatic &&
      row_reuse(a, found.rows, options.block) * column_reuse(a, found.columns, options.block) <=
          1.05 * row_reuse(a, {}, options.block) * column_reuse(a, {}, options.block))
    found = {numbers(a.rows()), numbers(a.columns), Clustering::automatic};
  return found;
}

const char* name_of(Clustering how) {
  switch (how) {
    case Clustering::spectral:
      return "spectral";
    case Clustering::greedy:
      return "greedy";
    case Clustering::metis:
      return "metis";
    default:
      return "natural";
  }
}

std::optional<Clustering> clustering_named(const std::string& name) {
  if (name == "clustered") return Clustering::automatic;
  for (const auto how : {Clustering::spectral, Clustering::greedy, Clustering::metis})
    if (name == name_of(how)) return how;
  return std::nullopt;
}

}  // namespace tacit::layout
