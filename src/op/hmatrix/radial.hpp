// Functions of the distance of two points, and their derivatives, for many pairs at a time.
#pragma once

#include <tacit/op/hmatrix/point_kernels.hpp>

#include <complex>
#include <cstddef>
#include <memory>

namespace tacit::op::detail {

class Radial {
 public:
  virtual ~Radial() = default;
  bool is_complex() const { return complex_; }
  /// Whether a value depends on the difference along an axis, d.
  bool is_directed() const { return directed_; }
  /// re[i] + i im[i] for squared distances r2 and differences d. `im` is written for complex kernels, and d read for
  /// directed ones. In vector registers; r2 is 0, or neither it nor its power 3/2 leaves the range of double.
  virtual void evaluate(const double* r2, const double* d, std::size_t count, double* re, double* im) const = 0;
  /// One value, of any distance.
  virtual std::complex<double> value(long double r2, long double d) const = 0;

 protected:
  Radial(bool complex, bool directed) : complex_(complex), directed_(directed) {}

 private:
  bool complex_, directed_;
};

/// Squared distances for which evaluate() is right.
inline constexpr double least_square = 0x1p-670, most_square = 0x1p+660;

/// variance k(r), or its derivative. Error(usage) for a derivative that the kernel does not have.
std::shared_ptr<const Radial> radial_of(const PointKernel& kernel);

}  // namespace tacit::op::detail
