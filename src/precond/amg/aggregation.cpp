#include "../scalar.hpp"
#include "coarsening.hpp"

#include <tacit/exec/parallel.hpp>
#include "base/release.hpp"
#include "op/multiply.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace tacit::precond {

namespace {

using layout::Space;

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

/// Rows of T on this rank; columns are numbered from 0 on this rank. Threads share the aggregates.
template <Scalar T>
op::Rows<T> tentative(const Nodes& nodes, const std::vector<Local>& aggregate, Local count,
                      const std::vector<T>& near_null, int k, Nodes& coarse_nodes, std::vector<T>& coarse) {
  const auto n = std::size_t(nodes.start.back()), width = std::size_t(k), aggregates = std::size_t(count);
  // The rows of each aggregate, ascending: those of a are row[begin[a]] to row[begin[a + 1] - 1].
  std::vector<Local> begin(aggregates + 1, 0), kept(aggregates);
  exec::Buffer<Local> row;
  const auto each_row = [&](auto&& f) {
    for (Local I = 0; I < nodes.count(); ++I)
      if (const Local a = aggregate[std::size_t(I)]; a >= 0)
        for (Local i = nodes.start[std::size_t(I)]; i < nodes.start[std::size_t(I) + 1]; ++i) f(std::size_t(a), i);
  };
  each_row([&](std::size_t a, Local) { ++begin[a + 1]; });
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  row.resize(std::size_t(begin.back()));
  std::vector<Local> next(begin.begin(), begin.end() - 1);
  each_row([&](std::size_t a, Local i) { row[std::size_t(next[a]++)] = i; });
  release(next);
  exec::Buffer<T> q(n * width), coordinates(aggregates * width * width);  // q: by rows, the kept ones first
  exec::parallel_claims(aggregates, exec::by_shares, aggregates > 1000, [&](exec::Claims& claims) {
    std::vector<T> columns, r;
    claims.each([&](std::size_t a) {
      const auto first = std::size_t(begin[a]), size = std::size_t(begin[a + 1]) - first;
      columns.resize(size * width);
      for (std::size_t i = 0; i < size; ++i)
        for (std::size_t c = 0; c < width; ++c)
          columns[c * size + i] = near_null[std::size_t(row[first + i]) * width + c];
      kept[a] = Local(orthonormal_columns(columns, size, k, r));
      for (std::size_t i = 0; i < size; ++i)
        for (std::size_t j = 0; j < std::size_t(kept[a]); ++j)
          q[std::size_t(row[first + i]) * width + j] = columns[j * size + i];
      for (std::size_t j = 0; j < width; ++j)
        for (std::size_t c = 0; c < width; ++c) coordinates[(a * width + j) * width + c] = r[c * width + j];
    });
  });
  coarse_nodes.start.assign(1, 0);
  for (const Local of : kept) coarse_nodes.start.push_back(coarse_nodes.start.back() + of);
  coarse.clear();
  coarse.reserve(std::size_t(coarse_nodes.start.back()) * width);
  for (std::size_t a = 0; a < aggregates; ++a) {
    const auto from = coordinates.begin() + std::ptrdiff_t(a * width * width);
    coarse.insert(coarse.end(), from, from + std::ptrdiff_t(std::size_t(kept[a]) * width));
  }
  op::Rows<T> t;
  t.start.assign(n + 1, 0);
  each_row([&](std::size_t a, Local i) { t.start[std::size_t(i) + 1] = kept[a]; });
  std::partial_sum(t.start.begin(), t.start.end(), t.start.begin());
  t.column.resize(std::size_t(t.start.back())), t.value.resize(std::size_t(t.start.back()));
  each_row([&](std::size_t a, Local i) {
    const auto at = std::size_t(t.start[std::size_t(i)]);
    for (std::size_t j = 0; j < std::size_t(kept[a]); ++j) {
      t.column[at + j] = coarse_nodes.start[a] + Local(j);
      t.value[at + j] = q[std::size_t(i) * width + j];
    }
  });
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

/// The rows of (I - omega D^-H A_F^H) T, from S = I - omega D^-1 A_F: R^H for an A that is not Hermitian. Collective.
template <Scalar T>
op::Rows<T> smoothed_rows(op::Rows<T> S, const std::vector<T>& diagonal, op::Rows<T> t, const Space& space,
                          const Space& coarse) {
  const auto each_row = [&](op::Rows<T>& rows, auto&& factor) {
    for (std::size_t i = 0; i < diagonal.size(); ++i)
      if (diagonal[i] != T(0))
        scale(rows.value.data() + rows.start[i], std::size_t(rows.start[i + 1] - rows.start[i]), factor(diagonal[i]));
  };
  each_row(t, [](T d) { return conj(d); });
  const auto adjoint = op::adjoint(S, space, space);
  S = {};  // its memory is the product's
  auto q = op::multiply(adjoint, space, t, coarse);
  each_row(q, [](T d) { return inverse(conj(d)); });
  return q;
}

template <Scalar T>
class Aggregation final : public Coarsening<T> {
 public:
  Aggregation(const op::Csr<T>& A, const AmgOptions<T>& options, bool hermitian)
      : hermitian_(hermitian),
        theta_(options.strength.value_or(0.04)),
        vectors_(options.block),
        near_null_(options.near_null) {
    const auto& comm = A.range().comm();
    const Global own_rows = A.range().local_size();
    nodes_ = nodes_of(Local(own_rows), options.block);
    if (const Global numbers = comm.all_max(Global(near_null_.size())); numbers > 0) {
      vectors_ = int(comm.all_max(own_rows ? Global(near_null_.size()) / own_rows : Global(0)));
      comm::collective(comm, [&] {
        require(Global(near_null_.size()) == own_rows * vectors_, "near_null has ", near_null_.size(), " numbers for ",
                own_rows, " rows of this rank; ", own_rows * vectors_, " are needed, as another rank has ", vectors_,
                " vectors");
      });
    } else {
      constants_ = true;
      near_null_ = constants(own_rows);
    }
    if (A.range().size() > 0) normalise(near_null_, std::size_t(vectors_), comm);
  }

  std::optional<Coarser<T>> next(const op::Rows<T>& rows, const Space& space, const ByColumn<double>& roots,
                                 double rho) override {
    const auto& comm = space.comm();
    Level level;
    Local count = 0;
    const bool unit = is_unit(nodes_, rows.count());
    Couplings strong;
    if (unit) {
      level.filter = strong_entries(rows, space, roots, theta_);
      level.aggregate = aggregates_of(rows, space, roots, level.filter, count);
    } else {
      strong = strong_couplings(rows, space, nodes_, roots, theta_);
      level.aggregate = aggregates_of(strong, count);
      level.filter.resize(rows.column.size());
    }
    level.count = count;
    Nodes coarse_nodes;
    std::vector<T> coarse_null;
    auto t = tentative<T>(nodes_, level.aggregate, count, near_null_, vectors_, coarse_nodes, coarse_null);
    const auto counts = comm.all_gather(Global(coarse_nodes.start.back()));
    const Space coarse = Space::distributed(comm, layout::Partition::of_counts(counts));
    if (coarse.size() == 0 || double(coarse.size()) > least_coarsening * double(space.size())) return {};
    comm.check_interrupt();
    const auto v = near_null_by_column(rows, space, near_null_);
    const ByColumn<T>* const vector = v ? &*v : nullptr;
    const double omega = omega_of(rho);
    const auto smoothing = unit ? DampedIdentity<T>(rows, space, level.filter, vector, omega, false)
                                : DampedIdentity<T>(rows, space, nodes_, strong, roots, vector, theta_, omega);
    for (Global& c : t.column) c += coarse.begin();
    auto found = smoothed(smoothing, level.filter.data(), std::move(t), rows, roots, space, coarse);
    const auto all_in = [](std::uint8_t f) { return f == in_filtered; };
    if (std::all_of(level.filter.begin(), level.filter.end(), all_in)) level.filter = {};
    if (!unit) level.nodes = std::move(nodes_);
    if (!levels_.empty() || !constants_) level.near_null = std::move(near_null_);
    nodes_ = std::move(coarse_nodes);
    near_null_ = std::move(coarse_null);
    levels_.push_back(std::move(level));
    theta_ /= 2;
    return found;
  }

  bool keeps_patterns() const override { return true; }
  Coarser<T> again(std::size_t number, const op::Rows<T>& rows, const Space& space, const ByColumn<double>& roots,
                   double rho) const override {
    const auto kept = tentative_again(number, space);
    const auto v = near_null_by_column(rows, space, kept.near_null);
    const DampedIdentity<T> smoothing(rows, space, levels_[number].filter, v ? &*v : nullptr, omega_of(rho), true);
    return smoothed(smoothing, nullptr, kept.t, rows, roots, space, kept.coarse);
  }
  Smoothing<T> smoothing(std::size_t number, const Space& space) const override {
    auto kept = tentative_again(number, space);
    const bool constant = vectors_ != 1 || (number == 0 && constants_);
    return {&levels_[number].filter, constant ? std::vector<T>() : std::move(kept.near_null), std::move(kept.t)};
  }
  double omega(double rho) const override { return omega_of(rho); }

  void move(const Gathering& to) override {
    std::vector<Local> sizes(std::size_t(nodes_.count()));
    for (std::size_t I = 0; I < sizes.size(); ++I) sizes[I] = nodes_.start[I + 1] - nodes_.start[I];
    nodes_ = {};
    for (const Local size : to.moved(sizes)) nodes_.start.push_back(nodes_.start.back() + size);
    near_null_ = to.moved(near_null_);
  }

 private:
  static Nodes nodes_of(Local rows, int block) {
    Nodes nodes;
    nodes.start.reserve(std::size_t(rows / block) + 1);
    for (Local i = 0; i < rows; i += block) nodes.start.push_back(i + block);
    return nodes;
  }
  /// For each unknown of a node the vector that is constant there.
  std::vector<T> constants(Global rows) const {
    const auto k = std::size_t(vectors_);
    std::vector<T> v(std::size_t(rows) * k, T(0));
    for (std::size_t i = 0; i < std::size_t(rows); ++i) v[i * k + i % k] = T(1);
    return v;
  }
  static double omega_of(double rho) { return 4 / (3 * std::max(rho, 1.0)); }
  std::optional<ByColumn<T>> near_null_by_column(const op::Rows<T>& rows, const Space& space,
                                                 const std::vector<T>& near_null) const {
    if (vectors_ != 1) return {};
    return std::optional<ByColumn<T>>(std::in_place, rows, space, near_null);
  }
  /// T of a level as next() has made it, and the near-null vectors there. Collective.
  struct Tentative {
    Space coarse;
    op::Rows<T> t;
    std::vector<T> near_null;
  };
  Tentative tentative_again(std::size_t number, const Space& space) const {
    const Level& level = levels_[number];
    Nodes coarse_nodes;
    std::vector<T> coarse_null;
    const Local rows = space.local_size();
    const bool unit = level.nodes.count() == 0;
    const Nodes each_row = nodes_of(unit ? rows : 0, 1);
    auto near_null = number == 0 && constants_ ? constants(rows) : level.near_null;
    auto t = tentative<T>(unit ? each_row : level.nodes, level.aggregate, level.count, near_null, vectors_,
                          coarse_nodes, coarse_null);
    const auto counts = space.comm().all_gather(Global(coarse_nodes.start.back()));
    Space coarse = Space::distributed(space.comm(), layout::Partition::of_counts(counts));
    for (Global& c : t.column) c += coarse.begin();
    return {std::move(coarse), std::move(t), std::move(near_null)};
  }
  /// P, and where A is not Hermitian Q, from the damping and T. Collective.
  Coarser<T> smoothed(const DampedIdentity<T>& smoothing, std::uint8_t* filter, op::Rows<T> t, const op::Rows<T>& rows,
                      const ByColumn<double>& roots, const Space& space, const Space& coarse) const {
    Coarser<T> found{coarse, {}, {}};
    if (hermitian_) {
      const auto append = [&](Local first, Local last, op::Rows<T>& to) {
        smoothing.append(first, last, to, nullptr, filter);
      };
      found.P = op::multiply<T>(rows.count(), append, roots.others(), space, t, coarse);
    } else {
      std::vector<T> diagonal;
      auto S = smoothing.rows(diagonal, filter);
      found.P = op::multiply(S, space, t, coarse);
      found.Q = smoothed_rows(std::move(S), diagonal, std::move(t), space, coarse);
    }
    return found;
  }

  /// What again() needs of a level.
  struct Level {
    Nodes nodes;                       // none: each is a row
    std::vector<Local> aggregate;      // of each node
    Local count = 0;                   // of aggregates
    std::vector<T> near_null;          // none on the finest level where none were given
    std::vector<std::uint8_t> filter;  // what becomes of the entries of A; empty: all are in A_F
  };
  std::vector<Level> levels_;
  bool constants_ = false;  // no near-null vectors were given
  bool hermitian_;
  double theta_;
  int vectors_;
  std::vector<T> near_null_;
  Nodes nodes_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<Coarsening<T>> make_aggregation(const op::Csr<T>& A, const AmgOptions<T>& options, bool hermitian) {
  return std::make_unique<Aggregation<T>>(A, options, hermitian);
}

#define TACIT_INSTANTIATE(T) \
  template std::unique_ptr<Coarsening<T>> make_aggregation<T>(const op::Csr<T>&, const AmgOptions<T>&, bool);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
