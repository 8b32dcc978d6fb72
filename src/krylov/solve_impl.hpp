// The driver over both memory spaces; instantiated by solve.cpp (host) and solve.cu (device).
#pragma once

#include "powers.hpp"
#include "safeguards/scales.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/krylov/choose.hpp>
#include <tacit/krylov/group_methods.hpp>
#include <tacit/krylov/iteration.hpp>
#include <tacit/krylov/null_space.hpp>
#include <tacit/krylov/outer.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/machine.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/op/residual.hpp>
#include <tacit/op/scaled.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <limits>
#include <memory>
#include <sstream>
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

std::string about(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

/// A perturbation of x in its last digits: digits := epsilon x digits, for random `digits`.
template <class T>
struct LastDigits {
  real_t<T> epsilon;
  TACIT_HD void operator()(T x, T& digits) const { digits = epsilon * x * digits; }
};

template <Scalar T, Memory M>
class Solve final : public OuterIteration {
 public:
  Solve(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b, Vector<T, M>& x,
        const Options& options, bool hermitian, const NullSpace<T, M>* null_space, BlockSearch<T>* together = nullptr)
      : plain_A_(A),
        given_A_(&A),
        given_P_(P),
        A_(&A),
        P_(P),
        noted_(dynamic_cast<const op::Noted*>(P)),
        x_(x),
        space_(A.range()),
        options_(options),
        hermitian_(hermitian),
        null_(null_space),
        b_(b),
        together_(together) {}

  Report run() {
    const double from = wall_time();
    const auto& comm = space_.comm();
    require(options_.engine != Engine::tasks || comm.has_threads(), "the engine \"tasks\" works with threads, which ",
            comm.kind(), " ranks do not have; take \"polling\"");
    const auto engine = options_.engine == Engine::thread ? comm.start_engine() : nullptr;
    const auto counters = comm.counters();
    const auto applies = A_->applies(), preconditions = P_ ? P_->applies() : 0;
    const auto *A = A_, *P = P_;
    const op::Schedule before = A->schedule();
    if (options_.schedule.how != op::Schedule::How::automatic) A->use(options_.schedule);
    solve();
    A->use(before);
    const auto spent = comm.counters() - counters;
    report_.counts.reductions = spent.reductions;
    report_.counts.exchanges = spent.exchanges;
    report_.counts.messages = comm.all_sum(spent.messages);
    report_.counts.bytes = comm.all_sum(spent.bytes);
    report_.counts.operator_applies = A->applies() - applies;
    report_.counts.preconditioner_applies = P ? P->applies() - preconditions : diagonal_ ? diagonal_->applies() : 0;
    report_.seconds = comm.all_max(wall_time() - from);
    if (report_.precond.empty()) report_.precond = P ? P->name() : "none";
    explain();
    return std::move(report_);
  }

 private:
  void solve() {
    choose_method();
    if (noted_ && !noted_->note().empty()) report_.warnings.push_back(message(given_P_->name(), ": ", noted_->note()));
    if (!inputs_are_finite()) return;
    if (null_) enter_null_space();
    const double b_norm = length(b_);
    report_.b_norm = b_norm;
    report_.norm = to_string(options_.norm);
    if (b_norm == 0) {
      layout::fill(x_, T(0));
      report_.reason = judge(*this, 0, 0).reason;
      if (options_.history) report_.history = {0};
      return;
    }
    balance_scales(b_norm);
    consider_variants();
    tell_of_engine();
    iterate();
    undo_scales();
  }

  bool inputs_are_finite() {
    std::string fault = A_->fault();
    const auto look = [&](const char* name, const Vector<T, M>& v) {
      if (!fault.empty()) return;
      if (const Global i = first_non_finite(v); i >= 0)
        fault = message(name, " has a value that is not finite at index ", i, " (counted from 0)");
    };
    look("b", b_);
    look("x0", x_);
    if (fault.empty()) return true;
    layout::fill(x_, T(0));
    report_.reason = Reason::non_finite;
    report_.detail = fault;
    report_.advice = "Look at how this value came about; no iteration was done and x is 0.";
    report_.residual_norm = report_.recurrence_residual_norm = std::numeric_limits<double>::quiet_NaN();
    return false;
  }

  /// The norm of Options::norm.
  double length(const Vector<T, M>& v) const {
    return options_.norm == Norm::max ? layout::max_norm(v) : layout::norm(v);
  }
  /// r = b - A x; returns ||r||, infinite where `look` is set and the data are damaged.
  double true_residual(const Vector<T, M>& x, Vector<T, M>& r, bool look = false) {
    const Span span("recompute b - A x", "krylov");
    A_->apply(x, r);
    exec::sweep(exec::reads(b_), exec::updates(r), exec::writes(), layout::formula::Xpay<T>{T(-1)});
    if (look) mark_damage(r);
    return length(r);
  }
  /// Makes r infinite where the data of any rank are damaged: the next norm of r tells all ranks, without a message of
  /// its own. (A rank without elements has no data.)
  void mark_damage(Vector<T, M>& r) const {
    if (!looks_for_damage()) return;
    bool intact = is_intact();
    if (space_.is_replicated() && space_.comm().size() > 1)  // where norms are those of each rank's own copy
      intact = space_.comm().all(intact);
    if (!intact) layout::fill(r, T(std::numeric_limits<real_t<T>>::infinity()));
  }
  /// Checksums are of host memory.
  bool looks_for_damage() const { return std::same_as<M, Host> && options_.check_memory; }
  /// Whether this rank's parts of A and b are what they were. Local; reads them once.
  bool is_intact() const { return given_A_->intact() && b_checksum_ == checksum_of_b(); }
  std::uint64_t checksum_of_b() const {
    if constexpr (std::same_as<M, Host>)
      if (looks_for_damage()) return exec::Checksum().add(b_).value();
    return 0;
  }

  /// How much b - A x changes with the last digits of x: a smaller recomputed residual means nothing. One product, one
  /// reduction. Collective.
  double noise_of(const Vector<T, M>& x) {
    const auto epsilon = std::numeric_limits<real_t<T>>::epsilon();
    Vector<T, M> digits(space_), image(space_);
    scatter(digits, 5);
    exec::sweep(exec::reads(x), exec::updates(digits), exec::writes(), LastDigits<T>{epsilon});
    A_->apply(digits, image);
    return length(image);
  }

  /// ||b - A x|| that a claim may rest on, where the plain product gave `norm` and r. Where the rounding error of
  /// b - A x may decide (`claimed`: also that it misses the goal by little): recomputed in more precision, with r
  /// replaced, or where A has no such residual, the plain one and that error. No cost elsewhere. Collective.
  double confirmed(const Vector<T, M>& x, double length_of_x, double norm, Vector<T, M>& r, bool claimed) {
    // ||A|| may exceed the largest entry by the length of the rows.
    constexpr double margin = 200, near = 10, epsilon = std::numeric_limits<real_t<T>>::epsilon();
    const double rounding = margin * epsilon * A_size_ * length_of_x;
    const bool meets = reached(norm, goal_);
    if (rounding <= goal_ || !(meets || (claimed && norm <= std::min(rounding, near * goal_)))) return norm;
    if constexpr (std::same_as<M, Host>)
      if (op::precise_residual(plain_A_, std::ldexp(negated_ ? -1.0 : 1.0, -a_exponent_), b_, x, r)) {
        if (null_A_) left_->project(r);
        return length(r);
      }
    if (!meets) return norm;
    // Perturbations are half a unit on average; the sums in A x have rounding errors too.
    const double noise = 2 * noise_of(x);
    return norm + noise > goal_ ? norm + noise : norm;
  }

  /// Is x + d, whose residual is r, nearer to the solution than x in the norm of A, for positive definite A? The square
  /// of the error has fallen by (d, r of x + r). Two products.
  bool came_nearer(const Vector<T, M>& d, const Vector<T, M>& r) {
    Vector<T, M> both(space_);
    A_->apply(d, both);
    // (d, A d) is no more than rounding error: A may not be positive definite. On its null space cg would go on for
    // ever with such steps.
    const double least =
        layout::norm(d) *
        std::max(std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon())) * layout::norm(both), 4 * noise_of(d));
    if (!(double(real(layout::dot(d, both))) > least)) return false;
    layout::axpy(T(2), r, both);
    return double(real(layout::dot(d, both))) > 0;
  }

  void iterate() {
    const Global n = space_.size();
    const int max_iterations = options_.max_iterations.value_or(default_max_iterations(n));
    const int window = int(std::clamp<Global>(n, 500, 5000));
    Options options = options_;
    if (options_.callback) options.callback = [this](const State& s) { return call_back(s); };
    Monitor monitor(space_.comm(), options, b_norm_, goal_, max_iterations, window);
    // A quarter of the iterations is a fair trial for the method as it stands.
    // (Starting bicgstab anew costs little; cg would lose what it has learnt.)
    if (options_.fallbacks)
      monitor.ask_at(100, [&, this] {
        // is_hopeless() multiplies by A, which cg and its variants allow here: at most reductions are in flight.
        if (options_.engine != Engine::tasks && is_hopeless(monitor.norm())) return true;
        monitor.ask_at(std::max(window, max_iterations / 4),
                       [this] { return diagonal_varies() || (iteration_ && method_ == Method::ca_bicgstab); });
        return false;
      });
    b_checksum_ = checksum_of_b();
    Workspace<T, M> workspace(space_);
    monitor_ = &monitor, workspace_ = &workspace;
    restart_ = options_.restart.value_or(default_restart);
    const double norm = begin_from_guess();
    monitor.begin(norm);
    finish(judge(*this, norm, goal_));
  }
  /// r = b - A x of the initial guess; returns its norm.
  double begin_from_guess() {
    residual_ = std::make_unique<Vector<T, M>>(space_);
    length_of_x_ = layout::norm(x_);
    if (length_of_x_ != 0) {
      double norm = confirmed(x_, length_of_x_, true_residual(x_, *residual_), *residual_, false);
      if (reached(norm, goal_)) mark_damage(*residual_), norm = length(*residual_);
      // Squares of such a residual, or of b beside it, leave the range of the scalar.
      constexpr int far = std::numeric_limits<real_t<T>>::max_exponent / 2 - 14;
      if (norm < std::ldexp(b_norm_, far)) return norm;
      report_.warnings.push_back(message("x0 has a residual of ", norm / b_norm_, " of ||b||, and was set to zero"));
      layout::fill(x_, T(0));
      length_of_x_ = 0;
    }
    // x = 0 needs no product to know the residual.
    in_place_ = true;
    layout::copy(b_, *residual_);
    return b_norm_;
  }

  // The judge's calls. The trial is x + d in the place of d; in the first run from x = 0, d in the place of x.
  Vector<T, M>& trial() { return in_place_ ? x_ : *correction_; }
  std::optional<Verdict> run(double norm) override {
    Monitor& monitor = *monitor_;
    monitor.begin(norm);
    before_ = norm;
    known_intact_ = false;
    if (std::exchange(stale_, false)) true_residual(x_, *residual_);
    if (!in_place_) {
      if (!correction_) correction_ = std::make_unique<Vector<T, M>>(space_);
      layout::fill(*correction_, T(0));
      base_ = &x_;
    }
    monitor.be_patient(P_ || !options_.fallbacks || !given_A_->has_diagonal() ||
                       (diagonal_looked_at_ && inverse_.empty()));
    // In exact arithmetic bicgstab ends within n iterations. One that long after has not begun to converge wanders.
    const bool has_rungs = options_.fallbacks && method_ == Method::bicgstab;
    monitor.halve_within(has_rungs ? int(std::clamp<Global>(5 * space_.size(), 100, 50000)) : 0);
    {
      const Span span(to_string(method_), "krylov");
      run_by_engine({*A_, P_, *residual_, trial(), *workspace_, a_exponent_, negated_, together_, projection()},
                    monitor);
      for (auto& text : monitor.take_told()) report_.warnings.push_back(std::move(text));
      if (auto refusal = monitor.take_refusal()) return refusal;
    }
    monitor.solution_by(nullptr);
    base_ = nullptr;
    report_.recurrence_residual_norm = monitor.norm() / b_norm_;
    return {};
  }
  /// Takes the given null space out of a vector; empty where none is given.
  std::function<void(Vector<T, M>&)> projection() const {
    if constexpr (!is_group<M>)
      if (null_) return [q = &null_->right()](Vector<T, M>& v) { q->project(v); };
    return {};
  }
  double recompute() override {
    Vector<T, M>& d = trial();
    length_of_trial_ = layout::norm(d) + (in_place_ ? 0 : length_of_x_);
    if (!std::isfinite(length_of_trial_)) return std::numeric_limits<double>::infinity();
    if (!in_place_) layout::axpy(T(1), x_, d);
    if constexpr (!is_group<M>)
      if (null_) null_->right().project(d);
    // The ends of cycles do not look: they come often, and hardly ever at the goal.
    bool look = monitor_->outcome() != Outcome::cycle_end;
    double norm = confirmed(d, length_of_trial_, true_residual(d, *residual_, look), *residual_,
                            monitor_->outcome() == Outcome::claims);
    if (!look && reached(norm, goal_)) look = true, mark_damage(*residual_), norm = length(*residual_);
    known_intact_ = look && std::isfinite(norm);
    // Where the rounding error of A x may be as large as b, the residual of a worthless x may come out as 0.
    const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
    if (10 * epsilon * std::ldexp(given_A_->largest(), -a_exponent_) * length_of_trial_ > b_norm_) {
      const double noise = 4 * noise_of(d);  // perturbations are half a unit on average; A x has rounding errors too
      norm = std::max(norm, noise);
      // No better than x within rounding errors: the shorter one stays.
      if (norm >= before_ - noise && length_of_trial_ > 2 * length_of_x_) norm = std::max(norm, before_);
    }
    return norm;
  }
  std::optional<Verdict> damage() override {
    if (known_intact_ || !looks_for_damage()) return {};
    return damage_on(space_.comm(), is_intact());
  }
  bool is_better(double norm, double before) override {
    // After in_vain the classical method starts where the trial began, and so needs its usual number of iterations.
    // (From the result of a trial bicgstab may need five times as many.)
    const double aim = std::max(goal_, double(std::numeric_limits<real_t<T>>::epsilon()) * b_norm_);
    if (monitor_->outcome() == Outcome::in_vain && norm > std::sqrt(before * std::min(aim, before))) return false;
    if (norm < before) return true;
    // Residuals of methods for positive definite matrices may rise before they fall while the error falls all the time:
    // where such a run was cut short the error decides.
    const bool cut_short = monitor_->outcome() == Outcome::max_iterations || monitor_->outcome() == Outcome::stopped;
    if (!cut_short || !std::isfinite(norm) || (classical_of(method_) != Method::cg && method_ != Method::chebyshev))
      return false;
    Vector<T, M> step = trial();
    if (!in_place_) layout::axpy(T(-1), x_, step);
    return came_nearer(step, *residual_);
  }
  void accept() override {
    if (!std::exchange(in_place_, false)) std::swap(x_, *correction_);
    length_of_x_ = length_of_trial_;
  }
  void reject() override {
    if (std::exchange(in_place_, false)) layout::fill(x_, T(0)), layout::copy(b_, *residual_), length_of_x_ = 0;
    else stale_ = true;  // r is that of the trial
  }
  std::optional<Verdict> next(double before, double norm) override {
    const double gain = norm / before;
    if (gain <= 0.9) failure_ = {};
    if (auto verdict = after_run(gain, norm)) return verdict;
    if (monitor_->outcome() != Outcome::cycle_end) ++report_.restarts;
    if (monitor_->iterations() >= monitor_->max_iterations()) return too_few_iterations(norm);
    return {};
  }
  /// What is left to try after a run that has not reached the goal; a verdict where nothing is.
  std::optional<Verdict> after_run(double gain, double norm) {
    Monitor& monitor = *monitor_;
    switch (monitor.outcome()) {
      case Outcome::max_iterations:
        return too_few_iterations(norm);
      case Outcome::stopped:
        return Verdict{Reason::stopped, "the callback asked to stop", ""};
      case Outcome::diverged:
      case Outcome::non_finite:
      case Outcome::breakdown:
        // After progress a breakdown is a reason to start anew from here; without progress it ends the solve.
        if (gain <= 0.9) return {};
        if (rescale_preconditioner()) return {};
        if (monitor.outcome() == Outcome::breakdown && std::isfinite(norm) && turn_sign(monitor, *residual_)) return {};
        if (monitor.outcome() != Outcome::non_finite && std::isfinite(norm) && fall_back(monitor)) return {};
        if (monitor.outcome() == Outcome::breakdown && change_method(monitor)) return {};
        return failed(norm);
      case Outcome::slow:
      case Outcome::too_bold:
      case Outcome::in_vain:
        if (hopeless_) return hopeless(norm);
        fall_back(monitor);
        idle_ = 0;
        return {};
      case Outcome::no_progress:
      case Outcome::claims:
        return after_claim(gain, norm);
      case Outcome::cycle_end:
        idle_ = gain > 1 - 1e-6 ? idle_ + 1 : 0;
        if (idle_ >= 3 && (rescale_preconditioner() || fall_back(monitor))) {
          idle_ = 0;
          return {};
        }
        lengthen_cycle(gain, norm, monitor);
        if (idle_ < 3 || restart_ != longest_cycle()) return {};
        return Verdict{
            Reason::stagnated, message("three cycles in a row left the residual at ", norm / b_norm_, " of ||b||"),
            norm > 10 * monitor.norm() && options_.side != Side::left
                ? drifted()
                : message("Use a longer restart, ", twice(), "another method or a stronger preconditioner.")};
    }
    return {};
  }
  /// After a claim that does not hold, or a run without progress.
  std::optional<Verdict> after_claim(double gain, double norm) {
    Monitor& monitor = *monitor_;
    const bool claimed = monitor.outcome() == Outcome::claims;
    idle_ = gain > 0.5 ? idle_ + 1 : 0;
    if (!claimed && options_.fallbacks && is_hopeless(norm)) return hopeless(norm);
    // The projected problem of gmres and b - A x part where the basis has lost its orthogonality.
    const bool parted = claimed && is_gmres(method_) && norm > 1e3 * monitor.norm();
    if ((parted || idle_ >= 2 || (gain > 0.5 && !claimed)) && (rescale_preconditioner() || fall_back(monitor))) {
      idle_ = 0;
      return {};
    }
    if (idle_ < 2) return {};
    if (method_ == Method::direct && noted_ && noted_->is_doubtful())
      return Verdict{Reason::breakdown, noted_->note(),
                     "Where b is in the range of A, name the null space (nullspace=), or use gmres or minres."};
    return Verdict{Reason::stagnated, message("the recomputed residual stays at ", norm / b_norm_, " of ||b||"),
                   claimed ? drifted()
                   : classical_of(method_) == Method::gmres
                       ? "Use another method, a stronger preconditioner or a longer restart."
                       : "Use another method or a stronger preconditioner."};
  }

  /// The options, no larger than the space: there are not more directions in it than unknowns.
  Options within_space(const Monitor& monitor) const {
    const int most = int(std::clamp<Global>(space_.size(), 1, std::max(1, monitor.max_iterations())));
    Options o = options_;
    o.restart = method_ == classical_of(method_) ? restart_ : std::min(restart_, most);
    if (diagonal_) o.lambda_min = o.lambda_max = {};  // what was given is of A, not of P A
    if (o.step) o.step = std::min(*o.step, most);
    if (o.depth) o.depth = std::min(*o.depth, std::max(most, 2));
    if (o.block) o.block = std::min(*o.block, most);
    return o;
  }

  /// Runs the method, with kernels as tasks where Options::engine asks for it.
  void run_by_engine(Run<T, M> run, Monitor& monitor) {
    if (!iteration_) iteration_ = make_iteration<T, M>(method_, within_space(monitor)), look_at_powers();
    if constexpr (std::same_as<M, Host>) {
      if (options_.engine == Engine::tasks)
        return exec::Tasks::run([&] { iteration_->run(run, monitor); }, [&] { space_.comm().poll(); });
    }
    iteration_->run(run, monitor);
  }
  /// Warns of the parts of the run that are not tasks.
  void tell_of_engine() {
    if (options_.engine != Engine::tasks) return;
    if constexpr (!std::same_as<M, Host>) {
      report_.warnings.push_back("the engine \"tasks\" is for host memory; the device ran in the order of the program");
    } else {
      for (const auto* a : {A_, P_})
        if (a && !a->as_tasks())
          report_.warnings.push_back(message("the engine \"tasks\" runs products with the ", a->name(),
                                             " operator in the order of the program"));
    }
  }

  /// Warns where a matrix powers kernel was asked for and there is none.
  void look_at_powers() {
    if (options_.powers != Powers::kernel || by_kernel(*A_, P_, Powers::kernel)) return;
    std::string why = message("the ", A_->name(), " operator has no matrix powers kernel");
    if (scaled_A_) why = "there is no matrix powers kernel for a matrix that the solve scales";
    else if (A_->has_powers_kernel()) why = message("a matrix powers kernel takes no ", P_->name(), " preconditioner");
    report_.warnings.push_back(message(why, "; ", to_string(method_), " did its products one by one"));
  }

  static bool is_gmres(Method method) { return method == Method::gmres || method == Method::fgmres; }
  /// Whether the method is for Hermitian A only, and may so be given another one by mistake.
  bool needs_hermitian() const { return needs_definite() || method_ == Method::minres; }
  /// Whether a P that is not linear leaves this method what it is.
  bool is_flexible() const {
    return method_ == Method::fgmres || (method_ == Method::gmres && options_.side == Side::flexible);
  }
  void set_method(Method method) {
    method_ = method;
    report_.method = to_string(method);
    iteration_.reset();
  }

  void enter_null_space();  // null_space.hpp

  // What a solve begins with: method_choice.hpp, safeguards/units.hpp.
  void expect_varying();
  void choose_method();
  void consider_variants();
  void balance_scales(double b_norm);
  void undo_scales();

  // How it ends: safeguards/verdicts.hpp.
  std::string twice() const;
  std::string drifted() const;
  Verdict too_few_iterations(double norm) const;
  Verdict hopeless(double norm) const;
  std::string advice(const std::string& detail) const;
  Verdict failed(double norm) const;

  // What is tried where the method gets no further: safeguards/fallbacks.hpp.
  bool fall_back(Monitor& monitor);
  int longest_cycle() const;
  void lengthen_cycle(double gain, double norm, const Monitor& monitor);
  bool diagonal_varies();
  bool scale_by_diagonal();
  bool change_method(Monitor& monitor);

  // What is said of failures, and the sign of a definite matrix: safeguards/explain.hpp, null_vector.hpp.
  int sign_of_diagonal();
  void scale_operators();
  void scale_preconditioner(int e);
  bool rescale_preconditioner();
  bool turn_sign(const Monitor& monitor, Vector<T, M>& r);
  bool is_hopeless(double norm);
  double asymmetry(const op::Operator<T, M>& B);
  double nonlinearity(const op::Operator<T, M>& B);
  bool explain_nonlinearity();
  void apply_adjoint(const Vector<T, M>& x, Vector<T, M>& y);
  bool needs_definite() const { return classical_of(method_) == Method::cg || method_ == Method::chebyshev; }
  Global products_spent() const { return report_.counts.operator_applies + options_.spent.operator_applies; }
  bool is_small() const { return space_.size() <= 500; }
  void say(const std::string& cause, const std::string& advice);
  void say_instead(const std::string& cause, const std::string& advice);
  std::string rounding_advice(double level) const;
  /// Prices of operations in seconds, on the slowest rank, and how many seconds are left; allow() sets them.
  struct Allowance {
    double product = 0, precondition = 0;  // an apply of A, of P
    double vector = 0, sum = 0;            // a pass over a vector, a reduction with what is around it
    double left = std::numeric_limits<double>::infinity();
    bool fell_short = false;  // something was left out
  };
  void allow();
  bool affords(double products, double preconditions, double vectors, double sums);
  void explain();
  void look_into_cause();
  bool explain_non_finite();
  bool explain_changing_products();
  bool explain_asymmetry(double skew, bool hermitian);
  bool explain_rounding();
  struct Curvatures {
    bool positive = false, negative = false;
    double largest = 0;  // a lower bound of the largest eigenvalue's magnitude
  };
  Curvatures curvatures();
  bool explain_signs();
  struct LeastSquares;
  void gradient(LeastSquares& l);
  bool make_orthonormal(Workspace<T, M>& basis, int k);
  bool affords_step(const LeastSquares& l);
  bool step(LeastSquares& l);
  struct Proof {
    bool singular = false;  // A^H y is rounding error
    double level = 0;       // |(y, b)|: no x of less than `length` has a smaller residual
    double length = std::numeric_limits<double>::infinity(), noise = length;  // of such an x, and of its A x
  };
  Proof proof(const Vector<T, M>& y, const Vector<T, M>& Ay);
  bool names_cause(const Vector<T, M>& y, const Vector<T, M>& Ay, const char* which, const char* part);
  double goal_of_two_norm() const;
  double least_level() const;
  bool explain_by_guesses();
  bool explain_nearly(double b_norm);
  bool blames_preconditioner(const LeastSquares& l, double P_norm);
  Global affordable_steps(Global spent) const;
  bool explain_singularity();
  bool explain_solvable(LeastSquares& l, int most);

  void finish(Verdict verdict) {
    report_.reason = verdict.reason;
    report_.detail = std::move(verdict.detail);
    report_.advice = std::move(verdict.advice);
    report_.iterations = monitor_->iterations();
    report_.residual_norm = verdict.norm / b_norm_;
    if (monitor_->iterations() == 0) report_.recurrence_residual_norm = report_.residual_norm;
    report_.history = monitor_->take_history();
  }

  bool call_back(State s) {
    const auto run_solution = s.solution;
    s.solution = [&, run_solution](void* x) {
      run_solution(x);
      T* const v = static_cast<T*>(x);
      if (base_) {
        const auto base = base_->to_host();
        for (std::size_t i = 0; i < base.size(); ++i) v[i] += base[i];
      }
      const int e = b_exponent_ - a_exponent_;
      if (e == 0) return;
      for (std::size_t i = 0; i < x_.size(); ++i) {
        if constexpr (is_complex<T>) v[i] = {std::ldexp(v[i].real(), e), std::ldexp(v[i].imag(), e)};
        else v[i] = std::ldexp(v[i], e);
      }
    };
    return options_.callback(s);
  }

  const op::Operator<T, M>& plain_A_;  // without projections
  const op::Operator<T, M>* given_A_;
  const op::Operator<T, M>* given_P_;
  const op::Operator<T, M>* A_;
  const op::Operator<T, M>* P_;
  const op::Noted* noted_;  // given_P_ where it has notes, or null
  Vector<T, M>& x_;
  layout::Space space_;
  Options options_;
  bool hermitian_;
  const NullSpace<T, M>* null_;                          // given, or null
  const Orthonormal<T, M>* left_ = nullptr;              // the null space of A^H, where it is known
  std::unique_ptr<op::Operator<T, M>> null_A_, null_P_;  // A or P, with a projection after each apply
  Vector<T, M> b_;                                       // a copy: it is scaled
  BlockSearch<T>* together_;                             // of all columns, or null
  std::unique_ptr<op::Scaled<T, M>> scaled_A_, scaled_P_;
  std::unique_ptr<Iteration<T, M>> iteration_;
  std::vector<T> inverse_;  // of the diagonal, where it may serve
  std::unique_ptr<op::Diagonal<T, M>> diagonal_;
  struct Failure {
    Outcome outcome;
    std::string detail;
  };
  Failure failure_{};  // the first failure since the residual last fell
  Monitor* monitor_ = nullptr;
  Workspace<T, M>* workspace_ = nullptr;
  std::unique_ptr<Vector<T, M>> correction_;  // d, then x + d
  bool in_place_ = false;                     // the run is the first, from x = 0, and x takes the place of d
  bool stale_ = false;                        // residual_ is not that of x_
  bool known_intact_ = false;                 // at the last recompute(), on all ranks
  std::uint64_t b_checksum_ = 0;
  int idle_ = 0;                                  // runs in a row without progress
  double before_ = 0;                             // the residual that the run began with
  double length_of_x_ = 0, length_of_trial_ = 0;  // upper bounds
  int restart_ = 0;
  const Vector<T, M>* base_ = nullptr;  // what a run's d is added to, for callbacks
  Method method_ = Method::automatic;
  std::unique_ptr<Vector<T, M>> residual_;  // the last recomputed b - A x
  bool may_change_ = false, diagonal_looked_at_ = false;
  bool negated_ = false;     // what is solved is -A x = -b
  bool P_rescaled_ = false;  // or looked at for that
  bool hopeless_ = false;    // cg cannot work with this A
  bool may_use_adjoint_ = false;
  double A_norm_ = 0;  // an estimate, from below
  Allowance allowance_;
  Proof nearly_;  // that A is nearly singular, the strongest so far
  int a_exponent_ = 0, b_exponent_ = 0, P_exponent_ = 0, P_sign_ = 1;
  double b_norm_ = 0, goal_ = 0;
  double A_size_ = 0;  // the largest entry of A', or an estimate of its norm
  Report report_;
};

}  // namespace
}  // namespace tacit::krylov

#include "method_choice.hpp"
#include "safeguards/allowance.hpp"
#include "safeguards/explain.hpp"
#include "safeguards/fallbacks.hpp"
#include "safeguards/null_vector.hpp"
#include "safeguards/units.hpp"
#include "safeguards/verdicts.hpp"

#include "null_space.hpp"

namespace tacit::krylov {

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
  require(!P || (P->domain() == A.range() && P->range() == A.domain()), "the preconditioner maps ",
          P ? P->domain().size() : 0, " to ", P ? P->range().size() : 0, " elements; the operator has ",
          A.range().size());
  require(P || options.method != Method::direct,
          "the method \"direct\" needs the factors of A as preconditioner: precond \"direct\", of a stored matrix");
  require(!null_space || null_space->right().vectors().front().space() == A.domain(),
          "the vectors of the null space are not spread like those of A");
  require(
      !null_space || null_space->left().dimension() == 0 || null_space->left().vectors().front().space() == A.range(),
      "the vectors of the left null space are not spread like those of A");
}

template <Scalar T, Memory M>
Report solve(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b, Vector<T, M>& x,
             const Options& options, bool hermitian, const NullSpace<T, M>* null_space) {
  if (P) A.range().comm().join(P->range().comm());  // before this thread's turn
  return comm::collective(A.range().comm(), [&] {
    check_arguments(A, P, b, x, options, null_space);
    require(b.columns() == 1 && x.columns() == 1, "solve takes one right-hand side; b has ", b.columns(),
            " columns and x ", x.columns(), ": solve_columns takes several");
    return Solve<T, M>(A, P, b, x, options, hermitian, null_space).run();
  });
}

}  // namespace tacit::krylov
