#include "wide_level.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::precond::mg {

template <class S>
WideLevel<S>::WideLevel(std::shared_ptr<const op::FiniteVolume<S>> A, bool whole_sweeps)
    : Level<S>(std::move(A)), u_(margin().size()), next_(margin().size()) {
  f_.assign(std::size_t(a_->range().local_size()), S(0));
  inverse_ = a_->diagonal();
  for (S& d : inverse_) d = d != S(0) ? S(1) / d : S(1);
  if (a_->range().comm().size() > 1)
    exchange_ = std::make_unique<comm::Exchange>(a_->range().comm(), margin().pattern(), sizeof(S));
  std::size_t lines = 0;
  for (const auto& p : margin().patches()) lines += std::size_t(p.n[1] * p.n[2]);
  line_largest_.resize(lines), line_squares_.resize(lines);
  if (!whole_sweeps) return;
  const auto sums = a_->wide()->row_sums();
  double most = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) most = std::max(most, double(sums[i]) * std::abs(double(inverse_[i])));
  upper_ = a_->range().comm().all_max(most);
  if (!(upper_ > 0)) upper_ = 1;
  inverse_l1_.resize(sums.size()), step_.assign(sums.size(), S(0));
  for (std::size_t i = 0; i < sums.size(); ++i) inverse_l1_[i] = sums[i] != S(0) ? S(1) / sums[i] : S(1);
}

template <class S>
void WideLevel<S>::connect(Level<S>* coarse, std::array<std::vector<Local>, 3> parent, const Ways& ways) {
  this->coarse_ = coarse;
  this->make_maps(parent, ways, true, true, true, true);
}

template <class S>
void WideLevel<S>::load_f(std::span<const S> f) {
  std::copy(f.begin(), f.end(), f_.begin());
}

template <class S>
void WideLevel<S>::store_f(std::span<S> f) const {
  std::copy(f_.begin(), f_.end(), f.begin());
}

template <class S>
void WideLevel<S>::clear_u() {
  std::fill_n(u_.data(), u_.size(), S(0));
}

template <class S>
void WideLevel<S>::add_u(std::span<const S> u) {
  const S* from = u.data();
  for (const auto& p : margin().patches())
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j, from += p.n[0]) {
        S* const to = u_.data() + p.at(0, j, k);
        for (std::ptrdiff_t i = 0; i < p.n[0]; ++i) to[i] += from[i];
      }
}

template <class S>
void WideLevel<S>::fill() {
  const Timed timer(report.exchange);
  const Span span("ghosts", "multigrid");
  if (exchange_) margin().update(u_.data(), *exchange_), ++report.exchanges;
  else margin().place(static_cast<const S*>(nullptr), u_.data());
  a_->wide()->fill_ends(u_.data());
}

template <class S>
template <class F>
void WideLevel<S>::each_line(F&& f) {
  std::size_t first = 0;
  for (std::size_t q = 0; q < margin().patches().size(); ++q) {
    const auto& p = margin().patches()[q];
    const std::ptrdiff_t nx = p.n[0], ny = p.n[1], nz = p.n[2];
    // Planes, or lines where there is one plane only.
    const std::ptrdiff_t pieces = nz > 1 ? nz : ny;
    exec::each(std::size_t(pieces), nx * ny * nz > parallel_cells, [&](std::size_t piece) {
      static thread_local std::vector<S> product;
      if (product.size() < std::size_t(nx)) product.resize(std::size_t(nx));
      const std::ptrdiff_t k = nz > 1 ? std::ptrdiff_t(piece) : 0;
      const std::ptrdiff_t j0 = nz > 1 ? 0 : std::ptrdiff_t(piece), j1 = nz > 1 ? ny : j0 + 1;
      for (std::ptrdiff_t j = j0; j < j1; ++j) {
        a_->wide()->line(u_.data(), q, j, k, product.data());
        f(p, j, k, first + std::size_t(nx * (j + ny * k)), product.data());
      }
    });
    first += std::size_t(nx * ny * nz);
  }
  if (Trace::on()) {
    const auto cost = a_->cost();
    Trace::work("wide pass", cost.bytes + 3.0 * double(first * sizeof(S)), cost.flops);
  }
}

template <class S>
void WideLevel<S>::relax(int colour) {
  fill();
  const Timed timer(report.smooth);
  const Span span("half sweep", "multigrid");
  each_line([&](const op::Margin::Patch& p, std::ptrdiff_t j, std::ptrdiff_t k, std::size_t first, const S* product) {
    const S* const f = f_.data() + first;
    const S* const d = inverse_.data() + first;
    const S* const u = u_.data() + p.at(0, j, k);
    S* const to = next_.data() + p.at(0, j, k);
    const auto shift = std::ptrdiff_t((p.box.lower[0] + p.box.lower[1] + j + p.box.lower[2] + k + colour) & 1);
    const std::ptrdiff_t n = p.n[0];
#pragma GCC ivdep
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      const S changed = u[i] + d[i] * (f[i] - product[i]);
      to[i] = ((i + shift) & 1) ? u[i] : changed;
    }
  });
  std::swap(u_, next_);
}

template <class S>
void WideLevel<S>::norms() {
  fill();
  const Timed timer(report.residual);
  const Span span("norm", "multigrid");
  std::size_t lines_before = 0;
  std::vector<std::size_t> start;
  for (const auto& p : margin().patches()) start.push_back(lines_before), lines_before += std::size_t(p.n[1] * p.n[2]);
  each_line([&](const op::Margin::Patch& p, std::ptrdiff_t j, std::ptrdiff_t k, std::size_t first, const S* product) {
    const S* const f = f_.data() + first;
    S most = 0, sum = 0;
#pragma omp simd reduction(max : most) reduction(+ : sum)
    for (std::ptrdiff_t i = 0; i < p.n[0]; ++i) {
      const S r = std::abs(f[i] - product[i]);
      most = r > most ? r : most;
      sum += r * r;
    }
    if (!(sum <= std::numeric_limits<S>::max())) most = sum;  // NaN passes through no comparison
    const std::size_t at = start[std::size_t(&p - margin().patches().data())] + std::size_t(j + p.n[1] * k);
    line_largest_[at] = double(most), line_squares_[at] = double(sum);
  });
  double largest = 0, squares = 0;
  for (std::size_t i = 0; i < line_largest_.size(); ++i) {
    largest = std::isnan(line_largest_[i]) ? line_largest_[i] : std::max(largest, line_largest_[i]);
    squares += line_squares_[i];
  }
  this->largest = std::isnan(squares) ? squares : largest, this->squares = squares;
}

template <class S>
void WideLevel<S>::run(std::span<const Step> steps) {
  for (const Step& s : steps) {
    if (s.work == Work::relax) relax(s.colour), ++report.half_sweeps;
    if (s.work == Work::norm) norms();
  }
}

template <class S>
void WideLevel<S>::residual_to(std::span<S> r) {
  fill();
  const Timed timer(report.residual);
  const Span span("residual", "multigrid");
  each_line([&](const op::Margin::Patch& p, std::ptrdiff_t, std::ptrdiff_t, std::size_t first, const S* product) {
    for (std::ptrdiff_t i = 0; i < p.n[0]; ++i) r[first + std::size_t(i)] = f_[first + std::size_t(i)] - product[i];
  });
}

template <class S>
void WideLevel<S>::smooth_whole(const MultigridOptions& options, int sweeps, bool from_zero) {
  if (from_zero) clear_u();
  const bool chebyshev = options.smoother == Smoother::chebyshev;
  const S* const inverse = options.smoother == Smoother::l1_jacobi ? inverse_l1_.data() : inverse_.data();
  const double lower = upper_ / options.range(), theta = 0.5 * (upper_ + lower), delta = 0.5 * (upper_ - lower);
  double rho = delta / theta;
  for (int i = 0; i < sweeps; ++i) {
    S a = 0, b = 1;
    // The largest eigenvalue of D^-1 A may be above the 2 of 7 points.
    if (options.smoother == Smoother::jacobi) b = S(options.omega() * std::min(1.0, 2 / upper_));
    if (chebyshev) {
      if (i == 0) {
        b = S(1 / theta);
      } else {
        const double next = 1 / (2 * theta / delta - rho);
        a = S(next * rho), b = S(2 * next / delta);
        rho = next;
      }
    }
    fill();
    const Timed timer(report.smooth);
    const Span span("sweep", "multigrid");
    each_line([&](const op::Margin::Patch& p, std::ptrdiff_t j, std::ptrdiff_t k, std::size_t first, const S* product) {
      const S *const f = f_.data() + first, *const d = inverse + first;
      S* const step = step_.data() + first;
      const S* const u = u_.data() + p.at(0, j, k);
      S* const to = next_.data() + p.at(0, j, k);
      const bool fresh = i == 0;  // the step is not read: an earlier solve may have overflowed
      const std::ptrdiff_t n = p.n[0];
#pragma GCC ivdep
      for (std::ptrdiff_t x = 0; x < n; ++x) {
        const S change = b * (d[x] * (f[x] - product[x]));
        step[x] = fresh ? change : a * step[x] + change;
        to[x] = u[x] + step[x];
      }
    });
    std::swap(u_, next_);
    report.half_sweeps += 2;
  }
}

template class WideLevel<float>;
template class WideLevel<double>;

}  // namespace tacit::precond::mg
