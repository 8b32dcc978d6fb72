#pragma once

#include <tacit/krylov/cg.hpp>
#include <tacit/krylov/iteration.hpp>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Cg final : public Iteration<T, M> {
 public:
  void run(const Run<T, M>& run, Monitor& monitor) override { cg<T, M>(run, monitor, {}); }
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_cg(const Options&) {
  return std::make_unique<Cg<T, M>>();
}

}  // namespace tacit::krylov
