// tacit::krylov for Python: options in, report out, a callback in between.
#include "bindings.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/base/trace.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/make.hpp>

#include <functional>
#include <optional>

namespace tacit::python {
namespace {

using krylov::Options;
using krylov::Report;
using layout::Vector;

/// What a callback is given; `solution` makes this rank's part of x_k as long as the callback runs.
struct CallbackState {
  int iteration;
  double residual_norm;
  std::function<nb::object()> solution;
};

template <Scalar T>
std::function<bool(const krylov::State&)> trampoline(int ranks, Local n, nb::handle callback) {
  return [=](const krylov::State& s) {
    return call_python(ranks, [&] {
      nb::object state = nb::cast(CallbackState{s.iteration, s.residual_norm, [&s, n] {
        std::vector<T> x(n);
        {
          WithoutGil free;
          s.solution(x.data());
        }
        return array_of(std::move(x));
      }});
      auto* const held = nb::inst_ptr<CallbackState>(state);
      struct Ends {
        CallbackState* state;
        ~Ends() { state->solution = nullptr; }
      } ends{held};
      return nb::cast<bool>(callback(state));
    });
  };
}

/// The name of an option that may be absent.
template <class E>
std::optional<std::string> name_of(const std::optional<E>& value) {
  if (!value) return {};
  return krylov::to_string(*value);
}

template <Scalar T>
void bind_scalar(nb::module_& m) {
  using Base = op::Operator<T, Host>;
  // (this rank's part of x, report)
  m.def(named<T>("solve").c_str(),
        [](const Base& a, const Base* precond, const Elements<T>& b, std::optional<Elements<T>> x0, Options options,
           nb::object callback, bool hermitian) {
          std::unique_ptr<Vector<T>> x;
          Report report;
          {
            WithoutGil free;
            const auto& comm = a.range().comm();
            x = comm::collective(comm, [&] {
              auto solution = std::make_unique<Vector<T>>(a.domain());
              if (x0) solution->assign({x0->data(), x0->size()});
              Vector<T> right(a.range());
              right.assign({b.data(), b.size()});
              if (!callback.is_none()) options.callback = trampoline<T>(comm.size(), a.domain().local_size(), callback);
              report = krylov::solve<T, Host>(a, precond, right, *solution, options, hermitian);
              return solution;
            });
          }
          const std::size_t n = x->size();
          return nb::make_tuple(array_of<T>(std::move(*x), n), std::move(report));
        },
        nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg());
#ifdef TACIT_HAVE_CUDA
  // The same in the memory of the GPU, with a preconditioner by name: (x, report, seconds to bring the matrix there).
  m.def(named<T>("solve_cuda").c_str(),
        [](const op::Csr<T, Host>& host, const std::string& name, const precond::Options& precond_options,
           const Elements<T>& b, std::optional<Elements<T>> x0, Options options, nb::object callback, bool hermitian) {
          std::vector<T> x;
          Report report;
          double setup = 0;
          {
            WithoutGil free;
            const auto& comm = host.range().comm();
            comm::collective(comm, [&] {
              const double from = wall_time();
              const op::Csr<T, Device> a(host.range(), host.domain(), host.rows());
              const auto precond = precond::make<T, Device>(name, a, precond_options);
              Vector<T, Device> right(a.range()), solution(a.domain());
              right.assign({b.data(), b.size()});
              if (x0) solution.assign({x0->data(), x0->size()});
              setup = comm.all_max(wall_time() - from);
              if (!callback.is_none()) options.callback = trampoline<T>(comm.size(), host.domain().local_size(), callback);
              report = krylov::solve<T, Device>(a, precond.get(), right, solution, options, hermitian);
              x = solution.to_host();
            });
          }
          return nb::make_tuple(array_of(std::move(x)), std::move(report), setup);
        },
        nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg());
#endif
}

}  // namespace

void bind_krylov(nb::module_& m) {
  nb::class_<CallbackState>(m, "CallbackState")
      .def_ro("iteration", &CallbackState::iteration)
      .def_ro("residual_norm", &CallbackState::residual_norm)
      .def("solution", [](const CallbackState& s) {
        require(bool(s.solution), "state.x can be asked for only while the callback runs; copy what is needed later");
        return s.solution();
      });

  nb::class_<Options>(m, "Options")
      .def(nb::init<>())
      .def_prop_rw("method", [](const Options& o) { return krylov::to_string(o.method); },
                   [](Options& o, const std::string& name) { o.method = krylov::method_of(name); })
      .def_prop_rw("side", [](const Options& o) { return krylov::to_string(o.side); },
                   [](Options& o, const std::string& name) { o.side = krylov::side_of(name); })
      .def_prop_rw("orthogonalisation", [](const Options& o) { return krylov::to_string(o.orthogonalisation); },
                   [](Options& o, const std::string& name) { o.orthogonalisation = krylov::orthogonalisation_of(name); })
      .def_prop_rw("engine", [](const Options& o) { return krylov::to_string(o.engine); },
                   [](Options& o, const std::string& name) { o.engine = krylov::engine_of(name); })
      .def_rw("callback_stops", &Options::callback_stops)
      .def_prop_rw("norm", [](const Options& o) { return krylov::to_string(o.norm); },
                   [](Options& o, const std::string& name) { o.norm = krylov::norm_of(name); })
      .def_prop_rw("basis", [](const Options& o) { return name_of(o.basis); },
                   [](Options& o, const std::string& name) { o.basis = krylov::basis_of(name); })
      .def_prop_rw("block_qr", [](const Options& o) { return name_of(o.block_qr); },
                   [](Options& o, const std::string& name) { o.block_qr = krylov::block_qr_of(name); })
      .def_prop_rw("storage", [](const Options& o) { return name_of(o.storage); },
                   [](Options& o, const std::string& name) { o.storage = krylov::storage_of(name); })
      .def_prop_rw("powers", [](const Options& o) { return name_of(o.powers); },
                   [](Options& o, const std::string& name) { o.powers = krylov::powers_of(name); })
      .def_rw("step", &Options::step, nb::arg().none())
      .def_rw("depth", &Options::depth, nb::arg().none())
      .def_rw("block", &Options::block, nb::arg().none())
      .def_rw("tau", &Options::tau, nb::arg().none())
      .def_rw("replacement", &Options::replacement, nb::arg().none())
      .def_rw("sweeps", &Options::sweeps, nb::arg().none())
      .def_prop_rw("schedule", [](const Options& o) { return op::to_string(o.schedule.how); },
                   [](Options& o, const std::string& name) { o.schedule.how = op::schedule_of(name); })
      .def_prop_rw("remote_threads", [](const Options& o) { return o.schedule.remote_threads; },
                   [](Options& o, int threads) { o.schedule.remote_threads = threads; })
      .def_prop_rw("job_rows", [](const Options& o) { return o.schedule.job_rows; },
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
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
