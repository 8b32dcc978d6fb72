#include "diagnosis_impl.hpp"

#include <complex>

namespace tacit::krylov {

template void diagnose(const Failed<float, Host>&, Report&);
template void diagnose(const Failed<double, Host>&, Report&);
template void diagnose(const Failed<std::complex<float>, Host>&, Report&);
template void diagnose(const Failed<std::complex<double>, Host>&, Report&);

}  // namespace tacit::krylov
