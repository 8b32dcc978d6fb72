#include "on_device_impl.hpp"

namespace tacit::app::bem {

#ifdef TACIT_HAVE_CUDA
extern template std::unique_ptr<op::BlockMaker<float>> blocks_on<float, Device>(const SingleLayer&,
                                                                                std::span<const Global>, int);
extern template std::unique_ptr<op::BlockMaker<double>> blocks_on<double, Device>(const SingleLayer&,
                                                                                  std::span<const Global>, int);
#endif

template <Scalar T>
std::unique_ptr<op::BlockMaker<T>> make_blocks(AssemblyOn where, const SingleLayer& layer,
                                               std::span<const Global> order, [[maybe_unused]] int gpu) {
  if (where == AssemblyOn::host) return nullptr;
  if (where == AssemblyOn::virtual_device) return blocks_on<T, Host>(layer, order, 0);
#ifdef TACIT_HAVE_CUDA
  return blocks_on<T, Device>(layer, order, gpu);
#else
  exec::device_name();  // throws where there is none
  return nullptr;
#endif
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
