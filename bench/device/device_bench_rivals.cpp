// device_bench beside cuBLAS and cuSPARSE (TACIT_BENCH_RIVALS); compiled by nvcc.
#include "device_bench.cu"
