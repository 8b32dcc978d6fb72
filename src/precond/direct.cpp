#include <tacit/precond/direct.hpp>

#include "scalar.hpp"
#include "sparse_lu.hpp"
#include "symbolic.hpp"

#include <tacit/base/free_memory.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/layout/partitioners.hpp>
#include "precond/matching.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace tacit::precond {
namespace {

template <Scalar T>
using wide_t = std::conditional_t<is_complex<T>, std::complex<double>, double>;

// Added to the diagonal of a singular matrix whose diagonal has entries of magnitude 1/2 to 2: sqrt(epsilon).
constexpr double shift = 0x1p-26;
// Columns of right-hand sides that are solved at a time.
constexpr int most_columns = 64;

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

std::string gibibytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", bytes / 0x1p30);
  return text;
}

/// Orders with little fill: AMD's, or METIS's where the factors are large and it saves operations.
Elimination ordered(const layout::LocalGraph& graph) {
  if (!layout::amd_built() && !layout::metis_built()) return elimination(graph, layout::reverse_cuthill_mckee(graph));
  if (!layout::amd_built()) return elimination(graph, layout::nested_dissection(graph));
  auto best = elimination(graph, layout::minimum_degree(graph));
  // Operations between which dissection, which takes longer than minimum degree, may save more than it costs, and is
  // likely to bring the factors within reach.
  constexpr double least = 1e9, most = 1e14;
  if (best.flops < least || best.flops > most || !layout::metis_built()) return best;
  auto other = elimination(graph, layout::nested_dissection(graph));
  return other.flops < best.flops ? std::move(other) : std::move(best);
}

[[noreturn]] void not_built() {
  throw Error(
      ErrorKind::environment,
      "this build of Tacit has no sparse direct solver: it was made without Eigen; install Eigen (libeigen3-dev) "
      "and build again, or take precond \"ilut\"");
}

}  // namespace

bool direct_built() noexcept {
#ifdef TACIT_HAVE_EIGEN
  return true;
#else
  return false;
#endif
}

template <Scalar T>
struct DirectAnalysis<T>::Matrix {
  op::LocalRows<T> rows;  // until it is factorised
  Local n = 0;
  Global own_entries = 0;
  Matching matching;
  std::vector<Local> order;   // of the matched matrix: the row of A that is eliminated as number k
  Local structural_row = -1;  // a row for which no entry was left

  void analyse(DirectCount& count) {
    n = rows.count();
    own_entries = Global(rows.column.size());
    matching = maximum_product_matching(rows);
    std::vector<Local> place(std::size_t(n), 0);  // of a column of A in the matched matrix
    for (Local i = 0; i < n; ++i) place[std::size_t(matching.column[std::size_t(i)])] = i;
    layout::LocalGraph graph;
    graph.start = rows.start;
    graph.column.resize(rows.column.size());
    for (std::size_t k = 0; k < rows.column.size(); ++k) graph.column[k] = place[std::size_t(rows.column[k])];
    auto found = ordered(layout::symmetrised(graph));
    order = std::move(found.order);
    for (Local i = 0; matching.unmatched > 0 && i < n && structural_row < 0; ++i) {
      bool has_entry = false;
      for (Global k = rows.start[std::size_t(i)]; k < rows.start[std::size_t(i) + 1]; ++k)
        has_entry = has_entry || (rows.column[std::size_t(k)] == matching.column[std::size_t(i)] &&
                                  rows.value[std::size_t(k)] != T(0));
      if (!has_entry) structural_row = i;
    }
    count.entries = found.entries, count.flops = found.flops;
    count.bytes = sparse_lu_bytes(found.entries, double(own_entries), double(n), sizeof(wide_t<T>));
  }

  /// The matched, scaled and reordered matrix plus `added` times the identity, by columns.
  ByColumns<wide_t<T>> by_columns(double added) const {
    using W = wide_t<T>;
    std::vector<Local> at_column(order.size());
    for (Local k = 0; k < n; ++k) at_column[std::size_t(matching.column[std::size_t(order[std::size_t(k)])])] = k;
    ByColumns<W> c;
    c.start.assign(std::size_t(n) + 1, 0);
    for (const Local j : rows.column) ++c.start[std::size_t(at_column[std::size_t(j)]) + 1];
    // A place for each diagonal entry: zero where A has none there.
    for (Local k = 0; k < n; ++k) c.start[std::size_t(k) + 1] += c.start[std::size_t(k)] + 1;
    std::vector<std::int64_t> next(c.start.begin(), c.start.end() - 1);
    c.row.resize(std::size_t(c.start.back())), c.value.resize(std::size_t(c.start.back()));
    std::vector<std::int64_t> ends(next);
    for (Local k = 0; k < n; ++k) {  // rows ascend in each column
      const Local i = order[std::size_t(k)];
      const auto put = [&](Local column, W value) {
        auto& end = ends[std::size_t(column)];
        if (end > next[std::size_t(column)] && c.row[std::size_t(end) - 1] == k) c.value[std::size_t(end) - 1] += value;
        else c.row[std::size_t(end)] = k, c.value[std::size_t(end)] = value, ++end;
      };
      put(k, W(added));
      for (Global e = rows.start[std::size_t(i)]; e < rows.start[std::size_t(i) + 1]; ++e) {
        const Local j = rows.column[std::size_t(e)];
        put(at_column[std::size_t(j)],
            times_power(W(rows.value[std::size_t(e)]),
                        matching.row_exponent[std::size_t(i)] + matching.column_exponent[std::size_t(j)]));
      }
    }
    // Columns with a stored diagonal entry have one place too many.
    std::int64_t to = 0;
    for (Local k = 0; k < n; ++k) {
      const std::int64_t from = c.start[std::size_t(k)], end = ends[std::size_t(k)];
      c.start[std::size_t(k)] = to;
      for (std::int64_t e = from; e < end; ++e, ++to) {
        c.row[std::size_t(to)] = c.row[std::size_t(e)];
        c.value[std::size_t(to)] = c.value[std::size_t(e)];
      }
    }
    c.start.back() = to;
    c.row.resize(std::size_t(to)), c.value.resize(std::size_t(to));
    return c;
  }
};

/// Between the vectors of A and those of the rank that has the matrix.
template <Scalar T>
struct DirectAnalysis<T>::Gathering {
  layout::Space space;  // all on rank 0
  op::Csr<T, Host> identity;
  mutable std::unique_ptr<std::pair<op::Vector<T, Host>, op::Vector<T, Host>>> vectors{};

  static op::Rows<T> ones(const layout::Space& all) {
    op::Rows<T> rows;
    for (Global g = 0; g < all.local_size(); ++g) {
      rows.column.push_back(g), rows.value.push_back(T(1));
      rows.start.push_back(g + 1);
    }
    return rows;
  }
  Gathering(const layout::Space& all, const layout::Space& of_A) : space(all), identity(all, of_A, ones(all)) {}
};

template <Scalar T>
DirectAnalysis<T>::DirectAnalysis(const op::Csr<T, Host>& A) : space_(A.range()) {
  const auto& comm = space_.comm();
  comm::collective(comm, [&] {
    if (!direct_built()) not_built();
    require(A.range() == A.domain(), "direct needs a square matrix with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    require(A.fault().empty(), "direct: ", A.fault());
    const Global n = space_.size();
    require(n < std::numeric_limits<Local>::max(), "direct: ", n, " unknowns; at most ",
            std::numeric_limits<Local>::max() - 1, " are done");
    auto rows = A.rows();
    const bool alone = comm.size() == 1 || space_.is_replicated();
    if (!alone) {
      std::vector<Global> counts(std::size_t(comm.size()), 0), row;
      counts[0] = n;
      for (Local i = 0; i < rows.count(); ++i)
        row.resize(std::size_t(rows.start[std::size_t(i) + 1]), space_.begin() + i);
      const auto all = layout::Partition::of_counts(counts);
      rows = op::assemble<T>(comm, all, n, row, std::span<const Global>(rows.column), std::span<const T>(rows.value));
      gathering_ = std::make_unique<Gathering>(layout::Space::distributed(comm, all), space_);
    }
    double found[4] = {0, 0, 0, 0};
    comm::collective(comm, [&] {  // an error of the rank that has the matrix is one of all
      if (!alone && comm.rank() != 0) return;
      matrix_ = std::make_unique<Matrix>();
      auto& local = matrix_->rows;
      local.columns = Local(n);
      local.start = std::move(rows.start);
      local.column.assign(rows.column.begin(), rows.column.end());
      local.value.assign(rows.value.begin(), rows.value.end());
      matrix_->analyse(count_);
      count_.free = double(least_memory_limit().free);
      found[0] = count_.entries, found[1] = count_.flops, found[2] = count_.bytes, found[3] = count_.free;
    });
    if (alone && comm.size() > 1) found[3] /= comm.size();  // each holds factors of its own
    if (comm.size() > 1) {
      count_.entries = comm.all_max(found[0]), count_.flops = comm.all_max(found[1]);
      count_.bytes = comm.all_max(found[2]), count_.free = alone ? -comm.all_max(-found[3]) : comm.all_max(found[3]);
    }
  });
}

template <Scalar T>
DirectAnalysis<T>::DirectAnalysis(DirectAnalysis&&) noexcept = default;
template <Scalar T>
DirectAnalysis<T>::~DirectAnalysis() = default;

template <Scalar T>
struct Direct<T>::Factors {
  SparseLu<wide_t<T>> lu;
};

template <Scalar T>
Direct<T>::Direct(const op::Csr<T, Host>& A) : Direct(DirectAnalysis<T>(A)) {}

template <Scalar T>
Direct<T>::Direct(DirectAnalysis<T> analysis)
    : op::Operator<T, Host>(analysis.space_, analysis.space_), analysis_(std::move(analysis)) {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    const DirectCount& c = count();
    const std::string sum =
        message("complete factors of ", this->range().size(), " unknowns have ", scientific(c.entries),
                " entries by the symbolic count, and take ", gibibytes(c.bytes), " of memory");
    if (!c.fits())
      throw Error(ErrorKind::memory,
                  message("direct: ", sum, "; ", gibibytes(c.free), " are free of ", least_memory_limit().name,
                          ": take an iterative method with \"ilut\" or \"amg\""));
    const auto short_of_memory = [&] {
      return Error(ErrorKind::memory, message("direct: not enough memory: ", sum,
                                              ", more with pivots off the diagonal: take an iterative method with "
                                              "\"ilut\" or \"amg\""));
    };
    double words[2] = {0, 0};  // stored entries, length of the note
    comm::collective(comm, [&] {
      if (!analysis_.matrix_) return;
      try {
        factorise();
      } catch (const std::bad_alloc&) {
        throw short_of_memory();
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::memory) throw;
        throw short_of_memory();
      }
      words[0] = factors_->lu.entries(), words[1] = double(note_.size());
    });
    entries_ = comm.all_max(words[0]);
    if (comm.all_max(words[1]) > 0) {
      note_ = comm.broadcast(note_, 0);
      doubtful_ = true;
    }
  });
}

template <Scalar T>
Direct<T>::~Direct() = default;

template <Scalar T>
void Direct<T>::factorise() {
  auto& m = *analysis_.matrix_;
  const Span span("direct factorisation", "exec", std::int64_t(count().bytes), count().flops);
  double added = 0;
  if (m.structural_row >= 0) {
    added = shift;
    note_ = message("A is structurally singular: no entry is left for row ", m.structural_row, " and column ",
                    m.matching.column[std::size_t(m.structural_row)],
                    " (counted from 0); these are the factors of a "
                    "matrix nearby");
  }
  for (;;) {
    factors_.reset(new Factors{SparseLu<wide_t<T>>(m.by_columns(added), count().entries)});
    const auto at = factors_->lu.zero_pivot();
    if (at < 0) break;
    if (note_.empty())
      note_ = message("A is singular: no pivot is left in column ",
                      m.matching.column[std::size_t(m.order[std::size_t(at)])],
                      " (counted from 0) when it is eliminated; these are the factors of a matrix nearby");
    // Where a shift hits an eigenvalue, another one does not.
    added = added == 0 ? shift : 3 * added;
    require(added < 1, "direct: A is singular");
  }
  m.rows = {};
}

template <Scalar T>
op::Cost Direct<T>::cost() const {
  op::Cost total;
  if (analysis_.gathering_) {
    total = analysis_.gathering_->identity.cost();
    const auto back = analysis_.gathering_->identity.adjoint_cost();
    total.messages += back.messages, total.message_bytes += back.message_bytes;
    total.bytes += back.bytes, total.flops += back.flops;
  }
  if (!factors_) return total;
  total.flops += 2 * entries_;
  total.bytes += entries_ * double(sizeof(wide_t<T>) + sizeof(std::int64_t) / 2);
  return total;
}

template <Scalar T>
void Direct<T>::solve(const op::Vector<T, Host>& x, op::Vector<T, Host>& y, bool adjoint) const {
  using W = wide_t<T>;
  const auto& m = *analysis_.matrix_;
  const auto k = std::size_t(x.columns()), n = std::size_t(m.n);
  const Span span("direct solve", "exec", std::int64_t(entries_ * sizeof(W)), 2 * entries_ * double(k));
  std::vector<W> work(n * std::min<std::size_t>(k, most_columns));
  // A^-1 = C P^T (Q L U)^-1 P R, and the adjoint with R and C in each other's place.
  for (std::size_t from = 0; from < k; from += most_columns) {
    const std::size_t columns = std::min<std::size_t>(k - from, most_columns);
    for (std::size_t p = 0; p < n; ++p) {
      const auto i = std::size_t(m.order[p]), j = std::size_t(m.matching.column[i]);
      const int e = adjoint ? m.matching.column_exponent[j] : m.matching.row_exponent[i];
      for (std::size_t c = 0; c < columns; ++c)
        work[c * n + p] = times_power(W(x.data()[(adjoint ? j : i) * k + from + c]), e);
    }
    factors_->lu.solve(work.data(), std::int64_t(columns), adjoint);
    for (std::size_t p = 0; p < n; ++p) {
      const auto i = std::size_t(m.order[p]), j = std::size_t(m.matching.column[i]);
      const int e = adjoint ? m.matching.row_exponent[i] : m.matching.column_exponent[j];
      for (std::size_t c = 0; c < columns; ++c)
        y.data()[(adjoint ? i : j) * k + from + c] = T(times_power(work[c * n + p], e));
    }
  }
}

template <Scalar T>
void Direct<T>::finish(const op::Vector<T, Host>& x, op::Vector<T, Host>& y, bool adjoint, int) const {
  const auto* gathering = analysis_.gathering_.get();
  if (!gathering) return solve(x, y, adjoint);
  auto& vectors = gathering->vectors;
  if (!vectors || vectors->first.columns() != x.columns()) {
    using Vector = op::Vector<T, Host>;
    vectors = std::make_unique<std::pair<Vector, Vector>>(Vector(gathering->space, x.columns()),
                                                          Vector(gathering->space, x.columns()));
  }
  gathering->identity.apply(x, vectors->first);
  if (factors_) solve(vectors->first, vectors->second, adjoint);
  gathering->identity.apply_adjoint(vectors->second, y);
}

#define TACIT_INSTANTIATE(T)        \
  template class DirectAnalysis<T>; \
  template class Direct<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
