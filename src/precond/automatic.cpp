#include <tacit/precond/automatic.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/krylov/traits.hpp>
#include <tacit/layout/ordering.hpp>
#include <tacit/layout/partitioners.hpp>
#include <tacit/op/noted.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <new>
#include <optional>
#include <utility>

namespace tacit::precond {
namespace {

using krylov::Method;
using krylov::Reason;
using krylov::Report;

constexpr double never = std::numeric_limits<double>::infinity();

bool is_factor(const Candidate& c) {
  return c.precond != "none" && c.precond != "jacobi";
}

/// Predicts how many iterations a candidate still needs, and gives it up where these are too many.
class Trial {
 public:
  Trial(const Candidate& c, double goal)
      : next_(c.trial), patience_(c.patience), goal_(goal), has_plateaus_(!is_factor(c) || c.method == Method::cg) {}

  bool operator()(int iteration, double residual) {
    low_.resize(std::size_t(iteration) + 1, low_.empty() ? residual : low_.back());
    low_.back() = std::min(low_.back(), residual);
    if (next_ == 0 || iteration < next_) return false;
    next_ = 2 * iteration;
    const auto rate_from = [&](int from) {
      return std::log(low_[std::size_t(from)] / low_.back()) / (iteration - from);
    };
    double rate = rate_from(iteration / 2);
    // Without factors, and with cg, residuals rest at times: the geometric mean with the rate of the whole run.
    if (has_plateaus_) rate = std::sqrt(rate * rate_from(0));
    left_ = rate > 0 ? std::log(low_.back() / goal_) / rate : never;
    gave_up_ = left_ > std::max(patience_, double(iteration));
    return gave_up_;
  }
  bool gave_up() const { return gave_up_; }
  double left() const { return left_; }

 private:
  int next_;
  double patience_, goal_, left_ = never;
  bool has_plateaus_;
  std::vector<double> low_;  // the smallest residual up to each iteration
  bool gave_up_ = false;
};

/// The options that this method takes.
krylov::Options for_method(krylov::Options o, Method method) {
  o.method = method;
#define TACIT_OPTION(member, ...) \
  if (method != Method::automatic && !krylov::takes(method, #member)) o.member.reset();
#include <tacit/krylov/methods.def>
  return o;
}

/// The options of a solve of n unknowns with this candidate.
krylov::Options with_candidate(const Candidate& c, const krylov::Options& options, Global n) {
  auto o = for_method(options, c.method);
  if (c.method == Method::gmres && !o.restart && c.trial && n < 200000) o.restart = 60;
  return o;
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

/// "cg with ic0"; "direct" alone.
std::string described(const Report& r) {
  return r.precond == "none" || r.precond == r.method ? r.method : message(r.method, " with ", r.precond);
}

/// What the choice of candidates depends on.
struct Look {
  Global n, entries;
  bool several_ranks, hermitian;
  bool definite;  ///< Hermitian, with a diagonal of one sign: A may be definite
  double zeros;   ///< the share of zeros on the diagonal
  double spread;  ///< the largest over the smallest magnitude of its other entries
  bool network;
};

/// minres for a Hermitian A that is not definite. An iteration is a product and little more. Factors by threshold have
/// to be nearly complete there: their cost in products grows with the entries in a row, and with the bandwidth.
void add_minres(std::vector<Candidate>& all, const Look& a) {
  Options diagonal;
  diagonal.absolute = true;
  const bool uneven = a.spread > 10;
  const double in_a_row = double(a.entries) / double(std::max<Global>(a.n, 1));
  const double patience = std::clamp(in_a_row * std::sqrt(double(a.n)), 300.0, 4000.0);
  all.push_back({Method::minres, uneven ? "jacobi" : "none", uneven ? diagonal : Options{}, 100, patience, a.definite});
  if (!a.definite) return;
  // Few eigenvalues may have the other sign: the factors of such a matrix help as they help cg.
  Options levels;
  levels.levels = 2;
  levels.ordering = BlockOrder::rcm;
  all.push_back({Method::minres, "ick", levels, 100, patience, true});
}

/// The candidates for a matrix; see Automatic.
class Candidates {
 public:
  Candidates(Method method, const Look& a)
      : method_(method),
        a_(a),
        any_(method == Method::automatic),
        only_symmetric_(!any_ && krylov::needs_hermitian(method)),
        cg_((a.definite && (any_ || only_symmetric_)) || (a.hermitian && method == Method::minres)),
        patience_(std::clamp(2 * std::sqrt(double(a.n)), 200.0, 4000.0)) {}

  std::vector<Candidate> all() {
    const bool zeros = a_.zeros > 0;
    // The diagonal costs nothing to invert, and an even one changes nothing. Factors cost as much as 100 to 200 of
    // these iterations, and of tiny systems more than all that there are.
    if (any_ && a_.hermitian && !a_.definite) add_minres(all_, a_);
    else if (!zeros) add_diagonal();
    // Nearly complete factors of such a matrix have few entries, and cost less than a trial of others.
    if (a_.network && !only_symmetric_) add_threshold(1e-3, 10, 20);
    // Where it suits the matrix, its few iterations are worth a set-up of 100 to 300 products. A graph of n - 1 edges
    // is a tree, whose factors do not fill.
    if (a_.n >= 4000 && a_.entries >= 3 * a_.n && !zeros && (cg_ ? a_.definite : !only_symmetric_)) add_multigrid();
    if (cg_) add_symmetric_factors();
    // A third: in systems of saddle points, whose few constraints come after what they constrain, fill replaces zeros.
    else if (!only_symmetric_ && a_.zeros <= 1.0 / 3) add(Method::gmres, "ilu0", {}, 20, 100);
    if (!only_symmetric_) {
      if (!a_.network) add_threshold(1e-3, 10, 60);
      if (any_ && !zeros && !cg_) add(Method::idr, "ilu0", {}, 60, patience_);
      for (const auto& [drop, fill] : {std::pair(1e-5, 40.0), std::pair(1e-9, 200.0)}) {
        // Complete factors that are no denser cost less than these where they fill: dense blocks are multiplied faster.
        if (!a_.several_ranks) add_direct(fill);
        add_threshold(drop, fill, 60);
      }
    }
    if (any_ && !a_.definite) add(Method::idr, "none", {}, 200, patience_);
    add_direct({});
    add(Method::automatic, "none", {}, 200, patience_);
    return std::move(all_);
  }

 private:
  void add(Method method, const char* precond, Options options, int trial, double patience) {
    // Several ranks: the same factors of overlapping blocks, for methods that need no symmetry.
    const std::string_view named = precond;
    const bool overlap = a_.several_ranks && !cg_ && named != "none" && named != "jacobi" && named != "amg";
    if (overlap) options.solver = value_of<Kind>(precond), options.overlap = options.solver == Kind::ilu0 ? 1 : 2;
    all_.push_back({any_ ? method : method_, overlap ? "schwarz" : precond, options, trial, patience, false});
  }

  /// Factors by threshold, of at most about 2 GB.
  void add_threshold(double drop, double fill, int trial) {
    const double room = 1.5e8 / double(std::max<Global>(a_.entries, 1));
    Options o;
    o.drop = drop;
    o.fill = std::clamp(std::min(fill, room), 1.0, fill);
    o.ordering = layout::amd_built()     ? BlockOrder::minimum_degree
                 : layout::metis_built() ? BlockOrder::dissection
                                         : BlockOrder::rcm;
    add(Method::gmres, "ilut", o, trial, patience_);
  }

  /// Complete factors; with a limit of entries for one of A only after an ilut that was full, and of no use.
  void add_direct(std::optional<double> fill) {
    if (!any_ || !direct_built()) return;
    Options o;
    o.fill = fill;
    all_.push_back({Method::direct, "direct", o, 0, 0, false});
  }

  void add_diagonal() {
    const bool even = a_.spread <= 2;
    Options o;
    if (!even && method_ == Method::minres && !a_.definite) o.absolute = true;
    const int trial = a_.n < 64 ? 40 : cg_ ? 16 : 8;
    add(cg_ ? Method::cg : Method::bicgstab, even ? "none" : "jacobi", o, trial, cg_ ? 150 : 120);
  }

  void add_multigrid() {
    const Method method = cg_ ? Method::cg : Method::gmres;
    add(method, "amg", {}, 30, 100);
    // Twice the set-up, and a half to a tenth of the iterations where couplings are anisotropic or of all sizes.
    Options classical;
    classical.coarsening = AmgCoarsening::hmis;
    add(method, "amg", classical, 20, 60);
  }

  void add_symmetric_factors() {
    // The residual of cg may rise long before it falls.
    const int trial = int(std::clamp(std::sqrt(double(a_.n)) / 2, 60.0, 1000.0));
    // Variants of cg are considered for long vectors only; for others the end of cg shows that A is indefinite.
    add(a_.n < 100000 ? Method::cg : Method::automatic, "ic0", {}, trial, patience_);
    Options levels;
    levels.levels = 2;
    levels.ordering = BlockOrder::rcm;
    add(Method::cg, "ick", levels, trial, patience_);
    if (any_) add_minres(all_, a_);
  }

  Method method_;
  const Look& a_;
  bool any_;             // no method is named
  bool only_symmetric_;  // the method needs a Hermitian positive definite P
  bool cg_;  // also minres: ic0 and ick of a matrix that is not definite are those of a shifted one, which suits it
  double patience_;
  std::vector<Candidate> all_;
};

}  // namespace

/// The attempts of one solve.
template <Scalar T>
class Automatic<T>::Attempts {
 public:
  using Vector = layout::Vector<T, Host>;
  Attempts(Automatic& own, const Vector& b, Vector& x, const krylov::Options& options,
           const krylov::NullSpace<T, Host>* null_space)
      : own_(own), b_(b), x_(x), options_(options), null_(null_space) {
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
    indefinite_ = own_.kept_ >= 0 && own_.candidates_[std::size_t(own_.kept_)].indefinite;
    if (own_.kept_ >= 0 && attempt(own_.kept_, true)) return finish();
    struct GivenUp {
      int which;
      double left;
    };
    std::vector<GivenUp> given_up;
    const int count = int(own_.candidates_.size());
    for (int i = 0; i < count; ++i) {
      const Candidate& c = own_.candidates_[std::size_t(i)];
      if (i == own_.kept_ || is_out(c)) continue;
      if (attempt(i, true)) return finish();
      if (predicted_ < never) given_up.push_back({i, predicted_});
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
  /// ||b||, without what a solve takes out of b because of a null space: a solve without iterations tells. Collective.
  double length_of_b(krylov::Norm norm) const {
    if (!null_) return norm == krylov::Norm::max ? layout::max_norm(b_) : layout::norm(b_);
    krylov::Options o;
    o.method = Method::gmres, o.norm = norm, o.max_iterations = 0, o.explain = false;
    Vector x0(x_.space());
    return krylov::solve<T, Host>(own_.A_, nullptr, b_, x0, o, own_.hermitian_, null_).b_norm;
  }
  /// Whether what is known of the definiteness of A excludes the candidate.
  bool is_out(const Candidate& c) {
    if (c.precond == "amg" && own_.multigrid_block() == 0) return true;
    if (c.options.coarsening && !aggregation_is_slow_) return true;
    if (c.precond == "ilut" && full_without_use_ > 1) return true;
    if (c.precond == "direct" && (has_factorised_ || (c.options.fill && full_without_use_ == 0))) return true;
    return indefinite_ ? c.method == Method::cg || is_definite_factor(c) : c.indefinite;
  }
  /// ic0 for cg, or for a variant of it that krylov::solve takes.
  static bool is_definite_factor(const Candidate& c) { return c.method == Method::automatic && c.precond == "ic0"; }

  /// Tries a candidate; true where the solve is over. predicted_: the iterations it would still need, where it was
  /// given up.
  bool attempt(int which, bool may_give_up) {
    const Candidate& chosen = own_.candidates_[std::size_t(which)];
    predicted_ = never;
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
    auto o = with_candidate(chosen, options_, own_.A_.range().size());
    o.max_iterations = left;
    o.explain = false;  // explain() does so, once
    if (begun_) forget_noise();
    std::optional<Vector> came_from;
    if (begun_ && !best_) came_from = x_;
    Trial trial(c, goal_);
    if (may_give_up && c.trial) o.give_up = [&](int k, double residual) { return trial(k, residual); };
    Report r = krylov::solve<T, Host>(own_.A_, made.get(), b_, x_, o, own_.hermitian_, null_);
    // Asked to choose a method for ic0, solve() takes cg or a variant of it, and leaves it where A is not definite.
    const bool left_cg = !krylov::is_cg(value_of<Method>(r.method));
    indefinite_ =
        indefinite_ || (is_definite_factor(c) && left_cg) || (c.method == Method::cg && r.reason == Reason::breakdown);
    const bool gave_up = trial.gave_up() && r.reason == Reason::stopped;
    const std::string name =
        message(described(r), c.options.coarsening ? message(" by ", to_string(*c.options.coarsening)) : "");
    if (gave_up) give_up(c, trial.left(), is_doubtful, r);
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
      ++full_without_use_;
    if (!begun_ || std::isnan(best_norm_) || r.residual_norm <= best_norm_ || r.converged())
      best_.reset(), best_norm_ = r.residual_norm;
    else if (!best_) best_ = std::move(came_from);
    if (!r.converged())
      tell(gave_up ? message(name, " (", r.iterations, " iterations, residual ", rounded(r.residual_norm), ")")
                   : message(name, " (", to_string(r.reason), " at ", rounded(r.residual_norm), ")"));
    const bool over = is_over(r);
    add(std::move(r));
    return over;
  }

  static bool is_aggregation(const Candidate& c) { return c.precond == "amg" && !c.options.coarsening; }

  /// The candidate with the patience that suits the preconditioner made with these options.
  static Candidate with_patience(Candidate c, const Options& with, bool is_doubtful) {
    // Of systems of equations the set-up of classical coarsening costs as much as hundreds of iterations.
    if (is_aggregation(c) && with.block.value_or(1) > 1) c.patience *= 3;
    // Factors with replaced pivots are seldom good.
    if (is_doubtful) c.trial = std::min(c.trial, 20), c.patience = std::min(c.patience, 60.0);
    return c;
  }

  /// Notes what a candidate shows that was given up with so many iterations left.
  void give_up(const Candidate& c, double left, bool is_doubtful, Report& r) {
    if (is_aggregation(c) && !is_doubtful && left < 1000) aggregation_is_slow_ = true;
    hardly_reduced_ = c.method == Method::minres && r.residual_norm > 0.5;
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
        has_factorised_ = has_factorised_ || c.precond == "direct";
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
    auto o = for_method(options_, Method::gmres);
    o.callback = nullptr, o.history = false, o.max_iterations = 0, o.explain = false;
    Vector x0(x_.space());
    if (guess_) layout::copy(*guess_, x0);
    const Report found = krylov::solve<T, Host>(own_.A_, nullptr, b_, x0, o, own_.hermitian_, null_);
    const double norm = found.residual_norm;
    report_.seconds += found.seconds;
    if (!(norm < report_.residual_norm)) return;
    layout::copy(x0, x_);
    report_.residual_norm = norm;
  }

  /// Completes detail and advice of a failure: a solve without iterations, from the best x, looks into its cause.
  void explain() {
    if (report_.converged() || report_.reason == Reason::stopped || std::isnan(report_.residual_norm)) return;
    const bool ended_early = report_.reason == Reason::max_iterations && report_.iterations >= most_ &&
                             krylov::is_cut_off_early(report_.iterations, own_.A_.range().size());
    if (ended_early && !options_.explain.value_or(false)) return;
    const auto& last = own_.candidates_.back();
    auto o = for_method(options_, last.method == Method::automatic ? Method::gmres : last.method);
    o.callback = nullptr, o.history = false, o.max_iterations = 0;
    o.spent = {std::max(report_.iterations, 1), report_.counts.operator_applies};
    Vector x = x_;
    const double from = wall_time();
    const Report r = krylov::solve<T, Host>(own_.A_, nullptr, b_, x, o, own_.hermitian_, null_);
    report_.explain_seconds = own_.A_.range().comm().all_max(wall_time() - from);
    if (r.detail.empty()) return;
    report_.detail.resize(std::min(report_.detail.size(), report_.detail.find(": ")));
    report_.detail += (report_.detail.empty() ? "" : "; ") + r.detail;
    report_.advice = r.advice;
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
  double best_norm_ = never;
  int full_without_use_ = 0;  // factors by threshold that had as many entries as they may and did not help
  double b_norm_ = 0, goal_ = 0, predicted_ = never;
  int most_ = 0;  // iterations, of all attempts
  bool begun_ = false, indefinite_ = false, hardly_reduced_ = false, has_factorised_ = false;
  bool aggregation_is_slow_ = false;  // amg converges, but slowly, though its levels are as they should be
  std::vector<std::string> choice_, left_out_;
  Report report_;
};

/// A solve with several right-hand sides.
template <Scalar T>
class Automatic<T>::Columns {
 public:
  using Vector = layout::Vector<T, Host>;
  Columns(Automatic& own, const Vector& B, Vector& X, const krylov::Options& options,
          const krylov::NullSpace<T, Host>* null_space)
      : own_(own), B_(B), X_(X), options_(options), null_(null_space), k_(B.columns()), b_(B.space()), x_(X.space()) {
    options_.solves_of_call = k_;
  }

  krylov::ColumnReports run() {
    const auto& comm = own_.A_.range().comm();
    const double from = wall_time();
    const auto before = comm.counters();
    all_.columns.resize(std::size_t(k_));
    choose(0);
    std::vector<int> left;
    for (int c = 1; c < k_; ++c) left.push_back(c);
    if (own_.kept_ >= 0 && k_ > 1) left = together(left);
    else all_.alone = "no candidate solved the first column";
    for (const int c : left) choose(c);
    const auto spent = comm.counters() - before;
    for (auto& r : all_.columns) {
      all_.counts.operator_applies += r.counts.operator_applies;
      all_.counts.preconditioner_applies += r.counts.preconditioner_applies;
      r.counts = {0, r.counts.operator_applies, r.counts.preconditioner_applies, 0, 0, 0};
    }
    all_.counts.reductions = spent.reductions;
    all_.counts.exchanges = spent.exchanges;
    all_.counts.messages = comm.all_sum(spent.messages);
    all_.counts.bytes = comm.all_sum(spent.bytes);
    all_.explain_seconds += explain_seconds_;
    all_.seconds = comm.all_max(wall_time() - from) - own_.setup_seconds_ - all_.explain_seconds;
    return std::move(all_);
  }

 private:
  T& at(Vector& of, std::size_t i, int c) { return of.data()[i * std::size_t(of.columns()) + std::size_t(c)]; }
  T at(const Vector& of, std::size_t i, int c) { return of.data()[i * std::size_t(of.columns()) + std::size_t(c)]; }
  /// Column `from` of one, into column `to` of another. Local.
  void move(const Vector& one, int from, Vector& other, int to) {
    const std::size_t n = std::size_t(one.space().local_size());
    for (std::size_t i = 0; i < n; ++i) at(other, i, to) = at(one, i, from);
  }

  krylov::Options of_column(int c) const {
    krylov::Options o = options_;
    if (options_.callback)
      o.callback = [call = options_.callback, c](const krylov::State& s) {
        auto mine = s;
        mine.column = c;
        return call(mine);
      };
    return o;
  }
  void choose(int c) {
    move(B_, c, b_, 0);
    move(X_, c, x_, 0);
    auto& report = all_.columns[std::size_t(c)] = Attempts(own_, b_, x_, of_column(c), null_).run();
    explain_seconds_ += report.explain_seconds;
    move(x_, 0, X_, c);
  }

  /// Solves these columns with the candidate that is kept; returns those that it has not solved.
  std::vector<int> together(const std::vector<int>& columns) {
    const Candidate& kept = own_.candidates_[std::size_t(own_.kept_)];
    Vector B(B_.space(), int(columns.size())), X(X_.space(), int(columns.size()));
    for (std::size_t i = 0; i < columns.size(); ++i) move(B_, columns[i], B, int(i)), move(X_, columns[i], X, int(i));
    auto o = with_candidate(kept, options_, own_.A_.range().size());
    if (options_.callback)
      o.callback = [this, &columns](const krylov::State& s) {
        auto mine = s;
        mine.column = columns[std::size_t(s.column)];
        return options_.callback(mine);
      };
    auto found = krylov::solve_columns<T>(own_.A_, own_.kept_precond_.get(), B, X, o, own_.hermitian_, null_);
    all_.together = found.together, all_.alone = found.alone;
    all_.explain_seconds = found.explain_seconds;
    std::vector<int> left;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      auto& r = found.columns[i];
      // Stopped by the user, not finite or damaged: another preconditioner would not help.
      const bool over =
          r.converged() || r.reason == Reason::stopped || r.reason == Reason::non_finite || r.reason == Reason::damaged;
      if (over) {
        r.choice = message("auto: ", r.method, r.precond == "none" ? "" : message(" with ", r.precond),
                           ", as for the first column");
        move(X, int(i), X_, columns[i]);
        all_.columns[std::size_t(columns[i])] = std::move(r);
      } else {
        left.push_back(columns[i]);
      }
    }
    return left;
  }

  Automatic& own_;
  const Vector& B_;
  Vector& X_;
  krylov::Options options_;
  const krylov::NullSpace<T, Host>* null_;
  int k_;
  Vector b_, x_;
  krylov::ColumnReports all_;
  double explain_seconds_ = 0;  // of columns that chose for themselves
};

template <Scalar T>
Automatic<T>::Automatic(const op::Csr<T, Host>& A, Method method) : A_(A), method_(method) {
  look();
}

/// Smoothed aggregation is for matrices of elliptic equations: between unknowns of one kind nearly all couplings have
/// the sign that the diagonal has not. Where few rows have most of the entries (power-law graphs) coarse matrices fill:
/// A A has sum_i d_i^2 products, d_i the entries of rows. Looked at when the first solve comes to it.
template <Scalar T>
int Automatic<T>::multigrid_block() {
  if (multigrid_block_) return *multigrid_block_;
  double products = 0;
  for (const Local entries : A_.row_lengths()) products += double(entries) * double(entries);
  const double even = double(A_.entries()) * double(A_.entries()) / double(std::max<Global>(A_.range().size(), 1));
  if (A_.range().comm().all_sum(products) > 4 * even) return *(multigrid_block_ = 0);
  const int b = A_.unknowns_in_a_node();
  const auto sums = A_.couplings(b);  // of magnitudes: all, and those with the sign of the diagonal
  // Trilinear elements of an elastic body have 0.24 of the couplings with the diagonal's sign (cubes), 0.28 (1 : 4).
  multigrid_block_ = sums[1] < (b >= 3 ? 0.3 : 0.15) * sums[0] ? b : 0;
  return *multigrid_block_;
}

template <Scalar T>
bool Automatic<T>::can_factorise(double applies, std::optional<double> fill) {
  // The order of larger graphs without structure takes many seconds.
  constexpr Global most_entries = 1000000;
  if (A_.entries() > most_entries) return false;
  if (!analysis_) analysis_ = std::make_unique<DirectAnalysis<T>>(A_);
  const DirectCount& count = analysis_->count();
  // Dense blocks are multiplied five times as fast as entries that come from memory.
  constexpr double at_least = 2e10, faster = 5;
  const double spent = 2 * double(A_.entries()) * applies;
  // Twice the memory: pivots off the diagonal fill in more than was counted.
  return 2 * count.bytes <= count.free && (!fill || count.entries <= *fill * double(A_.entries())) &&
         count.flops <= std::max(at_least, faster * spent);
}

template <Scalar T>
std::unique_ptr<op::Operator<T, Host>> Automatic<T>::make_precond(const Candidate& c, const Options& options) {
  if (c.precond != "direct") return make<T, Host>(c.precond, A_, options);
  const auto analysis = std::move(analysis_);
  return std::make_unique<Direct<T>>(std::move(*analysis));
}

template <Scalar T>
void Automatic<T>::refresh() {
  const comm::Turn turn(A_.range().comm());  // another thread may be solving
  const Candidate before = kept_ >= 0 ? candidates_[std::size_t(kept_)] : Candidate{};
  look();
  multigrid_block_.reset();
  kept_precond_.reset();
  analysis_.reset();
  if (kept_ < 0) return;
  const auto again = std::find_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) {
    return c.method == before.method && c.precond == before.precond && c.options.drop == before.options.drop &&
           c.options.fill == before.options.fill && c.options.levels == before.options.levels &&
           c.options.solver == before.options.solver && c.options.coarsening == before.options.coarsening;
  });
  kept_ = again == candidates_.end() ? -1 : int(again - candidates_.begin());
}

/// Makes the list of candidates.
template <Scalar T>
void Automatic<T>::look() {
  const auto& A = A_;
  const auto method = method_;
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    require(A.range() == A.domain(), "solve needs a square matrix with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    hermitian_ = A.fault().empty() && op::is_hermitian(A);
    // Power grids, circuits and the like: half of the unknowns have at most two neighbours.
    Global chained = 0;
    for (const Local entries : A.row_lengths()) chained += entries == 2 || entries == 3;
    const bool network = 2 * comm.all_sum(chained) >= A.range().size();
    const auto d = A.diagonal();
    const bool positive = comm.all(std::all_of(d.begin(), d.end(), [](T a) { return real(a) > 0; }));
    const bool negative = comm.all(std::all_of(d.begin(), d.end(), [](T a) { return real(a) < 0; }));
    const auto zeros = comm.all_sum(Global(std::count(d.begin(), d.end(), T(0))));
    double smallest = never, largest = 0;
    for (const T a : d)
      if (a != T(0))
        smallest = std::min(smallest, double(std::abs(a))), largest = std::max(largest, double(std::abs(a)));
    const double spread = -comm.all_max(largest) / comm.all_max(-smallest);
    if (!A.fault().empty()) candidates_ = {{method, "none", {}, 0, 0, false}};  // the solve names the entry
    else
      candidates_ = Candidates(method, {A.range().size(), A.entries(), comm.size() > 1, hermitian_,
                                        hermitian_ && (positive || negative),
                                        double(zeros) / double(std::max<Global>(A.range().size(), 1)), spread, network})
                        .all();
  });
}

template <Scalar T>
Report Automatic<T>::solve(const layout::Vector<T, Host>& b, layout::Vector<T, Host>& x, const krylov::Options& options,
                           const krylov::NullSpace<T, Host>* null_space) {
  return comm::collective(A_.range().comm(), [&] {
    require(b.space() == A_.range() && b.columns() == 1, "b has ", b.space().size(), " elements and ", b.columns(),
            " columns; the matrix has ", A_.range().size(), " rows");
    setup_seconds_ = 0;
    return Attempts(*this, b, x, options, null_space).run();
  });
}

template <Scalar T>
krylov::ColumnReports Automatic<T>::solve_columns(const layout::Vector<T, Host>& B, layout::Vector<T, Host>& X,
                                                  const krylov::Options& options,
                                                  const krylov::NullSpace<T, Host>* null_space) {
  return comm::collective(A_.range().comm(), [&] {
    require(B.space() == A_.range() && X.space() == A_.range() && B.columns() == X.columns(), "B has ",
            B.space().size(), " rows and ", B.columns(), " columns, X has ", X.columns(), " columns; the matrix has ",
            A_.range().size(), " rows");
    setup_seconds_ = 0;
    return Columns(*this, B, X, options, null_space).run();
  });
}

#define TACIT_INSTANTIATE(T) template class Automatic<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
