// Gather, scatter, dots and updates of device vectors, for the four scalars.
#include <tacit/base/error.hpp>
#include <tacit/exec/device_kernels.cuh>
#include <tacit/exec/device_kernels.hpp>

#include <cstring>

namespace tacit::exec {
namespace {

/// Packets can be loaded from every column of the basis and from v.
template <int W, class T>
bool are_aligned(const T* basis, std::size_t stride, const T* v) {
  return is_aligned<W>(basis) && is_aligned<W>(basis + stride) && is_aligned<W>(v);
}

void check_basis(std::size_t size, std::size_t stride, std::size_t columns, std::size_t n) {
  require(columns == 0 || (stride >= n && size >= (columns - 1) * stride + n), "a basis of ", size, " elements, ", stride,
          " from column to column, has no ", columns, " columns of ", n);
}

}  // namespace

template <Scalar T>
void device_gather(View<const T, Device> x, View<const Local, Device> index, View<T, Device> out, int columns) {
  require(out.size() == index.size() * columns, "gather of ", index.size(), " times ", columns, " values into ", out.size());
  require(is_aligned<1>(x.data()) && is_aligned<1>(out.data()), "a gather's device arrays start at multiples of ", sizeof(T),
          " bytes");
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

template <Scalar T>
void device_dots(View<const T, Device> basis, std::size_t stride, View<const T, Device> v, std::span<T> out) {
  using U = kernel_scalar_t<T>;
  constexpr int wide = packet_width<U>;
  check_basis(basis.size(), stride, out.size(), v.size());
  if (out.empty()) return;
  const int columns = checked_cast<int>(out.size(), "the number of columns");
  const Global n = Global(v.size());
  const ReductionSpace space = reduction_space(DotsPlan<U>(n, columns, wide).bytes(), out.size_bytes());
  U* const partial = static_cast<U*>(space.partial);
  U* const result = static_cast<U*>(space.result);
  const U* const q = kernel_pointer(basis.data());
  const U* const x = kernel_pointer(v.data());
  if (are_aligned<wide>(q, stride, x)) launch_dots<wide>(n, q, Global(stride), columns, x, partial, result);
  else launch_dots<0>(n, q, Global(stride), columns, x, partial, result);
  wait_for_device();
  std::memcpy(out.data(), space.result, out.size_bytes());
}

template <Scalar T>
void device_update(View<const T, Device> basis, std::size_t stride, std::span<const T> factors, View<T, Device> v) {
  using U = kernel_scalar_t<T>;
  constexpr int wide = packet_width<U>;
  check_basis(basis.size(), stride, factors.size(), v.size());
  const int columns = checked_cast<int>(factors.size(), "the number of columns");
  const U* const q = kernel_pointer(basis.data());
  U* const x = kernel_pointer(v.data());
  if (are_aligned<wide>(q, stride, x))
    launch_update<wide>(Global(v.size()), q, Global(stride), columns, kernel_pointer(factors.data()), x);
  else
    launch_update<0>(Global(v.size()), q, Global(stride), columns, kernel_pointer(factors.data()), x);
}

#define TACIT_INSTANTIATE(T)                                                                                             \
  template void device_gather<T>(View<const T, Device>, View<const Local, Device>, View<T, Device>, int);                \
  template void device_scatter_add<T>(View<const T, Device>, View<const Local, Device>, View<T, Device>, int, Indices);  \
  template void device_dots<T>(View<const T, Device>, std::size_t, View<const T, Device>, std::span<T>);                 \
  template void device_update<T>(View<const T, Device>, std::size_t, std::span<const T>, View<T, Device>);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)
#undef TACIT_INSTANTIATE

}  // namespace tacit::exec
