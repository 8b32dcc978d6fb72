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

/// What pipelined BiCGStab has the devices do while the result of a product travels.
enum class DeviceOverlap {
  copy,    ///< scalar products, until the own rows are on the host (the paper's pipe1)
  gather,  ///< scalar products, also while rows go to all ranks (pipe2)
  vectors  ///< the same, and all updates of vectors that the next product does not need
};

/// Solves A x = b from x = 0; b and x are whole vectors in host memory, the same on all ranks. Collective; Error(usage)
/// on all ranks where lengths or options do not fit on one. Where the recurrence claims to have got there b - A x is
/// recomputed, and the method starts anew from it (report.restarts) until ||b - A x|| <= rtol ||b|| or it falls no
/// further (`stagnated`). x is the best whose residual was recomputed, never worse than x = 0. All ranks have the same
/// bits at any time: every branch depends on sums over whole vectors that each formed alike. Without a preconditioner.
/// An iteration: 2 products, and 6 sums read from each device that forms them; a run: 1 product, and 4 sums. Reasons:
/// converged, max_iterations, breakdown, non_finite, stagnated.
template <Scalar T, Memory M>
Report bicgstab_on_devices(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                           const DeviceSolveOptions& options = {});

/// The same by the pipelined method of Cools and Vanroose 2017, doi 10.1016/j.parco.2017.04.005 (the paper's figure
/// 2(b) with y, t = A f and the old (r0, r) where they belong): a product is waited for after the scalar products that
/// follow it. An iteration: 2 products, 7 sums read, 30 vectors of traffic instead of 25. Two products and
/// 5 sums more a run. Its recurrences hold less than BiCGStab's, and claims need more restarts.
template <Scalar T, Memory M>
Report pipelined_bicgstab_on_devices(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                                     const DeviceSolveOptions& options = {},
                                     DeviceOverlap overlap = DeviceOverlap::vectors);

}  // namespace tacit::krylov
