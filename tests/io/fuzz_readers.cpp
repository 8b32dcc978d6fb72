// Runs all readers on damaged files and counts the outcomes: fuzz_readers [count] [seed] [sabotage].
// With "sabotage" one input crashes, one hangs and one is reported as wrong, and the program succeeds if it has noticed
// all three.
//
// The inputs are read in a child process, so that a crash or hang is counted, reported with its number and skipped.
// Build with -DTACIT_SANITIZE=address,undefined to detect invalid accesses as crashes.
// With TACIT_LIBFUZZER defined this is a libFuzzer target instead.
#include "io/mutate.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

using namespace tacit::io::test;

bool accepts(const Folder& folder, const std::string& bytes) {
  bool accepted = Checker<std::complex<double>>(folder).accepts(bytes);
  accepted |= Checker<double>(folder).accepts(bytes);
  accepted |= Checker<float>(folder).accepts(bytes);
  return accepted;
}

}  // namespace

#ifdef TACIT_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const Folder folder;
  accepts(folder, std::string(reinterpret_cast<const char*>(bytes), size));
  return 0;
}

#else

namespace {

struct Progress {
  std::uint64_t next, accepted, rejected, wrong;
};

void work(Progress& progress, std::uint64_t seed, std::uint64_t count, const Folder& folder, bool sabotage) {
  while (progress.next < count) {
    const std::uint64_t k = progress.next;
    alarm(sabotage ? 2 : 20);  // time limit of an input in seconds; SIGALRM ends the process
    const std::string bytes = mutation(seed, k);
    try {
      if (sabotage && k == 10) std::abort();
      if (sabotage && k == 20) pause();
      if (sabotage && k == 30) throw std::logic_error("sabotage");
      ++(accepts(folder, bytes) ? progress.accepted : progress.rejected);
    } catch (const std::exception& problem) {
      ++progress.wrong;
      std::fprintf(stderr, "mutation %llu of series %llu: %s\n", static_cast<unsigned long long>(k),
                   static_cast<unsigned long long>(seed), problem.what());
    }
    progress.next = k + 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const bool sabotage = argc > 3 && std::string(argv[3]) == "sabotage";
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto& progress = *new (shared) Progress{};
  const Folder folder;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t crashes = 0, hangs = 0;
  while (progress.next < count) {
    const pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
      work(progress, seed, count, folder, sabotage);
      std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const bool hang = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    ++(hang ? hangs : crashes);
    std::fprintf(stderr, "mutation %llu of series %llu: %s\n", static_cast<unsigned long long>(progress.next),
                 static_cast<unsigned long long>(seed), hang ? "hang" : "crash");
    ++progress.next;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("%llu mutations, %llu accepted, %llu rejected, %llu wrong, %llu crashes, %llu hangs, %.1f s\n",
              number(count), number(progress.accepted), number(progress.rejected), number(progress.wrong),
              number(crashes), number(hangs), seconds.count());
  const std::uint64_t expected = sabotage ? 1 : 0;
  return progress.wrong == expected && crashes == expected && hangs == expected ? 0 : 1;
}

#endif
