// Plan: what a solve tries, from its first method to its last fallback. The decisions are rules in a table (rules.cpp);
// here is where a solve stands among them.
#pragma once

#include "facts.hpp"

#include <tacit/krylov/outer.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tacit::krylov {

class Plan {
 public:
  /// `facts`: of the system, and the options. Warnings go to `warnings`.
  Plan(Facts facts, Executor& executor, std::vector<std::string>& warnings);

  /// The method that the solve begins with, from options, P and the diagonal; returns whether -A x = -b is solved.
  bool choose_method();
  /// Of a method that auto took: a pipelined or s-step variant where it is predicted to be clearly faster. Two products
  /// and two applies of P, once the scales are chosen.
  void choose_variant();
  /// Looks, early in the solve and after a quarter of its iterations, whether something better is to be tried: the run
  /// then ends as Outcome::slow. `window`: iterations without progress that end a run.
  void watch(Monitor& monitor, int window);
  /// What follows a run that has not reached the goal: the next attempt has been taken, or a verdict ends the solve.
  /// The recomputed residual of x has this norm, `before` the run.
  std::optional<Verdict> next(const Monitor& run, double before, double norm);

  /// The verdict where next() has found something to try, and the limit of iterations is reached.
  Verdict out_of_iterations() const;

  void set_goal(double b_norm, double goal) { facts_.b_norm = b_norm, facts_.goal = goal; }
  const Facts& facts() const { return facts_; }
  const Options& options() const { return facts_.options; }
  Method method() const { return facts_.now.method; }
  int restart() const { return facts_.now.restart; }

 private:
  bool is_wrong_matrix(double norm);
  bool take(Change change, Outcome outcome);
  Facts facts_;
  Executor& executor_;
  std::vector<std::string>& warnings_;
};

}  // namespace tacit::krylov
