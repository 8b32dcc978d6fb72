#include "return_freed.hpp"
#include "storage_impl.hpp"

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

namespace tacit::op::detail {
namespace {

// The unit with which numbers are stored as 16-bit integers. A complex array is treated as twice as many real numbers.
template <Scalar T>
double unit_of(const T* v, std::size_t n) {
  const auto* const a = reinterpret_cast<const real_t<T>*>(v);
  real_t<T> most(0);
#pragma omp simd reduction(max : most)
  for (std::size_t i = 0; i < n * (sizeof(T) / sizeof(real_t<T>)); ++i) most = std::max(most, std::abs(a[i]));
  return most > 0 ? double(most) / 32767 : 1;
}
template <Scalar T>
double fixed_error(const T* v, std::size_t n, double unit) {
  const auto* const a = reinterpret_cast<const real_t<T>*>(v);
  const double per_unit = 1 / unit;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n * (sizeof(T) / sizeof(real_t<T>)); ++i) {
    const double x = double(a[i]) * per_unit, e = x - std::nearbyint(x);
    sum += e * e;
  }
  return unit * std::sqrt(sum);
}
// Appends one column, real parts first.
template <Scalar T, class S>
void append(std::vector<S>& to, const T* v, std::size_t n, double unit) {
  constexpr std::size_t stride = sizeof(T) / sizeof(real_t<T>);
  const std::size_t at = to.size();
  to.resize(at + n * stride);
  const double per_unit = 1 / unit;
  for (std::size_t p = 0; p < stride; ++p) {
    const auto* const a = reinterpret_cast<const real_t<T>*>(v) + p;
    S* const out = to.data() + at + p * n;
#pragma omp simd
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (std::is_integral_v<S>) out[i] = S(std::int32_t(std::nearbyint(double(a[i * stride]) * per_unit)));
      else out[i] = S(a[i * stride] * real_t<T>(per_unit));
    }
  }
}

constexpr double single_rounding = 0x1p-24;  // relative rounding error of float

template <Scalar T>
void reserve(Packed<T>& p, int format, std::size_t numbers) {
  each_format([&](auto f) {
    if (f == format) std::get<f>(p.data).reserve(numbers * Packed<T>::parts);
  });
}
template <Scalar T>
void append(Packed<T>& p, int format, const T* v, std::size_t n, double unit) {
  each_format([&](auto f) {
    if (f == format) append(std::get<f>(p.data), v, n, unit);
  });
}

bool fits_float(double norm) {
  return norm == 0 || (norm > 1e-25 && norm < 1e25);
}
// 2^k up to v.
double power_of(double v) {
  return std::ldexp(1.0, std::ilogb(v));
}

template <Scalar T>
void pack_dense(const Compressed<T>& c, double allowed, bool may_single, bool may_fixed, Packed<T>& p) {
  const std::size_t m = std::size_t(c.rows), n = std::size_t(c.columns);
  const double unit = unit_of(c.u.data(), m * n);
  const double as_fixed = may_fixed ? fixed_error(c.u.data(), m * n, unit) : 0;
  int format = native;
  if (may_fixed && as_fixed <= allowed) format = fixed, p.error = as_fixed;
  else if (may_single && single_rounding * c.norm <= allowed) format = single, p.error = single_rounding * c.norm;
  // Numbers that could leave the range of float are stored over a power of two.
  const double scale = format == fixed ? unit : format == single && !fits_float(c.norm) ? power_of(c.norm) : 1;
  p.count[format] = c.columns;
  p.scale.assign(1, scale);
  reserve(p, format, m * n);
  for (std::size_t j = 0; j < n; ++j) append(p, format, c.u.data() + j * m, m, scale);
}

// How column k of U and of V is stored.
struct ColumnFormat {
  int format = native;
  double unit_u = 1, unit_v = 1;
};

// Columns from the smallest singular value up. Where the other factor's columns are orthonormal, the squares of the
// errors of columns are added (twice, since both factors are rounded); otherwise the errors are. Returns the error.
template <Scalar T>
double choose_formats(const Compressed<T>& c, double allowed, bool may_single, bool may_fixed,
                      std::vector<ColumnFormat>& chosen) {
  const std::size_t m = std::size_t(c.rows), n = std::size_t(c.columns);
  double total = 0;  // of squared errors; if not orthonormal, of errors
  const double budget = c.orthonormal ? allowed * allowed : allowed;
  int lowest = may_fixed ? fixed : may_single ? single : native;
  for (Local k = c.rank - 1; k >= 0 && lowest != native; --k) {
    const T *const u = c.u.data() + std::size_t(k) * m, *const v = c.v.data() + std::size_t(k) * n;
    const double sigma = double(c.sigma[std::size_t(k)]);
    ColumnFormat& column = chosen[std::size_t(k)];
    for (;; lowest = lowest == fixed && may_single ? single : native) {
      if (lowest == native) break;
      double du = single_rounding, dv = single_rounding;
      if (lowest == fixed) {
        column.unit_u = unit_of(u, m), column.unit_v = unit_of(v, n);
        du = fixed_error(u, m, column.unit_u), dv = fixed_error(v, n, column.unit_v);
      }
      const double more = c.orthonormal ? 2 * sigma * sigma * (du * du + dv * dv) : sigma * (du + dv);
      if (total + more > budget) continue;
      total += more;
      column.format = lowest;
      break;
    }
  }
  return c.orthonormal ? std::sqrt(total) : total;
}

}  // namespace

template <Scalar T>
Packed<T> pack(const Block& block, const Compressed<T>& c, double allowed, StoragePrecision storage) {
  const std::size_t m = std::size_t(c.rows), n = std::size_t(c.columns);
  Packed<T> p;
  p.block = block;
  p.dense = c.dense;
  p.rank = c.rank;
  p.norm = c.norm;
  p.error = c.error;
  p.before2 = c.error * c.error;
  // Units, and products with them, have to be normal numbers of the scalar.
  const bool in_range =
      std::is_same_v<real_t<T>, float> ? c.norm > 1e-25 && c.norm < 1e37 : c.norm > 1e-280 && c.norm < 1e300;
  if (!in_range && c.norm != 0) storage = StoragePrecision::full;
  const bool may_single = storage != StoragePrecision::full && !std::is_same_v<real_t<T>, float>;
  const bool may_fixed = storage == StoragePrecision::automatic;
  if (c.dense) {
    pack_dense(c, allowed, may_single, may_fixed, p);
    return p;
  }
  std::vector<ColumnFormat> columns(std::size_t(c.rank));
  p.error = std::hypot(c.error, choose_formats(c, allowed, may_single, may_fixed, columns));
  for (int f = 0; f < formats; ++f) {
    p.count[f] = Local(std::count_if(columns.begin(), columns.end(), [&](const auto& k) { return k.format == f; }));
    reserve(p, f, std::size_t(p.count[f]) * (m + n));
    for (std::size_t k = 0; k < columns.size(); ++k)
      if (const ColumnFormat& column = columns[k]; column.format == f) {
        append(p, f, c.u.data() + k * m, m, f == fixed ? column.unit_u : 1.0);
        p.scale.push_back(double(c.sigma[k]) * (f == fixed ? column.unit_u * column.unit_v : 1.0));
      }
    for (std::size_t k = 0; k < columns.size(); ++k)
      if (columns[k].format == f) append(p, f, c.v.data() + k * n, n, f == fixed ? columns[k].unit_v : 1.0);
  }
  return p;
}

template <Scalar T>
Storage<T>::Storage(Local first_row, Local rows, Local columns, std::vector<Packed<T>> blocks, bool both)
    : first_row_(first_row), rows_(rows), columns_(columns) {
  // Dense blocks, then low-rank ones, each in the order of their columns: consecutive ones read neighbouring parts of
  // x. (A stable sort would need memory for half of them.)
  std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
    const auto key = [](const auto& p) {
      return std::tuple(!p.dense, p.block.column_begin, p.block.columns(), p.block.row_begin);
    };
    return key(a) < key(b);
  });
  const auto factor_numbers = place_factors(blocks);
  cut_panels();
  const auto of_panel = blocks_of_panels();
  const auto panel_numbers = place_panels(blocks, of_panel, both);
  each_format([&](auto format) {
    constexpr int f = format;
    std::get<f>(own_panels_) = exec::Array<Stored<f>>::uninitialised(panel_numbers[f]);
    std::get<f>(own_factors_) = exec::Array<Stored<f>>::uninitialised(factor_numbers[f]);
  });
  fill(blocks, of_panel);
  see_owned();
  made_ = checksum();
}

// Copies the numbers of the blocks in rounds, each of which has a part of every thread's panels, and gives the memory
// of blocks back once all of their panels are there: only the numbers of a few rounds are held twice. Panels are filled
// by the threads that read them in products, for their placement in memory.
template <Scalar T>
void Storage<T>::fill(std::vector<Packed<T>>& blocks, const std::vector<std::vector<std::uint32_t>>& of_panel) {
  // Small ones cost less memory than to give it back takes time.
  const std::size_t rounds = panel_cost_.back() < (std::size_t(64) << 20) ? 1 : 16;
  std::vector<std::uint32_t> left(blocks.size(), 0);
  for (const auto& list : of_panel)
    for (const std::uint32_t b : list) ++left[b];
  const auto copy_panel = [&](std::size_t i) {
    const Panel& panel = panels_[i];
    each_format([&](auto format) {
      constexpr int f = format;
      Stored<f>* out = std::get<f>(own_panels_).data() + panel.data[f];
      for (const std::uint32_t b : of_panel[i]) {
        const Packed<T>& p = blocks[b];
        const auto* in = std::get<f>(p.data).data() + (panel.begin + first_row_ - p.block.row_begin);
        for (std::size_t j = 0; j < std::size_t(p.count[f]) * parts; ++j, out += panel.rows, in += p.block.rows())
          std::copy_n(in, panel.rows, out);
      }
    });
  };
  // V of a block, after U. All of the block is freed: what is left between its numbers would hold their pages.
  const auto copy_factor = [&](Packed<T>& p, std::uint32_t factor) {
    each_format([&](auto format) {
      constexpr int f = format;
      if (p.dense || p.count[f] == 0) return;
      const Factor& to = factors_[factor++];
      const auto& in = std::get<f>(p.data);
      std::copy(in.end() - std::ptrdiff_t(to.rows) * to.count * parts, in.end(),
                std::get<f>(own_factors_).data() + to.data);
    });
    p = Packed<T>();
  };
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::uint32_t> done;
    each_of_round(panel_cost_, round, rounds, copy_panel, [&](std::size_t i) {
      for (const std::uint32_t b : of_panel[i])
        if (--left[b] == 0) done.push_back(b);
    });
    exec::parallel_for(
        done.size(), true, [&](std::size_t k) { copy_factor(blocks[done[k]], kept_[done[k]].first_factor); }, 64);
    if (rounds > 1) return_freed();
  }
}

template <Scalar T>
void Storage<T>::see_owned() {
  each_format([&](auto f) {
    std::get<f>(panel_data_) = std::as_const(std::get<f>(own_panels_)).view();
    std::get<f>(factor_data_) = std::as_const(std::get<f>(own_factors_)).view();
  });
}

template <Scalar T>
std::array<std::size_t, formats> Storage<T>::place_factors(const std::vector<Packed<T>>& blocks) {
  std::array<std::size_t, formats> numbers{};
  const auto next_t = [&] {
    return checked_cast<std::uint32_t>(std::size_t(columns_) + t_scale_.size(), "columns and ranks together");
  };
  for (const Packed<T>& p : blocks) {
    kept_.push_back({p.block, p.dense, 0, 0, {p.count[0], p.count[1], p.count[2]}, p.dense ? p.scale[0] : 1.0});
    if (p.dense) continue;
    std::uint32_t t = kept_.back().first_t = next_t();
    kept_.back().first_factor = std::uint32_t(factors_.size());
    for (int f = 0; f < formats; ++f) {
      if (p.count[f] == 0) continue;
      factors_.push_back({f, p.block.column_begin, p.block.columns(), p.count[f], numbers[f], t});
      const std::size_t more = std::size_t(p.block.columns()) * p.count[f] * parts;
      numbers[f] += more;
      factor_cost_.push_back(factor_cost_.back() + more * width[f] + 64);
      flops_ += double(more) * (is_complex<T> ? 4 : 2);
      t += std::uint32_t(p.count[f]);
    }
    t_scale_.insert(t_scale_.end(), p.scale.begin(), p.scale.end());
  }
  (void)next_t();
  return numbers;
}

template <Scalar T>
void Storage<T>::cut_panels() {
  std::vector<Local> cuts{0, rows_};
  for (const Kept& kept : kept_)
    cuts.push_back(kept.block.row_begin - first_row_), cuts.push_back(kept.block.row_end - first_row_);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    for (Local r = cuts[i]; r < cuts[i + 1]; r += panel_rows)
      panels_.push_back({r, std::min(panel_rows, cuts[i + 1] - r), {}, {}, {}, {}});
}

template <Scalar T>
std::vector<std::vector<std::uint32_t>> Storage<T>::blocks_of_panels() const {
  std::vector<std::vector<std::uint32_t>> of_panel(panels_.size());
  for (std::size_t b = 0; b < kept_.size(); ++b) {
    const Local from = kept_[b].block.row_begin - first_row_, to = kept_[b].block.row_end - first_row_;
    auto p = std::size_t(
        std::lower_bound(panels_.begin(), panels_.end(), from, [](const Panel& q, Local r) { return q.begin < r; }) -
        panels_.begin());
    for (; p < panels_.size() && panels_[p].begin < to; ++p) of_panel[p].push_back(std::uint32_t(b));
  }
  return of_panel;
}

template <Scalar T>
std::array<std::size_t, formats> Storage<T>::place_panels(const std::vector<Packed<T>>& blocks,
                                                          const std::vector<std::vector<std::uint32_t>>& of_panel,
                                                          bool both) {
  std::array<std::size_t, formats> all{};
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    Panel& panel = panels_[i];
    std::size_t bytes = 0;
    for (int f = 0; f < formats; ++f) {
      panel.run[f] = runs_.size();
      panel.data[f] = all[f];
      panel.work[f] = work_columns_;
      for (const std::uint32_t b : of_panel[i]) {
        const Packed<T>& p = blocks[b];
        const Local count = p.count[f];
        if (count == 0) continue;
        std::uint32_t offset = std::uint32_t(p.block.column_begin);
        if (!p.dense) {
          offset = kept_[b].first_t;
          std::uint32_t factor = kept_[b].first_factor;
          for (int g = 0; g < f; ++g) offset += std::uint32_t(p.count[g]), factor += p.count[g] > 0;
          held_.push_back({factor, work_columns_});
        } else if (!(both && p.block.is_diagonal())) {  // diagonal blocks are not mirrored
          pieces_.push_back({f, p.block.column_begin, count, work_columns_, p.scale[0]});
        }
        const double scale = kept_[b].scale;
        if (runs_.size() > panel.run[f] && runs_.back().offset + runs_.back().count == offset &&
            runs_.back().scale == scale)
          runs_.back().count += std::uint32_t(count);
        else runs_.push_back({offset, std::uint32_t(count), scale});
        work_columns_ += std::size_t(count);
      }
      panel.columns[f] = work_columns_ - panel.work[f];
      const std::size_t numbers = panel.columns[f] * std::size_t(panel.rows) * parts;
      all[f] += numbers;
      bytes += numbers * width[f];
      flops_ += double(numbers) * (is_complex<T> ? 4 : 2);
    }
    panel.run[formats] = runs_.size();
    panel_cost_.push_back(panel_cost_.back() + bytes + 64);
  }
  return all;
}

template <Scalar T>
std::uint64_t Storage<T>::checksum() const {
  exec::Checksum sum;
  each_format(
      [&](auto format) { sum.add(std::get<int(format)>(panel_data_)).add(std::get<int(format)>(factor_data_)); });
  return sum.add(t_scale_).value();
}

template <Scalar T>
std::array<double, formats> Storage<T>::bytes() const {
  std::array<double, formats> all{};
  each_format([&](auto f) {
    all[f] = double(std::get<f>(panel_data_).size() + std::get<f>(factor_data_).size()) * sizeof(Stored<f>);
  });
  return all;
}

template <Scalar T>
double Storage<T>::factor_bytes() const {
  double all = 0;
  each_format([&](auto f) { all += double(std::get<f>(factor_data_).size()) * sizeof(Stored<f>); });
  return all;
}

template <Scalar T>
double Storage<T>::index_bytes() const {
  return double(runs_.size() * sizeof(Run) + panels_.size() * sizeof(Panel) + factors_.size() * sizeof(Factor) +
                t_scale_.size() * sizeof(double));
}

template <Scalar T>
void Storage<T>::reserve(int planes) const {
  ld_ = (std::size_t(columns_) + t_scale_.size() + 31) / 16 * 16;
  if (z_.size() < ld_ * planes) z_ = exec::Array<R>(ld_ * planes);
}

template <Scalar T>
template <int K>
void Storage<T>::forward(const T* x, std::span<const Global> order, T* y, int k, int column,
                         const comm::Communicator& comm) const {
  project_all<K>(x, order, k, column, nullptr, comm);
  const std::ptrdiff_t ld = std::ptrdiff_t(ld_);
  const R* const z = z_.data();
  each_by_cost<R>(panel_cost_, &comm, [&](std::size_t i, std::vector<R>&) {
    const Panel& panel = panels_[i];
    R sum[K * panel_rows] = {};
    each_format([&](auto format) {
      constexpr int f = format;
      if (panel.columns[f] == 0) return;
      multiply_add<Stored<f>, R, K, is_complex<T>>(std::get<f>(panel_data_).data() + panel.data[f], panel.rows,
                                                   panel.rows, runs_.data() + panel.run[f],
                                                   runs_.data() + panel.run[f + 1], z, ld, sum, panel_rows);
    });
    each_value<K>(sum, panel.rows, y + std::size_t(panel.begin) * k + column, k, [](T& to, T v) { to = v; });
  });
}

template <Scalar T>
void Storage<T>::multiply(const T* x, std::span<const Global> order, T* y, int k,
                          const comm::Communicator& comm) const {
  for (int c = 0; c < k;) {
    if (k - c >= 4 / parts) forward<4>(x, order, y, k, c, comm), c += 4 / parts;
    else if (k - c >= 2 / parts) forward<2>(x, order, y, k, c, comm), c += 2 / parts;
    else if constexpr (!is_complex<T>) forward<1>(x, order, y, k, c, comm), ++c;
  }
}

template <Scalar T>
void Storage<T>::build_adjoint() const {
  if (adjoint_) return;
  auto a = std::make_unique<Adjoint>();
  a->held_start.assign(factors_.size() + 1, 0);
  for (const Held& h : held_) ++a->held_start[h.factor + 1];
  std::partial_sum(a->held_start.begin(), a->held_start.end(), a->held_start.begin());
  a->work.resize(held_.size());
  auto next = a->held_start;
  for (const Held& h : held_) a->work[next[h.factor]++] = h.work;

  const std::size_t cells = (std::size_t(columns_) + panel_rows - 1) / panel_rows;
  std::vector<std::vector<std::uint32_t>> factors(cells);
  std::vector<std::vector<Piece>> pieces(cells);
  std::vector<std::size_t> cost(cells, 64);
  for (std::size_t f = 0; f < factors_.size(); ++f) {
    const Factor& v = factors_[f];
    for (Local c = v.begin / panel_rows; c * panel_rows < v.begin + v.rows; ++c) {
      factors[std::size_t(c)].push_back(std::uint32_t(f));
      cost[std::size_t(c)] += std::size_t(v.count) * panel_rows * 4;
    }
  }
  for (const Piece& p : pieces_)
    for (Local from = p.begin; from < p.begin + p.count;) {
      const Local cell = from / panel_rows, to = std::min(p.begin + p.count, (cell + 1) * panel_rows);
      pieces[std::size_t(cell)].push_back({p.format, from, to - from, p.work + std::size_t(from - p.begin), p.scale});
      cost[std::size_t(cell)] += std::size_t(to - from) * sizeof(R);
      from = to;
    }
  a->factor_start.push_back(0), a->piece_start.push_back(0);
  for (std::size_t c = 0; c < cells; ++c) {
    a->factor.insert(a->factor.end(), factors[c].begin(), factors[c].end());
    a->piece.insert(a->piece.end(), pieces[c].begin(), pieces[c].end());
    a->factor_start.push_back(a->factor.size()), a->piece_start.push_back(a->piece.size());
    a->cell_cost.push_back(a->cell_cost.back() + cost[c]);
  }
  adjoint_ = std::move(a);
}

template <Scalar T>
template <int K>
void Storage<T>::backward(const T* x, T* y, int k, int column, const comm::Communicator& comm) const {
  reserve(K);
  const Adjoint& a = *adjoint_;
  if (a.sums.size() < work_columns_ * K) a.sums = exec::Array<R>(work_columns_ * K);
  const std::ptrdiff_t ld = std::ptrdiff_t(ld_);
  R *const w = a.sums.data(), *const t = z_.data() + columns_;
  // w = P^H x, panel by panel.
  each_by_cost<R>(panel_cost_, &comm, [&](std::size_t i, std::vector<R>& buffer) {
    const Panel& panel = panels_[i];
    R own[K * panel_rows];
    for (Local r = 0; r < panel.rows; ++r)
      for (int c = 0; c < K / parts; ++c)
        for (int p = 0; p < parts; ++p)
          own[(c * parts + p) * panel_rows + r] = part(x[std::size_t(panel.begin + r) * k + column + c], p);
    each_format([&](auto format) {
      constexpr int f = format;
      if (panel.columns[f] == 0) return;
      buffer.resize(panel.columns[f] * parts * K);
      dots<Stored<f>, R, K>(std::get<f>(panel_data_).data() + panel.data[f], panel.rows,
                            std::ptrdiff_t(panel.columns[f]) * parts, own, panel_rows, buffer.data());
      for (std::size_t j = 0; j < panel.columns[f]; ++j)
        combine<is_complex<T>, K>(buffer.data() + j * parts * K, w + (panel.work[f] + j) * K);
    });
  });
  sum_panels<K>(t, ld);
  multiply_cells<K>(t, ld, y + column, k, comm, [](T& to, T v) { to = v; });
}

template <Scalar T>
void Storage<T>::multiply_adjoint(const T* x, T* y, int k, const comm::Communicator& comm) const {
  build_adjoint();
  for (int c = 0; c < k;) {
    if (k - c >= 4 / parts) backward<4>(x, y, k, c, comm), c += 4 / parts;
    else if (k - c >= 2 / parts) backward<2>(x, y, k, c, comm), c += 2 / parts;
    else if constexpr (!is_complex<T>) backward<1>(x, y, k, c, comm), ++c;
  }
}

#define TACIT_INSTANTIATE(T) \
  template class Storage<T>; \
  template Packed<T> pack(const Block&, const Compressed<T>&, double, StoragePrecision);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op::detail
