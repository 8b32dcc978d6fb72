// Hilbert's curve: an order of the cells of a rectangle in which neighbours in the order are neighbours in the plane.
#pragma once

#include <tacit/base/types.hpp>

#include <vector>

namespace tacit::layout {

/// Place of cell (x, y) on Hilbert's curve through a side x side square; side is a power of two.
Global hilbert_place(Global side, Global x, Global y);

/// The cells of a width x height rectangle of any size in the order in which the curve through the square around it
/// comes to them: old_of_new, cell (x, y) having the old number x + width y. Local; O(n). Error(usage) on a
/// negative or too large size. `side`: of the square, a power of two; 0: the least that holds the rectangle. Source:
/// Hilbert (1891), doi 10.1007/BF01199431.
std::vector<Local> hilbert_order(Local width, Local height, Global side = 0);

}  // namespace tacit::layout
