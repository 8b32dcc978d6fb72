// Projected: the small least-squares problem of GMRES, column after column, by Givens rotations.
#pragma once

#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tacit::krylov {

/// min_y || beta e_1 - H y || over a Hessenberg matrix H that grows by columns. The same on all ranks. Local.
template <Scalar T>
class Projected {
 public:
  explicit Projected(double beta) : g_{T(real_t<T>(beta))}, start_(beta) {}

  int columns() const { return columns_; }
  /// The minimum for the columns so far: the norm of the residual, as long as the basis is orthonormal.
  double residual() const { return std::abs(g_[columns_]); }
  /// |R_jj| of the last column given to append(). Where it is far below the largest so far, H is singular.
  double pivot() const { return pivot_; }

  /// Takes column j = columns() of H: h[0..j+1], overwritten. False, and nothing is taken, when the column makes H
  /// singular (R_jj at rounding of the largest) or is not finite: see pivot().
  bool append(T* h) {
    const int j = columns_;
    for (int i = 0; i < j; ++i) {  // the rotations so far
      const T upper = h[i], lower = h[i + 1];
      h[i] = cosine_[i] * upper + sine_[i] * lower;
      h[i + 1] = -conj(sine_[i]) * upper + cosine_[i] * lower;
    }
    const double below = std::abs(h[j + 1]), diagonal = std::abs(h[j]);
    pivot_ = std::hypot(diagonal, below);
    largest_ = std::max(largest_, pivot_);
    if (!std::isfinite(pivot_) || !(pivot_ > 10 * std::numeric_limits<real_t<T>>::epsilon() * largest_)) return false;
    const T phase = diagonal > 0 ? h[j] / real_t<T>(diagonal) : T(1);
    cosine_.push_back(real_t<T>(diagonal / pivot_));
    sine_.push_back(phase * conj(h[j + 1]) / real_t<T>(pivot_));
    h[j] = phase * real_t<T>(pivot_);
    R_.insert(R_.end(), h, h + j + 1);
    g_.push_back(-conj(sine_[j]) * g_[j]);
    g_[j] = cosine_[j] * g_[j];
    ++columns_;
    return true;
  }
  /// The minimiser y, of `columns()` numbers.
  std::vector<T> coefficients() const { return minimiser(columns_); }
  /// Whether the rounding error that y causes in the residual, epsilon ||H|| ||y||, is at most the residual, or 1e-3 of
  /// the initial one. It is larger where H is nearly singular.
  bool is_sound(const std::vector<T>& y) const { return rounding() * length(y) <= std::max(residual(), 1e-3 * start_); }
  /// Where y is not sound, minimisers to choose from by their recomputed residuals: that of all columns, and those of
  /// fewer columns with the least sum of the residual and 1 or 100 times the rounding error.
  std::vector<std::vector<T>> candidates() const {
    const double rounding = this->rounding();
    std::vector<std::vector<T>> found{coefficients()};
    int before = columns_;
    for (const double times : {1.0, 100.0}) {
      double norm = residual(), least = std::numeric_limits<double>::infinity();
      int best = 0;
      for (int k = columns_; k > 0 && norm < least; --k) {
        if (const double whole = norm + times * rounding * length(minimiser(k)); whole < least) least = whole, best = k;
        norm = std::hypot(norm, double(std::abs(g_[k - 1])));
      }
      if (best > 0 && best < before) found.push_back(minimiser(best)), before = best;
    }
    return found;
  }

 private:
  /// The minimiser over the first k columns.
  std::vector<T> minimiser(int k) const {
    std::vector<T> y(g_.begin(), g_.begin() + k);
    for (int i = k - 1; i >= 0; --i) {
      for (int l = i + 1; l < k; ++l) y[i] -= R_[std::size_t(l) * (l + 1) / 2 + i] * y[l];
      y[i] /= R_[std::size_t(i) * (i + 1) / 2 + i];
    }
    return y;
  }
  double rounding() const { return double(std::numeric_limits<real_t<T>>::epsilon()) * largest_; }
  static double length(const std::vector<T>& y) {
    double most = 0;
    for (const T& v : y) most = std::hypot(most, double(std::abs(v)));
    return most;
  }

  std::vector<T> R_;  // the triangle, column after column
  std::vector<T> g_, sine_;
  std::vector<real_t<T>> cosine_;
  int columns_ = 0;
  double start_ = 0, largest_ = 0, pivot_ = 0;
};

}  // namespace tacit::krylov
