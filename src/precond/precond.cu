// The preconditioners that work in device memory.
#include "block_jacobi_on_device_impl.hpp"
#include "jacobi_impl.hpp"
#include "make_impl.hpp"
#include "polynomial_impl.hpp"
#include "spai_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T)                                                                                     \
  template class BlockJacobiOnDevice<T, Device>;                                                                 \
  template class Jacobi<T, Device>;                                                                              \
  template class Spai<T, Device>;                                                                                \
  template class Polynomial<T, Device>;                                                                          \
  template std::unique_ptr<op::Operator<T, Device>> make<T, Device>(std::string_view, const op::Csr<T, Device>&, \
                                                                    const Options&);
TACIT_EACH_SCALAR(Device, TACIT_INSTANTIATE)

}  // namespace tacit::precond
