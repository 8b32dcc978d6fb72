// What Tacit needs of an MPI, as a table of functions: of the MPI that is linked (TACIT_MPI=ON), or of a module of its
// own for each binary interface of MPI, which is loaded at run time (mpi_load). No type of MPI stands here.
#pragma once

#include <tacit/comm/transport.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

namespace tacit::comm::mpi {

struct Library {
  /// To be raised with every change of this table or of Transport: a module of another Tacit is refused.
  static constexpr int current = 1;
  int version = current;
  bool (*initialized)() = nullptr;
  bool (*finalized)() = nullptr;
  /// All processes; initialises MPI if that has not been done, and then finalises it at exit, after `before_end`.
  std::shared_ptr<Transport> (*world)(void (*before_end)() noexcept) = nullptr;
  std::shared_ptr<Transport> (*from_fortran)(int handle) = nullptr;
  /// The size of MPI_COMM_WORLD.
  int (*processes)() = nullptr;
  /// MPI_Get_library_version.
  std::string (*text)() = nullptr;
};

/// The MPI that is linked or loaded; null without one.
const Library* library() noexcept;
/// Takes the MPI of this module; see mpi_load().
void load(const std::string& module);

/// The number of ranks according to the launcher's environment; 0 without a launcher.
inline int launched_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_WORLD_SIZE"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  if (std::getenv("PMIX_RANK")) return 1;
  return 0;
}

/// "Open MPI 4.1.4" of the text of MPI_Get_library_version: "Open MPI v4.1.4, package: ..." or "MPICH
/// Version:  4.0.2\n".
inline std::string short_name(const std::string& text) {
  std::istringstream words(text);
  std::string a, b, c;
  words >> a >> b >> c;
  std::string name = a == "Open" ? "Open MPI " + c : a + " " + c;
  name.erase(std::remove(name.begin(), name.end(), ','), name.end());
  return name;
}

}  // namespace tacit::comm::mpi
