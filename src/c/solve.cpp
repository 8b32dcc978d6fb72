// Solvers and results of the C interface.
#include "handles.hpp"

#include <tacit/krylov/solve.hpp>
#include <tacit/krylov/traits.hpp>
#include <tacit/precond/make.hpp>

#include <utility>

namespace tacit::c {
namespace {

/// x and the report of solve(b, x). Collective.
template <Scalar T, class F>
krylov::Report solved(const layout::Space& space, const void* b, void* x, const F& solve) {
  return comm::collective(space.comm(), [&] {
    layout::Vector<T> right(space), solution(space);
    right.assign(elements<T>(space, b, "b"));
    solution.assign(elements<T>(space, x, "x"));
    auto report = solve(right, solution);
    const auto found = solution.to_host();
    std::copy(found.begin(), found.end(), static_cast<T*>(x));
    return report;
  });
}

template <Scalar T>
krylov::Report solve_with(const krylov::Options& options, const OperatorOf<T>& A, const tacit_operator* P,
                          const void* b, void* x) {
  return solved<T>(A.space(), b, x, [&](const auto& right, auto& solution) {
    require(!P || P->scalar == A.scalar, "A has scalar ", int(A.scalar), " and P ", P ? int(P->scalar) : 0);
    const auto* precond = P ? static_cast<const OperatorOf<T>*>(P)->of.get() : nullptr;
    std::unique_ptr<op::Operator<T, Host>> factors;
    if (krylov::traits_of(options.method).needs_factors && !precond) {
      require(A.is_matrix(), "method ", to_string(options.method), " needs a stored matrix; this operator is a ",
              A.of->name());
      factors = precond::make<T, Host>("direct", *A.matrix);
      precond = factors.get();
    }
    const bool hermitian =
        A.is_matrix() && (options.method == krylov::Method::automatic) && op::is_hermitian(*A.matrix);
    return krylov::solve<T, Host>(*A.of, precond, right, solution, options, hermitian, A.null_space.get());
  });
}

template <Scalar T>
krylov::Report solve_by_trial(const krylov::Options& options, OperatorOf<T>& A, const void* b, void* x) {
  return solved<T>(A.space(), b, x, [&](const auto& right, auto& solution) {
    require(A.is_matrix(), "only a stored matrix is solved with by trial; this operator is a ", A.of->name());
    auto& automatic = A.automatic[options.method];
    if (!automatic) automatic = std::make_unique<precond::Automatic<T>>(*A.matrix, options.method);
    return automatic->solve(right, solution, options, A.null_space.get());
  });
}

void give(tacit_result** to, krylov::Report report) {
  if (to) *to = new tacit_result{std::move(report)};
}

}  // namespace
}  // namespace tacit::c

using namespace tacit::c;
namespace krylov = tacit::krylov;

extern "C" {

tacit_status tacit_solver_new(const char* method, const char* options, tacit_solver** solver) {
  return guarded([&] {
    auto& made = needed(solver, "solver");
    auto chosen = std::make_unique<tacit_solver>();
    chosen->options.method = tacit::value_of<krylov::Method>(&needed(method, "method"));
    each_option(options, [&](std::string_view name, std::string_view value) {
      tacit::set_from_text(krylov::options(), chosen->options, name, value, method);
    });
    krylov::check(chosen->options);
    made = chosen.release();
  });
}
tacit_status tacit_solver_set(tacit_solver* solver, const char* name, const char* value) {
  return guarded([&] {
    auto changed = needed(solver, "solver").options;
    tacit::set_from_text(krylov::options(), changed, &needed(name, "name"), &needed(value, "value"),
                         tacit::to_string(changed.method));
    krylov::check(changed);
    solver->options = std::move(changed);
  });
}
tacit_status tacit_solver_monitor(tacit_solver* solver, tacit_monitor monitor, void* context) {
  return guarded([&] {
    auto& callback = needed(solver, "solver").options.callback;
    if (!monitor) return void(callback = nullptr);
    callback = [monitor, context](const krylov::State& s) {
      return monitor(context, s.iteration, s.residual_norm) != 0;
    };
  });
}
void tacit_solver_free(tacit_solver* solver) {
  guarded([&] { delete solver; });
}

tacit_status tacit_solve(const tacit_solver* solver, const tacit_operator* A, const tacit_operator* P, const void* b,
                         void* x, tacit_result** result) {
  return guarded([&] {
    const auto& options = needed(solver, "solver").options;
    give(result, with_scalar(needed(A, "A").scalar, [&]<class T>() {
           return solve_with<T>(options, static_cast<const OperatorOf<T>&>(*A), P, b, x);
         }));
  });
}
tacit_status tacit_solve_automatic(const tacit_solver* solver, tacit_operator* A, const void* b, void* x,
                                   tacit_result** result) {
  return guarded([&] {
    const auto& options = needed(solver, "solver").options;
    give(result, with_scalar(needed(A, "A").scalar, [&]<class T>() {
           return solve_by_trial<T>(options, static_cast<OperatorOf<T>&>(*A), b, x);
         }));
  });
}

int tacit_result_converged(const tacit_result* result) {
  return result && result->of.converged();
}
const char* tacit_result_reason(const tacit_result* result) {
  return result ? tacit::to_string(result->of.reason) : "";
}
int tacit_result_iterations(const tacit_result* result) {
  return result ? result->of.iterations : -1;
}
double tacit_result_residual_norm(const tacit_result* result) {
  return result ? result->of.residual_norm : -1;
}
double tacit_result_b_norm(const tacit_result* result) {
  return result ? result->of.b_norm : -1;
}
double tacit_result_seconds(const tacit_result* result) {
  return result ? result->of.seconds : -1;
}
int64_t tacit_result_reductions(const tacit_result* result) {
  return result ? result->of.counts.reductions : -1;
}
int64_t tacit_result_products(const tacit_result* result) {
  return result ? result->of.counts.operator_applies : -1;
}
int64_t tacit_result_precond_applies(const tacit_result* result) {
  return result ? result->of.counts.preconditioner_applies : -1;
}
const double* tacit_result_history(const tacit_result* result, int* count) {
  const bool none = !result || result->of.history.empty();
  if (count) *count = none ? 0 : int(result->of.history.size());
  return none ? nullptr : result->of.history.data();
}
const char* tacit_result_detail(const tacit_result* result) {
  return result ? result->of.detail.c_str() : "";
}
const char* tacit_result_advice(const tacit_result* result) {
  return result ? result->of.advice.c_str() : "";
}
const char* tacit_result_method(const tacit_result* result) {
  return result ? result->of.method.c_str() : "";
}
const char* tacit_result_precond(const tacit_result* result) {
  return result ? result->of.precond.c_str() : "";
}
const char* tacit_result_choice(const tacit_result* result) {
  return result ? result->of.choice.c_str() : "";
}
const char* tacit_result_warning(const tacit_result* result, int i) {
  const bool has = result && i >= 0 && std::size_t(i) < result->of.warnings.size();
  return has ? result->of.warnings[std::size_t(i)].c_str() : nullptr;
}
void tacit_result_free(tacit_result* result) {
  guarded([&] { delete result; });
}

}  // extern "C"
