#include "columns_impl.hpp"

namespace tacit::krylov {

#define TACIT_INSTANTIATE(T)                                                                                        \
  template Report solve<T, Host>(const op::Operator<T, Host>&, const op::Operator<T, Host>*,                        \
                                 const layout::Vector<T, Host>&, layout::Vector<T, Host>&, const Options&, bool,    \
                                 const NullSpace<T, Host>*);                                                        \
  template ColumnReports solve_columns<T>(const op::Operator<T, Host>&, const op::Operator<T, Host>*,               \
                                          const layout::Vector<T, Host>&, layout::Vector<T, Host>&, const Options&, \
                                          bool, const NullSpace<T, Host>*);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
