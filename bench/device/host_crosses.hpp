// The host's crosses, to time and to compare with a device's.
#pragma once

#include <tacit/app/bem/single_layer.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>

#include <memory>
#include <span>

namespace tacit::device {

/// Finds the crosses of all admissible blocks, and all entries of the others, by all threads and vector registers, and
/// throws them away. The sum of all ranks.
Global host_crosses(const app::bem::SingleLayer& layer, std::span<const Global> order,
                    std::span<const op::WantedBlock> wanted, const op::CompressOptions& options);

/// Blocks made by the device's kernels, which the processor plays.
std::unique_ptr<op::BlockMaker<double>> virtual_blocks(const app::bem::SingleLayer& layer,
                                                       std::span<const Global> order);

}  // namespace tacit::device
