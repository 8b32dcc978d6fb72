// The candidates of auto: what is tried for a matrix, and in which order, as a table of rules over plain facts.
#pragma once

#include "krylov/plan/attempt.hpp"

#include <tacit/krylov/traits.hpp>
#include <tacit/precond/automatic.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tacit::precond {

/// What the choice of candidates depends on: a matrix in numbers that are the same on all ranks, and the method.
struct Facts {
  krylov::Method method = krylov::Method::automatic;  ///< of the user, or automatic
  Global n = 0, entries = 0;
  bool several_ranks = false;
  bool hermitian = false;
  bool one_sign = false;  ///< Hermitian, with a diagonal of one sign: A may be definite
  double zeros = 0;       ///< the share of zeros on the diagonal
  double spread = 1;      ///< the largest over the smallest magnitude of its other entries
  bool network = false;   ///< half of the rows have two or three entries

  bool any_method() const { return method == krylov::Method::automatic; }
  bool symmetric_only() const { return !any_method() && krylov::needs_hermitian(method); }
  /// The preconditioners are those of cg; also for minres: ic0 and ick of a matrix that is not definite are those of a
  /// shifted one, which suits it.
  bool as_cg() const {
    return (one_sign && (any_method() || symmetric_only())) ||
           (hermitian && krylov::traits_of(method).matrix == krylov::Traits::Matrix::hermitian);
  }
  /// Iterations still to come for which a candidate with factors is not given up.
  double patience() const { return std::clamp(2 * std::sqrt(double(n)), 200.0, 4000.0); }
  double entries_in_a_row() const { return double(entries) / double(std::max<Global>(n, 1)); }
};

/// What the attempts so far have shown of the matrix.
struct Shown {
  bool indefinite = false;             ///< cg has found A not to be definite
  bool has_factorised = false;         ///< complete factors were made
  bool aggregation_is_slow = false;    ///< amg converges, but slowly, though its levels are as they should be
  int full_without_use = 0;            ///< factors by threshold that had as many entries as they may and did not help
  std::function<bool()> aggregates{};  ///< whether smoothed aggregation suits A; collective at the first call
};

struct CandidateRule;

/// An attempt with a preconditioner.
struct Candidate : krylov::Attempt {
  /// What cg must not have found, or must have found, for the candidate to be of use.
  enum class Needs { anything, definite, indefinite };

  std::string precond = "none";
  Options options = {};
  Needs needs = Needs::anything;
  const CandidateRule* rule = nullptr;  ///< null: of a matrix that is at fault

  /// Whether what has been shown leaves it open. Collective as Shown::aggregates.
  bool is_open(const Shown& shown) const;
  /// amg by smoothed aggregation.
  bool is_aggregation() const { return precond == "amg" && !options.coarsening; }
  /// Whether both make the same preconditioner, for the same method.
  bool makes_the_same(const Candidate& other) const;
};

/// A condition on what has been shown.
struct Opening {
  const char* words = "";                 ///< "": none
  bool (*holds)(const Shown&) = nullptr;  ///< null: always
};

/// A row of the table.
struct CandidateRule {
  const char* what;  ///< method and preconditioner, in words
  const char* when;  ///< the condition on facts, in words
  const char* why;   ///< why it has this place
  bool (*holds)(const Facts&);
  Candidate (*make)(const Facts&);
  Opening open = {};
};

/// The rows, in the order in which candidates are tried. Local.
std::span<const CandidateRule> candidate_rules();

/// The candidates of the rules that hold, in their order: with the method that the user has named, and on several ranks
/// with factors of overlapping blocks. The last one has no preconditioner. Local.
std::vector<Candidate> candidates_for(const Facts& facts);

/// The options of a candidate that are set, "coarsening=hmis, ..". Local.
std::string options_of(const Candidate& candidate);

}  // namespace tacit::precond
