// The rules of a solve, in the order in which they are looked at: with which method it begins, and what follows a run
// that has not reached the goal.
#include "plan.hpp"
#include "verdicts.hpp"

#include <tacit/base/error.hpp>
#include <tacit/base/names.hpp>
#include <tacit/krylov/rules.hpp>
#include <tacit/krylov/solve.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tacit::krylov {

int Facts::longest_cycle() const {
  if (options.restart || !options.fallbacks) return options.restart.value_or(default_restart);
  return int(std::clamp<Global>(unknowns, default_restart, 4 * default_restart));
}

namespace {

using Varying = Traits::Varying;

// How a solve begins.

/// What the first rules look at and change.
struct Start {
  Facts& f;
  Executor& executor;
  std::vector<std::string>& warnings;
  bool negated = false;
  std::optional<int> known_sign{};

  Method method() const { return f.options.method; }
  bool no_side() const { return !f.options.side; }
  Side side() const { return f.options.side.value_or(Side::right); }
  int sign() { return known_sign ? *known_sign : *(known_sign = executor.sign_of_diagonal()); }
  void take(Method method) { f.now.method = method, f.is_auto = true; }
};

struct FirstRule {
  const char *when, *then;
  bool (*holds)(Start&);
  void (*apply)(Start&);
};

/// Methods that update x and r by the same vectors stay exact with a P that is not a linear map. GMRES returns P (V y)
/// after applying P to the columns of V, which is the same for a linear map only; variants obtain P times some vectors
/// by recurrences. MINRES stays exact, but its three-term recurrence is that of a linear map: it may stagnate.
void warn_of_varying(Start& s) {
  const Traits& t = traits_of(s.method());
  if (t.varying == Varying::exact || (t.varying == Varying::by_side && s.side() == Side::flexible)) return;
  if (t.varying == Varying::stagnates) {
    s.warnings.push_back(message(s.f.precond, " changes from call to call, and the recurrence of ",
                                 to_string(s.method()),
                                 " takes it for a linear map: it may stagnate; cg (for positive definite matrices) and "
                                 "fgmres do not"));
    return;
  }
  std::string who = to_string(s.method());
  if (takes(s.method(), "side")) who += message(" with side ", to_string(s.side()));
  s.warnings.push_back(message(s.f.precond, " changes from call to call, and ", who,
                               " takes it for a linear map: the residual that it predicts is not that of x, and it may "
                               "stagnate; fgmres (the same as gmres with side flexible) and bicgstab stay exact"));
}

bool is_auto(const Start& s) {
  return s.method() == Method::automatic;
}

/// A variant is taken for at most this share of the classical method's time.
constexpr double variant_margin = 0.8;

/// Of a long vector; short ones stay in the caches, where the classical methods are at their best.
bool may_take_variant(const Facts& f) {
  constexpr Global least_size = 200000;
  return f.is_auto && f.may_measure && f.unknowns >= least_size * Global(sizeof(double)) / f.scalar_bytes &&
         f.options.side != Side::flexible &&
         f.options.orthogonalisation.value_or(Orthogonalisation::automatic) == Orthogonalisation::automatic;
}

const FirstRule first_rules[] = {
    {"auto; P changes from call to call; no side is given", "fgmres",
     [](Start& s) { return s.f.varies && is_auto(s) && s.no_side(); },
     [](Start& s) { s.f.options.method = Method::fgmres; }},
    {"gmres; P changes from call to call; no side is given", "side flexible",
     [](Start& s) { return s.f.varies && traits_of(s.method()).varying == Varying::by_side && s.no_side(); },
     [](Start& s) { s.f.options.side = Side::flexible; }},
    {"P changes from call to call; the method takes it for a linear map", "a warning",
     [](Start& s) { return s.f.varies; }, warn_of_varying},
    {"auto; A is Hermitian, its diagonal has one sign; P, if any, from the right", "cg",
     [](Start& s) {  // only gmres has other sides
       return is_auto(s) && s.f.hermitian && (!s.f.has_precond || s.side() == Side::right) && s.sign() != 0;
     },
     [](Start& s) { s.take(Method::cg); }},
    {"auto; none of these", "gmres", [](Start& s) { return is_auto(s) && !s.f.is_auto; },
     [](Start& s) { s.take(Method::gmres); }},
    {"the method needs a definite A or P; the diagonal is negative", "-A x = -b",
     [](Start& s) {
       const Method m = s.f.now.method;
       return (needs_definite(m) || (needs_hermitian(m) && s.f.has_precond)) && s.sign() < 0;
     },
     [](Start& s) { s.negated = true; }},
};

// What follows a run.

using Outcomes = unsigned;
constexpr Outcomes of(Outcome o) {
  return 1u << unsigned(o);
}
constexpr Outcomes has_failed = of(Outcome::breakdown) | of(Outcome::diverged) | of(Outcome::non_finite);
constexpr Outcomes gave_way = of(Outcome::slow) | of(Outcome::too_costly) | of(Outcome::discarded);
constexpr Outcomes unproven = of(Outcome::at_goal) | of(Outcome::no_progress);
constexpr Outcomes cycle = of(Outcome::cycle_end);
constexpr Outcomes may_go_on = gave_way | unproven | cycle | of(Outcome::breakdown) | of(Outcome::diverged);
constexpr Outcomes all = ~0u;

bool always(const Facts&) {
  return true;
}
/// The projected problem of gmres and b - A x part where the basis has lost its orthogonality.
bool have_parted(const Facts& f) {
  return f.traits().cycles && !f.is_variant() && f.norm > 1e3 * f.run->norm();
}
/// Whether another run of the kind would bring nothing.
bool is_stuck(const Facts& f) {
  const Outcome outcome = f.run->outcome();
  // After progress a breakdown is a reason to start anew from here; without progress it ends the solve.
  if (of(outcome) & has_failed) return f.gain > 0.9;
  if (outcome == Outcome::no_progress) return f.idle >= 2 || f.gain > 0.5;
  if (outcome == Outcome::at_goal) return f.idle >= 2 || have_parted(f);
  return outcome == Outcome::cycle_end ? f.idle >= 3 : true;
}
bool may_fall_back(const Facts& f) {
  return is_stuck(f) && f.options.fallbacks;
}
/// Methods with parameters of P A keep their P; so does one for which P is A^-1. Others give the same iterates.
bool may_scale_precond(const Facts& f) {
  const bool sees_size = f.traits().needs_factors || f.traits().parameters == Traits::Parameters::given ||
                         f.options.lambda_min || f.options.lambda_max;
  return is_stuck(f) && !sees_size;
}
/// Whether these cycles would not reach the goal within the iterations that are left.
bool cycles_are_short(const Facts& f) {
  if (f.now.restart >= f.longest_cycle()) return false;
  const double wanted = f.gain < 1 ? std::log(f.goal / f.norm) / std::log(f.gain) * f.now.restart
                                   : std::numeric_limits<double>::infinity();
  return !(f.goal > 0 && wanted < f.run->max_iterations() - f.run->iterations());
}

}  // namespace

struct Rule {
  Outcomes after;
  const char *when, *then;
  bool (*holds)(const Facts&);
  Change change = Change::none;
  Verdict (*ends)(const Facts&) = nullptr;  // in place of an attempt
};

namespace {

// Diagonal scaling comes first of the fallbacks: a badly scaled A would stop the classical method too. A variant takes
// its own weaker forms, then the classical method from the best iterate.
const Rule rules[] = {
    {of(Outcome::max_iterations), "always", "it ends: max_iterations", always, Change::none, too_few_iterations},
    {of(Outcome::stopped), "always", "it ends: stopped", always, Change::none, stopped},
    {gave_way | of(Outcome::no_progress), "the method needs a Hermitian A, and (A b, A b) is not (A A b, b)",
     "it ends: stagnated", [](const Facts& f) { return f.not_hermitian; }, Change::none, not_hermitian},
    {has_failed | unproven | cycle, "stuck; P makes vectors far longer or shorter; the method has no parameters of P A",
     "P times a power of two", may_scale_precond, Change::scaled_precond},
    {of(Outcome::breakdown), "stuck; cg in its first iteration; A does not know its diagonal, (r, A r) < 0",
     "-A x = -b", [](const Facts& f) { return is_stuck(f) && is_cg(f.now.method) && f.run->iterations() == 0; },
     Change::negated},
    {may_go_on, "stuck; fallbacks; there is no P, and the diagonal varies by a factor above 4",
     "the inverse diagonal as P", may_fall_back, Change::diagonal},
    {may_go_on, "stuck; fallbacks; not a variant that is slow", "the next weaker form of the method, if it has one",
     [](const Facts& f) { return may_fall_back(f) && (!f.is_variant() || f.run->outcome() != Outcome::slow); },
     Change::weaker},
    {may_go_on, "stuck; fallbacks; a pipelined or s-step variant", "its classical method",
     [](const Facts& f) { return may_fall_back(f) && f.is_variant(); }, Change::classical},
    {of(Outcome::breakdown), "stuck; auto took a method without cycles", "gmres",
     [](const Facts& f) { return is_stuck(f) && f.is_auto && (!f.traits().cycles || f.is_variant()); }, Change::gmres},
    {has_failed, "stuck", "it ends: breakdown, diverged or non_finite", is_stuck, Change::none, failed},
    {unproven, "two runs in a row without progress; the factors of a direct solve are in doubt", "it ends: breakdown",
     [](const Facts& f) { return f.idle >= 2 && f.traits().needs_factors && f.noted && f.noted->is_doubtful(); },
     Change::none, doubtful_factors},
    {unproven, "two runs in a row without progress", "it ends: stagnated", [](const Facts& f) { return f.idle >= 2; },
     Change::none, stagnated},
    {cycle, "such cycles would not reach the goal in the iterations that are left; no restart is given",
     "cycles twice as long (and the next rule)", cycles_are_short, Change::longer_cycles},
    {cycle, "three cycles in a row without progress, of the longest kind", "it ends: stagnated",
     [](const Facts& f) { return f.idle >= 3 && f.now.restart == f.longest_cycle(); }, Change::none, cycles_stagnated},
    {all, "none of these", "the same again, from the recomputed residual", always},
};

/// Why a fallback is taken.
std::string reason(const Monitor& run) {
  if (!run.detail().empty()) return run.detail();
  const char* const what = run.outcome() == Outcome::slow         ? "slow up to iteration "
                           : run.outcome() == Outcome::too_costly ? "its basis had lost too many digits by iteration "
                                                                  : "no progress in iteration ";
  return message(what, run.iterations());
}

/// The warning that names an attempt after a run of `before`; `more` is what the executor adds.
std::string warning_of(Method before, const Attempt& attempt, const Monitor& run, const std::string& more) {
  const auto no_further = [&](const auto&... then) {
    return message(to_string(before), " got no further (", reason(run), "); ", then..., more);
  };
  switch (attempt.change) {
    case Change::diagonal:
      return no_further("it went on with the inverse diagonal as preconditioner");
    case Change::classical:
      return no_further(to_string(attempt.method), " went on from there");
    case Change::weaker:
      return no_further();
    case Change::gmres:
      return message(to_string(before), " broke down (", run.detail(), "); gmres went on from there", more);
    case Change::longer_cycles:
      return message(to_string(before), " was slow; from iteration ", run.iterations(), " its cycles are of ",
                     attempt.restart, " vectors", more);
    default:
      return more;
  }
}

}  // namespace

Plan::Plan(Facts facts, Executor& executor, std::vector<std::string>& warnings)
    : facts_(std::move(facts)), executor_(executor), warnings_(warnings) {
  facts_.now.restart = facts_.options.restart.value_or(default_restart);
}

bool Plan::choose_method() {
  Start s{facts_, executor_, warnings_};
  for (const FirstRule& rule : first_rules) {
    facts_.now.method = facts_.is_auto ? facts_.now.method : facts_.options.method;
    if (rule.holds(s)) rule.apply(s);
  }
  return s.negated;
}

void Plan::choose_variant() {
  if (!may_take_variant(facts_)) return;
  Prices prices = executor_.prices();
  prices.restart = facts_.now.restart;
  std::string why;
  facts_.now.method = cheapest(priced_like(facts_.now.method), prices, variant_margin, why);
  if (!why.empty()) warnings_.push_back("auto took " + why);
}

void Plan::watch(Monitor& monitor, int window) {
  if (!facts_.options.fallbacks) return;
  monitor.check_at(100, [&, this, window] {
    // This multiplies by A, which cg and its variants allow here: at most reductions are in flight.
    if (facts_.options.engine != Engine::tasks && is_wrong_matrix(monitor.norm())) return true;
    // A quarter of the iterations is a fair trial for the method as it stands. (Starting bicgstab anew costs little; cg
    // would lose what it has learnt.)
    monitor.check_at(std::max(window, monitor.max_iterations() / 4),
                     [this] { return executor_.diagonal_varies() || facts_.traits().gives_way; });
    return false;
  });
}

/// Whether A, given to a method for Hermitian matrices, is none, where the residual is still at `norm`. Two products.
bool Plan::is_wrong_matrix(double norm) {
  const bool may_be = !facts_.hermitian && needs_hermitian(facts_.now.method) && norm > 0.1 * facts_.b_norm;
  return facts_.not_hermitian = may_be && executor_.is_far_from_hermitian();
}

std::optional<Verdict> Plan::next(const Monitor& run, double before, double norm) {
  facts_.run = &run;
  facts_.norm = norm;
  facts_.gain = norm / before;
  if (facts_.gain <= 0.9) facts_.first = {};
  const Outcome outcome = run.outcome();
  if (of(outcome) & unproven) facts_.idle = facts_.gain > 0.5 ? facts_.idle + 1 : 0;
  if (outcome == Outcome::cycle_end) facts_.idle = facts_.gain > 1 - 1e-6 ? facts_.idle + 1 : 0;
  if (outcome == Outcome::no_progress && facts_.options.fallbacks) is_wrong_matrix(norm);
  for (const Rule& rule : rules) {
    if (!(rule.after & of(outcome)) || !rule.holds(facts_)) continue;
    if (rule.ends) return rule.ends(facts_);
    const bool taken = take(rule.change, outcome);
    if (taken && rule.change != Change::longer_cycles) break;
  }
  if (of(outcome) & gave_way) facts_.idle = 0;
  return {};
}

Verdict Plan::out_of_iterations() const {
  return too_few_iterations(facts_);
}

bool Plan::take(Change change, Outcome outcome) {
  if (change == Change::none) return true;
  Attempt attempt{facts_.now.method, facts_.now.restart, change};
  if (change == Change::classical) attempt.method = classical_of(facts_.now.method);
  if (change == Change::gmres) attempt.method = Method::gmres;
  if (change == Change::longer_cycles) attempt.restart = std::min(2 * facts_.now.restart, facts_.longest_cycle());
  const auto done = executor_.take(attempt);
  if (!done) return false;
  if (auto text = warning_of(facts_.now.method, attempt, *facts_.run, *done); !text.empty())
    warnings_.push_back(std::move(text));
  if (change == Change::weaker && !facts_.is_variant() && facts_.first.detail.empty())
    facts_.first = {outcome, facts_.run->detail()};
  facts_.now = attempt;
  const bool is_fallback = change != Change::negated && change != Change::longer_cycles;
  if (is_fallback && !(of(outcome) & has_failed)) facts_.idle = 0;
  return true;
}

std::vector<PlanRow> plan_rows() {
  std::vector<PlanRow> rows;
  for (const FirstRule& rule : first_rules) rows.push_back({{}, rule.when, rule.then});
  rows.push_back({{},
                  "auto took the method; host memory, from 200,000 unknowns of float64 on",
                  message("the pipelined or s-step variant that is predicted to take less than ", variant_margin,
                          " of the time")});
  for (const Rule& rule : rules) {
    PlanRow row{{}, rule.when, rule.then};
    for (const auto& [outcome, name] : names_of<Outcome>.table)
      if (rule.after & of(outcome)) row.after.emplace_back(name);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string plan_table() {
  std::string text = "A solve begins with the method that is named; every rule here that holds is followed:\n";
  bool begins = true;
  for (const PlanRow& row : plan_rows()) {
    std::string after;
    for (const auto& name : row.after) after += (after.empty() ? "" : ", ") + name;
    if (row.after.size() == names_of<Outcome>.table.size()) after = "any";
    if (begins && !after.empty()) text += "After a run that has not reached the goal, the first rule that holds:\n";
    begins = after.empty();
    text += message("  ", begins ? "" : message("after ", after, "; "), row.when, ": ", row.then, "\n");
  }
  return text;
}

}  // namespace tacit::krylov
