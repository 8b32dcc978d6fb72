#include <tacit/precond/hmatrix/hlu.hpp>

#include "cells.hpp"
#include "scalars.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tacit::precond {
namespace {

using detail::as_scalar, detail::HBlock, detail::HBlockKind, detail::SingleOf;

// Leaves of some five times the rank, which is here that of A, and less for a looser tolerance, take little more than
// the least memory, in the time of others: measured for points of a plane, a surface and a volume,
// docs/notes/hmatrix.md.
template <Scalar T>
Local leaf_size(const op::HMatrix<T>& A, const HluOptions& options) {
  if (options.leaf_size) return *options.leaf_size;
  constexpr Local least = 64, most = 512;
  constexpr double ranks = 5.5;
  const double digits = std::min(1.0, std::log(options.tolerance) / std::log(A.options().tolerance));
  Local size = least;
  while (size < most && 1.5 * size < ranks * digits * A.report().mean_rank) size *= 2;
  return size;
}

// Whether one triangle of a Hermitian matrix is all that is stored.
template <Scalar T>
bool stored_hermitian(const op::HMatrix<T>& A) {
  const auto symmetry = A.options().symmetry;
  return symmetry == op::Symmetry::hermitian || (!is_complex<T> && symmetry == op::Symmetry::symmetric);
}

template <Scalar T>
bool keeps_hermitian(const op::HMatrix<T>& A, const HluOptions& options) {
  return stored_hermitian(A) && options.scale.imag() == 0 && options.shift.imag() == 0;
}

template <Scalar T>
void check(const op::HMatrix<T>& A, const HluOptions& options) {
  require(A.has_diagonal(), "hlu needs an hmatrix whose rows and columns have one cluster tree and one space");
  require(options.tolerance > 0 && options.tolerance < 1, "hlu with a tolerance of ", options.tolerance,
          "; a number above 0 and below 1 is needed");
  require(options.rank >= 0, "hlu of rank at most ", options.rank);
  require(options.leaf_size.value_or(1) >= 1, "hlu with leaves of at most ", options.leaf_size.value_or(0), " rows");
  require(is_finite(options.scale) && is_finite(options.shift) && options.scale != 0.0, "hlu of ", options.scale,
          " A + ", options.shift, " I; finite numbers are needed, the first not 0");
  require(is_complex<T> || (options.scale.imag() == 0 && options.shift.imag() == 0), "hlu of ", options.scale, " A + ",
          options.shift, " I for a real matrix");
  require(options.factors != Factors::cholesky || stored_hermitian(A),
          "factors cholesky need a matrix that is stored as hermitian (symmetry), and this one is stored as ",
          to_string(A.options().symmetry), "; lu takes any");
  require(options.factors != Factors::cholesky || keeps_hermitian(A, options), "factors cholesky of ", options.scale,
          " A + ", options.shift, " I, which is not hermitian; lu takes any");
}

// About the largest number of scale A + shift I.
template <Scalar T>
double largest(const op::HMatrix<T>& A, const HluOptions& options) {
  return std::abs(options.scale) * A.largest() + std::abs(options.shift);
}

// The power of two by which this is multiplied, so that squares of its numbers are within the range of F.
template <Scalar F, Scalar T>
double unit_for(const op::HMatrix<T>& A, const HluOptions& options) {
  const double size = largest(A, options);
  if (detail::fits_squares<F>(size) || size == 0 || !std::isfinite(size)) return 1;
  constexpr int most = std::numeric_limits<real_t<T>>::max_exponent - 2;
  return std::ldexp(1.0, std::clamp(-std::ilogb(size), -most, most));
}

}  // namespace

template <Scalar T>
struct Hlu<T>::Triangles {
  virtual ~Triangles() = default;
  // 2^exponent A has these factors: what solve() gives is to be multiplied by that.
  int exponent = 0;
  // rows: own rows, k interleaved columns, in place. Collective.
  virtual void solve(T* rows, Local n, int k, bool adjoint) const = 0;
  virtual detail::MessageCount messages(bool adjoint) const = 0;
  std::vector<T> inverse;  // of the diagonal, where there are no factors
};

template <Scalar T>
template <Scalar F>
struct Hlu<T>::TrianglesIn final : Hlu<T>::Triangles {
  using Step = detail::TriangleStep;
  double unit;  // the cells have the factors of unit A
  std::vector<Global> cuts;
  detail::Cells<F> cells;
  mutable std::vector<F> x;

  TrianglesIn(const op::HMatrix<T>& A, const HluOptions& options, bool cholesky, double shift)
      : unit(unit_for<F>(A, options)),
        cuts(A.rows().cuts()),
        cells(A.range().comm(), detail::Grid(*A.row_tree(), A.range().comm().size(), leaf_size(A, options)),
              options.tolerance, cholesky) {
    this->exponent = std::ilogb(unit);
    const lapack::OneThread alone;
    // Far blocks that A has as dense ones are of no low rank at its tolerance.
    const bool compress = options.rank > 0 || options.tolerance > 3 * A.options().tolerance;
    cells.template build<T>(*A.row_tree(), leaf_size(A, options), cuts, compress, [&](Local first, Local last) {
      return detail::own_pieces(A, cells.grid(), first, last, cholesky, options.rank,
                                as_scalar<T>(options.scale * unit), cells.sent());
    });
    const auto all = (options.shift + shift) * unit;
    if (all != 0.0) cells.add_to_diagonal(as_scalar<F>(all));
    cells.factorise();
  }

  static std::span<const Step> steps(bool cholesky, bool adjoint) {
    static constexpr Step lu[] = {Step::lower, Step::upper},
                          turned[] = {Step::upper_transposed, Step::lower_transposed},
                          square[] = {Step::lower, Step::lower_transposed};
    return cholesky ? square : adjoint ? turned : lu;
  }
  std::span<const Step> steps(bool adjoint) const { return steps(cells.cholesky(), adjoint); }

  detail::MessageCount messages(bool adjoint) const override {
    return this->inverse.empty() ? cells.count_messages(steps(adjoint), cuts) : detail::MessageCount();
  }

  // Adds to the report what this rank has.
  void describe(HluReport& report) const {
    const auto add = [&](const auto& self, const HBlock<F>& b) -> void {
      if (b.is_cut()) {
        for (int i = 0; i < b.down; ++i)
          for (int j = 0; j < b.across; ++j)
            if (b.child[i][j]) self(self, *b.child[i][j]);
      } else if (b.kind == HBlockKind::low) {
        ++report.low_rank_blocks, report.mean_rank += b.low.rank;
        report.bytes += double(b.low.u.size() + b.low.v.size()) * sizeof(F);
        report.max_rank = std::max(report.max_rank, int(b.low.rank));
      } else {
        ++report.dense_blocks;
        report.bytes += (double(b.rows) * b.columns + double(b.inverse_l.size() + b.inverse_u.size())) * sizeof(F);
      }
    };
    for (const auto& [place, cell] : cells.own()) add(add, *cell.root);
    std::tie(report.log_determinant, report.sign) = cells.log_determinant();
    for (const auto& [place, cell] : cells.own())
      if (place.first == place.second) report.log_determinant -= std::log(unit) * cell.root->rows;
  }

  void solve(T* rows, Local n, int k, bool adjoint) const override {
    if (!this->inverse.empty()) {
      for (Local i = 0; i < n; ++i)
        for (int c = 0; c < k; ++c) {
          const T& d = this->inverse[std::size_t(i)];
          rows[std::size_t(i) * k + c] *= adjoint ? conj(d) : d;
        }
      return;
    }
    x.resize(std::size_t(n) * std::size_t(k));
    const bool turns = adjoint && !cells.cholesky();  // L L^H is its own adjoint
    const auto turned = [&](const auto& v) { return turns ? conj(v) : v; };
    for (Local i = 0; i < n; ++i)
      for (int c = 0; c < k; ++c)
        x[std::size_t(c) * std::size_t(n) + std::size_t(i)] = as_scalar<F>(turned(rows[std::size_t(i) * k + c]));
    const lapack::OneThread alone;
    cells.solve(steps(adjoint), cells.cholesky(), cuts, x.data(), k);
    for (Local i = 0; i < n; ++i)
      for (int c = 0; c < k; ++c)
        rows[std::size_t(i) * k + c] = as_scalar<T>(turned(x[std::size_t(c) * std::size_t(n) + std::size_t(i)]));
  }
};

// The factors in precision F, by Cholesky with shifts as long as these are no larger than what truncation changes, else
// by LU. Collective.
template <Scalar T>
template <Scalar F>
std::unique_ptr<typename Hlu<T>::Triangles> Hlu<T>::make(const op::HMatrix<T>& A, const HluOptions& options) {
  constexpr int shifts = 3;
  const auto& comm = A.range().comm();
  std::vector<T> diagonal = A.own_diagonal();
  for (T& d : diagonal) d = as_scalar<T>(options.scale) * d + as_scalar<T>(options.shift);
  const auto positive = [&] {
    return comm.all(std::all_of(diagonal.begin(), diagonal.end(), [](const T& d) { return real(d) > 0; }));
  };
  const bool try_it = options.factors == Factors::cholesky ||
                      (options.factors == Factors::automatic && keeps_hermitian(A, options) && positive());
  std::unique_ptr<TrianglesIn<F>> made;
  bool failed = false;
  const auto attempt = [&](bool cholesky, double shift) {
    made.reset();
    made = std::make_unique<TrianglesIn<F>>(A, options, cholesky, shift);
    failed = !comm.all(!made->cells.arithmetic.failed());
    report_.shift = shift;
    report_.messages += made->cells.sent().messages, report_.message_bytes += made->cells.sent().bytes;
  };
  if (try_it) {
    double shift = 0;
    for (int i = 0; i <= shifts; ++i) {
      attempt(true, shift);
      if (!failed) break;
      const double norm = std::abs(options.scale) * A.report().norm + std::abs(options.shift);
      shift = i == 0 ? options.tolerance * norm / std::sqrt(double(A.report().rows)) : 10 * shift;
    }
  }
  if (!try_it || (failed && options.factors == Factors::automatic)) attempt(false, 0);
  report_.perturbed = made->cells.arithmetic.perturbed();
  report_.cholesky = made->cells.cholesky();
  if (failed) {
    report_.shift = 0;
    for (const T& d : diagonal) {
      const T inverse = T(1) / d;
      made->inverse.push_back(is_finite(inverse) ? inverse : T(1));
    }
    // Of a rank without rows too: whether there are factors is the same on all ranks.
    if (made->inverse.empty()) made->inverse.push_back(T(1));
  } else {
    made->describe(report_);
  }
  return made;
}

template <Scalar T>
Hlu<T>::Hlu(const op::HMatrix<T>& A, const HluOptions& options) : op::Operator<T, Host>(A.domain(), A.range()) {
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    const Span span("hlu", "precond");
    const double start = wall_time();
    check(A, options);
    rows_ = std::make_unique<op::OwnRows<T>>(A.rows().space(), A.row_tree(), A.rows().cuts());
    report_.single = options.precision == FactorPrecision::single ||
                     (options.precision == FactorPrecision::automatic && options.tolerance >= 1e-5 &&
                      detail::fits_single(largest(A, options))) ||
                     std::is_same_v<SingleOf<T>, T>;
    triangles_ = report_.single ? make<SingleOf<T>>(A, options) : make<T>(A, options);
    agree(comm);
    report_.seconds = comm.all_max(wall_time() - start);
  });
}

// Sums the report over the ranks, and says what is doubtful. Collective.
template <Scalar T>
void Hlu<T>::agree(const comm::Communicator& comm) {
  auto& r = report_;
  const bool failed = !triangles_->inverse.empty();
  const auto sum = [&](auto& number) { number = comm.all_sum(number); };
  sum(r.dense_blocks), sum(r.low_rank_blocks), sum(r.mean_rank), sum(r.perturbed);
  sum(r.messages), sum(r.message_bytes), sum(r.log_determinant);
  r.most_bytes = comm.all_max(r.bytes);
  sum(r.bytes);
  if (r.low_rank_blocks > 0) r.mean_rank /= double(r.low_rank_blocks);
  r.max_rank = int(comm.all_max(Global(r.max_rank)));
  std::complex<double> sign = 1;
  for (const auto& one : comm.all_gather(r.sign)) sign *= one;
  r.sign = sign;
  if (failed) r.log_determinant = std::numeric_limits<double>::quiet_NaN(), r.sign = 0;
  name_ = r.cholesky ? "h-cholesky" : "hlu";
  doubtful_ = r.perturbed > 0 || failed;
  const auto say = [&](const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; };
  if (r.perturbed > 0)
    say(message(r.perturbed, r.perturbed == 1 ? " pivot was" : " pivots were", " too small and replaced"));
  if (r.shift > 0)
    say(message(r.shift, " was added to the diagonal, without which it is not positive definite to the tolerance"));
  if (failed) say("the matrix could not be factorised and is inverted by its diagonal alone");
}

template <Scalar T>
Hlu<T>::~Hlu() = default;

template <Scalar T>
int Hlu<T>::begin(const Vector<T, Host>& x, Vector<T, Host>&, bool) const {
  return rows_->start_get(x.data(), x.columns());
}

template <Scalar T>
void Hlu<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const {
  const int k = x.columns();
  std::vector<T> rows(std::size_t(rows_->count()) * std::size_t(k));
  rows_->finish_get(x.data(), k, token, rows.data());
  {
    const Span span("hlu solve", "precond", Trace::on() ? std::int64_t(cost().bytes) : 0);
    const auto solve = [&] { triangles_->solve(rows.data(), rows_->count(), k, adjoint); };
    const auto& comm = this->range().comm();
    const auto largest = [&](double most) { return report_.single ? comm.all_max(most) : 1.0; };
    detail::near_one(rows.data(), rows.data(), rows.size(), solve, largest, triangles_->exponent);
  }
  rows_->finish_put(k, rows_->start_put(rows.data(), k, y.data()), y.data());
}

template <Scalar T>
op::Cost Hlu<T>::cost_of(bool adjoint) const {
  op::Cost c;
  const double bytes = report_.bytes / this->range().comm().size(),
               number = report_.single ? sizeof(SingleOf<T>) : sizeof(T);
  c.bytes = bytes + 4.0 * rows_->count() * sizeof(T);
  c.flops = bytes / number * (is_complex<T> ? 8 : 2);
  if (const auto* p = rows_->pattern()) {
    const bool replicated = rows_->space().is_replicated();
    const auto within = triangles_->messages(adjoint);
    c.messages = within.messages + double(p->send_ranks.size() + (replicated ? 0 : p->receive_ranks.size()));
    c.message_bytes =
        within.numbers * number + double(p->send_index.size() + (replicated ? 0 : p->ghosts.size())) * sizeof(T);
  }
  return c;
}

#define TACIT_INSTANTIATE(T) template class Hlu<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
