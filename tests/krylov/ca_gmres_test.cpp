// ca-gmres: the iterates of gmres, the documented counts, correct reports of convergence.
#include "support/biharmonic.hpp"
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>
#include "krylov/block_orthogonalisation.hpp"
#include "krylov/change_of_basis.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Basis;
using krylov::BlockQr;
using krylov::Method;
using krylov::Options;
using krylov::Orthogonalisation;
using krylov::Reason;
using krylov::Side;
using krylov::Storage;
using layout::Space;
using layout::Vector;

template <class T>
class CaGmres : public testing::Test {};
TYPED_TEST_SUITE(CaGmres, test::DoubleScalars);

const auto block_methods = {Orthogonalisation::automatic, Orthogonalisation::bcgs,      Orthogonalisation::bcgs2,
                            Orthogonalisation::bcgs_pip,  Orthogonalisation::bcgs_pip2, Orthogonalisation::two_stage};

Options s_step(int step, Orthogonalisation how, int iterations = 120) {
  Options o;
  o.method = Method::ca_gmres;
  o.step = step;
  o.orthogonalisation = how;
  o.restart = 30;
  o.rtol = 0;
  o.max_iterations = iterations;
  o.fallbacks = false;
  return o;
}
Options classical(int iterations = 120) {
  Options o;
  o.method = Method::gmres;
  o.orthogonalisation = Orthogonalisation::cgs2;
  o.restart = 30;
  o.rtol = 0;
  o.max_iterations = iterations;
  o.fallbacks = false;
  return o;
}

/// Largest relative difference of two histories over their common iterations, down to `floor`.
double deviation(const std::vector<double>& a, const std::vector<double>& b, double floor = 1e-11) {
  double most = 0;
  for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k)
    if (b[k] > floor) most = std::max(most, std::abs(a[k] - b[k]) / b[k]);
  return most;
}

TYPED_TEST(CaGmres, FollowsGmresOverCycles) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const double convection : {0.0, 0.5}) {
          const auto a = grid<T>(32, 32, convection);
          const auto b = random_vector<T>(a.n, 3);
          const auto A = a.on(comm);
          const auto reference = run(*A, b, classical());
          for (const auto how : block_methods)
            for (const int step : {1, 5, 10}) {
              if (comm.size() > 1 && step == 5) continue;
              const auto s = run(*A, b, s_step(step, how));
              const std::string what = std::string(to_string(how)) + ", step " + std::to_string(step);
              EXPECT_EQ(s.report.iterations, 120) << what;
              EXPECT_EQ(s.report.method, "ca-gmres");
              // One round leaves errors of rounding times the squared condition number of the basis.
              EXPECT_LE(deviation(s.report.history, reference.report.history), 1e-8) << what;
              EXPECT_NEAR(s.report.residual_norm, reference.report.residual_norm, 1e-8 * reference.report.residual_norm)
                  << what;
            }
        }
      },
      {3});
}

TYPED_TEST(CaGmres, BasesAndBlockQrFollowGmres) {
  using T = TypeParam;
  const auto comm = comm::Communicator::self();
  const auto a = grid<T>(32, 32, 0.5);
  const auto b = random_vector<T>(a.n, 3);
  const auto A = a.on(comm);
  const auto reference = run(*A, b, classical());
  for (const auto basis : {Basis::newton, Basis::chebyshev, Basis::monomial}) {
    auto o = s_step(basis == Basis::monomial ? 5 : 10, Orthogonalisation::bcgs_pip2);
    o.basis = basis;
    const auto s = run(*A, b, o);
    EXPECT_LE(deviation(s.report.history, reference.report.history), 1e-7) << to_string(basis);
  }
  for (const auto qr :
       {BlockQr::cholqr, BlockQr::cholqr2, BlockQr::shifted_cholqr3, BlockQr::mixed_cholqr, BlockQr::tsqr})
    for (const auto how : {Orthogonalisation::bcgs, Orthogonalisation::bcgs2}) {
      auto o = s_step(10, how);
      o.block_qr = qr;
      const auto s = run(*A, b, o);
      EXPECT_LE(deviation(s.report.history, reference.report.history), 1e-8) << to_string(qr);
    }
}

TYPED_TEST(CaGmres, PreconditionersFromBothSides) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a =
            grid<T>(24, 24, 0.4).map([](Global r, Global c, T v) { return v * real_t<T>((1 + r % 3) * (1 + c % 4)); });
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        const precond::BlockJacobi<T> P(*A);
        for (const auto side : {Side::right, Side::left}) {
          auto o = s_step(6, Orthogonalisation::automatic, 60), c = classical(60);
          o.restart = c.restart = 20;
          o.side = c.side = side;
          const auto s = run(*A, b, o, &P), reference = run(*A, b, c, &P);
          EXPECT_LE(deviation(s.report.history, reference.report.history, 1e-9), 1e-5) << to_string(side);
          EXPECT_EQ(s.report.counts.preconditioner_applies, reference.report.counts.preconditioner_applies)
              << to_string(side);
          EXPECT_EQ(s.report.counts.operator_applies, reference.report.counts.operator_applies) << to_string(side);
          o.rtol = 1e-10;
          o.max_iterations = 500;
          const auto solved = run(*A, b, o, &P);
          EXPECT_TRUE(solved.report.converged()) << to_string(side) << " " << solved.report.detail;
          EXPECT_LE(residual_of(a, b, solved.x), 1.01e-10L) << to_string(side);
        }
      },
      {2});
}

/// Reductions of a cycle of 30 vectors, without those of the driver; measured from the third cycle on.
template <class T>
std::int64_t sums_of_a_cycle(const op::Operator<T, Host>& A, const std::vector<T>& b, Options o) {
  const auto sums = [&](int cycles) {
    o.max_iterations = 30 * cycles;
    return run(A, b, o).report.counts.reductions;
  };
  const std::int64_t of_the_driver = 1;  // ||d|| and the recomputed ||b - A x||
  return (sums(5) - sums(3)) / 2 - of_the_driver;
}

TYPED_TEST(CaGmres, ReductionsOfACycleAreAsDocumented) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(40, 40, 0.3);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        const auto sums = [&](Orthogonalisation how, std::optional<BlockQr> qr = {}) {
          auto o = s_step(10, how);
          o.block_qr = qr;
          return sums_of_a_cycle<T>(*A, b, o);
        };
        EXPECT_EQ(sums(Orthogonalisation::bcgs_pip), 3);
        EXPECT_EQ(sums(Orthogonalisation::bcgs_pip2), 6);
        EXPECT_EQ(sums(Orthogonalisation::two_stage), 4);
        EXPECT_LE(sums(Orthogonalisation::automatic), 4);
        EXPECT_EQ(sums(Orthogonalisation::bcgs), 6);
        EXPECT_EQ(sums(Orthogonalisation::bcgs2), 12);
        EXPECT_EQ(sums(Orthogonalisation::bcgs, BlockQr::cholqr2), 9);
        EXPECT_EQ(sums(Orthogonalisation::bcgs, BlockQr::shifted_cholqr3), 12);
        EXPECT_EQ(sums(Orthogonalisation::bcgs, BlockQr::mixed_cholqr), 6);
        EXPECT_EQ(sums(Orthogonalisation::bcgs, BlockQr::tsqr), 6);
        // For comparison, gmres.
        auto one = classical(120);
        one.orthogonalisation = Orthogonalisation::cgs;
        EXPECT_EQ(sums_of_a_cycle<T>(*A, b, one), 60);
        one.orthogonalisation = Orthogonalisation::one_reduction;
        EXPECT_EQ(sums_of_a_cycle<T>(*A, b, one), 30);
        auto o = s_step(10, Orthogonalisation::bcgs_pip2);
        EXPECT_EQ(run(*A, b, o).report.counts.operator_applies, 120 + 4);  // one for each recomputed residual
      },
      {3});
}

/// ||I - Q^H Q|| of 60 vectors computed and orthogonalised s at a time, with shifts from 60 steps of gmres.
template <class T>
double lost(const op::Operator<T, Host>& A, const Whole<T>& a, Basis basis, int s, Orthogonalisation how) {
  const int m = 60;
  const auto& space = A.range();
  std::vector<Vector<T>> q(m + 1, Vector<T>(space));
  std::vector<T> H(std::size_t(m + 1) * m), R;
  q[0] = spread(space, random_vector<T>(a.n, 17));
  layout::scale(T(real_t<T>(1 / layout::norm(q[0]))), q[0]);
  const auto first = q[0];
  for (int j = 0; j < m; ++j) {
    A.apply(q[j], q[j + 1]);
    for (int round = 0; round < 2; ++round)
      for (int i = 0; i <= j; ++i) {
        const T h = layout::dot(q[i], q[j + 1]);
        H[std::size_t(j) * (m + 1) + i] += h;
        layout::axpy(-h, q[i], q[j + 1]);
      }
    const double left = layout::norm(q[j + 1]);
    H[std::size_t(j) * (m + 1) + j + 1] = T(real_t<T>(left));
    layout::scale(T(real_t<T>(1 / left)), q[j + 1]);
  }
  std::vector<std::complex<double>> ritz;
  if (basis != Basis::monomial) ritz = krylov::ritz_values<T>(H, m + 1, m);
  q[0] = first;
  for (int j = 0; j < m; j += s) {
    const int now = std::min(s, m - j);
    const auto steps = krylov::make_recurrence<T>(basis, ritz, now, 4);
    std::vector<Vector<T>*> v;
    std::vector<const Vector<T>*> before;
    for (int i = 0; i <= j; ++i) before.push_back(&q[i]);
    for (int c = j; c <= j + now; ++c) v.push_back(&q[c]);
    A.powers(v, steps);
    const auto done = krylov::block_orthogonalise<T, Host>(how, BlockQr::cholqr, before, std::span(v).subspan(1), R);
    if (done.columns < now) return 1;
  }
  double most = 0;
  for (int i = 0; i <= m; ++i)
    for (int j = 0; j <= i; ++j) most = std::max(most, double(std::abs(layout::dot(q[i], q[j]) - T(i == j))));
  return most;
}

TEST(CaGmresBasis, KeepsTheRequiredOrthogonality) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = double;
  for (const double convection : {0.5, 0.0}) {
    const auto a = grid<T>(64, 64, convection);
    const auto A = a.on(comm::Communicator::self());
    for (const int s : {5, 10, 20, 30}) {
      EXPECT_LE(lost<T>(*A, a, Basis::newton, s, Orthogonalisation::bcgs), 3e-11) << s;
      EXPECT_LE(lost<T>(*A, a, Basis::newton, s, Orthogonalisation::bcgs_pip2), 2e-14) << s;
    }
    EXPECT_LE(lost<T>(*A, a, Basis::chebyshev, 10, Orthogonalisation::bcgs), 1e-10);
    // Monomials: with five steps some digits are left, with ten nearly none.
    EXPECT_LE(lost<T>(*A, a, Basis::monomial, 5, Orthogonalisation::bcgs), 1e-7);
    EXPECT_GE(lost<T>(*A, a, Basis::monomial, 10, Orthogonalisation::bcgs), 1e-6);
    EXPECT_EQ(lost<T>(*A, a, Basis::monomial, 20, Orthogonalisation::bcgs_pip2), 1) << "and twenty fail";
  }
}

TYPED_TEST(CaGmres, TooLongStepIsShortenedWithAWarning) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(48, 48);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        auto o = s_step(25, Orthogonalisation::automatic, 120);
        o.basis = Basis::monomial;
        o.fallbacks = true;
        const auto s = run(*A, b, o);
        auto c = classical(120);
        c.fallbacks = true;
        const auto reference = run(*A, b, c);
        EXPECT_NEAR(s.report.residual_norm, reference.report.residual_norm, 0.02 * reference.report.residual_norm);
        ASSERT_FALSE(s.report.warnings.empty());
        EXPECT_NE(s.report.warnings[0].find("vectors at a time"), std::string::npos) << s.report.warnings[0];
        // Without fallbacks: shorter cycles, and correct reports.
        o.fallbacks = false;
        const auto plain = run(*A, b, o);
        EXPECT_TRUE(plain.report.warnings.empty());
        EXPECT_NEAR(plain.report.residual_norm, double(residual_of(a, b, plain.x)), 1e-6 * plain.report.residual_norm);
        // A Newton basis with the same step needs no fallback.
        o.basis = Basis::newton;
        o.fallbacks = true;
        const auto newton = run(*A, b, o);
        EXPECT_NEAR(newton.report.residual_norm, reference.report.residual_norm, 1e-3 * reference.report.residual_norm);
      },
      {2});
}

TYPED_TEST(CaGmres, InvariantSpacesAndSingularMatrices) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        std::vector<double> five;
        for (int i = 0; i < 30; ++i) five.push_back(1 + i % 5);
        for (const auto how : block_methods) {
          auto o = s_step(10, how, 200);
          for (const bool fallbacks : {false, true}) {
            o.fallbacks = fallbacks;
            o.rtol = 1e-12;
            const auto s = run(*diagonal<T>(five).on(comm), random_vector<T>(30, 2), o);
            EXPECT_TRUE(s.report.converged()) << to_string(how) << " " << s.report.detail;
            EXPECT_LE(s.report.iterations, 6 + 3) << to_string(how);
            const auto one = run(*diagonal<T>(std::vector<double>(20, 3.0)).on(comm), random_vector<T>(20, 2), o);
            EXPECT_TRUE(one.report.converged());
            EXPECT_EQ(one.report.iterations, 1);
            const auto zero = run(*diagonal<T>(std::vector<double>(8, 0.0)).on(comm), std::vector<T>(8, T(1)), o);
            EXPECT_EQ(zero.report.reason, Reason::breakdown) << to_string(how) << zero.report.detail;
            EXPECT_NE(zero.report.detail.find("singular"), std::string::npos) << zero.report.detail;
            EXPECT_EQ(zero.report.residual_norm, 1);
          }
        }
        // A cyclic shift: the residual does not fall before iteration n, which solves the system.
        Whole<T> shift;
        shift.n = 12;
        for (Global i = 0; i < 12; ++i) shift.push((i + 11) % 12, T(1)), shift.end_row();
        std::vector<T> e(12, T(0));
        e[0] = T(1);
        auto o = s_step(10, Orthogonalisation::automatic, 100);
        o.rtol = 1e-12;
        const auto s = run(*shift.on(comm), e, o);
        EXPECT_TRUE(s.report.converged()) << s.report.detail;
        EXPECT_EQ(s.report.iterations, 12);
      },
      {3});
}

TYPED_TEST(CaGmres, LowPrecisionBasisReachesTheTolerance) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(24, 20, 0.3);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        const precond::Jacobi<T> P(*A);
        auto o = s_step(8, Orthogonalisation::automatic, 600);
        o.rtol = 1e-12;
        const int full = run(*A, b, o).report.iterations;
        for (const auto storage : {Storage::float32, Storage::bfloat16})
          for (const auto how : {Orthogonalisation::automatic, Orthogonalisation::bcgs_pip2, Orthogonalisation::bcgs})
            for (const op::Operator<T, Host>* p :
                 {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&P}) {
              o.storage = storage;
              o.orthogonalisation = how;
              const auto s = run(*A, b, o, p);
              const std::string what = std::string(to_string(storage)) + " " + to_string(how);
              EXPECT_TRUE(s.report.converged()) << what << " " << to_string(s.report.reason) << s.report.detail;
              EXPECT_LE(residual_of(a, b, s.x), 1.01e-12L) << what;
              EXPECT_LE(s.report.iterations, (storage == Storage::float32 ? 2 : 3) * full) << what;
            }
      },
      {2});
}

TYPED_TEST(CaGmres, SolvesInSinglePrecision) {
  using R = std::conditional_t<is_complex<TypeParam>, std::complex<float>, float>;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<R>(16, 16, 0.3);
        const auto b = random_vector<R>(a.n, 3);
        Options o;
        o.method = Method::ca_gmres;
        o.rtol = 1e-5;
        for (const auto storage : {Storage::full, Storage::bfloat16}) {
          o.storage = storage;
          const auto s = run(*a.on(comm), b, o);
          EXPECT_TRUE(s.report.converged()) << to_string(storage) << s.report.detail;
          EXPECT_LE(residual_of(a, b, s.x), 1.1e-5L);
        }
      },
      {2});
}

TYPED_TEST(CaGmres, RanksGiveTheSameHistory) {
  using T = TypeParam;
  const auto a = grid<T>(20, 21, 0.3);
  const auto b = random_vector<T>(a.n, 3);
  auto o = s_step(7, Orthogonalisation::automatic, 70);
  const auto alone = run(*a.on(comm::Communicator::self()), b, o);
  on_ranks([&](const comm::Communicator& comm) {
    const auto s = run(*a.on(comm), b, o);
    EXPECT_LE(deviation(s.report.history, alone.report.history), 1e-7) << comm.size();
    const auto residuals = comm.all_gather(s.report.recurrence_residual_norm);
    for (const double r : residuals) EXPECT_EQ(r, s.report.recurrence_residual_norm) << "the same bits";
  });
}

TYPED_TEST(CaGmres, SolvesWhatGmresSolvesWithHardlyMoreProducts) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto& a : {shifted_grid<T>(20, 20, 0.6), scattered<T>(300, 5, 8, 1.2), grid<T>(20, 20)}) {
          const auto b = random_vector<T>(a.n, 3);
          const auto A = a.on(comm);
          Options o;
          o.rtol = 1e-9;
          o.method = Method::gmres;
          const auto reference = run(*A, b, o);
          o.method = Method::ca_gmres;
          const auto s = run(*A, b, o);
          EXPECT_TRUE(reference.report.converged());
          EXPECT_TRUE(s.report.converged()) << to_string(s.report.reason) << s.report.detail;
          EXPECT_LE(residual_of(a, b, s.x), 1.01e-9L);
          EXPECT_LE(s.report.iterations, 1.05 * reference.report.iterations + 1);
          // At most one block more than the iterations.
          EXPECT_LE(s.report.counts.operator_applies, 1.05 * double(reference.report.counts.operator_applies) + 12);
        }
      },
      {2});
}

// Condition number 3e6: cycles end where the Krylov space does. With long blocks, rounding errors of H = R B R^-1 would
// leave a thousandth of the residual although the projected problem reports zero.
TEST(CaGmresBasis, ConditionSuitsThatOfTheMatrix) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = biharmonic<double>(100);
  const auto A = a.on(comm::Communicator::self());
  for (const bool smooth : {false, true}) {
    auto b = random_vector<double>(a.n, 3);
    for (std::size_t i = 0; smooth && i < b.size(); ++i) b[i] = std::sin(0.03 * double(i)) + 0.2;
    Options o;
    o.rtol = 1e-6;
    o.method = Method::gmres;
    const auto reference = run(*A, b, o);
    ASSERT_TRUE(reference.report.converged());
    o.method = Method::ca_gmres;
    const auto s = run(*A, b, o);
    EXPECT_TRUE(s.report.converged()) << s.report.detail;
    EXPECT_LE(residual_of(a, b, s.x), 1.001e-6L);
    EXPECT_LE(s.report.iterations, 1.6 * reference.report.iterations);
    EXPECT_EQ(s.report.method, "ca-gmres");
  }
}

}  // namespace
}  // namespace tacit::test
