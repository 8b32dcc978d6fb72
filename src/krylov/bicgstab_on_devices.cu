#include "bicgstab_on_devices_impl.hpp"

namespace tacit::krylov {

template Report bicgstab_on_devices(const op::HMatrixOnDevices<float, Device>&, std::span<const float>,
                                    std::span<float>, const DeviceSolveOptions&);
template Report bicgstab_on_devices(const op::HMatrixOnDevices<double, Device>&, std::span<const double>,
                                    std::span<double>, const DeviceSolveOptions&);
template Report pipelined_bicgstab_on_devices(const op::HMatrixOnDevices<float, Device>&, std::span<const float>,
                                              std::span<float>, const DeviceSolveOptions&, DeviceOverlap);
template Report pipelined_bicgstab_on_devices(const op::HMatrixOnDevices<double, Device>&, std::span<const double>,
                                              std::span<double>, const DeviceSolveOptions&, DeviceOverlap);

}  // namespace tacit::krylov
