#include <tacit/op/operator.hpp>

namespace tacit::op {

#define TACIT_INSTANTIATE(T)       \
  template class Product<T, Host>; \
  template class Operator<T, Host>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
