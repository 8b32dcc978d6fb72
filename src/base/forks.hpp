// Locks of the process and fork().
#pragma once

#include <mutex>

#include <pthread.h>

namespace tacit {

/// Makes every fork() wait until no thread holds the mutex, and take it meanwhile: the child has only the calling
/// thread, and another one that held the mutex could never release it there. To be called once for each mutex, which
/// exists until the process ends.
template <std::mutex& (*mutex)()>
int hold_over_forks() {
  return pthread_atfork([] { mutex().lock(); }, [] { mutex().unlock(); }, [] { mutex().unlock(); });
}

}  // namespace tacit
