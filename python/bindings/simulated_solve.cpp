// Solves on simulated ranks for Python: a matrix of one rank in, its solution on many out, and their clocks.
#include "described.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/base/trace.hpp>
#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/rates.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace tacit::python {
namespace {

using comm::MachineModel;
using comm::SimulatedTimes;

template <Scalar T>
void bind_scalar(nb::module_& m) {
  // (x, report, times) of the solve; the set-up before it takes no simulated time.
  m.def(named<T>("simulate_solve").c_str(),
        [](const op::Csr<T, Host>& a, const Elements<T>& b, int ranks, const MachineModel& machine,
           const std::string& precond, const precond::Options& precond_options, const krylov::Options& options,
           bool hermitian, bool trace) {
          std::vector<T> x(b.size());
          krylov::Report report;
          SimulatedTimes times;
          unlocked([&] {
            require(a.range().comm().size() == 1 && a.range() == a.domain() && a.range().size() == Global(b.size()),
                    "a simulated solve starts from a square matrix on one rank, and as many values");
            const op::Rows<T> all = [&] {
              const comm::Turn turn(a.range().comm());
              return a.rows();
            }();
            comm::simulate(ranks, machine, [&](const comm::Communicator& comm) {
              const auto space = layout::Space::distributed(comm, a.range().size());
              const auto begin = space.begin(), end = space.end();
              const auto first = all.start[std::size_t(begin)], last = all.start[std::size_t(end)];
              op::Rows<T> rows;
              rows.start.resize(std::size_t(end - begin) + 1);
              for (Global i = begin; i <= end; ++i)
                rows.start[std::size_t(i - begin)] = all.start[std::size_t(i)] - first;
              rows.column.assign(all.column.begin() + first, all.column.begin() + last);
              rows.value.assign(all.value.begin() + first, all.value.begin() + last);
              const op::Csr<T, Host> A(space, space, std::move(rows));
              const auto P = precond::make<T, Host>(precond, A, precond_options);
              layout::Vector<T, Host> right(space), solution(space);
              right.assign({b.data() + begin, std::size_t(end - begin)});
              comm::restart_clocks(comm);
              if (trace) Trace::start();
              std::optional<SimulatedTimes> spent;
              // What explains a failure is no part of the solve.
              const auto stop = [&] {
                spent = comm::read_clocks(comm);
                if (trace) Trace::stop();
              };
              krylov::Options own = options;
              own.before_explaining = stop;
              auto mine = krylov::solve<T, Host>(A, P.get(), right, solution, own, hermitian);
              if (!spent) stop();
              std::copy_n(solution.data(), solution.size(), x.data() + begin);
              if (comm.rank() == 0) report = std::move(mine), times = std::move(*spent);
            });
          });
          return nb::make_tuple(array_of(std::move(x)), std::move(report), std::move(times));
        });
}

}  // namespace

void bind_simulate(nb::module_& m) {
  bind_options<MachineModel::Level>(m, "MachineLevel", "machine_level", comm::level_options());
  bind_options<MachineModel>(m, "MachineModel", "machine", comm::machine_options())
      .def_rw("levels", &MachineModel::levels)
      .def("describe", &MachineModel::describe)
      .def("check", &MachineModel::check);
  m.def("machine_model", [](const std::string& name) { return MachineModel::named(name); });
  m.def("machine_names", &MachineModel::names);
  m.def("measure_model", [](const comm::Communicator& comm) {
    return unlocked([&] {
      return comm::collective(comm, [&] { return comm::measure_machine(comm, model::measure_rates(comm)); });
    });
  });

  nb::class_<SimulatedTimes>(m, "SimulatedTimes")
      .def_ro("finish", &SimulatedTimes::finish)
      .def_ro("messages", &SimulatedTimes::messages)
      .def_ro("bytes", &SimulatedTimes::bytes)
      // (name, whether a kernel, seconds, count)
      .def_prop_ro("phases", [](const SimulatedTimes& t) {
        std::vector<std::tuple<std::string, bool, double, double>> phases;
        for (const auto& p : t.phases) phases.emplace_back(p.name, p.kernel, p.seconds, p.count);
        return phases;
      });
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
