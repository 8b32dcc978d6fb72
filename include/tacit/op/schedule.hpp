// Schedule: how the threads of a rank share a product while its halo exchange is in flight.
//
// A product has an interior part, which needs no ghost, and for each neighbour a part that needs its ghosts. All
// schedules give the same bits and send the same messages. Names: Stoyanov and Pfreundt (2014), "Hybrid-parallel sparse
// matrix-vector multiplication and iterative linear solvers with the communication library GPI".
#pragma once

#include <tacit/base/names.hpp>

namespace tacit::op {

struct Schedule {
  enum class How {
    automatic,    ///< the fastest of the others, measured on the first products; overlapped until then
    overlapped,   ///< all threads do the interior, wait for the halo, then do the rest
    synchronous,  ///< all threads wait for the halo, then do all rows (SS)
    split,  ///< some threads wait for the halo and do the rest, the others the interior; rows are assigned in advance
            ///< (AS)
    jobs    ///< threads take jobs of a few rows, of the interior or of neighbours whose ghosts have arrived (AD)
  };
  How how = How::automatic;
  int remote_threads = 1;  ///< split: threads that wait for the halo; fewer than all
  int job_rows = 0;        ///< jobs: rows of a job; 0: about 16 jobs for each thread, of 512 to 16384 rows
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
