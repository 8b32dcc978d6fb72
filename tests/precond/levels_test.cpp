// Cycles over levels, by themselves: each level's parts are small dense maps.
#include "precond/levels.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/amg.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgOptions;
using precond::Cycle;

template <class T>
class LevelsOf : public testing::Test {};
TYPED_TEST_SUITE(LevelsOf, Scalars);

/// Three levels of one matrix: the first passes f and u on, the cycle of the second is u := B f, the third is not used.
/// Keeps what it did.
template <class T>
class ThreeLevels final : public precond::Levels<T> {
 public:
  ThreeLevels(const op::Csr<T>& A, const op::Csr<T>& B, bool hermitian, int columns)
      : A_(A), B_(B), hermitian_(hermitian), columns_(columns), f(A.range(), columns), u(A.range(), columns) {}
  std::size_t count() const override { return 3; }
  std::string visited;

 private:
  void down(std::size_t i, bool) override { visited += char('0' + i); }
  void up(std::size_t i, bool) override {
    if (i == 1) B_.apply(f, u);
  }
  void solve_last(bool, bool) override { visited += '2'; }
  void restrict_f(std::size_t) override { visited += 'r'; }
  void interpolate_u(std::size_t) override { visited += 'p'; }
  const op::Operator<T, Host>& matrix(std::size_t) const override { return A_; }
  bool is_hermitian() const override { return hermitian_; }
  int columns() const override { return columns_; }
  void store_f(std::size_t, Vector<T>& to) const override { layout::copy(f, to); }
  void load_f(std::size_t, const Vector<T>& from) override { layout::copy(from, f); }
  void store_u(std::size_t, Vector<T>& to) const override { layout::copy(u, to); }
  void load_u(std::size_t, const Vector<T>& from) override { layout::copy(from, u); }
  const op::Csr<T>&A_, &B_;
  bool hermitian_;
  int columns_;

 public:
  Vector<T> f, u;
};

template <class T>
Whole<T> diagonal(const std::vector<T>& d) {
  Whole<T> a;
  a.n = Global(d.size());
  for (Global i = 0; i < a.n; ++i) a.push(i, d[std::size_t(i)]), a.end_row();
  return a;
}

/// diag(2, 3, ...) with small couplings, Hermitian or not.
template <class T>
Whole<T> dominant(Global n, bool hermitian) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    for (Global j = std::max<Global>(0, i - 1); j <= std::min(n - 1, i + 1); ++j) {
      T v = T(real_t<T>(2 + i % 7));
      if (i != j) {
        v = T(real_t<T>(0.4));
        if constexpr (is_complex<T>) v += T(0, real_t<T>(j > i ? 0.3 : -0.3));
        if (!hermitian && j > i) v *= real_t<T>(2);
      }
      a.push(j, v);
    }
    a.end_row();
  }
  return a;
}

template <class T>
Vector<T> column(const Vector<T>& x, int k) {
  Vector<T> one(x.space());
  for (std::size_t i = 0; i < one.size(); ++i) one.data()[i] = x.data()[i * std::size_t(x.columns()) + std::size_t(k)];
  return one;
}

/// The K-cycle's solution on the second level has a residual that is orthogonal to both cycles' corrections (times A,
/// where A is not Hermitian), and so the least error (residual) among their combinations.
TYPED_TEST(LevelsOf, KCyclesTakeTheBestOfTwoCorrections) {
  using T = TypeParam;
  using R = real_t<T>;
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global n = 23;
        const auto unit = diagonal<T>(std::vector<T>(std::size_t(n), T(R(0.7))));
        for (const bool hermitian : {true, false})
          for (const int columns : {1, 3}) {
            const auto a = dominant<T>(n, hermitian);
            const Space space = Space::distributed(comm, n);
            const auto A = a.on(space), B = unit.on(space);
            ThreeLevels<T> levels(*A, *B, hermitian, columns);
            Vector<T> f(space, columns), product(space, columns);
            for (std::size_t i = 0; i < f.size(); ++i)
              f.data()[i] = T(std::sin(R(1 + 3 * i + 100 * std::size_t(space.begin()))));
            layout::copy(f, levels.f);
            levels.cycle(Cycle::k, true);
            EXPECT_EQ(levels.visited, "01212");
            A->apply(levels.u, product);
            for (int k = 0; k < columns; ++k) {
              const auto r = column(f, k), p = column(product, k);
              Vector<T> left(space), c(space), d(space), v(space), w(space);
              layout::subtract(r, p, left);
              B->apply(r, c);
              A->apply(c, v);
              // The span of both corrections is that of B f and B A B f.
              B->apply(v, d);
              A->apply(d, w);
              const auto* const first = hermitian ? &c : &v;
              const auto* const second = hermitian ? &d : &w;
              const double tiny = 200 * double(std::numeric_limits<R>::epsilon()) * layout::norm(r);
              EXPECT_LE(std::abs(layout::dot(*first, left)), tiny * layout::norm(*first)) << k;
              EXPECT_LE(std::abs(layout::dot(*second, left)), tiny * layout::norm(*second)) << k;
            }
          }
      },
      {1, 3});
}

TEST(Levels, KCyclesAreContentWithAGoodCorrection) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = diagonal<double>({2, 2, 2, 2, 2}), b = diagonal<double>({0.6, 0.7, 0.5, 0.6, 0.6});
        const auto A = a.on(comm), B = b.on(comm);
        ThreeLevels<double> levels(*A, *B, true, 1);
        layout::fill(levels.f, 1.0);
        levels.cycle(Cycle::k, true);
        EXPECT_EQ(levels.visited, "012");
        layout::fill(levels.f, 0.0);
        levels.cycle(Cycle::k, true);
        EXPECT_EQ(layout::norm(levels.u), 0);
      },
      {1, 2});
}

TEST(Levels, CyclesVisitLevelsInTheirOrder) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = diagonal<double>({2, 2, 2});
        const auto A = a.on(comm);
        const auto visits = [&](Cycle cycle) {
          ThreeLevels<double> levels(*A, *A, true, 1);
          levels.cycle(cycle, true);
          return levels.visited;
        };
        EXPECT_EQ(visits(Cycle::v), "012");
        EXPECT_EQ(visits(Cycle::u), "012");
        EXPECT_EQ(visits(Cycle::w), "01212");
        EXPECT_EQ(visits(Cycle::f), "rr2p12p012");
      },
      {1});
}

/// Full multigrid with two levels: x0 = P A_c^-1 R f, and a V-cycle from there.
TEST(Levels, FullMultigridOfAMatrixByItsDefinition) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(15, 11);
        const auto A = a.on(comm);
        AmgOptions<double> o;
        o.max_levels = 2, o.coarsest = 100;
        const Amg<double> V(*A, o);
        ASSERT_EQ(V.levels().size(), 2u);
        o.cycle = Cycle::f;
        const Amg<double> F(*A, o);
        const Amg<double> coarse(V.matrix(1), o);
        const auto f = spread(A->range(), random_vector<double>(a.n, 3));
        Vector<double> x(A->range()), found(A->range()), r(A->range()), c(A->range());
        Vector<double> fc(coarse.range()), uc(coarse.range());
        V.prolongation(0).apply_adjoint(f, fc);
        coarse.apply(fc, uc);
        V.prolongation(0).apply(uc, x);
        A->apply(x, r);
        layout::subtract(f, r, r);
        V.apply(r, c);
        layout::axpy(1.0, c, x);
        F.apply(f, found);
        layout::axpy(-1.0, x, found);
        EXPECT_LE(layout::norm(found), 1e-12 * layout::norm(x));
      },
      {1, 3});
}

/// A mult-additive cycle is the V-cycle, with 3 exchanges a level in place of 4.
TYPED_TEST(LevelsOf, MultAdditiveCyclesAreVCycles) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const bool hermitian : {true, false})
          for (const auto smoother :
               {precond::AmgSmoother::spai0, precond::AmgSmoother::jacobi, precond::AmgSmoother::l1_jacobi}) {
            const auto a = grid<T>(17, 13).map([&](Global r, Global c, T v) {
              return !hermitian && c > r ? v * real_t<T>(1.0 + 0.3 * double(r % 4)) : v;
            });
            const auto A = a.on(comm);
            AmgOptions<T> o;
            o.coarsest = 4, o.smoother = smoother, o.agglomerate_below = 0;
            const Amg<T> V(*A, o);
            o.cycle = Cycle::mult_additive;
            const Amg<T> M(*A, o);
            ASSERT_GE(M.levels().size(), 3u);
            EXPECT_EQ(M.has_adjoint(), hermitian);
            Vector<T> x(A->range(), 2), y(A->range(), 2), z(A->range(), 2);
            for (std::size_t i = 0; i < x.size(); ++i)
              x.data()[i] = T(std::cos(real_t<T>(2 * std::size_t(A->range().begin()) + i)));
            const auto exchanges = [&](const Amg<T>& P, Vector<T>& to) {
              const auto before = comm.counters().exchanges;
              P.apply(x, to);
              return comm.counters().exchanges - before;
            };
            const auto levels = std::int64_t(M.levels().size()) - 1;
            const auto of_v = exchanges(V, y), of_m = exchanges(M, z);
            if (comm.size() > 1) {
              EXPECT_EQ(of_v, 4 * levels);
              EXPECT_EQ(of_m, 3 * levels);
            }
            layout::axpy(T(-1), y, z);
            EXPECT_LE(layout::norm(z), 100 * double(std::numeric_limits<real_t<T>>::epsilon()) * layout::norm(y))
                << to_string(smoother) << ' ' << hermitian;
          }
      },
      {3});
}

TEST(Levels, MultAdditiveCyclesNeedADiagonalSmoother) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto A = grid<double>(9, 9).on(comm);
        AmgOptions<double> o;
        o.cycle = Cycle::mult_additive, o.sweeps = 2;
        EXPECT_THROW(Amg<double>(*A, o), Error);
        o.sweeps = 1, o.smoother = precond::AmgSmoother::gauss_seidel;
        EXPECT_THROW(Amg<double>(*A, o), Error);
      },
      {1, 2});
}

/// Levels in single precision are those of the matrix rounded to it, for matrices and vectors of any size.
TEST(Levels, InSinglePrecision) {
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const double size : {1.0, 1e-200, 1e150}) {
          auto a = grid<double>(17, 13);
          for (double& v : a.value) v *= size;
          const auto A = a.on(comm);
          AmgOptions<double> o;
          o.coarsest = 20;
          const Amg<double> M(*A, o);
          o.single_levels = true;
          const Amg<double> single(*A, o);
          EXPECT_EQ(M.levels().size(), single.levels().size());
          for (const double of_x : {1.0, 1e-120, 1e100}) {
            const auto b = spread(A->range(), random_vector<double>(a.n, 3));
            Vector<double> x(A->range()), y(A->range()), z(A->range());
            for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = of_x * b.data()[i];
            M.apply(x, y);
            single.apply(x, z);
            layout::axpy(-1.0, y, z);
            EXPECT_LE(layout::norm(z), 1e-5 * layout::norm(y)) << size << ' ' << of_x;
            EXPECT_GE(layout::norm(z), 1e-12 * layout::norm(y)) << size << ' ' << of_x;
          }
        }
      },
      {1, 2});
}

TEST(Levels, InSinglePrecisionNeedDiagonalsInItsRange) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = diagonal<double>({1e60, 1, 1e-30});
        const auto A = a.on(comm);
        AmgOptions<double> o;
        o.single_levels = true;
        try {
          const Amg<double> M(*A, o);
          FAIL();
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("row 1 "), std::string::npos) << e.what();
        }
      },
      {1, 2});
}

}  // namespace
}  // namespace tacit::test
