// Hilbert's curve: an order of the cells of a rectangle or box in which neighbours in the order are neighbours in
// space.
#pragma once

#include <tacit/base/types.hpp>

#include <array>
#include <span>
#include <vector>

namespace tacit::layout {

/// Position of cell (x, y) on Hilbert's curve through a side x side square; side is a power of two.
Global hilbert_place(Global side, Global x, Global y);

/// The cells of a width x height rectangle of any size, in their order on the curve through the enclosing square:
/// old_of_new, where cell (x, y) has the old number x + width y. Local; O(n). Error(usage) on a negative or too large
/// size. `side`: of the square, a power of two; 0: the smallest that holds the rectangle. Source: Hilbert (1891), doi
/// 10.1007/BF01199431.
std::vector<Local> hilbert_order(Local width, Local height, Global side = 0);

/// The same in three dimensions, where cell (x, y, z) has the old number x + width (y + height z). In a cube whose side
/// is a power of two, consecutive cells of the curve are neighbours; the cells of other boxes are those that the curve
/// of the enclosing cube visits. Source: Hamilton and Rau-Chaplin (2008), doi 10.1016/j.ipl.2007.08.034.
Global hilbert_place(Global side, Global x, Global y, Global z);
std::vector<Local> hilbert_order(const std::array<Local, 3>& box, Global side = 0);

/// Points in two or three dimensions, ordered by the curve through the enclosing square or cube with 2^20 cells along
/// each side; points in one cell keep their order. `coordinates`: those of point i begin at dimensions * i. Local; O(n
/// log n). Error(usage) on a dimension other than 2 and 3, a number of coordinates that does not fit, or one that is
/// not finite.
std::vector<Local> hilbert_order(std::span<const double> coordinates, int dimensions);

}  // namespace tacit::layout
