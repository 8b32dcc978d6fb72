// Device memory that is no array.
#pragma once

#include <cstddef>

namespace tacit::exec {

/// cudaMalloc, after which cudaFree is due: for what is no array, but needs the memory that is kept for arrays where
/// there is too little. Error(environment) without memory.
void* allocate_beside_arrays(std::size_t bytes);

}  // namespace tacit::exec
