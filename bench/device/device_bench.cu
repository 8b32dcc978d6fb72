// Times of every device kernel, compared with a library's and with the roofline: device_bench OUT.json [--commit TEXT]
// [--quick].
//
// Roofline: the bytes that the kernel must move (inputs once, outputs once) over the bandwidth of a device-to-device
// copy measured in this run. Times are medians of CUDA events after a warm-up; inputs are larger than the L2 cache.
// Outputs are filled with NaN before, then compared with the host's: largest error relative to the largest value. Exit
// code 77: no GPU.
#include "hmatrix_problem.hpp"
#include "problems.hpp"
#include "timing.hpp"

#include <tacit/exec/basis.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/device_kernels.hpp>
#include <tacit/exec/sweep.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#ifdef TACIT_BENCH_RIVALS
#include <cublas_v2.h>
#include <cusparse.h>
#endif

namespace tacit::device {
namespace {

using exec::check_cuda;
using exec::reads;
using exec::sweep;
using exec::updates;
using exec::writes;

double copy_bandwidth = 0;  // bytes read and written per second

struct Result {
  std::string kernel, scalar, problem, rival;
  double seconds = 0, bytes = 0, error = 0;
  std::optional<double> rival_seconds{};
};
std::vector<Result> results;

void add(Result r) {
  std::printf("%-22s %-10s %-34s %9.1f us %7.0f GB/s %5.2f of copy", r.kernel.c_str(), r.scalar.c_str(),
              r.problem.c_str(), 1e6 * r.seconds, 1e-9 * r.bytes / r.seconds, r.bytes / r.seconds / copy_bandwidth);
  if (r.rival_seconds)
    std::printf("  %s %9.1f us, ratio %.2f", r.rival.c_str(), 1e6 * *r.rival_seconds, *r.rival_seconds / r.seconds);
  std::printf("  error %.1e\n", r.error);
  std::fflush(stdout);
  results.push_back(std::move(r));
}

template <class T>
double error_of(const std::vector<T>& got, const std::vector<T>& expected) {
  double size = 0, worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = double(std::abs(got[i] - expected[i]));
    if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
    size = std::max(size, double(std::abs(expected[i])));
  }
  return worst / std::max(size, 1e-300);
}

#ifdef TACIT_BENCH_RIVALS
void check_blas(cublasStatus_t code, const char* call) {
  if (code != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorKind::environment, message(call, ": ", cublasGetStatusString(code)));
}
void check_sparse(cusparseStatus_t code, const char* call) {
  if (code != CUSPARSE_STATUS_SUCCESS)
    throw Error(ErrorKind::environment, message(call, ": ", cusparseGetErrorString(code)));
}
cublasHandle_t blas() {
  static cublasHandle_t handle = [] {
    cublasHandle_t h;
    check_blas(cublasCreate(&h), "cublasCreate");
    return h;
  }();
  return handle;
}
cusparseHandle_t sparse() {
  static cusparseHandle_t handle = [] {
    cusparseHandle_t h;
    check_sparse(cusparseCreate(&h), "cusparseCreate");
    return h;
  }();
  return handle;
}
template <class T>
constexpr cudaDataType cuda_type = std::same_as<T, float>                 ? CUDA_R_32F
                                   : std::same_as<T, double>              ? CUDA_R_64F
                                   : std::same_as<T, std::complex<float>> ? CUDA_C_32F
                                                                          : CUDA_C_64F;
template <class T>
void blas_axpy(std::size_t n, T a, const T* x, T* y) {
  check_blas(cublasAxpyEx_64(blas(), n, &a, cuda_type<T>, x, cuda_type<T>, 1, y, cuda_type<T>, 1, cuda_type<T>),
             "cublasAxpyEx");
}
template <class T>
void blas_scale(std::size_t n, T a, T* x) {
  check_blas(cublasScalEx_64(blas(), n, &a, cuda_type<T>, x, cuda_type<T>, 1, cuda_type<T>), "cublasScalEx");
}
template <class T>
T blas_dot(std::size_t n, const T* x, const T* y) {
  T result{};
  check_blas(cublasDotcEx_64(blas(), n, x, cuda_type<T>, 1, y, cuda_type<T>, 1, &result, cuda_type<T>, cuda_type<T>),
             "cublasDotcEx");
  return result;
}
/// transposed: h = Q^H v, otherwise v += Q h; Q is n x columns.
template <class T>
void blas_gemv(bool transposed, std::size_t n, int columns, const T* q, std::size_t stride, const T* x, T* y) {
  const T one(1), zero(0), &beta = transposed ? zero : one;
  const auto operation = !transposed ? CUBLAS_OP_N : is_complex<T> ? CUBLAS_OP_C : CUBLAS_OP_T;
  cublasStatus_t code;
  if constexpr (std::same_as<T, float>)
    code = cublasSgemv_64(blas(), operation, n, columns, &one, q, stride, x, 1, &beta, y, 1);
  else if constexpr (std::same_as<T, double>)
    code = cublasDgemv_64(blas(), operation, n, columns, &one, q, stride, x, 1, &beta, y, 1);
  else if constexpr (std::same_as<T, std::complex<float>>)
    code = cublasCgemv_64(blas(), operation, n, columns, (const cuComplex*)&one, (const cuComplex*)q, stride,
                          (const cuComplex*)x, 1, (const cuComplex*)&beta, (cuComplex*)y, 1);
  else
    code = cublasZgemv_64(blas(), operation, n, columns, (const cuDoubleComplex*)&one, (const cuDoubleComplex*)q,
                          stride, (const cuDoubleComplex*)x, 1, (const cuDoubleComplex*)&beta, (cuDoubleComplex*)y, 1);
  check_blas(code, "cublas gemv");
}

/// C = alpha op(A) B + beta C, stored by columns.
template <class T>
void blas_gemm(bool transposed, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
               int ldc) {
  const auto operation = !transposed ? CUBLAS_OP_N : is_complex<T> ? CUBLAS_OP_C : CUBLAS_OP_T;
  cublasStatus_t code;
  if constexpr (std::same_as<T, float>)
    code = cublasSgemm(blas(), operation, CUBLAS_OP_N, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
  else if constexpr (std::same_as<T, double>)
    code = cublasDgemm(blas(), operation, CUBLAS_OP_N, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
  else if constexpr (std::same_as<T, std::complex<float>>)
    code = cublasCgemm(blas(), operation, CUBLAS_OP_N, m, n, k, (const cuComplex*)&alpha, (const cuComplex*)a, lda,
                       (const cuComplex*)b, ldb, (const cuComplex*)&beta, (cuComplex*)c, ldc);
  else
    code =
        cublasZgemm(blas(), operation, CUBLAS_OP_N, m, n, k, (const cuDoubleComplex*)&alpha, (const cuDoubleComplex*)a,
                    lda, (const cuDoubleComplex*)b, ldb, (const cuDoubleComplex*)&beta, (cuDoubleComplex*)c, ldc);
  check_blas(code, "cublas gemm");
}

/// Seconds of cuSPARSE's product with A: SpMV for one column, SpMM (row-major) for more. Fills y once before.
template <class T>
double sparse_seconds(cusparseSpMatDescr_t a, Local rows, Local columns, const T* x, T* y, int k, bool sell) {
  const T one(1), zero(0);
  void* buffer = nullptr;
  std::size_t bytes = 0;
  std::function<void()> call;
  std::function<void()> clean;
  if (k == 1) {
    cusparseDnVecDescr_t vx, vy;
    check_sparse(cusparseCreateDnVec(&vx, columns, const_cast<T*>(x), cuda_type<T>), "cusparseCreateDnVec");
    check_sparse(cusparseCreateDnVec(&vy, rows, y, cuda_type<T>), "cusparseCreateDnVec");
    const auto algorithm = sell ? CUSPARSE_SPMV_SELL_ALG1 : CUSPARSE_SPMV_CSR_ALG1;
    check_sparse(cusparseSpMV_bufferSize(sparse(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vx, &zero, vy,
                                         cuda_type<T>, algorithm, &bytes),
                 "cusparseSpMV_bufferSize");
    buffer = exec::device_allocate(std::max<std::size_t>(bytes, 16));
    if (!sell)
      check_sparse(cusparseSpMV_preprocess(sparse(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vx, &zero, vy,
                                           cuda_type<T>, algorithm, buffer),
                   "cusparseSpMV_preprocess");
    call = [=] {
      check_sparse(cusparseSpMV(sparse(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vx, &zero, vy, cuda_type<T>,
                                algorithm, buffer),
                   "cusparseSpMV");
    };
    clean = [=] { cusparseDestroyDnVec(vx), cusparseDestroyDnVec(vy); };
  } else {
    cusparseDnMatDescr_t mx, my;
    check_sparse(cusparseCreateDnMat(&mx, columns, k, k, const_cast<T*>(x), cuda_type<T>, CUSPARSE_ORDER_ROW),
                 "cusparseCreateDnMat");
    check_sparse(cusparseCreateDnMat(&my, rows, k, k, y, cuda_type<T>, CUSPARSE_ORDER_ROW), "cusparseCreateDnMat");
    const auto n = CUSPARSE_OPERATION_NON_TRANSPOSE;
    const auto algorithm = CUSPARSE_SPMM_CSR_ALG2;
    check_sparse(cusparseSpMM_bufferSize(sparse(), n, n, &one, a, mx, &zero, my, cuda_type<T>, algorithm, &bytes),
                 "cusparseSpMM_bufferSize");
    buffer = exec::device_allocate(std::max<std::size_t>(bytes, 16));
    check_sparse(cusparseSpMM_preprocess(sparse(), n, n, &one, a, mx, &zero, my, cuda_type<T>, algorithm, buffer),
                 "cusparseSpMM_preprocess");
    call = [=] {
      check_sparse(cusparseSpMM(sparse(), n, n, &one, a, mx, &zero, my, cuda_type<T>, algorithm, buffer),
                   "cusparseSpMM");
    };
    clean = [=] { cusparseDestroyDnMat(mx), cusparseDestroyDnMat(my); };
  }
  const double seconds = time_of(call);
  clean();
  exec::device_free(buffer);
  return seconds;
}
#endif

void measure_copy() {
  const std::size_t n = std::size_t(dry || quick ? 1 : 4) << (dry ? 20 : 28);
  exec::Array<float, Device> from(n), to(n);
  exec::clear_on_device(to.data(), n * sizeof(float));
  const auto some = numbers<float>(1 << 20, 1);
  for (std::size_t i = 0; i < n; i += some.size())
    exec::copy_to_device(from.data() + i, some.data(), some.size() * sizeof(float));
  copy_bandwidth =
      2. * n * sizeof(float) / time_of([&] { exec::copy_on_device(to.data(), from.data(), n * sizeof(float)); });
  std::printf("device-to-device copy: %.0f GB/s read and written\n", 1e-9 * copy_bandwidth);
}

template <class T>
void sweeps() {
  const std::size_t n = ((std::size_t(dry || quick ? 64 : 512) << (dry ? 10 : 20)) + 4096) / sizeof(T);
  const std::string problem = message("n=", n), scalar = scalar_name<T>();
  const auto hx = numbers<T>(n, 1), hy = numbers<T>(n, 2);
  auto x = on_device(hx), y = on_device(hy);
  [[maybe_unused]] T* const py = y.data();  // of the rivals
  const T a = number<T>(3, 3);
  const auto spoil = [&] { y = on_device(std::vector<T>(n, poison<T>())); };

  spoil();
  sweep(reads(x), updates(), writes(y), Copy<T>{});
  Result copy{"sweep copy", scalar, problem, "cudaMemcpyAsync"};
  copy.error = to_host(y) == hx ? 0 : std::numeric_limits<double>::infinity();
  copy.seconds = time_of([&] { sweep(reads(x), updates(), writes(y), Copy<T>{}); });
  copy.rival_seconds = time_of([&] { exec::copy_on_device(y.data(), x.data(), n * sizeof(T)); });
  copy.bytes = 2. * n * sizeof(T);
  add(copy);

  y = on_device(hy);
  sweep(reads(x), updates(y), writes(), Axpy<T>{a});
  Result axpy{"sweep axpy", scalar, problem, "cublasAxpyEx"};
  auto expected = hy;
#pragma omp parallel for
  for (std::size_t i = 0; i < n; ++i) expected[i] += a * hx[i];
  axpy.error = error_of(to_host(y), expected);
  axpy.seconds = time_of([&] { sweep(reads(x), updates(y), writes(), Axpy<T>{a}); });
  axpy.bytes = 3. * n * sizeof(T);
#ifdef TACIT_BENCH_RIVALS
  axpy.rival_seconds = time_of([&] { blas_axpy(n, a, x.data(), y.data()); });
#endif
  add(axpy);

  y = on_device(hy);
  Result dot{"sweep dot, to host", scalar, problem, "cublasDotcEx"};
  const T got = sweep(reads(x, y), updates(), writes(), Dot<T>{}).wait()[0];
  std::complex<double> sum = 0;
  double size = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::complex<double> p = std::conj(std::complex<double>(hx[i])) * std::complex<double>(hy[i]);
    sum += p, size += std::abs(p);
  }
  dot.error = std::abs(std::complex<double>(got) - sum) / size;
  dot.seconds = time_of([&] { sweep(reads(x, y), updates(), writes(), Dot<T>{}).wait(); });
  dot.bytes = 2. * n * sizeof(T);
#ifdef TACIT_BENCH_RIVALS
  dot.rival_seconds = time_of([&] { blas_dot(n, x.data(), py); });
#endif
  add(dot);

  // A short vector: the cost of a sum alone, by the host's clock.
  const auto wall = [](const std::function<void()>& call) {
    for (int i = 0; i < 20; ++i) call();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 300; ++i) call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 300;
  };
  Result latency{"sweep dot, latency", scalar, "n=1000, host clock", "cublasDotcEx"};
  auto sx = x.view().part(0, 1000), sy = y.view().part(0, 1000);
  latency.seconds = wall([&] { sweep(reads(sx, sy), updates(), writes(), Dot<T>{}).wait(); });
  latency.bytes = 2000. * sizeof(T);
#ifdef TACIT_BENCH_RIVALS
  latency.rival_seconds = wall([&] { blas_dot(1000, x.data(), py); });
#endif
  add(latency);
}

/// The first half of a pipelined BiCGStab iteration with 14 vectors; for comparison the same in BLAS calls.
template <class T>
void forward() {
  const std::size_t n = (std::size_t(dry || quick ? 16 : 128) << (dry ? 6 : 20)) / sizeof(T);
  std::vector<std::vector<T>> h;
  std::vector<exec::Array<T, Device>> v;
  for (int k = 0; k < 14; ++k) {
    h.push_back(k < 11 ? numbers<T>(n, k) : std::vector<T>(n, poison<T>()));
    v.push_back(on_device(h[k]));
  }
  const Forward<T> f{T(0.3), T(-0.7), T(0.9)};
  const auto run = [&](auto&& at) {
    return exec::numbers(sweep(reads(at(0), at(1), at(2), at(3), at(4), at(5), at(6)),
                               updates(at(7), at(8), at(9), at(10)), writes(at(11), at(12), at(13)), f));
  };
  Result r{"sweep p-BiCGStab half", scalar_name<T>(), message("14 vectors, n=", n), "20 cuBLAS calls"};
  const auto got = run([&](int k) { return v[k].view(); });
  const auto expected = run([&](int k) { return exec::View<T, Host>(h[k].data(), n); });
  for (int k = 7; k < 14; ++k) r.error = std::max(r.error, error_of(to_host(v[k]), h[k]));
  for (int k = 0; k < 2; ++k) r.error = std::max(r.error, double(std::abs(got[k] - expected[k])) / double(n));
  r.bytes = (7. + 2 * 4 + 3) * n * sizeof(T);
  r.seconds = time_of([&] { run([&](int k) { return v[k].view(); }); });
#ifdef TACIT_BENCH_RIVALS
  const auto p = [&](int k) { return v[k].data(); };
  enum { R, RH, W, WH, TT, V, ZH, PH, S, SH, Z, Q, QH, Y };
  const auto renew = [&](int to, int minus, int plus) {  // to = plus + beta (to - omega minus)
    blas_axpy<T>(n, -f.omega, p(minus), p(to));
    blas_scale<T>(n, f.beta, p(to));
    blas_axpy<T>(n, T(1), p(plus), p(to));
  };
  const auto less = [&](int to, int from, int minus) {  // to = from - alpha minus
    exec::copy_on_device(p(to), p(from), n * sizeof(T));
    blas_axpy<T>(n, -f.alpha, p(minus), p(to));
  };
  r.rival_seconds = time_of([&] {
    renew(PH, SH, RH), renew(S, Z, W), renew(SH, ZH, WH), renew(Z, V, TT);
    less(Q, R, S), less(QH, RH, SH), less(Y, W, Z);
    blas_dot<T>(n, p(Q), p(Y)), blas_dot<T>(n, p(Y), p(Y));
  });
#endif
  add(r);
}

template <class T>
void gram_schmidt(int columns) {
  const std::size_t n = (std::size_t(dry || quick ? 4 : 32) << (dry ? 6 : 20)) / sizeof(T) * 4;
  const auto hq = numbers<T>(n * columns, 1), hv = numbers<T>(n, 2);
  const auto q = on_device(hq);
  auto v = on_device(hv);
  const std::string problem = message("n=", n, ", ", columns, " columns");
  std::vector<T> h(columns, poison<T>()), expected(columns);
  std::vector<const T*> p;
  for (int c = 0; c < columns; ++c) p.push_back(q.data() + c * n);
  exec::basis_dots<T, Device>(p.data(), columns, v.data(), n, h.data(), false);
#pragma omp parallel for
  for (int c = 0; c < columns; ++c) {
    std::complex<double> sum = 0;
    for (std::size_t i = 0; i < n; ++i)
      sum += std::conj(std::complex<double>(hq[c * n + i])) * std::complex<double>(hv[i]);
    if constexpr (is_complex<T>) expected[c] = T(sum);
    else expected[c] = T(sum.real());
  }
  Result dots{"basis dots, to host", scalar_name<T>(), problem, "cublas gemv, on device"};
  dots.error = error_of(h, expected);
  dots.bytes = (columns + 1.) * n * sizeof(T);
  dots.seconds = time_of([&] { exec::basis_dots<T, Device>(p.data(), columns, v.data(), n, h.data(), false); });
  exec::Array<T, Device> dh(columns);
#ifdef TACIT_BENCH_RIVALS
  dots.rival_seconds = time_of([&] { blas_gemv<T>(true, n, columns, q.data(), n, v.data(), dh.data()); });
#endif
  add(dots);

  auto factors = numbers<T>(columns, 3);
  dh = on_device(factors);
  v = on_device(hv);
  exec::basis_subtract<T, Device>(p.data(), columns, factors.data(), T(1), v.data(), n, false);
  auto sum = hv;
#pragma omp parallel for
  for (std::size_t i = 0; i < n; ++i)
    for (int c = 0; c < columns; ++c) sum[i] -= factors[c] * hq[c * n + i];
  Result update{"basis subtract", scalar_name<T>(), problem, "cublas gemv"};
  update.error = error_of(to_host(v), sum);
  update.bytes = (columns + 2.) * n * sizeof(T);
  for (T& a : factors) a *= real_t<T>(1e-3);
  update.seconds =
      time_of([&] { exec::basis_subtract<T, Device>(p.data(), columns, factors.data(), T(1), v.data(), n, false); });
#ifdef TACIT_BENCH_RIVALS
  update.rival_seconds = time_of([&] { blas_gemv<T>(false, n, columns, q.data(), n, dh.data(), v.data()); });
#endif
  add(update);
}

/// [Q V]^H V and (V - Q C) W with j vectors in Q and s in V.
template <class T>
void block_gram_schmidt(int j, int s) {
  const std::size_t n = (std::size_t(dry || quick ? 1 : 16) << (dry ? 8 : 20)) / sizeof(T) * 4;
  const auto hq = numbers<T>(n * (j + s), 1);
  auto q = on_device(hq);  // basis and block as one matrix for cuBLAS
  const std::string problem = message("n=", n, ", ", j, " + ", s, " columns");
  std::vector<const T*> rows;
  std::vector<T*> columns;
  for (int i = 0; i < j; ++i) rows.push_back(q.data() + i * n);
  for (int c = 0; c < s; ++c) columns.push_back(q.data() + (j + c) * n);
  const int height = j + s;
  std::vector<T> G(std::size_t(height) * s, poison<T>()), expected(G.size());
  exec::block_gram<T, Device, T>(rows.data(), j, columns.data(), s, n, G.data());
#pragma omp parallel for
  for (int at = 0; at < height * s; ++at) {
    const int i = at % height, c = at / height;
    std::complex<double> sum = 0;
    for (std::size_t e = 0; e < n; ++e)
      sum += std::conj(std::complex<double>(hq[i * n + e])) * std::complex<double>(hq[(j + c) * n + e]);
    if constexpr (is_complex<T>) expected[at] = T(sum);
    else expected[at] = T(sum.real());
  }
  Result dots{"block dots, to host", scalar_name<T>(), problem, "cublas gemm, on device"};
  dots.error = error_of(G, expected);
  dots.bytes = double(height) * n * sizeof(T);
  dots.seconds = time_of([&] { exec::block_gram<T, Device, T>(rows.data(), j, columns.data(), s, n, G.data()); });
#ifdef TACIT_BENCH_RIVALS
  exec::Array<T, Device> dG(G.size());
  dots.rival_seconds = time_of([&] {
    blas_gemm<T>(true, height, s, int(n), T(1), q.data(), int(n), q.data() + j * n, int(n), T(0), dG.data(), height);
  });
#endif
  add(dots);

  const auto C = numbers<T>(std::size_t(j) * s, 3);
  std::vector<T> W(std::size_t(s) * s, T(0));
  for (int c = 0; c < s; ++c) W[std::size_t(c) * s + c] = T(1);
  exec::block_update_stored<T, Device, T>(rows.data(), j, C.data(), columns.data(), s, W.data(), nullptr, n);
  std::vector<T> sum(hq.begin() + std::ptrdiff_t(j * n), hq.end()), got(sum.size());
#pragma omp parallel for
  for (std::size_t e = 0; e < n; ++e)
    for (int c = 0; c < s; ++c)
      for (int i = 0; i < j; ++i) sum[c * n + e] -= hq[i * n + e] * C[c * j + i];
  exec::copy_to_host(got.data(), q.data() + j * n, got.size() * sizeof(T));
  Result update{"block update", scalar_name<T>(), problem, "cublas gemm, without W"};
  update.error = error_of(got, sum);
  update.bytes = (j + 2. * s) * n * sizeof(T);
  const std::vector<T> none(C.size(), T(0));
  update.seconds = time_of([&] {
    exec::block_update_stored<T, Device, T>(rows.data(), j, none.data(), columns.data(), s, W.data(), nullptr, n);
  });
#ifdef TACIT_BENCH_RIVALS
  const auto dC = on_device(none);
  update.rival_seconds = time_of([&] {
    blas_gemm<T>(false, int(n), s, j, T(-1), q.data(), int(n), dC.data(), j, T(1), q.data() + j * n, int(n));
  });
#endif
  add(update);
}

template <class T, class A>
void product(const Matrix<T>& a, const A& stored, const std::string& format, const std::string& problem, int k,
             const std::vector<T>& hx, const std::vector<T>& expected) {
  const auto x = on_device(hx);
  exec::Array<T, Device> y = on_device(std::vector<T>(std::size_t(a.rows) * k, poison<T>()));
  const auto view = stored.view();
  const auto call = [&] { op::device_product(view, x.view(), y.view(), k); };
  call();
  Result r{format, scalar_name<T>(), k == 1 ? problem : message(problem, " k=", k), ""};
  r.error = error_of(to_host(y), expected);
  r.seconds = time_of(call);
  r.bytes = stored.bytes() + double(x.size() + y.size()) * sizeof(T);
#ifdef TACIT_BENCH_RIVALS
  if constexpr (std::same_as<std::remove_cvref_t<decltype(stored)>, Csr<T, std::int32_t, Local>>) {
    cusparseSpMatDescr_t m;
    check_sparse(
        cusparseCreateCsr(&m, a.rows, a.columns, a.entries(), const_cast<std::int32_t*>(stored.row_begin.data()),
                          const_cast<Local*>(stored.column.data()), const_cast<T*>(stored.value.data()),
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, cuda_type<T>),
        "cusparseCreateCsr");
    r.rival = k == 1 ? "cusparseSpMV CSR" : "cusparseSpMM CSR";
    r.rival_seconds = sparse_seconds<T>(m, a.rows, a.columns, x.data(), y.data(), k, false);
    check_sparse(cusparseDestroySpMat(m), "cusparseDestroySpMat");
  } else if constexpr (std::same_as<std::remove_cvref_t<decltype(stored)>, Sell<T, Local>>) {
    if (k == 1 && stored.row.size() == 0) {
      cusparseSpMatDescr_t m;
      check_sparse(
          cusparseCreateSlicedEll(&m, a.rows, a.columns, a.entries(), stored.value.size(), stored.C,
                                  const_cast<Global*>(stored.slice_begin.data()),
                                  const_cast<Local*>(stored.column.data()), const_cast<T*>(stored.value.data()),
                                  CUSPARSE_INDEX_64I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, cuda_type<T>),
          "cusparseCreateSlicedEll");
      r.rival = "cusparseSpMV SELL";
      r.rival_seconds = sparse_seconds<T>(m, a.rows, a.columns, x.data(), y.data(), 1, true);
      check_sparse(cusparseDestroySpMat(m), "cusparseDestroySpMat");
    }
  }
#endif
  add(r);
}

template <class T>
void products(const Matrix<T>& a, const std::string& problem, int k, bool all) {
  const auto x = numbers<T>(std::size_t(a.columns) * k, 4);
  std::vector<T> expected(std::size_t(a.rows) * k);
  host_product(a, x.data(), expected.data(), k, false);
  product(a, Csr<T, std::int32_t, Local>(a), "csr", problem, k, x, expected);
  product(a, Sell<T, Local>(a, 1), "sell", problem, k, x, expected);
  if (!all) return;
  product(a, Sell<T, Local>(a, 1024), "sell sorted", problem, k, x, expected);
  if (is_narrow(a)) {
    product(a, Csr<T, std::int64_t, std::int16_t>(a), "csr 16-bit", problem, k, x, expected);
    product(a, Sell<T, std::int16_t>(a, 1), "sell 16-bit", problem, k, x, expected);
  }
}

template <class T>
void halo() {
  const Local n = dry ? 1 << 10 : quick ? 1 << 22 : 1 << 25;
  std::vector<Local> index(n);
  for (Local i = 0; i < n; ++i) index[i] = 2 * i + below(2, 9, i);  // ascending with gaps, as in a halo
  const auto hx = numbers<T>(2 * std::size_t(n), 5);
  const auto x = on_device(hx);
  const auto at = on_device(index);
  auto out = on_device(std::vector<T>(n, poison<T>()));
  exec::device_gather<T>(x.view(), at.view(), out.view());
  std::vector<T> expected(n);
  for (Local i = 0; i < n; ++i) expected[i] = hx[index[i]];
  Result gather{"gather", scalar_name<T>(), message("every other of ", 2 * std::size_t(n)), "cusparseGather"};
  gather.error = error_of(to_host(out), expected);
  gather.bytes = double(n) * (sizeof(Local) + 3 * sizeof(T));  // x is read in whole cache lines
  gather.seconds = time_of([&] { exec::device_gather<T>(x.view(), at.view(), out.view()); });
#ifdef TACIT_BENCH_RIVALS
  cusparseDnVecDescr_t dense;
  cusparseSpVecDescr_t picked;
  check_sparse(cusparseCreateDnVec(&dense, x.size(), const_cast<T*>(x.data()), cuda_type<T>), "cusparseCreateDnVec");
  check_sparse(cusparseCreateSpVec(&picked, x.size(), n, const_cast<Local*>(at.data()), out.data(), CUSPARSE_INDEX_32I,
                                   CUSPARSE_INDEX_BASE_ZERO, cuda_type<T>),
               "cusparseCreateSpVec");
  gather.rival_seconds = time_of([&] { check_sparse(cusparseGather(sparse(), dense, picked), "cusparseGather"); });
  cusparseDestroyDnVec(dense), cusparseDestroySpVec(picked);
#endif
  add(gather);

  auto y = on_device(hx);
  exec::device_scatter_add<T>(out.view(), at.view(), y.view());
  auto sum = hx;
  for (Local i = 0; i < n; ++i) sum[index[i]] += expected[i];
  Result scatter{"scatter-add", scalar_name<T>(), message("every other of ", 2 * std::size_t(n)), ""};
  scatter.error = error_of(to_host(y), sum);
  scatter.bytes = double(n) * (sizeof(Local) + 5 * sizeof(T));
  scatter.seconds = time_of([&] { exec::device_scatter_add<T>(out.view(), at.view(), y.view()); });
  add(scatter);
}

#ifdef TACIT_BENCH_RIVALS
/// The products of a list in batches of equal shapes: y = A x, or y = A^T x. Results of several blocks for the same
/// element are written separately instead of being added, which makes cuBLAS's task easier.
std::function<void()> batches(const std::vector<HProblem::Shape>& shapes, bool transposed, const double* a,
                              const double* x, double* y, std::vector<exec::Array<const double*, Device>>& kept) {
  std::map<std::pair<Local, Local>, std::vector<const HProblem::Shape*>> groups;
  for (const auto& s : shapes) groups[{s.rows, s.columns}].push_back(&s);
  struct Group {
    int rows, columns, count;
    const double *const *a, *const *x;
    double* const* y;
  };
  std::vector<Group> all;
  std::size_t out = 0;
  for (const auto& [shape, of] : groups) {
    std::vector<const double*> pa, px, py;
    for (const auto* s : of) {
      pa.push_back(a + s->data), px.push_back(x + s->from), py.push_back(y + out);
      out += std::size_t(transposed ? shape.second : shape.first);
    }
    const auto put = [&](const std::vector<const double*>& p) {
      kept.push_back(on_device(p));
      return static_cast<const double* const*>(kept.back().data());
    };
    const auto *da = put(pa), *dx = put(px), *dy = put(py);
    all.push_back({shape.first, shape.second, int(of.size()), da, dx,
                   const_cast<double* const*>(reinterpret_cast<const double* const*>(dy))});
  }
  return [all, transposed] {
    static const double one = 1, zero = 0;
    for (const auto& g : all)
      check_blas(cublasDgemvBatched(blas(), transposed ? CUBLAS_OP_T : CUBLAS_OP_N, g.rows, g.columns, &one, g.a,
                                    g.rows, g.x, 1, &zero, g.y, 1, g.count),
                 "cublasDgemvBatched");
  };
}
#endif

void hmatrix(const std::string& name, const HProblem& p) {
  const auto native = numbers<double>(p.factor_count[0] + p.panel_count[0], 1);
  const auto single = numbers<float>(p.factor_count[1] + p.panel_count[1], 2);
  std::vector<std::int16_t> fixed(p.factor_count[2] + p.panel_count[2]);
  for (std::size_t i = 0; i < fixed.size(); ++i) fixed[i] = std::int16_t(below(65535, 3, i) - 32767);
  const auto hz = numbers<double>(std::size_t(p.ld), 4);
  const auto expected = p.multiply(native, single, fixed, hz);
  const auto factors = on_device(p.factors);
  const auto panels = on_device(p.panels);
  const auto runs = on_device(p.runs);
  const auto run_of = on_device(p.run_of);
  const auto scale = on_device(p.scale), a = on_device(native);
  const auto b = on_device(single);
  const auto c = on_device(fixed);
  auto dz = on_device(hz), y = on_device(std::vector<double>(std::size_t(p.n), poison<double>()));
  const auto multiply = [&] {
    exec::launch_cuda(Global(p.factors.size()),
                      op::FactorProducts<double, 1>{
                          factors.data(), {a.data(), b.data(), c.data()}, scale.data(), p.n, p.ld, dz.data()});
    exec::launch_cuda(Global(p.panels.size()),
                      op::PanelProducts<double, 1>{
                          panels.data(),
                          runs.data(),
                          run_of.data(),
                          {a.data() + p.factor_count[0], b.data() + p.factor_count[1], c.data() + p.factor_count[2]},
                          p.ld,
                          p.n,
                          dz.data(),
                          y.data()});
  };
  multiply();
  Result r{"hmatrix", "float64", message(name, ", n=", p.n, ", ", Global(1e-6 * p.bytes), " MB"),
           "cublasDgemvBatched, not added up"};
  r.error = error_of(to_host(y), expected);
  r.bytes = p.bytes;
  r.seconds = time_of(multiply);
#ifdef TACIT_BENCH_RIVALS
  if (single.empty() && fixed.empty()) {
    std::vector<exec::Array<const double*, Device>> kept;
    const auto blocks = on_device(numbers<double>(p.block_numbers, 5));
    std::size_t out = 0;
    for (const auto* list : {&p.u, &p.dense, &p.v})
      for (const auto& s : *list) out += std::size_t(std::max(s.rows, s.columns));
    exec::Array<double, Device> parts(out);
    const auto first = batches(p.v, true, a.data(), dz.data(), parts.data(), kept),
               second = batches(p.dense, false, blocks.data(), dz.data(), parts.data(), kept),
               third = batches(p.u, false, blocks.data(), dz.data(), parts.data(), kept);
    r.rival_seconds = time_of([&] { first(), second(), third(); });
  }
#endif
  add(r);
}

void hmatrices() {
  // As many numbers as in 10ts and 100ts in double precision, and in the precisions that suffice for 1e-4.
  const int full[3] = {8, 0, 0}, mixed[3] = {0, 2, 4};
  if (dry) return hmatrix("1,000 unknowns, mixed", HProblem(1000, 64, mixed, 2));
  hmatrix("10ts' size, fp64", HProblem(10400, 64, full, 0));
  hmatrix("10ts' size, mixed", HProblem(10400, 64, mixed, 2));
  if (quick) return;
  hmatrix("100ts' size, fp64", HProblem(101250, 64, full, 0));
  hmatrix("100ts' size, mixed", HProblem(101250, 64, mixed, 2));
}

/// The staged product with a matrix of lines through a square, compared with cuSPARSE. Roofline: entries, maps, X and Y
/// once; the kernel reads X once for each block of rows.
template <class T>
void staged(Local side, Local angles, int k) {
  const auto a = lines<T>(side, angles, 8);
  const auto hx = numbers<T>(std::size_t(a.columns) * k, 9);
  const auto x = on_device(hx);
  std::vector<T> expected(std::size_t(a.rows) * k);
  host_product(a, hx.data(), expected.data(), k, false);
  std::optional<double> rival;
#ifdef TACIT_BENCH_RIVALS
  {
    const Csr<T, std::int32_t, Local> plain(a);
    exec::Array<T, Device> y(expected.size());
    cusparseSpMatDescr_t descriptor;
    const auto pointer = [](const auto* p) { return const_cast<void*>(static_cast<const void*>(p)); };
    check_sparse(cusparseCreateCsr(&descriptor, a.rows, a.columns, a.entries(), pointer(plain.row_begin.data()),
                                   pointer(plain.column.data()), pointer(plain.value.data()), CUSPARSE_INDEX_32I,
                                   CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, cuda_type<T>),
                 "cusparseCreateCsr");
    rival = sparse_seconds<T>(descriptor, a.rows, a.columns, x.data(), y.data(), k, false);
    cusparseDestroySpMat(descriptor);
  }
#endif
  for (const auto vectors : {op::Vectors::full, op::Vectors::half})
    for (const auto values : {op::Values::full, op::Values::half}) {
      const bool pairs = vectors == op::Vectors::half;
      if (pairs && (sizeof(T) != sizeof(float) || k < 8)) continue;
      const int at_once = pairs ? (k >= 32 ? 64 : 16) : k >= 32 ? 32 : k >= 8 ? 8 : 1;
      const op::StagedMatrix<T, Device> m(a.rows, a.columns, source_of(a), at_once, values, vectors);
      auto y = on_device(std::vector<T>(expected.size(), poison<T>()));
      Result r{message("staged k=", k, values == op::Values::half ? " half" : "", pairs ? " half vectors" : ""),
               scalar_name<T>(), message("lines ", angles, "x", side, ", reuse ", m.counts().reuse),
               k == 1 ? "cusparseSpMV" : "cusparseSpMM"};
      m.multiply(x.data(), y.data(), k);
      r.error = error_of(to_host(y), expected);
      r.seconds = time_of([&] { m.multiply(x.data(), y.data(), k); });
      r.bytes = m.bytes() + double(hx.size() + expected.size()) * sizeof(T);
      r.rival_seconds = rival;
      add(r);
      std::printf("%56.0f Gflop/s\n", 2e-9 * double(a.entries()) * k / r.seconds);
    }
}

std::string quoted(const std::string& s) {
  std::string q = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') q += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) q += c;
  }
  return q + '"';
}

void write_json(const std::string& path, const std::string& commit) {
  cudaDeviceProp p;
  int driver = 0, runtime = 0;
  check_cuda(cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::ofstream out(path);
  out.precision(9);
  // JSON has no infinity: an output that was not written shows as an error of 1e308.
  const auto finite = [](double v) { return std::isfinite(v) ? v : 1e308; };
  out << "{\n  \"schema\": 1,\n  \"benchmark\": \"device\",\n  \"machine\": {\"device\": " << quoted(p.name)
      << ", \"multiprocessors\": " << p.multiProcessorCount << ", \"l2_bytes\": " << p.l2CacheSize
      << ", \"memory_bytes\": " << p.totalGlobalMem << ", \"driver\": " << driver << ", \"runtime\": " << runtime
      << "},\n  \"commit\": " << quoted(commit) << ",\n  \"options\": {\"quick\": " << (quick ? "true" : "false")
      << ", \"timing\": \"median of CUDA events after 3 warm-up calls\"},\n"
      << "  \"copy_bandwidth\": " << copy_bandwidth << ",\n  \"kernels\": [\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    out << "    {\"kernel\": " << quoted(r.kernel) << ", \"scalar\": " << quoted(r.scalar)
        << ", \"problem\": " << quoted(r.problem) << ", \"seconds\": " << r.seconds << ", \"bytes\": " << r.bytes
        << ", \"gb_per_second\": " << 1e-9 * r.bytes / r.seconds
        << ", \"fraction_of_copy\": " << r.bytes / r.seconds / copy_bandwidth << ", \"rival\": ";
    if (r.rival_seconds)
      out << quoted(r.rival) << ", \"rival_seconds\": " << *r.rival_seconds
          << ", \"ratio\": " << *r.rival_seconds / r.seconds;
    else out << "null, \"rival_seconds\": null, \"ratio\": null";
    out << ", \"max_relative_error\": " << finite(r.error) << "}" << (i + 1 < results.size() ? "," : "") << "\n";
  }
  out << "  ]\n}\n";
  if (!out) throw Error(ErrorKind::environment, message("cannot write ", path));
}

#if TACIT_SCALARS_Device & 8
using Complex = std::complex<double>;
#else
using Complex = std::complex<float>;
#endif

void all() {
  measure_copy();
  sweeps<float>();
  sweeps<double>();
  sweeps<Complex>();
  forward<float>();
  forward<double>();
  forward<Complex>();
  gram_schmidt<double>(8);
  gram_schmidt<double>(30);
  gram_schmidt<Complex>(8);
  block_gram_schmidt<double>(21, 10);
  block_gram_schmidt<double>(11, 5);
#if TACIT_SCALARS_Device & 1
  block_gram_schmidt<float>(21, 10);
#endif
  block_gram_schmidt<Complex>(11, 5);
  const Local side = dry ? 12 : quick ? 96 : 200;
  const std::string box = message("7-point ", side, "^3");
  {
    const auto a = seven_points<double>(side, 6);
    products(a, box, 1, true);
    products(a, box, 4, false);
    products(a, box, 8, false);
  }
  products(seven_points<float>(side, 6), box, 1, false);
  products(seven_points<Complex>(side, 6), box, 1, false);
  const Local n = dry ? 1 << 15 : quick ? 1 << 18 : 3 << 20;
  products(banded<double>(n, 10, 40, 16000, 7), message("band, 10 to 40 in a row, n=", n), 1, true);
  products(banded<double>(n, 2, 6, 16000, 7), message("band, 2 to 6 in a row, n=", n), 1, true);
  halo<double>();
  halo<std::complex<float>>();
  hmatrices();
  for (const int k : {1, 8, 32}) staged<float>(dry ? 24 : quick ? 128 : 256, dry ? 20 : quick ? 120 : 360, k);
}

}  // namespace
}  // namespace tacit::device

int main(int count, char** words) {
  using namespace tacit;
  std::string path, commit = "unknown";
  for (int i = 1; i < count; ++i)
    if (std::strcmp(words[i], "--quick") == 0) device::quick = true;
    else if (std::strcmp(words[i], "--dry") == 0) device::dry = true;
    else if (std::strcmp(words[i], "--commit") == 0 && i + 1 < count) commit = words[++i];
    else path = words[i];
  if (path.empty()) return std::fprintf(stderr, "usage: device_bench OUT.json [--commit TEXT] [--quick | --dry]\n"), 2;
  if (!exec::device_available()) return std::puts("no GPU"), 77;
  try {
    std::printf("%s\n", exec::device_name().c_str());
    device::all();
    device::write_json(path, commit);
  } catch (const std::exception& e) {
    std::printf("FAILED  %s\n", e.what());
    if (!device::results.empty()) device::write_json(path, commit);
    return 1;
  }
  return 0;
}
