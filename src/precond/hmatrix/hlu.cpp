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

// The leaves of least time and memory are some ten times as large as ranks are, which are here those of A, fewer for a
// looser tolerance: measured for 4,000 to 20,000 points of a surface and of a volume, docs/notes/hmatrix.md.
template <Scalar T>
Local leaf_size(const op::HMatrix<T>& A, const HluOptions& options) {
  if (options.leaf_size) return *options.leaf_size;
  constexpr Local least = 64, most = 512;
  constexpr double ranks = 11;
  const double digits = std::min(1.0, std::log(options.tolerance) / std::log(A.options().tolerance));
  Local size = least;
  while (size < most && 1.5 * size < ranks * digits * A.report().mean_rank) size *= 2;
  return size;
}

// Whether one triangle of a Hermitian matrix is all that is stored.
template <Scalar T>
bool stored_hermitian(const op::HMatrix<T>& A) {
  const auto symmetry = A.options().symmetry;
  return symmetry == op::Symmetry::hermitian || (!is_complex<T> && symmetry == op::Symmetry::symmetric);
}

// The operator's square part as blocks for arithmetics.
template <Scalar F, Scalar T>
class Builder {
 public:
  // `lower`: without the blocks above the diagonal.
  Builder(const op::HMatrix<T>& A, const HluOptions& options, HArithmetic<F>& arithmetic, bool lower)
      : first_(A.own_rows().first),
        lower_(lower),
        arithmetic_(arithmetic),
        ranges_(ranges_of(*A.row_tree(), A.own_rows().first, A.own_rows().second, leaf_size(A, options))) {
    blocks_ = lower ? A.own_square([](const op::Block& b) { return b.row_end > b.column_begin; }) : A.own_square();
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
        if (!(lower_ && i == j && q > p))
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
        for (int q = 0; q < b.across; ++q)
          if (b.child[p][q]) place(*b.child[p][q], m);
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
    // The part of the block in b.
    const int height = bottom - top, width = right - left;
    std::vector<T> product;
    const T* from = m.u.data() + std::size_t(top - at[0]);
    std::size_t step = rows;
    if (m.dense) {
      from += std::size_t(left - at[2]) * rows;
    } else {
      product.resize(std::size_t(height) * std::size_t(width));
      lapack::gemm('N', 'C', height, width, m.rank, T(1), from, int(rows), m.v.data() + (left - at[2]), int(columns),
                   T(0), product.data(), height);
      from = product.data(), step = std::size_t(height);
    }
    for (std::size_t c = 0; c < std::size_t(width); ++c) {
      F* const to = b.a + std::size_t(top - b.row) + (c + std::size_t(left - b.column)) * std::size_t(b.rows);
      for (std::size_t r = 0; r < std::size_t(height); ++r) to[r] += as_scalar<F>(from[c * step + r]);
    }
  }

  Local first_;
  bool lower_;
  HArithmetic<F>& arithmetic_;
  std::vector<Range> ranges_;
  std::vector<op::BlockMatrix<T>> blocks_;
  std::map<Key, const op::BlockMatrix<T>*> kept_;
  std::vector<HBlock<F>*> dense_;
};

}  // namespace

template <Scalar T>
struct Hlu<T>::Triangles {
  virtual ~Triangles() = default;
  // rows: own rows, k interleaved columns, in place.
  virtual void solve(T* rows, Local n, int k, bool adjoint) const = 0;
  double bytes = 0;        // own
  std::vector<T> inverse;  // of the diagonal, where there are no factors
};

template <Scalar T>
template <Scalar F>
struct Hlu<T>::TrianglesIn final : Hlu<T>::Triangles {
  HArithmetic<F> arithmetic;
  bool cholesky;
  exec::Array<F> memory;
  std::unique_ptr<HBlock<F>> root;
  mutable std::vector<F> x;

  TrianglesIn(const op::HMatrix<T>& A, const HluOptions& options, bool hermitian, double shift)
      : arithmetic(options.tolerance), cholesky(hermitian) {
    const lapack::OneThread alone;
    root = Builder<F, T>(A, options, arithmetic, cholesky).build(memory);
    if (!root) return;
    if (shift > 0) add_to_diagonal(*root, shift);
    exec::branching(HArithmetic<F>::divides(*root), [&] {
      if (cholesky) arithmetic.factorise_hermitian(*root);
      else arithmetic.factorise(*root);
    });
  }

  void add_to_diagonal(HBlock<F>& b, double shift) {
    if (b.is_cut()) return add_to_diagonal(*b.child[0][0], shift), add_to_diagonal(*b.child[1][1], shift);
    for (std::size_t i = 0; i < std::size_t(b.rows); ++i) b.a[i * std::size_t(b.rows) + i] += F(real_t<F>(shift));
  }

  void count(const HBlock<F>& b, std::array<double, 4>& sums, int& most) const {
    if (b.is_cut()) {
      for (int i = 0; i < b.down; ++i)
        for (int j = 0; j < b.across; ++j)
          if (b.child[i][j]) count(*b.child[i][j], sums, most);
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
    const bool turns = adjoint && !cholesky;  // L L^H is its own adjoint
    const auto turned = [&](const auto& v) { return turns ? conj(v) : v; };
    for (Local i = 0; i < n; ++i)
      for (int c = 0; c < k; ++c)
        x[std::size_t(c) * std::size_t(n) + std::size_t(i)] = as_scalar<F>(turned(rows[std::size_t(i) * k + c]));
    const lapack::OneThread alone;
    exec::branching(HArithmetic<F>::solve_divides(*root), [&] {
      if (cholesky) arithmetic.solve_hermitian(*root, x.data(), n, k);
      else if (adjoint) arithmetic.solve_transposed(*root, x.data(), n, k);
      else arithmetic.solve(*root, x.data(), n, k);
    });
    for (Local i = 0; i < n; ++i)
      for (int c = 0; c < k; ++c)
        rows[std::size_t(i) * k + c] = as_scalar<T>(turned(x[std::size_t(c) * std::size_t(n) + std::size_t(i)]));
  }
};

// The factors in precision F, by Cholesky with shifts as long as these are no larger than what truncation changes, else
// by LU. Local.
template <Scalar T>
template <Scalar F>
std::unique_ptr<typename Hlu<T>::Triangles> Hlu<T>::make(const op::HMatrix<T>& A, const HluOptions& options) {
  constexpr int shifts = 3;
  const std::vector<T> diagonal = A.own_diagonal();
  const bool positive = std::all_of(diagonal.begin(), diagonal.end(), [](const T& d) { return real(d) > 0; });
  const bool try_it = options.factors == Factors::cholesky ||
                      (options.factors == Factors::automatic && stored_hermitian(A) && positive);
  std::unique_ptr<TrianglesIn<F>> made;
  if (try_it) {
    double shift = 0;
    for (int i = 0; i <= shifts; ++i) {
      made.reset();
      made = std::make_unique<TrianglesIn<F>>(A, options, true, shift);
      if (!made->arithmetic.failed()) break;
      shift = i == 0 ? options.tolerance * A.report().norm / std::sqrt(double(A.report().rows)) : 10 * shift;
    }
    report_.shift = shift;
  }
  if (!try_it || (made->arithmetic.failed() && options.factors == Factors::automatic)) {
    made.reset();
    made = std::make_unique<TrianglesIn<F>>(A, options, false, 0);
    report_.shift = 0;
  }
  report_.perturbed = made->arithmetic.perturbed();
  report_.cholesky = made->cholesky;
  if (made->arithmetic.failed()) {
    made->root.reset();
    report_.shift = 0;
    for (const T& d : diagonal) {
      const T inverse = T(1) / d;
      made->inverse.push_back(is_finite(inverse) ? inverse : T(1));
    }
  }
  if (made->root) {
    std::array<double, 4> sums{};
    made->count(*made->root, sums, report_.max_rank);
    report_.dense_blocks = Global(sums[0]), report_.low_rank_blocks = Global(sums[1]);
    report_.mean_rank = sums[2], made->bytes = sums[3];
    const auto [log, sign] = made->arithmetic.log_determinant(*made->root, made->cholesky);
    report_.log_determinant = log, report_.sign = as_scalar<std::complex<double>>(std::complex<real_t<F>>(sign));
  }
  return made;
}

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
    require(options.leaf_size.value_or(1) >= 1, "hlu with leaves of at most ", options.leaf_size.value_or(0), " rows");
    require(options.factors != Factors::cholesky || stored_hermitian(A),
            "factors cholesky need a matrix that is stored as hermitian (symmetry), and this one is stored as ",
            to_string(A.options().symmetry), "; lu takes any");
    rows_ = std::make_unique<op::OwnRows<T>>(A.rows().space(), A.row_tree(), A.rows().cuts());
    report_.single = options.precision == FactorPrecision::single ||
                     (options.precision == FactorPrecision::automatic && options.tolerance >= 1e-5 &&
                      detail::fits_single(A.largest())) ||
                     std::is_same_v<SingleOf<T>, T>;
    triangles_ = report_.single ? make<SingleOf<T>>(A, options) : make<T>(A, options);
    agree(comm);
    report_.seconds = comm.all_max(wall_time() - start);
  });
}

// Sums the report over the ranks, and says what is doubtful. Collective.
template <Scalar T>
void Hlu<T>::agree(const comm::Communicator& comm) {
  auto& r = report_;
  const bool failed = !triangles_->inverse.empty();
  const double mine[] = {double(r.dense_blocks), double(r.low_rank_blocks), r.mean_rank,
                         triangles_->bytes,      double(r.perturbed),       failed ? 1.0 : 0.0,
                         r.shift > 0 ? 1.0 : 0.0};
  double all[std::size(mine)];
  for (std::size_t i = 0; i < std::size(mine); ++i) all[i] = comm.all_sum(mine[i]);
  r.dense_blocks = Global(all[0]), r.low_rank_blocks = Global(all[1]);
  r.mean_rank = all[1] > 0 ? all[2] / all[1] : 0;
  r.bytes = all[3];
  r.perturbed = Global(all[4]);
  r.max_rank = int(comm.all_max(Global(r.max_rank)));
  r.shift = comm.all_max(r.shift);
  r.cholesky = comm.all_max(r.cholesky ? 0.0 : 1.0) == 0;
  if (comm.size() > 1 || failed) r.log_determinant = std::numeric_limits<double>::quiet_NaN(), r.sign = 0;
  name_ = r.cholesky ? "h-cholesky" : "hlu";
  if (comm.size() > 1) name_ += message(" (", comm.size(), " diagonal blocks)");
  doubtful_ = r.perturbed > 0 || all[5] > 0;
  const auto say = [&](const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; };
  if (r.perturbed > 0)
    say(message(r.perturbed, r.perturbed == 1 ? " pivot was" : " pivots were", " too small and replaced"));
  if (all[6] > 0)
    say(message(r.shift, " was added to the diagonal",
                comm.size() > 1 ? message(" of ", Global(all[6]), " blocks") : "",
                ", without which it is not positive definite to the tolerance"));
  if (all[5] > 0)
    say(message(Global(all[5]), all[5] == 1 ? " block" : " blocks", " could not be factorised and ",
                all[5] == 1 ? "is" : "are", " inverted by the diagonal alone"));
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
    const auto solve = [&] { triangles_->solve(rows.data(), rows_->count(), k, adjoint); };
    if (report_.single) detail::near_one(rows.data(), rows.data(), rows.size(), solve);
    else solve();
  }
  rows_->finish_put(k, rows_->start_put(rows.data(), k, y.data()), y.data());
}

template <Scalar T>
op::Cost Hlu<T>::cost() const {
  op::Cost c;
  c.bytes = triangles_->bytes + 4.0 * rows_->count() * sizeof(T);
  c.flops = triangles_->bytes / (report_.single ? sizeof(SingleOf<T>) : sizeof(T)) * (is_complex<T> ? 8 : 2);
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
