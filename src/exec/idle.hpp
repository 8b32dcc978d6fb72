// Host memory that freed arrays leave for later arrays of the same size.
#pragma once

namespace tacit::exec {

/// Gives it back to the system, for work that needs more than it lets go: the vectors of an attempt that was given up
/// while the factors for the next one are made. The next vectors cost new pages.
void release_idle_memory() noexcept;

}  // namespace tacit::exec
