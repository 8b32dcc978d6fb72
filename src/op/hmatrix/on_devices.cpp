#include "on_devices.hpp"
#include "../recurrence_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)                                                            \
  template class HMatrixOnDevices<T, Host>;                                             \
  template void extend(const RecurrenceStep<T>&, const layout::Vector<T, Group<Host>>*, \
                       const layout::Vector<T, Group<Host>>&, layout::Vector<T, Group<Host>>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)

}  // namespace tacit::op
