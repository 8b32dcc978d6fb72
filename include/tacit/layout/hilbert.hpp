// Hilbert's curve: an order of the cells of a rectangle or box in which neighbours in the order are neighbours in
// space.
#pragma once

#include <tacit/base/types.hpp>

#include <array>
#include <span>
#include <vector>

namespace tacit::layout {

/// Place of cell (x, y) on Hilbert's curve through a side x side square; side is a power of two.
Global hilbert_place(Global side, Global x, Global y);

/// The cells of a width x height rectangle of any size in the order in which the curve through the square around it
/// comes to them: old_of_new, cell (x, y) having the old number x + width y. Local; O(n). Error(usage) on a
/// negative or too large size. `side`: of the square, a power of two; 0: the least that holds the rectangle. Source:
/// Hilbert (1891), doi 10.1007/BF01199431.
std::vector<Local> hilbert_order(Local width, Local height, Global side = 0);

/// The same in space: place of cell (x, y, z) on the curve through a cube, and the cells of a box, cell (x, y, z)
/// having the old number x + width (y + height z). Through a cube whose side is a power of two the curve goes from
/// neighbour to neighbour; a box is what it meets of the cube around. Source: Hamilton and Rau-Chaplin (2008),
/// doi 10.1016/j.ipl.2007.08.034.
Global hilbert_place(Global side, Global x, Global y, Global z);
std::vector<Local> hilbert_order(const std::array<Local, 3>& box, Global side = 0);

/// Points in the plane or in space in the order of the curve through the square or cube around them, in 2^20 cells a
/// side; points of one cell as they are. `coordinates`: of point i at dimensions i on. Local; O(n log n). Error(usage)
/// on a dimension other than 2 and 3, a number of coordinates that does not fit, or one that is not finite.
std::vector<Local> hilbert_order(std::span<const double> coordinates, int dimensions);

}  // namespace tacit::layout
