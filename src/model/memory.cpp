#include <tacit/model/memory.hpp>

#include <tacit/base/free_memory.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

namespace tacit::model {
namespace {

constexpr std::size_t piece = std::size_t(2) << 20;  // a huge page, the unit in which a thread touches and reads

// Loads of four doubles into four sums: additions are then faster than memory on every processor, and the sums fit its
// registers.
using Four [[gnu::vector_size(32)]] = double;

double sum_of(const Four* p, std::size_t n) {
  Four a{}, b{}, c{}, d{};
  for (std::size_t i = 0; i < n; i += 4) a += p[i], b += p[i + 1], c += p[i + 2], d += p[i + 3];
  const Four s = (a + b) + (c + d);
  return (s[0] + s[1]) + (s[2] + s[3]);
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "32768K", "32M" or plain bytes; 0 for anything else.
std::size_t bytes_of(const std::string& text) {
  std::size_t value = 0, at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) value = 10 * value + std::size_t(text[at] - '0');
  return value << (text.substr(at) == "K" ? 10 : text.substr(at) == "M" ? 20 : text.substr(at) == "G" ? 30 : 0);
}

// Processors in "0-3,8-11".
int count_of(const std::string& list) {
  std::istringstream parts(list);
  int count = 0, first = 0, last = 0;
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream numbers(part);
    char dash = 0;
    if (!(numbers >> first)) continue;
    if (!(numbers >> dash >> last) || dash != '-') last = first;
    count += last - first + 1;
  }
  return count;
}

char* first_page(void* room) {
  return reinterpret_cast<char*>((std::uintptr_t(room) + piece - 1) / piece * piece);
}

}  // namespace

Cache last_level_cache() {
  Cache last;
  const std::string caches = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int index = 0, level = 0; index < 10; ++index) {
    const std::string cache = caches + std::to_string(index) + "/";
    const std::size_t bytes = bytes_of(first_word(cache + "size"));
    const int its_level = int(bytes_of(first_word(cache + "level")));
    if (bytes == 0 || its_level < level || first_word(cache + "type") == "Instruction") continue;
    level = its_level;
    last = {bytes, std::max(1, count_of(first_word(cache + "shared_cpu_list")))};
  }
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (last.bytes == 0) {
    last.bytes = std::size_t(std::max({0L, sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE)}));
    last.processors = int(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  }
#endif
  return last;
}

std::size_t beyond_caches(int readers, int threads) {
  Cache cache = last_level_cache();
  if (cache.bytes == 0) cache.bytes = std::size_t(32) << 20;
  const auto ranks = std::size_t(std::max(1, readers)), all = ranks * std::size_t(std::max(1, threads));
  const std::size_t caches = (all + std::size_t(cache.processors) - 1) / std::size_t(cache.processors);
  const std::size_t wanted = (4 * caches * cache.bytes + ranks - 1) / ranks;
  return std::max(piece, std::min(wanted, least_memory_limit().free / 8 / ranks));
}

MemoryReader::MemoryReader(std::size_t bytes, double most_seconds) {
  const std::size_t pieces = std::max<std::size_t>(1, (bytes + piece - 1) / piece);
  room_ = pieces * piece + piece;
  begin_ = mmap(nullptr, room_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin_ == MAP_FAILED) throw_out_of_memory(room_);
#ifdef MADV_HUGEPAGE
  madvise(begin_, room_, MADV_HUGEPAGE);
#endif
  // Threads touch pieces in turn until all are touched or time is up; read() distributes them in the same way.
  const double begin = wall_time();
  char* const first = first_page(begin_);
  threads_ = std::size_t(exec::threads());
  for (std::size_t done = 0; done < pieces && (done == 0 || wall_time() - begin < most_seconds); done += threads_) {
    const std::size_t end = std::min(pieces, done + threads_);
    exec::parallel_for(end - done, true, [&](std::size_t t) {
      for (std::size_t i = 0; i < piece; i += 4096) first[(done + t) * piece + i] = 0;
    });
    bytes_ = end * piece;
  }
}

MemoryReader::~MemoryReader() {
  munmap(begin_, room_);
}

double MemoryReader::read() const {
  const char* const first = first_page(begin_);
  const std::size_t pieces = bytes_ / piece;
  std::vector<double> sums(threads_);
  exec::parallel_for(threads_, true, [&](std::size_t t) {
    double sum = 0;
    for (std::size_t k = t; k < pieces; k += threads_)
      sum += sum_of(reinterpret_cast<const Four*>(first + k * piece), piece / sizeof(Four));
    sums[t] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace tacit::model
