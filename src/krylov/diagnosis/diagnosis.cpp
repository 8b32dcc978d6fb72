#include "diagnosis_impl.hpp"

#include <complex>

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T) template void diagnose(const Failed<T, Host>&, Report&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
