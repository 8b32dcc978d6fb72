// Timed: seconds of a scope.
#pragma once

#include <tacit/base/trace.hpp>

namespace tacit::precond {

/// Adds the seconds of its lifetime to a number of a report.
class Timed {
 public:
  explicit Timed(double& to) : to_(to), from_(wall_time()) {}
  ~Timed() { to_ += wall_time() - from_; }
  Timed(const Timed&) = delete;

 private:
  double& to_;
  double from_;
};

}  // namespace tacit::precond
