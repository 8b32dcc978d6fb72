// Cycle: the order in which multigrid, geometric or algebraic, visits its levels.
#pragma once

#include <tacit/base/names.hpp>

namespace tacit::precond {

enum class Cycle {
  /// Each coarser level once.
  v,
  /// Each coarser level twice.
  w,
  /// Full multigrid: from the coarsest level up, a V-cycle on each; solve() goes on with V-cycles.
  f,
  /// Each coarser level by one or two steps of flexible cg (Hermitian A) or gcr, preconditioned by its cycle: the
  /// second
  /// where the first left more than a quarter of the residual. Not a linear map. Notay, Vassilevski (2008), doi
  /// 10.1002/nla.542
  k,
  /// V with one sweep of a diagonal smoother, the smoothing of all levels at once: the transfers hold what one level's
  /// has
  /// to say to the next. Half the exchanges that wait for each other; the same result. Vassilevski, Yang (2014), doi
  /// 10.1002/nla.1928
  mult_additive,
  /// A V-cycle that ends where boxes have shrunk to `smallest_box` cells: no box moves to another rank.
  u
};

}  // namespace tacit::precond

template <>
inline constexpr auto tacit::names_of<tacit::precond::Cycle> =
    tacit::named<tacit::precond::Cycle>("cycle", {{tacit::precond::Cycle::v, "V"},
                                                  {tacit::precond::Cycle::w, "W"},
                                                  {tacit::precond::Cycle::f, "F"},
                                                  {tacit::precond::Cycle::k, "K"},
                                                  {tacit::precond::Cycle::mult_additive, "mult-additive"},
                                                  {tacit::precond::Cycle::u, "U"}});
