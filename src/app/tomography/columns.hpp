// Passes over all elements of vectors with many columns, each with numbers of its own, in host memory and on devices.
//
// A formula is a named functor f(i, c) of element i, which is in column c; it holds pointers to the elements of its
// vectors and to numbers by column (Numbers), and may change vectors.
#pragma once

#include <tacit/exec/launch.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/layout/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tacit::app::tomography {

constexpr std::size_t chunk = 2048;  // rows whose sums are formed together

// Calls f(piece, first, last) for pieces of the rows.
template <class F>
void rows_of(std::size_t rows, int k, F&& f) {
  const std::size_t pieces = (rows + chunk - 1) / chunk;
  exec::each(pieces, rows * std::size_t(k) > 16384,
             [&](std::size_t p) { f(p, p * chunk, std::min(rows, (p + 1) * chunk)); });
}

/// f(i, i % columns) for all elements.
template <class F>
struct EachElement {
  static constexpr int threads = 256;
  struct Shared {};
  Global count;
  int columns;
  F f;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared&) const {
    exec::for_items<threads>(team, [&](int item) {
      const Global at = team.block() * threads + item;
      if (at < count) f(std::size_t(at), int(at % columns));
    });
  }
};

/// How values of a column are put together.
struct Add {
  TACIT_HD static double of(double a, double b) { return a + b; }
};
struct Largest {  // NaN where one is
  TACIT_HD static double of(double a, double b) { return b <= a || a != a ? a : b; }
};

/// part[t columns + c] = f(i, c) of the rows of team t, put together.
template <class F, class Op>
struct ColumnPart {
  static constexpr int threads = 256;
  struct Shared {
    double of[threads];
  };
  Global rows;
  int columns;
  F f;
  double* part;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared& shared) const {
    const Global first = team.block() * Global(chunk),
                 last = first + Global(chunk) < rows ? first + Global(chunk) : rows;
    for (int begin = 0; begin < columns; begin += threads) {
      const int wide = columns - begin < threads ? columns - begin : threads, side = threads / wide;
      exec::for_items<threads>(team, [&](int item) {
        double sum = 0;
        const int c = begin + item % wide;
        if (item < side * wide)
          for (Global i = first + item / wide; i < last; i += side)
            sum = Op::of(sum, f(std::size_t(i * columns + c), c));
        shared.of[item] = sum;
      });
      team.barrier();
      exec::for_items<threads>(team, [&](int item) {
        if (item >= wide) return;
        double sum = shared.of[item];
        for (int s = 1; s < side; ++s) sum = Op::of(sum, shared.of[s * wide + item]);
        part[team.block() * columns + begin + item] = sum;
      });
      team.barrier();
    }
  }
};

/// whole[c] = the parts of column c = block of the team, put together.
template <class Op>
struct ColumnWhole {
  static constexpr int threads = 256;
  struct Shared {
    double of[threads];
  };
  Global parts;
  int columns;
  const double* part;
  double* whole;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared& shared) const {
    exec::for_items<threads>(team, [&](int item) {
      double sum = 0;
      for (Global p = item; p < parts; p += threads) sum = Op::of(sum, part[p * columns + team.block()]);
      shared.of[item] = sum;
    });
    team.barrier();
    if (team.rank() > 0) return;
    double sum = shared.of[0];
    for (int i = 1; i < threads; ++i) sum = Op::of(sum, shared.of[i]);
    whole[team.block()] = sum;
  }
};

/// Numbers by column for formulas: given on the host, read where the vectors are.
template <class U, Memory M>
class Numbers {
 public:
  /// Where a formula reads them, until the next call. On a device: a copy, after the passes before it.
  const U* put(const std::vector<U>& values) {
    if constexpr (std::same_as<M, Host>) {
      return values.data();
    } else {
      if (there_.size() < values.size()) there_ = exec::Array<U, M>(values.size());
      if (!values.empty()) exec::copy_to_device(there_.data(), values.data(), values.size() * sizeof(U));
      return there_.data();
    }
  }

 private:
  exec::Array<U, M> there_;
};

/// Passes over vectors of one number of columns.
template <class T, Memory M>
class Columns {
 public:
  /// f for all elements of a vector of this shape. Does not wait for the device.
  template <class F>
  void each(const layout::Vector<T, M>& like, const F& f) {
    const int k = like.columns();
    if constexpr (std::same_as<M, Host>) {
      rows_of(std::size_t(like.space().local_size()), k, [&](std::size_t, std::size_t first, std::size_t last) {
        if (k == 1) {
#pragma omp simd
          for (std::size_t i = first; i < last; ++i) f(i, 0);
        } else {
          for (std::size_t i = first; i < last; ++i)
#pragma omp simd
            for (int c = 0; c < k; ++c) f(i * std::size_t(k) + std::size_t(c), c);
        }
      });
    } else {
      exec::launch<M>((Global(like.size()) + EachElement<F>::threads - 1) / EachElement<F>::threads,
                      EachElement<F>{Global(like.size()), k, f});
    }
  }

  /// This rank's sums of f over each column, f called once for each element. Waits for the device.
  template <class F>
  std::vector<double> sums(const layout::Vector<T, M>& like, const F& f) {
    const int k = like.columns();
    const std::size_t rows = std::size_t(like.space().local_size());
    if constexpr (std::same_as<M, Host>) {
      std::vector<double> partial((rows + chunk - 1) / chunk * std::size_t(k), 0.0), sums(std::size_t(k), 0.0);
      rows_of(rows, k, [&](std::size_t p, std::size_t first, std::size_t last) {
        double* const sum = partial.data() + p * std::size_t(k);
        if (k == 1) {
          double s = 0;
#pragma omp simd reduction(+ : s)
          for (std::size_t i = first; i < last; ++i) s += f(i, 0);
          sum[0] = s;
        } else {
          for (std::size_t i = first; i < last; ++i)
#pragma omp simd
            for (int c = 0; c < k; ++c) sum[c] += f(i * std::size_t(k) + std::size_t(c), c);
        }
      });
      for (std::size_t i = 0; i < partial.size(); ++i) sums[i % std::size_t(k)] += partial[i];
      return sums;
    } else {
      return whole<Add>(rows, k, f);
    }
  }

  /// The same with the largest value, which is not negative; NaN where one is.
  template <class F>
  std::vector<double> largest(const layout::Vector<T, M>& like, const F& f) {
    const int k = like.columns();
    const std::size_t rows = std::size_t(like.space().local_size());
    if constexpr (std::same_as<M, Host>) {
      std::vector<double> most(std::size_t(k), 0.0);
      for (std::size_t i = 0; i < rows * std::size_t(k); ++i) {
        double& m = most[i % std::size_t(k)];
        m = Largest::of(m, f(i, int(i % std::size_t(k))));
      }
      return most;
    } else {
      return whole<Largest>(rows, k, f);
    }
  }

 private:
  template <class Op, class F>
  std::vector<double> whole(std::size_t rows, int k, const F& f) {
    const std::size_t teams = (rows + chunk - 1) / chunk, wide = std::size_t(k);
    if (part_.size() < teams * wide) part_ = exec::Array<double, M>(teams * wide);
    if (whole_.size() < wide) whole_ = exec::Array<double, M>(wide);
    exec::launch<M>(Global(teams), ColumnPart<F, Op>{Global(rows), k, f, part_.data()});
    exec::launch<M>(k, ColumnWhole<Op>{Global(teams), k, part_.data(), whole_.data()});
    std::vector<double> found(wide);
    exec::copy_to_host(found.data(), whole_.data(), wide * sizeof(double));
    return found;
  }
  exec::Array<double, M> part_, whole_;
};

}  // namespace tacit::app::tomography
