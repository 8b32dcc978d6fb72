// Device memory, pinned host memory, and who may touch which.
//
// Device memory lies in one range of addresses that is inaccessible by default. While a stream works, the first touch
// of an allocation makes it accessible until the call of the runtime ends, if the device may have it: so host code that
// touches device memory, a kernel that touches a freed allocation, the space between allocations or another device's
// memory are each a fault with its name. Every allocation has pages of its own and ends within 255 bytes of an
// inaccessible one; the bytes around it are checked after every operation, and poisoned under the address sanitizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <typeinfo>

namespace cuda_on_host::memory {

enum class Kind { device, pinned, pageable };
struct Place {
  Kind kind;
  int device = 0;
  std::size_t beyond = 0;  ///< bytes of its allocation from here on
  bool freed = false;
};
/// Where the address is.
Place find(const void* address);

/// nullptr where the device has not as much left.
void* allocate(int device, std::size_t bytes);
/// False where nothing was allocated there.
bool release(void* p);
void* allocate_pinned(std::size_t bytes);
bool release_pinned(void* p);
std::size_t total_bytes();
std::size_t used_bytes(int device);
std::size_t used_bytes();

void set_peer(int device, int peer, bool allowed);
bool is_peer(int device, int peer);
void forget_peers();

/// In place of a device: copies reach the memory of all.
inline constexpr int any_device = -1;

/// An operation of a stream, during which device memory is accessible to this thread; then looks for bytes that it has
/// written where nothing is allocated.
class Operation {
 public:
  Operation(int device, const char* what);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
};
/// Makes all device memory inaccessible. At the end of every call of the runtime; with a seed, of one call in eight.
void close();

struct Traffic {
  std::size_t read = 0, written = 0;  ///< bytes
};
/// From now on pages are made accessible one by one, anew for every operation, and counted: those that it reads, and
/// those that it writes. Pages end where their allocation does. A page that is read only after it was written to in the
/// same operation is not counted as read.
void watch(bool on);
/// While it is watched: what all operations so far have touched.
Traffic traffic();

/// The addresses in a kernel's arguments: of the host, freed, or of another device.
void check_argument(const void* bytes, std::size_t size, int device, const std::string& kernel);

}  // namespace cuda_on_host::memory
