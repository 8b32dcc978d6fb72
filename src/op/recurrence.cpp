#include "recurrence_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)                                                                              \
  template void extend<T, Host>(const RecurrenceStep<T>&, const Vector<T, Host>*, const Vector<T, Host>&, \
                                Vector<T, Host>&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

#ifndef TACIT_HAVE_CUDA
// A build without CUDA instantiates no operators on the device, but virtual function tables refer to this function.
#define TACIT_INSTANTIATE_NONE(T)                                                                      \
  template <>                                                                                          \
  void extend<T, Device>(const RecurrenceStep<T>&, const Vector<T, Device>*, const Vector<T, Device>&, \
                         Vector<T, Device>&) {                                                         \
    throw Error(ErrorKind::environment, "this Tacit was built without CUDA");                          \
  }
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE_NONE)
#endif

}  // namespace tacit::op
