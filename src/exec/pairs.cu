// Pairs of device vectors, for the four scalars.
#include <tacit/exec/cuda.hpp>
#include "exec/pair_kernels.hpp"

#include "pair_spans.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tacit::exec {
namespace {

// The most pairs of one launch, whose pointers and coefficients are its arguments.
constexpr int pairs_at_once = 32;

const auto start = [](Global blocks, const auto& kernel) { launch_cuda(blocks, kernel); };

template <class U>
bool are_aligned(const U* const* pairs, int columns) {
  return std::all_of(pairs, pairs + (columns + 1) / 2, [](const U* p) { return is_aligned<2>(p); });
}

/// The pairs as kernels see them.
template <class T>
std::vector<kernel_scalar_t<T>*> kernel_pairs(T* const* v, int columns) {
  std::vector<kernel_scalar_t<T>*> pairs(std::size_t(columns + 1) / 2);
  std::transform(v, v + pairs.size(), pairs.begin(), [](T* p) { return kernel_pointer(p); });
  return pairs;
}

template <Scalar T>
void gram(const T* const* v, const T* const* z, int columns, const T* shadow, bool with_shadow, std::size_t n,
          wide_t<T>* sums) {
  const Span span = pair_gram_span<T>(v == z, columns, with_shadow, n);
  using U = kernel_scalar_t<T>;
  const auto left = kernel_pairs<const T>(v, columns), right = kernel_pairs<const T>(z, columns);
  const auto with = [&]<int W>(std::integral_constant<int, W>) {
    PairGramPlan<U, pairs_at_once, W, 8> plan(Global(n), columns, with_shadow ? kernel_pointer(shadow) : nullptr);
    using Wide = typename decltype(plan)::Wide;
    const std::size_t bytes = std::size_t(plan.count()) * sizeof(Wide);
    const ReductionSpace space = reduction_space(std::size_t(plan.partial_size()) * sizeof(Wide), bytes);
    plan(left.data(), right.data(), static_cast<Wide*>(space.partial), static_cast<Wide*>(space.result), start);
    wait_for_device();
    std::memcpy(static_cast<void*>(sums), space.result, bytes);
  };
  if (columns == 0) return;
  if (are_aligned(left.data(), columns) && are_aligned(right.data(), columns)) with(std::integral_constant<int, 2>{});
  else with(std::integral_constant<int, 0>{});
}

template <Scalar T>
void combine(T* const* v, int columns, const T* a, const T* c, const T* e, T* x, std::size_t n) {
  const Span span = pair_combine_span<T>(a, x, columns, n);
  const auto pairs = kernel_pairs(v, columns);
  const auto with = [&]<int W>(std::integral_constant<int, W>) {
    launch_pair_combine<pairs_at_once, W, 256>(Global(n), pairs.data(), columns, kernel_pointer(a), kernel_pointer(c),
                                               kernel_pointer(e), kernel_pointer(x), start);
  };
  if (are_aligned(pairs.data(), columns)) with(std::integral_constant<int, 2>{});
  else with(std::integral_constant<int, 0>{});
}

template <Scalar T>
void put(const T* x, int c, T* v, std::size_t n) {
  const Span span = pair_put_span<T>(n);
  start((Global(n) + 255) / 256, PairPut<kernel_scalar_t<T>, 256>{Global(n), c, kernel_pointer(x), kernel_pointer(v)});
}

template <Scalar T>
double largest(const T* v, std::size_t n, std::size_t stride) {
  const Span span = largest_magnitude_span<T>(n, stride);
  const Global blocks = blocks_for(Global(n), 256);
  const ReductionSpace space = reduction_space(most_blocks * sizeof(Largest), sizeof(Largest));
  auto* const partial = static_cast<Largest*>(space.partial);
  start(blocks,
        LargestMagnitude<kernel_scalar_t<T>, 256>{Global(n), Global(stride), blocks, kernel_pointer(v), partial});
  start(1, SumParts<Largest, 128>{blocks, 1, partial, static_cast<Largest*>(space.result)});
  wait_for_device();
  return static_cast<const Largest*>(space.result)->value;
}

}  // namespace

#define TACIT_INSTANTIATE(T)                                                                                        \
  template <>                                                                                                       \
  void pair_gram<T, Device>(const T* const* v, const T* const* z, int columns, const T* shadow, bool with_shadow,   \
                            std::size_t n, wide_t<T>* sums) {                                                       \
    gram(v, z, columns, shadow, with_shadow, n, sums);                                                              \
  }                                                                                                                 \
  template <>                                                                                                       \
  void pair_combine<T, Device>(T* const* v, int columns, const T* a, const T* c, const T* e, T* x, std::size_t n) { \
    combine(v, columns, a, c, e, x, n);                                                                             \
  }                                                                                                                 \
  template <>                                                                                                       \
  void pair_put<T, Device>(const T* x, int c, T* v, std::size_t n) {                                                \
    put(x, c, v, n);                                                                                                \
  }                                                                                                                 \
  template <>                                                                                                       \
  double largest_magnitude<T, Device>(const T* v, std::size_t n, std::size_t stride) {                              \
    return largest(v, n, stride);                                                                                   \
  }
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::exec
