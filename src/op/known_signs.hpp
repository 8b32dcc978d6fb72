// KnowsSigns: what an operator may know of its diagonal without making it.
#pragma once

#include <tacit/base/types.hpp>

namespace tacit::op {

/// Of the diagonal on this rank: whether all of it is positive, negative.
struct Signs {
  bool positive = true, negative = true;
};

/// A second base class of operators that have a diagonal, and may be asked for its signs again and again.
class KnowsSigns {
 public:
  /// Local.
  virtual Signs signs_of_diagonal() const = 0;

 protected:
  ~KnowsSigns() = default;
};

/// Of the elements of a diagonal, looked at one by one.
template <class Elements>
Signs signs_of(const Elements& diagonal) {
  Signs signs;
  for (const auto& a : diagonal) {
    signs.positive = signs.positive && real(a) > 0;
    signs.negative = signs.negative && real(a) < 0;
  }
  return signs;
}

}  // namespace tacit::op
