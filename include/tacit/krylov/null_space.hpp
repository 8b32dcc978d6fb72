// NullSpace: the vectors that a singular matrix maps to zero, which a solve is given.
//
//   const auto constant = NullSpace<double>::constant(A.domain());
//   solve<double, Host>(A, P, b, x, options, true, &constant);
#pragma once

#include <tacit/exec/basis.hpp>
#include <tacit/layout/vector.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// An orthonormal basis Q of a space of few vectors.
template <Scalar T, Memory M = Host>
class Orthonormal {
 public:
  using Vector = layout::Vector<T, M>;
  Orthonormal() = default;
  /// Makes the vectors (one column each, of one space) orthonormal, by Gram-Schmidt done twice. 3 reductions a vector.
  /// Error(usage): vectors of different spaces or of several columns, one that is not finite, is zero or depends on
  /// those before it; `what` is their name in the text. Collective.
  Orthonormal(std::vector<Vector> vectors, const char* what) {
    for (auto& v : vectors) {
      const auto which = q_.size();
      require(v.columns() == 1 && (q_.empty() || v.space() == q_.front().space()), what, " vector ", which,
              " has another number of columns or another partition than the first");
      const double largest = layout::max_norm(v);
      require(std::isfinite(largest), what, " vector ", which, " has a value that is not finite");
      require(largest > 0, what, " vector ", which, " is zero");
      // By a power of two first, in two halves: squares, and 1 / ||v||, may leave the range of the scalar.
      const int e = std::ilogb(largest);
      layout::scale(T(std::ldexp(real_t<T>(1), -e / 2)), v);
      layout::scale(T(std::ldexp(real_t<T>(1), -e - (-e / 2))), v);
      layout::scale(T(real_t<T>(1 / layout::norm(v))), v);
      project(v);
      project(v);
      const double left = layout::norm(v);
      require(left > 1000 * double(std::numeric_limits<real_t<T>>::epsilon()), what, " vector ", which,
              " depends on those before it: ", left, " of its length is left beside them");
      layout::scale(T(real_t<T>(1 / left)), v);
      q_.push_back(std::move(v));
    }
  }
  int dimension() const { return int(q_.size()); }
  std::span<const Vector> vectors() const { return q_; }
  /// v := v - Q Q^H v; returns ||Q^H v||. One reduction, two passes over Q for each column; several columns through
  /// host memory. Collective.
  double project(Vector& v) const {
    if (q_.empty()) return 0;
    if (v.columns() > 1) return project_columns(v);
    std::vector<T> h(q_.size());
    dots(v, h.data());
    v.space().sum(h.data(), h.size());
    subtract(h.data(), v);
    return length_of(h);
  }

 private:
  std::vector<const T*> pointers() const {
    std::vector<const T*> q;
    for (const auto& one : q_) q.push_back(one.data());
    return q;
  }
  /// h := the local part of Q^H v.
  void dots(const Vector& v, T* h) const {
    const auto q = pointers();
    exec::basis_dots<T, M>(q.data(), int(q.size()), v.data(), v.size(), h, false);
  }
  /// v := v - Q h
  void subtract(const T* h, Vector& v) const {
    const auto q = pointers();
    exec::basis_subtract<T, M>(q.data(), int(q.size()), h, T(1), v.data(), v.size(), false);
  }
  static double length_of(const std::vector<T>& h) {
    double length = 0;
    for (const T& c : h) length = std::hypot(length, double(std::abs(c)));
    return length;
  }
  double project_columns(Vector& v) const {
    const auto k = std::size_t(v.columns());
    auto all = v.to_host();
    Vector one(v.space());
    std::vector<T> column(all.size() / k), h(q_.size() * k);
    const auto take = [&](std::size_t c) {
      for (std::size_t i = 0; i < column.size(); ++i) column[i] = all[i * k + c];
      one.assign(column);
    };
    for (std::size_t c = 0; c < k; ++c) take(c), dots(one, h.data() + c * q_.size());
    v.space().sum(h.data(), h.size());
    for (std::size_t c = 0; c < k; ++c) {
      take(c);
      subtract(h.data() + c * q_.size(), one);
      column = one.to_host();
      for (std::size_t i = 0; i < column.size(); ++i) all[i * k + c] = column[i];
    }
    // Methods keep the addresses of their vectors, which assign() would change.
    Vector back(v.space(), v.columns());
    back.assign(all);
    layout::copy(back, v);
    return length_of(h);
  }
  std::vector<Vector> q_;
};

/// The null space of a square A, and that of A^H, which is the orthogonal complement of A's range (for Hermitian A they
/// are one). Made orthonormal. Collective to make.
template <Scalar T, Memory M = Host>
class NullSpace {
 public:
  using Vector = layout::Vector<T, M>;
  /// right: A v = 0. left: A^H w = 0; empty: the solve looks whether it is the same space. Error(usage): see
  /// Orthonormal, and an empty `right`.
  explicit NullSpace(std::vector<Vector> right, std::vector<Vector> left = {})
      : right_(std::move(right), "null-space"), left_(std::move(left), "left null-space") {
    require(right_.dimension() > 0, "a null space of no vectors");
  }
  /// The constant vectors.
  static NullSpace constant(const layout::Space& space) {
    std::vector<Vector> ones(1, Vector(space));
    layout::fill(ones.front(), T(1));
    return NullSpace(std::move(ones));
  }
  const Orthonormal<T, M>& right() const { return right_; }
  const Orthonormal<T, M>& left() const { return left_; }

 private:
  Orthonormal<T, M> right_, left_;
};

}  // namespace tacit::krylov
