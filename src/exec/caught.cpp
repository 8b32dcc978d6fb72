#include <tacit/exec/caught.hpp>

namespace tacit::exec {

void Caught::keep() noexcept {
  if (taken_.exchange(true)) return;
  error_ = std::current_exception();
  kept_.store(true, std::memory_order_release);
}

}  // namespace tacit::exec
