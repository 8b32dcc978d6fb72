// Options and reports of tacit::krylov for Python.
#include "described.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/krylov/columns.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/krylov/rules.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/krylov/traits.hpp>

namespace tacit::python {
using krylov::Options;
using krylov::Report;

namespace {
nb::dict dict_of_counts(const Report::Counts& c) {
  return dict_of("reductions", c.reductions, "operator_applies", c.operator_applies, "preconditioner_applies",
                 c.preconditioner_applies, "exchanges", c.exchanges, "messages", c.messages, "bytes", c.bytes);
}
}  // namespace

void bind_krylov(nb::module_& m) {
  bind_options<Options>(m, "Options", "solve", krylov::options(), krylov::methods())
      .def(nb::init<const Options&>())
      .def_prop_rw(
          "method", [](const Options& o) { return to_string(o.method); },
          [](Options& o, const std::string& name) { o.method = value_of<krylov::Method>(name); })
      .def_rw("callback_stops", &Options::callback_stops);
  m.def("check_solve", &krylov::check);
  m.def("plan_table", &krylov::plan_table);
  m.def("plan_rows", [] {
    nb::list rows;
    for (const auto& row : krylov::plan_rows())
      rows.append(dict_of("after", row.after, "when", row.when, "then", row.then));
    return rows;
  });
  m.def("default_rtol", [](const std::string& scalar) {
    const bool is_single = scalar == "float32" || scalar == "complex64";
    return is_single ? krylov::default_rtol<float>() : krylov::default_rtol<double>();
  });
  m.def("needs_hermitian",
        [](const std::string& name) { return krylov::needs_hermitian(value_of<krylov::Method>(name)); });
  m.def("needs_factors",
        [](const std::string& name) { return krylov::traits_of(value_of<krylov::Method>(name)).needs_factors; });

  nb::class_<Report>(m, "Report")
      .def_prop_ro("reason", [](const Report& r) { return krylov::to_string(r.reason); })
      .def_ro("detail", &Report::detail)
      .def_ro("advice", &Report::advice)
      .def_prop_ro("converged", &Report::converged)
      .def_ro("iterations", &Report::iterations)
      .def_ro("restarts", &Report::restarts)
      .def_ro("residual_norm", &Report::residual_norm)
      .def_ro("norm", &Report::norm)
      .def_ro("recurrence_residual_norm", &Report::recurrence_residual_norm)
      .def_ro("b_norm", &Report::b_norm)
      .def_ro("projected_norm", &Report::projected_norm)
      .def_prop_ro("history", [](const Report& r) { return array_of(std::vector<double>(r.history)); })
      .def_ro("method", &Report::method)
      .def_ro("precond", &Report::precond)
      .def_ro("choice", &Report::choice)
      .def_ro("seconds", &Report::seconds)
      .def_ro("explain_seconds", &Report::explain_seconds)
      .def_ro("warnings", &Report::warnings)
      .def_prop_ro("counts", [](const Report& r) { return dict_of_counts(r.counts); });

  using krylov::ColumnReports;
  nb::class_<ColumnReports>(m, "ColumnReports")
      .def_ro("columns", &ColumnReports::columns)
      .def_prop_ro("counts", [](const ColumnReports& r) { return dict_of_counts(r.counts); })
      .def_ro("seconds", &ColumnReports::seconds)
      .def_ro("explain_seconds", &ColumnReports::explain_seconds)
      .def_ro("together", &ColumnReports::together)
      .def_ro("alone", &ColumnReports::alone);
}

}  // namespace tacit::python
