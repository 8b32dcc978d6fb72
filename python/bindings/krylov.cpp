// Options and reports of tacit::krylov for Python.
#include "bindings.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>

#include <optional>

namespace tacit::python {
namespace {

using krylov::Options;
using krylov::Report;

/// The name of an option that may be absent.
template <class E>
std::optional<std::string> name_of(const std::optional<E>& value) {
  if (!value) return {};
  return krylov::to_string(*value);
}

}  // namespace

void bind_krylov(nb::module_& m) {
  nb::class_<Options>(m, "Options")
      .def(nb::init<>())
      .def_prop_rw(
          "method", [](const Options& o) { return krylov::to_string(o.method); },
          [](Options& o, const std::string& name) { o.method = krylov::method_of(name); })
      .def_prop_rw(
          "side", [](const Options& o) { return krylov::to_string(o.side); },
          [](Options& o, const std::string& name) { o.side = krylov::side_of(name); })
      .def_prop_rw(
          "orthogonalisation", [](const Options& o) { return krylov::to_string(o.orthogonalisation); },
          [](Options& o, const std::string& name) { o.orthogonalisation = krylov::orthogonalisation_of(name); })
      .def_prop_rw(
          "engine", [](const Options& o) { return krylov::to_string(o.engine); },
          [](Options& o, const std::string& name) { o.engine = krylov::engine_of(name); })
      .def_rw("callback_stops", &Options::callback_stops)
      .def_prop_rw(
          "norm", [](const Options& o) { return krylov::to_string(o.norm); },
          [](Options& o, const std::string& name) { o.norm = krylov::norm_of(name); })
      .def_prop_rw(
          "basis", [](const Options& o) { return name_of(o.basis); },
          [](Options& o, const std::string& name) { o.basis = krylov::basis_of(name); })
      .def_prop_rw(
          "block_qr", [](const Options& o) { return name_of(o.block_qr); },
          [](Options& o, const std::string& name) { o.block_qr = krylov::block_qr_of(name); })
      .def_prop_rw(
          "storage", [](const Options& o) { return name_of(o.storage); },
          [](Options& o, const std::string& name) { o.storage = krylov::storage_of(name); })
      .def_prop_rw(
          "powers", [](const Options& o) { return name_of(o.powers); },
          [](Options& o, const std::string& name) { o.powers = krylov::powers_of(name); })
      .def_rw("step", &Options::step, nb::arg().none())
      .def_rw("depth", &Options::depth, nb::arg().none())
      .def_rw("block", &Options::block, nb::arg().none())
      .def_rw("tau", &Options::tau, nb::arg().none())
      .def_rw("replacement", &Options::replacement, nb::arg().none())
      .def_rw("sweeps", &Options::sweeps, nb::arg().none())
      .def_prop_rw(
          "schedule", [](const Options& o) { return op::to_string(o.schedule.how); },
          [](Options& o, const std::string& name) { o.schedule.how = op::schedule_of(name); })
      .def_prop_rw(
          "remote_threads", [](const Options& o) { return o.schedule.remote_threads; },
          [](Options& o, int threads) { o.schedule.remote_threads = threads; })
      .def_prop_rw(
          "job_rows", [](const Options& o) { return o.schedule.job_rows; },
          [](Options& o, int rows) { o.schedule.job_rows = rows; })
      .def_rw("rtol", &Options::rtol)
      .def_rw("atol", &Options::atol)
      .def_rw("max_iterations", &Options::max_iterations, nb::arg().none())
      .def_rw("restart", &Options::restart, nb::arg().none())
      .def_rw("relaxation", &Options::relaxation)
      .def_rw("lambda_min", &Options::lambda_min, nb::arg().none())
      .def_rw("lambda_max", &Options::lambda_max, nb::arg().none())
      .def_rw("divergence", &Options::divergence)
      .def_rw("history", &Options::history)
      .def_rw("fallbacks", &Options::fallbacks);
  m.def("method_names", &krylov::method_names);
  m.def("side_names", &krylov::side_names);
  m.def("orthogonalisation_names", &krylov::orthogonalisation_names);
  m.def("block_qr_names", &krylov::block_qr_names);
  m.def("basis_names", &krylov::basis_names);
  m.def("storage_names", &krylov::storage_names);
  m.def("schedule_names", &op::schedule_names);
  m.def("engine_names", &krylov::engine_names);
  m.def("norm_names", &krylov::norm_names);
  m.def("powers_names", &krylov::powers_names);

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
      .def_prop_ro("history", [](const Report& r) { return array_of(std::vector<double>(r.history)); })
      .def_ro("method", &Report::method)
      .def_ro("precond", &Report::precond)
      .def_ro("seconds", &Report::seconds)
      .def_ro("warnings", &Report::warnings)
      .def_prop_ro("counts", [](const Report& r) {
        nb::dict d;
        d["reductions"] = r.counts.reductions;
        d["operator_applies"] = r.counts.operator_applies;
        d["preconditioner_applies"] = r.counts.preconditioner_applies;
        d["exchanges"] = r.counts.exchanges;
        d["messages"] = r.counts.messages;
        d["bytes"] = r.counts.bytes;
        return d;
      });
}

}  // namespace tacit::python
