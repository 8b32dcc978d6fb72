// LocalProduct: what one rank multiplies in an operator that is spread with sums over ranks (tiled_spmm.hpp).
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

/// Y = A X for k columns on one rank, wherever the entries of A come from: stored (TiledMatrix), or computed while they
/// are used.
template <class T>
class LocalProduct {
 public:
  virtual ~LocalProduct() = default;
  virtual Local rows() const = 0;
  virtual Local columns() const = 0;
  /// Element i, column c of X stands at i x_stride + c, likewise Y. Every row is summed in one fixed order: the same
  /// bits for any number of threads. Polls `comm`, if given, in between. Not to be called by two threads at once on one
  /// Y; local.
  virtual void multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm = nullptr,
                        const Clamp<T>* clamp = nullptr) const = 0;

  virtual Global entries() const = 0;
  virtual double largest() const = 0;  ///< max |a_ij|, or a bound; infinite or NaN where an entry is
  virtual double bytes() const = 0;    ///< that a product reads beside the vectors
  /// Operations of a product with one column.
  virtual double flops() const { return 2.0 * double(entries()); }
  virtual std::string fault() const { return {}; }
  /// "bitmap, float16, blocks of 128 rows".
  virtual std::string storage() const = 0;

 protected:
  LocalProduct() = default;
  LocalProduct(const LocalProduct&) = default;
  LocalProduct& operator=(const LocalProduct&) = default;
};

}  // namespace tacit::op
