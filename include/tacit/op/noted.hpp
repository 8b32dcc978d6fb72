// Noted: what an operator that could not be made quite as asked for says of itself, so that a solve can tell it.
#pragma once

#include <string>

namespace tacit::op {

/// A second base of operators, preconditioners mostly, whose construction may have had to change something: pivots that
/// were replaced, a diagonal that was raised. The same on all ranks. Local.
class Noted {
 public:
  /// What was changed, over all ranks; empty when nothing.
  const std::string& note() const { return note_; }
  /// So much was changed that a method's failure is to be blamed on this operator before the matrix.
  bool is_doubtful() const { return doubtful_; }

 protected:
  ~Noted() = default;
  std::string note_;
  bool doubtful_ = false;
};

}  // namespace tacit::op
