// Least-squares solves for Python, and the preconditioner that is theirs.
#include "callback.hpp"
#include "described.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/krylov/least_squares.hpp>
#include <tacit/precond/column_scaling.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace tacit::python {
namespace {

using krylov::LeastSquaresOptions;
using krylov::LeastSquaresReport;
using layout::Vector;

/// (this rank's part of x, report, the variance or None). Collective.
template <Scalar T>
nb::tuple least_squares(const op::Operator<T, Host>& a, const op::Operator<T, Host>* precond, const Elements<T>& b,
                        const std::optional<Elements<T>>& x0, LeastSquaresOptions options, const nb::object& callback,
                        bool with_variance) {
  LeastSquaresReport report;
  const auto& comm = a.range().comm();
  std::optional<Vector<T>> variance;
  auto x = together(comm, (precond ? precond : &a)->range().comm(), [&] {
    auto solution = std::make_unique<Vector<T>>(a.domain());
    if (x0) solution->assign({x0->data(), x0->size()});
    Vector<T> right(a.range());
    right.assign({b.data(), b.size()});
    if (with_variance) variance.emplace(a.domain());
    if (!callback.is_none()) options.callback = trampoline<T>(comm.size(), a.domain().local_size(), callback);
    report = krylov::least_squares<T, Host>(a, precond, right, *solution, options, variance ? &*variance : nullptr);
    return solution;
  });
  const std::size_t n = x->size();
  nb::object spread = variance ? array_of<T>(std::move(*variance), n) : nb::none();
  return nb::make_tuple(array_of<T>(std::move(*x), n), std::move(report), spread);
}

template <Scalar T>
void bind_scalar(nb::module_& m) {
  m.def(named<T>("least_squares").c_str(), &least_squares<T>, nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(),
        nb::arg(), nb::arg().none(), nb::arg());
  m.def(named<T>("column_scaling").c_str(), [](const op::Csr<T, Host>& a, double damp) {
    return together(a.range().comm(),
                    [&] { return std::shared_ptr<op::Operator<T, Host>>(precond::column_scaling<T>(a, damp)); });
  });
}

}  // namespace

void bind_least_squares(nb::module_& m) {
  bind_options<LeastSquaresOptions>(m, "LeastSquaresOptions", "least_squares", krylov::least_squares_options(),
                                    krylov::least_squares_methods())
      .def_prop_rw(
          "method", [](const LeastSquaresOptions& o) { return to_string(o.method); },
          [](LeastSquaresOptions& o, const std::string& name) {
            o.method = value_of<krylov::LeastSquaresMethod>(name);
          })
      .def_rw("callback_stops", &LeastSquaresOptions::callback_stops);
  m.def("check_least_squares", [](const LeastSquaresOptions& o) { krylov::check(o); });
  nb::class_<LeastSquaresReport, krylov::Report>(m, "LeastSquaresReport")
      .def_prop_ro("met", [](const LeastSquaresReport& r) { return to_string(r.met); })
      .def_prop_ro("ending", [](const LeastSquaresReport& r) { return to_string(r.ending); })
      .def_ro("gradient_norm", &LeastSquaresReport::gradient_norm)
      .def_ro("residual", &LeastSquaresReport::residual)
      .def_ro("damped_residual", &LeastSquaresReport::damped_residual)
      .def_ro("gradient", &LeastSquaresReport::gradient)
      .def_ro("solution", &LeastSquaresReport::solution)
      .def_ro("matrix_norm", &LeastSquaresReport::matrix_norm)
      .def_ro("frobenius_norm", &LeastSquaresReport::frobenius_norm)
      .def_ro("condition", &LeastSquaresReport::condition)
      .def_prop_ro("gradient_history",
                   [](const LeastSquaresReport& r) { return array_of(std::vector<double>(r.gradient_history)); });
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
