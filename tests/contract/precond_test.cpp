// Properties of all preconditioners that have a name, in every memory; what each of them is, is tested in
// tests/precond.
#include "support/precond.hpp"
#include "support/communicators.hpp"
#include "support/memory.hpp"
#include "support/methods.hpp"
#include "support/sweeping.hpp"

#include <tacit/op/noted.hpp>
#include <tacit/precond/direct.hpp>
#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::AmgCoarsening;
using precond::AmgSmoother;
using precond::Cycle;
using precond::Kind;
using precond::Options;

struct Named {
  std::string kind;
  Options options{};
  bool on_devices = true;
  bool linear = true;
  std::string name() const { return message(kind, " ", variant); }
  /// `factor` rounding errors of the precision that it computes in.
  template <class T>
  double rounding(double factor) const {
    return options.single_levels.value_or(false) ? tolerance<float>(factor) : tolerance<T>(factor);
  }
  std::string variant{};
};

std::vector<Named> all_preconditioners() {
  const auto local = [](Kind solver) { return Options{.solver = solver}; };
  std::vector<Named> all{
      {"jacobi"},
      {"jacobi", {.absolute = true}},
      {"node-jacobi"},
      {"node-jacobi", {.block = 4}},
      {"spai"},
      {"spai", {.local = true}},
      {"fsai"},
      {"fsai", {.local = true}},
      {"block-jacobi", local(Kind::spai)},
      {"block-jacobi", local(Kind::fsai)},
      {"polynomial"},
      {"polynomial", {.degree = 1, .lambda_min = 0.2, .lambda_max = 2.0}},
      {"polynomial", {.kind = precond::PolynomialKind::neumann, .degree = 3, .relaxation = 0.5}},
      {"schwarz", {.solver = Kind::jacobi}},
      {"schwarz", {.solver = Kind::fsai, .overlap = 2, .restricted = false}},
      {"schwarz", {.solver = Kind::polynomial, .blocks = 2}},
      {"amg", {.coarsest = 8}},
      {"amg", {.coarsening = AmgCoarsening::pmis, .smoother = AmgSmoother::l1_jacobi, .coarsest = 8}},
      {"amg", {.smoother = AmgSmoother::chebyshev, .cycle = Cycle::w, .sweeps = 2, .coarsest = 8}},
      {"amg", {.smoother = AmgSmoother::jacobi, .cycle = Cycle::f, .coarsest = 8}},
      {"amg", {.cycle = Cycle::mult_additive, .coarsest = 8}},
      {"amg", {.cycle = Cycle::k, .coarsest = 8}, true, false},
      {"block-jacobi"},
      {"block-jacobi", {.blocks = 3}},
      {"ilu0"},
      {"ic0"},
      {"iluk", {.levels = 2}},
      {"ick"},
      {"ilu0", {.matching = true, .ordering = precond::BlockOrder::rcm}},
      {"ic0", {.ordering = precond::BlockOrder::rcm}},
      {"ilut"},
      {"schwarz"},
      {"amg", {.smoother = AmgSmoother::gauss_seidel, .coarsest = 8}, false},
      {"amg", {.coarsest = 8, .single_levels = true}, false},
  };
  if (precond::direct_built()) all.push_back({"direct", {}, false});
  for (std::size_t i = 0; i < all.size(); ++i) all[i].variant = message("(entry ", i, ")");
  return all;
}

/// P x for the columns of x, on this rank.
template <class T, class M>
std::vector<T> image(const op::Operator<T, M>& P, const std::vector<T>& x, int columns = 1, bool adjoint = false) {
  const auto in = vector_from<T, M>(P.domain(), x, columns);
  auto out = filled<T, M>(P.range(), T(std::numeric_limits<real_t<T>>::quiet_NaN()), columns);
  if (adjoint) P.apply_adjoint(in, out);
  else P.apply(in, out);
  return out.to_host();
}

template <class Where>
class Preconditioners : public testing::Test {
 protected:
  using T = typename Where::scalar;
  using M = typename Where::memory;
  using Elements = std::vector<T>;
  // Runs every preconditioner that this memory has, for a Hermitian positive definite matrix.
  static void each(
      const std::function<void(const Named&, const Whole<T>&, const op::Csr<T, M>&, const op::Operator<T, M>&)>& f,
      const std::vector<int>& sizes = {2, 3}) {
    on_ranks(
        [&](const comm::Communicator& comm) {
          const auto a = shifted_grid<T>(9, 8);
          const auto A = a.template on<M>(comm);
          for (const auto& named : all_preconditioners()) {
            if (!named.on_devices && !on_host) continue;
            SCOPED_TRACE(message(named.name(), " on rank ", comm.rank(), " of ", comm.size()));
            f(named, a, *A, *precond::make<T, M>(named.kind, *A, named.options));
          }
        },
        ranks_of(sizes));
  }
  static Elements elements(const layout::Space& space, std::uint64_t seed, int columns = 1) {
    return vector_of<T>(space, seed, columns).to_host();
  }
  static T dot(const layout::Space& space, const Elements& x, const Elements& y) {
    T sum{};
    for (std::size_t i = 0; i < x.size(); ++i) sum += conj(x[i]) * y[i];
    space.sum(&sum, 1);
    return sum;
  }
  static double norm(const layout::Space& space, const Elements& x) {
    return std::sqrt(double(real(dot(space, x, x))));
  }
};
TYPED_TEST_SUITE(Preconditioners, ScalarsInMemory);

TYPED_TEST(Preconditioners, EqualThoseOfTheHost) {
  using T = typename TypeParam::scalar;
  this->each([&](const Named& named, const Whole<T>& a, const auto& A, const auto& P) {
    const auto host = a.on(A.range());
    const auto expected_P = precond::make<T, Host>(named.kind, *host, named.options);
    EXPECT_EQ(P.name(), expected_P->name());
    EXPECT_EQ(P.has_adjoint(), expected_P->has_adjoint());
    EXPECT_EQ(op::varies(&P), op::varies(expected_P.get()));
    for (int k : {1, 3}) {
      if (k > 1 && !named.linear) continue;
      const auto x = this->elements(A.range(), 30, k);
      const auto got = image(P, x, k), expected = image(*expected_P, x, k);
      ASSERT_EQ(got.size(), expected.size());
      auto difference = got;
      for (std::size_t i = 0; i < got.size(); ++i) difference[i] -= expected[i];
      const double size = this->norm(A.range(), expected);
      EXPECT_LE(this->norm(A.range(), difference), on_host ? 0 : tolerance<T>(200) * size) << k << " columns";
    }
  });
}

TYPED_TEST(Preconditioners, AreLinear) {
  using T = typename TypeParam::scalar;
  this->each([&](const Named& named, const auto&, const auto& A, const auto& P) {
    if (!named.linear) return;
    const T alpha = number<T>(31, 0), beta = number<T>(31, 1);
    const auto x = this->elements(A.range(), 32), y = this->elements(A.range(), 33);
    auto sum = x;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = alpha * x[i] + beta * y[i];
    auto difference = image(P, sum);
    const auto Px = image(P, x), Py = image(P, y);
    for (std::size_t i = 0; i < sum.size(); ++i) difference[i] -= alpha * Px[i] + beta * Py[i];
    const double size = this->norm(A.range(), Px) + this->norm(A.range(), Py);
    EXPECT_LE(this->norm(A.range(), difference), named.rounding<T>(300) * size);
    for (const T& v : image(P, std::vector<T>(x.size(), T(0)))) ASSERT_EQ(v, T(0));
  });
}

TYPED_TEST(Preconditioners, HaveTheirAdjoint) {
  using T = typename TypeParam::scalar;
  this->each([&](const Named& named, const auto&, const auto& A, const auto& P) {
    const auto x = this->elements(A.range(), 34), y = this->elements(A.range(), 35);
    if (!P.has_adjoint()) {
      EXPECT_THROW(image(P, y, 1, true), Error);
      return;
    }
    const auto Px = image(P, x), Py = image(P, y, 1, true);
    const T left = this->dot(A.range(), y, Px), right = this->dot(A.range(), Py, x);
    EXPECT_LE(std::abs(left - right), named.rounding<T>(100) * this->norm(A.range(), Px) * this->norm(A.range(), y));
  });
}

TYPED_TEST(Preconditioners, AreHermitianDefiniteWhereTheirTableSaysSo) {
  using T = typename TypeParam::scalar;
  this->each([&](const Named& named, const auto&, const auto& A, const auto& P) {
    if (!precond::is_symmetric(named.kind, named.options)) return;
    for (std::uint64_t seed = 36; seed < 39; ++seed) {
      const auto x = this->elements(A.range(), seed), y = this->elements(A.range(), seed + 10);
      const auto Px = image(P, x), Py = image(P, y);
      const T left = this->dot(A.range(), y, Px), right = this->dot(A.range(), Py, x);
      EXPECT_LE(std::abs(left - right), named.rounding<T>(100) * this->norm(A.range(), Px) * this->norm(A.range(), y));
      EXPECT_GT(real(this->dot(A.range(), x, Px)), 0);
    }
  });
}

TYPED_TEST(Preconditioners, TakeColumnsAsSingleOnes) {
  using T = typename TypeParam::scalar;
  this->each([&](const Named& named, const auto&, const auto& A, const auto& P) {
    if (!named.linear) return;  // the K-cycle takes one column
    constexpr int k = 3;
    const auto X = this->elements(A.range(), 50, k), PX = image(P, X, k);
    for (int c = 0; c < k; ++c) {
      std::vector<T> x(X.size() / k);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = X[i * k + std::size_t(c)];
      const auto Px = image(P, x);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::abs(Px[i] - PX[i * k + std::size_t(c)]), named.rounding<T>(50) * (std::abs(Px[i]) + 1))
            << "row " << i << " of column " << c;
    }
  });
}

TYPED_TEST(Preconditioners, SaveIterationsAndNoneOfTheAnswer) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [&](const comm::Communicator& comm) {
        // Rows and columns scaled by powers of two, so that a diagonal helps as well.
        const auto scale = [](Global i) { return std::ldexp(real_t<T>(1), int(i % 5) - 2); };
        const auto a = grid<T>(sized(13, 9, 8), sized(11, 8, 7)).map([&](Global r, Global c, T v) {
          return scale(r) * v * scale(c);
        });
        const auto A = a.template on<M>(comm);
        const auto host = a.on(A->range());
        const auto b = random_vector<T>(a.n, 51);
        const double rtol = is_wide<T> ? 1e-8 : 1e-4;
        auto o = with(krylov::Method::fgmres, sized(rtol, rtol, 1e-2));
        o.fallbacks = false;
        const auto plain = run(*A, b, o);
        for (const auto& named : all_preconditioners()) {
          if (!named.on_devices && !on_host) continue;
          if (named.kind == "polynomial" && named.options.lambda_min) continue;  // of another spectrum
          SCOPED_TRACE(message(named.name(), " on ", comm.size(), " ranks"));
          const auto P = precond::make<T, M>(named.kind, *A, named.options);
          const auto s = run(*A, b, o, P.get());
          EXPECT_TRUE(s.report.converged()) << s.report.detail;
          EXPECT_LE(residual_of(a, b, s.x), 1.1 * *o.rtol);
          EXPECT_LT(s.report.iterations, plain.report.iterations);
          if (on_host || is_repeated()) continue;
          const auto host_P = precond::make<T, Host>(named.kind, *host, named.options);
          EXPECT_NEAR(double(s.report.iterations), double(run(*host, b, o, host_P.get()).report.iterations), 1);
        }
      },
      ranks_of({3}));
}

TYPED_TEST(Preconditioners, MayBeSolves) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = grid<T>(9, 8, 0.3);
        const std::shared_ptr<const op::Csr<T, M>> A = a.template on<M>(comm);
        auto few = with(krylov::Method::bicgstab, 1e-1);
        few.max_iterations = 8, few.fallbacks = false, few.history = false;
        const auto P = inner<T, M>(A, few);
        EXPECT_TRUE(op::varies(P.get()));
        const auto b = random_vector<T>(a.n, 52);
        const auto o = with(krylov::Method::fgmres, is_wide<T> ? 1e-9 : 1e-4);
        const auto plain = run(*A, b, o), s = run(*A, b, o, P.get());
        EXPECT_TRUE(s.report.converged()) << s.report.detail;
        EXPECT_LE(residual_of(a, b, s.x), 1.1 * *o.rtol);
        EXPECT_LT(s.report.iterations, plain.report.iterations);
        // Several columns are solved one after another.
        const auto X = this->elements(A->range(), 53, 2), PX = image(*P, X, 2);
        std::vector<T> x(X.size() / 2);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = X[2 * i + 1];
        const auto Px = image(*P, x);
        for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(Px[i], PX[2 * i + 1]);
      },
      ranks_of({2}));
}

TYPED_TEST(Preconditioners, WorkWithRanksThatHaveNoRows) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(5, 4);
        std::vector<Global> counts(std::size_t(comm.size()), 0);
        counts.back() = a.n;
        const auto space = layout::Space::distributed(comm, layout::Partition::of_counts(counts));
        const auto A = a.template on<M>(space), alone = a.template on<M>(comm::Communicator::self());
        const auto b = random_vector<T>(a.n, 54);
        for (const auto& named : all_preconditioners()) {
          if (!named.on_devices && !on_host) continue;
          SCOPED_TRACE(message(named.name(), " on ", comm.size(), " ranks"));
          const auto P = precond::make<T, M>(named.kind, *A, named.options);
          const auto got = image(*P, spread(space, b).to_host());
          const auto expected = image(*precond::make<T, M>(named.kind, *alone, named.options), b);
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_LE(std::abs(got[i] - expected[i]), tolerance<T>(100)) << "row " << i;
        }
      },
      ranks_of({3}));
}

TYPED_TEST(Preconditioners, RefuseWrongUse) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(5, 4);
        const auto A = a.template on<M>(comm);
        EXPECT_EQ((precond::make<T, M>("none", *A)), nullptr);
        const auto says = [&](const char* kind, const Options& o, const char* words) {
          const auto text = usage_error([&] { precond::make<T, M>(kind, *A, o); });
          EXPECT_NE(text.find(words), std::string::npos) << text;
        };
        says("jacobbi", {}, "jacobi");
        says("jacobi", {.degree = 3}, "degree 3 is an option of polynomial");
        says("polynomial", {.degree = -1}, "degree");
        const auto bad = a.map([](Global r, Global c, T v) { return r == c && r == 7 ? T(NAN) : v; });
        const auto B = bad.template on<M>(comm);
        for (const char* kind : {"jacobi", "spai", "amg"}) EXPECT_THROW((precond::make<T, M>(kind, *B)), Error) << kind;
        // Vectors that do not fit.
        const auto P = precond::make<T, M>("polynomial", *A);
        Vector<T, M> longer(layout::Space::distributed(comm, a.n + 1)), y(A->range());
        EXPECT_THROW(P->apply(longer, y), Error);
        EXPECT_THROW(P->apply(y, y), Error);
        if (on_host) return;
        for (const auto& named : all_preconditioners()) {
          if (named.on_devices) continue;
          const auto text = usage_error([&] { precond::make<T, M>(named.kind, *A, named.options); });
          EXPECT_NE(text, "(nothing was thrown)") << named.name();
        }
      },
      ranks_of({2}));
}

}  // namespace
}  // namespace tacit::test
