// Adaptive cross approximation on the host, to time it and to compare it with a device's.
#pragma once

#include <tacit/app/bem/single_layer.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>

#include <memory>
#include <span>

namespace tacit::device {

/// Computes the crosses of all admissible blocks and all entries of the others, with all threads and vector registers,
/// without keeping them. Returns the sum of all ranks.
Global host_crosses(const app::bem::SingleLayer& layer, std::span<const Global> order,
                    std::span<const op::WantedBlock> wanted, const op::CompressOptions& options);

/// Blocks made by the device's kernels, run on the CPU.
std::unique_ptr<op::BlockMaker<double>> virtual_blocks(const app::bem::SingleLayer& layer,
                                                       std::span<const Global> order);

}  // namespace tacit::device
