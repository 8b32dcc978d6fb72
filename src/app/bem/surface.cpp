#include <tacit/app/bem/surface.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace tacit::app::bem {
namespace {

using Triangle = std::array<Local, 3>;

// Disjoint sets of indices (union-find), represented by their smallest index.
class Groups {
 public:
  explicit Groups(std::size_t n) : up_(n) { std::iota(up_.begin(), up_.end(), Local(0)); }
  Local find(Local i) {
    while (up_[std::size_t(i)] != i) i = up_[std::size_t(i)] = up_[std::size_t(up_[std::size_t(i)])];
    return i;
  }
  void join(Local i, Local j) {
    i = find(i), j = find(j);
    up_[std::size_t(std::max(i, j))] = std::min(i, j);
  }

 private:
  std::vector<Local> up_;
};

// For every vertex the first one of its cluster; clusters are connected by steps of at most `distance`.
std::vector<Local> first_at_place(const std::vector<Point>& vertices, double distance) {
  std::vector<Local> order(vertices.size());
  std::iota(order.begin(), order.end(), Local(0));
  // Sorted along the longest side of the bounding box, so that also in plates few vertices are within `distance` in it.
  op::Box box;
  for (const Point& p : vertices) box.add(op::Box::of(p));
  std::size_t axis = 0;
  for (std::size_t d = 1; d < 3; ++d)
    if (box.high[d] - box.low[d] > box.high[axis] - box.low[axis]) axis = d;
  const auto at = [&](Local i) {
    const Point& p = vertices[std::size_t(i)];
    return Point{p[axis], p[(axis + 1) % 3], p[(axis + 2) % 3]};
  };
  std::sort(order.begin(), order.end(), [&](Local i, Local j) { return at(i) != at(j) ? at(i) < at(j) : i < j; });
  Groups groups(vertices.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Point p = at(order[k]);
    for (std::size_t l = k + 1; l < order.size(); ++l) {
      const Point q = at(order[l]);
      if (q[0] - p[0] > distance) break;
      if (distance == 0 && p[1] != q[1]) break;  // sorted: all later ones differ
      if (std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]) <= distance) groups.join(order[k], order[l]);
      else if (distance == 0) break;
    }
  }
  std::vector<Local> first(vertices.size());
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = groups.find(Local(i));
  return first;
}

std::vector<Triangle> renamed(const Mesh& mesh, const std::vector<Local>& name) {
  std::vector<Triangle> triangles = mesh.triangles;
  for (Triangle& t : triangles)
    for (Local& v : t) v = name[std::size_t(v)];
  return triangles;
}

void check(const Mesh& mesh) {
  require(mesh.size() > 0, "a mesh without triangles");
  for (std::size_t i = 0; i < mesh.vertices.size(); ++i)
    for (const double c : mesh.vertices[i])
      if (!std::isfinite(c)) throw Error(ErrorKind::input, message("vertex ", i, " has the coordinate ", c));
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t)
    for (const Local v : mesh.triangles[t])
      if (v < 0 || std::size_t(v) >= mesh.vertices.size())
        throw Error(ErrorKind::input, message("triangle ", t, " has vertex ", v, " of ", mesh.vertices.size()));
}

double square_of_edge(const Mesh& mesh, std::size_t t, std::size_t k) {
  const Point &a = mesh.vertices[std::size_t(mesh.triangles[t][k])],
              &b = mesh.vertices[std::size_t(mesh.triangles[t][(k + 1) % 3])];
  double sum = 0;
  for (std::size_t d = 0; d < 3; ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

// Triangles whose area is zero to the rounding of coordinates.
std::vector<char> flat_ones(const Mesh& mesh) {
  std::vector<char> flat(mesh.triangles.size());
  for (std::size_t t = 0; t < flat.size(); ++t) {
    const double longest =
        std::max({square_of_edge(mesh, t, 0), square_of_edge(mesh, t, 1), square_of_edge(mesh, t, 2)});
    flat[t] = !(mesh.area(Local(t)) > 1e-13 * longest);
  }
  return flat;
}

// Whether an earlier triangle has the same corners.
std::vector<char> repeated_ones(const std::vector<Triangle>& triangles) {
  std::vector<std::pair<Triangle, Local>> sorted;
  sorted.reserve(triangles.size());
  for (std::size_t t = 0; t < triangles.size(); ++t) {
    Triangle corners = triangles[t];
    std::sort(corners.begin(), corners.end());
    sorted.emplace_back(corners, Local(t));
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<char> repeated(triangles.size());
  for (std::size_t k = 1; k < sorted.size(); ++k)
    repeated[std::size_t(sorted[k].second)] = sorted[k].first == sorted[k - 1].first;
  return repeated;
}

struct Edge {
  Local low, high, triangle;
  bool upwards;
};

std::vector<Edge> edges_of(const std::vector<Triangle>& triangles, const std::vector<char>& left_out) {
  std::vector<Edge> edges;
  edges.reserve(3 * triangles.size());
  for (std::size_t t = 0; t < triangles.size(); ++t)
    for (std::size_t k = 0; k < 3 && !left_out[t]; ++k) {
      const Local a = triangles[t][k], b = triangles[t][(k + 1) % 3];
      edges.push_back({std::min(a, b), std::max(a, b), Local(t), a < b});
    }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.low, a.high, a.triangle) < std::tie(b.low, b.high, b.triangle);
  });
  return edges;
}

// Calls f(first, count) for the triangles at each edge.
template <class F>
void at_each_edge(const std::vector<Edge>& edges, F&& f) {
  for (std::size_t k = 0; k < edges.size();) {
    std::size_t end = k + 1;
    while (end < edges.size() && edges[end].low == edges[k].low && edges[end].high == edges[k].high) ++end;
    f(edges.data() + k, end - k);
    k = end;
  }
}

double signed_volume(const Mesh& mesh, const Triangle& t, const Point& origin) {
  double p[3][3];
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t d = 0; d < 3; ++d) p[k][d] = mesh.vertices[std::size_t(t[k])][d] - origin[d];
  return (p[0][0] * (p[1][1] * p[2][2] - p[1][2] * p[2][1]) + p[0][1] * (p[1][2] * p[2][0] - p[1][0] * p[2][2]) +
          p[0][2] * (p[1][0] * p[2][1] - p[1][1] * p[2][0])) /
         6;
}

}  // namespace

Surface inspect(const Mesh& mesh) {
  check(mesh);
  Surface s;
  const auto first = first_at_place(mesh.vertices, 0);
  const auto triangles = renamed(mesh, first);
  std::vector<char> used(mesh.vertices.size());
  for (const Triangle& t : mesh.triangles)
    for (const Local v : t) used[std::size_t(v)] = 1;
  for (std::size_t v = 0; v < used.size(); ++v) {
    s.unused_vertices += !used[v];
    if (used[v] && first[v] != Local(v) && ++s.repeated_vertices == 1) s.first_repeated_vertex = Global(v);
  }
  const auto flat = flat_ones(mesh), repeated = repeated_ones(triangles);
  Groups groups(mesh.vertices.size());
  s.least_area = mesh.area(0);
  for (std::size_t t = 0; t < triangles.size(); ++t) {
    if (flat[t] && ++s.flat_triangles == 1) s.first_flat_triangle = Global(t);
    if (!flat[t] && repeated[t] && ++s.repeated_triangles == 1) s.first_repeated_triangle = Global(t);
    groups.join(triangles[t][0], triangles[t][1]);
    groups.join(triangles[t][0], triangles[t][2]);
    const double area = mesh.area(Local(t));
    s.area += area;
    s.least_area = std::min(s.least_area, area), s.most_area = std::max(s.most_area, area);
    for (std::size_t k = 0; k < 3; ++k) {
      s.longest_edge = std::max(s.longest_edge, square_of_edge(mesh, t, k));
      s.box.add(op::Box::of(mesh.vertices[std::size_t(triangles[t][k])]));
    }
  }
  s.longest_edge = std::sqrt(s.longest_edge);
  at_each_edge(edges_of(triangles, flat), [&](const Edge* e, std::size_t count) {
    if (count == 1) ++s.border_edges;
    else if (count > 2) ++s.crowded_edges;
    else if (e[0].upwards == e[1].upwards) ++s.flipped_edges;
  });
  std::vector<Local> number(mesh.vertices.size(), -1);
  for (const Triangle& t : triangles) {
    Local& n = number[std::size_t(groups.find(t[0]))];
    if (n < 0) n = s.components++;
    s.component.push_back(n);
  }
  for (const Triangle& t : triangles) s.volume += signed_volume(mesh, t, s.box.low);
  return s;
}

namespace {

// Which triangles have to be turned for their part of the surface to have one orientation, outwards where it is closed.
std::vector<char> turned_ones(const Mesh& mesh, const std::vector<Triangle>& kept) {
  // Neighbours across an edge of two triangles, and whether they have the same orientation.
  std::vector<std::array<std::pair<Local, bool>, 3>> neighbour(kept.size());
  std::vector<char> count(kept.size());
  std::vector<char> open(kept.size());
  at_each_edge(edges_of(kept, std::vector<char>(kept.size())), [&](const Edge* e, std::size_t n) {
    if (n != 2) {
      for (std::size_t k = 0; k < n; ++k) open[std::size_t(e[k].triangle)] = 1;
      return;
    }
    for (std::size_t k = 0; k < 2; ++k) {
      const std::size_t t = std::size_t(e[k].triangle);
      neighbour[t][std::size_t(count[t]++)] = {e[1 - k].triangle, e[0].upwards != e[1].upwards};
    }
  });
  std::vector<char> seen(kept.size()), turned(kept.size());
  std::vector<Local> part;
  for (std::size_t start = 0; start < kept.size(); ++start) {
    if (seen[start]) continue;
    part.assign(1, Local(start));
    seen[start] = 1;
    bool closed = true;
    for (std::size_t k = 0; k < part.size(); ++k) {
      const std::size_t t = std::size_t(part[k]);
      closed = closed && !open[t];
      for (std::size_t i = 0; i < std::size_t(count[t]); ++i) {
        const auto [other, alike] = neighbour[t][i];
        if (seen[std::size_t(other)]) continue;
        seen[std::size_t(other)] = 1;
        turned[std::size_t(other)] = char(turned[t] != !alike);
        part.push_back(other);
      }
    }
    double volume = 0;
    const Point origin = mesh.vertices[std::size_t(kept[start][0])];
    for (const Local t : part)
      volume += signed_volume(mesh, kept[std::size_t(t)], origin) * (turned[std::size_t(t)] ? -1 : 1);
    if (closed && volume < 0)
      for (const Local t : part) turned[std::size_t(t)] = !turned[std::size_t(t)];
  }
  return turned;
}

}  // namespace

Mended mend(const Mesh& mesh, double distance) {
  check(mesh);
  require(distance >= 0 && std::isfinite(distance), "vertices within a distance of ", distance, " are to be merged");
  Mended made;
  const auto first = first_at_place(mesh.vertices, distance);
  const auto triangles = renamed(mesh, first);
  const Mesh whole{mesh.vertices, triangles};
  const auto flat = flat_ones(whole), repeated = repeated_ones(triangles);
  for (std::size_t t = 0; t < triangles.size(); ++t) {
    if (flat[t] || repeated[t]) continue;
    made.mesh.triangles.push_back(triangles[t]);
    made.kept.push_back(Global(t));
  }
  made.dropped_triangles = Global(triangles.size()) - made.mesh.size();
  if (made.mesh.triangles.empty()) throw Error(ErrorKind::input, "no triangle of the mesh has an area");

  auto& kept = made.mesh.triangles;
  const auto turned = turned_ones(mesh, kept);
  for (std::size_t t = 0; t < kept.size(); ++t)
    if (turned[t]) std::swap(kept[t][1], kept[t][2]), ++made.turned_triangles;

  std::vector<Local> number(mesh.vertices.size(), -1);
  std::vector<char> used(mesh.vertices.size());
  for (const Triangle& t : mesh.triangles)
    for (const Local v : t) used[std::size_t(v)] = 1;
  for (std::size_t v = 0; v < used.size(); ++v) made.merged_vertices += used[v] && first[v] != Local(v);
  for (Triangle& t : kept)
    for (Local& v : t) {
      Local& n = number[std::size_t(v)];
      if (n < 0) n = Local(made.mesh.vertices.size()), made.mesh.vertices.push_back(mesh.vertices[std::size_t(v)]);
      v = n;
    }
  return made;
}

}  // namespace tacit::app::bem
