// The main function of all C++ tests.
//
// With TACIT_TEST_MPI=1 the tests run inside MPI (under mpiexec): rank 0 prints as usual, the others print their
// failures, and the exit code is the worst of all ranks. A rank whose test failed may have left the others inside a
// collective call; when they have not come to the end of the test some seconds later, it ends the job.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#if __has_include(<tacit/comm/communicator.hpp>)
#include <tacit/comm/communicator.hpp>
#define TACIT_TEST_COMM
#endif

namespace {

bool wants_mpi() {
  const char* value = std::getenv("TACIT_TEST_MPI");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

#ifdef TACIT_TEST_COMM

/// Ends the process if it is not told in time that all is well.
class Watchdog {
 public:
  Watchdog(int rank, std::string test, std::chrono::seconds patience)
      : thread_([this, rank, test = std::move(test), patience] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, patience, [this] { return finished_; })) return;
          std::fprintf(stderr, "[rank %d] %s failed here, and other ranks do not come to its end: giving up\n", rank,
                       test.c_str());
          std::fflush(nullptr);
          std::_Exit(1);  // mpiexec ends the other ranks
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
    }
    done_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool finished_ = false;
  std::thread thread_;
};

/// After every test, the ranks wait for each other on a communicator of their own: a failure is seen at its own test.
class Together : public testing::EmptyTestEventListener {
 public:
  explicit Together(tacit::comm::Communicator comm) : comm_(std::move(comm)) {}

  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed() || comm_.rank() == 0) return;  // rank 0 has the usual printer
    std::fprintf(stderr, "[rank %d] %s:%d: failure\n%s\n", comm_.rank(), part.file_name() ? part.file_name() : "?",
                 part.line_number(), part.message());
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    const bool failed = test.result()->Failed();
    std::optional<Watchdog> watchdog;
    if (failed)
      watchdog.emplace(comm_.rank(), std::string(test.test_suite_name()) + "." + test.name(), std::chrono::seconds(15));
    const auto failures = comm_.all_sum(tacit::Global(failed));
    if (failures > 0 && !failed && comm_.rank() == 0)
      std::fprintf(stderr, "[rank 0] %s.%s failed on %lld other rank(s)\n", test.test_suite_name(), test.name(),
                   static_cast<long long>(failures));
  }

 private:
  tacit::comm::Communicator comm_;
};

int run_together() {
  const auto comm = tacit::comm::mpi_world().duplicate();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (comm.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
  }
  listeners.Append(new Together(comm));
  const int failed = RUN_ALL_TESTS();
  return static_cast<int>(comm.all_max(tacit::Global(failed)));
}

#endif

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#ifdef TACIT_TEST_COMM
  if (wants_mpi()) return run_together();
#else
  if (wants_mpi()) return std::fprintf(stderr, "this build has no communicators\n"), 1;
#endif
  return RUN_ALL_TESTS();
}
