#include "ca_gmres_impl.hpp"

namespace tacit::krylov {
template std::unique_ptr<Iteration<float, Device>> make_ca_gmres(const Options&);
template std::unique_ptr<Iteration<double, Device>> make_ca_gmres(const Options&);
template std::unique_ptr<Iteration<std::complex<float>, Device>> make_ca_gmres(const Options&);
template std::unique_ptr<Iteration<std::complex<double>, Device>> make_ca_gmres(const Options&);
}  // namespace tacit::krylov
