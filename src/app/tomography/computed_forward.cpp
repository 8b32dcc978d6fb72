#include "computed_parts.hpp"
#include "computed_wide.hpp"

#include <algorithm>
#include <limits>

namespace tacit::app::tomography {
namespace {

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
  using Bits = typename Lanes<T>::Bits;
  using Line = tomography::Line<T>;
  static constexpr Local L = Lanes<T>::count;
  static constexpr Local together = 8;  // angles that are processed on the same rows of pixels
  static constexpr Local few = 16;      // rows whose contributions are added in T
  static constexpr Local crossed = 32;  // rows of pixels at a time, so that they stay in the nearest cache

  struct Unit {
    Local first, last, group;  // lines [first, last); rays group L to group L + L - 1
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
  std::vector<Bits> offset_;  // of the lanes of each line
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
    lines_.push_back(line_of<T>(p, i));
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
  // A lane at position p reads the pixels floor(p) - 1 and floor(p).
  const double least = std::min(a, b), most = std::max(a, b);
  double from = (-most - 0.01) / line.step, to = (columns + 1.01 - least) / line.step;
  if (line.step < 0) std::swap(from, to);
  return {Local(std::min(rows, std::max(0.0, std::floor(from)))),
          Local(std::min(rows, std::max(0.0, std::floor(to) + 1)))};
}

// Copies the image by rows and by columns of the box, with zeros around it and where the part has no pixel.
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
      Bits fraction_at[crossed];
      const T* window[crossed];
      Fixed f = start[n] + line.by_row * from;
      for (Local l = from; l < to; ++l, f += line.by_row) {
        fraction_at[l - from] = fraction_bits<T>(f);
        window[l - from] = image + std::ptrdiff_t(std::size_t(l) * K * length) + whole(f);
      }
      const U offset = U::load(offset_.data() + std::size_t(unit.first + n) * L);
      const V top = V{} + line.most;
      for (Local first = 0; first < to - from; first += few) {
        V all[K] = {}, some[K] = {};
        for (Local l = first; l < std::min(first + few, to - from); ++l) {
          const U u = turned<T>(offset + fraction_at[l]), next = u + Bits(1);
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
    for (Local i = 0; i < std::min(L, p.geometry.detectors - bin); ++i) {
      const bool misses = std::abs(p.bin[std::size_t(bin + i)]) >= line.reach;
      for (int c = 0; at[i] >= 0 && c < K; ++c)
        y[std::size_t(at[i]) * std::size_t(stride) + std::size_t(c)] =
            clamped(misses ? T(0) : T(sum[n][c].of[i]), clamp);
    }
  }
}

// The slow kernel: Projector::each_pixel for the lanes of a group.
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
        place[i] = Local(std::min(m, most) - least);  // at most the first zero beyond the box
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
    by_columns<T>(k, [&](auto columns, int c) {
      constexpr int K = columns;
      if constexpr (K >= least_wide<T>)
        return forward_wide<K>(*this->part_, x + c, x_stride, y + c, y_stride, parallel, comm, clamp);
      else {
        auto planes = pool_.take(K, plane_size<K>(true) + plane_size<K>(false));
        draw<K>(x + c, x_stride, planes->data(), parallel, comm);
        deal(units_.size() + slow_.size() * groups, parallel, comm, [&](std::size_t i) {
          const std::size_t slow = i - std::min(i, units_.size());
          if (i < units_.size()) add_up<K>(units_[i], planes->data(), y + c, y_stride, clamp);
          else add_up_slowly<K>(slow_[slow / groups], Local(slow % groups), planes->data(), y + c, y_stride, clamp);
        });
        pool_.give(K, std::move(planes));
      }
    });
  });
}

}  // namespace

template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_forward(std::shared_ptr<const Part> part) {
  return std::make_unique<Forward<T>>(std::move(part));
}

template <class T>
bool computes_fast(double pixel, const std::vector<Beam>& beams) {
  std::size_t slow = 0;
  for (const Beam& b : beams) slow += (fast_forward<T>(b, pixel) ? 0u : 1u) + (fast_backward<T>(b, pixel) ? 0u : 1u);
  return slow <= beams.size() / 4 + 1;
}

template std::unique_ptr<op::LocalProduct<float>> computed_forward(std::shared_ptr<const Part>);
template std::unique_ptr<op::LocalProduct<double>> computed_forward(std::shared_ptr<const Part>);
template bool computes_fast<float>(double, const std::vector<Beam>&);
template bool computes_fast<double>(double, const std::vector<Beam>&);

}  // namespace tacit::app::tomography
