// Multigrid in extreme cases: values far from 1, NaN, singular and tiny systems, ranks that decide differently.
#include <gtest/gtest.h>

#include <tacit/app/multigrid/bottom.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <vector>

using namespace tacit;
using comm::Communicator;
using layout::Vector;
using op::Boundary;
using op::Boxes;
using op::Domain;
using op::FiniteVolume;
using precond::Multigrid;
using precond::MultigridOptions;
using precond::Smoother;
using test::on_ranks;

namespace {

const op::Field wavy = [](double x, double y, double z) { return std::sin(3 * x + 5 * y * y + 7 * z) + x; };

template <class T = double>
std::shared_ptr<const FiniteVolume<T>> make(const Communicator& comm, Domain domain, double a, double b = 1) {
  const Boxes boxes = Boxes::whole(comm, std::move(domain));
  return std::make_shared<const FiniteVolume<T>>(
      boxes, op::coefficients<T>(boxes, a, b, {}, [](double x, double, double) { return 1 + x; }));
}
template <class T>
Vector<T> vector_of(const FiniteVolume<T>& A, const std::vector<T>& values) {
  Vector<T> v(A.range());
  v.assign(values);
  return v;
}
template <class T>
double residual(const FiniteVolume<T>& A, const Vector<T>& f, const Vector<T>& u) {
  Vector<T> r(A.range());
  A.apply(u, r);
  layout::subtract(f, r, r);
  return layout::max_norm(r);
}

// Scaling f by a power of two scales u by the same power, although norms are squared and levels may be in float32.
template <class T>
void scales(std::initializer_list<int> exponents, bool single_levels) {
  on_ranks(
      [&](const Communicator& comm) {
        const auto A = make<T>(comm, Domain::uniform({16, 12, 10}, Boundary::dirichlet), 0);
        MultigridOptions o;
        o.single_levels = single_levels;
        const Multigrid<T> M(A, o, precond::direct_bottom<T>(), precond::direct_bottom<float>());
        const auto f = vector_of(*A, A->sampled(wavy));
        for (const bool max_norm : {true, false}) {
          precond::MultigridSolve s;
          s.norm = max_norm ? krylov::Norm::max : krylov::Norm::two, s.rtol = sizeof(T) == 4 ? 1e-4 : 1e-10;
          Vector<T> u(A->range());
          const auto plain = M.solve(f, u, s);
          ASSERT_TRUE(plain.converged()) << to_string(plain.reason);
          for (const int e : exponents) {
            Vector<T> g(A->range()), v(A->range());
            for (std::size_t i = 0; i < g.size(); ++i) g.data()[i] = T(std::ldexp(double(f.data()[i]), e));
            const auto report = M.solve(g, v, s);
            EXPECT_TRUE(report.converged()) << to_string(report.reason) << " at 2^" << e;
            EXPECT_EQ(report.cycles, plain.cycles) << e;
            EXPECT_NEAR(std::ldexp(report.b_norm, -e), plain.b_norm, 1e-6 * plain.b_norm);
            EXPECT_LE(report.residual_norm, *s.rtol);
            for (std::size_t i = 0; i < v.size(); ++i)
              ASSERT_NEAR(std::ldexp(double(v.data()[i]), -e), double(u.data()[i]), 1e-5 * std::abs(u.data()[i])) << e;
          }
        }
      },
      {2});
}

TEST(MultigridLimits, ScalingByPowersOfTwoIsExact) {
  scales<double>({-660, 660, 990}, false);
  scales<double>({-660, 660}, true);
  scales<float>({-80, 100}, false);
}

TEST(MultigridLimits, LevelsInFloatsHaveTheirRange) {
  const auto A = make(Communicator::self(), Domain::uniform({8, 8}, Boundary::dirichlet), 0, 1e60);
  MultigridOptions o;
  const Multigrid<double> wide(A, o, precond::direct_bottom<double>());
  o.single_levels = true;
  EXPECT_THROW(Multigrid<double>(A, o), Error);
}

// A right-hand side outside of the range of a singular operator gives a warning; a compatible one does not.
TEST(MultigridLimits, WarnsOfARemovedMean) {
  on_ranks(
      [](const Communicator& comm) {
        for (const auto boundary : {Boundary::periodic, Boundary::neumann}) {
          const auto A = make(comm, Domain::uniform({16, 16}, boundary), 0);
          ASSERT_TRUE(A->singular());
          const Multigrid<double> M(A, {}, precond::direct_bottom<double>());
          auto values = A->sampled(wavy);
          Vector<double> f = vector_of(*A, values), u(A->range());
          const auto with = M.solve(f, u);
          EXPECT_TRUE(with.converged()) << to_string(with.reason);
          ASSERT_EQ(with.warnings.size(), 1u);
          EXPECT_NE(with.warnings[0].find("no u solves"), std::string::npos);
          EXPECT_GT(residual(*A, f, u), 0.1);  // f's mean, which no u removes
          double sum = 0;
          for (std::size_t i = 0; i < f.size(); ++i) sum += f.data()[i];
          f.space().start_sum(&sum, 1).wait(&sum);
          for (std::size_t i = 0; i < f.size(); ++i) f.data()[i] -= sum / 256;
          // From an initial guess with a large mean, which has to be removed before the residual can be confirmed.
          layout::fill(u, 1e4);
          const auto without = M.solve(f, u);
          EXPECT_TRUE(without.converged()) << to_string(without.reason);
          EXPECT_TRUE(without.warnings.empty());
          EXPECT_LE(residual(*A, f, u), 1.001e-10 * layout::max_norm(f));
        }
      },
      {2});
}

TEST(MultigridLimits, StopOnOneRankStopsAll) {
  on_ranks(
      [](const Communicator& comm) {
        const auto A = make(comm, Domain::uniform({16, 16, 16}, Boundary::dirichlet), 0);
        const Multigrid<double> M(A, {}, precond::direct_bottom<double>());
        Vector<double> u(A->range());
        precond::MultigridSolve s;
        s.callback = [&](int cycle, double) { return cycle == 2 && comm.rank() == comm.size() - 1; };
        const auto report = M.solve(vector_of(*A, A->sampled(wavy)), u, s);
        EXPECT_EQ(report.reason, krylov::Reason::stopped);
        EXPECT_EQ(report.cycles, 2);
        EXPECT_FALSE(report.converged());
      },
      {3});
}

// An indefinite operator, for which cycles diverge, with and without levels in float32.
TEST(MultigridLimits, AFailureIsNoWorseThanTheGuess) {
  on_ranks(
      [](const Communicator& comm) {
        int failures = 0;
        for (const double a : {-30.0, -50.0, -80.0, -200.0})  // -30 may converge, depending on the levels
          for (const bool single_levels : {false, true}) {
            const auto A = make(comm, Domain::uniform({16, 16, 16}, Boundary::dirichlet), a);
            MultigridOptions o;
            o.single_levels = single_levels;
            const Multigrid<double> M(A, o, precond::direct_bottom<double>(), precond::direct_bottom<float>());
            const auto f = vector_of(*A, A->sampled(wavy));
            for (const double guess : {0.0, 1e-3}) {
              auto u = vector_of(*A, A->sampled([=](double x, double, double) { return guess * std::cos(50 * x); }));
              const double before = residual(*A, f, u), size = layout::max_norm(f);
              const auto report = M.solve(f, u, {});
              const double after = residual(*A, f, u);
              failures += !report.converged();
              EXPECT_LE(after, report.converged() ? 1.001e-10 * size : before) << a << ": " << to_string(report.reason);
              EXPECT_NEAR(report.residual_norm, after / size, 1e-12 * (1 + after / size)) << a;
            }
          }
        EXPECT_GE(failures, 8);
      },
      {1, 2});
}

// Cycles alone would make u smaller and smaller, but never 0.
TEST(MultigridLimits, ZeroRightHandSideGivesZero) {
  on_ranks(
      [](const Communicator& comm) {
        const auto A = make(comm, Domain::uniform({9, 7}, Boundary::dirichlet), 0.5);
        const Multigrid<double> M(A, {}, precond::direct_bottom<double>());
        for (const double guess : {0.0, 1.0, 1e300}) {
          Vector<double> f(A->range()), u(A->range());
          layout::fill(u, guess);
          const auto report = M.solve(f, u);
          EXPECT_TRUE(report.converged()) << guess << ": " << to_string(report.reason);
          EXPECT_EQ(report.cycles, 0) << guess;
          EXPECT_EQ(layout::max_norm(u), 0) << guess;
        }
      },
      {1, 2});
}

TEST(MultigridLimits, RecoversAfterNaN) {
  const auto A = make(Communicator::self(), Domain::uniform({16, 16}, Boundary::dirichlet), 0);
  const auto f = vector_of(*A, A->sampled(wavy));
  for (const auto smoother : {Smoother::gauss_seidel, Smoother::chebyshev, Smoother::jacobi, Smoother::l1_jacobi}) {
    MultigridOptions o;
    o.smoother = smoother;
    const Multigrid<double> M(A, o, precond::direct_bottom<double>());
    for (const double bad : {std::nan(""), double(INFINITY)}) {
      auto g = f;
      g.data()[7] = bad;
      Vector<double> u(A->range());
      const auto broken = M.solve(g, u);
      EXPECT_EQ(broken.reason, krylov::Reason::non_finite);
      EXPECT_FALSE(broken.converged());
      Vector<double> y(A->range());
      M.apply(g, y);  // apply() of a preconditioner reports no error
      const auto after = M.solve(f, u = Vector<double>(A->range()));
      EXPECT_TRUE(after.converged()) << to_string(smoother) << ": " << to_string(after.reason);
    }
  }
}

// A periodic axis of one cell, which is its own neighbour: it contributes no coupling, however thin the cell is.
TEST(MultigridLimits, PeriodicAxisOfOneCellHasNoCoupling) {
  on_ranks(
      [](const Communicator& comm) {
        const auto on = [&](std::vector<Global> n, std::vector<double> lengths, bool constant) {
          const std::size_t axes = n.size();
          const Boxes boxes = Boxes::whole(
              comm, Domain::uniform(n, {axes, {Boundary::periodic, Boundary::periodic}}, std::move(lengths)));
          const op::Field beta = [](double x, double, double) { return 2 + std::sin(6 * x); };
          return std::make_shared<const FiniteVolume<double>>(
              boxes, op::coefficients<double>(boxes, 1, 1, {}, constant ? op::Field{} : beta));
        };
        for (const bool constant : {true, false}) {
          const auto A = on({64, 1, 1}, {1, 1e-3, 1e-3}, constant), line = on({64}, {1}, constant);
          const auto rows = A->rows();
          const auto d = A->diagonal();
          for (Local i = 0; i < rows.count(); ++i)
            for (auto e = rows.start[std::size_t(i)]; e < rows.start[std::size_t(i) + 1]; ++e) {
              const bool own = rows.column[std::size_t(e)] == A->range().begin() + i;
              if (own) {
                EXPECT_EQ(rows.value[std::size_t(e)], d[std::size_t(i)]);
              }
            }
          const auto f = vector_of(*A, A->sampled([](double x, double, double) { return std::sin(x); }));
          for (const auto smoother : {Smoother::gauss_seidel, Smoother::jacobi}) {
            MultigridOptions o;
            o.smoother = smoother;
            int cycles[2];
            for (const auto& a : {A, line}) {
              const Multigrid<double> M(a, o, precond::direct_bottom<double>());
              Vector<double> u(a->range());
              const auto report = M.solve(vector_of(*a, f.to_host()), u);
              EXPECT_TRUE(report.converged()) << to_string(report.reason);
              cycles[a == line] = report.cycles;
              EXPECT_LE(residual(*a, f, u), 1.001e-10 * layout::max_norm(f));
            }
            EXPECT_EQ(cycles[0], cycles[1]);
          }
        }
      },
      {2});
}

// Coarsening down to a single cell without fluxes to neighbours, with and without a stored diagonal.
TEST(MultigridLimits, EndsAtOneCell) {
  for (const auto boundary : {Boundary::neumann, Boundary::periodic})
    for (const bool constant : {true, false}) {
      const Boxes boxes = Boxes::whole(Communicator::self(), Domain::uniform({16, 16}, boundary));
      const auto A = std::make_shared<const FiniteVolume<double>>(
          boxes, op::coefficients<double>(
                     boxes, 0, 1, {},
                     constant ? op::Field{} : [](double x, double y, double) { return 2 + std::sin(6 * x + y); }));
      for (const bool direct : {true, false}) {
        MultigridOptions o;
        o.smallest_box = 1;
        const Multigrid<double> M(A, o, direct ? precond::direct_bottom<double>() : precond::MakeBottom<double>{});
        auto values = A->sampled(wavy);
        double mean = 0;
        for (const double v : values) mean += v / 256;
        for (double& v : values) v -= mean;
        Vector<double> u(A->range());
        const auto report = M.solve(vector_of(*A, values), u);
        EXPECT_TRUE(report.converged()) << to_string(report.reason) << " " << report.residual_norm;
        EXPECT_EQ(report.levels.back().cells[0], 1);
      }
    }
  // A grid of one cell.
  const auto A = make(Communicator::self(), Domain::uniform({1}, Boundary::dirichlet), 0);
  const Multigrid<double> M(A, {}, precond::make_bottom<double>({"cg"}));
  Vector<double> f(A->range()), u(A->range());
  layout::fill(f, 3.0);
  EXPECT_TRUE(M.solve(f, u).converged());
  EXPECT_NEAR(u.data()[0], 3 / A->diagonal()[0], 1e-14);
}

// Coefficients that are stored for a line of cells along each axis are those that are stored for all cells.
template <class T>
void expect_alike(const FiniteVolume<T>& compact, const FiniteVolume<T>& stored) {
  EXPECT_FALSE(stored.is_compact());
  const double near = 4 * double(std::numeric_limits<T>::epsilon());
  const auto rows = compact.rows(), other = stored.rows();
  ASSERT_EQ(rows.column, other.column);
  for (std::size_t k = 0; k < rows.value.size(); ++k)
    EXPECT_NEAR(rows.value[k], other.value[k], near * stored.largest());
  const auto d = compact.diagonal(), stored_d = stored.diagonal();
  ASSERT_EQ(d.size(), stored_d.size());
  for (std::size_t i = 0; i < d.size(); ++i) EXPECT_NEAR(d[i], stored_d[i], near * stored.largest());
  EXPECT_NEAR(compact.largest(), stored.largest(), near * stored.largest());
  if (!d.empty()) {
    EXPECT_EQ(compact.smallest(), double(*std::min_element(d.begin(), d.end())));
  }
  EXPECT_EQ(compact.singular(), stored.singular());
  EXPECT_TRUE(compact.intact());
  const op::Field g = [](double x, double y, double z) { return 1 + x + 2 * y + 3 * z; };
  const auto terms = compact.boundary_terms(g, g), stored_terms = stored.boundary_terms(g, g);
  for (std::size_t i = 0; i < terms.size(); ++i) EXPECT_NEAR(terms[i], stored_terms[i], 10 * near * stored.largest());
  for (const int columns : {1, 2, 3}) {
    Vector<T> x(compact.range(), columns), y(compact.range(), columns), z(compact.range(), columns);
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = T(std::sin(double(3 * i)));
    compact.apply(x, y), stored.apply(x, z);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y.data()[i], z.data()[i], 4 * near * stored.largest());
  }
}

template <class T>
void compact_as_stored() {
  constexpr auto P = Boundary::periodic, D = Boundary::dirichlet, N = Boundary::neumann;
  const std::array<std::vector<Global>, 5> sizes{{{24}, {12, 16}, {1, 8}, {8, 12, 20}, {4, 6, 1}}};
  for (const auto& n : sizes)
    for (const auto& ends : {std::array{P, P}, std::array{D, D}, std::array{N, N}, std::array{D, N}})
      on_ranks([&](const Communicator& comm) {
        std::vector<std::array<Boundary, 2>> boundary(n.size(), ends);
        if (n.size() > 1) boundary[1] = {N, D};
        const Boxes boxes = Boxes::whole(comm, Domain::uniform(n, boundary));
        for (const double a : {0.0, 0.7}) {
          const FiniteVolume<T> A(boxes, op::coefficients<T>(boxes, a, 0.9, {}, {}));
          const op::Field one = [](double, double, double) { return 1.0; };
          const FiniteVolume<T> B(boxes, op::coefficients<T>(boxes, a, 0.9, {}, one));
          EXPECT_TRUE(A.is_compact());
          expect_alike(A, B);
          EXPECT_FALSE(A.moved(boxes.gathered(2))->is_compact());
          expect_alike(*A.moved(boxes.gathered(2)), *B.moved(boxes.gathered(2)));
          if constexpr (std::same_as<T, double>) expect_alike(*A.template cast<float>(), *B.template cast<float>());
          if (n[0] % 2 || comm.size() > 1) continue;  // no coarse cell may belong to two ranks
          Domain coarse = boxes.domain();
          std::array<std::vector<Local>, 3> parent;
          for (int axis = 0; axis < 3; ++axis) {
            const auto ax = std::size_t(axis);
            const Global cells = boxes.domain().cells(axis), by = axis == 0 ? 2 : 1;
            for (Global i = 0; i < cells; ++i) parent[ax].push_back(Local(i / by));
            if (by == 1) continue;
            coarse.faces[ax].clear();
            for (Global i = 0; i <= cells; i += by)
              coarse.faces[ax].push_back(boxes.domain().faces[ax][std::size_t(i)]);
          }
          const Boxes joined = boxes.coarsened(coarse, parent, true);
          const auto C = A.coarsened(joined, parent), E = B.coarsened(joined, parent);
          EXPECT_TRUE(C->is_compact());
          expect_alike(*C, *E);
        }
      });
}
TEST(MultigridLimits, CompactCoefficientsAreThoseOfAllCells) {
  compact_as_stored<double>();
  compact_as_stored<float>();
}

// Where one rank solves on the coarsest level alone, all ranks report its failure.
TEST(MultigridLimits, FailureOfTheCoarsestLevelReachesAllRanks) {
  on_ranks(
      [](const Communicator& comm) {
        const auto A = make(comm, Domain::uniform({16, 16, 16}, Boundary::dirichlet), 0);
        precond::BottomOptions bottom{"cg"};
        bottom.krylov.max_iterations = 1, bottom.krylov.rtol = 1e-8;
        MultigridOptions o;
        o.levels = 2;
        const Multigrid<double> M(A, o, precond::make_bottom<double>(bottom));
        Vector<double> u(A->range());
        const auto report = M.solve(vector_of(*A, A->sampled(wavy)), u);
        EXPECT_EQ(report.levels.back().ranks, 1);
        EXPECT_EQ(report.bottom_failures, report.bottom_solves);
        ASSERT_FALSE(report.warnings.empty());
        EXPECT_NE(report.warnings[0].find("bottom cg"), std::string::npos);
        EXPECT_TRUE(report.converged()) << to_string(report.reason);  // the smoother alone suffices
      },
      {3});
}

TEST(MultigridLimits, RefusesUnusedOptions) {
  for (const std::string name : {"direct", "smoother", "automatic"}) {
    precond::BottomOptions bottom{name};
    bottom.krylov.step = 4;
    EXPECT_THROW(precond::make_bottom<double>(bottom), Error) << name;
  }
}

}  // namespace
