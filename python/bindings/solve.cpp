// Solves for Python, with operators and preconditioners: options in, report out, a callback in between.
#include "callback.hpp"
#include "on_gpu.hpp"

#include "krylov/part.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/base/trace.hpp>
#include <tacit/krylov/columns.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/automatic.hpp>
#include <tacit/precond/make.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace tacit::python {
namespace {

using krylov::Options;
using krylov::Report;
using layout::Vector;

/// (this rank's part of x, report) of `solve(b, x, options)`. Collective.
template <Scalar T, class F>
nb::tuple solved(const op::Operator<T, Host>& a, const op::Operator<T, Host>* precond, const Elements<T>& b,
                 const std::optional<Elements<T>>& x0, Options options, const nb::object& callback, const F& solve) {
  Report report;
  const auto& comm = a.range().comm();
  auto x = together(comm, (precond ? precond : &a)->range().comm(), [&] {
    auto solution = std::make_unique<Vector<T>>(a.domain());
    if (x0) solution->assign({x0->data(), x0->size()});
    Vector<T> right(a.range());
    right.assign({b.data(), b.size()});
    if (!callback.is_none()) options.callback = trampoline<T>(comm.size(), a.domain().local_size(), callback);
    report = solve(right, *solution, options);
    return solution;
  });
  const std::size_t n = x->size();
  return nb::make_tuple(array_of<T>(std::move(*x), n), std::move(report));
}

/// The same for k columns: (this rank's part of X, reports).
template <Scalar T, class F>
nb::tuple solved_columns(const op::Operator<T, Host>& a, const op::Operator<T, Host>* precond, const Columns<T>& b,
                         const std::optional<Columns<T>>& x0, Options options, const nb::object& callback,
                         const F& solve) {
  krylov::ColumnReports reports;
  const auto& comm = a.range().comm();
  auto x = together(comm, (precond ? precond : &a)->range().comm(), [&] {
    require(b.ndim() == 2, "right-hand sides of ", b.ndim(), " dimensions");
    const int k = checked_cast<int>(b.shape(1), "the number of columns");
    auto solution = std::make_unique<Vector<T>>(a.domain(), k);
    if (x0) solution->assign({x0->data(), x0->size()});
    Vector<T> right(a.range(), k);
    right.assign({b.data(), b.size()});
    if (!callback.is_none()) options.callback = trampoline<T>(comm.size(), a.domain().local_size(), callback);
    reports = solve(right, *solution, options);
    return solution;
  });
  const std::size_t k = std::size_t(x->columns()), n = std::size_t(x->space().local_size());
  return nb::make_tuple(array_of<T>(std::move(*x), n, k), std::move(reports));
}

/// This rank's parts of the vectors, the columns of a matrix that is stored column after column.
template <Scalar T>
std::vector<Vector<T>> columns_of(const layout::Space& space, const Elements<T>& all, int columns) {
  const auto n = std::size_t(space.local_size());
  std::vector<Vector<T>> parts;
  for (int c = 0; c < columns; ++c) parts.emplace_back(space).assign({all.data() + std::size_t(c) * n, n});
  return parts;
}

#ifdef TACIT_HAVE_CUDA
/// (x, report) of a solve in the memory of a GPU; `right` and `guess` make its vectors, a null guess is zero.
/// Collective.
template <Scalar T, class Right, class Guess>
std::pair<std::shared_ptr<const Vector<T, Device>>, Report> solved_on_gpu(const OnGpu<T>& a, const OnGpu<T>* precond,
                                                                          Right&& right, Guess&& guess, Options options,
                                                                          const nb::object& callback, bool hermitian,
                                                                          int solves_of_call) {
  Report report;
  const auto& comm = a.of->range().comm();
  auto x = together_on(a.gpu, comm, [&] {
    require(!precond || precond->gpu == a.gpu, "the matrix is on cuda:", a.gpu,
            " and the preconditioner on cuda:", precond ? precond->gpu : 0);
    const auto b = right(), x0 = guess();
    auto solution = x0 ? std::make_shared<Vector<T, Device>>(*x0) : std::make_shared<Vector<T, Device>>(a.of->domain());
    if (!callback.is_none()) options.callback = trampoline<T>(comm.size(), a.of->domain().local_size(), callback);
    report = krylov::solve_part<T, Device>(*a.of, precond ? precond->of.get() : nullptr, *b, *solution, options,
                                           {.solves_of_call = solves_of_call}, hermitian);
    return solution;
  });
  return {std::move(x), std::move(report)};
}
#endif

template <Scalar T>
void bind_scalar(nb::module_& m) {
  using Base = op::Operator<T, Host>;
  using Null = krylov::NullSpace<T, Host>;
  nb::class_<Null>(m, named<T>("NullSpace").c_str())
      .def("__init__", [](Null* self, const Base& a, const Elements<T>& right, int k, const Elements<T>& left, int l) {
        together(a.range().comm(), [&] {
          return new (self) Null(columns_of<T>(a.domain(), right, k), columns_of<T>(a.range(), left, l));
        });
      });
  m.def(
      named<T>("solve").c_str(),
      [](const Base& a, const Base* precond, const Elements<T>& b, std::optional<Elements<T>> x0, Options options,
         nb::object callback, bool hermitian, const Null* null_space) {
        return solved<T>(a, precond, b, x0, std::move(options), callback,
                         [&](const auto& right, auto& x, const Options& o) {
                           return krylov::solve<T, Host>(a, precond, right, x, o, hermitian, null_space);
                         });
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(),
      nb::arg().none());
  m.def(
      named<T>("solve_columns").c_str(),
      [](const Base& a, const Base* precond, const Columns<T>& b, std::optional<Columns<T>> x0, Options options,
         nb::object callback, bool hermitian, const Null* null_space) {
        return solved_columns<T>(a, precond, b, x0, std::move(options), callback,
                                 [&](const auto& B, auto& X, const Options& o) {
                                   return krylov::solve_columns<T>(a, precond, B, X, o, hermitian, null_space);
                                 });
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(),
      nb::arg().none());
}

nb::list list_of(const std::vector<precond::PlannedCandidate>& rows) {
  nb::list all;
  for (const auto& row : rows) {
    nb::dict one = dict_of("what", row.what, "when", row.when, "tried_if", row.tried_if, "why", row.why);
    if (row.holds) {
      one["method"] = row.method, one["precond"] = row.precond, one["options"] = row.options;
      one["trial"] = row.trial, one["patience"] = row.patience;
    }
    all.append(one);
  }
  return all;
}

/// What auto would try for a matrix, as a dict: its facts, and the rows, with a method where a row holds.
template <Scalar T>
nb::dict planned(const op::Csr<T, Host>& a, const std::string& method, std::optional<int> ranks) {
  const auto plan = together(a.range().comm(), [&] {
    return std::make_unique<precond::CandidatePlan>(
        precond::plan_candidates<T>(a, value_of<krylov::Method>(method), ranks));
  });
  const auto facts = dict_of("unknowns", plan->unknowns, "entries", plan->entries, "several_ranks", plan->several_ranks,
                             "hermitian", plan->hermitian, "diagonal_of_one_sign", plan->one_sign, "network",
                             plan->network, "zeros_on_diagonal", plan->zeros, "spread_of_diagonal", plan->spread);
  return dict_of("facts", facts, "fault", plan->fault, "rows", list_of(plan->rows));
}

template <Scalar T>
void bind_automatic(nb::module_& m) {
  using Base = op::Operator<T, Host>;
  using Null = krylov::NullSpace<T, Host>;
  using Automatic = precond::Automatic<T>;
  m.def(named<T>("plan_candidates").c_str(), &planned<T>, nb::arg(), nb::arg(), nb::arg().none());
  nb::class_<Automatic>(m, named<T>("Automatic").c_str())
      .def(
          "__init__",
          [](Automatic* self, const op::Csr<T, Host>& a, const std::string& method) {
            together(a.range().comm(), [&] { return new (self) Automatic(a, value_of<krylov::Method>(method)); });
          },
          nb::keep_alive<1, 2>())
      .def_prop_ro("setup_seconds", &Automatic::setup_seconds)
      .def_prop_ro("is_hermitian", &Automatic::is_hermitian)
      .def("refresh", [](Automatic& self) { unlocked([&] { self.refresh(); }); })
      .def(
          "solve",
          [](Automatic& self, const Base& a, const Elements<T>& b, std::optional<Elements<T>> x0, Options options,
             nb::object callback, const Null* null_space) {
            return solved<T>(
                a, nullptr, b, x0, std::move(options), callback,
                [&](const auto& right, auto& x, const Options& o) { return self.solve(right, x, o, null_space); });
          },
          nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg().none())
      .def(
          "solve_columns",
          [](Automatic& self, const Base& a, const Columns<T>& b, std::optional<Columns<T>> x0, Options options,
             nb::object callback, const Null* null_space) {
            return solved_columns<T>(
                a, nullptr, b, x0, std::move(options), callback,
                [&](const auto& B, auto& X, const Options& o) { return self.solve_columns(B, X, o, null_space); });
          },
          nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg().none());
}

#ifdef TACIT_HAVE_CUDA
/// solve() in the memory of a GPU: of arrays there, and of NumPy's, which are copied.
template <Scalar T>
void bind_solve_on_gpu(nb::module_& m) {
  m.def(
      named<T>("solve").c_str(),
      [](const OnGpu<T>& a, const OnGpu<T>* precond, ArrayOnGpu<T> b, std::optional<ArrayOnGpu<T>> x0, Options options,
         nb::object callback, bool hermitian, int solves_of_call) {
        const auto [x, report] = solved_on_gpu<T>(
            a, precond, [&] { return as_vector<T>(b, a.of->range(), a.gpu); },
            [&] { return x0 ? as_vector<T>(*x0, a.of->domain(), a.gpu) : nullptr; }, std::move(options), callback,
            hermitian, solves_of_call);
        return nb::make_tuple(ArrayOnGpu<T>{a.gpu, b.columns, x}, report);
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def(
      named<T>("solve").c_str(),
      [](const OnGpu<T>& a, const OnGpu<T>* precond, const Elements<T>& b, std::optional<Elements<T>> x0,
         Options options, nb::object callback, bool hermitian, int solves_of_call) {
        const auto [x, report] = solved_on_gpu<T>(
            a, precond, [&] { return as_vector<T>(std::span(b.data(), b.size()), a.of->range(), 1); },
            [&] { return x0 ? as_vector<T>(std::span(x0->data(), x0->size()), a.of->domain(), 1) : nullptr; },
            std::move(options), callback, hermitian, solves_of_call);
        auto own = unlocked([&, &x = x] {
          const exec::UseGpu use(a.gpu);
          return x->to_host();
        });
        return nb::make_tuple(array_of(std::move(own)), report);
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
}
#endif

}  // namespace

void bind_solve(nb::module_& m) {
  nb::class_<CallbackState>(m, "CallbackState")
      .def_ro("iteration", &CallbackState::iteration)
      .def_ro("residual_norm", &CallbackState::residual_norm)
      .def_rw("column", &CallbackState::column)
      .def("solution", [](const CallbackState& s) {
        require(bool(s.solution), "state.x can be asked for only while the callback runs; copy what is needed later");
        return s.solution();
      });

  m.def("candidate_table", &precond::candidate_table);
  m.def("candidate_rows", [] { return list_of(precond::candidate_rows()); });
  for_each_scalar([&]<Scalar T>() {
    bind_scalar<T>(m);
    bind_automatic<T>(m);
  });
#ifdef TACIT_HAVE_CUDA
  for_each_device_scalar([&]<Scalar T>() { bind_solve_on_gpu<T>(m); });
#endif
}

}  // namespace tacit::python
