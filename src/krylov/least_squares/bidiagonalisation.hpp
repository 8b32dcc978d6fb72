// Bidiagonalisation of Golub and Kahan, of (A; damp I) P: orthonormal u_k and v_k with
//
//   beta_k+1 u_k+1 = A v_k - alpha_k u_k,   alpha_k+1 v_k+1 = A^H u_k+1 - beta_k+1 v_k
//
// as in Paige and Saunders (1982), doi 10.1145/355984.355989, section 3 (Bidiag 1).
#pragma once

#include <tacit/exec/sweep.hpp>
#include <tacit/op/operator.hpp>

#include <cmath>
#include <limits>
#include <optional>

namespace tacit::krylov {

using layout::Space;
using layout::Vector;

namespace formula {
template <class T>
struct NextVector {  // v = scale w - shift v; (v, v)
  real_t<T> scale, shift;
  TACIT_HD exec::Sums<1, T> operator()(T w, T& v) const {
    v = scale * w - shift * v;
    return {{T(abs2(v))}};
  }
};
template <class T>
struct ScaledCopy {
  real_t<T> scale;
  TACIT_HD void operator()(T x, T& y) const { y = scale * x; }
};
}  // namespace formula

/// One reduction of sums over the elements of `range` and of `domain`: they are added. Collective.
template <int K, class T>
comm::PendingSums<K, T> sum_over_both(const Space& range, exec::Sums<K, T> in_range, const Space& domain,
                                      exec::Sums<K, T> in_domain) {
  // Where one is replicated and the other is not, every rank has all of its sum: one of them counts it.
  if (range.is_replicated() != domain.is_replicated() && range.comm().rank() > 0)
    (range.is_replicated() ? in_range : in_domain) = {};
  for (int k = 0; k < K; ++k) in_range[k] += in_domain[k];
  return (range.is_replicated() ? domain : range).sum(in_range);
}

/// Minimisation of ||b - A x||^2 + damp^2 ||x||^2, with x = x_0 + P y: A, P (or null), and vectors that its products
/// need.
template <Scalar T, Memory M>
class DampedMap {
 public:
  using V = Vector<T, M>;
  DampedMap(const op::Operator<T, M>& A, const op::Operator<T, M>* P, double damp) : A_(A), P_(P), damp_(damp) {
    if (P) x_.emplace(A.domain());
    if (P) g_.emplace(A.domain());
  }
  const op::Operator<T, M>& A() const { return A_; }
  const op::Operator<T, M>* P() const { return P_; }
  double damp() const { return damp_; }
  const Space& range() const { return A_.range(); }
  const Space& domain() const { return A_.domain(); }
  /// Of y.
  const Space& inner() const { return P_ ? P_->domain() : A_.domain(); }

  /// P y. Collective.
  const V& of(const V& y) {
    if (!P_) return y;
    P_->apply(y, *x_);
    return *x_;
  }
  /// Starts A^H u, to be completed by back().
  op::Product<T, M> start_back(const V& u, V& y) { return A_.start_adjoint(u, P_ ? *g_ : y); }
  /// y = P^H (A^H u + damp lower), with A^H u started by start_back(); `lower` where damp is not 0.
  void back(op::Product<T, M>& started, const V* lower, V& y) {
    started.wait();
    auto& g = P_ ? *g_ : y;
    if (lower) layout::axpy(T(real_t<T>(damp_)), *lower, g);
    if (P_) P_->apply_adjoint(g, y);
  }
  /// A^H u + damp lower of the last back().
  const V& gradient(const V& y) const { return P_ ? *g_ : y; }

 private:
  const op::Operator<T, M>& A_;
  const op::Operator<T, M>* P_;
  double damp_;
  std::optional<V> x_, g_;  // P y, A^H u
};

/// The vectors are kept with their lengths: u_k is `u` / beta_k, so that no sweep divides by a norm, and products begin
/// before it is known. A step: two products, two reductions, 3 vectors of traffic of either space (with damp 3 more of
/// the domain, and 3 of back()).
template <Scalar T, Memory M>
class Bidiagonalisation {
  using V = Vector<T, M>;

 public:
  explicit Bidiagonalisation(DampedMap<T, M>& map)
      : map_(map), u(map.range()), v(map.inner()), image_(map.range()), back_(map.inner()) {
    if (map.damp() != 0) lower.emplace(map.domain());
  }

  /// Begins with u, `lower` and v = (A; damp I)^H (u; lower) as they are, of these lengths.
  void begin(double length_of_u, double length_of_v) {
    beta_ = length_of_u, alpha_ = length_of_v / length_of_u;
    of_u_ = 1 / length_of_u, of_v_ = 1 / length_of_v;
    alpha_pending_.reset();
  }
  double alpha() const { return alpha_; }
  double beta() const { return beta_; }
  /// v_k is v times this.
  real_t<T> scale_of_v() const { return real_t<T>(of_v_); }

  /// Starts A v. Collective.
  void start_product() { product_.emplace(map_.A().start(*(along_ = &map_.of(v)), image_)); }
  /// Completes alpha_k. Collective.
  void wait_for_alpha() {
    if (!alpha_pending_) return;
    alpha_ = std::sqrt(double(real(alpha_pending_->wait()[0])));
    alpha_pending_.reset();
    of_v_ = inverse(alpha_);
  }
  /// u_k+1, and beta_k+1. Returns the sums over the domain that are reduced with it. Starts A^H u. Collective.
  exec::Sums<2, T> step_u(const exec::Sums<2, T>& in_domain) {
    using namespace exec;
    product_->wait();
    product_.reset();
    const auto scale = real_t<T>(of_v_), shift = real_t<T>(alpha_ * of_u_);
    const auto [uu] = numbers(sweep(reads(image_), updates(u), writes(), formula::NextVector<T>{scale, shift}));
    exec::Sums<3, T> over_range{{uu}}, over_domain{{T(0), in_domain[0], in_domain[1]}};
    if (lower) {
      const auto damped = real_t<T>(map_.damp() * of_v_);
      over_domain[0] =
          numbers(sweep(reads(*along_), updates(*lower), writes(), formula::NextVector<T>{damped, shift}))[0];
    }
    auto pending = sum_over_both(map_.range(), over_range, map_.domain(), over_domain);
    product_.emplace(map_.start_back(u, back_));
    const auto all = pending.wait();
    beta_ = std::sqrt(double(real(all[0])));
    of_u_ = inverse(beta_);
    return {{all[1], all[2]}};
  }
  /// v_k+1, and starts the reduction of alpha_k+1. Collective.
  void step_v() {
    using namespace exec;
    map_.back(*product_, lower ? &*lower : nullptr, back_);
    product_.reset();
    const auto scale = real_t<T>(of_u_), shift = real_t<T>(beta_ * of_v_);
    alpha_pending_.emplace(
        map_.inner().sum(numbers(sweep(reads(back_), updates(v), writes(), formula::NextVector<T>{scale, shift}))));
  }
  /// Completes the product that is under way, of which nothing is needed. Collective.
  void end() {
    if (product_) product_->wait();
    product_.reset();
  }

 private:
  /// 0 for a length whose square is 0, and for one that is not a number: the vector is then none.
  static double inverse(double length) { return length > 0 ? 1 / length : 0; }

  DampedMap<T, M>& map_;

 public:
  V u, v;
  std::optional<V> lower;  ///< the part of u below A, with damp

 private:
  V image_, back_;  // A v, and P^H (A^H u + damp lower)
  const V* along_ = nullptr;
  std::optional<op::Product<T, M>> product_;
  std::optional<comm::PendingSums<1, T>> alpha_pending_;
  double alpha_ = 0, beta_ = 0;
  double of_u_ = 0, of_v_ = 0;  // 1 / beta, 1 / alpha
};

}  // namespace tacit::krylov
