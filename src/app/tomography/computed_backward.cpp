#include "computed_parts.hpp"
#include "computed_wide.hpp"

#include <algorithm>
#include <limits>

namespace tacit::app::tomography {
namespace {

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
  using Bits = typename Lanes<T>::Bits;
  using Shadow = tomography::Shadow<T>;
  static constexpr Local L = Lanes<T>::count;
  static constexpr std::size_t few = 16;  // angles whose contributions are added in T

  template <int K>
  void fill(const T* x, int stride, T* planes, bool parallel, const comm::Communicator* comm) const;
  template <int K, bool Two, int R>
  void add(std::size_t begin, std::size_t end, const T* planes, Local left, Local top, V (&sum)[R][K]) const;
  template <int K, int R>
  void add_slowly(const T* planes, Local left, Local top, Sums<T> (&total)[R][K]) const;
  template <int K>
  void block(Local left, Local top, const T* planes, T* y, int stride, const op::Clamp<T>* clamp) const;

  std::vector<Shadow> shadows_;  // first those of widths from one to two bins, which reach at most two rays
  std::size_t two_ = 0;          // the number of these
  std::vector<Bits> offset_;
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
      shadows_.push_back(shadow_of<T>(p, i));
    }
    if (two) two_ = shadows_.size();
  }
  for (const Shadow& s : shadows_)
    for (Local i = 0; i < L; ++i) offset_.push_back(position<T>(s.by_x * (s.by_x < 0 ? i - (L - 1) : i)));
  flops_ = double(p.box.width()) * p.box.height() *
           (12.0 * double(two_) + 20.0 * double(shadows_.size() - two_) + 40.0 * double(slow_.size()));
}

// Copies the sinogram angle by angle, those with fast kernels first, with zeros around and where the part has no ray.
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
    Bits fraction_at[R];
    const T* window[R];
    Fixed f = s.at + s.by_x * (left + (s.by_x < 0 ? L - 1 : 0)) + s.by_y * top;
    for (int r = 0; r < R; ++r, f += s.by_y) {
      fraction_at[r] = fraction_bits<T>(f);
      window[r] = row + std::clamp<std::int64_t>(whole(f), -48, beyond);
    }
    const U offset = U::load(offset_.data() + n * L);
    const V most_at = V{} + s.most, rest = V{} + s.rest, zero = {};
    if constexpr (Two) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const U u = turned<T>(offset + fraction_at[r]), next = u + Bits(1);
        const V e = fraction<T>(u);
        // Lengths near the shadow's ends are small: computed as rest + (1 - e), without cancellation.
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
        for (int k = candidates - 1; k >= 0; --k, u += Bits(1)) {
          const V away = T(k) * step;
          const V v = most<T>(least<T>(least<T>(e + away, most_at), (rest - away) + left_over), zero);
          for (int c = 0; c < K; ++c) sum[r][c] += v * picked<T>(u, window[r] + std::size_t(c) * length_);
        }
      }
    }
  }
}

// The slow kernel: Projector::each_ray for a row of pixels in lanes.
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
    by_columns<T>(k, [&](auto columns, int c) {
      constexpr int K = columns;
      if constexpr (K >= least_wide<T>)
        return backward_wide<K>(*this->part_, x + c, x_stride, y + c, y_stride, parallel, comm, clamp);
      else {
        constexpr Local R = 16 / K;
        auto planes = pool_.take(K, (shadows_.size() + slow_.size()) * K * length_);
        fill<K>(x + c, x_stride, planes->data(), parallel, comm);
        const auto wide = std::size_t((this->part_->box.width() + L - 1) / L),
                   high = std::size_t((this->part_->box.height() + R - 1) / R);
        deal(wide * high, parallel, comm, [&](std::size_t i) {
          block<K>(Local(i % wide) * L, Local(i / wide) * R, planes->data(), y + c, y_stride, clamp);
        });
        pool_.give(K, std::move(planes));
      }
    });
  });
}

}  // namespace

template <class T>
std::unique_ptr<op::LocalProduct<T>> computed_backward(std::shared_ptr<const Part> part) {
  return std::make_unique<Backward<T>>(std::move(part));
}
template std::unique_ptr<op::LocalProduct<float>> computed_backward(std::shared_ptr<const Part>);
template std::unique_ptr<op::LocalProduct<double>> computed_backward(std::shared_ptr<const Part>);

}  // namespace tacit::app::tomography
