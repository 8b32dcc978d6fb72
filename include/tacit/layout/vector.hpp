// Vector: this rank's elements of a space, in one memory space. Independent of MPI and CUDA.
#pragma once

#include <tacit/exec/memory.hpp>
#include <tacit/exec/pairs.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/layout/space.hpp>

#include <array>
#include <cmath>
#include <span>
#include <vector>

namespace tacit::layout {

/// This rank's elements of a vector with k columns; element i, column c stands at i k + c.
template <Scalar T, Memory M = Host>
class Vector {
 public:
  using scalar = T;
  using memory = M;

  explicit Vector(Space space, int columns = 1)
      : space_(std::move(space)), columns_(columns), elements_(elements_of(space_, columns)) {
    require(columns >= 1, "a vector with ", columns, " columns");
  }

  const Space& space() const { return space_; }
  int columns() const { return columns_; }
  T* data() { return elements_.data(); }
  const T* data() const { return elements_.data(); }
  std::size_t size() const { return elements_.size(); }
  exec::View<T, M> own() { return elements_.view(); }
  exec::View<const T, M> own() const { return elements_.view(); }

  /// Copies this rank's elements from / to host memory. data() stays where it is: methods keep such pointers.
  void assign(std::span<const T> values) {
    require(values.size() == size(), "a vector of ", size(), " elements on this rank was given ", values.size());
    if constexpr (is_group<M>) elements_.assign(values);
    else if constexpr (std::same_as<M, Host>)
      exec::settle(), exec::copy_by_threads(elements_.data(), values.data(), values.size_bytes());
    else if (!values.empty()) exec::copy_to_device(elements_.data(), values.data(), values.size_bytes());
  }
  std::vector<T> to_host() const {
    std::vector<T> values(size());
    if (values.empty()) return values;
    if constexpr (is_group<M>) elements_.to_host(values.data());
    else if constexpr (std::same_as<M, Host>) exec::settle(), std::copy_n(data(), size(), values.data());
    else exec::copy_to_host(values.data(), data(), size() * sizeof(T));
    return values;
  }

 private:
  static exec::Array<T, M> elements_of(const Space& space, int columns) {
    const std::size_t n = std::size_t(space.local_size()) * columns;
    if constexpr (is_group<M>) return exec::Array<T, M>(n, space.place());
    else return exec::Array<T, M>(n);
  }
  Space space_;
  int columns_;
  exec::Array<T, M> elements_;
};

namespace formula {
template <class T>
struct Fill {
  T value;
  TACIT_HD void operator()(T& x) const { x = value; }
};
template <class T>
struct Copy {
  TACIT_HD void operator()(T x, T& y) const { y = x; }
};
template <class T>
struct Scale {
  T alpha;
  TACIT_HD void operator()(T& x) const { x = alpha * x; }
};
template <class T>
struct Axpy {
  T alpha;
  TACIT_HD void operator()(T x, T& y) const { y = y + alpha * x; }
};
template <class T>
struct Xpay {
  T alpha;
  TACIT_HD void operator()(T x, T& y) const { y = x + alpha * y; }
};
template <class T>
struct Difference {
  TACIT_HD void operator()(T a, T b, T& c) const { c = a - b; }
};
template <class T>
struct Dot {
  TACIT_HD exec::Sums<1, T> operator()(T x, T y) const { return {{conj(x) * y}}; }
};
template <class T>
struct Dots {  // (x, y), (x, x)
  TACIT_HD exec::Sums<2, T> operator()(T x, T y) const { return {{conj(x) * y, T(abs2(x))}}; }
};
// Sums of squares of x, and of x scaled by a large and by a small power of two: for any magnitude of x, one of the
// three neither overflows nor underflows.
template <class T>
struct Squares {
  real_t<T> up, down;
  TACIT_HD exec::Sums<3, T> operator()(T x) const { return {{T(abs2(x)), T(abs2(up * x)), T(abs2(down * x))}}; }
};
}  // namespace formula

template <class T, class M>
void fill(Vector<T, M>& x, T value) {
  exec::sweep(exec::reads(), exec::updates(), exec::writes(x), formula::Fill<T>{value});
}
template <class T, class M>
void copy(const Vector<T, M>& x, Vector<T, M>& y) {
  exec::sweep(exec::reads(x), exec::updates(), exec::writes(y), formula::Copy<T>{});
}
/// x := alpha x
template <class T, class M>
void scale(T alpha, Vector<T, M>& x) {
  exec::sweep(exec::reads(), exec::updates(x), exec::writes(), formula::Scale<T>{alpha});
}
/// y := y + alpha x
template <class T, class M>
void axpy(T alpha, const Vector<T, M>& x, Vector<T, M>& y) {
  exec::sweep(exec::reads(x), exec::updates(y), exec::writes(), formula::Axpy<T>{alpha});
}
/// c := a - b
template <class T, class M>
void subtract(const Vector<T, M>& a, const Vector<T, M>& b, Vector<T, M>& c) {
  exec::sweep(exec::reads(a, b), exec::updates(), exec::writes(c), formula::Difference<T>{});
}
/// x in double precision. Local; one pass.
template <Scalar T>
Vector<in_double_t<T>, Host> in_double(const Vector<T, Host>& x) {
  Vector<in_double_t<T>, Host> y(x.space(), x.columns());
  exec::settle();
  for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] = in_double_t<T>(x.data()[i]);
  return y;
}
/// (x, y) = sum conj(x_i) y_i over the space. Collective; one reduction.
template <class T, class M>
T dot(const Vector<T, M>& x, const Vector<T, M>& y) {
  return x.space().sum(exec::sweep(exec::reads(x, y), exec::updates(), exec::writes(), formula::Dot<T>{})).wait()[0];
}
namespace detail {
template <class R>
constexpr int far_exponent = std::same_as<R, double> ? 600 : 75;
/// The sums of formula::Squares over this rank's elements, or a device's pending ones.
template <class T, class M>
auto squares(const Vector<T, M>& x) {
  using R = real_t<T>;
  constexpr int e = far_exponent<R>;
  return exec::sweep(exec::reads(x), exec::updates(), exec::writes(),
                     formula::Squares<T>{std::ldexp(R(1), e), std::ldexp(R(1), -e)});
}
/// The norm of a vector of T whose sums are these.
template <class T>
double norm_of(double plain, double large, double small) {
  using R = real_t<T>;
  constexpr int e = far_exponent<R>;
  constexpr double lowest = std::same_as<R, double> ? 1e-200 : 1e-20f,
                   highest = std::same_as<R, double> ? 1e300 : 1e36f;
  if (plain >= lowest && plain <= highest) return std::sqrt(plain);
  if (plain > highest) return std::ldexp(std::sqrt(small), e);
  if (plain < lowest) return std::ldexp(std::sqrt(large), -e);
  return plain;  // NaN
}
}  // namespace detail

/// ||x||_2 over the space. Intermediate squares cannot overflow or underflow where the result does not. NaN if any
/// element is NaN. Collective; one reduction.
template <class T, class M>
double norm(const Vector<T, M>& x) {
  const auto [plain, large, small] = x.space().sum(detail::squares(x)).wait();
  return detail::norm_of<T>(double(real(plain)), double(real(large)), double(real(small)));
}
/// The part of norm(x) that this rank has, for a reduction with other numbers: norms_of(). Local.
template <class T, class M>
std::array<double, 3> own_squares(const Vector<T, M>& x) {
  auto own = detail::squares(x);
  const auto numbers = [](const auto& sums) {
    return std::array<double, 3>{double(real(sums[0])), double(real(sums[1])), double(real(sums[2]))};
  };
  if constexpr (requires { own.wait(); }) return numbers(own.wait());
  else return numbers(own);
}
/// The norms of vectors of T from their own_squares(). Collective; one reduction.
template <class T, std::size_t k>
std::array<double, k> norms_of(const Space& space, const std::array<std::array<double, 3>, k>& own) {
  auto sums = own;
  space.sum(sums[0].data(), 3 * k);
  std::array<double, k> norms;
  for (std::size_t i = 0; i < k; ++i) norms[i] = detail::norm_of<T>(sums[i][0], sums[i][1], sums[i][2]);
  return norms;
}
/// The norm of a vector of T from its own_squares(), and the maximum of `largest`. Collective; one reduction.
template <class T>
std::array<double, 2> norm_and_max(const Space& space, const std::array<double, 3>& own, double largest) {
  double numbers[4] = {own[0], own[1], own[2], largest};
  space.sum_and_max(numbers);
  return {detail::norm_of<T>(numbers[0], numbers[1], numbers[2]), numbers[3]};
}
/// max |x_i| over the space; Inf if any element is NaN. Collective; one reduction.
template <class T, class M>
double max_norm(const Vector<T, M>& x) {
  double most = largest_magnitude(x.own());
  x.space().start_sum(&most, 1, comm::Operation::max).wait(&most);
  return most;
}

}  // namespace tacit::layout
