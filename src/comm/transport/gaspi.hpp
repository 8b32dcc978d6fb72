// Gaspi: windows of a GASPI library (GPI-2), whose writes carry a notification.
#pragma once

#include <tacit/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tacit::comm::detail {

/// A window that `peers` write into, as this rank writes into theirs; null, with the reason in `why`, where it is not
/// possible. Collective; ranks may have different reasons. write() sends only from this rank's own window.
std::shared_ptr<Window> make_gaspi_window(const Communicator& comm, const AllLeast& all_least,
                                          std::span<const int> peers, std::size_t bytes, std::string& why);

}  // namespace tacit::comm::detail
