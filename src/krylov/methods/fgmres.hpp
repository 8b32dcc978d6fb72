// Flexible GMRES: Saad (1993), doi 10.1137/0914028. Its cycle is that of gmres; it keeps z_j = P_j q_j of every vector,
// so that x = sum_j y_j z_j is right for a P that changes from call to call.
#pragma once

#include "gmres.hpp"

namespace tacit::krylov {

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_fgmres(const Options& options) {
  return std::make_unique<Gmres<T, M>>(options, Side::flexible);
}

}  // namespace tacit::krylov
