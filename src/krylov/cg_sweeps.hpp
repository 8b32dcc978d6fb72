// The two sweeps of s-step CG that store no basis: the powers of A with the moments of p and r, from which the
// coefficients of s iterations follow, and these iterations with known coefficients. Each sweep is a wavefront
// (op/wavefront.hpp): it reads the matrix from memory once.
//
//   m_k = (u, T_k v),  (T_i u, T_j v) = (m_{i+j} + m_{|i-j|}) / 2     for Chebyshev polynomials T_k of a Hermitian A
#pragma once

#include "krylov/sweep_parts.hpp"
#include "krylov/sweep_rows.hpp"

#include <array>
#include <span>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// A part of p and z with what CG makes of them.
template <Scalar T>
struct CgPart : SweepPart<T> {
  exec::Array<T, Host> other, power[2], power_of_z[2], product[2];
};

/// Sweeps over p and z = P r of CG, for a Hermitian matrix in host memory and a diagonal P (or none, z = r), in parts
/// for threads and ranks (sweep_parts.hpp). Results are the same bits for any number of threads. Vectors: 7, with P 9.
///
/// With P these are sweeps over P A, which is Hermitian in the inner product (u, v)_M = u^H P^-1 v.
template <Scalar T>
class CgSweeps : public SweepParts<T, CgPart<T>> {
  using Base = SweepParts<T, CgPart<T>>;
  using Part = CgPart<T>;
  using Base::A, Base::scaled, Base::scaling, Base::inverse, Base::row, Base::wave_;

 public:
  using W = exec::wide_t<T>;
  struct Step {
    double alpha, beta;
    bool turns = true;  ///< whether p is renewed: p := z + beta p
  };
  /// Sums of a level of powers, with T_k of P A: (T_k p, T_k p)_M, (T_k p, T_{k-1} p)_M, the same of z, (T_k p, T_k
  /// z)_M, (T_k p, T_{k-1} z)_M.
  static constexpr int sums = 6;
  /// Of all levels 0 .. s, and behind them (p, A p) and (r, r).
  static constexpr int sums_of(int s) { return sums * (s + 1) + 2; }

  CgSweeps(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads);

  /// (r, z) and (r, r) of this rank's rows.
  std::array<W, 2> squares();
  /// p := z + beta p
  void turn(double beta);
  /// T_1 .. T_s by the steps of their recurrence: v_{k+1} = (P A v_k - alpha v_k - beta v_{k-1}) / gamma. `to` gets
  /// sums_of(s) numbers, of this rank's rows. s products of two vectors, one exchange.
  void powers(std::span<const op::RecurrenceStep<T>> steps, std::span<W> to);
  /// x += alpha_j p_j,  z -= alpha_j P A p_j,  p_{j+1} = z + beta_j p_j. As many products as steps, no exchange after
  /// powers().
  void iterate(std::span<const Step> steps, T* x);

 private:
  template <bool scaled>
  void powers_of(Part& part, std::span<const op::RecurrenceStep<T>> steps);
  template <bool scaled, bool first, bool last>
  void power(Part& part, const op::RecurrenceStep<T>& step, int k, int b, W* to, W* ends);
  template <bool scaled>
  void steps_of(Part& part, std::span<const Step> steps, T* x);
  template <bool scaled, bool first, bool two, bool last>
  void step(Part& part, std::span<const Step> steps, int j, int b, T* x);
};

template <Scalar T>
CgSweeps<T>::CgSweeps(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads)
    : Base(A, P, most, threads) {
  const auto longest = std::size_t(this->rows_of_longest_block());
  for (Part& part : this->part_) {
    for (auto* v : {&part.other, &part.power[0], &part.power[1], &part.power_of_z[0], &part.power_of_z[1]})
      *v = exec::Array<T, Host>::uninitialised(std::size_t(part.rows()));
    for (auto& v : part.product) v = exec::Array<T, Host>::uninitialised(longest);
  }
}

template <Scalar T>
std::array<typename CgSweeps<T>::W, 2> CgSweeps<T>::squares() {
  this->begin_sums(2);
  this->each_part([&](Part& part) {
    const T* const z = part.of(part.z);
    for (int b = part.range.back().begin; b < part.range.back().end; ++b) {
      W* const sum = this->group_sums(b);
      for (Local k = std::max(part.begin, row(b)); k < std::min(part.end, row(b + 1)); ++k) {
        const T r = scaled() ? inverse()[k] * z[k] : z[k];
        sum[0] += conj(W(r)) * W(z[k]), sum[1] += conj(W(r)) * W(r);
      }
    }
  });
  std::array<W, 2> total;
  this->add_up(total);
  return total;
}

template <Scalar T>
void CgSweeps<T>::turn(double beta) {
  this->each_part([&](Part& part) {
    T *const p = part.of(part.p), *const z = part.of(part.z);
    for (Local k = part.begin; k < part.end; ++k) p[k] = beta == 0 ? z[k] : z[k] + T(real_t<T>(beta)) * p[k];
  });
}

template <Scalar T>
template <bool scaled, bool first, bool last>
[[gnu::noinline]] void CgSweeps<T>::power(Part& part, const op::RecurrenceStep<T>& step, int k, int b, W* to, W* ends) {
  // T_k overwrites T_{k-2}, but for T_0: p and z themselves.
  const Local begin = row(b), end = row(b + 1);
  T *const out = part.of(part.power[k % 2]), *const out_z = part.of(part.power_of_z[k % 2]);
  T* const p = first ? part.of(part.p) : part.of(part.power[(k - 1) % 2]);
  T* const z = first ? part.of(part.z) : part.of(part.power_of_z[(k - 1) % 2]);
  const T *const before = k == 2 ? part.of(part.p) : out, *const before_z = k == 2 ? part.of(part.z) : out_z;
  T *const Ap = part.product[0].data(), *const Az = part.product[1].data();
  if constexpr (last) A().multiply_block(b, p, Ap);
  else A().multiply_block(b, {p, z}, {Ap, Az});
  const auto scale = T(1 / step.gamma);
  const T *const d = scaled ? scaling() : nullptr, *const weight = scaled ? inverse() : nullptr;
  using Sums = detail::RowSums<T, sums + (!first ? 0 : scaled ? 5 : 4)>;  // with level 0, (p, A p) and (r, r)
  detail::each_piece(begin, end, part.begin, part.end, [&](Local from, Local until, bool own) {
    Sums sum;
    detail::each_row<T>(
        until - from, [&](auto type, std::ptrdiff_t at) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          const std::ptrdiff_t i = from + at, in_block = i - begin;
          const auto next = [&](const T* product, const X& v, const T* older) __attribute__((always_inline)) {
            X y = detail::load<X>(product + in_block);
            if constexpr (scaled) y = detail::load<X>(d + i) * y;
            y = y - step.alpha * v;
            if (!first) y = y - step.beta * detail::load<X>(older + i);
            return X(scale * y);
          };
          const auto weighted = [&](const X& v) __attribute__((always_inline)) {
            if constexpr (scaled) return X(detail::load<X>(weight + i) * v);
            else return v;
          };
          const X v = detail::load<X>(p + i), u = detail::load<X>(z + i);
          const X y = next(Ap, v, before), of_y = weighted(y);
          if (!last) detail::store(out + i, y);
          sum.add(0, of_y, y), sum.add(1, of_y, v), sum.add(5, of_y, u);
          if constexpr (!last) {
            const X w = next(Az, u, before_z), of_w = weighted(w);
            detail::store(out_z + i, w);
            sum.add(2, of_w, w), sum.add(3, of_w, u), sum.add(4, of_y, w);
          }
          if constexpr (first) {
            const X of_v = weighted(v), r = weighted(u);
            sum.add(6, of_v, v), sum.add(7, r, u), sum.add(8, of_v, u);
            sum.add(9, v, detail::load<X>(Ap + in_block));
            if constexpr (scaled) sum.add(10, r, r);
          }
        });
    if (!own) return;
    for (int i = 0; i < sums; ++i) to[k * sums + i] += sum.sum(i);
    if constexpr (first) {
      to[0] += sum.sum(6), to[2] += sum.sum(7), to[4] += sum.sum(8);
      ends[0] += sum.sum(9), ends[1] += sum.sum(scaled ? 10 : 7);
    }
  });
}

template <Scalar T>
template <bool scaled>
void CgSweeps<T>::powers_of(Part& part, std::span<const op::RecurrenceStep<T>> steps) {
  const int s = int(steps.size());
  wave_.run(part.levels(s), part.next, [&](int level, int b) {
    const auto& step = steps[std::size_t(level)];
    W* const sum = part.owns(b) ? this->group_sums(b) : nullptr;
    W* const ends = sum ? sum + sums_of(s) - 2 : nullptr;
    const bool first = level == 0, last = level + 1 == s;
    if (first && last) power<scaled, true, true>(part, step, level + 1, b, sum, ends);
    else if (first) power<scaled, true, false>(part, step, level + 1, b, sum, ends);
    else if (last) power<scaled, false, true>(part, step, level + 1, b, sum, ends);
    else power<scaled, false, false>(part, step, level + 1, b, sum, ends);
  });
}

template <Scalar T>
void CgSweeps<T>::powers(std::span<const op::RecurrenceStep<T>> steps, std::span<W> to) {
  const int s = int(steps.size());
  this->exchange();
  this->begin_sums(std::size_t(sums_of(s)));
  this->each_part([&](Part& part) { scaled() ? powers_of<true>(part, steps) : powers_of<false>(part, steps); });
  // p and z are read, four vectors for T_{k-1} and T_k read and written once; the rest is in cache.
  this->note("moments", 2 * s, 10 + 2 * scaled(), s * (2 * sums + 8));
  this->add_up(to);
}

/// Step j in three-term form: z_j = p_j - beta_{j-1} p_{j-1} is not stored between the steps, p_{j+1} overwrites
/// p_{j-1}, and x takes two steps at once.
template <Scalar T>
template <bool scaled, bool first, bool two, bool last>
[[gnu::noinline]] void CgSweeps<T>::step(Part& part, std::span<const Step> steps, int j, int b, T* x) {
  const Local begin = row(b), end = row(b + 1);
  T *const p = part.of(j % 2 ? part.other : part.p), *const old = part.of(j % 2 ? part.p : part.other);
  T *const z = part.of(part.z), *const Ap = part.product[0].data();
  const T* const d = scaled ? scaling() : nullptr;
  const Step &now = steps[std::size_t(j)], &before = steps[std::size_t(first ? 0 : j - 1)];
  const auto number = [](double v) { return T(real_t<T>(v)); };
  const T alpha = number(now.alpha), beta = number(now.turns ? now.beta : 0), alpha_before = number(before.alpha),
          beta_before = number(before.beta);
  A().multiply_block(b, p, Ap);
  x -= this->first_own();
  const auto rows = [&](Local from, Local until, auto adds, auto turns) {
    detail::each_row<T>(
        until - from, [&](auto type, std::ptrdiff_t at) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          const std::ptrdiff_t k = from + at;
          const X v = detail::load<X>(p + k);
          X o{};
          if constexpr (!first) o = detail::load<X>(old + k);
          X y, Av = detail::load<X>(Ap + (k - begin));
          if constexpr (scaled) Av = detail::load<X>(d + k) * Av;
          if constexpr (first) y = detail::load<X>(z + k);
          else y = v - beta_before * o;
          y = y - alpha * Av;
          if constexpr (adds.value) {
            X sum = detail::load<X>(x + k) + alpha * v;
            if constexpr (two) sum = sum + alpha_before * o;
            detail::store(x + k, sum);
          }
          if constexpr (last) detail::store(z + k, y);
          detail::store(old + k, turns.value ? X(y + beta * v) : v);
        });
  };
  detail::each_piece(begin, end, part.begin, part.end, [&](Local from, Local until, bool own) {
    const bool adds = own && (two || last);
    if (adds && now.turns) rows(from, until, std::true_type(), std::true_type());
    else if (adds) rows(from, until, std::true_type(), std::false_type());
    else if (now.turns) rows(from, until, std::false_type(), std::true_type());
    else rows(from, until, std::false_type(), std::false_type());
  });
}

template <Scalar T>
template <bool scaled>
void CgSweeps<T>::steps_of(Part& part, std::span<const Step> steps, T* x) {
  const int count = int(steps.size());
  wave_.run(part.levels(count), part.next, [&](int j, int b) {
    const bool odd = j % 2 == 1;
    if (j == 0)
      count == 1 ? step<scaled, true, false, true>(part, steps, j, b, x)
                 : step<scaled, true, false, false>(part, steps, j, b, x);
    else if (j + 1 == count)
      odd ? step<scaled, false, true, true>(part, steps, j, b, x)
          : step<scaled, false, false, true>(part, steps, j, b, x);
    else
      odd ? step<scaled, false, true, false>(part, steps, j, b, x)
          : step<scaled, false, false, false>(part, steps, j, b, x);
  });
  if (count % 2) std::swap(part.p, part.other);
}

template <Scalar T>
void CgSweeps<T>::iterate(std::span<const Step> steps, T* x) {
  if (steps.empty()) return;
  this->each_part([&](Part& part) { scaled() ? steps_of<true>(part, steps, x) : steps_of<false>(part, steps, x); });
  this->note("iterations", int(steps.size()), 7 + scaled(), 6 * int(steps.size()));
}

}  // namespace tacit::krylov
