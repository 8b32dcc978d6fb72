// Triangular solves by levels, as kernels over a Team.
//
// A level has the rows that depend on rows of earlier levels only, so that its rows can be solved at the same time:
// level scheduling, Saad, Iterative Methods for Sparse Linear Systems (2003), section 11.6.2.
#pragma once

#include <tacit/op/kernels/csr.hpp>

#include <cmath>
#include <type_traits>

namespace tacit::precond {

/// z_p := d_p (z_from(p) - sum over q of s_pq z_q) for the positions p of levels [first, last), each for the k columns
/// that are stored side by side. Position p is of L where p < lower, and from(p) = p; else of U, and from(p) = from[p -
/// lower] is its row's position in L. So both factors are one system, whose levels are those of L and then those of U.
/// d_p is inverse[p - scaled_begin] in [scaled_begin, scaled_end), else 1.
///
/// `blocks` teams share a level where there is only one; a single team solves several, with a barrier after each. Lanes
/// threads share a row. A level is cut into slices of 32 / Lanes rows (the last one may have fewer): of a slice of m
/// rows, entry j of row r stands at slice_begin[s] + (j / Lanes) m Lanes + r Lanes + j % Lanes, so that 32 neighbouring
/// threads read 32 neighbouring entries. Rows are filled up with column -1.
/// Memory: padded entries (sizeof(T) + 4) + 2 k elements and at most one d and one `from` of each position.
/// Alignment: value and inverse to sizeof(T), z to min(16, K sizeof(T)) bytes; k is a multiple of K.
template <class T, int LanesOfRow, int K, int Threads>
struct LevelSolve {
  static constexpr int threads = Threads;
  static constexpr int rows_at_once = Threads / LanesOfRow;
  static constexpr int slice_rows = 32 / LanesOfRow;
  static_assert(Threads % 32 == 0 && 32 % LanesOfRow == 0);
  using Shared = exec::NothingShared;
  using Row = op::RowProduct<T, Local, K>;

  Local first, last, blocks;
  int k;
  Local lower, scaled_begin, scaled_end;
  const Local* level_row;     // [levels + 1]: positions
  const Local* level_slice;   // [levels + 1]
  const Global* slice_begin;  // [slices + 1]
  const Local* column;        // positions
  const T* value;
  const T* inverse;
  const Local* from;
  T* z;

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const auto lanes = team.template lanes<LanesOfRow>();
    using L = exec::Lanes<LanesOfRow, U>;
    static_assert(rows_at_once % L::groups == 0);
    for (Local level = first; level < last; ++level) {
      const Global begin = level_row[level], end = level_row[level + 1];
      // Every thread does the same number of rounds, since lanes.sum() is called by the whole team.
      for (Global base = begin + team.block() * rows_at_once; base < end; base += Global(blocks) * rows_at_once)
        for (int r = lanes.group(); r < rows_at_once; r += L::groups)
          row(lanes, base + r, begin, end, level_slice[level]);
      if (last - first > 1) team.barrier();
    }
  }

 private:
  template <class L>
  TACIT_HD void row(const L& lanes, Global p, Global begin, Global end, Local slice) const {
    const bool is_there = p < end;
    Global from_entry = 0, to_entry = 0;
    int step = 0;
    if (is_there) {
      const Global s = slice + (p - begin) / slice_rows, r = (p - begin) % slice_rows, left = end - (p - r);
      const int rows = left < slice_rows ? int(left) : slice_rows;
      from_entry = slice_begin[s] + r * LanesOfRow, to_entry = slice_begin[s + 1];
      step = rows * LanesOfRow;
    }
    for (int c = 0; c < k; c += K) {
      typename Row::Sum sum{};
      // One round where every lane is a thread.
      for (int l = lanes.lane(); is_there && l < LanesOfRow; l += L::width)
        Row::add(sum, from_entry + l, to_entry, step, column, value, z + c, k, p);
      sum = lanes.sum(sum);
      if (is_there && lanes.lane() == 0) store(sum, p, c);
    }
  }
  TACIT_HD void store(const typename Row::Sum& sum, Global p, int c) const {
    const T* const right = z + Global(p < lower ? Local(p) : from[p - lower]) * k + c;
    T* const own = z + p * k + c;
    const bool scaled = p >= scaled_begin && p < scaled_end;
    const T d = scaled ? op::element(inverse + (p - scaled_begin)) : T(1);
    TACIT_UNROLL
    for (int i = 0; i < K; ++i) {
      const T left = op::element(right + i) - sum[i];
      exec::Packet<T, 1>{{scaled ? d * left : left}}.store(own + i);
    }
  }
};

/// out[i k + c] = s 2^e in[from[i] k + c] for i < n and c < k, with e = exponent[i] (0 where there are none) and s = -1
/// where `negative`. Memory: 2 n k elements, n indices and exponents.
template <class T, int Threads>
struct PlaceElements {
  static constexpr int threads = Threads;
  using Shared = exec::NothingShared;
  Global n;
  int k;
  bool negative;
  const Local* from;
  const int* exponent;  // or null
  const T* in;
  T* out;

  static Global blocks(Global n, int k) { return (n * k + Threads - 1) / Threads; }

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    exec::for_items<Threads>(team, [&](int t) {
      const Global at = team.block() * Threads + t;
      if (at >= n * k) return;
      const Global i = k == 1 ? at : at / k;
      T v = op::element(in + Global(from[i]) * k + (at - i * k));
      if (exponent) v = times_power(v, exponent[i]);
      exec::Packet<T, 1>{{negative ? -v : v}}.store(out + at);
    });
  }

 private:
  TACIT_HD static T times_power(T v, int e) {
    using R = real_t<T>;
    if constexpr (is_complex<T>) return T(R(ldexp(v.real(), e)), R(ldexp(v.imag(), e)));
    else return R(ldexp(v, e));
  }
};

}  // namespace tacit::precond
