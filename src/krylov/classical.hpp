// The classical methods, compiled once (classical.cpp, classical.cu) and called by the driver.
#pragma once

#include <tacit/krylov/bicgstab.hpp>
#include <tacit/krylov/cg.hpp>
#include <tacit/krylov/gmres.hpp>
#include <tacit/krylov/stationary.hpp>

#include <complex>

// TACIT_CLASSICAL(, M) instantiates them for the memory space M, TACIT_CLASSICAL(extern, M) says that this is done
// elsewhere.
#define TACIT_CLASSICAL_OF(EXTERN, T, M)                                                      \
  EXTERN template void cg<T, M>(const Run<T, M>&, Monitor&, std::optional<double>);           \
  EXTERN template void bicgstab<T, M>(const Run<T, M>&, Monitor&, int);                       \
  EXTERN template void gmres<T, M>(const Run<T, M>&, Monitor&, int, Side, Orthogonalisation); \
  EXTERN template void richardson<T, M>(const Run<T, M>&, Monitor&, double, int);             \
  EXTERN template void chebyshev<T, M>(const Run<T, M>&, Monitor&, double, double);
#define TACIT_CLASSICAL(EXTERN, M)                   \
  TACIT_CLASSICAL_OF(EXTERN, float, M)               \
  TACIT_CLASSICAL_OF(EXTERN, double, M)              \
  TACIT_CLASSICAL_OF(EXTERN, std::complex<float>, M) \
  TACIT_CLASSICAL_OF(EXTERN, std::complex<double>, M)
