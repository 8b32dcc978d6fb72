// Automatic: solves with a method and a preconditioner that it finds by trial, and keeps for the next right-hand side.
#pragma once

#include <tacit/krylov/columns.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/direct.hpp>
#include <tacit/precond/make.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tacit::precond {

/// A method with a preconditioner. `trial`: after so many iterations, and again whenever their number has doubled, the
/// iterations still to come are predicted from the last half of those done; above `patience`, and above those done, the
/// next candidate is tried.
struct Candidate {
  krylov::Method method = krylov::Method::automatic;
  std::string precond = "none";
  Options options;
  int trial = 0;  ///< 0: no limit
  double patience = 0;
  bool indefinite = false;  ///< tried only where cg has found A not to be definite
};

/// Solves A x = b where the user has named no preconditioner, and perhaps no method. The candidates begin with the
/// diagonal (cg, or bicgstab; none where it is even), go on with cheap factors and end with nearly complete ones: for a
/// Hermitian A whose diagonal has one sign cg with amg (from 4000 rows on, where couplings between unknowns of one kind
/// have the sign that the diagonal has not; where its aggregates converge slowly, with several unknowns in a node very
/// slowly, then by hmis), ic0 and ick, for others gmres with amg as above, with ilu0 (where at most a third of the
/// diagonal is zero), with ilut of smaller and smaller threshold, and between them idr with ilu0; then one without
/// preconditioner, and complete factors (direct; on one rank before a denser ilut too that may have as many entries,
/// after one that was full and of no use), where their symbolic count fits the free memory and their operations
/// take no longer than about a second, or than what the attempts before have taken. The last one has no preconditioner.
/// A Hermitian A that is not definite is given to minres before: at once where its diagonal has zeros or both signs
/// (with the magnitudes of the diagonal where these differ), and where cg breaks down, then with ick too. Where half of
/// the rows have two or three entries (networks), whose complete factors have few entries, gmres with ilut follows the
/// diagonal. Each starts from the best x so far. One that is predicted to need more than its patience is given up; if
/// all are, the one that is predicted to end first goes on. A candidate whose preconditioner cannot be made is left
/// out, with a warning. Several ranks: additive Schwarz over these factors, where the method allows it.
///
/// The first candidate that solves is kept with its preconditioner, and is the first for the next right-hand side. All
/// decisions depend on numbers that are the same on all ranks, and none on measured times. The limit of iterations,
/// also the default one, holds for all candidates together.
template <Scalar T>
class Automatic {
 public:
  /// Refers to A. Collective: one exchange, to find whether A is Hermitian.
  /// `method`: for all candidates, or automatic.
  explicit Automatic(const op::Csr<T, Host>& A, krylov::Method method = krylov::Method::automatic);

  /// As krylov::solve. The counts, iterations and seconds of the report are those of all candidates, its history too;
  /// method, precond, warnings, detail and advice those of the candidate that solved, or came nearest; `choice` says
  /// what was tried. Collective. Errors: those of krylov::solve.
  krylov::Report solve(const layout::Vector<T, Host>& b, layout::Vector<T, Host>& x, const krylov::Options& options,
                       const krylov::NullSpace<T, Host>* null_space = nullptr);

  /// As krylov::solve_columns. The first column chooses as solve() does; the others are solved together with the
  /// candidate that it kept, and those that this does not solve choose for themselves. Collective.
  krylov::ColumnReports solve_columns(const layout::Vector<T, Host>& B, layout::Vector<T, Host>& X,
                                      const krylov::Options& options,
                                      const krylov::NullSpace<T, Host>* null_space = nullptr);

  /// To be called after A has been given other values: looks at A again, and makes the preconditioner of the kept
  /// candidate anew at the next solve. Another candidate is tried only where this one is none any more, or does not
  /// solve. Collective.
  void refresh();

  /// The time that the last solve spent on preconditioners, the longest over ranks.
  double setup_seconds() const { return setup_seconds_; }
  /// In the order in which they are tried.
  const std::vector<Candidate>& candidates() const { return candidates_; }
  bool is_hermitian() const { return hermitian_; }

 private:
  class Attempts;
  class Columns;
  void look();
  /// The `block` of amg for A; 0 where smoothed aggregation does not suit it. Collective at the first call.
  int multigrid_block();
  /// Whether complete factors of A (of at most a million entries) fit the memory, have at most `fill` entries for one
  /// of A, and are worth their operations after so many products with A and with preconditioners. Keeps their analysis.
  /// Collective.
  bool can_factorise(double applies, std::optional<double> fill);
  std::unique_ptr<op::Operator<T, Host>> make_precond(const Candidate& c, const Options& options);
  const op::Csr<T, Host>& A_;
  krylov::Method method_;
  bool hermitian_ = false;
  std::optional<int> multigrid_block_;
  std::vector<Candidate> candidates_;
  int kept_ = -1;  ///< the candidate that solved last, and its preconditioner
  std::unique_ptr<op::Operator<T, Host>> kept_precond_;
  std::unique_ptr<DirectAnalysis<T>> analysis_;
  double setup_seconds_ = 0;
};

}  // namespace tacit::precond
