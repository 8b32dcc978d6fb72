#include "computed.hpp"

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include "lanes.hpp"

#include <array>
#include <functional>
#include <limits>
#include <mutex>

namespace tacit::app::tomography {
namespace {

// --- positions
// --------------------------------------------------------------------------------------------------------------

__extension__ typedef __int128 Fixed;  // 64 bits of a whole number, 64 of a fraction

Fixed fixed(long double v) {
  constexpr long double far = 1e12L;  // beyond any image: clamped, and never in a window
  v = std::clamp(v, -far, far);
  const long double whole = std::floor(v);
  return Fixed(std::int64_t(whole)) * (Fixed(1) << 64) + Fixed(std::uint64_t(std::ldexp(v - whole, 64)));
}
inline std::int64_t whole(Fixed f) {
  return std::int64_t(f >> 64);
}
template <class T>
inline typename Lanes<T>::Bits fraction_bits(Fixed f) {
  return typename Lanes<T>::Bits(std::uint64_t(f) >> (64 - 8 * sizeof(T) + Lanes<T>::digits));
}
// A whole number and a fraction, as lanes have them.
template <class T>
inline typename Lanes<T>::Bits position(Fixed f) {
  return typename Lanes<T>::Bits(f >> (64 - 8 * sizeof(T) + Lanes<T>::digits));
}

constexpr Local pad = 64;  // zeros beside a row, more than a window
template <class T>
constexpr int half_bits = 4 * int(sizeof(T));  // fractions count to 2^(2 half_bits): half of it is taken from vectors
template <class T>
constexpr double one = sizeof(T) == 4 ? 0x1p32 : 0x1p64;
template <class T>
constexpr double steepest = sizeof(T) == 4 ? 1.0 / 256 : 1e-9;  // below: too near to an axis for fractions

// Numbers of a row with its margins: an odd number of cache lines, so that rows do not meet in one set.
template <class T>
std::size_t row_length(Local n) {
  constexpr std::size_t line = std::size_t(Lanes<T>::count);
  return ((std::size_t(n) + 2 * pad + line - 1) / line | 1) * line;
}

template <class T>
bool fits(double spacing, int candidates) {
  return (Lanes<T>::count - 1) * std::abs(spacing) + candidates < Lanes<T>::window - 1;
}
template <class T>
bool slanted(const Beam& b) {
  return !b.along && b.most >= steepest<T> * std::max(std::abs(b.cos), std::abs(b.sin));
}
template <class T>
bool fast_forward(const Beam& b, double pixel) {
  return slanted<T>(b) && fits<T>(1 / (pixel * std::max(std::abs(b.cos), std::abs(b.sin))), 1);
}
template <class T>
bool fast_backward(const Beam& b, double pixel) {
  return slanted<T>(b) && 2 * b.half * pixel <= 3 && fits<T>(b.cos * pixel, 2);
}

template <class F>
void deal(std::size_t count, bool parallel, const comm::Communicator* comm, F&& f) {
  const auto polled = [&](std::size_t i) {
    f(i);
    if (comm && exec::may_poll()) comm->poll();
  };
  if (auto* const tasks = exec::Tasks::current()) return tasks->each(count, polled);
#pragma omp parallel for schedule(dynamic, 1) if (parallel)
  for (std::size_t i = 0; i < count; ++i) polled(i);
}

// Memory of products under way, by columns at once; kept for the next ones.
template <class T>
class Pool {
 public:
  using Planes = std::vector<T>;
  std::unique_ptr<Planes> take(int columns, std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      auto& kept = kept_[std::size_t(columns / 2)];
      if (!kept.empty()) {
        auto planes = std::move(kept.back());
        kept.pop_back();
        return planes;
      }
    }
    return std::make_unique<Planes>(size, T(0));
  }
  void give(int columns, std::unique_ptr<Planes> planes) {
    const std::lock_guard lock(mutex_);
    kept_[std::size_t(columns / 2)].push_back(std::move(planes));
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<std::unique_ptr<Planes>>, 3> kept_;  // of 1, 2 and 4 columns
};

template <class T>
T clamped(T v, const op::Clamp<T>* clamp) {
  if (!clamp) return v;
  v += clamp->bias;
  v = clamp->low > v ? clamp->low : v;
  return clamp->high < v ? clamp->high : v;
}

// Columns 4, 2 and 1 at a time: f(columns, first).
template <class F>
void by_columns(int k, F&& f) {
  for (int c = 0; c < k;) {
    const int left = k - c;
    if (left >= 4) f(std::integral_constant<int, 4>{}, c), c += 4;
    else if (left >= 2) f(std::integral_constant<int, 2>{}, c), c += 2;
    else f(std::integral_constant<int, 1>{}, c), c += 1;
  }
}

template <class T>
class Computed : public op::LocalProduct<T> {
 public:
  explicit Computed(std::shared_ptr<const Part> part) : part_(std::move(part)) {}
  Global entries() const override { return part_->entries; }
  double largest() const override {
    double most = 0;
    if (part_->entries > 0)
      for (const Beam& b : part_->beams) most = std::max(most, b.largest() * part_->geometry.pixel);
    return most;
  }
  std::string storage() const override { return message("computed, ", scalar_name<T>()); }

 protected:
  double bytes_of_places() const {
    return double(sizeof(Local)) * (double(part_->ray_at.size()) + double(part_->pixel_at.size()));
  }
  template <class Run>
  void traced(int k, Run&& run) const {
    const bool watched = Trace::on();
    const Span span("computed product", "op", watched ? std::int64_t(this->bytes()) : 0);
    if (watched)
      Trace::work("computed product",
                  this->bytes() + double(sizeof(T)) * k * (double(this->columns()) + double(this->rows())),
                  this->flops() * k);
    run();
  }
  std::shared_ptr<const Part> part_;
};

// --- A
// ----------------------------------------------------------------------------------------------------------------------

template <class T>
class Forward final : public Computed<T> {
 public:
  explicit Forward(std::shared_ptr<const Part> part);
  Local rows() const override { return part_->rows; }
  Local columns() const override { return part_->columns; }
  double bytes() const override { return this->bytes_of_places() + double(lines_.size()) * (sizeof(Line) + 64); }
  double flops() const override { return flops_; }
  void multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                const op::Clamp<T>* clamp) const override;

 private:
  using Computed<T>::part_;
  using V = Numbers<T>;
  using U = Positions<T>;
  static constexpr Local L = Lanes<T>::count;
  static constexpr Local together = 8;  // angles that go through the same pixels
  static constexpr Local few = 16;      // rows whose lengths are added up in T
  static constexpr Local crossed = 32;  // rows of pixels at a time: what they all read stays in the nearest cache

  // A fast angle. Ray j meets row l of the box (column, where it is not steep) at the position at + l by_row + j
  // by_ray.
  struct Line {
    Local angle;
    bool steep;
    Fixed at, by_row, by_ray;
    double start, step, spacing;  // the same in double
    T most;                       // a fraction: what a ray is at most within the last of its two pixels
    double whole, part;           // sums to lengths
  };
  struct Unit {
    Local first, last, group;  // lines; rays group L to group L + L - 1
  };
  // The rows of the box that the rays of a group meet.
  std::pair<Local, Local> met(const Line& line, Local group) const;
  template <int K>
  void draw(const T* x, int stride, T* planes, bool parallel, const comm::Communicator* comm) const;
  template <int K>
  void add_up(const Unit& unit, const T* planes, T* y, int stride, const op::Clamp<T>* clamp) const;
  template <int K>
  void add_up_slowly(Local angle, Local group, const T* planes, T* y, int stride, const op::Clamp<T>* clamp) const;
  template <int K>
  std::size_t plane_size(bool steep) const {
    return steep ? length_[0] * K * std::size_t(part_->box.height()) : length_[1] * K * std::size_t(part_->box.width());
  }

  std::vector<Line> lines_;
  std::vector<typename Lanes<T>::Bits> offset_;  // of the lanes of each line
  std::vector<Unit> units_;
  std::vector<Local> slow_;  // angles
  std::size_t length_[2];    // of rows and of columns of the box, with margins
  double flops_ = 0;
  mutable Pool<T> pool_;
};

template <class T>
Forward<T>::Forward(std::shared_ptr<const Part> part) : Computed<T>(std::move(part)) {
  const auto& p = *part_;
  const auto& g = p.geometry;
  length_[0] = row_length<T>(p.box.width()), length_[1] = row_length<T>(p.box.height());
  for (Local i = 0; i < Local(p.beams.size()); ++i) {
    const Beam& b = p.beams[std::size_t(i)];
    if (!fast_forward<T>(b, g.pixel)) {
      slow_.push_back(i);
      continue;
    }
    const bool steep = b.steep();
    const long double main = steep ? b.cos : b.sin, other = steep ? b.sin : b.cos, bins = g.pixel;
    const long double first = (0.5L - g.centre) / bins, reach = b.half / std::abs(main);
    const long double at = steep ? reach - p.left() - p.box.left + (first - (p.top() - p.box.top) * other) / main
                                 : reach + p.top() - p.box.top - (first - (p.left() + p.box.left) * other) / main;
    const long double by_row = other / main, by_ray = (steep ? 1 : -1) / (bins * main);
    const double slant = std::abs(double(by_row)), length = g.pixel / std::abs(double(main));
    const T most = T(slant * one<T>);
    lines_.push_back({i, steep, fixed(at), fixed(by_row), fixed(by_ray), double(at), double(by_row), double(by_ray),
                      most, std::ldexp(length, half_bits<T>), std::ldexp(length / double(most), half_bits<T>)});
  }
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.steep != b.steep ? a.steep : a.step < b.step; });
  for (const Line& line : lines_)
    for (Local i = 0; i < L; ++i) offset_.push_back(position<T>(line.by_ray * (line.spacing < 0 ? i - (L - 1) : i)));
  const Local groups = (g.detectors + L - 1) / L, count = Local(lines_.size());
  for (Local first = 0; first < count;) {
    Local last = first;
    while (last < count && last - first < together &&
           lines_[std::size_t(last)].steep == lines_[std::size_t(first)].steep)
      ++last;
    for (Local group = 0; group < groups; ++group) units_.push_back({first, last, group});
    first = last;
  }
  double crossings = 0;
  for (const Line& line : lines_)
    for (Local group = 0; group < groups; ++group) {
      const auto [from, to] = met(line, group);
      crossings += std::max<Local>(0, to - from);
    }
  for (const Local a : slow_)
    crossings += 4.0 * groups * (p.beams[std::size_t(a)].steep() ? p.box.height() : p.box.width());
  flops_ = 7 * L * crossings;
}

template <class T>
std::pair<Local, Local> Forward<T>::met(const Line& line, Local group) const {
  const double rows = line.steep ? part_->box.height() : part_->box.width(),
               columns = line.steep ? part_->box.width() : part_->box.height();
  const double a = line.start + double(group) * L * line.spacing, b = a + (L - 1) * line.spacing;
  // A pixel or two of a lane at p: p - 1 to p.
  const double least = std::min(a, b), most = std::max(a, b);
  double from = (-most - 0.01) / line.step, to = (columns + 1.01 - least) / line.step;
  if (line.step < 0) std::swap(from, to);
  return {Local(std::min(rows, std::max(0.0, std::floor(from)))),
          Local(std::min(rows, std::max(0.0, std::floor(to) + 1)))};
}

// The image, as rows and as columns of the box, with zeros around and where the part has no pixel.
template <class T>
template <int K>
void Forward<T>::draw(const T* x, int stride, T* planes, bool parallel, const comm::Communicator* comm) const {
  const auto& p = *part_;
  const Local w = p.box.width(), h = p.box.height();
  const T small = T(std::ldexp(1.0, -half_bits<T>));
  T* const across = planes + plane_size<K>(true);
  constexpr Local some = 16;
  deal(std::size_t((h + some - 1) / some), parallel, comm, [&](std::size_t piece) {
    const Local begin = Local(piece) * some, end = std::min(h, begin + some);
    for (Local i = begin; i < end; ++i) {
      const Local* const at = p.pixel_at.data() + std::size_t(i) * std::size_t(w);
      T* const row = planes + std::size_t(i) * K * length_[0] + pad;
      for (Local j = 0; j < w; ++j)
        for (int c = 0; c < K; ++c)
          row[std::size_t(c) * length_[0] + std::size_t(j)] =
              at[j] < 0 ? T(0) : small * x[std::size_t(at[j]) * std::size_t(stride) + std::size_t(c)];
    }
    for (Local from = 0; from < w; from += some)
      for (int c = 0; c < K; ++c)
        for (Local j = from; j < std::min(w, from + some); ++j) {
          T* const column = across + (std::size_t(j) * K + std::size_t(c)) * length_[1] + pad;
          for (Local i = begin; i < end; ++i)
            column[i] = planes[(std::size_t(i) * K + std::size_t(c)) * length_[0] + pad + std::size_t(j)];
        }
  });
}

template <class T>
template <int K>
void Forward<T>::add_up(const Unit& unit, const T* planes, T* y, int stride, const op::Clamp<T>* clamp) const {
  const auto& p = *part_;
  const Local lines = unit.last - unit.first;
  const bool steep = lines_[std::size_t(unit.first)].steep;
  const std::size_t length = length_[steep ? 0 : 1];
  const T* const image = planes + (steep ? 0 : plane_size<K>(true)) + pad - 1;
  std::pair<Local, Local> rows[together];
  Fixed start[together];
  Sums<T> sum[together][K];
  Local begin = std::numeric_limits<Local>::max(), end = 0;
  for (Local n = 0; n < lines; ++n) {
    const Line& line = lines_[std::size_t(unit.first + n)];
    rows[n] = met(line, unit.group);
    start[n] = line.at + line.by_ray * (Fixed(unit.group) * L + (line.spacing < 0 ? L - 1 : 0));
    if (rows[n].first < rows[n].second) begin = std::min(begin, rows[n].first), end = std::max(end, rows[n].second);
  }
  for (Local block = begin / crossed * crossed; block < end; block += crossed)
    for (Local n = 0; n < lines; ++n) {
      const Local from = std::max(block, rows[n].first), to = std::min(block + crossed, rows[n].second);
      if (from >= to) continue;
      const Line& line = lines_[std::size_t(unit.first + n)];
      typename Lanes<T>::Bits fraction_at[crossed];
      const T* window[crossed];
      Fixed f = start[n] + line.by_row * from;
      for (Local l = from; l < to; ++l, f += line.by_row) {
        fraction_at[l - from] = fraction_bits<T>(f);
        window[l - from] = image + std::ptrdiff_t(std::size_t(l) * K * length) + whole(f);
      }
      const U offset = loaded<U>(offset_.data() + std::size_t(unit.first + n) * L);
      const V top = V{} + line.most;
      for (Local first = 0; first < to - from; first += few) {
        V all[K] = {}, some[K] = {};
        for (Local l = first; l < std::min(first + few, to - from); ++l) {
          const U u = turned<T>(offset + fraction_at[l]), next = u + 1;
          const V share = least<T>(fraction<T>(u), top);
          for (int c = 0; c < K; ++c) {
            const V before = picked<T>(u, window[l] + std::size_t(c) * length),
                    after = picked<T>(next, window[l] + std::size_t(c) * length);
            all[c] += before;
            some[c] += share * (after - before);
          }
        }
        for (int c = 0; c < K; ++c) sum[n][c].add(all[c], line.whole), sum[n][c].add(some[c], line.part);
      }
    }
  for (Local n = 0; n < lines; ++n) {
    const Line& line = lines_[std::size_t(unit.first + n)];
    const Local bin = unit.group * L;
    const Local* const at = p.ray_at.data() + std::size_t(line.angle) * std::size_t(p.geometry.detectors) + bin;
    for (Local i = 0; i < std::min(L, p.geometry.detectors - bin); ++i)
      for (int c = 0; at[i] >= 0 && c < K; ++c)
        y[std::size_t(at[i]) * std::size_t(stride) + std::size_t(c)] = clamped(T(sum[n][c].of[i]), clamp);
  }
}

// As each_pixel of the stored one, lane by lane.
template <class T>
template <int K>
void Forward<T>::add_up_slowly(Local angle, Local group, const T* planes, T* y, int stride,
                               const op::Clamp<T>* clamp) const {
  const auto& p = *part_;
  const Beam b = p.beams[std::size_t(angle)];
  const bool steep = b.steep();
  const std::size_t length = length_[steep ? 0 : 1];
  const T* const image = planes + (steep ? 0 : plane_size<K>(true)) + pad;
  const double main = steep ? b.cos : b.sin, other = steep ? b.sin : b.cos, inverse = 1 / main,
               reach = b.half * std::abs(inverse) + 1e-6, left = p.left(), top = p.top();
  const Local from = steep ? p.box.top : p.box.left, to = steep ? p.box.bottom : p.box.right;
  const double least = steep ? p.box.left : p.box.top, most = steep ? p.box.right : p.box.bottom;
  double r[L], sum[K][L] = {};
  for (Local i = 0; i < L; ++i) r[i] = p.bin[std::size_t(std::min(group * L + i, p.geometry.detectors - 1))];
  for (Local l = from; l < to; ++l) {
    const T* const row = image + std::size_t(l - from) * K * length;
    const double at = steep ? top - l : l + left;
    double first[L], last[L];
#pragma omp simd
    for (Local i = 0; i < L; ++i) {
      const double cross = (r[i] - at * other) * inverse, middle = steep ? cross - left : top - cross;
      first[i] = std::min(std::max(std::ceil(middle - reach), least), most);
      last[i] = std::max(std::min(std::floor(middle + reach), most - 1), least - 1);
    }
    for (int k = 0; k < 3; ++k) {
      double part[L];
      Local place[L];
#pragma omp simd
      for (Local i = 0; i < L; ++i) {
        const double m = first[i] + k, d = b.distance((steep ? m : l) + left, top - (steep ? l : m), r[i]);
        const double inside =
            b.along ? (d >= -0.5 && d < 0.5 ? 1.0 : 0.0) : std::min(b.half - std::abs(d), b.most) * b.slope;
        part[i] = m <= last[i] && inside > shortest ? inside : 0.0;
        place[i] = Local(std::min(m, most) - least);  // the first zero beyond
      }
      for (int c = 0; c < K; ++c)
#pragma omp simd
        for (Local i = 0; i < L; ++i)
          sum[c][i] += part[i] * double(row[std::size_t(c) * length + std::size_t(place[i])]);
    }
  }
  const Local bin = group * L;
  const Local* const at = p.ray_at.data() + std::size_t(angle) * std::size_t(p.geometry.detectors) + bin;
  const double scale = std::ldexp(p.geometry.pixel, half_bits<T>);
  for (Local i = 0; i < std::min(L, p.geometry.detectors - bin); ++i)
    for (int c = 0; at[i] >= 0 && c < K; ++c)
      y[std::size_t(at[i]) * std::size_t(stride) + std::size_t(c)] = clamped(T(scale * sum[c][i]), clamp);
}

template <class T>
void Forward<T>::multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                          const op::Clamp<T>* clamp) const {
  const bool parallel = part_->entries * Global(k) > 20000;
  const auto groups = std::size_t((part_->geometry.detectors + L - 1) / L);
  this->traced(k, [&] {
    by_columns(k, [&](auto columns, int c) {
      constexpr int K = columns;
      auto planes = pool_.take(K, plane_size<K>(true) + plane_size<K>(false));
      draw<K>(x + c, x_stride, planes->data(), parallel, comm);
      deal(units_.size() + slow_.size() * groups, parallel, comm, [&](std::size_t i) {
        const std::size_t slow = i - std::min(i, units_.size());
        if (i < units_.size()) add_up<K>(units_[i], planes->data(), y + c, y_stride, clamp);
        else add_up_slowly<K>(slow_[slow / groups], Local(slow % groups), planes->data(), y + c, y_stride, clamp);
      });
      pool_.give(K, std::move(planes));
    });
  });
}

// --- A^T
// --------------------------------------------------------------------------------------------------------------------

template <class T>
class Backward final : public Computed<T> {
 public:
  explicit Backward(std::shared_ptr<const Part> part);
  Local rows() const override { return part_->columns; }
  Local columns() const override { return part_->rows; }
  double bytes() const override { return this->bytes_of_places() + double(shadows_.size()) * (sizeof(Shadow) + 64); }
  double flops() const override { return flops_; }
  void multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                const op::Clamp<T>* clamp) const override;

 private:
  using Computed<T>::part_;
  using V = Numbers<T>;
  using U = Positions<T>;
  static constexpr Local L = Lanes<T>::count;
  static constexpr std::size_t few = 16;  // angles whose contributions are added up in T

  // A fast angle. The shadow of pixel (x, y) of the box ends at the position at + x by_x + y by_y of the detector.
  struct Shadow {
    Local angle;
    Fixed at, by_x, by_y;
    T most, rest;  // what the width has over a bin
    double scale;
  };
  template <int K>
  void fill(const T* x, int stride, T* planes, bool parallel, const comm::Communicator* comm) const;
  template <int K, bool Two, int R>
  void add(std::size_t begin, std::size_t end, const T* planes, Local left, Local top, V (&sum)[R][K]) const;
  template <int K, int R>
  void add_slowly(const T* planes, Local left, Local top, Sums<T> (&total)[R][K]) const;
  template <int K>
  void block(Local left, Local top, const T* planes, T* y, int stride, const op::Clamp<T>* clamp) const;

  std::vector<Shadow> shadows_;  // first those of one to two bins
  std::size_t two_ = 0;          // so many
  std::vector<typename Lanes<T>::Bits> offset_;
  std::vector<Local> slow_;  // angles
  std::size_t length_;       // of a row of the sinogram, with margins
  double flops_ = 0;
  mutable Pool<T> pool_;
};

template <class T>
Backward<T>::Backward(std::shared_ptr<const Part> part) : Computed<T>(std::move(part)) {
  const auto& p = *part_;
  const auto& g = p.geometry;
  length_ = row_length<T>(g.detectors);
  for (const bool two : {true, false}) {
    for (Local i = 0; i < Local(p.beams.size()); ++i) {
      const Beam& b = p.beams[std::size_t(i)];
      const double width = 2 * b.half * g.pixel;
      if (!fast_backward<T>(b, g.pixel)) {
        if (two) slow_.push_back(i);
        continue;
      }
      if ((width >= 1 && width <= 2) != two) continue;
      const long double c = (long double)b.cos * g.pixel, s = (long double)b.sin * g.pixel;
      const long double at = (p.left() + p.box.left) * c + (p.top() - p.box.top) * s + g.centre - 0.5L + width / 2;
      const double top = b.most * g.pixel;
      const T most = T(top * one<T>), rest = T((width - 1) * one<T>);
      // What a pixel hands to all rays is right whatever was rounded: errors that all pixels of an angle have in common
      // spoil conjugate gradients long before others of their size.
      const double rounded = double(most) * (one<T> + double(rest) - double(most)) / (one<T> * one<T>);
      shadows_.push_back({i, fixed(at), fixed(c), fixed(-s), most, rest,
                          std::ldexp(b.slope * top * (width - top) / rounded, -half_bits<T>)});
    }
    if (two) two_ = shadows_.size();
  }
  for (const Shadow& s : shadows_)
    for (Local i = 0; i < L; ++i) offset_.push_back(position<T>(s.by_x * (s.by_x < 0 ? i - (L - 1) : i)));
  flops_ = double(p.box.width()) * p.box.height() *
           (12.0 * double(two_) + 20.0 * double(shadows_.size() - two_) + 40.0 * double(slow_.size()));
}

// The sinogram, angle by angle, with zeros around and where the part has no ray: fast angles, then slow ones.
template <class T>
template <int K>
void Backward<T>::fill(const T* x, int stride, T* planes, bool parallel, const comm::Communicator* comm) const {
  const auto& p = *part_;
  const Local detectors = p.geometry.detectors;
  deal(shadows_.size() + slow_.size(), parallel, comm, [&](std::size_t n) {
    const bool fast = n < shadows_.size();
    const Local angle = fast ? shadows_[n].angle : slow_[n - shadows_.size()];
    const double scale = fast ? shadows_[n].scale : 1;
    const Local* const at = p.ray_at.data() + std::size_t(angle) * std::size_t(detectors);
    T* const row = planes + n * K * length_ + pad;
    for (Local j = 0; j < detectors; ++j)
      for (int c = 0; c < K; ++c)
        row[std::size_t(c) * length_ + std::size_t(j)] =
            at[j] < 0 ? T(0) : T(scale * double(x[std::size_t(at[j]) * std::size_t(stride) + std::size_t(c)]));
  });
}

template <class T>
template <int K, bool Two, int R>
void Backward<T>::add(std::size_t begin, std::size_t end, const T* planes, Local left, Local top,
                      V (&sum)[R][K]) const {
  constexpr int candidates = Two ? 2 : 3;
  const std::int64_t beyond = part_->geometry.detectors + 16;
  for (std::size_t n = begin; n < end; ++n) {
    const Shadow& s = shadows_[n];
    const T* const row = planes + n * K * length_ + pad - (candidates - 1);
    typename Lanes<T>::Bits fraction_at[R];
    const T* window[R];
    Fixed f = s.at + s.by_x * (left + (s.by_x < 0 ? L - 1 : 0)) + s.by_y * top;
    for (int r = 0; r < R; ++r, f += s.by_y) {
      fraction_at[r] = fraction_bits<T>(f);
      window[r] = row + std::clamp<std::int64_t>(whole(f), -48, beyond);
    }
    const U offset = loaded<U>(offset_.data() + n * L);
    const V most_at = V{} + s.most, rest = V{} + s.rest, zero = {};
    if constexpr (Two) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const U u = turned<T>(offset + fraction_at[r]), next = u + 1;
        const V e = fraction<T>(u);
        // What is small is not to be a difference of what is not: the shadow's end is at rest + (1 - e).
        const V last = least<T>(least<T>(e, most_at), rest + fraction<T>(~u)),
                before = most<T>(least<T>(rest - e, most_at), zero);
        for (int c = 0; c < K; ++c) {
          const T* const from = window[r] + std::size_t(c) * length_;
          sum[r][c] += last * picked<T>(next, from);
          sum[r][c] += before * picked<T>(u, from);
        }
      }
    } else {
      const V step = V{} + T(one<T>);
      for (int r = 0; r < R; ++r) {
        U u = turned<T>(offset + fraction_at[r]);
        const V e = fraction<T>(u), left_over = fraction<T>(~u);
        for (int k = candidates - 1; k >= 0; --k, u += 1) {
          const V away = T(k) * step;
          const V v = most<T>(least<T>(least<T>(e + away, most_at), (rest - away) + left_over), zero);
          for (int c = 0; c < K; ++c) sum[r][c] += v * picked<T>(u, window[r] + std::size_t(c) * length_);
        }
      }
    }
  }
}

// As each_ray of the stored one, lane by lane.
template <class T>
template <int K, int R>
void Backward<T>::add_slowly(const T* planes, Local left, Local top, Sums<T> (&total)[R][K]) const {
  const auto& p = *part_;
  const auto& g = p.geometry;
  for (int r = 0; r < R; ++r) {
    const double py = p.top() - (p.box.top + top + r), first = p.left() + p.box.left + left;
    for (std::size_t n = 0; n < slow_.size(); ++n) {
      const Beam b = p.beams[std::size_t(slow_[n])];
      const T* const row = planes + (shadows_.size() + n) * K * length_ + pad;
      const double reach = b.half * g.pixel + 1e-6, shift = g.centre - 0.5, bins = double(g.detectors);
      const int candidates = int(std::min(bins, std::floor(2 * reach) + 1));
      double low[L], high[L];
#pragma omp simd
      for (Local i = 0; i < L; ++i) {
        const double middle = (first + i) * (b.cos * g.pixel) + py * (b.sin * g.pixel) + shift;
        low[i] = std::min(std::max(std::ceil(middle - reach), 0.0), bins);
        high[i] = std::max(std::min(std::floor(middle + reach), bins - 1), -1.0);
      }
      for (int k = 0; k < candidates; ++k) {
        double part[L];
        Local place[L];
#pragma omp simd
        for (Local i = 0; i < L; ++i) {
          place[i] = Local(std::min(low[i] + k, bins - 1));
          const double d = b.distance(first + i, py, p.bin[std::size_t(place[i])]);
          const double inside =
              b.along ? (d >= -0.5 && d < 0.5 ? 1.0 : 0.0) : std::min(b.half - std::abs(d), b.most) * b.slope;
          part[i] = low[i] + k <= high[i] && inside > shortest ? inside * g.pixel : 0.0;
        }
        for (int c = 0; c < K; ++c)
#pragma omp simd
          for (Local i = 0; i < L; ++i)
            total[r][c].of[i] += part[i] * double(row[std::size_t(c) * length_ + std::size_t(place[i])]);
      }
    }
  }
}

template <class T>
template <int K>
void Backward<T>::block(Local left, Local top, const T* planes, T* y, int stride, const op::Clamp<T>* clamp) const {
  constexpr int R = 16 / K;
  const Local w = part_->box.width(), columns = std::min(L, w - left);
  const Local rows = std::min<Local>(R, part_->box.height() - top);
  const Local* const at = part_->pixel_at.data() + std::size_t(top) * std::size_t(w) + left;
  bool any = false;
  for (Local r = 0; r < rows; ++r)
    for (Local i = 0; i < columns; ++i) any = any || at[std::size_t(r) * std::size_t(w) + std::size_t(i)] >= 0;
  if (!any) return;
  Sums<T> total[R][K];
  const double small = std::ldexp(1.0, -half_bits<T>);
  for (std::size_t n = 0; n < shadows_.size();) {
    const std::size_t end = std::min({n + few, n < two_ ? two_ : shadows_.size(), shadows_.size()});
    V sum[R][K] = {};
    if (n < two_) add<K, true, R>(n, end, planes, left, top, sum);
    else add<K, false, R>(n, end, planes, left, top, sum);
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < K; ++c) total[r][c].add(sum[r][c], small);
    n = end;
  }
  if (!slow_.empty()) add_slowly<K, R>(planes, left, top, total);
  for (Local r = 0; r < rows; ++r)
    for (Local i = 0; i < columns; ++i) {
      const Local to = at[std::size_t(r) * std::size_t(w) + std::size_t(i)];
      for (int c = 0; to >= 0 && c < K; ++c)
        y[std::size_t(to) * std::size_t(stride) + std::size_t(c)] = clamped(T(total[r][c].of[i]), clamp);
    }
}

template <class T>
void Backward<T>::multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                           const op::Clamp<T>* clamp) const {
  const bool parallel = part_->entries * Global(k) > 20000;
  this->traced(k, [&] {
    by_columns(k, [&](auto columns, int c) {
      constexpr int K = columns;
      constexpr Local R = 16 / K;
      auto planes = pool_.take(K, (shadows_.size() + slow_.size()) * K * length_);
      fill<K>(x + c, x_stride, planes->data(), parallel, comm);
      const auto wide = std::size_t((part_->box.width() + L - 1) / L),
                 high = std::size_t((part_->box.height() + R - 1) / R);
      deal(wide * high, parallel, comm, [&](std::size_t i) {
        block<K>(Local(i % wide) * L, Local(i / wide) * R, planes->data(), y + c, y_stride, clamp);
      });
      pool_.give(K, std::move(planes));
    });
  });
}

}  // namespace

template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_forward(std::shared_ptr<const Part> part) {
  return std::make_unique<Forward<T>>(std::move(part));
}
template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_backward(std::shared_ptr<const Part> part) {
  return std::make_unique<Backward<T>>(std::move(part));
}

template <class T>
bool computes_fast(double pixel, const std::vector<Beam>& beams) {
  std::size_t slow = 0;
  for (const Beam& b : beams) slow += (fast_forward<T>(b, pixel) ? 0u : 1u) + (fast_backward<T>(b, pixel) ? 0u : 1u);
  return slow <= beams.size() / 8 + 4;
}

template std::unique_ptr<op::LocalProduct<float>> computed_forward(std::shared_ptr<const Part>);
template std::unique_ptr<op::LocalProduct<double>> computed_forward(std::shared_ptr<const Part>);
template std::unique_ptr<op::LocalProduct<float>> computed_backward(std::shared_ptr<const Part>);
template std::unique_ptr<op::LocalProduct<double>> computed_backward(std::shared_ptr<const Part>);
template bool computes_fast<float>(double, const std::vector<Beam>&);
template bool computes_fast<double>(double, const std::vector<Beam>&);

}  // namespace tacit::app::tomography
