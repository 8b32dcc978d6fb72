#include <tacit/precond/hmatrix/hlu.hpp>

#include "block.hpp"
#include "scalars.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/memory.hpp>
#include "exec/branches.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace tacit::precond {
namespace {

using detail::as_scalar, detail::HArithmetic, detail::HBlock, detail::HBlockKind, detail::SingleOf;

// A cluster within [first, last), counted from the rank's first row; one shared with other ranks is cut to this range.
struct Range {
  Local begin, end;
  int child[2] = {-1, -1};
  bool is_leaf() const { return child[0] < 0; }
  Local size() const { return end - begin; }
};

std::vector<Range> ranges_of(const op::ClusterTree& tree, Local first, Local last, Local leaf_size) {
  const auto& clusters = tree.clusters();
  std::vector<Range> ranges;
  const auto inside = [&](int c) {
    return std::pair(std::max(clusters[std::size_t(c)].begin, first), std::min(clusters[std::size_t(c)].end, last));
  };
  const auto add = [&](const auto& self, int c) -> int {
    const auto [from, to] = inside(c);
    const op::Cluster& cluster = clusters[std::size_t(c)];
    if (!cluster.is_leaf()) {
      const auto a = inside(cluster.child[0]), b = inside(cluster.child[1]);
      if (a.first >= a.second) return self(self, cluster.child[1]);
      if (b.first >= b.second) return self(self, cluster.child[0]);
    }
    const int here = int(ranges.size());
    ranges.push_back({from - first, to - first, {-1, -1}});
    if (cluster.is_leaf() || to - from <= leaf_size) return here;
    const int left = self(self, cluster.child[0]), right = self(self, cluster.child[1]);
    ranges[std::size_t(here)].child[0] = left, ranges[std::size_t(here)].child[1] = right;
    return here;
  };
  if (last > first) add(add, 0);
  return ranges;
}

// The operator's square part as blocks for arithmetics.
template <Scalar F, Scalar T>
class Builder {
 public:
  Builder(const op::HMatrix<T>& A, const HluOptions& options, HArithmetic<F>& arithmetic)
      : first_(A.own_rows().first),
        arithmetic_(arithmetic),
        ranges_(ranges_of(*A.row_tree(), A.own_rows().first, A.own_rows().second, options.leaf_size)),
        blocks_(A.own_square()) {
    for (auto& m : blocks_)
      if (options.rank > 0 && m.rank > options.rank) m.rank = options.rank;
  }

  // The dense blocks' numbers stand in `memory`, in the order of the tree.
  std::unique_ptr<HBlock<F>> build(exec::Array<F>& memory) {
    if (ranges_.empty()) return nullptr;
    for (const auto& m : blocks_)
      if (!m.dense || m.block.admissible) kept_[key(m.block)] = &m;
    auto root = make(0, 0);
    const auto size = [](const HBlock<F>* b) {
      return (std::size_t(b->rows) * std::size_t(b->columns) + 15) / 16 * 16;
    };
    std::size_t numbers = 0;
    for (const auto* b : dense_) numbers += size(b);
    memory = exec::Array<F>(numbers);
    numbers = 0;
    for (auto* b : dense_) b->a = memory.data() + numbers, numbers += size(b);
    for (auto& m : blocks_) {
      place(*root, m);
      m.u = {}, m.v = {};
    }
    return root;
  }

 private:
  using Key = std::array<Local, 4>;
  Key key(const op::Block& b) const {
    return {b.row_begin - first_, b.row_end - first_, b.column_begin - first_, b.column_end - first_};
  }

  std::unique_ptr<HBlock<F>> make(int i, int j) {
    const Range &s = ranges_[std::size_t(i)], &t = ranges_[std::size_t(j)];
    auto b = std::make_unique<HBlock<F>>();
    b->row = s.begin, b->rows = s.size(), b->column = t.begin, b->columns = t.size();
    const bool small = s.is_leaf() && t.is_leaf();
    const auto found = kept_.find({s.begin, s.end, t.begin, t.end});
    // Between two leaves a block stays of low rank only where that takes less than half of the memory.
    if (found != kept_.end() &&
        (!small || (!found->second->dense &&
                    2 * Global(found->second->rank) * (Global(b->rows) + b->columns) < Global(b->rows) * b->columns))) {
      b->kind = HBlockKind::low;
      b->low.rows = b->rows, b->low.columns = b->columns;
      return b;
    }
    if (small) {
      dense_.push_back(b.get());
      return b;
    }
    b->kind = HBlockKind::cut;
    b->down = s.is_leaf() ? 1 : 2, b->across = t.is_leaf() ? 1 : 2;
    for (int p = 0; p < b->down; ++p)
      for (int q = 0; q < b->across; ++q)
        b->child[p][q] = make(s.is_leaf() ? i : s.child[p], t.is_leaf() ? j : t.child[q]);
    return b;
  }

  void place(HBlock<F>& b, const op::BlockMatrix<T>& m) {
    const auto at = key(m.block);
    const Local top = std::max(b.row, at[0]), bottom = std::min(b.row + b.rows, at[1]),
                left = std::max(b.column, at[2]), right = std::min(b.column + b.columns, at[3]);
    if (top >= bottom || left >= right) return;
    if (b.is_cut()) {
      for (int p = 0; p < b.down; ++p)
        for (int q = 0; q < b.across; ++q) place(*b.child[p][q], m);
      return;
    }
    const std::size_t rows = std::size_t(m.block.rows()), columns = std::size_t(m.block.columns());
    if (b.kind == HBlockKind::low) {
      if (m.dense) {
        std::vector<F> a(m.u.size());
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = as_scalar<F>(m.u[i]);
        b.low = arithmetic_.compress(a.data(), b.rows, b.columns);
        return;
      }
      b.low.rank = m.rank;
      b.low.u.resize(rows * std::size_t(m.rank)), b.low.v.resize(columns * std::size_t(m.rank));
      for (std::size_t i = 0; i < b.low.u.size(); ++i) b.low.u[i] = as_scalar<F>(m.u[i]);
      for (std::size_t i = 0; i < b.low.v.size(); ++i) b.low.v[i] = as_scalar<F>(conj(m.v[i]));
      arithmetic_.truncate(b.low);
      return;
    }
    for (Local c = left; c < right; ++c)
      for (Local r = top; r < bottom; ++r) {
        const std::size_t i = std::size_t(r - at[0]), j = std::size_t(c - at[2]);
        T value(0);
        if (m.dense) value = m.u[i + j * rows];
        else
          for (std::size_t k = 0; k < std::size_t(m.rank); ++k) value += m.u[i + k * rows] * conj(m.v[j + k * columns]);
        b.a[std::size_t(r - b.row) + std::size_t(c - b.column) * std::size_t(b.rows)] += as_scalar<F>(value);
      }
  }

  Local first_;
  HArithmetic<F>& arithmetic_;
  std::vector<Range> ranges_;
  std::vector<op::BlockMatrix<T>> blocks_;
  std::map<Key, const op::BlockMatrix<T>*> kept_;
  std::vector<HBlock<F>*> dense_;
};

}  // namespace

template <Scalar T>
struct Hlu<T>::Factors {
  virtual ~Factors() = default;
  // rows: own rows, k interleaved columns, in place.
  virtual void solve(T* rows, Local n, int k, bool adjoint) const = 0;
  double bytes = 0;        // own
  std::vector<T> inverse;  // of the diagonal, where there are no factors
};

template <Scalar T>
template <Scalar F>
struct Hlu<T>::FactorsIn final : Hlu<T>::Factors {
  HArithmetic<F> arithmetic;
  exec::Array<F> memory;
  std::unique_ptr<HBlock<F>> root;
  mutable std::vector<F> x;

  FactorsIn(const op::HMatrix<T>& A, const HluOptions& options) : arithmetic(options.tolerance) {
    const lapack::OneThread alone;
    root = Builder<F, T>(A, options, arithmetic).build(memory);
    if (!root) return;
    exec::branching(HArithmetic<F>::divides(*root), [&] { arithmetic.factorise(*root); });
  }

  void count(const HBlock<F>& b, std::array<double, 4>& sums, int& most) const {
    if (b.is_cut()) {
      for (int i = 0; i < b.down; ++i)
        for (int j = 0; j < b.across; ++j) count(*b.child[i][j], sums, most);
    } else if (b.kind == HBlockKind::low) {
      ++sums[1], sums[2] += b.low.rank, sums[3] += double(b.low.u.size() + b.low.v.size()) * sizeof(F);
      most = std::max(most, int(b.low.rank));
    } else {
      ++sums[0];
      sums[3] += (double(b.rows) * b.columns + double(b.inverse_l.size() + b.inverse_u.size())) * sizeof(F);
    }
  }

  void solve(T* rows, Local n, int k, bool adjoint) const override {
    if (n == 0) return;
    if (!this->inverse.empty()) {
      for (Local i = 0; i < n; ++i)
        for (int c = 0; c < k; ++c) {
          const T& d = this->inverse[std::size_t(i)];
          rows[std::size_t(i) * k + c] *= adjoint ? conj(d) : d;
        }
      return;
    }
    x.resize(std::size_t(n) * std::size_t(k));
    const auto turned = [&](const auto& v) { return adjoint ? conj(v) : v; };
    for (Local i = 0; i < n; ++i)
      for (int c = 0; c < k; ++c)
        x[std::size_t(c) * std::size_t(n) + std::size_t(i)] = as_scalar<F>(turned(rows[std::size_t(i) * k + c]));
    const lapack::OneThread alone;
    exec::branching(HArithmetic<F>::solve_divides(*root), [&] {
      if (adjoint) arithmetic.solve_transposed(*root, x.data(), n, k);
      else arithmetic.solve(*root, x.data(), n, k);
    });
    for (Local i = 0; i < n; ++i)
      for (int c = 0; c < k; ++c)
        rows[std::size_t(i) * k + c] = as_scalar<T>(turned(x[std::size_t(c) * std::size_t(n) + std::size_t(i)]));
  }
};

template <Scalar T>
Hlu<T>::Hlu(const op::HMatrix<T>& A, const HluOptions& options) : op::Operator<T, Host>(A.domain(), A.range()) {
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    const Span span("hlu", "precond");
    const double start = wall_time();
    require(A.has_diagonal(), "hlu needs an hmatrix whose rows and columns have one cluster tree and one space");
    require(options.tolerance > 0 && options.tolerance < 1, "hlu with a tolerance of ", options.tolerance,
            "; a number above 0 and below 1 is needed");
    require(options.rank >= 0, "hlu of rank at most ", options.rank);
    require(options.leaf_size >= 1, "hlu with leaves of at most ", options.leaf_size, " rows");
    rows_ = std::make_unique<op::OwnRows<T>>(A.rows().space(), A.row_tree(), A.rows().cuts());
    const bool single = options.precision == FactorPrecision::single ||
                        (options.precision == FactorPrecision::automatic && options.tolerance >= 1e-5 &&
                         detail::fits_single(A.largest())) ||
                        std::is_same_v<SingleOf<T>, T>;
    std::array<double, 4> sums{};
    int most = 0;
    Global perturbed = 0;
    bool failed = false;
    const auto make = [&]<Scalar F>(F) {
      auto made = std::make_unique<FactorsIn<F>>(A, options);
      perturbed = made->arithmetic.perturbed();
      failed = made->arithmetic.failed();
      if (failed) made->root.reset();
      if (made->root) made->count(*made->root, sums, most);
      made->bytes = sums[3];
      factors_ = std::move(made);
    };
    if (single) make(SingleOf<T>{});
    else make(T{});
    const std::vector<T> diagonal = A.own_diagonal();
    if (failed)
      for (const T& d : diagonal) {
        const T inverse = T(1) / d;
        factors_->inverse.push_back(is_finite(inverse) ? inverse : T(1));
      }
    const double mine[6] = {sums[0], sums[1], sums[2], sums[3], double(perturbed), failed ? 1.0 : 0.0};
    double all[6] = {};
    for (int i = 0; i < 6; ++i) all[i] = comm.all_sum(mine[i]);
    report_.dense_blocks = Global(all[0]), report_.low_rank_blocks = Global(all[1]);
    report_.mean_rank = all[1] > 0 ? all[2] / all[1] : 0;
    report_.max_rank = int(comm.all_max(Global(most)));
    report_.bytes = all[3];
    report_.perturbed = Global(all[4]);
    report_.single = single;
    report_.seconds = comm.all_max(wall_time() - start);
    name_ = comm.size() > 1 ? message("hlu (", comm.size(), " diagonal blocks)") : "hlu";
    doubtful_ = report_.perturbed > 0 || all[5] > 0;
    if (report_.perturbed > 0)
      note_ =
          message(report_.perturbed, report_.perturbed == 1 ? " pivot was" : " pivots were", " too small and replaced");
    if (all[5] > 0)
      note_ += message(note_.empty() ? "" : "; ", Global(all[5]), all[5] == 1 ? " block" : " blocks",
                       " could not be factorised and ", all[5] == 1 ? "is" : "are", " inverted by the diagonal alone");
  });
}

template <Scalar T>
Hlu<T>::~Hlu() = default;

template <Scalar T>
int Hlu<T>::begin(const Vector<T, Host>& x, Vector<T, Host>&, bool) const {
  return rows_->start_get(x.data(), x.columns());
}

template <Scalar T>
void Hlu<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const {
  const int k = x.columns();
  std::vector<T> rows(std::size_t(rows_->count()) * std::size_t(k));
  rows_->finish_get(x.data(), k, token, rows.data());
  {
    const Span span("hlu solve", "precond", Trace::on() ? std::int64_t(cost().bytes) : 0);
    const auto solve = [&] { factors_->solve(rows.data(), rows_->count(), k, adjoint); };
    if (report_.single) detail::near_one(rows.data(), rows.data(), rows.size(), solve);
    else solve();
  }
  rows_->finish_put(k, rows_->start_put(rows.data(), k, y.data()), y.data());
}

template <Scalar T>
op::Cost Hlu<T>::cost() const {
  op::Cost c;
  c.bytes = factors_->bytes + 4.0 * rows_->count() * sizeof(T);
  c.flops = factors_->bytes / (report_.single ? sizeof(SingleOf<T>) : sizeof(T)) * (is_complex<T> ? 8 : 2);
  if (const auto* p = rows_->pattern()) {
    const bool replicated = rows_->space().is_replicated();
    c.messages = double(p->send_ranks.size() + (replicated ? 0 : p->receive_ranks.size()));
    c.message_bytes = double(p->send_index.size() + (replicated ? 0 : p->ghosts.size())) * sizeof(T);
  }
  return c;
}

#define TACIT_INSTANTIATE(T) template class Hlu<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
