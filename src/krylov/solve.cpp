#include "columns_impl.hpp"

#include <tacit/krylov/repeated.hpp>

namespace tacit::krylov {

template <Scalar T>
struct Repeated<T>::Parts {
  std::shared_ptr<const op::Operator<T, Host>> A;
  Options options;
  bool hermitian;
  Kept<T, Host> kept{};
};

template <Scalar T>
Repeated<T>::Repeated(std::shared_ptr<const op::Operator<T, Host>> A, Options options, bool hermitian)
    : parts_(std::make_unique<Parts>(Parts{std::move(A), std::move(options), hermitian})) {
  auto& p = *parts_;
  require(p.A->range() == p.A->domain(), "solves with a matrix of ", p.A->range().size(), " x ", p.A->domain().size());
  check(p.options);
  p.options.explain = false;
}
template <Scalar T>
Repeated<T>::~Repeated() = default;
template <Scalar T>
Repeated<T>::Repeated(Repeated&&) noexcept = default;
template <Scalar T>
const Options& Repeated<T>::options() const {
  return parts_->options;
}

template <Scalar T>
Report Repeated<T>::solve(const Vector<T, Host>& b, Vector<T, Host>& x) {
  auto& p = *parts_;
  const auto& comm = p.A->range().comm();
  const auto run = [&] {
    require(b.space() == p.A->range() && x.space() == p.A->domain() && b.columns() == 1 && x.columns() == 1,
            "solves take one right-hand side of ", p.A->range().size(), " elements; b has ", b.space().size(), " and ",
            b.columns(), " columns");
    layout::fill(x, T(0));
    const Role role{.alone = false};
    return Solve<T, Host>(*p.A, nullptr, b, x, p.options, role, p.hermitian, nullptr, nullptr, &p.kept).run();
  };
  return comm.in_call() ? run() : comm::collective(comm, run);
}

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
  template class Repeated<T>;                                                                                       \
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
