#include "support/sweeping_impl.hpp"

namespace tacit::test {
TACIT_INSTANTIATE_SWEEPING(float, Host)
TACIT_INSTANTIATE_SWEEPING(double, Host)
TACIT_INSTANTIATE_SWEEPING(std::complex<float>, Host)
TACIT_INSTANTIATE_SWEEPING(std::complex<double>, Host)
}  // namespace tacit::test
