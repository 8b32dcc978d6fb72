#include "on_device_impl.hpp"

namespace tacit::precond {

template class AmgOnDevice<float, Device>;
template class AmgOnDevice<double, Device>;
template class AmgOnDevice<std::complex<float>, Device>;
template class AmgOnDevice<std::complex<double>, Device>;

}  // namespace tacit::precond
