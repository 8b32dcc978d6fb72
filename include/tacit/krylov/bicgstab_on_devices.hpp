// BiCGStab on vectors that every device of every process holds: no sum travels between ranks, and the gather of a
// product is the only message. Yamazaki et al. 2018, figure 2(a) with its line 9 put right (it needs v = A p of the
// last iteration).
#pragma once

#include <tacit/krylov/report.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>

#include <span>

namespace tacit::krylov {

/// Vector operations of devices of one process.
enum class VectorWork {
  redundant,  ///< each device does all of them; the host reads sums of the first only
  shared      ///< each has a part of x, and of each scalar product ("hierarchical"); directions and residuals are
              ///< everybody's, because products need them whole
};

struct DeviceSolveOptions {
  double rtol = 1e-7;
  int max_iterations = 1000;
  VectorWork work = VectorWork::redundant;
};

/// Solves A x = b from x = 0; b and x are whole vectors in host memory, the same on all ranks. Collective; Error(usage)
/// on all ranks where lengths or options do not fit on one. The residual in the report is recomputed by a product. All
/// ranks have the same bits at any time: every branch depends on sums over whole vectors that each formed alike.
/// Without a preconditioner. An iteration: 2 products, and 6 sums read from each device that forms them. Reasons:
/// converged, max_iterations, breakdown, non_finite, and stagnated where the recomputed residual is not what the
/// recurrence believed.
template <Scalar T, Memory M>
Report bicgstab_on_devices(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                           const DeviceSolveOptions& options = {});

}  // namespace tacit::krylov
