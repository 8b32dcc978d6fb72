// The scalars that this build of Tacit is compiled for, as lists for explicit instantiations and typed tests. CMake's
// TACIT_SCALARS (of vectors in host memory) and TACIT_DEVICE_SCALARS choose them; double is always one of them.
#pragma once

// Sums of 1 (float), 2 (double), 4 (complex<float>) and 8 (complex<double>).
#ifndef TACIT_SCALARS_Host
#define TACIT_SCALARS_Host 15
#endif
#ifndef TACIT_SCALARS_Device
#define TACIT_SCALARS_Device 15
#endif

/// F(T) for each scalar T of solves in memory M (Host or Device).
#define TACIT_EACH_SCALAR(M, F) TACIT_EACH_OF(TACIT_SCALARS_##M, F)
/// For all four, in every build: files have any of them, and residuals of single precision are computed in double.
#define TACIT_EACH_OF_FOUR(F) TACIT_EACH_15(F)

#define TACIT_EACH_OF(sum, F) TACIT_EACH_OF_(sum, F)  // a macro more: ## does not expand its operands
#define TACIT_EACH_OF_(sum, F) TACIT_EACH_##sum(F)
#define TACIT_EACH_2(F) F(double)
#define TACIT_EACH_3(F) F(float) F(double)
#define TACIT_EACH_6(F) F(double) F(std::complex<float>)
#define TACIT_EACH_7(F) F(float) F(double) F(std::complex<float>)
#define TACIT_EACH_10(F) F(double) F(std::complex<double>)
#define TACIT_EACH_11(F) F(float) F(double) F(std::complex<double>)
#define TACIT_EACH_14(F) F(double) F(std::complex<float>) F(std::complex<double>)
#define TACIT_EACH_15(F) F(float) F(double) F(std::complex<float>) F(std::complex<double>)
