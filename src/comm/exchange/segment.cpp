#include "segment.hpp"

#include <tacit/base/error.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#if defined(__unix__) || defined(__APPLE__)
#define TACIT_HAVE_SHM
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#ifdef __linux__
#include <dirent.h>
#endif

namespace tacit::comm::detail {
namespace {

constexpr std::align_val_t line{128};

// Segments between ranks that are threads.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Segment>> segments;
  static Registry& of_process() {
    static Registry* const registry = new Registry;  // outlives every exchange
    return *registry;
  }
};

[[noreturn]] void fail(const char* call, std::size_t bytes) {
  throw Error(ErrorKind::environment,
              message("shared memory of ", bytes, " bytes: ", call, ": ", std::strerror(errno)));
}

std::string fresh_name() {
  static std::atomic<unsigned> count{0};
#ifdef TACIT_HAVE_SHM
  const long process = long(getpid());
#else
  const long process = 0;
#endif
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return message("/tacit_", process, "-", count++, "-", (unsigned long long)(now));
}

#ifdef TACIT_HAVE_SHM
// The process that makes a segment holds a lock on it until its name is removed. An unlocked name was left by a killed
// process, and is removed when another segment is made.
void sweep() {
#ifdef __linux__
  DIR* const folder = opendir("/dev/shm");
  if (!folder) return;
  while (const dirent* const entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (!name.starts_with("tacit_")) continue;
    const int file = shm_open(("/" + name).c_str(), O_RDWR, 0600);
    if (file < 0) continue;  // another user's
    if (flock(file, LOCK_EX | LOCK_NB) == 0) shm_unlink(("/" + name).c_str());
    close(file);
  }
  closedir(folder);
#endif
}

// A new segment's file, locked; negative on an error.
int make_file(std::string& name) {
  for (int attempt = 0;; ++attempt) {
    name = fresh_name();
    const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0 && (errno != EEXIST || attempt == 100)) return file;
    if (file < 0) continue;
    // Until it is locked, another process may remove it as left behind.
    struct stat now;
    const bool locked = flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if ((locked && fstat(file, &now) == 0 && now.st_nlink > 0) || attempt == 100) return file;
    shm_unlink(name.c_str());
    close(file);
  }
}
#endif

}  // namespace

std::shared_ptr<Segment> Segment::create(std::size_t bytes, bool between_processes) {
  const std::shared_ptr<Segment> s(new Segment);
  s->bytes_ = bytes;
  s->name_ = fresh_name();
  if (!between_processes) {
    s->data_ = static_cast<std::byte*>(::operator new(bytes, line));
    std::memset(s->data_, 0, bytes);
    auto& registry = Registry::of_process();
    const std::lock_guard lock(registry.mutex);
    registry.segments[s->name_] = s;
    s->named_ = true;
    return s;
  }
#ifdef TACIT_HAVE_SHM
  sweep();
  const int file = make_file(s->name_);
  if (file < 0) fail("shm_open", bytes);
  s->file_ = file;
  s->mapped_ = s->named_ = true;
  // Without reserved memory, a later write could end in a SIGBUS.
  int code = EINTR;
  while (code == EINTR) code = posix_fallocate(file, 0, off_t(bytes));
  if (code != 0) {
    errno = code;
    fail("posix_fallocate", bytes);
  }
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (p == MAP_FAILED) fail("mmap", bytes);
  s->data_ = static_cast<std::byte*>(p);
  return s;
#else
  throw Error(ErrorKind::environment, "no shared memory between processes on this system");
#endif
}

std::shared_ptr<Segment> Segment::open(const std::string& name, std::size_t bytes, bool between_processes) {
  if (!between_processes) {
    auto& registry = Registry::of_process();
    const std::lock_guard lock(registry.mutex);
    if (const auto found = registry.segments.find(name); found != registry.segments.end())
      if (auto segment = found->second.lock(); segment && segment->bytes_ == bytes) return segment;
    throw Error(ErrorKind::environment, message("no segment ", name, " in this process"));
  }
#ifdef TACIT_HAVE_SHM
  const int file = shm_open(name.c_str(), O_RDWR, 0600);
  if (file < 0) fail("shm_open of a neighbour's", bytes);
  const off_t length = lseek(file, 0, SEEK_END);
  void* const p =
      length >= off_t(bytes) ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (p == MAP_FAILED) fail("mmap of a neighbour's", bytes);
  const std::shared_ptr<Segment> s(new Segment);
  s->name_ = name;
  s->bytes_ = bytes;
  s->data_ = static_cast<std::byte*>(p);
  s->mapped_ = true;
  return s;
#else
  throw Error(ErrorKind::environment, message("no shared memory ", name, " of ", bytes, " bytes on this system"));
#endif
}

void Segment::forget() noexcept {
  if (!named_) return;
  named_ = false;
  if (!mapped_) {
    auto& registry = Registry::of_process();
    const std::lock_guard lock(registry.mutex);
    registry.segments.erase(name_);
    return;
  }
#ifdef TACIT_HAVE_SHM
  shm_unlink(name_.c_str());
  if (file_ >= 0) close(file_);
  file_ = -1;
#endif
}

Segment::~Segment() {
  forget();
  if (!mapped_) {
    ::operator delete(data_, line);
    return;
  }
#ifdef TACIT_HAVE_SHM
  if (data_) munmap(data_, bytes_);
#endif
}

}  // namespace tacit::comm::detail
