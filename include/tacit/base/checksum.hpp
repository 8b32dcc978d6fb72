// A checksum by which ranks compare arrays that must be the same on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tacit {

/// 64 bits that depend on every byte and its place; equal bytes have equal checksums on one kind of processor. It finds
/// differences by mistake (one that is missed: 1 in 2^64), not those that somebody makes on purpose. Local; reads at
/// the speed of memory (eight independent sums, 8 bytes each in a step).
std::uint64_t checksum(std::span<const std::byte> bytes) noexcept;

}  // namespace tacit
