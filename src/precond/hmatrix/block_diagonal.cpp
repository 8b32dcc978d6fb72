#include <tacit/precond/hmatrix/block_diagonal.hpp>

#include "pivots.hpp"
#include "scalars.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::precond {
namespace {

using detail::as_scalar, detail::factorise_replacing, detail::fits_single, detail::Pivots, detail::SingleOf;

/// Runs of the own rows, from the first on, that are blocks: [cut[b], cut[b + 1]).
std::vector<Local> cuts_of(const op::ClusterTree& tree, Local first, Local last, Local size) {
  std::vector<Local> cuts{0};
  const auto go = [&](const auto& self, int c) -> void {
    const op::Cluster& cluster = tree.clusters()[std::size_t(c)];
    const Local from = std::max(cluster.begin, first), to = std::min(cluster.end, last);
    if (from >= to) return;
    if (to - from <= size || cluster.is_leaf()) return cuts.push_back(to - first);
    self(self, cluster.child[0]);
    self(self, cluster.child[1]);
  };
  go(go, 0);
  return cuts;
}

}  // namespace

template <Scalar T>
struct BlockDiagonal<T>::Inverses {
  virtual ~Inverses() = default;
  virtual void multiply(const T* x, T* y, int k, bool adjoint) const = 0;  // k interleaved columns
  std::vector<Local> cut;
  Global perturbed = 0;
};

template <Scalar T>
template <Scalar F>
struct BlockDiagonal<T>::InversesIn final : BlockDiagonal<T>::Inverses {
  using R = real_t<F>;
  std::vector<std::vector<F>> inverse;

  InversesIn(const op::HMatrix<T>& A, const BlockDiagonalOptions& options) {
    const auto [first, last] = A.own_rows();
    auto& cut = this->cut;
    cut = cuts_of(*A.row_tree(), first, last, options.size);
    const std::size_t count = cut.size() - 1;
    const auto block_of = [&](Local row) {
      return std::size_t(std::upper_bound(cut.begin(), cut.end(), row) - cut.begin()) - 1;
    };
    inverse.resize(count);
    for (std::size_t b = 0; b < count; ++b) {
      const std::size_t n = std::size_t(cut[b + 1] - cut[b]);
      inverse[b].assign(n * n, F(0));
    }
    const auto near = A.own_square([&, from = first](const op::Block& m) {
      const std::size_t b = block_of(std::max(m.row_begin - from, 0));
      return m.column_begin - from < cut[b + 1] && m.column_end - from > cut[b];
    });
    for (const auto& m : near) {
      const std::size_t b = block_of(m.block.row_begin - first);
      const Local begin = cut[b], n = cut[b + 1] - begin, top = m.block.row_begin - first - begin,
                  left = m.block.column_begin - first - begin;
      const std::size_t rows = std::size_t(m.block.rows()), columns = std::size_t(m.block.columns());
      for (std::size_t j = 0; j < columns; ++j) {
        const Local c = left + Local(j);
        if (c < 0 || c >= n) continue;
        for (std::size_t i = 0; i < rows && top + Local(i) < n; ++i) {
          T value(0);
          if (m.dense) value = m.u[i + j * rows];
          else
            for (std::size_t k = 0; k < std::size_t(m.rank); ++k)
              value += m.u[i + k * rows] * conj(m.v[j + k * columns]);
          inverse[b][std::size_t(top) + i + std::size_t(c) * std::size_t(n)] += as_scalar<F>(value);
        }
      }
    }
    const lapack::OneThread alone;
    Global replaced = 0;
    std::vector<Global> replaced_in(count);
    exec::parallel_for(
        count, true, [&](std::size_t i) { replaced_in[i] = invert(inverse[i]); }, 1);
    for (const Global n : replaced_in) replaced += n;
    this->perturbed = replaced;
  }

  // The inverse in place, by P A = L U; returns the number of pivots that were replaced.
  static Global invert(std::vector<F>& a) {
    const int n = int(std::lround(std::sqrt(double(a.size()))));
    std::vector<int> pivots(static_cast<std::size_t>(n));
    const Pivots found = factorise_replacing(a.data(), n, pivots.data());
    std::vector<F> x(a.size(), F(0));
    for (std::size_t i = 0; i < std::size_t(n); ++i) x[i * std::size_t(n) + i] = F(1);
    for (int i = 0; i < n; ++i)
      if (pivots[std::size_t(i)] != i)
        for (int c = 0; c < n; ++c)
          std::swap(x[std::size_t(c) * std::size_t(n) + std::size_t(i)],
                    x[std::size_t(c) * std::size_t(n) + std::size_t(pivots[std::size_t(i)])]);
    lapack::trsm('L', 'L', 'N', 'U', n, n, a.data(), n, x.data(), n);
    lapack::trsm('L', 'U', 'N', 'N', n, n, a.data(), n, x.data(), n);
    a = std::move(x);
    return found.replaced;
  }

  void multiply(const T* x, T* y, int k, bool adjoint) const override {
    const auto& cut = this->cut;
    const auto multiply_block = [&](std::size_t b) {
      const std::size_t n = std::size_t(cut[b + 1] - cut[b]), at = std::size_t(cut[b]);
      const F* const a = inverse[b].data();
      std::vector<F> in(n), out(n);
      for (int c = 0; c < k; ++c) {
        for (std::size_t r = 0; r < n; ++r)
          in[r] = as_scalar<F>(x[(at + r) * std::size_t(k) + std::size_t(c)]), out[r] = F(0);
        for (std::size_t j = 0; j < n; ++j) {
          const F* const column = a + j * n;
          if (adjoint) {
            R re(0), im(0);
            const auto* const p = reinterpret_cast<const R*>(column);
            const auto* const q = reinterpret_cast<const R*>(in.data());
            if constexpr (is_complex<F>) {
#pragma omp simd reduction(+ : re, im)
              for (std::size_t r = 0; r < n; ++r) {
                re += p[2 * r] * q[2 * r] + p[2 * r + 1] * q[2 * r + 1];
                im += p[2 * r] * q[2 * r + 1] - p[2 * r + 1] * q[2 * r];
              }
              out[j] = F(re, im);
            } else {
#pragma omp simd reduction(+ : re)
              for (std::size_t r = 0; r < n; ++r) re += p[r] * q[r];
              out[j] = F(re);
            }
          } else {
            const F v = in[j];
            F* const o = out.data();
#pragma omp simd
            for (std::size_t r = 0; r < n; ++r) o[r] += v * column[r];
          }
        }
        for (std::size_t r = 0; r < n; ++r) y[(at + r) * std::size_t(k) + std::size_t(c)] = as_scalar<T>(out[r]);
      }
    };
    exec::parallel_for(inverse.size(), true, multiply_block, 1);
  }
};

template <Scalar T>
BlockDiagonal<T>::BlockDiagonal(const op::HMatrix<T>& A, const BlockDiagonalOptions& options)
    : op::Operator<T, Host>(A.domain(), A.range()) {
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    const Span span("invert blocks", "precond");
    require(A.has_diagonal(),
            "block-jacobi needs an hmatrix whose rows and columns have one cluster tree and one space");
    require(options.size >= 1, "block-jacobi with blocks of at most ", options.size, " rows");
    rows_ = std::make_unique<op::OwnRows<T>>(A.rows().space(), A.row_tree(), A.rows().cuts());
    single_ = options.precision == FactorPrecision::single || std::is_same_v<SingleOf<T>, T> ||
              (options.precision == FactorPrecision::automatic && fits_single(A.largest()));
    if (single_) inverses_ = std::make_unique<InversesIn<SingleOf<T>>>(A, options);
    else inverses_ = std::make_unique<InversesIn<T>>(A, options);
    for (std::size_t b = 0; b + 1 < inverses_->cut.size(); ++b) {
      const double n = inverses_->cut[b + 1] - inverses_->cut[b];
      bytes_ += n * n * double(single_ ? sizeof(SingleOf<T>) : sizeof(T));
    }
    all_bytes_ = comm.all_sum(bytes_);
    blocks_ = comm.all_sum(Global(inverses_->cut.size()) - 1);
    const Global perturbed = comm.all_sum(inverses_->perturbed);
    doubtful_ = perturbed > 0;
    if (perturbed > 0)
      note_ = message(perturbed, perturbed == 1 ? " pivot was" : " pivots were", " too small and replaced");
    name_ = message("block-jacobi (", blocks_, " near-field blocks)");
  });
}

template <Scalar T>
BlockDiagonal<T>::~BlockDiagonal() = default;

template <Scalar T>
int BlockDiagonal<T>::begin(const Vector<T, Host>& x, Vector<T, Host>&, bool) const {
  return rows_->start_get(x.data(), x.columns());
}

template <Scalar T>
void BlockDiagonal<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const {
  const int k = x.columns();
  std::vector<T> rows(std::size_t(rows_->count()) * std::size_t(k)), result(rows.size());
  rows_->finish_get(x.data(), k, token, rows.data());
  {
    const Span span("near-field inverses", "precond", Trace::on() ? std::int64_t(cost().bytes) : 0);
    const auto multiply = [&] { inverses_->multiply(rows.data(), result.data(), k, adjoint); };
    if (single_) detail::near_one(rows.data(), result.data(), rows.size(), multiply, [](double most) { return most; });
    else multiply();
  }
  rows_->finish_put(k, rows_->start_put(result.data(), k, y.data()), y.data());
}

template <Scalar T>
op::Cost BlockDiagonal<T>::cost() const {
  op::Cost c;
  c.bytes = bytes_ + 4.0 * rows_->count() * sizeof(T);
  c.flops = bytes_ / (single_ ? sizeof(SingleOf<T>) : sizeof(T)) * (is_complex<T> ? 8 : 2);
  if (const auto* p = rows_->pattern()) {
    const bool replicated = rows_->space().is_replicated();
    c.messages = double(p->send_ranks.size() + (replicated ? 0 : p->receive_ranks.size()));
    c.message_bytes = double(p->send_index.size() + (replicated ? 0 : p->ghosts.size())) * sizeof(T);
  }
  return c;
}

#define TACIT_INSTANTIATE(T) template class BlockDiagonal<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
