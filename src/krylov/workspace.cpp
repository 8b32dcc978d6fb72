#include "krylov/workspace.hpp"

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T) template class Workspace<T, Host>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
