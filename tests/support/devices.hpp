// Groups of devices, virtual ones of the host or CUDA's.
#pragma once

#include <tacit/exec/devices.hpp>

#include <algorithm>
#include <concepts>
#include <memory>
#include <numeric>
#include <vector>

namespace tacit::test {

/// A group of `count` devices; of CUDA's some occur several times where there are fewer.
template <Memory M>
std::shared_ptr<exec::Devices<M>> devices_of(int count) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  if constexpr (std::same_as<M, Device>)
    for (int& id : ids) id %= std::max(1, exec::device_count());
  return std::make_shared<exec::Devices<M>>(ids);
}

/// The elements of an array of a device, whose work is waited for.
template <class T, Memory M>
std::vector<T> elements_of(exec::Devices<M>& devices, const exec::DeviceArray<T, M>& array) {
  std::vector<T> elements(array.size());
  devices.to_host(array, 0, elements.size(), elements.data());
  devices.wait(array.device);
  return elements;
}

}  // namespace tacit::test
