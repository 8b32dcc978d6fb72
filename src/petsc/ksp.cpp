// Types of KSP: `-ksp_type tacit_cg`, one for each method of Tacit.
#include "options.hpp"

#include <tacit/krylov/solve.hpp>
#include <tacit/krylov/traits.hpp>
#include <tacit/precond/make.hpp>

#include <cmath>
#include <utility>
#include <vector>

namespace tacit::petsc {
namespace {

using layout::Vector;

/// What a KSP of ours keeps in ksp->data.
struct Solver {
  krylov::Options options;
  PetscBool report = PETSC_FALSE;
  const krylov::State* state = nullptr;  ///< while a monitor runs
  MatNullSpace null_space_of = nullptr;  ///< what `null_space` was made from, and a reference to it
  std::shared_ptr<const krylov::NullSpace<T>> null_space;
  std::unique_ptr<Vector<T>> b, x;  ///< from KSPSetUp() to KSPReset(), as work vectors of PETSc's types are
};
Solver& solver_of(KSP ksp) {
  return *static_cast<Solver*>(ksp->data);
}

/// Options that KSP has by itself: tolerances and the limit.
bool is_own_option(std::string_view name) {
  for (const char* const of_ksp : {"rtol", "atol", "max_iterations", "divergence", "history", "side"})
    if (name == of_ksp) return false;
  return true;
}

/// Makes b and x, unless they are there. Local.
void make_vectors(Solver& s, const layout::Space& space) {
  if (s.b && s.b->space() == space) return;
  s.x.reset();
  s.b = std::make_unique<Vector<T>>(space);
  s.x = std::make_unique<Vector<T>>(space);
  // Memory that most methods take, which host_free() keeps: the first touch of new pages is work of a set-up.
  constexpr std::size_t of_methods = 5;
  const std::vector<Vector<T>> touched(of_methods, Vector<T>(space));
}

/// The null space of A; null where it has none. Collective.
const krylov::NullSpace<T>* null_space_of(Mat A, const layout::Space& space, Solver& s) {
  MatNullSpace given = nullptr;
  ok(MatGetNullSpace(A, &given));
  if (!given) return nullptr;
  if (given == s.null_space_of && s.null_space->right().vectors().front().space() == space) return s.null_space.get();
  PetscBool has_constant = PETSC_FALSE;
  PetscInt count = 0;
  const Vec* vectors = nullptr;
  ok(MatNullSpaceGetVecs(given, &has_constant, &count, &vectors));
  require(has_constant || count > 0,
          "the null space has neither vectors nor the constant; one that is a function cannot "
          "be used here");
  std::vector<Vector<T>> right;
  if (has_constant) layout::fill(right.emplace_back(space), T(1));
  for (PetscInt k = 0; k < count; ++k) copy_from(vectors[k], right.emplace_back(space).data());
  s.null_space = std::make_shared<krylov::NullSpace<T>>(std::move(right));
  ok(PetscObjectReference(PetscObject(given)));
  ok(MatNullSpaceDestroy(&s.null_space_of));
  s.null_space_of = given;
  return s.null_space.get();
}

bool tests_nothing(KSP ksp) {
  return ksp->normtype == KSP_NORM_NONE || ksp->converged == KSPConvergedSkip;
}
/// The options of a solve: those of the type with KSP's tolerances. `r0`: ||b - A x0||, where it is needed.
krylov::Options options_of(KSP ksp, double b_norm, double r0) {
  krylov::Options o = solver_of(ksp).options;
  o.max_iterations = int(ksp->max_it);
  o.rtol = double(ksp->rtol), o.atol = double(ksp->abstol);
  if (ksp->divtol > 1) o.divergence = double(ksp->divtol);
  if (krylov::takes(o.method, "side") && ksp->pc_side == PC_LEFT) o.side = krylov::Side::left;
  if (tests_nothing(ksp)) {  // a fixed number of iterations, as smoothers and inner solves are
    o.rtol = 0., o.atol = 0;
    o.fallbacks = o.check_memory = false;
    o.explain = false;
  } else if (ksp->converged == KSPConvergedDefault) {
    const auto* const c = static_cast<const KSPConvergedDefaultCtx*>(ksp->cnvP);
    if (c && !ksp->guess_zero && (c->initialrtol || (c->mininitialrtol && r0 < b_norm)))
      o.rtol = 0., o.atol = std::max(double(ksp->abstol), double(ksp->rtol) * r0);
  } else {  // the user's own test decides
    o.rtol = 0., o.atol = 0;
  }
  krylov::check(o);
  return o;
}
bool needs_first_residual(KSP ksp) {
  return ksp->numbermonitors > 0 || (ksp->converged != KSPConvergedDefault && !tests_nothing(ksp)) ||
         (!ksp->guess_zero && ksp->converged == KSPConvergedDefault);
}

/// Monitors and, where the user has one, the test of convergence, for iteration k with this ||r||. True: stop.
bool monitored(KSP ksp, int k, double residual, const krylov::State* state) {
  Solver& s = solver_of(ksp);
  s.state = state;
  ksp->its = k, ksp->rnorm = PetscReal(residual);
  ok(KSPMonitor(ksp, k, PetscReal(residual)));
  if (ksp->converged != KSPConvergedDefault && !tests_nothing(ksp))
    ok((*ksp->converged)(ksp, k, PetscReal(residual), &ksp->reason, ksp->cnvP));
  s.state = nullptr;
  return ksp->reason != KSP_CONVERGED_ITERATING;
}

KSPConvergedReason reason_of(KSP ksp, const krylov::Report& r) {
  using krylov::Reason;
  if (r.converged()) return r.residual_norm <= double(ksp->rtol) ? KSP_CONVERGED_RTOL : KSP_CONVERGED_ATOL;
  switch (r.reason) {
    case Reason::max_iterations: {
      const auto* const c = static_cast<const KSPConvergedDefaultCtx*>(ksp->cnvP);
      const bool enough = tests_nothing(ksp) || (ksp->converged == KSPConvergedDefault && c && c->convmaxits);
      return enough ? KSP_CONVERGED_ITS : KSP_DIVERGED_ITS;
    }
    case Reason::stopped:
      return ksp->reason;
    case Reason::diverged:
      return KSP_DIVERGED_DTOL;
    case Reason::non_finite:
      return KSP_DIVERGED_NANORINF;
    default:
      break;
  }
  // Inner solves of a fixed number of iterations end early where nothing is left to reduce.
  return tests_nothing(ksp) && r.reason != Reason::damaged ? KSP_CONVERGED_ITS : KSP_DIVERGED_BREAKDOWN;
}

void print_report(KSP ksp, const krylov::Report& r) {
  const MPI_Comm comm = comm_of(ksp);
  ok(PetscPrintf(
      comm,
      "tacit: %s with %s: %s after %d iterations, ||b - A x|| / ||b|| = %.3e, %lld reductions, %lld products, "
      "%.3e s\n",
      r.method.c_str(), r.precond.c_str(), krylov::to_string(r.reason), r.iterations, r.residual_norm,
      static_cast<long long>(r.counts.reductions), static_cast<long long>(r.counts.operator_applies), r.seconds));
  for (const std::string& line : {r.detail, r.advice})
    if (!line.empty()) ok(PetscPrintf(comm, "tacit: %s\n", line.c_str()));
  for (const std::string& line : r.warnings) ok(PetscPrintf(comm, "tacit: %s\n", line.c_str()));
}

/// Complete factors for the methods that need them, unless the PC is such already. Collective.
std::shared_ptr<const op::Operator<T, Host>> precond_of(KSP ksp, const layout::Space& space) {
  const auto method = solver_of(ksp).options.method;
  auto P = operator_of(ksp->pc, space);
  if (!krylov::traits_of(method).needs_factors || (P && P->name() == "direct")) return P;
  Mat of = nullptr;
  ok(PCGetOperators(ksp->pc, &of, nullptr));
  return precond::make<T, Host>("direct", *csr_by_force(of));
}

void solve(KSP ksp) {
  Solver& s = solver_of(ksp);
  require(!ksp->transpose_solve, "KSPSolveTranspose() is not available in type ", PetscObject(ksp)->type_name,
          "; transpose the matrix (MatTranspose) and use KSPSolve()");
  Mat A_mat = nullptr;
  ok(PCGetOperators(ksp->pc, &A_mat, nullptr));
  const auto A = operator_of(A_mat, ksp->pc);
  const auto& space = A->range();
  const auto report = comm::collective(space.comm(), [&] {
    const auto P = precond_of(ksp, space);
    make_vectors(s, space);
    Vector<T>&b = *s.b, &x = *s.x;
    copy_from(ksp->vec_rhs, b.data());
    if (ksp->guess_zero) layout::fill(x, T(0));
    else copy_from(ksp->vec_sol, x.data());
    double b_norm = 0, r0 = 0;
    ksp->reason = KSP_CONVERGED_ITERATING;
    if (needs_first_residual(ksp)) {
      r0 = b_norm = layout::norm(b);
      if (!ksp->guess_zero) {
        Vector<T> r(space);
        A->apply(x, r);
        layout::subtract(b, r, r);
        r0 = layout::norm(r);
      }
    }
    auto options = options_of(ksp, b_norm, r0);
    options.callback_stops = ksp->converged != KSPConvergedDefault && !tests_nothing(ksp);
    if (ksp->numbermonitors > 0 || options.callback_stops) {
      const bool stop = monitored(ksp, 0, r0, nullptr);
      if (stop) options.max_iterations = 0;
      options.callback = [&](const krylov::State& state) {
        return monitored(ksp, state.iteration, state.residual_norm * b_norm, &state);
      };
    }
    const bool hermitian = options.method == krylov::Method::automatic && csr_of(A_mat) && is_hermitian(A_mat);
    auto made = krylov::solve<T, Host>(*A, P.get(), b, x, options, hermitian, null_space_of(A_mat, space, s));
    copy_to(x.data(), ksp->vec_sol);
    return made;
  });
  for (const double relative : report.history) ok(KSPLogResidualHistory(ksp, PetscReal(relative * report.b_norm)));
  ksp->its = report.iterations;
  ksp->rnorm = PetscReal(report.residual_norm * report.b_norm);
  if (ksp->reason == KSP_CONVERGED_ITERATING || report.reason != krylov::Reason::max_iterations)
    ksp->reason = reason_of(ksp, report);
  if (s.report) print_report(ksp, report);
}

PetscErrorCode solve_ksp(KSP ksp) {
  return guarded(comm_of(ksp), "KSPSolve_Tacit", [&] { solve(ksp); });
}

/// The Mat's rows are taken at the first solve.
PetscErrorCode set_up(KSP ksp) {
  return guarded(comm_of(ksp), "KSPSetUp_Tacit", [&] {
    Solver& s = solver_of(ksp);
    krylov::check(s.options);
    PetscBool has_matrix = PETSC_FALSE;
    Mat A = nullptr;
    ok(PCGetOperatorsSet(ksp->pc, &has_matrix, nullptr));
    if (!has_matrix) return;  // PETSc says so
    ok(PCGetOperators(ksp->pc, &A, nullptr));
    const layout::Space space = space_of(A);
    comm::collective(space.comm(), [&] { make_vectors(s, space); });
  });
}

PetscErrorCode set_from_options(KSP ksp, OptionItems PetscOptionsObject) {
  return guarded(comm_of(ksp), "KSPSetFromOptions_Tacit", [&] {
    Solver& s = solver_of(ksp);
    const char* const name = krylov::to_string(s.options.method);
    set_from_database(PetscOptionsObject, krylov::options(), "-ksp_tacit_", name, s.options, is_own_option);
    const auto look = [&]() -> PetscErrorCode {
      PetscCall(PetscOptionsBool("-ksp_tacit_report", "print how each solve ended, with warnings and advice", name,
                                 s.report, &s.report, nullptr));
      PetscInt restart = PetscInt(s.options.restart.value_or(krylov::default_restart));
      PetscBool set = PETSC_FALSE;
      if (krylov::takes(s.options.method, "restart"))
        PetscCall(PetscOptionsInt("-ksp_gmres_restart", "as -ksp_tacit_restart", "KSPGMRESSetRestart", restart,
                                  &restart, &set));
      if (set) s.options.restart = int(restart);
      return PetscErrorCode(0);
    };
    ok(look());
    krylov::check(s.options);
  });
}

PetscErrorCode set_restart(KSP ksp, PetscInt restart) {
  solver_of(ksp).options.restart = int(restart);
  return 0;
}

/// The solution: the current one while a monitor runs, as true residuals need it.
PetscErrorCode build_solution(KSP ksp, Vec v, Vec* V) {
  const auto* const state = solver_of(ksp).state;
  if (!state) return KSPBuildSolutionDefault(ksp, v, V);
  return guarded(comm_of(ksp), "KSPBuildSolution_Tacit", [&] {
    const Vec to = v ? v : ksp->vec_sol;
    PetscInt count = 0;
    ok(VecGetLocalSize(to, &count));
    std::vector<T> x(static_cast<std::size_t>(count));
    state->solution(x.data());
    copy_to(x.data(), to);
    if (V) *V = to;
  });
}

PetscErrorCode view(KSP ksp, PetscViewer viewer) {
  return guarded(comm_of(ksp), "KSPView_Tacit", [&] {
    PetscBool is_text = PETSC_FALSE;
    ok(PetscObjectTypeCompare(PetscObject(viewer), PETSCVIEWERASCII, &is_text));
    if (!is_text) return;
    const Solver& s = solver_of(ksp);
    ok(PetscViewerASCIIPrintf(viewer, "  Tacit's %s, converged by the recomputed ||b - A x||\n",
                              krylov::to_string(s.options.method)));
    view_options(viewer, krylov::options(), s.options);
  });
}

PetscErrorCode reset(KSP ksp) {
  Solver& s = solver_of(ksp);
  s.null_space.reset();
  s.b.reset(), s.x.reset();
  return MatNullSpaceDestroy(&s.null_space_of);
}

PetscErrorCode destroy(KSP ksp) {
  const PetscErrorCode code = reset(ksp);
  delete &solver_of(ksp);
  ksp->data = nullptr;
  const PetscErrorCode removed = PetscObjectComposeFunction(PetscObject(ksp), "KSPGMRESSetRestart_C", nullptr);
  return code ? code : removed;
}

template <krylov::Method method>
PetscErrorCode create(KSP ksp) {
  return guarded(comm_of(ksp), "KSPCreate_Tacit", [&] {
    auto solver = std::make_unique<Solver>();
    solver->options.method = method;
    // Of all methods: the residual is b - A x, whatever the side.
    for (const auto side : {PC_RIGHT, PC_LEFT}) {
      if (side == PC_LEFT && krylov::takes(method, "side") && !krylov::needs_definite(method)) {
        ok(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, side, 2));
        ok(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, side, 1));
      } else {
        ok(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, side, side == PC_RIGHT ? 3 : 2));
        ok(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, side, 1));
      }
    }
    ok(PetscObjectComposeFunction(PetscObject(ksp), "KSPGMRESSetRestart_C",
                                  krylov::takes(method, "restart") ? set_restart : nullptr));
    ksp->data = solver.release();
    ksp->ops->setup = set_up;
    ksp->ops->solve = solve_ksp;
    ksp->ops->setfromoptions = set_from_options;
    ksp->ops->buildsolution = build_solution;
    ksp->ops->buildresidual = KSPBuildResidualDefault;
    ksp->ops->view = view;
    ksp->ops->reset = reset;
    ksp->ops->destroy = destroy;
  });
}

}  // namespace

void register_ksp_types() {
  const auto add = [](krylov::Method method, PetscErrorCode (*make)(KSP)) {
    ok(KSPRegister(("tacit_" + with_underscores(krylov::to_string(method))).c_str(), make));
  };
  add(krylov::Method::automatic, create<krylov::Method::automatic>);
#define TACIT_METHOD(enumerator, ...) add(krylov::Method::enumerator, create<krylov::Method::enumerator>);
#include <tacit/krylov/methods.def>
}

}  // namespace tacit::petsc
