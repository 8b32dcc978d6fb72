// The rules of a solve over plain facts: with which method it begins, what follows a run, and how it ends. No matrix.
#include "krylov/plan/plan.hpp"

#include <tacit/base/error.hpp>
#include <tacit/krylov/rules.hpp>
#include <tacit/krylov/solve.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using krylov::Attempt;
using krylov::Change;
using krylov::Facts;
using krylov::Method;
using krylov::Monitor;
using krylov::Options;
using krylov::Outcome;
using krylov::Reason;
using krylov::Side;

/// Makes the changes that it is allowed, once each but for cycles, and keeps what it was asked for.
class Carries final : public krylov::Executor {
 public:
  std::set<Change> allowed;
  int sign = 1;
  bool varies = false, is_wrong = false;
  std::vector<Change> asked, made;

  std::optional<std::string> take(const Attempt& attempt) override {
    asked.push_back(attempt.change);
    if (!allowed.count(attempt.change)) return {};
    if (attempt.change != Change::longer_cycles) allowed.erase(attempt.change);
    made.push_back(attempt.change);
    return "";
  }
  int sign_of_diagonal() override { return sign; }
  bool diagonal_varies() override { return varies; }
  bool is_far_from_hermitian() override { return is_wrong; }
  krylov::Prices prices() override { return {}; }
};

const std::set<Change> every_change = {Change::scaled_precond, Change::negated, Change::diagonal,     Change::weaker,
                                       Change::classical,      Change::gmres,   Change::longer_cycles};

Facts facts(Method method = Method::automatic) {
  Facts f;
  f.unknowns = 1000, f.epsilon = 2e-16, f.may_measure = false;
  f.b_norm = 1, f.goal = 1e-8;
  f.options.method = method;
  return f;
}

struct Begun {
  Method method;
  bool negated;
  std::optional<Side> side;
  std::size_t warnings;
  bool operator==(const Begun&) const = default;
};
Begun begin(const Facts& f, int sign = 1) {
  Carries executor;
  executor.sign = sign;
  std::vector<std::string> warnings;
  krylov::Plan plan(f, executor, warnings);
  const bool negated = plan.choose_method();
  return {plan.method(), negated, plan.options().side, warnings.size()};
}

TEST(Plan, BeginsWithTheMethodThatSuitsTheFacts) {
  Facts f = facts();
  EXPECT_EQ(begin(f), (Begun{Method::gmres, false, {}, 0}));
  f.hermitian = true;
  EXPECT_EQ(begin(f), (Begun{Method::cg, false, {}, 0}));
  EXPECT_EQ(begin(f, -1), (Begun{Method::cg, true, {}, 0}));
  EXPECT_EQ(begin(f, 0), (Begun{Method::gmres, false, {}, 0}));
  f.has_precond = true, f.options.side = Side::left;
  EXPECT_EQ(begin(f), (Begun{Method::gmres, false, Side::left, 0}));
  f = facts();
  f.has_precond = f.varies = true;
  EXPECT_EQ(begin(f), (Begun{Method::fgmres, false, {}, 0}));
  f.options.method = Method::gmres;
  EXPECT_EQ(begin(f), (Begun{Method::gmres, false, Side::flexible, 0}));
  f.options.side = Side::right;
  EXPECT_EQ(begin(f), (Begun{Method::gmres, false, Side::right, 1}));
}

/// A method that is named is taken; its traits decide on the sign, and on what is said of a P that changes.
TEST(Plan, BeginsWithEveryMethodThatIsNamed) {
  for (const auto& [method, name] : names_of<Method>.table) {
    if (method == Method::automatic) continue;
    Facts f = facts(method);
    EXPECT_EQ(begin(f), (Begun{method, false, {}, 0})) << name;
    EXPECT_EQ(begin(f, -1), (Begun{method, krylov::needs_definite(method), {}, 0})) << name;
    f.has_precond = true;
    EXPECT_EQ(begin(f, -1).negated, krylov::needs_hermitian(method)) << name;
    f.varies = true;
    using Varying = krylov::Traits::Varying;
    const Varying how = krylov::traits_of(method).varying;
    EXPECT_EQ(begin(f).warnings, how == Varying::exact || how == Varying::by_side ? 0u : 1u) << name;
  }
}

/// A run that has ended like this, after so many iterations, and its residual before and after.
struct Run {
  Outcome outcome;
  double before = 1, after = 1;
  int iterations = 0;
};

class Course {
 public:
  explicit Course(const Facts& f, std::set<Change> allowed = {}) : options_(f.options) {
    executor.allowed = std::move(allowed);
    plan.emplace(f, executor, warnings);
    plan->choose_method();
  }
  std::optional<krylov::Verdict> next(const Run& run) {
    Monitor monitor(comm::Communicator::self(), options_, 1, 1e-8, 1000, 500);
    monitor.begin(run.before);
    for (int k = 0; k <= run.iterations; ++k) monitor.go_on(run.before);
    monitor.end(run.outcome);
    const auto verdict = plan->next(monitor, run.before, run.after);
    return verdict;
  }
  Carries executor;
  std::vector<std::string> warnings;
  std::optional<krylov::Plan> plan;

 private:
  Options options_;
};

TEST(Plan, GoesOnAfterProgressAndEndsWithoutAny) {
  for (const auto& [method, name] : names_of<Method>.table)
    for (const auto& [outcome, how] : names_of<Outcome>.table) {
      const bool ends = outcome == Outcome::max_iterations || outcome == Outcome::stopped;
      Course fast(facts(method));
      const auto verdict = fast.next({outcome, 1, 1e-3, 10});
      EXPECT_EQ(verdict.has_value(), ends) << name << " after " << how;
      // Where nothing can be changed and nothing is gained, it ends, soon, with advice.
      if (outcome == Outcome::slow || outcome == Outcome::too_costly || outcome == Outcome::discarded) continue;
      Course slow(facts(method), {Change::longer_cycles});
      std::optional<krylov::Verdict> end;
      int runs = 0;
      while (!end && runs < 20) end = slow.next({outcome, 1, 1, 10}), ++runs;
      ASSERT_TRUE(end) << name << " after " << how;
      EXPECT_LE(runs, 3) << name << " after " << how;
      EXPECT_EQ(end->advice.empty(), outcome == Outcome::stopped) << name << " after " << how;
      EXPECT_NE(end->reason, Reason::converged);
    }
}

/// The order in which changes are tried: a badly scaled A would stop the classical method too, so the diagonal comes
/// before weaker forms, and these before the classical method.
TEST(Plan, TriesFallbacksInTheirOrder) {
  Course variant(facts(Method::pipelined_cg), every_change);
  for (int k = 0; k < 6; ++k) variant.next({Outcome::breakdown, 1, 1, 0});
  EXPECT_EQ(variant.executor.made, (std::vector{Change::scaled_precond, Change::negated, Change::diagonal,
                                                Change::weaker, Change::classical}));
  EXPECT_EQ(variant.plan->method(), Method::cg);

  Facts f = facts();
  f.hermitian = true;  // auto takes cg, and may leave it
  Course chosen(f, every_change);
  for (int k = 0; k < 6; ++k) chosen.next({Outcome::breakdown, 1, 1, 0});
  EXPECT_EQ(chosen.executor.made,
            (std::vector{Change::scaled_precond, Change::negated, Change::diagonal, Change::weaker, Change::gmres}));
  EXPECT_EQ(chosen.plan->method(), Method::gmres);

  f.options.fallbacks = false;
  f.options.method = Method::pipelined_cg;
  Course given(f, every_change);
  for (int k = 0; k < 6; ++k) given.next({Outcome::breakdown, 1, 1, 5});
  EXPECT_EQ(given.executor.made, (std::vector{Change::scaled_precond}));
  EXPECT_EQ(given.plan->method(), Method::pipelined_cg);
}

/// Each variant ends as its classical method; others stay what they are.
TEST(Plan, EveryVariantFallsBackToItsClassicalMethod) {
  for (const auto& [method, name] : names_of<Method>.table) {
    if (method == Method::automatic) continue;
    for (const Outcome outcome : {Outcome::no_progress, Outcome::slow, Outcome::diverged}) {
      Course course(facts(method), {Change::classical});
      course.next({outcome, 1, 1, 10});
      EXPECT_EQ(course.plan->method(), classical_of(method)) << name;
      EXPECT_EQ(course.warnings.size(), classical_of(method) == method ? 0u : 1u) << name;
    }
  }
}

TEST(Plan, LengthensCyclesThatAreSlow) {
  Course course(facts(Method::gmres), every_change);
  EXPECT_FALSE(course.next({Outcome::cycle_end, 1, 0.99, 30}));
  EXPECT_EQ(course.plan->restart(), 2 * krylov::default_restart);
  EXPECT_FALSE(course.next({Outcome::cycle_end, 0.99, 1e-7, 30}));
  EXPECT_EQ(course.plan->restart(), 2 * krylov::default_restart);  // fast enough
  Facts f = facts(Method::gmres);
  f.options.restart = 10;
  Course given(f, every_change);
  given.next({Outcome::cycle_end, 1, 0.99, 30});
  EXPECT_EQ(given.plan->restart(), 10);
}

TEST(Plan, EndsWhereTheMatrixIsNotWhatTheMethodNeeds) {
  Course course(facts(Method::minres));
  course.executor.is_wrong = true;
  const auto end = course.next({Outcome::no_progress, 1, 1, 10});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->reason, Reason::stagnated);
  EXPECT_NE(end->advice.find("gmres"), std::string::npos);
}

/// Every change stands behind a rule that some course of runs comes to.
TEST(Plan, EveryChangeIsReached) {
  std::set<Change> reached;
  for (const auto& [method, name] : names_of<Method>.table)
    for (const auto& [outcome, how] : names_of<Outcome>.table) {
      Facts f = facts(method);
      f.hermitian = true;
      Course course(f, every_change);
      for (int k = 0; k < 8; ++k)
        if (course.next({outcome, 1, 1, 0})) break;
      reached.insert(course.executor.made.begin(), course.executor.made.end());
    }
  EXPECT_EQ(reached, every_change);
}

TEST(Plan, TableHasWordsForEveryRule) {
  const auto rows = krylov::plan_rows();
  bool begins = true;
  std::set<std::string> outcomes;
  for (const auto& row : rows) {
    EXPECT_FALSE(row.when.empty() || row.then.empty()) << row.when << ": " << row.then;
    EXPECT_TRUE(begins || !row.after.empty()) << "a rule of the start after those of runs: " << row.when;
    begins = row.after.empty();
    outcomes.insert(row.after.begin(), row.after.end());
    EXPECT_NE(krylov::plan_table().find(row.when), std::string::npos);
  }
  EXPECT_EQ(outcomes.size(), names_of<Outcome>.table.size());
  EXPECT_EQ(rows.back().after.size(), outcomes.size());  // whatever has happened, something follows
}

}  // namespace
}  // namespace tacit::test
