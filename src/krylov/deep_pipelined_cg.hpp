// p(l)-CG: conjugate gradients with l reductions in flight. Cornelis, Cools, Vanroose (2018), arXiv:1801.04728; with
// the bases of Cools, Cornelis, Vanroose (2019), arXiv:1902.03100, which obey the three-term Lanczos recurrence.
//
//   v_a     Lanczos vectors of P A in the inner product of P^-1:  A V = V T,  r_a = zeta_a P^-1 v_a
//   U_k,a   (P A - sigma_0) .. (P A - sigma_{k-1}) v_a,  k = 0 .. l;  hats: P^-1 U_k,a
//
// Differences from the papers: column a of T is computed from inner products of the vectors themselves, l products old,
// and not from the orthonormality of v_0 .. v_a, which a rounding error at the start destroys. The shifts lie inside
// the spectrum. The residual is replaced when an estimate of its gap is too large.
#pragma once

#include "cycle.hpp"
#include "dots_in_flight.hpp"
#include "safeguards/replacement.hpp"

#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include "krylov/monitor.hpp"
#include "krylov/workspace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tacit::krylov {

namespace formula {
template <class T>
struct NewtonStep {  // U_{k+1} = A U_k - sigma U_k, overwrites the product
  T sigma;
  TACIT_HD void operator()(T u, T& product) const { product = product - sigma * u; }
};
template <class T>
struct LanczosStep {  // v_{a+1} = (next - gamma v_a - tau v_{a-1}) / delta, overwrites v_{a-1}
  T gamma, tau, scale;
  TACIT_HD void operator()(T next, T now, T& before) const { before = (next - gamma * now - tau * before) * scale; }
};
template <class T>
struct LanczosTop {  // the same, overwrites the product in `next`
  T gamma, tau, scale;
  TACIT_HD void operator()(T now, T before, T& next) const { next = (next - gamma * now - tau * before) * scale; }
};
template <class T>
struct LanczosCgStep {  // p_a = (v_a - tau p_{a-1}) / eta, y += zeta p_a; (p, p), (y, y)
  T tau, scale, zeta;
  TACIT_HD exec::Sums<2, T> operator()(T v, T& p, T& y) const {
    p = (v - tau * p) * scale;
    y = y + zeta * p;
    return {{T(abs2(p)), T(abs2(y))}};
  }
};
template <class T>
struct LanczosOfResidual {  // v_{a+1} = r / zeta, v_a = A p_a - lambda v_{a+1}; overwrites the residual and the product
  T scale, lambda;
  TACIT_HD void operator()(T& next, T& now) const {
    next = scale * next;
    now = now - lambda * next;
  }
};
template <class T>
struct ResidualSquare {
  TACIT_HD exec::Sums<1, T> operator()(T f, T v) const { return {{T(abs2(f - v))}}; }
};
}  // namespace formula

/// Columns of T from inner products that are l steps old. Y_b = [U_{0..l-1,b-1}, U_{0..l,b}]. The three-term
/// recurrence, whose coefficients are known up to step a - 1, expresses v_{a-1}, v_a and A v_a by Y_b (a < b + l), and
/// the Gram matrix of Y_b gives their inner products. Local.
class DelayedLanczos {
 public:
  explicit DelayedLanczos(const std::vector<double>& shifts)
      : sigma_(shifts),
        l_(int(shifts.size())),
        size_(2 * l_ + 1),
        M_(std::size_t(size_ * size_)),
        steps_(shifts.size()) {
    for (auto* c : {&before_, &now_, &Av_}) c->resize(std::size_t(size_));
  }

  struct Step {  // A v_a = delta v_{a+1} + gamma v_a + tau v_{a-1}
    double gamma = 0, tau = 0, delta = 1;
    double left = 0;  // delta^2 / (A v_a, A v_a): what is new in A v_a
  };

  /// The number of inner products in one reduction.
  static int count(int l) { return l * (l + 1) + (l + 1) * (l + 2) / 2; }
  /// The sum for b = 0, 1, ..: (Y_i, U_c,b), i <= l + c, for c = 0 .. l.
  void arrive(const double* dots) {
    ++base_;
    for (int k = 0; k < l_; ++k)
      for (int m = 0; m < l_; ++m) M(k, m) = M(l_ + k, l_ + m);
    for (int c = l_; c < size_; ++c)
      for (int i = 0; i <= c; ++i) M(i, c) = M(c, i) = *dots++;
  }
  int base() const { return base_; }
  /// ||U_k,b||.
  double size(int k) const { return std::sqrt(std::max(0.0, M_[std::size_t((l_ + k) * (size_ + 1))])); }

  /// Column a of T; columns are asked for in order, base() <= a < base() + l.
  Step next(int a) {
    for (auto* c : {&before_, &now_}) std::fill(c->begin(), c->end(), 0.0);
    if (base_ > 0) before_[0] = 1;
    now_[std::size_t(l_)] = 1;
    for (int t = base_; t < a; ++t) {
      times_A(now_, Av_);
      combine(steps_[std::size_t(t % l_)]);
      std::swap(before_, now_);
    }
    times_A(now_, Av_);
    const double nn = dot(now_, now_), nb = dot(now_, before_), bb = dot(before_, before_);
    const double nA = dot(now_, Av_), bA = dot(before_, Av_), AA = dot(Av_, Av_);
    Step s;
    if (a == 0) {
      s.gamma = nA / nn;
    } else {
      const double determinant = nn * bb - nb * nb;
      s.gamma = (nA * bb - bA * nb) / determinant;
      s.tau = (bA * nn - nA * nb) / determinant;
    }
    combine(s);
    const double square = dot(before_, before_);
    s.left = square / AA;
    s.delta = std::sqrt(std::max(0.0, square));
    steps_[std::size_t(a % l_)] = s;
    return s;
  }

 private:
  using Coordinates = std::vector<double>;
  double sigma(int k) const { return sigma_[std::size_t(k)]; }
  double& M(int i, int j) { return M_[std::size_t(i * size_ + j)]; }
  double dot(const Coordinates& x, const Coordinates& y) {
    double sum = 0;
    for (int i = 0; i < size_; ++i)
      for (int j = 0; j < size_; ++j) sum += x[std::size_t(i)] * M(i, j) * y[std::size_t(j)];
    return sum;
  }
  /// A U_k = U_{k+1} + sigma_k U_k.
  void times_A(const Coordinates& x, Coordinates& y) const {
    std::fill(y.begin(), y.end(), 0.0);
    for (int i = 0; i + 1 < size_; ++i) {
      const double c = x[std::size_t(i)];
      y[std::size_t(i)] += sigma(i % l_) * c;
      if (i != l_ - 1) y[std::size_t(i) + 1] += c;  // c = 0 there
    }
  }
  /// v_{a+1}, which overwrites v_{a-1}.
  void combine(const Step& s) {
    for (std::size_t i = 0; i < Av_.size(); ++i)
      before_[i] = (Av_[i] - s.gamma * now_[i] - s.tau * before_[i]) / s.delta;
  }

  const std::vector<double>& sigma_;
  const int l_, size_;
  std::vector<double> M_;    // of Y_base
  std::vector<Step> steps_;  // the last l
  Coordinates before_, now_, Av_;
  int base_ = -1;
};

/// One run. An iteration: 1 product, 1 apply of P, 1 reduction of (l + 1) (3 l + 2) / 2 + 2 numbers (3 with P) that is
/// waited for after l products (in the first l + 1 iterations after one); 6 l + 10 vectors of traffic beside theirs
/// (11 l + 11 with P). Before the first: l products and applies. Vectors: f, d, y, p, one more, 2 l + 3 of U; with P
/// 2 l + 1 more. A replacement: 2 l + 2 products and applies of P, no reduction. Breakdowns: (p, A p) not positive; the
/// vectors in flight depend on each other.
template <Scalar T, Memory M>
class DeepPipelinedCg {
 public:
  /// largest: an estimate of the largest eigenvalue of P A. heals: ends as `too_costly` when the residual has to be
  /// replaced too often.
  DeepPipelinedCg(const Run<T, M>& run, std::vector<double> shifts, double largest, Replacement replacement, bool heals)
      : run_(run),
        sigma_(std::move(shifts)),
        l_(int(sigma_.size())),
        largest_(largest),
        replacement_(replacement),
        heals_(heals),
        lanczos_(sigma_),
        pending_(sigma_.size()),
        norm_A_(run.P ? 0 : largest),
        gaps_(2 * l_ + 2) {}

  /// True when the basis broke down.
  bool run(Monitor& monitor) {
    using namespace exec;
    auto& P = run_.P;
    auto &d = run_.d, &y = run_.w[0], &p = run_.w[1];
    monitor.solution_by([&](void* x) { solution(d, T(1), y, x); });
    layout::fill(y, T(0));
    layout::fill(p, T(0));
    if (!begin(monitor)) return false;
    CgGuard guard(monitor);
    replacement_.begin();
    bool broken = false;
    const auto breaks = [&](double value) {
      broken = !monitor.breakdown("delta^2", value, "the vectors of the pipeline depend on each other");
    };
    double delta = 0, eta = 1;
    for (int a = 0; go_on(monitor); ++a) {
      auto& next = hat(l_, a + 1);
      run_.A.apply(U(l_, a), next);
      // The first columns take current inner products: an error at the start would delay the whole convergence.
      if (a <= l_ || a >= 2 * l_) receive();
      const auto step = lanczos_.next(a);  // A v_a = delta v_{a+1} + gamma v_a + tau v_{a-1}
      eta = step.gamma - delta / eta * step.tau;
      delta = step.delta;
      // The powers of A in the basis may leave the range of the scalar before anything else does.
      if (!std::isfinite(eta)) breaks(heals_ ? 0 : eta);
      if (!std::isfinite(eta) || !guard.allows_step(zeta_, eta)) break;
      const Norms norms = sweep(reads(U(0, a)), updates(p, y), writes(),  // p = (v_a - tau p) / eta;  y += zeta p
                                formula::LanczosCgStep<T>{number(step.tau), number(1 / eta), number(zeta_)});
      if (!(step.left > 20 * unit)) {  // the solution is reached, or the basis has lost its digits
        if (monitor.go_on(std::abs(zeta_) * factor_)) breaks(step.left);
        break;
      }
      // Advances all bases by one vector: delta U_{k,a+1} = U_{k+1,a} - (gamma - sigma_k) U_k,a - tau U_{k,a-1}
      const T tau = number(step.tau), scale = number(1 / delta);
      for (int k = 0; k < l_; ++k) {
        const formula::LanczosStep<T> on{number(step.gamma - sigma_[std::size_t(k)]), tau, scale};
        sweep(reads(U(k + 1, a), U(k, a)), updates(U(k, a + 1)), writes(), on);
        if (P) sweep(reads(hat(k + 1, a), hat(k, a)), updates(hat(k, a + 1)), writes(), on);
      }
      sweep(reads(hat(l_, a), hat(l_, a - 1)), updates(next), writes(),
            formula::LanczosTop<T>{number(step.gamma), tau, scale});
      if (P) P->apply(next, U(l_, a + 1));
      const double before = std::exchange(zeta_, zeta_ * (-delta / eta));  // r_{a+1} = zeta P^-1 v_{a+1}
      follow_gaps(step, eta, before);
      const bool due = replacement_.due([&] { return drifted(); });
      if (due) {
        replace(a, delta / eta);
        if (replaced_too_often(monitor)) break;
      }
      post(a + 1, norms, due);
    }
    layout::axpy(T(1), y, d);
    replacement_.note(monitor, "pipelined-cg");
    return broken;
  }

 private:
  static constexpr double unit = double(std::numeric_limits<real_t<T>>::epsilon()) / 2;
  static constexpr double tolerance = std::same_as<real_t<T>, double> ? 1e-8 : 4e-4;
  static constexpr int healthy_group = 30;  // replacements at shorter intervals cost more than the bases save
  static T number(double value) { return T(real_t<T>(value)); }

  // Workspace: y, p, a scratch vector; U_k,a and U_k,a-1 for k < l; three vectors U_l, whose product is in flight. With
  // P these are the hats, and the U follow, of which U_l is one vector.
  layout::Vector<T, M>& hat(int k, int a) {
    return run_.w[std::size_t(k < l_ ? 3 + 2 * k + (a & 1) : 3 + 2 * l_ + (a + 3) % 3)];
  }
  layout::Vector<T, M>& U(int k, int a) {
    if (!run_.P) return hat(k, a);
    return run_.w[std::size_t(6 + 2 * l_ + (k < l_ ? 2 * k + (a & 1) : 2 * l_))];
  }
  /// U_{k+1,a} from U_k,a.
  void extend(int k, int a) {
    run_.A.apply(U(k, a), hat(k + 1, a));
    exec::sweep(exec::reads(hat(k, a)), exec::updates(hat(k + 1, a)), exec::writes(),
                formula::NewtonStep<T>{number(sigma_[std::size_t(k)])});
    if (run_.P) run_.P->apply(hat(k + 1, a), U(k + 1, a));
  }

  /// v_0 = P r / ||r||, in the norm of P, and U_k,0. False when there is nothing to do or P is not positive definite.
  bool begin(Monitor& monitor) {
    using namespace exec;
    auto& P = run_.P;
    auto& f = run_.r;
    auto& start = U(0, 0);
    if (P) P->apply(f, start);
    else layout::copy(f, start);
    const auto [rz, rr] = f.space().sum(sweep(reads(f, start), updates(), writes(), layout::formula::Dots<T>{})).wait();
    const double norm = std::sqrt(double(real(rr)));
    if (!(real(rz) > 0)) {
      if (monitor.go_on(norm))
        monitor.breakdown("(r, P r)", double(real(rz)), "the preconditioner is not positive definite");
      return false;
    }
    zeta_ = std::sqrt(double(real(rz)));
    factor_ = norm / zeta_;
    const T scale = number(1 / zeta_);
    layout::scale(scale, start);
    if (P) sweep(reads(f), updates(), writes(hat(0, 0)), formula::Multiple<T>{scale});
    for (int k = 0; k < l_; ++k) {
      layout::fill(U(k, -1), T(0));
      if (P) layout::fill(hat(k, -1), T(0));
      extend(k, 0);
    }
    layout::fill(hat(l_, -1), T(0));
    post(0, {}, true);
    return true;
  }

  using Norms = exec::sums_in_t<2, T, M>;
  /// This rank's part of the sums: products of the U's and of Y, the norms, and with P ||P^-1 v||^2.
  struct Part {
    std::size_t l = 0;
    bool with_P = false, y_is_zero = true;
    std::optional<Norms> norms;
    void operator()(const std::vector<T>& G, real_t<T>* to) const {
      const std::size_t columns = l + 1, rows = G.size() / columns, first = with_P ? 1 : 0;
      for (std::size_t c = 0; c < columns; ++c)
        for (std::size_t i = 0; i <= l + c; ++i) *to++ = real(G[c * rows + first + i]);
      const auto both = norms ? exec::numbers(*norms) : exec::Sums<2, T>();
      *to++ = real(both[0]), *to++ = y_is_zero ? real_t<T>(0) : real(both[1]);
      if (with_P) *to++ = real(G[0]);
    }
  };
  using Posted = DotsInFlight<T, M, real_t<T>, Part>;

  /// Starts the sum of the inner products of Y_b with U_k,b, of ||p||^2 and ||y||^2, and with P of ||P^-1 v_b||^2.
  void post(int b, std::optional<Norms> norms, bool y_is_zero) {
    Y_.clear(), now_.clear();
    if (run_.P) Y_.push_back(hat(0, b).data());
    for (int k = 0; k < l_; ++k) Y_.push_back(U(k, b - 1).data());
    for (int k = 0; k <= l_; ++k) Y_.push_back(U(k, b).data()), now_.push_back(hat(k, b).data());
    const std::size_t n = std::size_t(DelayedLanczos::count(l_)) + (run_.P ? 3 : 2);
    pending_[std::size_t(b % l_)].start(run_.r.space(), Y_.data(), int(Y_.size()), now_.data(), int(now_.size()),
                                        run_.r.size(), n,
                                        {std::size_t(l_), run_.P != nullptr, y_is_zero, std::move(norms)});
  }
  void receive() {
    const std::size_t count = std::size_t(DelayedLanczos::count(l_));
    pending_[std::size_t((lanczos_.base() + 1) % l_)].wait(values_);
    sums_.assign(values_.begin(), values_.end());
    lanczos_.arrive(sums_.data());
    p_norm_ = std::sqrt(sums_[count]), y_norm_ = std::sqrt(sums_[count + 1]);
    if (run_.P) v_norm_ = std::sqrt(sums_[count + 2]);
    norm_A_.see(v_norm_, p_norm_);
    factor_ = v_norm_ * correction_;
  }

  /// ||r_a|| = |zeta_a| ||P^-1 v_a||. The second factor changes slowly and is known for an older a, so that convergence
  /// is verified by a recomputed residual.
  bool go_on(Monitor& monitor) {
    using namespace exec;
    auto& A = run_.A;
    auto& P = run_.P;
    auto& f = run_.r;
    auto& W = run_.w;
    double norm = std::abs(zeta_) * factor_;
    if (P && norm <= monitor.goal()) {
      A.apply(W[0], W[2]);
      const auto [square] =
          f.space().sum(sweep(reads(f, W[2]), updates(), writes(), formula::ResidualSquare<T>{})).wait();
      const double truth = std::sqrt(double(real(square)));
      // A larger difference is the gap of the residual, which the driver corrects.
      if (truth > monitor.goal() && truth < 10 * norm) {
        correction_ *= truth / norm, factor_ *= truth / norm;
        norm = truth;
      }
    }
    return monitor.go_on(norm);
  }

  /// Recomputes the residual from the solution, v_a from A p_a = P^-1 (v_a + lambda v_{a+1}), and the bases from these.
  void replace(int a, double lambda) {
    using namespace exec;
    auto& A = run_.A;
    auto& P = run_.P;
    auto& f = run_.r;
    auto& d = run_.d;
    auto& W = run_.w;
    auto &y = W[0], &p = W[1], &now = hat(0, a), &next = hat(0, a + 1);
    A.apply(y, W[2]);
    A.apply(p, now);
    sweep(reads(W[2]), updates(f, d, y), writes(next), formula::GroupEnd<T>{});
    sweep(reads(), updates(next, now), writes(), formula::LanczosOfResidual<T>{number(1 / zeta_), number(lambda)});
    for (const int b : {a, a + 1}) {
      if (P) P->apply(hat(0, b), U(0, b));
      for (int k = 0; k < l_; ++k) extend(k, b);
    }
    y_norm_ = 0;
    estimate_roundings();
    std::copy_n(rounding_.begin(), l_, rounding_.begin() + l_);
    gaps_.reset(rounding_);
  }

  // Gaps, in the norm of the residual: e_k,a = U_{k+1,a} - (A - sigma_k) U_k,a for k < l, the same for a - 1,
  // g_a = A p_a - v_a - lambda v_{a+1}, f - A y - r. No A stands in their recurrences:
  //   delta e_k,a+1 = e_{k+1,a} + (sigma_k - gamma) e_k,a - tau e_k,a-1,   eta g_a = -e_0,a - tau g_{a-1}
  void estimate_roundings() {
    rounding_.assign(std::size_t(2 * l_ + 2), 0.0);
    for (int k = 0; k < l_; ++k) rounding_[std::size_t(k)] = 4 * unit * largest_ * lanczos_.size(k) * v_norm_;
    rounding_[std::size_t(2 * l_)] = unit * norm_A_ * p_norm_;
    rounding_[std::size_t(2 * l_ + 1)] = unit * (norm_A_ * y_norm_ + std::abs(zeta_) * v_norm_);
  }
  void follow_gaps(const DelayedLanczos::Step& s, double eta, double zeta) {
    const int n = 2 * l_ + 2, g = n - 2, h = n - 1;
    L_.assign(std::size_t(n * n), 0.0);
    const auto at = [&](int i, int j) -> double& { return L_[std::size_t(i * n + j)]; };
    for (int k = 0; k < l_; ++k) {
      if (k + 1 < l_) at(k, k + 1) = 1 / s.delta;
      at(k, k) = (sigma_[std::size_t(k)] - s.gamma) / s.delta;
      at(k, l_ + k) = -s.tau / s.delta;
      at(l_ + k, k) = 1;
    }
    at(g, 0) = -1 / eta, at(g, g) = -s.tau / eta;
    at(h, 0) = zeta / eta, at(h, g) = zeta * s.tau / eta, at(h, h) = 1;
    estimate_roundings();
    gaps_.step(L_, rounding_);
  }
  /// After a replacement: ends the run where replacements are so frequent that the pipeline gains nothing.
  bool replaced_too_often(Monitor& monitor) {
    const bool soon = replacement_.since() < healthy_group;
    replacement_.done();
    if (!(heals_ && soon && replacement_.by_gaps() && replacement_.count() > 1)) return false;
    if (monitor.go_on(std::abs(zeta_) * factor_)) monitor.end(Outcome::too_costly);
    return true;
  }
  bool drifted() const {
    bool small = gaps_[2 * l_ + 1] <= tolerance * std::abs(zeta_) * v_norm_;
    for (int k = 0; k < l_; ++k) small = small && gaps_[k] <= tolerance * lanczos_.size(k + 1) * v_norm_;
    return !small;
  }

  const Run<T, M>& run_;
  const std::vector<double> sigma_;
  const int l_;
  const double largest_;
  Replacement replacement_;
  const bool heals_;
  DelayedLanczos lanczos_;
  std::vector<Posted> pending_;  // of b at b % l
  double zeta_ = 0, factor_ = 1, correction_ = 1;
  NormFromBelow norm_A_;
  double v_norm_ = 1, p_norm_ = 0, y_norm_ = 0;
  Gaps<double> gaps_;
  // Members, so that iterations do not allocate.
  std::vector<const T*> Y_, now_;
  std::vector<real_t<T>> values_;
  std::vector<double> sums_, rounding_, L_;
};

}  // namespace tacit::krylov
