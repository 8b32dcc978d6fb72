#include "pipelined_cg_impl.hpp"

namespace tacit::krylov {

TACIT_CLASSICAL(extern, Host)

template std::unique_ptr<Iteration<float, Host>> make_pipelined_cg(const Options&);
template std::unique_ptr<Iteration<double, Host>> make_pipelined_cg(const Options&);
template std::unique_ptr<Iteration<std::complex<float>, Host>> make_pipelined_cg(const Options&);
template std::unique_ptr<Iteration<std::complex<double>, Host>> make_pipelined_cg(const Options&);
}  // namespace tacit::krylov
