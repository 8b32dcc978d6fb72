// Sets the number of threads of loops for the duration of a test.
#pragma once

#include <tacit/exec/parallel.hpp>

namespace tacit::test {

/// While it lives, loops begun by this thread take up to n threads, regardless of the machine's load.
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
