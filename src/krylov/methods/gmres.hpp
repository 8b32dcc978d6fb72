// GMRES, one cycle a run; the driver restarts it from the recomputed residual. Saad and Schultz (1986), doi
// 10.1137/0907058; flexible: Saad (1993), doi 10.1137/0914028.
#pragma once

#include "../cycle.hpp"
#include "../powers.hpp"

#include "krylov/iteration.hpp"

namespace tacit::krylov {

/// Cycles of at most `restart` vectors on any square A. For vector j: 1 product, 1 apply of P; reductions and passes as
/// in Orthogonalisation (one_reduction: two rounds once the cycle has reduced the residual by epsilon^(1/4)), 2 j + 4
/// vectors of traffic for each round. Vectors: restart + 1, with P from the right 2 more, from the left 1 (flexible:
/// 2 restart + 1), r, d. Left preconditioning measures ||P r||, scaled to ||r|| at the start of the cycle. Breakdown:
/// R_jj of the projected problem, for singular A.
template <Scalar T, Memory M>
class Gmres final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  Gmres(const Options& options, Side side)
      : restart_(options.restart.value_or(default_restart)),
        side_(side),
        how_(one_at_a_time(options.orthogonalisation.value_or(Orthogonalisation::automatic))),
        asked_(options.orthogonalisation.value_or(Orthogonalisation::automatic) != Orthogonalisation::automatic) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    auto& w = run.w;
    const bool left = run.P && side_ == Side::left, flexible = run.P && side_ == Side::flexible;
    const auto basis = [&](int j) -> Vector& { return w[2 + std::size_t(flexible ? 2 * j : j)]; };
    const auto directions = [&](int j) -> Vector& {  // what is between P and A; with flexible all of them are kept
      return flexible ? w[3 + 2 * std::size_t(j)] : run.P ? w[0] : basis(j);
    };
    const double beta = begin_cycle(run, monitor, left, basis(0));  // q_0 = r / beta
    if (beta == 0) return;

    std::vector<const T*> q;
    std::vector<T> h;
    Projected<T> projected(beta);
    const auto combine = [&](std::vector<T> y, Vector& into) {  // into += P sum_j y_j q_j (flexible: y_j z_j)
      for (T& c : y) c = -c;
      std::vector<const T*> v;
      for (int i = 0; i < int(y.size()); ++i) v.push_back((flexible ? directions(i) : basis(i)).data());
      add_through(left || flexible ? nullptr : run.P, w, 0, 1, into, [&](Vector& to) {
        exec::basis_subtract<T, M>(v.data(), int(y.size()), y.data(), T(1), to.data(), to.size(), false);
      });
    };
    show_cycle(run, monitor, projected, combine);

    double residual = beta;
    while (monitor.go_on(residual)) {
      const int j = projected.columns();
      if (j == restart_) {
        monitor.end(Outcome::cycle_end);
        break;
      }
      q.push_back(basis(j).data());
      auto& v = basis(j + 1);
      multiply(run, left, basis(j), directions(j), v);  // v = A P q_j
      orthogonalise(how_, q, j + 1, v, h,
                    past_half_the_digits<T>(residual, beta));  // v = sum_i h_ij q_i + h_j+1,j q_j+1
      const bool invariant = h[std::size_t(j) + 1] == T(0);
      if (!append(projected, h.data(), monitor)) break;  // min_y || beta e_1 - H y ||
      residual = projected.residual();
      if (invariant) {
        // The solution is in the space, or the matrix is so badly scaled that the rest of v looks like rounding error:
        // the recomputed residual decides, and a new cycle starts from it.
        if (monitor.go_on(residual) || monitor.outcome() == Outcome::at_goal) monitor.end(Outcome::cycle_end);
        break;
      }
    }
    monitor.solution_by(nullptr);
    take_best(run, projected, combine);  // x += P Q y
  }

  /// Where vectors lose orthogonality, the projected problem believes in a residual that b - A x does not have.
  std::string step_down() override {
    if (asked_ || how_ != Orthogonalisation::one_reduction) return {};
    how_ = Orthogonalisation::cgs2;
    return "its vectors were orthogonalised twice from then on";
  }

  bool lengthen(int restart) override {
    restart_ = restart;
    return true;
  }

 private:
  int restart_;
  Side side_;
  Orthogonalisation how_;
  bool asked_;  // how_ is what the user said
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_gmres(const Options& options) {
  return std::make_unique<Gmres<T, M>>(options, options.side.value_or(Side::right));
}

}  // namespace tacit::krylov
