// Compressed-row products on the device, for the four scalars and all types of offsets and columns.
#include <tacit/base/error.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/op/kernels/csr.hpp>
#include <tacit/op/kernels/device_products.hpp>

namespace tacit::op {
namespace {

template <class U, class Offset, class Column>
struct Operands {
  static constexpr int threads = 256;
  Local rows;
  int columns;
  bool add;
  const Offset* row_begin;
  const Local* row;
  const Column* column;
  const U* value;
  const U* x;
  U* y;

  template <int W, int K>
  void launch() const {
    using Kernel = CsrProduct<U, Offset, Column, W, K, threads>;
    for (int first = 0; first < columns; first += K)
      exec::launch_cuda(Kernel::blocks(rows), Kernel{rows, columns, first, add, row_begin, row, column, value, x, y});
  }
  /// Several columns at once need fewer lanes: a lane has K loads in flight.
  template <int K>
  void launch_block(int lanes) const {
    static_assert(K * sizeof(U) <= 64);
    if (lanes <= 4) launch<4, K>();
    else launch<16, K>();
  }
};

}  // namespace

template <Scalar T, class Offset, class Column>
void device_product(const DeviceCsr<T, Offset, Column>& a, exec::View<const T, Device> x, exec::View<T, Device> y,
                    int columns, Into into) {
  require(a.row_begin.size() > 0, "compressed rows need one offset more than rows, and there is none");
  const Local rows = checked_cast<Local>(a.row_begin.size() - 1, "the number of rows");
  require(columns > 0 && x.size() % columns == 0 && y.size() % columns == 0, "x has ", x.size(), " elements and y ",
          y.size(), ", which is no multiple of ", columns, " columns");
  if (a.row.size() == 0)
    require(y.size() == std::size_t(rows) * columns, rows, " rows with ", columns, " columns: y has ", y.size(),
            " elements");
  else require(a.row.size() == std::size_t(rows), rows, " rows go to ", a.row.size(), " places");
  require(a.value.size() == a.column.size(), "a matrix of ", a.value.size(), " values and ", a.column.size(),
          " columns");
  require(exec::is_aligned<1>(a.value.data()) && exec::is_aligned<1>(x.data()) && exec::is_aligned<1>(y.data()),
          "a product's device arrays start at multiples of ", sizeof(T), " bytes");
  using U = kernel_scalar_t<T>;
  const Operands<U, Offset, Column> on{rows,
                                       columns,
                                       into == Into::add,
                                       a.row_begin.data(),
                                       a.row.size() ? a.row.data() : nullptr,
                                       a.column.data(),
                                       kernel_pointer(a.value.data()),
                                       kernel_pointer(x.data()),
                                       kernel_pointer(y.data())};
  const int lanes = csr_lanes(rows, Global(a.column.size()));
  const bool aligned = exec::is_aligned<exec::packet_width<U>>(on.x);
  if constexpr (sizeof(U) <= 8)
    if (aligned && columns % 8 == 0) return on.template launch_block<8>(lanes);
  if (aligned && columns % 4 == 0) on.template launch_block<4>(lanes);
  else if (aligned && columns % 2 == 0) on.template launch_block<2>(lanes);
  else if (lanes == 1) on.template launch<1, 1>();
  else if (lanes == 2) on.template launch<2, 1>();
  else if (lanes == 4) on.template launch<4, 1>();
  else if (lanes == 8) on.template launch<8, 1>();
  else if (lanes == 16) on.template launch<16, 1>();
  else on.template launch<32, 1>();
}

#define TACIT_INSTANTIATE_AS(T, O, C)                                                                                  \
  template void device_product<T, O, C>(const DeviceCsr<T, O, C>&, exec::View<const T, Device>, exec::View<T, Device>, \
                                        int, Into);
#define TACIT_INSTANTIATE(T)                   \
  TACIT_INSTANTIATE_AS(T, std::int32_t, Local) \
  TACIT_INSTANTIATE_AS(T, std::int64_t, Local) \
  TACIT_INSTANTIATE_AS(T, std::int64_t, std::int16_t)
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
