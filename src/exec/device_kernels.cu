// Gather, scatter and Gram-Schmidt on device vectors, for the four scalars.
#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/basis.hpp>
#include <tacit/exec/device_kernels.hpp>
#include "exec/device_kernels.cuh"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tacit::exec {
namespace {

template <int W, class U>
bool are_aligned(const U* const* q, int columns, const U* v) {
  return is_aligned<W>(v) && std::all_of(q, q + columns, [](const U* p) { return is_aligned<W>(p); });
}

template <Scalar T>
void dots(const T* const* basis, int j, const T* v, std::size_t n, T* sums, bool norm) {
  const Span span("basis dots", "exec", std::int64_t((j + 1) * n * sizeof(T)));
  using U = kernel_scalar_t<T>;
  constexpr int wide = packet_width<U>;
  const int columns = j + int(norm);  // v^H v is one dot more
  if (columns == 0) return;
  const U* const x = kernel_pointer(v);
  const ReductionSpace space = reduction_space(DotsPlan<U>::bytes, columns * sizeof(T));
  U* const result = static_cast<U*>(space.result);
  for (int first = 0; first < columns; first += basis_at_once) {
    const U* q[basis_at_once];
    const int count = std::min(basis_at_once, columns - first);
    for (int c = 0; c < count; ++c) q[c] = first + c < j ? kernel_pointer(basis[first + c]) : x;
    if (are_aligned<wide>(q, count, x))
      launch_dots<wide>(Global(n), q, count, x, static_cast<U*>(space.partial), result + first);
    else launch_dots<0>(Global(n), q, count, x, static_cast<U*>(space.partial), result + first);
  }
  wait_for_device();
  std::memcpy(sums, space.result, columns * sizeof(T));
}

template <Scalar T>
T subtract(const T* const* basis, int j, const T* h, T scale, T* v, std::size_t n, bool norm) {
  const Span span("basis subtract", "exec", std::int64_t((j + 2) * n * sizeof(T)));
  using U = kernel_scalar_t<T>;
  constexpr int wide = packet_width<U>;
  U* const x = kernel_pointer(v);
  const ReductionSpace space = reduction_space(DotsPlan<U>::bytes, sizeof(T));
  int first = 0;
  do {
    const U* q[basis_at_once];
    const int count = std::min(basis_at_once, j - first);
    const bool last = first + count == j;
    for (int c = 0; c < count; ++c) q[c] = kernel_pointer(basis[first + c]);
    const U* const factors = kernel_pointer(h + first);
    const U by = last ? *kernel_pointer(&scale) : U(1);
    U* const out = norm && last ? static_cast<U*>(space.result) : nullptr;
    if (are_aligned<wide>(q, count, x))
      launch_update<wide>(Global(n), q, count, factors, by, x, static_cast<U*>(space.partial), out);
    else launch_update<0>(Global(n), q, count, factors, by, x, static_cast<U*>(space.partial), out);
    first += count;
  } while (first < j);
  T sum{};
  if (norm) {
    wait_for_device();
    std::memcpy(&sum, space.result, sizeof(T));
  }
  return sum;
}

}  // namespace

template <Scalar T>
void device_gather(View<const T, Device> x, View<const Local, Device> index, View<T, Device> out, int columns) {
  require(out.size() == index.size() * columns, "gather of ", index.size(), " times ", columns, " values into ",
          out.size());
  require(is_aligned<1>(x.data()) && is_aligned<1>(out.data()), "a gather's device arrays start at multiples of ",
          sizeof(T), " bytes");
  launch_gather(Global(index.size()), columns, index.data(), kernel_pointer(x.data()), kernel_pointer(out.data()));
}

template <Scalar T>
void device_scatter_add(View<const T, Device> values, View<const Local, Device> index, View<T, Device> x, int columns,
                        Indices indices) {
  require(values.size() == index.size() * columns, "scatter of ", values.size(), " values to ", index.size(), " times ",
          columns);
  if (indices == Indices::distinct)
    launch_scatter_add<true>(Global(index.size()), columns, index.data(), kernel_pointer(values.data()),
                             kernel_pointer(x.data()));
  else
    launch_scatter_add<false>(Global(index.size()), columns, index.data(), kernel_pointer(values.data()),
                              kernel_pointer(x.data()));
}

#define TACIT_INSTANTIATE(T)                                                                                   \
  template void device_gather<T>(View<const T, Device>, View<const Local, Device>, View<T, Device>, int);      \
  template void device_scatter_add<T>(View<const T, Device>, View<const Local, Device>, View<T, Device>, int,  \
                                      Indices);                                                                \
  template <>                                                                                                  \
  void basis_dots<T, Device>(const T* const* q, int j, const T* v, std::size_t n, T* sums, bool norm) {        \
    dots(q, j, v, n, sums, norm);                                                                              \
  }                                                                                                            \
  template <>                                                                                                  \
  T basis_subtract<T, Device>(const T* const* q, int j, const T* h, T scale, T* v, std::size_t n, bool norm) { \
    return subtract(q, j, h, scale, v, n, norm);                                                               \
  }
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::exec
