// Computes blocks of an H-matrix from their entries by team kernels: ACA on many admissible blocks at once, one team
// for each, and all entries of dense blocks. The search (op/hmatrix/cross_search.hpp), its tolerances and its random
// numbers are those of the host, so that pivots and ranks are the same up to rounding.
// The entries come from a compiled functor that is copied into the kernel:
//
//   struct Entry {
//     TACIT_HD double operator()(Local i, Local j) const;  // A(i, j), in the caller's numbers; pointers of the device
//   };
#pragma once

#include <tacit/exec/kernels.hpp>
#include <tacit/exec/team.hpp>
#include <tacit/op/hmatrix/cross_search.hpp>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

#define TACIT_APART __attribute__((noinline))

namespace tacit::op {

/// The number of crosses in a page.
inline constexpr int crosses_of_page = 4;

/// A block's crosses: each page holds the columns u and v of a few crosses, and the largest entry of each column.
template <class T>
struct CrossPages {
  T* const* page;
  Local rows, columns;

  TACIT_HD static std::int64_t numbers(Local rows, Local columns) {
    return std::int64_t(crosses_of_page) * (std::int64_t(rows) + columns + 2);
  }
  /// u (side 0) or v of cross l.
  TACIT_HD T* at(int side, Local l) const {
    return page[l / crosses_of_page] + (side == 0 ? 0 : crosses_of_page * std::int64_t(rows)) +
           std::int64_t(l % crosses_of_page) * (side == 0 ? rows : columns);
  }
  TACIT_HD T& most(int side, Local l) const {
    return page[l / crosses_of_page]
               [crosses_of_page * (std::int64_t(rows) + columns) + side * crosses_of_page + l % crosses_of_page];
  }
};

/// The entries of some columns of a dense block, evaluated by one team.
struct EntryTask {
  Local begin[2], rows, columns;
  std::int64_t to;
  static constexpr Local most = 4096;
};

namespace detail {

/// Atomic a += v; returns the old a. The order of calls, and so the values, depend on timing.
TACIT_HD inline std::int64_t atomic_take(std::int64_t* a, std::int64_t v) {
#ifdef __CUDA_ARCH__
  return static_cast<std::int64_t>(
      atomicAdd(reinterpret_cast<unsigned long long*>(a), static_cast<unsigned long long>(v)));
#else
  return std::atomic_ref<std::int64_t>(*a).fetch_add(v, std::memory_order_relaxed);
#endif
}

/// The result of a pass over a row or column of the residual. met: the largest entry of A; more: the sizes of the
/// products subtracted from it, for the level of rounding errors; all, square: the maximum and the sum of squares of
/// the residual; at, most: the largest of its unused entries, the first of equal ones; odd: an entry is not finite.
struct Look {
  double met = 0, more = 0, all = 0, square = 0, most = 0;
  std::int32_t at = -1, odd = 0;
  template <class T>
  TACIT_HD void take(std::int32_t x, T value, bool candidate) {
    const double size = std::fabs(double(value));
    all = size > all ? size : all;
    square += double(value) * double(value);
    if (candidate && (at < 0 || size > most)) at = x, most = size;
  }
};
TACIT_HD inline void add_to(Look& a, const Look& b) {
  a.met = b.met > a.met ? b.met : a.met;
  a.all = b.all > a.all ? b.all : a.all;
  a.more += b.more, a.square += b.square;
  if (b.at >= 0 && (a.at < 0 || b.most > a.most || (b.most == a.most && b.at < a.at))) a.at = b.at, a.most = b.most;
  a.odd |= b.odd;
}

/// The position of the largest value, the first of equal ones.
struct Best {
  double value = 0;
  std::int32_t at = -1, unused = 0;
};
TACIT_HD inline void add_to(Best& a, const Best& b) {
  if (b.at >= 0 && (a.at < 0 || b.value > a.value || (b.value == a.value && b.at < a.at))) a = b;
}

}  // namespace detail

/// ACA on the blocks todo[0 ..), one team for each (CrossSearch). The number of crosses is not known beforehand, so
/// they are stored in pages that blocks take from `room`; where none is left, a block keeps its state and waits for the
/// next launch. Work: (r + 4)(m + n) entries and 2 r^2 (m
/// + n) operations for m x n and rank r; memory: crosses written once and read r / 2 times, mostly from cache.
template <class T, class Entry>
struct TakeCrosses {
  static constexpr int threads = 128;
  using Shared = exec::NothingShared;

  Entry entry;
  const Local* order[2];
  const CrossTask* task;
  const Local* todo;
  CrossState* state;
  char* used;  // flags of rows and columns, 0 at first
  T* reference;
  T** page;  // table of pages, null at first
  T* room;
  std::int64_t room_size;
  std::int64_t* taken;
  double share;  // of the tolerance, for the crosses
  int samples;
  bool references, verify, tracks_norm;

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    Walk<U> walk(*this, team);
    walk.run();
  }

 private:
  template <class U>
  class Walk : CrossSearch<Walk<U>> {
    using Search = CrossSearch<Walk<U>>;
    friend Search;
    using Search::s_, Search::t_;

   public:
    TACIT_HD Walk(const TakeCrosses& kernel, const U& team)
        : Search(kernel.task[kernel.todo[team.block()]], kernel.state[kernel.todo[team.block()]], kernel.samples,
                 kernel.references, kernel.verify),
          k_(kernel),
          team_(team),
          page_(kernel.page + t_.page) {}

    TACIT_HD void run() {
      // All members have read the state before one of them writes it.
      team_.barrier();
      const CrossStatus end = this->search();
      s_.status = odd_ ? CrossStatus::not_finite : end;
      if (team_.rank() == 0) k_.state[k_.todo[team_.block()]] = s_;
    }

   private:
    static constexpr double rounding = 8 * double(std::numeric_limits<T>::epsilon());
    using Look = detail::Look;
    using Best = detail::Best;

    TACIT_HD double allowed() const {
      const double a = t_.relative * std::sqrt(s_.norm2 > 0 ? s_.norm2 : 0.0), b = t_.absolute;
      return k_.share * std::hypot(a, b);
    }
    TACIT_HD bool odd() const { return odd_; }
    TACIT_HD static Local first_largest(const Look& look) { return look.at; }
    TACIT_HD static double size_at(const Look& look, Local) { return look.most; }
    TACIT_HD static double largest(const Look& look) { return look.all; }
    TACIT_HD static double square(const Look& look) { return look.square; }
    TACIT_HD Local largest_row() const { return largest_row_; }
    TACIT_HD double left(int side) const { return left_[side]; }
    TACIT_HD void meet() const { team_.barrier(); }
    TACIT_HD bool used(int side, Local index) const { return flags(side)[index]; }
    TACIT_HD char* flags(int side) const { return k_.used + t_.line + (side == 0 ? 0 : t_.count[0]); }
    /// The reference column (side 0, with as many elements as rows) or row.
    TACIT_HD T* references(int side) const { return k_.reference + t_.line + (side == 0 ? 0 : t_.count[0]); }
    TACIT_HD CrossPages<T> pages() const { return {page_, t_.count[0], t_.count[1]}; }
    TACIT_HD T* cross(int side, Local l) const { return pages().at(side, l); }
    TACIT_HD T& most(int side, Local l) const { return pages().most(side, l); }
    /// Makes sure that there is a page for the next cross.
    TACIT_HD bool has_room() {
      T** const mine = page_ + s_.rank / crosses_of_page;
      if (*mine) return true;
      team_.barrier();
      if (team_.rank() == 0) {
        const std::int64_t size = CrossPages<T>::numbers(t_.count[0], t_.count[1]),
                           from = detail::atomic_take(k_.taken, size);
        if (from + size <= k_.room_size) *mine = k_.room + from;
      }
      team_.barrier();
      return *mine != nullptr;
    }
    TACIT_HD void mark(int side, Local index) {
      if (team_.rank() == 0) flags(side)[index] = 1;
      team_.barrier();
    }
    TACIT_HD Local unused(int side) {
      Hash hash{s_.hash};
      const Local n = t_.count[side], from = hash.below(n);
      s_.hash = hash.state;
      const char* const used = flags(side);
      for (Local base = 0; base < n; base += U::threads) {
        const Local k = base + team_.rank();
        Best best;
        if (k < n && !used[(std::int64_t(from) + k) % n]) best.at = k;
        best = team_.sum(best);
        if (best.at >= 0) return Local((std::int64_t(from) + best.at) % n);
      }
      return -1;
    }

    /// Evaluates a row (side 0) or column of R, to `out` where given, and returns its Look and level of rounding
    /// errors.
    TACIT_HD TACIT_APART Look residual(int side, Local index, T* out, double& noise) {
      const int along = 1 - side;
      const Local n = t_.count[along], fixed = k_.order[side][t_.begin[side] + index], rank = s_.rank;
      const Local* const others = k_.order[along] + t_.begin[along];
      const char* const used = flags(along);
      const std::int64_t split = crosses_of_page * std::int64_t(t_.count[0]), stride = t_.count[side];
      Look look;
      for (Local x = team_.rank(); x < n; x += U::threads) {
        const Local other = others[x];
        const T a = T(k_.entry(side == 0 ? fixed : other, side == 0 ? other : fixed));
        T value = a;
        for (Local l = 0; l < rank; l += crosses_of_page) {
          const T* const p = page_[l / crosses_of_page];
          const T *const c = p + (side == 0 ? 0 : split) + index, *const v = p + (side == 0 ? split : 0) + x;
          const Local here = rank - l < crosses_of_page ? rank - l : Local(crosses_of_page);
          for (Local q = 0; q < here; ++q) value -= c[q * stride] * v[std::int64_t(q) * n];
        }
        if (out) out[x] = value;
        const double size = std::fabs(double(a));
        look.met = size > look.met ? size : look.met;
        look.odd |= !(a - a == T(0));
        look.take(x, value, !used[x]);
      }
      for (Local l = team_.rank(); l < rank; l += U::threads)
        look.more += std::fabs(double(cross(side, l)[index])) * double(most(along, l));
      look = team_.sum(look);
      team_.barrier();
      odd_ = odd_ || look.odd;
      s_.entries += n;
      noise = rounding * (look.met + look.more);
      return look;
    }
    /// The Look of a known row or column, which is copied to `out` where given.
    TACIT_HD TACIT_APART Look view(int along, const T* line, T* out) {
      const char* const used = flags(along);
      Look look;
      for (Local x = team_.rank(); x < t_.count[along]; x += U::threads) {
        if (out) out[x] = line[x];
        look.take(x, line[x], !used[x]);
      }
      look = team_.sum(look);
      team_.barrier();
      return look;
    }
    TACIT_HD bool agree(Local i, Local j) const {
      const double a = double(cross(1, s_.rank)[j]), b = double(cross(0, s_.rank)[i]);
      return a != 0 && std::fabs(a - b) <= std::fabs(a) / 2;
    }

    /// Adds the cross through (i, j), whose row and column of R are already stored as the next v and u.
    TACIT_HD TACIT_APART void add(Local i, Local j, const Look& row) {
      const Local m = t_.count[0], n = t_.count[1], last = s_.rank;
      T* const u = cross(0, last);
      const T* const v = cross(1, last);
      const T pivot = u[i], inverse = T(1) / pivot;
      const bool divide = !(inverse - inverse == T(0));
      if (team_.rank() == 0) flags(0)[i] = flags(1)[j] = 1;
      team_.barrier();
      const char* const used = flags(0);
      Look column;
      for (Local x = team_.rank(); x < m; x += U::threads) {
        const T value = divide ? u[x] / pivot : u[x] * inverse;
        u[x] = value;
        column.take(x, value, !used[x]);
      }
      column = team_.sum(column);
      if (team_.rank() == 0) most(0, last) = T(column.all), most(1, last) = T(row.all);
      team_.barrier();
      const double size = std::sqrt(column.square * row.square);
      // norm(S + u v^T)^2 = norm(S)^2 + 2 sum_l (u_l . u)(v_l . v) + norm(u)^2 norm(v)^2
      double mixed = 0;
      for (Local l = 0; l < last && k_.tracks_norm; ++l) {
        const T *const a = cross(0, l), *const b = cross(1, l);
        exec::Sums<2, double> dots{};
        for (Local x = team_.rank(); x < m; x += U::threads) dots[0] += double(a[x]) * double(u[x]);
        for (Local x = team_.rank(); x < n; x += U::threads) dots[1] += double(b[x]) * double(v[x]);
        dots = team_.sum(dots);
        mixed += dots[0] * dots[1];
      }
      s_.norm2 += 2 * mixed + size * size;
      s_.error = size;
      largest_row_ = column.at;
      ++s_.rank;
    }

    /// Subtracts the last cross from the reference line `side`.
    TACIT_HD void take_off(int side) {
      const int along = 1 - side;
      const Local last = s_.rank - 1;
      const T c = cross(side, last)[s_.reference[side]];
      const T* const v = cross(along, last);
      T* const line = references(along);
      double square = 0;
      for (Local x = team_.rank(); x < t_.count[along]; x += U::threads) {
        const T value = line[x] - c * v[x];
        line[x] = value;
        square += double(value) * double(value);
      }
      square = team_.sum(square);
      s_.noise[side] += rounding * std::fabs(double(c)) * double(most(along, last));
      left_[side] = square * t_.count[side];
    }
    TACIT_HD Look next_line(int side, Local index, double& noise) {
      return residual(side, index, cross(1 - side, s_.rank), noise);
    }
    TACIT_HD Look sampled_line(int side, Local index, double& noise) { return residual(side, index, nullptr, noise); }
    TACIT_HD double make_reference(int side, Local index) {
      double noise;
      residual(side, index, references(1 - side), noise);
      return noise;
    }
    TACIT_HD Look reference(int side) { return view(1 - side, references(1 - side), nullptr); }
    TACIT_HD Look take_reference(int side) { return view(1 - side, references(1 - side), cross(1 - side, s_.rank)); }
    /// The row where the reference column is smallest.
    TACIT_HD Local smallest_row() {
      const T* const line = references(0);
      const char* const used = flags(0);
      Best best;
      for (Local x = team_.rank(); x < t_.count[0]; x += U::threads) {
        const double value = -std::fabs(double(line[x]));
        if (!used[x] && (best.at < 0 || value > best.value)) best.at = x, best.value = value;
      }
      best = team_.sum(best);
      return best.at;
    }

    const TakeCrosses& k_;
    const U& team_;
    T** page_;
    Local largest_row_ = -1;
    double left_[2];
    bool odd_ = false;
  };
};

/// out[to + i + j rows] = A(row i, column j) of each task.
template <class T, class Entry>
struct MakeEntries {
  static constexpr int threads = 256;
  using Shared = exec::NothingShared;
  Entry entry;
  const Local* order[2];
  const EntryTask* task;
  T* out;

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const EntryTask t = task[team.block()];
    const Local *const rows = order[0] + t.begin[0], *const columns = order[1] + t.begin[1];
    const std::int64_t count = std::int64_t(t.rows) * t.columns;
    for (std::int64_t e = team.rank(); e < count; e += U::threads)
      out[t.to + e] = T(entry(rows[e % t.rows], columns[e / t.rows]));
  }
};

}  // namespace tacit::op
