#include "diagnosis_impl.hpp"

#include <complex>

namespace tacit::krylov {

template void diagnose(const Failed<float, Device>&, Report&);
template void diagnose(const Failed<double, Device>&, Report&);
template void diagnose(const Failed<std::complex<float>, Device>&, Report&);
template void diagnose(const Failed<std::complex<double>, Device>&, Report&);

}  // namespace tacit::krylov
