// Storage: products with blocks and their mirror blocks, and the unpacking of blocks.
#include "storage_impl.hpp"

#include <complex>

namespace tacit::op::detail {

template <Scalar T>
template <int K>
void Storage<T>::both(const T* x, std::span<const Global> order, T* y, int k, int column, bool conjugates,
                      const comm::Communicator& comm) const {
  project_all<K>(x, order, k, column, y + column, comm);
  const Adjoint& a = *adjoint_;
  if (a.sums.size() < work_columns_ * K) a.sums = exec::Array<R>(work_columns_ * K);
  if (a.mirrored.size() < t_scale_.size() * K) a.mirrored = exec::Array<R>(t_scale_.size() * K);
  const std::ptrdiff_t ld = std::ptrdiff_t(ld_), ldt = std::ptrdiff_t(t_scale_.size());
  R *const w = a.sums.data(), *const z = z_.data();
  // y = P [x; t] and w = P^H x, panel by panel: the second reads the panel from cache.
  each_by_cost<R>(panel_cost_, &comm, [&](std::size_t i, std::vector<R>& buffer) {
    const Panel& panel = panels_[i];
    const std::size_t at = std::size_t(first_row_ + panel.begin);
    R sum[K * panel_rows] = {}, own[K * panel_rows];
    for (int p = 0; p < K; ++p)
      for (Local r = 0; r < panel.rows; ++r) {
        const R v = z[p * ld + std::ptrdiff_t(at) + r];
        own[p * panel_rows + r] = conjugates && p % parts == 1 ? -v : v;
      }
    each_format([&](auto format) {
      constexpr int f = format;
      if (panel.columns[f] == 0) return;
      const auto* const data = std::get<f>(panel_data_).data() + panel.data[f];
      multiply_add<Stored<f>, R, K, is_complex<T>>(data, panel.rows, panel.rows, runs_.data() + panel.run[f],
                                                   runs_.data() + panel.run[f + 1], z, ld, sum, panel_rows);
      buffer.resize(panel.columns[f] * parts * K);
      dots<Stored<f>, R, K>(data, panel.rows, std::ptrdiff_t(panel.columns[f]) * parts, own, panel_rows, buffer.data());
      for (std::size_t j = 0; j < panel.columns[f]; ++j)
        combine<is_complex<T>, K>(buffer.data() + j * parts * K, w + (panel.work[f] + j) * K);
    });
    each_value<K>(sum, panel.rows, y + at * std::size_t(k) + column, k, [](T& to, T v) { to = v; });
  });
  sum_panels<K>(a.mirrored.data(), ldt);
  multiply_cells<K>(a.mirrored.data(), ldt, y + column, k, comm, [&](T& to, T v) { to += conjugates ? conj(v) : v; });
}

template <Scalar T>
void Storage<T>::multiply_both(const T* x, std::span<const Global> order, T* y, int k, bool conjugates,
                               const comm::Communicator& comm) const {
  build_adjoint();
  for (int c = 0; c < k;) {
    if (k - c >= 4 / parts) both<4>(x, order, y, k, c, conjugates, comm), c += 4 / parts;
    else if (k - c >= 2 / parts) both<2>(x, order, y, k, c, conjugates, comm), c += 2 / parts;
    else if constexpr (!is_complex<T>) both<1>(x, order, y, k, c, conjugates, comm), ++c;
  }
}

template <Scalar T>
std::vector<Packed<T>> Storage<T>::blocks(const std::function<bool(const Block&)>& wanted) const {
  std::vector<Packed<T>> found;
  std::vector<std::ptrdiff_t> place(kept_.size(), -1);
  for (std::size_t b = 0; b < kept_.size(); ++b) {
    const Kept& kept = kept_[b];
    if (!wanted(kept.block)) continue;
    place[b] = std::ptrdiff_t(found.size());
    Packed<T> p;
    p.block = kept.block;
    p.dense = kept.dense;
    const std::size_t rows = std::size_t(p.block.rows()), columns = std::size_t(p.block.columns());
    std::size_t factor = kept.first_factor;
    each_format([&](auto format) {
      constexpr int f = format;
      const std::size_t count = std::size_t(kept.count[f]) * parts;
      p.count[f] = kept.count[f];
      if (count == 0) return;
      auto& data = std::get<f>(p.data);
      data.resize(count * (rows + (p.dense ? 0 : columns)));
      if (p.dense) return;
      p.rank += kept.count[f];
      std::copy_n(std::get<f>(factor_data_).data() + factors_[factor++].data, count * columns,
                  data.data() + count * rows);
    });
    if (p.dense) {
      p.scale.assign(1, kept.scale);
    } else {
      const auto first = t_scale_.begin() + std::ptrdiff_t(kept.first_t) - columns_;
      p.scale.assign(first, first + p.rank);
    }
    found.push_back(std::move(p));
  }
  // U and dense blocks by panels, in the order of the constructor.
  const auto of_panel = blocks_of_panels();
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    const Panel& panel = panels_[i];
    const std::size_t height = std::size_t(panel.rows);
    each_format([&](auto format) {
      constexpr int f = format;
      const auto* data = std::get<f>(panel_data_).data() + panel.data[f];
      for (const std::uint32_t b : of_panel[i]) {
        const std::size_t count = std::size_t(kept_[b].count[f]) * parts;
        if (place[b] >= 0) {
          auto& p = found[std::size_t(place[b])];
          const std::size_t rows = std::size_t(p.block.rows()),
                            top = std::size_t(panel.begin + first_row_ - p.block.row_begin);
          for (std::size_t j = 0; j < count; ++j)
            std::copy_n(data + j * height, height, std::get<f>(p.data).data() + j * rows + top);
        }
        data += count * height;
      }
    });
  }
  return found;
}

template <Scalar T>
std::vector<BlockMatrix<T>> Storage<T>::unpack(const std::function<bool(const Block&)>& wanted) const {
  std::vector<BlockMatrix<T>> found;
  // p.scale belongs to the product of both factors' integers: V takes this unit, U the rest.
  constexpr double unit = 1.0 / 32768;
  for (const auto& p : blocks(wanted)) {
    BlockMatrix<T> m{p.block, p.dense, p.rank, {}, {}};
    const std::size_t rows = std::size_t(p.block.rows()), columns = std::size_t(p.block.columns());
    const auto take = [](const auto* from, std::size_t length, double scale, std::vector<T>& to) {
      for (std::size_t i = 0; i < length; ++i) {
        if constexpr (is_complex<T>) to.push_back(T(R(from[i]), R(from[length + i])) * R(scale));
        else to.push_back(T(from[i]) * R(scale));
      }
    };
    m.u.reserve(rows * (p.dense ? columns : std::size_t(p.rank)));
    m.v.reserve(p.dense ? 0 : columns * std::size_t(p.rank));
    std::size_t term = 0;
    each_format([&](auto format) {
      constexpr int f = format;
      const auto* u = std::get<f>(p.data).data();
      const auto* v = u + rows * std::size_t(p.count[f]) * parts;
      for (Local j = 0; j < p.count[f]; ++j, u += rows * parts, v += columns * parts) {
        take(u, rows, p.dense ? p.scale[0] : p.scale[term++] * (f == fixed ? 1 / unit : 1.0), m.u);
        if (!p.dense) take(v, columns, f == fixed ? unit : 1.0, m.v);
      }
    });
    found.push_back(std::move(m));
  }
  return found;
}

#define TACIT_INSTANTIATE(T)                                                                                           \
  template void Storage<T>::multiply_both(const T*, std::span<const Global>, T*, int, bool, const comm::Communicator&) \
      const;                                                                                                           \
  template std::vector<Packed<T>> Storage<T>::blocks(const std::function<bool(const Block&)>&) const;                  \
  template std::vector<BlockMatrix<T>> Storage<T>::unpack(const std::function<bool(const Block&)>&) const;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op::detail
