// Solvers and results of the C interface.
#include "handles.hpp"

#include <tacit/krylov/solve.hpp>
#include <tacit/krylov/traits.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tacit::c {
namespace {

/// x and the report of solve(b, x). Collective.
template <Scalar T, class F>
krylov::Report solved(const OperatorOf<T>& A, const void* b, void* x, const F& solve) {
  const auto& space = A.space();
  return together(space.comm(), [&] {
    require_square(A, "a solve");
    layout::Vector<T> right(space), solution(space);
    right.assign(elements<T>(space, b, "b"));
    solution.assign(elements<T>(space, x, "x"));
    auto report = solve(right, solution);
    const auto found = solution.to_host();
    std::copy(found.begin(), found.end(), static_cast<T*>(x));
    return report;
  });
}

/// What is to be the same on all ranks, as text.
std::string arguments_of(const krylov::Options& options, const tacit_operator* P) {
  return message("method ", to_string(options.method), text_of_options(krylov::options(), options),
                 options.callback ? ", with a monitor" : "", P ? ", with P" : ", without P");
}

/// What a solve takes of A and P.
template <Scalar T>
struct Operands {
  Operands(const krylov::Options& options, const OperatorOf<T>& A, const tacit_operator* P) {
    require_alike(A.space().comm(), arguments_of(options, P));
    require(!P || P->scalar == A.scalar, "A has scalar ", int(A.scalar), " and P ", P ? int(P->scalar) : 0);
    if (P) precond = static_cast<const OperatorOf<T>*>(P)->of.get();
    if (krylov::traits_of(options.method).needs_factors && !precond) {
      require(A.is_matrix(), "method ", to_string(options.method), " needs a stored matrix; this operator is a ",
              A.of->name());
      factors = precond::make<T, Host>("direct", *A.matrix);
      precond = factors.get();
    }
    hermitian = A.is_matrix() && (options.method == krylov::Method::automatic) && op::is_hermitian(*A.matrix);
  }
  const op::Operator<T, Host>* precond = nullptr;
  std::unique_ptr<op::Operator<T, Host>> factors;
  bool hermitian = false;
};

template <Scalar T>
tacit_result solve_with(const krylov::Options& options, const OperatorOf<T>& A, const tacit_operator* P, const void* b,
                        void* x) {
  return tacit_result(solved<T>(A, b, x, [&](const auto& right, auto& solution) {
    const Operands<T> with(options, A, P);
    return krylov::solve<T, Host>(*A.of, with.precond, right, solution, options, with.hermitian, A.null_space.get());
  }));
}

/// The warnings of all columns; those that not all have are preceded by the columns' numbers.
std::vector<std::string> shared_warnings(const std::vector<krylov::Report>& columns) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> of;
  for (std::size_t c = 0; c < columns.size(); ++c)
    for (const auto& text : columns[c].warnings) {
      auto found = std::find_if(of.begin(), of.end(), [&](const auto& one) { return one.first == text; });
      if (found == of.end()) found = of.insert(of.end(), {text, {}});
      if (found->second.empty() || found->second.back() != c) found->second.push_back(c);
    }
  std::vector<std::string> all;
  for (const auto& [text, which] : of) {
    std::string numbers;
    for (const auto c : which) numbers += message(numbers.empty() ? "" : ", ", c);
    all.push_back(which.size() == columns.size() ? text : message("column ", numbers, ": ", text));
  }
  return all;
}

/// `columns` arrays of this rank's elements, one after the other, as interleaved columns, or back.
template <class From, class To>
void transpose(const From* from, To* to, std::size_t rows, std::size_t columns) {
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < rows; ++i) to[i * columns + c] = from[c * rows + i];
}

template <Scalar T>
tacit_result solve_columns(const krylov::Options& options, const OperatorOf<T>& A, const tacit_operator* P,
                           std::int32_t columns, const void* b, void* x) {
  const auto& space = A.space();
  return of_columns(together(space.comm(), [&] {
    require_square(A, "a solve");
    require(columns >= 1, "a solve with ", columns, " right-hand sides");
    const auto most = space.comm().all_max(Global(columns));
    require(most == columns, "rank ", space.comm().rank(), " has ", columns, " right-hand sides, another one ", most);
    const auto n = std::size_t(space.local_size()), k = std::size_t(columns);
    layout::Vector<T> right(space, columns), solution(space, columns);
    elements<T>(space, b, "b"), elements<T>(space, x, "x");
    transpose(static_cast<const T*>(b), right.data(), n, k);
    transpose(static_cast<const T*>(x), solution.data(), n, k);
    const Operands<T> with(options, A, P);
    auto reports =
        krylov::solve_columns<T>(*A.of, with.precond, right, solution, options, with.hermitian, A.null_space.get());
    transpose(solution.data(), static_cast<T*>(x), k, n);
    return reports;
  }));
}

template <Scalar T>
tacit_result solve_by_trial(const krylov::Options& options, OperatorOf<T>& A, const void* b, void* x) {
  return tacit_result(solved<T>(A, b, x, [&](const auto& right, auto& solution) {
    require_alike(A.space().comm(), arguments_of(options, nullptr));
    require(A.is_matrix(), "only a stored matrix is solved with by trial; this operator is a ", A.of->name());
    auto& automatic = A.automatic[options.method];
    if (!automatic) automatic = std::make_unique<precond::Automatic<T>>(*A.matrix, options.method);
    return automatic->solve(right, solution, options, A.null_space.get());
  }));
}

void give(tacit_result** to, tacit_result result) {
  if (to) *to = new tacit_result(std::move(result));
}

/// What a call describes in JSON: the solver, and the preconditioner by name with its options.
struct Request {
  explicit Request(const char* json) {
    std::string method = "auto";
    std::vector<std::pair<std::string, std::string>> options;
    Members(json).each(
        [&](std::string_view name, const std::string& value) {
          if (name == "method") method = value;
          else if (name == "precond") precond = value;
          else options.emplace_back(name, value);
        },
        [&](std::string_view name, const std::string& object) {
          require(name == "precond", "option ", name, " is ", object, "; only precond is an object");
          Members(object).each(
              [&](std::string_view inner, const std::string& value) {
                if (inner == "name") precond = value;
                else precond_options += message(precond_options.empty() ? "" : " ", inner, "=", value);
              },
              [&](std::string_view inner, const std::string& value) {
                throw Error(ErrorKind::usage, message("option ", inner, " of precond is ", value));
              });
        });
    solver.options.method = value_of<krylov::Method>(method);
    for (const auto& [name, value] : options)
      set_from_text(krylov::options(), solver.options, name, value, method.c_str());
    krylov::check(solver.options);
  }
  tacit_solver solver;
  std::string precond = "none", precond_options;
};

tacit_result solve_request(const Request& request, tacit_operator& A, std::int32_t columns, const void* b, void* x) {
  return with_scalar(A.scalar, [&]<class T>() {
    auto& own = static_cast<OperatorOf<T>&>(A);
    const auto& options = request.solver.options;
    if (request.precond == "auto") {
      require(columns == 1, "precond auto is tried for one right-hand side at a time; columns is ", columns);
      return solve_by_trial<T>(options, own, b, x);
    }
    const auto P = make_precond(A, request.precond.c_str(), request.precond_options.c_str());
    return columns == 1 ? solve_with<T>(options, own, P.get(), b, x)
                        : solve_columns<T>(options, own, P.get(), columns, b, x);
  });
}

}  // namespace

tacit_result of_columns(krylov::ColumnReports reports) {
  const auto& each = reports.columns;
  const auto shorter = [](const auto& a, const auto& b) { return a.iterations < b.iterations; };
  const auto slowest = std::max_element(each.begin(), each.end(), shorter);
  const auto failed = std::find_if(each.begin(), each.end(), [](const auto& one) { return !one.converged(); });
  krylov::Report all = failed == each.end() ? *slowest : *failed;
  if (!all.converged() && !all.detail.empty())
    all.detail = message("column ", std::int64_t(failed - each.begin()), ": ", all.detail);
  all.iterations = slowest->iterations, all.history = slowest->history;
  all.restarts = 0;
  const auto worse = [](double& a, double b) {
    if (!std::isnan(a) && !(b <= a)) a = b;
  };
  for (const auto& one : each) {
    all.restarts += one.restarts;
    worse(all.residual_norm, one.residual_norm);
    worse(all.recurrence_residual_norm, one.recurrence_residual_norm);
  }
  all.warnings = shared_warnings(each);
  all.counts = reports.counts, all.seconds = reports.seconds, all.explain_seconds = reports.explain_seconds;
  tacit_result made{std::move(all)};
  made.together = reports.together, made.alone = std::move(reports.alone);
  made.columns.reserve(reports.columns.size());
  for (auto& one : reports.columns) made.columns.emplace_back(std::move(one)).is_column = true;
  return made;
}

}  // namespace tacit::c

using namespace tacit::c;
namespace krylov = tacit::krylov;

namespace {
bool has(const tacit_result* result) {
  return result && is_alive(result, tacit_result::type);
}
}  // namespace

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
  guarded([&] { release(solver, "solver"); });
}

tacit_status tacit_solve(const tacit_solver* solver, const tacit_operator* A, const tacit_operator* P, const void* b,
                         void* x, tacit_result** result) {
  return guarded([&] {
    const auto& options = needed(solver, "solver").options;
    if (P) needed(P, "P");
    give(result, with_scalar(needed(A, "A").scalar, [&]<class T>() {
           return solve_with<T>(options, static_cast<const OperatorOf<T>&>(*A), P, b, x);
         }));
  });
}
tacit_status tacit_solve_columns(const tacit_solver* solver, const tacit_operator* A, const tacit_operator* P,
                                 int32_t columns, const void* b, void* x, tacit_result** result) {
  return guarded([&] {
    const auto& options = needed(solver, "solver").options;
    if (P) needed(P, "P");
    give(result, with_scalar(needed(A, "A").scalar, [&]<class T>() {
           return solve_columns<T>(options, static_cast<const OperatorOf<T>&>(*A), P, columns, b, x);
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
tacit_status tacit_solve_json(tacit_operator* A, const char* request, int32_t columns, const void* b, void* x,
                              tacit_result** result) {
  return guarded([&] {
    auto& on = needed(A, "A");
    const auto read = together(on.space().comm(), [&] { return Request(&needed(request, "request")); });
    give(result, solve_request(read, on, columns, b, x));
  });
}

int tacit_result_converged(const tacit_result* result) {
  return has(result) && result->of.converged();
}
const char* tacit_result_reason(const tacit_result* result) {
  return has(result) ? tacit::to_string(result->of.reason) : "";
}
int tacit_result_iterations(const tacit_result* result) {
  return has(result) ? result->of.iterations : -1;
}
double tacit_result_residual_norm(const tacit_result* result) {
  return has(result) ? result->of.residual_norm : -1;
}
double tacit_result_b_norm(const tacit_result* result) {
  return has(result) ? result->of.b_norm : -1;
}
double tacit_result_seconds(const tacit_result* result) {
  return has(result) ? result->of.seconds : -1;
}
int64_t tacit_result_reductions(const tacit_result* result) {
  return has(result) ? result->of.counts.reductions : -1;
}
int64_t tacit_result_products(const tacit_result* result) {
  return has(result) ? result->of.counts.operator_applies : -1;
}
int64_t tacit_result_precond_applies(const tacit_result* result) {
  return has(result) ? result->of.counts.preconditioner_applies : -1;
}
const double* tacit_result_history(const tacit_result* result, int* count) {
  const bool none = !has(result) || result->of.history.empty();
  if (count) *count = none ? 0 : int(result->of.history.size());
  return none ? nullptr : result->of.history.data();
}
const char* tacit_result_detail(const tacit_result* result) {
  return has(result) ? result->of.detail.c_str() : "";
}
const char* tacit_result_advice(const tacit_result* result) {
  return has(result) ? result->of.advice.c_str() : "";
}
const char* tacit_result_method(const tacit_result* result) {
  return has(result) ? result->of.method.c_str() : "";
}
const char* tacit_result_precond(const tacit_result* result) {
  return has(result) ? result->of.precond.c_str() : "";
}
const char* tacit_result_choice(const tacit_result* result) {
  return has(result) ? result->of.choice.c_str() : "";
}
const char* tacit_result_warning(const tacit_result* result, int i) {
  const bool found = has(result) && i >= 0 && std::size_t(i) < result->of.warnings.size();
  return found ? result->of.warnings[std::size_t(i)].c_str() : nullptr;
}
int tacit_result_columns(const tacit_result* result) {
  return !has(result) ? -1 : result->columns.empty() ? 1 : int(result->columns.size());
}
const tacit_result* tacit_result_column(const tacit_result* result, int i) {
  if (!has(result) || i < 0 || i >= tacit_result_columns(result)) return nullptr;
  return result->columns.empty() ? result : &result->columns[std::size_t(i)];
}
const char* tacit_result_json(tacit_result* result) {
  if (!has(result)) return "";
  guarded([&] {
    if (!result->json.empty()) return;
    std::vector<std::string> columns;
    for (const auto& one : result->columns) columns.push_back(to_json(one.of, least_members(one)));
    const auto all = least_members(*result);
    result->json = columns.empty() ? to_json(result->of, all)
                                   : columns_to_json(result->of, columns, result->together, result->alone, all);
  });
  return result->json.c_str();
}
void tacit_result_free(tacit_result* result) {
  guarded([&] {
    tacit::require(!has(result) || !result->is_column, "result is a column of another one, which frees it");
    release(result, "result");
  });
}

}  // extern "C"
