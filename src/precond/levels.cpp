#include "levels_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T) template class Levels<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
