// Solves on simulated ranks for Python: an operator that is made on many ranks, its solution, and their clocks.
#include "described.hpp"
#include "on_ranks.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/base/trace.hpp>
#include <tacit/comm/replay.hpp>
#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/columns.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/rates.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/hmatrix/request.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace tacit::python {
namespace {

using comm::MachineModel;
using comm::SimulatedTimes;
using layout::Vector;

/// A preconditioner by name, with the options of stored matrices or of H-matrices.
struct Precond {
  std::string name;
  const precond::Options& of_stored;
  const precond::HMatrixRequest& of_hmatrices;

  /// Null for "none". Collective.
  template <Scalar T>
  std::shared_ptr<const op::Operator<T, Host>> make(const op::Operator<T, Host>& a) const {
    if (const auto* const stored = dynamic_cast<const op::Csr<T, Host>*>(&a))
      return precond::make<T, Host>(name, *stored, of_stored);
    if (name == "none") return nullptr;
    if (name == "jacobi") return std::make_shared<precond::Jacobi<T, Host>>(a, of_hmatrices.absolute);
    const auto& hierarchical = dynamic_cast<const op::HMatrix<T>&>(a);
    if (name == "hlu") return std::make_shared<precond::Hlu<T>>(hierarchical, of_hmatrices.hlu());
    return std::make_shared<precond::BlockDiagonal<T>>(hierarchical, of_hmatrices.block_diagonal());
  }
};

/// A stored matrix of one rank, each of whose rows goes to the rank that owns it.
template <Scalar T>
OnRanks<T> csr_on_ranks(const op::Csr<T, Host>& a) {
  require(a.range().comm().size() == 1 && a.range() == a.domain(),
          "a simulated solve starts from a square matrix on one rank");
  const auto all = unlocked([&] {
    const comm::Turn turn(a.range().comm());
    return std::make_shared<const op::Rows<T>>(a.rows());
  });
  constexpr std::size_t stack_bytes = 256 * 1024;
  return {a.range().size(), stack_bytes, [all, n = a.range().size()](const comm::Communicator& comm) {
            const auto space = layout::Space::distributed(comm, n);
            const auto begin = space.begin(), end = space.end();
            const auto first = all->start[std::size_t(begin)], last = all->start[std::size_t(end)];
            op::Rows<T> rows;
            rows.start.resize(std::size_t(end - begin) + 1);
            for (Global i = begin; i <= end; ++i)
              rows.start[std::size_t(i - begin)] = all->start[std::size_t(i)] - first;
            rows.column.assign(all->column.begin() + first, all->column.begin() + last);
            rows.value.assign(all->value.begin() + first, all->value.begin() + last);
            return std::make_shared<const op::Csr<T, Host>>(space, space, std::move(rows));
          }};
}

krylov::Report solve(const auto& a, const auto* p, const auto& b, auto& x, const krylov::Options& o, bool hermitian,
                     krylov::Report*) {
  return krylov::solve(a, p, b, x, o, hermitian);
}
krylov::ColumnReports solve(const auto& a, const auto* p, const auto& b, auto& x, const krylov::Options& o,
                            bool hermitian, krylov::ColumnReports*) {
  return krylov::solve_columns(a, p, b, x, o, hermitian);
}

/// What a solve is made with.
struct How {
  const MachineModel& machine;
  const Precond& precond;
  const krylov::Options& options;
  bool hermitian, trace, recorded;
};

/// (x, report, times, recording) of a solve with k columns; the set-up before it takes no simulated time, and neither
/// does what explains a failure. The recording is None where none is made.
template <class Report, Scalar T>
nb::tuple simulated(const OnRanks<T>& a, const Columns<T>& b, int k, int ranks, const How& how) {
  std::vector<T> x(b.size());
  Report report;
  SimulatedTimes times;
  std::optional<comm::Recording> recording;
  unlocked([&] {
    require(b.shape(0) == std::size_t(a.size), "right-hand sides of ", b.shape(0), " values for ", a.size, " rows");
    const auto rank = [&](const comm::Communicator& comm) {
      const auto A = a.make(comm);
      const auto P = how.precond.template make<T>(*A);
      const auto& space = A->range();
      const auto begin = std::size_t(space.begin()) * std::size_t(k);
      Vector<T, Host> right(space, k), solution(space, k);
      right.assign({b.data() + begin, right.size()});
      comm::restart_clocks(comm);
      if (how.trace) Trace::start();
      std::optional<SimulatedTimes> spent;
      const auto stop = [&] {
        spent = comm::read_clocks(comm);
        if (how.trace) Trace::stop();
      };
      krylov::Options own = how.options;
      own.before_explaining = stop;
      auto mine = solve(*A, P.get(), right, solution, own, how.hermitian, &report);
      if (!spent) stop();
      std::copy_n(solution.data(), solution.size(), x.data() + begin);
      if (comm.rank() == 0) report = std::move(mine), times = std::move(*spent);
    };
    if (how.recorded) recording = comm::record(ranks, how.machine, rank, a.stack_bytes);
    else comm::simulate(ranks, how.machine, rank, a.stack_bytes);
  });
  const bool one = b.ndim() == 1;
  return nb::make_tuple(array_of<T, std::vector<T>>(std::move(x), b.shape(0), one ? 0 : std::size_t(k)),
                        std::move(report), std::move(times), recording ? nb::cast(std::move(*recording)) : nb::none());
}

template <Scalar T>
void bind_scalar(nb::module_& m) {
  m.def(named<T>("csr_on_ranks").c_str(), &csr_on_ranks<T>);
  m.def(named<T>("simulate_solve").c_str(),
        [](const OnRanks<T>& a, const Columns<T>& b, int ranks, const MachineModel& machine, const std::string& precond,
           const precond::Options& of_stored, const precond::HMatrixRequest& of_hmatrices,
           const krylov::Options& options, bool hermitian, bool trace, bool recorded) {
          const Precond named{precond, of_stored, of_hmatrices};
          const How how{machine, named, options, hermitian, trace, recorded};
          if (b.ndim() == 1) return simulated<krylov::Report>(a, b, 1, ranks, how);
          require(b.ndim() == 2 && b.shape(1) > 0, "right-hand sides of ", b.ndim(), " dimensions");
          return simulated<krylov::ColumnReports>(a, b, checked_cast<int>(b.shape(1), "the number of columns"), ranks,
                                                  how);
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
  nb::class_<comm::Recording>(m, "Recording")
      .def_prop_ro("ranks", &comm::Recording::ranks)
      .def_prop_ro("iterations", &comm::Recording::iterations);
  // (times, iterations, period, set_ups); `progress` is called with the share that is done.
  m.def(
      "replay",
      [](const comm::Recording& recording, const MachineModel& machine, const std::array<int, 3>& recorded,
         const std::array<int, 3>& played, bool periodic, std::optional<int> iterations, const nb::object& progress) {
        comm::ReplayOptions o{recorded, played, periodic, iterations, {}};
        if (!progress.is_none()) o.progress = [&](double share) { call_python(1, [&] { progress(share); }); };
        auto made = unlocked([&] { return comm::replay(recording, machine, o); });
        return nb::make_tuple(std::move(made.times), made.iterations, made.period, made.set_ups);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none());
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
