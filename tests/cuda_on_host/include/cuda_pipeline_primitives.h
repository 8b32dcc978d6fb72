// Asynchronous copies to shared memory. They are carried out when they are awaited, so that a kernel that reads too
// early reads what was there before.
#pragma once

#include <cuda_runtime.h>

void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes, std::size_t zeros = 0);
void __pipeline_commit();
void __pipeline_wait_prior(std::size_t groups);
