#pragma once

#include <tacit/base/lapack.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/precond/make.hpp>
#include "precond/scalar.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tacit::precond {

/// y = B^-1 x, B the dense diagonal blocks of A that couple the unknowns of a node, b at a time, numbered from the
/// first of the whole matrix; of a node that is cut between ranks each rank takes its own part. b = 1 is jacobi. A
/// block that is singular to rounding is inverted by its diagonal alone, where a zero is taken as the largest magnitude
/// of that block (1 in a block of zeros); note() says how many.
///
/// Construction is collective: two reductions, and a dense inverse of b^3 operations a node. B^-1 is a stored matrix,
/// in blocks where that is smaller: an apply is one product with it, without messages. Any memory. Error(usage): a
/// matrix that is not square or has NaN or Inf, and an inverse that leaves the range of the scalar.
template <Scalar T, Memory M>
class NodeJacobi final : public op::Operator<T, M>, public op::Noted {
 public:
  NodeJacobi(const op::Csr<T, M>& A, int b)
      : op::Operator<T, M>(A.domain(), A.range()), name_(message("node-jacobi (", b, ")")) {
    comm::collective(A.range().comm(), [&] {
      require(A.range() == A.domain(),
              "node-jacobi needs a square matrix with rows and columns spread alike; this one is ", A.range().size(),
              " by ", A.domain().size());
      require(b <= 1024, "node-jacobi with ", b, " unknowns at a node; at most 1024 are possible");
      require(A.fault().empty(), "node-jacobi: ", A.fault());
      Global singular = 0;
      inverse_ = std::make_unique<op::Csr<T, M>>(A.range(), A.range(), inverses(A.rows(), A.range(), b, singular));
      require(inverse_->fault().empty(),
              "node-jacobi: the inverse of a block leaves the range of the scalar; scale the matrix");
      singular = A.range().comm().all_sum(singular);
      doubtful_ = singular > 0;
      if (singular)
        note_ = message(singular, singular == 1 ? " block is" : " blocks are",
                        " singular to rounding and inverted by the diagonal alone");
    });
  }
  std::string name() const override { return name_; }
  bool has_adjoint() const override { return true; }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override { return inverse_->diagonal(); }
  double largest() const override { return inverse_->largest(); }
  op::Cost cost() const override { return inverse_->cost(); }
  bool as_tasks() const override { return true; }

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const override {
    if (adjoint) inverse_->apply_adjoint(x, y);
    else inverse_->apply(x, y);
  }

 private:
  /// The inverses of the blocks on this rank as rows of one matrix; adds to `singular` those by the diagonal alone.
  static op::Rows<T> inverses(const op::Rows<T>& a, const layout::Space& space, int b, Global& singular) {
    const Global begin = space.begin(), end = space.end();
    op::Rows<T> all;
    for (Global g = begin; g < end; ++g) {
      for (Global c = std::max(g / b * b, begin); c < std::min(g / b * b + b, end); ++c) all.column.push_back(c);
      all.start.push_back(Global(all.column.size()));
    }
    all.value.resize(all.column.size());
    std::atomic<Global> by_diagonal = 0;
    const lapack::OneThread one;  // the threads are those of this loop
    const Global first = begin / b, nodes = end > begin ? (end - 1) / b - first + 1 : 0;
    exec::parallel_for(std::size_t(nodes), nodes > 1000, [&](std::size_t node) {
      const Global from = std::max((first + Global(node)) * b, begin),
                   to = std::min((first + Global(node) + 1) * b, end);
      const auto n = std::size_t(to - from);
      std::vector<T> block(n * n, T(0));  // by columns
      for (Global g = from; g < to; ++g)
        for (Global k = a.start[std::size_t(g - begin)]; k < a.start[std::size_t(g - begin) + 1]; ++k)
          if (const Global c = a.column[std::size_t(k)]; c >= from && c < to)
            block[std::size_t(c - from) * n + std::size_t(g - from)] = a.value[std::size_t(k)];
      bool inverted = false;
      const std::vector<T> inverse = inverse_of(std::move(block), n, inverted);
      if (!inverted) ++by_diagonal;
      T* const rows = all.value.data() + all.start[std::size_t(from - begin)];
      for (std::size_t i = 0; i < n * n; ++i) rows[i] = inverse[i % n * n + i / n];
    });
    singular += by_diagonal.load();
    return all;
  }
  /// The inverse of an n x n block, by columns; of its diagonal, where the block is singular to rounding. Rows and
  /// columns are scaled by powers of two first: unknowns of a node may be in different units.
  static std::vector<T> inverse_of(std::vector<T> block, std::size_t n, bool& inverted) {
    std::vector<T> result(n * n, T(0)), diagonal(n);
    real_t<T> most = 0;
    for (const T& v : block) most = std::max(most, size_of(v));
    for (std::size_t i = 0; i < n; ++i) diagonal[i] = block[i * n + i], result[i * n + i] = T(1);
    const std::vector<int> by_row = scaled(block, n, 1, n), by_column = scaled(block, n, n, 1);
    std::vector<int> pivot(n);
    const int size = int(n);
    inverted = lapack::lu(block.data(), size, size, pivot.data());
    for (std::size_t i = 0; i < n; ++i)
      inverted = inverted && size_of(block[i * n + i]) > 4 * std::numeric_limits<real_t<T>>::epsilon();
    if (!inverted) {
      for (std::size_t i = 0; i < n; ++i) {
        const T d = diagonal[i] != T(0) ? diagonal[i] : T(most > 0 ? most : real_t<T>(1));
        result[i * n + i] = precond::inverse(d);
      }
      return result;
    }
    for (std::size_t i = 0; i < n; ++i)
      if (const auto other = std::size_t(pivot[i]); other != i)
        for (std::size_t c = 0; c < n; ++c) std::swap(result[c * n + i], result[c * n + other]);
    lapack::trsm('L', 'L', 'N', 'U', size, size, block.data(), size, result.data(), size);
    lapack::trsm('L', 'U', 'N', 'N', size, size, block.data(), size, result.data(), size);
    for (std::size_t i = 0; i < n * n; ++i) result[i] = times_power(result[i], by_column[i % n] + by_row[i / n]);
    return result;
  }
  /// Scales each of n lines (elements line, line + step, ..) so that its largest element is about 1; returns the
  /// exponents.
  static std::vector<int> scaled(std::vector<T>& block, std::size_t n, std::size_t line, std::size_t step) {
    std::vector<int> exponent(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      real_t<T> most = 0;
      for (std::size_t k = 0; k < n; ++k) most = std::max(most, size_of(block[i * line + k * step]));
      if (most > 0) exponent[i] = -std::ilogb(most);
      for (std::size_t k = 0; k < n; ++k)
        block[i * line + k * step] = times_power(block[i * line + k * step], exponent[i]);
    }
    return exponent;
  }
  std::string name_;
  std::unique_ptr<op::Csr<T, M>> inverse_;
};

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_node_jacobi(const op::Csr<T, M>& A, const Options& options) {
  int b = options.block.value_or(0);
  if (b == 0) {
    if constexpr (std::same_as<M, Host>) b = A.unknowns_in_a_node();
    else b = op::Csr<T>(A.range(), A.domain(), A.rows()).unknowns_in_a_node();
  }
  return std::make_unique<NodeJacobi<T, M>>(A, b);
}

}  // namespace tacit::precond
