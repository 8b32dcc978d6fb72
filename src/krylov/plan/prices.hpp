// Prices of the parts of an iteration, measured; of iterations of cg, and of ca-cg as two sweeps, where a count of
// bytes cannot tell which is faster.
#pragma once

#ifndef __CUDACC__  // runs in device memory are not swept
#include "../cg_sweeps.hpp"
#endif
#include "../methods/cg.hpp"
#include "system.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/krylov/choose.hpp>
#include <tacit/model/machine.hpp>
#include <tacit/model/memory.hpp>
#include <tacit/op/csr.hpp>

#include <vector>

namespace tacit::krylov {

#ifndef __CUDACC__
/// Sets prices.cg and prices.ca_cg where ca-cg stores no basis (a Csr matrix, a diagonal P or none) and the vectors of
/// cg are larger than the last cache: elsewhere both compute, of which ca-cg does more. About the time of 25 iterations
/// of cg. Collective.
template <Scalar T>
void try_sweeps(const op::Operator<T, Host>& A, const op::Operator<T, Host>* P, const layout::Vector<T>& b,
                Prices& prices) {
  constexpr int step = 8, few = 3, vectors = 5;
  const auto& comm = b.space().comm();
  const auto* const csr = dynamic_cast<const op::Csr<T, Host>*>(&A.itself());
  const auto* const D = P ? P->pointwise() : nullptr;
  const auto cache = model::last_level_cache();
  const double share = double(cache.bytes) / cache.processors * exec::threads_now();
  const bool in_cache = double(vectors) * double(b.size()) * sizeof(T) < share;
  if (!csr || bool(D) != bool(P) || comm.all(in_cache)) return;
  const auto* const rows = csr->rows_around(step);
  if (!rows) return;
  const auto seconds_of = [&](int iterations, const auto& f) {
    f();  // pages are touched
    const double begin = wall_time();
    f();
    return comm.all_max(wall_time() - begin) / iterations;
  };
  Workspace<T, Host> w(b.space());
  Options plain;
  plain.history = false;
  prices.cg = seconds_of(few, [&] {
    layout::Vector<T> r = b, d(b.space());
    Monitor monitor(comm, plain, 1, 0, few, few + 1);
    cg<T, Host>({A, P, r, d, w}, monitor);
  });
  CgSweeps<T> sweeps(*rows, D, step, exec::threads_now());
  sweeps.set_residual(b.data()), sweeps.turn(0);
  const op::Recurrence<T> recurrence(step, op::RecurrenceStep<T>{T(0), T(0), real_t<T>(1)});
  const std::vector<typename CgSweeps<T>::Step> steps(step, {0, 0, true});
  std::vector<exec::wide_t<T>> sums(std::size_t(sweeps.sums_of(step)));
  layout::Vector<T> x(b.space());
  prices.ca_cg = seconds_of(step, [&] {
    sweeps.powers(recurrence, sums);
    sweeps.iterate(steps, x.data());
  });
}
#endif

/// Of a product and an apply of P on the slowest rank, of vectors and sums by the machine's bandwidth and latency; zero
/// in device memory. Two products and applies. Collective.
template <Scalar T, Memory M>
Prices measured_prices(const System<T, M>& system, [[maybe_unused]] Method method) {
  Prices prices;
  if constexpr (std::same_as<M, Host>) {
    const auto& space = system.space();
    const auto& comm = space.comm();
    const auto machine = model::measure(comm);
    layout::Vector<T, M> y(space), z(space);
    const auto slowest = [&](const op::Operator<T, M>& a, const layout::Vector<T, M>& from, layout::Vector<T, M>& to) {
      a.apply(from, to);
      const double begin = wall_time();
      a.apply(from, to);
      return comm.all_max(wall_time() - begin);
    };
    prices.product = slowest(system.A(), system.b(), y);
    if (system.P()) prices.precondition = slowest(*system.P(), y, z);
    prices.vector = comm.all_max(double(y.size() * sizeof(T))) / machine.bandwidth;
    prices.sum = space.is_replicated() ? 0 : machine.sum_latency;
#ifndef __CUDACC__
    if (method == Method::cg) try_sweeps<T>(system.A(), system.P(), system.b(), prices);
#endif
  }
  return prices;
}

}  // namespace tacit::krylov
