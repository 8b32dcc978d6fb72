#include "jacobi_impl.hpp"

namespace tacit::precond {

template class Jacobi<float, Host>;
template class Jacobi<double, Host>;
template class Jacobi<std::complex<float>, Host>;
template class Jacobi<std::complex<double>, Host>;

}  // namespace tacit::precond
