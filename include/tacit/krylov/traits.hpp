// Traits of the methods: what a method needs and how it behaves, as methods.def declares it.
#pragma once

#include <tacit/krylov/options.hpp>

#include <cstddef>

namespace tacit::krylov {

struct Traits {
  /// What A has to be. Methods for other than any A take P for Hermitian and positive definite.
  enum class Matrix { any, hermitian, definite };
  /// Numbers that take the place of inner products, and are of P A: given by the user, or estimated where they are not.
  enum class Parameters { none, given, estimated };
  /// What becomes of the method with a P that changes from call to call: r is not b - A x any more; b - A x still, but
  /// it may stagnate; exact with Side::flexible; exact.
  enum class Varying { drifts, stagnates, by_side, exact };

  Matrix matrix = Matrix::any;
  Varying varying = Varying::drifts;
  Parameters parameters = Parameters::none;
  bool cycles = false;         ///< a run is a cycle of `restart` vectors, which are made orthogonal
  bool erratic = false;        ///< short recurrences for any A, whose residuals vary irregularly
  bool symmetric = false;      ///< for A = A^T, complex or not, with P = P^T: inner products are not conjugated
  bool other_shadow = false;   ///< can begin anew with another shadow residual
  bool gives_way = false;      ///< a variant whose classical method takes over after a quarter of the iterations
  bool needs_factors = false;  ///< P has to be A^-1 to rounding
  bool shares_search = false;  ///< several right-hand sides share one search space
  bool on_groups = false;      ///< compiled for groups of devices, too
};

namespace detail {
using Matrix = Traits::Matrix;
using Varying = Traits::Varying;
using Parameters = Traits::Parameters;
inline constexpr Traits traits[] = {
    Traits{.varying = Traits::Varying::by_side},  // auto
#define TACIT_METHOD(enumerator, name, classical, traits, ...) traits,
#include <tacit/krylov/methods.def>
};
}  // namespace detail

constexpr const Traits& traits_of(Method method) {
  return detail::traits[std::size_t(method)];
}
/// Whether the method is for Hermitian positive definite A only.
constexpr bool needs_definite(Method method) {
  return traits_of(method).matrix == Traits::Matrix::definite;
}
/// Whether the method is for Hermitian A only.
constexpr bool needs_hermitian(Method method) {
  return traits_of(method).matrix != Traits::Matrix::any;
}
/// Conjugate gradients and variants: they minimise the error in the norm of A.
constexpr bool is_cg(Method method) {
  return needs_definite(method) && traits_of(method).parameters == Traits::Parameters::none;
}
/// Whether cycles keep P q of every vector q, so that P may change.
constexpr bool is_flexible(Method method, Side side) {
  const Traits& t = traits_of(method);
  return t.cycles &&
         (t.varying == Traits::Varying::exact || (t.varying == Traits::Varying::by_side && side == Side::flexible));
}

}  // namespace tacit::krylov
