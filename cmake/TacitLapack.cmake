# LAPACK::LAPACK: the system's; where there is none, PyPI's OpenBLAS (scipy-openblas32) of the Python that the module is
# built for. Then TACIT_LAPACK_PREFIX is what stands before its names, and TACIT_LAPACK_BUNDLE are the files that a wheel
# carries, because pip removes what it needed for the build only.
find_package(LAPACK)
set(TACIT_LAPACK_BUNDLE)
if(NOT LAPACK_FOUND AND TACIT_PYTHON)
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
if(NOT LAPACK_FOUND)
  message(FATAL_ERROR "Tacit needs LAPACK, and there is none. One of these helps:\n"
    "  as root: apt-get install libopenblas-dev\n"
    "  pip install scipy-openblas32, into the Python that the module is built for (-DTACIT_PYTHON=ON)\n"
    "  -DLAPACK_LIBRARIES=FILE -DBLAS_LIBRARIES=FILE, with -DTACIT_LAPACK_PREFIX=P where names in it begin with P")
endif()
