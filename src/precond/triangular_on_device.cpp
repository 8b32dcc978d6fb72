#include "triangular_on_device_impl.hpp"

namespace tacit::precond {

template class TriangularOnDevice<float, Host>;
template class TriangularOnDevice<double, Host>;
template class TriangularOnDevice<std::complex<float>, Host>;
template class TriangularOnDevice<std::complex<double>, Host>;

}  // namespace tacit::precond
