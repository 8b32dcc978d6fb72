#include "triangles.hpp"

#include <tacit/app/bem/interfaces.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::app::bem {
namespace {

constexpr double third = 1.0 / 3;

// The solid angle under which p sees a triangle; positive where the triangle's normal points away from p, 0 in its
// plane.
double solid_angle(const Corners& t, const Point& p) {
  const Point a = t[0] - p, b = t[1] - p, c = t[2] - p;
  const double x = length(a), y = length(b), z = length(c), volume = inner_product(a, cross(b, c));
  const double below = x * y * z + inner_product(a, b) * z + inner_product(b, c) * x + inner_product(c, a) * y;
  // In the plane the angle is 0 outside of the triangle and jumps within: its mean over both sides is 0.
  if (std::abs(volume) <= 1e-14 * (x + y + z) * length(cross(t[1] - t[0], t[2] - t[0]))) return 0;
  return 2 * std::atan2(volume, below);
}

// The mean over a triangle of a function, by seven points of degree 5.
template <class F>
double seven_point_mean_of(const Corners& t, const F& f) {
  const Point c = third * (t[0] + t[1] + t[2]);
  double sum = 0.225 * f(c);
  for (const Point& corner : t) {
    const Point arm = corner - c;
    sum += inner_weight * f(c + inner * arm) + outer_weight * f(c + outer * arm);
  }
  return sum;
}

// The mean over the points of a triangle of the solid angle under which they see another, in pieces no larger than
// their distance or the other triangle.
double mean_angle(const Corners& seen, const Point& middle_of_seen, double size2, const Corners& from, int depth) {
  const Point c = third * (from[0] + from[1] + from[2]);
  double longest = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    const Point e = from[(k + 1) % 3] - from[k];
    longest = std::max(longest, inner_product(e, e));
  }
  const Point d = c - middle_of_seen;
  if (depth > 0 && longest > std::max(2 * size2, inner_product(d, d))) {
    const Point m[3] = {0.5 * (from[0] + from[1]), 0.5 * (from[1] + from[2]), 0.5 * (from[2] + from[0])};
    const Corners pieces[4] = {{from[0], m[0], m[2]}, {m[0], from[1], m[1]}, {m[2], m[1], from[2]}, {m[0], m[1], m[2]}};
    double sum = 0;
    for (const Corners& piece : pieces) sum += mean_angle(seen, middle_of_seen, size2, piece, depth - 1);
    return sum / 4;
  }
  return seven_point_mean_of(from, [&](const Point& p) { return solid_angle(seen, p); });
}

// n . (x - y) / |x - y|^3
double pull(const Point& x, const Point& y, const Point& n) {
  const Point d = x - y;
  const double r2 = inner_product(d, d);
  return inner_product(n, d) / (r2 * std::sqrt(r2));
}

}  // namespace

Mesh unfolded(const Mesh& mesh, std::span<const Image> images) {
  Mesh made = mesh;
  for (const Image& image : images) {
    Mesh other = mesh;
    for (Point& p : other.vertices) p = image.mirrored(p);
    made = joined(made, other);
  }
  return made;
}

DielectricLayer::DielectricLayer(const Mesh& mesh, std::span<const double> contrast, double accuracy, double factor,
                                 std::span<const Image> images)
    : factor_(factor),
      potential_(SingleLayer(unfolded(mesh, images), accuracy, factor), images),
      contrast_(contrast.begin(), contrast.end()) {
  require(contrast.size() == std::size_t(mesh.size()), contrast.size(), " contrasts for ", mesh.size(), " triangles");
  for (const double value : contrast)
    require(std::isnan(value) || std::abs(value) < 1, "a contrast of ", value, "; it is between -1 and 1");
  // Entries fall with the square of the distance beside a diagonal of 1 / 2, so that these distances are enough.
  const double finer = std::max(1.0, 5e-6 / accuracy), near = 6 * std::cbrt(finer), far = 40 * std::sqrt(finer);
  near2_ = near * near, far2_ = far * far;
  for (const Image& image : images) signs_.push_back(image.sign);
  const Mesh all = unfolded(mesh, images);
  for (Local t = 0; t < all.size(); ++t) {
    Corners a;
    for (std::size_t k = 0; k < 3; ++k) a[k] = all.vertices[std::size_t(all.triangles[std::size_t(t)][k])];
    double longest = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const Point e = a[(k + 1) % 3] - a[k];
      longest = std::max(longest, inner_product(e, e));
    }
    const Point twice = cross(a[1] - a[0], a[2] - a[0]);
    corners_.push_back(a), centroid_.push_back(all.centroid(t));
    area_.push_back(all.area(t)), size2_.push_back(longest);
    normal_.push_back((1 / length(twice)) * twice);
  }
}

// The flux through triangle i of a unit of charge on triangle or image j, times 4 pi.
double DielectricLayer::flux_through(std::size_t i, std::size_t j) const {
  const Point d = centroid_[i] - centroid_[j];
  const double r2 = inner_product(d, d), size2 = std::max(size2_[i], size2_[j]);
  if (r2 > far2_ * size2) return area_[i] * pull(centroid_[i], centroid_[j], normal_[i]);
  if (r2 <= near2_ * size2) return mean_angle(corners_[i], centroid_[i], size2_[i], corners_[j], 4);
  Point x[3], y[3];
  for (std::size_t k = 0; k < 3; ++k)
    x[k] = centroid_[i] + middle * (corners_[i][k] - centroid_[i]),
    y[k] = centroid_[j] + middle * (corners_[j][k] - centroid_[j]);
  double sum = 0;
  for (const Point& p : x)
    for (const Point& q : y) sum += pull(p, q, normal_[i]);
  return area_[i] * sum / 9;
}

double DielectricLayer::entry(Global row, Global column) const {
  const std::size_t i = std::size_t(row), j = std::size_t(column), n = contrast_.size();
  double flux = i == j ? 0 : flux_through(i, j);
  for (std::size_t m = 0; m < signs_.size(); ++m) flux += signs_[m] * flux_through(i, j + (m + 1) * n);
  const double field = factor_ * area_[j] / area_[i] * flux;
  return std::sqrt(area_[i]) * ((i == j ? 0.5 : 0) + contrast_[i] * field);
}

void DielectricLayer::operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const {
  std::vector<Global> held;
  for (const Global i : rows)
    if (std::isnan(contrast_[std::size_t(i)])) held.push_back(i);
  if (held.size() == rows.size()) return potential_(rows, columns, out);
  std::vector<double> potentials(held.size() * columns.size());
  potential_(held, columns, potentials.data());
  std::size_t next = 0;
  for (std::size_t j = 0; j < columns.size(); ++j)
    for (std::size_t i = 0; i < rows.size(); ++i)
      out[i + j * rows.size()] =
          std::isnan(contrast_[std::size_t(rows[i])]) ? potentials[next++] : entry(rows[i], columns[j]);
}

}  // namespace tacit::app::bem
