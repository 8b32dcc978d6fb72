#include "solve_impl.hpp"

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T)                                                                                           \
  template Report solve<T, Device>(const op::Operator<T, Device>&, const op::Operator<T, Device>*,                     \
                                   const layout::Vector<T, Device>&, layout::Vector<T, Device>&, const Options&, bool, \
                                   const NullSpace<T, Device>*);                                                       \
  template Report solve_part<T, Device>(const op::Operator<T, Device>&, const op::Operator<T, Device>*,                \
                                        const layout::Vector<T, Device>&, layout::Vector<T, Device>&, const Options&,  \
                                        const Role&, bool, const NullSpace<T, Device>*);
TACIT_EACH_SCALAR(Device, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
