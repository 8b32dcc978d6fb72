// A rank's part of a projector whose entries are computed in every product; only constants of each angle are stored.
//
// A: lanes are neighbouring rays of an angle. A steep ray crosses the image row by row (others column by column), in
// each row one or two pixels around a position p, which grows by a constant from row to row and by another from ray to
// ray. The length in the later of the two pixels is proportional to the fraction of p, up to a limit, and both lengths
// have the same sum in every row. So a register of rays takes one addition for its positions, one minimum for the
// lengths, and gets its pixels from a window of the row by a permutation. A^T: lanes are neighbouring pixels of a row,
// the position is the end of a pixel's shadow on the detector, and the lengths are those of the rays just before it.
//
// Positions are fixed-point numbers, whose sums are exact, and whose index and fraction are read without conversion or
// rounding. Other angles use slow kernels, which evaluate the expression of the stored matrix in double: angles
// parallel to an axis or within a slope of 1/256 of it, and those for which a window is too small at this pixel size.
#pragma once

#include <tacit/app/tomography/projector.hpp>

#include "beam.hpp"

#include <memory>
#include <vector>

namespace tacit::app::tomography {

struct Part {
  Geometry geometry;
  std::vector<Beam> beams;      // of the angles
  std::vector<double> bin;      // positions of the detector's bins, in pixels from the axis
  Box box;                      // around the part's pixels
  std::vector<Local> ray_at;    // the part's row of ray angle * detectors + bin; -1 where it has none
  std::vector<Local> pixel_at;  // the part's column of pixel row * box.width() + column of the box; -1 likewise
  Local rows = 0, columns = 0;
  Global entries = 0;

  double left() const { return 0.5 - geometry.width * 0.5; }  // the centre of the first pixel
  double top() const { return geometry.height * 0.5 - 0.5; }
};

/// Products with the part of A, and of A^T: 64 or 32 columns at a time (double: 32, 16), then four, two, one.
template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_forward(std::shared_ptr<const Part> part);
template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_backward(std::shared_ptr<const Part> part);

/// Whether most angles have fast kernels for A and A^T.
template <class T>
bool computes_fast(double pixel, const std::vector<Beam>& beams);

}  // namespace tacit::app::tomography
