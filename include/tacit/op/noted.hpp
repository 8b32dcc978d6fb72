// Properties of operators that a solve looks at: Noted (what their construction changed), Varying (not linear).
#pragma once

#include <string>

namespace tacit::op {

/// A second base class of operators, mostly preconditioners, whose construction may change the matrix, such as by
/// replacing pivots or increasing the diagonal. The same on all ranks. Local.
class Noted {
 public:
  /// Describes the changes on all ranks; empty where there are none.
  const std::string& note() const { return note_; }
  /// Whether so much was changed that a failure of the method is probably due to this operator.
  bool is_doubtful() const { return doubtful_; }

 protected:
  ~Noted() = default;
  std::string note_;
  bool doubtful_ = false;
};

/// A second base class of operators that are not linear: their result for a vector may change from call to call, as
/// with preconditioners that iterate.
class Varying {
 public:
  virtual bool varies() const { return true; }

 protected:
  ~Varying() = default;
};
/// Whether an operator (null: no) is a Varying one that varies.
template <class A>
bool varies(const A* a) {
  const auto* const varying = dynamic_cast<const Varying*>(a);
  return varying && varying->varies();
}

}  // namespace tacit::op
