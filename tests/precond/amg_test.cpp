// Algebraic multigrid compared with its definition, and its convergence.
#include "../../src/precond/amg/aggregates.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using layout::Partition;
using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgOptions;
using precond::AmgSmoother;
using precond::Cycle;

constexpr AmgSmoother all_smoothers[] = {AmgSmoother::spai0, AmgSmoother::jacobi, AmgSmoother::l1_jacobi,
                                         AmgSmoother::gauss_seidel, AmgSmoother::chebyshev};

template <class T>
class AmgOf : public testing::Test {};
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(AmgOf, Scalars);

/// -Laplace by 5 or 7 points with Dirichlet boundaries; with Neumann boundaries, where every row sums to 0.
Whole<double> laplacian(Global nx, Global ny, Global nz, bool neumann = false) {
  Whole<double> a;
  a.n = nx * ny * nz;
  const double degree = nz > 1 ? 6 : 4;
  for (Global z = 0; z < nz; ++z)
    for (Global y = 0; y < ny; ++y)
      for (Global x = 0; x < nx; ++x) {
        const Global i = x + nx * (y + ny * z);
        const bool there[] = {z > 0, y > 0, x > 0, x + 1 < nx, y + 1 < ny, z + 1 < nz};
        const Global step[] = {-nx * ny, -nx, -1, 1, nx, nx * ny};
        double neighbours = 0;
        for (const bool b : there) neighbours += b;
        for (int d = 0; d < 6; ++d) {
          if (d == 3) a.push(i, neumann ? neighbours : degree);
          if (there[d]) a.push(i + step[d], -1);
        }
        a.end_row();
      }
  return a;
}

template <class T>
struct Solved {
  int iterations = 0;
  double residual = 1;
};
template <class T>
Solved<T> solve(const Whole<T>& a, const Space& space, const AmgOptions<T>& options,
                krylov::Method method = krylov::Method::cg) {
  const auto A = a.on(space);
  const Amg<T> M(*A, options);
  const auto b = random_vector<T>(a.n, 3);
  Vector<T> x(space);
  krylov::Options o;
  o.method = method;
  o.rtol = 1e-8;
  const auto report = krylov::solve<T, Host>(*A, &M, spread(space, b), x, o, method == krylov::Method::cg);
  EXPECT_TRUE(report.converged()) << report.detail;
  return {report.iterations, double(residual_of(a, b, whole(x)))};
}

Space uneven(const comm::Communicator& comm, Global n) {
  std::vector<Global> offsets{0};
  for (int r = 1; r <= comm.size(); ++r)
    offsets.push_back(r == comm.size() ? n : n * r * r / (comm.size() * comm.size()));
  return Space::distributed(comm, Partition(offsets));
}
/// Every second rank has no rows.
Space gaps(const comm::Communicator& comm, Global n) {
  std::vector<Global> offsets{0};
  for (int r = 1; r <= comm.size(); ++r) offsets.push_back(r == comm.size() ? n : n * (r - r % 2) / comm.size());
  return Space::distributed(comm, Partition(offsets));
}

/// A matrix with nodes of `block` unknowns, the couplings of which are of all sizes, some diagonals zero or absent.
template <class T>
Reference<T> coupled(Global n) {
  return random_matrix<T>(n, n, 3, [n](Global i, Global j) {
    return i % 13 != 5 && (i == j || (i * 7 + j * 5) % 11 < 2 || (i * 5 + j * 7) % 11 < 2) && !(i == j && i == n - 1);
  });
}

TYPED_TEST(AmgOf, StrongCouplingsAndDampingByTheirDefinition) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const Global n = 36;
    const double theta = 0.6, omega = 0.7;
    const auto a = coupled<T>(n);
    const auto at = [&](Global i, Global j) {
      const auto found = a.entry.find({i, j});
      return found == a.entry.end() ? T(0) : found->second;
    };
    for (const Global block : {1, 2, 3}) {
      std::vector<Global> counts(std::size_t(comm.size()), 6);
      counts.back() = n - 6 * (comm.size() - 1);
      const auto space = Space::distributed(comm, Partition::of_counts(counts));
      const auto rows = a.rows_of(space);
      precond::Nodes nodes;
      for (Local i = 0; i < space.local_size(); i += Local(block)) nodes.start.push_back(i + Local(block));
      const auto roots = precond::diagonal_roots(rows, space);
      const auto strong = precond::strong_couplings(rows, space, nodes, roots, theta);
      const auto norm = [&](Global I, Global J) {
        double sum = 0;
        for (Global i = I * block; i < (I + 1) * block; ++i)
          for (Global j = J * block; j < (J + 1) * block; ++j) sum += std::norm(std::complex<double>(at(i, j)));
        return std::sqrt(sum);
      };
      const auto is_strong = [&](Global I, Global J) {
        return I != J && norm(I, J) > theta * std::sqrt(norm(I, I) * norm(J, J));
      };
      const Global first = space.begin() / block, last = space.end() / block;
      for (Global I = first; I < last; ++I) {
        std::vector<Local> expected;
        for (Global J = first; J < last; ++J)
          if (is_strong(I, J)) expected.push_back(Local(J - first));
        const auto begin = strong.node.begin() + strong.start[std::size_t(I - first)],
                   end = strong.node.begin() + strong.start[std::size_t(I - first) + 1];
        EXPECT_EQ(std::vector<Local>(begin, end), expected) << "node " << I << " of " << block;
        for (auto k = begin; k != end; ++k) {
          const Global J = first + *k;
          const double scale = std::sqrt(norm(I, I) * norm(J, J)),
                       size = strong.size[std::size_t(k - strong.node.begin())];
          EXPECT_NEAR(size, scale > 0 ? norm(I, J) / scale : 1, 1e-5 * size);
        }
      }
      std::vector<T> diagonal;
      std::vector<T> given;  // a near-null vector, with zeros; not for nodes of two
      for (Global i = 0; i < n; ++i) given.push_back(i % 7 == 3 ? T(0) : number<T>(9, std::uint64_t(i)));
      const precond::ByColumn<T> v(rows, space, {given.begin() + space.begin(), given.begin() + space.end()});
      const precond::DampedIdentity<T> smoothing(rows, space, nodes, strong, roots, block == 2 ? nullptr : &v, theta,
                                                 omega);
      const auto damped = smoothing.rows(diagonal);
      if (block == 1) {  // by entries, as nodes of one row each have it
        auto filter = precond::strong_entries(rows, space, roots, theta);
        for (Local i = 0; i < rows.count(); ++i)
          for (Global k = rows.start[std::size_t(i)]; k < rows.start[std::size_t(i) + 1]; ++k)
            EXPECT_EQ(bool(filter[std::size_t(k)]), is_strong(space.begin() + i, rows.column[std::size_t(k)]));
        Local count = 0, as_many = 0;
        EXPECT_EQ(precond::aggregates_of(rows, space, roots, filter, count), precond::aggregates_of(strong, as_many));
        EXPECT_EQ(count, as_many);
        std::vector<T> same_diagonal;
        const auto same =
            precond::DampedIdentity<T>(rows, space, filter, &v, omega, false).rows(same_diagonal, filter.data());
        EXPECT_EQ(same.column, damped.column);
        EXPECT_EQ(same.value, damped.value);
        EXPECT_EQ(same_diagonal, diagonal);
        const auto again = precond::DampedIdentity<T>(rows, space, filter, &v, omega, true).rows(same_diagonal);
        EXPECT_EQ(again.column, damped.column);
        EXPECT_EQ(again.value, damped.value);
      }
      for (Global i = space.begin(); i < space.end(); ++i) {
        const auto stays = [&](Global j) {
          if (j >= space.begin() && j < space.end()) return i / block == j / block || is_strong(i / block, j / block);
          return double(std::abs(at(i, j))) > theta * std::sqrt(double(std::abs(at(i, i))) * std::abs(at(j, j)));
        };
        T d = at(i, i);
        for (Global j = 0; j < n; ++j)
          if (j != i && !stays(j))
            d += at(i, j) *
                 (block == 2 || given[std::size_t(i)] == T(0) ? T(1) : given[std::size_t(j)] / given[std::size_t(i)]);
        const double own = double(std::abs(at(i, i)));
        if (std::abs(d) < 0.25 * own || (own > 0 && std::abs(d) > 4 * own)) d = at(i, i);
        std::vector<T> expected(std::size_t(n), T(0)), found(std::size_t(n), T(0));
        for (Global j = 0; j < n; ++j)
          if (j != i && d != T(0) && stays(j)) expected[std::size_t(j)] = T(real_t<T>(-omega)) * at(i, j) / d;
        expected[std::size_t(i)] = T(real_t<T>(d != T(0) ? 1 - omega : 1));
        const auto row = std::size_t(i - space.begin());
        for (Global k = damped.start[row]; k < damped.start[row + 1]; ++k)
          found[std::size_t(damped.column[std::size_t(k)])] += damped.value[std::size_t(k)];
        for (std::size_t j = 0; j < found.size(); ++j)
          EXPECT_LE(std::abs(found[j] - expected[j]), tolerance<T>(100) * (1 + std::abs(expected[j])))
              << i << ", " << j << ", nodes of " << block;
        EXPECT_LE(std::abs(diagonal[row] - d), tolerance<T>(20));
      }
    }
  });
}

/// Node 0 founds an aggregate with 1, and 2 with 3. 4 is coupled to 1 more than to 3. 5 is coupled to 4 most, but joins
/// an aggregate of the first pass. 6 has no couplings; 7 and 8 have those to 1 lost to underflow.
TEST(Amg, AggregatesOfAGraph) {
  precond::Couplings strong;
  const auto node = [&](std::vector<std::pair<Local, float>> couplings) {
    for (const auto& [j, size] : couplings) strong.node.push_back(j), strong.size.push_back(size);
    strong.start.push_back(Global(strong.node.size()));
    strong.outside.push_back(0);
  };
  node({{1, 0.5f}});
  node({{0, 0.5f}, {4, 0.6f}, {7, 0.f}, {8, 0.f}});
  node({{3, 0.5f}});
  node({{2, 0.5f}, {4, 0.3f}, {5, 0.2f}});
  node({{1, 0.6f}, {3, 0.3f}, {5, 0.9f}});
  node({{3, 0.2f}, {4, 0.9f}});
  node({});
  node({{1, 0.f}, {8, 0.4f}});
  node({{1, 0.f}, {7, 0.4f}});
  Local count = 0;
  const auto of = precond::aggregates_of(strong, count);
  EXPECT_EQ(of, (std::vector<Local>{0, 0, 1, 1, 0, 1, -1, 2, 2}));
  EXPECT_EQ(count, 3);
  strong.outside[6] = 1;  // is an aggregate by itself, to be joined on coarser levels
  EXPECT_EQ(precond::aggregates_of(strong, count), (std::vector<Local>{0, 0, 1, 1, 0, 1, 2, 3, 3}));
}

TYPED_TEST(AmgOf, CoarseMatricesAreGalerkinProducts) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<T>(23, 19);
    for (const auto& space : {Space::distributed(comm, a.n), uneven(comm, a.n), gaps(comm, a.n)}) {
      AmgOptions<T> o;
      o.coarsest = 5;
      const auto A = a.on(space);
      const Amg<T> M(*A, o);
      expect_galerkin(M);
      EXPECT_GE(M.operator_complexity(), 1);
      EXPECT_LE(M.operator_complexity(), 3);
      EXPECT_EQ(M.levels()[0].rows, a.n);
    }
  });
}

/// The coefficients of v in P's columns by the normal equations, dense, and the largest error of P times these.
std::vector<double> coefficients(const op::Csr<double>& P, const std::vector<double>& v, double& error) {
  const auto m = std::size_t(P.domain().size());
  Dense<double> p;
  for (std::size_t c = 0; c < m; ++c) {
    std::vector<double> e(m, 0.0);
    e[c] = 1;
    Vector<double> y(P.range());
    P.apply(spread(P.domain(), e), y);
    p.push_back(whole(y));
  }
  Dense<double> normal(m, std::vector<double>(m, 0.0));
  std::vector<double> rhs(m, 0.0);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < v.size(); ++k) {
      rhs[i] += p[i][k] * v[k];
      for (std::size_t j = 0; j < m; ++j) normal[i][j] += p[i][k] * p[j][k];
    }
  std::vector<double> found;
  for (const auto c : dense_solve(normal, rhs)) found.push_back(double(c));
  error = 0;
  for (std::size_t k = 0; k < v.size(); ++k) {
    double sum = -v[k];
    for (std::size_t i = 0; i < m; ++i) sum += found[i] * p[i][k];
    error = std::max(error, std::abs(sum));
  }
  return found;
}

// A v = 0, therefore P = (I - omega D^-1 A) T keeps what T does: v is in its range, and the next matrix maps the
// coefficients of v to 0. Without weak couplings also on the levels below, where v is not constant any more.
TEST(Amg, ProlongationReproducesNullVectors) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = laplacian(24, 20, 1, true);
    const auto space = uneven(comm, a.n);
    AmgOptions<double> o;
    o.coarsest = 10, o.strength = 0;
    const auto A = a.on(space);
    const Amg<double> M(*A, o);
    const int levels = int(M.levels().size());
    ASSERT_GE(levels, comm.size() == 1 ? 3 : 2);
    std::vector<double> v(std::size_t(a.n), 1.0);
    for (int k = 0; k + 1 < levels; ++k) {
      double error = 0;
      v = coefficients(M.prolongation(k), v, error);
      EXPECT_LE(error, 1e-10) << "level " << k;
      Vector<double> image(M.prolongation(k).domain());
      M.matrix(k + 1).apply(spread(M.prolongation(k).domain(), v), image);
      EXPECT_LE(layout::norm(image), 1e-10) << "level " << k;
    }
  });
}

// With several vectors nodes of the coarser levels have an unknown for each.
TEST(Amg, ProlongationReproducesSeveralVectors) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = laplacian(18, 16, 1, true);
        const auto space = uneven(comm, a.n);
        AmgOptions<double> o;
        o.coarsest = 10, o.strength = 0;
        for (Global i = space.begin(); i < space.end(); ++i)
          o.near_null.insert(o.near_null.end(), {noise(3, std::uint64_t(i)), 1 + noise(3, std::uint64_t(i))});
        const auto A = a.on(space);
        const Amg<double> M(*A, o);
        ASSERT_GE(M.levels().size(), 3u);
        std::vector<double> v(std::size_t(a.n), 1.0);  // the difference of the two
        for (int k = 0; k < 2; ++k) {
          double error = 0;
          v = coefficients(M.prolongation(k), v, error);
          EXPECT_LE(error, 1e-9) << "level " << k;
        }
      },
      {2});
}

/// The third vector is the sum of the others, which are nearly the same: rounding errors are no vector.
TEST(Amg, VectorsThatDependOnOthersGetNoColumn) {
  const auto a = laplacian(18, 16, 1);
  const auto A = a.on(comm::Communicator::self());
  AmgOptions<double> two, three;
  two.coarsest = three.coarsest = 10;
  for (Global i = 0; i < a.n; ++i) {
    const double v = 1 + 1e-7 * noise(3, std::uint64_t(i));
    two.near_null.insert(two.near_null.end(), {1, v});
    three.near_null.insert(three.near_null.end(), {1, v, 1 + v});
  }
  const Amg<double> of_two(*A, two), of_three(*A, three);
  ASSERT_EQ(of_two.levels().size(), of_three.levels().size());
  for (std::size_t k = 0; k < of_two.levels().size(); ++k)
    EXPECT_EQ(of_two.levels()[k].rows, of_three.levels()[k].rows);
}

TYPED_TEST(AmgOf, CyclesAreHermitianAndPositiveDefinite) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(17, 13);
        for (const auto& space : {uneven(comm, a.n), gaps(comm, a.n)}) {
          const auto A = a.on(space);
          for (const AmgSmoother smoother : all_smoothers)
            for (const Cycle cycle : {Cycle::v, Cycle::w}) {
              const int sweeps = cycle == Cycle::v ? 1 : 2;
              AmgOptions<T> o;
              o.smoother = smoother, o.cycle = cycle, o.sweeps = sweeps, o.coarsest = 4;
              const Amg<T> M(*A, o);
              ASSERT_GE(M.levels().size(), 3u);
              ASSERT_TRUE(M.has_adjoint());
              for (int seed = 0; seed < 2; ++seed) {
                const auto x = spread(space, random_vector<T>(a.n, 50 + seed));
                const auto y = spread(space, random_vector<T>(a.n, 60 + seed));
                Vector<T> mx(space), my(space);
                M.apply(x, mx);
                M.apply(y, my);
                EXPECT_LE(std::abs(layout::dot(y, mx) - layout::dot(my, x)),
                          tolerance<T>(100) * layout::norm(mx) * layout::norm(y))
                    << to_string(smoother) << ' ' << to_string(cycle);
                EXPECT_GT(real(layout::dot(x, mx)), 0) << to_string(smoother) << ' ' << to_string(cycle);
              }
            }
        }
      },
      {1, 3});
}

/// With A and smoothers that are positive definite a further visit of each level takes away of the error: M_V < M_W <=
/// A^-1 as quadratic forms.
TEST(Amg, FurtherVisitsOfLevelsReduceTheError) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = laplacian(36, 30, 1);
        const auto A = a.on(comm);
        const auto x = spread(A->range(), random_vector<double>(a.n, 3));
        double before = 0;
        for (const Cycle cycle : {Cycle::v, Cycle::w}) {
          AmgOptions<double> o;
          o.cycle = cycle, o.coarsest = 3, o.strength = 0;
          const Amg<double> M(*A, o);
          ASSERT_GE(M.levels().size(), 4u);
          Vector<double> y(A->range());
          M.apply(x, y);
          const double form = double(real(layout::dot(x, y)));
          EXPECT_GT(form, before * (1 + 1e-10)) << to_string(cycle);
          before = form;
        }
      },
      {2});
}

TEST(Amg, CoarseningEndsBeforeTheLevelsTakeTooMuch) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto A = laplacian(28, 28, 1).on(comm);
        AmgOptions<double> o;
        o.coarsest = 5;
        const Amg<double> plain(*A, o);
        ASSERT_GE(plain.levels().size(), 4u);
        EXPECT_EQ(plain.note(), "");
        const auto levels = plain.levels();
        const double two = double(levels[0].entries + levels[1].entries) / double(levels[0].entries);
        ASSERT_GT(plain.operator_complexity(), two);
        o.max_complexity = two;
        const Amg<double> M(*A, o);
        EXPECT_EQ(M.levels().size(), 2u);
        EXPECT_NE(M.note().find(message("coarsening ended at ", levels[1].rows, " unknowns")), std::string::npos)
            << M.note();
        EXPECT_FALSE(M.is_doubtful());  // few enough for the dense inverse
        o.max_levels = 1, o.max_complexity = 3;
        const Amg<double> one(*A, o);
        EXPECT_EQ(one.levels().size(), 1u);
        EXPECT_EQ(one.note(), "");
      },
      {3});
}

/// I + 0.05 (1 1^T - I): rows with many small entries, on which the plain spai0, and Gauss-Seidel on several ranks, do
/// not converge.
TYPED_TEST(AmgOf, CyclesOfDenseMatricesArePositiveDefinite) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        Whole<T> a;
        a.n = 240;
        for (Global i = 0; i < a.n; ++i) {
          for (Global j = 0; j < a.n; ++j) a.push(j, T(real_t<T>(i == j ? 1 : 0.05)) * phase<T>(i) * conj(phase<T>(j)));
          a.end_row();
        }
        const auto A = a.on(comm);
        for (const AmgSmoother smoother : all_smoothers) {
          AmgOptions<T> o;
          o.smoother = smoother, o.coarsest = 5;
          // Orthogonal to the vector of the largest eigenvalue, which the smoother is then left alone with.
          for (Global i = A->range().begin(); i < A->range().end(); ++i)
            o.near_null.push_back(phase<T>(i) * real_t<T>(i % 2 ? 1 : -1));
          const Amg<T> M(*A, o);
          ASSERT_GE(M.levels().size(), 2u);
          Vector<T> x(A->range()), y(A->range());
          for (Global i = A->range().begin(); i < A->range().end(); ++i) x.data()[i - A->range().begin()] = phase<T>(i);
          M.apply(x, y);
          EXPECT_GT(real(layout::dot(x, y)), 0) << to_string(smoother) << ", " << comm.size() << " ranks";
        }
      },
      {2, 5});
}

TYPED_TEST(AmgOf, ThreadsChangeNoBit) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto a = grid<T>(210, 190);
  const auto space = Space::distributed(comm::Communicator::self(), a.n);
  for (const AmgSmoother smoother : all_smoothers) {
    std::vector<T> first;
    for (const int threads : {1, 3, 7}) {
      const Threads use(threads);
      const auto A = a.on(space);
      AmgOptions<T> o;
      o.smoother = smoother;
      const Amg<T> M(*A, o);
      Vector<T> y(space);
      M.apply(spread(space, random_vector<T>(a.n, 4)), y);
      if (threads == 1) first = whole(y);
      else EXPECT_EQ(whole(y), first) << to_string(smoother) << ", threads " << threads;
    }
  }
}

TYPED_TEST(AmgOf, ColumnsAreAsEachAlone) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(17, 13);
        const auto space = uneven(comm, a.n);
        const auto A = a.on(space);
        for (const AmgSmoother smoother : all_smoothers) {
          AmgOptions<T> o;
          o.smoother = smoother, o.coarsest = 10, o.sweeps = 2;
          const Amg<T> M(*A, o);
          Vector<T> x(space, 3), y(space, 3);
          for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = noise_of<T>(9, std::uint64_t(3 * space.begin()) + i);
          M.apply(x, y);
          for (std::size_t c = 0; c < 3; ++c) {
            Vector<T> xc(space), yc(space);
            for (std::size_t i = 0; i < xc.size(); ++i) xc.data()[i] = x.data()[3 * i + c];
            M.apply(xc, yc);
            for (std::size_t i = 0; i < xc.size(); ++i)
              EXPECT_LE(std::abs(yc.data()[i] - y.data()[3 * i + c]), tolerance<T>(50) * (std::abs(yc.data()[i]) + 1))
                  << to_string(smoother);
          }
        }
      },
      {2});
}

// Iterations do not grow with the grid.
TEST(Amg, NeedsAtMostTwentyIterationsOnGrids) {
  const auto self = comm::Communicator::self();
  for (const auto& a : {laplacian(64, 64, 1), laplacian(128, 128, 1), laplacian(256, 256, 1), laplacian(16, 16, 16),
                        laplacian(32, 32, 32)}) {
    const auto s = solve<double>(a, Space::distributed(self, a.n), {});
    EXPECT_LE(s.iterations, 20) << a.n;
    EXPECT_LE(s.residual, 1.1e-8);
  }
}

// Two unknowns a node, coupled within the node: those of plane strain on bilinear squares would be like this.
template <class T>
Whole<T> blocks_of(const Whole<T>& a, double coupling) {
  Whole<T> b;
  b.n = 2 * a.n;
  for (Global i = 0; i < b.n; ++i) {
    for (Global k = a.start[std::size_t(i / 2)]; k < a.start[std::size_t(i / 2) + 1]; ++k) {
      const Global j = a.column[std::size_t(k)];
      const T v = a.value[std::size_t(k)];
      for (int d = 0; d < 2; ++d) b.push(2 * j + d, d == i % 2 ? v : T(real_t<T>(coupling)) * v);
    }
    b.end_row();
  }
  return b;
}

/// Squares of the entries, and of those of the near-null vectors, leave the range of the scalar.
TYPED_TEST(AmgOf, ScalesDoNotMatter) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto space = Space::distributed(comm::Communicator::self(), 2 * 30 * 30);
  const int most = std::numeric_limits<real_t<T>>::max_exponent - 10;
  const auto a = blocks_of(grid<T>(30, 30), 0.3);
  const auto A = a.on(space);
  const auto x = spread(space, random_vector<T>(a.n, 3));
  for (const AmgSmoother smoother : all_smoothers)
    for (const int block : {1, 2})
      for (const int exponent : {most, -most}) {
        const auto times = [&](T v) { return v * std::ldexp(real_t<T>(1), exponent); };
        AmgOptions<T> o;
        o.smoother = smoother, o.coarsest = 20, o.block = block;
        for (Global i = 0; i < a.n; ++i)
          for (int c = 0; c < block; ++c) o.near_null.push_back(i % block == c ? T(1) : T(real_t<T>(0.1)));
        const Amg<T> of_A(*A, o);
        const auto B = a.map([&](Global, Global, T v) { return times(v); }).on(space);
        for (T& v : o.near_null) v = times(v);
        const Amg<T> of_B(*B, o);
        EXPECT_GE(of_A.levels().size(), 3u);
        Vector<T> y(space), z(space);
        of_A.apply(x, y);
        of_B.apply(x, z);
        for (std::size_t i = 0; i < y.size(); ++i)
          EXPECT_LE(std::abs(times(z.data()[i]) - y.data()[i]), tolerance<T>(3000) * layout::norm(y))
              << to_string(smoother) << ", block " << block;
      }
}

/// D A D with near-null vectors D^-1 v is the same problem in other units.
TEST(Amg, UnitsOfUnknownsCostFewIterations) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto d = [](Global i) { return std::pow(10.0, noise(8, std::uint64_t(i))); };
        const Global n = 60;
        const auto space = uneven(comm, n * n);
        for (const double along : {1.0, 0.01}) {  // where couplings along y are weak, they are lumped
          const auto a = laplacian(n, n, 1).map([&](Global r, Global c, double v) {
            return r == c ? 2 + 2 * along : std::abs(r - c) == n ? along * v : v;
          });
          const auto b = a.map([&](Global r, Global c, double v) { return d(r) * v * d(c); });
          for (const AmgSmoother smoother : all_smoothers) {
            AmgOptions<double> o;
            o.smoother = smoother;
            const int before = solve<double>(a, space, o).iterations;
            for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(1 / d(i));
            EXPECT_LE(solve<double>(b, space, o).iterations, 1.3 * before + 2) << to_string(smoother) << ", " << along;
          }
        }
      },
      {1, 3});
}

/// Magnitudes are symmetric, signs are not, and the diagonal varies: strong couplings and rho are those of A^H.
TYPED_TEST(AmgOf, LevelsOfTheAdjointAreTheAdjoints) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto entry = [](bool adjoint) {
      return [adjoint](Global r, Global c, T v) {
        if (r == c) return v * real_t<T>(r % 3 == 0 ? 4 : 1);
        return adjoint != (r < c) ? v : -v;
      };
    };
    const auto grid_of = grid<T>(23, 19);
    const auto a = grid_of.map(entry(false)), adjoint = grid_of.map(entry(true));
    for (const auto& space : {Space::distributed(comm, a.n), gaps(comm, a.n)}) {
      AmgOptions<T> o;
      o.coarsest = 30, o.max_levels = 2;
      const auto A = a.on(space), B = adjoint.on(space);
      const Amg<T> of_A(*A, o), of_B(*B, o);
      ASSERT_EQ(of_A.levels().size(), 2u);
      const auto &coarse = of_A.matrix(1), &other = of_B.matrix(1);
      ASSERT_TRUE(coarse.domain() == other.domain());
      const auto x = spread(coarse.domain(), random_vector<T>(coarse.domain().size(), 7));
      Vector<T> y(coarse.domain()), z(coarse.domain());
      coarse.apply_adjoint(x, y);
      other.apply(x, z);
      const double size = layout::norm(y);
      layout::axpy(T(-1), y, z);
      EXPECT_LE(layout::norm(z), tolerance<T>(200) * size);
    }
  });
}

/// The coarse matrix of a matrix that is not Hermitian, coefficients of which vary by 10^4.
TEST(Amg, VaryingDiagonalsOfMatricesThatAreNotHermitian) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global n = 50;
        const auto of = [](Global i) { return std::pow(10.0, 2 * noise(8, std::uint64_t(i))); };
        Whole<double> a;
        a.n = n * n;
        for (Global i = 0; i < a.n; ++i) {
          double sum = 0;
          const auto put = [&](bool there, Global j) {
            const double c = there ? 2 / (1 / of(i) + 1 / of(j)) : 2 * of(i);
            sum += c;
            if (there) a.push(j, j < i ? -1.2 * c : -0.8 * c);
          };
          put(i >= n, i - n);
          put(i % n > 0, i - 1);
          const double before = std::exchange(sum, 0.0);
          const auto at = a.column.size();
          put(i % n + 1 < n, i + 1);
          put(i + n < a.n, i + n);
          a.column.insert(a.column.begin() + std::ptrdiff_t(at), i);
          a.value.insert(a.value.begin() + std::ptrdiff_t(at), 1.01 * (sum + before));
          a.end_row();
        }
        const auto s = solve<double>(a, uneven(comm, a.n), {}, krylov::Method::gmres);
        EXPECT_LE(s.iterations, 60);
        EXPECT_LE(s.residual, 1.1e-8);
      },
      {1, 3});
}

/// An unknown without an entry on the diagonal is in the range of P all the same: its row is that of T.
TEST(AmgDegenerate, RowsWithoutADiagonalEntry) {
  on_ranks([](const comm::Communicator& comm) {
    const auto whole_grid = laplacian(20, 20, 1);
    for (const bool stored : {false, true}) {
      Whole<double> a;
      a.n = whole_grid.n;
      for (Global r = 0; r < a.n; ++r) {
        for (Global k = whole_grid.start[std::size_t(r)]; k < whole_grid.start[std::size_t(r) + 1]; ++k) {
          const Global c = whole_grid.column[std::size_t(k)];
          if (r != c || r % 7 != 0) a.push(c, whole_grid.value[std::size_t(k)]);
          else if (stored) a.push(c, 0);
        }
        a.end_row();
      }
      const auto A = a.on(comm);
      AmgOptions<double> o;
      o.coarsest = 30, o.max_levels = 2;
      const Amg<double> M(*A, o);
      ASSERT_EQ(M.levels().size(), 2u);
      const auto rows = M.prolongation(0).rows();
      for (Local i = 0; i < rows.count(); ++i) {
        double sum = 0;
        for (Global k = rows.start[std::size_t(i)]; k < rows.start[std::size_t(i) + 1]; ++k)
          sum += std::abs(rows.value[std::size_t(k)]);
        EXPECT_GT(sum, 0.1) << "row " << A->range().begin() + i << " of " << comm.size() << " ranks";
      }
    }
  });
}

TEST(Amg, RanksCostFewIterations) {
  const auto a = laplacian(96, 96, 1);
  int alone = 0;
  on_ranks([&](const comm::Communicator& comm) {
    if (comm.size() == 1) alone = solve<double>(a, Space::distributed(comm, a.n), {}).iterations;
  });
  if (under_mpi()) alone = solve<double>(a, Space::distributed(comm::Communicator::self(), a.n), {}).iterations;
  on_ranks([&](const comm::Communicator& comm) {
    for (const auto& space : {Space::distributed(comm, a.n), uneven(comm, a.n), gaps(comm, a.n)}) {
      const auto s = solve<double>(a, space, {});
      EXPECT_LE(s.iterations, 1.3 * alone) << comm.size() << " ranks";
      EXPECT_LE(s.residual, 1.1e-8);
    }
  });
}

TEST(Amg, KeepsNodesTogether) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = blocks_of(laplacian(40, 40, 1), 0.4);
    std::vector<Global> counts(std::size_t(comm.size()), 2 * (1600 / comm.size()));
    counts.back() += 3200 - 2 * (1600 / comm.size()) * comm.size();
    const auto space = Space::distributed(comm, Partition::of_counts(counts));
    AmgOptions<double> o;
    o.block = 2;
    o.coarsest = 50;
    const auto s = solve<double>(a, space, o);
    EXPECT_LE(s.iterations, 25);
    EXPECT_LE(s.residual, 1.1e-8);
    const auto A = a.on(space);
    EXPECT_EQ(Amg<double>(*A, o).levels()[1].rows % 2, 0);
    // The same vectors, given, in other coordinates.
    for (Global i = space.begin(); i < space.end(); ++i)
      o.near_null.insert(o.near_null.end(), {1.0, i % 2 ? -1.0 : 1.0});
    EXPECT_NEAR(solve<double>(a, space, o).iterations, s.iterations, 1);
  });
}

/// The nodes of `a` in an order without order, each of its entries v the block v I of so many unknowns.
Whole<double> disordered(const Whole<double>& a, Global block) {
  std::vector<std::pair<double, Global>> order;
  for (Global i = 0; i < a.n; ++i) order.emplace_back(noise(9, std::uint64_t(i)), i);
  std::sort(order.begin(), order.end());
  std::vector<Global> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[std::size_t(order[k].second)] = Global(k);
  std::vector<std::map<Global, double>> rows(order.size());
  a.each([&](Global r, Global c, double v) { rows[std::size_t(place[std::size_t(r)])][place[std::size_t(c)]] = v; });
  Whole<double> b;
  b.n = a.n * block;
  for (const auto& row : rows)
    for (Global i = 0; i < block; ++i) {
      for (const auto& [c, v] : row) b.push(c * block + i, v);
      b.end_row();
    }
  return b;
}

// Many nodes have all their neighbours on other ranks, and the constant is nearly in the null space.
TEST(Amg, ConvergesWhereRowsHaveNoOrder) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto grid =
            laplacian(40, 40, 1, true).map([](Global r, Global c, double v) { return r == c ? v + 1e-6 : v; });
        for (const Global block : {1, 2}) {
          const auto a = disordered(grid, block);
          AmgOptions<double> o;
          o.block = int(block), o.coarsest = 100;
          std::vector<Global> counts(std::size_t(comm.size()), grid.n / comm.size() * block);
          counts.back() += grid.n % comm.size() * block;
          const auto space = Space::distributed(comm, Partition::of_counts(counts));
          // On more ranks aggregates are so small that coarsening soon ends.
          const int most = comm.size() <= 2 ? 25 : 45;
          EXPECT_LE(solve<double>(a, space, o).iterations, most) << "nodes of " << block << ", ranks " << comm.size();
        }
      },
      {1, 2});
}

// With D A D for a diagonal D that varies by 100, constants are far from the null space, and D^-1 1 is near it.
TEST(Amg, TakesNearNullVectors) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto d = [](Global i) { return std::pow(10.0, noise(8, std::uint64_t(i))); };
        const auto a = laplacian(60, 60, 1).map([&](Global r, Global c, double v) { return d(r) * v * d(c); });
        const auto space = uneven(comm, a.n);
        AmgOptions<double> o;
        o.smoother = AmgSmoother::gauss_seidel;  // scaling does not change what it does
        const auto without = solve<double>(a, space, o).iterations;
        for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(1 / d(i));
        const auto with = solve<double>(a, space, o).iterations;
        EXPECT_LE(with, 25);
        EXPECT_GE(without, 1.5 * with);
      },
      {1, 3});
}

TEST(AmgDegenerate, OneUnknownAndDiagonals) {
  on_ranks([](const comm::Communicator& comm) {
    for (const auto& a : {diagonal<double>({4}), diagonal<double>({2, -8, 0.5, 1, 16, 4})}) {
      const auto A = a.on(comm);
      for (const AmgSmoother smoother : all_smoothers)
        for (const Global coarsest : {Global(1), Global(400)}) {
          AmgOptions<double> o;
          o.smoother = smoother, o.coarsest = coarsest;
          const Amg<double> M(*A, o);
          const auto m = dense_of(M);
          for (Global i = 0; i < a.n; ++i)
            for (Global j = 0; j < a.n; ++j)
              EXPECT_NEAR(m[std::size_t(i)][std::size_t(j)], i == j ? 1 / a.value[std::size_t(i)] : 0, 1e-9);
        }
    }
  });
}

/// With one level: A^-1, of a matrix that needs pivots, for several columns.
TYPED_TEST(AmgOf, OneLevelIsTheInverse) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = scattered<T>(31, 9, 5).map([](Global r, Global c, T v) { return r == c ? v * real_t<T>(0.01) : v; });
    const auto A = a.on(comm);
    const Amg<T> M(*A);
    ASSERT_EQ(M.levels().size(), 1u);
    EXPECT_FALSE(M.is_doubtful());
    const auto first = random_vector<T>(a.n, 3), second = random_vector<T>(a.n, 4);
    Vector<T> x(A->range(), 2), y(A->range(), 2);
    const auto begin = std::size_t(A->range().begin());
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = (i % 2 ? second : first)[begin + i / 2];
    M.apply(x, y);
    const auto u = dense_solve(a.dense(), first), v = dense_solve(a.dense(), second);
    double size = 0;
    for (std::size_t i = 0; i < u.size(); ++i) size = std::max({size, double(std::abs(u[i])), double(std::abs(v[i]))});
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_LE(std::abs(y.data()[i] - T((i % 2 ? v : u)[begin + i / 2])), tolerance<T>(5e3) * size);
  });
}

/// With one level of a singular matrix: its pseudo-inverse.
TYPED_TEST(AmgOf, OneSingularLevelIsThePseudoInverse) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto neumann = laplacian(9, 8, 1, true);
        Whole<T> a;
        a.n = neumann.n;
        for (Global r = 0; r < a.n; ++r) {
          for (Global k = neumann.start[std::size_t(r)]; k < neumann.start[std::size_t(r) + 1]; ++k) {
            const Global c = neumann.column[std::size_t(k)];
            a.push(c, T(real_t<T>(neumann.value[std::size_t(k)])) * phase<T>(r) * conj(phase<T>(c)));
          }
          a.end_row();
        }
        const auto A = a.on(comm);
        const Amg<T> M(*A);
        std::vector<T> null;
        for (Global i = 0; i < a.n; ++i) null.push_back(phase<T>(i));
        Vector<T> y(A->range()), ay(A->range()), may(A->range());
        M.apply(spread(A->range(), null), y);
        EXPECT_LE(layout::norm(y), tolerance<T>(1e5));
        M.apply(spread(A->range(), random_vector<T>(a.n, 3)), y);
        A->apply(y, ay);
        M.apply(ay, may);
        const double size = layout::norm(y);
        layout::axpy(T(-1), y, may);
        EXPECT_LE(layout::norm(may), tolerance<T>(1000) * size);
      },
      {2});
}

/// The bound of D^-1 A is that of all ranks: 1.5 in the first rows and 2 in the last ones. Twenty sweeps on the only
/// level are written out.
TEST(Amg, TheBoundIsThatOfAllRanks) {
  on_ranks(
      [](const comm::Communicator& comm) {
        Whole<double> a;  // not Hermitian: no Lanczos process
        a.n = 2100;
        const auto diagonal = [&](Global i) { return i < a.n / 2 ? 4.0 : 2.0; };
        for (Global i = 0; i < a.n; ++i) {
          if (i > 0) a.push(i - 1, 1);
          a.push(i, diagonal(i));
          if (i + 1 < a.n) a.push(i + 1, -1);
          a.end_row();
        }
        const auto A = a.on(comm);
        AmgOptions<double> o;
        o.max_levels = 1, o.smoother = AmgSmoother::jacobi;
        const Amg<double> M(*A, o);
        const auto f = random_vector<double>(a.n, 3);
        Vector<double> y(A->range());
        M.apply(spread(A->range(), f), y);
        const auto found = whole(y);
        std::vector<double> x(f.size(), 0.0);
        for (int sweep = 0; sweep < 20; ++sweep) {
          auto r = f;
          a.each([&](Global row, Global c, double v) { r[std::size_t(row)] -= v * x[std::size_t(c)]; });
          for (std::size_t i = 0; i < x.size(); ++i) x[i] += 4.0 / 6 * r[i] / diagonal(Global(i));
        }
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(found[i], x[i], 1e-12);
      },
      {2, 3});
}

/// A last level that is too large to be inverted gets 20 sweeps; those of chebyshev multiply the residual in an
/// eigenvector by T_20((m - lambda) / h) / T_20(m / h), m and h the middle of [rho / 4, 1.1 rho] and half its length.
TEST(Amg, SweepsWhereTheLastLevelIsLarge) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global nx = 64, ny = 40;
        const auto a = laplacian(nx, ny, 1);
        const auto A = a.on(comm);
        AmgOptions<double> o;
        o.max_levels = 1, o.smoother = AmgSmoother::chebyshev;
        const Amg<double> M(*A, o);
        EXPECT_TRUE(M.is_doubtful());
        EXPECT_NE(M.note().find("2560 unknowns, which sweeps solve"), std::string::npos) << M.note();
        const double pi = std::acos(-1.0), rho = 2, m = (1.1 + 0.25) * rho / 2, h = (1.1 - 0.25) * rho / 2;
        const auto T20 = [](double x) {
          return std::abs(x) <= 1 ? std::cos(20 * std::acos(x)) : std::cosh(20 * std::acosh(std::abs(x)));
        };
        for (const auto& [p, q] : {std::pair(1, 1), std::pair(9, 7), std::pair(40, 30), std::pair(64, 40)}) {
          std::vector<double> v;
          for (Global y = 1; y <= ny; ++y)
            for (Global x = 1; x <= nx; ++x)
              v.push_back(std::sin(pi * p * double(x) / double(nx + 1)) *
                          std::sin(pi * q * double(y) / double(ny + 1)));
          const double lambda = 4 - 2 * std::cos(pi * p / double(nx + 1)) - 2 * std::cos(pi * q / double(ny + 1));
          const double factor = (1 - T20((m - lambda / 4) / h) / T20(m / h)) / lambda;
          Vector<double> y(A->range());
          M.apply(spread(A->range(), v), y);
          const auto found = whole(y);
          for (std::size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(found[i], factor * v[i], 1e-10 * (1 + factor));
        }
        for (const AmgSmoother smoother : all_smoothers) {  // Hermitian all the same
          o.smoother = smoother;
          const Amg<double> S(*A, o);
          const auto x = spread(A->range(), random_vector<double>(a.n, 1)),
                     y = spread(A->range(), random_vector<double>(a.n, 2));
          Vector<double> sx(A->range()), sy(A->range());
          S.apply(x, sx);
          S.apply(y, sy);
          EXPECT_NEAR(layout::dot(y, sx), layout::dot(sy, x), 1e-12 * layout::norm(sx) * layout::norm(y))
              << to_string(smoother);
        }
        o.smoother = AmgSmoother::jacobi;  // 20 steps of omega = 4 / (3 rho)
        const Amg<double> J(*A, o);
        std::vector<double> v;
        for (Global y = 1; y <= ny; ++y)
          for (Global x = 1; x <= nx; ++x)
            v.push_back(std::sin(pi * 3 * double(x) / double(nx + 1)) * std::sin(pi * double(y) / double(ny + 1)));
        const double lambda = 4 - 2 * std::cos(pi * 3 / double(nx + 1)) - 2 * std::cos(pi / double(ny + 1));
        Vector<double> y(A->range());
        J.apply(spread(A->range(), v), y);
        const auto found = whole(y);
        const double factor = (1 - std::pow(1 - 4 / (3 * rho) * lambda / 4, 20)) / lambda;
        for (std::size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(found[i], factor * v[i], 1e-10 * (1 + factor));
      },
      {2});
}

TEST(AmgDegenerate, ComponentsAndZeroRows) {
  on_ranks([](const comm::Communicator& comm) {
    // Two grids without couplings between them, and a zero row between.
    const auto one = laplacian(30, 20, 1);
    Whole<double> a;
    a.n = 2 * one.n + 1;
    for (const Global shift : {Global(0), one.n + 1}) {
      for (Global r = 0; r < one.n; ++r) {
        for (Global k = one.start[std::size_t(r)]; k < one.start[std::size_t(r) + 1]; ++k)
          a.push(one.column[std::size_t(k)] + shift, one.value[std::size_t(k)]);
        a.end_row();
      }
      if (shift == 0) a.end_row();
    }
    const auto space = uneven(comm, a.n);
    const auto A = a.on(space);
    for (const AmgSmoother smoother : all_smoothers) {
      AmgOptions<double> o;
      o.smoother = smoother, o.coarsest = 20;
      const Amg<double> M(*A, o);
      auto x = random_vector<double>(a.n, 2);
      Vector<double> y(space);
      M.apply(spread(space, x), y);
      const auto all = whole(y);
      EXPECT_EQ(all[std::size_t(one.n)], 0) << to_string(smoother);
      for (const double v : all) EXPECT_TRUE(std::isfinite(v));
      // The first component does not see the second.
      for (Global i = one.n + 1; i < a.n; ++i) x[std::size_t(i)] = 0;
      M.apply(spread(space, x), y);
      const auto half = whole(y);
      for (Global i = 0; i < one.n; ++i) EXPECT_NEAR(half[std::size_t(i)], all[std::size_t(i)], 1e-12);
      for (Global i = one.n + 1; i < a.n; ++i) EXPECT_NEAR(half[std::size_t(i)], 0, 1e-12);
    }
  });
}

// The only level is the matrix; its least singular value is 1.5e-5 of the largest, well above the rounding of float.
TEST(AmgDegenerate, OneLevelOfAnIllConditionedMatrixIsItsInverse) {
  Whole<float> a;
  a.n = 400;
  for (Global i = 0; i < a.n; ++i) {
    if (i > 0) a.push(i - 1, -1);
    a.push(i, 2);
    if (i + 1 < a.n) a.push(i + 1, -1);
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  const Amg<float> M(*A, AmgOptions<float>{});
  Vector<float> b(A->range()), x(A->range());
  b.assign(std::vector<float>(std::size_t(a.n), 1));
  M.apply(b, x);
  for (Global i = 0; i < a.n; ++i) {  // x_i = (i + 1) (n - i) / 2
    const double expected = double(i + 1) * double(a.n - i) / 2;
    EXPECT_NEAR(x.data()[i], expected, 1e-2 * expected) << i;
  }
}

// All levels are singular; the right-hand side is in the range.
TEST(AmgDegenerate, SingularNeumannLaplacian) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = laplacian(64, 64, 1, true);
    const auto space = uneven(comm, a.n);
    const auto A = a.on(space);
    AmgOptions<double> o;
    o.coarsest = 60;
    const Amg<double> M(*A, o);
    auto b = random_vector<double>(a.n, 3);
    double mean = 0;
    for (const double v : b) mean += v / double(a.n);
    for (double& v : b) v -= mean;
    Vector<double> x(space);
    krylov::Options k;
    k.method = krylov::Method::cg;
    k.rtol = 1e-8;
    const auto report = krylov::solve<double, Host>(*A, &M, spread(space, b), x, k, true);
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_LE(report.iterations, 25);
    EXPECT_LE(residual_of(a, b, whole(x)), 1.1e-8);
    EXPECT_LE(layout::norm(x), 1e4 * std::sqrt(double(a.n)));
  });
}

TYPED_TEST(AmgOf, OfANegativeDefiniteMatrixIsNegativeDefinite) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(17, 13).map([](Global, Global, T v) { return -v; });
        const auto space = uneven(comm, a.n);
        const auto A = a.on(space);
        for (const AmgSmoother smoother : all_smoothers) {
          AmgOptions<T> o;
          o.smoother = smoother, o.coarsest = 10;
          const Amg<T> M(*A, o);
          for (int seed = 0; seed < 3; ++seed) {
            const auto x = spread(space, random_vector<T>(a.n, 50 + seed));
            Vector<T> mx(space);
            M.apply(x, mx);
            EXPECT_LT(real(layout::dot(x, mx)), 0) << to_string(smoother);
          }
          if constexpr (std::same_as<real_t<T>, double>) {
            EXPECT_LE(solve<T>(a, space, o, krylov::Method::gmres).iterations, 30) << to_string(smoother);
          }
        }
      },
      {2});
}

TYPED_TEST(AmgOf, SolvesComplexHermitianAndConvection) {
  using T = TypeParam;
  if constexpr (std::same_as<real_t<T>, double>) {
    on_ranks(
        [](const comm::Communicator& comm) {
          // Phases of unknowns: D A D^H with |d_i| = 1, whose near-null vector is D 1.
          const auto a = grid<T>(50, 50);
          const auto space = uneven(comm, a.n);
          AmgOptions<T> o;
          for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(phase<T>(i));
          const auto s = solve<T>(a, space, o);
          EXPECT_LE(s.iterations, 20);
          EXPECT_LE(s.residual, 1.1e-8);
          const auto c = grid<T>(50, 50, 0.8);
          const auto t = solve<T>(c, space, o, krylov::Method::gmres);
          EXPECT_LE(t.iterations, 30);
          EXPECT_LE(t.residual, 1.1e-8);
        },
        {1, 3});
  }
}

TEST(Amg, SetUpEndsWhereTheUserAsksForIt) {
  const auto a = laplacian(40, 40, 1);
  const auto A = a.on(comm::Communicator::self());
  comm::set_interrupt_check([] { return true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // checks are that far apart
  try {
    const Amg<double> M(*A);
    ADD_FAILURE() << "not interrupted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::interrupted);
  }
  comm::set_interrupt_check({});
}

TEST(Amg, NamesWhatIsOutOfRange) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = laplacian(9, 5, 1);
    const auto A = a.on(comm);
    const auto said = [&](const std::function<void(AmgOptions<double>&)>& change) {
      AmgOptions<double> o;
      change(o);
      return usage_error([&] { const Amg<double> M(*A, o); });
    };
    const auto expect = [&](const std::string& text, const std::function<void(AmgOptions<double>&)>& change) {
      EXPECT_NE(said(change).find(text), std::string::npos) << said(change);
    };
    expect("this one is U", [](auto& o) { o.cycle = Cycle::u; });
    expect("sweeps is 0", [](auto& o) { o.sweeps = 0; });
    expect("strength is -0.1", [](auto& o) { o.strength = -0.1; });
    expect("strength is 1", [](auto& o) { o.strength = 1; });
    expect("coarsest is 0", [](auto& o) { o.coarsest = 0; });
    expect("coarsest is 5000", [](auto& o) { o.coarsest = 5000; });
    expect("max_levels is 0", [](auto& o) { o.max_levels = 0; });
    expect("max_complexity is 0.5", [](auto& o) { o.max_complexity = 0.5; });
    expect("block is 0", [](auto& o) { o.block = 0; });
    expect("block is 46", [](auto& o) { o.block = 46; });
    // One rank gives vectors and the others none, or another number of them.
    if (comm.size() > 1) {
      const auto own = std::size_t(A->range().local_size());
      expect("near_null", [&](auto& o) { o.near_null.assign(comm.rank() == 0 ? own : 0, 1.0); });
      expect("near_null", [&](auto& o) { o.near_null.assign(comm.rank() == 0 ? own : 2 * own, 1.0); });
    }
    expect("near_null has 1 numbers", [](auto& o) { o.near_null.assign(1, 1.0); });
    const auto last = [&](double value) {
      return [&, value](AmgOptions<double>& o) {
        o.near_null.assign(std::size_t(A->range().local_size()), 1.0);
        if (A->range().end() == a.n && !o.near_null.empty()) o.near_null.back() = value;
      };
    };
    const std::string where = message(" in row ", a.n - 1, " of vector 0 (counted from 0), a row of rank ",
                                      A->range().partition().owner(a.n - 1), ";");
    expect("near_null has nan" + where, last(std::numeric_limits<double>::quiet_NaN()));
    expect("near_null has inf" + where, last(std::numeric_limits<double>::infinity()));
    expect("vector 1 of near_null (counted from 0) is zero", [&](auto& o) {
      for (Local i = 0; i < A->range().local_size(); ++i) o.near_null.insert(o.near_null.end(), {1.0, 0.0});
    });
    const Space rows = Space::distributed(comm, 4), columns = Space::distributed(comm, 5);
    op::Rows<double> none;
    none.start.assign(std::size_t(rows.local_size()) + 1, 0);
    const op::Csr<double> wide(rows, columns, none);
    EXPECT_NE(usage_error([&] { const Amg<double> M(wide); }).find("4 by 5"), std::string::npos);
  });
}

}  // namespace
}  // namespace tacit::test
