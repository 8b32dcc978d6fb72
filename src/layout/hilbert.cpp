#include <tacit/layout/hilbert.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
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

// Cell (u, v) of a square is at (x + xu u + xv v, y + yu u + yv v).
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

// --- three dimensions -----------------------------------------------------------------------------------------------

namespace {

// The direction of the curve through a cube: from the corner `entry` (a bit for each axis) to its neighbour along
// `axis`.
struct Way {
  unsigned entry = 0, axis = 0;
};

unsigned rotated(unsigned bits, unsigned by) {
  by %= 3;
  return (bits << by | bits >> (3 - by)) & 7u;
}
unsigned gray(unsigned w) {
  return w ^ w >> 1;
}

// The position (a bit for each axis) of the w-th octant.
unsigned eighth(const Way& way, unsigned w) {
  return rotated(gray(w), way.axis + 1) ^ way.entry;
}
Way through(const Way& way, unsigned w) {
  const unsigned entry = w == 0 ? 0 : gray((w - 1) / 2 * 2);
  const unsigned turns = w == 0 ? 0 : unsigned(std::countr_one(w % 2 == 0 ? w - 1 : w)) % 3;
  return {way.entry ^ rotated(entry, way.axis + 1), (way.axis + turns + 1) % 3};
}

struct Box {
  Global width, height, depth;
};

void walk(const Way& way, Global x, Global y, Global z, Global size, const Box& box, std::vector<Local>& order) {
  if (x >= box.width || y >= box.height || z >= box.depth) return;
  if (size == 1) return order.push_back(Local(x + box.width * (y + box.height * z)));
  const Global h = size / 2;
  for (unsigned w = 0; w < 8; ++w) {
    const unsigned half = eighth(way, w);
    walk(through(way, w), x + (half & 1u ? h : 0), y + (half & 2u ? h : 0), z + (half & 4u ? h : 0), h, box, order);
  }
}

}  // namespace

Global hilbert_place(Global side, Global x, Global y, Global z) {
  Global place = 0;
  Way way;
  for (Global s = side / 2; s > 0; s /= 2) {
    const unsigned half = (x & s ? 1u : 0u) | (y & s ? 2u : 0u) | (z & s ? 4u : 0u);
    unsigned w = 0;
    while (eighth(way, w) != half) ++w;
    place = 8 * place + w;
    way = through(way, w);
  }
  return place;
}

std::vector<Local> hilbert_order(const std::array<Local, 3>& box, Global side) {
  const auto [width, height, depth] = box;
  require(width >= 0 && height >= 0 && depth >= 0, "a box of ", width, " x ", height, " x ", depth, " cells");
  // Two factors fit, the third may not.
  const Global layer = Global(width) * height;
  require(depth == 0 || layer <= std::numeric_limits<Local>::max() / depth, "a box of ", width, " x ", height, " x ",
          depth, " cells; fewer than 2^31 are possible");
  const Global longest = std::max({width, height, depth});
  require(side >= 0 && (side & (side - 1)) == 0 && (side == 0 || side >= longest), "a cube of side ", side, " around ",
          width, " x ", height, " x ", depth, " cells; a power of two is needed");
  if (side == 0)
    for (side = 1; side < longest;) side *= 2;
  std::vector<Local> order;
  order.reserve(std::size_t(layer * depth));
  walk(Way{}, 0, 0, 0, std::max<Global>(side, 1), {width, height, depth}, order);
  return order;
}

std::vector<Local> hilbert_order(std::span<const double> at, int dimensions) {
  require(dimensions == 2 || dimensions == 3, "points with ", dimensions, " coordinates; 2 or 3 are possible");
  const auto d = std::size_t(dimensions);
  require(at.size() % d == 0, at.size(), " coordinates of points in ", dimensions, " dimensions");
  const auto n = std::size_t(checked_cast<Local>(at.size() / d, "the number of points"));
  double low[3] = {}, extent = 0;
  for (std::size_t a = 0; a < d; ++a) {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (std::size_t i = 0; i < n; ++i) {
      const double v = at[i * d + a];
      require(std::isfinite(v), "point ", i, " has the coordinate ", v);
      least = std::min(least, v), most = std::max(most, v);
    }
    if (n > 0) low[a] = least, extent = std::max(extent, most / 2 - least / 2);  // halved to avoid overflow
  }
  constexpr Global side = Global(1) << 20;
  const double scale = extent > 0 ? double(side - 1) : 0;
  std::vector<std::pair<Global, Local>> key(n);
  for (std::size_t i = 0; i < n; ++i) {
    Global cell[3] = {};
    for (std::size_t a = 0; a < d; ++a)
      cell[a] =
          scale == 0 ? 0 : std::clamp(Global((at[i * d + a] / 2 - low[a] / 2) / extent * scale), Global(0), side - 1);
    key[i] = {d == 2 ? hilbert_place(side, cell[0], cell[1]) : hilbert_place(side, cell[0], cell[1], cell[2]),
              Local(i)};
  }
  std::sort(key.begin(), key.end());
  std::vector<Local> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = key[i].second;
  return order;
}

}  // namespace tacit::layout
