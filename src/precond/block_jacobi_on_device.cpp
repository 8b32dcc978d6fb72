#include "block_jacobi_on_device_impl.hpp"

namespace tacit::precond {

template class BlockJacobiOnDevice<float, Host>;
template class BlockJacobiOnDevice<double, Host>;
template class BlockJacobiOnDevice<std::complex<float>, Host>;
template class BlockJacobiOnDevice<std::complex<double>, Host>;

}  // namespace tacit::precond
