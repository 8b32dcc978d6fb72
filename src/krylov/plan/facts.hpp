// Facts: what the rules of a plan look at. Plain numbers, the same on all ranks.
#pragma once

#include "attempt.hpp"

#include <tacit/krylov/traits.hpp>
#include <tacit/op/noted.hpp>
#include "krylov/monitor.hpp"

#include <string>

namespace tacit::krylov {

struct Facts {
  // The system.
  Global unknowns = 0;
  double epsilon = 0;  ///< of the scalar
  int scalar_bytes = 8;
  bool hermitian = false;                    ///< A, as the caller says
  bool may_measure = true;                   ///< products may be timed, to choose a variant
  bool has_precond = false, varies = false;  ///< P; and it changes from call to call
  std::string precond;                       ///< its name
  const op::Noted* noted = nullptr;          ///< P where it has notes
  double b_norm = 0, goal = 0;               ///< once the scales are chosen
  // The solve so far.
  Options options;             ///< the user's; the first rules complete them
  Attempt now;                 ///< what is being tried
  bool is_auto = false;        ///< the method is auto's, and may be changed
  int idle = 0;                ///< runs in a row without progress
  bool not_hermitian = false;  ///< A, though the method needs that
  struct Failure {
    Outcome outcome{};
    std::string detail;
  } first;  ///< the first failure since the residual last fell, where there is one
  // The last run.
  const Monitor* run = nullptr;
  double norm = 0;  ///< of the recomputed residual of x
  double gain = 0;  ///< this over that before the run

  bool is_double() const { return epsilon < 1e-12; }
  const Traits& traits() const { return traits_of(now.method); }
  bool is_variant() const { return classical_of(now.method) != now.method; }
  /// The most vectors that a cycle may come to have.
  int longest_cycle() const;
};

}  // namespace tacit::krylov
