#include <tacit/app/multigrid/bottom.hpp>

#include <tacit/krylov/solve.hpp>

#include <algorithm>

namespace tacit::app {
namespace {

template <Scalar T>
class Krylov final : public precond::Bottom<T> {
 public:
  Krylov(std::shared_ptr<const op::FiniteVolume<T>> A, krylov::Options options)
      : all_(A),
        options_(std::move(options)),
        gathered_(A->boxes().ranks_in_use() <= 1 && A->range().comm().size() > 1) {
    if (gathered_) a_ = A->alone(), solver_ = A->boxes().patches().empty() ? 0 : A->boxes().owner(0);
    else a_ = std::move(A);
  }
  std::string name() const override { return krylov::to_string(options_.method); }

  precond::BottomOutcome solve(const layout::Vector<T>& f, layout::Vector<T>& u) override {
    precond::BottomOutcome outcome;
    if (!gathered_) {
      outcome = solve_here(*a_, f, u);
      return outcome;
    }
    double told[3] = {0, 0, 0};  // iterations, failures, letters of warnings
    std::string all;
    if (a_) {
      layout::Vector<T> here(a_->range()), there(a_->range());
      std::copy_n(f.data(), f.size(), here.data());
      outcome = solve_here(*a_, here, there);
      std::copy_n(there.data(), there.size(), u.data());
      for (const auto& w : outcome.warnings) all += w + '\n';
      told[0] = outcome.iterations, told[1] = outcome.solved ? 0 : 1, told[2] = double(all.size());
    }
    f.space().start_sum(told, 3).wait(told);
    outcome.iterations = int(told[0]);
    outcome.solved = told[1] == 0;
    if (told[2] == 0) return outcome;
    all = all_->range().comm().broadcast(all, solver_);
    outcome.warnings.clear();
    for (std::size_t at = 0, end; at < all.size(); at = end + 1)
      end = all.find('\n', at), outcome.warnings.push_back(all.substr(at, end - at));
    return outcome;
  }

 private:
  precond::BottomOutcome solve_here(const op::FiniteVolume<T>& A, const layout::Vector<T>& f,
                                    layout::Vector<T>& u) const {
    precond::BottomOutcome outcome;
    auto report = krylov::solve<T, Host>(A, nullptr, f, u, options_, true);
    outcome.iterations = report.iterations;
    const std::string name = krylov::to_string(options_.method);
    for (const auto& w : report.warnings) outcome.warnings.push_back("bottom " + name + ": " + w);
    outcome.solved = report.converged();
    if (outcome.solved) return outcome;
    outcome.warnings.push_back("bottom " + name + ": " + krylov::to_string(report.reason) + ", " + report.detail);
    const auto classical = krylov::classical_of(options_.method);
    if (classical != options_.method) {
      krylov::Options o;
      o.method = classical;
      o.rtol = options_.rtol, o.atol = options_.atol, o.norm = options_.norm;
      o.max_iterations = options_.max_iterations, o.history = false;
      report = krylov::solve<T, Host>(A, nullptr, f, u, o, true);
      outcome.iterations += report.iterations;
      outcome.solved = report.converged();
      outcome.warnings.push_back(
          std::string("bottom: went on with ") + krylov::to_string(classical) +
          (outcome.solved ? ", which converged" : ", which did not converge: the smoother goes on"));
    }
    return outcome;
  }

  std::shared_ptr<const op::FiniteVolume<T>> all_;
  std::shared_ptr<const op::FiniteVolume<T>> a_;
  krylov::Options options_;
  bool gathered_;
  int solver_ = 0;  // the rank that has all cells
};

}  // namespace

std::vector<std::string> bottom_names() {
  std::vector<std::string> names{"automatic", "direct", "smoother"};
  for (auto& n : krylov::method_names())
    if (n != "auto" && n != "automatic") names.push_back(n);
  return names;
}

template <Scalar T>
precond::MakeBottom<T> make_bottom(const BottomOptions& options) {
  const auto& k = options.krylov;
  const bool automatic = options.name == "automatic" || options.name == "auto";
  if (automatic || options.name == "smoother" || options.name == "direct")
    require(!k.step && !k.basis && !k.powers && !k.depth, "step, basis, powers and depth are options of a Krylov ",
            "bottom that is named; the bottom is \"", options.name, "\"");
  if (options.name == "smoother") return {};
  if (options.name == "direct") return precond::direct_bottom<T>();
  if (automatic) {
    return [options](std::shared_ptr<const op::FiniteVolume<T>> A) -> std::unique_ptr<precond::Bottom<T>> {
      const bool small = A->range().size() <= 512 || (A->boxes().ranks_in_use() <= 1 && A->range().size() <= 1024);
      if (small) return precond::direct_bottom<T>()(A);
      auto chosen = options;
      // One rank waits for nobody: what an s-step method saves is nothing there.
      chosen.krylov.method = A->boxes().ranks_in_use() <= 1 ? krylov::Method::bicgstab : krylov::Method::ca_bicgstab;
      return std::make_unique<Krylov<T>>(std::move(A), chosen.krylov);
    };
  }
  auto o = options.krylov;
  o.method = krylov::method_of(options.name);
  krylov::check_uses(o);
  return [o](std::shared_ptr<const op::FiniteVolume<T>> A) -> std::unique_ptr<precond::Bottom<T>> {
    return std::make_unique<Krylov<T>>(std::move(A), o);
  };
}

template precond::MakeBottom<float> make_bottom<float>(const BottomOptions&);
template precond::MakeBottom<double> make_bottom<double>(const BottomOptions&);

}  // namespace tacit::app
