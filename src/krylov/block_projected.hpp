// BlockProjected: the small least-squares problems of block GMRES, one for each right-hand side, with one matrix.
#pragma once

#include "small_matrix.hpp"

#include <tacit/base/lapack.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// I - v v^H, |v|^2 = 2, on elements from `at` on. Hermitian and unitary.
template <Scalar W>
struct Reflector {
  int at = 0;
  std::vector<W> v;

  /// The one that makes the elements of x behind `at` zero; they have this norm together with that at `at`.
  Reflector(const std::vector<W>& x, int at, double norm) : at(at), v(x.begin() + at, x.end()) {
    if (norm == 0) {
      v.clear();
      return;
    }
    const double first = std::abs(v.front());
    v.front() += (first > 0 ? v.front() / W(first) : W(1)) * W(norm);
    const double scale = 1 / std::sqrt(norm * (norm + first));
    for (W& one : v) one *= W(scale);
  }
  void operator()(std::vector<W>& x) const {
    W sum(0);
    for (std::size_t i = 0; i < v.size(); ++i) sum += conj(v[i]) * x[std::size_t(at) + i];
    for (std::size_t i = 0; i < v.size(); ++i) x[std::size_t(at) + i] -= v[i] * sum;
  }
};

/// min_y || lambda_c - F y ||, c = 1 .. k, for  A V = [V U] F  and residuals [V U] lambda_c. V is the basis, whose
/// columns are unknowns; the front U is orthonormal, too, and no product has been made of it yet. A step turns the
/// front, U := U W, takes its first columns into V, and adds to U what their products have outside of [V U]:
///
///   Omega F = [R; 0],  Omega [I; 0] = [G; rho],  ||rho lambda_c|| is the norm of the residual of column c
///
/// [I; 0] is the first front, to which lambda refers. Omega is a product of reflections, and of the turns W. Columns
/// that make R singular are no unknowns. All in the type of wide sums; the same on all ranks, from the same bits.
/// Local.
template <Scalar W>
class BlockProjected {
 public:
  using Column = std::vector<W>;

  /// No basis yet: each lambda has the coordinates of a residual in the front. `epsilon`: of the vectors.
  BlockProjected(std::vector<Column> lambda, int front, double epsilon)
      : lambda_(std::move(lambda)), front_(front), epsilon_(epsilon) {
    for (Column& one : lambda_) one.resize(std::size_t(front));
    for (int i = 0; i < front; ++i) {
      right_.emplace_back(static_cast<std::size_t>(front));
      right_.back()[std::size_t(i)] = W(1);
    }
    for (const Column& one : lambda_) start_.push_back(length(one, 0));
  }

  int basis() const { return basis_; }
  int front() const { return front_; }
  /// Whether some column of F depends on others; the least |R_jj| of such.
  bool is_singular() const { return unknowns() < basis_; }
  double pivot() const { return pivot_; }
  double start(int c) const { return start_[std::size_t(c)]; }
  /// || rho lambda_c ||
  double norm(int c) const { return length(residual(c, unknowns()), 0); }
  /// The residual of column c in [V U].
  Column coordinates(int c) const {
    Column x(static_cast<std::size_t>(basis_ + front_));
    const Column rest = residual(c, unknowns());
    std::copy(rest.begin(), rest.end(), x.begin() + unknowns());
    for (auto h = reflectors_.rbegin(); h != reflectors_.rend(); ++h) (*h)(x);
    for (const Turn& t : turns_) multiply(adjoint(t.W_of), x, t.at);
    return x;
  }
  /// min ||rho z|| over ||z|| = 1: what the best combination of the first front has been reduced to.
  double least() const {
    const int rows = basis_ + front_ - unknowns(), columns = int(right_.size());
    if (rows < columns) return 0;
    std::vector<W> a, u(std::size_t(rows) * std::size_t(columns)), vh(std::size_t(columns) * std::size_t(columns));
    for (const Column& g : right_) a.insert(a.end(), g.begin() + unknowns(), g.end());
    std::vector<double> sizes(static_cast<std::size_t>(columns), 0.0);
    return lapack::svd(a.data(), rows, columns, u.data(), sizes.data(), vh.data()) ? sizes.back() : 0;
  }

  /// How many columns of the front the next step takes, at least one: as many singular values of the residuals, each
  /// times its weight, exceed 1. Where these are fewer than the front has, `turn` is the W by which they are its first
  /// ones; else it is empty. To be followed by append(). Columns of weight 0 do not count.
  int select(const std::vector<double>& weights, SmallMatrix<W>& turn) {
    turn = {};
    std::vector<int> counted;
    for (int c = 0; c < int(lambda_.size()); ++c)
      if (weights[std::size_t(c)] > 0) counted.push_back(c);
    const int rows = basis_ + front_ - unknowns(), columns = int(counted.size()), most = std::min(rows, columns);
    std::vector<W> a, u(std::size_t(rows) * most), vh(std::size_t(most) * columns);
    for (const int c : counted)
      for (const W& one : residual(c, unknowns())) a.push_back(one * W(weights[std::size_t(c)]));
    std::vector<double> sizes(static_cast<std::size_t>(most));
    if (!lapack::svd(a.data(), rows, columns, u.data(), sizes.data(), vh.data())) return front_;
    int taken = 1;
    while (taken < most && sizes[std::size_t(taken)] > 1) ++taken;
    if (taken >= front_) return front_;
    turn = turn_to(u, rows, taken);
    turns_.push_back({basis_, turn});
    return taken;
  }

  /// Takes products of the first columns.size() vectors of the front, by their coordinates in [V U] and in `fresh` new
  /// vectors, which join the front. False where a coordinate is not finite: nothing is taken.
  bool append(std::vector<Column> columns, int fresh) {
    for (const Column& x : columns)
      if (!std::all_of(x.begin(), x.end(), [](const W& v) { return is_finite(v); })) return false;
    const int rows = basis_ + front_ + fresh;
    for (Column& g : right_) g.resize(std::size_t(rows));
    for (std::size_t c = 0; c < columns.size(); ++c) {
      Column& x = columns[c];
      x.resize(std::size_t(rows));
      transform(x);
      const double pivot = length(x, unknowns());
      largest_ = std::max(largest_, pivot);
      if (!(pivot > 10 * epsilon_ * largest_)) {
        pivot_ = std::min(pivot_, pivot);
        continue;
      }
      reflectors_.emplace_back(x, unknowns(), pivot);
      reflectors_.back()(x);
      for (Column& g : right_) reflectors_.back()(g);
      x.resize(std::size_t(unknowns() + 1));
      R_.push_back(std::move(x));
      of_basis_.push_back(basis_ + int(c));
    }
    basis_ += int(columns.size());
    front_ += fresh - int(columns.size());
    steps_.push_back(unknowns());
    return true;
  }

  /// The minimiser y of column c, of basis() numbers. Where its rounding errors, epsilon ||R|| ||y||, exceed the
  /// residual and 1e-3 of the first one, that of the leading steps which have the least sum of the two.
  Column minimiser(int c) const {
    Column best = solve(c, unknowns());
    const double rounding = epsilon_ * largest_;
    double least = norm(c) + rounding * length(best, 0);
    if (least <= 2 * std::max(norm(c), 1e-3 * start(c))) return best;
    for (const int unknowns : steps_) {
      Column y = solve(c, unknowns);
      const double sum = length(residual(c, unknowns), 0) + rounding * length(y, 0);
      if (sum < least) least = sum, best = std::move(y);
    }
    return best;
  }

 private:
  struct Turn {
    int at;
    SmallMatrix<W> W_of;
  };

  int unknowns() const { return int(R_.size()); }
  /// Elements from `from` on of Omega [lambda_c; 0].
  Column residual(int c, int from) const { return combined(c, from, basis_ + front_); }
  Column combined(int c, int from, int to) const {
    Column x(static_cast<std::size_t>(to - from));
    for (std::size_t l = 0; l < right_.size(); ++l)
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += right_[l][std::size_t(from) + i] * lambda_[std::size_t(c)][l];
    return x;
  }
  static double length(const Column& x, int from) {
    double most = 0, sum = 0;
    for (std::size_t i = std::size_t(from); i < x.size(); ++i) most = std::max(most, double(std::abs(x[i])));
    if (!(most > 0) || !std::isfinite(most)) return most;
    for (std::size_t i = std::size_t(from); i < x.size(); ++i) sum += abs2(x[i] / W(most));
    return most * std::sqrt(sum);
  }
  /// Elements of x from `at` on := W of them.
  static void multiply(const SmallMatrix<W>& w, Column& x, int at) {
    Column y(static_cast<std::size_t>(w.rows));
    for (int i = 0; i < w.rows; ++i)
      for (int j = 0; j < w.columns; ++j) y[std::size_t(i)] += w(i, j) * x[std::size_t(at + j)];
    std::copy(y.begin(), y.end(), x.begin() + at);
  }
  /// x := Omega x. Coordinates in the front that was turned last are first turned back to those before.
  void transform(Column& x) const {
    for (auto t = turns_.rbegin(); t != turns_.rend(); ++t) multiply(t->W_of, x, t->at);
    for (const auto& h : reflectors_) h(x);
  }
  /// The W whose first `taken` columns span the front's share of these residuals, Omega^H [0; u].
  SmallMatrix<W> turn_to(const std::vector<W>& u, int rows, int taken) const {
    std::vector<Column> share(std::size_t(taken), Column(static_cast<std::size_t>(front_)));
    for (int i = 0; i < front_; ++i) {
      Column e(std::size_t(basis_ + front_));
      e[std::size_t(basis_ + i)] = W(1);
      transform(e);
      for (int c = 0; c < taken; ++c)
        for (int l = 0; l < rows; ++l)
          share[std::size_t(c)][std::size_t(i)] += conj(e[std::size_t(unknowns() + l)]) * u[std::size_t(c * rows + l)];
    }
    std::vector<Reflector<W>> h;
    for (int c = 0; c < taken; ++c) {
      for (const auto& one : h) one(share[std::size_t(c)]);
      h.emplace_back(share[std::size_t(c)], c, length(share[std::size_t(c)], c));
    }
    SmallMatrix<W> w(front_, front_);
    for (int j = 0; j < front_; ++j) {
      Column e(static_cast<std::size_t>(front_));
      e[std::size_t(j)] = W(1);
      for (auto one = h.rbegin(); one != h.rend(); ++one) (*one)(e);
      for (int i = 0; i < front_; ++i) w(i, j) = e[std::size_t(i)];
    }
    return w;
  }
  /// The minimiser over the first unknowns, for all of the basis.
  Column solve(int c, int unknowns) const {
    Column t = combined(c, 0, unknowns), y(static_cast<std::size_t>(basis_));
    for (int i = unknowns - 1; i >= 0; --i) {
      const Column& r = R_[std::size_t(i)];
      t[std::size_t(i)] /= r[std::size_t(i)];
      for (int l = 0; l < i; ++l) t[std::size_t(l)] -= r[std::size_t(l)] * t[std::size_t(i)];
    }
    for (int i = 0; i < unknowns; ++i) y[std::size_t(of_basis_[std::size_t(i)])] = t[std::size_t(i)];
    return y;
  }

  std::vector<Column> lambda_, right_, R_;  // right_: Omega [I; 0]; R by columns
  std::vector<int> of_basis_, steps_;       // the basis vector of an unknown; how many there were after each step
  std::vector<Reflector<W>> reflectors_;
  std::vector<Turn> turns_;
  std::vector<double> start_;
  int basis_ = 0, front_;
  double epsilon_, largest_ = 0, pivot_ = std::numeric_limits<double>::infinity();
};

}  // namespace tacit::krylov
