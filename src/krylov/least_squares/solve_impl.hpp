// The driver of least-squares solves: runs a method, recomputes b - A x and A^H (b - A x), and lets the judge of all
// solves decide.
#pragma once

#include "../safeguards/scales.hpp"
#include "bidiagonalisation.hpp"
#include "goals.hpp"
#include "normal_equations.hpp"
#include "recurrences.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/krylov/least_squares.hpp>
#include <tacit/krylov/outer.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/scaled.hpp>
#include "krylov/monitor.hpp"
#include "krylov/plan/words.hpp"
#include "layout/unlike.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tacit::krylov {

/// A, P, b, x and damp as a solve works on them: A' = A / 2^a, P' = P 2^a, b' = b / 2^e, x' = x 2^(a - e), damp' =
/// damp / 2^a, all exact. What x stands for when a run begins from it.
template <Scalar T, Memory M>
class LeastSquaresSystem {
 public:
  using Operator = op::Operator<T, M>;
  using V = Vector<T, M>;

  LeastSquaresSystem(const Operator& A, const Operator* P, const V& b, V& x, double damp)
      : given_A_(A), A_(&A), P_(P), given_b_(b), b_(&b), x_(x), damp_(damp) {}

  const Operator& A() const { return *A_; }
  const Operator* P() const { return P_; }
  const V& b() const { return *b_; }
  V& x() const { return x_; }
  double damp() const { return damp_; }
  double b_norm() const { return b_norm_; }
  bool is_scaled() const { return a_exponent_ != 0 || b_exponent_ != 0; }
  /// What x', A', and b' have to be multiplied by.
  int exponent_of_x() const { return b_exponent_ - a_exponent_; }
  int exponent_of_A() const { return a_exponent_; }
  int exponent_of_b() const { return b_exponent_; }

  /// What is not finite in A, b or x, as a sentence; "" where everything is. Collective.
  std::string fault() const {
    std::string fault = A_->fault();
    const auto look = [&](const char* name, const V& v) {
      if (!fault.empty()) return;
      if (const Global i = first_non_finite(v); i >= 0)
        fault = message(name, " has a value that is not finite at index ", i, " (counted from 0)");
    };
    look("b", *b_);
    look("x0", x_);
    return fault;
  }
  /// Chooses the scales, and applies them. ||b|| may be infinite. Collective.
  void choose_scales(double b_norm) {
    if (!std::isfinite(b_norm)) scale_b(std::numeric_limits<double>::max_exponent / 2), b_norm = layout::norm(*b_);
    if (const int e = balance<T>(b_norm)) scale_b(e), b_norm = layout::norm(*b_);
    b_norm_ = b_norm;
    double size = A_->largest();
    if (size == 0) {  // unknown: estimated from A^H b
      V g(A_->domain());
      A_->apply_adjoint(*b_, g);
      size = layout::norm(g) / b_norm_;
    }
    constexpr int limit = std::numeric_limits<real_t<T>>::max_exponent - 1;
    a_exponent_ = std::clamp(balance<T>(size), -limit, limit);
    if (a_exponent_) {
      using R = real_t<T>;
      scaled_A_.emplace(given_A_, std::ldexp(R(1), -a_exponent_));
      A_ = &*scaled_A_;
      if (P_) P_ = &scaled_P_.emplace(*P_, std::ldexp(R(1), a_exponent_));
      damp_ = std::ldexp(damp_, -a_exponent_);
    }
    if (exponent_of_x()) scale_by_power(x_, -exponent_of_x());
    b_checksum_ = checksum_of_b();
  }
  /// A lower bound of ||A'|| that its entries give; 0 where they are not known.
  double largest() const { return std::ldexp(given_A_.largest(), -a_exponent_); }
  /// Whether this rank's parts of A and b are what they were. Local; reads them once.
  bool is_intact() const { return given_A_.intact() && b_checksum_ == checksum_of_b(); }

 private:
  void scale_b(int e) {
    if (!scaled_b_) scaled_b_.emplace(given_b_);
    scale_by_power(*scaled_b_, -e);
    b_ = &*scaled_b_;
    b_exponent_ += e;
  }
  std::uint64_t checksum_of_b() const {
    if constexpr (std::same_as<M, Host>) return exec::Checksum().add(*b_).value();
    else return 0;
  }
  const Operator& given_A_;
  const Operator* A_;
  const Operator* P_;
  const V& given_b_;
  const V* b_;
  V& x_;
  double damp_, b_norm_ = 0;
  int a_exponent_ = 0, b_exponent_ = 0;
  std::optional<V> scaled_b_;
  std::optional<op::Scaled<T, M>> scaled_A_, scaled_P_;
  std::uint64_t b_checksum_ = 0;
};

/// The size of an iterate's recomputed residual and gradient.
struct Judged {
  Norms norms;                ///< with damp, and of A P; the solution without P
  double plain_residual = 0;  ///< ||b - A x||
  double plain_gradient = 0;  ///< ||A^H r||, without P
};

template <Scalar T, Memory M>
class LeastSquaresSolve final : public OuterIteration {
  using V = Vector<T, M>;

 public:
  LeastSquaresSolve(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const V& b, V& x,
                    const LeastSquaresOptions& options, V* variance)
      : given_A_(A), given_P_(P), options_(options), variance_(variance), system_(A, P, b, x, options.damp) {}

  LeastSquaresReport solve() {
    const double from = wall_time();
    const auto& comm = given_A_.range().comm();
    const auto counters = comm.counters();
    const auto applies = given_A_.applies(), preconditions = given_P_ ? given_P_->applies() : 0;
    report_.method = to_string(options_.method);
    report_.precond = given_P_ ? given_P_->name() : "none";
    work();
    const auto spent = comm.counters() - counters;
    report_.counts.reductions = spent.reductions;
    report_.counts.exchanges = spent.exchanges;
    report_.counts.messages = comm.all_sum(spent.messages);
    report_.counts.bytes = comm.all_sum(spent.bytes);
    report_.counts.operator_applies = given_A_.applies() - applies;
    report_.counts.preconditioner_applies = given_P_ ? given_P_->applies() - preconditions : 0;
    report_.seconds = comm.all_max(wall_time() - from);
    return std::move(report_);
  }

 private:
  static constexpr double epsilon = double(std::numeric_limits<real_t<T>>::epsilon());

  void work();
  bool inputs_are_finite();
  void iterate();
  void finish(Verdict verdict);
  void undo_scales();
  void report_norms(const Judged& judged);

  // The judge's calls. The trial is x + P d.
  std::optional<Verdict> run(double norm) override;
  double recompute() override;
  std::optional<Verdict> damage() override {
    if (!looks_for_damage()) return {};
    return damage_on(given_A_.range().comm(), system_.is_intact());
  }
  /// Where the distance to the goals is not smaller, the smaller of what is minimised decides.
  bool is_better(double trial, double norm) override {
    if (std::isnan(trial)) return false;
    const Norms &is = trial_judged_.norms, &was = judged_.norms;
    return trial < norm || is.residual < was.residual ||
           (is.residual <= (1 + 10 * epsilon) * was.residual && is.gradient < was.gradient);
  }
  void accept() override {
    std::swap(*trial_, system_.x());
    accepted_ = true;
    judged_ = trial_judged_;
  }
  void reject() override { accepted_ = false; }
  std::optional<Verdict> next(double before, double norm) override;

  bool looks_for_damage() const { return std::same_as<M, Host> && options_.check_memory; }
  Judged judge_of(const V& x, bool is_zero);
  void estimate_norm();
  static void has_norm(double& bound, double norm) {
    if (std::isfinite(norm)) bound = std::max(bound, norm);
  }
  double distance(const Judged& judged) const;
  template <class Recurrence>
  void run_recurrence(Recurrence& recurrence);
  template <class Recurrence>
  bool continues(const Recurrence& recurrence);
  void run_by_normal_equations();
  void form_solution(void* to);
  Verdict verdict_of_condition() const;
  Verdict stagnation() const;

  const op::Operator<T, M>& given_A_;
  const op::Operator<T, M>* given_P_;
  const LeastSquaresOptions& options_;
  V* variance_;
  LeastSquaresReport report_;
  LeastSquaresSystem<T, M> system_;
  Goals goals_;
  std::optional<DampedMap<T, M>> map_;
  std::optional<Bidiagonalisation<T, M>> vectors_;
  std::optional<Lsqr<T, M>> lsqr_;
  std::optional<Lsmr<T, M>> lsmr_;
  std::optional<V> d_, trial_;
  Monitor* monitor_ = nullptr;
  Judged judged_, trial_judged_, began_;  // of x, of the trial, of the x that the run began with
  bool accepted_ = false;
  double matrix_norm_ = 0;  // a lower bound of ||A P||
  double plain_norm_ = 0;   // of ||A||
  double frobenius_ = 0, condition_ = 0;
  int inner_iterations_ = 0;  // of solve()
  double first_gradient_ = 0, least_gradient_ = 0, length_of_d_ = 0;
  Ending ending_ = Ending::start;
};

/// Error(usage) where spaces or options do not fit. The same on all ranks.
template <Scalar T, Memory M>
void check_arguments(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b,
                     const Vector<T, M>& x, const LeastSquaresOptions& options, const Vector<T, M>* variance) {
  check(options);
  require(A.has_adjoint(), "a least-squares solve needs products with A^H, which the ", A.name(),
          " operator does not have");
  require(b.space() == A.range(), "b has ", b.space().size(), " elements, ", b.space().local_size(),
          " on this rank; the operator gives ", A.range().size(), " and ", A.range().local_size());
  require(x.space() == A.domain(), "x has ", x.space().size(), " elements, ", x.space().local_size(),
          " on this rank; the operator takes ", A.domain().size(), " and ", A.domain().local_size());
  require(b.columns() == 1 && x.columns() == 1, "a least-squares solve takes one right-hand side; b has ", b.columns(),
          " columns and x ", x.columns());
  if (P && !(P->range() == A.domain()))
    require(false,
            "the preconditioner does not give what the operator takes: ", layout::unlike(P->range(), A.domain()));
  require(!P || P->domain().is_replicated() == A.domain().is_replicated(),
          "the preconditioner's vectors are replicated, and the operator's are not, or the other way round");
  require(!P || P->has_adjoint(), "a preconditioner from the right needs its adjoint product, which ",
          P ? P->name() : "", " does not have");
  require(!op::varies(P), "the preconditioner ", P ? P->name() : "",
          " varies from call to call; a least-squares solve needs a linear map");
  require(!variance || (options.method == LeastSquaresMethod::lsqr && !P),
          "the variance is estimated by lsqr without a preconditioner");
  require(!variance || (variance->space() == A.domain() && variance->columns() == 1), "the variance has ",
          variance ? variance->space().size() : 0, " elements; x has ", A.domain().size());
}

template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::work() {
  report_.norm = "2";
  if (variance_) layout::fill(*variance_, T(0));
  if (!inputs_are_finite()) return;
  report_.b_norm = layout::norm(system_.b());
  if (report_.b_norm == 0) {
    layout::fill(system_.x(), T(0));
    report_.reason = judge(*this, 0, 0).reason;
    report_.met = Met::residual, report_.ending = Ending::start;
    if (options_.history) report_.history = {0}, report_.gradient_history = {0};
    return;
  }
  system_.choose_scales(report_.b_norm);
  iterate();
  undo_scales();
}

template <Scalar T, Memory M>
bool LeastSquaresSolve<T, M>::inputs_are_finite() {
  const std::string fault = system_.fault();
  if (fault.empty()) return true;
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  layout::fill(system_.x(), T(0));
  report_.reason = Reason::non_finite;
  report_.detail = fault;
  report_.advice = "Look at how this value came about; no iteration was done and x is 0.";
  report_.residual_norm = report_.recurrence_residual_norm = report_.gradient_norm = none;
  report_.residual = report_.damped_residual = report_.gradient = none;
  return false;
}

template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::iterate() {
  const auto& A = system_.A();
  goals_ = {.atol = options_.atol.value_or(default_rtol<T>()),
            .btol = options_.btol.value_or(default_rtol<T>()),
            .condition = options_.condition_limit.value_or(0),
            .epsilon = epsilon,
            .b = system_.b_norm()};
  map_.emplace(A, system_.P(), system_.damp());
  vectors_.emplace(*map_);
  d_.emplace(map_->inner());
  trial_.emplace(A.domain());
  plain_norm_ = system_.largest();
  if (!given_P_) matrix_norm_ = std::max(plain_norm_, system_.damp());

  const Global n = std::min(A.range().size(), A.domain().size());
  Options options;
  options.history = options_.history;
  options.callback = options_.callback, options.callback_stops = options_.callback_stops;
  const int window = int(std::clamp<Global>(n, 500, 5000));
  Monitor monitor(A.range().comm(), options, system_.b_norm(), 0,
                  options_.max_iterations.value_or(default_max_iterations(n)), window);
  monitor.be_patient(true);
  monitor_ = &monitor;
  const bool from_zero = layout::norm(system_.x()) == 0;
  judged_ = judge_of(system_.x(), from_zero);
  // The distance is infinite also where no goal was given.
  if (!from_zero && !(std::isfinite(judged_.norms.residual) && std::isfinite(judged_.norms.gradient))) {
    report_.warnings.push_back("x0 has a residual that is not finite, and was set to zero");
    layout::fill(system_.x(), T(0));
    judged_ = judge_of(system_.x(), true);
  }
  const bool estimates = options_.method == LeastSquaresMethod::lsmr || options_.method == LeastSquaresMethod::lsqr;
  if (!estimates || (given_P_ && !from_zero)) estimate_norm();
  first_gradient_ = least_gradient_ = judged_.norms.gradient;
  if (options_.history) report_.gradient_history = {first_gradient_ > 0 ? 1.0 : 0.0};
  finish(judge(*this, distance(judged_), 1));
}

/// Recomputes the residual and the gradient of x into the vectors that a run begins with. A product each. Collective.
template <Scalar T, Memory M>
Judged LeastSquaresSolve<T, M>::judge_of(const V& x, bool is_zero) {
  const Span span("recompute b - A x", "krylov");
  auto& B = *vectors_;
  Judged judged;
  if (is_zero) {
    layout::copy(system_.b(), B.u);
  } else {
    system_.A().apply(x, B.u);
    judged.norms.solution = layout::norm(x);
    if (judged.norms.solution > 0)
      has_norm(plain_norm_, std::hypot(layout::norm(B.u) / judged.norms.solution, system_.damp()));
    exec::sweep(exec::reads(system_.b()), exec::updates(B.u), exec::writes(), layout::formula::Xpay<T>{T(-1)});
  }
  if (looks_for_damage()) {
    bool intact = system_.is_intact();
    if (system_.A().range().is_replicated()) intact = system_.A().range().comm().all(intact);
    if (!intact) layout::fill(B.u, T(std::numeric_limits<real_t<T>>::infinity()));
  }
  if (B.lower) {
    layout::copy(x, *B.lower);
    layout::scale(T(real_t<T>(-system_.damp())), *B.lower);
  }
  auto started = map_->start_back(B.u, B.v);
  judged.plain_residual = layout::norm(B.u);
  map_->back(started, B.lower ? &*B.lower : nullptr, B.v);
  judged.norms.residual = std::hypot(judged.plain_residual, system_.damp() * judged.norms.solution);
  judged.norms.gradient = layout::norm(B.v);
  judged.plain_gradient = given_P_ ? layout::norm(map_->gradient(B.v)) : judged.norms.gradient;
  if (judged.norms.residual > 0) {
    has_norm(matrix_norm_, judged.norms.gradient / judged.norms.residual);
    has_norm(plain_norm_, judged.plain_gradient / judged.norms.residual);
  }
  if (!given_P_) has_norm(matrix_norm_, plain_norm_);
  return judged;
}

/// Raises the bound of ||A P|| by a product along the gradient, for methods without a bound of their own, and for an x
/// that may meet the goals before they have one. Collective.
template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::estimate_norm() {
  const double length = judged_.norms.gradient;
  if (!(length > 0) || !std::isfinite(length)) return;
  V image(map_->range());
  const V& along = map_->of(vectors_->v);
  system_.A().apply(along, image);
  has_norm(matrix_norm_, std::hypot(layout::norm(image), system_.damp() * layout::norm(along)) / length);
}

/// The distance to the nearer goal, 1 where it is met. With P the gradient without it has a say: P^H A^H r also
/// vanishes where P is singular.
template <Scalar T, Memory M>
double LeastSquaresSolve<T, M>::distance(const Judged& judged) const {
  Norms norms = judged.norms;
  if (!given_P_) {
    norms.matrix = matrix_norm_;
    return goals_.distance(norms);
  }
  constexpr double slack = 1000;  // P may make A^H r longer by its own condition
  norms.matrix = plain_norm_;
  const double residual = norms.residual / goals_.allowed_residual(norms);
  if (norms.residual == 0 || residual <= 1) return norms.residual == 0 ? 0 : residual;
  norms.matrix = matrix_norm_;
  const double gradient = norms.gradient == 0 ? 0 : norms.gradient / goals_.allowed_gradient(norms);
  norms.matrix = plain_norm_;
  const double without_P = judged.plain_gradient == 0 ? 0 : judged.plain_gradient / goals_.allowed_gradient(norms);
  return std::min(residual, std::max(gradient, without_P / slack));
}

template <Scalar T, Memory M>
std::optional<Verdict> LeastSquaresSolve<T, M>::run(double distance) {
  auto& monitor = *monitor_;
  const Norms& norms = judged_.norms;
  monitor.begin(norms.residual);
  began_ = judged_;
  monitor.solution_by([this](void* to) { form_solution(to); });
  layout::fill(*d_, T(0));
  length_of_d_ = 0;
  const Span span(to_string(options_.method), "krylov");
  ending_ = Ending::other;
  if (!std::isfinite(norms.residual) || !std::isfinite(norms.gradient)) {
    monitor.end(Outcome::non_finite);
    return {};
  }
  if (norms.gradient == 0) {  // P^H A^H r, and that is not enough
    monitor.end(Outcome::no_progress);
    return {};
  }
  if (monitor.max_iterations() == 0) {  // x has been judged, and a run would judge it again
    ending_ = Ending::iterations;
    monitor.end(Outcome::max_iterations);
    return next(distance, distance);
  }
  vectors_->begin(norms.residual, norms.gradient);
  if (options_.method == LeastSquaresMethod::lsqr) {
    if (!lsqr_) lsqr_.emplace(map_->inner(), variance_);
    run_recurrence(*lsqr_);
    lsqr_->drop_variance();  // a later run has other vectors
  } else if (options_.method == LeastSquaresMethod::lsmr) {
    if (!lsmr_) lsmr_.emplace(map_->inner(), nullptr);
    run_recurrence(*lsmr_);
  } else {
    run_by_normal_equations();
  }
  monitor.solution_by(nullptr);
  report_.recurrence_residual_norm = monitor.norm() / system_.b_norm();
  return {};
}

/// Steps until the monitor or a goal ends them. The reduction of beta is hidden behind the product with A^H, and that
/// of alpha, where it sends messages, behind the next product with A, for one more product a run. A callback finds no
/// product under way.
template <Scalar T, Memory M>
template <class Recurrence>
void LeastSquaresSolve<T, M>::run_recurrence(Recurrence& recurrence) {
  auto& B = *vectors_;
  recurrence.begin(B);
  double squares = 0;  // ||B_k||_F^2, but for alpha_k+1
  exec::Sums<2, T> own{};
  bool hides = map_->inner().needs_messages();
  // A callback may be of one rank only, that which shows the progress; products are of all.
  if (hides) hides = given_A_.range().comm().all_max(Global(bool(options_.callback))) == 0;
  if (!continues(recurrence)) return;
  B.start_product();
  for (bool first = true;; first = false) {
    const double alpha = B.alpha();
    const auto sums = B.step_u(own);
    const double beta = B.beta(), length_of_w = first ? 1 : std::sqrt(double(real(sums[1])));
    length_of_d_ = std::sqrt(double(real(sums[0])));
    squares += alpha * alpha + beta * beta;
    matrix_norm_ = std::max(matrix_norm_, std::hypot(alpha, beta));
    frobenius_ = std::max(frobenius_, std::sqrt(squares));
    B.step_v();
    if (hides) B.start_product();
    B.wait_for_alpha();
    own = recurrence.step(B, length_of_w, std::sqrt(squares), *d_);
    condition_ = recurrence.condition;
    if (!continues(recurrence)) break;
    if (!hides) B.start_product();
  }
  B.end();
}

/// The monitor's answer, and a look at the goals. False ends the run, and sets ending_.
template <Scalar T, Memory M>
template <class Recurrence>
bool LeastSquaresSolve<T, M>::continues(const Recurrence& recurrence) {
  auto& monitor = *monitor_;
  if (recurrence.gradient < 0.999 * least_gradient_) least_gradient_ = recurrence.gradient, monitor.progress();
  const bool may_go_on = monitor.go_on(recurrence.residual);
  auto& history = report_.gradient_history;
  if (options_.history && int(history.size()) == monitor.iterations())
    history.push_back(recurrence.gradient / first_gradient_);
  if (!may_go_on) {
    ending_ = monitor.outcome() == Outcome::max_iterations ? Ending::iterations
              : monitor.outcome() == Outcome::at_goal      ? Ending::residual
                                                           : Ending::other;
    return false;
  }
  const double solution = given_P_ ? length_of_d_ : std::max(length_of_d_, judged_.norms.solution);
  ending_ = goals_.ending({recurrence.residual, recurrence.gradient, matrix_norm_, solution}, recurrence.condition);
  if (ending_ == Ending::other) return true;
  const bool at_goal = ending_ == Ending::residual || ending_ == Ending::gradient;
  return monitor.end(at_goal ? Outcome::at_goal : Outcome::no_progress);
}

/// d of P^H (A^H A + damp^2 I) P d = P^H (A^H r - damp^2 x), by solve(): so far that A^H r is small against the r with
/// which the run begins. Where r falls much, as that of a system that has a solution does, further runs follow.
template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::run_by_normal_equations() {
  auto& monitor = *monitor_;
  const NormalEquations<T, M> N(*map_);
  const V right = vectors_->v;
  const Norms& norms = judged_.norms;
  const double goal = 0.5 * goals_.atol * matrix_norm_ * norms.residual / norms.gradient;
  Options o;
  o.method = options_.method == LeastSquaresMethod::cg      ? Method::cg
             : options_.method == LeastSquaresMethod::ca_cg ? Method::ca_cg
                                                            : Method::pipelined_cg;
  o.rtol = std::clamp(goal, 10 * epsilon, 0.1);
  o.max_iterations = monitor.max_iterations() - inner_iterations_;
  o.step = options_.step;
  o.history = options_.history, o.explain = false, o.check_memory = false;
  const Report report = krylov::solve<T, M>(N, nullptr, right, *d_, o, true);
  inner_iterations_ += report.iterations;
  for (const auto& text : report.warnings) report_.warnings.push_back(text);
  for (std::size_t k = 1; k < report.history.size(); ++k)
    report_.gradient_history.push_back(report.history[k] * norms.gradient / first_gradient_);
  ending_ = report.converged()                        ? Ending::gradient
            : report.reason == Reason::max_iterations ? Ending::iterations
                                                      : Ending::other;
  monitor.end(report.converged()                        ? Outcome::at_goal
              : report.reason == Reason::max_iterations ? Outcome::max_iterations
              : report.reason == Reason::non_finite     ? Outcome::non_finite
                                                        : Outcome::no_progress);
}

/// x_k as the user has it, this rank's part, for callbacks. Collective.
template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::form_solution(void* to) {
  V x = system_.x();
  if (given_P_) {
    V step(x);
    system_.P()->apply(*d_, step);
    layout::axpy(T(1), step, x);
  } else {
    layout::axpy(T(1), *d_, x);
  }
  scale_by_power(x, system_.exponent_of_x());
  const auto host = x.to_host();
  std::copy(host.begin(), host.end(), static_cast<T*>(to));
}

template <Scalar T, Memory M>
double LeastSquaresSolve<T, M>::recompute() {
  layout::copy(map_->of(*d_), *trial_);
  layout::axpy(T(1), system_.x(), *trial_);
  trial_judged_ = judge_of(*trial_, false);
  return distance(trial_judged_);
}

template <Scalar T, Memory M>
std::optional<Verdict> LeastSquaresSolve<T, M>::next(double before, double norm) {
  switch (monitor_->outcome()) {
    case Outcome::non_finite:
      return Verdict{Reason::non_finite, "a product with A or A^H, or a norm, became NaN or Inf during the iteration",
                     "Look at the operator and the preconditioner; where numbers leave the range of the scalar, use "
                     "double precision or scale the problem."};
    case Outcome::stopped:
      return Verdict{Reason::stopped, "the callback asked to stop", ""};
    case Outcome::max_iterations:
      return Verdict{Reason::max_iterations, "",
                     "Allow more iterations, scale the columns of A to one length (precond \"jacobi\"), or regularise "
                     "with damp."};
    default:
      break;
  }
  if (ending_ == Ending::condition || ending_ == Ending::condition_rounding) return verdict_of_condition();
  const Norms &is = judged_.norms, &was = began_.norms;
  const bool gained =
      accepted_ && (norm <= 0.5 * before || is.gradient <= 0.5 * was.gradient || is.residual <= 0.5 * was.residual);
  if (!gained) return stagnation();
  ++report_.restarts;
  return {};
}

template <Scalar T, Memory M>
Verdict LeastSquaresSolve<T, M>::verdict_of_condition() const {
  const char* advice =
      "Regularise with damp, scale the columns of A to one length, or leave out columns that others "
      "make up; x is the iterate so far.";
  if (ending_ == Ending::condition)
    return {Reason::stopped,
            message("the condition of A is estimated as ", about(condition_), ", above condition_limit ",
                    about(goals_.condition)),
            advice};
  return {Reason::stagnated,
          message("the condition of A is estimated as ", about(condition_),
                  ": to the rounding errors of this scalar "
                  "its columns are dependent"),
          advice};
}

template <Scalar T, Memory M>
Verdict LeastSquaresSolve<T, M>::stagnation() const {
  const Norms& n = judged_.norms;
  if (given_P_ && !(n.gradient > goals_.atol * matrix_norm_ * n.residual))
    return {Reason::breakdown, "P^H A^H (b - A x) vanishes, and A^H (b - A x) does not: the preconditioner is singular",
            "Use another preconditioner, or none."};
  return {Reason::stagnated,
          message("||b - A x|| stays at ", about(n.residual / goals_.b), " of ||b||, and ||A^H (b - A x)|| at ",
                  about(n.gradient / (matrix_norm_ * n.residual)), " of ||A|| ||b - A x||"),
          std::same_as<real_t<T>, double> ? "Ask for larger atol and btol, or scale the columns of A to one length."
                                          : "Ask for larger atol and btol, or use double precision."};
}

template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::finish(Verdict verdict) {
  report_.reason = verdict.reason;
  report_.detail = std::move(verdict.detail);
  report_.advice = std::move(verdict.advice);
  report_.iterations = monitor_->iterations() + inner_iterations_;
  report_.history = monitor_->take_history();
  report_.ending = ending_;
  if (report_.iterations == 0) report_.recurrence_residual_norm = judged_.norms.residual / system_.b_norm();
  Norms norms = judged_.norms;
  norms.matrix = given_P_ ? plain_norm_ : matrix_norm_;
  if (report_.converged()) {
    report_.met = goals_.meet_residual(norms) ? Met::residual : Met::gradient;
    if (report_.iterations > 0) report_.ending = report_.met == Met::residual ? Ending::residual : Ending::gradient;
    if (report_.met == Met::gradient)
      report_.detail = message("x is a least-squares solution: ||b - A x|| is ",
                               about(judged_.plain_residual / system_.b_norm()), " of ||b||");
  }
  report_norms(judged_);
}

template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::report_norms(const Judged& judged) {
  const int a = system_.exponent_of_A(), b = system_.exponent_of_b();
  const Norms& n = judged.norms;
  const bool damaged = report_.reason == Reason::damaged;
  const double none = std::numeric_limits<double>::quiet_NaN();
  report_.residual_norm = damaged ? none : judged.plain_residual / system_.b_norm();
  report_.gradient_norm = damaged ? none : n.gradient == 0 ? 0 : n.gradient / (matrix_norm_ * n.residual);
  report_.residual = damaged ? none : std::ldexp(judged.plain_residual, b);
  report_.damped_residual = damaged ? none : std::ldexp(n.residual, b);
  report_.gradient = damaged ? none : std::ldexp(judged.plain_gradient, a + b);
  report_.solution = std::ldexp(n.solution, b - a);
  report_.matrix_norm = std::ldexp(matrix_norm_, a);
  report_.frobenius_norm = std::ldexp(frobenius_, a);
  report_.condition = condition_;
}

/// Scales x back. An x that leaves the range of its scalar changes the report. Collective.
template <Scalar T, Memory M>
void LeastSquaresSolve<T, M>::undo_scales() {
  auto& x = system_.x();
  if (variance_ && system_.exponent_of_A()) scale_by_power(*variance_, -2 * system_.exponent_of_A());
  const int e = system_.exponent_of_x();
  if (e == 0) return;
  V exact = x;
  scale_by_power(x, e);
  if (report_.reason == Reason::damaged) return;
  if (first_non_finite(x) >= 0) {
    layout::fill(x, T(0));
    report_.reason = Reason::non_finite;
    report_.met = Met::neither, report_.ending = Ending::other;
    report_.detail = "the solution is too large for its scalar type";
    report_.advice = "Scale the right-hand side down.";
    report_norms(judge_of(x, true));
    return;
  }
  // Elements that become subnormal lose digits, and smaller ones vanish: the rounded x has another residual.
  V rounded = x;
  scale_by_power(rounded, -e);
  layout::subtract(rounded, exact, exact);
  if (layout::norm(exact) == 0) return;
  const Judged judged = judge_of(rounded, false);
  report_norms(judged);
  if (!report_.converged() || reached(distance(judged), 1)) return;
  report_.reason = Reason::stagnated;
  report_.met = Met::neither, report_.ending = Ending::other;
  report_.detail = "the solution is too small for its scalar type, and what is left of it meets no goal";
  report_.advice = "Scale the right-hand side up.";
}

template <Scalar T, Memory M>
LeastSquaresReport least_squares(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const Vector<T, M>& b,
                                 Vector<T, M>& x, const LeastSquaresOptions& options, Vector<T, M>* variance) {
  if (P) A.range().comm().join(P->range().comm());  // before this thread's turn
  return comm::collective(A.range().comm(), [&] {
    check_arguments(A, P, b, x, options, variance);
    return LeastSquaresSolve<T, M>(A, P, b, x, options, variance).solve();
  });
}

}  // namespace tacit::krylov
