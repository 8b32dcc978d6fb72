#include "jacobi_on_group_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T)                                                          \
  template std::shared_ptr<op::Operator<T, Group<Host>>> make_jacobi<T, Group<Host>>( \
      const op::Operator<T, Group<Host>>&, bool);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)

}  // namespace tacit::precond
