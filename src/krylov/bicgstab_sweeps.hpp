// The two sweeps of s-step BiCGStab that store no basis: the powers of A with the Gram matrix of p and r, from which
// the coefficients of s iterations follow, and these iterations with known coefficients. Each sweep is a wavefront
// (op/wavefront.hpp): it reads the matrix, p and r from memory once, and the vectors between its levels stay in cache.
//
//   sweeps.set_residual(r);  sweeps.turn(0);           // p := r
//   sweeps.gram(recurrence, shadow, sums);             // G and (shadow, Y): alpha, omega, beta of s iterations
//   sweeps.advance(steps, x, recurrence, shadow, sums);  // these, and G of the next block; iterate(steps, x) alone
//
//   v = A p,  s = r - alpha v,  t = A s,  x += alpha p + omega s,  r := s - omega t,  p := r + beta (p - omega v)
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/local_matrix.hpp>
#include "krylov/cg_sweeps.hpp"
#include "krylov/gram_tiles.hpp"
#include "op/wavefront.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace tacit::krylov {

/// Rows of one or two vectors, of which those are kept that are still needed: a window that moves along the vectors.
template <Scalar T>
class MovingRows {
 public:
  /// Holds nothing; the first row is this one.
  void begin(int columns, Local row) { columns_ = columns, base_ = end_ = row; }
  /// Makes room for the rows up to `end`. Those before `keep` are dropped where that is needed for it.
  void advance(Local keep, Local end) {
    if (columns_ > held_ || end - base_ > length_) move(std::clamp(keep, base_, end_), end);
    end_ = end;
  }
  /// Row i is at(column)[i].
  T* at(int column = 0) { return store_.data() + std::ptrdiff_t(column) * stride() - base_; }

 private:
  // Not a multiple of a page, so that the same row of both vectors is not taken for one address.
  std::ptrdiff_t stride() const { return length_ + 272; }
  void move(Local keep, Local end) {
    const std::ptrdiff_t kept = end_ - keep, least = end - keep;
    if (columns_ > held_ || 2 * least > length_) {  // so that rows are copied once at most, on average
      MovingRows larger;
      larger.held_ = columns_, larger.length_ = std::max(length_, (3 * least + 511) / 512 * 512);
      larger.store_ = exec::Array<T, Host>::uninitialised(std::size_t(columns_ * larger.stride()));
      for (int c = 0; kept > 0 && c < columns_; ++c)
        std::copy_n(at(c) + keep, kept, larger.store_.data() + c * larger.stride());
      std::swap(store_, larger.store_);
      length_ = larger.length_, held_ = larger.held_;
    } else {
      for (int c = 0; c < columns_; ++c) {
        T* const to = store_.data() + c * stride();
        std::copy_n(to + (keep - base_), kept, to);
      }
    }
    base_ = keep;
  }

  exec::Array<T, Host> store_;
  std::ptrdiff_t length_ = 0;
  Local base_ = 0, end_ = 0;
  int columns_ = 0, held_ = 0;
};

/// p and r of BiCGStab, and sweeps over them, for a square matrix on one rank in host memory. The rows are divided
/// among the threads; each also computes the rows near its own that later levels need. Results are the same bits for
/// any number of threads. Vectors: 2, and windows of the basis that take as many rows as levels are apart.
template <Scalar T>
class BicgstabSweeps {
 public:
  using W = exec::wide_t<T>;
  struct Step {
    W alpha, omega{}, beta{};
    bool turns = false;  ///< p := r + beta (p - omega v); else p := p - omega v
    bool half = false;   ///< r := r - alpha v and x += alpha p only, and p stays; the last step
  };

  /// The number of rows by which levels are apart, on average.
  static double rows_apart(const op::LocalMatrix<T>& A);
  /// For blocks of up to `most` iterations.
  BicgstabSweeps(const op::LocalMatrix<T>& A, int most, int parts);
  /// Rows that threads compute beside their own, on average over the levels, for each row of the matrix.
  double redundancy() const { return redundancy_; }

  /// r := this vector; p stays.
  void set_residual(const T* r);
  /// to := r
  void copy_residual(T* to) const;
  /// p := r + beta p
  void turn(W beta);
  /// (r, r) and (shadow, r)
  void measure(const T* shadow, W* to);
  /// Y = [p, r, ..], two vectors for each level: v_{k+1} = (A v_k - alpha v_k - beta v_{k-1}) / gamma by the steps, but
  /// for the last of r. `to` gets the triangle of Y^H Y, column after column, and Y^H shadow behind it, conjugated to
  /// (shadow, Y_i). As many products of two vectors as steps.
  void gram(std::span<const op::RecurrenceStep<T>> steps, const T* shadow, std::span<W> to);
  /// Takes these steps of BiCGStab; two products each, one for half a step.
  void iterate(std::span<const Step> steps, T* x);
  /// iterate() and then gram(). One thread does both in one sweep, where the rows between all levels stay in cache.
  void advance(std::span<const Step> steps, T* x, std::span<const op::RecurrenceStep<T>> powers, const T* shadow,
               std::span<W> to);

 private:
  static constexpr int group = 16;  // blocks whose sums are formed together
  struct Part {
    std::vector<op::BlockRange> range;    // of levels with .., 1, 0 levels behind them; the last: its own
    Local first = 0, begin = 0, end = 0;  // of its arrays; own rows
    std::vector<int> at, next;            // the next block of each level; work space of a wavefront
    exec::Array<T, Host> p, r, product;
    std::vector<MovingRows<T>> power;  // of each level but 0, of p and r
    MovingRows<T> turned, other;       // p - omega v; r and s by turns, in r and here
    GramTiles<T> tiles;
    std::vector<const T*> column;
    T* of(exec::Array<T, Host>& v) const { return v.data() - first; }
    bool owns(int b) const { return b >= range.back().begin && b < range.back().end; }
    std::span<const op::BlockRange> levels(int count) const { return std::span(range).last(std::size_t(count)); }
  };
  int groups() const { return (A_.blocks() + group - 1) / group; }
  template <class F>
  void each_part(F&& f) {
    exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) { f(part_[i]); });
  }
  void exchange();
  /// f(level, block) for the levels of a part; `at` has the next block of each.
  template <class F>
  void wave(Part& part, int levels, F&& f);
  Local row(int block) const { return first_row_[std::size_t(block)]; }
  /// The first block whose rows are needed for products with the rows of this block and later ones.
  int lowest(int block) const { return block < A_.blocks() ? std::min(block, A_.lowest(block)) : block; }
  /// The first row that the products of the blocks up to this one do not read.
  Local unread(int block) const { return row(std::min(A_.needs(block), A_.blocks() - 1)); }
  /// Notes a sweep that moves the matrix and so many vectors, with these operations for each row.
  void work(const char* name, int vectors, int operations) const {
    if (!Trace::on()) return;
    const double n = A_.blocks() ? double(row(A_.blocks())) : 0;
    Trace::work(name, A_.bytes() + vectors * n * sizeof(T), (is_complex<T> ? 4 : 1) * operations * n);
  }
  void power(Part& part, std::span<const op::RecurrenceStep<T>> steps, int k, int b, const T* shadow);
  void step(Part& part, std::span<const Step> steps, int levels, int level, int b, T* x);
  template <int terms>
  static void extend(const op::RecurrenceStep<T>& step, std::ptrdiff_t n, const T* v, const T* older, T* y,
                     const T* ahead);
  void add_products(Part& part, int levels, const T* shadow, int b, W* sums);
  template <bool reads>
  void first_half(Part& part, const Step& step, int b, const T* r, T* s, T* x);
  void second_half(Part& part, const Step& step, int b, T* s, T* r, T* x);

  const op::LocalMatrix<T>& A_;
  op::Needs needs_;
  op::Wavefront wave_;  // of the most levels of a sweep
  std::vector<Local> first_row_;
  std::vector<Part> part_;
  std::vector<W> partial_;
  double redundancy_ = 0, apart_ = 0;
};

namespace detail {
/// a b + c
template <class T, class X>
[[gnu::always_inline]] inline X times_plus(const T& a, const X& b, const X& c) {
  if constexpr (is_complex<T>) return a * b + c;
  else return mul_add(a, b, c);
}
}  // namespace detail

template <Scalar T>
BicgstabSweeps<T>::BicgstabSweeps(const op::LocalMatrix<T>& A, int most, int parts) : A_(A) {
  const int blocks = A.blocks(), levels = 2 * most;
  parts = std::max(1, std::min(parts, groups()));
  for (int b = 0; b <= blocks; ++b) first_row_.push_back(A.first_row(b));
  apart_ = rows_apart(A);
  op::needs_of_product(A, needs_);
  wave_.begin(blocks), wave_.add(needs_, 2 * levels);
  Local longest = 0;
  double computed = 0;
  for (int b = 0; b < blocks; ++b) longest = std::max(longest, row(b + 1) - row(b));
  part_.resize(std::size_t(parts));
  for (int i = 0; i < parts; ++i) {
    Part& part = part_[std::size_t(i)];
    const auto cut = [&](int k) { return std::min(blocks, int(std::int64_t(groups()) * k / parts) * group); };
    part.range = op::blocks_around(needs_, {cut(i), cut(i + 1)}, parts > 1 ? levels : 2 * levels);
    std::reverse(part.range.begin(), part.range.end());
    part.begin = row(cut(i)), part.end = row(cut(i + 1));
    const auto [first, last] = part.range.front();
    part.first = row(first);
    for (auto* v : {&part.p, &part.r}) *v = exec::Array<T, Host>::uninitialised(std::size_t(row(last) - part.first));
    part.product = exec::Array<T, Host>::uninitialised(std::size_t(longest));
    part.power.resize(std::size_t(levels));
    for (const auto& range : part.levels(levels))
      computed += row(range.end) - row(range.begin) - (part.end - part.begin);
  }
  if (blocks) redundancy_ = computed / (double(levels) * row(blocks));
}

template <Scalar T>
double BicgstabSweeps<T>::rows_apart(const op::LocalMatrix<T>& A) {
  double sum = 0;
  for (int b = 0; b < A.blocks(); ++b) sum += A.first_row(A.needs(b)) - A.first_row(b);
  return A.blocks() ? sum / A.blocks() : 0;
}

template <Scalar T>
void BicgstabSweeps<T>::set_residual(const T* r) {
  const exec::Tasks::InOrder in_order(true);
  each_part([&](Part& part) { std::copy(r + part.begin, r + part.end, part.of(part.r) + part.begin); });
}

template <Scalar T>
void BicgstabSweeps<T>::copy_residual(T* to) const {
  const exec::Tasks::InOrder in_order(true);
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    const Part& part = part_[i];
    std::copy_n(part.r.data() + (part.begin - part.first), part.end - part.begin, to + part.begin);
  });
}

template <Scalar T>
void BicgstabSweeps<T>::turn(W beta) {
  const exec::Tasks::InOrder in_order(true);
  const T b(beta);
  each_part([&](Part& part) {
    T *const p = part.of(part.p), *const r = part.of(part.r);
    if (beta == W(0)) std::copy(r + part.begin, r + part.end, p + part.begin);
    else
      for (Local i = part.begin; i < part.end; ++i) p[i] = detail::times_plus(b, p[i], r[i]);
  });
}

template <Scalar T>
void BicgstabSweeps<T>::measure(const T* shadow, W* to) {
  const exec::Tasks::InOrder in_order(true);
  partial_.assign(std::size_t(2 * groups()), W(0));
  each_part([&](Part& part) {
    const T* const r = part.of(part.r);
    const auto own = part.range.back();
    for (int b = own.begin; b < own.end; ++b) {
      detail::RowSums<T, 2> z;
      detail::each_row<T>(
          row(b + 1) - row(b), [&](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
            using X = typename decltype(type)::type;
            const X v = detail::load<X>(r + row(b) + i);
            z.add(0, v, v), z.add(1, detail::load<X>(shadow + row(b) + i), v);
          });
      for (int c = 0; c < 2; ++c) partial_[std::size_t(2 * (b / group) + c)] += z.sum(c);
    }
  });
  to[0] = to[1] = W(0);
  for (int g = 0; g < groups(); ++g)
    for (int c = 0; c < 2; ++c) to[c] += partial_[std::size_t(2 * g + c)];
}

/// Gets the rows of p and r that other threads have.
template <Scalar T>
void BicgstabSweeps<T>::exchange() {
  if (part_.size() < 2) return;
  each_part([&](Part& part) {
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
template <class F>
void BicgstabSweeps<T>::wave(Part& part, int levels, F&& f) {
  const auto range = part.levels(levels);
  part.at.clear();
  for (const auto& r : range) part.at.push_back(r.begin);
  wave_.run(range, part.next, [&](int level, int b) {
    f(level, b);
    ++part.at[std::size_t(level)];
  });
}

/// y = (y - alpha v - beta older) / gamma with y = A v, of which there are so many terms.
template <Scalar T>
template <int terms>
[[gnu::noinline]] void BicgstabSweeps<T>::extend(const op::RecurrenceStep<T>& step, std::ptrdiff_t n, const T* v,
                                                 const T* older, T* y, const T* ahead) {
  const T scale(1 / step.gamma), alpha = -scale * step.alpha, beta = -scale * step.beta;
  detail::each_row<T>(
      n, [=](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
        using X = typename decltype(type)::type;
        __builtin_prefetch(ahead + i, 0, 2);
        X next = scale * detail::load<X>(y + i);
        if constexpr (terms > 1) next = detail::times_plus(alpha, detail::load<X>(v + i), next);
        if constexpr (terms > 2) next = detail::times_plus(beta, detail::load<X>(older + i), next);
        detail::store(y + i, next);
      });
}

/// Level k of block b, for p and r; the last for p only.
template <Scalar T>
void BicgstabSweeps<T>::power(Part& part, std::span<const op::RecurrenceStep<T>> steps, int k, int b, const T* shadow) {
  const int levels = int(steps.size());
  const bool last = k == levels;
  const auto& step = steps[std::size_t(k - 1)];
  // The next block of a level; powers are the last levels.
  const auto next = [&](int level) { return part.at[part.at.size() - std::size_t(std::max(levels - level, 0) + 1)]; };
  // Rows that are still needed: for products of the next level, by the one behind it, and for sums of products.
  auto& made = part.power[std::size_t(k - 1)];
  const int least = std::min({last ? b : lowest(next(k + 1)), next(k + 2), next(levels)});
  made.advance(row(least), row(b + 1));
  const Local begin = row(b), n = row(b + 1) - begin;
  const auto at = [&](int level, int column) {
    if (level == 0) return part.of(column ? part.r : part.p);
    return part.power[std::size_t(level - 1)].at(column);
  };
  T *const p = at(k - 1, 0), *const r = at(k - 1, 1), *const out = made.at(0) + begin;
  T* const out_r = last ? nullptr : made.at(1) + begin;
  if (last) A_.multiply_block(b, p, out);
  else A_.multiply_block(b, {p, r}, {out, out_r});
  for (int c = 0; c < (last ? 1 : 2); ++c) {
    const T* const v = (c ? r : p) + begin;
    const T* ahead = v;  // rows that are read next from memory are asked for
    if (k == 1) ahead = at(0, c) + unread(b);
    else if (last) ahead = shadow + row(std::min(b + 1, A_.blocks() - 1));
    T* const y = c ? out_r : out;
    if (step.beta != T(0)) extend<3>(step, n, v, at(k - 2, c) + begin, y, ahead);
    else if (step.alpha != T(0)) extend<2>(step, n, v, nullptr, y, ahead);
    else extend<1>(step, n, v, nullptr, y, ahead);
  }
}

/// Adds the products of the rows of block b, when all levels of it are there.
template <Scalar T>
void BicgstabSweeps<T>::add_products(Part& part, int levels, const T* shadow, int b, W* sums) {
  const auto own = part.range.back();
  const int columns = 2 * levels + 2;
  if (b == own.begin || b % group == 0) part.tiles.begin(columns);
  part.column.clear();
  for (auto* v : {&part.p, &part.r}) part.column.push_back(part.of(*v) + row(b));
  for (int k = 1; k <= levels; ++k)
    for (int c = 0; c < (k < levels ? 2 : 1); ++c) part.column.push_back(part.power[std::size_t(k - 1)].at(c) + row(b));
  part.column.push_back(shadow + row(b));
  part.tiles.add(part.column.data(), row(b + 1) - row(b));
  if (b + 1 == own.end || (b + 1) % group == 0) part.tiles.add_to(sums);
}

template <Scalar T>
void BicgstabSweeps<T>::gram(std::span<const op::RecurrenceStep<T>> steps, const T* shadow, std::span<W> to) {
  advance({}, nullptr, steps, shadow, to);
}
template <Scalar T>
void BicgstabSweeps<T>::iterate(std::span<const Step> steps, T* x) {
  if (!steps.empty()) advance(steps, x, {}, nullptr, {});
}

/// q = p - omega v, s = r - alpha v. Of half a step s, and x. `reads`: from memory, whose next rows are asked for.
template <Scalar T>
template <bool reads>
[[gnu::noinline]] void BicgstabSweeps<T>::first_half(Part& part, const Step& step, int b, const T* r, T* s, T* x) {
  const Local begin = row(b), n = row(b + 1) - begin;
  T* const p = part.of(part.p);
  const T *const own = p + begin, *const v = part.product.data(), *const ahead = p + unread(b);
  const T alpha(step.alpha), minus_alpha = -alpha, minus_omega(-step.omega);
  r += begin, s += begin, x += begin;
  A_.multiply_block(b, p, part.product.data());
  const auto ask = [=](std::ptrdiff_t i) {
    if constexpr (reads) __builtin_prefetch(ahead + i), __builtin_prefetch(r + n + i), __builtin_prefetch(x + n + i);
  };
  if (step.half) {
    const bool moves = part.owns(b);
    detail::each_row<T>(
        n, [=](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          ask(i);
          detail::store(s + i, detail::times_plus(minus_alpha, detail::load<X>(v + i), detail::load<X>(r + i)));
          if (moves) detail::store(x + i, detail::times_plus(alpha, detail::load<X>(own + i), detail::load<X>(x + i)));
        });
  } else {
    T* const q = part.turned.at() + begin;
    detail::each_row<T>(
        n, [=](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          ask(i);
          const X image = detail::load<X>(v + i);
          detail::store(s + i, detail::times_plus(minus_alpha, image, detail::load<X>(r + i)));
          detail::store(q + i, detail::times_plus(minus_omega, image, detail::load<X>(own + i)));
        });
  }
}

/// x += alpha p + omega s, r = s - omega t, p = r + beta q or q.
template <Scalar T>
[[gnu::noinline]] void BicgstabSweeps<T>::second_half(Part& part, const Step& step, int b, T* s, T* r, T* x) {
  const Local begin = row(b), n = row(b + 1) - begin;
  A_.multiply_block(b, s, part.product.data());
  T* const p = part.of(part.p) + begin;
  const T *const q = part.turned.at() + begin, *const t = part.product.data();
  const T alpha(step.alpha), omega(step.omega), minus_omega = -omega, beta(step.beta);
  s += begin, r += begin, x += begin;
  const auto rows = [&](auto moves, auto turns) {
    detail::each_row<T>(
        n, [=](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          const X half = detail::load<X>(s + i), next = detail::times_plus(minus_omega, detail::load<X>(t + i), half);
          if constexpr (moves.value) {
            const X moved = detail::times_plus(alpha, detail::load<X>(p + i), detail::load<X>(x + i));
            detail::store(x + i, detail::times_plus(omega, half, moved));
          }
          detail::store(r + i, next);
          const X turned = detail::load<X>(q + i);
          detail::store(p + i, turns.value ? detail::times_plus(beta, turned, next) : turned);
        });
  };
  if (part.owns(b) && step.turns) rows(std::true_type(), std::true_type());
  else if (part.owns(b)) rows(std::true_type(), std::false_type());
  else if (step.turns) rows(std::false_type(), std::true_type());
  else rows(std::false_type(), std::false_type());
}

/// Level `level` of block b of these steps.
template <Scalar T>
void BicgstabSweeps<T>::step(Part& part, std::span<const Step> steps, int levels, int level, int b, T* x) {
  if (level == 0) {  // later levels read no row before the lowest of theirs
    const int least = *std::min_element(part.at.begin(), part.at.begin() + levels);
    for (auto* v : {&part.turned, &part.other}) v->advance(row(lowest(least)), row(b + 1));
  }
  // s of step j is in r or in the other vector by turns, r behind it in the one that s is not in: in r at the end.
  const int j = level / 2, whole = levels / 2;
  T* const in[2] = {part.of(part.r), part.other.at()};
  T *const s = in[(whole + j) % 2], *const r = in[(whole + j + 1) % 2];
  const Step& now = steps[std::size_t(j)];
  if (level == 0) first_half<true>(part, now, b, in[0], s, x);
  else if (level % 2 == 0) first_half<false>(part, now, b, s, s, x);
  else second_half(part, now, b, s, r, x);
}

template <Scalar T>
void BicgstabSweeps<T>::advance(std::span<const Step> steps, T* x, std::span<const op::RecurrenceStep<T>> powers,
                                const T* shadow, std::span<W> to) {
  const exec::Tasks::InOrder in_order(true);
  // Each half of a step is a level, and each power.
  const int below = 2 * int(steps.size()) - (!steps.empty() && steps.back().half ? 1 : 0), above = int(powers.size());
  // In one sweep threads would do twice as many rows twice, and p, r, s, x, p - omega v and some powers have to stay in
  // the second-level cache from the first level to the last.
  constexpr double vectors = 6, in_cache = 1 << 20;
  const bool apart = part_.size() > 1 || vectors * sizeof(T) * (below + above) * apart_ > in_cache;
  if (apart && below > 0 && above > 0) {
    advance(steps, x, {}, nullptr, {});
    return advance({}, nullptr, powers, shadow, to);
  }
  const int columns = 2 * above + 2;
  const std::size_t width = above > 0 ? exec::pair_gram_size(columns, false) : 0;
  if (below == 0) exchange();
  partial_.assign(std::size_t(groups()) * width, W(0));
  each_part([&](Part& part) {
    const auto range = part.levels(below + above);
    for (auto* v : {&part.turned, &part.other}) v->begin(1, row(range.front().begin));
    for (int k = 0; k < above; ++k)
      part.power[std::size_t(k)].begin(k + 1 < above ? 2 : 1, row(range[std::size_t(below + k)].begin));
    wave(part, below + above, [&](int level, int b) {
      if (level < below) return step(part, steps, below, level, b, x);
      const int k = level - below;
      const bool last = k + 1 == above;
      power(part, powers, k + 1, b, shadow);
      if (last) add_products(part, above, shadow, b, partial_.data() + std::size_t(b / group) * width);
    });
  });
  work("waves", (below > 0 ? 6 : 0) + (above > 0 ? (below > 0 ? 1 : 3) : 0),
       6 * below + 6 * above + columns * (columns + 1));
  // The last column is the shadow's, of which the square is not wanted.
  std::fill(to.begin(), to.end(), W(0));
  for (int g = 0; g < groups(); ++g)
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += partial_[std::size_t(g) * width + i];
  if (above > 0)
    for (W& z : to.last(std::size_t(columns - 1))) z = conj(z);
}

}  // namespace tacit::krylov
