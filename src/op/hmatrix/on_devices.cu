#include "on_devices.hpp"

#include <tacit/exec/cuda.hpp>

namespace tacit::op {

template class HMatrixOnDevices<float, Device>;
template class HMatrixOnDevices<double, Device>;

}  // namespace tacit::op
