# LAPACK::LAPACK: the system's; where there is none, PyPI's OpenBLAS (scipy-openblas32) of the Python that the module is
# built for (always with TACIT_LAPACK_FROM=pypi). Then TACIT_LAPACK_PREFIX is what stands before its names, and TACIT_LAPACK_BUNDLE are the files that a wheel
# carries, because pip removes what it needed for the build only. TACIT_LAPACK_CARRIED=OFF leaves that to auditwheel, which
# gives the library a name of its own: of two libraries of one name a process loads the first only, whichever package it is of.
set(TACIT_LAPACK_CARRIED ON CACHE BOOL "A wheel carries PyPI's OpenBLAS as it is")
mark_as_advanced(TACIT_LAPACK_CARRIED)
if(NOT TACIT_LAPACK_FROM STREQUAL "pypi")
  find_package(LAPACK)
endif()
set(TACIT_LAPACK_BUNDLE)
if(NOT LAPACK_FOUND AND Python_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "
import importlib.metadata, os, scipy_openblas32
licence = [str(f.locate()) for f in importlib.metadata.files('scipy-openblas32') or () if f.name == 'LICENSE.txt']
print(os.path.join(scipy_openblas32.get_lib_dir(), scipy_openblas32.get_library(fullname=True)), *licence[:1], sep=';', end='')"
    OUTPUT_VARIABLE files RESULT_VARIABLE failed ERROR_QUIET)
  if(failed EQUAL 0)
    # A copy in the build folder: the place that it comes from does not become part of the module's search path.
    foreach(file IN LISTS files)
      get_filename_component(name "${file}" NAME)
      string(REPLACE "LICENSE.txt" "libscipy_openblas.LICENSE.txt" name "${name}")
      configure_file("${file}" "${CMAKE_BINARY_DIR}/lapack/${name}" COPYONLY)
      list(APPEND TACIT_LAPACK_BUNDLE "${CMAKE_BINARY_DIR}/lapack/${name}")
    endforeach()
    list(GET TACIT_LAPACK_BUNDLE 0 library)
    add_library(LAPACK::LAPACK UNKNOWN IMPORTED)
    set_target_properties(LAPACK::LAPACK PROPERTIES IMPORTED_LOCATION "${library}")
    set(TACIT_LAPACK_PREFIX scipy_)
    set(LAPACK_FOUND TRUE)
    message(STATUS "LAPACK: PyPI's OpenBLAS, ${library}")
  endif()
endif()
