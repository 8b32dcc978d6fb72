#include <tacit/base/lapack.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/types.hpp>

#include <algorithm>

// PyPI's OpenBLAS has a prefix before every name.
#ifndef TACIT_LAPACK
#define TACIT_LAPACK(name) name##_
#endif

extern "C" void TACIT_LAPACK(zhseqr)(const char* job, const char* compz, const int* n, const int* ilo, const int* ihi,
                                     std::complex<double>* h, const int* ldh, std::complex<double>* w,
                                     std::complex<double>* z, const int* ldz, std::complex<double>* work,
                                     const int* lwork, int* info, std::size_t, std::size_t);

// The routines of one scalar: name of the QR factorisation, of making Q, of the singular value decomposition.
#define TACIT_LAPACK_QR(T, factor, make)                                                                             \
  extern "C" void TACIT_LAPACK(factor)(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,            \
                                       const int* lwork, int* info);                                                 \
  extern "C" void TACIT_LAPACK(make)(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau,   \
                                     T* work, const int* lwork, int* info);                                          \
  namespace {                                                                                                        \
  void factorise(int m, int n, T* a, T* tau, T* work, int lwork, int* info) {                                        \
    TACIT_LAPACK(factor)(&m, &n, a, &m, tau, work, &lwork, info);                                                    \
  }                                                                                                                  \
  void make_q(int m, int n, T* a, const T* tau, T* work, int lwork, int* info) {                                     \
    TACIT_LAPACK(make)(&m, &n, &n, a, &m, tau, work, &lwork, info);                                                  \
  }                                                                                                                  \
  }
TACIT_LAPACK_QR(float, sgeqrf, sorgqr)
TACIT_LAPACK_QR(double, dgeqrf, dorgqr)
TACIT_LAPACK_QR(std::complex<float>, cgeqrf, cungqr)
TACIT_LAPACK_QR(std::complex<double>, zgeqrf, zungqr)

// gesdd takes a real work array for complex scalars only.
#define TACIT_LAPACK_SVD(T, name, REAL_PARAMETER, REAL_ARGUMENT)                                                     \
  extern "C" void TACIT_LAPACK(name)(const char* job, const int* m, const int* n, T* a, const int* lda,              \
                                     tacit::real_t<T>* s, T* u, const int* ldu, T* vt, const int* ldvt, T* work,     \
                                     const int* lwork REAL_PARAMETER, int* iwork, int* info, std::size_t);           \
  namespace {                                                                                                        \
  void decompose(int m, int n, T* a, tacit::real_t<T>* s, T* u, T* vt, int k, T* work, int lwork,                    \
                 [[maybe_unused]] tacit::real_t<T>* rwork, int* iwork, int* info) {                                  \
    TACIT_LAPACK(name)("S", &m, &n, a, &m, s, u, &m, vt, &k, work, &lwork REAL_ARGUMENT, iwork, info, 1);            \
  }                                                                                                                  \
  }
#define TACIT_COMMA ,
TACIT_LAPACK_SVD(float, sgesdd, , )
TACIT_LAPACK_SVD(double, dgesdd, , )
TACIT_LAPACK_SVD(std::complex<float>, cgesdd, TACIT_COMMA float* rwork, TACIT_COMMA rwork)
TACIT_LAPACK_SVD(std::complex<double>, zgesdd, TACIT_COMMA double* rwork, TACIT_COMMA rwork)

namespace tacit::lapack {

std::vector<std::complex<double>> hessenberg_eigenvalues(std::span<std::complex<double>> h, int n) {
  require(n >= 0 && h.size() >= std::size_t(n) * n, "eigenvalues of ", n, " x ", n, " in ", h.size(), " numbers");
  if (n == 0 || !std::all_of(h.begin(), h.end(), [](auto z) { return is_finite(z); })) return {};
  std::vector<std::complex<double>> values(n), work(11 * std::size_t(n));
  const int first = 1, length = int(work.size());
  int info = 0;
  TACIT_LAPACK(zhseqr)("E", "N", &n, &first, &n, h.data(), &n, values.data(), nullptr, &first, work.data(), &length, &info, 1, 1);
  if (info != 0) values.clear();
  return values;
}

template <Scalar T>
void qr(T* a, int m, int n, T* r) {
  require(m >= n && n >= 0, "the reduced QR factorisation of an ", m, " x ", n, " matrix");
  if (n == 0) return;
  // 32 columns a block is what LAPACK chooses; kept by the thread, for thousands of small factorisations.
  static thread_local std::vector<T> work;
  const std::size_t needed = std::size_t(n) * 33;
  if (work.size() < needed) work.resize(needed);
  T *const tau = work.data(), *const rest = tau + n;
  int info = 0;
  factorise(m, n, a, tau, rest, n * 32, &info);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) r[i + std::size_t(j) * n] = i <= j ? a[i + std::size_t(j) * m] : T(0);
  make_q(m, n, a, tau, rest, n * 32, &info);
}

template <Scalar T>
bool svd(T* a, int m, int n, T* u, real_t<T>* s, T* vh) {
  const int k = std::min(m, n), l = std::max(m, n);
  if (k == 0) return true;
  if (!std::all_of(a, a + std::size_t(m) * n, [](const T& v) { return is_finite(v); })) return false;
  // What LAPACK's documentation asks for with job S, the larger of the real and the complex forms.
  const std::size_t length = 4 * std::size_t(k) * k + 7 * std::size_t(k) + std::size_t(l) + 64 * std::size_t(l),
                    reals = std::size_t(k) * std::max(5 * k + 7, 2 * l + 2 * k + 1);
  std::vector<T> work(length);
  std::vector<real_t<T>> real_work(is_complex<T> ? reals : 0);
  std::vector<int> integers(8 * std::size_t(k));
  int info = 0;
  decompose(m, n, a, s, u, vh, k, work.data(), int(length), real_work.data(), integers.data(), &info);
  return info == 0;
}

#define TACIT_INSTANTIATE(T)                \
  template void qr(T*, int, int, T*);       \
  template bool svd(T*, int, int, T*, real_t<T>*, T*);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::lapack
