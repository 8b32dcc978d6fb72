// Schedule: how a product is dealt to the threads of a rank while its halo travels.
//
// A product has an interior part, which needs no ghost, and for each neighbour a part that needs its ghosts. All
// schedules give the same bits and send the same messages. Names: Stoyanov and Pfreundt (2014), "Hybrid-parallel sparse
// matrix-vector multiplication and iterative linear solvers with the communication library GPI".
#pragma once

#include <tacit/base/names.hpp>

namespace tacit::op {

struct Schedule {
  enum class How {
    automatic,    ///< the fastest of the others, timed while products are made; overlapped until then
    overlapped,   ///< all threads the interior, then the halo is waited for, then all threads the rest
    synchronous,  ///< the halo first, then everything (SS)
    split,        ///< some threads wait for the halo and do the rest, the others the interior; rows are dealt out (AS)
    jobs          ///< threads take jobs of a few rows from the interior and from each neighbour that has arrived (AD)
  };
  How how = How::automatic;
  int remote_threads = 1;  ///< of split: threads that wait for the halo; fewer than there are
  int job_rows = 0;        ///< of jobs: rows of a job; 0: some 16 jobs a thread, 512 to 16384 rows each
};

using tacit::to_string;

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::Schedule::How> =
    named<op::Schedule::How>("schedule", {{op::Schedule::How::automatic, "auto"},
                                          {op::Schedule::How::overlapped, "overlapped"},
                                          {op::Schedule::How::synchronous, "synchronous"},
                                          {op::Schedule::How::split, "split"},
                                          {op::Schedule::How::jobs, "jobs"}});
}  // namespace tacit
