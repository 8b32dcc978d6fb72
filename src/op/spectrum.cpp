#include "spectrum_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)                                                                                 \
  template Spectrum estimate_spectrum<T, Host>(const Operator<T, Host>&, const Operator<T, Host>*, int,      \
                                               const std::function<void(Vector<T, Host>&)>&);                \
  template Spectrum spectrum_until<T, Host>(double, const Operator<T, Host>&, const Operator<T, Host>*, int, \
                                            const std::function<void(Vector<T, Host>&)>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
