#include "jacobi_on_group_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T)                                                              \
  template std::shared_ptr<op::Operator<T, Group<Device>>> make_jacobi<T, Group<Device>>( \
      const op::Operator<T, Group<Device>>&, bool);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)

}  // namespace tacit::precond
