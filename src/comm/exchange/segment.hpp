// Segment: memory shared by the ranks of a node.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace tacit::comm::detail {

class Segment {
 public:
  /// A segment of zeros. `between_processes`: other processes can map it by its name (POSIX shared memory) until
  /// forget(); else threads of this process can. Error(environment) where there is no memory for it.
  static std::shared_ptr<Segment> create(std::size_t bytes, bool between_processes);
  /// Error(environment) when there is none of this name and size.
  static std::shared_ptr<Segment> open(const std::string& name, std::size_t bytes, bool between_processes);
  ~Segment();
  Segment(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  const std::string& name() const { return name_; }
  /// Removes its name; the memory lives as long as it is mapped.
  void forget() noexcept;

 private:
  Segment() = default;
  std::string name_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool mapped_ = false, named_ = false;
  int file_ = -1;  // while it has a name: holds the lock that shows that its maker lives
};

}  // namespace tacit::comm::detail
