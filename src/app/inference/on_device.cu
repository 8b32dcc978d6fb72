#include "on_device_impl.hpp"

namespace tacit::app::inference {

template class NetworkOnDevice<Device>;

}  // namespace tacit::app::inference
