#pragma once

#include <tacit/krylov/bicgstab.hpp>
#include <tacit/krylov/iteration.hpp>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Bicgstab final : public Iteration<T, M> {
 public:
  void run(const Run<T, M>& run, Monitor& monitor) override { bicgstab<T, M>(run, monitor, shadow_); }
  std::string step_down() override {
    if (shadow_ == 12) return {};
    ++shadow_;
    return "it went on with another shadow residual";
  }

 private:
  int shadow_ = 0;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_bicgstab(const Options&) {
  return std::make_unique<Bicgstab<T, M>>();
}

}  // namespace tacit::krylov
