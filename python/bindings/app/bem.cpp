// tacit::app::bem for Python. A mesh is two arrays, of vertices (n, 3) and triangles (m, 3).
#include "../described.hpp"
#include "../on_ranks.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/app/bem/boundary_matrix.hpp>
#include <tacit/app/bem/polygons.hpp>
#include <tacit/app/bem/representation.hpp>
#include <tacit/app/bem/surface.hpp>
#include <tacit/app/bem/system.hpp>

#include <filesystem>

#include <tacit/op/hmatrix/request.hpp>

namespace tacit::python {
namespace {

namespace bem = app::bem;
using comm::Communicator;
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
  const auto corner = [](const op::Point& p) { return std::make_tuple(p[0], p[1], p[2]); };
  return dict_of("unused_vertices", s.unused_vertices, "repeated_vertices", s.repeated_vertices,
                 "first_repeated_vertex", s.first_repeated_vertex, "flat_triangles", s.flat_triangles,
                 "first_flat_triangle", s.first_flat_triangle, "repeated_triangles", s.repeated_triangles,
                 "first_repeated_triangle", s.first_repeated_triangle, "border_edges", s.border_edges, "crowded_edges",
                 s.crowded_edges, "flipped_edges", s.flipped_edges, "closed", s.closed(), "oriented", s.oriented(),
                 "components", s.components, "area", s.area, "volume", s.volume, "least_area", s.least_area,
                 "most_area", s.most_area, "longest_edge", s.longest_edge, "low", corner(s.box.low), "high",
                 corner(s.box.high));
}

// Of each image the axes that it is mirrored across, and its sign; the planes are at these coordinates.
using Images = std::vector<std::pair<std::array<bool, 3>, double>>;

std::vector<bem::Image> images_of(const Images& given, const op::Point& at) {
  std::vector<bem::Image> made;
  for (const auto& [across, sign] : given) made.push_back({across, at, sign});
  return made;
}

bem::SystemOptions options_of(bem::SystemOptions o, const op::HMatrixRequest& request, const Plane& plane, int gpu,
                              const Images& images, const op::Point& mirrors, const Elements<double>& contrast) {
  check_values(bem::system_options(), o);
  check_values(op::hmatrix_options(), request);
  o.gpu = gpu, o.plane = plane_of(plane), o.tree = request.tree_options(), o.matrix = request.matrix;
  o.images = images_of(images, mirrors), o.contrast.assign(contrast.data(), contrast.data() + contrast.size());
  return o;
}

template <Scalar T>
void bind_system(nb::module_& m) {
  m.def(named<T>("bem_system").c_str(),
        [](const Communicator& comm, const Rows& vertices, const Triples& triangles, const Plane& plane,
           const bem::SystemOptions& given, const op::HMatrixRequest& request, int gpu, const Images& images,
           const op::Point& mirrors, const Elements<double>& contrast) {
          const auto o = options_of(given, request, plane, gpu, images, mirrors, contrast);
          const auto system = unlocked([&] { return bem::System<T>(comm, mesh_of(vertices, triangles), o); });
          const auto copy = [](const auto& v) { return array_of(std::vector(v.begin(), v.end())); };
          return std::make_tuple(system.matrix(), copy(system.order()), copy(system.weight()));
        });
  m.def(named<T>("bem_on_ranks").c_str(),
        [](const Rows& vertices, const Triples& triangles, const Plane& plane, const bem::SystemOptions& given,
           const op::HMatrixRequest& request, const Images& images, const op::Point& mirrors,
           const Elements<double>& contrast, Global unknowns) {
          auto o = options_of(given, request, plane, -1, images, mirrors, contrast);
          o.assembly = bem::AssemblyOn::host;
          const auto mesh = std::make_shared<const bem::Mesh>(mesh_of(vertices, triangles));
          constexpr std::size_t stack_bytes = std::size_t(1) << 20;  // reserved; used where touched
          return OnRanks<T>{unknowns, stack_bytes,
                            [=](const Communicator& comm) { return bem::System<T>(comm, *mesh, o).matrix(); }};
        });
}

// From the coefficients of single, double and adjoint double layer, hypersingular operator and identity.
template <class W>
bem::BoundaryForm<W> form_of(const std::array<std::complex<double>, 5>& c, double wavenumber) {
  const auto as = [](std::complex<double> v) {
    if constexpr (is_complex<W>) return v;
    else return v.real();
  };
  bem::BoundaryForm<W> form;
  form.single_layer = as(c[0]), form.double_layer = c[1].real(), form.adjoint = c[2].real();
  form.hypersingular = as(c[3]), form.mass = c[4].real(), form.wavenumber = wavenumber;
  return form;
}
bem::Elements elements_of(const std::string& name) {
  return value_of<bem::Elements>(name);
}

/// The matrix of boundary operators: the H-matrix, the order of its rows, and the roots that scale it.
template <Scalar T>
void bind_boundary(nb::module_& m) {
  m.def(
      named<T>("bem_boundary").c_str(), [](const Communicator& comm, const Rows& vertices, const Triples& triangles,
                                           const std::string& elements, const std::array<std::complex<double>, 5>& form,
                                           double wavenumber, double quadrature, const op::HMatrixRequest& request) {
        check_values(op::hmatrix_options(), request);
        auto made = unlocked([&] {
          return bem::boundary_matrix<T>(comm, mesh_of(vertices, triangles), elements_of(elements),
                                         form_of<in_double_t<T>>(form, wavenumber), quadrature, request.tree_options(),
                                         request.matrix);
        });
        return std::make_tuple(std::move(made.matrix), array_of(std::move(made.order)), array_of(std::move(made.root)));
      });
}

/// Potentials of single and double layers (densities of no elements: 0) at points, their far field in directions, and
/// the gradient of single layers.
template <class T>
void bind_layers(nb::module_& m) {
  const auto span_of = [](const Elements<T>& v) { return std::span<const T>(v.data(), v.size()); };
  const auto points_of = [](const Rows& p) {
    return std::span(reinterpret_cast<const op::Point*>(p.data()), p.shape(0));
  };
  const auto bind_sum = [&](const char* name, auto sum) {
    m.def(named<T>(name).c_str(),
          [=](const Rows& vertices, const Triples& triangles, const std::string& elements, double wavenumber,
              const Elements<T>& single, const Elements<T>& twofold, const Rows& points) {
            auto out = unlocked([&] {
              const bem::Representation<T> of(mesh_of(vertices, triangles), elements_of(elements), wavenumber);
              std::vector<T> values(points.shape(0));
              sum(of, span_of(single), span_of(twofold), points_of(points), values.data());
              return values;
            });
            return array_of(std::move(out));
          });
  };
  bind_sum("bem_layers_at",
           [](const auto& of, auto single, auto twofold, auto at, T* out) { of.potential(single, twofold, at, out); });
  bind_sum("bem_layers_far",
           [](const auto& of, auto single, auto twofold, auto at, T* out) { of.far_field(single, twofold, at, out); });
  m.def(named<T>("bem_layer_gradient").c_str(),
        [=](const Rows& vertices, const Triples& triangles, const std::string& elements, double wavenumber,
            const Elements<T>& single, const Rows& points) {
          return rows_of<T>(unlocked([&] {
            const bem::Representation<T> of(mesh_of(vertices, triangles), elements_of(elements), wavenumber);
            std::vector<std::array<T, 3>> out(points.shape(0));
            of.gradient(span_of(single), points_of(points), out.data());
            return out;
          }));
        });
}

/// Reading, making and mending meshes.
void bind_meshes(nb::module_& m) {
  m.def("bem_read", [](const std::filesystem::path& path) {
    std::vector<double> potential;
    std::vector<std::string> notes;
    const auto mesh = unlocked([&] { return bem::read_mesh(path, &potential, &notes); });
    const auto [vertices, triangles] = arrays_of(mesh);
    return std::make_tuple(vertices, triangles, array_of(std::move(potential)), notes);
  });
  // Triangles and the face of each; then a text on faces that cross themselves and one on bent ones, empty where there
  // are none. `name_of` is called with the number of such a face.
  m.def("bem_triangulate", [](const Rows& vertices, const Elements<Global>& starts, const Elements<Local>& corners,
                              const nb::object& name_of) {
    bem::Polygons faces;
    faces.starts.assign(starts.data(), starts.data() + starts.size());
    faces.corners.assign(corners.data(), corners.data() + corners.size());
    auto made = unlocked([&] {
      const auto* const points = reinterpret_cast<const op::Point*>(vertices.data());
      return bem::triangulate({points, vertices.shape(0)}, faces);
    });
    const auto named = [&](Global face) { return nb::cast<std::string>(name_of(face)); };
    const std::string crossing = made.crossing > 0 ? crossing_faces(made, named(made.first_crossing)) : "",
                      bent = made.bent > 0 ? bent_faces(made, named(made.first_bent)) : "";
    return std::make_tuple(rows_of<Local>(made.triangles), array_of(std::move(made.face)), crossing, bent);
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
    auto s = unlocked([&] { return bem::inspect(mesh_of(vertices, triangles)); });
    const nb::dict facts = surface_of(s);
    return std::make_tuple(facts, array_of(std::move(s.component)));
  });
  m.def("bem_mend", [](const Rows& vertices, const Triples& triangles, double distance) {
    auto made = unlocked([&] { return bem::mend(mesh_of(vertices, triangles), distance); });
    const auto [points, corners] = arrays_of(made.mesh);
    return std::make_tuple(points, corners, array_of(std::move(made.kept)), made.merged_vertices,
                           made.dropped_triangles, made.turned_triangles);
  });
}

/// Potential (n) or field (n, 3) of a charge density at points.
void bind_samples(nb::module_& m) {
  const auto bind_at = [&m](const char* name, auto sample, auto shown) {
    m.def(name, [=](const Rows& vertices, const Triples& triangles, const Plane& plane, double accuracy,
                    const Elements<double>& density, const Rows& points, double factor) {
      return shown(unlocked([&] {
        const bem::SingleLayer layer(mesh_of(vertices, triangles), accuracy, factor, plane_of(plane));
        return sample(layer, std::span<const double>(density.data(), density.size()),
                      std::span(reinterpret_cast<const op::Point*>(points.data()), points.shape(0)));
      }));
    });
  };
  bind_at(
      "bem_potential",
      [](const auto& layer, auto density, auto at) {
        std::vector<double> out(at.size());
        layer.potential(density, at, out.data());
        return out;
      },
      [](std::vector<double> out) { return array_of(std::move(out)); });
  bind_at(
      "bem_field",
      [](const auto& layer, auto density, auto at) {
        std::vector<op::Point> out(at.size());
        layer.field(density, at, out.data());
        return out;
      },
      [](std::vector<op::Point> out) { return rows_of<double>(out); });
}

}  // namespace

void bind_bem(nb::module_& m) {
  bind_options<bem::SystemOptions>(m, "BemOptions", "bem", bem::system_options());
  bind_meshes(m);
  bind_system<float>(m);
  bind_system<double>(m);
  bind_samples(m);
  for_each_scalar([&]<Scalar T>() { bind_boundary<T>(m); });
  bind_layers<double>(m);
  bind_layers<std::complex<double>>(m);
}

}  // namespace tacit::python
