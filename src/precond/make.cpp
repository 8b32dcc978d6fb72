#include "make_impl.hpp"

namespace tacit::precond {

std::vector<std::string> names() {
  return detail::kinds.all();
}

#define TACIT_INSTANTIATE(T)                                                                               \
  template std::unique_ptr<op::Operator<T, Host>> make<T, Host>(std::string_view, const op::Csr<T, Host>&, \
                                                                const Options&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::precond
