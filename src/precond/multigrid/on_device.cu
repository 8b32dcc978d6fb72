#include "on_device_impl.hpp"

namespace tacit::precond {

template class MultigridOnDevice<float, Device>;
template class MultigridOnDevice<double, Device>;

}  // namespace tacit::precond
