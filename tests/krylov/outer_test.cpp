// The judge: which trials it accepts, which x it keeps, and when it ends, for prescribed residuals.
#include <gtest/gtest.h>

#include <tacit/krylov/outer.hpp>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace tacit::krylov;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();

// Runs leave trials with these recomputed residuals, one after the other; next() then ends the solve.
class Written final : public OuterIteration {
 public:
  explicit Written(std::vector<double> trials) : trials_(std::move(trials)) {}
  std::optional<Verdict> run(double norm) override {
    said += "run ";
    norms.push_back(norm);
    return {};
  }
  double recompute() override { return trials_[at_++]; }
  void accept() override { said += "accept "; }
  void reject() override { said += "reject "; }
  std::optional<Verdict> next(double, double) override {
    if (at_ < trials_.size()) return {};
    return Verdict{Reason::stagnated, "detail", "advice", -1};
  }
  std::optional<Verdict> damage() override {
    said += "look ";
    if (!damaged) return {};
    return Verdict{Reason::damaged, "which", "what", none};
  }
  bool damaged = false;
  std::string said;
  std::vector<double> norms;  // the residual norms that run() was given

 private:
  std::vector<double> trials_;
  std::size_t at_ = 0;
};

}  // namespace

TEST(Judge, NeedsNoRunForASolvedSystem) {
  Written solve({});
  const Verdict verdict = judge(solve, 0.5, 0.5);
  EXPECT_EQ(verdict.reason, Reason::converged);
  EXPECT_EQ(verdict.norm, 0.5);
  EXPECT_EQ(solve.said, "");
}

TEST(Judge, AcceptsBetterTrialsOnly) {
  Written solve({2.0, 0.8, 0.9, none, infinity, 0.1, 0.01});
  const Verdict verdict = judge(solve, 1, 0.1);
  EXPECT_EQ(verdict.reason, Reason::converged);
  EXPECT_EQ(verdict.norm, 0.1);
  EXPECT_EQ(solve.said, "run reject run accept run reject run look reject run look reject run accept ");
  EXPECT_EQ(solve.norms, (std::vector<double>{1, 1, 0.8, 0.8, 0.8, 0.8}));
}

TEST(Judge, FailureReportsTheNormOfTheReturnedX) {
  Written solve({0.7, 5.0});
  const Verdict verdict = judge(solve, 1, 0.1);
  EXPECT_EQ(verdict.reason, Reason::stagnated);
  EXPECT_EQ(verdict.norm, 0.7);
  EXPECT_EQ(verdict.detail + verdict.advice, "detailadvice");
}

TEST(Judge, NaNIsNeverConverged) {
  for (const double goal : {none, infinity, 1.0})
    for (const double start : {none, infinity}) {
      Written solve({none, infinity});
      EXPECT_NE(judge(solve, start, goal).reason, Reason::converged) << start << " " << goal;
      EXPECT_EQ(solve.said, "run look reject run look reject look ") << start << " " << goal;
    }
}

// A residual that is not finite, and every failure, may be due to data that have changed in memory.
TEST(Judge, LooksForDamageBeforeItReportsAFailure) {
  Written intact({0.7, none, 0.6});
  EXPECT_EQ(judge(intact, 1, 0.1).reason, Reason::stagnated);
  EXPECT_EQ(intact.said, "run accept run look reject run accept look ");

  Written failing({0.7, 0.6});
  failing.damaged = true;
  const Verdict verdict = judge(failing, 1, 0.1);
  EXPECT_EQ(verdict.reason, Reason::damaged);
  EXPECT_EQ(verdict.detail, "which");
  EXPECT_TRUE(std::isnan(verdict.norm));
}
TEST(Judge, EndsAtDamageAndKeepsX) {
  Written solve({0.7, infinity, 0.01});
  solve.damaged = true;
  EXPECT_EQ(judge(solve, 1, 0.1).reason, Reason::damaged);
  EXPECT_EQ(solve.said, "run accept run look reject ");
}
