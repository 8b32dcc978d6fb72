#include "on_device_impl.hpp"

namespace tacit::app::bem {

template <Scalar T, Memory M>
std::unique_ptr<op::BlockMaker<T>> blocks_on(const SingleLayer& layer, std::span<const Global> order, int) {
  return std::make_unique<LayerBlocks<T, M>>(layer, order, 0);
}

template <Scalar T>
std::unique_ptr<op::BlockMaker<T>> make_blocks(AssemblyOn where, const SingleLayer& layer,
                                               std::span<const Global> order, int rank) {
  if (where == AssemblyOn::host) return nullptr;
#ifdef TACIT_HAVE_CUDA
  if (where == AssemblyOn::cuda) return blocks_on<T, Device>(layer, order, rank);
#else
  if (where == AssemblyOn::cuda) exec::device_name();  // says that there is none
#endif
  return blocks_on<T, Host>(layer, order, rank);
}

template std::unique_ptr<op::BlockMaker<float>> make_blocks(AssemblyOn, const SingleLayer&, std::span<const Global>,
                                                            int);
template std::unique_ptr<op::BlockMaker<double>> make_blocks(AssemblyOn, const SingleLayer&, std::span<const Global>,
                                                             int);
template std::unique_ptr<op::BlockMaker<float>> blocks_on<float, Host>(const SingleLayer&, std::span<const Global>,
                                                                       int);
template std::unique_ptr<op::BlockMaker<double>> blocks_on<double, Host>(const SingleLayer&, std::span<const Global>,
                                                                         int);

}  // namespace tacit::app::bem
