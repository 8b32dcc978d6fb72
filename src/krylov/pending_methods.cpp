// TEMPORARY (branch only): factories that are still to be written. Whoever writes one deletes its line.
#include <tacit/krylov/iteration.hpp>

namespace tacit::krylov {
#define TACIT_PENDING(make)                                                  \
  template <Scalar T, Memory M>                                              \
  std::unique_ptr<Iteration<T, M>> make(const Options&) {                    \
    throw Error(ErrorKind::usage, #make " is not there yet");                \
  }                                                                          \
  template std::unique_ptr<Iteration<float, Host>> make(const Options&);     \
  template std::unique_ptr<Iteration<double, Host>> make(const Options&);    \
  template std::unique_ptr<Iteration<std::complex<float>, Host>> make(const Options&); \
  template std::unique_ptr<Iteration<std::complex<double>, Host>> make(const Options&);
TACIT_PENDING(make_ca_gmres)
TACIT_PENDING(make_pipelined_gmres)
TACIT_PENDING(make_ca_cg)
TACIT_PENDING(make_ca_bicgstab)
}  // namespace tacit::krylov
