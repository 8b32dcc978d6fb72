#include "ca_cg_impl.hpp"

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T) template std::unique_ptr<Iteration<T, Host>> make_ca_cg<T, Host>(const Options&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::krylov
