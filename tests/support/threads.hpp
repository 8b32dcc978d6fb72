// How many threads OpenMP's teams have, for as long as a test wants that.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::test {

/// Teams begun by this thread have n members while it lives; one in builds without OpenMP.
class Threads {
 public:
#ifdef _OPENMP
  static constexpr bool available = true;
  explicit Threads(int n) : before_(omp_get_max_threads()) {
    use(n);
  }
  ~Threads() {
    use(before_);
  }
  void use(int n) {
    omp_set_num_threads(n);
  }

 private:
  int before_;
#else
  static constexpr bool available = false;
  explicit Threads(int) {}
  ~Threads() {}
  void use(int) {}
#endif
 public:
  Threads(const Threads&) = delete;
};

}  // namespace tacit::test
