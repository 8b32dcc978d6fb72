#include "support/sweeping_impl.hpp"

namespace tacit::test {
#define TACIT_INSTANTIATE(T) TACIT_INSTANTIATE_SWEEPING(T, Device)
TACIT_EACH_SCALAR(Device, TACIT_INSTANTIATE)
}  // namespace tacit::test
