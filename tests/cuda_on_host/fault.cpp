#include "fault.hpp"

#include <cuda_on_host.hpp>

#include <cxxabi.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace cuda_on_host {
namespace {
std::mutex mutex;
int collectors = 0;
std::vector<std::string> collected;
}  // namespace

Faults::Faults() {
  const std::lock_guard lock(mutex);
  ++collectors;
  collected.clear();
}
Faults::~Faults() {
  const std::lock_guard lock(mutex);
  --collectors;
}
std::vector<std::string> Faults::take() {
  const std::lock_guard lock(mutex);
  return std::exchange(collected, {});
}

void fault(const std::string& text) {
  {
    const std::lock_guard lock(mutex);
    if (collectors > 0) return collected.push_back(text);
  }
  fatal(text);
}

void fatal(const std::string& text) {
  std::fprintf(stderr, "cuda_on_host: %s\n", text.c_str());
  std::fflush(stderr);
  std::abort();
}

const std::string& name_of_kernel(const std::type_info& type) {
  static std::map<const std::type_info*, std::string>& names = *new std::map<const std::type_info*, std::string>;
  static std::mutex& mutex_of_names = *new std::mutex;
  const std::lock_guard lock(mutex_of_names);
  std::string& name = names[&type];
  if (name.empty()) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                          std::free);
    name = std::string("kernel ") + (status == 0 ? readable.get() : type.name());
  }
  return name;
}

}  // namespace cuda_on_host
