#include <tacit/base/names.hpp>
#include <tacit/op/cells/wide.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace tacit::op {
namespace {

int reach_of(CellStencil s) {
  return s == CellStencil::fourth_order ? 2 : 1;
}
// The number of cells, inwards from an end, from which a ghost beyond it is computed.
Global depth_of(CellStencil s, Global cells) {
  return s == CellStencil::fourth_order ? std::min<Global>(4, cells) : 1;
}
// The number of cells from which coefficients are extrapolated beyond an end by a cubic.
constexpr int cubic = 4;

}  // namespace

std::string refusal(const Boxes& boxes, CellStencil stencil) {
  if (stencil == CellStencil::seven_point) return {};
  const Domain& d = boxes.domain();
  const std::string name = message("the ", to_string(stencil), " stencil");
  if (!boxes.is_whole())
    return name + " needs all cells of a rectangle; some are missing: use the 7-point one, which allows this";
  for (int a = 0; a < d.dimensions; ++a) {
    if (!d.uniform(a)) return name + message(" needs cells of one width; those of axis ", a, " differ");
    if (stencil == CellStencil::twenty_seven_point && std::abs(d.width(a, 0) - d.width(0, 0)) > 1e-9 * d.width(0, 0))
      return name + message(" needs cubes; cells are ", d.width(0, 0), " wide along axis 0 and ", d.width(a, 0),
                            " along axis ", a);
    if (d.periodic(a) || stencil == CellStencil::twenty_seven_point) continue;
    // The boxes at an end fill the ghosts beyond it; the stencils of the next boxes must not reach these ghosts.
    const Global least = std::min<Global>(2, d.cells(a));
    for (const CellBox& b : boxes.patches())
      if ((b.lower[std::size_t(a)] == 0 || b.upper[std::size_t(a)] == d.cells(a)) && b.size(a) < least)
        return name + message(" needs boxes of at least two cells at the ends of axis ", a, "; one has ", b.size(a));
  }
  return {};
}

template <class T>
Wide<T>::Wide(const Boxes& boxes, const Terms& terms, bool has_masses)
    : domain_(boxes.domain()), stencil_(terms.stencil), margin_(boxes, reach_of(terms.stencil)), mass_(T(terms.mass)) {
  for (std::size_t a = 0; a < 3; ++a) {
    weight_[a] = T(terms.weight[a]);
    if (int(a) >= domain_.dimensions || domain_.periodic(int(a))) continue;
    const Global n = domain_.cells(int(a)), depth = depth_of(stencil_, n);
    const double h = domain_.width(int(a), 0);
    for (std::size_t side = 0; side < 2; ++side) {
      // Weights for a lower end at 0, used mirrored at the upper end.
      std::vector<double> from(std::size_t(depth) + 1);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = double(i) * h;
      const bool value = domain_.boundary[a][side] == Boundary::dirichlet;
      for (int g = 0; g < margin_.width(); ++g) {
        auto w = average_weights(from, value ? Given::value : Given::slope, 0, -double(g + 1) * h, -double(g) * h);
        if (!value) w.back() = -w.back();  // slopes are outwards
        ends_[a][side].push_back(std::move(w));
      }
    }
  }
  if (terms.faces || has_masses) spread(boxes, terms, has_masses);
}

namespace {

// Extrapolates beyond the ends of all axes but `normal`.
template <class T>
void extrapolate(const Domain& domain, const Margin& margin, std::vector<T>& v, int normal) {
  for (int a = 0; a < domain.dimensions; ++a) {
    if (a == normal || domain.periodic(a)) continue;
    const auto ax = std::size_t(a), o1 = ax == 0 ? std::size_t(1) : std::size_t(0),
               o2 = ax == 2 ? std::size_t(1) : std::size_t(2);
    const std::ptrdiff_t depth = std::min<std::ptrdiff_t>(cubic, std::ptrdiff_t(domain.cells(a)));
    std::vector<double> from(std::size_t(depth) + 1);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = double(i);
    for (const Margin::Patch& p : margin.patches())
      for (std::size_t side = 0; side < 2; ++side) {
        if (!p.at_end[ax][side]) continue;
        const std::ptrdiff_t inwards = side == 0 ? p.stride(a) : -p.stride(a);
        for (int g = 0; g < margin.width(); ++g) {
          const auto w = average_weights(from, Given::nothing, 0, -double(g + 1), -double(g));
          for (std::ptrdiff_t y = -p.pad[o2]; y < p.n[o2] + p.pad[o2]; ++y)
            for (std::ptrdiff_t x = -p.pad[o1]; x < p.n[o1] + p.pad[o1]; ++x) {
              std::array<std::ptrdiff_t, 3> c{};
              c[o1] = x, c[o2] = y, c[ax] = side == 0 ? 0 : p.n[ax] - 1;
              T* const edge = v.data() + p.at(c[0], c[1], c[2]);
              double sum = 0;
              for (std::ptrdiff_t i = 0; i < depth; ++i) sum += w[std::size_t(i)] * double(edge[i * inwards]);
              edge[-(g + 1) * inwards] = T(sum);
            }
        }
      }
  }
}

// The lower and upper faces of a patch's cells. The distance to an end is half that between cells.
template <class T>
void split_faces(const Margin::Patch& p, int axis, const T* from, std::vector<T>& low, std::vector<T>& high) {
  const auto ax = std::size_t(axis);
  // Along the axis there is one face more than cells.
  const std::ptrdiff_t fx = p.n[0] + (axis == 0), fy = p.n[1] + (axis == 1);
  const std::ptrdiff_t step = axis == 0 ? 1 : axis == 1 ? fx : fx * fy;
  for (std::ptrdiff_t z = 0; z < p.n[2]; ++z)
    for (std::ptrdiff_t y = 0; y < p.n[1]; ++y)
      for (std::ptrdiff_t x = 0; x < p.n[0]; ++x) {
        const T* const c = from + x + fx * (y + fy * z);
        const auto at = std::size_t(p.at(x, y, z));
        low[at] = c[0], high[at] = c[step];
        const std::ptrdiff_t here[3] = {x, y, z};
        if (p.at_end[ax][0] && here[axis] == 0) low[at] *= T(0.5);
        if (p.at_end[ax][1] && here[axis] == p.n[ax] - 1) high[at] *= T(0.5);
      }
}

}  // namespace

// Makes the padded coefficients: fetched from other patches, and extrapolated beyond ends by cubics.
template <class T>
void Wide<T>::spread(const Boxes& boxes, const Terms& terms, bool has_masses) {
  comm::Exchange exchange(boxes.space().comm(), margin_.pattern(), sizeof(T));
  const auto patches = margin_.patches();
  if (has_masses) {
    masses_.assign(margin_.size(), T(0));
    margin_.load(terms.masses.data(), masses_.data());
    margin_.update(masses_.data(), exchange);
    extrapolate(domain_, margin_, masses_, -1);
  }
  if (!terms.faces) return;
  for (int axis = 0; axis < domain_.dimensions; ++axis) {
    const auto ax = std::size_t(axis);
    // The lower faces of cells, and the upper ones: at the upper end of the domain a face is the lower face of no cell.
    auto& low = c_[ax];
    low.assign(margin_.size(), T(0));
    std::vector<T> high(margin_.size(), T(0));
    for (std::size_t i = 0; i < patches.size(); ++i) split_faces(patches[i], axis, terms.faces(axis, i), low, high);
    margin_.update(low.data(), exchange);
    margin_.update(high.data(), exchange);
    for (const Patch& p : patches) {
      const auto o1 = ax == 0 ? std::size_t(1) : std::size_t(0), o2 = ax == 2 ? std::size_t(1) : std::size_t(2);
      for (std::ptrdiff_t y = -p.pad[o2]; y < p.n[o2] + p.pad[o2]; ++y)
        for (std::ptrdiff_t x = -p.pad[o1]; x < p.n[o1] + p.pad[o1]; ++x) {
          std::array<std::ptrdiff_t, 3> c{};
          c[o1] = x, c[o2] = y, c[ax] = p.n[ax] - 1;
          const auto top = p.at(c[0], c[1], c[2]);
          low[std::size_t(top + p.stride(axis))] = high[std::size_t(top)];
        }
    }
    extrapolate(domain_, margin_, low, axis);
  }
}

template <class T>
void Wide<T>::fill_ends(T* u) const {
  fill(u, nullptr);
}

// Axis by axis, each including the ghosts already filled along the others: edges and corners are tensor products.
template <class T>
void Wide<T>::fill(T* u, const FaceData* data) const {
  for (std::size_t i = 0; i < margin_.patches().size(); ++i) {
    const Patch& p = margin_.patches()[i];
    for (int a = 0; a < domain_.dimensions; ++a) {
      const auto ax = std::size_t(a);
      const std::size_t o1 = ax == 0 ? 1 : 0, o2 = ax == 2 ? 1 : 2;
      for (std::size_t side = 0; side < 2; ++side) {
        if (!p.at_end[ax][side]) continue;
        const std::ptrdiff_t inwards = side == 0 ? p.stride(a) : -p.stride(a);
        for (int g = 0; g < margin_.width(); ++g) {
          const auto& w = ends_[ax][side][std::size_t(g)];
          const auto depth = std::ptrdiff_t(w.size()) - 1;
          T weight[4] = {0, 0, 0, 0};
          for (std::ptrdiff_t k = 0; k < depth; ++k) weight[k] = T(w[std::size_t(k)]);
          for (std::ptrdiff_t y = -p.pad[o2]; y < p.n[o2] + p.pad[o2]; ++y) {
            std::array<std::ptrdiff_t, 3> c{};
            c[o1] = -p.pad[o1], c[o2] = y, c[ax] = side == 0 ? 0 : p.n[ax] - 1;
            const T* const edge = u + p.at(c[0], c[1], c[2]);
            T* const to = u + p.at(c[0], c[1], c[2]) - (g + 1) * inwards;
            const std::ptrdiff_t count = p.n[o1] + 2 * p.pad[o1], step = p.stride(int(o1));
#pragma GCC ivdep
            for (std::ptrdiff_t x = 0; x < count; ++x) {
              T sum = weight[0] * edge[x * step];
              for (std::ptrdiff_t k = 1; k < depth; ++k) sum += weight[k] * edge[x * step + k * inwards];
              to[x * step] = sum;
            }
            if (!data) continue;
            for (std::ptrdiff_t x = 0; x < count; ++x) {
              std::array<Global, 3> cell{p.box.lower[0] + c[0], p.box.lower[1] + c[1], p.box.lower[2] + c[2]};
              cell[o1] += x;
              to[x * step] += T(w.back() * (*data)(a, int(side), cell));
            }
          }
        }
      }
    }
  }
}

template <class T>
template <int D>
void Wide<T>::fourth_order_line(const T* u_all, const Patch& p, std::ptrdiff_t at, T* out) const {
  const std::ptrdiff_t n = p.n[0], sy = p.line, sz = p.plane;
  const T* const u = u_all + at;
  const T twelfth = T(1) / T(12);
  if (c_[0].empty()) {
    const T x = weight_[0] * twelfth, y = weight_[1] * twelfth, z = weight_[2] * twelfth;
    const T centre = T(30) * (x + (D > 1 ? y : T(0)) + (D > 2 ? z : T(0))) + mass_;
#pragma GCC ivdep
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      T sum = centre * u[i] - x * (T(16) * (u[i - 1] + u[i + 1]) - (u[i - 2] + u[i + 2]));
      if constexpr (D > 1) sum -= y * (T(16) * (u[i - sy] + u[i + sy]) - (u[i - 2 * sy] + u[i + 2 * sy]));
      if constexpr (D > 2) sum -= z * (T(16) * (u[i - sz] + u[i + sz]) - (u[i - 2 * sz] + u[i + 2 * sz]));
      out[i] = sum;
    }
  } else {
    // 12 times the upward flux through the lower face of cell i, along the axis of stride s.
    const auto flux = [u](const T* c, std::ptrdiff_t i, std::ptrdiff_t s, std::ptrdiff_t t1, std::ptrdiff_t t2)
        __attribute__((always_inline)) {
      T f = c[i] * (T(15) * (u[i] - u[i - s]) - (u[i + s] - u[i - 2 * s]));
      T cross = 0;
      if constexpr (D > 1)
        cross += (c[i + t1] - c[i - t1]) * ((u[i + t1] - u[i + t1 - s]) - (u[i - t1] - u[i - t1 - s]));
      if constexpr (D > 2)
        cross += (c[i + t2] - c[i - t2]) * ((u[i + t2] - u[i + t2 - s]) - (u[i - t2] - u[i - t2 - s]));
      if constexpr (D > 1) f += T(0.25) * cross;
      return f;
    };
    static thread_local std::vector<T> buffer;
    if (buffer.size() < std::size_t(n) + 1) buffer.resize(std::size_t(n) + 1);
    T* const through = buffer.data();
    const T* const cx = c_[0].data() + at;
#pragma GCC ivdep
    for (std::ptrdiff_t i = 0; i <= n; ++i) through[i] = flux(cx, i, 1, sy, sz);
#pragma GCC ivdep
    for (std::ptrdiff_t i = 0; i < n; ++i) out[i] = through[i + 1] - through[i];
    if constexpr (D > 1) {
      const T* const cy = c_[1].data() + at;
#pragma GCC ivdep
      for (std::ptrdiff_t i = 0; i < n; ++i) out[i] += flux(cy, i + sy, sy, 1, sz) - flux(cy, i, sy, 1, sz);
    }
    if constexpr (D > 2) {
      const T* const cz = c_[2].data() + at;
#pragma GCC ivdep
      for (std::ptrdiff_t i = 0; i < n; ++i) out[i] += flux(cz, i + sz, sz, 1, sy) - flux(cz, i, sz, 1, sy);
    }
#pragma GCC ivdep
    for (std::ptrdiff_t i = 0; i < n; ++i) out[i] = mass_ * u[i] - twelfth * out[i];
  }
  if (masses_.empty()) return;
  const T* const m = masses_.data() + at;
  const T part = T(1) / T(48);
#pragma GCC ivdep
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    T cross = (m[i + 1] - m[i - 1]) * (u[i + 1] - u[i - 1]);
    if constexpr (D > 1) cross += (m[i + sy] - m[i - sy]) * (u[i + sy] - u[i - sy]);
    if constexpr (D > 2) cross += (m[i + sz] - m[i - sz]) * (u[i + sz] - u[i - sz]);
    out[i] += m[i] * u[i] + part * cross;
  }
}

template <class T>
template <int D>
void Wide<T>::compact_line(const T* u_all, const Patch& p, std::ptrdiff_t at, T* out) const {
  const std::ptrdiff_t n = p.n[0], sy = p.line, sz = p.plane;
  const T* const u = u_all + at;
  const T w = weight_[0];
  if constexpr (D == 1) {
#pragma GCC ivdep
    for (std::ptrdiff_t i = 0; i < n; ++i) out[i] = (mass_ + 2 * w) * u[i] - w * (u[i - 1] + u[i + 1]);
  } else {
    static thread_local std::vector<T> buffer;
    if (buffer.size() < 2 * std::size_t(n) + 4) buffer.resize(2 * std::size_t(n) + 4);
    T *const faces = buffer.data() + 1, *const edges = faces + n + 2;
    // Sums over the lines at distance one and at distance two.
#pragma GCC ivdep
    for (std::ptrdiff_t i = -1; i <= n; ++i) {
      faces[i] = u[i - sy] + u[i + sy];
      if constexpr (D > 2) {
        faces[i] += u[i - sz] + u[i + sz];
        edges[i] = (u[i - sy - sz] + u[i + sy - sz]) + (u[i - sy + sz] + u[i + sy + sz]);
      }
    }
    const T centre = mass_ + w * (D == 2 ? T(20) / T(6) : T(128) / T(30)),
            face = w * (D == 2 ? T(4) / T(6) : T(14) / T(30)), edge = w * (D == 2 ? T(1) / T(6) : T(3) / T(30)),
            corner = w / T(30);
#pragma GCC ivdep
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      T sum = centre * u[i] - face * (u[i - 1] + u[i + 1] + faces[i]);
      if constexpr (D == 2) sum -= edge * (faces[i - 1] + faces[i + 1]);
      else sum -= edge * (faces[i - 1] + faces[i + 1] + edges[i]) + corner * (edges[i - 1] + edges[i + 1]);
      out[i] = sum;
    }
  }
}

template <class T>
void Wide<T>::line(const T* u, std::size_t patch, std::ptrdiff_t j, std::ptrdiff_t k, T* out) const {
  const Patch& p = margin_.patches()[patch];
  const std::ptrdiff_t at = p.at(0, j, k);
  const int d = domain_.dimensions;
  if (stencil_ == CellStencil::fourth_order)
    d == 3   ? fourth_order_line<3>(u, p, at, out)
    : d == 2 ? fourth_order_line<2>(u, p, at, out)
             : fourth_order_line<1>(u, p, at, out);
  else
    d == 3 ? compact_line<3>(u, p, at, out) : d == 2 ? compact_line<2>(u, p, at, out) : compact_line<1>(u, p, at, out);
}

namespace {
constexpr std::size_t place125(std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k) {
  return std::size_t((i + 2) + 5 * (j + 2) + 25 * (k + 2));
}
}  // namespace

// The coefficients of a cell's equation by offset (place125), as away from the ends of the domain; returns the sum of
// their magnitudes.
template <class T>
double Wide<T>::gathered(std::size_t patch, std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k, double* c) const {
  std::fill_n(c, 125, 0.0);
  const Patch& p = margin_.patches()[patch];
  const int d = domain_.dimensions;
  const auto at = std::size_t(p.at(i, j, k));
  if (stencil_ == CellStencil::twenty_seven_point) {
    const double w = double(weight_[0]);
    const double part[4] = {d == 1   ? 2
                            : d == 2 ? 20.0 / 6
                                     : 128.0 / 30,
                            d == 1   ? -1
                            : d == 2 ? -4.0 / 6
                                     : -14.0 / 30,
                            d == 2 ? -1.0 / 6 : -3.0 / 30, -1.0 / 30};
    for (int z = d > 2 ? -1 : 0; z <= (d > 2 ? 1 : 0); ++z)
      for (int y = d > 1 ? -1 : 0; y <= (d > 1 ? 1 : 0); ++y)
        for (int x = -1; x <= 1; ++x) c[place125(x, y, z)] = w * part[std::abs(x) + std::abs(y) + std::abs(z)];
  } else {
    constexpr std::size_t step[3] = {1, 5, 25};
    for (int a = 0; a < d; ++a) {
      const auto ax = std::size_t(a);
      const std::size_t s = step[a];
      for (int side = 0; side < 2; ++side) {
        // The flux through the lower face of q (the cell itself, or the one above it), positive outwards.
        const std::size_t q = place125(0, 0, 0) + (side ? s : 0);
        const double sign = (side ? -1.0 : 1.0) / 12;
        const auto face = std::ptrdiff_t(at) + (side ? p.stride(a) : 0);
        const auto value = [&](std::ptrdiff_t shift) {
          return c_[ax].empty() ? double(weight_[ax]) : double(c_[ax][std::size_t(face + shift)]);
        };
        const double here = sign * value(0);
        c[q] += 15 * here, c[q - s] -= 15 * here, c[q + s] -= here, c[q - 2 * s] += here;
        if (c_[ax].empty()) continue;
        for (int t = 0; t < d; ++t) {
          if (t == a) continue;
          const double cross = sign * 0.25 * (value(p.stride(t)) - value(-p.stride(t)));
          const std::size_t o = step[t];
          c[q + o] += cross, c[q + o - s] -= cross, c[q - o] -= cross, c[q - o - s] += cross;
        }
      }
    }
  }
  c[place125(0, 0, 0)] += double(mass_);
  if (!masses_.empty()) {
    constexpr std::size_t step[3] = {1, 5, 25};
    c[place125(0, 0, 0)] += double(masses_[at]);
    if (stencil_ == CellStencil::fourth_order)
      for (int a = 0; a < d; ++a) {
        const auto o = std::size_t(p.stride(a));
        const double cross = (double(masses_[at + o]) - double(masses_[at - o])) / 48;
        c[place125(0, 0, 0) + step[a]] += cross, c[place125(0, 0, 0) - step[a]] -= cross;
      }
  }
  double sum = 0;
  for (std::size_t e = 0; e < 125; ++e) sum += std::abs(c[e]);
  return sum;
}

template <class T>
bool Wide<T>::near_end(const Patch& p, std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k) const {
  const std::ptrdiff_t c[3] = {i, j, k};
  for (std::size_t a = 0; a < std::size_t(domain_.dimensions); ++a) {
    const Global at = p.box.lower[a] + c[a], n = domain_.cells(int(a));
    if (domain_.periodic(int(a)) ? n < 5 : at < 2 || at >= n - 2) return true;
  }
  return false;
}

template <class T>
auto Wide<T>::row(std::size_t patch, std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k) const -> std::vector<Entry> {
  const Patch& p = margin_.patches()[patch];
  double c[125];
  gathered(patch, i, j, k, c);
  std::map<std::array<Global, 3>, double> sums;
  const std::array<Global, 3> here{p.box.lower[0] + i, p.box.lower[1] + j, p.box.lower[2] + k};
  // The value at a position along an axis as a weighted sum of those of inner cells.
  const auto within = [&](std::size_t a, Global at) {
    std::vector<std::pair<Global, double>> cells;
    const Global n = domain_.cells(int(a));
    if (at >= 0 && at < n) return cells.emplace_back(at, 1.0), cells;
    if (domain_.periodic(int(a))) return cells.emplace_back((at % n + n) % n, 1.0), cells;
    const std::size_t side = at < 0 ? 0 : 1, layer = std::size_t(at < 0 ? -1 - at : at - n);
    const auto& w = ends_[a][side][layer];
    for (std::size_t m = 0; m + 1 < w.size(); ++m) cells.emplace_back(side ? n - 1 - Global(m) : Global(m), w[m]);
    return cells;
  };
  for (int z = -2; z <= 2; ++z)
    for (int y = -2; y <= 2; ++y)
      for (int x = -2; x <= 2; ++x) {
        const double v = c[place125(x, y, z)];
        if (v == 0) continue;
        for (const auto& [cz, wz] : within(2, here[2] + z))
          for (const auto& [cy, wy] : within(1, here[1] + y))
            for (const auto& [cx, wx] : within(0, here[0] + x)) sums[{cx, cy, cz}] += v * wz * wy * wx;
      }
  return {sums.begin(), sums.end()};
}

template <class T>
std::vector<T> Wide<T>::diagonal() const {
  std::vector<T> all;
  double c[125], inner = 0;  // inner: the diagonal of all cells away from ends, for constant coefficients
  for (std::size_t q = 0; q < margin_.patches().size(); ++q) {
    const Patch& p = margin_.patches()[q];
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j)
        for (std::ptrdiff_t i = 0; i < p.n[0]; ++i) {
          double value = 0;
          if (near_end(p, i, j, k)) {
            const std::array<Global, 3> here{p.box.lower[0] + i, p.box.lower[1] + j, p.box.lower[2] + k};
            for (const auto& [cell, v] : row(q, i, j, k))
              if (cell == here) value += v;
          } else if (!c_[0].empty()) {
            const auto at = std::size_t(p.at(i, j, k));
            value = double(mass_) + (masses_.empty() ? 0.0 : double(masses_[at]));
            for (int a = 0; a < domain_.dimensions; ++a)
              value +=
                  1.25 * (double(c_[std::size_t(a)][at]) + double(c_[std::size_t(a)][at + std::size_t(p.stride(a))]));
          } else {
            if (inner == 0) gathered(q, i, j, k, c), inner = c[place125(0, 0, 0)];
            value = inner;
          }
          all.push_back(T(value));
        }
  }
  return all;
}

template <class T>
std::vector<T> Wide<T>::row_sums() const {
  std::vector<T> all;
  double c[125];
  for (std::size_t q = 0; q < margin_.patches().size(); ++q) {
    const Patch& p = margin_.patches()[q];
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j)
        for (std::ptrdiff_t i = 0; i < p.n[0]; ++i) {
          double sum = 0;
          if (near_end(p, i, j, k)) {
            for (const auto& [cell, v] : row(q, i, j, k)) sum += std::abs(v);
          } else {
            sum = gathered(q, i, j, k, c);
          }
          all.push_back(T(sum));
        }
  }
  return all;
}

template <class T>
std::vector<T> Wide<T>::end_terms(const FaceData& data) const {
  std::vector<T> u(margin_.size(), T(0));
  fill(u.data(), &data);
  std::vector<T> terms;
  std::vector<T> out;
  for (std::size_t q = 0; q < margin_.patches().size(); ++q) {
    const Patch& p = margin_.patches()[q];
    out.resize(std::size_t(p.n[0]));
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j) {
        line(u.data(), q, j, k, out.data());
        for (const T v : out) terms.push_back(-v);
      }
  }
  return terms;
}

template class Wide<float>;
template class Wide<double>;

}  // namespace tacit::op
