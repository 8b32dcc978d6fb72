#include "../scalar.hpp"
#include "aggregates.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/op/multiply.hpp>
#include <tacit/op/spectrum.hpp>
#include <tacit/precond/amg.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace tacit::precond {

namespace {

using layout::Space;
using layout::Vector;

constexpr Global largest_direct = 2048;
constexpr int sweeps_without_direct = 20;

/// f(i) for all elements of a vector.
template <class F>
void each(std::size_t n, F&& f) {
  exec::parallel_for(n, n > 20000, f);
}

/// The tentative P, whose columns are the near-null vectors on each aggregate, orthonormal, and their coordinates in
/// it: near_null = T coarse. Vectors that depend on others on an aggregate get no column.
template <Scalar T>
struct Tentative {
  std::vector<std::vector<T>> columns;  // of each aggregate: vectors of its rows, one after the other
  Nodes nodes;                          // the next level's: an aggregate's columns
  std::vector<T> coarse;                // by rows of the next level
};

/// 2^-e for the largest magnitude 2^e of n numbers; 1 where all are 0. Squares of numbers times this stay in the range.
template <Scalar T>
real_t<T> inverse_size(const T* v, std::size_t n) {
  using R = real_t<T>;
  R most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, R(std::abs(v[i])));
  const int e = most > 0 ? std::ilogb(most) : 0;
  return std::ldexp(R(1),
                    std::clamp(-e, std::numeric_limits<R>::min_exponent, std::numeric_limits<R>::max_exponent - 1));
}

/// q: rows x k by columns. Orthonormal columns from the first independent ones, in place; their coefficients in `r`,
/// k x k by columns. Returns their number. Gram-Schmidt, twice.
template <Scalar T>
int orthonormal_columns(std::vector<T>& q, std::size_t rows, int k, std::vector<T>& r) {
  using R = real_t<T>;
  r.assign(std::size_t(k) * std::size_t(k), T(0));
  int kept = 0;
  for (int c = 0; c < k; ++c) {
    T* const v = q.data() + std::size_t(c) * rows;
    const R scale = inverse_size(v, rows);
    R before = 0;
    for (std::size_t i = 0; i < rows; ++i) before += std::norm(v[i] *= scale);
    for (int pass = 0; pass < 2; ++pass)
      for (int j = 0; j < kept; ++j) {
        const T* const u = q.data() + std::size_t(j) * rows;
        T h{};
        for (std::size_t i = 0; i < rows; ++i) h += conj(u[i]) * v[i];
        for (std::size_t i = 0; i < rows; ++i) v[i] -= h * u[i];
        r[std::size_t(c) * std::size_t(k) + std::size_t(j)] += h / scale;
      }
    R left = 0;
    for (std::size_t i = 0; i < rows; ++i) left += std::norm(v[i]);
    const R small = 1000 * std::numeric_limits<R>::epsilon();
    if (!(left > small * small * before)) continue;
    const R norm = std::sqrt(left);
    T* const to = q.data() + std::size_t(kept) * rows;
    for (std::size_t i = 0; i < rows; ++i) to[i] = v[i] / norm;
    r[std::size_t(c) * std::size_t(k) + std::size_t(kept++)] = T(norm / scale);
  }
  return kept;
}

/// Rows of T on this rank; columns are numbered from 0 on this rank.
template <Scalar T>
op::Rows<T> tentative(const Nodes& nodes, const std::vector<Local>& aggregate, Local count,
                      const std::vector<T>& near_null, int k, Nodes& coarse_nodes, std::vector<T>& coarse) {
  std::vector<std::vector<Local>> rows_of(std::size_t(count), std::vector<Local>{});
  const auto n = std::size_t(nodes.start.back());
  std::vector<Local> place(n, -1), of(n, -1);
  for (Local I = 0; I < nodes.count(); ++I)
    if (const Local a = aggregate[std::size_t(I)]; a >= 0)
      for (Local i = nodes.start[std::size_t(I)]; i < nodes.start[std::size_t(I) + 1]; ++i) {
        of[std::size_t(i)] = a;
        place[std::size_t(i)] = Local(rows_of[std::size_t(a)].size());
        rows_of[std::size_t(a)].push_back(i);
      }
  std::vector<std::vector<T>> q(std::size_t(count), std::vector<T>{});
  coarse_nodes = {};
  coarse.clear();
  std::vector<T> r;
  for (std::size_t a = 0; a < q.size(); ++a) {
    const auto& rows = rows_of[a];
    q[a].resize(rows.size() * std::size_t(k));
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (int c = 0; c < k; ++c)
        q[a][std::size_t(c) * rows.size() + i] = near_null[std::size_t(rows[i]) * std::size_t(k) + std::size_t(c)];
    const int kept = orthonormal_columns(q[a], rows.size(), k, r);
    q[a].resize(rows.size() * std::size_t(kept));
    coarse_nodes.start.push_back(coarse_nodes.start.back() + kept);
    for (int j = 0; j < kept; ++j)
      for (int c = 0; c < k; ++c) coarse.push_back(r[std::size_t(c) * std::size_t(k) + std::size_t(j)]);
  }
  op::Rows<T> t;
  for (std::size_t i = 0; i < n; ++i) {
    if (of[i] >= 0) {
      const auto a = std::size_t(of[i]);
      const Local first = coarse_nodes.start[a], kept = coarse_nodes.start[a + 1] - first;
      for (Local j = 0; j < kept; ++j) {
        t.column.push_back(first + j);
        t.value.push_back(q[a][std::size_t(j) * rows_of[a].size() + std::size_t(place[i])]);
      }
    }
    t.start.push_back(Global(t.column.size()));
  }
  return t;
}

/// Scales each of the `vectors` to a largest element of about 1. Error(usage) where one is zero: coarser levels would
/// not have it. Collective.
template <Scalar T>
void normalise(std::vector<T>& near_null, std::size_t vectors, const comm::Communicator& comm) {
  for (std::size_t c = 0; c < vectors; ++c) {
    double most = 0;
    for (std::size_t i = c; i < near_null.size(); i += vectors) most = std::max(most, double(std::abs(near_null[i])));
    most = comm.all_max(most);
    require(most > 0, "vector ", c, " of near_null (counted from 0) is zero");
    const int e = std::ilogb(most);
    for (std::size_t i = c; e != 0 && i < near_null.size(); i += vectors) near_null[i] = times_power(near_null[i], -e);
  }
}

/// max_i sum_j |a_ij| / |a_ii|: a bound of the eigenvalues of D^-1 A. Collective.
template <Scalar T>
double gershgorin(const op::Rows<T>& rows, const Space& space) {
  double most = 0;
  for (Local i = 0; i < rows.count(); ++i) {
    double sum = 0, own = 0;
    for (auto k = std::size_t(rows.start[std::size_t(i)]); k < std::size_t(rows.start[std::size_t(i) + 1]); ++k) {
      const double a = double(std::abs(rows.value[k]));
      sum += a;
      if (rows.column[k] == space.begin() + i) own = a;
    }
    if (own > 0) most = std::max(most, sum / own);
  }
  return space.comm().all_max(most);
}

/// The rows of (I - omega D^-H A_F^H) T, from S = I - omega D^-1 A_F: R^H for an A that is not Hermitian. Collective.
template <Scalar T>
op::Rows<T> smoothed_rows(const op::Rows<T>& S, const std::vector<T>& diagonal, op::Rows<T> t, const Space& space,
                          const Space& coarse) {
  const auto each_row = [&](op::Rows<T>& rows, auto&& factor) {
    for (std::size_t i = 0; i < diagonal.size(); ++i)
      for (auto k = std::size_t(rows.start[i]); diagonal[i] != T(0) && k < std::size_t(rows.start[i + 1]); ++k)
        rows.value[k] *= factor(diagonal[i]);
  };
  each_row(t, [](T d) { return conj(d); });
  auto q = op::multiply(op::adjoint(S, space, space), space, t, coarse);
  each_row(q, [](T d) { return inverse(conj(d)); });
  return q;
}

}  // namespace

/// The last level's inverse, dense, this rank's rows.
template <Scalar T>
class Amg<T>::Direct {
 public:
  Direct(const op::Rows<T>& rows, const Space& space) : n_(int(space.size())) {
    const auto n = std::size_t(n_);
    std::vector<T> a(n * n, T(0));  // by columns
    for (Local i = 0; i < rows.count(); ++i)
      for (auto k = std::size_t(rows.start[std::size_t(i)]); k < std::size_t(rows.start[std::size_t(i) + 1]); ++k)
        a[std::size_t(rows.column[k]) * n + std::size_t(space.begin() + i)] = rows.value[k];
    space.sum(a.data(), a.size());
    const auto inverse = inverse_of(a);
    begin_ = std::size_t(space.begin());
    own_.resize(std::size_t(space.local_size()) * n);
    for (std::size_t i = 0; i < std::size_t(space.local_size()); ++i)
      for (std::size_t j = 0; j < n; ++j) own_[i * n + j] = inverse[j * n + begin_ + i];
  }
  /// u := A^+ f. Collective: one reduction.
  void solve(const Vector<T>& f, Vector<T>& u) const {
    const auto n = std::size_t(n_), columns = std::size_t(f.columns());
    std::vector<T> all(n * columns, T(0));
    std::copy_n(f.data(), f.size(), all.begin() + std::ptrdiff_t(begin_ * columns));
    f.space().sum(all.data(), all.size());
    for (std::size_t i = 0; i < std::size_t(u.space().local_size()); ++i)
      for (std::size_t c = 0; c < columns; ++c) {
        T sum{};
        for (std::size_t j = 0; j < n; ++j) sum += own_[i * n + j] * all[j * columns + c];
        u.data()[i * columns + c] = sum;
      }
  }

 private:
  /// A^-1, or where A is singular to rounding its pseudo-inverse, by columns.
  std::vector<T> inverse_of(const std::vector<T>& a) const {
    using R = real_t<T>;
    const lapack::OneThread one;  // the same bits for any number of threads
    const auto n = std::size_t(n_);
    std::vector<T> lu = a, inverse(n * n, T(0));
    std::vector<int> pivots(n);
    const bool regular = lapack::lu(lu.data(), n_, n_, pivots.data());
    R largest = 0, smallest = std::numeric_limits<R>::infinity();
    for (std::size_t i = 0; i < n; ++i) {
      largest = std::max(largest, R(std::abs(lu[i * n + i])));
      smallest = std::min(smallest, R(std::abs(lu[i * n + i])));
    }
    const R noise = std::numeric_limits<R>::epsilon() * R(n);
    if (regular && smallest > 10 * noise * largest) {
      std::vector<std::size_t> row(n);
      std::iota(row.begin(), row.end(), std::size_t(0));
      for (std::size_t i = 0; i < n; ++i) std::swap(row[i], row[std::size_t(pivots[i])]);
      for (std::size_t i = 0; i < n; ++i) inverse[row[i] * n + i] = T(1);
      lapack::trsm('L', 'L', 'N', 'U', n_, n_, lu.data(), n_, inverse.data(), n_);
      lapack::trsm('L', 'U', 'N', 'N', n_, n_, lu.data(), n_, inverse.data(), n_);
      return inverse;
    }
    std::vector<T> copy = a, u(n * n), vh(n * n);
    std::vector<R> s(n);
    if (!lapack::svd(copy.data(), n_, n_, u.data(), s.data(), vh.data())) return inverse;
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i) u[k * n + i] = s[k] > 100 * noise * s[0] ? u[k * n + i] / s[k] : T(0);
    lapack::gemm('C', 'C', n_, n_, n_, T(1), vh.data(), n_, u.data(), n_, T(0), inverse.data(), n_);
    return inverse;
  }
  int n_;
  std::size_t begin_ = 0;
  std::vector<T> own_;  // by rows
};

template <Scalar T>
struct Amg<T>::Level {
  const op::Csr<T>* A = nullptr;
  std::unique_ptr<op::Csr<T>> own, P, R;  // own: A, below the finest level
  std::vector<T> scaling;                 // of diagonal smoothers, D^-1 for chebyshev
  double rho = 0;                         // bound of D^-1 A, for chebyshev
  op::LocalRows<T> block;                 // for gauss_seidel
  std::unique_ptr<Vector<T>> u, f, r, d;

  void make_vectors(int columns, bool chebyshev) {
    if (r && r->columns() == columns) return;
    const Space& space = A->range();
    r = std::make_unique<Vector<T>>(space, columns);
    u = std::make_unique<Vector<T>>(space, columns);
    f = std::make_unique<Vector<T>>(space, columns);
    if (chebyshev) d = std::make_unique<Vector<T>>(space, columns);
  }

  /// u := u + S (f - A u) with the smoother's S; `back`: with its adjoint. From u = 0 without a product.
  void smooth(AmgSmoother how, int sweeps, const Vector<T>& f, bool from_zero, bool back) {
    const std::size_t columns = std::size_t(f.columns());
    if (how == AmgSmoother::chebyshev) return chebyshev(sweeps, f, from_zero);
    for (int s = 0; s < sweeps; ++s) {
      const bool zero = from_zero && s == 0;
      if (!zero) A->apply(*u, *r);
      T *const x = u->data(), *const y = r->data();
      const T* const b = f.data();
      if (how == AmgSmoother::gauss_seidel) {
        each(f.size(), [&](std::size_t i) { y[i] = zero ? b[i] : b[i] - y[i]; });
        sweep_block(columns, back);
        each(f.size(), [&](std::size_t i) { x[i] = zero ? y[i] : x[i] + y[i]; });
        continue;
      }
      const T* const m = scaling.data();
      if (columns == 1 && zero) each(f.size(), [&](std::size_t i) { x[i] = m[i] * b[i]; });
      else if (columns == 1) each(f.size(), [&](std::size_t i) { x[i] += m[i] * (b[i] - y[i]); });
      else
        each(scaling.size(), [&](std::size_t i) {
          for (std::size_t k = i * columns; k < (i + 1) * columns; ++k)
            x[k] = zero ? m[i] * b[k] : x[k] + m[i] * (b[k] - y[k]);
        });
    }
  }

  /// r := (D + L)^-1 r on this rank's block; `back`: (D + U)^-1.
  void sweep_block(std::size_t columns, bool back) {
    T* const y = r->data();
    const Local n = block.count();
    for (Local s = 0; s < n; ++s) {
      const Local i = back ? n - 1 - s : s;
      T* const own = y + std::size_t(i) * columns;
      for (auto k = std::size_t(block.start[std::size_t(i)]); k < std::size_t(block.start[std::size_t(i) + 1]); ++k) {
        const Local j = block.column[k];
        if (back ? j <= i : j >= i) continue;
        for (std::size_t c = 0; c < columns; ++c) own[c] -= block.value[k] * y[std::size_t(j) * columns + c];
      }
      for (std::size_t c = 0; c < columns; ++c) own[c] *= scaling[std::size_t(i)];
    }
  }

  /// Chebyshev's polynomial of degree `steps` in D^-1 A on [rho / 4, 1.1 rho]. Saad (2003), algorithm 12.1.
  void chebyshev(int steps, const Vector<T>& f, bool from_zero) {
    using R = real_t<T>;
    const double high = 1.1 * rho, low = rho / 4, middle = (high + low) / 2, half = (high - low) / 2;
    const std::size_t columns = std::size_t(f.columns());
    double before = half / middle;
    for (int s = 0; s < steps; ++s) {
      const bool zero = from_zero && s == 0;
      if (!zero) A->apply(*u, *r);
      const double now = s == 0 ? before : 1 / (2 * middle / half - before);
      const R keep = s == 0 ? R(0) : R(now * before), step = s == 0 ? R(1 / middle) : R(2 * now / half);
      before = now;
      T *const x = u->data(), *const y = r->data(), *const z = d->data();
      each(scaling.size(), [&](std::size_t i) {
        for (std::size_t k = i * columns; k < (i + 1) * columns; ++k) {
          const T residual = zero ? f.data()[k] : f.data()[k] - y[k];
          z[k] = (keep == R(0) ? T(0) : keep * z[k]) + step * (scaling[i] * residual);
          x[k] = zero ? z[k] : x[k] + z[k];
        }
      });
    }
  }

  void make_smoother(AmgSmoother how, const op::Rows<T>& rows, const ByColumn<double>& roots, bool hermitian,
                     double bound) {
    using R = real_t<T>;
    const Space& space = A->range();
    rho = bound;
    scaling.assign(std::size_t(rows.count()), T(0));
    const bool by_sums = how != AmgSmoother::jacobi && how != AmgSmoother::chebyshev;
    each(scaling.size(), [&](std::size_t i) {
      T own{};
      for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
        if (rows.column[k] == space.begin() + Global(i)) own = rows.value[k];
      if (own == T(0)) return;
      // Of A's row over a_ii, or of that of |D|^-1/2 A |D|^-1/2: a diagonal scaling of A changes neither.
      const double root = roots(space.begin() + Global(i));
      double sum = 0, squares = 0, others = 0;  // others: of other ranks
      for (auto k = std::size_t(rows.start[i]); by_sums && k < std::size_t(rows.start[i + 1]); ++k) {
        const Global c = rows.column[k];
        const double other = hermitian ? roots(c) : root;
        if (other == 0) continue;
        const double a = double(std::abs(rows.value[k])) / root / other;
        sum += a;
        squares += a * a;
        if (c < space.begin() || c >= space.end()) others += a;
      }
      switch (how) {
        case AmgSmoother::spai0:
          // With M <= 1.8 / rho D^-1 it converges for definite A, also where rows have many entries.
          scaling[i] = R(hermitian ? std::min(1 / squares, 1.8 / bound) : 1 / squares) * inverse(own);
          break;
        case AmgSmoother::gauss_seidel:
          // M + M^H - A = D + 2 E - C, C the couplings of ranks, is to be definite: E = C's row sums / 2 where these
          // exceed D.
          scaling[i] = R(hermitian && others >= 1 ? 1 / (1 + others / 2) : 1) * inverse(own);
          break;
        case AmgSmoother::l1_jacobi:
          scaling[i] = R(1 / sum) * inverse(own);
          break;
        case AmgSmoother::jacobi:
          scaling[i] = R(4 / (3 * bound)) * inverse(own);
          break;
        default:
          scaling[i] = inverse(own);
      }
    });
    if (how == AmgSmoother::gauss_seidel) block = A->own_block();
  }
};

template <Scalar T>
Amg<T>::Amg(const op::Csr<T>& A, const AmgOptions<T>& options)
    : op::Operator<T, Host>(A.domain(), A.range()), options_(options) {
  const Span span("set up amg", "precond");
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    const auto& o = options_;
    require(A.range() == A.domain(), "amg needs a square matrix with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    require(o.cycle != Cycle::u, "amg has the cycles V, W and F; this one is U");
    require(o.sweeps >= 1, "sweeps is ", o.sweeps, "; at least 1 is needed");
    require(o.strength >= 0 && o.strength < 1, "strength is ", o.strength, "; a number from 0 to below 1 is needed");
    require(o.coarsest >= 1 && o.coarsest <= largest_direct, "coarsest is ", o.coarsest, "; 1 to ", largest_direct,
            " unknowns are solved directly");
    require(o.max_levels >= 1, "max_levels is ", o.max_levels, "; at least 1 is needed");
    require(o.max_complexity >= 1, "max_complexity is ", o.max_complexity, "; at least 1 is needed");
    require(o.block >= 1, "block is ", o.block, "; at least 1 unknown is in a node");
    const Local n = A.range().local_size();
    require(n % o.block == 0, "block is ", o.block, ", and ", n,
            " rows of a rank are no multiple of it; give each rank whole nodes");
    require(n == 0 || o.near_null.size() % std::size_t(n) == 0, "near_null has ", o.near_null.size(), " numbers for ",
            n, " rows of this rank");
    const auto finite = [](T v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); };
    const auto wrong = std::find_if_not(o.near_null.begin(), o.near_null.end(), finite);
    require(wrong == o.near_null.end(), "near_null has ", wrong == o.near_null.end() ? T(0) : *wrong, " at number ",
            wrong - o.near_null.begin(), " of this rank (counted from 0); finite numbers are needed");
    if (!A.fault().empty()) throw Error(ErrorKind::input, "amg: " + A.fault());
  });
  comm::collective(comm, [&] { build(A); });
}

template <Scalar T>
Amg<T>::~Amg() = default;

template <Scalar T>
void Amg<T>::build(const op::Csr<T>& A) {
  const auto& comm = A.range().comm();
  hermitian_ = op::is_hermitian(A);
  Nodes nodes;
  for (Local i = 0; i < A.range().local_size(); i += options_.block) nodes.start.push_back(i + options_.block);
  std::vector<T> near_null = options_.near_null;
  int vectors = options_.block;
  const Global own_rows = A.range().local_size();
  if (const Global numbers = comm.all_max(Global(near_null.size())); numbers > 0) {
    vectors = int(comm.all_max(own_rows ? Global(near_null.size()) / own_rows : Global(0)));
    comm::collective(comm, [&] {
      require(Global(near_null.size()) == own_rows * vectors, "near_null has ", near_null.size(), " numbers for ",
              own_rows, " rows of this rank; ", own_rows * vectors, " are needed, as another rank has ", vectors,
              " vectors");
    });
  } else {
    near_null.assign(std::size_t(own_rows) * std::size_t(vectors), T(0));
    for (std::size_t i = 0; i < std::size_t(own_rows); ++i)
      near_null[i * std::size_t(vectors) + i % std::size_t(vectors)] = T(1);
  }
  if (A.range().size() > 0) normalise(near_null, std::size_t(vectors), comm);
  double theta = options_.strength;
  Global entries = 0;
  auto level = std::make_unique<Level>();
  level->A = &A;
  for (;;) {
    comm.check_interrupt();
    const Space space = level->A->range();
    op::Rows<T> rows = level->A->rows();
    entries += level->A->entries();
    const auto roots = diagonal_roots(rows, space);
    double bound = gershgorin(rows, space);
    if (hermitian_ && space.size() > options_.coarsest) {
      // Lanczos comes from below, and is far closer than the bound where rows have entries of both signs.
      const auto d = level->A->diagonal();
      std::vector<T> inverses(d.size());
      std::transform(d.begin(), d.end(), inverses.begin(), [](T a) { return a != T(0) ? inverse(a) : T(1); });
      Vector<T> v(space);
      v.assign(inverses);
      const op::Diagonal<T> D(std::move(v));
      const double found = op::estimate_spectrum<T, Host>(*level->A, &D, 10).lambda_max;
      if (found > 0) bound = std::min(bound, 1.05 * found);
    }
    level->make_smoother(options_.smoother, rows, roots, hermitian_, bound);
    Level& fine = *level;
    levels_.push_back(std::move(level));
    if (space.size() <= options_.coarsest || int(levels_.size()) >= options_.max_levels) {
      if (space.size() <= largest_direct) direct_ = std::make_unique<Direct>(rows, space);
      break;
    }
    comm.check_interrupt();
    const auto strong = strong_couplings(rows, space, nodes, theta);
    Local count = 0;
    const auto aggregate = aggregates_of(strong, count);
    Nodes coarse_nodes;
    std::vector<T> coarse_null;
    auto t = tentative<T>(nodes, aggregate, count, near_null, vectors, coarse_nodes, coarse_null);
    const Local coarse_rows = coarse_nodes.start.back();
    const auto counts = comm.all_gather(Global(coarse_rows));
    const Space coarse = Space::distributed(comm, layout::Partition::of_counts(counts));
    if (coarse.size() == 0 || double(coarse.size()) > 0.8 * double(space.size())) {
      if (space.size() <= largest_direct) direct_ = std::make_unique<Direct>(rows, space);
      break;
    }
    comm.check_interrupt();
    for (Global& c : t.column) c += coarse.begin();
    const double omega = 4 / (3 * std::max(bound, 1.0));
    std::vector<T> diagonal;
    std::optional<ByColumn<T>> v;
    if (vectors == 1) v.emplace(rows, space, near_null);
    const auto S = damped_identity(rows, space, nodes, strong, roots, v ? &*v : nullptr, theta, omega, diagonal);
    auto P = op::multiply(S, space, t, coarse);
    auto R = op::adjoint(hermitian_ ? P : smoothed_rows(S, diagonal, t, space, coarse), space, coarse);
    comm.check_interrupt();
    auto product = op::multiply(rows, space, P, coarse);
    comm.check_interrupt();
    auto next = op::multiply(R, space, product, coarse);
    product = {};
    const Global next_entries = comm.all_sum(next.start.back());
    if (double(entries + next_entries) > options_.max_complexity * double(A.entries())) {
      note_ = message("coarsening ended at ", space.size(), " unknowns: the next level would bring the entries to ",
                      double(entries + next_entries) / double(std::max<Global>(A.entries(), 1)), " of those of A");
      if (space.size() <= largest_direct) direct_ = std::make_unique<Direct>(rows, space);
      break;
    }
    fine.P = std::make_unique<op::Csr<T>>(space, coarse, std::move(P));
    fine.R = std::make_unique<op::Csr<T>>(coarse, space, std::move(R));
    level = std::make_unique<Level>();
    level->own = std::make_unique<op::Csr<T>>(coarse, coarse, std::move(next));
    level->A = level->own.get();
    nodes = std::move(coarse_nodes);
    near_null = std::move(coarse_null);
    theta /= 2;
  }
  doubtful_ = !direct_;
  if (doubtful_ && note_.empty())
    note_ = message("aggregation ended at ", levels_.back()->A->range().size(), " unknowns, which sweeps solve");
}

template <Scalar T>
void Amg<T>::cycle(std::size_t k, Cycle kind, bool from_zero) const {
  Level& fine = *levels_[k];
  const Vector<T>& f = *fine.f;
  const auto how = options_.smoother;
  if (k + 1 == levels_.size()) {
    if (direct_) return direct_->solve(f, *fine.u);
    if (how == AmgSmoother::chebyshev) return fine.smooth(how, sweeps_without_direct, f, from_zero, false);
    // Forward and back in turn: the same as its adjoint.
    for (int s = 0; s < sweeps_without_direct; ++s) fine.smooth(how, 1, f, from_zero && s == 0, s % 2 == 1);
    return;
  }
  fine.smooth(how, options_.sweeps, f, from_zero, false);
  fine.A->apply(*fine.u, *fine.r);
  each(f.size(), [&](std::size_t i) { fine.r->data()[i] = f.data()[i] - fine.r->data()[i]; });
  fine.R->apply(*fine.r, *levels_[k + 1]->f);
  cycle(k + 1, kind, true);
  const bool again = kind != Cycle::v && k + 2 < levels_.size();
  if (again) cycle(k + 1, kind == Cycle::w ? Cycle::w : Cycle::v, false);
  fine.P->apply(*levels_[k + 1]->u, *fine.r);
  each(f.size(), [&](std::size_t i) { fine.u->data()[i] += fine.r->data()[i]; });
  fine.smooth(how, options_.sweeps, f, false, true);
}

template <Scalar T>
void Amg<T>::finish(const Vector<T>& x, Vector<T>& y, bool, int) const {
  const Span span("amg", "precond");
  exec::settle();
  const bool chebyshev = options_.smoother == AmgSmoother::chebyshev;
  for (const auto& level : levels_) level->make_vectors(x.columns(), chebyshev);
  layout::copy(x, *levels_[0]->f);
  exec::settle();
  cycle(0, options_.cycle, true);
  layout::copy(*levels_[0]->u, y);
}

template <Scalar T>
op::Cost Amg<T>::cost() const {
  op::Cost all;
  const auto add = [&](const op::Cost& c, double times) {
    all.flops += times * c.flops;
    all.bytes += times * c.bytes;
    all.messages += times * c.messages;
    all.message_bytes += times * c.message_bytes;
  };
  double visits = 1;
  for (std::size_t k = 0; k + 1 < levels_.size(); ++k) {
    add(levels_[k]->A->cost(), visits * 2 * options_.sweeps);
    add(levels_[k]->P->cost(), visits);
    add(levels_[k]->R->cost(), visits);
    if (options_.cycle == Cycle::w) visits *= 2;
    if (options_.cycle == Cycle::f) visits += 1;
  }
  return all;
}

template <Scalar T>
std::vector<AmgLevel> Amg<T>::levels() const {
  std::vector<AmgLevel> all;
  for (const auto& level : levels_)
    all.push_back({level->A->range().size(), level->A->entries(), level->P ? level->P->entries() : 0});
  return all;
}

template <Scalar T>
double Amg<T>::operator_complexity() const {
  double sum = 0;
  for (const auto& level : levels_) sum += double(level->A->entries());
  return sum / double(std::max<Global>(levels_[0]->A->entries(), 1));
}
template <Scalar T>
double Amg<T>::grid_complexity() const {
  double sum = 0;
  for (const auto& level : levels_) sum += double(level->A->range().size());
  return sum / double(std::max<Global>(levels_[0]->A->range().size(), 1));
}
template <Scalar T>
const op::Csr<T>& Amg<T>::prolongation(int level) const {
  require(level >= 0 && level + 1 < int(levels_.size()), "prolongation ", level, " of ", levels_.size(), " levels");
  return *levels_[std::size_t(level)]->P;
}
template <Scalar T>
const op::Csr<T>& Amg<T>::matrix(int level) const {
  require(level >= 0 && level < int(levels_.size()), "level ", level, " of ", levels_.size());
  return *levels_[std::size_t(level)]->A;
}

template class Amg<float>;
template class Amg<double>;
template class Amg<std::complex<float>>;
template class Amg<std::complex<double>>;

}  // namespace tacit::precond
