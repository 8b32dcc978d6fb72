#include "compose_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)         \
  template class ProductOf<T, Host>; \
  template class Sum<T, Host>;       \
  template class Shifted<T, Host>;   \
  template class Adjoint<T, Host>;   \
  template class Transpose<T, Host>; \
  template class Identity<T, Host>;  \
  template class DiagonalScaled<T, Host>;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
