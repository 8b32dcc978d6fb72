#include "pipelined_bicgstab_impl.hpp"

namespace tacit::krylov {
template std::unique_ptr<Iteration<float, Device>> make_pipelined_bicgstab(const Options&);
template std::unique_ptr<Iteration<double, Device>> make_pipelined_bicgstab(const Options&);
template std::unique_ptr<Iteration<std::complex<float>, Device>> make_pipelined_bicgstab(const Options&);
template std::unique_ptr<Iteration<std::complex<double>, Device>> make_pipelined_bicgstab(const Options&);
}  // namespace tacit::krylov
