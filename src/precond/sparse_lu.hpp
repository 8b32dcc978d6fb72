// Complete LU factors of a sparse matrix in one process's memory, by Eigen. The only user of Eigen's headers is
// sparse_lu.cpp.
#pragma once

#include <tacit/base/types.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace tacit::precond {

/// A square matrix by columns; rows ascend in each.
template <class W>
struct ByColumns {
  std::vector<std::int64_t> start{0}, row;
  std::vector<W> value;
  std::int64_t count() const { return std::int64_t(start.size()) - 1; }
};

/// L U = Q A, the columns eliminated in the order given. The pivot of a column is its diagonal entry where this has at
/// least a tenth of the largest magnitude, else the largest entry (Q). W: double or std::complex<double>.
template <class W>
class SparseLu {
 public:
  /// `entries`: how many L and U are expected to have, so that memory is taken once. Local; the same bits for any
  /// number of threads (it uses one). Throws std::bad_alloc.
  SparseLu(const ByColumns<W>& a, double entries);
  ~SparseLu();
  SparseLu(const SparseLu&) = delete;
  SparseLu& operator=(const SparseLu&) = delete;

  /// The column in which no pivot was left, so that there are no factors; -1 where there are.
  std::int64_t zero_pivot() const;
  /// Of L and U, with zeros that are stored in dense blocks.
  double entries() const;
  /// x := A^-1 x, or A^-H x, for `columns` columns of A's length, one after the other. Local.
  void solve(W* x, std::int64_t columns, bool adjoint) const;

 private:
  struct Factors;
  std::unique_ptr<Factors> factors_;
};

/// The bytes that making and keeping factors of so many entries takes at most, where pivots are on the diagonal: for a
/// matrix of n columns and so many entries of its own, of a scalar of so many bytes. Local.
double sparse_lu_bytes(double entries, double own_entries, double n, std::size_t scalar);

}  // namespace tacit::precond
