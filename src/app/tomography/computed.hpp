// A rank's part of a projector whose entries are computed while they are used: nothing is stored but what is known of
// each angle.
//
// A: lanes are neighbouring rays of an angle. Along the axis that they are nearer to, a ray crosses one row of pixels
// after the other, in each of them a pixel or two: those around a position p that grows by a constant from row to row
// and by another from ray to ray. Its length in the last of them rises with the fraction of p until it has left the
// other, and both add up to the row's. So a vector of rays takes one addition for its positions, one comparison for the
// lengths, and picks its pixels from a window of the row by permutation. A^T: lanes are neighbouring pixels of a row,
// the position is where a pixel's shadow ends on the detector, the lengths are those of the rays before it.
//
// Positions are fixed-point numbers: exact sums, a fraction that costs no rounding, a whole number that costs no
// conversion. Angles nearer to an axis than 1/256, along one, and windows that are too small for the pixels'
// size are left to a second way, which evaluates the stored matrix's own expression in doubles, several times slower.
#pragma once

#include <tacit/app/tomography/projector.hpp>

#include "beam.hpp"

#include <memory>
#include <vector>

namespace tacit::app::tomography {

struct Part {
  Geometry geometry;
  std::vector<Beam> beams;      // of the angles
  std::vector<double> bin;      // where the detector's bins are, in pixels from the axis
  Box box;                      // of the image: what the part's pixels lie within
  std::vector<Local> ray_at;    // of ray angle detectors + bin: its row of the part, -1 where it has none
  std::vector<Local> pixel_at;  // of pixel row box.width() + column of the box: its column, -1 likewise
  Local rows = 0, columns = 0;
  Global entries = 0;

  double left() const { return 0.5 - geometry.width * 0.5; }  // the centre of the first pixel
  double top() const { return geometry.height * 0.5 - 0.5; }
};

/// Products with the part, four columns at a time, then two, then one.
template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_forward(std::shared_ptr<const Part> part);
template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_backward(std::shared_ptr<const Part> part);

/// Whether nearly all angles of this geometry go the fast way.
template <class T>
bool computes_fast(double pixel, const std::vector<Beam>& beams);

}  // namespace tacit::app::tomography
