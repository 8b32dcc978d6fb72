#pragma once

#include <tacit/krylov/gmres.hpp>
#include <tacit/krylov/iteration.hpp>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Gmres final : public Iteration<T, M> {
 public:
  explicit Gmres(const Options& options)
      : restart_(options.restart.value_or(default_restart)),
        side_(options.side.value_or(Side::right)),
        how_(one_at_a_time(options.orthogonalisation.value_or(Orthogonalisation::automatic))) {}
  void run(const Run<T, M>& run, Monitor& monitor) override { gmres<T, M>(run, monitor, restart_, side_, how_); }
  bool lengthen(int restart) override {
    restart_ = restart;
    return true;
  }

 private:
  int restart_;
  Side side_;
  Orthogonalisation how_;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_gmres(const Options& options) {
  return std::make_unique<Gmres<T, M>>(options);
}

}  // namespace tacit::krylov
