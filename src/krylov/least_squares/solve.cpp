#include "solve_impl.hpp"

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T)                                                                                     \
  template LeastSquaresReport least_squares<T, Host>(const op::Operator<T, Host>&, const op::Operator<T, Host>*, \
                                                     const layout::Vector<T, Host>&, layout::Vector<T, Host>&,   \
                                                     const LeastSquaresOptions&, layout::Vector<T, Host>*);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
