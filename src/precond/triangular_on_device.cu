#include "triangular_on_device_impl.hpp"

namespace tacit::precond {

template class TriangularOnDevice<float, Device>;
template class TriangularOnDevice<double, Device>;
template class TriangularOnDevice<std::complex<float>, Device>;
template class TriangularOnDevice<std::complex<double>, Device>;

}  // namespace tacit::precond
