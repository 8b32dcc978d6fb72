# EigenLU_INCLUDE_DIR, EigenLU_FOUND: Eigen's headers with a sparse LU factorisation that solves with the adjoint too (3.4 and
# newer). Eigen's own CMake files are not read: they refuse a newer major version. EigenLU_ROOT helps where it lies elsewhere.
find_path(EigenLU_INCLUDE_DIR Eigen/SparseLU PATH_SUFFIXES eigen3)
mark_as_advanced(EigenLU_INCLUDE_DIR)
set(EigenLU_ADJOINT "")
if(EigenLU_INCLUDE_DIR)
  file(STRINGS ${EigenLU_INCLUDE_DIR}/Eigen/src/SparseLU/SparseLU.h EigenLU_ADJOINT REGEX "SparseLUTransposeView" LIMIT_COUNT 1)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(EigenLU REQUIRED_VARS EigenLU_INCLUDE_DIR EigenLU_ADJOINT)
