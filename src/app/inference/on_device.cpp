#include "on_device_impl.hpp"

namespace tacit::app::inference {

template class NetworkOnDevice<Host>;

}  // namespace tacit::app::inference
