#include <tacit/precond/hmatrix/algebra.hpp>

#include "cell_messages.hpp"
#include "cells.hpp"
#include "scalars.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/comm/mail.hpp>
#include <tacit/op/hmatrix/algebra.hpp>
#include "exec/branches.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace tacit::precond {
namespace {

using detail::Cell, detail::Cells, detail::Grid, detail::HArithmetic, detail::HBlock, detail::HBlockKind;
using op::BlockMatrix, op::HMatrix;

template <Scalar T>
void require_square(const HMatrix<T>& A, const char* what) {
  require(A.has_diagonal(), what, " of an hmatrix whose rows and columns have two cluster trees, or two spaces");
}
void require_tolerance(double tolerance) {
  require(tolerance > 0 && tolerance < 1, "a truncation to ", tolerance, "; a number above 0 and below 1 is needed");
}

// Truncations compare squares, which are infinite or zero.
template <Scalar T>
std::string out_of_range() {
  return message("with numbers whose squares leave the range of ", scalar_name<T>(), ": scale the matrix");
}

// Squares that are zero would lose the blocks without a sign; those that are infinite are found.
template <Scalar T>
void require_squares(const HMatrix<T>& A, const char* what) {
  const double size = A.largest();
  require(size == 0 || size >= 1 || detail::fits_squares<T>(size), what, " of an hmatrix ", out_of_range<T>());
}

// Gives cells the blocks of A. Collective.
template <Scalar T>
void fill(Cells<T>& cells, const HMatrix<T>& A) {
  cells.template build<T>(*A.row_tree(), A.row_tree()->options().leaf_size, A.rows().cuts(), true,
                          [&](Local first, Local last) {
                            return detail::own_pieces(A, cells.grid(), first, last, false, 0, T(1), cells.sent());
                          });
}

template <Scalar T, class F>
void each_leaf(HBlock<T>& b, F&& f) {
  if (!b.is_cut()) return f(b);
  for (int i = 0; i < b.down; ++i)
    for (int j = 0; j < b.across; ++j)
      if (b.child[i][j]) each_leaf(*b.child[i][j], f);
}

template <Scalar T>
void set_zero(HBlock<T>& root) {
  each_leaf(root, [](HBlock<T>& b) {
    if (b.kind == HBlockKind::low) b.low.clear();
    else std::fill_n(b.a, std::size_t(b.rows) * std::size_t(b.columns), T(0));
  });
}

// factor times the leaves of a block, which is emptied.
template <Scalar T>
void take_leaves(HBlock<T>& root, T factor, std::vector<BlockMatrix<T>>& to) {
  each_leaf(root, [&](HBlock<T>& b) {
    BlockMatrix<T> m;
    m.dense = b.kind == HBlockKind::dense;
    m.block = {b.row, b.row + b.rows, b.column, b.column + b.columns, !m.dense};
    if (m.dense) {
      m.u.assign(b.a, b.a + std::size_t(b.rows) * std::size_t(b.columns));
    } else {
      m.rank = b.low.rank, m.u = std::move(b.low.u), m.v = std::move(b.low.v);
      for (T& v : m.v) v = conj(v);
      b.low.clear();
    }
    for (T& u : m.u) u *= factor;
    to.push_back(std::move(m));
  });
}

// The blocks of all ranks as an H-matrix with the rows of A.
template <Scalar T>
std::unique_ptr<HMatrix<T>> gathered(const HMatrix<T>& A, std::vector<BlockMatrix<T>> blocks, double tolerance,
                                     double error) {
  const auto& comm = A.range().comm();
  if (comm.size() > 1) blocks = op::detail::moved_to_rows(comm, std::move(blocks), A.rows().cuts());
  return std::make_unique<HMatrix<T>>(A, std::move(blocks), op::Symmetry::none, tolerance, error);
}

// Cells of one factor that other ranks have.
template <Scalar T>
class Others {
 public:
  Others(comm::Mail& mail, Cells<T>& own, Global first_label) : mail_(mail), own_(own), first_(first_label) {}
  // Sends this rank's cells to the owners of f(place, l): the cells that need it.
  template <class F>
  void send(int rank, F&& needed) {
    const int n = own_.grid().count();
    for (const auto& [place, cell] : own_.own()) {
      std::set<int> to;
      for (int l = 0; l < n; ++l) {
        const auto [i, j] = needed(place, l);
        to.insert(own_.grid().owner(i, j));
      }
      to.erase(rank);
      if (to.empty()) continue;
      bytes::Bytes bytes;
      detail::write_block(bytes, *cell.root);
      mail_.send(std::vector<int>(to.begin(), to.end()), first_ + label(place.first, place.second), std::move(bytes));
    }
  }
  const HBlock<T>& at(int i, int j) {
    if (const auto own = own_.own().find({i, j}); own != own_.own().end()) return *own->second.root;
    auto& cell = cells_[{i, j}];
    if (!cell.root) {
      const auto message = mail_.take(first_ + label(i, j));
      bytes::Reader from(message);
      cell = detail::read_cell<T>(from);
    }
    return *cell.root;
  }

 private:
  Global label(int i, int j) const { return Global(i) * own_.grid().count() + j; }
  comm::Mail& mail_;
  Cells<T>& own_;
  Global first_;
  std::map<std::pair<int, int>, Cell<T>> cells_;
};

// -A B, cell by cell.
template <Scalar T>
std::vector<BlockMatrix<T>> multiply(const comm::Communicator& comm, Cells<T>& a, Cells<T>& b, Cells<T>& c) {
  const int n = a.grid().count();
  comm::Mail mail(comm);
  Others<T> left(mail, a, 0), right(mail, b, Global(n) * n);
  left.send(comm.rank(), [](const auto& place, int l) { return std::pair(place.first, l); });
  right.send(comm.rank(), [](const auto& place, int l) { return std::pair(l, place.second); });
  std::vector<BlockMatrix<T>> blocks;
  for (const auto& [place, cell] : c.own()) {
    HBlock<T>& result = *cell.root;
    set_zero(result);
    for (int k = 0; k < n; ++k) {
      const auto &x = left.at(place.first, k), &y = right.at(k, place.second);
      exec::branching(HArithmetic<T>::divides(result),
                      [&] { c.arithmetic.template subtract_product<false>(x, y, result); });
    }
    c.arithmetic.finish(result);
    take_leaves(result, T(-1), blocks);
  }
  mail.finish();
  return blocks;
}

}  // namespace

template <Scalar T>
std::unique_ptr<HMatrix<T>> product(const HMatrix<T>& A, const HMatrix<T>& B, double tolerance) {
  const auto& comm = A.range().comm();
  return comm::collective(comm, [&] {
    const Span span("hmatrix times hmatrix", "precond");
    require_square(A, "a product"), require_square(B, "a product"), require_tolerance(tolerance);
    require_squares(A, "a product"), require_squares(B, "a product");
    require(A.range() == B.range() && op::same_tree(*A.row_tree(), *B.row_tree()),
            "the product of hmatrices over two cluster trees: both need the same points, bisection and leaf_size");
    const lapack::OneThread alone;
    const Grid grid(*A.row_tree(), comm.size(), A.row_tree()->options().leaf_size);
    Cells<T> a(comm, grid, tolerance, false), b(comm, grid, tolerance, false), c(comm, grid, tolerance, false);
    fill(a, A), fill(b, B), fill(c, A);
    auto blocks = multiply(comm, a, b, c);
    const bool failed = a.arithmetic.failed() || b.arithmetic.failed() || c.arithmetic.failed();
    if (!comm.all(!failed)) throw Error(ErrorKind::input, message("the product of hmatrices ", out_of_range<T>()));
    const auto &p = A.report(), &q = B.report();
    return gathered(A, std::move(blocks), tolerance, (p.estimated_error + q.estimated_error) * p.norm * q.norm);
  });
}

template <Scalar T>
std::unique_ptr<HMatrix<T>> inverse(const HMatrix<T>& A, double tolerance) {
  const auto& comm = A.range().comm();
  return comm::collective(comm, [&] {
    const Span span("hmatrix inverse", "precond");
    require_square(A, "the inverse"), require_tolerance(tolerance), require_squares(A, "the inverse");
    require(comm.size() == 1, "the inverse of an hmatrix on ", comm.size(),
            " ranks; factors (hlu) solve with any number of columns there");
    const lapack::OneThread alone;
    const Grid grid(*A.row_tree(), 1, A.row_tree()->options().leaf_size);
    Cells<T> a(comm, grid, tolerance, false), x(comm, grid, tolerance, false);
    fill(a, A), fill(x, A);
    auto& arithmetic = a.arithmetic;
    HBlock<T>&lu = *a.own().at({0, 0}).root, &inverse = *x.own().at({0, 0}).root;
    set_zero(inverse);
    x.add_to_diagonal(T(1));
    exec::branching(HArithmetic<T>::divides(lu), [&] {
      arithmetic.factorise(lu);
      arithmetic.solve_lower(lu, inverse);
      arithmetic.solve_upper_left(lu, inverse);
      arithmetic.finish(inverse);
    });
    if (arithmetic.perturbed() > 0)
      throw Error(ErrorKind::input, message("the inverse of an hmatrix that is singular to its tolerance: ",
                                            arithmetic.perturbed(), " pivots are zero to rounding"));
    if (arithmetic.failed() || x.arithmetic.failed())
      throw Error(ErrorKind::input, message("the inverse of an hmatrix ", out_of_range<T>()));
    std::vector<BlockMatrix<T>> blocks;
    take_leaves(inverse, T(1), blocks);
    return gathered(A, std::move(blocks), tolerance, 0);
  });
}

#define TACIT_INSTANTIATE(T)                                                                  \
  template std::unique_ptr<HMatrix<T>> product(const HMatrix<T>&, const HMatrix<T>&, double); \
  template std::unique_ptr<HMatrix<T>> inverse(const HMatrix<T>&, double);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
