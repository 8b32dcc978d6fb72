# cmake --install: library, headers, and what find_package(tacit) reads. A wheel takes the component `python` only.
include(CMakePackageConfigHelpers)
set(TACIT_INSTALL_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/tacit)

install(TARGETS tacit EXPORT tacitTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/tacit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def" PATTERN "*.cuh" PATTERN "*.h")
install(EXPORT tacitTargets NAMESPACE tacit:: DESTINATION ${TACIT_INSTALL_CMAKE} COMPONENT development)

set(TACIT_WITH_METIS ${METIS_FOUND})
set(TACIT_WITH_AMD ${AMD_FOUND})
set(TACIT_WITH_HWLOC ${Hwloc_FOUND})
set(TACIT_WITH_ZLIB ${ZLIB_FOUND})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tacitConfig.cmake.in ${CMAKE_BINARY_DIR}/tacitConfig.cmake
  INSTALL_DESTINATION ${TACIT_INSTALL_CMAKE})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tacitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tacitConfig.cmake ${CMAKE_BINARY_DIR}/tacitConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindMETIS.cmake ${CMAKE_CURRENT_LIST_DIR}/FindAMD.cmake ${CMAKE_CURRENT_LIST_DIR}/FindHwloc.cmake ${CMAKE_CURRENT_LIST_DIR}/FindGASPI.cmake DESTINATION ${TACIT_INSTALL_CMAKE} COMPONENT development)
