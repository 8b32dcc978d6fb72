#include "candidates.hpp"

#include <tacit/base/error.hpp>
#include <tacit/layout/ordering.hpp>
#include <tacit/layout/partitioners.hpp>
#include <tacit/precond/direct.hpp>

#include <string_view>
#include <utility>

namespace tacit::precond {
namespace {

using krylov::Method;
using krylov::Traits;
using Needs = Candidate::Needs;

Candidate with(Method method, const char* precond, int trial, double patience, Options options = {},
               Needs needs = Needs::anything) {
  Candidate c;
  c.method = method;
  c.trial = {trial, patience};
  c.precond = precond;
  c.options = std::move(options);
  c.needs = needs;
  return c;
}

// What candidates are made of.

/// Factors by threshold, of at most about 2 GB.
Candidate by_threshold(const Facts& f, double drop, double fill, int trial) {
  const double room = 1.5e8 / double(std::max<Global>(f.entries, 1));
  Options o;
  o.drop = drop;
  o.fill = std::clamp(std::min(fill, room), 1.0, fill);
  o.ordering = layout::amd_built()     ? BlockOrder::minimum_degree
               : layout::metis_built() ? BlockOrder::dissection
                                       : BlockOrder::rcm;
  return with(Method::gmres, "ilut", trial, f.patience(), o);
}

/// Complete factors, with a limit of entries for one of A or without.
Candidate complete(std::optional<double> fill) {
  Options o;
  o.fill = fill;
  return with(Method::direct, "direct", 0, 0, o);
}

Options two_levels() {
  Options o;
  o.levels = 2;
  o.ordering = BlockOrder::rcm;
  return o;
}

/// Factors by threshold have to be nearly complete where A is not definite: their cost in products grows with the
/// entries in a row, and with the bandwidth.
double patience_of_minres(const Facts& f) {
  return std::clamp(f.entries_in_a_row() * std::sqrt(double(f.n)), 300.0, 4000.0);
}
Candidate minres(const Facts& f, Needs needs) {
  const bool uneven = f.spread > 10;
  Options o;
  if (uneven) o.absolute = true;
  return with(Method::minres, uneven ? "jacobi" : "none", 100, patience_of_minres(f), o, needs);
}

Candidate diagonal(const Facts& f) {
  const bool even = f.spread <= 2;
  Options o;
  if (!even && krylov::traits_of(f.method).matrix == Traits::Matrix::hermitian && !f.one_sign) o.absolute = true;
  const int trial = f.n < 64 ? 40 : f.as_cg() ? 16 : 8;
  return with(f.as_cg() ? Method::cg : Method::bicgstab, even ? "none" : "jacobi", trial, f.as_cg() ? 150 : 120, o);
}

Candidate multigrid(const Facts& f, int trial, double patience, Options options = {}) {
  return with(f.as_cg() ? Method::cg : Method::gmres, "amg", trial, patience, std::move(options));
}

/// The residual of cg may rise long before it falls.
int trial_of_factors(const Facts& f) {
  return int(std::clamp(std::sqrt(double(f.n)) / 2, 60.0, 1000.0));
}

// Conditions that several rows have.

bool indefinite_by_diagonal(const Facts& f) {
  return f.any_method() && f.hermitian && !f.one_sign;
}
bool may_take_multigrid(const Facts& f) {
  return f.n >= 4000 && f.entries >= 3 * f.n && f.zeros == 0 && (f.as_cg() ? f.one_sign : !f.symmetric_only());
}
bool may_turn_indefinite(const Facts& f) {
  return f.as_cg() && f.any_method();
}
bool may_factorise(const Facts& f) {
  // The order of larger graphs without structure takes many seconds.
  constexpr Global most_entries = 1000000;
  return f.any_method() && direct_built() && f.entries <= most_entries;
}
bool may_factorise_early(const Facts& f) {
  return may_factorise(f) && !f.several_ranks;
}
bool takes_any_matrix(const Facts& f) {
  return !f.symmetric_only();
}

bool is_other_than_cg(const Facts& f) {
  return takes_any_matrix(f) && !f.as_cg();
}

// What has to be shown first, or must not have been.

constexpr Opening threshold{"at most one ilut was full and of no use",
                            [](const Shown& s) { return s.full_without_use <= 1; }};
constexpr Opening aggregates{"couplings have the sign that the diagonal has not, and rows are even",
                             [](const Shown& s) { return s.aggregates(); }};
constexpr Opening slow_aggregates{"amg by aggregates was slow",
                                  [](const Shown& s) { return s.aggregation_is_slow && s.aggregates(); }};
constexpr Opening early_factors{
    "an ilut was full and of no use; complete factors fit the memory and about a second, or the time so far",
    [](const Shown& s) { return !s.has_factorised && s.full_without_use > 0; }};
constexpr Opening factors{
    "complete factors were not made yet; they fit the memory and about a second, or the time so far",
    [](const Shown& s) { return !s.has_factorised; }};
constexpr Opening after_cg{"cg has found A not to be definite"};

// The rows, in four parts; candidate_rules() joins them.

const CandidateRule diagonal_and_multigrid[] = {
    {.what = "minres, with the magnitudes of the diagonal where it is uneven",
     .when = "any method; A is Hermitian, its diagonal has zeros or both signs",
     .why = "an iteration is a product and little more; factors would have to be nearly complete",
     .holds = indefinite_by_diagonal,
     .make = [](const Facts& f) { return minres(f, Needs::anything); }},
    {.what = "cg or bicgstab, with the diagonal where it is uneven",
     .when = "the diagonal has no zeros; not after the row before",
     .why = "the diagonal costs nothing to invert, factors as much as 100 to 200 of these iterations",
     .holds = [](const Facts& f) { return !indefinite_by_diagonal(f) && f.zeros == 0; },
     .make = diagonal},
    {.what = "gmres with ilut, drop 1e-3, after 20 iterations",
     .when = "half of the rows have two or three entries (networks)",
     .why = "nearly complete factors of a network have few entries: they cost less than a trial of others",
     .holds = [](const Facts& f) { return f.network && takes_any_matrix(f); },
     .make = [](const Facts& f) { return by_threshold(f, 1e-3, 10, 20); },
     .open = threshold},
    {.what = "cg or gmres, with amg",
     .when = "from 4000 rows of 3 entries in the mean on; the diagonal has no zeros, and for cg one sign",
     .why = "where it suits the matrix, its few iterations are worth a set-up of 100 to 300 products",
     .holds = may_take_multigrid,
     .make = [](const Facts& f) { return multigrid(f, 30, 100); },
     .open = aggregates},
    {.what = "cg or gmres, with amg by hmis",
     .when = "as for amg",
     .why = "twice the set-up; a half to a tenth of the iterations where couplings are anisotropic or of all sizes",
     .holds = may_take_multigrid,
     .make =
         [](const Facts& f) {
           Options classical;
           classical.coarsening = AmgCoarsening::hmis;
           return multigrid(f, 20, 60, classical);
         },
     .open = slow_aggregates},
};

const CandidateRule factors_of_cg[] = {
    {.what = "cg with ic0; from 100,000 rows on a variant of cg that is predicted to be faster",
     .when = "A is Hermitian, its diagonal has one sign (with minres: A is Hermitian)",
     .why = "variants pay for long vectors only; of shorter ones the end of cg shows that A is indefinite",
     .holds = [](const Facts& f) { return f.as_cg(); },
     .make =
         [](const Facts& f) {
           return with(f.n < 100000 ? Method::cg : Method::automatic, "ic0", trial_of_factors(f), f.patience());
         }},
    {.what = "cg with ick, two levels, in the order of rcm",
     .when = "as for ic0",
     .why = "more entries, fewer iterations",
     .holds = [](const Facts& f) { return f.as_cg(); },
     .make = [](const Facts& f) { return with(Method::cg, "ick", trial_of_factors(f), f.patience(), two_levels()); }},
    {.what = "minres, with the magnitudes of the diagonal where it is uneven",
     .when = "any method; as for ic0",
     .why = "an iteration is a product and little more",
     .holds = may_turn_indefinite,
     .make = [](const Facts& f) { return minres(f, Needs::indefinite); },
     .open = after_cg},
    {.what = "minres with ick, two levels, in the order of rcm",
     .when = "any method; as for ic0",
     .why = "few eigenvalues may have the other sign: the factors then help as they help cg",
     .holds = may_turn_indefinite,
     .make =
         [](const Facts& f) {
           return with(Method::minres, "ick", 100, patience_of_minres(f), two_levels(), Needs::indefinite);
         },
     .open = after_cg},
};

const CandidateRule factors_of_any_matrix[] = {
    {.what = "gmres with ilu0",
     .when = "not with cg; at most a third of the diagonal is zero",
     .why = "cheap; where few constraints come after what they constrain, fill replaces zeros",
     .holds = [](const Facts& f) { return is_other_than_cg(f) && f.zeros <= 1.0 / 3; },
     .make = [](const Facts&) { return with(Method::gmres, "ilu0", 20, 100); }},
    {.what = "gmres with ilut, drop 1e-3",
     .when = "no network",
     .why = "the cheapest of factors by threshold",
     .holds = [](const Facts& f) { return takes_any_matrix(f) && !f.network; },
     .make = [](const Facts& f) { return by_threshold(f, 1e-3, 10, 60); },
     .open = threshold},
    {.what = "idr with ilu0",
     .when = "any method, but not with cg; the diagonal has no zeros",
     .why = "short recurrences go on where the cycles of gmres stagnate",
     .holds = [](const Facts& f) { return f.any_method() && !f.as_cg() && f.zeros == 0; },
     .make = [](const Facts& f) { return with(Method::idr, "ilu0", 60, f.patience()); }},
    {.what = "direct, of at most 40 entries for one of A",
     .when = "any method; one rank; at most a million entries",
     .why = "no denser than the ilut that follows, and dense blocks are multiplied faster",
     .holds = may_factorise_early,
     .make = [](const Facts&) { return complete(40); },
     .open = early_factors},
    {.what = "gmres with ilut, drop 1e-5, up to 40 entries for one of A",
     .when = "a method for any A",
     .why = "denser factors, fewer iterations",
     .holds = takes_any_matrix,
     .make = [](const Facts& f) { return by_threshold(f, 1e-5, 40, 60); },
     .open = threshold},
    {.what = "direct, of at most 200 entries for one of A",
     .when = "any method; one rank; at most a million entries",
     .why = "no denser than the ilut that follows",
     .holds = may_factorise_early,
     .make = [](const Facts&) { return complete(200); },
     .open = early_factors},
    {.what = "gmres with ilut, drop 1e-9, up to 200 entries for one of A",
     .when = "a method for any A",
     .why = "nearly complete factors",
     .holds = takes_any_matrix,
     .make = [](const Facts& f) { return by_threshold(f, 1e-9, 200, 60); },
     .open = threshold},
};

const CandidateRule last_ones[] = {
    {.what = "idr",
     .when = "any method; A is not Hermitian with a diagonal of one sign",
     .why = "factors may be what stands in the way",
     .holds = [](const Facts& f) { return f.any_method() && !f.one_sign; },
     .make = [](const Facts& f) { return with(Method::idr, "none", 200, f.patience()); }},
    {.what = "direct",
     .when = "any method; at most a million entries",
     .why = "it solves what no other candidate has solved",
     .holds = may_factorise,
     .make = [](const Facts&) { return complete({}); },
     .open = factors},
    {.what = "auto without preconditioner",
     .when = "always",
     .why = "a failure is then explained by the system, and not by a preconditioner",
     .holds = [](const Facts&) { return true; },
     .make = [](const Facts& f) { return with(Method::automatic, "none", 200, f.patience()); }},
};

/// The candidate of a rule as it is tried: the user's method in place of its own, factors of overlapping blocks on
/// several ranks (for methods that need no symmetry), and what follows from both.
Candidate completed(Candidate c, const CandidateRule& rule, const Facts& f) {
  c.rule = &rule;
  if (!f.any_method()) c.method = f.method;
  const std::string_view named = c.precond;
  const bool has_local_factors = named != "none" && named != "jacobi" && named != "amg" && named != "direct";
  if (f.several_ranks && !f.as_cg() && has_local_factors) {
    c.options.solver = value_of<Kind>(c.precond);
    c.options.overlap = c.options.solver == Kind::ilu0 ? 1 : 2;
    c.precond = "schwarz";
  }
  // Also of what a solve takes for ic0 itself: cg, or a variant of it.
  const bool is_chosen_for_ic0 = c.method == Method::automatic && c.precond == "ic0";
  if (c.needs == Needs::anything && (c.method == Method::cg || is_chosen_for_ic0)) c.needs = Needs::definite;
  if (c.method == Method::gmres && c.trial.first > 0 && f.n < 200000) c.restart = 2 * krylov::default_restart;
  // Without factors, and with cg, residuals rest at times.
  c.trial.rests = c.precond == "none" || c.precond == "jacobi" || c.method == Method::cg;
  return c;
}

}  // namespace

bool Candidate::is_open(const Shown& shown) const {
  if (needs != Needs::anything && shown.indefinite != (needs == Needs::indefinite)) return false;
  return !rule || !rule->open.holds || rule->open.holds(shown);
}

bool Candidate::makes_the_same(const Candidate& other) const {
  const Options &a = options, &b = other.options;
  return method == other.method && precond == other.precond && a.drop == b.drop && a.fill == b.fill &&
         a.levels == b.levels && a.solver == b.solver && a.coarsening == b.coarsening;
}

std::span<const CandidateRule> candidate_rules() {
  static const auto all = [] {
    std::vector<CandidateRule> joined;
    using Rules = std::span<const CandidateRule>;
    for (const Rules part :
         {Rules(diagonal_and_multigrid), Rules(factors_of_cg), Rules(factors_of_any_matrix), Rules(last_ones)})
      joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }();
  return all;
}

std::vector<Candidate> candidates_for(const Facts& facts) {
  std::vector<Candidate> all;
  for (const CandidateRule& rule : candidate_rules())
    if (rule.holds(facts)) all.push_back(completed(rule.make(facts), rule, facts));
  return all;
}

std::string options_of(const Candidate& candidate) {
  const Options defaults;
  std::string all;
  for (const auto& o : options())
    if (const auto value = o.get(candidate.options); value != o.get(defaults))
      all += message(all.empty() ? "" : ", ", o.name, "=", text_of(value));
  return all;
}

std::vector<PlannedCandidate> candidate_rows() {
  std::vector<PlannedCandidate> rows;
  for (const CandidateRule& rule : candidate_rules()) {
    PlannedCandidate row;
    row.what = rule.what, row.when = rule.when, row.tried_if = rule.open.words, row.why = rule.why;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string candidate_table() {
  std::string text =
      "auto without a preconditioner, or with precond \"auto\": the candidates whose condition holds, in this order.\n"
      "Each starts from the best x so far. On several ranks factors are those of overlapping blocks (schwarz).\n";
  for (const CandidateRule& rule : candidate_rules()) {
    text += message("  ", rule.when, ": ", rule.what);
    if (*rule.open.words) text += message("; tried only if ", rule.open.words);
    text += message(" (", rule.why, ")\n");
  }
  return text;
}

}  // namespace tacit::precond
