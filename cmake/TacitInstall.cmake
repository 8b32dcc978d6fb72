# cmake --install: library, headers, and what find_package(tacit) reads. A wheel takes the component `python` only.
include(CMakePackageConfigHelpers)
set(TACIT_INSTALL_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/tacit)

install(TARGETS tacit EXPORT tacitTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT development)
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/tacit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def" PATTERN "*.cuh" PATTERN "*.h" PATTERN "*.f90")
install(EXPORT tacitTargets NAMESPACE tacit:: DESTINATION ${TACIT_INSTALL_CMAKE} COMPONENT development)

# pkg-config, for builds without CMake. What a static library needs belongs to Libs: a program does not link without it.
set(needed "")
foreach(library IN LISTS LAPACK_LIBRARIES ZLIB_LIBRARIES MPI_CXX_LIBRARIES OpenMP_CXX_LIBRARIES)
  string(APPEND needed " ${library}")
endforeach()
foreach(target METIS::METIS AMD::AMD Hwloc::Hwloc GASPI::GASPI)
  if(TARGET ${target})
    get_target_property(library ${target} IMPORTED_LOCATION)
    if(library)
      string(APPEND needed " ${library}")
    endif()
  endif()
endforeach()
string(APPEND needed " -pthread -lstdc++ -lm")
set(TACIT_PC_CFLAGS "")
set(TACIT_PC_LIBS "")
set(TACIT_PC_LIBS_PRIVATE "")
if(TACIT_MPI)
  string(APPEND TACIT_PC_CFLAGS " -DTACIT_HAVE_MPI")
endif()
if(BUILD_SHARED_LIBS)
  set(TACIT_PC_LIBS_PRIVATE "${needed}")
else()
  set(TACIT_PC_LIBS "${needed}")
endif()
file(RELATIVE_PATH TACIT_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" TACIT_PC_UP "${TACIT_PC_UP}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/tacit.pc.in ${CMAKE_BINARY_DIR}/tacit.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tacit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

set(TACIT_WITH_METIS ${METIS_FOUND})
set(TACIT_WITH_AMD ${AMD_FOUND})
set(TACIT_WITH_HWLOC ${Hwloc_FOUND})
set(TACIT_WITH_ZLIB ${ZLIB_FOUND})
set(TACIT_FORTRAN_MODULE ${CMAKE_INSTALL_INCLUDEDIR}/tacit/c/tacit.f90)
set(TACIT_PETSC_PLUGIN ${CMAKE_INSTALL_LIBDIR}/libtacit_petsc.so)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tacitConfig.cmake.in ${CMAKE_BINARY_DIR}/tacitConfig.cmake
  INSTALL_DESTINATION ${TACIT_INSTALL_CMAKE} PATH_VARS TACIT_FORTRAN_MODULE TACIT_PETSC_PLUGIN)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tacitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tacitConfig.cmake ${CMAKE_BINARY_DIR}/tacitConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindMETIS.cmake ${CMAKE_CURRENT_LIST_DIR}/FindAMD.cmake ${CMAKE_CURRENT_LIST_DIR}/FindHwloc.cmake ${CMAKE_CURRENT_LIST_DIR}/FindGASPI.cmake DESTINATION ${TACIT_INSTALL_CMAKE} COMPONENT development)
