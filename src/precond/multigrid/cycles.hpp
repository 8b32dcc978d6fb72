// A solve by multigrid cycles on levels in any memory: cycles on the trial u until they claim convergence, or give up.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/outer.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <limits>
#include <optional>

namespace tacit::precond::mg {

/// A solve in any memory: checks the arguments, has `solve` compute x and fill in the report, and adds the norm's name,
/// seconds, and what the ranks communicated. Collective over the ranks of `cells`.
template <class V, class F>
MultigridReport reported(const layout::Space& cells, const V& b, const V& x, const MultigridSolve& options, F&& solve) {
  const auto& comm = cells.comm();
  return comm::collective(comm, [&] {
    require(b.space() == cells && x.space() == cells && b.columns() == 1 && x.columns() == 1,
            "multigrid solves for one column of ", cells.size(), " cells");
    const double rtol = options.rtol.value_or(0);
    require(rtol >= 0 && options.atol >= 0 && options.max_cycles >= 0, "rtol = ", rtol, ", atol = ", options.atol,
            ", max_cycles = ", options.max_cycles, "; numbers >= 0 are needed");
    const double started = wall_time();
    const auto before = comm.counters();
    MultigridReport report;
    report.norm = to_string(options.norm);
    solve(report);
    report.seconds = comm.all_max(wall_time() - started);
    const auto counts = comm.counters() - before;
    report.reductions = counts.reductions, report.exchanges = counts.exchanges;
    report.messages = comm.all_sum(counts.messages), report.bytes = comm.all_sum(counts.bytes);
    return report;
  });
}

class Cycles : public krylov::OuterIteration {
 public:
  /// `scalar`: any number of the scalar that is solved with.
  template <Scalar T>
  Cycles(const comm::Communicator& comm, const MultigridSolve& options, MultigridReport& report, T /*scalar*/)
      : comm_(comm),
        options_(options),
        report_(report),
        rtol_(options.rtol.value_or(MultigridSolve::default_rtol<T>())) {}
  /// Solves A u = f from a u whose residual has the norm `start`; both norms are 2^shift times what the user has. Fills
  /// in the report's reason, norms, history and cycles. Collective.
  void solve(double f_norm, double start, int shift, bool from_zero);

 protected:
  /// One cycle on u; returns ||f - A u||, as computed by its last pass.
  virtual double cycle() = 0;
  /// Copies of u: the accepted one, and the best of a slow run.
  enum class Copy { accepted, best };
  virtual void save(Copy copy) = 0;
  virtual void restore(Copy copy) = 0;
  virtual void clear() = 0;  ///< u = 0
  const MultigridSolve& options() const { return options_; }
  int cycles() const { return report_.cycles; }
  double goal() const { return goal_; }

 private:
  std::optional<krylov::Verdict> run(double norm) final;
  void accept() final { is_zero_ = false; }
  void reject() final;
  std::optional<krylov::Verdict> next(double before, double norm) final;
  std::optional<krylov::Verdict> gives_up(double now) const;

  const comm::Communicator& comm_;
  const MultigridSolve& options_;
  MultigridReport& report_;
  const double rtol_;
  double goal_ = 0, divisor_ = 1, largest_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  bool is_zero_ = false;                  // the accepted u
  std::optional<krylov::Verdict> ended_;  // why the run ended short of its goal
};

}  // namespace tacit::precond::mg
