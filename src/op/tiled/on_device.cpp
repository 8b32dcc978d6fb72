#include "on_device_impl.hpp"

namespace tacit::op {

template class TiledOnDevice<float, Host>;
template class TiledOnDevice<double, Host>;

}  // namespace tacit::op
