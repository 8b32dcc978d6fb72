#include "on_device_impl.hpp"

namespace tacit::precond {

template class AmgOnDevice<float, Host>;
template class AmgOnDevice<double, Host>;
template class AmgOnDevice<std::complex<float>, Host>;
template class AmgOnDevice<std::complex<double>, Host>;

}  // namespace tacit::precond
