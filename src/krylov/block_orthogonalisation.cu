#include "block_orthogonalisation_impl.hpp"

namespace tacit::krylov {
#define TACIT_INSTANTIATE(T)                                                         \
  template Orthogonalised block_orthogonalise<T, Device>(                            \
      Orthogonalisation, BlockQr, std::span<const layout::Vector<T, Device>* const>, \
      std::span<layout::Vector<T, Device>* const>, std::vector<T>&, int);            \
  template Orthogonalised block_qr<T, Device>(BlockQr, std::span<layout::Vector<T, Device>* const>, std::vector<T>&);
TACIT_EACH_SCALAR(Device, TACIT_INSTANTIATE)
}  // namespace tacit::krylov
