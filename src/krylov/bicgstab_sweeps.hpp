// The two sweeps of s-step BiCGStab that store no basis: the powers of A with the Gram matrix of p and r, from which
// the coefficients of s iterations follow, and these iterations with known coefficients. Each sweep is a wavefront
// (op/wavefront.hpp): it reads the matrix, p and r from memory once, and the vectors between its levels stay in cache.
//
//   sweeps.set_residual(r);  sweeps.turn(0);           // p := r
//   sweeps.gram(recurrence, shadow, sums);             // G and (shadow, Y): alpha, omega, beta of s iterations
//   sweeps.advance(steps, x, recurrence, shadow, sums);  // these, and G of the next block; iterate(steps, x) alone
//
//   v = A p,  s = r - alpha v,  t = A s,  x += alpha p + omega s,  r := s - omega t,  p := r + beta (p - omega v)
//
// With a diagonal P from the right A is A P, and x += P (alpha p + omega s). All vectors but x, the shadow and the
// residuals of the caller are then kept multiplied by P, so that the same lines hold with P A for A and without the P
// of x; their products in G are those of P^-1 times them.
#pragma once

#include "krylov/gram_tiles.hpp"
#include "krylov/sweep_parts.hpp"
#include "krylov/sweep_rows.hpp"

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

/// A part of p and r (its z) with what BiCGStab makes of them.
template <Scalar T>
struct BicgstabPart : SweepPart<T> {
  std::vector<int> at;  // the next block of each level
  exec::Array<T, Host> product;
  std::vector<MovingRows<T>> power;  // of each level but 0, of p and r
  MovingRows<T> turned, other;       // p - omega v; r and s by turns, in r and here
  GramTiles<T> tiles;
  std::vector<const T*> column;
};

/// Sweeps over p and r of BiCGStab, for a square matrix in host memory and a diagonal P from the right, without zeros,
/// or none, in parts for threads and ranks (sweep_parts.hpp). Results are the same bits for any number of threads.
/// Vectors: 2, with P 4, and windows of the basis that take as many rows as levels are apart.
template <Scalar T>
class BicgstabSweeps : public SweepParts<T, BicgstabPart<T>> {
  using Base = SweepParts<T, BicgstabPart<T>>;
  using Part = BicgstabPart<T>;
  using Base::A, Base::each_part, Base::scaled, Base::scaling, Base::inverse, Base::row, Base::part_, Base::wave_;

 public:
  using W = exec::wide_t<T>;
  struct Step {
    W alpha, omega{}, beta{};
    bool turns = false;  ///< p := r + beta (p - omega v); else p := p - omega v
    bool half = false;   ///< r := r - alpha v and x += alpha p only, and p stays; the last step
  };

  /// The number of rows by which levels are apart, on average.
  static double rows_apart(const op::LocalMatrix<T>& A);
  /// For blocks of up to `most` iterations, which A has to have 2 `most` products for. P: null where there is none.
  /// Collective.
  BicgstabSweeps(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads);

  /// p := r + beta p
  void turn(W beta);
  /// (r, r) and (shadow, r) of this rank's rows.
  void measure(const T* shadow, std::span<W, 2> to);
  /// Y = [p, r, ..], two vectors for each level: v_{k+1} = (A v_k - alpha v_k - beta v_{k-1}) / gamma by the steps, but
  /// for the last of r. `to` gets the triangle of Y^H Y, column after column, and Y^H shadow behind it, conjugated to
  /// (shadow, Y_i), of this rank's rows. As many products of two vectors as steps, one exchange.
  void gram(std::span<const op::RecurrenceStep<T>> steps, const T* shadow, std::span<W> to);
  /// Takes these steps of BiCGStab; two products each, one for half a step. No exchange after gram().
  void iterate(std::span<const Step> steps, T* x);
  /// iterate() and then gram(). One thread of one rank does both in one sweep, where the rows between all levels stay
  /// in cache.
  void advance(std::span<const Step> steps, T* x, std::span<const op::RecurrenceStep<T>> powers, const T* shadow,
               std::span<W> to);

 private:
  /// f(level, block) for the levels of a part; `at` has the next block of each.
  template <class F>
  void wave(Part& part, int levels, F&& f);
  /// The first block whose rows are needed for products with the rows of this block and later ones.
  int lowest(int block) const { return block < A().blocks() ? std::min(block, A().lowest(block)) : block; }
  /// The first row that the products of the blocks up to this one do not read.
  Local unread(int block) const { return row(std::min(A().needs(block), A().blocks() - 1)); }
  void power(Part& part, std::span<const op::RecurrenceStep<T>> steps, int k, int b, const T* shadow);
  template <bool scaled>
  void step(Part& part, std::span<const Step> steps, int levels, int level, int b, T* x);
  void extend(const op::RecurrenceStep<T>& step, int b, const T* v, const T* older, T* y, const T* ahead) const;
  template <int terms, bool scaled>
  static void extend(const op::RecurrenceStep<T>& step, std::ptrdiff_t n, const T* v, const T* older, const T* d, T* y,
                     const T* ahead);
  void add_products(Part& part, int levels, const T* shadow, int b);
  template <bool reads, bool scaled>
  void first_half(Part& part, const Step& step, int b, const T* r, T* s, T* x);
  template <bool scaled>
  void second_half(Part& part, const Step& step, int b, T* s, T* r, T* x);

  double apart_ = 0;
};

template <Scalar T>
BicgstabSweeps<T>::BicgstabSweeps(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads)
    : Base(A, P, 2 * most, threads), apart_(rows_apart(A.matrix())) {
  const auto levels = std::size_t(2 * most), longest = std::size_t(this->rows_of_longest_block());
  for (Part& part : part_) {
    part.product = exec::Array<T, Host>::uninitialised(longest);
    part.power.resize(levels);
  }
  if (part_.size() > 1 || this->on_ranks()) return;
  wave_.add(this->needs_, int(levels));  // steps and powers in one wave, in all rows
  part_[0].range.insert(part_[0].range.begin(), levels, part_[0].range.front());
}

template <Scalar T>
double BicgstabSweeps<T>::rows_apart(const op::LocalMatrix<T>& A) {
  double sum = 0;
  for (int b = 0; b < A.blocks(); ++b) sum += A.first_row(A.needs(b)) - A.first_row(b);
  return A.blocks() ? sum / A.blocks() : 0;
}

template <Scalar T>
void BicgstabSweeps<T>::turn(W beta) {
  const T b(beta);
  each_part([&](Part& part) {
    T *const p = part.of(part.p), *const r = part.of(part.z);
    if (beta == W(0)) std::copy(r + part.begin, r + part.end, p + part.begin);
    else
      for (Local i = part.begin; i < part.end; ++i) p[i] = detail::times_plus(b, p[i], r[i]);
  });
}

template <Scalar T>
void BicgstabSweeps<T>::measure(const T* shadow, std::span<W, 2> to) {
  this->begin_sums(2);
  shadow -= this->first_own();
  const T* const weight = inverse();
  each_part([&](Part& part) {
    const T* const r = part.of(part.z);
    const auto own = part.range.back();
    for (int b = own.begin; b < own.end; ++b) {
      const Local begin = std::max(row(b), part.begin), end = std::min(row(b + 1), part.end);
      detail::RowSums<T, 2> z;
      const auto add = [&](auto type, std::ptrdiff_t i, auto weighted) __attribute__((always_inline)) {
        using X = typename decltype(type)::type;
        X v = detail::load<X>(r + begin + i);
        if constexpr (weighted.value) v = detail::load<X>(weight + begin + i) * v;
        z.add(0, v, v), z.add(1, detail::load<X>(shadow + begin + i), v);
      };
      if (scaled()) detail::each_row<T>(end - begin, [&](auto type, auto i) { add(type, i, std::true_type()); });
      else detail::each_row<T>(end - begin, [&](auto type, auto i) { add(type, i, std::false_type()); });
      for (int c = 0; c < 2; ++c) this->group_sums(b)[c] += z.sum(c);
    }
  });
  this->add_up(to);
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

/// y = (d y - alpha v - beta older) / gamma with y = A v, of which there are so many terms; d is P.
template <Scalar T>
template <int terms, bool scaled>
[[gnu::noinline]] void BicgstabSweeps<T>::extend(const op::RecurrenceStep<T>& step, std::ptrdiff_t n, const T* v,
                                                 const T* older, const T* d, T* y, const T* ahead) {
  const T scale(1 / step.gamma), alpha = -scale * step.alpha, beta = -scale * step.beta;
  detail::each_row<T>(
      n, [=](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
        using X = typename decltype(type)::type;
        __builtin_prefetch(ahead + i, 0, 2);
        X next = detail::load<X>(y + i);
        if constexpr (scaled) next = detail::load<X>(d + i) * next;
        next = scale * next;
        if constexpr (terms > 1) next = detail::times_plus(alpha, detail::load<X>(v + i), next);
        if constexpr (terms > 2) next = detail::times_plus(beta, detail::load<X>(older + i), next);
        detail::store(y + i, next);
      });
}
template <Scalar T>
void BicgstabSweeps<T>::extend(const op::RecurrenceStep<T>& step, int b, const T* v, const T* older, T* y,
                               const T* ahead) const {
  const std::ptrdiff_t n = row(b + 1) - row(b);
  const T* const d = scaled() ? scaling() + row(b) : nullptr;
  const auto with = [&](auto terms) {
    d ? extend<terms.value, true>(step, n, v, older, d, y, ahead)
      : extend<terms.value, false>(step, n, v, older, d, y, ahead);
  };
  if (step.beta != T(0)) with(std::integral_constant<int, 3>());
  else if (step.alpha != T(0)) with(std::integral_constant<int, 2>());
  else with(std::integral_constant<int, 1>());
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
  const Local begin = row(b);
  const auto at = [&](int level, int column) {
    if (level == 0) return part.of(column ? part.z : part.p);
    return part.power[std::size_t(level - 1)].at(column);
  };
  T *const p = at(k - 1, 0), *const r = at(k - 1, 1), *const out = made.at(0) + begin;
  T* const out_r = last ? nullptr : made.at(1) + begin;
  if (last) A().multiply_block(b, p, out);
  else A().multiply_block(b, {p, r}, {out, out_r});
  for (int c = 0; c < (last ? 1 : 2); ++c) {
    const T* const v = (c ? r : p) + begin;
    const T* ahead = v;  // rows that are read next from memory are asked for
    if (k == 1) ahead = at(0, c) + unread(b);
    else if (last) ahead = shadow + row(std::min(b + 1, A().blocks() - 1));
    extend(step, b, v, k > 1 ? at(k - 2, c) + begin : nullptr, c ? out_r : out, ahead);
  }
}

/// Adds the products of the own rows of block b, when all levels of it are there.
template <Scalar T>
void BicgstabSweeps<T>::add_products(Part& part, int levels, const T* shadow, int b) {
  const int columns = 2 * levels + 2;
  const Local begin = std::max(row(b), part.begin), end = std::min(row(b + 1), part.end);
  if (this->begins_group(b)) part.tiles.begin(columns);
  part.column.clear();
  for (auto* v : {&part.p, &part.z}) part.column.push_back(part.of(*v) + begin);
  for (int k = 1; k <= levels; ++k)
    for (int c = 0; c < (k < levels ? 2 : 1); ++c) part.column.push_back(part.power[std::size_t(k - 1)].at(c) + begin);
  part.column.push_back(shadow + begin);
  part.tiles.add(part.column.data(), end - begin, scaled() ? inverse() + begin : nullptr, columns - 1);
  if (this->ends_group(b)) part.tiles.add_to(this->group_sums(b));
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
template <bool reads, bool scaled>
[[gnu::noinline]] void BicgstabSweeps<T>::first_half(Part& part, const Step& step, int b, const T* r, T* s, T* x) {
  const Local begin = row(b), n = row(b + 1) - begin;
  T* const p = part.of(part.p);
  const T *const own = p + begin, *const v = part.product.data(), *const ahead = p + unread(b);
  const T* const d = scaled ? scaling() + begin : nullptr;
  const T alpha(step.alpha), minus_alpha = -alpha, minus_omega(-step.omega);
  r += begin, s += begin, x += begin;
  A().multiply_block(b, p, part.product.data());
  const auto ask = [=](std::ptrdiff_t i) {
    if constexpr (reads) __builtin_prefetch(ahead + i), __builtin_prefetch(r + n + i), __builtin_prefetch(x + n + i);
  };
  const auto image = [=](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
    using X = typename decltype(type)::type;
    if constexpr (scaled) return X(detail::load<X>(d + i) * detail::load<X>(v + i));
    else return detail::load<X>(v + i);
  };
  if (step.half) {
    detail::each_piece(begin, row(b + 1), part.begin, part.end, [&](Local from, Local until, bool moves) {
      const std::ptrdiff_t before = from - begin;
      detail::each_row<T>(
          until - from, [=](auto type, std::ptrdiff_t at) __attribute__((always_inline)) {
            using X = typename decltype(type)::type;
            const std::ptrdiff_t i = before + at;
            ask(i);
            detail::store(s + i, detail::times_plus(minus_alpha, image(type, i), detail::load<X>(r + i)));
            if (moves)
              detail::store(x + i, detail::times_plus(alpha, detail::load<X>(own + i), detail::load<X>(x + i)));
          });
    });
  } else {
    T* const q = part.turned.at() + begin;
    detail::each_row<T>(
        n, [=](auto type, std::ptrdiff_t i) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          ask(i);
          const X v_i = image(type, i);
          detail::store(s + i, detail::times_plus(minus_alpha, v_i, detail::load<X>(r + i)));
          detail::store(q + i, detail::times_plus(minus_omega, v_i, detail::load<X>(own + i)));
        });
  }
}

/// x += alpha p + omega s, r = s - omega t, p = r + beta q or q.
template <Scalar T>
template <bool scaled>
[[gnu::noinline]] void BicgstabSweeps<T>::second_half(Part& part, const Step& step, int b, T* s, T* r, T* x) {
  const Local begin = row(b), end = row(b + 1);
  T *const p = part.of(part.p), *const product = part.product.data();
  A().multiply_block(b, s, product);
  const T *const q = part.turned.at(), *const t = product - begin, *const d = scaling();
  const T alpha(step.alpha), omega(step.omega), minus_omega = -omega, beta(step.beta);
  const auto rows = [&](Local from, Local until, auto moves, auto turns) {
    detail::each_row<T>(
        until - from, [=](auto type, std::ptrdiff_t at) __attribute__((always_inline)) {
          using X = typename decltype(type)::type;
          const std::ptrdiff_t i = from + at;
          X image = detail::load<X>(t + i);
          if constexpr (scaled) image = detail::load<X>(d + i) * image;
          const X half = detail::load<X>(s + i), next = detail::times_plus(minus_omega, image, half);
          if constexpr (moves.value) {
            const X moved = detail::times_plus(alpha, detail::load<X>(p + i), detail::load<X>(x + i));
            detail::store(x + i, detail::times_plus(omega, half, moved));
          }
          detail::store(r + i, next);
          const X turned = detail::load<X>(q + i);
          detail::store(p + i, turns.value ? detail::times_plus(beta, turned, next) : turned);
        });
  };
  detail::each_piece(begin, end, part.begin, part.end, [&](Local from, Local until, bool own) {
    if (own && step.turns) rows(from, until, std::true_type(), std::true_type());
    else if (own) rows(from, until, std::true_type(), std::false_type());
    else if (step.turns) rows(from, until, std::false_type(), std::true_type());
    else rows(from, until, std::false_type(), std::false_type());
  });
}

/// Level `level` of block b of these steps.
template <Scalar T>
template <bool scaled>
void BicgstabSweeps<T>::step(Part& part, std::span<const Step> steps, int levels, int level, int b, T* x) {
  if (level == 0) {  // later levels read no row before the lowest of theirs
    const int least = *std::min_element(part.at.begin(), part.at.begin() + levels);
    for (auto* v : {&part.turned, &part.other}) v->advance(row(lowest(least)), row(b + 1));
  }
  // s of step j is in r or in the other vector by turns, r behind it in the one that s is not in: in r at the end.
  const int j = level / 2, whole = levels / 2;
  T* const in[2] = {part.of(part.z), part.other.at()};
  T *const s = in[(whole + j) % 2], *const r = in[(whole + j + 1) % 2];
  const Step& now = steps[std::size_t(j)];
  if (level == 0) first_half<true, scaled>(part, now, b, in[0], s, x);
  else if (level % 2 == 0) first_half<false, scaled>(part, now, b, s, s, x);
  else second_half<scaled>(part, now, b, s, r, x);
}

template <Scalar T>
void BicgstabSweeps<T>::advance(std::span<const Step> steps, T* x, std::span<const op::RecurrenceStep<T>> powers,
                                const T* shadow, std::span<W> to) {
  // Each half of a step is a level, and each power.
  const int below = 2 * int(steps.size()) - (!steps.empty() && steps.back().half ? 1 : 0), above = int(powers.size());
  // In one sweep threads would do twice as many rows twice, and p, r, s, x, p - omega v and some powers (and P) have to
  // stay in the second-level cache from the first level to the last. Ranks have the rows around for one of the two.
  const double vectors = scaled() ? 7 : 6, in_cache = 1 << 20;
  const bool apart = part_.size() > 1 || this->on_ranks() || vectors * sizeof(T) * (below + above) * apart_ > in_cache;
  if (apart && below > 0 && above > 0) {
    advance(steps, x, {}, nullptr, {});
    return advance({}, nullptr, powers, shadow, to);
  }
  const int columns = 2 * above + 2;
  if (below == 0) this->exchange();
  this->begin_sums(above > 0 ? exec::pair_gram_size(columns, false) : 0);
  if (x) x -= this->first_own();
  if (shadow) shadow -= this->first_own();
  each_part([&](Part& part) {
    const auto range = part.levels(below + above);
    for (auto* v : {&part.turned, &part.other}) v->begin(1, row(range.front().begin));
    for (int k = 0; k < above; ++k)
      part.power[std::size_t(k)].begin(k + 1 < above ? 2 : 1, row(range[std::size_t(below + k)].begin));
    wave(part, below + above, [&](int level, int b) {
      if (level < below)
        return scaled() ? step<true>(part, steps, below, level, b, x) : step<false>(part, steps, below, level, b, x);
      const int k = level - below + 1;
      power(part, powers, k, b, shadow);
      if (k == above) add_products(part, above, shadow, b);
    });
  });
  const bool rereads = above > 0 && below == 0;
  this->note("waves", below + std::max(2 * above - 1, 0),
             (below > 0 ? 6 + scaled() : 0) + (above > 0 ? 1 + scaled() + (rereads ? 2 + scaled() : 0) : 0),
             6 * below + 6 * above + columns * (columns + 1));
  // The last column is the shadow's, of which the square is not wanted.
  this->add_up(to);
  if (above > 0)
    for (W& z : to.last(std::size_t(columns - 1))) z = conj(z);
}

}  // namespace tacit::krylov
