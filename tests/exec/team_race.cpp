// A kernel whose barrier can be left out, for ThreadSanitizer. Built with -fsanitize=thread it must pass when run with
// "barrier" and be reported when run with "none": this shows that ThreadTeam makes races visible. Run by one thread the
// kernel gives correct sums in both cases.
#include <tacit/exec/team.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace tacit;

/// out[i] = the sum of the values that the left and right neighbours of thread i put into shared memory.
struct Neighbours {
  static constexpr int threads = 8;
  struct Shared {
    int value[threads];
  };
  bool wait;
  int* out;
  template <exec::Team T>
  void operator()(const T& team, Shared& shared) const {
    exec::for_items<threads>(team, [&](int i) { shared.value[i] = i; });
    if (wait) team.barrier();
    exec::for_items<threads>(team, [&](int i) {
      out[team.block() * threads + i] = shared.value[(i + 1) % threads] + shared.value[(i + threads - 1) % threads];
    });
  }
};

}  // namespace

int main(int count, char** words) {
  const bool wait = count < 2 || std::strcmp(words[1], "none") != 0;
  std::vector<int> serial(20 * Neighbours::threads), threads(serial.size());
  exec::launch_serial(20, Neighbours{wait, serial.data()});
  exec::launch_threads(20, Neighbours{wait, threads.data()});
  for (int i = 0; i < Neighbours::threads; ++i)
    if (serial[i] != (i + 1) % 8 + (i + 7) % 8) return std::puts("the serial run is wrong"), 2;
  if (wait && serial != threads) return std::puts("the threads' run is wrong"), 3;
  return 0;
}
