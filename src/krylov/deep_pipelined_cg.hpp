// p(l)-CG: conjugate gradients with l sums in flight. Cornelis, Cools, Vanroose (2018), arXiv:1801.04728; with the
// recurrences of Cools, Cornelis, Vanroose (2019), arXiv:1902.03100, in which every basis obeys the three terms of Lanczos, so that
// rounding errors are not amplified by the depth.
//
//   v_a    Lanczos vectors of P A in the inner product of P^-1, A V_a = V_{a+1} T_{a+1,a}
//   U_k,a  P_k(P A) v_a,  P_k(t) = (t - sigma_0) .. (t - sigma_{k-1}),  k = 0 .. l
//   z_j    P_j(P A) v_0 for j <= l, U_l,{j-l} from there on; Z = V G, G upper triangular with 2 l + 1 diagonals
#pragma once

#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/workspace.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace tacit::krylov {

namespace formula {
template <class T>
struct LanczosStep {  // v_{a+1} = (next + alpha v_a + beta v_{a-1}) scale, over v_{a-1}
  T alpha, beta, scale;
  TACIT_HD void operator()(T next, T now, T& before) const { before = (next + alpha * now + beta * before) * scale; }
};
template <class T>
struct NewtonStep {  // z_{i+1} = A z_i - sigma z_i, over the product
  T sigma;
  TACIT_HD void operator()(T z, T& product) const { product = product - sigma * z; }
};
template <class T>
struct LanczosTop {  // the same over the product that `next` holds
  T alpha, beta, scale;
  TACIT_HD void operator()(T now, T before, T& next) const { next = (next + alpha * now + beta * before) * scale; }
};
template <class T>
struct ResidualSquare {
  TACIT_HD exec::Sums<1, T> operator()(T f, T v) const { return {{T(abs2(f - v))}}; }
};
template <class T>
struct Shrink {
  T alpha;
  TACIT_HD void operator()(T x, T& y) const { y = alpha * x; }
};
template <class T>
struct LanczosCgStep {  // p_a = (v_a - delta p_{a-1}) / eta, x += zeta p_a
  T delta, eta, zeta;
  TACIT_HD void operator()(T v, T& p, T& x) const {
    p = (v - delta * p) * eta;
    x = x + zeta * p;
  }
};
}  // namespace formula

/// One run. An iteration: 1 product, 1 apply of P, 1 reduction of l + 1 numbers that is waited for l iterations later; 5 l + 11
/// vectors of traffic beside theirs. l products in advance. Vectors: f, d, p, 2 l of the U, l + 2 of Z (and 3 of P^-1 Z).
/// Breakdowns: (p, A p) not positive; G_jj^2 not positive: the vectors in flight depend on each other.
template <Scalar T, Memory M>
class DeepPipelinedCg {
 public:
  DeepPipelinedCg(const Run<T, M>& run, const std::vector<double>& shifts) : run_(run), sigma_(shifts), l_(int(shifts.size())) {}

  /// True when the basis broke down.
  bool run(Monitor& monitor) {
    using namespace exec;
    const auto& [A, P, f, d, W] = run_;
    const auto& space = f.space();
    auto &p = W[0], &check = W[1];
    monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
    // Slots of the workspace: two vectors of each U_k, k < l; rings of Z and of P^-1 Z.
    const std::size_t first = 2, ring = first + 2 * std::size_t(l_), hats = ring + 2*std::size_t(l_) + 2;
    const auto U = [&](int k, int a) -> layout::Vector<T, M>& { return run_.w[first + 2 * std::size_t(k) + (a & 1)]; };
    const auto Z = [&](int j) -> layout::Vector<T, M>& { return run_.w[ring + std::size_t(j % (2*l_ + 2))]; };
    const auto hat = [&](int j) -> layout::Vector<T, M>& { return P ? run_.w[hats + std::size_t(j % 3)] : Z(j); };

    // z_0 = v_0 = P r / ||r||, in the norm of P.
    auto& start = Z(0);
    if (P) P->apply(f, start);
    else layout::copy(f, start);
    const auto [rz, rr] = space.sum(sweep(reads(f, start), updates(), writes(), layout::formula::Dots<T>{})).wait();
    double norm = std::sqrt(double(real(rr)));
    if (!(norm > monitor.goal()) || !std::isfinite(norm)) return monitor.go_on(norm), false;
    if (!(real(rz) > 0)) {
      monitor.go_on(norm);
      monitor.breakdown("(r, P r)", real(rz), "the preconditioner is not positive definite");
      return false;
    }
    double zeta = std::sqrt(double(real(rz)));
    // The norm of r is that of P's inner product times this; made anew when a claim proves wrong.
    double factor = norm / zeta;
    const T scale = T(real_t<T>(1 / zeta));
    layout::scale(scale, start);
    if (P) sweep(reads(f), updates(), writes(hat(0)), formula::Shrink<T>{scale});
    layout::copy(start, U(0, 0));
    for (int k = 0; k < l_; ++k) layout::fill(U(k, 1), T(0));
    layout::fill(p, T(0));
    G_.assign(std::size_t(columns()) * (2 * l_ + 1), 0);
    gamma_.assign(std::size_t(columns()), 0);
    delta_ = gamma_;
    g(0, 0) = 1;
    pending_.clear();
    pending_.resize(std::size_t(l_));

    for (int i = 0; i < l_; ++i) {  // fill the pipeline: z_1 .. z_l
      A.apply(Z(i), hat(i + 1));
      sweep(reads(hat(i)), updates(hat(i + 1)), writes(), formula::NewtonStep<T>{T(real_t<T>(sigma_[std::size_t(i)]))});
      if (P) P->apply(hat(i + 1), Z(i + 1));
      if (i + 1 < l_) layout::copy(Z(i + 1), U(i + 1, 0));
      post(i + 1, U(0, 0), Z, hat(i + 1));
    }
    double eta = 0;
    double energy = 0, seen = 0;
    for (int a = 0;; ++a) {
      if (P && norm <= monitor.goal()) {  // small in the norm of P: is it in its own?
        A.apply(d, check);
        const auto [square] = space.sum(sweep(reads(f, check), updates(), writes(), formula::ResidualSquare<T>{})).wait();
        const double truth = std::sqrt(double(real(square)));
        // Far from what was believed, it is the gap of the recurrences: the driver sees to that.
        if (truth > monitor.goal() && truth < 10 * norm) factor = truth / std::abs(zeta), norm = truth;
      }
      if (!monitor.go_on(norm)) return false;
      const int i = a + l_;
      auto& next = hat(i + 1);
      A.apply(Z(i), next);
      // Column a + 1 of G, and with it column a of T.
      const double left = finish(a + 1);
      if (!(left > 10 * double(std::numeric_limits<real_t<T>>::epsilon()))) {
        monitor.breakdown("G_jj^2", left, "the vectors of the pipeline depend on each other");
        return true;
      }
      lanczos(a);
      const double delta = a > 0 ? this->delta(a - 1) : 0, lambda = a > 0 ? delta / eta : 0;
      eta = gamma(a) - lambda * delta;
      if (!(eta > 0)) {
        monitor.breakdown("(p, A p)", eta, "the matrix is not positive definite");
        return false;
      }
      sweep(reads(U(0, a)), updates(p, d), writes(),
            formula::LanczosCgStep<T>{T(real_t<T>(delta)), T(real_t<T>(1 / eta)), T(real_t<T>(zeta))});
      energy += zeta * zeta / eta;
      if (energy > 1.01 * seen) seen = energy, monitor.progress();
      // All bases one vector on.
      const T minus_delta = T(real_t<T>(-delta)), inverse = T(real_t<T>(1 / this->delta(a)));
      for (int k = 0; k < l_; ++k)
        sweep(reads(k + 1 < l_ ? U(k + 1, a) : Z(i), U(k, a)), updates(U(k, a + 1)), writes(),
              formula::LanczosStep<T>{T(real_t<T>(sigma_[std::size_t(k)] - gamma(a))), minus_delta, inverse});
      sweep(reads(hat(i), hat(i - 1)), updates(next), writes(),
            formula::LanczosTop<T>{T(real_t<T>(-gamma(a))), minus_delta, inverse});
      if (P) P->apply(next, Z(i + 1));
      post(i + 1, U(0, a + 1), Z, next);
      zeta = -zeta * this->delta(a) / eta;
      norm = std::abs(zeta) * factor;
    }
  }

 private:
  int columns() const { return 3 * l_ + 3; }
  double& g(int m, int j) { return G_[std::size_t(j % columns()) * (2 * l_ + 1) + std::size_t(j - m)]; }
  double& gamma(int a) { return gamma_[std::size_t(a % columns())]; }
  double& delta(int a) { return delta_[std::size_t(a % columns())]; }

  /// Starts the sum for column j of G: z_j with v_{j-l} (v_0 while j <= l) and with the z after it.
  template <class Ring>
  void post(int j, const layout::Vector<T, M>& v, const Ring& Z, const layout::Vector<T, M>& hat) {
    const int count = std::min(j, l_) + 1;
    std::vector<const T*>& q = list_;
    q.clear();
    for (int m = std::max(j - 2 * l_, 0); m <= j; ++m) q.push_back(Z(m).data());
    values_.resize(2*std::size_t(l_) + 1);
    exec::basis_dots<T, M>(q.data(), q.size(), hat.data(), hat.size(), values_.data(), false);
    pending_[std::size_t(j % l_)] = hat.space().start_sum(values_.data(), q.size());
  }
  /// Column j of G, as in a Cholesky factorisation; returns the part of (z_j, z_j) that is left for the diagonal.
  double finish(int j) {
    pending_[std::size_t(j % l_)].wait(values_.data());
    const int known = std::max(j - l_, 0);
    const int low = std::max(j - 2 * l_, 0);
    static_cast<void>(known);
    const double whole = double(real(values_[std::size_t(j - low)]));
    for (int m = low; m <= j; ++m) {
      double sum = double(real(values_[std::size_t(m - low)]));
      for (int k = std::max(j - 2 * l_, 0); k < m; ++k) sum -= g(k, m) * g(k, j);
      if (m < j) g(m, j) = sum / g(m, m);
      else if (!(sum > 0)) return whole > 0 ? sum / whole : sum;
      else g(j, j) = std::sqrt(sum);
    }
    return g(j, j) * g(j, j) / whole;
  }
  /// Column a of T from A Z = Z B and Z = V G.
  void lanczos(int a) {
    const double diagonal = g(a, a), before = a > 0 ? g(a - 1, a) * delta(a - 1) : 0;
    const double on = a < l_ ? sigma_[std::size_t(a)] : gamma(a - l_), below = a < l_ ? 1 : delta(a - l_);
    const double next = g(a, a + 1), corner = g(a + 1, a + 1);
    gamma(a) = on + (below * next - before) / diagonal;
    delta(a) = below * corner / diagonal;
  }

  const Run<T, M>& run_;
  const std::vector<double>& sigma_;
  const int l_;
  std::vector<double> G_, gamma_, delta_;  // rings: column j of G by diagonals, T
  std::vector<comm::PendingSum> pending_;  // of column j at j % l
  std::vector<const T*> list_;
  std::vector<T> values_;
};

}  // namespace tacit::krylov
