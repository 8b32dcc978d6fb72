// The product of an H-matrix in double precision, compared with batched products of cuBLAS: device_hmatrix [--quick |
// --dry]. Blocks as on a sphere, of the sizes of 10ts and 100ts (Yamazaki et al. 2018), with random entries.
//
//   ours       two team kernels, without padding, sums of y in a fixed order
//   streams    cublasDgemv for each block on five streams (the paper: 0.42 Gflop/s on a P100)
//   batched    cublasDgemvBatched for each shape of block
//   grouped    cublasDgemmGroupedBatched of one column, all shapes of a list in one call
//
// The cuBLAS versions write results of several blocks for the same element separately instead of adding them, which
// makes their task easier. Times are medians of CUDA events. Exit code 77: no GPU.
#include "hmatrix_problem.hpp"

#include <tacit/exec/cuda.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

#ifdef TACIT_BENCH_RIVALS
#include <cublas_v2.h>
#endif

namespace tacit::device {
namespace {

using exec::check_cuda;

int repeat = 30;

double time_of(const std::function<void()>& call) {
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> seconds;
  for (int i = 0; i < repeat; ++i) {
    check_cuda(cudaEventRecord(begin), "cudaEventRecord");
    call();
    check_cuda(cudaEventRecord(end), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    seconds.push_back(1e-3 * ms);
  }
  check_cuda(cudaEventDestroy(begin), "cudaEventDestroy");
  check_cuda(cudaEventDestroy(end), "cudaEventDestroy");
  std::nth_element(seconds.begin(), seconds.begin() + std::ptrdiff_t(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

#ifdef TACIT_BENCH_RIVALS
void check_blas(cublasStatus_t code, const char* call) {
  if (code != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorKind::environment, message(call, ": ", cublasGetStatusString(code)));
}
const double one = 1, zero = 0;

/// One list of products y = A x, or y = A^T x, with results one after the other; `alone`: none of them depends on
/// another list.
class List {
 public:
  List(const std::vector<HProblem::Shape>& shapes, bool transposed, const double* a, const double* x, double* y)
      : operation_(transposed ? CUBLAS_OP_T : CUBLAS_OP_N) {
    std::map<std::pair<Local, Local>, std::vector<const HProblem::Shape*>> groups;
    for (const auto& s : shapes) groups[{s.rows, s.columns}].push_back(&s);
    for (const auto& [shape, of] : groups) {
      groups_.push_back({shape.first, shape.second, int(of.size()), a_.size()});
      for (const auto* s : of) {
        a_.push_back(a + s->data), x_.push_back(x + s->from), y_.push_back(y + used_);
        used_ += std::size_t(transposed ? s->columns : s->rows);
      }
      rows_.push_back(transposed ? shape.second : shape.first);
      inner_.push_back(transposed ? shape.first : shape.second);
      stored_.push_back(shape.first), counts_.push_back(int(of.size()));
    }
    const std::size_t count = groups_.size();
    operations_.assign(count, operation_), plain_.assign(count, CUBLAS_OP_N);
    ones_.assign(count, 1), single_.assign(count, 1.0), none_.assign(count, 0.0);
    device_a_ = on_device(a_), device_x_ = on_device(x_), device_y_ = on_device(y_);
  }
  std::size_t used() const { return used_; }

  void streams(cublasHandle_t blas, const std::vector<cudaStream_t>& streams) const {
    std::size_t next = 0;
    for (const auto& g : groups_)
      for (int i = 0; i < g.count; ++i) {
        check_blas(cublasSetStream(blas, streams[next++ % streams.size()]), "cublasSetStream");
        const std::size_t at = g.first + std::size_t(i);
        check_blas(cublasDgemv(blas, operation_, g.rows, g.columns, &one, a_[at], g.rows, x_[at], 1, &zero, y_[at], 1),
                   "cublasDgemv");
      }
  }
  void batched(cublasHandle_t blas) const {
    for (const auto& g : groups_)
      check_blas(cublasDgemvBatched(blas, operation_, g.rows, g.columns, &one, device_a_.data() + g.first, g.rows,
                                    device_x_.data() + g.first, 1, &zero, device_y_.data() + g.first, 1, g.count),
                 "cublasDgemvBatched");
  }
#if CUBLAS_VERSION >= 120400
  void grouped(cublasHandle_t blas) const {
    check_blas(
        cublasDgemmGroupedBatched(blas, operations_.data(), plain_.data(), rows_.data(), ones_.data(), inner_.data(),
                                  single_.data(), device_a_.data(), stored_.data(), device_x_.data(), inner_.data(),
                                  none_.data(), device_y_.data(), rows_.data(), int(groups_.size()), counts_.data()),
        "cublasDgemmGroupedBatched");
  }
#endif

 private:
  struct Group {
    int rows, columns, count;
    std::size_t first;
  };
  cublasOperation_t operation_;
  std::vector<Group> groups_;
  std::vector<const double*> a_, x_;
  std::vector<double*> y_;
  exec::Array<const double*, Device> device_a_, device_x_;
  exec::Array<double*, Device> device_y_;
  std::vector<cublasOperation_t> operations_, plain_;
  std::vector<int> rows_, ones_, inner_, stored_, counts_;
  std::vector<double> single_, none_;
  std::size_t used_ = 0;
};
#endif

void compare(const char* name, const HProblem& p) {
  const auto native = numbers<double>(p.factor_count[0] + p.panel_count[0], 1);
  const auto hz = numbers<double>(std::size_t(p.ld), 4);
  const auto expected = p.multiply(native, {}, {}, hz);
  const auto factors = on_device(p.factors);
  const auto panels = on_device(p.panels);
  const auto runs = on_device(p.runs);
  const auto run_of = on_device(p.run_of);
  const auto scale = on_device(p.scale), a = on_device(native);
  auto z = on_device(hz), y = on_device(std::vector<double>(std::size_t(p.n), poison<double>()));
  const auto multiply = [&] {
    exec::launch_cuda(
        Global(p.factors.size()),
        op::FactorProducts<double, 1>{factors.data(), {a.data(), nullptr, nullptr}, scale.data(), p.n, p.ld, z.data()});
    exec::launch_cuda(Global(p.panels.size()),
                      op::PanelProducts<double, 1>{panels.data(),
                                                   runs.data(),
                                                   run_of.data(),
                                                   {a.data() + p.factor_count[0], nullptr, nullptr},
                                                   p.ld,
                                                   p.n,
                                                   z.data(),
                                                   y.data()});
  };
  multiply();
  const auto got = to_host(y);
  double worst = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(got[i] - expected[i]);
    worst = off <= worst ? worst : std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    size = std::max(size, std::abs(expected[i]));
  }
  const auto line = [&](const char* way, double seconds) {
    std::printf("%-6s n=%-7d %7.1f MB  %-8s %9.1f us %7.0f GB/s %7.1f Gflop/s\n", name, p.n, 1e-6 * p.bytes, way,
                1e6 * seconds, 1e-9 * p.bytes / seconds, 2.5e-10 * p.bytes / seconds);
    std::fflush(stdout);
  };
  std::printf("error of ours %.1e\n", worst / size);
  if (!(worst <= 1e-12 * size)) throw std::runtime_error(message(name, ": the product is wrong"));
  line("ours", time_of(multiply));
#ifdef TACIT_BENCH_RIVALS
  cublasHandle_t blas;
  check_blas(cublasCreate(&blas), "cublasCreate");
  const auto blocks = on_device(numbers<double>(p.block_numbers, 5));
  std::size_t out = 0;
  for (const auto* list : {&p.u, &p.dense, &p.v})
    for (const auto& s : *list) out += std::size_t(std::max(s.rows, s.columns));
  exec::Array<double, Device> parts(out);
  const List v(p.v, true, a.data(), z.data(), parts.data()),
      dense(p.dense, false, blocks.data(), z.data(), parts.data() + v.used()),
      u(p.u, false, blocks.data(), z.data(), parts.data() + v.used() + dense.used());
  const List* const lists[] = {&v, &dense, &u};
  std::vector<cudaStream_t> streams(5);
  for (auto& s : streams) check_cuda(cudaStreamCreate(&s), "cudaStreamCreate");  // ordered after the default stream
  const int before = std::exchange(repeat, 3);
  line("streams", time_of([&] {
         for (const auto* list : lists) list->streams(blas, streams);
       }));
  repeat = before;
  check_blas(cublasSetStream(blas, nullptr), "cublasSetStream");
  line("batched", time_of([&] {
         for (const auto* list : lists) list->batched(blas);
       }));
#if CUBLAS_VERSION >= 120400
  line("grouped", time_of([&] {
         for (const auto* list : lists) list->grouped(blas);
       }));
#else
  std::puts("grouped products came with cuBLAS 12.4");
#endif
  for (auto& s : streams) cudaStreamDestroy(s);
  cublasDestroy(blas);
#endif
}

}  // namespace
}  // namespace tacit::device

int main(int count, char** words) {
  using namespace tacit;
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const bool dry = count > 1 && std::strcmp(words[1], "--dry") == 0;
  if (!exec::device_available()) return std::puts("no GPU"), 77;
  try {
    std::printf("%s\n", exec::device_name().c_str());
    const int ranks[3] = {8, 0, 0};
    if (dry) return device::compare("1,000 unknowns", device::HProblem(1000, 64, ranks, 0)), 0;
    device::compare("10ts", device::HProblem(10400, 64, ranks, 0));
    if (!quick) device::compare("100ts", device::HProblem(101250, 64, ranks, 0));
  } catch (const std::exception& e) {
    std::printf("FAILED  %s\n", e.what());
    return 1;
  }
  return 0;
}
