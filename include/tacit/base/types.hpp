// Scalars, index widths and memory spaces, used by the whole library.
#pragma once

#include <tacit/base/scalars.hpp>

#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define TACIT_HD __host__ __device__
#else
#define TACIT_HD
#endif

namespace tacit {

using Local = std::int32_t;   ///< index within a rank
using Global = std::int64_t;  ///< index over all ranks, and every offset into entries

/// Memory spaces. `Host` is this process' memory, `Device` the memory of the current GPU, and Group<M> the memories (of
/// kind M) of several devices of this process, used as one (exec/group.hpp).
struct Host {};
struct Device {};
template <class M>
struct Group {};
template <class M>
concept Memory =
    std::same_as<M, Host> || std::same_as<M, Device> || std::same_as<M, Group<Host>> || std::same_as<M, Group<Device>>;
template <class M>
inline constexpr bool is_group = std::same_as<M, Group<Host>> || std::same_as<M, Group<Device>>;

template <class T>
struct scalar_traits;
template <std::floating_point R>
struct scalar_traits<R> {
  using real = R;
  static constexpr bool is_complex = false;
};
template <class R>
struct scalar_traits<std::complex<R>> {
  using real = R;
  static constexpr bool is_complex = true;
};

template <class T>
using real_t = typename scalar_traits<T>::real;
template <class T>
inline constexpr bool is_complex = scalar_traits<T>::is_complex;

/// double for real scalars, std::complex<double> for complex ones.
template <class T>
using in_double_t = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// real_t<T> for scalars, T itself for anything else (integers).
template <class T>
struct real_or_self {
  using type = T;
};
template <class R>
struct real_or_self<std::complex<R>> {
  using type = R;
};
template <class T>
using real_or_self_t = typename real_or_self<T>::type;

/// The scalars that Tacit is built for: float, double and their complex forms.
template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::complex<float>> ||
    std::same_as<T, std::complex<double>>;

/// Complex conjugate that stays real for real scalars (std::conj does not). The constraint on R makes overload
/// resolution prefer these to std::conj and std::real, which argument-dependent look-up finds too.
template <std::floating_point R>
TACIT_HD constexpr R conj(R a) {
  return a;
}
template <std::floating_point R>
constexpr std::complex<R> conj(const std::complex<R>& a) {
  return {a.real(), -a.imag()};
}
template <std::floating_point R>
TACIT_HD constexpr R real(R a) {
  return a;
}
template <std::floating_point R>
constexpr R real(const std::complex<R>& a) {
  return a.real();
}
/// |a|^2, without the square root of |a|.
template <std::floating_point R>
TACIT_HD constexpr R abs2(R a) {
  return a * a;
}
template <std::floating_point R>
constexpr R abs2(const std::complex<R>& a) {
  return a.real() * a.real() + a.imag() * a.imag();
}
/// Whether all parts are finite.
template <std::floating_point R>
bool is_finite(R a) {
  return std::isfinite(a);
}
template <std::floating_point R>
bool is_finite(const std::complex<R>& a) {
  return std::isfinite(a.real()) && std::isfinite(a.imag());
}
/// "float32", "float64", "complex64", "complex128": NumPy's names, used in reports and on the command line.
template <Scalar T>
constexpr const char* scalar_name() {
  if constexpr (std::same_as<T, float>) return "float32";
  else if constexpr (std::same_as<T, double>) return "float64";
  else if constexpr (std::same_as<T, std::complex<float>>) return "complex64";
  else return "complex128";
}

}  // namespace tacit
