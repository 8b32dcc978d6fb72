#include "support/sweeping_impl.hpp"

namespace tacit::test {
#define TACIT_INSTANTIATE(T) TACIT_INSTANTIATE_SWEEPING(T, Host)
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)
}  // namespace tacit::test
