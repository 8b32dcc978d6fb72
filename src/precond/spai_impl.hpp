// Spai over both memory spaces; instantiated by spai.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include "small.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/precond/spai.hpp>
#include "op/multiply.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace tacit::precond {

namespace detail {

/// A row of a distributed matrix: global columns, ascending.
template <Scalar T>
struct RowView {
  const Global* column = nullptr;
  const T* value = nullptr;
  std::size_t size = 0;
};

/// Rows that are owned here, and copies of some that are not (`needed`, ascending). Constructor: collective.
template <Scalar T>
class RowSet {
 public:
  RowSet(const layout::Space& space, op::Rows<T> own, std::vector<Global> needed)
      : begin_(space.begin()), own_(std::move(own)), needed_(std::move(needed)) {
    fetched_ = op::rows_of_others<T>(space, own_, needed_);
  }
  const op::Rows<T>& own() const { return own_; }
  RowView<T> row(Global g) const {
    if (const Global i = g - begin_; i >= 0 && i < own_.count()) return view(own_, i);
    const auto at = std::lower_bound(needed_.begin(), needed_.end(), g);
    if (at == needed_.end() || *at != g) return {};
    return view(fetched_, at - needed_.begin());
  }

 private:
  static RowView<T> view(const op::Rows<T>& rows, Global i) {
    const auto from = std::size_t(rows.start[i]);
    return {rows.column.data() + from, rows.value.data() + from, std::size_t(rows.start[i + 1]) - from};
  }
  Global begin_;
  op::Rows<T> own_, fetched_;
  std::vector<Global> needed_;
};

/// The columns of own row i and i itself, ascending; only those up to i when `lower`.
template <Scalar T>
void pattern_of(const op::Rows<T>& rows, Local i, Global global, bool lower, std::vector<Global>& pattern) {
  pattern.clear();
  for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k)
    if (!lower || rows.column[k] < global) pattern.push_back(rows.column[k]);
  const auto at = std::lower_bound(pattern.begin(), pattern.end(), global);
  if (at == pattern.end() || *at != global) pattern.insert(at, global);
}

/// A row of G: the last row of the inverse of the Cholesky factor of A's entries on the pattern, or of the diagonal
/// alone (`by_itself`) where these are not positive definite. Empty where the diagonal is not positive.
template <Scalar T>
std::vector<T> row_of_factor(const RowSet<T>& set, const std::vector<Global>& pattern, bool& by_itself) {
  const int width = int(pattern.size());
  std::vector<T> a(std::size_t(width) * width), result(width, T(0));
  for (int p = 0; p < width; ++p) {
    const auto row = set.row(pattern[p]);
    std::size_t k = 0;
    for (int q = 0; q < width; ++q) {
      while (k < row.size && row.column[k] < pattern[q]) ++k;
      if (k < row.size && row.column[k] == pattern[q]) a[std::size_t(p) * width + q] = row.value[k];
    }
  }
  const real_t<T> d = real(a.back());
  if (!(d > 0)) return {};
  by_itself = !last_row_of_inverse_factor(a, width, result);
  if (by_itself) {
    std::fill(result.begin(), result.end(), T(0));
    result.back() = T(1 / std::sqrt(d));
  }
  return result;
}

/// Row g of M^H: min || C m - e ||, column p of C is row pattern[p] of the matrix, its rows the columns that occur in
/// any.
template <Scalar T>
std::vector<T> row_of_inverse(const RowSet<T>& set, const std::vector<Global>& pattern, Global g) {
  const int width = int(pattern.size());
  std::vector<Global> reach;
  for (const Global p : pattern) {
    const auto row = set.row(p);
    reach.insert(reach.end(), row.column, row.column + row.size);
  }
  reach.push_back(g);
  std::sort(reach.begin(), reach.end());
  reach.erase(std::unique(reach.begin(), reach.end()), reach.end());
  const int height = int(reach.size());
  std::vector<T> c(std::size_t(height) * width), rhs(height);
  for (int p = 0; p < width; ++p) {
    const auto row = set.row(pattern[p]);
    for (std::size_t k = 0, h = 0; k < row.size; ++k) {
      while (reach[h] < row.column[k]) ++h;
      c[std::size_t(p) * height + h] = row.value[k];
    }
  }
  rhs[std::lower_bound(reach.begin(), reach.end(), g) - reach.begin()] = T(1);
  return least_squares(c, rhs, height, width);
}

}  // namespace detail

/// The rows that an inverse is made of: those of A, or of -A where its diagonal is negative.
template <Scalar T, Memory M>
op::Rows<T> Spai<T, M>::rows_of(const op::Csr<T, M>& A) {
  const auto& space = A.range();
  op::Rows<T> rows = A.rows();
  if (options_.factorised) {
    bool hermitian = false;
    if constexpr (std::same_as<M, Host>) hermitian = op::is_hermitian(A);
    else hermitian = op::is_hermitian(op::Csr<T, Host>(space, space, rows));
    require(hermitian, "fsai needs a Hermitian matrix; this one is not");
  }
  if (options_.local) {
    op::Rows<T> inside;
    for (Local i = 0; i < rows.count(); ++i) {
      for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k)
        if (rows.column[k] >= space.begin() && rows.column[k] < space.end())
          inside.column.push_back(rows.column[k]), inside.value.push_back(rows.value[k]);
      inside.start.push_back(Global(inside.column.size()));
    }
    rows = std::move(inside);
  }
  if (options_.factorised && space.size() > 0) {
    bool below = true;  // a row without a diagonal is not
    for (Local i = 0; i < rows.count() && below; ++i) {
      below = false;
      for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k)
        if (rows.column[k] == space.begin() + i) below = real(rows.value[k]) < 0;
    }
    negative_ = space.comm().all(below);
    if (negative_)
      for (T& a : rows.value) a = -a;
  }
  return rows;
}

/// Rows of the inverse, or of its factor G, by least squares. Collective.
template <Scalar T, Memory M>
op::Rows<T> Spai<T, M>::inverse_of(const detail::RowSet<T>& set, const layout::Space& space) {
  const Local n = space.local_size();
  std::vector<std::vector<Global>> columns(n);
  std::vector<std::vector<T>> values(n);
  std::atomic<Global> diagonals = 0;
  std::atomic<Local> bad_row = n;
  const auto make_row = [&](std::size_t at) {
    const auto i = Local(at);
    const Global g = space.begin() + i;
    detail::pattern_of(set.own(), i, g, options_.factorised, columns[i]);
    if (!options_.factorised) {
      values[i] = detail::row_of_inverse(set, columns[i], g);
      return;
    }
    bool by_itself = false;
    values[i] = detail::row_of_factor(set, columns[i], by_itself);
    if (by_itself) ++diagonals;
    if (!values[i].empty()) return;
    for (Local least = bad_row; i < least && !bad_row.compare_exchange_weak(least, i);) {
    }
  };
  exec::parallel_for(std::size_t(n), n > 1000, make_row, 64);
  require(bad_row == n, "fsai needs a diagonal that is positive (or negative) everywhere; row ",
          space.begin() + bad_row, " (counted from 0) has another sign or a zero");
  const Global by_diagonal = space.comm().all_sum(diagonals.load());
  doubtful_ = by_diagonal > 0;
  if (by_diagonal)
    note_ = message(by_diagonal, by_diagonal == 1 ? " row takes" : " rows take",
                    " the diagonal alone: the small matrix there is not positive definite");
  op::Rows<T> found;
  for (Local i = 0; i < n; ++i) {
    found.column.insert(found.column.end(), columns[i].begin(), columns[i].end());
    found.value.insert(found.value.end(), values[i].begin(), values[i].end());
    found.start.push_back(Global(found.column.size()));
  }
  return found;
}

template <Scalar T, Memory M>
Spai<T, M>::Spai(const op::Csr<T, M>& A, const SpaiOptions& options)
    : op::Operator<T, M>(A.domain(), A.range()), options_(options) {
  const auto& space = A.range();
  comm::collective(space.comm(), [&] {
    const Span span("sparse inverse", "precond");
    const char* const kind = options.factorised ? "fsai" : "spai";
    require(A.range() == A.domain(), kind, " needs a square matrix with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    require(A.fault().empty(), kind, ": ", A.fault());
    op::Rows<T> rows = rows_of(A);
    // Squares of entries are safe after this; an even exponent, so that G takes half of it.
    const int e = A.largest() > 0 ? std::ilogb(A.largest()) / 2 * 2 : 0;
    for (T& a : rows.value) a = times_power(a, -e);
    // ||A M - I|| by columns of M is ||M^H A^H - I|| by rows of M^H.
    if (!options.factorised) rows = op::adjoint(rows, space, space);

    std::vector<Global> needed;
    for (Local i = 0; i < rows.count(); ++i)
      for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k)
        if (const Global c = rows.column[k];
            (c < space.begin() || c >= space.end()) && (!options.factorised || c < space.begin() + i))
          needed.push_back(c);
    std::sort(needed.begin(), needed.end());
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    op::Rows<T> found = inverse_of(detail::RowSet<T>(space, std::move(rows), std::move(needed)), space);
    for (T& v : found.value) v = times_power(v, options.factorised ? -e / 2 : -e);
    if (!options.factorised) found = op::adjoint(found, space, space);
    matrix_ = std::make_unique<op::Csr<T, M>>(space, space, std::move(found));
    require(matrix_->fault().empty(), kind, ": the inverse leaves the range of the scalar; scale the matrix");
  });
}

template <Scalar T, Memory M>
void Spai<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const {
  if (!options_.factorised) return adjoint ? matrix_->apply_adjoint(x, y) : matrix_->apply(x, y);
  if (!between_ || between_->columns() != x.columns())
    between_ = std::make_unique<Vector<T, M>>(this->domain(), x.columns());
  matrix_->apply(x, *between_);
  matrix_->apply_adjoint(*between_, y);
  if (negative_) layout::scale(T(-1), y);
}

template <Scalar T, Memory M>
std::string Spai<T, M>::name() const {
  return std::string(options_.factorised ? "fsai" : "spai") + (negative_ ? " of -A" : "") +
         (options_.local ? " (local)" : "");
}

template <Scalar T, Memory M>
op::Cost Spai<T, M>::cost() const {
  op::Cost c = matrix_->cost();
  if (options_.factorised) c = {2 * c.flops, 2 * c.bytes, 2 * c.messages, 2 * c.message_bytes};
  return c;
}

}  // namespace tacit::precond
