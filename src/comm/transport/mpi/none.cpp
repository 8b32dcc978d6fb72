// A build without MPI: MPI functions throw Error(environment).
#include <tacit/comm/communicator.hpp>

namespace tacit::comm {
namespace {
[[noreturn]] void absent() {
  throw Error(ErrorKind::environment,
              "this build of Tacit has no MPI; configure with -DTACIT_MPI=ON for more than one rank");
}
}  // namespace

bool mpi_built() noexcept {
  return false;
}
bool mpi_initialized() {
  return false;
}
bool mpi_launched() {
  return false;
}
Communicator mpi_world() {
  absent();
}
Communicator mpi_from_fortran(int, const std::string&) {
  absent();
}
void mpi_depart() noexcept {}
std::string mpi_library() {
  return {};
}

}  // namespace tacit::comm
