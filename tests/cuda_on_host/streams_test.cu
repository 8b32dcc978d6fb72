// The order of streams, events and copies in the stand-in for CUDA, what it counts, and its use by several threads.
#include "planted.hpp"

#include <tacit/exec/cuda.hpp>

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <cmath>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int length = 8;

__global__ void combine(double* y, const double* x, double a) {
  y[threadIdx.x] = a * y[threadIdx.x] + x[threadIdx.x];
}
void combine_on(cudaStream_t stream, double* y, const double* x, double a) {
  void* arguments[] = {&y, &x, &a};
  ASSERT_EQ(cudaLaunchKernel(combine, dim3(1), dim3(length), arguments, 0, stream), cudaSuccess);
}

class CudaStreams : public planted::OnHost {};

/// A random program on vectors of two devices: which of four streams does what with which vectors. Where an operation
/// needs what another stream did, it waits for an event.
class Program {
 public:
  static constexpr int streams = 4, vectors = 6, steps = 40;

  explicit Program(unsigned number) : random_(number) {
    for (int i = 0; i < streams; ++i) {
      cudaSetDevice(i % 2);
      cudaStreamCreateWithFlags(&stream_[i], cudaStreamNonBlocking);
    }
    for (int v = 0; v < vectors; ++v) {
      cudaSetDevice(v % 2);
      cudaMalloc(&vector_[v], length * sizeof(double));
    }
  }
  ~Program() {
    for (auto* p : vector_) cudaFree(p);
    for (auto s : stream_) cudaStreamDestroy(s);
    for (auto e : events_) cudaEventDestroy(e);
  }

  /// The vectors' values afterwards, by the streams or as they have to be.
  std::vector<double> by_streams() {
    run(true);
    std::vector<double> all(vectors * length);
    for (int v = 0; v < vectors; ++v) {
      cudaSetDevice(v % 2);
      use(v % 2, v, false);
      cudaMemcpyAsync(&all[std::size_t(v * length)], vector_[v], length * sizeof(double), cudaMemcpyDeviceToHost,
                      stream_[v % 2]);
    }
    return all;
  }
  std::vector<double> expected() {
    run(false);
    return value_;
  }

 private:
  // Orders the stream's next operation behind those of other streams that wrote the vector, or, before a write, read
  // it.
  void use(int stream, int v, bool writes) {
    const auto after = [&](int other) {
      if (other == stream) return;
      cudaEvent_t event;
      cudaSetDevice(other % 2);
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      cudaEventRecord(event, stream_[other]);
      cudaStreamWaitEvent(stream_[stream], event);
      events_.push_back(event);
    };
    if (writer_[v] >= 0) after(writer_[v]);
    if (writes)
      for (int other = 0; other < streams; ++other)
        if (reader_[v] >> other & 1) after(other);
    if (writes) writer_[v] = stream, reader_[v] = 0;
    else reader_[v] |= 1 << stream;
  }

  void run(bool by_streams) {
    auto random = random_;
    value_.assign(vectors * length, 0);
    std::fill(writer_, writer_ + vectors, -1);
    std::fill(reader_, reader_ + vectors, 0);
    for (int v = 0; v < vectors; ++v) {
      std::vector<double> start(length);
      for (int i = 0; i < length; ++i) start[std::size_t(i)] = value_[std::size_t(v * length + i)] = v + 0.125 * i;
      if (!by_streams) continue;
      use(v % 2, v, true);
      cudaMemcpyAsync(vector_[v], start.data(), length * sizeof(double), cudaMemcpyHostToDevice, stream_[v % 2]);
    }
    for (int step = 0; step < steps; ++step) {
      const int y = int(random() % vectors), x = int(random() % vectors), stream = int(random() % streams);
      const bool copies = random() % 3 == 0;
      const double a = 0.25 * double(random() % 7);
      for (int i = 0; i < length; ++i) {
        double& to = value_[std::size_t(y * length + i)];
        const double from = value_[std::size_t(x * length + i)];
        to = copies ? from : a * to + from;
      }
      if (!by_streams) continue;
      use(stream, x, false);
      use(stream, y, true);
      cudaSetDevice(stream % 2);
      if (copies) cudaMemcpyAsync(vector_[y], vector_[x], length * sizeof(double), cudaMemcpyDefault, stream_[stream]);
      else combine_on(stream_[stream], vector_[y], vector_[x], a);
    }
  }

  std::mt19937 random_;
  cudaStream_t stream_[streams];
  double* vector_[vectors];
  std::vector<cudaEvent_t> events_;
  std::vector<double> value_;
  int writer_[vectors], reader_[vectors];
};

TEST_F(CudaStreams, ProgramsWithAllTheirEventsHaveOneResult) {
  cuda_on_host::set_devices(2);
  for (int device = 0; device < 2; ++device) {
    cudaSetDevice(device);
    ASSERT_EQ(cudaDeviceEnablePeerAccess(1 - device, 0), cudaSuccess);
  }
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    cuda_on_host::set_seed(seed);
    Program program(unsigned(seed % 10));
    EXPECT_EQ(program.by_streams(), program.expected()) << "seed " << seed;
  }
}

TEST_F(CudaStreams, DefaultStreamIsOrderedWithBlockingStreams) {
  double *p = nullptr, *q = nullptr;
  cudaMalloc(&p, length * sizeof(double));
  cudaMalloc(&q, length * sizeof(double));
  cudaStream_t blocking;
  cudaStreamCreate(&blocking);
  const std::vector<double> one(length, 1.0);
  std::vector<double> back(length);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    cuda_on_host::set_seed(seed);
    cudaMemcpyAsync(p, one.data(), length * sizeof(double), cudaMemcpyHostToDevice, blocking);
    cudaMemcpyAsync(q, p, length * sizeof(double), cudaMemcpyDeviceToDevice, nullptr);
    combine_on(blocking, q, p, 2.0);
    cudaMemcpyAsync(back.data(), q, length * sizeof(double), cudaMemcpyDeviceToHost, nullptr);
    EXPECT_EQ(back, std::vector<double>(length, 3.0)) << "seed " << seed;
    cudaMemsetAsync(q, 0, length * sizeof(double));
  }
  cudaStreamDestroy(blocking);
  cudaFree(p);
  cudaFree(q);
}

TEST_F(CudaStreams, EventsAreAskedFor) {
  double* p = nullptr;
  cudaMalloc(&p, length * sizeof(double));
  cudaMemsetAsync(p, 0, length * sizeof(double));
  double* pinned = nullptr;
  cudaMallocHost(reinterpret_cast<void**>(&pinned), length * sizeof(double));
  cudaEvent_t event;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "before any record";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    cuda_on_host::set_seed(seed);
    pinned[0] = -1;
    cudaMemsetAsync(p, 0, length * sizeof(double));
    combine_on(nullptr, p, p, 2.0);
    cudaMemcpyAsync(pinned, p, length * sizeof(double), cudaMemcpyDeviceToHost);
    const auto before = cuda_on_host::counts();
    cudaEventRecord(event);
    if (seed == 0) {
      EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
      EXPECT_EQ(pinned[0], -1);
      cudaGetLastError();
    }
    int asked = 0;
    while (cudaEventQuery(event) == cudaErrorNotReady) ASSERT_LT(++asked, 1000) << "a loop of queries ends";
    EXPECT_EQ(pinned[0], 0) << "seed " << seed;
    EXPECT_EQ(cuda_on_host::counts().waits, before.waits);
    cudaGetLastError();
  }
  cuda_on_host::set_seed(0);
  cudaEventRecord(event);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  cudaEventSynchronize(event);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventDestroy(event);
  cudaGetLastError();
  cudaFreeHost(pinned);
  cudaFree(p);
}

TEST_F(CudaStreams, EventsTellTime) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle) << "before any record";
  cudaEventRecord(begin);
  cudaEventRecord(end);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
  cudaEventSynchronize(end);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 0);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

TEST_F(CudaStreams, CountsWhatIsAsked) {
  const auto before = cuda_on_host::counts();
  double *p = nullptr, *pinned = nullptr;
  cudaMalloc(&p, length * sizeof(double));
  cudaMallocHost(reinterpret_cast<void**>(&pinned), length * sizeof(double));
  std::vector<double> v(length, 1.0);
  cudaMemcpyAsync(p, v.data(), 64, cudaMemcpyHostToDevice);
  combine_on(nullptr, p, p, 1.0);
  combine_on(nullptr, p, p, 1.0);
  cudaMemcpyAsync(pinned, p, 24, cudaMemcpyDeviceToHost);
  cudaMemcpyAsync(p + 1, p, 8, cudaMemcpyDeviceToDevice);
  cudaMemsetAsync(p, 0, 16);
  cudaStreamSynchronize(nullptr);
  const auto after = cuda_on_host::counts();
  EXPECT_EQ(after.launches - before.launches, 2);
  EXPECT_EQ(after.copies_to_device - before.copies_to_device, 1);
  EXPECT_EQ(after.bytes_to_device - before.bytes_to_device, 64);
  EXPECT_EQ(after.copies_to_host - before.copies_to_host, 1);
  EXPECT_EQ(after.bytes_to_host - before.bytes_to_host, 24);
  EXPECT_EQ(after.bytes_on_device - before.bytes_on_device, 8);
  EXPECT_EQ(after.bytes_filled - before.bytes_filled, 16);
  EXPECT_EQ(after.waits - before.waits, 1);
  EXPECT_EQ(after.allocations - before.allocations, 1);
  EXPECT_EQ(after.host_allocations - before.host_allocations, 1);
  EXPECT_EQ(after.live_bytes - before.live_bytes, 64);
  EXPECT_EQ(pinned[0], 4.0);
  cudaFree(p);
  cudaFreeHost(pinned);
}

// Each page that an operation reads or writes counts once for it, and ends where its allocation does.
TEST_F(CudaStreams, CountsTraffic) {
  constexpr int threads = 1024;
  constexpr std::int64_t bytes = threads * sizeof(double), page = 4096, few = 24;
  double *x = nullptr, *y = nullptr, *small = nullptr;
  cudaMalloc(&x, bytes);
  cudaMalloc(&y, bytes);
  cudaMalloc(&small, few);
  for (auto* p : {x, y}) cudaMemsetAsync(p, 0, bytes);
  cudaMemsetAsync(small, 0, few);
  const auto combine_first = [&](int n) {
    double a = 1.0;
    void* arguments[] = {&y, &x, &a};
    ASSERT_EQ(cudaLaunchKernel(combine, dim3(1), dim3(unsigned(n)), arguments, 0, nullptr), cudaSuccess);
  };
  using ReadAndWritten = std::pair<std::int64_t, std::int64_t>;
  const auto moved = [](const auto& work) {
    const auto before = cuda_on_host::counts();
    work();
    cudaStreamSynchronize(nullptr);
    const auto after = cuda_on_host::counts();
    return ReadAndWritten(after.bytes_read - before.bytes_read, after.bytes_written - before.bytes_written);
  };
  cudaStreamSynchronize(nullptr);
  cuda_on_host::watch_traffic(true);
  EXPECT_EQ(moved([&] { combine_first(threads); }), ReadAndWritten(2 * bytes, bytes));
  EXPECT_EQ(moved([&] { combine_first(length); }), ReadAndWritten(2 * page, page));
  EXPECT_EQ(moved([&] { combine_first(threads), combine_first(threads); }), ReadAndWritten(4 * bytes, 2 * bytes));
  EXPECT_EQ(moved([&] { cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice); }), ReadAndWritten(bytes, bytes));
  EXPECT_EQ(moved([&] { cudaMemsetAsync(y, 0, 16); }), ReadAndWritten(0, page));
  double one;
  EXPECT_EQ(moved([&] { cudaMemcpyAsync(&one, small, 8, cudaMemcpyDeviceToHost); }), ReadAndWritten(few, 0));
  cuda_on_host::watch_traffic(false);
  EXPECT_EQ(moved([&] { combine_first(threads); }), ReadAndWritten(0, 0));
  for (auto* p : {x, y, small}) cudaFree(p);
}

// Ranks may be threads, each with a device of its own.
TEST_F(CudaStreams, ThreadsOfTheHost) {
  cuda_on_host::set_devices(2);
  cuda_on_host::set_seed(3);
  std::vector<std::thread> threads;
  std::vector<double> last(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &last] {
      cudaSetDevice(t % 2);
      cudaStream_t stream;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      double *x = nullptr, *y = nullptr;
      cudaMalloc(&x, length * sizeof(double));
      cudaMalloc(&y, length * sizeof(double));
      std::vector<double> v(length, double(t));
      cudaMemcpyAsync(x, v.data(), length * sizeof(double), cudaMemcpyHostToDevice, stream);
      cudaMemsetAsync(y, 0, length * sizeof(double), stream);
      for (int i = 0; i < 100; ++i) {
        combine_on(stream, y, x, 1.0);
        if (i % 10 == 0) cudaStreamSynchronize(stream);
      }
      cudaMemcpyAsync(v.data(), y, length * sizeof(double), cudaMemcpyDeviceToHost, stream);
      last[std::size_t(t)] = v[0];
      cudaFree(x);
      cudaFree(y);
      cudaStreamDestroy(stream);
    });
  for (auto& t : threads) t.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(last[std::size_t(t)], 100.0 * t);
}

}  // namespace
