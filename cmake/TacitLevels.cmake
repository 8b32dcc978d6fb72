# TACIT_LEVELS: the Python module once for each of these processors (-march=), each in a build folder of its own, and installed
# side by side as _core_LEVEL.so. python/tacit/_core.py takes the best one at import. The target is called tacit_python, as that
# of one module. TACIT_OBJECTS_FROM is such a build for another Python: the library is taken from its levels.
include(ExternalProject)
if(NOT TACIT_PYTHON)
  message(FATAL_ERROR "TACIT_LEVELS is of the Python module: it needs TACIT_PYTHON=ON")
endif()
find_package(Python ${TACIT_OLDEST_python} REQUIRED COMPONENTS Interpreter Development.Module)

# What this build was configured with, for those of the levels. Lists travel with another separator.
set(given -DSKBUILD=2 -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DPython_EXECUTABLE=${Python_EXECUTABLE} -DTACIT_PYTHON_LINK=OFF
  -DTACIT_LAPACK_CARRIED=OFF)
foreach(name TACIT_PYTHON TACIT_MPI TACIT_CUDA TACIT_OPENMP TACIT_METIS TACIT_AMD TACIT_EIGEN TACIT_HWLOC TACIT_APPLICATIONS TACIT_PCH
    TACIT_LAPACK_FROM SKBUILD_SABI_COMPONENT CMAKE_CXX_COMPILER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CXX_FLAGS CMAKE_MAKE_PROGRAM)
  if(NOT "${${name}}" STREQUAL "")
    string(REPLACE ";" "|" value "${${name}}")
    list(APPEND given "-D${name}=${value}")
  endif()
endforeach()

# The rest than _core is the same at each level: it comes from the first.
string(REPLACE ";" "|" modules "${TACIT_MPI_MODULES}")
add_custom_target(tacit_python)
set(before)
set(stub ON)  # from the first: this machine need not be able to execute the others
list(GET TACIT_LEVELS 0 first)
foreach(level IN LISTS TACIT_LEVELS)
  set(stage ${CMAKE_BINARY_DIR}/stage-${level})
  set(objects)
  if(TACIT_OBJECTS_FROM)
    set(objects -DTACIT_OBJECTS_FROM=${TACIT_OBJECTS_FROM}/${level})
  endif()
  ExternalProject_Add(level_${level}
    SOURCE_DIR ${CMAKE_SOURCE_DIR} BINARY_DIR ${CMAKE_BINARY_DIR}/${level} INSTALL_DIR ${stage}
    LIST_SEPARATOR | CMAKE_ARGS ${given} ${objects} -DTACIT_MPI_MODULES=${modules} -DTACIT_ARCH=${level} -DTACIT_STUB=${stub} -DCMAKE_INSTALL_PREFIX=${stage}
    BUILD_COMMAND ${CMAKE_COMMAND} --build <BINARY_DIR> --target tacit_python
    INSTALL_COMMAND ${CMAKE_COMMAND} -E rm -rf ${stage}
    COMMAND ${CMAKE_COMMAND} --install <BINARY_DIR> --component python --strip
    BUILD_ALWAYS ON USES_TERMINAL_BUILD ON EXCLUDE_FROM_ALL ON DEPENDS ${before})
  set(stub OFF)
  set(modules)
  set(before level_${level})  # one after the other: each takes all processors
  add_dependencies(tacit_python level_${level})
  install(CODE "
    file(GLOB module \"${stage}/tacit/_core.*.so\")
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/tacit\" TYPE FILE RENAME _core_${level}.so FILES \"\${module}\")"
    COMPONENT python)
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/stage-${first}/tacit/ DESTINATION tacit COMPONENT python PATTERN "_core.*.so" EXCLUDE)
