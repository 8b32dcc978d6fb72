// A level with a wide stencil: whole sweeps over arrays with a margin, from one array into another, so that results
// depend on no order. Red-black Gauss-Seidel is Jacobi's step within a colour.
#pragma once

#include "level.hpp"

#include <tacit/exec/memory.hpp>

namespace tacit::precond::mg {

template <class S>
class WideLevel final : public Level<S> {
 public:
  /// `whole_sweeps`: smooth_whole is to come. Collective.
  WideLevel(std::shared_ptr<const op::FiniteVolume<S>> A, bool whole_sweeps);

  void connect(Level<S>* coarse, std::array<std::vector<Local>, 3> parent, const Ways& ways) override;
  void run(std::span<const Step> steps) override;
  void smooth_whole(const MultigridOptions& options, int sweeps, bool from_zero) override;
  void load_f(std::span<const S> f) override;
  void load_u(std::span<const S> u) override { margin().load(u.data(), u_.data()); }
  void store_u(std::span<S> u) const override { margin().store(u_.data(), u.data()); }
  void store_f(std::span<S> f) const override;
  void add_u(std::span<const S> u) override;
  void clear_u() override;
  void residual_to(std::span<S> r) override;

 private:
  using Level<S>::a_;
  using Level<S>::report;
  using Field = exec::Array<S, Host>;
  const op::Margin& margin() const { return a_->wide()->margin(); }
  void fill();
  /// f(patch, j, k, first own cell of the line in vectors, A u of the line) for all lines. Ghosts are filled.
  template <class F>
  void each_line(F&& f);
  void relax(int colour);
  void norms();

  Field u_, next_;                                  // with a margin
  std::vector<S> f_, inverse_, inverse_l1_, step_;  // own cells
  std::unique_ptr<comm::Exchange> exchange_;
  double upper_ = 0;  // no eigenvalue of D^-1 A is larger
  std::vector<double> line_largest_, line_squares_;
};

}  // namespace tacit::precond::mg
