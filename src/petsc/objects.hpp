// PETSc's objects as Tacit's: communicators, matrices, and how errors of one become errors of the other.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/operator.hpp>

#include <petscksp.h>
// Types of KSP and PC are defined by filling in their private structures.
#include <petsc/private/kspimpl.h>
#include <petsc/private/pcimpl.h>

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

namespace tacit::petsc {

#ifdef PETSC_USE_COMPLEX
using T = std::conditional_t<std::is_same_v<PetscReal, float>, std::complex<float>, std::complex<double>>;
#else
using T = PetscScalar;
#endif
static_assert(Scalar<T>, "Tacit has solves in single and double precision");

/// An error that PETSc has printed already.
class PetscFailure : public Error {
 public:
  explicit PetscFailure(PetscErrorCode code)
      : Error(ErrorKind::environment, message("PETSc's error ", int(code), ", which is described above")), code(code) {}
  const PetscErrorCode code;
};
inline void ok(PetscErrorCode code) {
  if (code != 0) throw PetscFailure(code);
}

/// f() with Tacit's errors as PETSc's.
template <class F>
PetscErrorCode guarded(MPI_Comm comm, const char* where, F&& f) noexcept {
  const auto raised = [&](PetscErrorCode code, const char* text) {
    return PetscError(comm, 0, where, "libtacit_petsc", code, PETSC_ERROR_INITIAL, "%s", text);
  };
  try {
    f();
    return PetscErrorCode(0);
  } catch (const PetscFailure& e) {
    return PetscError(comm, 0, where, "libtacit_petsc", e.code, PETSC_ERROR_REPEAT, " ");
  } catch (const Error& e) {
    return raised(e.kind() == ErrorKind::memory  ? PETSC_ERR_MEM
                  : e.kind() == ErrorKind::usage ? PETSC_ERR_ARG_WRONG
                                                 : PETSC_ERR_LIB,
                  e.what());
  } catch (const std::bad_alloc&) {
    return raised(PETSC_ERR_MEM, "there is not enough memory");
  } catch (const std::exception& e) {
    return raised(PETSC_ERR_PLIB, e.what());
  }
}
inline MPI_Comm comm_of(const void* object) {
  return PetscObjectComm(static_cast<PetscObject>(const_cast<void*>(object)));
}

/// Tacit's communicator of the same processes: made once, and kept as an attribute of PETSc's. Collective.
const comm::Communicator& communicator_of(MPI_Comm comm);

/// The space of a square matrix's vectors. The Mat keeps it. Collective.
layout::Space space_of(Mat A);
/// The matrix as rows in Tacit's storage; null where it is of another type than AIJ (seqaij, mpiaij). Made once for a
/// Mat, which keeps it; new numbers are taken over when the Mat has changed: in place, unless others than the caller,
/// who has it in `own`, still refer to the old ones. Collective.
std::shared_ptr<op::Csr<T>> csr_of(Mat A, const std::shared_ptr<op::Csr<T>>& own = nullptr);
/// The same; a Mat of another type is converted to AIJ first, each time.
std::shared_ptr<op::Csr<T>> csr_by_force(Mat A, const std::shared_ptr<op::Csr<T>>& own = nullptr);
/// Whether A, which csr_of() has the rows of, is Hermitian; looked at once for its numbers. Collective.
bool is_hermitian(Mat A);
/// csr_of(), or MatMult() as an operator. Where `pc` is PETSc's and more than a diagonal, a solve makes few products,
/// or most of its work is not theirs: rows are copied only after many products. Collective.
std::shared_ptr<const op::Operator<T, Host>> operator_of(Mat A, PC pc);
/// Whether a PC is of a type that Tacit has registered. Local.
bool is_of_tacit(PC pc);
/// The operator of such a PC. Local.
std::shared_ptr<const op::Operator<T, Host>> operator_of_tacit(PC pc);
/// PCApply() as an operator: null for PCNONE, Tacit's own for its types, a diagonal for PCJACOBI. Collective.
std::shared_ptr<const op::Operator<T, Host>> operator_of(PC pc, const layout::Space& space);

/// Calls f(part) for the vectors that have arrays: a nest's in its order, v itself where it is no nest. Local.
template <class F>
void each_part(Vec v, const F& f) {
  PetscBool is_nest = PETSC_FALSE;
  PetscInt count = 0;
  Vec* parts = nullptr;
  ok(PetscObjectTypeCompare(PetscObject(v), VECNEST, &is_nest));
  if (!is_nest) return f(v);
  ok(VecNestGetSubVecs(v, &count, &parts));
  for (PetscInt k = 0; k < count; ++k) each_part(parts[k], f);
  ok(PetscObjectStateIncrease(PetscObject(v)));  // a nest knows no changes of its parts
}
/// Copies this rank's elements of a vector. Local.
void copy_from(Vec v, T* to);
void copy_to(const T* from, Vec v);

void register_ksp_types();
void register_pc_types();

/// "ca-gmres" as part of PETSc's names: "ca_gmres".
inline std::string with_underscores(std::string name) {
  for (char& c : name)
    if (c == '-' || c == '+') c = '_';
  return name;
}

/// The type of the second parameter of a function: PETSc has changed that of setfromoptions.
template <class R, class A, class B>
B second_parameter(R (*)(A, B));
using OptionItems = decltype(second_parameter(_KSPOps().setfromoptions));

}  // namespace tacit::petsc
