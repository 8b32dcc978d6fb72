#include "on_device_impl.hpp"

namespace tacit::op {

template class TiledOnDevice<float, Device>;
template class TiledOnDevice<double, Device>;

}  // namespace tacit::op
