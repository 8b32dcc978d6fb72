#include "triangular_on_device_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T) template class TriangularOnDevice<T, Host>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
