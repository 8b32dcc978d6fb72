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

namespace {

// Cell (u, v) of a square stands at (x + xu u + xv v, y + yu u + yv v).
struct Square {
  Global x, y, xu, xv, yu, yv;
};

// Along the curve through a square of `size` cells, the reverse of hilbert_place; quarters outside are left out.
void walk(const Square& q, Global size, Local width, Local height, std::vector<Local>& order) {
  const Global end = size - 1;
  if (q.x + std::min<Global>(0, (q.xu + q.xv) * end) >= width ||
      q.y + std::min<Global>(0, (q.yu + q.yv) * end) >= height)
    return;
  if (size == 1) return order.push_back(Local(q.x) + width * Local(q.y));
  const Global h = size / 2;
  const auto at = [&](Global u, Global v) {
    return Square{q.x + q.xu * u + q.xv * v, q.y + q.yu * u + q.yv * v, q.xu, q.xv, q.yu, q.yv};
  };
  const auto swapped = [](Square s, Global sign) {
    return Square{s.x, s.y, sign * s.xv, sign * s.xu, sign * s.yv, sign * s.yu};
  };
  walk(swapped(at(0, 0), 1), h, width, height, order);
  walk(at(0, h), h, width, height, order);
  walk(at(h, h), h, width, height, order);
  walk(swapped(at(size - 1, h - 1), -1), h, width, height, order);
}

}  // namespace

std::vector<Local> hilbert_order(Local width, Local height, Global side) {
  require(width >= 0 && height >= 0, "a rectangle of ", width, " x ", height, " cells");
  const Local n = checked_cast<Local>(Global(width) * height, "the number of cells");
  require(side >= 0 && (side & (side - 1)) == 0 && (side == 0 || side >= std::max(width, height)), "a square of side ",
          side, " around ", width, " x ", height, " cells; a power of two is needed");
  if (side == 0)
    for (side = 1; side < std::max(width, height);) side *= 2;
  std::vector<Local> order;
  order.reserve(std::size_t(n));
  walk({0, 0, 1, 0, 0, 1}, std::max<Global>(side, 1), width, height, order);
  return order;
}

}  // namespace tacit::layout
