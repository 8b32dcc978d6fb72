#include <tacit/app/bem/polygons.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <numbers>
#include <string_view>
#include <system_error>
#include <tuple>

namespace tacit::app::bem {
namespace {

Point between(const Point& a, const Point& b, const Point& c, double i, double j, double n) {
  Point p;
  for (std::size_t d = 0; d < 3; ++d) p[d] = (a[d] * (n - i - j) + b[d] * i + c[d] * j) / n;
  return p;
}
Point on_sphere(Point p, double radius) {
  const double length = std::hypot(p[0], p[1], p[2]);
  for (double& c : p) c *= radius / length;
  return p;
}

// Triangles and vertices are numbered in 32 bits.
void require_size(double triangles) {
  require(triangles < 2e9, triangles, " triangles are too many; fewer than 2e9 are needed");
}

void require_radius(double radius) {
  require(radius > 0 && std::isfinite(radius), "a sphere of radius ", radius, "; a finite number above 0 is needed");
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, message(path, ": ", what));
}

Mesh read_pbf(std::istream& in, const std::string& path, std::vector<double>* potential) {
  const auto integer = [&](const char* what) {
    Global v;
    if (!(in >> v)) refuse(path, message("the ", what, " is missing or no integer"));
    return v;
  };
  const auto number = [&](const char* what) {
    double v;
    if (!(in >> v) || !std::isfinite(v)) refuse(path, message("a ", what, " is missing or no number"));
    return v;
  };
  const auto count = [&](const char* what) {
    const Global v = integer(what);
    if (v < 0 || v > 2'000'000'000) refuse(path, message("the ", what, " is ", v));
    return v;
  };
  Mesh mesh;
  const Global vertices = count("number of vertices");
  for (Global i = 0; i < vertices; ++i) {
    Point p;
    for (double& c : p) c = number("coordinate");
    mesh.vertices.push_back(p);
  }
  const Global triangles = count("number of faces");
  if (const Global corners = count("number of vertices of a face"); corners != 3)
    refuse(path, message("faces of ", corners, " vertices; triangles are needed"));
  const Global integers = count("number of integer parameters"), reals = count("number of real parameters");
  for (Global i = 0; i < triangles; ++i) {
    std::array<Local, 3> t;
    for (Local& v : t) {
      const Global corner = integer("vertex of a face");
      if (corner < 0 || corner >= vertices) refuse(path, message("face ", i, " has vertex ", corner, " of ", vertices));
      v = Local(corner);
    }
    mesh.triangles.push_back(t);
  }
  for (Global i = 0; i < integers * triangles; ++i) integer("integer parameter");
  for (Global i = 0; i < triangles && potential; ++i)
    for (Global k = 0; k < reals; ++k) {
      const double v = number("real parameter");
      if (k == 0) potential->push_back(v);
    }
  return mesh;
}

// Words of a line of a Wavefront file, without its comment; a line that ends with a backslash continues on the next.
class ObjLines {
 public:
  explicit ObjLines(std::istream& in) : in_(in) {}

  bool next() {
    words_.clear();
    if (!std::getline(in_, line_)) return false;
    first_ = ++at_;
    if (first_ == 1 && line_.starts_with("\xef\xbb\xbf")) line_.erase(0, 3);  // the mark of UTF-8
    for (std::string more; continues() && std::getline(in_, more); ++at_) line_ += " " + more;
    const std::string_view text = std::string_view(line_).substr(0, line_.find('#'));
    constexpr auto blank = " \t\r\f\v";
    for (std::size_t from = 0; (from = text.find_first_not_of(blank, from)) != text.npos;) {
      const std::size_t to = std::min(text.find_first_of(blank, from), text.size());
      words_.push_back(text.substr(from, to - from));
      from = to;
    }
    return true;
  }
  const std::vector<std::string_view>& words() const { return words_; }
  Global line() const { return first_; }

 private:
  // Removes the backslash at the end of the line, if there is one.
  bool continues() {
    const std::size_t last = line_.find_last_not_of(" \t\r");
    if (last == line_.npos || line_[last] != '\\') return false;
    line_.resize(last);
    return true;
  }
  std::istream& in_;
  std::string line_;
  std::vector<std::string_view> words_;
  Global at_ = 0, first_ = 0;
};

// A number at the beginning of a word, and what follows it; false where there is none.
template <class N>
bool number_of(std::string_view word, N& number, std::string_view& rest) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  rest = word.substr(std::size_t(end - word.data()));
  return error == std::errc();
}

// The vertex of a corner "7", "7/1", "7//2", "7/1/2"; from the last vertex where it is negative.
Local obj_corner(std::string_view word, Global vertices, const std::string& path, Global line) {
  Global corner = 0;
  std::string_view rest;
  if (!number_of(word, corner, rest) || (!rest.empty() && rest[0] != '/'))
    refuse(path, message("line ", line, " is no face"));
  const Global v = corner < 0 ? vertices + corner : corner - 1;
  if (v < 0 || v >= vertices) refuse(path, message("line ", line, " has vertex ", corner, " of ", vertices));
  return Local(v);
}

Mesh read_obj(std::istream& in, const std::string& path, std::vector<std::string>* notes) {
  Mesh mesh;
  Polygons faces;
  std::vector<Global> lines;
  for (ObjLines file(in); file.next();) {
    const auto& words = file.words();
    if (words.empty()) continue;
    if (words[0] == "v" || words[0] == "V") {
      Point p;
      std::string_view rest;
      for (std::size_t d = 0; d < 3; ++d)
        if (d + 1 >= words.size() || !number_of(words[d + 1], p[d], rest) || !rest.empty() || !std::isfinite(p[d]))
          refuse(path, message("line ", file.line(), " is no vertex"));
      mesh.vertices.push_back(p);
    } else if (words[0] == "f" || words[0] == "F" || words[0] == "fo") {  // fo: of versions before 3
      if (words.size() < 4)
        refuse(path, message("line ", file.line(), " is a face of ", words.size() - 1, " vertices"));
      for (std::size_t k = 1; k < words.size(); ++k)
        faces.corners.push_back(obj_corner(words[k], Global(mesh.vertices.size()), path, file.line()));
      faces.starts.push_back(Global(faces.corners.size()));
      lines.push_back(file.line());
    }
  }
  Triangulation made = triangulate(mesh.vertices, faces);
  const auto line_of = [&](Global face) { return message("face ", face, " (line ", lines[std::size_t(face)], ")"); };
  if (made.crossing > 0) refuse(path, crossing_faces(made, line_of(made.first_crossing)));
  if (made.bent > 0 && notes) notes->push_back(bent_faces(made, line_of(made.first_bent)));
  mesh.triangles = std::move(made.triangles);
  return mesh;
}

}  // namespace

Point Mesh::centroid(Local t) const {
  const auto& corners = triangles[std::size_t(t)];
  Point c{};
  for (std::size_t d = 0; d < 3; ++d)
    c[d] = (vertices[std::size_t(corners[0])][d] + vertices[std::size_t(corners[1])][d] +
            vertices[std::size_t(corners[2])][d]) /
           3;
  return c;
}

double Mesh::area(Local t) const {
  const auto& corners = triangles[std::size_t(t)];
  const Point &a = vertices[std::size_t(corners[0])], &b = vertices[std::size_t(corners[1])],
              &c = vertices[std::size_t(corners[2])];
  Point u, v;
  for (std::size_t d = 0; d < 3; ++d) u[d] = b[d] - a[d], v[d] = c[d] - a[d];
  return std::hypot(u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]) / 2;
}

op::Geometry Mesh::geometry() const {
  op::Geometry g;
  for (Local t = 0; t < size(); ++t) {
    g.points.push_back(centroid(t));
    op::Box box;
    for (const Local v : triangles[std::size_t(t)]) box.add(op::Box::of(vertices[std::size_t(v)]));
    g.boxes.push_back(box);
  }
  return g;
}

Mesh Mesh::reordered(std::span<const Global> order) const {
  Mesh mesh{vertices, {}};
  for (const Global t : order) mesh.triangles.push_back(triangles[std::size_t(t)]);
  return mesh;
}

Mesh geodesic_sphere(int cuts, double radius) {
  require(cuts >= 1, "a sphere with edges in ", cuts, " parts; at least 1 is needed");
  require_radius(radius);
  require_size(20.0 * cuts * cuts);
  static constexpr int faces[20][3] = {{0, 11, 5}, {0, 5, 1},  {0, 1, 7},   {0, 7, 10}, {0, 10, 11},
                                       {1, 5, 9},  {5, 11, 4}, {11, 10, 2}, {10, 7, 6}, {7, 1, 8},
                                       {3, 9, 4},  {3, 4, 2},  {3, 2, 6},   {3, 6, 8},  {3, 8, 9},
                                       {4, 9, 5},  {2, 4, 11}, {6, 2, 10},  {8, 6, 7},  {9, 8, 1}};
  const double g = std::numbers::phi;
  const Point corner[12] = {{-1, g, 0},  {1, g, 0},  {-1, -g, 0}, {1, -g, 0}, {0, -1, g},  {0, 1, g},
                            {0, -1, -g}, {0, 1, -g}, {g, 0, -1},  {g, 0, 1},  {-g, 0, -1}, {-g, 0, 1}};
  Mesh mesh;
  // Points on shared corners and edges are made once; the key is the corners and the position between them.
  std::map<std::array<int, 6>, Local> known;
  const auto add = [&](const int* face, int i, int j) {
    std::array<std::array<int, 2>, 3> share{{{face[0], cuts - i - j}, {face[1], i}, {face[2], j}}};
    for (auto& s : share)
      if (s[1] == 0) s = {-1, 0};
    std::sort(share.begin(), share.end());
    const std::array<int, 6> name{share[0][0], share[0][1], share[1][0], share[1][1], share[2][0], share[2][1]};
    const auto [at, is_new] = known.emplace(name, Local(mesh.vertices.size()));
    if (is_new)
      mesh.vertices.push_back(
          on_sphere(between(corner[face[0]], corner[face[1]], corner[face[2]], i, j, cuts), radius));
    return at->second;
  };
  for (const auto& face : faces)
    for (int i = 0; i < cuts; ++i)
      for (int j = 0; j < cuts - i; ++j) {
        mesh.triangles.push_back({add(face, i, j), add(face, i + 1, j), add(face, i, j + 1)});
        if (i + j + 1 < cuts)
          mesh.triangles.push_back({add(face, i + 1, j), add(face, i + 1, j + 1), add(face, i, j + 1)});
      }
  return mesh;
}

Mesh ring_sphere(int wedges, int rings, double radius) {
  require(wedges >= 3 && rings >= 1, "a sphere of ", wedges, " wedges and ", rings,
          " rings; at least 3 wedges and 1 ring are needed");
  require_radius(radius);
  require_size(2.0 * wedges * rings * rings);
  Mesh mesh;
  std::vector<int> count, first;
  for (int i = 0; i <= 2 * rings; ++i) {
    count.push_back(std::max(1, wedges * std::min(i, 2 * rings - i)));
    first.push_back(int(mesh.vertices.size()));
    const double theta = std::numbers::pi * i / (2 * rings);
    for (int k = 0; k < count.back(); ++k) {
      const double phi = 2 * std::numbers::pi * k / count.back();
      mesh.vertices.push_back({radius * std::sin(theta) * std::cos(phi), radius * std::sin(theta) * std::sin(phi),
                               radius * std::cos(theta)});
    }
  }
  for (int upper = 0; upper < 2 * rings; ++upper) {
    const bool north = upper < rings;
    const int narrow = north ? upper : upper + 1, wide = north ? upper + 1 : upper;
    const int level = std::min(narrow, 2 * rings - narrow);
    const auto inner = [&](int k) { return Local(first[std::size_t(narrow)] + k % count[std::size_t(narrow)]); };
    const auto outer = [&](int k) { return Local(first[std::size_t(wide)] + k % count[std::size_t(wide)]); };
    const auto add = [&](Local a, Local b, Local c) {
      if (north) mesh.triangles.push_back({a, b, c});
      else mesh.triangles.push_back({a, c, b});
    };
    for (int w = 0; w < wedges; ++w) {
      const int s = w * level, b = w * (level + 1);
      for (int k = 0; k <= level; ++k) add(inner(s + k), outer(b + k), outer(b + k + 1));
      for (int k = 0; k < level; ++k) add(inner(s + k), outer(b + k + 1), inner(s + k + 1));
    }
  }
  return mesh;
}

Mesh ellipsoid(int cuts, const Point& half_axes) {
  for (const double a : half_axes)
    require(a > 0 && std::isfinite(a), "an ellipsoid with a half axis of ", a, "; a finite number above 0 is needed");
  Mesh mesh = geodesic_sphere(cuts);
  for (Point& p : mesh.vertices)
    for (std::size_t d = 0; d < 3; ++d) p[d] *= half_axes[d];
  return mesh;
}

Mesh cube(int cuts, double side, double grading) {
  require(cuts >= 1, "a cube with edges in ", cuts, " parts; at least 1 is needed");
  require(side > 0 && std::isfinite(side), "a cube of side ", side, "; a finite number above 0 is needed");
  require(grading >= 1 && std::isfinite(grading), "a cube with a grading of ", grading,
          "; a finite number from 1 is needed");
  require_size(12.0 * cuts * cuts);
  // Coordinates are equal on all faces, bit for bit, so that edges match.
  std::vector<double> at(std::size_t(cuts) + 1);
  for (int i = 0; i <= cuts; ++i) {
    const double t = 2.0 * std::min(i, cuts - i) / cuts, c = (1 - std::pow(t, grading)) * side / 2;
    at[std::size_t(i)] = 2 * i < cuts ? -c : c;
  }
  Mesh mesh;
  std::map<std::array<int, 3>, Local> known;
  const auto add = [&](const std::array<int, 3>& p) {
    const auto [found, is_new] = known.emplace(p, Local(mesh.vertices.size()));
    if (is_new) mesh.vertices.push_back({at[std::size_t(p[0])], at[std::size_t(p[1])], at[std::size_t(p[2])]});
    return found->second;
  };
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (const bool high : {false, true})
      for (int i = 0; i < cuts; ++i)
        for (int j = 0; j < cuts; ++j) {
          const auto corner = [&](int a, int b) {
            std::array<int, 3> p{};
            p[axis] = high ? cuts : 0;
            p[(axis + 1) % 3] = high ? a : b, p[(axis + 2) % 3] = high ? b : a;
            return add(p);
          };
          mesh.triangles.push_back({corner(i, j), corner(i + 1, j), corner(i + 1, j + 1)});
          mesh.triangles.push_back({corner(i, j), corner(i + 1, j + 1), corner(i, j + 1)});
        }
  return mesh;
}

Mesh joined(const Mesh& first, const Mesh& second) {
  Mesh mesh = first;
  const Local shift = Local(first.vertices.size());
  mesh.vertices.insert(mesh.vertices.end(), second.vertices.begin(), second.vertices.end());
  for (const auto& t : second.triangles) mesh.triangles.push_back({t[0] + shift, t[1] + shift, t[2] + shift});
  return mesh;
}

Mesh moved(Mesh mesh, const Point& by) {
  for (Point& p : mesh.vertices)
    for (std::size_t d = 0; d < 3; ++d) p[d] += by[d];
  return mesh;
}

Mesh copies(const Mesh& mesh, const std::array<int, 3>& counts, const Point& pitch) {
  double all = double(mesh.size());
  for (std::size_t d = 0; d < 3; ++d) {
    require(counts[d] >= 1 && std::isfinite(pitch[d]), counts[d], " copies with a pitch of ", pitch[d], " along axis ",
            d);
    all *= counts[d];
  }
  require_size(all);
  Mesh made;
  made.vertices.reserve(mesh.vertices.size() * std::size_t(all / std::max(1.0, double(mesh.size()))));
  made.triangles.reserve(std::size_t(all));
  for (int k = 0; k < counts[2]; ++k)
    for (int j = 0; j < counts[1]; ++j)
      for (int i = 0; i < counts[0]; ++i) {
        const Local shift = checked_cast<Local>(made.vertices.size(), "the number of vertices");
        for (const Point& p : mesh.vertices)
          made.vertices.push_back({p[0] + i * pitch[0], p[1] + j * pitch[1], p[2] + k * pitch[2]});
        for (const auto& t : mesh.triangles) made.triangles.push_back({t[0] + shift, t[1] + shift, t[2] + shift});
      }
  return made;
}

Mesh read_mesh(const std::string& path, std::vector<double>* potential, std::vector<std::string>* notes) {
  std::ifstream in(path);
  if (!in) throw Error(ErrorKind::environment, message("cannot read ", path));
  if (potential) potential->clear();
  if (notes) notes->clear();
  std::string suffix = path.size() > 4 ? path.substr(path.size() - 4) : "";
  for (char& c : suffix)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return suffix == ".obj" ? read_obj(in, path, notes) : read_pbf(in, path, potential);
}

}  // namespace tacit::app::bem
