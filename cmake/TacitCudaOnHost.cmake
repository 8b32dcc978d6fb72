# TacitCudaOnHost: .cu files by the C++ compiler, with a CUDA runtime that runs kernels on the processor of the host
# (tests/cuda_on_host). Included when TACIT_CUDA is host.

set(TACIT_CUDA_HOST_OPTIONS "" CACHE STRING "More options for .cu files; -mfma;-ffp-contract=fast rounds products and sums once, as nvcc does")

get_filename_component(_stand_in ${CMAKE_CURRENT_LIST_DIR}/../tests/cuda_on_host ABSOLUTE)
target_compile_definitions(tacit PUBLIC TACIT_HAVE_CUDA)
target_include_directories(tacit PUBLIC $<BUILD_INTERFACE:${_stand_in}/include>)
target_sources(tacit PRIVATE ${_stand_in}/api.cpp ${_stand_in}/block.cpp ${_stand_in}/clock.cpp ${_stand_in}/fault.cpp ${_stand_in}/memory.cpp ${_stand_in}/streams.cpp)
# Half of the time of the tests goes by here.
set_source_files_properties(${_stand_in}/block.cpp PROPERTIES COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O2>)

# tacit_device_sources(TARGET): compiles the .cu files of the target as C++. Without another check of alignment a misaligned
# load traps: on the GPU it ends the kernel, on the host it would go unnoticed.
function(tacit_device_sources target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  if(NOT sources)
    return()
  endif()
  set(options -include cuda_runtime.h $<$<CONFIG:Release>:-O1> ${TACIT_CUDA_HOST_OPTIONS})
  if(NOT TACIT_SANITIZE MATCHES "undefined|alignment")
    list(APPEND options -fsanitize=alignment $<$<CXX_COMPILER_ID:GNU>:-fsanitize-undefined-trap-on-error>
      $<$<CXX_COMPILER_ID:Clang>:-fsanitize-trap=alignment>)
  endif()
  set_source_files_properties(${sources} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_DEFINITIONS __CUDACC__)
  set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS ${options})
endfunction()
