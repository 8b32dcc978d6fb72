#include "on_device_impl.hpp"

namespace tacit::precond {

template class MultigridOnDevice<float, Host>;
template class MultigridOnDevice<double, Host>;

}  // namespace tacit::precond
