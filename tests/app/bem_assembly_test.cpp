// Matrices that a device assembles, virtual or CUDA's, equal to the host's.
#include <gtest/gtest.h>
#include <tacit/app/bem/system.hpp>
#include <tacit/base/error.hpp>

#include "app/slim_mesh.hpp"
#include "support/communicators.hpp"
#include "support/memory.hpp"

#include <cmath>

using namespace tacit;
using namespace tacit::app::bem;
using layout::Vector;
using test::slim;

namespace {

constexpr auto there = test::on_host ? AssemblyOn::virtual_device : AssemblyOn::cuda;

SystemOptions assembled(AssemblyOn where, double tolerance) {
  SystemOptions options;
  options.assembly = where;
  options.matrix.tolerance = tolerance;
  options.tree.leaf_size = 32;
  return options;
}

TEST(DeviceAssembly, IsTheHostsMatrix) {
  test::on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto method : {op::Compression::aca, op::Compression::aca_plus})
          for (const bool with_plane : {false, true}) {
            if (!test::on_host && with_plane != (method == op::Compression::aca))
              continue;  // long in kernels on the processor
            const Mesh mesh = geodesic_sphere(!test::on_host ? 4 : with_plane ? 6 : 9);
            auto options = assembled(AssemblyOn::host, 1e-4);
            options.matrix.compress.method = method;
            if (with_plane) options.plane = GroundedPlane{2, -1.1};
            const System<double> host(comm, mesh, options);
            options.assembly = there;
            const System<double> device(comm, mesh, options);
            const auto &a = host.matrix()->report(), &b = device.matrix()->report();
            EXPECT_EQ(a.dense_blocks, b.dense_blocks);
            EXPECT_NEAR(a.bytes, b.bytes, 0.01 * a.bytes);
            EXPECT_NEAR(a.mean_rank, b.mean_rank, 0.05);
            EXPECT_LE(b.measured_error, 1e-4);
            EXPECT_LE(b.estimated_error, 1e-4);
            EXPECT_TRUE(b.warnings.empty());
            EXPECT_NEAR(a.entries_evaluated, b.entries_evaluated, 0.02 * a.entries_evaluated);
            Vector<double> x(host.matrix()->domain()), y(host.matrix()->range()), z(device.matrix()->range());
            for (std::size_t k = 0; k < x.size(); ++k) x.data()[k] = std::sin(double(k * k));
            host.matrix()->apply(x, y), device.matrix()->apply(x, z);
            const double size = layout::norm(y);
            layout::axpy(-1.0, y, z);
            EXPECT_LE(layout::norm(z), 4e-4 * size);
          }
      },
      test::on_host ? std::vector<int>{2, 3} : std::vector<int>{});
}

TEST(DeviceAssembly, TakesSmallMeshesAndSinglePrecision) {
  const auto& self = comm::Communicator::self();
  // One triangle, two, and a mesh without admissible blocks: all of A is dense, with the host's entries.
  for (const Mesh& mesh : {Mesh{slim(0.3).vertices, {{0, 1, 2}}}, slim(1e-6), geodesic_sphere(1)}) {
    const System<double> host(self, mesh, assembled(AssemblyOn::host, 1e-6)),
        device(self, mesh, assembled(there, 1e-6));
    EXPECT_EQ(device.matrix()->report().low_rank_blocks, 0);
    const auto a = host.matrix()->diagonal(), b = device.matrix()->diagonal();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-12 * a[k]);
  }
  const Mesh mesh = geodesic_sphere(test::on_host ? 8 : 4);
  auto rough = assembled(there, 1e-3);
  if (!test::on_host) rough.tree.leaf_size = 16;  // of 320 triangles, some are to be far enough apart
  const System<float> device(self, mesh, rough);
  EXPECT_GT(device.matrix()->report().low_rank_blocks, 0);
  EXPECT_LE(device.matrix()->report().measured_error, 1e-3);
  auto galerkin = assembled(there, 1e-3);
  galerkin.discretisation = Discretisation::galerkin, galerkin.matrix.symmetry = op::Symmetry::symmetric;
  EXPECT_THROW((System<double>(self, mesh, galerkin)), Error);
}

}  // namespace
