// The rules of a solve in words: with which method it begins, and what follows a run that has not reached the goal.
#pragma once

#include <string>
#include <vector>

namespace tacit::krylov {

/// A rule by which a solve begins or continues.
struct PlanRow {
  std::vector<std::string> after;  ///< outcomes of a run; empty: of the start of a solve
  std::string when, then;          ///< the condition; what is tried, or how the solve ends
};

/// The rules, in the order in which they are looked at. Local.
std::vector<PlanRow> plan_rows();
/// The same, one a line. Local.
std::string plan_table();

}  // namespace tacit::krylov
