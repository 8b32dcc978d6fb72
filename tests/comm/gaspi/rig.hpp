// What a test can set of the GASPI library that rig.cpp makes of shared memory.
#pragma once

#include <cstdint>

namespace tacit::gaspi_rig {

enum class Fault {
  none,
  slow,              // none: the standard allows that an entry takes milliseconds
  flag_before_data,  // a notification is there before the data that it belongs to
  wait_at_once,      // gaspi_wait returns before the entries of the queue have been read
  stuck              // nothing that is posted is ever done
};

/// From the next call on; on all ranks alike. The seed decides when and in which order posted entries are done,
/// and how many a queue takes.
void set(std::uint64_t seed, Fault fault = Fault::none);

/// Entries that were done, calls that found their queue full, and notifications that were overwritten unread, on this
/// rank since it started.
struct Counts {
  long done, full, overwritten;
};
Counts counts();

}  // namespace tacit::gaspi_rig
