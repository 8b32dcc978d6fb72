// Parts of a computed product, dealt to threads.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/tasks.hpp>

#include <cstddef>

namespace tacit::app::tomography {

/// Calls f(i) for i < count, on several threads if `parallel`; between parts the messages of `comm` (may be null)
/// advance.
template <class F>
void deal(std::size_t count, bool parallel, const comm::Communicator* comm, F&& f) {
  const auto polled = [&](std::size_t i) {
    f(i);
    if (comm && exec::may_poll()) comm->poll();
  };
  exec::each(count, parallel, polled, 1);
}

}  // namespace tacit::app::tomography
