// The sweeps of s-step CG without a basis: moments, and steps with known coefficients.
#include "krylov/cg_sweeps.hpp"
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <tacit/op/csr.hpp>
#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace tacit::test {
namespace {

using krylov::CgSweeps;
using layout::Vector;

template <class T>
class Sweeps : public testing::Test {};
TYPED_TEST_SUITE(Sweeps, test::Scalars);

/// A Hermitian matrix on a grid that is cut into many blocks; eigenvalues between 0 and 8.6.
template <class T>
std::unique_ptr<op::Csr<T, Host>> matrix() {
  return grid<T>(90, 210)
      .map([](Global r, Global c, T v) { return r == c ? v + T(real_t<T>(0.1 * double(r % 7))) : v; })
      .on(comm::Communicator::self());
}
template <class T>
op::Recurrence<T> chebyshev(int s) {
  op::Recurrence<T> steps;
  for (int k = 0; k < s; ++k)
    steps.push_back({T(real_t<T>(4.3)), T(real_t<T>(k ? 2.15 : 0)), real_t<T>(k ? 2.15 : 4.3)});
  return steps;
}
template <class T>
constexpr double rounding = 64 * double(std::numeric_limits<real_t<T>>::epsilon());

/// A diagonal between 0.5 and 2.
template <class T>
Vector<T> diagonal(const layout::Space& space) {
  Vector<T> d(space);
  for (std::size_t i = 0; i < d.size(); ++i)
    d.data()[i] = T(real_t<T>(0.5 + 1.5 * double((std::size_t(space.begin()) + i) % 11) / 10));
  return d;
}
template <class T>
Vector<T> times(const Vector<T>& d, Vector<T> v) {
  for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] *= d.data()[i];
  return v;
}
template <class T>
Vector<T> over(const Vector<T>& d, Vector<T> v) {
  for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] /= d.data()[i];
  return v;
}

/// p, z = P r and what their sweeps give, beside products one by one.
template <class T>
struct Beside {
  using W = exec::wide_t<T>;
  std::unique_ptr<op::Csr<T, Host>> A = matrix<T>();
  op::RowsAround<T> rows{*A->whole()};
  layout::Space space = A->domain();
  Vector<T> d = diagonal<T>(space);
  bool scaled;
  explicit Beside(bool with_P) : scaled(with_P) {
    if (!scaled) std::fill_n(d.data(), d.size(), T(1));
  }
  CgSweeps<T> sweeps(int most, int threads) { return {rows, scaled ? &d : nullptr, most, threads}; }
  Vector<T> multiply(const Vector<T>& v) const {  // P A v
    Vector<T> y(space);
    A->apply(v, y);
    return times(d, y);
  }
};

TYPED_TEST(Sweeps, GiveTheMomentsOfThePowers) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using W = exec::wide_t<T>;
  for (const bool with_P : {false, true}) {
    Beside<T> beside(with_P);
    const auto first = vector_of<T>(beside.space, 3), second = vector_of<T>(beside.space, 4);
    for (const int s : {1, 2, 3, 8}) {
      const auto steps = chebyshev<T>(s);
      const auto powers = [&](const Vector<T>& v) {
        std::vector<Vector<T>> all{v};
        for (int k = 0; k < s; ++k) {
          auto next = beside.multiply(all.back());
          op::extend<T, Host>(steps[std::size_t(k)], k ? &all[std::size_t(k) - 1] : nullptr, all.back(), next);
          all.push_back(next);
        }
        return all;
      };
      const auto p = powers(first), z = powers(second);
      std::vector<W> one;
      for (const int threads : {1, 2, 5}) {
        auto sweeps = beside.sweeps(8, threads);
        // p = first, z = second: p := z + p from p = z = first - second.
        auto start = first;
        layout::axpy(T(real_t<T>(-1)), second, start);
        sweeps.set_residual(over(beside.d, start).data()), sweeps.turn(0);
        const auto r = over(beside.d, second);
        sweeps.set_residual(r.data()), sweeps.turn(1);
        std::vector<W> sums(std::size_t(sweeps.sums_of(s)));
        sweeps.powers(steps, sums);
        for (int k = 0; k <= s; ++k) {
          const auto near = [&](int i, const Vector<T>& a, const Vector<T>& b) {
            const W expected = W(layout::dot(over(beside.d, a), b)), found = sums[std::size_t(6 * k + i)];
            EXPECT_LE(std::abs(expected - found), 2 * rounding<T> * layout::norm(a) * layout::norm(b))
                << "s = " << s << ", level " << k << ", sum " << i << ", " << threads << " threads, P " << with_P;
          };
          near(0, p[k], p[k]);
          if (k > 0) near(1, p[k], p[k - 1]), near(5, p[k], z[k - 1]);
          if (k < s || s == 0) near(2, z[k], z[k]), near(4, p[k], z[k]);
          if (k > 0 && k < s) near(3, z[k], z[k - 1]);
        }
        Vector<T> image(beside.space);
        beside.A->apply(first, image);
        const W product = W(layout::dot(first, image)), square = W(layout::dot(r, r));
        EXPECT_LE(std::abs(product - sums[sums.size() - 2]), rounding<T> * layout::norm(first) * layout::norm(image));
        EXPECT_LE(std::abs(square - sums.back()), rounding<T> * std::abs(square));
        const auto squares = sweeps.squares();
        EXPECT_LE(std::abs(squares[0] - W(layout::dot(r, second))), rounding<T> * std::abs(square));
        EXPECT_LE(std::abs(squares[1] - square), rounding<T> * std::abs(square));
        if (one.empty()) one = sums;
        EXPECT_EQ(std::memcmp(one.data(), sums.data(), sums.size() * sizeof(W)), 0) << threads << " threads";
      }
    }
  }
}

TYPED_TEST(Sweeps, TakeStepsWithKnownCoefficients) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const double alpha[] = {0.2, 0.15, 0.3, 0.25, 0.1, 0.22}, beta[] = {0.5, 0.4, 0.7, 0.3, 0.6, 0.2};
  for (const bool with_P : {false, true}) {
    Beside<T> beside(with_P);
    const auto& space = beside.space;
    const auto start = vector_of<T>(space, 3);
    for (const int count : {1, 4, 6}) {
      for (const bool turns : {true, false}) {
        Vector<T> x(space), z = times(beside.d, start), p = z;
        std::vector<typename CgSweeps<T>::Step> steps;
        for (int j = 0; j < count; ++j) {
          const auto PAp = beside.multiply(p);
          layout::axpy(T(real_t<T>(alpha[j])), p, x);
          layout::axpy(T(real_t<T>(-alpha[j])), PAp, z);
          const bool turn = turns || j + 1 < count;
          if (turn) layout::scale(T(real_t<T>(beta[j])), p), layout::axpy(T(1), z, p);
          steps.push_back({alpha[j], beta[j], turn});
        }
        Vector<T> one(space);
        for (const int threads : {1, 2, 5}) {
          auto sweeps = beside.sweeps(6, threads);
          sweeps.set_residual(start.data()), sweeps.turn(0);
          std::vector<exec::wide_t<T>> sums(std::size_t(sweeps.sums_of(2)));
          sweeps.powers(chebyshev<T>(2), sums);  // which gets the rows that other threads have
          Vector<T> found(space), residual(space);
          sweeps.iterate(steps, found.data());
          sweeps.copy_residual(residual.data());
          const auto near = [&](const Vector<T>& expected, Vector<T> v, const char* what) {
            layout::axpy(T(-1), expected, v);
            EXPECT_LE(layout::norm(v), 2 * rounding<T> * layout::norm(expected)) << what << " of " << count << " steps";
          };
          near(x, found, "x"), near(over(beside.d, z), residual, "r");
          // p, by the moments of the next block: (p, p) and (p, r).
          sweeps.powers(chebyshev<T>(1), std::span(sums).first(std::size_t(sweeps.sums_of(1))));
          const auto square = exec::wide_t<T>(layout::dot(over(beside.d, p), p));
          EXPECT_NEAR(std::abs(sums[0] - square), 0, 2 * rounding<T> * std::abs(square));
          if (threads == 1) one = found;
          EXPECT_EQ(std::memcmp(one.data(), found.data(), one.size() * sizeof(T)), 0) << threads << " threads";
        }
      }
    }
  }
}

TEST(SweepsOfCg, KeepTheDigitsOfSmoothVectors) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  // Few eigenvectors of the lowest eigenvalues: (p, A p) is 1e-6 of ||A|| (p, p).
  const Global n = 3000;
  Whole<double> a;
  a.n = n;
  std::vector<double> b(std::size_t(n), 0.0);
  for (Global i = 0; i < n; ++i) {
    if (i > 0) a.push(i - 1, -1);
    a.push(i, 2);
    if (i + 1 < n) a.push(i + 1, -1);
    a.end_row();
    const double t = 3.14159265358979323846 * double(i + 1) / double(n + 1);
    b[std::size_t(i)] = std::sin(t) + 0.1 * std::sin(2 * t);
  }
  const auto A = a.on(comm::Communicator::self());
  krylov::Options o;
  o.method = krylov::Method::cg, o.rtol = 1e-8;
  const int classical = run(*A, b, o).report.iterations;
  o.method = krylov::Method::ca_cg;
  for (const int s : {1, 2, 8}) {
    o.step = s;
    const auto report = run(*A, b, o).report;
    EXPECT_TRUE(report.converged());
    EXPECT_LE(report.iterations, classical + 4) << s;
  }
}

TEST(SweepsOfCg, ReplaceResidualsInTheLargestMagnitude) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = grid<double>(60, 60);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 1);
  krylov::Options o;
  o.rtol = 1e-8, o.norm = krylov::Norm::max, o.method = krylov::Method::cg;
  const int classical = run(*A, b, o).report.iterations;
  o.method = krylov::Method::ca_cg;
  for (const int period : {0, 5, 17}) {
    o.replacement = period;
    const auto found = run(*A, b, o);
    EXPECT_TRUE(found.report.converged());
    EXPECT_EQ(found.report.method, "ca-cg");
    EXPECT_LE(found.report.iterations, 1.1 * classical + 8) << period;
  }
}

TYPED_TEST(Sweeps, AreTheSameBitsForAnyThreads) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto A = matrix<T>();
  const auto b = random_vector<T>(A->domain().size(), 3);
  krylov::Options o;
  o.method = krylov::Method::ca_cg, o.step = 6, o.rtol = std::same_as<real_t<T>, double> ? 1e-9 : 1e-4;
  std::vector<T> one;
  for (const int team : {1, 2, 3}) {
    const test::Threads threads(team);
    const auto found = run(*A, b, o);
    EXPECT_EQ(found.report.reason, krylov::Reason::converged);
    if (team == 1) one = found.x;
    EXPECT_EQ(std::memcmp(one.data(), found.x.data(), one.size() * sizeof(T)), 0) << team << " threads";
  }
}

/// With rows of others around its own a rank needs one exchange for a block.
TYPED_TEST(Sweeps, WorkOnRanks) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(70, 90).map(
            [](Global r, Global c, T v) { return r == c ? v + T(real_t<T>(0.1 * double(r % 7))) : v; });
        const auto A = a.on(comm);
        ASSERT_TRUE(A->rows_around(6));
        const auto b = random_vector<T>(a.n, 3);
        const precond::Jacobi<T> jacobi(*A);
        krylov::Options o;
        o.rtol = std::same_as<real_t<T>, double> ? 1e-9 : 1e-4;
        for (const op::Operator<T, Host>* P :
             {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi}) {
          o.method = krylov::Method::cg, o.step.reset();
          const auto classical = run(*A, b, o, P).report;
          o.method = krylov::Method::ca_cg, o.step = 6;
          const auto found = run(*A, b, o, P);
          EXPECT_EQ(found.report.reason, krylov::Reason::converged);
          EXPECT_LE(residual_of(a, b, found.x), 1.001 * *o.rtol);
          EXPECT_LE(found.report.iterations, 1.05 * classical.iterations + 6);
          if (comm.size() > 1) {
            EXPECT_LE(found.report.counts.exchanges, 0.5 * found.report.iterations) << (P ? "with P" : "without P");
          }
        }
      },
      {2, 3, 5});
}

/// Where far rows are coupled a rank would need most of the matrix: the basis is stored then.
TEST(SweepsOfCg, AreNotTriedWhereTooManyRowsAreAround) {
  on_ranks(
      [](const comm::Communicator& comm) {
        Whole<double> a;
        a.n = 30000;
        for (Global i = 0; i < a.n; ++i) {
          std::map<Global, double> row{{i, 6}};
          for (const Global far : {a.n / 4, a.n / 2, 3 * a.n / 4}) row[(i + far) % a.n] -= 1;
          if (i > 0) row[i - 1] -= 1;
          if (i + 1 < a.n) row[i + 1] -= 1;
          for (const auto& [c, v] : row) a.push(c, v);
          a.end_row();
        }
        const auto A = a.on(comm);
        const bool near = comm.size() < 3;  // two ranks have one half each
        EXPECT_EQ(A->rows_around(4) != nullptr, near);
        EXPECT_EQ(A->rows_around(4) != nullptr, near);  // nor the second time
        const auto b = random_vector<double>(a.n, 3);
        krylov::Options o;
        o.method = krylov::Method::ca_cg, o.step = 4, o.rtol = 1e-8;
        const auto found = run(*A, b, o);
        EXPECT_TRUE(found.report.converged());
        EXPECT_LE(residual_of(a, b, found.x), 1.001e-8);
      },
      {3, 4});
}

/// After new values the rows around are those of the new matrix.
TEST(SweepsOfCg, FollowNewValuesOnRanks) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(40, 60);
        const auto A = a.on(comm);
        ASSERT_TRUE(A->rows_around(4));
        auto values = A->rows().value;
        for (auto& v : values) v *= 3;
        A->update_values(values);
        const auto tripled = a.map([](Global, Global, double v) { return 3 * v; });
        const auto b = random_vector<double>(a.n, 3);
        krylov::Options o;
        o.method = krylov::Method::ca_cg, o.step = 4, o.rtol = 1e-9;
        const auto found = run(*A, b, o);
        EXPECT_EQ(found.report.method, "ca-cg");
        EXPECT_LE(residual_of(tripled, b, found.x), 1.001e-9);
      },
      {3});
}

}  // namespace
}  // namespace tacit::test
