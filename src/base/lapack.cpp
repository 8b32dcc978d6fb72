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

}  // namespace tacit::lapack
