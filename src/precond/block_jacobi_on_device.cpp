#include "block_jacobi_on_device_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T) template class BlockJacobiOnDevice<T, Host>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
