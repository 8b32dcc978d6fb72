// Schwarz: solves on overlapping blocks, compared with dense ones.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/make.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tacit::test {
namespace {

using layout::Vector;

template <class T>
class OverlappingBlocks : public testing::Test {};
TYPED_TEST_SUITE(OverlappingBlocks, Scalars);

/// sum_i R~_i^T (R_i A R_i^T)^-1 R_i, with blocks and overlaps determined from the pattern of A.
template <class T>
Dense<T> schwarz_of(const Whole<T>& a, const layout::Partition& partition, int blocks, int overlap, bool restricted) {
  const auto dense = a.dense();
  Dense<T> sum(a.n, std::vector<T>(a.n, T(0)));
  for (int rank = 0; rank < partition.parts(); ++rank) {
    const Global n = partition.end(rank) - partition.begin(rank), parts = std::min<Global>(blocks, n);
    for (Global b = 0, first = partition.begin(rank); b < parts; ++b) {
      const Global end = first + n / parts + (b < n % parts);
      std::vector<bool> in(a.n, false);
      for (Global i = first; i < end; ++i) in[i] = true;
      for (int level = 0; level < overlap; ++level) {
        const auto before = in;
        a.each([&](Global r, Global c, T) {
          if (before[r]) in[c] = true;
        });
      }
      std::vector<Global> rows;
      for (Global i = 0; i < a.n; ++i)
        if (in[i]) rows.push_back(i);
      Dense<T> block;
      for (const Global i : rows) {
        block.emplace_back();
        for (const Global j : rows) block.back().push_back(dense[i][j]);
      }
      for (std::size_t j = 0; j < rows.size(); ++j) {
        std::vector<T> e(rows.size(), T(0));
        e[j] = T(1);
        const auto column = dense_solve(block, e);
        for (std::size_t i = 0; i < rows.size(); ++i)
          if (!restricted || (rows[i] >= first && rows[i] < end)) sum[rows[i]][rows[j]] += T(column[i]);
      }
      first = end;
    }
  }
  return sum;
}

/// A dense band, for which incomplete factors equal those of Gaussian elimination, also in blocks that omit distant
/// rows.
template <class T>
Whole<T> full_band(Global n, Global width) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    for (Global j = std::max<Global>(0, i - width); j <= std::min(n - 1, i + width); ++j)
      a.push(j, i == j ? T(real_t<T>(2.0 * width)) : noise_of<T>(8, std::uint64_t(i * n + j)));
    a.end_row();
  }
  return a;
}

TYPED_TEST(OverlappingBlocks, AreSolved) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const int width : {1, 3}) {
          const auto a = full_band<T>(17, width);
          const auto A = a.on(comm);
          for (const int blocks : {1, 3})
            for (const int overlap : {0, 1, 2, 17})
              for (const bool restricted : {true, false}) {
                const auto P = precond::make<T, Host>("schwarz", *A,
                                                      {.blocks = blocks, .overlap = overlap, .restricted = restricted});
                const auto expected = schwarz_of(a, A->range().partition(), blocks, overlap, restricted);
                const auto found = dense_of(*P);
                for (Global i = 0; i < a.n; ++i)
                  for (Global j = 0; j < a.n; ++j)
                    ASSERT_LE(std::abs(found[i][j] - expected[i][j]), tolerance<T>(100))
                        << i << " " << j << ": " << P->name() << ", " << blocks << " blocks on each of " << comm.size();
                expect_adjoint<T>(*P);
                expect_columns<T>(*P);
              }
        }
      },
      {3});
}

TYPED_TEST(OverlappingBlocks, TakeAnyLocalSolver) {
  using T = TypeParam;
  using precond::Kind;
  on_ranks(
      [](const comm::Communicator& comm) {
        // With an overlap that covers the whole matrix, each block is the matrix itself, and its rows of the result
        // equal those of the local solver on one rank.
        const auto a = grid<T>(6, 5);
        const auto A = a.on(comm), alone = a.on(comm::Communicator::self());
        for (const auto& [solver, symmetric] : {std::pair(Kind::ilu0, true),
                                                {Kind::ic0, true},
                                                {Kind::jacobi, true},
                                                {Kind::spai, false},
                                                {Kind::fsai, true}}) {
          precond::Options o{.solver = solver, .overlap = 100};
          const auto P = precond::make<T, Host>("schwarz", *A, o);
          const auto expected = dense_of(*precond::make<T, Host>(to_string(solver), *alone)), found = dense_of(*P);
          for (Global i = 0; i < a.n; ++i)
            for (Global j = 0; j < a.n; ++j)
              EXPECT_LE(std::abs(found[i][j] - expected[i][j]), tolerance<T>(100)) << to_string(solver);
          expect_adjoint<T>(*P);
          EXPECT_FALSE(precond::is_symmetric("schwarz", o));
          o.overlap = 1, o.restricted = false;
          EXPECT_EQ(precond::is_symmetric("schwarz", o), symmetric);
          const auto added = precond::make<T, Host>("schwarz", *A, o);
          if (symmetric) expect_symmetric_positive<T>(*added);
          expect_adjoint<T>(*added);
        }
        const auto P =
            precond::make<T, Host>("schwarz", *A, {.solver = Kind::polynomial, .degree = 3, .restricted = false});
        expect_symmetric_positive<T>(*P);
        EXPECT_NE(P->name().find("degree 3"), std::string::npos) << P->name();
      },
      {2, 3});
}

TEST(Schwarz, ReportsChangesOfItsLocalSolver) {
  using precond::Kind;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(5, 4).map([](Global r, Global c, double v) { return r == c && r == 7 ? 0 : v; });
    const auto A = a.on(comm);
    const auto P = precond::make<double, Host>("schwarz", *A);
    const auto* noted = dynamic_cast<const op::Noted*>(P.get());
    ASSERT_NE(noted, nullptr);
    const auto says = [&](const precond::Options& o, const char* word) {
      const auto text = usage_error([&] { precond::make<double, Host>("schwarz", *A, o); });
      EXPECT_NE(text.find(word), std::string::npos) << text;
    };
    const auto lopsided = grid<double>(5, 4, 0.3).on(comm);
    const auto refused = usage_error([&] { precond::make<double, Host>("schwarz", *lopsided, {.solver = Kind::ic0}); });
    EXPECT_NE(refused.find("local solver of schwarz"), std::string::npos) << refused;
    says({.solver = Kind::block_jacobi}, "solver is block-jacobi; schwarz takes ilu0, ic0");
    says({.overlap = -1}, "overlap is -1");
    says({.degree = 3}, "degree 3 is an option of polynomial");
    says({.local = true}, "local true");
  });
}

TEST(Schwarz, OverlapSavesIterations) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(32, 32, 0.3);
        const auto A = a.on(comm);
        const auto b = spread(A->range(), random_vector<double>(a.n, 2));
        std::vector<std::int64_t> taken;
        for (const int overlap : {0, 2, 5}) {
          const auto P = precond::make<double, Host>("schwarz", *A, {.blocks = 4, .overlap = overlap});
          Vector<double> x(A->domain());
          krylov::Options o;
          o.method = krylov::Method::gmres;
          const auto report = krylov::solve<double, Host>(*A, P.get(), b, x, o);
          EXPECT_TRUE(report.converged());
          taken.push_back(report.iterations);
        }
        EXPECT_LT(taken[1], taken[0]);
        EXPECT_LE(taken[2], taken[1]);
      },
      {2});
}

}  // namespace
}  // namespace tacit::test
