#include <tacit/app/bem/boundary_matrix.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::app::bem {

std::vector<double> integrals_of(const Mesh& mesh, Elements elements) {
  const bool linear = elements == Elements::linear;
  std::vector<double> made(linear ? mesh.vertices.size() : std::size_t(mesh.size()));
  for (Local t = 0; t < mesh.size(); ++t) {
    if (!linear) made[std::size_t(t)] = mesh.area(t);
    else
      for (const Local v : mesh.triangles[std::size_t(t)]) made[std::size_t(v)] += mesh.area(t) / 3;
  }
  return made;
}

template <Scalar T>
BoundaryMatrix<T> boundary_matrix(const comm::Communicator& comm, const Mesh& mesh, Elements elements,
                                  const BoundaryForm<in_double_t<T>>& form, double quadrature,
                                  const op::TreeOptions& tree, const op::HMatrixOptions& options,
                                  std::span<const Image> images) {
  using W = in_double_t<T>;
  BoundaryMatrix<T> made;
  comm::collective(comm, [&] {
    require(options.tolerance > 0, "a tolerance of ", options.tolerance, "; a number above 0 is needed");
    require(quadrature > 0, "a quadrature to ", quadrature, " tolerances");
    const op::ClusterTree first(geometry_of(mesh, elements), tree);
    made.order.assign(first.order().begin(), first.order().end());
    const Mesh sorted = reordered(mesh, elements, made.order);
    const auto clusters = std::make_shared<const op::ClusterTree>(geometry_of(sorted, elements), tree);
    made.root = integrals_of(mesh, elements);
    for (double& value : made.root) value = std::sqrt(value);
    std::vector<double> inverse;
    for (const Global k : made.order) inverse.push_back(1 / made.root[std::size_t(k)]);
    const Folded<BoundaryLayer<W>, W> layer(
        BoundaryLayer<W>(unfolded(sorted, images), elements, form, std::min(0.5, quadrature * options.tolerance)),
        images, true);
    const op::EntryFunction<T> entries = [&](std::span<const Global> rows, std::span<const Global> columns, T* out) {
      thread_local std::vector<W> wide;
      wide.resize(rows.size() * columns.size());
      layer(rows, columns, wide.data());
      for (std::size_t j = 0, k = 0; j < columns.size(); ++j)
        for (std::size_t i = 0; i < rows.size(); ++i, ++k)
          out[k] = T(wide[k] * (inverse[std::size_t(rows[i])] * inverse[std::size_t(columns[j])]));
    };
    const auto space = layout::Space::distributed(comm, Global(made.order.size()));
    made.matrix = std::make_shared<op::HMatrix<T>>(space, clusters, entries, options);
  });
  return made;
}

#define TACIT_INSTANTIATE(T)                                                                                      \
  template BoundaryMatrix<T> boundary_matrix(const comm::Communicator&, const Mesh&, Elements,                    \
                                             const BoundaryForm<in_double_t<T>>&, double, const op::TreeOptions&, \
                                             const op::HMatrixOptions&, std::span<const Image>);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)
#undef TACIT_INSTANTIATE

}  // namespace tacit::app::bem
