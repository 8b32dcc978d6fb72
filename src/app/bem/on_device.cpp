#include "on_device_impl.hpp"

namespace tacit::app::bem {

template <Scalar T, Memory M>
std::unique_ptr<op::BlockMaker<T>> blocks_on(const SingleLayer& layer, std::span<const Global> order, int) {
  return std::make_unique<LayerBlocks<T, M>>(layer, order, 0);
}

template std::unique_ptr<op::BlockMaker<float>> blocks_on<float, Host>(const SingleLayer&, std::span<const Global>,
                                                                       int);
template std::unique_ptr<op::BlockMaker<double>> blocks_on<double, Host>(const SingleLayer&, std::span<const Global>,
                                                                         int);

}  // namespace tacit::app::bem
