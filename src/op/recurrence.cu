#include "recurrence_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)                                                                                    \
  template void extend<T, Device>(const RecurrenceStep<T>&, const Vector<T, Device>*, const Vector<T, Device>&, \
                                  Vector<T, Device>&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
