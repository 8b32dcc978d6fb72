#include <tacit/layout/hilbert.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <utility>

namespace tacit::layout {

Global hilbert_place(Global side, Global x, Global y) {
  Global place = 0;
  for (Global s = side / 2; s > 0; s /= 2) {
    const Global right = (x & s) != 0, up = (y & s) != 0;
    place += s * s * ((3 * right) ^ up);
    if (!up) {
      if (right) x = side - 1 - x, y = side - 1 - y;
      std::swap(x, y);
    }
  }
  return place;
}

std::vector<Local> hilbert_order(Local width, Local height, Global side) {
  require(width >= 0 && height >= 0, "a rectangle of ", width, " x ", height, " cells");
  const Local n = checked_cast<Local>(Global(width) * height, "the number of cells");
  require(side >= 0 && (side & (side - 1)) == 0 && (side == 0 || side >= std::max(width, height)), "a square of side ",
          side, " around ", width, " x ", height, " cells; a power of two is needed");
  if (side == 0)
    for (side = 1; side < std::max(width, height);) side *= 2;
  std::vector<std::pair<Global, Local>> cells(static_cast<std::size_t>(n));
#pragma omp parallel for schedule(static)
  for (Local y = 0; y < height; ++y)
    for (Local x = 0; x < width; ++x) {
      const Local cell = x + width * y;
      cells[std::size_t(cell)] = {hilbert_place(side, x, y), cell};
    }
  std::sort(cells.begin(), cells.end());
  std::vector<Local> order(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) order[i] = cells[i].second;
  return order;
}

}  // namespace tacit::layout
