#include <tacit/app/bem/boundary.hpp>

#include "kernel_values.hpp"
#include "pair_integrals.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

namespace tacit::app::bem {
namespace {

constexpr double four_pi = 4 * std::numbers::pi;
enum Level : char { few_samples, many_samples, by_pairs };

Corners corners_of(const Mesh& mesh, std::size_t t) {
  Corners made;
  for (std::size_t k = 0; k < 3; ++k) made[k] = mesh.vertices[std::size_t(mesh.triangles[t][k])];
  return made;
}

// n x grad phi of the function that is 1 at corner k: minus the opposite edge over twice the area.
Point curl_of(const Corners& t, std::size_t k, double area) {
  return (-0.5 / area) * (t[(k + 2) % 3] - t[(k + 1) % 3]);
}

// The samples of one triangle: barycentric coordinates, weights that sum to 1, and the key of each point, by which
// triangles share it: vertices, then edges, then triangles.
struct Sample {
  double at[3], weight;
};
constexpr Sample middles[] = {{{0, 0.5, 0.5}, 1.0 / 3}, {{0.5, 0, 0.5}, 1.0 / 3}, {{0.5, 0.5, 0}, 1.0 / 3}};
constexpr Sample cubic[] = {
    {{0, 0.5, 0.5}, 2.0 / 15}, {{0.5, 0, 0.5}, 2.0 / 15}, {{0.5, 0.5, 0}, 2.0 / 15},          {{1, 0, 0}, 0.05},
    {{0, 1, 0}, 0.05},         {{0, 0, 1}, 0.05},         {{1.0 / 3, 1.0 / 3, 1.0 / 3}, 0.45}};

}  // namespace

template <class T>
BoundaryLayer<T>::BoundaryLayer(const Mesh& mesh, Elements elements, const BoundaryForm<T>& form, double accuracy)
    : elements_(elements), form_(form), accuracy_(accuracy) {
  require(elements == Elements::linear || form.hypersingular == T{},
          "the hypersingular operator needs continuous functions; take linear elements");
  require(std::isfinite(form.wavenumber) && form.wavenumber >= 0, "a wave number of ", form.wavenumber,
          "; 0 (Laplace) or a positive number is needed");
  if constexpr (!is_complex<T>)
    require(form.wavenumber == 0, "a wave number of ", form.wavenumber, " with real numbers; complex ones are needed");
  prepare(mesh);
  sample(mesh, false, few_), sample(mesh, true, many_);
  // Relative errors of far entries at a distance of d radii, measured: c / d^2 and c / d^4.
  const bool linear = elements == Elements::linear, rough = form.has_gradient();
  const double few = !linear ? 5e-3 : rough ? 2e-3 : 5e-4, many = rough ? 0.04 : linear ? 7e-3 : 0.015;
  reach_[0] = std::max(4.0, std::sqrt(few / accuracy)),
  reach_[1] = std::max(3.0, std::sqrt(std::sqrt(many / accuracy)));
}

template <class T>
void BoundaryLayer<T>::prepare(const Mesh& mesh) {
  const std::size_t triangles = std::size_t(mesh.size());
  const std::size_t n = elements_ == Elements::linear ? mesh.vertices.size() : triangles;
  std::vector<Local> count(n + 1);
  for (std::size_t t = 0; t < triangles; ++t) {
    corners_.push_back(corners_of(mesh, t));
    const Point twice = cross(corners_[t][1] - corners_[t][0], corners_[t][2] - corners_[t][0]);
    area_.push_back(length(twice) / 2);
    if (!(area_.back() > 0)) throw Error(ErrorKind::input, message("triangle ", t, " has no area"));
    normal_.push_back((1 / length(twice)) * twice);
    const Local own = Local(t);
    functions_.push_back(elements_ == Elements::linear ? mesh.triangles[t] : std::array<Local, 3>{own, own, own});
    const std::size_t of = elements_ == Elements::linear ? 3 : 1;
    for (std::size_t k = 0; k < of; ++k) ++count[std::size_t(functions_[t][k]) + 1];
  }
  for (std::size_t i = 0; i < n; ++i)
    if (count[i + 1] == 0)
      throw Error(ErrorKind::input, message("vertex ", i, " belongs to no triangle; leave it out for linear elements"));
  std::partial_sum(count.begin(), count.end(), count.begin());
  support_ = count;
  triangles_.resize(std::size_t(count.back()));
  for (std::size_t t = 0; t < triangles; ++t)
    for (std::size_t k = 0; k < (elements_ == Elements::linear ? 3u : 1u); ++k)
      triangles_[std::size_t(count[std::size_t(functions_[t][k])]++)] = Local(t);
  for (std::size_t i = 0; i < n; ++i) {
    centre_.push_back(elements_ == Elements::linear ? mesh.vertices[i] : mesh.centroid(Local(i)));
    double radius = 0;
    for (Local s = support_[i]; s < support_[i + 1]; ++s)
      for (const Point& p : corners_[std::size_t(triangles_[std::size_t(s)])])
        radius = std::max(radius, length(p - centre_.back()));
    radius_.push_back(radius);
  }
}

// Points are numbered in the order of the functions that use them, so that those of neighbours are close in memory.
template <class T>
void BoundaryLayer<T>::sample(const Mesh& mesh, bool many, Samples& to) const {
  const std::span<const Sample> rule = many ? std::span<const Sample>(cubic) : std::span<const Sample>(middles);
  std::map<std::pair<Local, Local>, Local> edges;
  std::vector<Local> vertices(mesh.vertices.size(), -1), of_triangle(area_.size(), -1);
  const auto number = [&](std::size_t t, std::size_t s) {
    const auto& v = mesh.triangles[t];
    Local* place = nullptr;
    if (s < 3) place = &edges.try_emplace(std::minmax(v[(s + 1) % 3], v[(s + 2) % 3]), -1).first->second;
    else place = s < 6 ? &vertices[std::size_t(v[s - 3])] : &of_triangle[t];
    if (*place < 0) {
      *place = Local(to.x[0].size());
      for (std::size_t d = 0; d < 3; ++d) {
        double c = 0;
        for (std::size_t k = 0; k < 3; ++k) c += rule[s].at[k] * corners_[t][k][d];
        to.x[d].push_back(c);
      }
    }
    return *place;
  };
  to.start.push_back(0);
  const bool linear = elements_ == Elements::linear;
  for (std::size_t i = 0; i + 1 < support_.size(); ++i) {
    const std::size_t begin = to.point.size();
    for (Local at = support_[i]; at < support_[i + 1]; ++at) {
      const std::size_t t = std::size_t(triangles_[std::size_t(at)]);
      const std::size_t own =
          linear ? std::size_t(std::find(functions_[t].begin(), functions_[t].end(), Local(i)) - functions_[t].begin())
                 : 0;
      const Point curl = linear ? curl_of(corners_[t], own, area_[t]) : Point{};
      for (std::size_t s = 0; s < rule.size(); ++s) {
        const double weight = rule[s].weight * area_[t], value = linear ? weight * rule[s].at[own] : weight;
        if (value == 0 && form_.hypersingular == T{}) continue;
        const Local point = number(t, s);
        std::size_t place =
            std::size_t(std::find(to.point.begin() + std::ptrdiff_t(begin), to.point.end(), point) - to.point.begin());
        if (place == to.point.size()) {
          to.point.push_back(point), to.value.push_back(0);
          for (std::size_t d = 0; d < 3; ++d) to.normal[d].push_back(0), to.curl[d].push_back(0);
        }
        to.value[place] += value;
        for (std::size_t d = 0; d < 3; ++d)
          to.normal[d][place] += value * normal_[t][d], to.curl[d][place] += weight * curl[d];
      }
    }
    to.start.push_back(Local(to.point.size()));
  }
}

template <class T>
int BoundaryLayer<T>::level(std::size_t i, std::size_t j) const {
  const Point d = centre_[i] - centre_[j];
  const double distance2 = inner_product(d, d), radius = std::max(radius_[i], radius_[j]);
  // Waves vary within an element as much as 1 / r does at this distance.
  const double wave = form_.wavenumber * radius / 2, share = radius * radius / distance2 + wave * wave / 4;
  if (share * reach_[0] * reach_[0] < 1) return few_samples;
  return share * reach_[1] * reach_[1] < 1 || distance2 > 900 * radius * radius ? many_samples : by_pairs;
}

// The points of some functions, and what is summed there over the samples of another function p:
//   value: the sum of p.value G;  slope: of p.value g (x - y);  along: of g p.normal . (x - y);  curl, normal: of
//   p.curl G and p.normal G.  x is at p.
template <class T>
struct BoundaryLayer<T>::Gathered {
  static constexpr int parts = parts_of<T>;
  std::vector<Local> place, used;  // of each point: its position here, -1 for none; the points here
  std::vector<double> x[3], d[3], kernel[parts], gradient[parts], value[parts], slope[3][parts], along[parts],
      curl[3][parts], normal[3][parts];

  void gather(const Samples& s, std::span<const Global> functions) {
    if (place.size() < s.x[0].size()) place.resize(s.x[0].size(), -1);
    used.clear();
    for (const Global j : functions)
      for (Local k = s.start[std::size_t(j)]; k < s.start[std::size_t(j) + 1]; ++k) {
        Local& at = place[std::size_t(s.point[std::size_t(k)])];
        if (at < 0) at = Local(used.size()), used.push_back(s.point[std::size_t(k)]);
      }
    for (int c = 0; c < 3; ++c) {
      x[c].resize(used.size()), d[c].resize(used.size());
      for (std::size_t q = 0; q < used.size(); ++q) x[c][q] = s.x[c][std::size_t(used[q])];
    }
    const auto zero = [&](std::vector<double>& v) { v.assign(used.size(), 0.0); };
    for (int part = 0; part < parts; ++part) {
      kernel[part].resize(used.size()), gradient[part].resize(used.size());
      zero(value[part]), zero(along[part]);
      for (int c = 0; c < 3; ++c) zero(slope[c][part]), zero(curl[c][part]), zero(normal[c][part]);
    }
  }
  void release() {
    for (const Local point : used) place[std::size_t(point)] = -1;
  }
  // to += factor * from
  void add(std::vector<double>& to, double factor, const std::vector<double>& from) const {
    if (factor == 0) return;
    double* const a = to.data();
    const double* const b = from.data();
#pragma omp simd
    for (std::size_t q = 0; q < used.size(); ++q) a[q] += factor * b[q];
  }
};

// A row of function `fixed`, or its column. The kernel's gradient at the fixed function's points belongs to the
// operator with the normals of that function (K' for a row), that at the others' to the other one.
template <class T>
void BoundaryLayer<T>::line(std::size_t fixed, std::span<const Global> others, bool fixed_is_row,
                            const Samples& samples, T* out) const {
  static thread_local Gathered g;
  constexpr int parts = parts_of<T>;
  const double own = fixed_is_row ? form_.adjoint : form_.double_layer,
               other = fixed_is_row ? form_.double_layer : form_.adjoint;
  const bool curls = form_.hypersingular != T{}, values = curls || form_.single_layer != T{};
  g.gather(samples, others);
  double* kernel[parts];
  double* gradient[parts];
  for (int part = 0; part < parts; ++part)
    kernel[part] = g.kernel[part].data(), gradient[part] = g.gradient[part].data();
  const int n = int(g.used.size());
  for (std::size_t p = std::size_t(samples.start[fixed]); p < std::size_t(samples.start[fixed + 1]); ++p) {
    for (int c = 0; c < 3; ++c) {
      const double at = samples.x[c][std::size_t(samples.point[p])], *const x = g.x[c].data();
      double* const d = g.d[c].data();
#pragma omp simd
      for (int q = 0; q < n; ++q) d[q] = at - x[q];
    }
    kernels<T>(g.d[0].data(), g.d[1].data(), g.d[2].data(), n, form_.wavenumber, kernel,
               form_.has_gradient() ? gradient : nullptr);
    for (int part = 0; part < parts; ++part) {
      if (values) g.add(g.value[part], samples.value[p], g.kernel[part]);
      for (int c = 0; c < 3; ++c) {
        if (curls) g.add(g.curl[c][part], samples.curl[c][p], g.kernel[part]);
        if (curls) g.add(g.normal[c][part], samples.normal[c][p], g.kernel[part]);
        if (!form_.has_gradient()) continue;
        const double normal = own * samples.normal[c][p], value = other * samples.value[p];
        const double *const d = g.d[c].data(), *const slope = gradient[part];
        double *const along = g.along[part].data(), *const to = g.slope[c][part].data();
#pragma omp simd
        for (int q = 0; q < n; ++q) along[q] += normal * d[q] * slope[q], to[q] += value * d[q] * slope[q];
      }
    }
  }
  const double k2 = form_.wavenumber * form_.wavenumber;
  const auto at = [](const std::vector<double>(&from)[parts], std::size_t q) {
    if constexpr (is_complex<T>) return T(from[0][q], from[1][q]);
    else return from[0][q];
  };
  for (std::size_t j = 0; j < others.size(); ++j) {
    T sum{};
    for (std::size_t s = std::size_t(samples.start[std::size_t(others[j])]);
         s < std::size_t(samples.start[std::size_t(others[j]) + 1]); ++s) {
      const std::size_t q = std::size_t(g.place[std::size_t(samples.point[s])]);
      T here = values ? form_.single_layer * at(g.value, q) : T{};
      if (form_.has_gradient()) here += at(g.along, q);
      sum += samples.value[s] * here;
      for (std::size_t c = 0; c < 3; ++c) {
        if (form_.has_gradient()) sum -= samples.normal[c][s] * at(g.slope[c], q);
        if (curls)
          sum += form_.hypersingular *
                 (samples.curl[c][s] * at(g.curl[c], q) - k2 * samples.normal[c][s] * at(g.normal[c], q));
      }
    }
    out[j] = sum / four_pi;
  }
  g.release();
}

template <class T>
void BoundaryLayer<T>::far(std::span<const Global> rows, std::span<const Global> columns, std::span<const char> levels,
                           T* out) const {
  const bool by_row = rows.size() <= columns.size();
  const std::span<const Global> fixed = by_row ? rows : columns, others = by_row ? columns : rows;
  std::vector<Global> chosen;
  std::vector<std::size_t> place;
  std::vector<T> found;
  for (std::size_t i = 0; i < fixed.size(); ++i)
    for (const char level : {few_samples, many_samples}) {
      chosen.clear(), place.clear();
      for (std::size_t j = 0; j < others.size(); ++j) {
        const std::size_t at = by_row ? i + j * rows.size() : j + i * rows.size();
        if (levels[at] == level) chosen.push_back(others[j]), place.push_back(at);
      }
      if (chosen.empty()) continue;
      found.resize(chosen.size());
      line(std::size_t(fixed[i]), chosen, by_row, level == few_samples ? few_ : many_, found.data());
      for (std::size_t j = 0; j < found.size(); ++j) out[place[j]] = found[j];
    }
}

// Where the functions of a call are: by function its position among the rows or columns, -1 for none; the triangles of
// the functions.
template <class T>
struct BoundaryLayer<T>::Near {
  std::vector<Local> position, triangles;

  void set(const BoundaryLayer& layer, std::span<const Global> functions) {
    position.assign(std::size_t(layer.size()), -1);
    triangles.clear();
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const std::size_t f = std::size_t(functions[i]);
      position[f] = Local(i);
      for (Local s = layer.support_[f]; s < layer.support_[f + 1]; ++s)
        triangles.push_back(layer.triangles_[std::size_t(s)]);
    }
    std::sort(triangles.begin(), triangles.end());
    triangles.erase(std::unique(triangles.begin(), triangles.end()), triangles.end());
  }
};

template <class T>
void BoundaryLayer<T>::near(std::span<const Global> rows, std::span<const Global> columns, std::span<const char> levels,
                            T* out) const {
  static thread_local Near of_rows, of_columns;
  of_rows.set(*this, rows), of_columns.set(*this, columns);
  const PairAccuracy accuracy(accuracy_);
  const std::size_t each = elements_ == Elements::linear ? 3 : 1, m = rows.size();
  for (const Local s : of_rows.triangles)
    for (const Local t : of_columns.triangles) {
      const auto &fs = functions_[std::size_t(s)], &ft = functions_[std::size_t(t)];
      std::size_t place[3][3];
      bool any = false;
      for (std::size_t a = 0; a < each; ++a)
        for (std::size_t b = 0; b < each; ++b) {
          const Local i = of_rows.position[std::size_t(fs[a])], j = of_columns.position[std::size_t(ft[b])];
          place[a][b] = i < 0 || j < 0 ? levels.size() : std::size_t(i) + std::size_t(j) * m;
          if (place[a][b] < levels.size() && levels[place[a][b]] != by_pairs) place[a][b] = levels.size();
          any = any || place[a][b] < levels.size();
        }
      if (!any) continue;
      const auto &first = corners_[std::size_t(s)], &second = corners_[std::size_t(t)];
      const PairIntegral<T> found = pair_integral(first, second, form_, accuracy);
      const double area_s = area_[std::size_t(s)], area_t = area_[std::size_t(t)];
      T sum{};  // of all functions: 1 for constant elements
      for (const auto& row : found.linear) sum += row[0] + row[1] + row[2];
      for (std::size_t a = 0; a < each; ++a)
        for (std::size_t b = 0; b < each; ++b) {
          if (place[a][b] >= levels.size()) continue;
          T value = each == 1 ? sum : found.linear[a][b];
          if (form_.hypersingular != T{})
            value += form_.hypersingular * inner_product(curl_of(first, a, area_s), curl_of(second, b, area_t)) *
                     found.plain;
          value /= four_pi;
          if (s == t) value += form_.mass * area_s * (each == 1 ? 1.0 : a == b ? 1.0 / 6 : 1.0 / 12);
          out[place[a][b]] += value;
        }
    }
}

template <class T>
void BoundaryLayer<T>::operator()(std::span<const Global> rows, std::span<const Global> columns, T* out) const {
  if (rows.empty() || columns.empty()) return;
  static thread_local std::vector<char> levels;
  levels.resize(rows.size() * columns.size());
  bool some_near = false, some_far = false;
  for (std::size_t j = 0; j < columns.size(); ++j)
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const int found = level(std::size_t(rows[i]), std::size_t(columns[j]));
      levels[i + j * rows.size()] = char(found);
      some_near = some_near || found == by_pairs, some_far = some_far || found != by_pairs;
    }
  if (some_near) std::fill(out, out + rows.size() * columns.size(), T{});
  if (some_far) far(rows, columns, levels, out);
  if (some_near) near(rows, columns, levels, out);
}

op::Geometry geometry_of(const Mesh& mesh, Elements elements) {
  if (elements == Elements::constant) return mesh.geometry();
  op::Geometry made;
  made.points = mesh.vertices;
  for (const Point& p : mesh.vertices) made.boxes.push_back(op::Box::of(p));
  for (const auto& t : mesh.triangles) {
    op::Box box;
    for (const Local v : t) box.add(op::Box::of(mesh.vertices[std::size_t(v)]));
    for (const Local v : t) made.boxes[std::size_t(v)].add(box);
  }
  return made;
}

Mesh reordered(const Mesh& mesh, Elements elements, std::span<const Global> order) {
  if (elements == Elements::constant) return mesh.reordered(order);
  Mesh made;
  std::vector<Local> place(mesh.vertices.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    made.vertices.push_back(mesh.vertices[std::size_t(order[k])]);
    place[std::size_t(order[k])] = Local(k);
  }
  for (auto t : mesh.triangles) {
    for (Local& v : t) v = place[std::size_t(v)];
    made.triangles.push_back(t);
  }
  std::stable_sort(made.triangles.begin(), made.triangles.end(), [](const auto& a, const auto& b) {
    return std::min({a[0], a[1], a[2]}) < std::min({b[0], b[1], b[2]});
  });
  return made;
}

template class BoundaryLayer<double>;
template class BoundaryLayer<std::complex<double>>;

}  // namespace tacit::app::bem
