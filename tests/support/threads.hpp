// How many threads loops take, for as long as a test wants that.
#pragma once

#include <tacit/exec/parallel.hpp>

namespace tacit::test {

/// Loops begun by this thread take up to n threads while it lives, whatever else the machine has to do.
class Threads {
 public:
  explicit Threads(int n) : before_(exec::threads()) {
    exec::detail::heed_load(false);
    use(n);
  }
  ~Threads() {
    use(before_);
    exec::detail::heed_load(true);
  }
  void use(int n) { exec::set_threads(n); }
  Threads(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace tacit::test
