// Adjustable: an operator whose products round what they read or send, and may round less.
#pragma once

#include <tacit/op/operator.hpp>

namespace tacit::op {

/// For methods that need accurate products in some iterations only. A 16-bit copy of x, or a 16-bit message, is off by
/// up to half a unit of its numbers.
template <Scalar T, Memory M = Host>
class Adjustable {
 public:
  virtual ~Adjustable() = default;
  /// This operator, or one with the same entries in the same memory that leaves out every rounding to 16 bits by more
  /// than `relative` (half a unit: 2^-11 of float16, 2^-8 of bfloat16, 2^-15 of messages). It lives as long as this
  /// operator, and shares its buffers: at most two products of both may be in flight. Local, but all ranks need the
  /// same `relative` for the same product.
  virtual const Operator<T, M>& accurate_to(double relative) const = 0;

 protected:
  Adjustable() = default;
  Adjustable(const Adjustable&) = default;
  Adjustable& operator=(const Adjustable&) = default;
};

}  // namespace tacit::op
