#include "comm/finalized.hpp"
#include "handles.hpp"

#include <tacit/precond/make.hpp>

#include <mutex>
#include <new>
#include <set>
#include <utility>

namespace tacit::c {
namespace {
thread_local std::string last_error;
thread_local const char* last_text = "";

// By address and type: of a base class and of an object at its begin, the address may be one.
struct Alive {
  std::mutex mutex;
  std::set<std::pair<const void*, std::string_view>> handles;
};
Alive& alive() {
  static Alive& all = *new Alive;  // for ever: handles may be freed while the program ends
  return all;
}
}  // namespace

bool is_alive(const void* handle, const char* type) noexcept {
  const std::lock_guard lock(alive().mutex);
  return alive().handles.contains({handle, type});
}
void enter(const void* handle, const char* type) {
  const std::lock_guard lock(alive().mutex);
  alive().handles.emplace(handle, type);
}
void leave(const void* handle, const char* type) noexcept {
  const std::lock_guard lock(alive().mutex);
  alive().handles.erase({handle, type});
}

void require_mpi(const comm::Communicator& comm) {
  if (comm.size() > 1 && std::string_view(comm.kind()) == "mpi" && comm::mpi_finalized())
    throw Error(ErrorKind::environment, "MPI has been finalized: objects of several ranks can only be freed now");
}

void require_alike(const comm::Communicator& comm, const std::string& arguments) {
  if (comm.size() == 1) return;
  const auto digest = Global(std::hash<std::string>{}(arguments) >> 1);
  const bool alike = comm.all_max(digest) == digest;
  require(comm.all(alike), "ranks call with different arguments; those of rank ", comm.rank(), " are ", arguments);
}

tacit_status failed(tacit_status status, const char* text) noexcept {
  try {
    last_error = text;
    last_text = last_error.c_str();
  } catch (...) {
    last_text = "not enough memory, not even for the text of an error";
  }
  return status;
}

tacit_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    switch (e.kind()) {
      case ErrorKind::usage:
        return failed(TACIT_USAGE, e.what());
      case ErrorKind::input:
        return failed(TACIT_INPUT, e.what());
      case ErrorKind::environment:
        return failed(TACIT_ENVIRONMENT, e.what());
      case ErrorKind::interrupted:
        return failed(TACIT_INTERRUPTED, e.what());
      case ErrorKind::memory:
        return failed(TACIT_MEMORY, e.what());
    }
    return failed(TACIT_INTERNAL, e.what());
  } catch (const std::bad_alloc&) {
    return failed(TACIT_MEMORY, "there is not enough memory");
  } catch (const std::exception& e) {
    return failed(TACIT_INTERNAL, e.what());
  } catch (...) {
    return failed(TACIT_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace tacit::c

namespace {
const char* name_of(std::span<const tacit::Described> all, int i) {
  return i >= 0 && std::size_t(i) < all.size() ? all[std::size_t(i)].name : nullptr;
}
const char* text_of(std::span<const tacit::Described> all, int i) {
  return i >= 0 && std::size_t(i) < all.size() ? all[std::size_t(i)].text : nullptr;
}
}  // namespace

extern "C" {

const char* tacit_last_error(void) {
  return tacit::c::last_text;
}
const char* tacit_version(void) {
  return TACIT_VERSION;
}
const char* tacit_method_name(int i) {
  return name_of(tacit::krylov::methods(), i);
}
const char* tacit_method_text(int i) {
  return text_of(tacit::krylov::methods(), i);
}
const char* tacit_precond_name(int i) {
  return name_of(tacit::precond::kinds(), i);
}
const char* tacit_precond_text(int i) {
  return text_of(tacit::precond::kinds(), i);
}

}  // extern "C"
