// tacit::precond for Python: preconditioners by name, as operators.
#include "described.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <tacit/precond/direct.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>
#include <tacit/precond/rigid_body.hpp>

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
  nb::class_<precond::Amg<T>, Base> amg(m, named<T>("Amg").c_str());
  amg.def("update", [](precond::Amg<T>& p) { return together(p.range().comm(), [&] { return p.update(); }); });
  amg.def_prop_ro("report", [](const precond::Amg<T>& p) {
    // Another thread may be updating it.
    const auto [all, work, b, cycles] =
        in_turn(p.range().comm(), [&] { return std::make_tuple(p.levels(), p.work(), p.bottom(), p.cycles()); });
    nb::list levels;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& l = all[i];
      levels.append(dict_of("rows", l.rows, "entries", l.entries, "prolongation_entries", l.prolongation_entries,
                            "ranks", l.ranks, "setup_seconds", l.setup_seconds, "seconds", work[i].seconds));
    }
    return dict_of("levels", levels, "bottom", b.name, "bottom_choice", b.choice, "bottom_solves", b.solves,
                   "bottom_iterations", b.iterations, "bottom_failures", b.failures, "warnings", b.warnings, "cycles",
                   cycles, "operator_complexity", p.operator_complexity(), "grid_complexity", p.grid_complexity(),
                   "update_bytes", p.update_bytes(), "matrix_bytes", p.matrix_bytes(), "note", p.note());
  });
  // near_null: this rank's rows, by rows; null for none.
  m.def(
      named<T>("amg").c_str(),
      [](const op::Csr<T, Host>& a,
         std::optional<nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>> near_null,
         const precond::Options& options) {
        auto o = precond::amg_options<T>(options);
        if (near_null) o.near_null.assign(near_null->data(), near_null->data() + near_null->size());
        return together(a.range().comm(), [&] { return std::make_shared<precond::Amg<T>>(a, o); });
      },
      nb::keep_alive<0, 1>(), nb::arg(), nb::arg().none(), nb::arg());
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
  bind_options<precond::Options>(m, "PrecondOptions", "precond", precond::options(), precond::kinds())
      .def_prop_ro(
          "bottom_options", [](precond::Options& o) -> krylov::Options& { return o.bottom.krylov; },
          nb::rv_policy::reference_internal);
  m.def("precond_is_symmetric", &precond::is_symmetric);
  m.def("direct_built", &precond::direct_built);
  m.def("rigid_body_modes", [](const comm::Communicator& comm,
                               const nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>& points) {
    auto modes = together(comm, [&] {
      return precond::RigidBodyModes(std::span(points.data(), points.size()), int(points.shape(1)), comm);
    });
    return array_of<double>(std::move(modes.values), points.size(), std::size_t(modes.count));
  });
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
