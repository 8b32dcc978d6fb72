// The two sweeps of s-step CG that store no basis: the powers of A with the moments of p and r, from which the
// coefficients of s iterations follow, and these iterations with known coefficients. Each sweep is a wavefront
// (op/wavefront.hpp): it reads the matrix from memory once.
//
//   m_k = (u, T_k v),  (T_i u, T_j v) = (m_{i+j} + m_{|i-j|}) / 2     for Chebyshev polynomials T_k of a Hermitian A
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/exec/pairs.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/local_matrix.hpp>
#include "base/lanes.hpp"
#include "base/registers.hpp"
#include "op/wavefront.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// p and r of CG, and sweeps over them, for a Hermitian matrix on one rank in host memory. The rows are divided among
/// the threads; each also computes the rows near its own that later levels need. Results are the same bits for any
/// number of threads. Vectors: 7.
template <Scalar T>
class CgSweeps {
 public:
  using W = exec::wide_t<T>;
  struct Step {
    double alpha, beta;
    bool turns = true;  ///< whether p is renewed: p := r + beta p
  };
  /// Sums of a level of powers: (T_k p, T_k p), (T_k p, T_{k-1} p), the same of r, (T_k p, T_k r), (T_k p, T_{k-1} r).
  static constexpr int sums = 6;

  CgSweeps(const op::LocalMatrix<T>& A, int most, int parts);
  /// Rows that threads compute beside their own, on average over the levels, for each row of the matrix.
  double redundancy() const { return redundancy_; }

  /// r := this vector; p stays.
  void set_residual(const T* r);
  /// to := r
  void copy_residual(T* to) const;
  /// p := r + beta p
  void turn(double beta);
  /// T_1 .. T_s by the steps of their recurrence: v_{k+1} = (A v_k - alpha v_k - beta v_{k-1}) / gamma. `to` gets
  /// `sums` numbers for each of the levels 0 .. s, and (p, A p) last. s products of two vectors.
  void powers(std::span<const op::RecurrenceStep<T>> steps, std::span<W> to);
  /// x += alpha_j p_j,  r -= alpha_j A p_j,  p_{j+1} = r + beta_j p_j. As many products as steps.
  void iterate(std::span<const Step> steps, T* x);

 private:
  static constexpr int group = 16;  // blocks whose sums are formed together
  struct Part {
    std::vector<op::BlockRange> range;    // of levels with .., 1, 0 levels behind them; the last: its own
    Local first = 0, begin = 0, end = 0;  // of its arrays; own rows
    std::vector<int> next;                // work space of a wavefront
    exec::Array<T, Host> p, other, r, power[2], power_of_r[2], product[2];
    T* of(exec::Array<T, Host>& v) const { return v.data() - first; }
  };
  std::span<const op::BlockRange> levels(const Part& part, int count) const {
    return std::span(part.range).last(std::size_t(count));
  }
  void exchange();
  /// Notes a sweep that moves the matrix and so many vectors, with these operations for each row.
  void work(const char* name, int vectors, int operations) const {
    if (!Trace::on()) return;
    const double n = A_.blocks() ? double(A_.first_row(A_.blocks())) : 0;
    Trace::work(name, A_.bytes() + vectors * n * sizeof(T), (is_complex<T> ? 4 : 1) * operations * n);
  }
  template <bool first, bool last>
  void power(Part& part, const op::RecurrenceStep<T>& step, int k, int b, W* to, W* pAp);

  template <bool first, bool two, bool last>
  void step(Part& part, std::span<const Step> steps, int j, int b, T* x);

  const op::LocalMatrix<T>& A_;
  std::vector<Part> part_;
  std::vector<W> partial_;
  double redundancy_ = 0;
};

namespace detail {

/// Sums of products of rows: of whole registers, lane by lane, and of the rows behind them.
template <class T, int count>
struct RowSums {
  static constexpr int lanes = register_bytes / int(sizeof(double));
  typedef double Wide __attribute__((vector_size(lanes * sizeof(double))));
  typedef real_t<T> Row __attribute__((vector_size(lanes * sizeof(real_t<T>))));
  using W = exec::wide_t<T>;
  Wide all[count] = {};
  W rest[count] = {};

  void add(int i, const Row& a, const Row& b) {
    if constexpr (std::same_as<real_t<T>, double>) all[i] = mul_add(a, b, all[i]);
    else all[i] = mul_add(__builtin_convertvector(a, Wide), __builtin_convertvector(b, Wide), all[i]);
  }
  void add(int i, const T& a, const T& b) { rest[i] += conj(W(a)) * W(b); }
  W sum(int i) const {
    W s = rest[i];
    if constexpr (!is_complex<T>)
      for (int l = 0; l < lanes; ++l) s += all[i][l];
    return s;
  }
};

/// Calls f(X, i) for n rows, X being a register of real rows from i on, or the type of row i.
template <class T, class F>
[[gnu::always_inline]] inline void each_row(std::ptrdiff_t n, F&& f) {
  using Row = typename RowSums<T, 1>::Row;
  std::ptrdiff_t i = 0;
  if constexpr (!is_complex<T>)
    for (; i + RowSums<T, 1>::lanes <= n; i += RowSums<T, 1>::lanes) f(std::type_identity<Row>(), i);
  for (; i < n; ++i) f(std::type_identity<T>(), i);
}
template <class X, class T>
[[gnu::always_inline]] inline X load(const T* from) {
  X x;
  std::memcpy(static_cast<void*>(&x), from, sizeof x);
  return x;
}
template <class X, class T>
[[gnu::always_inline]] inline void store(T* to, const X& x) {
  std::memcpy(static_cast<void*>(to), &x, sizeof x);
}

}  // namespace detail

template <Scalar T>
CgSweeps<T>::CgSweeps(const op::LocalMatrix<T>& A, int most, int parts) : A_(A) {
  const int blocks = A.blocks(), groups = (blocks + group - 1) / group;
  parts = std::max(1, std::min(parts, groups));
  Local longest = 0, computed = 0;
  for (int b = 0; b < blocks; ++b) longest = std::max(longest, A.first_row(b + 1) - A.first_row(b));
  part_.resize(std::size_t(parts));
  for (int i = 0; i < parts; ++i) {
    Part& part = part_[std::size_t(i)];
    const auto cut = [&](int k) { return std::min(blocks, int(std::int64_t(groups) * k / parts) * group); };
    part.range = op::blocks_around(A, {cut(i), cut(i + 1)}, most);
    std::reverse(part.range.begin(), part.range.end());
    part.begin = A.first_row(cut(i)), part.end = A.first_row(cut(i + 1));
    const auto [first, last] = part.range.front();
    part.first = A.first_row(first);
    const Local rows = A.first_row(last) - part.first;
    for (auto* v :
         {&part.p, &part.other, &part.r, &part.power[0], &part.power[1], &part.power_of_r[0], &part.power_of_r[1]})
      *v = exec::Array<T, Host>::uninitialised(std::size_t(rows));
    for (auto& v : part.product) v = exec::Array<T, Host>::uninitialised(std::size_t(longest));
    for (const auto& range : levels(part, most))
      computed += A.first_row(range.end) - A.first_row(range.begin) - (part.end - part.begin);
  }
  if (blocks) redundancy_ = double(computed) / (double(most) * A.first_row(blocks));
}

template <Scalar T>
void CgSweeps<T>::set_residual(const T* r) {
  const exec::Tasks::InOrder in_order(true);
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    Part& part = part_[i];
    std::copy(r + part.begin, r + part.end, part.of(part.r) + part.begin);
  });
}

template <Scalar T>
void CgSweeps<T>::copy_residual(T* to) const {
  const exec::Tasks::InOrder in_order(true);
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    const Part& part = part_[i];
    std::copy_n(part.r.data() + (part.begin - part.first), part.end - part.begin, to + part.begin);
  });
}

template <Scalar T>
void CgSweeps<T>::turn(double beta) {
  const exec::Tasks::InOrder in_order(true);
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    Part& part = part_[i];
    T *const p = part.of(part.p), *const r = part.of(part.r);
    for (Local k = part.begin; k < part.end; ++k) p[k] = beta == 0 ? r[k] : r[k] + T(real_t<T>(beta)) * p[k];
  });
}

/// Gets the rows of p and r that other threads have.
template <Scalar T>
void CgSweeps<T>::exchange() {
  if (part_.size() < 2) return;
  exec::parallel_for(part_.size(), true, [&](std::size_t i) {
    Part& part = part_[i];
    const Local last = part.first + Local(part.p.size());
    for (const Part& from : part_) {
      const Local begin = std::max(from.begin, part.first), end = std::min(from.end, last);
      if (&from == &part || begin >= end) continue;
      std::copy_n(from.p.data() + (begin - from.first), end - begin, part.of(part.p) + begin);
      std::copy_n(from.r.data() + (begin - from.first), end - begin, part.of(part.r) + begin);
    }
  });
}

template <Scalar T>
template <bool first, bool last>
[[gnu::noinline]] void CgSweeps<T>::power(Part& part, const op::RecurrenceStep<T>& step, int k, int b, W* to, W* pAp) {
  // T_k overwrites T_{k-2}, but for T_0: p and r themselves.
  const Local row = A_.first_row(b), n = A_.first_row(b + 1) - row;
  T *const out = part.of(part.power[k % 2]) + row, *const out_r = part.of(part.power_of_r[k % 2]) + row;
  T* const from = first ? part.of(part.p) : part.of(part.power[(k - 1) % 2]);
  T* const from_r = first ? part.of(part.r) : part.of(part.power_of_r[(k - 1) % 2]);
  const T *const p = from + row, *const r = from_r + row;
  const T *const before = k == 2 ? part.of(part.p) + row : out, *const before_r =
                                                                    k == 2 ? part.of(part.r) + row : out_r;
  T *const Ap = part.product[0].data(), *const Ar = part.product[1].data();
  if constexpr (last) A_.multiply_block(b, from, Ap);
  else A_.multiply_block(b, {from, from_r}, {Ap, Ar});
  const auto scale = T(1 / step.gamma);
  constexpr int more = first ? 4 : 0;  // with level 0, and (p, A p)
  detail::RowSums<T, sums + more> z;
  detail::each_row<T>(
      n, [&](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
        using X = typename decltype(type)::type;
        const auto next = [&](const T* product, const X& v, const T* older) __attribute__((always_inline)) {
          X y = detail::load<X>(product + i) - step.alpha * v;
          if (!first) y = y - step.beta * detail::load<X>(older + i);
          return X(scale * y);
        };
        const X v = detail::load<X>(p + i), u = detail::load<X>(r + i);
        const X y = next(Ap, v, before);
        if (!last) detail::store(out + i, y);
        z.add(0, y, y), z.add(1, y, v), z.add(5, y, u);
        if constexpr (!last) {
          const X w = next(Ar, u, before_r);
          detail::store(out_r + i, w);
          z.add(2, w, w), z.add(3, w, u), z.add(4, y, w);
        }
        if constexpr (first) z.add(6, v, v), z.add(7, u, u), z.add(8, v, u), z.add(9, v, detail::load<X>(Ap + i));
      });
  if (!to) return;
  for (int i = 0; i < sums; ++i) to[k * sums + i] += z.sum(i);
  if constexpr (first) to[0] += z.sum(6), to[2] += z.sum(7), to[4] += z.sum(8), *pAp += z.sum(9);
}

template <Scalar T>
void CgSweeps<T>::powers(std::span<const op::RecurrenceStep<T>> steps, std::span<W> to) {
  const exec::Tasks::InOrder in_order(true);
  const int s = int(steps.size()), width = sums * (s + 1) + 1;
  const std::size_t groups = std::size_t((A_.blocks() + group - 1) / group);
  exchange();
  partial_.assign(groups * std::size_t(width), W(0));
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    Part& part = part_[i];
    const auto range = levels(part, s);
    op::wavefront(A_, range, part.next, [&](int level, int b) {
      const auto& step = steps[std::size_t(level)];
      const bool own = b >= part.range.back().begin && b < part.range.back().end;
      W* const sum = own ? partial_.data() + std::size_t(b / group) * std::size_t(width) : nullptr;
      W* const pAp = own ? sum + width - 1 : nullptr;
      const bool first = level == 0, last = level + 1 == s;
      if (first && last) power<true, true>(part, step, level + 1, b, sum, pAp);
      else if (first) power<true, false>(part, step, level + 1, b, sum, pAp);
      else if (last) power<false, true>(part, step, level + 1, b, sum, pAp);
      else power<false, false>(part, step, level + 1, b, sum, pAp);
    });
  });
  // p and r are read, four vectors for T_{k-1} and T_k read and written once; the rest is in cache.
  work("moments", 10, s * (2 * sums + 8));
  std::fill(to.begin(), to.end(), W(0));
  for (std::size_t g = 0; g < groups; ++g)
    for (int i = 0; i < width; ++i) to[std::size_t(i)] += partial_[g * std::size_t(width) + std::size_t(i)];
}

/// Step j in three-term form: r_j = p_j - beta_{j-1} p_{j-1} is not stored between the steps, p_{j+1} overwrites
/// p_{j-1}, and x takes two steps at once.
template <Scalar T>
template <bool first, bool two, bool last>
[[gnu::noinline]] void CgSweeps<T>::step(Part& part, std::span<const Step> steps, int j, int b, T* x) {
  const Local row = A_.first_row(b), n = A_.first_row(b + 1) - row;
  T* const from = part.of(j % 2 ? part.other : part.p);
  const T* const p = from + row;
  T* const old = part.of(j % 2 ? part.p : part.other) + row;
  T *const r = part.of(part.r) + row, *const Ap = part.product[0].data();
  const Step &now = steps[std::size_t(j)], &before = steps[std::size_t(first ? 0 : j - 1)];
  const auto number = [](double v) { return T(real_t<T>(v)); };
  const T alpha = number(now.alpha), beta = number(now.turns ? now.beta : 0), alpha_before = number(before.alpha),
          beta_before = number(before.beta);
  A_.multiply_block(b, from, Ap);
  const auto rows = [&](auto adds, auto turns) {
    detail::each_row<T>(
        n, [&](auto type, std::ptrdiff_t k) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          const X v = detail::load<X>(p + k);
          X o{};
          if constexpr (!first) o = detail::load<X>(old + k);
          X y;
          if constexpr (first) y = detail::load<X>(r + k);
          else y = v - beta_before * o;
          y = y - alpha * detail::load<X>(Ap + k);
          if constexpr (adds.value) {
            X sum = detail::load<X>(x + row + k) + alpha * v;
            if constexpr (two) sum = sum + alpha_before * o;
            detail::store(x + row + k, sum);
          }
          if constexpr (last) detail::store(r + k, y);
          detail::store(old + k, turns.value ? X(y + beta * v) : v);
        });
  };
  const bool own = b >= part.range.back().begin && b < part.range.back().end, adds = own && (two || last);
  if (adds && now.turns) rows(std::true_type(), std::true_type());
  else if (adds) rows(std::true_type(), std::false_type());
  else if (now.turns) rows(std::false_type(), std::true_type());
  else rows(std::false_type(), std::false_type());
}

template <Scalar T>
void CgSweeps<T>::iterate(std::span<const Step> steps, T* x) {
  const exec::Tasks::InOrder in_order(true);
  if (steps.empty()) return;
  const int count = int(steps.size());
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    Part& part = part_[i];
    const auto range = levels(part, count);
    op::wavefront(A_, range, part.next, [&](int j, int b) {
      if (j == 0)
        count == 1 ? step<true, false, true>(part, steps, j, b, x) : step<true, false, false>(part, steps, j, b, x);
      else if (j + 1 == count)
        j % 2 ? step<false, true, true>(part, steps, j, b, x) : step<false, false, true>(part, steps, j, b, x);
      else j % 2 ? step<false, true, false>(part, steps, j, b, x) : step<false, false, false>(part, steps, j, b, x);
    });
    if (count % 2) std::swap(part.p, part.other);
  });
  work("iterations", 7, 6 * count);
}

}  // namespace tacit::krylov
