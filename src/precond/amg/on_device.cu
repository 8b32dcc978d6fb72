#include "on_device_impl.hpp"

namespace tacit::precond {

#define TACIT_INSTANTIATE(T) template class AmgOnDevice<T, Device>;
TACIT_EACH_SCALAR(Device, TACIT_INSTANTIATE)

}  // namespace tacit::precond
