#include <tacit/app/bem/system.hpp>

#include <tacit/app/bem/boundary_matrix.hpp>
#include <tacit/comm/gpu_of_rank.hpp>

#include <cmath>
#include <numbers>

namespace tacit::app::bem {
namespace {

// Entries are computed in double precision and converted to the matrix's scalar.
template <Scalar T, class Layer>
op::EntryFunction<T> entries_as(const Layer& layer) {
  return [&layer](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    if constexpr (std::same_as<T, double>) {
      layer(rows, columns, out);
    } else {
      thread_local std::vector<double> wide;
      wide.resize(rows.size() * columns.size());
      layer(rows, columns, wide.data());
      for (std::size_t k = 0; k < wide.size(); ++k) out[k] = T(wide[k]);
    }
  };
}

}  // namespace

std::span<const Option<SystemOptions>> system_options() {
  using O = SystemOptions;
  static const std::vector<Option<O>> all{
      option<O>("discretisation", &O::discretisation,
                "collocation: the potential at centroids; galerkin: its mean over triangles, a symmetric matrix",
                "collocation; with linear elements galerkin"),
      option<O>("elements", &O::elements,
                "of the density: constant on triangles, or continuous and linear on them, a value at each vertex "
                "(galerkin, without dielectrics, on the host)"),
      option<O>("quadrature", &O::quadrature, positive(), "relative accuracy of entries by quadrature, in tolerances"),
      option<O>(
          "assembly", &O::assembly,
          "who evaluates entries and finds crosses; cuda: a GPU, for the collocation matrix by aca and aca+, with "
          "the host's crosses but for rounding, recompressed there too; virtual: the same kernels, run on the CPU"),
  };
  return all;
}

template <Scalar T>
System<T>::System(const comm::Communicator& comm, const Mesh& mesh, const SystemOptions& options) {
  if (options.elements == Elements::linear) {
    comm::collective(comm, [&] {
      require(options.discretisation == Discretisation::galerkin, "linear elements with collocation; take galerkin");
      require(options.assembly == AssemblyOn::host, "linear elements are assembled by the host");
      require(options.contrast.empty(), "linear elements are of conductors; dielectrics need constant ones");
      require(!options.plane, "linear elements with a plane; give the plane as an image");
    });
    BoundaryForm<in_double_t<T>> form;
    form.single_layer = 1;
    auto made = boundary_matrix<T>(comm, mesh, Elements::linear, form, options.quadrature, options.tree, options.matrix,
                                   options.images);
    matrix_ = std::move(made.matrix), order_ = std::move(made.order), weight_ = std::move(made.root);
    return;
  }
  comm::collective(comm, [&] {
    require(options.matrix.tolerance > 0, "a tolerance of ", options.matrix.tolerance, "; a number above 0 is needed");
    require(options.quadrature > 0, "a quadrature to ", options.quadrature, " tolerances");
    require(options.assembly == AssemblyOn::host || options.discretisation == Discretisation::collocation,
            "a device assembles collocation matrices only, and Galerkin was asked for; use assembly on the host");
    const bool images = !options.images.empty(), dielectrics = !options.contrast.empty();
    require(!(images || dielectrics) || options.assembly == AssemblyOn::host,
            "a device assembles conductors with at most a grounded plane; with other images or dielectrics the host "
            "does");
    require(!dielectrics || options.discretisation == Discretisation::collocation,
            "with dielectrics the matrix is not symmetric, and Galerkin was asked for; use collocation");
    require(!(images || dielectrics) || !options.plane, "a plane and other images; give the plane as an image");
    if (options.plane) check(mesh, *options.plane);  // in the caller's numbering
    const op::ClusterTree first(mesh.geometry(), options.tree);
    order_.assign(first.order().begin(), first.order().end());
    const Mesh sorted = mesh.reordered(order_);
    const auto tree = std::make_shared<const op::ClusterTree>(sorted.geometry(), options.tree);
    weight_.assign(std::size_t(mesh.size()), 1.0);
    const bool own = options.assembly == AssemblyOn::cuda && options.gpu < 0;
    const int gpu = own ? comm::gpu_of_rank(comm) : options.gpu;
    const double accuracy = std::min(0.5, options.quadrature * options.matrix.tolerance);
    const double factor = 1 / (4 * std::numbers::pi);
    const auto space = layout::Space::distributed(comm, mesh.size());
    const auto make = [&](const auto& layer, op::BlockMaker<T>* maker) {
      matrix_ = std::make_shared<op::HMatrix<T>>(space, tree, entries_as<T>(layer), options.matrix, maker);
    };
    if (options.discretisation == Discretisation::galerkin) {
      for (Local t = 0; t < mesh.size(); ++t) weight_[std::size_t(t)] = std::sqrt(mesh.area(t));
      if (images)
        make(Folded(GalerkinLayer(unfolded(sorted, options.images), accuracy, factor), options.images, true), nullptr);
      else make(GalerkinLayer(sorted, accuracy, factor, options.plane), nullptr);
    } else if (dielectrics) {
      require(options.contrast.size() == std::size_t(mesh.size()), options.contrast.size(), " contrasts for ",
              mesh.size(), " triangles");
      std::vector<double> contrast;
      for (const Global t : order_) contrast.push_back(options.contrast[std::size_t(t)]);
      make(DielectricLayer(sorted, contrast, accuracy, factor, options.images), nullptr);
    } else if (images) {
      make(Folded(SingleLayer(unfolded(sorted, options.images), accuracy, factor), options.images), nullptr);
    } else {
      const SingleLayer layer(sorted, accuracy, factor, options.plane);
      make(layer, make_blocks<T>(options.assembly, layer, tree->order(), gpu).get());
    }
  });
}

template class System<float>;
template class System<double>;

}  // namespace tacit::app::bem
