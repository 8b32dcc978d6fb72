// tacit::app for Python: Poisson in the unit cube.
#include "../described.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/app/poisson/cube.hpp>

namespace tacit::python {
namespace {

using comm::Communicator;

template <Scalar T>
void bind_cube(nb::module_& m) {
  using Cube = app::poisson::Cube<T>;
  const auto on = [](const Cube& c, auto&& f) { return together(c.space().comm(), f); };
  nb::class_<Cube>(m, named<T>("Cube").c_str())
      .def("__init__",
           [](Cube* self, const Communicator& comm, Global nodes, const std::string& parts) {
             together(comm, [&] { new (self) Cube(comm, nodes, value_of<app::poisson::Parts>(parts)); });
           })
      .def_prop_ro("offsets", [](const Cube& c) { return offsets_of(c.space().partition()); })
      .def_prop_ro("ranks", [](const Cube& c) { return std::make_tuple(c.ranks()[0], c.ranks()[1], c.ranks()[2]); })
      .def("matrix", [on](const Cube& c) { return on(c, [&] { return c.matrix(); }); })
      .def("stencil", [on](const Cube& c) { return on(c, [&] { return c.stencil(); }); })
      .def("right_side",
           [](const Cube& c, const std::string& name) {
             return array_of(c.right_side(value_of<app::poisson::Solution>(name)));
           })
      .def("exact", [](const Cube& c,
                       const std::string& name) { return array_of(c.exact(value_of<app::poisson::Solution>(name))); })
      .def("distance", [on](const Cube& c, const Elements<T>& x, const std::string& name) {
        const auto d = on(c, [&] {
          layout::Vector<T> v(c.space());
          v.assign({x.data(), x.size()});
          return c.distance(v, value_of<app::poisson::Solution>(name));
        });
        return std::make_tuple(d.max, d.l2);
      });
}

}  // namespace

void bind_poisson(nb::module_& m) {
  bind_choices<app::poisson::Parts>(m, "parts");
  bind_choices<app::poisson::Solution>(m, "solutions");
  bind_cube<float>(m);
  bind_cube<double>(m);
}

}  // namespace tacit::python
