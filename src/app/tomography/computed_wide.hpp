// Products of a computed projector with many columns at once: lanes are columns. The image is cut into tiles. Lengths
// within a tile are computed 16 at a time: of a ray in the rows of the tile for A, of the rays of 16 angles in a pixel
// for A^T. In float by fixed-point positions, as with few columns, but for steep angles and the like; those, and all in
// double, by the expression of the stored matrix. Those that are not zero then multiply rows of columns,
// which stay in the nearest cache as neighbouring rays and angles, or pixels, follow each other. Every sum has the same
// terms in the same order for any number of threads.
#pragma once

#include <tacit/exec/memory.hpp>
#include <tacit/exec/parallel.hpp>

#include "computed_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace tacit::app::tomography {

namespace wide {

constexpr int lanes = 16;                // lengths that are computed at once
constexpr Local side = 32;               // of a tile, in pixels
constexpr Local row_of_tile = side + 2;  // with a margin
constexpr int angles_at_once = lanes;

/// The bins whose rays may meet the pixels of a box at an angle, [first, last).
inline std::pair<Local, Local> bins_of(const Part& p, const Beam& b, const Box& box) {
  const double across = 0.5 * (box.width() * std::abs(b.cos) + box.height() * std::abs(b.sin));
  const double middle =
      (p.left() + 0.5 * (box.left + box.right - 1)) * b.cos + (p.top() - 0.5 * (box.top + box.bottom - 1)) * b.sin;
  const double bins = double(p.geometry.detectors), pixel = p.geometry.pixel, at = p.geometry.centre - 0.5;
  const double first = std::ceil((middle - across) * pixel + at - 1e-6),
               last = std::floor((middle + across) * pixel + at + 1e-6);
  return {Local(std::clamp(first, 0.0, bins)), Local(std::clamp(last + 1, 0.0, bins))};
}

/// The part's columns of a row of a tile; -1 where it has none.
inline const Local* pixels_of(const Part& p, const Box& tile, Local row) {
  return p.pixel_at.data() + std::size_t(row - p.box.top) * std::size_t(p.box.width()) +
         std::size_t(tile.left - p.box.left);
}
inline bool has_pixels(const Part& p, const Box& tile) {
  for (Local row = tile.top; row < tile.bottom; ++row)
    for (Local i = 0; i < tile.width(); ++i)
      if (pixels_of(p, tile, row)[i] >= 0) return true;
  return false;
}
/// The tiles of the part's box that have pixels, in coordinates of the image.
inline std::vector<Box> tiles(const Part& p) {
  std::vector<Box> all;
  for (Local top = p.box.top; top < p.box.bottom; top += side)
    for (Local left = p.box.left; left < p.box.right; left += side) {
      const Box tile{left, std::min(left + side, p.box.right), top, std::min(top + side, p.box.bottom)};
      if (has_pixels(p, tile)) all.push_back(tile);
    }
  return all;
}

/// Work space of a thread, whose contents are not kept: at the beginning of a cache line, as rows of columns are.
template <class T>
T* space(exec::Array<T, Host>& kept, std::size_t n) {
  if (kept.size() < n) kept = exec::Array<T, Host>::uninitialised(n);
  return kept.data();
}

/// The length of the ray at r in the pixel whose centre is (x, y), in bins.
template <bool along>
[[gnu::always_inline]] inline double length(const Beam& b, double x, double y, double r, double pixel) {
  const double d = b.distance(x, y, r);
  if constexpr (along) {
    return d >= -0.5 && d < 0.5 ? pixel : 0.0;
  } else {
    const double inside = std::min(b.half - std::abs(d), b.most) * b.slope, scaled = inside * pixel;
    return inside > shortest ? scaled : 0.0;
  }
}

/// Lengths that are not zero, and what they multiply: rows of columns, from at[i] on.
template <class T>
class Entries {
 public:
  explicit Entries(std::size_t most) : at_(most + lanes), length_(most + lanes) {}
  void clear() { count_ = 0; }
  void add(const T (&length)[lanes], const std::int32_t (&at)[lanes]) {
    std::int32_t* const to_at = at_.data() + count_;
    T* const to = length_.data() + count_;
#ifdef __AVX512F__
    const __m512i places = _mm512_loadu_si512(at);
    if constexpr (sizeof(T) == 4) {
      const __m512 l = _mm512_loadu_ps(length);
      const __mmask16 some = _mm512_cmp_ps_mask(l, _mm512_setzero_ps(), _CMP_NEQ_UQ);
      _mm512_storeu_ps(to, _mm512_maskz_compress_ps(some, l));
      _mm512_storeu_si512(to_at, _mm512_maskz_compress_epi32(some, places));
      count_ += __builtin_popcount(some);
    } else {
      const __m512d low = _mm512_loadu_pd(length), high = _mm512_loadu_pd(length + 8);
      const unsigned first = _mm512_cmp_pd_mask(low, _mm512_setzero_pd(), _CMP_NEQ_UQ);
      const unsigned second = _mm512_cmp_pd_mask(high, _mm512_setzero_pd(), _CMP_NEQ_UQ);
      _mm512_storeu_pd(to, _mm512_maskz_compress_pd(__mmask8(first), low));
      _mm512_storeu_pd(to + __builtin_popcount(first), _mm512_maskz_compress_pd(__mmask8(second), high));
      _mm512_storeu_si512(to_at, _mm512_maskz_compress_epi32(__mmask16(first | second << 8), places));
      count_ += __builtin_popcount(first) + __builtin_popcount(second);
    }
#else
    int n = 0;
    for (int i = 0; i < lanes; ++i) to_at[n] = at[i], to[n] = length[i], n += length[i] != 0;
    count_ += n;
#endif
  }
  /// sum[c] += the sum of length x[at + c] over all entries, for m columns.
  template <int m>
  [[gnu::always_inline]] void add_to(const T* x, T* sum) const {
    using Sum = Registers<T, m>;
    constexpr int together = std::max(2, 4 / Sum::parts);  // sums wait for the addition before
    Sum some[together];
    const auto add = [&](int i, Sum& to) __attribute__((always_inline)) {
      const T* const from = x + at_[std::size_t(i)];
      const T length = length_[std::size_t(i)];
#pragma GCC unroll 8
      for (int p = 0; p < Sum::parts; ++p) to.part[p] = mul_add(length, Sum::load(from, p), to.part[p]);
    };
    int i = 0;
    for (; i + together <= count_; i += together)
#pragma GCC unroll 4
      for (int k = 0; k < together; ++k) add(i + k, some[k]);
    for (; i < count_; ++i) add(i, some[0]);
#pragma GCC unroll 4
    for (int k = 1; k < together; ++k) some[0] += some[k];
    (Sum::load(sum) + some[0]).store(sum);
  }

 private:
  std::vector<std::int32_t> at_;
  std::vector<T> length_;
  int count_ = 0;
};

/// The pixels of a tile that a ray at r meets: one or two in each row (column, where the angle is not steep). `across`:
/// between rows of the tile, which has a margin of one pixel; `along`: between pixels.
template <bool steep, bool parallel, class T>
void cross(const Part& p, const Beam& beam, const Box& tile, double r, std::int32_t across, std::int32_t along,
           Entries<T>& entries) {
  const Beam b = beam;
  const double main = steep ? b.cos : b.sin, other = steep ? b.sin : b.cos, inverse = 1 / main;
  const double left = p.left() + tile.left, top = p.top() - tile.top, reach = b.half / std::abs(main);
  const double pixel = p.geometry.pixel, most = double(steep ? tile.width() : tile.height()) - 1;
  const int lines = steep ? tile.height() : tile.width();
  const auto middle = [=](double l) __attribute__((always_inline)) {
    const double cross = (r - (steep ? top - l : left + l) * other) * inverse;
    return steep ? cross - left : top - cross;
  };
  const std::int32_t by_line = steep ? across : along, by_place = steep ? along : across;
  entries.clear();
  for (int begin = 0; begin < lines; begin += lanes) {
    // Between the first and the last of these lines the ray moves monotonously.
    const double one = middle(begin), two = middle(begin + lanes - 1);
    if (std::max(one, two) + reach < 0 || std::min(one, two) - reach > most) continue;
    T first[lanes], next[lanes];
    std::int32_t at[lanes], at_next[lanes];
#pragma omp simd
    for (int i = 0; i < lanes; ++i) {
      const double l = begin + i, m = std::min(std::max(std::ceil(middle(l) - reach), -1.0), most);
      const double x = steep ? left + m : left + l, y = steep ? top - l : top - m;
      first[i] = T(length<parallel>(b, x, y, r, pixel));
      next[i] = T(length<parallel>(b, steep ? x + 1 : x, steep ? y : y - 1, r, pixel));
      at[i] = (begin + i + 1) * by_line + (std::int32_t(m) + 1) * by_place;
      at_next[i] = at[i] + by_place;
    }
    for (int i = lines - begin; i < lanes; ++i) first[i] = next[i] = 0;
    entries.add(first, at), entries.add(next, at_next);
  }
}
template <class T>
void cross(const Part& p, const Beam& b, const Box& tile, double r, std::int32_t across, std::int32_t along,
           Entries<T>& entries) {
  if (b.steep() && b.along) cross<true, true>(p, b, tile, r, across, along, entries);
  else if (b.steep()) cross<true, false>(p, b, tile, r, across, along, entries);
  else if (b.along) cross<false, true>(p, b, tile, r, across, along, entries);
  else cross<false, false>(p, b, tile, r, across, along, entries);
}

constexpr int place_bits = 25;  // of the fraction of a position within a tile, an integer of 32 bits
inline std::int32_t place(Fixed f) {
  return std::int32_t(f >> (64 - place_bits));
}

/// Whether errors of positions are not multiplied by more than 32: closer to an axis lengths are computed in double.
inline bool far_from_axes(const Beam& b) {
  return 32 * b.most >= std::max(std::abs(b.cos), std::abs(b.sin));
}

/// The lines of an angle within a tile.
struct Places {
  bool fast = false;
  Fixed at, by_row, by_ray;
  float most, part, whole;
  double reach;
  std::uint32_t by_line[lanes];  // from one line to others
  explicit Places(const Part& p, std::size_t angle) {
    if (!far_from_axes(p.beams[angle]) || !fast_forward<float>(p.beams[angle], p.geometry.pixel)) return;
    const Line<float> line = line_of<float>(p, Local(angle));
    fast = true, at = line.at, by_row = line.by_row, by_ray = line.by_ray, reach = line.reach;
    const double unit = std::ldexp(1.0, place_bits) / one<float>;
    most = float(line.most * unit), whole = float(std::ldexp(line.whole, -half_bits<float>));
    part = float(std::ldexp(line.part, -half_bits<float>) / unit);
    for (int i = 0; i < lanes; ++i) by_line[i] = std::uint32_t(place(by_row * i));
  }
};
/// As cross(), for an angle with a fast kernel.
inline void cross(const Part& p, const Places& line, bool steep, const Box& tile, Local bin, std::int32_t across,
                  std::int32_t along, Entries<float>& entries) {
  const Local from = steep ? tile.top - p.box.top : tile.left - p.box.left;  // of the box
  const Local before = steep ? tile.left - p.box.left : tile.top - p.box.top;
  const int lines = steep ? tile.height() : tile.width(), places = steep ? tile.width() : tile.height();
  const std::int32_t by_line = steep ? across : along, by_place = steep ? along : across;
  entries.clear();
  if (std::abs(p.bin[std::size_t(bin)]) >= line.reach) return;
  Fixed f = line.at + line.by_row * from + line.by_ray * bin - (Fixed(before) << 64);
  for (int begin = 0; begin < lines; begin += lanes, f += line.by_row * lanes) {
    const std::int64_t one = whole(f), two = whole(f + line.by_row * (lanes - 1));
    if (std::max(one, two) < 0 || std::min(one, two) > places) continue;
    const auto start = std::uint32_t(place(f));
    float first[lanes], next[lanes];
    std::int32_t at[lanes], at_next[lanes];
    const float most = line.most, part = line.part, length = line.whole;
    const std::uint32_t* const step = line.by_line;
    const std::int32_t base = (begin + 1) * by_line;
#pragma omp simd
    for (int i = 0; i < lanes; ++i) {
      const auto position = std::int32_t(start + step[i]);
      const std::int32_t pixel = position >> place_bits;
      const auto fraction = float(position & ((1 << place_bits) - 1));
      const float share = std::min(fraction, most) * part, left = length - share;
      next[i] = (pixel >= 0) & (pixel < places) ? share : 0.0F;
      first[i] = (pixel > 0) & (pixel <= places) ? left : 0.0F;
      at[i] = base + i * by_line + pixel * by_place;
      at_next[i] = base + i * by_line + pixel * by_place + by_place;
    }
    for (int i = lines - begin; i < lanes; ++i) first[i] = next[i] = 0;
    entries.add(first, at), entries.add(next, at_next);
  }
}

/// x of a tile, with a margin of zeros.
template <int m, class T>
void cut_out(const Part& p, const Box& tile, const T* x, int stride, T* image) {
  std::fill_n(image, std::size_t(row_of_tile) * row_of_tile * m, T(0));
  for (Local row = tile.top; row < tile.bottom; ++row) {
    const Local* const at = pixels_of(p, tile, row);
    T* const to = image + std::ptrdiff_t(row - tile.top + 1) * row_of_tile * m + m;
    for (Local i = 0; i < tile.width(); ++i)
      if (at[i] >= 0) std::copy_n(x + std::ptrdiff_t(at[i]) * stride, m, to + std::ptrdiff_t(i) * m);
  }
}

/// The constants of some angles, and where their rays that may meet a tile lie in `rays`.
template <class T>
struct Angles {
  double cos[lanes], sin[lanes], half[lanes], most[lanes], slope[lanes], reach[lanes], along[lanes];
  double first[lanes];        // ray of a tile
  std::int32_t start[lanes];  // its row
  std::int32_t rows[lanes];   // rays of a tile
  int count = 0, candidates = 0;
  exec::Array<T, Host> rays;
  // Of angles with a fast kernel: positions of the ends of shadows, from `margin` rays before the first one.
  static constexpr int margin = 4;
  bool slow = false, fast = false;
  int fast_candidates = 0;
  std::uint32_t at[lanes], by_x[side][lanes], by_y[side][lanes];
  float top[lanes], rest[lanes], scale[lanes];

  /// From the angle `begin` on; those that there are not have no ray.
  template <int m>
  void gather(const Part& p, std::size_t begin, const Box& tile, const T* x, int stride) {
    const auto detectors = std::size_t(p.geometry.detectors);
    count = int(std::min(p.beams.size() - begin, std::size_t(lanes))), candidates = 0;
    slow = fast = false, fast_candidates = 0;
    std::size_t row = 0;
    for (int i = 0; i < lanes; ++i) {
      const Beam& b = p.beams[begin + std::size_t(std::min(i, count - 1))];
      cos[i] = b.cos, sin[i] = b.sin, half[i] = b.half, most[i] = b.most, slope[i] = b.along ? 0 : b.slope;
      along[i] = b.along ? 1 : 0;  // the length where the ray is near; there is no slope
      reach[i] = b.half * p.geometry.pixel + 1e-6;
      const auto [low, high] = bins_of(p, b, tile);
      first[i] = low, start[i] = std::int32_t(row * m), rows[i] = i < count ? high - low : 0;
      const bool is_fast = sizeof(T) == 4 && far_from_axes(b) && fast_backward<float>(b, p.geometry.pixel);
      if (is_fast) follow(p, int(begin) + std::min(i, count - 1), i, tile, low), slope[i] = along[i] = 0, fast = true;
      else top[i] = 0, candidates = std::max(candidates, int(std::floor(2 * reach[i]) + 1)), slow = true;
      row += std::size_t(rows[i]);
    }
    T* to = space(rays, row * m);
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < rows[i]; ++j, to += m) {
        const Local at = p.ray_at[(begin + std::size_t(i)) * detectors + std::size_t(first[i]) + std::size_t(j)];
        if (at < 0) std::fill_n(to, m, T(0));
        else std::copy_n(x + std::ptrdiff_t(at) * stride, m, to);
      }
  }
  void follow(const Part& p, int angle, int i, const Box& tile, Local low) {
    const Shadow<float> s = shadow_of<float>(p, angle);
    const double unit = std::ldexp(1.0, place_bits) / one<float>;
    top[i] = float(s.most * unit), rest[i] = float(s.rest * unit);
    scale[i] = float(std::ldexp(s.scale, half_bits<float>) / (unit * one<float>));
    fast_candidates = std::max(fast_candidates, s.rest <= one<float> ? 2 : 3);
    at[i] = std::uint32_t(place(s.at + s.by_x * (tile.left - p.box.left) + s.by_y * (tile.top - p.box.top) -
                                (Fixed(low - margin) << 64)));
    for (int l = 0; l < side; ++l)
      by_x[l][i] = std::uint32_t(place(s.by_x * l)), by_y[l][i] = std::uint32_t(place(s.by_y * l));
  }
  /// The rays of angles with a fast kernel that meet the pixel (left, top) of the tile.
  template <int m>
  void follow(int left, int from, Entries<float>& entries) const {
    constexpr float one = float(1 << place_bits);
    float fraction[lanes];
    std::int32_t ray[lanes];
#pragma omp simd
    for (int i = 0; i < lanes; ++i) {
      const std::uint32_t position = at[i] + by_x[left][i] + by_y[from][i];
      ray[i] = std::int32_t(position >> place_bits) - margin;
      fraction[i] = float(std::int32_t(position & ((1U << place_bits) - 1)));
    }
    for (int k = 0; k < fast_candidates; ++k) {
      float found[lanes];
      std::int32_t to[lanes];
      const float away = float(k) * one;
#pragma omp simd
      for (int i = 0; i < lanes; ++i) {
        const float e = fraction[i], end = std::min(e + away, top[i]), begin = (rest[i] - away) + (one - e);
        const float length = std::min(end, begin) * scale[i];
        const std::int32_t j = ray[i] - k;
        found[i] = (length > 0) & (j >= 0) & (j < rows[i]) ? length : 0.0F;
        to[i] = start[i] + m * j;
      }
      entries.add(found, to);
    }
  }
  /// The rays that meet the pixel whose centre is (px, py), of all these angles.
  template <int m>
  void meet(const Part& p, double px, double py, Entries<T>& entries) const {
    const double pixel = p.geometry.pixel, shift = p.geometry.centre - 0.5, last = double(p.geometry.detectors) - 1;
    const double* const bin = p.bin.data();
    double low[lanes], high[lanes];
#pragma omp simd
    for (int i = 0; i < lanes; ++i) {
      const double middle = px * (cos[i] * pixel) + py * (sin[i] * pixel) + shift;
      low[i] = std::min(std::max(std::ceil(middle - reach[i]), 0.0), last);
      high[i] = std::min(std::floor(middle + reach[i]), last);
    }
    for (int k = 0; k < candidates; ++k) {
      T found[lanes];
      std::int32_t to[lanes];
#pragma omp simd
      for (int i = 0; i < lanes; ++i) {
        const double j = low[i] + k, r = bin[std::int32_t(std::min(j, last))];
        const double d = std::fma(px, cos[i], std::fma(py, sin[i], -r));
        const bool near = (d >= -0.5) & (d < 0.5);
        const double inside = std::min(half[i] - std::abs(d), most[i]) * slope[i] + (near ? along[i] : 0.0);
        const double scaled = inside * pixel;
        found[i] = T(bool((j <= high[i]) & (inside > shortest)) ? scaled : 0.0);
        to[i] = start[i] + m * std::int32_t(j - first[i]);
      }
      for (int i = count; i < lanes; ++i) found[i] = 0;
      entries.add(found, to);
    }
  }
};

}  // namespace wide

namespace wide {

/// The rays of the angles [begin, end) and their sums, [angle][bin][column].
template <int m, class T>
class RaySums {
 public:
  RaySums(const Part& p, std::size_t begin, std::size_t end) : p_(p), begin_(begin) {
    for (std::size_t a = begin; a < end; ++a) lines_.emplace_back(p, a);
    static thread_local exec::Array<T, Host> kept;
    sums_ = space(kept, lines_.size() * detectors() * m);
    std::fill_n(sums_, lines_.size() * detectors() * m, T(0));
  }
  /// Adds what a tile contributes to some of the angles, first .. first + angles_at_once - 1.
  void add(const Box& tile, std::size_t first, const T* image) {
    static thread_local Entries<T> entries(4 * side);
    constexpr Local bundle = m > 2 * Lanes<T>::count ? 4 : 8;  // neighbouring rays, whose pixels stay in cache
    const std::size_t last = std::min(first + angles_at_once, lines_.size());
    std::pair<Local, Local> bins[angles_at_once];
    Local longest = 0;
    for (std::size_t a = first; a < last; ++a) {
      const auto [low, high] = bins[a - first] = bins_of(p_, p_.beams[begin_ + a], tile);
      longest = std::max(longest, high - low);
    }
    for (Local from = 0; from < longest; from += bundle)
      for (std::size_t a = first; a < last; ++a) {
        const auto [low, high] = bins[a - first];
        for (Local j = low + from; j < std::min(low + from + bundle, high); ++j) {
          if (ray(a, j) < 0) continue;
          cross(a, tile, j, entries);
          entries.template add_to<m>(image, sums_ + (a * detectors() + std::size_t(j)) * m);
        }
      }
  }
  void write(T* y, int stride, const op::Clamp<T>* clamp) const {
    const T* from = sums_;
    for (std::size_t a = 0; a < lines_.size(); ++a)
      for (std::size_t j = 0; j < detectors(); ++j, from += m) {
        const Local at = ray(a, Local(j));
        for (int c = 0; at >= 0 && c < m; ++c) y[std::ptrdiff_t(at) * stride + c] = clamped(from[c], clamp);
      }
  }

 private:
  std::size_t detectors() const { return std::size_t(p_.geometry.detectors); }
  Local ray(std::size_t a, Local j) const { return p_.ray_at[(begin_ + a) * detectors() + std::size_t(j)]; }
  void cross(std::size_t a, const Box& tile, Local j, Entries<T>& entries) const {
    const Beam& b = p_.beams[begin_ + a];
    if constexpr (sizeof(T) == 4)
      if (lines_[a].fast) return wide::cross(p_, lines_[a], b.steep(), tile, j, row_of_tile * m, m, entries);
    wide::cross(p_, b, tile, p_.bin[std::size_t(j)], row_of_tile * m, m, entries);
  }
  const Part& p_;
  std::size_t begin_;
  std::vector<Places> lines_;
  T* sums_;
};

}  // namespace wide

/// y = A x for m columns of the part: the rays of some angles by each task, tile after tile.
template <int m, class T>
void forward_wide(const Part& p, const T* x, int x_stride, T* y, int y_stride, bool parallel,
                  const comm::Communicator* comm, const op::Clamp<T>* clamp) {
  using namespace wide;
  // A tile is cut out once for the angles of a task, of which each thread should have several.
  const std::size_t angles = p.beams.size(), threads = parallel ? std::size_t(exec::threads_now()) : 1;
  const std::size_t groups = std::clamp<std::size_t>(angles / (4 * threads * angles_at_once), 1, 4);
  const std::size_t together = groups * angles_at_once;
  const std::vector<Box> all = tiles(p);
  deal((angles + together - 1) / together, parallel, comm, [&](std::size_t task) {
    static thread_local exec::Array<T, Host> kept;
    T* const image = space(kept, std::size_t(row_of_tile) * row_of_tile * m);
    const std::size_t begin = task * together, end = std::min(angles, begin + together);
    RaySums<m, T> rays(p, begin, end);
    for (const Box& tile : all) {
      cut_out<m>(p, tile, x, x_stride, image);
      for (std::size_t first = 0; first < end - begin; first += angles_at_once) rays.add(tile, first, image);
    }
    rays.write(y, y_stride, clamp);
  });
}

/// y = A^T x for m columns of the part: the pixels of a tile by each task, a few angles at a time.
template <int m, class T>
void backward_wide(const Part& p, const T* x, int x_stride, T* y, int y_stride, bool parallel,
                   const comm::Communicator* comm, const op::Clamp<T>* clamp) {
  using namespace wide;
  constexpr Local block = 8;  // pixels on a side, whose rays stay in cache
  const std::vector<Box> all = tiles(p);
  std::size_t most = 0;
  for (const Beam& b : p.beams) most = std::max(most, std::size_t(2 * (b.half * p.geometry.pixel + 1e-6)) + 1);
  deal(all.size(), parallel, comm, [&](std::size_t t) {
    static thread_local exec::Array<T, Host> kept_sums;
    static thread_local Angles<T> angles;
    const Box& tile = all[t];
    Entries<T> entries((most + 3) * lanes);
    T* const sums = space(kept_sums, std::size_t(side) * side * m);
    std::fill_n(sums, std::size_t(side) * side * m, T(0));
    for (std::size_t begin = 0; begin < p.beams.size(); begin += angles_at_once) {
      angles.template gather<m>(p, begin, tile, x, x_stride);
      for (Local top = tile.top; top < tile.bottom; top += block)
        for (Local left = tile.left; left < tile.right; left += block)
          for (Local row = top; row < std::min(top + block, tile.bottom); ++row)
            for (Local i = left; i < std::min(left + block, tile.right); ++i) {
              if (pixels_of(p, tile, row)[i - tile.left] < 0) continue;
              entries.clear();
              if constexpr (sizeof(T) == 4)
                if (angles.fast) angles.template follow<m>(i - tile.left, row - tile.top, entries);
              if (angles.slow) angles.template meet<m>(p, p.left() + i, p.top() - row, entries);
              entries.template add_to<m>(angles.rays.data(),
                                         sums + (std::ptrdiff_t(row - tile.top) * side + (i - tile.left)) * m);
            }
    }
    for (Local row = tile.top; row < tile.bottom; ++row) {
      const Local* const at = pixels_of(p, tile, row);
      for (Local i = 0; i < tile.width(); ++i) {
        const T* const from = sums + (std::ptrdiff_t(row - tile.top) * side + i) * m;
        for (int c = 0; at[i] >= 0 && c < m; ++c) y[std::ptrdiff_t(at[i]) * y_stride + c] = clamped(from[c], clamp);
      }
    }
  });
}

}  // namespace tacit::app::tomography
