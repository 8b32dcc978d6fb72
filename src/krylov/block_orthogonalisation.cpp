#include "block_orthogonalisation_impl.hpp"

namespace tacit::krylov {
#define TACIT_INSTANTIATE(T)                                                       \
  template Orthogonalised block_orthogonalise<T, Host>(                            \
      Orthogonalisation, BlockQr, std::span<const layout::Vector<T, Host>* const>, \
      std::span<layout::Vector<T, Host>* const>, std::vector<T>&, int);            \
  template Orthogonalised block_qr<T, Host>(BlockQr, std::span<layout::Vector<T, Host>* const>, std::vector<T>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)
}  // namespace tacit::krylov
