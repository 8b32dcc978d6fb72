// Jacobi, and what holds for all preconditioners: their names and options, signs, threads, ranks without rows.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::Jacobi;
using precond::PolynomialKind;

template <class T>
class Precond : public testing::Test {};
TYPED_TEST_SUITE(Precond, Scalars);

TYPED_TEST(Precond, JacobiIsTheInverseOfTheDiagonal) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = scattered<T>(17, 3, 1).map([](Global r, Global c, T v) { return r == c ? v * phase<T>(r + 1) : v; });
    const auto A = a.on(comm);
    const Jacobi<T> P(*A);
    EXPECT_EQ(P.name(), "jacobi");
    ASSERT_NE(P.pointwise(), nullptr);
    const auto m = dense_of(P), d = a.dense();
    for (Global i = 0; i < a.n; ++i)
      for (Global j = 0; j < a.n; ++j) {
        EXPECT_LE(std::abs(m[i][j] * (i == j ? d[i][i] : T(1)) - T(i == j)), i == j ? tolerance<T>(8) : 0);
      }
    expect_adjoint<T>(P);
    expect_columns<T>(P);
    const Jacobi<T> absolute(*A, true);
    expect_symmetric_positive<T>(absolute);
  });
}

/// Nodes of three unknowns, each in a unit of its own.
template <Scalar T>
Whole<T> in_units(Global n) {
  return scattered<T>(n, 3, 1).map([](Global r, Global c, T v) {
    return v * phase<T>(r + 2 * c) * T(std::ldexp(real_t<T>(1), int(20 * (r % 3) - 9 * (c % 3))));
  });
}

TYPED_TEST(Precond, NodeJacobiIsTheInverseOfTheBlocksOfNodes) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = in_units<T>(17);
    const auto A = a.on(comm);
    for (const int b : {1, 3, 40}) {
      const auto P = precond::make<T, Host>("node-jacobi", *A, {.block = b});
      EXPECT_EQ(P->name(), message("node-jacobi (", b, ")"));
      EXPECT_EQ(dynamic_cast<const op::Noted&>(*P).note(), "");
      const auto m = dense_of(*P), d = a.dense();
      const auto owner = [&](Global i) { return A->range().partition().owner(i); };
      for (Global i = 0; i < a.n; ++i)
        for (Global j = 0; j < a.n; ++j) {
          const auto together = [&](Global k) { return k / b == i / b && owner(k) == owner(i); };
          if (!together(j)) {
            EXPECT_EQ(m[i][j], T(0));
            continue;
          }
          // In the units in which all entries of A are of one size.
          T sum(-T(i == j));
          double row = 0, column = 0;
          for (Global k = 0; k < a.n; ++k) {
            if (!together(k)) continue;
            sum += d[i][k] * m[k][j];
            row = std::max(row, std::ldexp(double(std::abs(d[i][k])), int(9 * (k % 3) - 20 * (i % 3))));
            column = std::max(column, std::ldexp(double(std::abs(m[k][j])), int(20 * (j % 3) - 9 * (k % 3))));
          }
          const double error = std::ldexp(double(std::abs(sum)), int(20 * (j % 3) - 20 * (i % 3)));
          EXPECT_LE(error, tolerance<T>(1000) * row * column) << b << ": " << i << ", " << j;
        }
      expect_adjoint<T>(*P);
      expect_columns<T>(*P);
    }
  });
}

TYPED_TEST(Precond, NodeJacobiTakesTheDiagonalOfSingularBlocks) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // Node 1 has equal rows, node 2 no entries, node 3 a zero on its diagonal.
    const auto a = tridiagonal<T>(8, 1, 4, 1).map([](Global r, Global c, T v) {
      if (r / 2 == 1 && c / 2 == 1) return T(2);
      if (r / 2 == 2) return T(0);
      return r == 6 && c == 6 ? T(0) : v;
    });
    const auto A = a.on(
        layout::Space::distributed(comm, layout::Partition::of_counts(comm.size() == 1 ? std::vector<Global>{8} : [&] {
                                     std::vector<Global> counts(std::size_t(comm.size()), 0);
                                     counts.front() = 4, counts.back() = 4;
                                     return counts;
                                   }())));
    const auto P = precond::make<T, Host>("node-jacobi", *A, {.block = 2});
    const auto m = dense_of(*P);
    for (const Global i : {2, 3}) EXPECT_EQ(m[i][i], T(real_t<T>(0.5)));
    for (const Global i : {4, 5}) EXPECT_EQ(m[i][i], T(1));
    EXPECT_LE(std::abs(m[6][7] * a.dense()[7][6] - T(1)), tolerance<T>(8));
    EXPECT_NE(dynamic_cast<const op::Noted&>(*P).note().find("2 blocks are singular"), std::string::npos);
  });
}

TYPED_TEST(Precond, NodeJacobiFindsTheUnknownsOfANode) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto line = tridiagonal<T>(360, -1, 4, -1);
        Whole<T> full;
        full.n = 360;  // nodes that no rank cuts
        for (Global r = 0; r < full.n; ++r) {
          for (Global c = std::max<Global>(r / 3 * 3 - 3, 0); c < std::min(r / 3 * 3 + 6, full.n); ++c)
            full.push(c, T(r == c ? 9 : 1));
          full.end_row();
        }
        EXPECT_EQ((precond::make<T, Host>("node-jacobi", *line.on(comm))->name()), "node-jacobi (1)");
        EXPECT_EQ((precond::make<T, Host>("node-jacobi", *full.on(comm))->name()), "node-jacobi (3)");
        EXPECT_NE(
            usage_error([&] { precond::make<T, Host>("node-jacobi", *line.on(comm), {.block = 5000}); }).find("1024"),
            std::string::npos);
      },
      {1});
}

TYPED_TEST(Precond, JacobiNamesTheRowThatCannotBeInverted) {
  using T = TypeParam;
  using R = real_t<T>;
  on_ranks([](const comm::Communicator& comm) {
    for (const R bad : {std::numeric_limits<R>::quiet_NaN(), std::numeric_limits<R>::infinity(),
                        std::numeric_limits<R>::denorm_min()}) {
      // Where several ranks have such rows, the error is that of any of them.
      const Global last = comm.size() == 1 ? 10 : 7;
      const auto a = tridiagonal<T>(11, -1, 2, -1).map([&](Global r, Global c, T v) {
        return r == c && r >= 7 && r <= last ? T(bad) : v;
      });
      const auto A = a.on(comm);
      const auto text = usage_error([&] { Jacobi<T> P(*A); });
      EXPECT_NE(text.find("row 7 "), std::string::npos) << text;
    }
  });
}

TYPED_TEST(Precond, JacobiTakesZerosAsTheLargestDiagonalEntry) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    for (const bool all : {false, true}) {
      const auto entry = [&](Global r) { return all || r % 4 == 1 ? T(0) : T(-real_t<T>(1 + r % 3)); };
      const auto a = tridiagonal<T>(11, -1, 2, -1).map([&](Global r, Global c, T v) { return r == c ? entry(r) : v; });
      const auto A = a.on(comm);
      const Jacobi<T> P(*A);
      EXPECT_TRUE(P.is_doubtful());
      EXPECT_NE(P.note().find(all ? "11 of 11 diagonal" : "3 of 11 diagonal"), std::string::npos) << P.note();
      const auto x = P.pointwise()->to_host();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const T d = entry(A->range().begin() + Global(i));
        EXPECT_EQ(x[i], T(1) / (d != T(0) ? d : T(real_t<T>(all ? 1 : 3))));
      }
    }
  });
}

TYPED_TEST(Precond, OfMinusAIsMinusThatOfA) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<T>(7, 6);
    const auto A = a.on(comm), B = a.map([](Global, Global, T v) { return -v; }).on(comm);
    const auto x = random_vector<T>(a.n, 3);
    for (const char* name : {"jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial"}) {
      const auto P = precond::make<T, Host>(name, *A), Q = precond::make<T, Host>(name, *B);
      Vector<T> y(A->range()), z(A->range());
      P->apply(spread(A->range(), x), y);
      Q->apply(spread(A->range(), x), z);
      for (std::size_t i = 0; i < z.size(); ++i) z.data()[i] = -z.data()[i];
      EXPECT_LE(relative_difference(whole(z), whole(y)), tolerance<T>(50)) << name;
    }
  });
}

TYPED_TEST(Precond, ResultsDoNotDependOnThreads) {
#ifdef _OPENMP
  using T = TypeParam;
  if (under_mpi()) GTEST_SKIP();
  // Wide levels: a block-diagonal matrix of many short chains, ordered so that each level is a range of rows.
  Whole<T> chains;
  const Global width = 33000;
  chains.n = 3 * width;
  for (Global i = 0; i < chains.n; ++i) {
    if (i >= width) chains.push(i - width, T(-1));
    chains.push(i, T(3));
    if (i + width < chains.n) chains.push(i + width, T(-1));
    chains.end_row();
  }
  for (const auto& a : {grid<T>(60, 50), chains}) {
    const auto x = random_vector<T>(a.n, 8);
    for (const char* name : {"jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial"}) {
      std::vector<T> first;
      for (const int threads : {1, 2, 3}) {
        const Threads team(threads);
        const auto A = a.on(comm::Communicator::self());
        const auto P = precond::make<T, Host>(name, *A);
        Vector<T> y(A->range());
        P->apply(spread(A->range(), x), y);
        if (threads == 1) first = whole(y);
        EXPECT_EQ(first, whole(y)) << name << " " << threads;
      }
    }
  }
#endif
}

TYPED_TEST(Precond, EmptyRanksAndEmptyMatricesAreFine) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    for (const Global n : {0, 1, 2}) {
      const auto a = tridiagonal<T>(n, -1, 3, -1);
      const auto A = a.on(comm);
      for (const auto& name : tacit::names<precond::Kind>()) {
        const auto P = precond::make<T, Host>(name, *A);
        if (!P) continue;
        Vector<T> x(A->range()), y(A->range());
        layout::fill(x, T(1));
        P->apply(x, y);
        EXPECT_EQ(P->domain().size(), n);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_GT(real(y.data()[i]), 0.1) << name;
      }
    }
  });
}
TEST(Make, KnowsItsNamesAndOptions) {
  using precond::Kind;
  on_ranks([](const comm::Communicator& comm) {
    const auto A = grid<double>(6, 6).on(comm);
    const auto make = [&](const char* name, const precond::Options& o = {}) {
      return precond::make<double, Host>(name, *A, o);
    };
    EXPECT_EQ(make("none"), nullptr);
    EXPECT_EQ(make("jacobi")->name(), "jacobi");
    EXPECT_EQ(make("jacobi", {.absolute = true})->name(), "jacobi (absolute values)");
    EXPECT_EQ(make("ilu0")->name(), "block-jacobi (ilu0)");
    EXPECT_EQ(make("block-jacobi")->name(), "block-jacobi (ilu0)");
    EXPECT_EQ(make("block-jacobi", {.solver = Kind::ic0, .blocks = 2})->name(), "block-jacobi (ic0, 2 blocks a rank)");
    EXPECT_EQ(make("block-jacobi", {.solver = Kind::spai})->name(), "spai (local)");
    EXPECT_EQ(make("ic0")->name(), "block-jacobi (ic0)");
    EXPECT_EQ(make("iluk", {.levels = 0})->name(), "block-jacobi (iluk, levels 0, 1 entries for one of A)");
    EXPECT_EQ(make("block-jacobi", {.solver = Kind::ick, .levels = 0})->name(), make("ick", {.levels = 0})->name());
    EXPECT_EQ(make("spai", {.local = false})->name(), "spai");
    EXPECT_EQ(make("fsai")->name(), "fsai");
    EXPECT_EQ(make("polynomial", {.degree = 3})->name(), "polynomial (chebyshev, degree 3)");
    EXPECT_EQ(make("polynomial", {.kind = PolynomialKind::neumann, .relaxation = 0.9})->name(),
              "polynomial (neumann, degree 4)");
    const auto says = [&](const char* name, const precond::Options& o, std::initializer_list<const char*> words) {
      const auto text = usage_error([&] { make(name, o); });
      for (const char* w : words) EXPECT_NE(text.find(w), std::string::npos) << text;
    };
    says("jacoby", {}, {"jacoby", "did you mean \"jacobi\"", "block-jacobi"});
    says("ilu", {}, {"\"ilu0\""});
    says("none", {.degree = 3}, {"degree 3", "option of polynomial", "none has none"});
    says("jacobi", {.local = true}, {"local true", "spai, fsai", "jacobi has none"});
    says("polynomial", {.degree = -1}, {"degree is -1", "at least 0"});
    says("polynomial", {.relaxation = 1}, {"relaxation", "neumann"});
    says("polynomial", {.kind = PolynomialKind::neumann, .lambda_max = 2}, {"lambda_max", "chebyshev"});
    says("block-jacobi", {.solver = Kind::polynomial},
         {"solver is polynomial", "ilu0, ic0, iluk, ick, ilut, spai, fsai"});
    says("block-jacobi", {.solver = Kind::spai, .blocks = 2}, {"blocks"});
    says("block-jacobi", {.drop = 0.1}, {"drop", "ilut"});
    says("ilu0", {.blocks = 0}, {"blocks"});
    says("ilu0", {.levels = 1}, {"levels", "iluk, ick"});
    says("ilut", {.drop = -1}, {"drop is -1"});
    says("ilut", {.pivoting = 2}, {"pivoting is 2"});
  });
}

TEST(Make, RefusesAMatrixThatIsNotFinite) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(4, 4).map([](Global r, Global c, double v) { return r == 9 && c == 10 ? NAN : v; });
    const auto A = a.on(comm);
    for (const char* name : {"ilu0", "ic0", "iluk", "ick", "ilut", "spai", "fsai"}) {
      const auto text = usage_error([&] { precond::make<double, Host>(name, *A); });
      EXPECT_NE(text.find("row 9, column 10"), std::string::npos) << name << ": " << text;
    }
  });
}

TEST(Iterations, FallAsThePreconditionerGetsStronger) {
  on_ranks(
      [](const comm::Communicator& comm) {
        // A diagonal scaling with jumps, which jacobi removes.
        const auto s = [](Global i) { return std::pow(10.0, noise(3, std::uint64_t(i))); };
        const auto a = grid<double>(24, 24).map([&](Global r, Global c, double v) { return v * s(r) * s(c); });
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 12);
        std::map<std::string, int> iterations;
        for (const auto& name : tacit::names<precond::Kind>()) {
          const auto P = precond::make<double, Host>(name, *A);
          const auto rhs = spread(A->range(), b);
          Vector<double> x(A->range());
          krylov::Options o;
          o.method = !precond::is_symmetric(name) ? krylov::Method::gmres : krylov::Method::cg;
          if (krylov::takes(o.method, "restart")) o.restart = 200;
          const auto report = krylov::solve<double, Host>(*A, P.get(), rhs, x, o);
          EXPECT_TRUE(report.converged()) << name << ": " << report.detail;
          EXPECT_LE(residual_of(a, b, whole(x)), 1.001e-8L) << name;
          iterations[name] = report.iterations;
        }
        const auto& i = iterations;
        EXPECT_LT(i.at("jacobi"), i.at("none") / 2);
        EXPECT_LT(i.at("ic0"), i.at("jacobi"));
        EXPECT_LT(i.at("fsai"), i.at("jacobi"));
        EXPECT_LT(i.at("spai"), i.at("none") / 2);
        EXPECT_LT(i.at("polynomial"), i.at("jacobi") / 2);
        EXPECT_EQ(i.at("block-jacobi"), i.at("ilu0"));
        EXPECT_LT(i.at("ick"), i.at("ic0"));
        EXPECT_LT(i.at("iluk"), i.at("ilu0"));
        EXPECT_LT(i.at("ilut"), i.at("ilu0"));
        EXPECT_LE(std::abs(i.at("ilu0") - i.at("ic0")), 2);  // the same operator, computed differently
      },
      {2, 4});
}

}  // namespace
}  // namespace tacit::test
