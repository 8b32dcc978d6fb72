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

struct Candidate;  // src/precond/automatic/candidates.hpp
struct Facts;

/// The candidates that auto tries, one a line, in their order: for which matrices, what it is, what attempts before
/// must have shown, and why it has this place. Local.
std::string candidate_table();

/// A row of that table, in words, and what becomes of it for a matrix.
struct PlannedCandidate {
  std::string what, when, tried_if, why;  ///< tried_if: what attempts before must have shown; "": nothing
  bool holds = false;                     ///< for this matrix; else the rest is empty
  std::string method, precond, options;   ///< options: "drop=0.001, .."
  int trial = 0;                          ///< iterations before it may be given up; 0: it is not
  double patience = 0;                    ///< iterations still to come for which it is not given up
};

/// What auto would do with a matrix, without a solve.
struct CandidatePlan {
  Global unknowns = 0, entries = 0;
  bool several_ranks = false, hermitian = false, one_sign = false, network = false;
  double zeros = 0, spread = 1;  ///< of the diagonal: the share of zeros; the largest over the smallest of the others
  std::string fault;             ///< what is not finite in A: then the solve only says so
  std::vector<PlannedCandidate> rows;
};

/// The rows of the table, without a matrix. Local.
std::vector<PlannedCandidate> candidate_rows();

/// `ranks`: as on so many ranks (absent: those of A). Collective: an exchange, some reductions, and for amg a pass over
/// A. Error(usage): A is not square.
template <Scalar T>
CandidatePlan plan_candidates(const op::Csr<T, Host>& A, krylov::Method method = krylov::Method::automatic,
                              std::optional<int> ranks = {});

/// Solves A x = b where the user has named no preconditioner, and perhaps no method: tries candidates, rows of
/// candidate_table() that hold for A, in their order. These begin with the diagonal, which costs nothing, go on with
/// multigrid and cheap factors where these suit A, and end with nearly complete and complete factors, and without a
/// preconditioner. Each starts from the best x so far. One that is predicted to need more than its patience is given
/// up; if all are, the one that is predicted to end first goes on. A candidate whose preconditioner cannot be made is
/// left out, with a warning.
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
  ~Automatic();

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
  /// Whether complete factors of A fit the memory, have at most `fill` entries for one of A, and are worth their
  /// operations after so many products with A and with preconditioners. Keeps their analysis. Collective.
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
