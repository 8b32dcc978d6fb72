// The modelled clock of the stand-in (cuda_on_host.hpp, Rates): the times at which streams, links to the host and pairs
// of devices are free, followed as operations are enqueued.
#pragma once

#include "memory.hpp"
#include "streams.hpp"

#include <cuda_on_host.hpp>

#include <cstddef>
#include <optional>

namespace cuda_on_host::clock {

/// False without rates; the other functions then do nothing.
bool runs();
void restart(const std::optional<Rates>& rates);
void launched(Stream& stream, const char* kernel);
/// A copy of `bytes` that was enqueued in the stream; the host waits for it where its memory is pageable.
void copied(Stream& stream, const char* call, const memory::Place& to, const memory::Place& from, std::size_t bytes);
/// The stream's next operation comes after an instant.
void follows(Stream& stream, double instant);
void host_waits(double instant);
/// Whether the host's clock has come to an instant.
bool is_past(double instant);

}  // namespace cuda_on_host::clock
