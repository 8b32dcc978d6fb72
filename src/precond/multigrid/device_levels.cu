#include "device_levels_impl.hpp"

namespace tacit::precond::mg {

template class DeviceLevels<float, Device>;
template class DeviceLevels<double, Device>;

}  // namespace tacit::precond::mg
