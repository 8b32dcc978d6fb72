#include <tacit/base/free_memory.hpp>

#include <tacit/base/error.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>

namespace tacit {
namespace {

// The number in a file of one word; SIZE_MAX for "max", or where there is no such file.
std::size_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? number : SIZE_MAX;
}

// The sum of the numbers that follow these words at the beginnings of lines.
std::size_t sum_of(const std::string& path, std::initializer_list<const char*> words) {
  std::ifstream file(path);
  std::size_t sum = 0, number = 0;
  for (std::string word, rest; file >> word; std::getline(file, rest))
    if (std::find(words.begin(), words.end(), word) != words.end() && file >> number) sum += number;
  return sum;
}

std::size_t difference(std::size_t a, std::size_t b) {
  return a > b ? a - b : 0;
}

MemoryLimit of_machine() {
  const std::string file = "/proc/meminfo";
  const std::size_t total = sum_of(file, {"MemTotal:", "SwapTotal:"});
  if (total == 0) return {};
  return {"the machine's memory", total << 10, sum_of(file, {"MemAvailable:", "SwapFree:"}) << 10};
}

MemoryLimit of_group(const std::string& folder, int version) {
  const bool old = version == 1;
  const std::size_t limit = number_in(folder + (old ? "/memory.limit_in_bytes" : "/memory.max"));
  if (limit >= std::size_t(1) << 60) return {};  // version 1 has a large number for "no limit"
  const std::size_t used = number_in(folder + (old ? "/memory.usage_in_bytes" : "/memory.current"));
  const std::string stat = folder + "/memory.stat";
  const std::size_t cached =
      old ? sum_of(stat, {"total_inactive_file", "total_active_file"}) : sum_of(stat, {"inactive_file", "active_file"});
  return {"the limit of control group " + folder, limit, difference(limit, difference(used, cached))};
}

// `column` of /proc/self/statm: pages that count towards the limit.
MemoryLimit of_process(int resource, int column, const char* name) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  for (int i = 0; i <= column; ++i) file >> pages;
  return {name, limit.rlim_cur, difference(limit.rlim_cur, pages * std::size_t(std::max(0L, sysconf(_SC_PAGESIZE))))};
}

std::string free_within(const MemoryLimit& least) {
  if (least.bytes == SIZE_MAX) return "";
  return message(least.free, " are free of ", least.name, ", ", least.bytes, " bytes");
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const ControlGroupFiles& groups) {
  std::vector<MemoryLimit> all;
  const auto add = [&](MemoryLimit one) {
    if (one.bytes != SIZE_MAX) all.push_back(std::move(one));
  };
  add(of_machine());
  each_control_group("memory", groups, [&](const std::string& folder, int version) { add(of_group(folder, version)); });
  add(of_process(RLIMIT_AS, 0, "the limit of address space (ulimit -v)"));
  add(of_process(RLIMIT_DATA, 5, "the limit of data (ulimit -d)"));
  return all;
}

MemoryLimit least_memory_limit() {
  MemoryLimit least;
  for (MemoryLimit& one : memory_limits())
    if (one.free <= least.free) least = std::move(one);
  return least;
}

std::size_t total_memory() {
  std::size_t least = SIZE_MAX;
  for (const MemoryLimit& one : memory_limits()) least = std::min(least, one.bytes);
  return least;
}

void require_memory(std::size_t bytes) {
  if (bytes > least_memory_limit().free) throw_out_of_memory(bytes);
}

void throw_out_of_memory(std::size_t bytes) {
  std::string text = "out of memory";
  try {
    const std::string free = free_within(least_memory_limit());
    text = message("out of memory: ", bytes, " bytes were asked for", free.empty() ? "" : "; ", free);
  } catch (const std::bad_alloc&) {  // not even for the text
  }
  throw Error(ErrorKind::memory, text);
}

std::string out_of_memory() {
  try {
    const std::string free = free_within(least_memory_limit());
    return message("out of memory", free.empty() ? "" : ": ", free);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  }
}

}  // namespace tacit
