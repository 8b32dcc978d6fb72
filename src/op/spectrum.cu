#include "spectrum_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)                                                                                  \
  template Spectrum estimate_spectrum<T, Device>(const Operator<T, Device>&, const Operator<T, Device>*, int, \
                                                 const std::function<void(Vector<T, Device>&)>&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
