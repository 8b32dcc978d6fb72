// Each method compared with its definition: textbook recurrences, closed forms, optimality.
#include "support/methods.hpp"
#include "krylov/cycle.hpp"
#include "support/communicators.hpp"
#include "support/scalars.hpp"
#include "support/wide.hpp"

#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Orthogonalisation;
using krylov::Reason;
using krylov::Side;
using layout::Vector;

/// ||r_k|| / ||b|| of textbook conjugate gradients; `m` is the inverse diagonal (all 1 without preconditioner).
template <Scalar T>
std::vector<double> textbook_cg(const Whole<T>& a, const std::vector<T>& b, const std::vector<T>& m, int steps) {
  auto r = widened(b);
  const auto precondition = [&](Wide<T> v) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] *= widen(m[i]);
    return v;
  };
  auto z = precondition(r), p = z;
  auto rz = inner(r, z);
  std::vector<double> history{1};
  const long double size = norm2(r);
  for (int k = 0; k < steps; ++k) {
    const auto v = times(a, p);
    const auto alpha = rz / inner(p, v);
    for (std::size_t i = 0; i < r.size(); ++i) r[i] -= alpha * v[i];
    z = precondition(r);
    const auto next = inner(r, z);
    const auto beta = next / rz;
    rz = next;
    for (std::size_t i = 0; i < r.size(); ++i) p[i] = z[i] + beta * p[i];
    history.push_back(double(norm2(r) / size));
  }
  return history;
}

template <Scalar T>
std::vector<double> textbook_bicgstab(const Whole<T>& a, const std::vector<T>& b, int steps) {
  auto r = widened(b);
  const auto shadow = r;
  auto p = r;
  auto rho = inner(shadow, r);
  const long double size = norm2(r);
  std::vector<double> history{1};
  for (int k = 0; k < steps; ++k) {
    const auto v = times(a, p);
    const auto alpha = rho / inner(shadow, v);
    auto s = r;
    for (std::size_t i = 0; i < s.size(); ++i) s[i] -= alpha * v[i];
    const auto t = times(a, s);
    const auto omega = inner(t, s) / inner(t, t);
    for (std::size_t i = 0; i < s.size(); ++i) r[i] = s[i] - omega * t[i];
    const auto next = inner(shadow, r);
    const auto beta = next / rho * (alpha / omega);
    rho = next;
    for (std::size_t i = 0; i < s.size(); ++i) p[i] = r[i] + beta * (p[i] - omega * v[i]);
    history.push_back(double(norm2(r) / size));
  }
  return history;
}

/// The minimum of ||b - A x|| / ||b|| over the Krylov space K of dimension k, by a basis of A K that is orthogonalised
/// twice.
template <Scalar T>
std::vector<double> least_residuals(const Whole<T>& a, const std::vector<T>& b, int steps) {
  auto r = widened(b), v = r;
  const long double size = norm2(r);
  std::vector<Wide<T>> q;
  std::vector<double> history{1};
  for (int k = 0; k < steps; ++k) {
    v = times(a, v);
    for (int round = 0; round < 2; ++round)
      for (const auto& u : q) {
        const auto c = inner(u, v);
        for (std::size_t i = 0; i < v.size(); ++i) v[i] -= c * u[i];
      }
    const long double length = norm2(v);
    for (auto& e : v) e /= length;
    q.push_back(v);
    const auto c = inner(v, r);
    for (std::size_t i = 0; i < v.size(); ++i) r[i] -= c * v[i];
    history.push_back(double(norm2(r) / size));
  }
  return history;
}

void expect_history(const std::vector<double>& history, const std::vector<double>& reference, double relative,
                    const std::string& what) {
  ASSERT_GE(history.size(), reference.size()) << what;
  for (std::size_t k = 0; k < reference.size(); ++k)
    EXPECT_NEAR(history[k], reference[k], relative * reference[k]) << what << ", step " << k;
}

template <class T>
class Methods : public testing::Test {};
TYPED_TEST_SUITE(Methods, test::Scalars);

TYPED_TEST(Methods, CgFollowsTheTextbook) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<T>(11, 9);
    const auto b = random_vector<T>(a.n, 3);
    const auto A = a.on(comm);
    Options o;
    o.method = Method::cg;
    o.rtol = 0;
    o.max_iterations = 20;
    expect_history(run(*A, b, o).report.history, textbook_cg(a, b, std::vector<T>(a.n, T(1)), 20),
                   is_wide<T> ? 1e-9 : 2e-3, "cg");
    const auto s = a.map([](Global r, Global c, T v) { return v * real_t<T>((1 + r % 3) * (1 + c % 3)); });
    const auto S = s.on(comm);
    const precond::Jacobi<T> P(*S);
    std::vector<T> m(a.n);
    for (Global i = 0; i < a.n; ++i) m[i] = T(real_t<T>(1.0 / (4 * (1 + i % 3) * (1 + i % 3))));
    expect_history(run(*S, b, o, &P).report.history, textbook_cg(s, b, m, 20), is_wide<T> ? 1e-8 : 1e-2,
                   "cg with jacobi");
  });
}

TYPED_TEST(Methods, BicgstabFollowsTheTextbook) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = shifted_grid<T>(11, 9, 0.4);
    const auto b = random_vector<T>(a.n, 3);
    Options o;
    o.method = Method::bicgstab;
    o.rtol = 0;
    const int steps = is_wide<T> ? 14 : 6;
    o.max_iterations = steps;
    expect_history(run(*a.on(comm), b, o).report.history, textbook_bicgstab(a, b, steps), is_wide<T> ? 1e-6 : 1e-2,
                   "bicgstab");
  });
}

TYPED_TEST(Methods, PreconditionedBicgstabEqualsBicgstabOnTheProduct) {
  using T = TypeParam;
  const auto a = shifted_grid<T>(8, 8, 0.4).map([](Global, Global c, T v) { return v * real_t<T>(1 + c % 4); });
  const auto A = a.on(comm::Communicator::self());
  const precond::Jacobi<T> P(*A);
  const auto product = a.map([&](Global, Global c, T v) { return v * P.pointwise()->data()[c]; });
  const auto b = random_vector<T>(a.n, 3);
  Options o;
  o.method = Method::bicgstab;
  o.rtol = 0;
  const int steps = is_wide<T> ? 12 : 6;
  o.max_iterations = steps;
  expect_history(run(*A, b, o, &P).report.history, textbook_bicgstab(product, b, steps), is_wide<T> ? 1e-6 : 1e-2,
                 "right preconditioned");
}

TYPED_TEST(Methods, GmresIsTheLeastOverTheKrylovSpace) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto& a : {shifted_grid<T>(6, 5, 0.6), scattered<T>(30, 4, 8, 0.7)}) {
          const auto b = random_vector<T>(a.n, 3);
          const auto A = a.on(comm);
          for (const auto how : {Orthogonalisation::one_reduction, Orthogonalisation::cgs, Orthogonalisation::cgs2,
                                 Orthogonalisation::mgs}) {
            Options o;
            o.method = Method::gmres;
            o.orthogonalisation = how;
            o.restart = 40;
            o.rtol = 0;
            o.max_iterations = 14;
            const auto s = run(*A, b, o);
            const auto least = least_residuals(a, b, 14);
            for (std::size_t k = 0; k < least.size(); ++k)
              EXPECT_NEAR(
                  s.report.history[k], least[k],
                  (is_wide<T> ? 1e-6 : 1e-2) * least[k] + 30 * double(std::numeric_limits<real_t<T>>::epsilon()))
                  << to_string(how) << " " << k;
          }
        }
      },
      {2, 3});
}

TYPED_TEST(Methods, GmresSidesAgree) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = shifted_grid<T>(10, 10, 0.5);
    const auto b = random_vector<T>(a.n, 3);
    const auto A = a.on(comm);
    const precond::BlockJacobi<T> P(*A);
    std::vector<Solved<T>> s;
    for (const auto side : {Side::right, Side::flexible, Side::left}) {
      Options o;
      o.method = Method::gmres;
      o.side = side;
      o.rtol = is_wide<T> ? 1e-10 : 1e-5;
      s.push_back(run(*A, b, o, &P));
      EXPECT_TRUE(s.back().report.converged()) << to_string(side);
      EXPECT_LE(residual_of(a, b, s.back().x), 1.1 * *o.rtol);
    }
    // For a fixed P, right and flexible are the same method; left minimises another norm.
    for (std::size_t k = 0; k < std::min(s[0].report.history.size(), s[1].report.history.size()); ++k)
      EXPECT_NEAR(s[0].report.history[k], s[1].report.history[k], 1e-3 * s[0].report.history[k]) << k;
    EXPECT_LE(std::abs(s[0].report.iterations - s[1].report.iterations), 1);
    EXPECT_LE(std::abs(s[0].report.iterations - s[2].report.iterations), 3);
    EXPECT_LE(relative_difference(s[2].x, s[0].x), is_wide<T> ? 1e-8 : 1e-3);
  });
}

TYPED_TEST(Methods, FlexibleTakesAPreconditionerThatChanges) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(10, 10, 0.5);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        // A few steps of GMRES, fewer in every second call: not linear, and different in each call.
        int calls = 0;
        const Custom<T> P(A->range(), [&](const auto& x, auto& y) {
          Options inner;
          inner.method = Method::gmres;
          inner.max_iterations = 2 + 2 * (++calls % 2);
          inner.rtol = 0;
          layout::fill(y, T(0));
          krylov::solve<T, Host>(*A, nullptr, x, y, inner);
        });
        Options o;
        o.method = Method::fgmres;
        o.rtol = is_wide<T> ? 1e-10 : 1e-4;
        auto s = run(*A, b, o, &P);
        EXPECT_TRUE(s.report.converged());
        EXPECT_LE(s.report.iterations, 14);
        EXPECT_EQ(s.report.restarts, 0);
        EXPECT_LE(residual_of(a, b, s.x), 1.1 * *o.rtol);
        // gmres with side flexible is the same.
        o.method = Method::gmres, o.side = Side::flexible, calls = 0;
        const auto same = run(*A, b, o, &P);
        EXPECT_EQ(same.x, s.x);
        // With side = right the recurrence is wrong for such a P, but the report is correct, and names the cause.
        o.side = Side::right, o.max_iterations = 100;
        s = run(*A, b, o, &P);
        if (!s.report.converged() && s.report.residual_norm > 1e-3) {
          EXPECT_NE(s.report.detail.find("is not a linear map"), std::string::npos) << s.report.detail;
          EXPECT_NE(s.report.advice.find("fgmres"), std::string::npos) << s.report.advice;
        }
        EXPECT_NEAR(double(residual_of(a, b, s.x)), s.report.residual_norm, 1e-3 * s.report.residual_norm + 1e-13);
        if (s.report.converged()) {
          EXPECT_LE(residual_of(a, b, s.x), 1.1 * *o.rtol);
        }
      },
      {2});
}

/// x -> x, and x -> diag(1, 9, 1, 9, ...) x, in turn; a Varying operator, unless told to be silent about that.
template <Scalar T>
class InTurn final : public op::Operator<T, Host>, public op::Varying {
 public:
  InTurn(const layout::Space& space, bool says_so) : op::Operator<T, Host>(space, space), says_so_(says_so) {}
  std::string name() const override { return "in turn"; }
  bool varies() const override { return says_so_; }
  static real_t<T> factor(int call, Global row) { return real_t<T>(call % 2 && row % 2 ? 9 : 1); }

 protected:
  int begin(const Vector<T>&, Vector<T>&, bool) const override { return 0; }
  void finish(const Vector<T>& x, Vector<T>& y, bool, int) const override {
    for (std::size_t i = 0; i < x.size(); ++i)
      y.data()[i] = factor(calls_, x.space().begin() + Global(i)) * x.data()[i];
    ++calls_;
  }

 private:
  bool says_so_;
  mutable int calls_ = 0;
};

/// ||r_k|| / ||b|| of cg with each direction made orthogonal to A times the one before.
template <Scalar T>
std::vector<double> textbook_flexible_cg(const Whole<T>& a, const std::vector<T>& b, int steps) {
  auto r = widened(b), p = r;
  std::vector<double> history{1};
  const long double size = norm2(r);
  for (int k = 0; k < steps; ++k) {
    const auto v = times(a, p);
    const auto pv = inner(p, v);
    const auto alpha = inner(p, r) / pv;
    for (std::size_t i = 0; i < r.size(); ++i) r[i] -= alpha * v[i];
    auto z = r;
    for (std::size_t i = 0; i < r.size(); ++i) z[i] *= widen(T(InTurn<T>::factor(k + 1, Global(i))));
    const auto beta = -inner(v, z) / pv;
    for (std::size_t i = 0; i < r.size(); ++i) p[i] = z[i] + beta * p[i];
    history.push_back(double(norm2(r) / size));
  }
  return history;
}

TYPED_TEST(Methods, CgTakesAPreconditionerThatChanges) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(11, 9);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        Options o;
        o.method = Method::cg;
        o.rtol = 0;
        o.max_iterations = 20;
        const InTurn<T> P(A->range(), true), silent(A->range(), false);
        const auto history = textbook_flexible_cg(a, b, 20);
        expect_history(run(*A, b, o, &P).report.history, history, is_wide<T> ? 1e-8 : 1e-2, "flexible cg");
        // The ratio of (r, P r), which is beta for a linear P, makes others.
        EXPECT_GT(run(*A, b, o, &silent).report.history[8], 1.2 * history[8]);
      },
      {1, 2});
}

TYPED_TEST(Methods, GmresEndsWithTheExactSolutionInAnInvariantSpace) {
  using T = TypeParam;
  std::vector<double> d;
  for (int i = 0; i < 30; ++i) d.push_back(1 + i % 5);  // five distinct eigenvalues
  const auto a = diagonal<T>(d);
  Options o;
  o.method = Method::gmres;
  o.rtol = is_wide<T> ? 1e-13 : 1e-6;
  for (const auto how :
       {Orthogonalisation::one_reduction, Orthogonalisation::cgs, Orthogonalisation::cgs2, Orthogonalisation::mgs}) {
    o.orthogonalisation = how;
    const auto s = run(*a.on(comm::Communicator::self()), random_vector<T>(30, 2), o);
    EXPECT_TRUE(s.report.converged()) << to_string(how) << " " << s.report.detail;
    EXPECT_LE(s.report.iterations, 6) << to_string(how);
  }
}

TYPED_TEST(Methods, BasesAreOrthonormal) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = layout::Space::distributed(comm, 200);
        for (const auto how : {Orthogonalisation::one_reduction, Orthogonalisation::cgs2}) {
          std::vector<Vector<T>> q;
          std::vector<const T*> pointers;
          std::vector<T> h;
          q.reserve(12);
          for (int j = 0; j < 12; ++j) {
            // Each new vector lies almost in the span of the earlier ones.
            q.push_back(spread(space, random_vector<T>(200, 70 + j)));
            if (j > 0) {
              layout::scale(T(real_t<T>(is_wide<T> ? 1e-5 : 1e-2)), q.back());
              for (int i = 0; i < j; ++i) layout::axpy(T(1), q[i], q.back());
            }
            krylov::orthogonalise(how, pointers, j, q.back(), h);
            EXPECT_EQ(h.size(), std::size_t(j) + 1);
            pointers.push_back(q.back().data());
          }
          for (int i = 0; i < 12; ++i)
            for (int j = 0; j <= i; ++j)
              EXPECT_LE(std::abs(layout::dot(q[i], q[j]) - T(i == j)),
                        400 * double(std::numeric_limits<real_t<T>>::epsilon()))
                  << to_string(how);
          // A vector in the span leaves zero.
          Vector<T> inside = q[3];
          layout::axpy(T(2), q[7], inside);
          krylov::orthogonalise(how, pointers, 12, inside, h);
          EXPECT_EQ(h[12], T(0));
          EXPECT_LE(std::abs(h[7] - T(2)), 1e-4);
        }
      },
      {3});
}

TYPED_TEST(Methods, RichardsonReducesAnEigenvectorByItsFactor) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // u = sin sin on a grid of 13 x 13 points: each Jacobi step multiplies the residual by cos(pi h).
    const Global m = 13;
    const auto a = grid<T>(m, m);
    const auto A = a.on(comm);
    const precond::Jacobi<T> P(*A);
    std::vector<T> b(a.n);
    for (Global y = 0; y < m; ++y)
      for (Global x = 0; x < m; ++x)
        b[y * m + x] = phase<T>(y * m + x) *
                       T(real_t<T>(std::sin(M_PI * double(x + 1) / 14) * std::sin(M_PI * double(y + 1) / 14)));
    const double factor = std::cos(M_PI / 14);
    Options o;
    o.method = Method::richardson;
    o.rtol = 0;
    const Custom<T> hidden(A->range(), [&](const auto& x, auto& y) { P.apply(x, y); });
    for (const op::Operator<T, Host>* p : {(const op::Operator<T, Host>*)&P, (const op::Operator<T, Host>*)&hidden})
      for (const int k : {1, 2, 10, 100}) {
        o.max_iterations = k;
        const auto s = run(*A, b, o, p);
        EXPECT_NEAR(s.report.residual_norm, std::pow(factor, k), is_wide<T> ? 1e-12 : 1e-5);
        for (int i = 1; i <= k; ++i)  // the norm is known one step later
          EXPECT_NEAR(s.report.history[i], std::pow(factor, i - 1), is_wide<T> ? 1e-12 : 1e-5);
      }
  });
}

TYPED_TEST(Methods, ChebyshevKeepsItsBound) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(12, 12);
        const double c = std::cos(M_PI / 13), low = 4 - 4 * c, high = 4 + 4 * c;
        const auto b = random_vector<T>(a.n, 3);
        Options o;
        o.method = Method::chebyshev;
        o.lambda_min = low;
        o.lambda_max = high;
        o.rtol = is_wide<T> ? 1e-8 : 1e-3;
        const auto s = run(*a.on(comm), b, o);
        EXPECT_TRUE(s.report.converged());
        const double sigma = (high + low) / (high - low);
        for (std::size_t k = 0; k < s.report.history.size(); ++k)
          EXPECT_LE(s.report.history[k], (1 + 1e-4) / std::cosh(double(k) * std::acosh(sigma))) << k;
        // A single eigenvalue t: the residual is T_k(2 - t) / T_k(2) for the interval [1, 3].
        const auto one = diagonal<T>(std::vector<double>(9, 1.3));
        o.lambda_min = 1, o.lambda_max = 3, o.rtol = 0, o.max_iterations = 5;
        const auto t = run(*one.on(comm), random_vector<T>(9, 3), o);
        for (int k = 0; k <= 5; ++k)
          EXPECT_NEAR(t.report.history[k], std::abs(std::cos(k * std::acos(0.7))) / std::cosh(k * std::acosh(2)), 1e-5)
              << k;
      },
      {2});
}

TYPED_TEST(Methods, ChebyshevFindsItsBoundsByItself) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(12, 12);
        Options o;
        o.method = Method::chebyshev;
        o.rtol = is_wide<T> ? 1e-8 : 1e-3;
        const auto b = random_vector<T>(a.n, 3);
        auto s = run(*a.on(comm), b, o);
        EXPECT_TRUE(s.report.converged()) << s.report.detail;
        EXPECT_LE(s.report.iterations, 250);
        const auto A = a.on(comm);
        const precond::Jacobi<T> P(*A);
        s = run(*A, b, o, &P);
        EXPECT_TRUE(s.report.converged()) << s.report.detail;
      },
      {2});
}

TYPED_TEST(Methods, InitialGuessIsUsed) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(9, 9);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          o.rtol = is_wide<T> ? 1e-9 : 1e-4;
          const auto cold = run(*A, b, o);
          auto near = cold.x;
          const auto off = random_vector<T>(a.n, 77);
          for (Global i = 0; i < a.n; ++i) near[i] += off[i] * real_t<T>(is_wide<T> ? 1e-6 : 1e-3);
          const auto warm = run(*A, b, o, nullptr, near);
          EXPECT_TRUE(warm.report.converged()) << m.name;
          EXPECT_LT(warm.report.iterations, cold.report.iterations) << m.name;
          EXPECT_NEAR(warm.report.history[0], double(residual_of(a, b, near)), 1e-2 * warm.report.history[0]) << m.name;
        }
      },
      {2});
}

/// The requested norm decides when a solve ends; bases are orthonormal in the 2-norm for any norm, so every variant
/// follows gmres without fallbacks.
TEST(GmresInMaxNorm, EveryVariantFollowsGmres) {
  const auto a = grid<double>(40, 40);
  const auto A = a.on(comm::Communicator::self());
  const std::vector<double> b(a.n, 1.0);
  for (const int restart : {30, 120}) {
    Options o;
    o.norm = krylov::Norm::max, o.rtol = 1e-8, o.restart = restart, o.fallbacks = false, o.max_iterations = 5000;
    o.method = Method::gmres;
    const auto reference = run(*A, b, o);
    ASSERT_EQ(reference.report.reason, Reason::converged);
    for (const auto method : {Method::ca_gmres, Method::pipelined_gmres, Method::pipelined_ca_gmres}) {
      o.method = method;
      const auto s = run(*A, b, o);
      EXPECT_EQ(s.report.reason, Reason::converged) << to_string(method) << ", restart " << restart;
      EXPECT_NEAR(s.report.iterations, reference.report.iterations, 0.15 * reference.report.iterations + 10)
          << to_string(method) << ", restart " << restart;
    }
  }
}

TEST(Report, IsTheSameOnAllRanks) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = shifted_grid<double>(9, 9, 0.3);
    Options o;
    o.method = Method::gmres;
    const auto r = run(*a.on(comm), random_vector<double>(a.n, 3), o).report;
    const auto all = comm.all_gather(r.residual_norm);
    for (const double v : all) EXPECT_EQ(v, r.residual_norm);
    const auto iterations = comm.all_gather(r.iterations);
    for (const int v : iterations) EXPECT_EQ(v, r.iterations);
    EXPECT_EQ(r.method, "gmres");
    EXPECT_EQ(r.precond, "none");
    EXPECT_GT(r.seconds, 0);
    EXPECT_GT(r.b_norm, 0);
  });
}

TEST(Names, AreReadAndWritten) {
  for (const auto& name : tacit::names<krylov::Method>())
    EXPECT_EQ(to_string(tacit::value_of<krylov::Method>(name)), name);
  EXPECT_EQ(tacit::value_of<krylov::Side>("flexible"), Side::flexible);
  EXPECT_EQ(tacit::value_of<krylov::Orthogonalisation>("one-reduction"), Orthogonalisation::one_reduction);
  try {
    tacit::value_of<krylov::Method>("gmers");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("\"gmres\""), std::string::npos);
  }
}

}  // namespace
}  // namespace tacit::test
