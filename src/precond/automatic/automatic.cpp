#include <tacit/precond/automatic.hpp>

#include "attempts.hpp"
#include "candidates.hpp"
#include "columns.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace tacit::precond {

using krylov::Method;
using krylov::Report;

namespace {

/// Error(usage): A is not square. Collective.
template <Scalar T>
Facts facts_of(const op::Csr<T, Host>& A, Method method) {
  const auto& comm = A.range().comm();
  require(A.range() == A.domain(), "solve needs a square matrix with rows and columns spread alike; this one is ",
          A.range().size(), " by ", A.domain().size());
  Facts f;
  f.method = method;
  f.n = A.range().size(), f.entries = A.entries();
  f.several_ranks = comm.size() > 1;
  f.hermitian = A.fault().empty() && op::is_hermitian(A);
  // Power grids, circuits and the like: half of the unknowns have at most two neighbours.
  Global chained = 0;
  for (const Local entries : A.row_lengths()) chained += entries == 2 || entries == 3;
  f.network = 2 * comm.all_sum(chained) >= f.n;
  const auto d = A.diagonal();
  const bool positive = comm.all(std::all_of(d.begin(), d.end(), [](T a) { return real(a) > 0; }));
  const bool negative = comm.all(std::all_of(d.begin(), d.end(), [](T a) { return real(a) < 0; }));
  f.one_sign = f.hermitian && (positive || negative);
  f.zeros = double(comm.all_sum(Global(std::count(d.begin(), d.end(), T(0))))) / double(std::max<Global>(f.n, 1));
  double smallest = never_ends, largest = 0;
  for (const T a : d)
    if (a != T(0)) smallest = std::min(smallest, double(std::abs(a))), largest = std::max(largest, double(std::abs(a)));
  f.spread = -comm.all_max(largest) / comm.all_max(-smallest);
  return f;
}

/// Smoothed aggregation is for matrices of elliptic equations: between unknowns of one kind nearly all couplings have
/// the sign that the diagonal has not. Where few rows have most of the entries (power-law graphs) coarse matrices fill:
/// A A has sum_i d_i^2 products, d_i the entries of rows. The `block` of amg, or 0 where it does not suit A.
/// Collective.
template <Scalar T>
int block_of_aggregates(const op::Csr<T, Host>& A) {
  double products = 0;
  for (const Local entries : A.row_lengths()) products += double(entries) * double(entries);
  const double even = double(A.entries()) * double(A.entries()) / double(std::max<Global>(A.range().size(), 1));
  if (A.range().comm().all_sum(products) > 4 * even) return 0;
  const int b = A.unknowns_in_a_node();
  const auto sums = A.couplings(b);  // of magnitudes: all, and those with the sign of the diagonal
  // Trilinear elements of an elastic body have 0.24 of the couplings with the diagonal's sign (cubes), 0.28 (1 : 4).
  return sums[1] < (b >= 3 ? 0.3 : 0.15) * sums[0] ? b : 0;
}

}  // namespace

template <Scalar T>
Automatic<T>::Automatic(const op::Csr<T, Host>& A, Method method) : A_(A), method_(method) {
  look();
}
template <Scalar T>
Automatic<T>::~Automatic() = default;

/// Looked at when the first solve comes to it.
template <Scalar T>
int Automatic<T>::multigrid_block() {
  if (!multigrid_block_) multigrid_block_ = block_of_aggregates(A_);
  return *multigrid_block_;
}

template <Scalar T>
bool Automatic<T>::can_factorise(double applies, std::optional<double> fill) {
  if (!analysis_) analysis_ = std::make_unique<DirectAnalysis<T>>(A_);
  const DirectCount& count = analysis_->count();
  // Dense blocks are multiplied five times as fast as entries that come from memory.
  constexpr double at_least = 2e10, faster = 5;
  const double spent = 2 * double(A_.entries()) * applies;
  // Twice the memory: pivots off the diagonal fill in more than was counted.
  return 2 * count.bytes <= count.free && (!fill || count.entries <= *fill * double(A_.entries())) &&
         count.flops <= std::max(at_least, faster * spent);
}

template <Scalar T>
std::unique_ptr<op::Operator<T, Host>> Automatic<T>::make_precond(const Candidate& c, const Options& options) {
  if (c.precond != "direct") return make<T, Host>(c.precond, A_, options);
  const auto analysis = std::move(analysis_);
  return std::make_unique<Direct<T>>(std::move(*analysis));
}

template <Scalar T>
void Automatic<T>::refresh() {
  const comm::Turn turn(A_.range().comm());  // another thread may be solving
  const Candidate before = kept_ >= 0 ? candidates_[std::size_t(kept_)] : Candidate{};
  look();
  multigrid_block_.reset();
  kept_precond_.reset();
  analysis_.reset();
  if (kept_ < 0) return;
  const auto again = std::find_if(candidates_.begin(), candidates_.end(),
                                  [&](const Candidate& c) { return c.makes_the_same(before); });
  kept_ = again == candidates_.end() ? -1 : int(again - candidates_.begin());
}

/// Makes the list of candidates.
template <Scalar T>
void Automatic<T>::look() {
  comm::collective(A_.range().comm(), [&] {
    const Facts facts = facts_of(A_, method_);
    hermitian_ = facts.hermitian;
    if (A_.fault().empty()) {
      candidates_ = candidates_for(facts);
    } else {  // the solve names the entry
      candidates_.assign(1, {});
      candidates_.front().method = method_;
    }
  });
}

template <Scalar T>
Report Automatic<T>::solve(const layout::Vector<T, Host>& b, layout::Vector<T, Host>& x, const krylov::Options& options,
                           const krylov::NullSpace<T, Host>* null_space) {
  return comm::collective(A_.range().comm(), [&] {
    require(b.space() == A_.range() && b.columns() == 1, "b has ", b.space().size(), " elements and ", b.columns(),
            " columns; the matrix has ", A_.range().size(), " rows");
    setup_seconds_ = 0;
    return Attempts(*this, b, x, options, null_space).run();
  });
}

template <Scalar T>
krylov::ColumnReports Automatic<T>::solve_columns(const layout::Vector<T, Host>& B, layout::Vector<T, Host>& X,
                                                  const krylov::Options& options,
                                                  const krylov::NullSpace<T, Host>* null_space) {
  return comm::collective(A_.range().comm(), [&] {
    require(B.space() == A_.range() && X.space() == A_.range() && B.columns() == X.columns(), "B has ",
            B.space().size(), " rows and ", B.columns(), " columns, X has ", X.columns(), " columns; the matrix has ",
            A_.range().size(), " rows");
    setup_seconds_ = 0;
    return Columns(*this, B, X, options, null_space).run();
  });
}

template <Scalar T>
CandidatePlan plan_candidates(const op::Csr<T, Host>& A, Method method, std::optional<int> ranks) {
  return comm::collective(A.range().comm(), [&] {
    Facts facts = facts_of(A, method);
    if (ranks) facts.several_ranks = *ranks > 1;
    CandidatePlan plan{facts.n,       facts.entries, facts.several_ranks, facts.hermitian, facts.one_sign,
                       facts.network, facts.zeros,   facts.spread,        A.fault(),       candidate_rows()};
    if (!plan.fault.empty()) return plan;
    std::optional<int> block;
    for (const Candidate& c : candidates_for(facts)) {
      auto& row = plan.rows[std::size_t(c.rule - candidate_rules().data())];
      row.holds = true;
      if (c.precond == "amg") row.holds = (block ? *block : *(block = block_of_aggregates(A))) > 0;
      if (!row.holds) continue;
      row.method = to_string(c.method), row.precond = c.precond, row.options = options_of(c);
      row.trial = c.trial.first, row.patience = c.trial.patience;
    }
    return plan;
  });
}

#define TACIT_INSTANTIATE(T)   \
  template class Automatic<T>; \
  template CandidatePlan plan_candidates(const op::Csr<T, Host>&, Method, std::optional<int>);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
