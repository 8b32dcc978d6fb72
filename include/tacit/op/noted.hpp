// Notes of operators for the solve that uses them: Noted (what the construction had to change), Varying.
#pragma once

#include <string>

namespace tacit::op {

/// A second base of operators, mostly preconditioners, whose construction may have to change the matrix: replace
/// pivots, raise a diagonal. The same on all ranks. Local.
class Noted {
 public:
  /// What was changed, over all ranks; empty when nothing.
  const std::string& note() const { return note_; }
  /// Whether so much was changed that a failure of the method is probably due to this operator.
  bool is_doubtful() const { return doubtful_; }

 protected:
  ~Noted() = default;
  std::string note_;
  bool doubtful_ = false;
};

/// A second base of operators that are no linear maps: what they do to a vector changes from call to call, as of
/// preconditioners that iterate.
class Varying {
 public:
  virtual bool varies() const { return true; }

 protected:
  ~Varying() = default;
};
template <class A>
bool varies(const A* a) {
  const auto* const varying = dynamic_cast<const Varying*>(a);
  return varying && varying->varies();
}

}  // namespace tacit::op
