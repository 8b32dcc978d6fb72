// Compositions of operators in device memory.
#include "compose_impl.hpp"

namespace tacit::op {

#define TACIT_INSTANTIATE(T)           \
  template class ProductOf<T, Device>; \
  template class Sum<T, Device>;       \
  template class Shifted<T, Device>;   \
  template class Adjoint<T, Device>;   \
  template class Transpose<T, Device>;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
