#include "diagnosis_impl.hpp"

#include <complex>

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T) template void diagnose(const Failed<T, Device>&, Report&);
TACIT_EACH_SCALAR(Device, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
