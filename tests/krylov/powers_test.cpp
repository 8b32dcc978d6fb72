// The s-step methods with the matrix powers kernel: the same iterations, fewer messages.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/op/stencil.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Basis;
using krylov::Method;
using krylov::Options;
using krylov::Powers;
using krylov::Side;

template <class T>
class ByPowersKernel : public testing::Test {};
TYPED_TEST_SUITE(ByPowersKernel, test::DoubleScalars);

template <class T>
Whole<T> varied(Global nx, Global ny, double convection) {
  return grid<T>(nx, ny, convection).map([](Global r, Global c, T v) {
    return r == c ? v + T(real_t<T>(0.3 * double(r % 7))) : v;
  });
}

struct Way {
  Method method;
  Side side;
  int step, products;  // of a block: iterations, products
};
constexpr Way ways[] = {{Method::ca_cg, Side::right, 4, 4},
                        {Method::ca_bicgstab, Side::right, 2, 4},
                        {Method::ca_gmres, Side::right, 5, 5},
                        {Method::ca_gmres, Side::left, 5, 5}};

TYPED_TEST(ByPowersKernel, SameIterationsAsWithProducts) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        // Evenly distributed, and with ranks that own nothing.
        const auto a = varied<T>(14, 12, 0);
        std::vector<Global> holes{0};
        for (int r = 0; r < comm.size(); ++r) holes.push_back(a.n * (r / 2 + 1) / ((comm.size() + 1) / 2));
        const auto b = random_vector<T>(a.n, 3);
        for (const auto& space : {layout::Space::distributed(comm, a.n),
                                  layout::Space::distributed(comm, layout::Partition(std::move(holes)))}) {
          const auto A = a.on(space);
          const precond::Jacobi<T> jacobi(*A);
          for (const op::Operator<T, Host>* P :
               {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi})
            for (const Way& way : ways) {
              Options o;
              o.method = way.method, o.step = way.step, o.rtol = 1e-9;
              if (way.side == Side::left) o.side = way.side;
              if (way.method == Method::ca_cg) o.basis = Basis::newton;  // which is stored, on one rank as well
              o.powers = Powers::products;
              const auto one = run(*A, b, o, P);
              o.powers = Powers::kernel;
              const auto other = run(*A, b, o, P);
              const std::string what =
                  message(to_string(way.method), " ", to_string(way.side), P ? " with jacobi" : "");
              EXPECT_TRUE(other.report.converged()) << what << ": " << other.report.detail;
              EXPECT_LE(residual_of(a, b, other.x), way.side == Side::left ? 1e-8L : 1.001e-9L) << what;
              EXPECT_TRUE(other.report.warnings.empty()) << what << ": " << other.report.warnings[0];
              // Where results agree to rounding only, the last block may differ by one.
              const int blocks = std::same_as<T, double> ? 0 : 1;
              EXPECT_NEAR(double(one.report.counts.operator_applies), double(other.report.counts.operator_applies),
                          blocks * way.products)
                  << what;
              EXPECT_NEAR(double(one.report.counts.reductions), double(other.report.counts.reductions), blocks) << what;
              if (comm.size() > 1) {
                EXPECT_LT(4 * other.report.counts.exchanges, 3 * one.report.counts.exchanges) << what;
              }
              // Bit-identical, except where ca-cg combines earlier images of P instead of applying P to p.
              if (std::same_as<T, double> && !(P && way.method == Method::ca_cg)) {
                EXPECT_TRUE(one.x == other.x) << what;
                EXPECT_TRUE(one.report.history == other.report.history) << what;
              } else {
                EXPECT_LE(relative_difference(other.x, one.x), 1e-7L) << what;
              }
            }
        }
      },
      {2, 3, 4});
}

TYPED_TEST(ByPowersKernel, OneExchangeForEachBlock) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = varied<T>(30, 30, 0);
        const auto b = random_vector<T>(a.n, 4);
        const auto A = a.on(comm);
        const precond::Jacobi<T> jacobi(*A);
        for (const op::Operator<T, Host>* P :
             {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi})
          for (const Way& way : ways) {
            if (way.side == Side::left) continue;
            Options o;
            o.method = way.method, o.step = way.step, o.basis = Basis::monomial;
            o.rtol = 0, o.fallbacks = false, o.powers = Powers::kernel;
            if (krylov::takes(o.method, "restart")) o.restart = 100;
            if (way.method != Method::ca_gmres) o.replacement = 0;
            const auto counts = [&](int iterations) {
              o.max_iterations = iterations;
              return run(*A, b, o, P).report.counts;
            };
            const int first = 5 * way.step, more = 2;  // blocks have their full length by then
            const int telescoped = way.method == Method::ca_gmres ? 0 : 2 * way.step - 1;
            const auto c1 = counts(telescoped + first), c2 = counts(telescoped + first + more * way.step);
            EXPECT_EQ(c2.operator_applies - c1.operator_applies, more * way.products) << to_string(way.method);
            EXPECT_EQ(c2.exchanges - c1.exchanges, comm.size() > 1 ? more : 0) << to_string(way.method);
            if (comm.size() == 3) {  // one to each neighbour, summed over the ranks
              EXPECT_EQ(c2.messages - c1.messages, 4 * more);
            }
          }
      },
      {3});
}

TEST(ByPowersKernel, WarnsWhereThereIsNoKernel) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const op::Stencil<double> stencil(comm, op::Grid({12, 12}), op::laplacian<double>(2));
        const auto a = grid<double>(12, 12);
        const auto A = a.on(comm);
        const precond::BlockJacobi<double> blocks(*A);
        const std::vector<double> b(std::size_t(a.n), 1.0);
        Options o;
        o.method = Method::ca_cg, o.step = 2, o.powers = Powers::kernel;
        const auto expect = [](const krylov::Report& r, const char* words) {
          EXPECT_TRUE(r.converged());
          ASSERT_EQ(r.warnings.size(), 1u);
          EXPECT_NE(r.warnings[0].find(words), std::string::npos) << r.warnings[0];
        };
        expect(run(stencil, b, o).report, "no matrix powers kernel");
        expect(run(*A, b, o, &blocks).report, "takes no");
        EXPECT_TRUE(run(*A, b, o).report.warnings.empty());
        const auto huge = a.map([](Global, Global, double v) { return v * 1e100; });
        expect(run(*huge.on(comm), b, o).report, "the solve scales");
      },
      {3});
}

TEST(ByPowersKernel, IsAnOptionOfSStepMethods) {
  EXPECT_EQ(tacit::value_of<op::Powers>("kernel"), Powers::kernel);
  EXPECT_STREQ(krylov::to_string(Powers::products), "products");
  EXPECT_THROW(tacit::value_of<op::Powers>("kernels"), Error);
  Options o;
  o.method = Method::pipelined_cg, o.powers = Powers::kernel;
  EXPECT_THROW(krylov::check(o), Error);
}

}  // namespace
}  // namespace tacit::test
