#include "device_levels_impl.hpp"

namespace tacit::precond::mg {

template class DeviceLevels<float, Host>;
template class DeviceLevels<double, Host>;

}  // namespace tacit::precond::mg
