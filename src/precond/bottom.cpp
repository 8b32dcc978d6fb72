#include "band_factors.hpp"
#include "dense_inverse.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/krylov/repeated.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/machine.hpp>
#include <tacit/precond/bottom.hpp>
#include <tacit/precond/direct.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>

namespace tacit::precond {

using layout::Vector;

namespace {

template <Scalar T>
class Inverted final : public Bottom<T> {
 public:
  explicit Inverted(const LastLevel<T>& level) {
    const SmallMatrix<T> all(level.rows(), level.A->range());
    if (!level.constants) band_ = BandFactors<T>::make(all);
    if (!band_) inverse_.emplace(all, level.constants);
  }
  std::string name() const override { return "direct"; }
  std::optional<op::Rows<T>> inverse() const override { return band_ ? band_->rows() : inverse_->rows(); }
  BottomOutcome solve(const Vector<T>& f, Vector<T>& u) override {
    if (band_) band_->solve(f, u);
    else inverse_->solve(f, u);
    return {true, 1, {}};
  }

 private:
  std::unique_ptr<BandFactors<T>> band_;
  std::optional<DenseInverse<T>> inverse_;  // where there are no factors
};

// Complete sparse factors, on one rank.
template <Scalar T>
class Factored final : public Bottom<T> {
 public:
  explicit Factored(const LastLevel<T>& level)
      : factors_(op::Csr<T, Host>(level.A->range(), level.A->range(), level.rows())) {
    if (!factors_.note().empty()) warnings_.push_back("bottom direct: " + factors_.note());
  }
  std::string name() const override { return "direct"; }
  BottomOutcome solve(const Vector<T>& f, Vector<T>& u) override {
    factors_.apply(f, u);
    return {true, 1, warnings_};
  }

 private:
  precond::Direct<T> factors_;
  std::vector<std::string> warnings_;
};

// A Krylov method; where one rank has all unknowns, on that rank only.
template <Scalar T>
class Krylov final : public Bottom<T> {
 public:
  Krylov(const LastLevel<T>& level, krylov::Options options, std::string why = {})
      : all_(level.A),
        options_(std::move(options)),
        why_(std::move(why)),
        hermitian_(level.hermitian),
        gathered_(level.ranks <= 1 && level.A->range().comm().size() > 1 && level.alone) {
    options_.explain = options_.check_memory = false;
    a_ = gathered_ ? level.alone() : all_;
    if (a_) solves_.emplace(a_, options_, hermitian_);
    const auto& space = all_->range();
    if (gathered_ && space.size() > 0) solver_ = space.partition().owner(0);
  }
  std::string name() const override { return krylov::to_string(options_.method); }
  std::string choice() const override { return why_; }
  bool varies() const override { return true; }

  BottomOutcome solve(const Vector<T>& f, Vector<T>& u) override {
    if (f.columns() == 1) return solve_column(f, u);
    const auto columns = std::size_t(f.columns()), n = f.size() / columns;
    BottomOutcome all;
    Vector<T> b(f.space()), x(u.space());
    for (std::size_t c = 0; c < columns; ++c) {
      for (std::size_t i = 0; i < n; ++i) b.data()[i] = f.data()[i * columns + c];
      layout::fill(x, T(0));
      const auto one = solve_column(b, x);
      for (std::size_t i = 0; i < n; ++i) u.data()[i * columns + c] = x.data()[i];
      all.solved = all.solved && one.solved;
      all.iterations += one.iterations;
      all.warnings.insert(all.warnings.end(), one.warnings.begin(), one.warnings.end());
    }
    return all;
  }

 private:
  BottomOutcome solve_column(const Vector<T>& f, Vector<T>& u) {
    BottomOutcome outcome;
    if (!gathered_) return solve_here(f, u);
    double sums[3] = {0, 0, 0};  // iterations, failures, length of warnings
    std::string all;
    if (a_) {
      Vector<T> here(a_->range()), there(a_->range());
      std::copy_n(f.data(), f.size(), here.data());
      outcome = solve_here(here, there);
      std::copy_n(there.data(), there.size(), u.data());
      for (const auto& w : outcome.warnings) all += w + '\n';
      sums[0] = outcome.iterations, sums[1] = outcome.solved ? 0 : 1, sums[2] = double(all.size());
    }
    f.space().start_sum(sums, 3).wait(sums);
    outcome.iterations = int(sums[0]);
    outcome.solved = sums[1] == 0;
    if (sums[2] == 0) return outcome;
    all = all_->range().comm().broadcast(all, solver_);
    outcome.warnings.clear();
    for (std::size_t at = 0, end; at < all.size(); at = end + 1)
      end = all.find('\n', at), outcome.warnings.push_back(all.substr(at, end - at));
    return outcome;
  }

  BottomOutcome solve_here(const Vector<T>& f, Vector<T>& u) {
    BottomOutcome outcome;
    auto report = solves_->solve(f, u);
    outcome.iterations = report.iterations;
    const std::string name = krylov::to_string(options_.method);
    for (const auto& w : report.warnings) outcome.warnings.push_back("bottom " + name + ": " + w);
    outcome.solved = report.converged();
    if (outcome.solved) return outcome;
    const std::string detail = report.detail.empty() ? "" : ", " + report.detail;
    outcome.warnings.push_back("bottom " + name + ": " + krylov::to_string(report.reason) + detail);
    const auto classical = krylov::classical_of(options_.method);
    if (classical != options_.method) {
      krylov::Options o;
      o.method = classical;
      o.rtol = options_.rtol, o.atol = options_.atol, o.norm = options_.norm;
      o.max_iterations = options_.max_iterations, o.history = o.check_memory = false, o.explain = false;
      report = krylov::solve<T, Host>(*a_, nullptr, f, u, o, hermitian_);
      outcome.iterations += report.iterations;
      outcome.solved = report.converged();
      outcome.warnings.push_back(
          std::string("bottom: continued with ") + krylov::to_string(classical) +
          (outcome.solved ? ", which converged" : ", which did not converge: continued with the smoother"));
    }
    return outcome;
  }

  std::shared_ptr<const op::Operator<T, Host>> all_;
  std::shared_ptr<const op::Operator<T, Host>> a_;
  krylov::Options options_;
  std::optional<krylov::Repeated<T>> solves_;  // where a_ is
  std::string why_;
  bool hermitian_, gathered_;
  int solver_ = 0;  // the rank that has all unknowns
};

// Of products of the last level's operator and of the machine. Collective.
template <Scalar T>
BottomPrices measured(const op::Operator<T, Host>& A) {
  const auto& comm = A.range().comm();
  const auto machine = model::measure(comm);
  BottomPrices prices;
  const auto products = measured_products(A);
  prices.product = products[0], prices.pair = products[1];
  prices.vector =
      comm.all_max(double(A.range().local_size()) * sizeof(T)) / (4 * machine.bandwidth);  // in cache: 4 times as fast
  prices.sum = machine.sum_latency;
  return prices;
}

}  // namespace

template <Scalar T>
std::array<double, 2> measured_products(const op::Operator<T, Host>& A) {
  std::array<double, 2> seconds{};
  for (const int columns : {1, 2}) {
    Vector<T> x(A.range(), columns), y(A.range(), columns);
    double least = INFINITY;
    for (int i = 0; i < 3; ++i) {
      const double from = wall_time();
      A.apply(x, y);
      if (i > 0) least = std::min(least, wall_time() - from);
    }
    seconds[std::size_t(columns - 1)] = A.range().comm().all_max(least);
  }
  return seconds;
}

void BottomReport::add(const BottomOutcome& outcome) {
  ++solves;
  iterations += outcome.iterations;
  failures += !outcome.solved;
  for (const auto& w : outcome.warnings)
    if (std::find(warnings.begin(), warnings.end(), w) == warnings.end()) warnings.push_back(w);
}

krylov::Options BottomOptions::defaults() {
  krylov::Options o;
  o.rtol = 1e-3;
  o.norm = krylov::Norm::max;
  o.max_iterations = 1000;
  o.history = false;
  return o;
}

double seconds_an_iteration(int step, const BottomPrices& p) {
  // Passes over vectors for updates and norms; a block of s steps has the Gram matrix of 4 s + 2 vectors, whose flops
  // are counted as passes, and three linear combinations.
  if (step == 0) return 2 * p.product + 14 * p.vector + 3 * p.sum;
  const double s = step, columns = 4 * s + 2;
  return 2 * p.pair + (columns * columns / 8 + 4 * columns) / s * p.vector + p.sum / s;
}

int cheapest_step(const BottomPrices& prices, std::string& why) {
  const double classical = seconds_an_iteration(0, prices);
  int best = 0;
  double least = classical;
  for (const int step : {2, 4, 8})
    if (const double seconds = seconds_an_iteration(step, prices); seconds < 0.9 * least) best = step, least = seconds;
  char text[200];
  std::snprintf(text, sizeof text, "%s: %.3g us an iteration predicted, bicgstab %.3g us (product %.3g, sum %.3g us)",
                best ? message("ca-bicgstab, s = ", best).c_str() : "bicgstab", 1e6 * least, 1e6 * classical,
                1e6 * prices.product, 1e6 * prices.sum);
  why = text;
  return best;
}

std::vector<std::string> bottom_names() {
  std::vector<std::string> names{"automatic", "direct", "smoother"};
  for (auto& n : tacit::names<krylov::Method>())
    if (n != "auto" && n != "automatic" && n != "direct") names.push_back(n);
  return names;
}

template <Scalar T>
MakeBottom<T> direct_bottom() {
  return [](const LastLevel<T>& level) -> std::unique_ptr<Bottom<T>> {
    const Global n = level.A->range().size();
    if (n <= largest_direct) return std::make_unique<Inverted<T>>(level);
    require(!level.constants, "a direct bottom solver for ", n, " unknowns of a singular level; at most ",
            largest_direct, " are inverted: take a Krylov method");
    require(direct_built(), "a direct bottom solver for ", n, " unknowns; at most ", largest_direct,
            " are inverted, and this build has no sparse direct solver (Eigen): take a Krylov method");
    return std::make_unique<Factored<T>>(level);
  };
}

template <Scalar T>
MakeBottom<T> make_bottom(const BottomOptions& options) {
  const auto& k = options.krylov;
  require(k.rtol && *k.rtol > 0, "bottom_reduction is ", k.rtol.value_or(0),
          "; a number > 0 is needed");  // also of NaN
  if (!options.iterates())
    require(!k.step && !k.basis && !k.powers && !k.depth, "step, basis, powers and depth are options of a Krylov ",
            "bottom that is named; the bottom is \"", options.name, "\"");
  const auto defaults = BottomOptions::defaults();
  if (options.name == "smoother" || options.name == "direct")
    require(k.rtol == defaults.rtol && k.norm == defaults.norm && k.max_iterations == defaults.max_iterations,
            "bottom_reduction, bottom_norm and bottom_max_iterations are options of a bottom that iterates; the bottom "
            "is \"",
            options.name, "\"");
  if (options.name == "smoother") return {};
  if (options.name == "direct") return direct_bottom<T>();
  if (options.is_automatic()) {
    return [options](const LastLevel<T>& level) -> std::unique_ptr<Bottom<T>> {
      const Global n = level.A->range().size();
      if (n <= 512 || (level.ranks <= 1 && n <= 1024)) return direct_bottom<T>()(level);
      auto chosen = options.krylov;
      chosen.method = krylov::Method::bicgstab;
      // On one rank there are no reductions for an s-step method to save.
      if (level.ranks <= 1) return std::make_unique<Krylov<T>>(level, chosen, "bicgstab: on one rank");
      std::string why;
      if (const int step = cheapest_step(measured(*level.A), why); step > 0)
        chosen.method = krylov::Method::ca_bicgstab, chosen.step = step;
      return std::make_unique<Krylov<T>>(level, chosen, why);
    };
  }
  auto o = options.krylov;
  o.method = value_of<krylov::Method>(options.name);
  krylov::check(o);
  return [o](const LastLevel<T>& level) -> std::unique_ptr<Bottom<T>> { return std::make_unique<Krylov<T>>(level, o); };
}

#define TACIT_INSTANTIATE(T)                                                         \
  template std::array<double, 2> measured_products<T>(const op::Operator<T, Host>&); \
  template MakeBottom<T> direct_bottom<T>();                                         \
  template MakeBottom<T> make_bottom<T>(const BottomOptions&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
