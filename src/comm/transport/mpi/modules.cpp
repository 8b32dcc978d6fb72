// A build that links no MPI: it may load a module for one.
#include "library.hpp"

#include <atomic>

#include <dlfcn.h>

namespace tacit::comm::mpi {
namespace {
std::atomic<const Library*> loaded = nullptr;
}

const Library* library() noexcept {
  return loaded.load(std::memory_order_acquire);
}

void load(const std::string& module) {
  // Never unloaded: MPI keeps functions of it that it calls at its end.
  void* const file = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!file) {
    const char* const why = dlerror();
    throw Error(ErrorKind::environment, message("the MPI module ", module, " cannot be loaded: ", why ? why : ""));
  }
  using Entry = const Library* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(file, "tacit_mpi_library"));
  const Library* const found = entry ? entry() : nullptr;
  if (!found || found->version != Library::current)
    throw Error(ErrorKind::environment, message(module, " is no MPI module of this Tacit: install both together"));
  loaded.store(found, std::memory_order_release);
}

}  // namespace tacit::comm::mpi
