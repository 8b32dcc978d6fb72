#include <tacit/app/tomography/cone.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>

#include "cone_rays.hpp"
#include "deal.hpp"

#include <atomic>
#include <numeric>
#include <string>
#include <type_traits>

namespace tacit::app::tomography {

/// A rank's voxels, begin to end - 1, and the rays that meet them.
struct ConePart {
  ConeGeometry geometry;
  std::vector<Shot> shots;
  Cells volume, box;          // all voxels; around those of the rank
  Global begin = 0, end = 0;  // its voxels
  std::vector<Local> ray_at;  // the part's row of each ray, -1 where it has none; empty: all in order
  Local rows = 0;
  Global entries = 0;

  Local place(Local x, Local y, Local z) const {
    const Global at = (Global(z) * geometry.height + y) * geometry.width + x;
    return at >= begin && at < end ? Local(at - begin) : -1;
  }
  Local ray(std::size_t shot, Local row, Local column) const {
    const std::size_t at =
        (shot * std::size_t(geometry.rows) + std::size_t(row)) * std::size_t(geometry.columns) + std::size_t(column);
    return ray_at.empty() ? Local(at) : ray_at[at];
  }
};

namespace {

template <class T>
T clamped(T v, const op::Clamp<T>* clamp) {
  return clamp ? std::min(std::max(v + clamp->bias, clamp->low), clamp->high) : v;
}

// Calls f(columns, first) for 16, 4 or 1 columns at a time.
template <class F>
void by_columns(int k, F&& f) {
  for (int c = 0; c < k;) {
    if (k - c >= 16) f(std::integral_constant<int, 16>{}, c), c += 16;
    else if (k - c >= 4) f(std::integral_constant<int, 4>{}, c), c += 4;
    else f(std::integral_constant<int, 1>{}, c), ++c;
  }
}

template <class F>
void by_flatness(bool flat, F&& f) {
  if (flat) f(std::true_type{});
  else f(std::false_type{});
}

template <class T>
class Product : public op::LocalProduct<T> {
 public:
  Product(std::shared_ptr<const ConePart> part, bool adjoint) : part_(std::move(part)), adjoint_(adjoint) {}
  Local rows() const override { return adjoint_ ? voxels() : part_->rows; }
  Local columns() const override { return adjoint_ ? part_->rows : voxels(); }
  Global entries() const override { return part_->entries; }
  double largest() const override {
    const Point& v = part_->geometry.voxel;
    return part_->entries > 0 ? std::sqrt(v[0] * v[0] + v[1] * v[1] + (part_->box.flat ? 0 : v[2] * v[2])) : 0;
  }
  double bytes() const override {
    return double(sizeof(Local)) * double(part_->ray_at.size()) + double(sizeof(Shot)) * double(part_->shots.size());
  }
  double flops() const override { return 12.0 * double(part_->entries); }
  std::string storage() const override { return message("computed, ", scalar_name<T>()); }
  void multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                const op::Clamp<T>* clamp) const override {
    const bool watched = Trace::on();
    const Span span("computed product", "op", watched ? std::int64_t(bytes()) : 0);
    if (watched)
      Trace::work("computed product", bytes() + double(sizeof(T)) * k * (double(columns()) + double(rows())),
                  flops() * k);
    const bool parallel = part_->entries * Global(k) > 20000;
    by_flatness(part_->box.flat, [&](auto flat) {
      by_columns(k, [&](auto width, int c) {
        if (adjoint_) backward<width, flat>(x + c, x_stride, y + c, y_stride, parallel, comm, clamp);
        else forward<width, flat>(x + c, x_stride, y + c, y_stride, parallel, comm, clamp);
      });
    });
  }

 private:
  template <int K, bool flat>
  void forward(const T* x, int x_stride, T* y, int y_stride, bool parallel, const comm::Communicator* comm,
               const op::Clamp<T>* clamp) const;
  template <int K, bool flat>
  void backward(const T* x, int x_stride, T* y, int y_stride, bool parallel, const comm::Communicator* comm,
                const op::Clamp<T>* clamp) const;
  template <int K, bool flat>
  void scatter(const Cells& block, std::size_t shot, const T* x, int x_stride, double* sums) const;
  Local voxels() const { return Local(part_->end - part_->begin); }

  std::shared_ptr<const ConePart> part_;
  bool adjoint_;
};

// Adds the entries times the volume, whose K columns are beside each other, to the sums of the rays.
template <class T, int K, bool flat>
void gather(const Crossings<T>& found, int slabs_, const T* volume, double (&sum)[lanes][K]) {
  constexpr int each = flat ? 2 : 3;
  if constexpr (K == 1) {
    for (int n = 0; n < slabs_; ++n)
      for (int e = 0; e < each; ++e)
#pragma omp simd
        for (int i = 0; i < lanes; ++i) sum[i][0] += double(found.length[n][e][i]) * double(volume[found.at[n][e][i]]);
  } else {
    for (int i = 0; i < lanes; ++i) {
      T some[K] = {};
      for (int n = 0; n < slabs_; ++n)
        for (int e = 0; e < each; ++e) {
          const T* const from = volume + std::size_t(found.at[n][e][i]) * K;
          const T length = found.length[n][e][i];
#pragma omp simd
          for (int c = 0; c < K; ++c) some[c] += length * from[c];
        }
      for (int c = 0; c < K; ++c) sum[i][c] += double(some[c]);
    }
  }
}

template <class T>
template <int K, bool flat>
void Product<T>::forward(const T* x, int x_stride, T* y, int y_stride, bool parallel, const comm::Communicator* comm,
                         const op::Clamp<T>* clamp) const {
  const ConePart& p = *part_;
  const Cells& box = p.box;
  std::vector<T> volume(box.size() * K);  // with zeros beside it and where the rank has no voxel
  const Local height = box.high[1] - box.low[1];
  deal(std::size_t(height) * std::size_t(box.high[2] - box.low[2]), parallel, comm, [&](std::size_t line) {
    const Local row = box.low[1] + Local(line) % height, image = box.low[2] + Local(line) / height;
    for (Local i = box.low[0]; i < box.high[0]; ++i) {
      const Local at = p.place(i, row, image);
      for (int c = 0; at >= 0 && c < K; ++c)
        volume[std::size_t(box.at(i, row, image)) * K + std::size_t(c)] =
            x[std::size_t(at) * std::size_t(x_stride) + std::size_t(c)];
    }
  });
  const auto& g = p.geometry;
  deal(p.shots.size() * std::size_t(g.rows), parallel, comm, [&](std::size_t line) {
    const std::size_t shot = line / std::size_t(g.rows);
    const auto row = Local(line % std::size_t(g.rows));
    for (Local column = 0; column < g.columns; column += lanes) {
      const int count = std::min<Local>(lanes, g.columns - column);
      double sum[lanes][K] = {};
      follow<T, flat>(p.shots[shot], row, column, count, p.volume, box,
                      [&](const Crossings<T>& found, int n) { gather<T, K, flat>(found, n, volume.data(), sum); });
      for (int i = 0; i < count; ++i) {
        const Local at = p.ray(shot, row, column + i);
        for (int c = 0; at >= 0 && c < K; ++c)
          y[std::size_t(at) * std::size_t(y_stride) + std::size_t(c)] = clamped(T(sum[i][c]), clamp);
      }
    }
  });
}

// Adds the entries of a view times the rays' values to the sums of a block's voxels.
template <class T>
template <int K, bool flat>
void Product<T>::scatter(const Cells& block, std::size_t shot, const T* x, int x_stride, double* sums) const {
  const ConePart& p = *part_;
  const Window seen = window(p.shots[shot], block, p.geometry.rows, p.geometry.columns);
  for (Local row = seen.top; row < seen.bottom; ++row)
    for (Local column = seen.left; column < seen.right; column += lanes) {
      const int count = std::min<Local>(lanes, seen.right - column);
      double value[lanes][K] = {};
      for (int i = 0; i < count; ++i) {
        const Local at = p.ray(shot, row, column + i);
        for (int c = 0; at >= 0 && c < K; ++c)
          value[i][c] = double(x[std::size_t(at) * std::size_t(x_stride) + std::size_t(c)]);
      }
      follow<T, flat>(p.shots[shot], row, column, count, p.volume, block, [&](const Crossings<T>& found, int n) {
        for (int s = 0; s < n; ++s)
          for (int e = 0; e < (flat ? 2 : 3); ++e)
            for (int i = 0; i < lanes; ++i) {
              double* const to = sums + std::size_t(found.at[s][e][i]) * K;
              const auto length = double(found.length[s][e][i]);
              for (int c = 0; c < K; ++c) to[c] += length * value[i][c];
            }
      });
    }
}

// The sides of a block whose sums stay in the nearest caches.
template <int K, bool flat>
constexpr std::array<Local, 3> block_sides() {
  if (flat) return K == 1 ? std::array<Local, 3>{64, 64, 1} : std::array<Local, 3>{32, 32, 1};
  return K == 1 ? std::array<Local, 3>{32, 32, 16} : std::array<Local, 3>{16, 16, K == 4 ? 16 : 8};
}

template <class T>
template <int K, bool flat>
void Product<T>::backward(const T* x, int x_stride, T* y, int y_stride, bool parallel, const comm::Communicator* comm,
                          const op::Clamp<T>* clamp) const {
  const ConePart& p = *part_;
  constexpr auto side = block_sides<K, flat>();
  std::size_t count[3];
  for (std::size_t c = 0; c < 3; ++c) count[c] = std::size_t((p.box.high[c] - p.box.low[c] + side[c] - 1) / side[c]);
  deal(count[0] * count[1] * count[2], parallel, comm, [&](std::size_t piece) {
    const std::size_t number[] = {piece % count[0], piece / count[0] % count[1], piece / (count[0] * count[1])};
    Cells block;
    block.flat = flat;
    for (std::size_t c = 0; c < 3; ++c) {
      block.low[c] = p.box.low[c] + Local(number[c]) * side[c];
      block.high[c] = std::min(block.low[c] + side[c], p.box.high[c]);
    }
    std::vector<double> sums(block.size() * K);
    for (std::size_t shot = 0; shot < p.shots.size(); ++shot) scatter<K, flat>(block, shot, x, x_stride, sums.data());
    for (Local image = block.low[2]; image < block.high[2]; ++image)
      for (Local row = block.low[1]; row < block.high[1]; ++row)
        for (Local i = block.low[0]; i < block.high[0]; ++i) {
          const Local at = p.place(i, row, image);
          for (int c = 0; at >= 0 && c < K; ++c)
            y[std::size_t(at) * std::size_t(y_stride) + std::size_t(c)] =
                clamped(T(sums[std::size_t(block.at(i, row, image)) * K + std::size_t(c)]), clamp);
        }
  });
}

// Counts the part's entries; marks their rays in `hit`, if that is not empty.
template <bool flat>
Global count_entries(const ConePart& p, std::vector<char>& hit) {
  const auto& g = p.geometry;
  std::vector<char> mine(p.box.size());
  for (Local image = p.box.low[2]; image < p.box.high[2]; ++image)
    for (Local row = p.box.low[1]; row < p.box.high[1]; ++row)
      for (Local i = p.box.low[0]; i < p.box.high[0]; ++i)
        mine[std::size_t(p.box.at(i, row, image))] = p.place(i, row, image) >= 0;
  const double least = 1e-8 * *std::min_element(g.voxel.begin(), g.voxel.end());
  std::atomic<Global> entries = 0;
  exec::parallel_for(
      p.shots.size() * std::size_t(g.rows), true,
      [&](std::size_t line) {
        const std::size_t shot = line / std::size_t(g.rows);
        Global here = 0;
        for (Local column = 0; column < g.columns; column += lanes) {
          const int count = std::min<Local>(lanes, g.columns - column);
          Global of[lanes] = {};
          follow<double, flat>(p.shots[shot], Local(line % std::size_t(g.rows)), column, count, p.volume, p.box,
                               [&](const Crossings<double>& found, int n) {
                                 for (int s = 0; s < n; ++s)
                                   for (int e = 0; e < (flat ? 2 : 3); ++e)
                                     for (int i = 0; i < lanes; ++i)
                                       of[i] += found.length[s][e][i] > least && mine[std::size_t(found.at[s][e][i])];
                               });
          for (int i = 0; i < count; ++i) {
            here += of[i];
            if (!hit.empty()) hit[line * std::size_t(g.columns) + std::size_t(column + i)] = of[i] > 0;
          }
        }
        entries += here;
      },
      1);
  return entries;
}

// The box around voxels begin to end - 1.
Cells around(const ConeGeometry& g, const Cells& volume, Global begin, Global end) {
  Cells box = volume;
  if (begin == end) {
    box.high = box.low;
    return box;
  }
  const Global image = Global(g.width) * g.height;
  box.low[2] = Local(begin / image), box.high[2] = Local((end - 1) / image + 1);
  if (box.high[2] - box.low[2] > 1) return box;
  box.low[1] = Local(begin % image / g.width), box.high[1] = Local((end - 1) % image / g.width + 1);
  if (box.high[1] - box.low[1] > 1) return box;
  box.low[0] = Local(begin % g.width), box.high[0] = Local((end - 1) % g.width + 1);
  return box;
}

bool is_flat(const ConeGeometry& g) {
  return g.rows == 1 && g.depth == 1 && std::all_of(g.views.begin(), g.views.end(), [](const View& v) {
           return v.source[2] == 0 && v.detector[2] == 0 && v.right[2] == 0;
         });
}

std::string text(const Point& p) {
  return message("(", p[0], ", ", p[1], ", ", p[2], ")");
}

// The inverse of a matrix with these columns; false where it is singular.
bool invert(const Point& a, const Point& b, const Point& c, double (&inverse)[3][3]) {
  const Point* const columns[] = {&a, &b, &c};
  const auto times = [](const Point& u, const Point& v) {
    return Point{u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
  };
  const auto dot = [](const Point& u, const Point& v) { return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]; };
  const double determinant = dot(a, times(b, c)), sizes = std::sqrt(dot(a, a) * dot(b, b) * dot(c, c));
  if (!(std::abs(determinant) > 1e-12 * sizes)) return false;
  for (int r = 0; r < 3; ++r) {
    const Point row = times(*columns[(r + 1) % 3], *columns[(r + 2) % 3]);
    for (int k = 0; k < 3; ++k) inverse[r][k] = row[std::size_t(k)] / determinant;
  }
  return true;
}

// A view in voxels. Error(usage) where it cannot be one.
Shot shot_of(const ConeGeometry& g, const View& view, std::size_t number, bool flat) {
  const Point half{g.width / 2.0, g.height / 2.0, g.depth / 2.0};
  const Point unit{1 / g.voxel[0], -1 / g.voxel[1], 1 / g.voxel[2]};  // rows go downwards
  Shot s{};
  s.voxel = g.voxel;
  bool within = true;
  for (std::size_t c = 0; c < 3; ++c) {
    require(std::isfinite(view.source[c]) && std::isfinite(view.detector[c]) && std::isfinite(view.right[c]) &&
                std::isfinite(view.down[c]),
            "view ", number, " has a number that is not finite: source ", text(view.source), ", detector ",
            text(view.detector), ", u ", text(view.right), ", v ", text(view.down));
    s.source[c] = view.source[c] * unit[c] + half[c];
    s.right[c] = view.right[c] * unit[c];
    s.down[c] = flat ? (c == 2 ? 1.0 : 0.0) : view.down[c] * unit[c];
    s.first[c] =
        view.detector[c] * unit[c] + half[c] - (g.columns - 1) / 2.0 * s.right[c] - (g.rows - 1) / 2.0 * s.down[c];
    within = within && s.source[c] >= 0 && s.source[c] <= 2 * half[c];
  }
  require(!within, "the source of view ", number, " is at ", text(view.source), ", within the volume of ",
          g.width * g.voxel[0], " x ", g.height * g.voxel[1], " x ", g.depth * g.voxel[2],
          " (along x, y, z): move it away, or take fewer or smaller voxels");
  const Point ahead{s.first[0] - s.source[0], s.first[1] - s.source[1], s.first[2] - s.source[2]};
  require(invert(s.right, s.down, ahead, s.inverse), "the source of view ", number, " at ", text(view.source),
          " is in the plane of its detector at ", text(view.detector), ", or the detector has no area: u ",
          text(view.right), ", v ", text(view.down));
  const Cells all{{0, 0, 0}, {g.width, g.height, g.depth}, flat};
  s.ahead = true;
  for (int corner = 0; corner < 8; ++corner) {
    double part = 0;
    for (int c = 0; c < 3; ++c) {
      const auto k = std::size_t(c);
      part += s.inverse[2][c] * ((corner >> c & 1 ? all.high[k] : 0) - s.source[k]);
    }
    s.ahead = s.ahead && part > 1e-9;
  }
  return s;
}

}  // namespace

ConeProjector::~ConeProjector() = default;
ConeProjector::ConeProjector(ConeProjector&&) noexcept = default;

ConeProjector::ConeProjector(ConeGeometry geometry) : geometry_(std::move(geometry)) {
  const auto& g = geometry_;
  require(g.width >= 1 && g.height >= 1 && g.depth >= 1, "a volume of ", g.depth, " x ", g.height, " x ", g.width,
          " voxels");
  require(g.rows >= 1 && g.columns >= 1 && !g.views.empty(), g.views.size(), " views of a detector of ", g.rows, " x ",
          g.columns, " pixels");
  for (const double side : g.voxel) require(side > 0 && std::isfinite(side), "voxels of ", text(g.voxel));
  checked_cast<Local>(g.rays(), "the number of rays");
  checked_cast<Local>(Global(g.width + 2) * (g.height + 2) * (g.depth + 2), "the number of voxels");
  const bool flat = is_flat(g);
  shots_.reserve(g.views.size());
  for (std::size_t i = 0; i < g.views.size(); ++i) shots_.push_back(shot_of(g, g.views[i], i, flat));
}

template <class T>
std::shared_ptr<op::TiledSpmm<T>> ConeProjector::matrix(const comm::Communicator& comm,
                                                        const op::TiledSpmmOptions& options) const {
  return comm::collective(comm, [&] {
    const auto range = layout::Space::distributed(comm, geometry_.rays());
    const auto domain = layout::Space::distributed(comm, geometry_.voxels());
    auto part = std::make_shared<ConePart>();
    part->geometry = geometry_, part->shots = shots_, part->begin = domain.begin(), part->end = domain.end();
    part->volume = {{0, 0, 0}, {geometry_.width, geometry_.height, geometry_.depth}, is_flat(geometry_)};
    part->box = around(geometry_, part->volume, part->begin, part->end);
    const auto rays = std::size_t(geometry_.rays());
    std::vector<char> hit(comm.size() > 1 ? rays : 0);
    by_flatness(part->box.flat, [&](auto flat) { part->entries = count_entries<flat>(*part, hit); });
    std::vector<Global> touched;
    if (comm.size() == 1) {
      touched.resize(rays);
      std::iota(touched.begin(), touched.end(), Global(0));
    } else {
      part->ray_at.assign(rays, -1);
      for (std::size_t i = 0; i < rays; ++i)
        if (hit[i]) part->ray_at[i] = Local(touched.size()), touched.push_back(Global(i));
    }
    part->rows = Local(touched.size());
    return std::make_shared<op::TiledSpmm<T>>(range, domain, op::Split::columns, std::move(touched),
                                              std::make_unique<Product<T>>(part, false),
                                              std::make_unique<Product<T>>(part, true), options);
  });
}

namespace {

// Adds a view to the sums of a row of voxels: `image` is its projection, with zeros around it.
template <class T>
void add_view(const Shot& shot, const ConeGeometry& g, const T* image, double y, double z, double* sums) {
  double at[3], step[3];
  for (int r = 0; r < 3; ++r) {
    const double* const m = shot.inverse[r];
    at[r] = m[0] * (0.5 - shot.source[0]) + m[1] * (y - shot.source[1]) + m[2] * (z - shot.source[2]);
    step[r] = m[0];
  }
  const Local wide = g.columns + 2;
  const double last_column = g.columns, last_row = g.rows;
#pragma omp simd
  for (Local x = 0; x < g.width; ++x) {
    const double depth = at[2] + x * step[2], over = depth > 1e-9 ? 1 / depth : 0.0;
    const double j = least(most((at[0] + x * step[0]) * over, -1.0), last_column) + 1,
                 i = least(most((at[1] + x * step[1]) * over, -1.0), last_row) + 1;
    const auto column = least(Local(j), g.columns), row = least(Local(i), g.rows);
    const double right = j - column, down = i - row;
    const T* const from = image + row * wide + column;
    const double above = (1 - right) * double(from[0]) + right * double(from[1]),
                 below = (1 - right) * double(from[wide]) + right * double(from[wide + 1]);
    sums[x] += over * over * ((1 - down) * above + down * below);
  }
}

}  // namespace

template <class T>
void ConeProjector::back_project(const T* projections, T* volume) const {
  const auto& g = geometry_;
  const auto rows = std::size_t(g.rows), columns = std::size_t(g.columns), size = (rows + 2) * (columns + 2);
  checked_cast<Local>(size, "the number of pixels of a detector");
  std::vector<T> framed(size * shots_.size());
  exec::parallel_for(shots_.size() * rows, true, [&](std::size_t line) {
    const T* const from = projections + line * columns;
    std::copy(from, from + columns, framed.data() + line / rows * size + (line % rows + 1) * (columns + 2) + 1);
  });
  exec::parallel_for(
      std::size_t(g.depth) * std::size_t(g.height), true,
      [&](std::size_t line) {
        std::vector<double> sums(static_cast<std::size_t>(g.width));
        const double y = double(line % std::size_t(g.height)) + 0.5, z = double(line / std::size_t(g.height)) + 0.5;
        for (std::size_t shot = 0; shot < shots_.size(); ++shot)
          add_view(shots_[shot], g, framed.data() + shot * size, y, z, sums.data());
        for (std::size_t x = 0; x < sums.size(); ++x) volume[line * sums.size() + x] = T(sums[x]);
      },
      1);
}

template void ConeProjector::back_project(const float*, float*) const;
template void ConeProjector::back_project(const double*, double*) const;
template std::shared_ptr<op::TiledSpmm<float>> ConeProjector::matrix(const comm::Communicator&,
                                                                     const op::TiledSpmmOptions&) const;
template std::shared_ptr<op::TiledSpmm<double>> ConeProjector::matrix(const comm::Communicator&,
                                                                      const op::TiledSpmmOptions&) const;

}  // namespace tacit::app::tomography
