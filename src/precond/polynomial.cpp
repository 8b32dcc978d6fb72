#include "polynomial_impl.hpp"

namespace tacit::precond {

template class Polynomial<float, Host>;
template class Polynomial<double, Host>;
template class Polynomial<std::complex<float>, Host>;
template class Polynomial<std::complex<double>, Host>;

}  // namespace tacit::precond
