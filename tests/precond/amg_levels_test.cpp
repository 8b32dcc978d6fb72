// The levels of algebraic multigrid compared with their definition: aggregates, prolongations, coarse matrices.
#include "precond/amg/aggregates.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/precond/amg.hpp>

#include "amg_problems.hpp"
#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using layout::Partition;
using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgOptions;

template <class T>
class AmgLevelsOf : public testing::Test {};
TYPED_TEST_SUITE(AmgLevelsOf, Scalars);

/// A matrix with nodes of `block` unknowns, the couplings of which are of all sizes, some diagonals zero or absent.
template <class T>
Reference<T> coupled(Global n) {
  return random_matrix<T>(n, n, 3, [n](Global i, Global j) {
    return i % 13 != 5 && (i == j || (i * 7 + j * 5) % 11 < 2 || (i * 5 + j * 7) % 11 < 2) && !(i == j && i == n - 1);
  });
}

TYPED_TEST(AmgLevelsOf, StrongCouplingsAndDampingByTheirDefinition) {
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
      double bound = 0, expected_bound = 0;
      const auto roots = precond::diagonal_roots(rows, space, bound);
      for (Global i = space.begin(); i < space.end(); ++i) {
        double sum = 0;
        for (Global j = 0; j < n; ++j) sum += std::abs(std::complex<double>(at(i, j)));
        const double own = std::abs(std::complex<double>(at(i, i)));
        if (own > 0) expected_bound = std::max(expected_bound, sum / own);
      }
      EXPECT_NEAR(bound, expected_bound, 1e-6 * expected_bound);
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

TYPED_TEST(AmgLevelsOf, CoarseMatricesAreGalerkinProducts) {
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

/// Magnitudes are symmetric, signs are not, and the diagonal varies: strong couplings and rho are those of A^H.
TYPED_TEST(AmgLevelsOf, LevelsOfTheAdjointAreTheAdjoints) {
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

}  // namespace
}  // namespace tacit::test
