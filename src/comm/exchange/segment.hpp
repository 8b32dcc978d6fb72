// Segment: memory that the ranks of a node write to as to their own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace tacit::comm::detail {

class Segment {
 public:
  /// All zero. `between_processes`: others map it by its name (POSIX shared memory), until forget(); else threads of
  /// this process find it. Error(environment) where there is no room for it.
  static std::shared_ptr<Segment> create(std::size_t bytes, bool between_processes);
  /// Error(environment) when there is none of this name and size.
  static std::shared_ptr<Segment> open(const std::string& name, std::size_t bytes, bool between_processes);
  ~Segment();
  Segment(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  const std::string& name() const { return name_; }
  /// Nobody will open it any more; it lives on while somebody has it.
  void forget() noexcept;

 private:
  Segment() = default;
  std::string name_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool mapped_ = false, named_ = false;
  int file_ = -1;  // while it has a name: its lock says that its maker lives
};

}  // namespace tacit::comm::detail
