// SELL-32-sigma products on the device, for the four scalars and both column formats.
#include <tacit/base/error.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/op/kernels/device_products.hpp>
#include "op/kernels/sell.hpp"

#include <type_traits>

namespace tacit::op {

template <Scalar T, class Column>
void device_product(const DeviceSell<T, Column>& a, exec::View<const T, Device> x, exec::View<T, Device> y, int columns,
                    Into into) {
  using U = kernel_scalar_t<T>;
  const std::size_t slices = (std::size_t(a.rows) + device_slice_rows - 1) / device_slice_rows;
  require(a.slice_begin.size() == slices + 1, a.rows, " rows make ", slices, " slices, and there are ",
          a.slice_begin.size(), " offsets");
  require(a.row.size() == 0 || a.row.size() == slices * device_slice_rows, slices, " slices name ", a.row.size(),
          " rows");
  require(columns > 0 && y.size() == std::size_t(a.rows) * columns && x.size() % columns == 0, "a product of ", a.rows,
          " rows with ", columns, " columns: x has ", x.size(), " elements, y ", y.size());
  require(a.value.size() == a.column.size(), "a matrix of ", a.value.size(), " values and ", a.column.size(),
          " columns");
  require(exec::is_aligned<1>(a.value.data()) && exec::is_aligned<1>(x.data()) && exec::is_aligned<1>(y.data()),
          "a product's device arrays start at multiples of ", sizeof(T), " bytes");
  const auto launch = [&]<int K>(std::integral_constant<int, K>) {
    using Kernel = SellProduct<U, Column, device_slice_rows, K, 256>;
    for (int first = 0; first < columns; first += K)
      exec::launch_cuda(
          Kernel::blocks(a.rows),
          Kernel{a.rows, columns, first, into == Into::add, a.slice_begin.data(), a.row.size() ? a.row.data() : nullptr,
                 a.column.data(), kernel_pointer(a.value.data()), kernel_pointer(x.data()), kernel_pointer(y.data())});
  };
  const bool aligned = exec::is_aligned<exec::packet_width<U>>(kernel_pointer(x.data()));
  if constexpr (sizeof(U) <= 8)
    if (aligned && columns % 8 == 0) return launch(std::integral_constant<int, 8>{});
  if (aligned && columns % 4 == 0) launch(std::integral_constant<int, 4>{});
  else if (aligned && columns % 2 == 0) launch(std::integral_constant<int, 2>{});
  else launch(std::integral_constant<int, 1>{});
}

#define TACIT_INSTANTIATE_AS(T, C)                                                                                     \
  template void device_product<T, C>(const DeviceSell<T, C>&, exec::View<const T, Device>, exec::View<T, Device>, int, \
                                     Into);
#define TACIT_INSTANTIATE(T)     \
  TACIT_INSTANTIATE_AS(T, Local) \
  TACIT_INSTANTIATE_AS(T, std::int16_t)
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
