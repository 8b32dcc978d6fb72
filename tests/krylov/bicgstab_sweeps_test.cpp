// The sweeps of s-step BiCGStab without a basis: Gram matrices of powers, and steps with known coefficients.
#include "krylov/bicgstab_sweeps.hpp"
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <tacit/op/csr.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <optional>

namespace tacit::test {
namespace {

using krylov::BicgstabSweeps;
using krylov::GramTiles;
using krylov::MovingRows;
using layout::Vector;

template <class T>
class BicgstabWaves : public testing::Test {};
TYPED_TEST_SUITE(BicgstabWaves, test::Scalars);

template <class T>
constexpr double rounding = 64 * double(std::numeric_limits<real_t<T>>::epsilon());

/// Convection and diffusion on a grid that is cut into many blocks.
template <class T>
Whole<T> convection() {
  return grid<T>(60, 420, 0.3).map([](Global r, Global c, T v) {
    return r == c ? v + T(real_t<T>(0.1 * double(r % 7))) : v;
  });
}
template <class T>
T of_parts(double re, double im) {
  if constexpr (is_complex<T>) return T(real_t<T>(re), real_t<T>(im));
  else return T(re);
}
/// Of an ellipse about 4.3, with one step that looks back further than the others.
template <class T>
op::Recurrence<T> recurrence(int count) {
  op::Recurrence<T> steps;
  for (int k = 0; k < count; ++k)
    steps.push_back({of_parts<T>(4.3, 0.1), k ? of_parts<T>(k == 1 ? 1.8 : 0.9, 0.05) : T(0), real_t<T>(2.3)});
  return steps;
}

/// A diagonal of magnitudes between 0.5 and 2.
template <class T>
Vector<T> diagonal_of(const layout::Space& space) {
  Vector<T> d(space);
  for (std::size_t i = 0; i < d.size(); ++i)
    d.data()[i] = of_parts<T>(0.5 + 0.15 * double((std::size_t(space.begin()) + i) % 11), 0.1);
  return d;
}

/// A and P, whose products are made one by one.
template <class T>
struct Beside {
  std::unique_ptr<op::Csr<T, Host>> A = convection<T>().on(comm::Communicator::self());
  op::RowsAround<T> rows{*A->whole()};
  layout::Space space = A->domain();
  Vector<T> d = diagonal_of<T>(space);
  bool scaled;
  explicit Beside(bool with_P) : scaled(with_P) {
    if (!scaled) std::fill_n(d.data(), d.size(), T(1));
  }
  BicgstabSweeps<T> sweeps(int most, int threads) { return {rows, scaled ? &d : nullptr, most, threads}; }
  Vector<T> apply_P(Vector<T> v) const {
    for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] *= d.data()[i];
    return v;
  }
  Vector<T> multiply(const Vector<T>& v) const {  // A P v
    Vector<T> y(space);
    A->apply(apply_P(v), y);
    return y;
  }
};

TYPED_TEST(BicgstabWaves, SumProductsOfColumns) {
  using T = TypeParam;
  using W = exec::wide_t<T>;
  for (const int columns : {1, 2, 5, 6, 10, 19}) {
    for (const int n : {1, 7, 128, 300}) {
      std::vector<std::vector<T>> v;
      std::vector<const T*> at;
      for (int c = 0; c < columns; ++c) {
        v.emplace_back();
        for (int i = 0; i < n; ++i) v.back().push_back(noise_of<T>(std::uint64_t(c), std::uint64_t(i)));
      }
      for (const auto& column : v) at.push_back(column.data());
      GramTiles<T> tiles;
      std::vector<W> sums(exec::pair_gram_size(columns, false), W(1));
      tiles.begin(columns);
      tiles.add(at.data(), n / 3);  // in two blocks
      for (auto& from : at) from += n / 3;
      tiles.add(at.data(), n - n / 3);
      tiles.add_to(sums.data());
      for (int b = 0, k = 0; b < columns; ++b)
        for (int a = 0; a <= b; ++a, ++k) {
          W expected(1);
          for (int i = 0; i < n; ++i)
            expected += conj(W(v[std::size_t(a)][std::size_t(i)])) * W(v[std::size_t(b)][std::size_t(i)]);
          EXPECT_LE(std::abs(expected - sums[std::size_t(k)]), rounding<T> * n) << columns << ": " << a << ", " << b;
        }
    }
  }
}

TYPED_TEST(BicgstabWaves, SumProductsOfWeightedColumns) {
  using T = TypeParam;
  using W = exec::wide_t<T>;
  const int n = 300;
  std::vector<T> a, b, weight;
  for (int i = 0; i < n; ++i) {
    a.push_back(noise_of<T>(1, std::uint64_t(i))), b.push_back(noise_of<T>(2, std::uint64_t(i)));
    weight.push_back(noise_of<T>(3, std::uint64_t(i)));
  }
  const T* const at[] = {a.data(), b.data()};
  GramTiles<T> tiles;
  tiles.begin(2);
  tiles.add(at, n, weight.data(), 1);
  W sums[3] = {}, crossed(0);
  tiles.add_to(sums);
  for (std::size_t i = 0; i < a.size(); ++i) crossed += conj(W(weight[i] * a[i])) * W(b[i]);
  EXPECT_LE(std::abs(crossed - sums[1]), rounding<T> * n);
}

TEST(MovingRowsOfAVector, KeepWhatIsNeeded) {
  MovingRows<double> rows;
  for (const int columns : {1, 2, 1}) {  // a window that has been there grows by a column
    rows.begin(columns, 100);
    for (Local end = 110, keep = 100; end < 20000; end += 10) {
      rows.advance(keep, end);
      for (int c = 0; c < columns; ++c) {
        for (Local i = end - 10; i < end; ++i) rows.at(c)[i] = i + 0.5 * c;
        for (Local i = keep; i < end; ++i) ASSERT_EQ(rows.at(c)[i], i + 0.5 * c) << "column " << c << " of " << columns;
      }
      keep = std::max(keep, end - (end < 9000 ? 250 : 1500));
    }
  }
}

TYPED_TEST(BicgstabWaves, GiveTheGramMatrixOfThePowers) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using W = exec::wide_t<T>;
  for (const bool with_P : {false, true}) {
    Beside<T> beside(with_P);
    const auto& space = beside.space;
    const auto p = vector_of<T>(space, 3), r = vector_of<T>(space, 4), shadow = vector_of<T>(space, 5);
    for (const int s : {1, 2, 4}) {
      const int levels = 2 * s, columns = 2 * levels + 1;
      const auto steps = recurrence<T>(levels);
      const auto powers = [&](const Vector<T>& first) {
        std::vector<Vector<T>> all{first};
        for (int k = 0; k < levels; ++k) {
          auto next = beside.multiply(all.back());
          op::extend<T, Host>(steps[std::size_t(k)], k ? &all[std::size_t(k) - 1] : nullptr, all.back(), next);
          all.push_back(next);
        }
        return all;
      };
      const auto of_p = powers(p), of_r = powers(r);
      const auto column = [&](int c) -> const Vector<T>& {
        return c == columns ? shadow : (c % 2 ? of_r : of_p)[std::size_t(c / 2)];
      };
      std::vector<W> one;
      for (const int threads : {1, 2, 5}) {
        auto sweeps = beside.sweeps(4, threads);
        EXPECT_EQ(sweeps.parts() > 1, threads > 1);
        auto start = p;  // p := r + beta p from p = r = p - r
        layout::axpy(T(real_t<T>(-1)), r, start);
        sweeps.set_residual(start.data()), sweeps.turn(0);
        sweeps.set_residual(r.data()), sweeps.turn(1);
        std::vector<W> sums(exec::pair_gram_size(columns, true));
        for (int again = 0; again < 2; ++again) sweeps.gram(steps, shadow.data(), sums);
        for (int b = 0, k = 0; b <= columns; ++b)
          for (int a = 0; a <= b; ++a, ++k) {
            if (a == columns) continue;
            const W expected = b < columns ? W(layout::dot(column(a), column(b))) : W(layout::dot(shadow, column(a)));
            EXPECT_LE(std::abs(expected - sums[std::size_t(k)]),
                      4 * levels * rounding<T> * layout::norm(column(a)) * layout::norm(column(b)))
                << "s = " << s << ", " << a << ", " << b << " on " << threads << " threads, P " << with_P;
          }
        if (one.empty()) one = sums;
        EXPECT_EQ(std::memcmp(one.data(), sums.data(), sums.size() * sizeof(W)), 0) << threads << " threads";
      }
    }
  }
}

/// BiCGStab of so many steps with given coefficients, product by product.
template <class T>
struct Steps {
  using W = exec::wide_t<T>;
  std::vector<typename BicgstabSweeps<T>::Step> steps;
  Vector<T> x, r, p;
  Steps(const Beside<T>& beside, const Vector<T>& start, int whole, bool half, bool turns)
      : x(beside.space), r(start), p(start) {
    for (int j = 0; j < whole + half; ++j) {
      const T alpha = of_parts<T>(0.2 - 0.02 * j, 0.01), omega = of_parts<T>(0.1 + 0.01 * j, 0.02),
              beta = of_parts<T>(0.6 - 0.1 * j, -0.03);
      const auto v = beside.multiply(p);
      layout::axpy(-alpha, v, r);  // s
      layout::axpy(alpha, beside.apply_P(p), x);
      if (j == whole) {
        steps.push_back({.alpha = W(alpha), .half = true});
        break;
      }
      layout::axpy(omega, beside.apply_P(r), x);
      layout::axpy(-omega, beside.multiply(r), r);
      layout::axpy(-omega, v, p);
      const bool turn = turns || j + 1 < whole;
      if (turn) layout::scale(beta, p), layout::axpy(T(1), r, p);
      steps.push_back({W(alpha), W(omega), W(beta), turn});
    }
  }
};

TYPED_TEST(BicgstabWaves, TakeStepsWithKnownCoefficients) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using W = exec::wide_t<T>;
  struct Case {
    bool with_P;
    int whole;
    bool half, turns;
  };
  std::vector<Case> cases;
  for (const int whole : {0, 1, 2, 3, 4})
    for (const bool half : {false, true})
      for (const bool turns : {true, false})
        if (whole + half > 0) cases.push_back({false, whole, half, turns}), cases.push_back({true, whole, half, turns});
  for (const auto& [with_P, whole, half, turns] : cases) {
    Beside<T> beside(with_P);
    const auto& space = beside.space;
    const auto start = vector_of<T>(space, 3), shadow = vector_of<T>(space, 5);
    const Steps<T> expected(beside, start, whole, half, turns);
    const auto &x = expected.x, &r = expected.r, &p = expected.p;
    std::vector<T> one;
    for (const int threads : {1, 2, 5}) {
      auto sweeps = beside.sweeps(5, threads);
      sweeps.set_residual(start.data()), sweeps.turn(0);
      std::vector<W> sums(exec::pair_gram_size(5, true));
      sweeps.gram(recurrence<T>(2), shadow.data(), sums);  // which gets the rows that other threads have
      Vector<T> found(space), residual(space);
      sweeps.iterate(expected.steps, found.data());
      sweeps.copy_residual(residual.data());
      const std::string what =
          message(whole, half ? " and a half" : "", " steps, ", threads, " threads", with_P ? ", with P" : "");
      const auto near = [&](const Vector<T>& wanted, Vector<T> given, const char* name) {
        layout::axpy(T(-1), wanted, given);
        EXPECT_LE(layout::norm(given), rounding<T> * layout::norm(wanted)) << name << " of " << what;
      };
      near(x, found, "x"), near(r, residual, "r");
      W square[2];
      sweeps.measure(shadow.data(), square);
      EXPECT_LE(std::abs(square[0] - W(layout::dot(r, r))), rounding<T> * std::abs(square[0])) << what;
      EXPECT_LE(std::abs(square[1] - W(layout::dot(shadow, r))), rounding<T> * layout::norm(shadow) * layout::norm(r))
          << what;
      // p, by the Gram matrix of the next block: (p, p) and (p, r).
      sweeps.gram(recurrence<T>(2), shadow.data(), sums);
      EXPECT_LE(std::abs(sums[0] - W(layout::dot(p, p))), rounding<T> * std::abs(sums[0])) << what;
      EXPECT_LE(std::abs(sums[1] - W(layout::dot(p, r))), rounding<T> * layout::norm(p) * layout::norm(r)) << what;
      if (one.empty()) one.assign(found.data(), found.data() + found.size());
      EXPECT_EQ(std::memcmp(one.data(), found.data(), one.size() * sizeof(T)), 0) << what;
    }
  }
}

krylov::Options options(int step, double rtol) {
  krylov::Options o;
  o.method = krylov::Method::ca_bicgstab, o.step = step, o.rtol = rtol;
  return o;
}
/// A swept block of s iterations makes 4 s products, one with a stored basis 2 s.
void expect_swept(const krylov::Report& report, bool swept = true) {
  EXPECT_EQ(report.counts.operator_applies > 3 * report.iterations, swept) << report.iterations;
}

/// The same iterations, to rounding, with these options and with a basis that is stored.
template <class T>
void compare_with_stored(const op::Csr<T, Host>& A, const std::vector<T>& b, const op::Operator<T, Host>* P,
                         krylov::Options o, const std::string& what) {
  const auto swept = run(A, b, o, P);
  o.powers = op::Powers::kernel;
  const auto stored = run(A, b, o, P);
  expect_swept(swept.report), expect_swept(stored.report, false);
  ASSERT_EQ(swept.report.history.size(), stored.report.history.size()) << what;
  for (std::size_t k = 0; k < swept.report.history.size(); ++k)
    EXPECT_NEAR(swept.report.history[k], stored.report.history[k],
                (is_wide<T> ? 1e-6 : 0.05) * stored.report.history[k])
        << what << ", iteration " << k;
  EXPECT_LE(relative_difference(swept.x, stored.x), is_wide<T> ? 1e-8L : 1e-2L) << what;
}

TYPED_TEST(BicgstabWaves, GiveTheIteratesOfAStoredBasis) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto a = convection<T>();
  const auto A = a.on(comm::Communicator::self());
  const op::Diagonal<T, Host> P(diagonal_of<T>(A->domain()));
  const auto b = random_vector<T>(a.n, 3);
  for (const bool with_P : {false, true})
    for (const int s : {1, 2, 4})
      for (const auto norm : {krylov::Norm::two, krylov::Norm::max})
        for (const auto& replacement : {std::optional<int>(), std::optional<int>(5)}) {
          auto o = options(s, 0);
          o.max_iterations = is_wide<T> ? 14 : 8, o.norm = norm, o.replacement = replacement;
          compare_with_stored<T>(*A, b, with_P ? &P : nullptr, o, message("s = ", s, ", P ", with_P));
        }
}

/// Also on ranks without rows, each with several threads; one exchange of the rows around serves a block.
TYPED_TEST(BicgstabWaves, GiveTheIteratesOfAStoredBasisOnRanks) {
  using T = TypeParam;
  const auto a = grid<T>(40, 90, 0.3).map([](Global r, Global c, T v) {
    return r == c ? v + T(real_t<T>(0.1 * double(r % 7))) : v;
  });
  const auto b = random_vector<T>(a.n, 3);
  on_ranks(
      [&](const comm::Communicator& comm) {
        if (comm.size() == 1) return;  // above
        std::vector<Global> holes{0};
        for (int r = 0; r < comm.size(); ++r) holes.push_back(a.n * (r / 2 + 1) / ((comm.size() + 1) / 2));
        for (const auto& space : {layout::Space::distributed(comm, a.n),
                                  layout::Space::distributed(comm, layout::Partition(std::move(holes)))}) {
          const auto A = a.on(space);
          const op::Diagonal<T, Host> P(diagonal_of<T>(A->domain()));
          for (const bool with_P : {false, true}) {
            auto o = options(2, 0);
            o.max_iterations = is_wide<T> ? 14 : 8, o.replacement = 0;
            const auto what = message(comm.size(), " ranks, P ", with_P);
            std::vector<T> one;
            for (const int team : {1, 3}) {
              const test::Threads threads(team);
              compare_with_stored<T>(*A, b, with_P ? &P : nullptr, o, what);
              const auto found = run(*A, b, o, with_P ? &P : nullptr).x;
              if (team == 1) one = found;
              EXPECT_EQ(std::memcmp(one.data(), found.data(), one.size() * sizeof(T)), 0) << what << ", 3 threads";
            }
          }
        }
      },
      {2, 3, 4});
}

TYPED_TEST(BicgstabWaves, ExchangeOnceForABlock) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(30, 60, 0.3);
        const auto A = a.on(comm);
        const op::Diagonal<T, Host> P(diagonal_of<T>(A->domain()));
        const auto b = random_vector<T>(a.n, 3);
        for (const bool with_P : {false, true})
          for (const int s : {2, 4}) {
            auto o = options(s, 0);
            o.replacement = 0, o.fallbacks = false;
            const auto counts = [&](int iterations) {
              o.max_iterations = iterations;
              return run(*A, b, o, with_P ? &P : nullptr).report.counts;
            };
            counts(2 * s);  // finds the rows around
            const auto few = counts(s), more = counts(2 * s);
            const auto what = message(comm.size(), " ranks, s = ", s, ", P ", with_P);
            EXPECT_EQ(more.exchanges - few.exchanges, comm.size() > 1 ? 1 : 0) << what;
            EXPECT_EQ(more.reductions - few.reductions, 1) << what;
            if (comm.size() > 1) {  // 2 s products of p and r, and 2 s of p and s by turns
              EXPECT_EQ(more.operator_applies - few.operator_applies, 4 * s) << what;
            }
          }
      },
      {2, 3, 4});
}

/// Where far rows are coupled a rank would need most of the matrix: the basis is stored then, and where P has a zero.
TEST(SweepsOfBicgstab, AreNotTriedWhereTheyCannotBe) {
  on_ranks(
      [](const comm::Communicator& comm) {
        Whole<double> a;
        a.n = 40000;
        for (Global i = 0; i < a.n; ++i) {
          std::map<Global, double> row{{i, 6}};
          for (const Global far : {a.n / 4, a.n / 2, 3 * a.n / 4}) row[(i + far) % a.n] -= 1;
          if (i > 0) row[i - 1] -= 1;
          if (i + 1 < a.n) row[i + 1] -= 0.5;
          for (const auto& [c, v] : row) a.push(c, v);
          a.end_row();
        }
        const auto b = random_vector<double>(a.n, 3);
        const auto far = run(*a.on(comm), b, options(2, 1e-8));
        EXPECT_TRUE(far.report.converged());
        if (comm.size() > 2) expect_swept(far.report, false);  // two ranks have one half each
        const auto near = grid<double>(40, 500, 0.3);
        const auto A = near.on(comm);
        auto d = diagonal_of<double>(A->domain());
        auto o = options(2, 1e-8);
        o.max_iterations = 12;
        const auto c = random_vector<double>(near.n, 3);
        const op::Diagonal<double, Host> whole(d);
        expect_swept(run(*A, c, o, &whole).report);
        if (comm.rank() == comm.size() - 1) d.data()[5] = 0;
        const op::Diagonal<double, Host> singular(d);
        expect_swept(run(*A, c, o, &singular).report, false);
        o.powers = op::Powers::products;
        expect_swept(run(*A, c, o, &whole).report, false);
      },
      {3, 4});
}

/// An exact P leaves nothing to do after half a step, whose x counts; and with a guess x is added to it.
TYPED_TEST(BicgstabWaves, TakeHalfStepsWithExactPreconditionersAndGuesses) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        std::vector<double> elements;
        for (int i = 0; i < 9000; ++i) elements.push_back(1 + i % 13);
        const auto a = diagonal<T>(elements).map([](Global, Global, T v) { return of_parts<T>(1, 0.5) * v; });
        const auto A = a.on(comm);
        const precond::Jacobi<T> exact(*A);
        const auto b = random_vector<T>(a.n, 3), guess = random_vector<T>(a.n, 5);
        for (const bool guessed : {false, true}) {
          const auto found =
              run(*A, b, options(2, is_wide<T> ? 1e-12 : 1e-5), &exact, guessed ? guess : std::vector<T>());
          EXPECT_TRUE(found.report.converged()) << found.report.detail;
          EXPECT_EQ(found.report.iterations, 1);
          EXPECT_LE(residual_of(a, b, found.x), is_wide<T> ? 1e-12L : 1e-5L);
        }
        const auto grid_of = grid<T>(30, 60, 0.3);
        const auto B = grid_of.on(comm);
        const op::Diagonal<T, Host> P(diagonal_of<T>(B->domain()));
        const auto c = random_vector<T>(grid_of.n, 3), first = random_vector<T>(grid_of.n, 5);
        const double rtol = is_wide<T> ? 1e-9 : 1e-4;
        const auto found = run(*B, c, options(2, rtol), &P, first);
        EXPECT_TRUE(found.report.converged()) << found.report.detail;
        EXPECT_LE(residual_of(grid_of, c, found.x), 1.01L * rtol);
      },
      {2, 3});
}

/// After new values the rows around are those of the new matrix.
TEST(SweepsOfBicgstab, FollowNewValuesOnRanks) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(40, 60, 0.3);
        const auto A = a.on(comm);
        run(*A, random_vector<double>(a.n, 1), options(2, 1e-6));
        auto values = A->rows().value;
        for (auto& v : values) v *= 3;
        A->update_values(values);
        const auto tripled = a.map([](Global, Global, double v) { return 3 * v; });
        const auto b = random_vector<double>(a.n, 3);
        const precond::Jacobi<double> jacobi(*A);
        for (const op::Operator<double, Host>* P :
             {(const op::Operator<double, Host>*)nullptr, (const op::Operator<double, Host>*)&jacobi}) {
          const auto found = run(*A, b, options(2, 1e-9), P);
          EXPECT_EQ(found.report.method, "ca-bicgstab");
          if (comm.size() > 1) expect_swept(found.report);
          EXPECT_LE(residual_of(tripled, b, found.x), 1.001e-9);
        }
      },
      {3});
}

TYPED_TEST(BicgstabWaves, AreTheSameBitsForAnyThreads) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto A = convection<T>().on(comm::Communicator::self());
  const op::Diagonal<T, Host> P(diagonal_of<T>(A->domain()));
  const auto b = random_vector<T>(A->domain().size(), 3);
  for (const bool with_P : {false, true})
    for (const int s : {2, 4}) {
      const auto o = options(s, is_wide<T> ? 1e-9 : 1e-4);
      std::vector<T> one;
      for (const int team : {1, 2, 3}) {
        const test::Threads threads(team);
        const auto found = run(*A, b, o, with_P ? &P : nullptr);
        EXPECT_TRUE(found.report.converged()) << found.report.detail;
        expect_swept(found.report);
        if (team == 1) one = found.x;
        EXPECT_EQ(std::memcmp(one.data(), found.x.data(), one.size() * sizeof(T)), 0) << team << " threads";
      }
    }
}

TEST(SweepsOfBicgstab, TakeTheIterationsOfBicgstabWithTrueResiduals) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = grid<double>(64, 420, 0.5);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 1);
  krylov::Options classical;
  classical.method = krylov::Method::bicgstab, classical.rtol = 1e-10;
  const int reference = run(*A, b, classical).report.iterations;
  for (const int s : {0, 1, 2, 4, 8}) {
    auto o = options(s, 1e-10);
    if (s == 0) o.step.reset();
    const auto found = run(*A, b, o);
    EXPECT_TRUE(found.report.converged()) << found.report.detail;
    EXPECT_EQ(found.report.method, "ca-bicgstab");
    EXPECT_EQ(found.report.restarts, 0);
    if (s < 8) expect_swept(found.report);  // levels of 16 are too far apart for so few rows
    EXPECT_LE(found.report.iterations, 1.3 * reference) << s;
    EXPECT_LE(residual_of(a, b, found.x), 1.0001e-10L) << s;
  }
}

TEST(SweepsOfBicgstab, EndAsThoseWithAStoredBasis) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Global n = 60000;
  const auto outcome = [&](const Whole<double>& a, const std::vector<double>& b, int s, bool fallbacks,
                           std::optional<op::Powers> powers) {
    auto o = options(s, 1e-8);
    o.fallbacks = fallbacks, o.powers = powers, o.max_iterations = 40;
    const auto found = run(*a.on(comm::Communicator::self()), b, o);
    for (const double v : found.x) EXPECT_TRUE(is_finite(v));
    return found.report;
  };
  const auto b = random_vector<double>(n, 1);
  for (const int s : {1, 4})
    for (const auto& powers : {std::optional<op::Powers>(), std::optional(op::Powers::kernel)}) {
      // (r, A r) = 0
      const auto skew = outcome(skew_tridiagonal<double>(n), b, s, false, powers);
      EXPECT_EQ(skew.reason, krylov::Reason::breakdown) << skew.detail;
      EXPECT_NE(skew.detail.find("(r0, A p)"), std::string::npos) << skew.detail;
      // The second iteration has nothing left to do: s = 0.
      const auto one = outcome(diagonal<double>(std::vector<double>(std::size_t(n), 2.0)), b, s, false, powers);
      EXPECT_TRUE(one.converged()) << one.detail;
      EXPECT_EQ(one.iterations, 1);
    }
  // Powers beyond the range of numbers: blocks of one iteration, or none, but no result that is not a number.
  auto large = grid<double>(40, 600, 0.3).map([](Global, Global, double v) { return 1e60 * v; });
  const auto c = random_vector<double>(large.n, 2);
  const auto ends = outcome(large, c, 4, true, std::nullopt);
  EXPECT_NE(ends.reason, krylov::Reason::breakdown) << ends.detail;
}

TEST(SweepsOfBicgstab, AreNotTakenWhereLevelsAreFarApart) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  // Each row reads one at the other end: no level can begin before the one below it is complete.
  const Global n = 20000;
  Whole<double> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    const Global other = n - 1 - i;
    if (other < i) a.push(other, -1);
    a.push(i, 3);
    if (other > i) a.push(other, -1);
    a.end_row();
  }
  const auto found = run(*a.on(comm::Communicator::self()), random_vector<double>(n, 1), options(4, 1e-10));
  EXPECT_TRUE(found.report.converged());
  EXPECT_LE(found.report.counts.operator_applies, 8);  // two iterations in blocks of 1 and 2
}

}  // namespace
}  // namespace tacit::test
