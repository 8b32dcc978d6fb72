#include "columns_impl.hpp"

namespace tacit::krylov {

template <Scalar T>
double norm_in_range(const op::Operator<T, Host>& A, const Vector<T, Host>& b, Norm norm,
                     const NullSpace<T, Host>& null_space) {
  Options options;
  options.norm = norm;
  Vector<T, Host> x(A.domain());
  System<T, Host> system(A, nullptr, b, x, options, &null_space);
  if (!system.fault().empty()) return 0;
  Report report;
  system.enter_null_space(report);
  return system.length(system.b());
}

template <Scalar T>
double residual_of(const op::Operator<T, Host>& A, const Vector<T, Host>& b, Vector<T, Host>& x, const Options& options,
                   const NullSpace<T, Host>* null_space) {
  return Solve<T, Host>(A, nullptr, b, x, options, {}, false, null_space).residual();
}

template <Scalar T>
Cause cause_of_failure(const op::Operator<T, Host>& A, const Vector<T, Host>& b, Vector<T, Host>& x,
                       const Options& options, const Role& role, const Effort& effort,
                       const NullSpace<T, Host>* null_space) {
  return Solve<T, Host>(A, nullptr, b, x, options, role, false, null_space).cause(effort);
}

#define TACIT_INSTANTIATE(T)                                                                                        \
  template Report solve<T, Host>(const op::Operator<T, Host>&, const op::Operator<T, Host>*,                        \
                                 const layout::Vector<T, Host>&, layout::Vector<T, Host>&, const Options&, bool,    \
                                 const NullSpace<T, Host>*);                                                        \
  template Report solve_part<T, Host>(const op::Operator<T, Host>&, const op::Operator<T, Host>*,                   \
                                      const layout::Vector<T, Host>&, layout::Vector<T, Host>&, const Options&,     \
                                      const Role&, bool, const NullSpace<T, Host>*);                                \
  template double norm_in_range<T>(const op::Operator<T, Host>&, const layout::Vector<T, Host>&, Norm,              \
                                   const NullSpace<T, Host>&);                                                      \
  template double residual_of<T>(const op::Operator<T, Host>&, const layout::Vector<T, Host>&,                      \
                                 layout::Vector<T, Host>&, const Options&, const NullSpace<T, Host>*);              \
  template Cause cause_of_failure<T>(const op::Operator<T, Host>&, const layout::Vector<T, Host>&,                  \
                                     layout::Vector<T, Host>&, const Options&, const Role&, const Effort&,          \
                                     const NullSpace<T, Host>*);                                                    \
  template ColumnReports solve_columns<T>(const op::Operator<T, Host>&, const op::Operator<T, Host>*,               \
                                          const layout::Vector<T, Host>&, layout::Vector<T, Host>&, const Options&, \
                                          bool, const NullSpace<T, Host>*);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
