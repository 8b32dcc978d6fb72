#include <tacit/base/lapack.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/free_memory.hpp>
#include <tacit/base/types.hpp>
#include "base/forks.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>

#if defined(__linux__)
#include <link.h>
#include <sys/mman.h>
#endif

// Weak symbols, defined where the BLAS is OpenBLAS, under the system's and PyPI's names.
extern "C" {
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) int openblas_get_num_threads(void);
__attribute__((weak)) void scipy_openblas_set_num_threads(int);
__attribute__((weak)) int scipy_openblas_get_num_threads(void);
__attribute__((weak)) char* openblas_get_corename(void);
__attribute__((weak)) char* scipy_openblas_get_corename(void);
__attribute__((weak)) void gotoblas_dynamic_init(void);
__attribute__((weak)) void gotoblas_dynamic_quit(void);
}

namespace tacit::lapack {
namespace {

/// A call of BLAS or LAPACK. OpenBLAS takes a buffer for each concurrent caller, keeps it, and where the system has no
/// room for one it tries again for ever. So where there are more callers than ever before, Error(memory) where there is
/// no room.
class Call {
 public:
  Call() {
    const int now = ++callers;
    if (now <= buffers.load(std::memory_order_relaxed)) return;
    try {
      const std::lock_guard lock(mutex);
      if (now <= buffers) return;
      if (openblas_get_corename || scipy_openblas_get_corename) require_room();
      buffers = now;
    } catch (...) {
      --callers;
      throw;
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { --callers; }

 private:
  static void require_room() {
#ifdef __linux__
    constexpr std::size_t bytes = std::size_t(128) << 20;  // the largest buffer on x86-64
    void* const room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) throw_out_of_memory(bytes);
    munmap(room, bytes);
#endif
  }
  inline static std::atomic<int> callers{0}, buffers{0};

 public:
  inline static std::mutex mutex;  // while `buffers` grows
};
[[maybe_unused]] const int call_held_over_forks = hold_over_forks<+[]() -> std::mutex& { return Call::mutex; }>();

}  // namespace
}  // namespace tacit::lapack

// PyPI's OpenBLAS has a prefix before every name. Two macros, because ## does not expand its operands.
#ifdef TACIT_LAPACK_PREFIX
#define TACIT_JOIN(prefix, name) prefix##name##_
#define TACIT_WITH_PREFIX(prefix, name) TACIT_JOIN(prefix, name)
#define TACIT_LAPACK(name) TACIT_WITH_PREFIX(TACIT_LAPACK_PREFIX, name)
#else
#define TACIT_LAPACK(name) name##_
#endif

#define TACIT_DECLARE(T, geqrf, orgqr)                                                                              \
  extern "C" void TACIT_LAPACK(geqrf)(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,            \
                                      const int* lwork, int* info);                                                 \
  extern "C" void TACIT_LAPACK(orgqr)(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau, \
                                      T* work, const int* lwork, int* info);
TACIT_DECLARE(float, sgeqrf, sorgqr)
TACIT_DECLARE(double, dgeqrf, dorgqr)
TACIT_DECLARE(std::complex<float>, cgeqrf, cungqr)
TACIT_DECLARE(std::complex<double>, zgeqrf, zungqr)

// gesdd takes a real work array for complex scalars only.
#define TACIT_LAPACK_SVD(T, name, REAL_PARAMETER, REAL_ARGUMENT)                                                 \
  extern "C" void TACIT_LAPACK(name)(const char* job, const int* m, const int* n, T* a, const int* lda,          \
                                     tacit::real_t<T>* s, T* u, const int* ldu, T* vt, const int* ldvt, T* work, \
                                     const int* lwork REAL_PARAMETER, int* iwork, int* info, std::size_t);       \
  namespace {                                                                                                    \
  void decompose(int m, int n, T* a, tacit::real_t<T>* s, T* u, T* vt, int k, T* work, int lwork,                \
                 [[maybe_unused]] tacit::real_t<T>* rwork, int* iwork, int* info) {                              \
    TACIT_LAPACK(name)("S", &m, &n, a, &m, s, u, &m, vt, &k, work, &lwork REAL_ARGUMENT, iwork, info, 1);        \
  }                                                                                                              \
  }
#define TACIT_COMMA ,
TACIT_LAPACK_SVD(float, sgesdd, , )
TACIT_LAPACK_SVD(double, dgesdd, , )
TACIT_LAPACK_SVD(std::complex<float>, cgesdd, TACIT_COMMA float* rwork, TACIT_COMMA rwork)
TACIT_LAPACK_SVD(std::complex<double>, zgesdd, TACIT_COMMA double* rwork, TACIT_COMMA rwork)

#define TACIT_BLAS(T, gemm_name, trsm_name, getrf_name, potrf_name)                                                    \
  extern "C" void TACIT_LAPACK(gemm_name)(const char*, const char*, const int*, const int*, const int*, const T*,      \
                                          const T*, const int*, const T*, const int*, const T*, T*, const int*,        \
                                          std::size_t, std::size_t);                                                   \
  extern "C" void TACIT_LAPACK(trsm_name)(const char*, const char*, const char*, const char*, const int*, const int*,  \
                                          const T*, const T*, const int*, T*, const int*, std::size_t, std::size_t,    \
                                          std::size_t, std::size_t);                                                   \
  extern "C" void TACIT_LAPACK(getrf_name)(const int*, const int*, T*, const int*, int*, int*);                        \
  extern "C" void TACIT_LAPACK(potrf_name)(const char*, const int*, T*, const int*, int*, std::size_t);                \
  namespace {                                                                                                          \
  void call_gemm(char op_a, char op_b, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, \
                 T* c, int ldc) {                                                                                      \
    if (m == 0 || n == 0) return;                                                                                      \
    const tacit::lapack::Call counted;                                                                                 \
    TACIT_LAPACK(gemm_name)(&op_a, &op_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);                 \
  }                                                                                                                    \
  void call_trsm(char side, char triangle, char op, char diagonal, int m, int n, const T* a, int lda, T* b, int ldb) { \
    const T one(1);                                                                                                    \
    if (m == 0 || n == 0) return;                                                                                      \
    const tacit::lapack::Call counted;                                                                                 \
    TACIT_LAPACK(trsm_name)(&side, &triangle, &op, &diagonal, &m, &n, &one, a, &lda, b, &ldb, 1, 1, 1, 1);             \
  }                                                                                                                    \
  bool call_lu(T* a, int n, int lda, int* pivots) {                                                                    \
    int info = 0;                                                                                                      \
    if (n == 0) return true;                                                                                           \
    const tacit::lapack::Call counted;                                                                                 \
    TACIT_LAPACK(getrf_name)(&n, &n, a, &lda, pivots, &info);                                                          \
    for (int i = 0; i < n; ++i) --pivots[i];                                                                           \
    return info == 0;                                                                                                  \
  }                                                                                                                    \
  bool call_cholesky(T* a, int n, int lda) {                                                                           \
    int info = 0;                                                                                                      \
    if (n == 0) return true;                                                                                           \
    const tacit::lapack::Call counted;                                                                                 \
    TACIT_LAPACK(potrf_name)("L", &n, a, &lda, &info, 1);                                                              \
    return info == 0;                                                                                                  \
  }                                                                                                                    \
  }
TACIT_BLAS(float, sgemm, strsm, sgetrf, spotrf)
TACIT_BLAS(double, dgemm, dtrsm, dgetrf, dpotrf)
TACIT_BLAS(std::complex<float>, cgemm, ctrsm, cgetrf, cpotrf)
TACIT_BLAS(std::complex<double>, zgemm, ztrsm, zgetrf, zpotrf)

namespace tacit::lapack {

std::string kernels() {
  if (openblas_get_corename) return openblas_get_corename();
  return scipy_openblas_get_corename ? scipy_openblas_get_corename() : "";
}

namespace {
#if defined(__x86_64__) && defined(__linux__)
// The index of the shared object that holds an address, in the order of loading.
int object_of(const void* address) {
  struct Search {
    std::uintptr_t address;
    int at, found;
  } search{reinterpret_cast<std::uintptr_t>(address), 0, -1};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& part = object->dlpi_phdr[i];
          const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD && s.address >= begin && s.address < begin + part.p_memsz) s.found = s.at;
        }
        ++s.at;
        return s.found >= 0 ? 1 : 0;
      },
      &search);
  return search.found;
}
#endif

// Runs before main(), or while this module is loaded. Where the BLAS was loaded earlier, other code may be using it.
const char one_here = 0;  // an address in this module
[[maybe_unused]] const bool kernels_of_this_processor = [] {
#if defined(__x86_64__) && defined(__linux__)
  if (!openblas_get_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit) return false;
  constexpr const char* variable = "OPENBLAS_CORETYPE";
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (kernels() != "Prescott" || !fused || std::getenv(variable)) return false;
  if (object_of(reinterpret_cast<const void*>(&openblas_get_corename)) < object_of(&one_here)) return false;
  setenv(variable, wide ? "SkylakeX" : "Haswell", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(variable);
  return true;
#else
  return false;
#endif
}();
}  // namespace

template <Scalar T>
void gemm(char op_a, char op_b, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
          int ldc) {
  call_gemm(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
template <Scalar T>
void trsm(char side, char triangle, char op, char diagonal, int m, int n, const T* a, int lda, T* b, int ldb) {
  call_trsm(side, triangle, op, diagonal, m, n, a, lda, b, ldb);
}
template <Scalar T>
bool lu(T* a, int n, int lda, int* pivots) {
  return call_lu(a, n, lda, pivots);
}
template <Scalar T>
bool cholesky(T* a, int n, int lda) {
  return call_cholesky(a, n, lda);
}

namespace {
std::mutex one_thread_mutex;
[[maybe_unused]] const int held_over_forks = hold_over_forks<+[]() -> std::mutex& { return one_thread_mutex; }>();
int one_thread_users = 0, one_thread_before = 0;  // concurrent users; the number of threads before the first of them

int blas_threads() {
  if (openblas_get_num_threads) return openblas_get_num_threads();
  return scipy_openblas_get_num_threads ? scipy_openblas_get_num_threads() : 1;
}
void set_blas_threads(int n) {
  if (openblas_set_num_threads) openblas_set_num_threads(n);
  else if (scipy_openblas_set_num_threads) scipy_openblas_set_num_threads(n);
}
}  // namespace

OneThread::OneThread() {
  const std::lock_guard lock(one_thread_mutex);
  if (one_thread_users++ > 0) return;
  one_thread_before = blas_threads();
  if (one_thread_before > 1) set_blas_threads(1);
}
OneThread::~OneThread() {
  const std::lock_guard lock(one_thread_mutex);
  if (--one_thread_users == 0 && one_thread_before > 1) set_blas_threads(one_thread_before);
}

template <Scalar T>
void householder_qr(std::span<T> a, int rows, int columns, std::vector<T>& R) {
  require(rows >= columns && columns >= 0 && a.size() >= std::size_t(rows) * columns, "a QR factorisation of ", rows,
          " x ", columns, " in ", a.size(), " numbers");
  R.assign(std::size_t(columns) * columns, T(0));
  if (columns == 0) return;
  std::vector<T> tau(columns), work(1);
  int info = 0, length = -1;
  const Call counted;
  const auto factor = [&] {
    if constexpr (std::same_as<T, float>)
      TACIT_LAPACK(sgeqrf)(&rows, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
    else if constexpr (std::same_as<T, double>)
      TACIT_LAPACK(dgeqrf)(&rows, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
    else if constexpr (std::same_as<T, std::complex<float>>)
      TACIT_LAPACK(cgeqrf)(&rows, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
    else TACIT_LAPACK(zgeqrf)(&rows, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
  };
  const auto form = [&] {
    if constexpr (std::same_as<T, float>)
      TACIT_LAPACK(sorgqr)(&rows, &columns, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
    else if constexpr (std::same_as<T, double>)
      TACIT_LAPACK(dorgqr)(&rows, &columns, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
    else if constexpr (std::same_as<T, std::complex<float>>)
      TACIT_LAPACK(cungqr)(&rows, &columns, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
    else TACIT_LAPACK(zungqr)(&rows, &columns, &columns, a.data(), &rows, tau.data(), work.data(), &length, &info);
  };
  const auto with_room = [&](auto&& call) {
    length = -1;
    call();
    length = std::max(int(real(work[0])), 64 * columns);
    work.resize(std::size_t(length));
    call();
  };
  with_room(factor);
  for (int c = 0; c < columns; ++c)
    for (int i = 0; i <= c; ++i) R[std::size_t(c) * columns + i] = a[std::size_t(c) * rows + i];
  with_room(form);
}

bool works() {
  constexpr double small = 1e-12;
  // |R| of the columns (3, 4) and (0, 5) is [5, 4; 0, 3].
  const std::vector<double> a{3, 4, 0, 5};
  std::vector<double> q = a, r;
  householder_qr<double>(q, 2, 2, r);
  double worst = std::abs(std::abs(r[0]) - 5) + std::abs(std::abs(r[2]) - 4) + std::abs(std::abs(r[3]) - 3);
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 2; ++i) worst += std::abs(q[i] * r[2 * c] + q[2 + i] * r[2 * c + 1] - a[2 * c + i]);
  return worst < small;
}

template <Scalar T>
bool svd(T* a, int m, int n, T* u, real_t<T>* s, T* vh) {
  const int k = std::min(m, n), l = std::max(m, n);
  if (k == 0) return true;
  if (!std::all_of(a, a + std::size_t(m) * n, [](const T& v) { return is_finite(v); })) return false;
  // The work size of LAPACK's documentation for job S, the maximum of the real and the complex forms.
  const std::size_t length = 4 * std::size_t(k) * k + 7 * std::size_t(k) + std::size_t(l) + 64 * std::size_t(l),
                    reals = std::size_t(k) * std::max(5 * k + 7, 2 * l + 2 * k + 1);
  std::vector<T> work(length);
  std::vector<real_t<T>> real_work(is_complex<T> ? reals : 0);
  std::vector<int> integers(8 * std::size_t(k));
  int info = 0;
  const Call counted;
  decompose(m, n, a, s, u, vh, k, work.data(), int(length), real_work.data(), integers.data(), &info);
  return info == 0;
}

#define TACIT_INSTANTIATE(T)                                                                  \
  template void gemm(char, char, int, int, int, T, const T*, int, const T*, int, T, T*, int); \
  template void trsm(char, char, char, char, int, int, const T*, int, T*, int);               \
  template bool lu(T*, int, int, int*);                                                       \
  template bool cholesky(T*, int, int);                                                       \
  template void householder_qr(std::span<T>, int, int, std::vector<T>&);                      \
  template bool svd(T*, int, int, T*, real_t<T>*, T*);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::lapack
