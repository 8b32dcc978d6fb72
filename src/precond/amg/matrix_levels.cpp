#include "matrix_levels.hpp"
#include "../band_factors.hpp"
#include "../scalar.hpp"
#include "../timed.hpp"
#include "additive.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/op/diagonal.hpp>
#include "base/release.hpp"
#include "op/multiply.hpp"
#include "op/spectrum_until.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <utility>

namespace tacit::precond {

using layout::Space;
using layout::Vector;

namespace {

/// Whether sum_{j != i} |a_ij| <= |a_ii| / 4 in all rows. Then a sweep of any smoother takes the error, in the largest
/// element of a diagonal scaling, to at most 0.4: 0.32 of spai0 and jacobi, 0.4 of l1-jacobi, 0.25 of gauss-seidel.
/// Collective.
template <Scalar T>
bool is_dominant(const op::Rows<T>& rows, const Space& space) {
  bool dominant = true;
  for (Local i = 0; i < rows.count() && dominant; ++i) {
    double others = 0, own = 0;
    for (auto k = std::size_t(rows.start[std::size_t(i)]); k < std::size_t(rows.start[std::size_t(i) + 1]); ++k) {
      const double a = double(std::abs(rows.value[k]));
      if (rows.column[k] == space.begin() + i) own += a;
      else others += a;
    }
    dominant = own > 0 && others <= own / 4;
  }
  return space.comm().all(dominant);
}

/// Whether sweeps over a level whose rows are dominated by the diagonal are clearly cheaper than its direct solution,
/// with the band in the order of the rows. Collective.
template <Scalar T>
bool sweeps_are_cheaper(const op::Csr<T>& A, const op::Rows<T>& rows) {
  const Space& space = A.range();
  const double n = double(space.size());
  if (space.size() > largest_direct) return true;
  Global width = 0;
  for (Local i = 0; i < rows.count(); ++i)
    for (auto k = std::size_t(rows.start[std::size_t(i)]); k < std::size_t(rows.start[std::size_t(i) + 1]); ++k)
      width = std::max(width, std::abs(rows.column[k] - (space.begin() + i)));
  const double band = space.comm().all_max(double(width));
  const double direct = std::min(seconds_of_band(n, band, band), seconds_of_inverse(n, ranks_in_use(space)));
  return 2 * sweeps_of_dominant * seconds_of_products(double(A.entries()) + 4 * n) < direct;
}

/// A bound of the eigenvalues of D^-1 A, from that by its rows. Collective.
template <Scalar T>
double bound_of(const op::Csr<T>& A, double by_rows, bool definite) {
  const double bound = A.range().comm().all_max(by_rows);
  // The largest eigenvalue is at least 1, so that nothing better can be found for a bound near it.
  if (!definite || bound <= 1.05) return bound;
  // Lanczos comes from below, and is far closer than the bound where rows have entries of both signs.
  const auto d = A.diagonal();
  Vector<T> v(A.range());
  T* const inverses = v.data();
  each(d.size(), [&](std::size_t i) { inverses[i] = d[i] != T(0) ? inverse(d[i]) : T(1); });
  const op::Diagonal<T> D(std::move(v));
  // Once it has come so close to the bound by rows, that is the result of all further steps.
  const double enough = bound / 1.05 * (1 + 1e-12);
  const double found = op::spectrum_until<T, Host>(enough, A, &D, 10).lambda_max;
  return found > 0 ? std::min(bound, 1.05 * found) : bound;
}

/// R and the next matrix. Collective.
template <Scalar T>
op::TripleProduct<T> product_of(const Coarser<T>& coarser, const op::Rows<T>& rows, const Space& space) {
  return op::triple_product(coarser.Q ? *coarser.Q : coarser.P, rows, coarser.P, space, coarser.space);
}

/// Slices of eight rows where these would store up to so many times the entries: rows of transfers and coarse matrices
/// are short and of different lengths, and one after the other costs more than the zeros that fill the slices do.
/// `automatic` elsewhere, and for nodes of several unknowns, whose entries are in dense blocks.
op::Format format_of(std::span<const Global> start, bool nodes) {
  constexpr double most_padded = 1.75;
  if (nodes) return op::Format::automatic;
  const std::size_t rows = start.size() - 1, slice = std::size_t(op::LocalMatrix<double>::slice);
  Global padded = 0;
  for (std::size_t i = 0; i < rows; i += slice) {
    Global longest = 0;
    for (std::size_t r = i; r < std::min(i + slice, rows); ++r) longest = std::max(longest, start[r + 1] - start[r]);
    padded += longest * Global(slice);
  }
  return double(padded) <= most_padded * double(start.back()) ? op::Format::sell : op::Format::automatic;
}

/// Entries that are not zero beside the largest of their row, over all ranks; row i has the values [start[i],
/// start[i + 1]). Collective.
template <Scalar T>
Global couplings_of(std::span<const Global> start, const T* values, const comm::Communicator& comm) {
  constexpr std::size_t piece = 4096;
  const std::size_t rows = start.size() - 1;
  std::vector<Global> found((rows + piece - 1) / piece, 0);
  exec::parallel_for(found.size(), found.size() > 1, [&](std::size_t p) {
    for (std::size_t i = p * piece; i < std::min(rows, (p + 1) * piece); ++i) {
      real_t<T> most = 0;
      for (Global k = start[i]; k < start[i + 1]; ++k) most = std::max(most, size_of(values[k]));
      const auto small = most * std::numeric_limits<real_t<T>>::epsilon();
      for (Global k = start[i]; k < start[i + 1]; ++k) found[p] += size_of(values[k]) > small;
    }
  });
  return comm.all_sum(std::accumulate(found.begin(), found.end(), Global(0)));
}

}  // namespace

template <Scalar T>
MatrixLevels<T>::MatrixLevels(const op::Csr<T>& A, AmgOptions<T> options)
    : A_(A), options_(std::move(options)), hermitian_(op::is_hermitian(A)) {
  make_levels();
}

template <Scalar T>
void MatrixLevels<T>::clear() {
  levels_.clear(), plans_.clear(), bottom_.reset(), note_.clear(), choice_.clear(), work_.clear();
  plan_bytes_ = matrix_bytes_ = 0;
  too_large_for_plans_ = false;
}

template <Scalar T>
void MatrixLevels<T>::build() {
  clear();
  try {
    make_levels();
  } catch (...) {
    clear();
    throw;
  }
}

template <Scalar T>
void MatrixLevels<T>::make_levels() {
  const op::Csr<T>& A = A_;
  const auto& comm = A.range().comm();
  const double most = options_.max_complexity.value_or(options_.coarsening == AmgCoarsening::aggregation ? 3 : 5);
  coarsening_ = options_.coarsening == AmgCoarsening::aggregation ? make_aggregation(A, options_, hermitian_)
                                                                  : make_classical(A, options_);
  const bool nodes = options_.block > 1 || Global(options_.near_null.size()) > A.range().local_size();
  Global entries = 0;
  levels_.push_back(std::make_unique<MatrixLevel<T>>(A));
  op::Rows<T> rows = A.rows();  // of the last level
  couplings_ = couplings_of(rows.start, rows.value.data(), comm);
  for (;;) {
    comm.check_interrupt();
    MatrixLevel<T>& fine = *levels_.back();
    const Timed timer(fine.setup_seconds);
    const Space space = fine.A().range();
    entries += fine.A().entries();
    double by_rows = 0;
    const auto roots = diagonal_roots(rows, space, by_rows);
    const bool small = space.size() <= options_.coarsest;
    const double rho = bound_of(fine.A(), by_rows, hermitian_ && !small);
    fine.make_smoother(options_.smoother, rows, roots, hermitian_, rho);
    if (small || int(levels_.size()) >= options_.max_levels) break;
    comm.check_interrupt();
    auto coarser = coarsening_->next(rows, space, roots, rho);
    if (!coarser) break;
    const Space coarse = coarser->space;
    comm.check_interrupt();
    auto next = product_of(*coarser, rows, space);
    coarser->Q.reset();
    const Global next_entries = comm.all_sum(next.C.start.back());
    if (double(entries + next_entries) > most * double(A.entries())) {
      note_ = message("coarsening ended at ", space.size(), " unknowns: the next level would bring the entries to ",
                      double(entries + next_entries) / double(std::max<Global>(A.entries(), 1)), " of those of A");
      break;
    }
    if (options_.cycle == Cycle::mult_additive)
      smooth_transfers(coarser->P, next.R, rows, fine.scaling(), space, coarse, hermitian_);
    rows = std::move(next.C);
    if (space.comm().size() == 1) fine.set_reads(next.R);
    const op::Format format_of_R = format_of(next.R.start, nodes), format_of_P = format_of(coarser->P.start, nodes);
    fine.R = std::make_unique<op::Csr<T>>(coarse, space, std::move(next.R), format_of_R);
    Space on = coarse;  // the ranks that the next level is on
    if (const int by = gathering(rows, coarse, space.size()); by > 1) {
      const Gathering& to = fine.gathering.emplace(coarse, by);
      on = to.to();
      rows = to.moved(rows);
      coarsening_->move(to);
      fine.mover = to.template mover<T>();
    }
    fine.P = std::make_unique<op::Csr<T>>(space, on, std::move(coarser->P), format_of_P);
    const op::RowsView<T, Global> stored{rows.start, rows.column, rows.value};
    levels_.push_back(
        std::make_unique<MatrixLevel<T>>(std::make_unique<op::Csr<T>>(on, on, stored, format_of(stored.start, nodes))));
  }
  make_bottom_solver(rows);
  work_.resize(levels_.size());
  if (!is_last_solved() && note_.empty() && options_.bottom.name != "smoother")
    note_ = message("coarsening ended at ", levels_.back()->A().range().size(), " unknowns, which sweeps solve");
}

template <Scalar T>
bool MatrixLevels<T>::update(Global most) {
  const op::Csr<T>& A = A_;
  const bool hermitian = op::is_hermitian(A);
  auto values = exec::Array<T, Host>::uninitialised(std::size_t(A.own_entries()));
  A.copy_values(values.data());
  // Levels that were made while entries were zero do not have the couplings of these.
  std::vector<Global> start(1, 0);
  if (plans_.empty())
    for (const Local n : A.row_lengths()) start.push_back(start.back() + n);
  const std::span<const Global> starts = plans_.empty() ? start : plans_[0]->numbered({}).start;
  const bool more = double(couplings_of(starts, values.data(), A.range().comm())) > 1.1 * double(couplings_);
  if (levels_.empty() || hermitian != hermitian_ || more || !coarsening_->keeps_patterns()) {
    hermitian_ = hermitian;
    release(values);
    build();
    return false;
  }
  try {
    if (plans_.empty()) update_and_plan(most);
    else update_by_plans(std::move(values));
  } catch (...) {  // some levels have new numbers and others old ones
    clear();
    throw;
  }
  return true;
}

template <Scalar T>
void MatrixLevels<T>::update_and_plan(Global most) {
  const op::Csr<T>& A = A_;
  // Transfers of mult-additive cycles are smoothed once more, which plans do not do.
  const bool planned = options_.cycle != Cycle::mult_additive && !too_large_for_plans_;
  std::vector<std::unique_ptr<LevelPlan<T>>> plans;
  op::Rows<T> rows = A.rows();
  for (std::size_t i = 0;; ++i) {
    A.range().comm().check_interrupt();
    MatrixLevel<T>& fine = *levels_[i];
    const Space space = fine.A().range();
    double by_rows = 0;
    const auto roots = diagonal_roots(rows, space, by_rows);
    const double rho = bound_of(fine.A(), by_rows, hermitian_ && space.size() > options_.coarsest);
    fine.make_smoother(options_.smoother, rows, roots, hermitian_, rho);
    if (i + 1 == levels_.size()) break;
    auto coarser = coarsening_->again(i, rows, space, roots, rho);
    auto next = product_of(coarser, rows, space);
    if (planned && !too_large_for_plans_) {
      auto product = op::TripleProductPlan<T>::make(coarser.Q ? *coarser.Q : coarser.P, rows, coarser.P, !coarser.Q,
                                                    next.C, space, coarser.space, most);
      if (product)
        plans.push_back(std::make_unique<LevelPlan<T>>(std::move(*product), rows.value, space,
                                                       coarsening_->smoothing(i, space), coarser));
      else plans.clear(), too_large_for_plans_ = true;
    }
    if (options_.cycle == Cycle::mult_additive)
      smooth_transfers(coarser.P, next.R, rows, fine.scaling(), space, coarser.space, hermitian_);
    fine.P->update_values(coarser.P.value);
    fine.R->update_values(next.R.value);
    rows = fine.gathering ? fine.gathering->moved(next.C) : std::move(next.C);
    levels_[i + 1]->update_values(rows.value);
  }
  make_bottom_solver(rows);
  plans_ = std::move(plans);
  double kept = 0, matrices = 0;
  for (const auto& plan : plans_) kept += plan->bytes();
  for (const auto& level : levels_)
    for (const op::Csr<T>* matrix :
         std::initializer_list<const op::Csr<T>*>{&level->A(), level->P.get(), level->R.get()})
      if (matrix) matrices += matrix->cost().bytes;
  plan_bytes_ = double(A.range().comm().all_sum(Global(kept)));
  matrix_bytes_ = double(A.range().comm().all_sum(Global(matrices)));
}

template <Scalar T>
void MatrixLevels<T>::update_by_plans(exec::Array<T, Host> values) {
  const auto span = [](const exec::Array<T, Host>& of) { return std::span<const T>(of.data(), of.size()); };
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    A_.range().comm().check_interrupt();
    MatrixLevel<T>& fine = *levels_[i];
    const LevelPlan<T>& plan = *plans_[i];
    const NumberedRows<T> rows = plan.numbered(span(values));
    double by_rows = 0;
    const auto roots = diagonal_roots(rows, plan.halo, by_rows);
    const double rho = bound_of(fine.A(), by_rows, hermitian_ && fine.A().range().size() > options_.coarsest);
    fine.make_smoother(options_.smoother, rows, roots, hermitian_, rho);
    const auto [P, Q] = plan.smoothing.smooth(rows, coarsening_->omega(rho));
    fine.P->update_values(span(P));
    auto R = exec::Array<T, Host>::uninitialised(plan.product.entries_of_R());
    auto C = exec::Array<T, Host>::uninitialised(plan.product.entries_of_C());
    plan.product.multiply(Q.data(), values.data(), P.data(), R.data(), C.data());
    fine.R->update_values(span(R));
    values = fine.gathering
                 ? exec::Array<T, Host>::from(fine.gathering->moved(std::vector<T>(C.data(), C.data() + C.size())))
                 : std::move(C);
    levels_[i + 1]->update_values(span(values));
  }
  MatrixLevel<T>& last = *levels_.back();
  const auto rows = last.A().rows();
  const Space& space = last.A().range();
  double by_rows = 0;
  const auto roots = diagonal_roots(rows, space, by_rows);
  const double rho = bound_of(last.A(), by_rows, hermitian_ && space.size() > options_.coarsest);
  last.make_smoother(options_.smoother, rows, roots, hermitian_, rho);
  make_bottom_solver(rows);
}

template <Scalar T>
int MatrixLevels<T>::gathering(const op::Rows<T>& next, const Space& space, Global rows) {
  constexpr Global automatic_below = 4096;
  const Global below = options_.agglomerate_below.value_or(automatic_below), n = space.size();
  const int ranks = ranks_in_use(space);
  if (ranks <= 1 || n >= below * ranks) return 1;
  if (options_.agglomerate_below) {
    int by = 1;
    while ((ranks + by - 1) / by > 1 && n < below * ((ranks + by - 1) / by)) by *= 2;
    return by;
  }
  Spread level{n, space.comm().all_sum(next.start.back()), ranks};
  level.coarsening = double(rows) / double(n), level.coarsest = options_.coarsest, level.sweeps = options_.sweeps;
  level.number_bytes = sizeof(T), level.neighbours = neighbours_of(next, space);
  std::string why;
  const int by = cheapest_gathering(level, why);
  choice_ += (choice_.empty() ? "" : "; ") + why;
  return by;
}

template <Scalar T>
void MatrixLevels<T>::make_bottom_solver(const op::Rows<T>& rows) {
  const op::Csr<T>& A = levels_.back()->A();
  const Space& space = A.range();
  const bool automatic = options_.bottom.is_automatic();
  bottom_.reset();
  const bool by_sweeps = automatic && is_dominant(rows, space) && sweeps_are_cheaper(A, rows);
  last_sweeps_ = by_sweeps ? sweeps_of_dominant : sweeps_without_direct;
  if (by_sweeps) return;
  const auto make = automatic ? direct_bottom<T>() : make_bottom<T>(options_.bottom);
  if (!make || (automatic && space.size() > largest_direct)) return;
  LastLevel<T> last{{std::shared_ptr<const void>(), &A}, [&A] { return A.rows(); }, ranks_in_use(space)};
  last.hermitian = hermitian_;
  last.alone = [&A, &space]() -> std::shared_ptr<const op::Operator<T, Host>> {
    if (space.local_size() < space.size() || space.size() == 0) return nullptr;
    const auto own = Space::distributed(comm::Communicator::self(), space.size());
    return std::make_shared<op::Csr<T>>(own, own, A.rows());
  };
  bottom_ = make(last);
}

template <Scalar T>
BottomReport MatrixLevels<T>::take_bottom() {
  BottomReport all = report();
  done_ = {};
  return all;
}

template <Scalar T>
BottomReport MatrixLevels<T>::report() const {
  BottomReport report = done_;
  report.name = bottom_ ? bottom_->name() : "smoother";
  const std::string why = bottom_ ? bottom_->choice() : std::string();
  report.choice = choice_ + (choice_.empty() || why.empty() ? "" : "; ") + why;
  return report;
}

template <Scalar T>
void MatrixLevels<T>::make_vectors(int columns) {
  for (const auto& level : levels_) level->make_vectors(columns);
}

template <Scalar T>
template <class F>
void MatrixLevels<T>::counted(std::size_t i, F&& f) {
  const auto& comm = levels_[0]->A().range().comm();
  const auto before = comm.counters();
  const double from = wall_time();
  f();
  const auto counts = comm.counters() - before;
  AmgWork& work = work_[i];
  work.seconds += wall_time() - from;
  work.reductions += counts.reductions, work.exchanges += counts.exchanges;
  work.messages += counts.messages, work.bytes += counts.bytes;
}

template <Scalar T>
void MatrixLevels<T>::down(std::size_t i, bool from_zero) {
  counted(i, [&] {
    MatrixLevel<T>& fine = *levels_[i];
    ++work_[i].visits;
    fine.down(options_.sweeps, from_zero, *levels_[i + 1]->f);
  });
}

template <Scalar T>
void MatrixLevels<T>::correct(std::size_t i) {
  counted(i, [&] { levels_[i]->correct(*levels_[i + 1]->u); });
}

template <Scalar T>
void MatrixLevels<T>::up(std::size_t i, bool) {
  counted(i, [&] { levels_[i]->up(options_.sweeps, *levels_[i + 1]->u); });
}

template <Scalar T>
void MatrixLevels<T>::restrict_f(std::size_t i) {
  counted(i, [&] { levels_[i]->restrict_to(*levels_[i]->f, *levels_[i + 1]->f); });
}

template <Scalar T>
void MatrixLevels<T>::interpolate_u(std::size_t i) {
  counted(i, [&] { levels_[i]->P->apply(*levels_[i + 1]->u, *levels_[i]->u); });
}

template <Scalar T>
void MatrixLevels<T>::start_alone(std::size_t i) {
  ++work_[i].visits;
  counted(i, [&] { levels_[i]->start_alone(); });
}

template <Scalar T>
void MatrixLevels<T>::finish_alone(std::size_t i) {
  counted(i, [&] { levels_[i]->finish_alone(); });
}

template <Scalar T>
void MatrixLevels<T>::sweep_last(bool from_zero) {
  MatrixLevel<T>& last = *levels_.back();
  if (options_.smoother == AmgSmoother::chebyshev) return last.smooth(last_sweeps_, from_zero, false);
  // Forward and back in turn: the same as its adjoint.
  for (int s = 0; s < last_sweeps_; ++s) last.smooth(1, from_zero && s == 0, s % 2 == 1);
}

template <Scalar T>
void MatrixLevels<T>::solve_last(bool from_zero, bool) {
  const Span span("bottom", "precond");
  const std::size_t i = levels_.size() - 1;
  ++work_[i].visits;
  counted(i, [&] {
    if (!bottom_) {
      done_.add({true, last_sweeps_, {}});
      return sweep_last(from_zero);
    }
    Vector &f = *levels_[i]->f, &u = *levels_[i]->u;
    layout::fill(u, T(0));
    const BottomOutcome outcome = bottom_->solve(f, u);
    done_.add(outcome);
    if (!outcome.solved) sweep_last(!std::isfinite(layout::max_norm(u)));
  });
}

#define TACIT_INSTANTIATE(T) template class MatrixLevels<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
