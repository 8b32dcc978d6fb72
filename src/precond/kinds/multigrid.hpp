#pragma once

#include <tacit/precond/amg.hpp>
#include <tacit/precond/amg_on_device.hpp>
#include <tacit/precond/make.hpp>

namespace tacit::precond {

template <Scalar T>
AmgOptions<T> amg_options(const Options& options) {
  AmgOptions<T> o;
  o.smoother = options.smoother.value_or(o.smoother);
  o.cycle = options.cycle.value_or(o.cycle);
  o.sweeps = options.sweeps.value_or(o.sweeps);
  o.coarsening = options.coarsening.value_or(o.coarsening);
  o.strength = options.strength;
  o.interpolation = options.interpolation;
  o.p_max = options.p_max;
  o.aggressive = options.aggressive.value_or(o.aggressive);
  o.coarsest = options.coarsest.value_or(int(o.coarsest));
  o.single_levels = options.single_levels.value_or(o.single_levels);
  o.block = options.block.value_or(o.block);
  o.bottom = options.bottom;
  if (options.agglomerate_below) o.agglomerate_below = *options.agglomerate_below;
  return o;
}

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_amg(const op::Csr<T, M>& A, const Options& options) {
  if constexpr (std::same_as<M, Host>) return std::make_unique<Amg<T>>(A, amg_options<T>(options));
  else return std::make_unique<AmgOnDevice<T, M>>(A, amg_options<T>(options));
}

}  // namespace tacit::precond
