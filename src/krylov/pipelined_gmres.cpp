#include "pipelined_gmres_impl.hpp"

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T) template std::unique_ptr<Iteration<T, Host>> make_pipelined_gmres(const Options&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::krylov
