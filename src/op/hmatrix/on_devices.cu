#include "../recurrence_impl.hpp"
#include "on_devices.hpp"

#include <tacit/exec/cuda.hpp>

namespace tacit::op {

#define TACIT_INSTANTIATE(T)                                                              \
  template class HMatrixOnDevices<T, Device>;                                             \
  template void extend(const RecurrenceStep<T>&, const layout::Vector<T, Group<Device>>*, \
                       const layout::Vector<T, Group<Device>>&, layout::Vector<T, Group<Device>>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)

}  // namespace tacit::op
