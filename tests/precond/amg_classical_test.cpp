// Classical coarsening of algebraic multigrid compared with its definition.
#include "precond/amg/interpolation.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using layout::Partition;
using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgCoarsening;
using precond::AmgInterpolation;
using precond::AmgOptions;
using precond::CoarsePoints;
using precond::Graph;
using precond::Part;
using precond::Splitting;

template <class T>
class ClassicalOf : public testing::Test {};
TYPED_TEST_SUITE(ClassicalOf, test::Scalars);

const std::initializer_list<int> up_to_seven = {2, 3, 4, 5, 6, 7};

/// Ranks of growing shares; the first of several ranks has no rows.
Space uneven(const comm::Communicator& comm, Global n) {
  std::vector<Global> offsets{0};
  const Global parts = Global(comm.size()) * comm.size();
  for (Global r = 1; r <= comm.size(); ++r) offsets.push_back(r == comm.size() ? n : r == 1 ? 0 : n * r * r / parts);
  return Space::distributed(comm, Partition(offsets));
}

/// Couplings of a graph that is not regular, negative but for every `positive`-th one; rows sum to zero where `neumann`
/// is set, else to a tenth of their diagonal. Structurally symmetric, the values are not.
template <class T>
Whole<T> mesh(Global n, Global positive = 0, bool neumann = true) {
  Whole<T> a;
  a.n = n;
  const auto coupled = [&](Global i, Global j) {
    const Global low = std::min(i, j), d = std::abs(i - j);
    return d == 1 || (d == 7 && low % 3 != 1) || (d == 12 && low % 2 == 0) || (d == 3 && low % 5 == 0);
  };
  for (Global i = 0; i < n; ++i) {
    std::vector<std::pair<Global, double>> row;
    double sum = 0;
    for (Global j = std::max<Global>(0, i - 12); j <= std::min(n - 1, i + 12); ++j) {
      if (!coupled(i, j)) continue;
      const bool plus = positive > 0 && (i + j) % positive == 0;
      const double v = (plus ? 0.3 : -1) * (0.55 + 0.45 * noise(5, std::uint64_t(i * n + j)));
      row.emplace_back(j, v);
      sum += v;
    }
    // Of a row whose positive couplings prevail the diagonal is that of the magnitudes.
    double d = -sum;
    if (positive > 0) {
      d = 0;
      for (const auto& [j, v] : row) d += std::abs(v);
    }
    row.emplace_back(i, neumann ? d : d / 0.9);
    std::sort(row.begin(), row.end());
    for (const auto& [j, v] : row) a.push(j, T(real_t<T>(v)));
    a.end_row();
  }
  return a;
}

/// -Laplace by 5 points; the rows of `fixed` points have their diagonal only, columns stay.
Whole<double> laplacian(Global nx, Global ny, const std::set<Global>& fixed = {}, bool neumann = false) {
  Whole<double> a;
  a.n = nx * ny;
  for (Global i = 0; i < a.n; ++i) {
    const Global x = i % nx, y = i / nx;
    const bool there[] = {y > 0, x > 0, x + 1 < nx, y + 1 < ny};
    const Global step[] = {-nx, -1, 1, nx};
    const double neighbours = there[0] + there[1] + there[2] + there[3];
    for (int d = 0; d < 4; ++d) {
      if (d == 2) a.push(i, neumann ? neighbours : 4);
      if (there[d] && !fixed.count(i)) a.push(i + step[d], -1);
    }
    a.end_row();
  }
  return a;
}

/// A level of a matrix on a space, split.
template <class T>
struct Made {
  Space space;
  op::Rows<T> rows;
  std::vector<Local> kind;
  std::optional<Graph> strong;
  std::vector<Part> part;
  std::optional<CoarsePoints> coarse;

  Made(const Whole<T>& a, const Space& s, AmgCoarsening how, bool aggressive = false, Local unknowns = 1,
       double theta = 0.25)
      : space(s), rows(a.rows(s.begin(), s.end())) {
    std::vector<Local> unknown;
    for (Global i = s.begin(); i < s.end(); ++i) unknown.push_back(Local(i % unknowns));
    kind = precond::kinds_of(rows, s, unknown);
    strong.emplace(precond::classical_strength(rows, s, kind, theta));
    part = how == AmgCoarsening::hmis ? precond::hmis(*strong) : precond::pmis(*strong);
    if (aggressive) part = precond::aggressive(*strong, part);
    coarse.emplace(precond::number_coarse(*strong, part));
  }
  Splitting<T> splitting() const { return {rows, *strong, kind, part, *coarse}; }
  op::Rows<T> interpolate(AmgInterpolation how, int most) const {
    switch (how) {
      case AmgInterpolation::direct:
        return precond::direct_interpolation(splitting(), most);
      case AmgInterpolation::multipass:
        return precond::multipass_interpolation(splitting(), most);
      default:
        return precond::extended_interpolation(splitting(), most);
    }
  }
};

constexpr AmgInterpolation all_interpolations[] = {AmgInterpolation::extended_i, AmgInterpolation::multipass,
                                                   AmgInterpolation::direct};

/// The dense definition of strength: who depends on whom.
template <class T>
std::vector<std::vector<bool>> strength_of(const Whole<T>& a, Local unknowns, double theta) {
  const auto n = std::size_t(a.n);
  const auto m = a.dense();
  std::vector<std::vector<bool>> depends(n, std::vector<bool>(n, false));
  std::vector<bool> alone(n, true);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (i != j && m[i][j] != T(0)) alone[i] = false;
  for (std::size_t i = 0; i < n; ++i) {
    const double d = double(std::abs(m[i][i]));
    const auto alike = [&](std::size_t j) {
      return i != j && Local(i) % unknowns == Local(j) % unknowns && !alone[i] && !alone[j];
    };
    const auto size = [&](std::size_t j) { return -double(std::real(m[i][j] * conj(m[i][i]))) / d; };
    double most = 0;
    std::complex<double> sum(m[i][i]);
    for (std::size_t j = 0; d > 0 && j < n; ++j)
      if (alike(j)) most = std::max(most, size(j)), sum += std::complex<double>(m[i][j]);
    for (std::size_t j = 0; d > 0 && most > 0 && std::abs(sum) <= 0.9 * d && j < n; ++j)
      depends[i][j] = alike(j) && size(j) >= theta * most && size(j) > 0;
  }
  return depends;
}

// Entries of any sign, zero diagonals, rows of a diagonal only, two kinds of unknowns; the graph knows both directions.
TYPED_TEST(ClassicalOf, StrengthByItsDefinition) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        auto a = mesh<T>(48, 3).map([](Global r, Global c, T v) {
          if (r == c && r % 11 == 4) return T(0);
          if (r != c && r % 9 == 2) return T(0);
          return v * number<T>(1, std::uint64_t(r * r));  // any sign or angle, the same in a row
        });
        for (const Local unknowns : {1, 2}) {
          const auto expected = strength_of(a, unknowns, 0.4);
          const auto space = Space::distributed(comm, a.n);
          const Made<T> made(a, space, AmgCoarsening::pmis, false, unknowns, 0.4);
          const Graph& g = *made.strong;
          const auto n = std::size_t(a.n);
          for (std::size_t i = 0; i < g.size(); ++i) {
            const auto row = std::size_t(space.begin()) + i;
            std::vector<bool> found(n, false), dependants(n, false), column(n, false);
            precond::each_strong(g, i, [&](std::size_t j) { found[std::size_t(g.halo.global(Local(j)))] = true; });
            precond::each_dependant(g, i,
                                    [&](std::size_t j) { dependants[std::size_t(g.halo.global(Local(j)))] = true; });
            for (std::size_t j = 0; j < n; ++j) column[j] = expected[j][row];
            EXPECT_EQ(found, expected[row]) << "row " << row;
            EXPECT_EQ(dependants, column) << "column " << row;
          }
        }
      },
      up_to_seven);
}

// Of couplings 4 and 1 with a threshold of a quarter both are strong, with one above only the larger ones.
TEST(Classical, CouplingsAtTheThresholdAreStrong) {
  auto a = laplacian(6, 5).map([](Global r, Global c, double v) {
    return r == c ? 10 : std::abs(r - c) == 1 ? 4 * v : v;
  });
  const auto space = Space::distributed(comm::Communicator::self(), a.n);
  const auto couplings = [&](double theta) {
    return Made<double>(a, space, AmgCoarsening::pmis, false, 1, theta).strong->node.size();
  };
  EXPECT_EQ(couplings(0.25), a.value.size() - 30);
  EXPECT_EQ(couplings(0.26), std::size_t(2 * 5 * 5));
}

/// The parts of all points.
template <class T>
std::vector<int> parts_of(const Made<T>& made) {
  std::vector<double> all(std::size_t(made.space.size()), 0);
  for (std::size_t i = 0; i < made.strong->size(); ++i) all[std::size_t(made.space.begin()) + i] = double(made.part[i]);
  made.space.sum(all.data(), all.size());
  return {all.begin(), all.end()};
}

/// Coarse points do not depend on each other; each fine point with strong couplings has a coarse one within so many.
void expect_split(const std::vector<std::vector<bool>>& depends, const std::vector<int>& part, int within) {
  const std::size_t n = part.size();
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_NE(part[i], 0) << i;
    std::vector<bool> near(n, false);
    near[i] = true;
    bool any = false, reaches = false;
    for (std::size_t j = 0; j < n; ++j) {
      any |= depends[i][j];
      if (part[i] == 1 && part[j] == 1) {
        EXPECT_FALSE(depends[i][j] && depends[j][i]) << i << ", " << j;
      }
    }
    for (int step = 0; step < within; ++step) {
      auto next = near;
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t j = 0; near[k] && j < n; ++j)
          if (depends[k][j]) next[j] = true, reaches |= part[j] == 1;
      near = next;
    }
    if (part[i] == -1 && any) {
      EXPECT_TRUE(reaches) << i;
    }
  }
}

TEST(Classical, SplittingsAreIndependentAndReachAll) {
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto& a : {mesh<double>(90), laplacian(12, 9), mesh<double>(80, 4)}) {
          const auto depends = strength_of(a, 1, 0.25);
          for (const AmgCoarsening how : {AmgCoarsening::pmis, AmgCoarsening::hmis}) {
            const Made<double> made(a, uneven(comm, a.n), how);
            expect_split(depends, parts_of(made), 2);
          }
        }
        // Where all couplings go both ways each fine point depends on a coarse one.
        const auto a = laplacian(12, 9);
        const auto depends = strength_of(a, 1, 0.25);
        for (const AmgCoarsening how : {AmgCoarsening::pmis, AmgCoarsening::hmis})
          expect_split(depends, parts_of(Made<double>(a, uneven(comm, a.n), how)), 1);
      },
      up_to_seven);
}

// A coarse point of an aggressive level was one without it; none is reached from another along two couplings, and each
// of the others reaches one along two, so that each fine point does along four.
TEST(Classical, AggressiveSplittingsAreIndependentAlongTwoCouplings) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = laplacian(13, 11);
        const auto depends = strength_of(a, 1, 0.25);
        const Made<double> plain(a, uneven(comm, a.n), AmgCoarsening::pmis);
        const Made<double> made(a, uneven(comm, a.n), AmgCoarsening::pmis, true);
        const auto part = parts_of(made), before = parts_of(plain);
        expect_split(depends, part, 4);
        Global count = 0, count_before = 0;
        const std::size_t n = part.size();
        for (std::size_t i = 0; i < n; ++i) {
          count += part[i] == 1, count_before += before[i] == 1;
          if (part[i] != 1) continue;
          EXPECT_EQ(before[i], 1);
          for (std::size_t k = 0; k < n; ++k)
            for (std::size_t j = 0; depends[i][k] && j < n; ++j)
              if (j != i && part[j] == 1) {
                EXPECT_FALSE(depends[k][j]) << i << " reaches " << j;
              }
        }
        EXPECT_LT(count, count_before / 2);
      },
      up_to_seven);
}

// Graph distances of a path: the first pass takes every second point, from one end.
TEST(Classical, FirstPassOfAPath) {
  const auto a = tridiagonal<double>(9, -1, 2, -1);
  const Made<double> made(a, Space::distributed(comm::Communicator::self(), a.n), AmgCoarsening::hmis);
  EXPECT_EQ(parts_of(made), (std::vector<int>{-1, 1, -1, 1, -1, 1, -1, 1, -1}));
}

template <class T>
void expect_equal(const op::Rows<T>& found, const op::Rows<T>& all, const Space& space) {
  const auto first = all.start[std::size_t(space.begin())], last = all.start[std::size_t(space.end())];
  EXPECT_EQ(found.column, exec::Buffer<Global>(all.column.begin() + first, all.column.begin() + last));
  EXPECT_EQ(found.value, exec::Buffer<T>(all.value.begin() + first, all.value.begin() + last));
  for (Local i = 0; i <= space.local_size(); ++i)
    EXPECT_EQ(found.start[std::size_t(i)], all.start[std::size_t(space.begin() + i)] - first);
}

// pmis does not see how rows are spread, to the bit; nor do threads matter.
TYPED_TEST(ClassicalOf, TheSamePForAnyRanksAndThreads) {
  using T = TypeParam;
  for (const bool aggressive : {false, true}) {
    const auto a = mesh<T>(150, 5);
    const Made<T> alone(a, Space::distributed(comm::Communicator::self(), a.n), AmgCoarsening::pmis, aggressive);
    ASSERT_GT(alone.coarse->space.size(), 10);
    for (const AmgInterpolation how : all_interpolations) {
      const auto expected = alone.interpolate(how, 3);
      on_ranks(
          [&](const comm::Communicator& comm) {
            for (const auto& space : {Space::distributed(comm, a.n), uneven(comm, a.n)}) {
              const Made<T> made(a, space, AmgCoarsening::pmis, aggressive);
              expect_equal(made.interpolate(how, 3), expected, space);
            }
          },
          up_to_seven);
    }
  }
  const auto a = grid<T>(120, 100);
  const auto space = Space::distributed(comm::Communicator::self(), a.n);
  Threads threads(1);
  for (const AmgCoarsening how : {AmgCoarsening::pmis, AmgCoarsening::hmis}) {
    const auto one = Made<T>(a, space, how).interpolate(AmgInterpolation::extended_i, 4);
    threads.use(3);
    expect_equal(Made<T>(a, space, how).interpolate(AmgInterpolation::extended_i, 4), one, space);
    threads.use(1);
  }
}

/// P as a dense matrix, from its rows on one rank.
template <class T>
Dense<T> dense_of(const op::Rows<T>& P, Global columns) {
  Dense<T> d(std::size_t(P.count()), std::vector<T>(std::size_t(columns), T(0)));
  for (std::size_t i = 0; i < d.size(); ++i)
    for (auto k = std::size_t(P.start[i]); k < std::size_t(P.start[i + 1]); ++k)
      d[i][std::size_t(P.column[k])] += P.value[k];
  return d;
}

/// What the three interpolations are by their definitions, dense.
template <class T>
struct Defined {
  using W = wide_t<T>;
  std::vector<std::vector<T>> a;
  std::vector<std::vector<bool>> depends;
  std::vector<int> part;
  std::vector<std::size_t> column;
  std::size_t n, coarse = 0;

  Defined(const Whole<T>& m, std::vector<int> p)
      : a(m.dense()), depends(strength_of(m, 1, 0.25)), part(std::move(p)), column(part.size(), 0), n(part.size()) {
    for (std::size_t i = 0; i < n; ++i)
      if (part[i] == 1) column[i] = coarse++;
  }
  bool alike(std::size_t i, std::size_t j) const { return std::real(a[i][j] * conj(a[i][i])) > 0; }
  std::vector<std::vector<W>> zero() const {
    std::vector<std::vector<W>> w(n, std::vector<W>(coarse, W(0)));
    for (std::size_t i = 0; i < n; ++i)
      if (part[i] == 1) w[i][column[i]] = W(1);
    return w;
  }
  std::vector<std::vector<W>> passes(int most) const {
    auto w = zero();
    std::vector<int> pass(n, 0);
    for (std::size_t i = 0; i < n; ++i) pass[i] = part[i] == 1 ? 0 : 99;
    for (int now = 1; now <= most; ++now) {
      const auto before = pass;
      for (std::size_t i = 0; i < n; ++i) {
        if (before[i] < 99) continue;
        W d = widen(a[i][i]), all(0), given(0);
        for (std::size_t j = 0; j < n; ++j) {
          if (j == i) continue;
          if (alike(i, j)) d += widen(a[i][j]);
          else all += widen(a[i][j]);
          if (depends[i][j] && before[j] < 99) given += widen(a[i][j]);
        }
        if (given == W(0)) continue;
        pass[i] = now;
        for (std::size_t j = 0; j < n; ++j)
          for (std::size_t c = 0; depends[i][j] && before[j] < 99 && c < coarse; ++c)
            w[i][c] -= all / given / d * widen(a[i][j]) * w[j][c];
      }
    }
    return w;
  }
  std::vector<std::vector<W>> extended() const {
    auto w = zero();
    for (std::size_t i = 0; i < n; ++i) {
      if (part[i] == 1) continue;
      std::vector<bool> in(n, false);
      for (std::size_t j = 0; j < n; ++j) {
        if (!depends[i][j]) continue;
        if (part[j] == 1) in[j] = true;
        for (std::size_t l = 0; part[j] == -1 && l < n; ++l)
          if (depends[j][l] && part[l] == 1) in[l] = true;
      }
      W d = widen(a[i][i]);
      std::vector<W> sum(n, W(0));
      for (std::size_t j = 0; j < n; ++j) {
        if (j == i || a[i][j] == T(0)) continue;
        if (in[j]) {
          sum[j] += widen(a[i][j]);
        } else if (depends[i][j] && part[j] == -1) {
          const auto b = [&](std::size_t l) {
            return (in[l] || l == i) && l != j && !alike(j, l) ? widen(a[j][l]) : W(0);
          };
          W all(0);
          for (std::size_t l = 0; l < n; ++l) all += b(l);
          if (all == W(0)) d += widen(a[i][j]);
          for (std::size_t l = 0; all != W(0) && l < n; ++l) (l == i ? d : sum[l]) += widen(a[i][j]) * b(l) / all;
        } else {
          d += widen(a[i][j]);
        }
      }
      for (std::size_t j = 0; j < n; ++j)
        if (in[j]) w[i][column[j]] = -sum[j] / d;
    }
    return w;
  }
};

TYPED_TEST(ClassicalOf, InterpolationsByTheirDefinitions) {
  using T = TypeParam;
  for (const Global positive : {0, 5, 7})
    for (const bool aggressive : {false, true}) {
      // Rows of any sign or angle: only the signs relative to the diagonal matter. With 7 some rows depend on none.
      const auto a = mesh<T>(60, positive, positive > 0).map([&](Global r, Global c, T v) {
        const bool left_out = positive == 7 && r % 7 == 3 && c % 4 == 0 && r != c;
        const real_t<T> larger = positive == 7 && r % 7 == 3 && r == c ? 40 : 1;
        return left_out ? T(0) : v * number<T>(1, std::uint64_t(r)) * larger;
      });
      const Made<T> made(a, Space::distributed(comm::Communicator::self(), a.n), AmgCoarsening::pmis, aggressive);
      const Defined<T> defined(a, parts_of(made));
      const auto expect = [&](AmgInterpolation how, const auto& expected) {
        const auto found = dense_of(made.interpolate(how, 0), made.coarse->space.size());
        for (std::size_t i = 0; i < found.size(); ++i)
          for (std::size_t c = 0; c < found[i].size(); ++c)
            EXPECT_LE(double(std::abs(widen(found[i][c]) - expected[i][c])), tolerance<T>(60))
                << to_string(how) << ", row " << i << ", column " << c;
      };
      expect(AmgInterpolation::direct, defined.passes(1));
      expect(AmgInterpolation::multipass, defined.passes(9));
      expect(AmgInterpolation::extended_i, defined.extended());
    }
}

// The fine point 1, on which 0 depends, has no couplings to what 0 is interpolated from: that of 0 to it goes to the
// diagonal.
TEST(Classical, CouplingsThatCannotBePassedOnGoToTheDiagonal) {
  Whole<double> a;
  a.n = 3;
  const double entries[3][3] = {{3, -1, -1.5}, {0.1, 2, 0.1}, {-1, 0.1, 2}};
  for (const auto& row : entries) {
    for (Global c = 0; c < 3; ++c) a.push(c, row[c]);
    a.end_row();
  }
  Made<double> made(a, Space::distributed(comm::Communicator::self(), a.n), AmgCoarsening::pmis);
  made.part = {Part::fine, Part::fine, Part::coarse};
  made.coarse.emplace(precond::number_coarse(*made.strong, made.part));
  const auto P = made.interpolate(AmgInterpolation::extended_i, 0);
  EXPECT_EQ(P.start, (std::vector<Global>{0, 1, 1, 2}));
  EXPECT_DOUBLE_EQ(P.value[0], 1.5 / (3 - 1));
  EXPECT_EQ(P.value[1], 1);
}

// Rows that sum to zero: constants are interpolated exactly, also by cut rows. Each row that reaches a coarse point has
// entries, and none more than it may.
TYPED_TEST(ClassicalOf, ConstantsAreInterpolatedExactly) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = mesh<T>(110);
        for (const AmgCoarsening how : {AmgCoarsening::pmis, AmgCoarsening::hmis})
          for (const bool aggressive : {false, true}) {
            const Made<T> made(a, uneven(comm, a.n), how, aggressive);
            for (const AmgInterpolation with : {AmgInterpolation::extended_i, AmgInterpolation::multipass})
              for (const int most : {0, 4, 2, 1}) {
                if (aggressive && with == AmgInterpolation::extended_i) continue;
                const auto P = made.interpolate(with, most);
                for (std::size_t i = 0; i < made.strong->size(); ++i) {
                  T sum{};
                  for (auto k = std::size_t(P.start[i]); k < std::size_t(P.start[i + 1]); ++k) sum += P.value[k];
                  EXPECT_LE(std::abs(sum - T(1)), tolerance<T>(30)) << to_string(with) << ", row " << i;
                  if (most > 0) {
                    EXPECT_LE(P.start[i + 1] - P.start[i], most);
                  }
                }
              }
          }
      },
      {2, 5});
}

// The largest weights stay, of equal ones those of lower columns.
TEST(Classical, CutRowsKeepTheirLargestWeights) {
  const auto a = laplacian(10, 9);  // has equal weights
  const Made<double> made(a, Space::distributed(comm::Communicator::self(), a.n), AmgCoarsening::pmis);
  const Global columns = made.coarse->space.size();
  const auto whole = dense_of(made.interpolate(AmgInterpolation::extended_i, 0), columns);
  const auto cut = dense_of(made.interpolate(AmgInterpolation::extended_i, 2), columns);
  int shorter = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::pair<double, std::size_t>> order;
    double sum = 0, kept = 0;
    for (std::size_t c = 0; c < whole[i].size(); ++c)
      if (whole[i][c] != 0) order.emplace_back(-std::abs(whole[i][c]), c), sum += whole[i][c];
    std::sort(order.begin(), order.end());
    shorter += order.size() > 2;
    order.resize(std::min<std::size_t>(order.size(), 2));
    std::vector<double> expected(whole[i].size(), 0);
    for (const auto& [size, c] : order) kept += whole[i][c];
    for (const auto& [size, c] : order) expected[c] = whole[i][c] * sum / kept;
    for (std::size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(cut[i][c], expected[c], 1e-14);
  }
  EXPECT_GT(shorter, 20);
}

// Points that are fixed by rows of their diagonal alone are fine, nothing is interpolated to or from them, and their
// neighbours' weights are those of a zero boundary.
TEST(Classical, DirichletRowsAreInterpolatedByZero) {
  on_ranks(
      [](const comm::Communicator& comm) {
        std::set<Global> fixed;
        for (Global i = 0; i < 12; ++i) fixed.insert(i), fixed.insert(12 * i);
        const auto a = laplacian(12, 10, fixed);
        for (const AmgInterpolation how : all_interpolations) {
          const Made<double> made(a, uneven(comm, a.n), AmgCoarsening::pmis);
          const auto P = made.interpolate(how, 0);
          for (std::size_t i = 0; i < made.strong->size(); ++i) {
            const Global row = made.space.begin() + Global(i);
            double sum = 0;
            for (auto k = std::size_t(P.start[i]); k < std::size_t(P.start[i + 1]); ++k) sum += P.value[k];
            const bool beside = !fixed.count(row) && (fixed.count(row - 1) || fixed.count(row - 12));
            if (fixed.count(row)) {
              EXPECT_EQ(made.part[i], Part::fine);
              EXPECT_EQ(P.start[i], P.start[i + 1]);
            } else if (made.part[i] == Part::coarse) {
              EXPECT_EQ(sum, 1);
            } else if (beside) {
              EXPECT_LT(sum, 1 - 1e-3) << row;
            }
            EXPECT_LE(sum, 1 + 1e-12);
          }
        }
      },
      {3});
}

// Unknowns of a node are interpolated from their own kind.
TEST(Classical, KindsOfUnknownsStayApart) {
  on_ranks(
      [](const comm::Communicator& comm) {
        // Two grids, the unknowns of which alternate, coupled at each node and with the neighbour.
        const auto one = laplacian(11, 9);
        Whole<double> a;
        a.n = 2 * one.n;
        for (Global i = 0; i < a.n; ++i) {
          std::vector<std::pair<Global, double>> row;
          for (Global k = one.start[std::size_t(i / 2)]; k < one.start[std::size_t(i / 2) + 1]; ++k) {
            const Global j = 2 * one.column[std::size_t(k)];
            row.emplace_back(j + i % 2, one.value[std::size_t(k)]);
            row.emplace_back(j + 1 - i % 2, -1.5);
          }
          std::sort(row.begin(), row.end());
          for (const auto& [j, v] : row) a.push(j, v);
          a.end_row();
        }
        std::vector<Global> counts(std::size_t(comm.size()), 2 * (one.n / comm.size()));
        counts.back() += a.n - counts[0] * comm.size();
        const auto space = Space::distributed(comm, Partition::of_counts(counts));
        const Made<double> made(a, space, AmgCoarsening::pmis, false, 2);
        const auto& coarse = made.coarse->space;
        std::vector<double> kind(std::size_t(coarse.size()), 0);
        for (std::size_t i = 0; i < made.strong->size(); ++i)
          if (made.part[i] == Part::coarse)
            kind[std::size_t(made.coarse->number[i])] = double((space.begin() + Global(i)) % 2);
        coarse.sum(kind.data(), kind.size());
        const auto apart = a.map([](Global r, Global c, double v) { return (r - c) % 2 == 0 ? v : 0; });
        const Made<double> alone(apart, space, AmgCoarsening::pmis, false, 2);
        for (const AmgInterpolation how : all_interpolations) {
          const auto P = made.interpolate(how, 0);
          EXPECT_EQ(P.value, alone.interpolate(how, 0).value);
          for (std::size_t i = 0; i < made.strong->size(); ++i)
            for (auto k = std::size_t(P.start[i]); k < std::size_t(P.start[i + 1]); ++k)
              EXPECT_EQ(kind[std::size_t(P.column[k])], double((space.begin() + Global(i)) % 2));
        }
        AmgOptions<double> o;
        o.coarsening = AmgCoarsening::pmis, o.block = 2, o.coarsest = 5;
        const auto A = a.on(space);
        const Amg<double> M(*A, o);
        EXPECT_GE(M.levels().size(), 3u);
      },
      {1, 3});
}

struct Solved {
  int iterations = 0;
  std::vector<Global> rows;
  double complexity = 0;
};
template <class T>
Solved solve(const Whole<T>& a, const Space& space, AmgOptions<T> o, krylov::Method method = krylov::Method::cg) {
  const auto A = a.on(space);
  const Amg<T> M(*A, o);
  const auto b = random_vector<T>(a.n, 3);
  Vector<T> x(space);
  krylov::Options k;
  k.method = method;
  k.rtol = std::same_as<real_t<T>, float> ? 1e-4 : 1e-8;
  const auto report = krylov::solve<T, Host>(*A, &M, spread(space, b), x, k, method == krylov::Method::cg);
  EXPECT_TRUE(report.converged()) << report.detail;
  EXPECT_LE(double(residual_of(a, b, whole(x))), 1.1 * *k.rtol);
  Solved s{report.iterations, {}, M.operator_complexity()};
  for (const auto& level : M.levels()) s.rows.push_back(level.rows);
  return s;
}

template <class T>
Whole<T> cast(const Whole<double>& a) {
  Whole<T> c;
  c.n = a.n, c.start = a.start, c.column = a.column;
  for (const double v : a.value) c.value.push_back(T(real_t<T>(v)));
  return c;
}

TYPED_TEST(ClassicalOf, SolvesInFewIterationsOnAnyRanks) {
  using T = TypeParam;
  const auto a = cast<T>(laplacian(60, 50));
  AmgOptions<T> o;
  o.coarsening = AmgCoarsening::pmis;
  o.coarsest = 30;
  const auto alone = solve(a, Space::distributed(comm::Communicator::self(), a.n), o);
  EXPECT_LE(alone.iterations, 11);
  EXPECT_GE(alone.rows.size(), 4u);
  EXPECT_LE(alone.complexity, 2.6);
  on_ranks(
      [&](const comm::Communicator& comm) {
        auto p = o;
        const auto s = solve(a, uneven(comm, a.n), p);
        EXPECT_EQ(s.rows, alone.rows);
        EXPECT_LE(std::abs(s.iterations - alone.iterations), 1);
        p.coarsening = AmgCoarsening::hmis;
        EXPECT_LE(solve(a, uneven(comm, a.n), p).iterations, 12);
        p.aggressive = 1;
        EXPECT_LE(solve(a, uneven(comm, a.n), p).iterations, 24);
        p.aggressive = 0, p.interpolation = AmgInterpolation::multipass;
        EXPECT_LE(solve(a, uneven(comm, a.n), p).iterations, 24);
      },
      {2, 7});
}

// Convection: R = P^H all the same.
TEST(Classical, SolvesConvection) {
  const auto a = grid<double>(50, 50, 0.8);
  for (const int ranks : {1, 3})
    comm::run_threads(ranks, [&](const comm::Communicator& comm) {
      AmgOptions<double> o;
      o.coarsening = AmgCoarsening::hmis;
      EXPECT_LE(solve(a, uneven(comm, a.n), o, krylov::Method::gmres).iterations, 20);
    });
}

#if TACIT_SCALARS_Host & 8
// A times a number is as A is: the same P.
TEST(Classical, AFactorOfAnyAngleChangesNothing) {
  using T = std::complex<double>;
  const auto a = cast<T>(laplacian(20, 15));
  const auto turned = a.map([](Global, Global, T v) { return v * T(0, 2); });
  const auto space = Space::distributed(comm::Communicator::self(), a.n);
  const auto p = Made<T>(a, space, AmgCoarsening::pmis).interpolate(AmgInterpolation::extended_i, 4);
  const auto q = Made<T>(turned, space, AmgCoarsening::pmis).interpolate(AmgInterpolation::extended_i, 4);
  ASSERT_EQ(p.column, q.column);
  for (std::size_t k = 0; k < p.value.size(); ++k) EXPECT_LE(std::abs(p.value[k] - q.value[k]), 1e-13);
}
#endif

TYPED_TEST(ClassicalOf, DegenerateMatrices) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const AmgCoarsening how : {AmgCoarsening::pmis, AmgCoarsening::hmis})
          for (const bool aggressive : {false, true}) {
            AmgOptions<T> o;
            o.coarsening = how, o.aggressive = aggressive, o.coarsest = 10;
            const auto apply = [&](const Whole<T>& a) {
              const auto space = uneven(comm, a.n);
              const auto A = a.on(space);
              const Amg<T> M(*A, o);
              Vector<T> y(space);
              M.apply(spread(space, std::vector<T>(std::size_t(a.n), T(1))), y);
              const auto all = whole(y);
              for (const T v : all) EXPECT_TRUE(std::isfinite(std::abs(v)));
              return std::pair(all, M.levels().size());
            };
            EXPECT_NEAR(double(std::abs(apply(diagonal<T>({4})).first[0])), 0.25, 1e-6);
            // A diagonal has no coarse points; 1 / a_ii.
            std::vector<double> d;
            for (int i = 0; i < 70; ++i) d.push_back(i % 2 ? 2 : -3);
            const auto of_diagonal = apply(diagonal<T>(d));
            EXPECT_EQ(of_diagonal.second, 1u);
            for (std::size_t i = 0; i < d.size(); ++i)
              EXPECT_NEAR(double(std::real(of_diagonal.first[i])), 1 / d[i], 1e-5);
            // Two grids without couplings between them, and zero rows between.
            const auto one = laplacian(9, 8);
            Whole<T> a;
            a.n = 2 * one.n + 3;
            for (const Global shift : {Global(0), one.n + 3}) {
              for (Global r = 0; r < one.n; ++r) {
                for (Global k = one.start[std::size_t(r)]; k < one.start[std::size_t(r) + 1]; ++k)
                  a.push(one.column[std::size_t(k)] + shift, T(real_t<T>(one.value[std::size_t(k)])));
                a.end_row();
              }
              for (int r = 0; shift == 0 && r < 3; ++r) a.end_row();
            }
            const auto split = apply(a);
            EXPECT_GE(split.second, 2u);
            for (Global r = one.n; r < one.n + 3; ++r) EXPECT_EQ(split.first[std::size_t(r)], T(0));
            // Off-diagonal entries of the diagonal's sign alone: nothing is strong, the smoother does.
            EXPECT_EQ(
                apply(cast<T>(laplacian(9, 8)).map([](Global r, Global c, T v) { return r == c ? v : -v; })).second,
                1u);
          }
      },
      {2, 3});
}

TEST(Classical, NamesOptionsThatDoNotFit) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = laplacian(9, 5);
    const auto A = a.on(comm);
    const auto expect = [&](const std::string& text, const std::function<void(AmgOptions<double>&)>& change) {
      AmgOptions<double> o;
      change(o);
      const auto said = usage_error([&] { const Amg<double> M(*A, o); });
      EXPECT_NE(said.find(text), std::string::npos) << said;
    };
    expect("aggressive is of classical coarsening", [](auto& o) { o.aggressive = 1; });
    expect("p_max is of classical coarsening", [](auto& o) { o.p_max = 3; });
    expect("set coarsening to pmis or hmis", [](auto& o) { o.interpolation = AmgInterpolation::direct; });
    expect("p_max is -1", [](auto& o) { o.coarsening = AmgCoarsening::pmis, o.p_max = -1; });
    expect("aggressive is -1", [](auto& o) { o.coarsening = AmgCoarsening::pmis, o.aggressive = -1; });
    expect("near_null is of aggregation; coarsening is pmis", [&](auto& o) {
      o.coarsening = AmgCoarsening::pmis;
      o.near_null.assign(std::size_t(A->range().local_size()), 1.0);
    });
  });
}

}  // namespace
}  // namespace tacit::test
