#include <tacit/exec/sweep.hpp>

#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::exec::detail {
namespace {

std::vector<Touched> touched(const AnyPass& any) {
  std::vector<Touched> all(any.arrays);
  any.touch(any.pass, all.data());
  return all;
}

std::size_t chunks_of(std::size_t n) {
  return (n + chunk_elements - 1) / chunk_elements;
}

}  // namespace

void throw_sizes(std::size_t n, std::span<const std::size_t> sizes) {
  const auto other = std::find_if(sizes.begin(), sizes.end(), [&](std::size_t size) { return size != n; });
  throw Error(ErrorKind::usage, message("sweep over vectors of ", n, " and of ", *other, " elements"));
}

void sweep_elements(std::size_t n, const AnyPass& any, void (*elements)(const void*, std::size_t, std::size_t)) {
  if (auto* const tasks = Tasks::current()) {
    // A task may run after the caller's pass is destroyed.
    const std::shared_ptr<std::byte[]> copy(new std::byte[any.bytes]);
    std::memcpy(copy.get(), any.pass, any.bytes);
    tasks->start("sweep", n, touched(any), [copy, elements](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; b += chunk_elements)
        elements(copy.get(), b, b + chunk_elements < end ? b + chunk_elements : end);
    });
    return;
  }
  parallel_for(chunks_of(n), n > parallel_from, [&](std::size_t c) {
    const std::size_t begin = c * chunk_elements, end = begin + chunk_elements < n ? begin + chunk_elements : n;
    elements(any.pass, begin, end);
  });
}

template <class T>
void sweep_sums(std::size_t n, const AnyPass& any, void (*sums)(const void*, std::size_t, std::size_t, void*),
                int count, T* total) {
  const std::size_t chunks = chunks_of(n), K = std::size_t(count);
  // Kept between sweeps of this thread, so that a loop of sweeps does not allocate; taken out of its place, as a task
  // that runs while this sweep waits may have sums, too.
  static thread_local std::vector<T> kept;
  std::vector<T> store = std::exchange(kept, {});
  if (store.size() < chunks * K) store.resize(chunks * K);
  T* const partial = store.data();
  const auto chunk = [&](std::size_t c) {
    const std::size_t begin = c * chunk_elements, end = begin + chunk_elements < n ? begin + chunk_elements : n;
    sums(any.pass, begin, end, partial + c * K);
  };
  if (auto* const tasks = Tasks::current()) {
    tasks->finish("sweep", n, touched(any), [&](std::size_t begin, std::size_t end) {
      for (std::size_t c = begin / chunk_elements; c * chunk_elements < end; ++c) chunk(c);
    });
  } else {
    parallel_for(chunks, n > parallel_from, chunk);
  }
  for (std::size_t c = 0; c < chunks; ++c)
    for (std::size_t k = 0; k < K; ++k) total[k] += partial[c * K + k];
  kept = std::move(store);
}

#define TACIT_INSTANTIATE(T)                                                                                       \
  template void sweep_sums<T>(std::size_t, const AnyPass&, void (*)(const void*, std::size_t, std::size_t, void*), \
                              int, T*);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::exec::detail
