#include <tacit/app/tomography/projector.hpp>

#include <tacit/base/free_memory.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/layout/hilbert.hpp>
#include "op/tuning.hpp"

#include "beam.hpp"
#include "computed.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

namespace tacit::app::tomography {

namespace {

std::vector<Local> inverse(const std::vector<Local>& order) {
  std::vector<Local> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[std::size_t(order[i])] = Local(i);
  return place;
}

std::vector<Local> numbers(Local n) {
  std::vector<Local> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Local(0));
  return all;
}

}  // namespace

Projector::~Projector() = default;
Projector::Projector(Projector&&) noexcept = default;

Projector::Projector(Geometry geometry, Order order) : geometry_(std::move(geometry)) {
  const auto& g = geometry_;
  require(g.width >= 1 && g.height >= 1, "an image of ", g.width, " x ", g.height, " pixels");
  require(g.detectors >= 1 && !g.angles.empty(), "a sinogram of ", g.angles.size(), " angles and ", g.detectors,
          " bins");
  require(std::isfinite(g.centre), "a rotation axis at ", g.centre);
  require(g.pixel > 0 && std::isfinite(g.pixel), "pixels of ", g.pixel, " bins");
  checked_cast<Local>(g.rays(), "the number of rays");
  checked_cast<Local>(g.pixels(), "the number of pixels");
  for (const double t : g.angles) {
    require(std::isfinite(t), "an angle of ", t);
    Beam a{std::cos(t), std::sin(t), 0, 0, 0, false};
    const double c = std::abs(a.cos), s = std::abs(a.sin);
    a.along = std::min(c, s) < parallel;
    if (a.along) (c < s ? a.cos : a.sin) = 0;
    a.half = (std::abs(a.cos) + std::abs(a.sin)) / 2;
    a.most = std::min(c, s);
    a.slope = a.along ? 0 : 1 / (c * s);
    beams_.push_back(a);
    cos_.push_back(a.cos * g.pixel), sin_.push_back(a.sin * g.pixel), half_.push_back(a.half * g.pixel + 1e-6);
  }
  for (Local j = 0; j < g.detectors; ++j) bin_.push_back((j + 0.5 - g.centre) / g.pixel);
  const auto angles = Local(g.angles.size());
  // Both curves are of the same square, so that a rank's patches of the image and of the sinogram correspond.
  Global side = 1;
  while (side < std::max({g.width, g.height, g.detectors, angles})) side *= 2;
  const bool curved = order == Order::hilbert;
  ray_order_ = curved ? layout::hilbert_order(g.detectors, angles, side) : numbers(Local(g.rays()));
  pixel_order_ = curved ? layout::hilbert_order(g.width, g.height, side) : numbers(Local(g.pixels()));
  ray_place_ = inverse(ray_order_);
  pixel_place_ = inverse(pixel_order_);
}

template <class F>
void Projector::each_pixel(Local ray, const Box& box, F&& f) const {
  const auto& g = geometry_;
  const Local j = ray % g.detectors;
  const Beam& a = beams_[std::size_t(ray / g.detectors)];
  const double r = bin_[std::size_t(j)];
  const double left = 0.5 - g.width * 0.5, top = g.height * 0.5 - 0.5;  // the centre of the first pixel
  // Row by row where the ray is steep, else column by column: at most three candidate pixels in each.
  const bool steep = a.steep();
  const double main = steep ? a.cos : a.sin, other = steep ? a.sin : a.cos, inverse = 1 / main,
               reach = a.half * std::abs(inverse) + 1e-6;
  const Local from = steep ? box.top : box.left, to = steep ? box.bottom : box.right;
  for (Local l = from; l < to; ++l) {
    const double at = steep ? top - l : l + left;
    const double cross = (r - at * other) * inverse;  // where the ray meets the line of the pixels' centres
    const double middle = steep ? cross - left : top - cross;
    // Clamped to the box before the conversion to integers, which rays far outside of it would overflow.
    const double least = steep ? box.left : box.top, most = steep ? box.right : box.bottom;
    const auto first = Local(std::clamp(std::ceil(middle - reach), least, most));
    const auto last = Local(std::clamp(std::floor(middle + reach), least - 1, most - 1));
    for (Local m = first; m <= last; ++m) {
      const Local x = steep ? m : l, y = steep ? l : m;
      const double part = a.length(a.distance(x + left, top - y, r));
      if (part > shortest) f(x + g.width * y, part * g.pixel);
    }
  }
}

template <class F>
void Projector::each_ray(Local pixel, F&& f) const {
  const auto& g = geometry_;
  const Local x = pixel % g.width, y = pixel / g.width;
  const double px = x + (0.5 - g.width * 0.5), py = (g.height * 0.5 - 0.5) - y;
  constexpr std::size_t some = 128;
  std::int32_t low[some], high[some];
  const double most = double(g.detectors) - 1, shift = g.centre - 0.5;
  for (std::size_t first = 0; first < beams_.size(); first += some) {
    const std::size_t count = std::min(some, beams_.size() - first);
    const double *const c = cos_.data() + first, *const s = sin_.data() + first, *const reach = half_.data() + first;
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      const double middle = px * c[i] + py * s[i] + shift;
      low[i] = std::int32_t(std::min(std::max(std::ceil(middle - reach[i]), 0.0), most + 1));
      high[i] = std::int32_t(std::max(std::min(std::floor(middle + reach[i]), most), -1.0));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Beam& a = beams_[first + i];
      for (Local j = low[i]; j <= high[i]; ++j) {
        const double part = a.length(a.distance(px, py, bin_[std::size_t(j)]));
        if (part > shortest) f(Local(first + i) * g.detectors + j, part * g.pixel);
      }
    }
  }
}

template <class T>
void Projector::ray_rows(Local begin, Local end, op::RowBuffer<T>& rows) const {
  const Box all{0, geometry_.width, 0, geometry_.height};
  for (Local i = begin; i < end; ++i) {
    each_pixel(ray_order_[std::size_t(i)], all,
               [&](Local pixel, double v) { rows.add(pixel_place_[std::size_t(pixel)], T(v)); });
    rows.end_row();
  }
}

template <class T>
void Projector::pixel_rows(Local begin, Local end, op::RowBuffer<T>& rows) const {
  for (Local i = begin; i < end; ++i) {
    each_ray(pixel_order_[std::size_t(i)], [&](Local ray, double v) { rows.add(ray_place_[std::size_t(ray)], T(v)); });
    rows.end_row();
  }
}

double Projector::expected_entries() const {
  const auto& g = geometry_;
  double shadows = 0;
  for (const Beam& a : beams_) {
    const double half = 0.5 * g.pixel * (g.width * std::abs(a.cos) + g.height * std::abs(a.sin));
    const double seen = std::min(half, g.detectors - g.centre) - std::max(-half, -g.centre);
    shadows += 2 * a.half * g.pixel * std::clamp(seen / (2 * half), 0.0, 1.0);
  }
  return double(g.pixels()) * shadows;
}

Box Projector::around(Local begin, Local end) const {
  if (begin == end) return {0, 0, 0, 0};
  Box box{geometry_.width, 0, geometry_.height, 0};
  for (Local i = begin; i < end; ++i) {
    const Local x = pixel_order_[std::size_t(i)] % geometry_.width, y = pixel_order_[std::size_t(i)] / geometry_.width;
    box = {std::min(box.left, x), std::max(box.right, x + 1), std::min(box.top, y), std::max(box.bottom, y + 1)};
  }
  return box;
}

// The number of entries in the columns of the pixels at these places; marks their rays in `hit`, if that is not empty.
Global Projector::count_shadows(Local begin, Local end, std::vector<char>& hit) const {
  const auto& g = geometry_;
  const std::size_t angles = beams_.size();
  std::vector<double> reach(angles);  // rays within this many bins of a shadow's middle have an entry
  for (std::size_t a = 0; a < angles; ++a) {
    const Beam& b = beams_[a];
    reach[a] = b.along ? half_[a] : (b.half - shortest / b.slope) * g.pixel;
  }
  const double last = double(g.detectors) - 1, shift = g.centre - 0.5;
  std::vector<std::size_t> looked_at;  // angles whose rays are visited one by one: all with `hit`, or those along axes
  for (std::size_t a = 0; a < angles; ++a)
    if (!hit.empty() || beams_[a].along) looked_at.push_back(a);
  std::atomic<Global> entries = 0;
  exec::parallel_for(
      std::size_t(end - begin), true,
      [&](std::size_t at) {
        const Local pixel = pixel_order_[std::size_t(begin) + at];
        const double x = pixel % g.width + (0.5 - g.width * 0.5), y = (g.height * 0.5 - 0.5) - pixel / g.width;
        const auto shadow = [&](std::size_t a) {
          const double middle = x * cos_[a] + y * sin_[a] + shift;
          return std::pair(std::min(std::max(std::ceil(middle - reach[a]), 0.0), last + 1),
                           std::max(std::min(std::floor(middle + reach[a]), last), -1.0));
        };
        const double *const c = cos_.data(), *const s = sin_.data(), *const r = reach.data();
        double sum = 0;  // of integers, exact
#pragma omp simd reduction(+ : sum)
        for (std::size_t a = 0; a < angles; ++a) {
          const double middle = x * c[a] + y * s[a] + shift;
          const double low = std::max(std::ceil(middle - r[a]), 0.0), high = std::min(std::floor(middle + r[a]), last);
          sum += std::max(0.0, high - low + 1);
        }
        auto found = Global(sum);
        for (const std::size_t a : looked_at) {
          const Beam& b = beams_[a];
          char* const row = hit.empty() ? nullptr : hit.data() + a * std::size_t(g.detectors);
          const auto [low, high] = shadow(a);
          for (Local j = Local(low); j <= Local(high); ++j) {
            if (b.along && b.length(b.distance(x, y, bin_[std::size_t(j)])) == 0) {
              --found;
              continue;
            }
            if (!row) continue;
            std::atomic_ref<char>(row[j]).store(1, std::memory_order_relaxed);
          }
        }
        entries += found;
      },
      64);
  return entries;
}

template <class T>
Projector::Way Projector::way(const op::TiledSpmmOptions& options, int ranks) const {
  const auto& m = options.matrix;
  const bool full = m.values == op::Values::full || (m.values == op::Values::single && sizeof(T) == 4);
  const bool plain = full && m.vectors == op::Vectors::full && !options.clusters && m.block_rows == 0 && m.tile == 0 &&
                     !m.in_order && m.row_order.empty() && m.column_order.empty();
  if (m.format == op::TiledFormat::computed) {
    require(plain && !m.tune,
            "a computed projector stores nothing: values and vectors of another type, clusters, tuning, blocks "
            "and register tiles are of the formats list, bitmap and plain");
    return Way::compute;
  }
  const bool open = m.format == op::TiledFormat::automatic && plain;
  const bool fast = open && computes_fast<T>(geometry_.pixel, beams_);
  if (fast && !m.tune && m.columns <= computed_columns) return Way::compute;
  // A and A^T are stored, each with at least a byte of index for each entry.
  const double width = m.values == op::Values::full ? sizeof(T) : m.values == op::Values::single ? 4 : 2;
  const double needed = 2 * (width + 1) * expected_entries() / ranks, there = double(total_memory());
  if (needed <= there) return fast && m.tune ? Way::measure : Way::store;
  if (open) return Way::compute;
  throw Error(ErrorKind::memory,
              message("a projector of ", geometry_.rays(), " rays through ", geometry_.pixels(), " pixels has some ",
                      expected_entries(), " entries: ", needed / 1e9, " GB a rank, but there are ", there / 1e9,
                      " GB; take the format computed, more ranks, larger pixels or 16-bit values"));
}

template <class T>
std::shared_ptr<op::TiledSpmm<T>> Projector::computed(const layout::Space& range, const layout::Space& domain,
                                                      const op::TiledSpmmOptions& options) const {
  const auto begin = Local(domain.begin()), end = Local(domain.end());
  const bool alone = domain.comm().size() == 1;
  auto part = std::make_shared<Part>();
  part->geometry = geometry_, part->beams = beams_, part->bin = bin_;
  part->box = around(begin, end);
  std::vector<char> hit(alone ? 0 : std::size_t(geometry_.rays()));
  part->entries = count_shadows(begin, end, hit);
  std::vector<Global> touched;
  if (alone) {
    touched.resize(std::size_t(geometry_.rays()));
    std::iota(touched.begin(), touched.end(), Global(0));
    part->ray_at = ray_place_;
  } else {
    part->ray_at.assign(std::size_t(geometry_.rays()), -1);
    for (std::size_t i = 0; i < hit.size(); ++i) {
      const auto ray = std::size_t(ray_order_[i]);
      if (hit[ray]) part->ray_at[ray] = Local(touched.size()), touched.push_back(Global(i));
    }
  }
  part->rows = checked_cast<Local>(touched.size(), "the number of rays through a rank's pixels");
  part->columns = end - begin;
  const Box& box = part->box;
  part->pixel_at.assign(std::size_t(box.width()) * std::size_t(box.height()), -1);
  for (Local i = begin; i < end; ++i) {
    const Local x = pixel_order_[std::size_t(i)] % geometry_.width, y = pixel_order_[std::size_t(i)] / geometry_.width;
    part->pixel_at[std::size_t(y - box.top) * std::size_t(box.width()) + std::size_t(x - box.left)] = i - begin;
  }
  return std::make_shared<op::TiledSpmm<T>>(range, domain, op::Split::columns, std::move(touched),
                                            computed_forward<T>(part), computed_backward<T>(part), options);
}

// Whether a product with A and one with A^T are faster with computed entries: from the tuning file, or by timing both.
template <class T>
bool Projector::computes_quicker(const comm::Communicator& comm, const op::TiledSpmmOptions& options,
                                 const std::function<std::shared_ptr<op::TiledSpmm<T>>(bool computed)>& make) const {
  const int k = options.matrix.columns;
  const std::string key = message(op::TuningFile::machine(), "|projector|", comm.size(), '|', sizeof(T), '|', k, '|',
                                  std::ilogb(double(geometry_.rays())), '|', std::ilogb(double(geometry_.pixels())));
  const op::TuningFile file(options.matrix.tuning_file);
  const auto known = file.find(key, [](const auto& v) { return v[0] == 0 || v[0] == 1; });
  // Ranks may read different files: where their entries differ, the times are measured.
  const Global mine = known ? (*known)[0] : -1, least = comm.all_min(mine);
  if (least >= 0 && least == comm.all_max(mine)) return least == 1;
  const std::shared_ptr<op::TiledSpmm<T>> candidates[] = {make(false), make(true)};
  double seconds[] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  layout::Vector<T> x(candidates[0]->domain(), k), y(candidates[0]->range(), k), z(candidates[0]->domain(), k);
  layout::fill(x, T(1));
  // The first round warms up. Many short rounds follow, or a few long ones; the fastest counts, as least disturbed by
  // other load.
  double spent = 0;
  for (int round = 0; round < 4 || (round < 100 && spent < 0.3); ++round)
    for (int i = 0; i < 2; ++i) {
      comm.all_min(1);
      const double start = wall_time();
      candidates[i]->apply(x, y);
      candidates[i]->apply_adjoint(y, z);
      const double taken = comm.all_max(wall_time() - start);
      if (round > 0) seconds[i] = std::min(seconds[i], taken);
      spent += taken;
    }
  const bool quicker = seconds[1] < seconds[0];
  file.keep(key, {quicker ? 1 : 0, 0, 0});
  return quicker;
}

template <class T>
std::shared_ptr<op::TiledSpmm<T>> Projector::matrix(const comm::Communicator& comm,
                                                    const op::TiledSpmmOptions& options) const {
  return comm::collective(comm, [&] {
    // Machines may differ in memory: where one rank has to compute entries, all do.
    const Way found = Way(int(comm.all_max(double(way<T>(options, comm.size())))));
    const auto range = layout::Space::distributed(comm, geometry_.rays());
    const auto domain = layout::Space::distributed(comm, geometry_.pixels());
    std::shared_ptr<op::TiledSpmm<T>> made[2];
    const auto make = [&](bool computes) {
      auto& a = made[computes ? 1 : 0];
      if (!a) a = computes ? computed<T>(range, domain, options) : stored<op::TiledSpmm<T>, T>(range, domain, options);
      return a;
    };
    return make(found == Way::compute || (found == Way::measure && computes_quicker<T>(comm, options, make)));
  });
}

template <class T, Memory M>
std::shared_ptr<op::TiledOnDevice<T, M>> Projector::on_device(const comm::Communicator& comm,
                                                              const op::TiledSpmmOptions& options) const {
  return comm::collective(comm, [&] {
    const auto range = layout::Space::distributed(comm, geometry_.rays());
    const auto domain = layout::Space::distributed(comm, geometry_.pixels());
    return stored<op::TiledOnDevice<T, M>, T>(range, domain, options);
  });
}

// A: op::TiledSpmm or op::TiledOnDevice.
template <class A, class T>
std::shared_ptr<A> Projector::stored(const layout::Space& range, const layout::Space& domain,
                                     const op::TiledSpmmOptions& options) const {
  const auto& comm = domain.comm();
  const auto begin = Local(domain.begin()), end = Local(domain.end());
  std::vector<Global> touched;
  if (comm.size() == 1) {
    touched.resize(std::size_t(geometry_.rays()));
    std::iota(touched.begin(), touched.end(), Global(0));
  } else {
    std::vector<char> hit(std::size_t(geometry_.rays()));
    exec::parallel_for(
        std::size_t(end - begin), true,
        [&](std::size_t at) {
          each_ray(pixel_order_[std::size_t(begin) + at], [&](Local ray, double) {
            std::atomic_ref<char>(hit[std::size_t(ray_place_[std::size_t(ray)])]).store(1, std::memory_order_relaxed);
          });
        },
        64);
    for (std::size_t i = 0; i < hit.size(); ++i)
      if (hit[i]) touched.push_back(Global(i));
  }
  const Box box = around(begin, end);
  std::vector<Local> local(comm.size() == 1 ? 0 : std::size_t(geometry_.rays()), -1);
  if (!local.empty())
    for (std::size_t i = 0; i < touched.size(); ++i) local[std::size_t(touched[i])] = Local(i);
  const op::RowSource<T> forward = [&, touched](Local from, Local to, op::RowBuffer<T>& rows) {
    for (Local i = from; i < to; ++i) {
      each_pixel(ray_order_[std::size_t(touched[std::size_t(i)])], box, [&](Local pixel, double v) {
        const Local place = pixel_place_[std::size_t(pixel)];
        if (place >= begin && place < end) rows.add(place - begin, T(v));
      });
      rows.end_row();
    }
  };
  const op::RowSource<T> backward = [&](Local from, Local to, op::RowBuffer<T>& rows) {
    for (Local i = from; i < to; ++i) {
      each_ray(pixel_order_[std::size_t(begin + i)], [&](Local ray, double v) {
        const Local place = ray_place_[std::size_t(ray)];
        rows.add(local.empty() ? place : local[std::size_t(place)], T(v));
      });
      rows.end_row();
    }
  };
  return std::make_shared<A>(range, domain, op::Split::columns, touched, forward, backward, options);
}

template void Projector::ray_rows(Local, Local, op::RowBuffer<float>&) const;
template void Projector::ray_rows(Local, Local, op::RowBuffer<double>&) const;
template void Projector::pixel_rows(Local, Local, op::RowBuffer<float>&) const;
template void Projector::pixel_rows(Local, Local, op::RowBuffer<double>&) const;
template std::shared_ptr<op::TiledSpmm<float>> Projector::matrix(const comm::Communicator&,
                                                                 const op::TiledSpmmOptions&) const;
template std::shared_ptr<op::TiledSpmm<double>> Projector::matrix(const comm::Communicator&,
                                                                  const op::TiledSpmmOptions&) const;
template std::shared_ptr<op::TiledOnDevice<float, Host>> Projector::on_device(const comm::Communicator&,
                                                                              const op::TiledSpmmOptions&) const;
template std::shared_ptr<op::TiledOnDevice<double, Host>> Projector::on_device(const comm::Communicator&,
                                                                               const op::TiledSpmmOptions&) const;
#ifdef TACIT_HAVE_CUDA
template std::shared_ptr<op::TiledOnDevice<float, Device>> Projector::on_device(const comm::Communicator&,
                                                                                const op::TiledSpmmOptions&) const;
template std::shared_ptr<op::TiledOnDevice<double, Device>> Projector::on_device(const comm::Communicator&,
                                                                                 const op::TiledSpmmOptions&) const;
#endif

}  // namespace tacit::app::tomography
