// tacit::app::bem for Python. A mesh is two arrays, of vertices (n, 3) and triangles (m, 3).
#include "bindings.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <tacit/app/bem/surface.hpp>
#include <tacit/app/bem/system.hpp>

#include <filesystem>

#include <tacit/op/hmatrix/request.hpp>

namespace tacit::python {
namespace {

namespace bem = app::bem;
using comm::Communicator;
using release = WithoutGil;
using Rows = nb::ndarray<const double, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
using Triples = nb::ndarray<const Local, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
using Plane = std::optional<std::pair<int, double>>;

bem::Mesh mesh_of(const Rows& vertices, const Triples& triangles) {
  bem::Mesh mesh;
  mesh.vertices.resize(vertices.shape(0)), mesh.triangles.resize(triangles.shape(0));
  std::copy_n(vertices.data(), vertices.size(), mesh.vertices.empty() ? nullptr : mesh.vertices.front().data());
  std::copy_n(triangles.data(), triangles.size(), mesh.triangles.empty() ? nullptr : mesh.triangles.front().data());
  return mesh;
}

template <class T, class Item>
nb::object rows_of(const std::vector<Item>& items) {
  std::vector<T> flat;
  flat.reserve(3 * items.size());
  for (const Item& item : items) flat.insert(flat.end(), item.begin(), item.end());
  return array_of<T>(std::move(flat), items.size(), 3);
}
std::pair<nb::object, nb::object> arrays_of(const bem::Mesh& mesh) {
  return {rows_of<double>(mesh.vertices), rows_of<Local>(mesh.triangles)};
}

std::optional<bem::GroundedPlane> plane_of(const Plane& given) {
  if (!given) return {};
  return bem::GroundedPlane{given->first, given->second};
}

nb::dict surface_of(const bem::Surface& s) {
  nb::dict d;
  d["unused_vertices"] = s.unused_vertices;
  d["repeated_vertices"] = s.repeated_vertices;
  d["first_repeated_vertex"] = s.first_repeated_vertex;
  d["flat_triangles"] = s.flat_triangles;
  d["first_flat_triangle"] = s.first_flat_triangle;
  d["repeated_triangles"] = s.repeated_triangles;
  d["first_repeated_triangle"] = s.first_repeated_triangle;
  d["border_edges"] = s.border_edges;
  d["crowded_edges"] = s.crowded_edges;
  d["flipped_edges"] = s.flipped_edges;
  d["closed"] = s.closed();
  d["oriented"] = s.oriented();
  d["components"] = s.components;
  d["area"] = s.area;
  d["volume"] = s.volume;
  d["least_area"] = s.least_area;
  d["most_area"] = s.most_area;
  d["longest_edge"] = s.longest_edge;
  d["low"] = std::make_tuple(s.box.low[0], s.box.low[1], s.box.low[2]);
  d["high"] = std::make_tuple(s.box.high[0], s.box.high[1], s.box.high[2]);
  return d;
}

template <Scalar T>
void bind_system(nb::module_& m) {
  m.def(named<T>("bem_system").c_str(),
        [](const Communicator& comm, const Rows& vertices, const Triples& triangles, bool galerkin, double quadrature,
           const Plane& plane, const std::string& assembly, const op::HMatrixRequest& request) {
          check_ranges(op::hmatrix_options(), request);
          const bem::SystemOptions o{galerkin ? bem::Discretisation::galerkin : bem::Discretisation::collocation,
                                     quadrature,
                                     plane_of(plane),
                                     request.tree,
                                     request.matrix,
                                     assembly == "cuda"      ? bem::AssemblyOn::cuda
                                     : assembly == "virtual" ? bem::AssemblyOn::virtual_device
                                                             : bem::AssemblyOn::host};
          std::optional<bem::System<T>> system;
          {
            release free;
            system.emplace(comm, mesh_of(vertices, triangles), o);
          }
          return std::make_tuple(system->matrix(),
                                 array_of(std::vector<Global>(system->order().begin(), system->order().end())),
                                 array_of(std::vector<double>(system->weight().begin(), system->weight().end())));
        });
}

}  // namespace

void bind_bem(nb::module_& m) {
  m.def("bem_read", [](const std::filesystem::path& path) {
    bem::Mesh mesh;
    std::vector<double> potential;
    {
      release free;
      mesh = bem::read_mesh(path, &potential);
    }
    const auto [vertices, triangles] = arrays_of(mesh);
    return std::make_tuple(vertices, triangles, array_of(std::move(potential)));
  });
  m.def("bem_geodesic_sphere", [](int cuts, double radius) { return arrays_of(bem::geodesic_sphere(cuts, radius)); });
  m.def("bem_ring_sphere",
        [](int wedges, int rings, double radius) { return arrays_of(bem::ring_sphere(wedges, rings, radius)); });
  m.def("bem_ellipsoid", [](int cuts, const op::Point& axes) { return arrays_of(bem::ellipsoid(cuts, axes)); });
  m.def("bem_cube", [](int cuts, double side, double grading) { return arrays_of(bem::cube(cuts, side, grading)); });
  m.def("bem_copies",
        [](const Rows& vertices, const Triples& triangles, const std::array<int, 3>& counts, const op::Point& pitch) {
          return arrays_of(bem::copies(mesh_of(vertices, triangles), counts, pitch));
        });
  m.def("bem_inspect", [](const Rows& vertices, const Triples& triangles) {
    bem::Surface s;
    {
      release free;
      s = bem::inspect(mesh_of(vertices, triangles));
    }
    const nb::dict facts = surface_of(s);
    return std::make_tuple(facts, array_of(std::move(s.component)));
  });
  m.def("bem_mend", [](const Rows& vertices, const Triples& triangles, double distance) {
    bem::Mended made;
    {
      release free;
      made = bem::mend(mesh_of(vertices, triangles), distance);
    }
    const auto [points, corners] = arrays_of(made.mesh);
    return std::make_tuple(points, corners, array_of(std::move(made.kept)), made.merged_vertices,
                           made.dropped_triangles, made.turned_triangles);
  });
  bind_system<float>(m);
  bind_system<double>(m);
  // Potential (n) or field (n, 3) of a charge density at points.
  m.def("bem_potential", [](const Rows& vertices, const Triples& triangles, const Plane& plane, double accuracy,
                            const Elements<double>& density, const Rows& points, double factor) {
    std::vector<double> out(points.shape(0));
    {
      release free;
      const bem::SingleLayer layer(mesh_of(vertices, triangles), accuracy, factor, plane_of(plane));
      layer.potential({density.data(), density.size()},
                      {reinterpret_cast<const op::Point*>(points.data()), points.shape(0)}, out.data());
    }
    return array_of(std::move(out));
  });
  m.def("bem_field", [](const Rows& vertices, const Triples& triangles, const Plane& plane, double accuracy,
                        const Elements<double>& density, const Rows& points, double factor) {
    std::vector<op::Point> out(points.shape(0));
    {
      release free;
      const bem::SingleLayer layer(mesh_of(vertices, triangles), accuracy, factor, plane_of(plane));
      layer.field({density.data(), density.size()},
                  {reinterpret_cast<const op::Point*>(points.data()), points.shape(0)}, out.data());
    }
    return rows_of<double>(out);
  });
}

}  // namespace tacit::python
