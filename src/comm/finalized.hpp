// Whether MPI has ended, for interfaces whose callers may end it while they still have objects.
#pragma once

namespace tacit::comm {

/// True once MPI has been finalised in this process: a communicator of several ranks cannot be used any more. False
/// where MPI was never used. Local.
bool mpi_finalized() noexcept;

}  // namespace tacit::comm
