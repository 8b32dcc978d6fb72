#include "spai_impl.hpp"

namespace tacit::precond {

template class Spai<float, Host>;
template class Spai<double, Host>;
template class Spai<std::complex<float>, Host>;
template class Spai<std::complex<double>, Host>;

}  // namespace tacit::precond
