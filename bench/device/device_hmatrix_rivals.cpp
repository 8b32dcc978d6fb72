// device_hmatrix beside cuBLAS (TACIT_BENCH_RIVALS); compiled by nvcc.
#include "device_hmatrix.cu"
