// Attempts: one solve by the candidates of auto, one after the other until one of them solves.
#pragma once

#include "candidates.hpp"
#include "krylov/part.hpp"
#include "krylov/plan/words.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/precond/automatic.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tacit::precond {

inline constexpr double never_ends = std::numeric_limits<double>::infinity();

/// The options that this method takes.
inline krylov::Options for_method(krylov::Options o, krylov::Method method) {
  o.method = method;
#define TACIT_OPTION(member, ...) \
  if (method != krylov::Method::automatic && !krylov::takes(method, #member)) o.member.reset();
#include <tacit/krylov/methods.def>
  return o;
}

/// The options of a solve with this candidate.
inline krylov::Options with_candidate(const Candidate& c, const krylov::Options& options) {
  auto o = for_method(options, c.method);
  if (!o.restart && c.restart != krylov::default_restart) o.restart = c.restart;
  return o;
}

/// "cg with ic0"; "direct" alone.
inline std::string described(const krylov::Report& r) {
  return r.precond == "none" || r.precond == r.method ? r.method : message(r.method, " with ", r.precond);
}

/// The attempts of one solve.
template <Scalar T>
class Automatic<T>::Attempts {
  using Reason = krylov::Reason;
  using Report = krylov::Report;

 public:
  using Vector = layout::Vector<T, Host>;
  Attempts(Automatic& own, const Vector& b, Vector& x, const krylov::Options& options,
           const krylov::NullSpace<T, Host>* null_space, int solves_of_call = 1)
      : own_(own), b_(b), x_(x), options_(options), null_(null_space), solves_of_call_(solves_of_call) {
    shown_.aggregates = [&own] { return own.multigrid_block() > 0; };
    b_norm_ = length_of_b(krylov::Norm::two);
    const double norm = options.norm == krylov::Norm::two ? b_norm_ : length_of_b(options.norm);
    if (layout::norm(x) > 0) guess_ = x;
    goal_ = std::max({options.rtol.value_or(krylov::default_rtol<T>()), norm > 0 ? options.atol / norm : 0.0,
                      std::numeric_limits<double>::min()});
    most_ = options.max_iterations.value_or(krylov::default_max_iterations(b.space().size()));
    if (options.callback)
      options_.callback = [this, call = options.callback](const krylov::State& s) {
        auto shifted = s;
        shifted.iteration += report_.iterations;
        return call(shifted);
      };
  }

  Report run() {
    shown_.indefinite =
        own_.kept_ >= 0 && own_.candidates_[std::size_t(own_.kept_)].needs == Candidate::Needs::indefinite;
    if (own_.kept_ >= 0 && attempt(own_.kept_, true)) return finish();
    struct GivenUp {
      int which;
      double left;
    };
    std::vector<GivenUp> given_up;
    const int count = int(own_.candidates_.size());
    for (int i = 0; i < count; ++i) {
      const Candidate& c = own_.candidates_[std::size_t(i)];
      if (i == own_.kept_ || !c.is_open(shown_)) continue;
      if (attempt(i, true)) return finish();
      if (std::isfinite(predicted_)) given_up.push_back({i, predicted_});
    }
    std::stable_sort(given_up.begin(), given_up.end(),
                     [](const GivenUp& a, const GivenUp& b) { return a.left < b.left; });
    for (const GivenUp& one : given_up)
      if (one.which != count - 1 && attempt(one.which, false)) return finish();
    // Without a preconditioner that could be to blame, a failure is explained by the system.
    attempt(count - 1, false);
    return finish();
  }

 private:
  /// ||b||, without what a solve takes out of b because of a null space. Collective.
  double length_of_b(krylov::Norm norm) const {
    if (null_) return krylov::norm_in_range<T>(own_.A_, b_, norm, *null_);
    return norm == krylov::Norm::max ? layout::max_norm(b_) : layout::norm(b_);
  }
  /// Tries a candidate; true where the solve is over. predicted_: the iterations it would still need, where it was
  /// given up.
  bool attempt(int which, bool may_give_up) {
    const Candidate& chosen = own_.candidates_[std::size_t(which)];
    predicted_ = never_ends;
    const int left = most_ - report_.iterations;
    if (begun_ && left <= 0) return true;
    const bool is_kept = which == own_.kept_;
    const double before = wall_time();
    const auto& comm = own_.A_.range().comm();
    Options with = chosen.options;
    if (chosen.precond == "amg") with.block = own_.multigrid_block();
    auto made = is_kept ? std::move(own_.kept_precond_) : nullptr;
    const bool is_left_out = !made && !make_precond(chosen, with, made);
    own_.setup_seconds_ += comm.all_max(wall_time() - before);
    if (is_left_out) {
      if (is_kept) own_.kept_ = -1;
      return false;
    }
    const auto* noted = dynamic_cast<const op::Noted*>(made.get());
    const bool is_doubtful = noted && noted->is_doubtful() && chosen.precond != "jacobi";
    const Candidate c = with_patience(chosen, with, is_doubtful);
    auto o = with_candidate(chosen, options_);
    o.max_iterations = left;
    o.explain = false;  // explain() does so, once
    if (begun_) forget_noise();
    std::optional<Vector> came_from;
    if (begun_ && !best_) came_from = x_;
    krylov::Forecast forecast(c.trial, goal_);
    Report r = krylov::solve_part<T, Host>(own_.A_, made.get(), b_, x_, o, {may_give_up ? &forecast : nullptr},
                                           own_.hermitian_, null_);
    shown_.indefinite = shown_.indefinite || shows_indefinite(c, r);
    const bool gave_up = forecast.gave_up() && r.reason == Reason::stopped;
    const std::string name =
        message(described(r), c.options.coarsening ? message(" by ", to_string(*c.options.coarsening)) : "");
    if (gave_up) give_up(c, forecast.left(), is_doubtful, r);
    if (r.converged()) {
      own_.kept_ = which;
      own_.kept_precond_ = std::move(made);
      tell(name);
    } else if (is_kept) {
      own_.kept_ = -1;
    }
    if (const auto* factors = dynamic_cast<const BlockJacobi<T>*>(made.get());
        factors && c.precond == "ilut" && factors->fill() >= *c.options.fill &&
        !(r.residual_norm < 0.5 * std::min(best_norm_, 1.0)))
      ++shown_.full_without_use;
    if (!begun_ || std::isnan(best_norm_) || r.residual_norm <= best_norm_ || r.converged())
      best_.reset(), best_norm_ = r.residual_norm;
    else if (!best_) best_ = std::move(came_from);
    if (!r.converged())
      tell(gave_up ? message(name, " (", r.iterations, " iterations, residual ", krylov::about(r.residual_norm), ")")
                   : message(name, " (", to_string(r.reason), " at ", krylov::about(r.residual_norm), ")"));
    const bool over = is_over(r);
    add(std::move(r));
    return over;
  }

  /// Whether cg, or what a solve took for ic0 in its place, has found that A is not definite.
  static bool shows_indefinite(const Candidate& c, const Report& r) {
    if (c.needs != Candidate::Needs::definite) return false;
    // Asked to choose a method, solve() takes cg or a variant of it, and leaves it where A is not definite.
    if (c.method == krylov::Method::automatic) return !krylov::is_cg(value_of<krylov::Method>(r.method));
    return r.reason == Reason::breakdown;
  }

  /// The candidate with the patience that suits the preconditioner made with these options.
  static Candidate with_patience(Candidate c, const Options& with, bool is_doubtful) {
    // Of systems of equations the set-up of classical coarsening costs as much as hundreds of iterations.
    if (c.is_aggregation() && with.block.value_or(1) > 1) c.trial.patience *= 3;
    // Factors with replaced pivots are seldom good.
    if (is_doubtful) c.trial.first = std::min(c.trial.first, 20), c.trial.patience = std::min(c.trial.patience, 60.0);
    return c;
  }

  /// Notes what a candidate shows that was given up with so many iterations left.
  void give_up(const Candidate& c, double left, bool is_doubtful, Report& r) {
    if (c.is_aggregation() && !is_doubtful && left < 1000) shown_.aggregation_is_slow = true;
    hardly_reduced_ = krylov::traits_of(c.method).matrix == krylov::Traits::Matrix::hermitian && r.residual_norm > 0.5;
    predicted_ = left;
    r.reason = Reason::max_iterations, r.detail.clear();
    r.advice = left < 100.0 * most_ ? "Allow more iterations." : "Use another method or a stronger preconditioner.";
  }

  /// Whether no other candidate could do better after this attempt.
  static bool is_over(const Report& r) {
    return r.converged() || r.reason == Reason::stopped || r.reason == Reason::damaged ||
           (r.reason == Reason::non_finite && std::isnan(r.residual_norm)) ||
           // What is left is rounding error.
           r.residual_norm <= 100 * double(std::numeric_limits<real_t<T>>::epsilon());
  }

  /// Makes the preconditioner of a candidate; false where complete factors would take too long or too much memory, and,
  /// with a warning, where it cannot be made for this matrix, or memory does not suffice: the user has not named it.
  /// Collective.
  bool make_precond(const Candidate& c, const Options& with, std::unique_ptr<op::Operator<T, Host>>& made) {
    std::string why;
    try {
      return comm::collective(own_.A_.range().comm(), [&] {
        if (c.precond == "direct" && !own_.can_factorise(applies_so_far(), c.options.fill)) return false;
        shown_.has_factorised = shown_.has_factorised || c.precond == "direct";
        made = own_.make_precond(c, with);  // null for "none"
        return true;
      });
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::interrupted) throw;
      why = e.what();
    } catch (const std::bad_alloc&) {
      why = "out of memory";
    }
    left_out_.push_back(message("auto left out the preconditioner ", c.precond, ": ", why));
    tell(message(c.precond, " (left out)"));
    return false;
  }

  double applies_so_far() const {
    return double(report_.counts.operator_applies) + double(report_.counts.preconditioner_applies);
  }

  /// Takes the guess in place of an x so long (along a null vector, say) that A x has rounding errors above the goal,
  /// and of one from a minres that had hardly begun to reduce the residual.
  void forget_noise() {
    const double noise = 10 * double(std::numeric_limits<real_t<T>>::epsilon()) * own_.A_.largest() * layout::norm(x_);
    if (!std::exchange(hardly_reduced_, false) && noise <= goal_ * b_norm_) return;
    if (!best_) best_ = x_;
    if (guess_) layout::copy(*guess_, x_);
    else layout::fill(x_, T(0));
  }

  void tell(std::string text) { choice_.push_back(std::move(text)); }
  /// The attempts in one sentence; of many, the first two and the last two.
  std::string choice() const {
    std::string all;
    const std::size_t count = choice_.size();
    for (std::size_t i = 0; i < count; ++i)
      if (count <= 5 || i < 2 || i + 2 >= count) all += (all.empty() ? "" : ", then ") + choice_[i];
      else if (i == 2) all += message(", then ", count - 4, " more attempts");
    return all;
  }

  /// Adds an attempt to the report: sums of what was spent, and the words of the better attempt.
  void add(Report r) {
    Report sum = std::move(report_);
    // At equal residuals the later attempt's words: it has a better preconditioner, or none that could be to blame.
    if (!begun_ || !(r.residual_norm > 1.01 * sum.residual_norm) || r.converged()) report_ = r;
    else report_ = sum;
    if (std::exchange(begun_, true)) {
      report_.iterations = sum.iterations + r.iterations;
      report_.restarts = sum.restarts + r.restarts + 1;
      report_.seconds = sum.seconds + r.seconds;
      report_.history = std::move(sum.history);
      if (!r.history.empty()) report_.history.insert(report_.history.end(), r.history.begin() + 1, r.history.end());
      auto& c = report_.counts;
      const auto &a = sum.counts, &b = r.counts;
      c = {a.reductions + b.reductions,
           a.operator_applies + b.operator_applies,
           a.preconditioner_applies + b.preconditioner_applies,
           a.exchanges + b.exchanges,
           a.messages + b.messages,
           a.bytes + b.bytes};
    }
  }

  /// After attempts that lead away from the solution: x0 where no x has a smaller residual. One product. Collective.
  void return_guess_if_better() {
    if (report_.reason != Reason::diverged && report_.reason != Reason::stagnated &&
        report_.reason != Reason::breakdown)
      return;
    const double from = wall_time();
    Vector x0(x_.space());
    if (guess_) layout::copy(*guess_, x0);
    const double norm = krylov::residual_of<T>(own_.A_, b_, x0, for_method(options_, krylov::Method::automatic), null_);
    report_.seconds += own_.A_.range().comm().all_max(wall_time() - from);
    if (!(norm < report_.residual_norm)) return;
    layout::copy(x0, x_);
    report_.residual_norm = norm;
  }

  /// Completes detail and advice of a failure by what products find of its cause.
  void explain() {
    if (report_.converged() || report_.reason == Reason::stopped || std::isnan(report_.residual_norm)) return;
    const bool ended_early = report_.reason == Reason::max_iterations && report_.iterations >= most_ &&
                             krylov::is_cut_off_early(report_.iterations, own_.A_.range().size());
    if (ended_early && !options_.explain.value_or(false)) return;
    Vector x = x_;
    const double from = wall_time();
    const krylov::Cause cause =
        krylov::cause_of_failure<T>(own_.A_, b_, x, for_method(options_, own_.candidates_.back().method),
                                    {.solves_of_call = solves_of_call_}, {report_.iterations, report_.counts}, null_);
    report_.explain_seconds = own_.A_.range().comm().all_max(wall_time() - from);
    if (cause.detail.empty()) return;
    report_.detail.resize(std::min(report_.detail.size(), report_.detail.find(": ")));
    report_.detail += (report_.detail.empty() ? "" : "; ") + cause.detail;
    report_.advice = cause.advice;
  }

  Report finish() {
    own_.analysis_.reset();
    if (best_) layout::copy(*best_, x_);
    if (report_.reason != Reason::damaged) report_.residual_norm = best_norm_;
    return_guess_if_better();
    if (options_.explain.value_or(true)) explain();
    report_.warnings.insert(report_.warnings.end(), left_out_.begin(), left_out_.end());
    report_.choice = message("auto: ", choice(), own_.hermitian_ ? " (A is Hermitian)" : " (A is not Hermitian)");
    return std::move(report_);
  }

  Automatic& own_;
  const Vector& b_;
  Vector& x_;
  krylov::Options options_;
  const krylov::NullSpace<T, Host>* null_;
  std::optional<Vector> guess_;  // where it is not zero
  std::optional<Vector> best_;   // the x of the smallest residual, where it is not x_
  double best_norm_ = never_ends;
  double b_norm_ = 0, goal_ = 0, predicted_ = never_ends;
  int most_ = 0;  // iterations, of all attempts
  int solves_of_call_;
  bool begun_ = false, hardly_reduced_ = false;
  Shown shown_;
  std::vector<std::string> choice_, left_out_;
  Report report_;
};

}  // namespace tacit::precond
