// LocalProduct: the product of one rank's part of an operator that is distributed with sums over ranks
// (tiled_spmm.hpp).
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>

#include <string>

namespace tacit::op {

/// y := min(max(y + bias, low), high) after the product, in the same pass.
template <class T>
struct Clamp {
  T bias, low, high;
};

/// Y = A X for k columns on one rank; the entries of A are stored (TiledMatrix) or computed when they are used.
template <class T>
class LocalProduct {
 public:
  virtual ~LocalProduct() = default;
  virtual Local rows() const = 0;
  virtual Local columns() const = 0;
  /// Element i of column c of X is at i x_stride + c, of Y at i y_stride + c. Every row is summed in a fixed order: the
  /// same bits for any number of threads. Polls `comm`, if given. Local. Calls from several threads at once need
  /// different Y.
  virtual void multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm = nullptr,
                        const Clamp<T>* clamp = nullptr) const = 0;
  /// As multiply(), but reads X in full where that reads a copy in 16 bits.
  virtual void multiply_full(const T* x, int x_stride, T* y, int y_stride, int k,
                             const comm::Communicator* comm = nullptr) const {
    multiply(x, x_stride, y, y_stride, k, comm);
  }

  virtual Global entries() const = 0;
  virtual double largest() const = 0;  ///< max |a_ij|, or a bound; infinite or NaN where an entry is
  virtual double bytes() const = 0;    ///< that a product reads in addition to the vectors
  /// Operations of a product with one column.
  virtual double flops() const { return 2.0 * double(entries()); }
  /// As Operator::fault(), for this rank.
  virtual std::string fault() const { return {}; }
  /// As Operator::intact().
  virtual bool intact() const { return true; }
  /// The storage as text: "bitmap, float16, blocks of 128 rows".
  virtual std::string storage() const = 0;

 protected:
  LocalProduct() = default;
  LocalProduct(const LocalProduct&) = default;
  LocalProduct& operator=(const LocalProduct&) = default;
};

}  // namespace tacit::op
