#include "on_device_impl.hpp"

#include <tacit/exec/cuda.hpp>

namespace tacit::app::bem {

template <Scalar T, Memory M>
std::unique_ptr<op::BlockMaker<T>> blocks_on(const SingleLayer& layer, std::span<const Global> order, int rank) {
  int count = 0;
  exec::check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw Error(ErrorKind::environment, "blocks are to be made on a CUDA device, and there is none");
  return std::make_unique<LayerBlocks<T, M>>(layer, order, rank % count);
}

template std::unique_ptr<op::BlockMaker<float>> blocks_on<float, Device>(const SingleLayer&, std::span<const Global>,
                                                                         int);
template std::unique_ptr<op::BlockMaker<double>> blocks_on<double, Device>(const SingleLayer&, std::span<const Global>,
                                                                           int);

}  // namespace tacit::app::bem
