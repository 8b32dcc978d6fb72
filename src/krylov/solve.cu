#include "solve_impl.hpp"

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T)                                                                                           \
  template Report solve<T, Device>(const op::Operator<T, Device>&, const op::Operator<T, Device>*,                     \
                                   const layout::Vector<T, Device>&, layout::Vector<T, Device>&, const Options&, bool, \
                                   const NullSpace<T, Device>*);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::krylov
