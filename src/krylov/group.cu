#include "diagnosis/diagnosis_impl.hpp"
#include "methods/bicgstab.hpp"
#include "methods/pipelined_bicgstab.hpp"
#include "solve_impl.hpp"

#include <tacit/exec/group.hpp>

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T)                                                                                        \
  template Report solve(const op::Operator<T, Group<Device>>&, const op::Operator<T, Group<Device>>*,               \
                        const layout::Vector<T, Group<Device>>&, layout::Vector<T, Group<Device>>&, const Options&, \
                        bool, const NullSpace<T, Group<Device>>*);                                                  \
  template Report solve_part(const op::Operator<T, Group<Device>>&, const op::Operator<T, Group<Device>>*,          \
                             const layout::Vector<T, Group<Device>>&, layout::Vector<T, Group<Device>>&,            \
                             const Options&, const Role&, bool, const NullSpace<T, Group<Device>>*);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)

}  // namespace tacit::krylov
