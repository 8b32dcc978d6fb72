// IDR(s), preconditioned from the right: van Gijzen and Sonneveld (2011), Algorithm 913, doi 10.1145/2049662.2049667,
// in its letters: P the shadow space, G = A U, M = P^H G (lower triangular), f = P^H r. All products of a vector with P
// are one reduction: Collignon and van Gijzen (2011), doi 10.1002/nla.764.
#pragma once

#include "../safeguards/best.hpp"

#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include "krylov/iteration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tacit::krylov {

namespace formula {
template <class T>
struct IdrStep {
  T beta;
  TACIT_HD exec::Sums<1, T> operator()(T u, T g, T& d, T& r) const {
    d = d + beta * u;
    r = r - beta * g;
    return {{T(abs2(r))}};
  }
};
template <class T>
struct IdrLast {  // d += omega P r,  r -= omega t
  T omega;
  TACIT_HD void operator()(T ph, T t, T& d, T& r) const {
    d = d + omega * ph;
    r = r - omega * t;
  }
};
template <class T>
struct IdrLastPlain {  // without P
  T omega;
  TACIT_HD void operator()(T t, T& d, T& r) const { IdrLast<T>{omega}(r, t, d, r); }
};
template <class T>
struct IdrSmoothing {  // (t, r), (t, t), (r, r)
  TACIT_HD exec::Sums<3, T> operator()(T t, T r) const { return {{conj(t) * r, T(abs2(t)), T(abs2(r))}}; }
};
}  // namespace formula

/// Any square A. A product with A, of s + 1 in a cycle, is an iteration: 1 product, 1 apply of P, 2 reductions, and on
/// average (3 s^2 + 16 s + 4) / (s + 1) vectors of traffic beside the product's, with P (3 s^2 + 18 s + 5) / (s + 1).
/// Vectors: P, G, U (3 s), g, u, v, r, d, and the best d so far. Breakdowns: M_kk, (t, t), omega = (t, r) / (t, t).
template <Scalar T, Memory M>
class Idr final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  explicit Idr(const Options& options) : s_(options.shadow_dimension.value_or(4)) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    using namespace exec;
    auto& A = run.A;
    const auto* P = run.P;
    auto &r = run.r, &d = run.d, &v = run.w[0];
    begin(run);
    monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
    monitor.confirm_by([&] { return layout::max_norm(r); });
    double norm = shadow_products(r);  // f = P^H r
    Best<T, M> best(run.w[1], norm);
    T omega{1};
    for (int k = 0; monitor.go_on(norm); k = (k + 1) % (s_ + 1)) {
      best.look(norm, [&](Vector& to) { layout::copy(d, to); });
      if (k < s_) {
        auto &u = *u_[s_], &g = *g_[s_];
        solve(k);  // M c = f, from k on
        look_ahead(run, k, omega, u);
        A.apply(u, g);                                  // g = A u
        const double g_norm = products_with_shadow(g);  // m = P^H g
        biorthogonalise(k);                             // g, u orthogonal to p_0 .. p_k-1
        subtract(g_, k, g);
        subtract(u_, k, u);
        if (!(std::abs(m_[k]) > tiny * g_norm)) {
          monitor.breakdown("M_kk", std::abs(m_[k]), "the shadow space does not see the new direction");
          break;
        }
        std::swap(u_[k], u_[s_]), std::swap(g_[k], g_[s_]);
        const T beta = f_[k] / m_[k];  // r -= beta g,  d += beta u,  f = P^H r
        for (int j = k; j < s_; ++j) entry(j, k) = m_[j], f_[j] -= beta * m_[j];
        const auto step = sweep(reads(u, g), updates(d, r), writes(), formula::IdrStep<T>{beta});
        norm = std::sqrt(double(real(r.space().sum(step).wait()[0])));
      } else {
        auto &t = *g_[s_], &ph = P ? v : r;
        if (P) P->apply(r, v);
        A.apply(ph, t);  // t = A P r
        const auto sums = sweep(reads(t, r), updates(), writes(), formula::IdrSmoothing<T>{});
        const auto [tr, tt, rr] = r.space().sum(sums).wait();
        const double lengths = std::sqrt(double(real(tt))) * std::sqrt(double(real(rr))),
                     angle = std::abs(tr) / lengths;
        if (!(std::abs(tr) > tiny * lengths)) {
          monitor.breakdown("omega", std::abs(tr), "(t, r) vanishes: the residual cannot be reduced along t");
          break;
        }
        omega = tr / tt;
        // A residual almost orthogonal to t would make omega small and spoil the next cycle (section 4.4).
        if (angle < 0.7) omega *= T(real_t<T>(0.7 / angle));
        // d += omega P r,  r -= omega t,  f = P^H r
        if (P) sweep(reads(ph, t), updates(d, r), writes(), formula::IdrLast<T>{omega});
        else sweep(reads(t), updates(d, r), writes(), formula::IdrLastPlain<T>{omega});
        norm = shadow_products(r);
      }
    }
    if (best.stays(norm, monitor)) layout::copy(run.w[1], d);
  }

  std::string step_down() override {
    if (seed_ == 12) return {};
    ++seed_, p_.clear();
    return "it went on with another shadow space";
  }

 private:
  static constexpr double tiny = 1e-3 * double(std::numeric_limits<real_t<T>>::epsilon());

  /// u = U c + omega P (r - G c), with the columns from k on.
  void look_ahead(const Run<T, M>& run, int k, T omega, Vector& u) {
    const auto* P = run.P;
    auto& v = P ? run.w[0] : u;
    layout::copy(run.r, v);
    terms_.clear(), factors_.clear();
    const auto take = [&](const std::vector<Vector*>& of, T scale) {
      for (int i = k; i < s_; ++i)
        terms_.push_back(of[std::size_t(i)]->data()), factors_.push_back(c_[std::size_t(i)] / scale);
    };
    const auto subtract_terms = [&](T scale, Vector& to) {
      exec::basis_subtract<T, M>(terms_.data(), int(terms_.size()), factors_.data(), scale, to.data(), to.size(),
                                 false);
    };
    take(g_, T(1));
    if (P) {
      subtract_terms(T(1), v);
      P->apply(v, u);
      terms_.clear(), factors_.clear();
    }
    take(u_, -omega);
    subtract_terms(omega, u);
  }
  T& entry(int row, int column) { return matrix_[std::size_t(column) * std::size_t(s_) + std::size_t(row)]; }
  /// to := to - sum_i c_i v_i, i < end.
  void subtract(const std::vector<Vector*>& v, int end, Vector& to) {
    if (end == 0) return;
    terms_.clear();
    for (int i = 0; i < end; ++i) terms_.push_back(v[std::size_t(i)]->data());
    exec::basis_subtract<T, M>(terms_.data(), end, c_.data(), T(1), to.data(), to.size(), false);
  }
  /// m = P^H v; ||v||. One reduction.
  double products_with_shadow(const Vector& v) {
    exec::basis_dots<T, M>(p_.data(), s_, v.data(), v.size(), m_.data(), true);
    v.space().sum(m_.data(), std::size_t(s_ + 1));
    return std::sqrt(double(real(m_[std::size_t(s_)])));
  }
  /// f = P^H r; ||r||.
  double shadow_products(const Vector& r) {
    const double norm = products_with_shadow(r);
    std::copy_n(m_.begin(), s_, f_.begin());
    return norm;
  }
  /// c from M c = f, rows and columns from k on.
  void solve(int k) {
    for (int i = k; i < s_; ++i) {
      c_[i] = f_[i];
      for (int j = k; j < i; ++j) c_[i] -= entry(i, j) * c_[j];
      c_[i] /= entry(i, i);
    }
  }
  /// c: with the first k columns of G, g - G c is orthogonal to the first k shadow vectors; m := P^H (g - G c).
  void biorthogonalise(int k) {
    for (int i = 0; i < k; ++i) {
      c_[i] = m_[i] / entry(i, i);
      for (int j = i; j < s_; ++j) m_[j] -= c_[i] * entry(j, i);
    }
  }
  /// G = U = 0, M = I; the shadow space is made once, of pseudo-random vectors.
  void begin(const Run<T, M>& run) {
    auto& w = run.w;
    s_ = int(std::clamp<Global>(run.r.space().size(), 1, s_));  // there are not more directions than unknowns
    const auto s = std::size_t(s_);
    u_.clear(), g_.clear(), f_.resize(s), c_.resize(s + 1), m_.resize(s + 1), terms_.reserve(2 * s),
        factors_.reserve(2 * s);
    matrix_.assign(s * s, T(0));
    for (int i = 0; i < s_; ++i) entry(i, i) = T(1);
    for (std::size_t i = 0; i <= s; ++i) u_.push_back(&w[2 + i]), g_.push_back(&w[3 + s + i]);
    for (std::size_t i = 0; i <= s; ++i) layout::fill(*u_[i], T(0)), layout::fill(*g_[i], T(0));
    for (auto i = p_.size(); i < s; ++i) {
      auto& p = w[4 + 2 * s + i];
      scatter(p, std::uint64_t(1 + seed_) * (s + 1) + i);
      // Scaled to an expected length of 1; random vectors are nearly orthogonal to each other.
      layout::scale(T(real_t<T>(std::sqrt((is_complex<T> ? 1.5 : 3) / double(p.space().size())))), p);
      p_.push_back(p.data());
    }
  }

  int s_, seed_ = 0;
  std::vector<const T*> p_, terms_;
  std::vector<Vector*> u_, g_;  // s and one to work with
  std::vector<T> f_, c_, m_, matrix_, factors_;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_idr(const Options& options) {
  return std::make_unique<Idr<T, M>>(options);
}

}  // namespace tacit::krylov
