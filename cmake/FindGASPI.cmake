# GASPI::GASPI, GASPI_FOUND: GPI-2. GASPI_ROOT helps where it lies elsewhere.
find_path(GASPI_INCLUDE_DIR GASPI.h)
find_library(GASPI_LIBRARY GPI2 PATH_SUFFIXES lib64 lib)  # GPI-2 installs into lib64 on every system
mark_as_advanced(GASPI_INCLUDE_DIR GASPI_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(GASPI REQUIRED_VARS GASPI_LIBRARY GASPI_INCLUDE_DIR)
if(GASPI_FOUND AND NOT TARGET GASPI::GASPI)
  find_package(Threads REQUIRED)
  add_library(GASPI::GASPI UNKNOWN IMPORTED)
  set_target_properties(GASPI::GASPI PROPERTIES IMPORTED_LOCATION ${GASPI_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${GASPI_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
