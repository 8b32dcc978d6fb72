#include "on_devices.hpp"

namespace tacit::op {

template class HMatrixOnDevices<float, Host>;
template class HMatrixOnDevices<double, Host>;

}  // namespace tacit::op
