// Multigrid for stencils wider than the nearest neighbours, and interpolation of higher order: orders of convergence,
// cycles, ranks.
#include <gtest/gtest.h>

#include <tacit/app/multigrid/bottom.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <functional>
#include <numbers>

using namespace tacit;
using comm::Communicator;
using layout::Vector;
using op::Boundary;
using op::Boxes;
using op::CellStencil;
using op::Domain;
using op::FiniteVolume;
using precond::Cycle;
using precond::Interpolation;
using precond::Multigrid;
using precond::MultigridOptions;
using precond::Smoother;
using test::on_ranks;

namespace {

constexpr double pi = std::numbers::pi;

// u = product of sin(w t + phase), beta and alpha with their derivatives, and f = a alpha u - b div(beta grad u).
struct Manufactured {
  int axes = 3;
  double w = 2 * pi, phase = 0.3;
  bool varies = true;
  double a = 0.7, b = 0.9;
  bool flux = true;  // fluxes at Neumann boundaries are given, else 0

  double u(const double* x) const {
    double v = 1;
    for (int d = 0; d < axes; ++d) v *= std::sin(w * x[d] + phase);
    return v;
  }
  double slope(const double* x, int of) const {
    double v = 1;
    for (int d = 0; d < axes; ++d) v *= d == of ? w * std::cos(w * x[d] + phase) : std::sin(w * x[d] + phase);
    return v;
  }
  double alpha(const double* x) const { return varies ? 1 + 0.4 * std::cos(2 * pi * x[0]) : 1; }
  double beta(const double* x) const {
    return varies ? 1.5 + 0.4 * std::sin(2 * pi * x[0]) + 0.5 * std::cos(2 * pi * (x[axes - 1] + x[0])) : 1;
  }
  double f(const double* x) const {
    double flow = 0;
    if (varies) {
      const double k = 2 * pi, s = -0.5 * k * std::sin(k * (x[axes - 1] + x[0]));
      if (axes > 1) flow = (0.4 * k * std::cos(k * x[0]) + s) * slope(x, 0) + s * slope(x, axes - 1);
      else flow = (0.4 * k * std::cos(k * x[0]) - 0.5 * 2 * k * std::sin(2 * k * x[0])) * slope(x, 0);
    }
    return a * alpha(x) * u(x) - b * (flow - axes * w * w * beta(x) * u(x));
  }
  template <class F>
  static op::Field field(F&& f) {
    return [f](double x, double y, double z) {
      const double at[3] = {x, y, z};
      return f(at);
    };
  }
};

std::shared_ptr<const FiniteVolume<double>> make(const Boxes& boxes, const Manufactured& m, CellStencil stencil) {
  op::Field alpha, beta;
  if (m.varies && stencil != CellStencil::twenty_seven_point) {
    alpha = m.field([m](const double* x) { return m.alpha(x); });
    beta = m.field([m](const double* x) { return m.beta(x); });
  }
  return std::make_shared<const FiniteVolume<double>>(boxes,
                                                      op::coefficients<double>(boxes, m.a, m.b, alpha, beta, stencil));
}

// The right-hand side with the boundary terms, and the solution, sampled as the operator does.
std::pair<Vector<double>, Vector<double>> right_and_exact(const FiniteVolume<double>& A, const Manufactured& m) {
  Vector<double> f(A.range()), u(A.range());
  f.assign(A.sampled(m.field([m](const double* x) { return m.f(x); })));
  u.assign(A.sampled(m.field([m](const double* x) { return m.u(x); })));
  const Domain& d = A.boxes().domain();
  const auto value = m.field([m](const double* x) { return m.u(x); });
  const auto flux = m.field([m, &d](const double* x) {
    for (int a = 0; a < d.dimensions; ++a)
      for (int side = 0; side < 2; ++side)
        if (d.boundary[std::size_t(a)][std::size_t(side)] == Boundary::neumann && std::abs(x[a] - side) < 1e-12)
          return (side ? 1 : -1) * m.beta(x) * m.slope(x, a);
    return 0.0;
  });
  const auto terms = A.boundary_terms(value, m.flux ? flux : op::Field{});
  for (std::size_t i = 0; i < f.size(); ++i) f.data()[i] += terms[i];
  return {std::move(f), std::move(u)};
}

double difference(const Vector<double>& a, const Vector<double>& b, bool mean = false) {
  double most = 0, shift = 0;
  for (std::size_t i = 0; mean && i < a.size(); ++i) shift += (a.data()[i] - b.data()[i]) / double(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a.data()[i] - b.data()[i] - shift));
  return most;
}

struct Orders {
  const char* name;
  Manufactured m;
  std::vector<std::array<Boundary, 2>> boundary;
  CellStencil stencil;
  Global n;
  double least, most;
};

// The weights of the ghosts of HPGMG's fourth-order operator at boundaries with the value 0.
TEST(MultigridWide, GhostsOfTheFourthOrder) {
  const double faces[] = {0, 0.5, 1, 1.5, 2};
  const double near[] = {-77, 43, -17, 3}, far[] = {-505, 335, -145, 27};
  const auto first = op::average_weights(faces, op::Given::value, 0, -0.5, 0);
  const auto second = op::average_weights(faces, op::Given::value, 0, -1, -0.5);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(first[i], near[i] / 12, 1e-12 * 505);
    EXPECT_NEAR(second[i], far[i] / 12, 1e-12 * 505);
  }
}

TEST(MultigridWide, OrderOfTheError) {
  if (test::under_mpi()) return;
  const auto D = Boundary::dirichlet, N = Boundary::neumann, P = Boundary::periodic;
  const auto fourth = CellStencil::fourth_order, compact = CellStencil::twenty_seven_point;
  const Manufactured periodic{3, 2 * pi, 0.3, true, 0.7, 0.9}, line{1, 2.1, 0.3, true, 0, 0.9},
      plane{2, 2.1, 0.3, true, 0.7, 0.9}, box{3, 2.1, 0.3, true, 0.0, 0.9}, constant{3, 2.1, 0.3, false, 0.0, 0.9},
      flat{2, 2.1, 0.3, false, 0.4, 0.9}, cosine{2, pi, pi / 2, true, 0.7, 0.9, false};
  const Orders cases[] = {
      {"periodic", periodic, {{P, P}, {P, P}, {P, P}}, fourth, 16, 3.7, 5},
      {"line", line, {{D, D}}, fourth, 32, 3.7, 5},
      {"plane", plane, {{D, D}, {D, D}}, fourth, 32, 3.7, 5},
      {"box", box, {{D, D}, {D, D}, {D, D}}, fourth, 16, 3.7, 5},
      {"constant", constant, {{D, D}, {D, N}, {N, N}}, fourth, 16, 3.7, 5},
      {"flat", flat, {{D, N}, {N, D}}, fourth, 32, 3.7, 5},
      {"cosine", cosine, {{N, N}, {N, N}}, fourth, 32, 3.7, 5},
      {"27 periodic", periodic, {{P, P}, {P, P}, {P, P}}, compact, 16, 1.9, 2.3},
      {"27", constant, {{D, D}, {D, N}, {N, N}}, compact, 16, 1.9, 2.3},
      {"9", flat, {{D, N}, {N, D}}, compact, 32, 1.9, 2.3},
      {"3 points", {1, 2.1, 0.3, false, 0, 0.9}, {{D, N}}, compact, 32, 1.9, 2.3},
  };
  for (auto c : cases) {
    double error[2];
    int cycles = 0;
    if (c.stencil == compact) c.m.varies = false;
    for (int i = 0; i < 2; ++i) {
      const Boxes boxes = Boxes::whole(
          Communicator::self(), Domain::uniform(std::vector<Global>(std::size_t(c.m.axes), c.n << i), c.boundary));
      const auto A = make(boxes, c.m, c.stencil);
      const auto [f, exact] = right_and_exact(*A, c.m);
      const Multigrid<double> M(A, {}, precond::direct_bottom<double>());
      Vector<double> u(A->range());
      precond::MultigridSolve o;
      o.rtol = 1e-10;
      const auto report = M.solve(f, u, o);
      EXPECT_TRUE(report.converged()) << c.name << " " << to_string(report.reason) << " " << report.residual_norm;
      error[i] = difference(u, exact, A->singular());
      cycles = report.cycles;
    }
    const double order = std::log2(error[0] / error[1]);
    EXPECT_GE(order, c.least) << c.name;
    EXPECT_LE(order, c.most) << c.name;
    EXPECT_LE(cycles, c.m.axes > 1 ? 12 : 30) << c.name;
  }
}

// The 27-point stencil has the error h^2/12 lap lap u: adding h^2/12 lap f to the right-hand side gives order four.
TEST(MultigridWide, CompactStencilOfOrderFour) {
  if (test::under_mpi()) return;
  const Manufactured m{3, 2 * pi, 0.3, false, 0.0, 0.9};
  double error[2];
  for (int i = 0; i < 2; ++i) {
    const Global n = 8 << i;
    const auto A = make(Boxes::whole(Communicator::self(), Domain::uniform({n, n, n}, Boundary::periodic)), m,
                        CellStencil::twenty_seven_point);
    auto [f, exact] = right_and_exact(*A, m);
    const double h = 1.0 / double(n);  // lap f = -3 w^2 f
    for (std::size_t k = 0; k < f.size(); ++k) f.data()[k] *= 1 - h * h / 12 * 3 * m.w * m.w;
    Vector<double> u(A->range());
    EXPECT_TRUE(Multigrid<double>(A, {}, precond::direct_bottom<double>()).solve(f, u).converged());
    error[i] = difference(u, exact);
  }
  EXPECT_NEAR(std::log2(error[0] / error[1]), 4, 0.15);
}

TEST(MultigridWide, CyclesSmoothersAndSizes) {
  on_ranks(
      [](const Communicator& comm) {
        const auto D = Boundary::dirichlet, N = Boundary::neumann, P = Boundary::periodic;
        struct Case {
          std::vector<Global> n;
          std::vector<std::array<Boundary, 2>> boundary;
          int most;
          std::function<void(MultigridOptions&)> set;
        };
        using O = MultigridOptions;
        const std::vector<std::array<Boundary, 2>> plane{{D, N}, {P, P}}, box{{D, D}, {P, P}, {N, D}};
        const std::vector<Case> cases{
            {{32, 32}, plane, 14, [](O&) {}},
            {{32, 32}, plane, 14, [](O& o) { o.cycle = Cycle::w; }},
            {{32, 32}, plane, 14, [](O& o) { o.cycle = Cycle::f; }},
            {{32, 32}, plane, 14, [](O& o) { o.cycle = Cycle::u; }},
            {{32, 32}, plane, 24, [](O& o) { o.smoother = Smoother::chebyshev, o.pre = o.post = 3; }},
            {{32, 32}, plane, 24, [](O& o) { o.smoother = Smoother::jacobi, o.pre = o.post = 3; }},
            {{32, 32}, plane, 40, [](O& o) { o.smoother = Smoother::l1_jacobi, o.pre = o.post = 4; }},
            {{32, 32}, plane, 24, [](O& o) { o.interpolation = Interpolation::constant; }},
            {{32, 32}, plane, 24, [](O& o) { o.interpolation = o.restriction = Interpolation::linear; }},
            {{32, 32}, plane, 24, [](O& o) { o.interpolation = Interpolation::cubic; }},
            {{32, 32}, plane, 16, [](O& o) { o.single_levels = true; }},
            {{21, 18}, plane, 30, [](O&) {}},
            {{16, 12, 20}, box, 18, [](O&) {}},
            {{16, 12, 20}, box, 18, [](O& o) { o.pre = 0, o.post = 4; }},
            {{64}, {{D, D}}, 30, [](O&) {}},
        };
        for (const auto stencil :
             {CellStencil::seven_point, CellStencil::twenty_seven_point, CellStencil::fourth_order})
          for (const auto& c : cases) {
            Manufactured m{int(c.n.size()), 2 * pi, 0.3, stencil == CellStencil::fourth_order, 0.4, 0.9, false};
            std::vector<double> lengths;  // cells are cubes
            for (const Global n : c.n) lengths.push_back(double(n) / double(c.n[0]));
            const auto A = make(Boxes::whole(comm, Domain::uniform(c.n, c.boundary, lengths)), m, stencil);
            const auto f = right_and_exact(*A, m).first;
            MultigridOptions o;
            c.set(o);
            const Multigrid<double> M(A, o, precond::direct_bottom<double>(), precond::direct_bottom<float>());
            Vector<double> u(A->range()), r(A->range());
            precond::MultigridSolve s;
            s.rtol = 1e-9;
            const auto report = M.solve(f, u, s);
            EXPECT_TRUE(report.converged()) << to_string(stencil) << ", case " << &c - cases.data() << ": "
                                            << to_string(report.reason) << " " << report.residual_norm;
            EXPECT_LE(report.cycles, c.most) << to_string(stencil) << ", case " << &c - cases.data();
            A->apply(u, r);
            layout::subtract(f, r, r);
            EXPECT_LE(layout::max_norm(r), 1e-9 * layout::max_norm(f) * 1.001);
          }
      },
      {3});
}

TEST(MultigridWide, AnyRanksAndBoxesGiveOneResult) {
  const auto D = Boundary::dirichlet, N = Boundary::neumann, P = Boundary::periodic;
  for (const auto stencil : {CellStencil::twenty_seven_point, CellStencil::fourth_order}) {
    const Manufactured m{3, 2 * pi, 0.3, stencil == CellStencil::fourth_order, 0.4, 0.9, false};
    const auto solved = [&](const Communicator& comm, std::array<Global, 3> edge, bool moves) {
      const auto A =
          make(Boxes::whole(comm, Domain::uniform({16, 16, 16}, {{D, N}, {P, P}, {D, D}}), edge), m, stencil);
      MultigridOptions o;
      o.agglomerate_below = moves ? 1000 : 0;
      o.levels = 2;
      o.restriction = Interpolation::linear;
      const Multigrid<double> M(A, o, precond::direct_bottom<double>());
      Vector<double> u(A->range());
      precond::MultigridSolve s;
      s.rtol = 1e-12;
      const auto report = M.solve(right_and_exact(*A, m).first, u, s);
      EXPECT_TRUE(report.converged()) << to_string(report.reason) << " " << report.residual_norm;
      std::vector<double> all = comm.all_gather(std::span<const double>(u.data(), u.size())), grid;
      for (Global i = 0; i < 4096; ++i)
        grid.push_back(all[std::size_t(A->boxes().index({i % 16, i / 16 % 16, i / 256}))]);
      return std::pair{grid, report.cycles};
    };
    const auto [first, cycles] = solved(Communicator::self(), {0, 0, 0}, true);
    double size = 0;
    for (const double v : first) size = std::max(size, std::abs(v));
    for (const bool moves : {false, true})
      for (const std::array<Global, 3> edge : {std::array<Global, 3>{4, 16, 8}, {8, 4, 8}})
        on_ranks(
            [&](const Communicator& comm) {
              const auto [grid, again] = solved(comm, edge, moves);
              EXPECT_EQ(again, cycles);
              for (std::size_t i = 0; i < grid.size(); ++i) ASSERT_NEAR(grid[i], first[i], 1e-12 * size);
            },
            {2, 4});
  }
}

// A single F-cycle, with u = 0 on the boundary.
TEST(MultigridWide, OneFullCycleReachesTheDiscretisation) {
  if (test::under_mpi()) return;
  for (const auto stencil : {CellStencil::seven_point, CellStencil::twenty_seven_point, CellStencil::fourth_order})
    for (const bool varies : {false, true}) {
      if (varies && stencil == CellStencil::twenty_seven_point) continue;
      const Manufactured m{3, pi, 0.0, varies, 0.0, 1.0};
      const auto A =
          make(Boxes::whole(Communicator::self(), Domain::uniform({32, 32, 32}, Boundary::dirichlet)), m, stencil);
      const auto [f, exact] = right_and_exact(*A, m);
      Vector<double> u(A->range());
      Multigrid<double>(A, {}, precond::direct_bottom<double>()).solve(f, u);
      const double discretisation = difference(u, exact);
      MultigridOptions o;
      o.cycle = Cycle::f;
      if (stencil == CellStencil::fourth_order) o.pre = o.post = 3;
      else o.full_interpolation = Interpolation::quadratic;
      Multigrid<double>(A, o, precond::direct_bottom<double>()).apply(f, u);
      EXPECT_LE(difference(u, exact), 1.1 * discretisation) << to_string(stencil) << " " << varies;
    }
}

TEST(MultigridWide, RefusesDomainsThatItsStencilsDoNotSupport) {
  on_ranks(
      [](const Communicator& comm) {
        const auto D = Boundary::dirichlet, N = Boundary::neumann;
        const auto fourth = CellStencil::fourth_order, compact = CellStencil::twenty_seven_point;
        const auto made = [&](const Boxes& boxes, CellStencil stencil, const op::Field& beta = {}) {
          return std::make_shared<const FiniteVolume<double>>(boxes,
                                                              op::coefficients<double>(boxes, 0, 1, {}, beta, stencil));
        };
        const op::Field one = [](double, double, double) { return 1.0; };
        const auto ell = Boxes::within(comm, Domain::uniform({16, 16}, D), {4, 4, 1},
                                       [](double x, double y, double) { return x < 0.5 || y < 0.5; });
        EXPECT_THROW(made(ell, fourth), Error);
        EXPECT_THROW(made(ell, compact), Error);
        const auto flat = Boxes::whole(comm, Domain::uniform({16, 8}, D));
        EXPECT_THROW(made(flat, compact), Error);
        EXPECT_NO_THROW(made(flat, fourth));
        EXPECT_THROW(made(Boxes::whole(comm, Domain::uniform({16, 16}, D)), compact, one), Error);
        Domain uneven = Domain::uniform({16, 16}, D);
        uneven.faces[0][3] += 0.01;
        EXPECT_THROW(made(Boxes::whole(comm, uneven), fourth), Error);
        const op::CellBox thin[] = {{{0, 0, 0}, {1, 16, 1}}, {{1, 0, 0}, {16, 16, 1}}};
        const int owners[] = {0, comm.size() - 1};
        if (comm.size() > 1) {
          EXPECT_THROW(made(Boxes(comm, Domain::uniform({16, 16}, D), thin, owners), fourth), Error);
          // Also where the axis has three cells in all: a box would need cells beyond the other box.
          const op::CellBox few[] = {{{0, 0, 0}, {1, 1, 1}}, {{1, 0, 0}, {3, 1, 1}}};
          EXPECT_THROW(made(Boxes(comm, Domain::uniform({3}, D), few, owners), fourth), Error);
          EXPECT_NO_THROW(made(Boxes(comm, Domain::uniform({3}, Boundary::periodic), few, owners), fourth));
        }
        EXPECT_NO_THROW(made(Boxes::whole(comm, Domain::uniform({1}, D)), fourth));
        const auto varying = made(Boxes::whole(comm, Domain::uniform({16, 16}, N)), fourth, one);
        EXPECT_THROW(comm::collective(comm, [&] { return varying->boundary_terms({}, one); }), Error);
        EXPECT_FALSE(varying->has_adjoint());
        MultigridOptions o;
        o.interpolation = Interpolation::quadratic;
        EXPECT_THROW(Multigrid<double>(made(ell, CellStencil::seven_point), o), Error);
        o = {};
        o.full_interpolation = Interpolation::quadratic;
        EXPECT_THROW(Multigrid<double>(made(flat, fourth), o), Error);
      },
      {2});
}

// The decisions of "automatic" for given costs: 4096 ranks as in the paper, with expensive reductions; ranks with cheap
// messages.
TEST(MultigridChoice, FollowsTheMeasuredCosts) {
  if (test::under_mpi()) return;
  precond::Fork fork;
  fork.cells = {64, 64, 64}, fork.ranks = 4096, fork.fewer = 64, fork.least_box = 4, fork.smallest_box = 4;
  fork.product = fork.pair = 10e-6, fork.sum = 60e-6, fork.bandwidth = 2e9;
  EXPECT_TRUE(app::choose_at(fork).move) << app::choose_at(fork).why;
  // Nothing is gained by fewer ranks where the bottom is small and messages are cheap.
  fork.cells = {16, 16, 16}, fork.ranks = 2, fork.fewer = 1, fork.least_box = 8, fork.smallest_box = 2;
  fork.product = fork.pair = 1e-6, fork.sum = 1e-7, fork.bandwidth = 0.05e9;
  EXPECT_FALSE(app::choose_at(fork).move) << app::choose_at(fork).why;
  std::string why;
  EXPECT_EQ(precond::cheapest_step({5e-6, 6e-6, 1e-7, 1e-7}, why), 0) << why;   // reductions cost nothing
  EXPECT_GE(precond::cheapest_step({5e-6, 6e-6, 1e-7, 60e-6}, why), 4) << why;  // reductions dominate
  EXPECT_NE(why.find("ca-bicgstab"), std::string::npos);
  // seconds_an_iteration of bicgstab counts three reductions, of the s-step method with s = 4 a quarter of one.
  EXPECT_NEAR(precond::seconds_an_iteration(0, {0, 0, 0, 1}), 3, 1e-12);
  EXPECT_NEAR(precond::seconds_an_iteration(4, {0, 0, 0, 1}), 0.25, 1e-12);
}

TEST(MultigridChoice, CellsMoveOrStay) {
  on_ranks(
      [](const Communicator& comm) {
        const Manufactured m{3, 2 * pi, 0.3, false, 0.4, 0.9};
        const auto A =
            make(Boxes::whole(comm, Domain::uniform({32, 32, 32}, Boundary::periodic)), m, CellStencil::seven_point);
        const auto f = right_and_exact(*A, m).first;
        for (const bool move : {true, false}) {
          int asked = 0;
          MultigridOptions o;
          o.agglomerates = [&](const precond::Fork& fork) {
            ++asked;
            EXPECT_EQ(fork.ranks, comm.size());
            EXPECT_LT(fork.fewer, fork.ranks);
            EXPECT_GT(fork.product, 0);
            EXPECT_GT(fork.sum, 0);
            return precond::ForkChoice{move, move ? "moved" : "stayed"};
          };
          const auto M = app::make_multigrid<double>(A, o, {});
          Vector<double> u(A->range());
          const auto report = M->solve(f, u);
          EXPECT_TRUE(report.converged());
          EXPECT_EQ(asked, comm.size() > 1);
          if (comm.size() > 1) {
            EXPECT_EQ(report.bottom_choice.substr(0, 5), move ? "moved" : "staye");
            EXPECT_EQ(report.levels.back().ranks, move ? 1 : comm.size());
          }
        }
        Vector<double> u(A->range());
        const auto report = app::make_multigrid<double>(A, {}, {})->solve(f, u);
        EXPECT_TRUE(report.converged());
        EXPECT_EQ(report.bottom_choice.empty(), comm.size() == 1) << report.bottom_choice;
      },
      {2, 3});
}

}  // namespace
