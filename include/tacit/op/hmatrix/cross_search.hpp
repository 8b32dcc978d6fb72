// CrossSearch: adaptive cross approximation of a block, for the host (src/op/hmatrix/crosses.hpp) and for teams
// (op/kernels/crosses.hpp).
#pragma once

#include <tacit/op/hmatrix/hash.hpp>

#include <cmath>
#include <cstdint>

namespace tacit::op {

/// A block to be approximated. Arrays of two: rows, columns.
struct CrossTask {
  Local begin[2];  ///< in the orders of the trees
  Local count[2];
  Local limit, enough;        ///< a block that needs more than `limit` crosses is given up; after `enough` ACA stops
  double relative, absolute;  ///< the tolerance
  std::int64_t page;          ///< its first entry in the table of pages
  std::int64_t line;          ///< position of its first row's flag and reference value; those of the columns follow
};

enum class CrossStatus : std::int32_t {
  fresh,
  waiting,  ///< for memory: to be continued with more of it
  done,
  cut,        ///< done, and recompressed (cut_crosses.hpp)
  too_many,   ///< crosses, or a residual at rounding level above the tolerance: all entries are needed
  not_finite  ///< an entry is not finite
};

/// The state of a block. next: the row of the next cross, or -1; reference: its reference row and column in ACA+;
/// empty: zero rows since the last cross; pending: a cross through `next` is due; noise: the level of rounding errors
/// in the reference row and column.
struct CrossState {
  CrossStatus status;
  Local rank, next, reference[2];
  std::int32_t empty, pending;
  std::uint64_t hash;
  double norm2, error, noise[2];
  std::int64_t entries;
};

/// The choice of crosses: B = sum_l u_l v_l^T + R, with partial pivoting (Bebendorf 2000) or with reference rows and
/// columns (Grasedyck 2005), until the last cross is small relative to the sum and samples agree. A row i and a column
/// j of R with pivot R_ij give u = R(:, j) / R_ij and v = R(i, :), which makes row i and column j of the new R zero.
///
/// Self has the numbers, and computes with them. Of rows (side 0) or columns: used or not (unused(), mark()), lines of
/// R (next_line(): those of the next cross, sampled_line(), make_reference(), reference()), of which a Look gives the
/// largest unused entry, first_largest() and size_at(), the largest one, largest(), and the square(). left(): the
/// square of a reference line, as if all rows or columns were like it.
template <class Self>
class CrossSearch {
 protected:
  CrossTask t_;
  CrossState s_;
  int samples_;
  bool references_, verify_;

  TACIT_HD CrossSearch(const CrossTask& task, const CrossState& state, int samples, bool references, bool verify)
      : t_(task), s_(state), samples_(samples), references_(references), verify_(verify) {}

  /// Begins or continues the search.
  TACIT_HD CrossStatus search() {
    if (s_.status == CrossStatus::fresh) {
      s_ = {};
      s_.hash = Hash::of(t_.count[0], t_.count[1]).state;
      s_.next = t_.count[0] / 2;
      s_.reference[0] = s_.reference[1] = -1;
    }
    for (;;) {
      if (!s_.pending) {
        const CrossStatus end = references_ ? with_references() : with_partial_pivots();
        if (end != CrossStatus::done || !verify_) return end;
        s_.next = worst_of_sample();
        if (s_.next < 0 || self().odd()) return CrossStatus::done;
        if (s_.rank >= t_.limit) return CrossStatus::too_many;
        s_.pending = 1;
      }
      // The stopping criterion held too early: take the cross through the worst sampled row and continue. Where that
      // row contains only rounding errors that are still too large, all entries are needed.
      if (!self().has_room()) return CrossStatus::waiting;
      s_.pending = 0;
      if (!cross_through_row(s_.next)) return CrossStatus::too_many;
      s_.empty = 0;
      s_.reference[0] = s_.reference[1] = -1;
    }
  }

 private:
  TACIT_HD Self& self() { return static_cast<Self&>(*this); }
  /// The number of zero rows that are skipped: with repeated rows about one of `rank` is new.
  TACIT_HD int spare() const { return 6 + 4 * s_.rank; }

  /// Takes the cross through row i and its largest entry. False when the row is zero up to rounding.
  TACIT_HD bool cross_through_row(Local i) {
    double noise;
    const auto row = self().next_line(0, i, noise);
    const Local j = self().first_largest(row);
    self().mark(0, i);
    if (self().odd() || j < 0 || self().size_at(row, j) <= noise) return false;
    self().next_line(1, j, noise);
    if (self().odd() || !self().agree(i, j)) return false;
    self().add(i, j, row);
    return true;
  }

  /// Partial pivoting: the next row is where the last column was largest; stops when a cross is small relative to the
  /// sum.
  TACIT_HD CrossStatus with_partial_pivots() {
    while (s_.empty < spare()) {
      if (s_.rank >= t_.enough) return CrossStatus::done;
      if (s_.rank >= t_.limit) return CrossStatus::too_many;
      if (!self().has_room()) return CrossStatus::waiting;
      if (s_.next < 0 || self().used(0, s_.next)) s_.next = self().unused(0);
      if (s_.next < 0) return CrossStatus::done;
      if (!cross_through_row(s_.next)) {  // a zero row gives no information about the others
        if (self().odd()) return CrossStatus::not_finite;
        ++s_.empty;
        s_.next = -1;
        continue;
      }
      s_.empty = 0;
      if (s_.error <= self().allowed()) return CrossStatus::done;
      s_.next = self().largest_row();
    }
    return CrossStatus::done;
  }

  /// A line of the next cross, which may be the reference.
  TACIT_HD auto take_line(int side, Local index, double& noise) {
    if (index != s_.reference[side]) return self().next_line(side, index, noise);
    noise = s_.noise[side];
    return self().take_reference(side);
  }

  /// ACA+: pivots are searched in an updated reference row and column, which show parts of R that partial pivoting
  /// alone misses.
  TACIT_HD CrossStatus with_references() {
    Local &i_ref = s_.reference[0], &j_ref = s_.reference[1];
    while (s_.empty < spare()) {
      if (s_.rank >= t_.enough) return CrossStatus::done;
      if (s_.rank >= t_.limit) return CrossStatus::too_many;
      if (!self().has_room()) return CrossStatus::waiting;
      if (j_ref < 0) {
        j_ref = self().unused(1);
        if (j_ref < 0) return CrossStatus::done;
        s_.noise[1] = self().make_reference(1, j_ref);
      }
      if (i_ref < 0) {
        // The row where the reference column is smallest, far from the part that it represents.
        i_ref = self().smallest_row();
        if (i_ref < 0) return CrossStatus::done;
        s_.noise[0] = self().make_reference(0, i_ref);
      }
      if (self().odd()) return CrossStatus::not_finite;
      const auto column = self().reference(1), row = self().reference(0);
      Local i = self().first_largest(column), j = self().first_largest(row);
      const double in_column = i < 0 ? 0 : self().size_at(column, i), in_row = j < 0 ? 0 : self().size_at(row, j);
      const bool column_left = in_column > s_.noise[1], row_left = in_row > s_.noise[0];
      if (!column_left && !row_left) return CrossStatus::done;  // verification continues
      const int side = column_left && (!row_left || in_column > in_row) ? 0 : 1;
      if (!cross_through_line(side, i, j)) {
        if (self().odd()) return CrossStatus::not_finite;
        ++s_.empty;
        self().mark(side, side == 0 ? i : j);
        if (s_.reference[side] == (side == 0 ? i : j)) s_.reference[side] = -1;
        continue;
      }
      s_.empty = 0;
      for (int of = 0; of < 2; ++of)
        if (s_.reference[of] == (of == 0 ? i : j)) s_.reference[of] = -1;
        else self().take_off(of);
      self().meet();
      if (s_.error > self().allowed()) continue;
      // The reference row and column represent all others of R.
      const double rows = i_ref < 0 ? 0 : self().left(0), columns = j_ref < 0 ? 0 : self().left(1);
      const double left = std::sqrt(rows > columns ? rows : columns);
      if (left <= self().allowed()) {
        s_.error = left;
        return CrossStatus::done;
      }
    }
    return CrossStatus::done;
  }

  /// Takes the cross through row i (side 0) or column j, and its largest entry, whose place becomes the other index.
  /// False where that row or column is zero.
  TACIT_HD bool cross_through_line(int side, Local& i, Local& j) {
    Local &index = side == 0 ? i : j, &other = side == 0 ? j : i;
    double noise;
    auto row = take_line(side, index, noise);
    other = self().first_largest(row);
    if (other < 0 || !(self().size_at(row, other) > noise)) return false;
    const auto next = take_line(1 - side, other, noise);
    if (side == 1) row = next;
    if (self().odd() || !self().agree(i, j)) return false;
    self().add(i, j, row);
    return true;
  }

  /// Estimates norm(R) from rows and columns not used yet; returns the row to continue with where it is too large, else
  /// -1.
  TACIT_HD Local worst_of_sample() {
    double rows2 = 0, columns2 = 0, worst = -1, noise;
    Local at = -1;
    int rows = 0, columns = 0;
    // A zero row gives no information about the others (it may repeat a used one), so more rows are sampled then.
    for (int wanted = samples_, more = spare(); wanted > 0 && more >= 0; ++rows) {
      const Local i = self().unused(0);
      if (i < 0) break;
      const auto look = self().sampled_line(0, i, noise);
      const double square = self().square(look);
      rows2 += square;
      if (square > worst) worst = square, at = i;
      if (self().largest(look) > noise) --wanted;
      else self().mark(0, i), --more;
    }
    if (rows == 0) {  // every row was used, or is zero
      s_.error = self().rounding * std::sqrt(s_.norm2 > 0 ? s_.norm2 : 0.0);
      return -1;
    }
    for (int wanted = samples_, more = spare(); wanted > 0 && more >= 0; ++columns) {
      const Local j = self().unused(1);
      if (j < 0) break;
      const auto look = self().sampled_line(1, j, noise);
      columns2 += self().square(look);
      if (self().largest(look) > noise) --wanted;
      else self().mark(1, j), --more;
      const Local i = self().first_largest(look);
      if (i < 0) continue;
      const double most = self().size_at(look, i), size = most * most * t_.count[1];  // as if the row were all so large
      if (size > worst && most > noise) worst = size, at = i;
    }
    const double of_rows = rows2 / rows * t_.count[0],
                 of_columns = columns > 0 ? columns2 / columns * t_.count[1] : 0.0;
    s_.error = std::sqrt(of_rows > of_columns ? of_rows : of_columns);
    return s_.error > self().allowed() && worst > 0 ? at : -1;
  }
};

}  // namespace tacit::op
