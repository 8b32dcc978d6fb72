#include "ca_gmres_impl.hpp"

namespace tacit::krylov {
template std::unique_ptr<Iteration<float, Host>> make_ca_gmres(const Options&);
template std::unique_ptr<Iteration<double, Host>> make_ca_gmres(const Options&);
template std::unique_ptr<Iteration<std::complex<float>, Host>> make_ca_gmres(const Options&);
template std::unique_ptr<Iteration<std::complex<double>, Host>> make_ca_gmres(const Options&);
}  // namespace tacit::krylov
