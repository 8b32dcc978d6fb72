#include <tacit/op/hmatrix/algebra.hpp>

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>

#include "moved_blocks.hpp"
#include "storage.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace tacit::op {
namespace {

template <Scalar T>
std::vector<BlockMatrix<T>> own_blocks(const HMatrix<T>& A) {
  return A.storage().unpack([](const Block&) { return true; });
}

template <Scalar T>
void require_one_tree(const HMatrix<T>& A, const char* what) {
  require(A.has_diagonal(), what, " of an hmatrix whose rows and columns have two cluster trees, or two spaces");
}
template <Scalar T>
void require_real(const HMatrix<T>& A, const char* what, T number) {
  if constexpr (is_complex<T>)
    require(A.options().symmetry != Symmetry::hermitian || number.imag() == 0, what, " is ", number,
            " for an hmatrix that is stored as hermitian; a real number is needed");
  require(is_finite(number), what, " is ", number, "; a finite number is needed");
}

// Rows [first, first + count) of a matrix of k columns and `height` rows, within `rows` rows from row `at` on.
template <Scalar T>
std::vector<T> within(const T* a, std::size_t k, Local height, Local first, Local count, Local rows, Local at) {
  std::vector<T> all(std::size_t(rows) * k, T(0));
  for (std::size_t l = 0; l < k; ++l)
    std::copy_n(a + l * std::size_t(height) + std::size_t(first), count,
                all.data() + l * std::size_t(rows) + std::size_t(at));
  return all;
}

// to += factor (the part of `from` in it). A block of low rank gets more terms.
template <Scalar T>
void add_block(BlockMatrix<T>& to, const BlockMatrix<T>& from, T factor) {
  const Block &a = to.block, &b = from.block;
  const Local top = std::max(a.row_begin, b.row_begin), height = std::min(a.row_end, b.row_end) - top,
              left = std::max(a.column_begin, b.column_begin), width = std::min(a.column_end, b.column_end) - left;
  if (height <= 0 || width <= 0) return;
  if (to.dense) {
    T* const corner =
        to.u.data() + std::size_t(top - a.row_begin) + std::size_t(left - a.column_begin) * std::size_t(a.rows());
    if (!from.dense)
      return lapack::gemm('N', 'C', height, width, from.rank, factor, from.u.data() + (top - b.row_begin), b.rows(),
                          from.v.data() + (left - b.column_begin), b.columns(), T(1), corner, a.rows());
    for (std::size_t c = 0; c < std::size_t(width); ++c) {
      const T* const source = from.u.data() + std::size_t(top - b.row_begin) +
                              (std::size_t(left - b.column_begin) + c) * std::size_t(b.rows());
      for (std::size_t r = 0; r < std::size_t(height); ++r) corner[r + c * std::size_t(a.rows())] += factor * source[r];
    }
    return;
  }
  const std::size_t k = std::size_t(from.dense ? width : from.rank);
  std::vector<T> u, v;
  if (from.dense) {  // the part itself, and columns of the identity
    u = within(from.u.data() + std::size_t(left - b.column_begin) * std::size_t(b.rows()), k, b.rows(),
               top - b.row_begin, height, a.rows(), top - a.row_begin);
    v.assign(std::size_t(a.columns()) * k, T(0));
    for (std::size_t l = 0; l < k; ++l) v[std::size_t(left - a.column_begin) + l + l * std::size_t(a.columns())] = T(1);
  } else {
    u = within(from.u.data(), k, b.rows(), top - b.row_begin, height, a.rows(), top - a.row_begin);
    v = within(from.v.data(), k, b.columns(), left - b.column_begin, width, a.columns(), left - a.column_begin);
  }
  for (T& one : u) one *= factor;
  to.u.insert(to.u.end(), u.begin(), u.end());
  to.v.insert(to.v.end(), v.begin(), v.end());
  to.rank += Local(k);
}

// Adds blocks of B to those of A, which overlap: by recursion over pairs of clusters.
template <Scalar T>
class Adding {
 public:
  Adding(const ClusterTree& tree, std::vector<BlockMatrix<T>>& to, const std::vector<BlockMatrix<T>>& from, T factor)
      : tree_(tree), to_(to), from_(from), factor_(factor) {
    Places all(to.size()), others(from.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    for (std::size_t i = 0; i < others.size(); ++i) others[i] = i;
    pair(0, 0, all, others);
  }

 private:
  using Places = std::vector<std::size_t>;
  void pair(int s, int t, const Places& to, const Places& from) {
    if (to.empty() || from.empty()) return;
    const Cluster &rows = tree_.clusters()[std::size_t(s)], &columns = tree_.clusters()[std::size_t(t)];
    if (to.size() == 1 || (rows.is_leaf() && columns.is_leaf())) {
      for (const std::size_t i : to)
        for (const std::size_t j : from) add_within(i, j, rows, columns);
      return;
    }
    for (int p = 0; p < (rows.is_leaf() ? 1 : 2); ++p)
      for (int q = 0; q < (columns.is_leaf() ? 1 : 2); ++q) {
        const int row = rows.is_leaf() ? s : rows.child[p], column = columns.is_leaf() ? t : columns.child[q];
        pair(row, column, those_in(row, column, to_, to), those_in(row, column, from_, from));
      }
  }
  Places those_in(int s, int t, const std::vector<BlockMatrix<T>>& blocks, const Places& of) const {
    const Cluster &rows = tree_.clusters()[std::size_t(s)], &columns = tree_.clusters()[std::size_t(t)];
    Places found;
    for (const std::size_t i : of) {
      const Block& b = blocks[i].block;
      if (b.row_begin < rows.end && b.row_end > rows.begin && b.column_begin < columns.end &&
          b.column_end > columns.begin)
        found.push_back(i);
    }
    return found;
  }
  // Each pair once: where the corner of what they share is.
  void add_within(std::size_t i, std::size_t j, const Cluster& rows, const Cluster& columns) {
    const Block &a = to_[i].block, &b = from_[j].block;
    const Local top = std::max(a.row_begin, b.row_begin), left = std::max(a.column_begin, b.column_begin);
    if (top >= rows.begin && top < rows.end && left >= columns.begin && left < columns.end)
      add_block(to_[i], from_[j], factor_);
  }

  const ClusterTree& tree_;
  std::vector<BlockMatrix<T>>& to_;
  const std::vector<BlockMatrix<T>>& from_;
  T factor_;
};

double error_of(double factor, const HMatrixReport& r) {
  return factor * r.estimated_error * r.norm;
}

}  // namespace

bool same_tree(const ClusterTree& a, const ClusterTree& b) {
  if (&a == &b) return true;
  const auto &s = a.clusters(), &t = b.clusters();
  return std::equal(a.order().begin(), a.order().end(), b.order().begin(), b.order().end()) && s.size() == t.size() &&
         std::equal(s.begin(), s.end(), t.begin(), [](const Cluster& p, const Cluster& q) {
           return p.begin == q.begin && p.end == q.end && p.child[0] == q.child[0] && p.child[1] == q.child[1];
         });
}

template <Scalar T>
std::unique_ptr<HMatrix<T>> shifted(const HMatrix<T>& A, T scale, T shift, const Vector<T>* d) {
  return comm::collective(A.range().comm(), [&] {
    require_one_tree(A, "a shift");
    require_real(A, "the scale", scale), require_real(A, "the shift", shift);
    require(!d || (d->space() == A.range() && d->columns() == 1), "a diagonal of ", d ? d->space().size() : 0, " x ",
            d ? d->columns() : 0, " numbers for an hmatrix of ", A.range().size(), " rows");
    std::vector<T> diagonal(std::size_t(A.rows().count()), shift);
    if (d) {
      std::vector<T> own(diagonal.size());
      A.rows().finish_get(d->data(), 1, A.rows().start_get(d->data(), 1), own.data());
      for (std::size_t i = 0; i < own.size(); ++i) diagonal[i] += own[i], require_real(A, "an element of d", own[i]);
    }
    auto blocks = own_blocks(A);
    for (auto& m : blocks) {
      for (T& u : m.u) u *= scale;
      const Block& b = m.block;
      for (Local l = std::max(b.row_begin, b.column_begin); m.dense && l < std::min(b.row_end, b.column_end); ++l)
        m.u[std::size_t(l - b.row_begin) + std::size_t(l - b.column_begin) * std::size_t(b.rows())] +=
            diagonal[std::size_t(l - A.rows().first())];
    }
    // Errors of storage again, small beside those that A has.
    const double least = 4 * double(std::numeric_limits<real_t<T>>::epsilon());
    return std::make_unique<HMatrix<T>>(A, std::move(blocks), A.options().symmetry,
                                        std::max(least, A.options().tolerance / 8),
                                        error_of(std::abs(scale), A.report()));
  });
}

template <Scalar T>
std::unique_ptr<HMatrix<T>> sum(T alpha, const HMatrix<T>& A, T beta, const HMatrix<T>& B, double tolerance) {
  const auto& comm = A.range().comm();
  return comm::collective(comm, [&] {
    const Span span("hmatrix sum", "op");
    require_one_tree(A, "a sum"), require_one_tree(B, "a sum");
    require(B.range() == A.range(), "the sum of hmatrices of ", A.range().size(), " and ", B.range().size(),
            " rows, or of two spaces");
    require(same_tree(*A.row_tree(), *B.row_tree()),
            "the sum of hmatrices over two cluster trees: both need the same points, bisection and leaf_size");
    require(A.options().symmetry == B.options().symmetry, "the sum of hmatrices with symmetry ",
            to_string(A.options().symmetry), " and ", to_string(B.options().symmetry), "; both need the same");
    require_real(A, "alpha", alpha), require_real(A, "beta", beta);
    auto blocks = own_blocks(A);
    if (alpha != T(1))
      for (auto& m : blocks)
        for (T& u : m.u) u *= alpha;
    auto others = own_blocks(B);
    if (comm.size() > 1) others = detail::moved_to_rows(comm, std::move(others), A.rows().cuts());
    Adding<T>(*A.row_tree(), blocks, others, beta);
    return std::make_unique<HMatrix<T>>(
        A, std::move(blocks), A.options().symmetry, tolerance,
        std::hypot(error_of(std::abs(alpha), A.report()), error_of(std::abs(beta), B.report())));
  });
}

template <Scalar T>
std::unique_ptr<HMatrix<T>> add_low_rank(const HMatrix<T>& A, const Vector<T>& U, const Vector<T>& V,
                                         double tolerance) {
  const auto& comm = A.range().comm();
  return comm::collective(comm, [&] {
    const Span span("hmatrix correction", "op");
    require_one_tree(A, "a correction of low rank");
    require(U.space() == A.range() && V.space() == A.range() && U.columns() == V.columns(), "factors of ",
            U.space().size(), " x ", U.columns(), " and ", V.space().size(), " x ", V.columns(), " for an hmatrix of ",
            A.range().size(), " rows");
    const std::size_t k = std::size_t(U.columns()), n = std::size_t(A.row_tree()->size());
    const auto order = A.row_tree()->order();
    const auto by_position = [&](const Vector<T>& x) {
      std::vector<T> all(x.data(), x.data() + x.size()), found(n * k);
      if (comm.size() > 1 && !A.range().is_replicated()) all = comm.all_gather(std::span<const T>(all));
      for (std::size_t p = 0; p < n; ++p)
        for (std::size_t c = 0; c < k; ++c) found[c * n + p] = all[std::size_t(order[p]) * k + c];
      return found;
    };
    const BlockMatrix<T> whole{{0, Local(n), 0, Local(n), true}, false, Local(k), by_position(U), by_position(V)};
    auto blocks = own_blocks(A);
    for (auto& m : blocks) add_block(m, whole, T(1));
    return std::make_unique<HMatrix<T>>(A, std::move(blocks), A.options().symmetry, tolerance, error_of(1, A.report()));
  });
}

#define TACIT_INSTANTIATE(T)                                                                    \
  template std::unique_ptr<HMatrix<T>> shifted(const HMatrix<T>&, T, T, const Vector<T>*);      \
  template std::unique_ptr<HMatrix<T>> sum(T, const HMatrix<T>&, T, const HMatrix<T>&, double); \
  template std::unique_ptr<HMatrix<T>> add_low_rank(const HMatrix<T>&, const Vector<T>&, const Vector<T>&, double);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
