// MPI's communicators, whichever MPI it is, or none.
#include "comm/finalized.hpp"
#include "library.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>

#include <atomic>
#include <mutex>
#include <optional>

#include <unistd.h>

namespace tacit::comm {
namespace {

using mpi::launched_ranks;

const mpi::Library& present() {
  if (const mpi::Library* const found = mpi::library()) return *found;
  throw Error(ErrorKind::environment,
              "this build of Tacit has no MPI; configure with -DTACIT_MPI=ON for more than one rank");
}

// The process that loaded Tacit, or first used MPI. In the child of a fork() MPI's state is a copy, and its connections
// are the parent's.
std::atomic<pid_t> process = getpid();
bool forked() {
  return process.load(std::memory_order_relaxed) != getpid();
}
bool has_begun() {
  const mpi::Library* const found = mpi::library();
  return found && found->initialized();
}

// The first communicator over all processes, which the last call of each process is made on (mpi_depart).
struct Ending {
  std::optional<Communicator> all;
  long process = 0;  // a fork() has no part in it
  static Ending& of_process() {
    static auto* const ending = new Ending;
    return *ending;
  }
};

Communicator noted(const Communicator& made) {
  const int size = present().processes();
  Ending& ending = Ending::of_process();
  if (!ending.all && made.size() == size && size > 1) ending.all = made, ending.process = long(getpid());
  return made;
}

}  // namespace

bool mpi_built() noexcept {
  return mpi::library() != nullptr;
}

void mpi_load(const std::string& module) {
  mpi::load(module);
}

bool mpi_initialized() {
  return has_begun() && !forked();
}

bool mpi_launched() {
  return (has_begun() || (mpi_built() && launched_ranks() > 0)) && !forked();
}

Communicator mpi_world() {
  const mpi::Library& mpi = present();
  if (forked() && !has_begun() && launched_ranks() == 0) process = getpid();  // the parent does not use MPI
  if (forked())
    throw Error(ErrorKind::environment,
                "this process is a fork of another one and no rank of MPI: comm=tacit.comm.self_() (in C++ "
                "comm::Communicator::self()) is one rank, which is also the default here");
  static std::mutex one_at_a_time;  // of threads that come first together
  const std::lock_guard lock(one_at_a_time);
  if (mpi.finalized()) throw Error(ErrorKind::environment, "MPI has been finalized in this process");
  const auto transport = mpi.world(&mpi_depart);
  Trace::set_rank(transport->rank());
  return noted(Communicator(transport));
}

void mpi_depart() noexcept {
  Ending& ending = Ending::of_process();
  const mpi::Library* const mpi = mpi::library();
  if (!ending.all || !mpi || ending.process != long(getpid()) || forked() || mpi->finalized()) return;
  const Communicator all = *ending.all;
  ending.process = 0;
  try {
    all.depart();
  } catch (...) {  // the communicator is lost, and the others know it
  }
}

bool mpi_finalized() noexcept {
  const mpi::Library* const mpi = mpi::library();
  return mpi && !forked() && mpi->finalized();
}

Communicator mpi_from_fortran(int handle, const std::string& library) {
  const mpi::Library& mpi = present();
  if (!library.empty()) {
    const std::string mine = mpi.text();
    const auto first_word = [](const std::string& s) { return s.substr(0, s.find_first_of(" \n")); };
    if (first_word(mine) != first_word(library))
      throw Error(ErrorKind::environment,
                  message("the communicator comes from \"", library.substr(0, 60), "\", but Tacit uses \"",
                          mine.substr(0, 60), "\"; install an mpi4py of that MPI"));
  }
  if (mpi.finalized()) throw Error(ErrorKind::environment, "MPI has been finalized in this process");
  return noted(Communicator(mpi.from_fortran(handle)));
}

std::string mpi_library() {
  const mpi::Library* const mpi = mpi::library();
  return mpi ? mpi::short_name(mpi->text()) : std::string();
}

}  // namespace tacit::comm
