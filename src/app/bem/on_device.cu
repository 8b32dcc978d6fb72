#include "on_device_impl.hpp"

#include <tacit/exec/cuda.hpp>

namespace tacit::app::bem {

template std::unique_ptr<op::BlockMaker<float>> blocks_on<float, Device>(const SingleLayer&, std::span<const Global>,
                                                                         int);
template std::unique_ptr<op::BlockMaker<double>> blocks_on<double, Device>(const SingleLayer&, std::span<const Global>,
                                                                           int);

}  // namespace tacit::app::bem
