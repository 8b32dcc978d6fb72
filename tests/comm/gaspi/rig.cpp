// The GASPI calls that Tacit uses, between MPI processes of one machine, as the standard allows them to behave at
// worst: what is posted is done later, by a thread, in any order that queues and notifications leave open.
//
// - A segment is a shared mapping: the bytes, and a value for each notification. Only ranks that it is registered with
//   may write into it.
// - A queue takes few entries. An entry reads its source when it is done, so that memory which is reused before
//   gaspi_wait has returned sends wrong values.
// - A notification is set after the data of its own call and of all earlier calls of its queue for the same rank; calls
//   for other ranks may be done before or after.
// - gaspi_wait waits until all entries of the queue have been read and written. Timeouts in milliseconds run a thousand
//   times faster while nothing is done at all (Fault::stuck).
#include "rig.hpp"

#include "GASPI.h"
#include "GASPI_Ext.h"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using tacit::gaspi_rig::Counts;
using tacit::gaspi_rig::Fault;

constexpr int most_segments = 8, most_notifications = 65536, most_ranks = 64, queues = 8;

// A rank's own segments, for the others to find.
struct Directory {
  std::array<std::atomic<int>, most_segments> file;
  std::array<std::atomic<std::uint64_t>, most_segments> bytes;
  std::array<std::array<std::atomic<bool>, most_ranks>, most_segments> registered;
};
struct Notifications {
  std::array<std::atomic<gaspi_notification_t>, most_notifications> value;
};

void* map_file(int file, std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : at;
}

struct Segment {
  Notifications* notifications = nullptr;
  std::byte* data = nullptr;
};

struct Entry {
  int queue, rank;
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
  std::atomic<gaspi_notification_t>* flag;
  gaspi_notification_t value;
  long number = 0;
};

class Rig {
 public:
  Rig() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    const int file = memfd_create("gaspi-directory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(Directory)) != 0 || size_ > most_ranks) std::abort();
    const std::array<int, 2> mine{int(getpid()), file};
    std::vector<int> all(2 * std::size_t(size_));
    MPI_Allgather(mine.data(), 2, MPI_INT, all.data(), 2, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size_; ++r) {
      processes_.push_back(all[2 * std::size_t(r)]);
      directories_.push_back(static_cast<Directory*>(open(r, all[2 * std::size_t(r) + 1], sizeof(Directory))));
      if (!directories_.back()) std::abort();
    }
    for (auto& f : own().file) f = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    worker_ = std::thread([this] { work(); });
  }
  ~Rig() {
    {
      const std::lock_guard guard(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  int rank() const { return rank_; }
  Counts counts() {
    const std::lock_guard guard(mutex_);
    return counts_;
  }
  void set(std::uint64_t seed, Fault fault) {
    const std::lock_guard guard(mutex_);
    random_.seed(seed * 64 + std::uint64_t(rank_));
    if (fault_ == Fault::stuck) left_.clear();
    fault_ = fault;
    room_ = 1 + int(random_() % 4);
  }

  bool allocate(int segment, std::size_t bytes) {
    const int file = memfd_create("gaspi-segment", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(sizeof(Notifications) + bytes)) != 0) return false;
    own().bytes[std::size_t(segment)] = bytes;
    own().file[std::size_t(segment)] = file;
    return find(segment, rank_) != nullptr;
  }
  bool share(int segment, int rank) {
    own().registered[std::size_t(segment)][std::size_t(rank)] = true;
    return true;
  }
  /// The segment of a rank, mapped here; null where it is not there, or not registered with this rank.
  Segment* find(int segment, int rank) {
    Directory& there = *directories_[std::size_t(rank)];
    const auto s = std::size_t(segment);
    if (there.file[s] < 0 || (rank != rank_ && !there.registered[s][std::size_t(rank_)])) return nullptr;
    auto& found = segments_[{segment, rank}];
    if (!found) {
      auto* const at = static_cast<std::byte*>(open(rank, there.file[s], sizeof(Notifications) + there.bytes[s]));
      if (!at) return nullptr;
      found = std::make_unique<Segment>(Segment{reinterpret_cast<Notifications*>(at), at + sizeof(Notifications)});
    }
    return found.get();
  }
  bool holds(int segment, int rank, std::uint64_t at, std::uint64_t bytes) const {
    return at + bytes <= directories_[std::size_t(rank)]->bytes[std::size_t(segment)];
  }

  gaspi_return_t post(const Entry& entry) {
    {
      const std::lock_guard guard(mutex_);
      int there = 0;
      for (const auto& other : left_) there += other.queue == entry.queue;
      if (there >= room_) return ++counts_.full, GASPI_QUEUE_FULL;
      left_.push_back(entry);
      left_.back().number = ++posted_;
    }
    changed_.notify_all();
    return GASPI_SUCCESS;
  }
  gaspi_return_t wait(int queue, gaspi_timeout_t timeout) {
    std::unique_lock lock(mutex_);
    if (fault_ == Fault::wait_at_once) return GASPI_SUCCESS;
    const auto unit = fault_ == Fault::stuck ? std::chrono::microseconds(1) : std::chrono::microseconds(1000);
    const bool ended = changed_.wait_for(lock, unit * timeout, [&] {
      for (const auto& entry : left_)
        if (entry.queue == queue) return false;
      return true;
    });
    return ended ? GASPI_SUCCESS : GASPI_TIMEOUT;
  }

 private:
  Directory& own() { return *directories_[std::size_t(rank_)]; }

  // A file of another process of the same user.
  void* open(int rank, int file, std::size_t bytes) const {
    const std::string path = "/proc/" + std::to_string(processes_[std::size_t(rank)]) + "/fd/" + std::to_string(file);
    const int here = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (here < 0) return nullptr;
    void* const at = map_file(here, bytes);
    close(here);
    return at;
  }

  // An entry that may be done now: the first of its queue for its rank.
  std::size_t chosen() {
    std::vector<std::size_t> possible;
    for (std::size_t i = 0; i < left_.size(); ++i) {
      bool first = true;
      for (std::size_t j = 0; j < i && first; ++j)
        first = left_[j].queue != left_[i].queue || left_[j].rank != left_[i].rank;
      if (first) possible.push_back(i);
    }
    return possible[random_() % possible.size()];
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || (!left_.empty() && fault_ != Fault::stuck); });
      if (over_) return;
      const Entry entry = left_[chosen()];
      const Fault fault = fault_;
      const std::chrono::microseconds pause(random_() % 8 ? 0 : random_() % 200);
      lock.unlock();
      const auto raise = [&] {
        return entry.flag && entry.flag->exchange(entry.value, std::memory_order_acq_rel) != 0;
      };
      const bool late = fault == Fault::slow || fault == Fault::wait_at_once;
      std::this_thread::sleep_for(late ? std::chrono::microseconds(2ms) : pause);
      bool overwritten = false;
      if (fault == Fault::flag_before_data) overwritten = raise(), std::this_thread::sleep_for(2ms);
      if (entry.bytes) std::memcpy(entry.to, entry.from, entry.bytes);
      if (fault != Fault::flag_before_data) overwritten = raise();
      lock.lock();
      std::erase_if(left_, [&](const Entry& other) { return other.number == entry.number; });
      ++counts_.done, counts_.overwritten += overwritten;
      changed_.notify_all();
    }
  }

  int rank_ = 0, size_ = 0;
  std::vector<int> processes_;
  std::vector<Directory*> directories_;
  std::map<std::pair<int, int>, std::unique_ptr<Segment>> segments_;  // by number and rank
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> left_;  // in the order of the calls
  std::mt19937_64 random_;
  int room_ = 4;  // entries of a queue
  Fault fault_ = Fault::none;
  Counts counts_{};
  long posted_ = 0;
  bool over_ = false;
  std::thread worker_;
};

std::unique_ptr<Rig> rig;
std::uint64_t first_seed = 1;
Fault first_fault = Fault::none;

gaspi_return_t post(gaspi_segment_id_t from, gaspi_offset_t at, gaspi_rank_t rank, gaspi_segment_id_t to,
                    gaspi_offset_t place, gaspi_size_t bytes, gaspi_notification_id_t id, gaspi_notification_t value,
                    gaspi_queue_id_t queue) {
  if (!rig || value == 0 || id >= most_notifications || queue >= queues) return GASPI_ERROR;
  Segment* const there = rig->find(to, rank);
  if (!there) return GASPI_ERROR;
  Entry entry{queue, rank, nullptr, nullptr, bytes, &there->notifications->value[id], value};
  if (bytes) {
    Segment* const here = rig->find(from, rig->rank());
    if (!here || !rig->holds(from, rig->rank(), at, bytes) || !rig->holds(to, rank, place, bytes)) return GASPI_ERROR;
    entry.from = here->data + at, entry.to = there->data + place;
  }
  return rig->post(entry);
}

}  // namespace

namespace tacit::gaspi_rig {
void set(std::uint64_t seed, Fault fault) {
  first_seed = seed, first_fault = fault;
  if (rig) rig->set(seed, fault);
}
Counts counts() {
  return rig ? rig->counts() : Counts{};
}
}  // namespace tacit::gaspi_rig

extern "C" {

gaspi_return_t gaspi_initialized(gaspi_number_t* initialized) {
  *initialized = rig != nullptr;
  return GASPI_SUCCESS;
}
gaspi_return_t gaspi_proc_init(gaspi_timeout_t) {
  if (rig) return GASPI_ERROR;
  rig = std::make_unique<Rig>();
  rig->set(first_seed, first_fault);
  return GASPI_SUCCESS;
}
gaspi_return_t gaspi_proc_rank(gaspi_rank_t* rank) {
  *rank = gaspi_rank_t(rig->rank());
  return GASPI_SUCCESS;
}
gaspi_return_t gaspi_segment_max(gaspi_number_t* segments) {
  *segments = most_segments;
  return GASPI_SUCCESS;
}
gaspi_return_t gaspi_segment_alloc(gaspi_segment_id_t segment, gaspi_size_t bytes, gaspi_alloc_t) {
  return segment < most_segments && bytes > 0 && rig->allocate(segment, bytes) ? GASPI_SUCCESS : GASPI_ERROR;
}
gaspi_return_t gaspi_segment_register(gaspi_segment_id_t segment, gaspi_rank_t rank, gaspi_timeout_t) {
  return rig->share(segment, rank) ? GASPI_SUCCESS : GASPI_ERROR;
}
gaspi_return_t gaspi_segment_ptr(gaspi_segment_id_t segment, gaspi_pointer_t* base) {
  Segment* const found = rig->find(segment, rig->rank());
  *base = found ? found->data : nullptr;
  return found ? GASPI_SUCCESS : GASPI_ERROR;
}
gaspi_return_t gaspi_write_notify(gaspi_segment_id_t from, gaspi_offset_t at, gaspi_rank_t rank, gaspi_segment_id_t to,
                                  gaspi_offset_t place, gaspi_size_t bytes, gaspi_notification_id_t id,
                                  gaspi_notification_t value, gaspi_queue_id_t queue, gaspi_timeout_t) {
  return bytes ? post(from, at, rank, to, place, bytes, id, value, queue) : GASPI_ERROR;
}
gaspi_return_t gaspi_notify(gaspi_segment_id_t segment, gaspi_rank_t rank, gaspi_notification_id_t id,
                            gaspi_notification_t value, gaspi_queue_id_t queue, gaspi_timeout_t) {
  return post(segment, 0, rank, segment, 0, 0, id, value, queue);
}
gaspi_return_t gaspi_notify_waitsome(gaspi_segment_id_t segment, gaspi_notification_id_t begin, gaspi_number_t count,
                                     gaspi_notification_id_t* first, gaspi_timeout_t timeout) {
  Segment* const here = rig->find(segment, rig->rank());
  if (!here || begin + count > most_notifications) return GASPI_ERROR;
  const auto end = Clock::now() + std::chrono::milliseconds(timeout);
  do {
    for (gaspi_number_t i = 0; i < count; ++i)
      if (here->notifications->value[begin + i].load(std::memory_order_acquire) != 0)
        return *first = begin + i, GASPI_SUCCESS;
  } while (Clock::now() < end);
  return GASPI_TIMEOUT;
}
gaspi_return_t gaspi_notify_reset(gaspi_segment_id_t segment, gaspi_notification_id_t id,
                                  gaspi_notification_t* before) {
  Segment* const here = rig->find(segment, rig->rank());
  if (!here || id >= most_notifications) return GASPI_ERROR;
  *before = here->notifications->value[id].exchange(0, std::memory_order_acq_rel);
  return GASPI_SUCCESS;
}
gaspi_return_t gaspi_wait(gaspi_queue_id_t queue, gaspi_timeout_t timeout) {
  return queue < queues ? rig->wait(queue, timeout) : GASPI_ERROR;
}

}  // extern "C"
