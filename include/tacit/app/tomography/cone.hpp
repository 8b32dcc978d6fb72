// Projectors of fan and cone beams: line integrals along the rays of a point source, as a sparse matrix.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/op/tiled_spmm.hpp>

#include <array>
#include <memory>
#include <vector>

namespace tacit::app::tomography {

using Point = std::array<double, 3>;

/// A source and a flat detector: the ray of its pixel (i, j), row i and column j, starts at `source` and passes through
/// detector + (i - (rows - 1) / 2) down + (j - (columns - 1) / 2) right. It does not end there.
struct View {
  Point source{}, detector{}, right{}, down{};
};

/// A volume of depth x height x width voxels around the origin, x to the right along a row, y upwards (row 0 is on
/// top), z from one image to the next. A fan is in the plane z = 0: one image, one row of pixels, z = 0 in every view.
struct ConeGeometry {
  Local width = 0, height = 0, depth = 1;
  Local rows = 1, columns = 0;  ///< of the detector
  Point voxel{1, 1, 1};         ///< sides along x, y, z; lengths are in any one unit
  std::vector<View> views;

  Global rays() const { return Global(views.size()) * rows * columns; }
  Global voxels() const { return Global(depth) * height * width; }
};

struct Shot;      // a view in voxels
struct ConePart;  // of a rank

/// The matrix A of rays x voxels whose entries are the lengths of rays within voxels. They are computed in every
/// product, and nothing is stored. A ray crosses the voxels slab by slab along the axis that it is closest to, in each
/// slab two (fan) or three of them, whose lengths follow from where it passes into the next ones. A^T walks the same
/// rays block by block, so that both have the same entries. Rays are numbered by view, row and column, voxels by image,
/// row and column. A ray along a face is counted in one of the two voxels.
class ConeProjector {
 public:
  /// Error(usage): sizes below 1, no views, numbers that are not finite, voxels of no size, a source within the volume
  /// or in the plane of the detector. Local.
  explicit ConeProjector(ConeGeometry geometry);
  ~ConeProjector();
  ConeProjector(ConeProjector&&) noexcept;

  const ConeGeometry& geometry() const { return geometry_; }

  /// A as an operator from volumes to projections, distributed by voxels: a rank has neighbouring images, or rows of
  /// one image. Takes the time of a product (entries are counted). A product copies the volume, for each of up to 16
  /// columns at a time. Of the options, `groups` and `minibatch` apply. Collective.
  template <class T>
  std::shared_ptr<op::TiledSpmm<T>> matrix(const comm::Communicator& comm,
                                           const op::TiledSpmmOptions& options = {}) const;

  /// For every voxel the sum over the views of the projections where the ray through its middle meets the detector,
  /// linearly between pixels and 0 beyond them, times (d / e)^2 with the distances d of the detector and e of the voxel
  /// from the source along the detector's normal: for filtered back-projection. `volume` has voxels() numbers,
  /// `projections` rays(). Local.
  template <class T>
  void back_project(const T* projections, T* volume) const;

 private:
  ConeGeometry geometry_;
  std::vector<Shot> shots_;
};

}  // namespace tacit::app::tomography
