# TacitCuda: nvcc, from the PATH or from PyPI's wheels, and how .cu files are compiled. Included when TACIT_CUDA is ON.
#
# TACIT_CUDA_ARCHITECTURES  machine code for these compute capabilities (a list), and PTX of the last for newer GPUs.
# CMake 3.25 knows no CUDA C++20: with a required standard it stops, without one it falls back to C++17 silently. So the
# standard is given as an option, and CMake is told nothing.

set(TACIT_CUDA_ARCHITECTURES 90 CACHE STRING "Compute capabilities to compile for, as 80;90")

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(TACIT_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
  if(NOT TACIT_NVCC)
    message(FATAL_ERROR "TACIT_CUDA is ON and there is no nvcc: put it on the PATH, set CMAKE_CUDA_COMPILER, "
      "or install PyPI's: pip install 'cuda-toolkit[nvcc,cudart,cccl]==13.0.*'")
  endif()
  set(CMAKE_CUDA_COMPILER ${TACIT_NVCC})
endif()
set(_nvcc "${CMAKE_CUDA_COMPILER}")
if(NOT _nvcc)
  set(_nvcc "$ENV{CUDACXX}")
endif()
get_filename_component(_nvcc "${_nvcc}" REALPATH)
get_filename_component(_root "${_nvcc}" DIRECTORY)
get_filename_component(_root "${_root}" DIRECTORY)

# The wheels put libraries in lib, and nvcc's profile looks in lib64: say where they are. Nor have they a libcudart.so without
# a version, by which CMake finds the toolkit.
if(EXISTS "${_root}/lib/libcudart_static.a")
  if(NOT EXISTS "${_root}/lib64")
    string(APPEND CMAKE_CUDA_FLAGS " -L${_root}/lib")
  endif()
  list(APPEND CMAKE_LIBRARY_PATH "${_root}/lib")
  file(GLOB _cudart "${_root}/lib/libcudart.so.*")
  if(_cudart AND NOT EXISTS "${_root}/lib/libcudart.so")
    list(GET _cudart 0 _cudart)
    set(CUDA_CUDART "${_cudart}" CACHE FILEPATH "The CUDA runtime of PyPI's wheel")
  endif()
endif()

# Options are given below for every source of the library, so that CMake adds none of its own.
set(CMAKE_CUDA_ARCHITECTURES OFF)
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS TACIT_OLDEST_nvcc)
  message(FATAL_ERROR "Tacit needs nvcc ${TACIT_OLDEST_nvcc} or later for C++20; ${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}")
endif()
find_package(CUDAToolkit REQUIRED)

set(_code)
foreach(_architecture IN LISTS TACIT_CUDA_ARCHITECTURES)
  list(APPEND _code "SHELL:-gencode arch=compute_${_architecture},code=sm_${_architecture}")
  set(_last ${_architecture})
endforeach()
list(APPEND _code "SHELL:-gencode arch=compute_${_last},code=compute_${_last}")

# 20013, 20015: a formula's host version, on std::complex, is compiled but never called in device code.
# -Xptxas -v: registers, shared memory and spills of every kernel stand in the build's log.
target_compile_options(tacit_build INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-Xptxas=-v;-diag-suppress=20013,20015;-Xcompiler=-Wall,-Wextra,-fno-math-errno,-fno-trapping-math,-fcx-limited-range;${_code}>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TACIT_OPENMP}>>:-Xcompiler=-fopenmp>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<BOOL:${TACIT_OPENMP}>>>:-Xcompiler=-Wno-unknown-pragmas>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TACIT_WERROR}>>:-Werror=all-warnings>")
# The library's target was made before this file was read.
set_target_properties(tacit PROPERTIES CUDA_ARCHITECTURES OFF)
if(CMAKE_CUDA_COMPILER_LAUNCHER)
  set_target_properties(tacit PROPERTIES CUDA_COMPILER_LAUNCHER "${CMAKE_CUDA_COMPILER_LAUNCHER}")
endif()
target_compile_definitions(tacit PUBLIC TACIT_HAVE_CUDA)
target_link_libraries(tacit PUBLIC CUDA::cudart_static)

# tacit_device_sources(TARGET): nvcc compiles the .cu files of the target as they are (TacitCudaOnHost.cmake has another of this name).
function(tacit_device_sources target)
endfunction()
