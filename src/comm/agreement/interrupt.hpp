// Interrupts by the user, checked for while ranks wait.
#pragma once

namespace tacit::comm::detail {

/// True every 50 ms.
bool time_to_ask();
/// Error(interrupted) where the user wants to stop (set_interrupt_check).
void ask_user();

}  // namespace tacit::comm::detail
