// The driver over both memory spaces; instantiated by solve.cpp (host) and solve.cu (device).
#pragma once

#include "diagnosis/diagnosis.hpp"
#include "part.hpp"
#include "plan/plan.hpp"
#include "plan/prices.hpp"
#include "plan/system.hpp"
#include "powers.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/krylov/group_methods.hpp>
#include <tacit/krylov/outer.hpp>
#include <tacit/krylov/solve.hpp>
#include "krylov/iteration.hpp"
#include "krylov/kept.hpp"
#include "layout/unlike.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

namespace tacit::krylov {

namespace {

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_iteration(Method method, const Options& options) {
  if constexpr (is_group<M>) {
    static_assert(std::ranges::equal(group_methods, std::array{Method::bicgstab, Method::pipelined_bicgstab}));
    return method == Method::bicgstab ? make_bicgstab<T, M>(options) : make_pipelined_bicgstab<T, M>(options);
  } else {
    switch (method) {
#define TACIT_METHOD(enumerator, ...) \
  case Method::enumerator:            \
    return make_##enumerator<T, M>(options);
#include <tacit/krylov/methods.def>
      default:
        return make_gmres<T, M>(options);
    }
  }
}

/// Numbers of a report that differ on ranks, for Communicator::all_sum_and_max().
struct Numbers {
  double all[3] = {};
  static Numbers of(const Report& r) { return {{double(r.counts.messages), double(r.counts.bytes), r.seconds}}; }
  void to(Report& r) const {
    r.counts.messages = std::int64_t(all[0]), r.counts.bytes = std::int64_t(all[1]), r.seconds = all[2];
  }
};

template <Scalar T, Memory M>
Facts facts_of(const System<T, M>& system, const Options& options, bool hermitian, bool alone) {
  Facts f;
  f.unknowns = system.space().size();
  f.epsilon = System<T, M>::epsilon;
  f.scalar_bytes = int(sizeof(T));
  f.hermitian = hermitian;
  f.may_measure = std::same_as<M, Host> && alone;
  f.has_precond = system.P() != nullptr;
  f.varies = op::varies(system.P());
  if (f.varies) f.precond = system.P()->name();
  f.noted = system.noted();
  f.options = options;
  return f;
}

/// Why a matrix powers kernel that was named is not used; "" where it is, or none was named.
template <Scalar T, Memory M>
std::string why_no_kernel(const System<T, M>& system, const Options& options) {
  const auto& A = system.A();
  const auto* P = system.P();
  if (options.powers != Powers::kernel || by_kernel(A, P, Powers::kernel)) return {};
  if (system.is_scaled()) return "there is no matrix powers kernel for a matrix that the solve scales";
  if (A.has_powers_kernel()) return message("a matrix powers kernel takes no ", P->name(), " preconditioner");
  return message("the ", A.name(), " operator has no matrix powers kernel");
}

/// A solve: carries out the attempts of a plan, each of them a run of a method for a correction of x, and drives them
/// by the judge.
template <Scalar T, Memory M>
class Solve final : public OuterIteration, private Executor {
 public:
  /// `together`: of all columns of a solve with many, or null. `kept`: of other solves with these operators and
  /// options, whose x is zero, or null.
  Solve(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b, Vector<T, M>& x,
        const Options& options, const Role& role, bool hermitian, const NullSpace<T, M>* null_space,
        BlockSearch<T>* together = nullptr, Kept<T, M>* kept = nullptr)
      : given_(options),
        role_(role),
        system_(A, P, b, x, given_, null_space),
        plan_(facts_of(system_, options, hermitian, role.alone), *this, report_.warnings),
        together_(together),
        kept_(kept) {
    if (kept) system_.take_zero();
  }

  /// Messages, bytes and seconds are those of this rank, unless they were summed for the search of a failure's cause.
  Report run() {
    const double from = wall_time();
    const auto& comm = space().comm();
    require(given_.engine != Engine::tasks || comm.has_threads(), "the engine \"tasks\" works with threads, which ",
            comm.kind(), " ranks do not have; take \"polling\"");
    const auto engine = given_.engine == Engine::thread ? comm.start_engine() : nullptr;
    const auto counters = comm.counters();
    const auto *A = &system_.A(), *P = system_.P();
    const auto applies = A->applies(), preconditions = P ? P->applies() : 0;
    scheduled([this] { solve(); });
    const auto spent = comm.counters() - counters;
    const auto* diagonal = system_.diagonal();
    report_.counts.reductions = spent.reductions;
    report_.counts.exchanges = spent.exchanges;
    report_.counts.messages = spent.messages;
    report_.counts.bytes = spent.bytes;
    report_.counts.operator_applies = A->applies() - applies;
    report_.counts.preconditioner_applies = P ? P->applies() - preconditions : diagonal ? diagonal->applies() : 0;
    report_.seconds = wall_time() - from;
    if (report_.precond.empty()) report_.precond = P ? P->name() : "none";
    const bool has_failed = residual_ && !report_.converged() && report_.reason != Reason::stopped;
    if (has_failed && options().explain.value_or(true)) {
      auto numbers = Numbers::of(report_);
      comm.all_sum_and_max(numbers.all);
      numbers.to(report_);
      diagnose<T, M>({system_, options(), plan_.method(), plan_.restart(), stale_ ? nullptr : residual_.get(),
                      Effort{report_.iterations, report_.counts}, role_.solves_of_call, false},
                     report_);
      if (comm.rank() > 0) report_.counts.messages = report_.counts.bytes = 0;  // which the ranks add up
    }
    return std::move(report_);
  }

  // Instead of run(): what other attempts at the system need to know (part.hpp).
  double residual() {
    scheduled([this] { look(); });
    return report_.residual_norm;
  }
  Cause cause(const Effort& effort) {
    scheduled([this] { look(); });
    // Null vectors are looked for from b: few steps would reduce a residual that is near the goal.
    if (residual_)
      diagnose<T, M>({system_, options(), plan_.method(), plan_.restart(), nullptr, effort, role_.solves_of_call, true},
                     report_);
    return {std::move(report_.detail), std::move(report_.advice)};
  }

 private:
  static constexpr double epsilon = System<T, M>::epsilon;

  const Options& options() const { return plan_.options(); }
  const layout::Space& space() const { return system_.space(); }
  Vector<T, M>& x() const { return system_.x(); }

  /// Does this with the schedule of products that the user has named.
  template <class F>
  void scheduled(const F& f) {
    const auto& A = system_.A();
    const op::Schedule before = A.schedule();
    if (given_.schedule.how != op::Schedule::How::automatic) A.use(given_.schedule);
    f();
    A.use(before);
  }
  /// Takes the system in, up to the norm of b; false where something in it is not finite.
  bool enter() {
    if (plan_.choose_method()) system_.negate();
    report_.method = to_string(plan_.method());
    if (const auto* noted = system_.noted(); noted && !noted->note().empty())
      report_.warnings.push_back(message(system_.P()->name(), ": ", noted->note()));
    if (!inputs_are_finite()) return false;
    if (system_.null_space()) system_.enter_null_space(report_);
    report_.b_norm = system_.length_of_b();
    report_.norm = to_string(options().norm);
    return true;
  }
  void scale() {
    system_.choose_scales(report_.b_norm, plan_.method(), report_);
    plan_.set_goal(system_.b_norm(), system_.goal());
  }
  void solve() {
    if (!enter()) return;
    if (report_.b_norm == 0) {
      layout::fill(x(), T(0));
      report_.reason = judge(*this, 0, 0).reason;
      if (options().history) report_.history = {0};
      return;
    }
    scale();
    if (options().max_iterations != 0) plan_.choose_variant();  // which may take products
    report_.method = to_string(plan_.method());
    warn_of_engine();
    iterate();
    system_.undo_scales(report_);
    if (kept_) keep();
  }
  /// Leaves what the next solve with these operators may use.
  void keep() {
    kept_->residual = std::move(residual_);
    auto* const serves = dynamic_cast<ServesAgain*>(iteration_.get());
    const bool again = serves && report_.converged() && !changed_;
    if (again) serves->serve_again();
    kept_->iteration = again ? std::move(iteration_) : nullptr;
    kept_->a_exponent = system_.a_exponent(), kept_->negated = system_.negated();
  }
  bool kept_serves() const {
    return kept_ && kept_->iteration && kept_->a_exponent == system_.a_exponent() &&
           kept_->negated == system_.negated();
  }

  /// The residual of x, and no run.
  void look() {
    if (!enter() || report_.b_norm == 0) return;
    scale();
    system_.take_checksum();
    report_.residual_norm = begin_from_guess() / system_.b_norm();
    system_.undo_scales(report_);
  }

  bool inputs_are_finite() {
    const std::string fault = system_.fault();
    if (fault.empty()) return true;
    layout::fill(x(), T(0));
    report_.reason = Reason::non_finite;
    report_.detail = fault;
    report_.advice = "Look at how this value came about; no iteration was done and x is 0.";
    report_.residual_norm = report_.recurrence_residual_norm = std::numeric_limits<double>::quiet_NaN();
    return false;
  }

  void iterate() {
    const Global n = space().size();
    const int window = int(std::clamp<Global>(n, 500, 5000));
    Options options = this->options();
    if (options.callback) options.callback = [this](const State& s) { return call_back(s); };
    Monitor monitor(space().comm(), options, system_.b_norm(), system_.goal(),
                    options.max_iterations.value_or(default_max_iterations(n)), window);
    plan_.watch(monitor, window);
    monitor.end_by(role_.forecast);
    system_.take_checksum();
    std::unique_ptr<Workspace<T, M>> own;
    auto& workspace = kept_ ? kept_->workspace : own;
    if (!workspace) workspace = std::make_unique<Workspace<T, M>>(space());
    monitor_ = &monitor, workspace_ = workspace.get();
    if (kept_serves()) iteration_ = std::move(kept_->iteration);
    const double norm = begin_from_guess();
    monitor.begin(norm);
    finish(judge(*this, norm, system_.goal()));
  }
  /// r = b - A x of the initial guess; returns its norm.
  double begin_from_guess() {
    if (kept_) residual_ = std::move(kept_->residual);
    if (!residual_) residual_ = std::make_unique<Vector<T, M>>(space());
    length_of_x_ = system_.length_of_x();
    if (length_of_x_ != 0) {
      const double norm = system_.residual_of_guess(length_of_x_, *residual_);
      if (system_.may_square(norm)) return norm;
      report_.warnings.push_back(
          message("x0 has a residual of ", norm / system_.b_norm(), " of ||b||, and was set to zero"));
      layout::fill(x(), T(0));
      length_of_x_ = 0;
    }
    // x = 0 needs no product to know the residual.
    in_place_ = true;
    layout::copy(system_.b(), *residual_);
    return system_.b_norm();
  }

  // The judge's calls. The trial is x + d in the place of d; in the first run from x = 0, d in the place of x.
  Vector<T, M>& trial() { return in_place_ ? x() : *correction_; }
  std::optional<Verdict> run(double norm) override {
    Monitor& monitor = *monitor_;
    monitor.begin(norm);
    if (monitor.max_iterations() == 0)  // methods would begin with P r
      return monitor.end(Outcome::max_iterations), plan_.next(monitor, norm, norm);
    before_ = norm, known_intact_ = false;
    if (std::exchange(stale_, false)) system_.true_residual(x(), *residual_);
    if (!in_place_) {
      if (!correction_) correction_ = std::make_unique<Vector<T, M>>(space());
      layout::fill(*correction_, T(0));
      base_ = &x();
    }
    monitor.be_patient(!options().fallbacks || system_.has_no_use_of_diagonal());
    // In exact arithmetic bicgstab ends within n iterations. One that long after has not begun to converge wanders.
    const bool wanders = options().fallbacks && traits_of(plan_.method()).other_shadow;
    monitor.halve_within(wanders ? int(std::clamp<Global>(5 * space().size(), 100, 50000)) : 0);
    {
      const Span span(to_string(plan_.method()), "krylov");
      run_by_engine({system_.A(), system_.P(), *residual_, trial(), *workspace_, system_.a_exponent(),
                     system_.negated(), together_, system_.projection()},
                    monitor);
      for (auto& text : monitor.take_notes()) report_.warnings.push_back(std::move(text));
      if (auto refusal = monitor.take_refusal()) return refusal;
    }
    monitor.solution_by(nullptr), base_ = nullptr;
    report_.recurrence_residual_norm = monitor.norm() / system_.b_norm();
    return {};
  }
  double recompute() override {
    Vector<T, M>& d = trial();
    // What is not finite is not given to an operator.
    if (monitor_->outcome() == Outcome::non_finite && !std::isfinite(layout::norm(d)))
      return std::numeric_limits<double>::infinity();
    const auto own_squares = layout::own_squares(d);
    if (!in_place_) layout::axpy(T(1), x(), d);
    system_.project(d);
    // The ends of cycles do not look: they come often, and hardly ever at the goal.
    bool look = monitor_->outcome() != Outcome::cycle_end;
    system_.form_residual(d, *residual_, look);
    const auto [plain, length_of_d] = system_.lengths(*residual_, own_squares);
    length_of_trial_ = length_of_d + (in_place_ ? 0 : length_of_x_);
    if (!std::isfinite(length_of_trial_)) return std::numeric_limits<double>::infinity();
    double norm = system_.confirmed(d, length_of_trial_, plain, *residual_, monitor_->outcome() == Outcome::at_goal);
    if (!look && reached(norm, system_.goal()))
      look = true, system_.mark_damage(*residual_), norm = system_.length(*residual_);
    known_intact_ = look && std::isfinite(norm);
    // There the residual of a worthless x may come out as 0.
    if (system_.may_drown_b(length_of_trial_)) {
      const double noise = 4 * system_.noise_of(d);  // changes are half a unit on average; A x has rounding errors too
      norm = std::max(norm, noise);
      // No better than x within rounding errors: the shorter one stays.
      if (norm >= before_ - noise && length_of_trial_ > 2 * length_of_x_) norm = std::max(norm, before_);
    }
    return norm;
  }
  std::optional<Verdict> damage() override {
    if (known_intact_ || !system_.looks_for_damage()) return {};
    return damage_on(space().comm(), system_.is_intact());
  }
  bool is_better(double norm, double before) override {
    // A discarded trial: the classical method starts where it began, and so needs its usual number of iterations.
    // (From the result of a trial bicgstab may need five times as many.)
    const double aim = std::max(system_.goal(), epsilon * system_.b_norm());
    if (monitor_->outcome() == Outcome::discarded && norm > std::sqrt(before * std::min(aim, before))) return false;
    if (norm < before) return true;
    // Residuals of methods for positive definite matrices may rise before they fall while the error falls all the time:
    // where such a run was cut short the error decides.
    const bool cut_short = monitor_->outcome() == Outcome::max_iterations || monitor_->outcome() == Outcome::stopped;
    if (!cut_short || !std::isfinite(norm) || !needs_definite(plan_.method())) return false;
    Vector<T, M> step = trial();
    if (!in_place_) layout::axpy(T(-1), x(), step);
    return system_.came_nearer(step, *residual_);
  }
  void accept() override {
    if (!std::exchange(in_place_, false)) std::swap(x(), *correction_);
    length_of_x_ = length_of_trial_;
  }
  void reject() override {
    if (std::exchange(in_place_, false))
      layout::fill(x(), T(0)), layout::copy(system_.b(), *residual_), length_of_x_ = 0;
    else stale_ = true;  // r is that of the trial
  }
  std::optional<Verdict> next(double before, double norm) override {
    if (auto verdict = plan_.next(*monitor_, before, norm)) return verdict;
    if (monitor_->outcome() != Outcome::cycle_end) ++report_.restarts;
    if (monitor_->iterations() >= monitor_->max_iterations()) return plan_.out_of_iterations();
    return {};
  }

  // The plan's calls.
  std::optional<std::string> take(const Attempt& attempt) override {
    const Traits& traits = traits_of(plan_.method());
    changed_ = true;
    switch (attempt.change) {
      case Change::scaled_precond:
        if (!system_.rescale_preconditioner()) return {};
        break;
      case Change::negated:
        if (!system_.turn_sign(*residual_, attempt.method, report_)) return {};
        break;
      case Change::diagonal:
        if (!system_.scale_by_diagonal(traits)) return {};
        report_.precond = "jacobi";
        break;
      case Change::weaker: {
        std::string taken = iteration_->step_down();
        return taken.empty() ? std::nullopt : std::optional(std::move(taken));
      }
      case Change::longer_cycles:
        return iteration_->lengthen(attempt.restart) ? std::optional(std::string()) : std::nullopt;
      default:
        report_.method = to_string(attempt.method);
    }
    iteration_.reset();  // its Ritz values and steps are those of another operator
    return "";
  }
  int sign_of_diagonal() override {
    if (!kept_) return system_.sign_of_diagonal();
    if (!kept_->sign_of_diagonal) kept_->sign_of_diagonal = system_.sign_of_diagonal();
    return *kept_->sign_of_diagonal;
  }
  bool diagonal_varies() override { return system_.diagonal_varies(traits_of(plan_.method())); }
  bool is_far_from_hermitian() override { return system_.is_far_from_hermitian(); }
  Prices prices() override { return measured_prices(system_, plan_.method()); }

  /// The options, no larger than the space: there are not more directions in it than unknowns.
  Options within_space(const Monitor& monitor) const {
    const int most = int(std::clamp<Global>(space().size(), 1, std::max(1, monitor.max_iterations())));
    const int restart = plan_.restart();
    Options o = options();
    o.restart = plan_.facts().is_variant() ? std::min(restart, most) : restart;
    if (system_.diagonal()) o.lambda_min = o.lambda_max = {};  // what was given is of A, not of P A
    if (o.step) o.step = std::min(*o.step, most);
    if (o.depth) o.depth = std::min(*o.depth, std::max(most, 2));
    if (o.block) o.block = std::min(*o.block, most);
    return o;
  }

  /// Runs the method, with kernels as tasks where Options::engine says so.
  void run_by_engine(Run<T, M> run, Monitor& monitor) {
    if (!iteration_) {
      iteration_ = make_iteration<T, M>(plan_.method(), within_space(monitor));
      if (const auto why = why_no_kernel(system_, options()); !why.empty())
        report_.warnings.push_back(message(why, "; ", to_string(plan_.method()), " did its products one by one"));
    }
    if constexpr (std::same_as<M, Host>) {
      if (options().engine == Engine::tasks)
        return exec::Tasks::run([&] { iteration_->run(run, monitor); }, [&] { space().comm().poll(); });
    }
    iteration_->run(run, monitor);
  }
  /// Of the parts of the run that are not tasks.
  void warn_of_engine() {
    if (options().engine != Engine::tasks) return;
    if constexpr (!std::same_as<M, Host>) {
      report_.warnings.push_back("the engine \"tasks\" is for host memory; the device ran in the order of the program");
    } else {
      for (const auto* a : {&system_.A(), system_.P()})
        if (a && !a->as_tasks())
          report_.warnings.push_back(message("the engine \"tasks\" runs products with the ", a->name(),
                                             " operator in the order of the program"));
    }
  }
  void finish(Verdict verdict) {
    report_.reason = verdict.reason;
    report_.detail = std::move(verdict.detail);
    report_.advice = std::move(verdict.advice);
    report_.iterations = monitor_->iterations();
    report_.residual_norm = verdict.norm / system_.b_norm();
    if (monitor_->iterations() == 0) report_.recurrence_residual_norm = report_.residual_norm;
    report_.history = monitor_->take_history();
  }

  bool call_back(State s) {
    const auto run_solution = s.solution;
    s.solution = [&, run_solution](void* solution) {
      run_solution(solution);
      T* const v = static_cast<T*>(solution);
      if (base_) {
        const auto base = base_->to_host();
        for (std::size_t i = 0; i < base.size(); ++i) v[i] += base[i];
      }
      const int e = system_.b_exponent() - system_.a_exponent();
      if (e == 0) return;
      for (std::size_t i = 0; i < x().size(); ++i) {
        if constexpr (is_complex<T>) v[i] = {std::ldexp(v[i].real(), e), std::ldexp(v[i].imag(), e)};
        else v[i] = std::ldexp(v[i], e);
      }
    };
    return options().callback(s);
  }

  Options given_;
  Role role_;
  Report report_;
  System<T, M> system_;
  Plan plan_;
  BlockSearch<T>* together_;
  Kept<T, M>* kept_;
  bool changed_ = false;  // a fallback has been taken
  std::unique_ptr<Iteration<T, M>> iteration_;
  Monitor* monitor_ = nullptr;
  Workspace<T, M>* workspace_ = nullptr;
  std::unique_ptr<Vector<T, M>> residual_;        // the last recomputed b - A x
  std::unique_ptr<Vector<T, M>> correction_;      // d, then x + d
  const Vector<T, M>* base_ = nullptr;            // what a run's d is added to, for callbacks
  bool in_place_ = false;                         // the run is the first, from x = 0, and x takes the place of d
  bool stale_ = false;                            // residual_ is not that of x
  bool known_intact_ = false;                     // at the last recompute(), on all ranks
  double before_ = 0;                             // the residual that the run began with
  double length_of_x_ = 0, length_of_trial_ = 0;  // upper bounds
};

}  // namespace

/// Error(usage) where spaces or options do not fit; the number of columns is not looked at. The same on all ranks.
template <Scalar T, Memory M>
void check_arguments(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b,
                     const Vector<T, M>& x, const Options& options, const NullSpace<T, M>* null_space) {
  check(options);
  if constexpr (is_group<M>) {
    std::string known;
    for (const Method one : group_methods) known += (known.empty() ? "" : " and ") + std::string(to_string(one));
    require(std::ranges::find(group_methods, options.method) != std::end(group_methods),
            "a group of devices has the methods ", known, "; asked for was ", to_string(options.method));
  }
  require(A.range() == A.domain(), "solve needs a square operator with rows and columns spread alike; this one is ",
          A.range().size(), " by ", A.domain().size());
  require(b.space() == A.range(), "b has ", b.space().size(), " elements, ", b.space().local_size(),
          " on this rank; the operator gives ", A.range().size(), " and ", A.range().local_size());
  require(x.space() == A.domain(), "x has ", x.space().size(), " elements, ", x.space().local_size(),
          " on this rank; the operator takes ", A.domain().size(), " and ", A.domain().local_size());
  if (P && !(P->domain() == A.range() && P->range() == A.domain()))
    require(false, "the preconditioner's vectors are not those of the operator: ",
            P->domain() == A.range() ? layout::unlike(P->range(), A.domain()) : layout::unlike(P->domain(), A.range()));
  require(P || !traits_of(options.method).needs_factors, "the method \"", to_string(options.method),
          "\" needs the factors of A as preconditioner: precond \"direct\", of a stored matrix");
  require(!null_space || null_space->right().vectors().front().space() == A.domain(),
          "the vectors of the null space are not spread like those of A");
  require(
      !null_space || null_space->left().dimension() == 0 || null_space->left().vectors().front().space() == A.range(),
      "the vectors of the left null space are not spread like those of A");
}

template <Scalar T, Memory M>
Report solve_part(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b, Vector<T, M>& x,
                  const Options& options, const Role& role, bool hermitian, const NullSpace<T, M>* null_space) {
  if (P) A.range().comm().join(P->range().comm());  // before this thread's turn
  Numbers numbers;
  Report report = comm::collective(
      A.range().comm(),
      [&] {
        check_arguments(A, P, b, x, options, null_space);
        require(b.columns() == 1 && x.columns() == 1, "solve takes one right-hand side; b has ", b.columns(),
                " columns and x ", x.columns(), ": solve_columns takes several");
        auto made = Solve<T, M>(A, P, b, x, options, role, hermitian, null_space).run();
        numbers = Numbers::of(made);
        return made;
      },
      numbers.all);
  numbers.to(report);
  return report;
}

template <Scalar T, Memory M>
Report solve(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b, Vector<T, M>& x,
             const Options& options, bool hermitian, const NullSpace<T, M>* null_space) {
  return solve_part(A, P, b, x, options, {}, hermitian, null_space);
}

}  // namespace tacit::krylov
