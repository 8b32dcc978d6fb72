// Solvers of the last level of algebraic multigrid, and levels that move to fewer ranks.
#include "precond/amg/agglomeration.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg.hpp>
#include <tacit/precond/make.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using layout::Partition;
using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgOptions;
using precond::BottomOptions;

template <class T>
class AmgBottomOf : public testing::Test {};
TYPED_TEST_SUITE(AmgBottomOf, test::Scalars);

/// Every third rank has no rows.
Space with_gaps(const comm::Communicator& comm, Global n) {
  std::vector<Global> offsets{0};
  for (int r = 0; r < comm.size(); ++r) {
    const Global next = r + 1 == comm.size() ? n : n * (r + 1) / comm.size();
    offsets.push_back(r % 3 == 1 && r + 1 < comm.size() ? offsets.back() : next);
  }
  return Space::distributed(comm, Partition(offsets));
}

/// -Laplace by 5 points; with Neumann boundaries every row sums to 0.
template <class T>
Whole<T> poisson(Global nx, Global ny, bool neumann = false) {
  Whole<T> a;
  a.n = nx * ny;
  for (Global y = 0; y < ny; ++y)
    for (Global x = 0; x < nx; ++x) {
      const Global i = x + nx * y;
      const bool there[] = {y > 0, x > 0, x + 1 < nx, y + 1 < ny};
      const Global step[] = {-nx, -1, 1, nx};
      int neighbours = 0;
      for (const bool b : there) neighbours += b;
      for (int d = 0; d < 4; ++d) {
        if (d == 2) a.push(i, T(real_t<T>(neumann ? neighbours : 4)));
        if (there[d]) a.push(i + step[d], T(-1));
      }
      a.end_row();
    }
  return a;
}

template <class T>
AmgOptions<T> with_bottom(const std::string& name, double reduction = 1e-3, int step = 0) {
  AmgOptions<T> o;
  o.bottom.name = name, o.bottom.krylov.rtol = reduction;
  if (step > 0) o.bottom.krylov.step = step;
  return o;
}

/// The text of the Error(usage) that f throws; empty where it throws none.
template <class T>
double difference(const Vector<T>& a, const Vector<T>& b) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, double(std::abs(a.data()[i] - b.data()[i])));
    size = std::max(size, double(std::abs(a.data()[i])));
  }
  return a.space().comm().all_max(most) / a.space().comm().all_max(size);
}

template <class T>
Vector<T> image(const Amg<T>& M, int columns = 1) {
  Vector<T> x(M.domain(), columns), y(M.range(), columns);
  const auto first = std::size_t(M.domain().begin()) * std::size_t(columns);
  for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = T(std::cos(real_t<T>((first + i) * 37 % 101)));
  M.apply(x, y);
  return y;
}

/// Rows in another order: the largest entry of a row is far from the diagonal, and pivots change rows.
template <class T>
Whole<T> rows_shifted(const Whole<T>& a, Global by) {
  Whole<T> m;
  m.n = a.n;
  for (Global i = 0; i < a.n; ++i) {
    const Global r = (i + by) % a.n;
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k) m.push(a.column[k], a.value[k]);
    m.end_row();
  }
  return m;
}

/// The largest part of b - A u for a direct solve of A u = b, over that of A u: few entries in a row (factors of a
/// band), many (a dense inverse), with pivots, without symmetry, and with several columns.
TYPED_TEST(AmgBottomOf, TheDirectSolverInverts) {
  using T = TypeParam;
  const double unit = double(std::numeric_limits<real_t<T>>::epsilon());
  const std::vector<Whole<T>> matrices{
      grid<T>(20, 18),           grid<T>(40, 5, 0.8),     rows_shifted(grid<T>(150, 1, 0.5), 2),
      scattered<T>(90, 30, 3),   scattered<T>(200, 2, 5), diagonal<T>({3, -2, 5, 1e-3, 7}),
      tridiagonal<T>(1, 0, 2, 0)};
  on_ranks([&](const comm::Communicator& comm) {
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      const auto& a = matrices[m];
      for (const bool gaps : {false, true}) {
        const std::shared_ptr<const op::Csr<T>> A = a.on(gaps ? with_gaps(comm, a.n) : Space::distributed(comm, a.n));
        precond::LastLevel<T> level{A, [&] { return A->rows(); }, comm.size()};
        const auto solver = precond::direct_bottom<T>()(level);
        for (const int columns : {1, 3}) {
          Vector<T> f(A->range(), columns), u(A->range(), columns), r(A->range(), columns);
          const auto first = std::size_t(A->range().begin()) * std::size_t(columns);
          for (std::size_t i = 0; i < f.size(); ++i) f.data()[i] = noise_of<T>(7, first + i);
          EXPECT_TRUE(solver->solve(f, u).solved);
          A->apply(u, r);
          EXPECT_LE(difference(f, r), 2e4 * unit) << "matrix " << m << ", " << comm.size() << " ranks";
          // A device takes the rows of the inverse.
          const op::Csr<T> inverse(A->range(), A->range(), solver->inverse().value());
          inverse.apply(f, r);
          EXPECT_LE(difference(u, r), 2e4 * unit) << "matrix " << m << ", " << comm.size() << " ranks";
        }
      }
    }
  });
}

/// Rows that add up to zero: the pseudo-inverse, whatever the band.
TYPED_TEST(AmgBottomOf, TheDirectSolverSeesSingularMatrices) {
  using T = TypeParam;
  const double unit = double(std::numeric_limits<real_t<T>>::epsilon());
  on_ranks([&](const comm::Communicator& comm) {
    const auto a = poisson<T>(12, 9, true);
    const std::shared_ptr<const op::Csr<T>> A = a.on(comm);
    const auto solver = precond::direct_bottom<T>()({A, [&] { return A->rows(); }, comm.size()});
    Vector<T> x(A->range()), f(x), u(x), r(x);
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = noise_of<T>(9, std::size_t(A->range().begin()) + i);
    A->apply(x, f);
    solver->solve(f, u);
    A->apply(u, r);
    EXPECT_LE(difference(f, r), 2e4 * unit);
    EXPECT_LE(layout::norm(u), 2 * layout::norm(x));  // no null vector of the length of 1 / epsilon
  });
}

/// Where the diagonal dominates all rows eight sweeps solve a large last level, by every smoother.
TYPED_TEST(AmgBottomOf, SweepsSolveWhatTheDiagonalDominates) {
  using T = TypeParam;
  using precond::AmgSmoother;
  const double unit = double(std::numeric_limits<real_t<T>>::epsilon());
  on_ranks([&](const comm::Communicator& comm) {
    std::vector<double> d(2100);
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = 1 + double(i % 7) * (i % 2 ? 1 : 30);
    const auto mass = grid<T>(45, 44).map([](Global r, Global c, T v) { return r == c ? T(1.04) : T(0.01) * v; });
    for (const auto& a : {diagonal<T>(d), mass}) {
      const auto A = a.on(comm);
      for (const auto smoother : {AmgSmoother::spai0, AmgSmoother::jacobi, AmgSmoother::l1_jacobi,
                                  AmgSmoother::gauss_seidel, AmgSmoother::chebyshev}) {
        AmgOptions<T> o;
        o.smoother = smoother;
        const Amg<T> M(*A, o);
        EXPECT_EQ(M.levels().size(), 1u);
        EXPECT_FALSE(M.is_doubtful());
        EXPECT_TRUE(M.note().empty()) << M.note();
        Vector<T> x(A->range()), f(x), u(x);
        for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = noise_of<T>(9, std::size_t(A->range().begin()) + i);
        A->apply(x, f);
        M.apply(f, u);
        EXPECT_LE(difference(x, u), std::max(2e-3, 100 * unit)) << to_string(smoother);
        EXPECT_EQ(M.bottom().name, "smoother");
        EXPECT_EQ(M.bottom().iterations, 8);
      }
      if (a.n <= precond::largest_direct) {  // what is named is what runs
        const Amg<T> M(*A, with_bottom<T>("direct"));
        EXPECT_EQ(M.bottom().name, "direct");
      }
    }
  });
}

// Every solver, to a small residual, is the direct one; also with ranks that have no rows, and for two columns.
TYPED_TEST(AmgBottomOf, EverySolverAgreesWithTheInverse) {
  using T = TypeParam;
  const double unit = double(std::numeric_limits<real_t<T>>::epsilon()), reduction = 100 * unit;
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = poisson<T>(31, 23);
        for (const bool whole : {false, true}) {
          const auto A = a.on(whole ? Space::distributed(comm, a.n) : with_gaps(comm, a.n));
          const Global below = whole ? 1000 : 0;
          {
            auto o = with_bottom<T>("direct");
            o.coarsest = 150, o.agglomerate_below = below;
            const Amg<T> direct(*A, o);
            ASSERT_GE(direct.levels().size(), 2u);
            EXPECT_FALSE(direct.varies());
            const auto y = image(direct), both = image(direct, 2);
            for (const auto& [name, step] : std::initializer_list<std::pair<const char*, int>>{
                     {"cg", 0}, {"bicgstab", 0}, {"gmres", 0}, {"ca-cg", 4}, {"ca-bicgstab", 2}, {"pipelined-cg", 0}}) {
              auto k = with_bottom<T>(name, reduction, step);
              k.coarsest = 150, k.agglomerate_below = below;
              const Amg<T> M(*A, k);
              EXPECT_TRUE(M.varies());
              EXPECT_FALSE(M.has_adjoint());
              EXPECT_LE(difference(y, image(M)), 2e4 * unit) << name << " " << comm.size() << " ranks";
              const auto done = M.take_bottom();
              EXPECT_EQ(done.name, name);
              EXPECT_EQ(done.solves, 1);
              EXPECT_GT(done.iterations, 2) << name;
              EXPECT_EQ(done.failures, 0) << name;
              if (below == 0) {
                EXPECT_LE(difference(both, image(M, 2)), 2e4 * unit) << name;
              }
            }
          }
        }
      },
      {3});
}

// cg with a bottom that iterates, which makes it flexible, takes the iterations of the direct one.
TEST(AmgBottom, LooseSolversCostNoIterations) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = poisson<double>(60, 50);
        const auto A = a.on(comm);
        const auto b = spread(A->range(), random_vector<double>(a.n, 3));
        int direct = 0;
        for (const auto& [name, step] : std::initializer_list<std::pair<const char*, int>>{
                 {"direct", 0}, {"ca-bicgstab", 4}, {"ca-cg", 4}, {"cg", 0}}) {
          auto o = with_bottom<double>(name, 1e-3, step);
          o.agglomerate_below = 0;
          const Amg<double> M(*A, o);
          for (const auto method : {krylov::Method::cg, krylov::Method::fgmres}) {
            Vector<double> x(A->range());
            krylov::Options k;
            k.method = method;
            const auto report = krylov::solve<double, Host>(*A, &M, b, x, k, true);
            EXPECT_TRUE(report.converged()) << name;
            EXPECT_TRUE(report.warnings.empty()) << report.warnings[0];
            if (direct == 0) direct = report.iterations;
            EXPECT_LE(report.iterations, direct + 1) << name;
          }
        }
      },
      {3});
}

// One reduction for s iterations on the last level, three for each of bicgstab, one for a direct solve on all ranks,
// none where one rank has the level.
TEST(AmgBottom, ReductionsAreThoseOfTheMethod) {
  on_ranks(
      [](const comm::Communicator& comm) {
        if (comm.size() == 1) return;
        const auto a = poisson<double>(60, 50);
        const auto A = a.on(comm);
        const auto reductions = [&](const AmgOptions<double>& o, int& iterations) {
          const Amg<double> M(*A, o);
          (void)image(M);  // the first solve finds the spectrum
          (void)M.take_bottom();
          const auto before = comm.counters().reductions;
          (void)image(M);
          const auto count = comm.counters().reductions - before;
          const auto done = M.take_bottom();
          EXPECT_EQ(done.failures, 0);
          iterations = done.iterations;
          return count;
        };
        int its = 0;
        auto o = with_bottom<double>("direct");
        o.agglomerate_below = 0;
        EXPECT_EQ(reductions(o, its), 1);
        o.agglomerate_below = 10000;
        EXPECT_EQ(reductions(o, its), 0);
        const auto iterate = [&](const char* name, int step) {
          auto k = with_bottom<double>(name, 1e-8, step);
          k.agglomerate_below = 0, k.coarsest = 600, k.bottom.krylov.norm = krylov::Norm::two;
          return reductions(k, its);
        };
        const auto classical = iterate("bicgstab", 0);
        EXPECT_GE(its, 12);
        EXPECT_GE(classical, 3 * its);
        const auto s_step = iterate("ca-bicgstab", 4);
        EXPECT_GE(its, 12);
        EXPECT_LE(s_step, (its + 3) / 4 + 8) << its << " iterations";
      },
      {2, 4});
}

// A bottom that fails is reported on all ranks, followed by the smoother, and the solve ends all the same.
TEST(AmgBottom, FailuresAreReported) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = poisson<double>(40, 30);
        const auto A = a.on(comm);
        for (const Global below : {Global(0), Global(10000)}) {
          auto o = with_bottom<double>("cg", 1e-12);
          o.bottom.krylov.max_iterations = 1, o.agglomerate_below = below;
          const Amg<double> M(*A, o);
          Vector<double> x(A->range());
          const auto b = spread(A->range(), random_vector<double>(a.n, 3));
          krylov::Options k;
          k.method = krylov::Method::fgmres;
          EXPECT_TRUE((krylov::solve<double, Host>(*A, &M, b, x, k).converged()));
          const auto done = M.take_bottom();
          EXPECT_GT(done.solves, 3);
          EXPECT_EQ(done.failures, done.solves);
          ASSERT_FALSE(done.warnings.empty()) << "rank " << comm.rank();
          EXPECT_NE(done.warnings[0].find("bottom cg"), std::string::npos) << done.warnings[0];
          EXPECT_EQ(M.take_bottom().solves, 0);
        }
      },
      {3});
}

// The last level is singular where A is; solves for consistent right-hand sides converge.
TEST(AmgBottom, SingularLevels) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = poisson<double>(40, 36, true);
        const auto A = a.on(with_gaps(comm, a.n));
        auto values = random_vector<double>(a.n, 3);
        double mean = 0;
        for (const double v : values) mean += v / double(a.n);
        for (double& v : values) v -= mean;
        const auto b = spread(A->range(), values);
        for (const Global below : {Global(0), Global(10000)})
          for (const std::string name : {"direct", "cg", "ca-cg", "ca-bicgstab", "smoother"}) {
            auto o = with_bottom<double>(name);
            o.agglomerate_below = below, o.coarsest = 60;
            const Amg<double> M(*A, o);
            Vector<double> x(A->range());
            krylov::Options k;
            k.method = krylov::Method::cg;
            const auto report = krylov::solve<double, Host>(*A, &M, b, x, k, true);
            EXPECT_TRUE(report.converged()) << name << ": " << report.detail;
            EXPECT_LE(report.iterations, 30) << name;
            EXPECT_EQ(M.take_bottom().failures, 0) << name;
          }
      },
      {3, 5});
}

// A level that has moved is the same level: a cycle on two levels is the same map, and A_c = R A P of what follows.
TYPED_TEST(AmgBottomOf, ALevelThatMovesIsTheSame) {
  using T = TypeParam;
  const double unit = double(std::numeric_limits<real_t<T>>::epsilon());
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = poisson<T>(31, 23);
        for (const auto& space : {Space::distributed(comm, a.n), with_gaps(comm, a.n)})
          for (const auto coarsening : {precond::AmgCoarsening::aggregation, precond::AmgCoarsening::pmis}) {
            const auto A = a.on(space);
            AmgOptions<T> o;
            o.max_levels = 2, o.coarsening = coarsening, o.agglomerate_below = 0;
            const Amg<T> stays(*A, o);
            o.agglomerate_below = 100000;
            const Amg<T> moves(*A, o);
            ASSERT_EQ(moves.levels().size(), 2u);
            EXPECT_EQ(moves.levels()[1].ranks, 1);
            EXPECT_EQ(moves.levels()[1].entries, stays.levels()[1].entries);
            EXPECT_LE(difference(image(stays, 2), image(moves, 2)), 200 * unit);
            o.max_levels = 25, o.coarsest = 8;
            const Amg<T> deep(*A, o);
            ASSERT_GE(deep.levels().size(), 3u);
            for (int k = 0; k + 1 < int(deep.levels().size()); ++k) {
              const auto &fine = deep.matrix(k), &P = deep.prolongation(k), &coarse = deep.matrix(k + 1);
              EXPECT_TRUE(P.domain() == coarse.range());
              const auto e = spread(coarse.domain(), random_vector<T>(coarse.domain().size(), 7));
              Vector<T> p(P.range()), ap(P.range()), rap(P.domain()), found(P.domain());
              P.apply(e, p), fine.apply(p, ap), P.apply_adjoint(ap, rap), coarse.apply(e, found);
              EXPECT_LE(difference(rap, found), 200 * unit);
            }
          }
      },
      {3, 7});
}

// Levels are on the fewest ranks, by powers of two, that leave each `agglomerate_below` unknowns; 0 and what is given
// is what runs.
TEST(AmgBottom, LevelsMoveWhereTheyAreSmall) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = poisson<double>(80, 60);
        const auto A = a.on(comm);
        const auto b = spread(A->range(), random_vector<double>(a.n, 3));
        int iterations = 0;
        for (const Global below : {0, 40, 200, 100000}) {
          AmgOptions<double> o;
          o.coarsest = 10, o.agglomerate_below = below;
          const Amg<double> M(*A, o);
          const auto levels = M.levels();
          int before = comm.size();
          for (std::size_t k = 1; k < levels.size(); ++k) {
            int by = 1;
            while ((before + by - 1) / by > 1 && levels[k].rows < below * ((before + by - 1) / by)) by *= 2;
            EXPECT_EQ(levels[k].ranks, (before + by - 1) / by) << below << " level " << k;
            before = levels[k].ranks;
          }
          EXPECT_TRUE(M.take_bottom().choice.empty());
          Vector<double> x(A->range());
          krylov::Options k;
          k.method = krylov::Method::cg;
          const auto report = krylov::solve<double, Host>(*A, &M, b, x, k, true);
          EXPECT_TRUE(report.converged());
          if (below == 0) iterations = report.iterations;
          EXPECT_LE(std::abs(report.iterations - iterations), 3) << below;
        }
        const Amg<double> chosen(*A);
        EXPECT_EQ(chosen.take_bottom().choice.empty(), comm.size() == 1);
      },
      {2, 4, 7});
}

// A rank without rows on a level sends nothing for it: more levels below one that has moved cost the others no message.
TEST(AmgBottom, IdleRanksSendNothing) {
  on_ranks(
      [](const comm::Communicator& comm) {
        if (comm.size() == 1) return;
        const auto a = poisson<double>(80, 60);
        const auto A = a.on(comm);
        const auto messages = [&](int levels) {
          AmgOptions<double> o;
          o.coarsest = 10, o.agglomerate_below = 100000, o.max_levels = levels;
          const Amg<double> M(*A, o);
          const auto before = comm.counters().messages;
          (void)image(M);
          return comm.counters().messages - before;
        };
        const auto shallow = messages(2);
        EXPECT_EQ(messages(4), shallow) << "rank " << comm.rank();
        EXPECT_GT(shallow, 0);
      },
      {2, 5});
}

// Messages that cost nothing keep a level where it is, expensive ones move it to one rank; between, the work decides.
TEST(AmgBottom, TheCostModelMovesLevelsWhereMessagesCost) {
  precond::Spread level;
  level.rows = 100000, level.entries = 1000000, level.ranks = 64;
  level.latency = level.message = 0;
  std::string why;
  EXPECT_EQ(precond::cheapest_gathering(level, why), 1);
  int last = 1;
  for (const double seconds : {1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2}) {
    level.latency = seconds;
    const int by = precond::cheapest_gathering(level, why);
    EXPECT_GE(by, last) << seconds;
    last = by;
    const auto all = precond::seconds_of(level);
    ASSERT_EQ(all.size(), 7u);
    for (const double other : all) EXPECT_LE(all[std::size_t(std::log2(by))], other / 0.9) << seconds;
  }
  EXPECT_EQ(last, 64);
  EXPECT_NE(why.find("on 1 of 64 ranks"), std::string::npos) << why;
  // One rank takes the messages of all that move to it in turn: so many that staying is cheaper.
  level.ranks = 4096, level.rows = 100000, level.entries = 2500000;
  level.latency = 1e-6, level.message = 3e-7, level.neighbours = {400}, level.coarsest = 40;
  const int by = precond::cheapest_gathering(level, why);
  EXPECT_GT(by, 1) << why;
  EXPECT_LT(by, 4096) << why;
}

// A band of one entry: a rank has two neighbours, every second rank one, and a single one none. A rank without rows is
// nobody's neighbour.
TEST(AmgBottom, CountsNeighboursOfGroups) {
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const bool hole : {false, true}) {
          const int p = comm.size();
          if (hole && p < 3) continue;
          std::vector<Global> counts(std::size_t(p), 4);
          if (hole) counts[1] = 0;
          const auto space = layout::Space::distributed(comm, layout::Partition::of_counts(counts));
          op::Rows<double> rows;
          for (Global i = space.begin(); i < space.end(); ++i) {
            for (Global j = std::max<Global>(0, i - 1); j < std::min(space.size(), i + 2); ++j)
              rows.column.push_back(j), rows.value.push_back(1);
            rows.start.push_back(Global(rows.column.size()));
          }
          int on = p - hole;
          std::vector<int> expected{std::min(on - 1, 2)};
          while (on > 1) on = (on + 1) / 2, expected.push_back(std::min(on - 1, 1));
          EXPECT_EQ(precond::neighbours_of(rows, space), expected) << p << " ranks";
        }
      },
      {1, 2, 3, 5, 8});
}

TEST(AmgBottom, RefusesWhatDoesNotFit) {
  const auto A = poisson<double>(20, 20).on(comm::Communicator::self());
  const auto text = [&](auto set) {
    AmgOptions<double> o;
    set(o);
    return usage_error([&] { Amg<double>(*A, o); });
  };
  EXPECT_NE(text([](auto& o) { o.coarsest = 3000; }).find("solved directly"), std::string::npos);
  EXPECT_NE(text([](auto& o) { o.agglomerate_below = -1; }).find("-1"), std::string::npos);
  EXPECT_NE(text([](auto& o) { o.bottom.krylov.step = 4; }).find("Krylov"), std::string::npos);
  EXPECT_NE(text([](auto& o) { o.bottom.name = "ca-bicgstb"; }).find("ca-bicgstab"), std::string::npos);
  EXPECT_NE(text([](auto& o) { o.bottom.name = "cg", o.bottom.krylov.step = 4; }).find("step"), std::string::npos);
  for (const char* name : {"automatic", "direct", "smoother"}) {
    const auto refused = [&](auto set) {
      return text([&](auto& o) { o.bottom.name = name, set(o.bottom.krylov); }).find("bottom_reduction");
    };
    EXPECT_NE(refused([](auto& k) { k.rtol = 0.1; }), std::string::npos) << name;
    EXPECT_NE(refused([](auto& k) { k.max_iterations = 3; }), std::string::npos) << name;
    EXPECT_NE(refused([](auto& k) { k.norm = krylov::Norm::two; }), std::string::npos) << name;
  }
  auto o = with_bottom<double>("cg");
  o.coarsest = 3000;
  EXPECT_EQ(Amg<double>(*A, o).levels().size(), 1u);
  // Others' options by name.
  precond::Options named;
  named.bottom.name = "cg";
  EXPECT_NE(usage_error([&] { precond::make<double, Host>("jacobi", *A, named); }).find("bottom"), std::string::npos);
  EXPECT_FALSE(precond::is_symmetric("amg", named));
  const auto M = precond::make<double, Host>("amg", *A, named);
  EXPECT_TRUE(op::varies(M.get()));
}

}  // namespace
}  // namespace tacit::test
