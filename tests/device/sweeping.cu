#include "support/sweeping_impl.hpp"

namespace tacit::test {
TACIT_INSTANTIATE_SWEEPING(float, Device)
TACIT_INSTANTIATE_SWEEPING(double, Device)
TACIT_INSTANTIATE_SWEEPING(std::complex<float>, Device)
TACIT_INSTANTIATE_SWEEPING(std::complex<double>, Device)
}  // namespace tacit::test
