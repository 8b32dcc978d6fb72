// diagnose(): looks into the cause of a failed solve, once, when it has ended. Instantiated in files of its own.
#pragma once

#include "case.hpp"

namespace tacit::krylov {

/// Completes detail and advice of the report by products of its own, within an allowance where Options::explain is
/// absent; none where the limit of iterations has cut the solve off early. Takes the time that this takes. Collective.
template <Scalar T, Memory M>
void diagnose(const Failed<T, M>& failed, Report& report);

}  // namespace tacit::krylov
