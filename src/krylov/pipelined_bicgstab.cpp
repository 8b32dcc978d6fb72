#include "pipelined_bicgstab_impl.hpp"

namespace tacit::krylov {
template std::unique_ptr<Iteration<float, Host>> make_pipelined_bicgstab(const Options&);
template std::unique_ptr<Iteration<double, Host>> make_pipelined_bicgstab(const Options&);
template std::unique_ptr<Iteration<std::complex<float>, Host>> make_pipelined_bicgstab(const Options&);
template std::unique_ptr<Iteration<std::complex<double>, Host>> make_pipelined_bicgstab(const Options&);
}  // namespace tacit::krylov
