#include "recurrence_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)                                                                                    \
  template void extend<T, Device>(const RecurrenceStep<T>&, const Vector<T, Device>*, const Vector<T, Device>&, \
                                  Vector<T, Device>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::op
