// The entries of the single layer as a functor for team kernels, and the assembly of blocks on a device.
#pragma once

#include <tacit/app/bem/integrals.hpp>
#include <tacit/app/bem/single_layer.hpp>
#include <tacit/base/names.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>

#include <memory>
#include <span>

namespace tacit::app::bem {

/// A(i, j) of a SingleLayer, from its data in device memory, by the same rules at the same distances. Operations: about
/// 25 by one point, 45 by moments, 110 by seven points (up to 3.5 edge lengths away at 1e-7), and for the exact
/// integral about 150 with six roots, three logarithms and an arc tangent.
struct SingleLayerEntry {
  LayerNumbers at;  ///< pointers to device memory

  TACIT_HD double operator()(Local i, Local j) const {
    const double value = from(at.x, i, j);
    return at.image[0] ? value - from(at.image, i, j) : value;
  }

 private:
  TACIT_HD double from(const double* const* target, Local i, Local j) const {
    double d[3];
    for (int k = 0; k < 3; ++k) d[k] = at.x[k][j] - target[k][i];
    const double r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2], size2 = at.size2[j];
    const double value = reciprocal_root(r2);
    if (!(r2 < at.reach[2] * size2)) return value * (at.area[j] * at.factor);
    Shape<double> s;
    for (int k = 0; k < 3; ++k) s.u[k] = at.corner[0][k][j], s.v[k] = at.corner[1][k][j];
    s.second = at.moment[0][j], s.third[0] = at.moment[1][j], s.third[1] = at.moment[2][j];
    if (!(r2 < at.reach[1] * size2)) return moment_mean(d, value, s) * (at.area[j] * at.factor);
    if (!(r2 < at.reach[0] * size2)) return seven_point_mean(d, value, s) * (at.area[j] * at.factor);
    double a[3][3];
    for (int k = 0; k < 3; ++k) a[0][k] = d[k] + s.u[k], a[1][k] = d[k] + s.v[k], a[2][k] = d[k] - (s.u[k] + s.v[k]);
    return at.factor * exact_potential(a);
  }
};

enum class AssemblyOn {
  host,
  virtual_device,  ///< the device kernels, run on the CPU: slow, for tests
  cuda             ///< on a CUDA device
};

/// Makes the blocks of a layer's matrix, with the triangles in this order, on a virtual device (M = Host) or on the
/// CUDA device of this number (M = Device). Copies the layer's data (14 doubles for each triangle, 17 with a plane).
/// Error(environment) where there is no such device.
template <Scalar T, Memory M>
std::unique_ptr<op::BlockMaker<T>> blocks_on(const SingleLayer& layer, std::span<const Global> order, int device);
/// As blocks_on(), for `where`: on the CUDA device of number `gpu`, or on a virtual one; null for the host.
/// Error(environment) for cuda in a build without CUDA.
template <Scalar T>
std::unique_ptr<op::BlockMaker<T>> make_blocks(AssemblyOn where, const SingleLayer& layer,
                                               std::span<const Global> order, int gpu);

}  // namespace tacit::app::bem

namespace tacit {
template <>
inline constexpr auto names_of<app::bem::AssemblyOn> =
    named<app::bem::AssemblyOn>("assembly", {{app::bem::AssemblyOn::host, "host"},
                                             {app::bem::AssemblyOn::cuda, "cuda"},
                                             {app::bem::AssemblyOn::virtual_device, "virtual"}});
}  // namespace tacit
