// What PETSc calls when it loads the library: `-dll_append libtacit_petsc.so`, or PetscDLLibraryAppend().
#include "objects.hpp"

extern "C" PETSC_VISIBILITY_PUBLIC PetscErrorCode PetscDLLibraryRegister_tacit_petsc(void) {
  return tacit::petsc::guarded(PETSC_COMM_SELF, "PetscDLLibraryRegister_tacit_petsc", [] {
    tacit::petsc::register_ksp_types();
    tacit::petsc::register_pc_types();
  });
}
