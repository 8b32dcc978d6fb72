// Complex<R>: the complex number of device code.
//
// std::complex cannot be used in kernels: its members are host functions, whose arithmetic nvcc drops silently.
// thrust::complex cannot be used in formulas: it is aligned to 2 sizeof(R), so a formula with real and complex
// coefficients would be laid out differently on host and device. Complex<R> has the size, alignment and order of
// std::complex<R>, so a formula of the host can be copied to the device byte by byte.
#pragma once

#include <tacit/base/types.hpp>

#include <cmath>
#include <complex>
#include <concepts>

namespace tacit {

/// re + i im. Products and quotients are the plain formulas (no recovery of infinities), as in the host code
/// (-fcx-limited-range).
template <std::floating_point R>
struct Complex {
  R re, im;

  Complex() = default;
  TACIT_HD constexpr Complex(R real_part, R imaginary_part = R(0)) : re(real_part), im(imaginary_part) {}
  explicit constexpr Complex(const std::complex<R>& a) : re(a.real()), im(a.imag()) {}
  explicit constexpr operator std::complex<R>() const { return {re, im}; }
  TACIT_HD constexpr R real() const { return re; }
  TACIT_HD constexpr R imag() const { return im; }

  TACIT_HD constexpr Complex& operator+=(Complex b) { return re += b.re, im += b.im, *this; }
  TACIT_HD constexpr Complex& operator-=(Complex b) { return re -= b.re, im -= b.im, *this; }
  TACIT_HD constexpr Complex& operator*=(Complex b) { return *this = *this * b; }
  TACIT_HD constexpr Complex& operator/=(Complex b) { return *this = *this / b; }
  TACIT_HD constexpr Complex& operator+=(R b) { return re += b, *this; }
  TACIT_HD constexpr Complex& operator-=(R b) { return re -= b, *this; }
  TACIT_HD constexpr Complex& operator*=(R b) { return re *= b, im *= b, *this; }
  TACIT_HD constexpr Complex& operator/=(R b) { return re /= b, im /= b, *this; }

  friend TACIT_HD constexpr Complex operator+(Complex a) { return a; }
  friend TACIT_HD constexpr Complex operator-(Complex a) { return {-a.re, -a.im}; }
  friend TACIT_HD constexpr Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend TACIT_HD constexpr Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend TACIT_HD constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend TACIT_HD constexpr Complex operator/(Complex a, Complex b) {
    const R scale = R(1) / (b.re * b.re + b.im * b.im);
    return {(a.re * b.re + a.im * b.im) * scale, (a.im * b.re - a.re * b.im) * scale};
  }
  friend TACIT_HD constexpr Complex operator+(Complex a, R b) { return {a.re + b, a.im}; }
  friend TACIT_HD constexpr Complex operator-(Complex a, R b) { return {a.re - b, a.im}; }
  friend TACIT_HD constexpr Complex operator*(Complex a, R b) { return {a.re * b, a.im * b}; }
  friend TACIT_HD constexpr Complex operator/(Complex a, R b) { return {a.re / b, a.im / b}; }
  friend TACIT_HD constexpr Complex operator+(R a, Complex b) { return {a + b.re, b.im}; }
  friend TACIT_HD constexpr Complex operator-(R a, Complex b) { return {a - b.re, -b.im}; }
  friend TACIT_HD constexpr Complex operator*(R a, Complex b) { return {a * b.re, a * b.im}; }
  friend TACIT_HD constexpr Complex operator/(R a, Complex b) { return Complex(a) / b; }
  friend TACIT_HD constexpr bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
};

template <std::floating_point R>
struct scalar_traits<Complex<R>> {
  using real = R;
  static constexpr bool is_complex = true;
};
template <std::floating_point R>
TACIT_HD constexpr Complex<R> conj(Complex<R> a) {
  return {a.re, -a.im};
}
template <std::floating_point R>
TACIT_HD constexpr R real(Complex<R> a) {
  return a.re;
}
template <std::floating_point R>
TACIT_HD constexpr R abs2(Complex<R> a) {
  return a.re * a.re + a.im * a.im;
}
template <std::floating_point R>
TACIT_HD R abs(Complex<R> a) {
  return hypot(a.re, a.im);
}

/// What a kernel computes with where the host says T: Complex<R> for std::complex<R>, else T itself.
template <class T>
struct kernel_scalar {
  using type = T;
};
template <class T>
struct kernel_scalar<const T> {
  using type = const typename kernel_scalar<T>::type;
};
template <class R>
struct kernel_scalar<std::complex<R>> {
  using type = Complex<R>;
  static_assert(sizeof(type) == sizeof(std::complex<R>) && alignof(type) == alignof(std::complex<R>));
};
template <class T>
using kernel_scalar_t = typename kernel_scalar<T>::type;

/// The same memory, seen with the kernel's scalar.
template <class T>
kernel_scalar_t<T>* kernel_pointer(T* p) {
  return reinterpret_cast<kernel_scalar_t<T>*>(p);
}

}  // namespace tacit
