#include "polynomial_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T) template class Polynomial<T, Host>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
