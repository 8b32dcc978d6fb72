// tacit::precond for Python: preconditioners by name, as operators.
#include "described.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>

namespace tacit::python {
namespace {

template <Scalar T>
void bind_scalar(nb::module_& m) {
  using Base = op::Operator<T, Host>;
  using release = nb::call_guard<WithoutGil>;
  // The result may refer to the matrix (argument 1), and keeps it.
  m.def(
      named<T>("precondition").c_str(),
      [](const op::Csr<T, Host>& a, const std::string& name, const precond::Options& options) {
        return std::shared_ptr<Base>(
            comm::collective(a.range().comm(), [&] { return precond::make<T, Host>(name, a, options); }));
      },
      release(), nb::keep_alive<0, 1>());
  m.def(
      named<T>("jacobi").c_str(),
      [](const Base& a, bool absolute) {
        return std::shared_ptr<Base>(comm::collective(
            a.range().comm(), [&] { return std::make_shared<precond::Jacobi<T, Host>>(a, absolute); }));
      },
      release());
}

}  // namespace

void bind_precond(nb::module_& m) {
  bind_options<precond::Options>(m, "PrecondOptions", "precond", precond::options(), precond::kinds());
  m.def("precond_is_symmetric", &precond::is_symmetric);
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
