#include "pipelined_cg_impl.hpp"

namespace tacit::krylov {

TACIT_CLASSICAL(extern, Device)

template std::unique_ptr<Iteration<float, Device>> make_pipelined_cg(const Options&);
template std::unique_ptr<Iteration<double, Device>> make_pipelined_cg(const Options&);
template std::unique_ptr<Iteration<std::complex<float>, Device>> make_pipelined_cg(const Options&);
template std::unique_ptr<Iteration<std::complex<double>, Device>> make_pipelined_cg(const Options&);
}  // namespace tacit::krylov
