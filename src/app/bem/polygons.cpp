#include <tacit/app/bem/polygons.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace tacit::app::bem {
namespace {

using Flat = std::array<double, 2>;  // a point of the face's plane

constexpr double bend = 0.1;          // of a face's size, see Triangulation::bent
constexpr double least_area = 1e-13;  // of the square of a triangle's longest edge, as in inspect()
constexpr double rounding = 8 * std::numeric_limits<double>::epsilon();

Point difference(const Point& a, const Point& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double dot(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
double length(const Point& a) {
  return std::sqrt(dot(a, a));
}

// Twice the area of a triangle; positive where its corners go round to the left.
double turn(const Flat& a, const Flat& b, const Flat& c) {
  return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}
double distance2(const Flat& a, const Flat& b) {
  return (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]);
}
// 1: to the left, -1: to the right, 0: on a line, up to rounding errors of coordinates up to 1.
int side(const Flat& a, const Flat& b, const Flat& c) {
  const double longest2 = std::max({distance2(a, b), distance2(b, c), distance2(c, a)}), t = turn(a, b, c);
  const double none = std::max(2 * least_area * longest2, rounding * std::sqrt(longest2));
  return t > none ? 1 : t < -none ? -1 : 0;
}

// A face in its plane, in units of its size, going round to the left.
class Face {
 public:
  /// Takes the corners relative to the first one; neighbours at the same place count once.
  void set(std::span<const Point> vertices, std::span<const Local> corners) {
    places_.clear(), names_.clear(), flat_.clear();
    size_ = low_ = high_ = 0, finite_ = true;
    const Point& origin = vertices[std::size_t(corners[0])];
    for (const Local c : corners) {
      places_.push_back(difference(vertices[std::size_t(c)], origin));
      for (const double v : places_.back()) size_ = std::max(size_, std::abs(v)), finite_ = finite_ && std::isfinite(v);
      names_.push_back(c);
      if (places_.size() > 1 && places_[places_.size() - 2] == places_.back()) places_.pop_back(), names_.pop_back();
    }
    while (places_.size() > 1 && places_.front() == places_.back()) places_.pop_back(), names_.pop_back();
    for (Point& p : places_)
      for (double& v : p) v /= size_;
  }

  std::span<const Local> names() const { return names_; }
  std::size_t corners() const { return names_.size(); }
  bool finite() const { return finite_; }
  bool bent() const { return high_ - low_ > bend; }
  bool on_a_line() const;
  bool flatten();
  bool fan_divides() const;
  std::optional<std::vector<std::array<Local, 3>>> ears() const;

 private:
  bool crosses() const;

  std::vector<Point> places_;
  std::vector<Local> names_;
  std::vector<Flat> flat_;
  double size_ = 0, low_ = 0, high_ = 0;
  bool finite_ = true;
};

bool Face::on_a_line() const {
  Point axis{};
  for (const Point& p : places_)
    if (length(p) > length(axis)) axis = p;
  return std::all_of(places_.begin(), places_.end(),
                     [&](const Point& p) { return length(cross(axis, p)) <= 1e-10 * dot(axis, axis); });
}

// Projects along Newell's normal, the sum of the cross products of the edges; false where that is 0.
bool Face::flatten() {
  Point normal{};
  for (std::size_t k = 1; k + 1 < places_.size(); ++k) {
    const Point n = cross(places_[k], places_[k + 1]);
    for (std::size_t d = 0; d < 3; ++d) normal[d] += n[d];
  }
  const double size = length(normal);
  if (!(size > 2 * least_area)) return false;
  for (double& v : normal) v /= size;
  std::size_t least = 0;
  for (std::size_t d = 1; d < 3; ++d)
    if (std::abs(normal[d]) < std::abs(normal[least])) least = d;
  Point axis{};
  axis[least] = 1;
  Point u = cross(axis, normal);
  const double unit = length(u);
  for (double& v : u) v /= unit;
  const Point v = cross(normal, u);
  for (const Point& p : places_) {
    flat_.push_back({dot(u, p), dot(v, p)});
    low_ = std::min(low_, dot(normal, p)), high_ = std::max(high_, dot(normal, p));
  }
  return true;
}

// Whether the triangles between the first corner and each edge go round to the left, and less than once around that
// corner: then they do not overlap.
bool Face::fan_divides() const {
  bool behind = false;
  for (std::size_t k = 1; k + 1 < flat_.size(); ++k) {
    if (side(flat_[0], flat_[k], flat_[k + 1]) <= 0) return false;
    const bool left = turn(flat_[0], flat_[1], flat_[k + 1]) >= 0;
    if (behind && left) return false;
    behind = !left;
  }
  return true;
}

// Whether two edges cross, not only touch.
bool Face::crosses() const {
  const std::size_t k = flat_.size();
  const auto low = [&](std::size_t e) { return std::min(flat_[e][0], flat_[(e + 1) % k][0]); };
  const auto high = [&](std::size_t e) { return std::max(flat_[e][0], flat_[(e + 1) % k][0]); };
  std::vector<std::size_t> edges(k);
  std::iota(edges.begin(), edges.end(), std::size_t(0));
  std::sort(edges.begin(), edges.end(), [&](std::size_t a, std::size_t b) { return low(a) < low(b); });
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = i + 1; j < k && low(edges[j]) < high(edges[i]); ++j) {
      const Flat &a = flat_[edges[i]], &b = flat_[(edges[i] + 1) % k];
      const Flat &c = flat_[edges[j]], &d = flat_[(edges[j] + 1) % k];
      if (side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0) return true;
    }
  return false;
}

// The corners that are left while ears are cut off, as a ring.
class Ring {
 public:
  explicit Ring(const std::vector<Flat>& at)
      : at_(at), next_(at.size()), before_(at.size()), quality_(at.size()), hollow_(at.size()), left_(at.size()) {
    for (std::size_t i = 0; i < at.size(); ++i)
      next_[i] = (i + 1) % at.size(), before_[i] = (i + at.size() - 1) % at.size();
    for (std::size_t i = 0; i < at.size(); ++i) hollow_[i] = side(at_[before_[i]], at_[i], at_[next_[i]]) <= 0;
    for (std::size_t i = 0; i < at.size(); ++i) quality_[i] = quality(i);
  }
  std::size_t left() const { return left_; }

  // Removes a corner and returns the triangle with its neighbours; none where that has no area. `stuck` where there is
  // no such corner.
  std::optional<std::array<std::size_t, 3>> cut(bool& stuck) {
    std::size_t best = first_;
    for (std::size_t i = next_[first_]; i != first_; i = next_[i])
      if (quality_[i] > quality_[best]) best = i;
    if (quality_[best] == nothing) return remove(best), std::nullopt;
    if (quality_[best] > 0) {
      const std::array<std::size_t, 3> triangle{before_[best], best, next_[best]};
      remove(best);
      return triangle;
    }
    std::size_t i = first_;
    do {
      if (side(at_[before_[i]], at_[i], at_[next_[i]]) == 0) return remove(i), std::nullopt;
      i = next_[i];
    } while (i != first_);
    stuck = true;
    return std::nullopt;
  }

 private:
  // Of the triangle that an ear would be, its area over the square of its longest edge; -1 where it is no ear: the
  // corner is not convex, or another corner is in the triangle or on its inner edge. `nothing` for a corner from which
  // the edge goes back on itself (what remains of the two edges that join a hole to the outside).
  static constexpr double nothing = std::numeric_limits<double>::infinity();
  double quality(std::size_t i) const {
    const Flat &a = at_[before_[i]], &b = at_[i], &c = at_[next_[i]];
    if (a == c || a == b) return nothing;
    if (hollow_[i]) return -1;
    for (std::size_t q = next_[next_[i]]; q != before_[i]; q = next_[q]) {
      const Flat& p = at_[q];
      if (!hollow_[q] || p == a || p == b || p == c) continue;
      if (side(a, b, p) > 0 && side(b, c, p) > 0 && side(c, a, p) >= 0) return -1;
    }
    return turn(a, b, c) / std::max({distance2(a, b), distance2(b, c), distance2(c, a)});
  }

  void remove(std::size_t i) {
    const std::size_t a = before_[i], c = next_[i];
    next_[a] = c, before_[c] = a, first_ = c;
    --left_;
    for (const std::size_t k : {a, c}) hollow_[k] = side(at_[before_[k]], at_[k], at_[next_[k]]) <= 0;
    for (const std::size_t k : {a, c}) quality_[k] = quality(k);
  }

  const std::vector<Flat>& at_;
  std::vector<std::size_t> next_, before_;
  std::vector<double> quality_;
  std::vector<char> hollow_;  // not convex
  std::size_t left_, first_ = 0;
};

// Triangles that all go round to the left and whose edges add up to the face's cover each point as often as the face
// goes round it: once, unless the face crosses itself.
std::optional<std::vector<std::array<Local, 3>>> Face::ears() const {
  std::vector<std::array<Local, 3>> made;
  bool stuck = false;
  for (Ring ring(flat_); ring.left() > 2;) {
    const auto ear = ring.cut(stuck);
    if (stuck) return std::nullopt;
    if (ear) made.push_back({names_[(*ear)[0]], names_[(*ear)[1]], names_[(*ear)[2]]});
  }
  if (crosses()) return std::nullopt;
  return made;
}

void add_fan(Triangulation& made, Local face, std::span<const Local> corners) {
  for (std::size_t k = 1; k + 1 < corners.size(); ++k) {
    made.triangles.push_back({corners[0], corners[k], corners[k + 1]});
    made.face.push_back(face);
  }
}

void add_polygon(Triangulation& made, Face& face, Local number, std::span<const Local> corners) {
  if (face.corners() < 3) return add_fan(made, number, corners.first(3));
  if (!face.finite()) return add_fan(made, number, corners);  // inspect() names the vertex
  const bool has_area = face.flatten();
  if (has_area && face.bent() && ++made.bent == 1) made.first_bent = number;
  if ((has_area && face.fan_divides()) || (!has_area && face.on_a_line())) return add_fan(made, number, face.names());
  const auto ears = has_area ? face.ears() : std::nullopt;
  if (!ears) {
    if (++made.crossing == 1) made.first_crossing = number;
    return;
  }
  for (const auto& triangle : *ears) made.triangles.push_back(triangle), made.face.push_back(number);
}

}  // namespace

Triangulation triangulate(std::span<const Point> vertices, const Polygons& faces) {
  Triangulation made;
  const std::size_t expected = faces.corners.size() - std::min(faces.corners.size(), 2 * std::size_t(faces.size()));
  made.triangles.reserve(expected), made.face.reserve(expected);
  Face face;  // one for all, which keeps its memory
  for (Local f = 0; f < faces.size(); ++f) {
    const Global first = faces.starts[std::size_t(f)], last = faces.starts[std::size_t(f) + 1];
    if (last - first < 3)
      throw Error(ErrorKind::input, message("face ", f, " has ", last - first, " corners; at least 3 are needed"));
    const std::span<const Local> corners(faces.corners.data() + first, std::size_t(last - first));
    for (const Local c : corners)
      if (c < 0 || c >= Local(vertices.size()))
        throw Error(ErrorKind::input, message("face ", f, " has vertex ", c, " of ", vertices.size()));
    if (corners.size() == 3) {
      add_fan(made, f, corners);
    } else {
      face.set(vertices, corners);
      add_polygon(made, face, f, corners);
    }
  }
  return made;
}

std::string crossing_faces(const Triangulation& made, const std::string& first) {
  return message(made.crossing,
                 made.crossing == 1 ? " face crosses itself: " : " faces cross themselves; the first is ", first,
                 "; divide such faces into triangles in the program that made the mesh");
}

std::string bent_faces(const Triangulation& made, const std::string& first) {
  return message(made.bent, made.bent == 1 ? " face is" : " faces are",
                 " bent by more than a tenth of its size, so that another division into triangles is another surface: ",
                 made.bent == 1 ? "" : "the first is ", first);
}

}  // namespace tacit::app::bem
