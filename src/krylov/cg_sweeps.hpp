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
#include "op/rows_around.hpp"
#include "op/wavefront.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// p and z = P r of CG, and sweeps over them, for a Hermitian matrix in host memory and a diagonal P (or none, z = r).
/// The rows of a rank are divided among its threads; each also computes the rows near its own that later levels need,
/// of this rank or of others. Results are the same bits for any number of threads. Vectors: 7, with P 9.
///
/// With P these are sweeps over P A, which is Hermitian in the inner product (u, v)_M = u^H P^-1 v.
template <Scalar T>
class CgSweeps {
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

  /// A, for at least `most` products. P: null where there is none; one exchange on several ranks. Fewer threads are
  /// used where these would compute more than a quarter of their rows twice. Collective.
  CgSweeps(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads);

  /// z := P r for this residual; p stays.
  void set_residual(const T* r);
  /// to := r
  void copy_residual(T* to) const;
  /// (r, z) and (r, r) of this rank's rows.
  std::array<W, 2> squares() const;
  /// p := z + beta p
  void turn(double beta);
  /// T_1 .. T_s by the steps of their recurrence: v_{k+1} = (P A v_k - alpha v_k - beta v_{k-1}) / gamma. `to` gets
  /// sums_of(s) numbers, of this rank's rows. s products of two vectors, one exchange.
  void powers(std::span<const op::RecurrenceStep<T>> steps, std::span<W> to);
  /// x += alpha_j p_j,  z -= alpha_j P A p_j,  p_{j+1} = z + beta_j p_j. As many products as steps, no exchange after
  /// powers().
  void iterate(std::span<const Step> steps, T* x);

 private:
  static constexpr int group = 16;  // blocks whose sums are formed together
  struct Part {
    std::vector<op::BlockRange> range;    // of levels with .., 1, 0 levels behind them; the last: its own
    Local first = 0, begin = 0, end = 0;  // of its arrays; own rows
    exec::Array<T, Host> p, other, z, power[2], power_of_z[2], product[2];
    std::vector<int> next;                                     // work space of a wavefront
    std::vector<std::pair<std::size_t, Local>> sends, ghosts;  // places in a message, and rows
    T* of(exec::Array<T, Host>& v) const { return v.data() - first; }
    const T* of(const exec::Array<T, Host>& v) const { return v.data() - first; }
  };
  std::span<const op::BlockRange> levels(const Part& part, int count) const {
    return std::span(part.range).last(std::size_t(count));
  }
  const op::LocalMatrix<T>& A() const { return around_.matrix(); }
  std::size_t group_of(int block) const { return std::size_t((block - first_block_) / group); }
  std::size_t groups() const { return std::size_t((last_block_ - first_block_ + group - 1) / group); }
  template <class F>
  void each_part(F&& f);
  /// Cuts the rows into parts. Rows that they compute beside their own, on average over the levels, for each own row.
  double divide(int most, int parts);
  void allocate();
  void find_messages();
  void set_scaling(const layout::Vector<T>& P);
  void exchange();
  /// Notes a sweep of so many products that moves the matrix once and so many vectors, with these other operations for
  /// each row.
  void work(const char* name, int products, int vectors, int operations) const {
    if (!Trace::on()) return;
    const double n = double(around_.rows());
    Trace::work(name, A().bytes() + (vectors + 2 * scaled()) * n * sizeof(T),
                (is_complex<T> ? 4 : 1) * (2.0 * products * double(A().entries()) + operations * n));
  }
  bool scaled() const { return scaling_.size() > 0; }
  template <bool scaled>
  void powers_of(Part& part, std::span<const op::RecurrenceStep<T>> steps);
  template <bool scaled, bool first, bool last>
  void power(Part& part, const op::RecurrenceStep<T>& step, int k, int b, W* to, W* ends);
  template <bool scaled>
  void steps_of(Part& part, std::span<const Step> steps, T* x);
  template <bool scaled, bool first, bool two, bool last>
  void step(Part& part, std::span<const Step> steps, int j, int b, T* x);

  const op::RowsAround<T>& around_;
  op::Needs needs_;
  op::Wavefront wave_;                      // of the longest block
  int first_block_ = 0, last_block_ = 0;    // with rows of this rank
  exec::Array<T, Host> scaling_, weights_;  // P and P^-1, of all rows of the matrix
  std::vector<Part> part_;
  std::vector<W> partial_;
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

/// Calls f(from, to, own) for the pieces of the rows [row, end) that lie in [begin, last), and outside.
template <class F>
[[gnu::always_inline]] inline void each_piece(Local row, Local end, Local begin, Local last, F&& f) {
  begin = std::clamp(begin, row, end), last = std::clamp(last, begin, end);
  if (row < begin) f(row, begin, false);
  if (begin < last) f(begin, last, true);
  if (last < end) f(last, end, false);
}

}  // namespace detail

template <Scalar T>
CgSweeps<T>::CgSweeps(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads) : around_(A) {
  op::needs_of_product(A.matrix(), needs_);
  wave_.begin(A.matrix().blocks());
  wave_.add(needs_, most - 1);
  const auto own = op::blocks_of(A.matrix(), A.begin(), A.end());
  first_block_ = own.begin, last_block_ = own.end;
  const double alone = divide(most, 1);
  for (int parts = threads; parts > 1; parts /= 2)
    if (divide(most, parts) <= alone + 0.25) break;
    else divide(most, 1);
  allocate();
  if (A.exchange(1)) find_messages();
  if (P) set_scaling(*P);
}

template <Scalar T>
template <class F>
void CgSweeps<T>::each_part(F&& f) {
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) { f(part_[i]); });
}

template <Scalar T>
double CgSweeps<T>::divide(int most, int parts) {
  const int groups = int(this->groups());
  parts = std::max(1, std::min(parts, groups));
  double computed = 0;
  part_.clear(), part_.resize(std::size_t(parts));
  for (int i = 0; i < parts; ++i) {
    Part& part = part_[std::size_t(i)];
    const auto cut = [&](int k) {
      return std::min(last_block_, first_block_ + int(std::int64_t(groups) * k / parts) * group);
    };
    const auto row = [&](int block) { return std::clamp(A().first_row(block), around_.begin(), around_.end()); };
    part.range = op::blocks_around(needs_, {cut(i), cut(i + 1)}, most);
    std::reverse(part.range.begin(), part.range.end());
    if (A().blocks() > 0) part.begin = row(cut(i)), part.end = row(cut(i + 1));
    for (const auto& range : levels(part, most))
      if (range.count() > 0)
        computed += A().first_row(range.end) - A().first_row(range.begin) - (part.end - part.begin);
  }
  const double own = double(around_.end() - around_.begin());
  return own > 0 ? computed / (double(most) * own) : 0;
}

template <Scalar T>
void CgSweeps<T>::allocate() {
  Local longest = 0;
  for (int b = 0; b < A().blocks(); ++b) longest = std::max(longest, A().first_row(b + 1) - A().first_row(b));
  for (Part& part : part_) {
    const auto [first, last] = part.range.front();
    if (A().blocks() > 0) part.first = A().first_row(first);
    const Local rows = A().blocks() > 0 ? A().first_row(last) - part.first : 0;
    for (auto* v :
         {&part.p, &part.other, &part.z, &part.power[0], &part.power[1], &part.power_of_z[0], &part.power_of_z[1]})
      *v = exec::Array<T, Host>::uninitialised(std::size_t(rows));
    for (auto& v : part.product) v = exec::Array<T, Host>::uninitialised(std::size_t(longest));
  }
}

/// Which parts have the rows that are sent to other ranks, and those that arrive from them.
template <Scalar T>
void CgSweeps<T>::find_messages() {
  const auto& pattern = around_.exchange(1)->pattern();
  for (Part& part : part_) {
    const Local last = part.first + Local(part.p.size());
    for (std::size_t i = 0; i < pattern.send_index.size(); ++i) {
      const Local row = around_.begin() + pattern.send_index[i];
      if (row >= part.begin && row < part.end) part.sends.emplace_back(i, row);
    }
    for (Local i = 0; i < pattern.ghost_count(); ++i) {
      const Local row = around_.row_of(i);
      if (row >= part.first && row < last) part.ghosts.emplace_back(std::size_t(i), row);
    }
  }
}

template <Scalar T>
void CgSweeps<T>::set_scaling(const layout::Vector<T>& P) {
  const std::size_t rows = std::size_t(around_.rows());
  scaling_ = exec::Array<T, Host>(rows), weights_ = exec::Array<T, Host>(rows);
  std::copy_n(P.data(), P.size(), scaling_.data() + around_.begin());
  if (comm::Exchange* const e = around_.exchange(1)) {
    const int number = e->open();
    e->post(number, P.data());
    e->wait(number);
    const T* const in = reinterpret_cast<const T*>(e->incoming(number));
    for (Local i = 0; i < e->pattern().ghost_count(); ++i) scaling_.data()[around_.row_of(i)] = in[i];
    e->close(number);
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const T d = scaling_.data()[i];
    weights_.data()[i] = d == T(0) ? T(0) : T(1) / d;  // z is 0 there, and so is P A of anything
  }
}

template <Scalar T>
void CgSweeps<T>::set_residual(const T* r) {
  const exec::Tasks::InOrder in_order(true);
  each_part([&](Part& part) {
    T* const z = part.of(part.z);
    for (Local k = part.begin; k < part.end; ++k)
      z[k] = scaled() ? scaling_.data()[k] * r[k - around_.begin()] : r[k - around_.begin()];
  });
}

template <Scalar T>
void CgSweeps<T>::copy_residual(T* to) const {
  const exec::Tasks::InOrder in_order(true);
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    const Part& part = part_[i];
    const T* const z = part.of(part.z);
    for (Local k = part.begin; k < part.end; ++k) to[k - around_.begin()] = scaled() ? weights_.data()[k] * z[k] : z[k];
  });
}

template <Scalar T>
std::array<typename CgSweeps<T>::W, 2> CgSweeps<T>::squares() const {
  const exec::Tasks::InOrder in_order(true);
  std::vector<std::array<W, 2>> partial(groups(), std::array<W, 2>{});
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    const Part& part = part_[i];
    const T* const z = part.of(part.z);
    for (int b = part.range.back().begin; b < part.range.back().end; ++b)
      for (Local k = std::max(part.begin, A().first_row(b)); k < std::min(part.end, A().first_row(b + 1)); ++k) {
        const T r = scaled() ? weights_.data()[k] * z[k] : z[k];
        auto& sum = partial[group_of(b)];
        sum[0] += conj(W(r)) * W(z[k]), sum[1] += conj(W(r)) * W(r);
      }
  });
  std::array<W, 2> total{};
  for (const auto& sum : partial) total[0] += sum[0], total[1] += sum[1];
  return total;
}

template <Scalar T>
void CgSweeps<T>::turn(double beta) {
  const exec::Tasks::InOrder in_order(true);
  each_part([&](Part& part) {
    T *const p = part.of(part.p), *const z = part.of(part.z);
    for (Local k = part.begin; k < part.end; ++k) p[k] = beta == 0 ? z[k] : z[k] + T(real_t<T>(beta)) * p[k];
  });
}

/// Gets the rows of p and z that other ranks and threads have.
template <Scalar T>
void CgSweeps<T>::exchange() {
  comm::Exchange* const e = around_.exchange(2);
  const int number = e ? e->open() : 0;
  if (e) {
    T* const out = reinterpret_cast<T*>(e->outgoing(number));
    for (Part& part : part_)
      for (const auto& [i, row] : part.sends) out[2 * i] = part.of(part.p)[row], out[2 * i + 1] = part.of(part.z)[row];
    e->post(number);
  }
  if (part_.size() > 1)
    each_part([&](Part& part) {
      const Local last = part.first + Local(part.p.size());
      for (const Part& from : part_) {
        const Local begin = std::max(from.begin, part.first), end = std::min(from.end, last);
        if (&from == &part || begin >= end) continue;
        std::copy_n(from.of(from.p) + begin, end - begin, part.of(part.p) + begin);
        std::copy_n(from.of(from.z) + begin, end - begin, part.of(part.z) + begin);
      }
    });
  if (!e) return;
  e->wait(number);
  const T* const in = reinterpret_cast<const T*>(e->incoming(number));
  for (Part& part : part_)
    for (const auto& [i, row] : part.ghosts) part.of(part.p)[row] = in[2 * i], part.of(part.z)[row] = in[2 * i + 1];
  e->close(number);
}

template <Scalar T>
template <bool scaled, bool first, bool last>
[[gnu::noinline]] void CgSweeps<T>::power(Part& part, const op::RecurrenceStep<T>& step, int k, int b, W* to, W* ends) {
  // T_k overwrites T_{k-2}, but for T_0: p and z themselves.
  const Local row = A().first_row(b), end = A().first_row(b + 1);
  T *const out = part.of(part.power[k % 2]), *const out_z = part.of(part.power_of_z[k % 2]);
  T* const p = first ? part.of(part.p) : part.of(part.power[(k - 1) % 2]);
  T* const z = first ? part.of(part.z) : part.of(part.power_of_z[(k - 1) % 2]);
  const T *const before = k == 2 ? part.of(part.p) : out, *const before_z = k == 2 ? part.of(part.z) : out_z;
  T *const Ap = part.product[0].data(), *const Az = part.product[1].data();
  if constexpr (last) A().multiply_block(b, p, Ap);
  else A().multiply_block(b, {p, z}, {Ap, Az});
  const auto scale = T(1 / step.gamma);
  const T *const d = scaled ? scaling_.data() : nullptr, *const weight = scaled ? weights_.data() : nullptr;
  using Sums = detail::RowSums<T, sums + (!first ? 0 : scaled ? 5 : 4)>;  // with level 0, (p, A p) and (r, r)
  detail::each_piece(row, end, part.begin, part.end, [&](Local from, Local until, bool own) {
    Sums sum;
    detail::each_row<T>(
        until - from, [&](auto type, std::ptrdiff_t at) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          const std::ptrdiff_t i = from + at, in_block = i - row;
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
  const int s = int(steps.size()), width = sums_of(s);
  wave_.run(levels(part, s), part.next, [&](int level, int b) {
    const auto& step = steps[std::size_t(level)];
    const bool own = b >= part.range.back().begin && b < part.range.back().end;
    W* const sum = own ? partial_.data() + group_of(b) * std::size_t(width) : nullptr;
    W* const ends = own ? sum + width - 2 : nullptr;
    const bool first = level == 0, last = level + 1 == s;
    if (first && last) power<scaled, true, true>(part, step, level + 1, b, sum, ends);
    else if (first) power<scaled, true, false>(part, step, level + 1, b, sum, ends);
    else if (last) power<scaled, false, true>(part, step, level + 1, b, sum, ends);
    else power<scaled, false, false>(part, step, level + 1, b, sum, ends);
  });
}

template <Scalar T>
void CgSweeps<T>::powers(std::span<const op::RecurrenceStep<T>> steps, std::span<W> to) {
  const exec::Tasks::InOrder in_order(true);
  const int s = int(steps.size());
  const std::size_t width = std::size_t(sums_of(s));
  exchange();
  partial_.assign(groups() * width, W(0));
  each_part([&](Part& part) { scaled() ? powers_of<true>(part, steps) : powers_of<false>(part, steps); });
  // p and z are read, four vectors for T_{k-1} and T_k read and written once; the rest is in cache.
  work("moments", 2 * s, 10, s * (2 * sums + 8));
  std::fill(to.begin(), to.end(), W(0));
  for (std::size_t g = 0; g < groups(); ++g)
    for (std::size_t i = 0; i < width; ++i) to[i] += partial_[g * width + i];
}

/// Step j in three-term form: z_j = p_j - beta_{j-1} p_{j-1} is not stored between the steps, p_{j+1} overwrites
/// p_{j-1}, and x takes two steps at once.
template <Scalar T>
template <bool scaled, bool first, bool two, bool last>
[[gnu::noinline]] void CgSweeps<T>::step(Part& part, std::span<const Step> steps, int j, int b, T* x) {
  const Local row = A().first_row(b), end = A().first_row(b + 1);
  T *const p = part.of(j % 2 ? part.other : part.p), *const old = part.of(j % 2 ? part.p : part.other);
  T *const z = part.of(part.z), *const Ap = part.product[0].data();
  const T* const d = scaled ? scaling_.data() : nullptr;
  const Step &now = steps[std::size_t(j)], &before = steps[std::size_t(first ? 0 : j - 1)];
  const auto number = [](double v) { return T(real_t<T>(v)); };
  const T alpha = number(now.alpha), beta = number(now.turns ? now.beta : 0), alpha_before = number(before.alpha),
          beta_before = number(before.beta);
  A().multiply_block(b, p, Ap);
  x -= around_.begin();
  const auto rows = [&](Local from, Local until, auto adds, auto turns) {
    detail::each_row<T>(
        until - from, [&](auto type, std::ptrdiff_t at) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          const std::ptrdiff_t k = from + at;
          const X v = detail::load<X>(p + k);
          X o{};
          if constexpr (!first) o = detail::load<X>(old + k);
          X y, Av = detail::load<X>(Ap + (k - row));
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
  detail::each_piece(row, end, part.begin, part.end, [&](Local from, Local until, bool own) {
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
  wave_.run(levels(part, count), part.next, [&](int j, int b) {
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
  const exec::Tasks::InOrder in_order(true);
  if (steps.empty()) return;
  each_part([&](Part& part) { scaled() ? steps_of<true>(part, steps, x) : steps_of<false>(part, steps, x); });
  work("iterations", int(steps.size()), 7, 6 * int(steps.size()));
}

}  // namespace tacit::krylov
