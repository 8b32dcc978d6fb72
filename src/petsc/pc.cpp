// Types of PC: `-pc_type tacit_amg`, one for each preconditioner of Tacit.
#include "options.hpp"

#include <tacit/precond/make.hpp>
#include <tacit/precond/rigid_body.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace tacit::petsc {
namespace {

using layout::Vector;

/// What a PC of ours keeps in pc->data.
struct Data {
  precond::Kind kind{};
  precond::Options options;
  int dimension = 0;
  std::vector<double> coordinates;  ///< of PCSetCoordinates(): this rank's nodes, by rows of `dimension`
  std::shared_ptr<op::Csr<T>> matrix;
  std::shared_ptr<op::Operator<T, Host>> made;
  std::unique_ptr<Vector<T>> x, y;  ///< of applies by others than Tacit's solves
};
Data& data_of(PC pc) {
  return *static_cast<Data*>(pc->data);
}
constexpr const char* mark = "tacit_operator_C";
PetscErrorCode marked(PC) {
  return 0;
}

/// MatSetNearNullSpace() by rows, as amg takes it; empty where there is none.
std::vector<T> near_null_space(Mat A, std::size_t rows) {
  MatNullSpace given = nullptr;
  ok(MatGetNearNullSpace(A, &given));
  if (!given) return {};
  PetscBool has_constant = PETSC_FALSE;
  PetscInt count = 0;
  const Vec* vectors = nullptr;
  ok(MatNullSpaceGetVecs(given, &has_constant, &count, &vectors));
  const std::size_t k = std::size_t(count) + (has_constant ? 1 : 0);
  std::vector<T> all(rows * k, T(1));
  for (std::size_t c = 0; c < std::size_t(count); ++c) {
    std::vector<T> one(rows);
    copy_from(vectors[c], one.data());
    for (std::size_t i = 0; i < rows; ++i) all[i * k + c] = one[i];
  }
  return all;
}

std::shared_ptr<op::Operator<T, Host>> new_precond(PC pc, const Data& d) {
  if (d.kind == precond::Kind::amg) {
    precond::Options options = d.options;
    PetscInt block = 1;
    ok(MatGetBlockSize(pc->pmat, &block));
    if (!options.block && block > 1) options.block = int(block);
    auto o = precond::amg_options<T>(options);
    const auto rows = std::size_t(d.matrix->range().local_size());
    o.near_null = near_null_space(pc->pmat, rows);
    // As for PETSc's gamg: where each node has an unknown for each coordinate, they are displacements.
    const auto& comm = d.matrix->range().comm();
    if (comm.all(o.near_null.empty() && d.dimension > 1 && d.dimension == block && d.coordinates.size() == rows)) {
      const precond::RigidBodyModes modes(d.coordinates, d.dimension, comm);
      o.near_null.assign(modes.values.begin(), modes.values.end());
    }
    return std::make_shared<precond::Amg<T>>(*d.matrix, o);
  }
  return precond::make<T, Host>(to_string(d.kind), *d.matrix, d.options);
}

/// Where only the numbers of the matrix are new, amg keeps its aggregates.
PetscErrorCode set_up(PC pc) {
  return guarded(comm_of(pc), "PCSetUp_Tacit", [&] {
    Data& d = data_of(pc);
    auto matrix = csr_by_force(pc->pmat, d.matrix);
    auto* const amg = dynamic_cast<precond::Amg<T>*>(d.made.get());
    if (amg && matrix == d.matrix) {
      comm::collective(matrix->range().comm(), [&] { amg->update(); });
      return;
    }
    d.made.reset();
    d.matrix = std::move(matrix);
    d.made = comm::collective(d.matrix->range().comm(), [&] { return new_precond(pc, d); });
  });
}

PetscErrorCode apply_either(PC pc, Vec from, Vec to, bool adjoint) {
  return guarded(comm_of(pc), "PCApply_Tacit", [&] {
    Data& d = data_of(pc);
    const auto& space = d.made->range();
    if (!d.x || !(d.x->space() == space))
      d.x = std::make_unique<Vector<T>>(space), d.y = std::make_unique<Vector<T>>(space);
    copy_from(from, d.x->data());
    if (adjoint) d.made->apply_adjoint(*d.x, *d.y);
    else d.made->apply(*d.x, *d.y);
    copy_to(d.y->data(), to);
  });
}
PetscErrorCode apply(PC pc, Vec from, Vec to) {
  return apply_either(pc, from, to, false);
}
#ifndef PETSC_USE_COMPLEX  // of complex numbers Tacit has the conjugate transpose
PetscErrorCode apply_transpose(PC pc, Vec from, Vec to) {
  return apply_either(pc, from, to, true);
}
#endif

PetscErrorCode set_from_options(PC pc, OptionItems PetscOptionsObject) {
  return guarded(comm_of(pc), "PCSetFromOptions_Tacit", [&] {
    Data& d = data_of(pc);
    const char* const name = to_string(d.kind);
    std::string_view takes;
    for (const auto& one : precond::kinds())
      if (one.name == std::string_view(name)) takes = one.takes;
    set_from_database(PetscOptionsObject, precond::options(), "-pc_tacit_", name, d.options,
                      [&](std::string_view option) { return detail::taken(takes, option).has_value(); });
    check_values(precond::options(), d.options);
    check_taken(precond::options(), d.options, precond::kinds(), name);
  });
}

PetscErrorCode view(PC pc, PetscViewer viewer) {
  return guarded(comm_of(pc), "PCView_Tacit", [&] {
    PetscBool is_text = PETSC_FALSE;
    ok(PetscObjectTypeCompare(PetscObject(viewer), PETSCVIEWERASCII, &is_text));
    if (!is_text) return;
    const Data& d = data_of(pc);
    ok(PetscViewerASCIIPrintf(viewer, "  Tacit's %s\n", to_string(d.kind)));
    view_options(viewer, precond::options(), d.options);
    const auto* const amg = dynamic_cast<const precond::Amg<T>*>(d.made.get());
    if (!amg) return;
    for (const auto& level : amg->levels())
      ok(PetscViewerASCIIPrintf(viewer, "  level of %lld rows, %lld entries\n", static_cast<long long>(level.rows),
                                static_cast<long long>(level.entries)));
  });
}

PetscErrorCode set_coordinates(PC pc, PetscInt dimension, PetscInt nodes, PetscReal* coordinates) {
  return guarded(comm_of(pc), "PCSetCoordinates_Tacit", [&] {
    Data& d = data_of(pc);
    d.dimension = int(dimension);
    d.coordinates.assign(coordinates, coordinates + dimension * nodes);
  });
}

PetscErrorCode reset(PC pc) {
  Data& d = data_of(pc);
  d.made.reset();
  d.matrix.reset();
  d.x.reset(), d.y.reset();
  return 0;
}
PetscErrorCode destroy(PC pc) {
  delete &data_of(pc);
  pc->data = nullptr;
  const PetscErrorCode code = PetscObjectComposeFunction(PetscObject(pc), mark, nullptr);
  return code ? code : PetscObjectComposeFunction(PetscObject(pc), "PCSetCoordinates_C", nullptr);
}

template <precond::Kind kind>
PetscErrorCode create(PC pc) {
  return guarded(comm_of(pc), "PCCreate_Tacit", [&] {
    auto data = std::make_unique<Data>();
    data->kind = kind;
    ok(PetscObjectComposeFunction(PetscObject(pc), mark, marked));
    if (kind == precond::Kind::amg)
      ok(PetscObjectComposeFunction(PetscObject(pc), "PCSetCoordinates_C", set_coordinates));
    pc->data = data.release();
    pc->ops->setup = set_up;
    pc->ops->apply = apply;
#ifndef PETSC_USE_COMPLEX
    pc->ops->applytranspose = apply_transpose;
#endif
    pc->ops->setfromoptions = set_from_options;
    pc->ops->view = view;
    pc->ops->reset = reset;
    pc->ops->destroy = destroy;
  });
}

}  // namespace

bool is_of_tacit(PC pc) {
  PetscErrorCode (*found)(PC) = nullptr;
  ok(PetscObjectQueryFunction(PetscObject(pc), mark, &found));
  return found == marked;
}
std::shared_ptr<const op::Operator<T, Host>> operator_of_tacit(PC pc) {
  return data_of(pc).made;
}

void register_pc_types() {
#define TACIT_PRECOND(enumerator, name, ...)            \
  if (precond::Kind::enumerator != precond::Kind::none) \
    ok(PCRegister(("tacit_" + with_underscores(name)).c_str(), create<precond::Kind::enumerator>));
#include <tacit/precond/preconds.def>
}

}  // namespace tacit::petsc
