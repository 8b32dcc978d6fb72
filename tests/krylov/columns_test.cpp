// Many right-hand sides: columns as alone, on ranks of every kind, and what they share.
#include "support/communicators.hpp"

#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/columns.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/function.hpp>
#include <tacit/op/stencil.hpp>
#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <map>
#include <string>
#include <vector>

namespace tacit::krylov {
namespace {

using layout::Space;
using layout::Vector;

template <Scalar T>
op::Csr<T> matrix(const comm::Communicator& comm) {
  const op::Grid grid({13, 9, 3});  // 27 points: on one rank, too, a product with a block pays
  const auto space = Space::distributed(comm, grid.size());
  return op::Csr<T>(space, space,
                    op::stencil_rows(grid, op::isotropic_laplacian<T>(3).shifted(T(0.2)), space.begin(), space.end()));
}
template <Scalar T>
Vector<T> right_sides(const Space& space, int k) {
  Vector<T> b(space, k);
  for (std::size_t i = 0; i < b.size(); ++i) {
    const Global row = space.begin() + Global(i) / k, column = Global(i) % k;
    b.data()[i] = T(real_t<T>(1.0 / double(3 + (7 * row + 13 * column) % 11) - 0.1));
    if constexpr (is_complex<T>) b.data()[i] *= T(1, real_t<T>(0.1 * double(row % 3)));
  }
  return b;
}
template <Scalar T>
Vector<T> column_of(const Vector<T>& all, int c) {
  Vector<T> one(all.space());
  for (std::size_t i = 0; i < one.size(); ++i)
    one.data()[i] = all.data()[i * std::size_t(all.columns()) + std::size_t(c)];
  return one;
}
template <Scalar T>
double residual(const op::Operator<T>& A, const Vector<T>& b, const Vector<T>& x) {
  Vector<T> r(b.space());
  A.apply(x, r);
  layout::subtract(b, r, r);
  return layout::norm(r) / layout::norm(b);
}

template <Scalar T>
void columns_are_solves(const comm::Communicator& comm, Method method) {
  const auto A = matrix<T>(comm);
  const auto P = precond::make<T, Host>("jacobi", A, {});
  Options options;
  options.method = method;
  options.rtol = std::same_as<real_t<T>, float> ? 1e-4 : 1e-9;
  if (method == Method::ca_cg) options.powers = op::Powers::products;  // as columns that share exchanges make them
  const int k = 11;
  const auto B = right_sides<T>(A.range(), k);
  Vector<T> X(A.domain(), k);
  const auto reports = solve_columns<T>(A, P.get(), B, X, options);
  EXPECT_EQ(reports.together, most_columns_together) << reports.alone;
  std::int64_t most = 0;
  for (int c = 0; c < k; ++c) {
    const auto b = column_of(B, c), x = column_of(X, c);
    const auto& report = reports.columns[std::size_t(c)];
    EXPECT_EQ(report.reason, Reason::converged) << report.detail;
    EXPECT_LE(residual(A, b, x), 1.001 * *options.rtol);
    Vector<T> alone(A.domain());
    const auto one = solve<T, Host>(A, P.get(), b, alone, options);
    EXPECT_LE(std::abs(report.iterations - one.iterations), 1 + one.iterations / 10) << to_string(method);
    most = std::max(most, one.counts.exchanges);
  }
  // Eleven columns, eight at a time: not more than the exchanges of three solves.
  if (comm.size() > 1) {
    EXPECT_LE(reports.counts.exchanges, 3 * most + 10);
  }
}

TEST(Columns, AreSolvesOfTheirOwn) {
  test::on_ranks(
      [](const comm::Communicator& comm) {
        for (const Method method : {Method::cg, Method::bicgstab, Method::gmres, Method::pipelined_cg, Method::ca_cg}) {
          columns_are_solves<double>(comm, method);
          columns_are_solves<std::complex<float>>(comm, method);
        }
      },
      {2, 3});
}

TEST(Columns, SimulatedRanksHaveTheBitsOfThreads) {
  for (const Method method : {Method::cg, Method::pipelined_bicgstab, Method::gmres}) {
    const auto run = [&](std::vector<std::vector<double>>& parts) {
      return [&parts, method](const comm::Communicator& comm) {
        const auto A = matrix<double>(comm);
        const auto B = right_sides<double>(A.range(), 5);
        Vector<double> X(A.domain(), 5);
        Options options;
        options.method = method;
        const auto reports = solve_columns<double>(A, nullptr, B, X, options);
        for (const auto& r : reports.columns) EXPECT_TRUE(r.converged());
        parts[std::size_t(comm.rank())] = X.to_host();
      };
    };
    std::vector<std::vector<double>> threads(3), simulated(3);
    comm::run_threads(3, run(threads));
    comm::simulate(3, comm::MachineModel{}, run(simulated));
    EXPECT_EQ(threads, simulated) << to_string(method);
  }
}

TEST(Columns, AnExceptionEndsAllOfThem) {
  test::on_ranks(
      [](const comm::Communicator& comm) {
        const auto A = matrix<double>(comm);
        const auto B = right_sides<double>(A.range(), 4);
        Vector<double> X(A.domain(), 4);
        Options options;
        options.method = Method::bicgstab;
        options.callback = [](const State& s) -> bool {
          if (s.column == 2 && s.iteration == 3) throw Error(ErrorKind::usage, "enough");
          return false;
        };
        EXPECT_THROW(solve_columns<double>(A, nullptr, B, X, options), Error);
        options.callback = nullptr;
        EXPECT_TRUE(solve_columns<double>(A, nullptr, B, X, options).columns[2].converged());
      },
      {2, 3});
}

TEST(Columns, RefuseWhatDoesNotFit) {
  test::on_ranks(
      [](const comm::Communicator& comm) {
        const auto A = matrix<double>(comm);
        const auto B = right_sides<double>(A.range(), 4);
        Vector<double> X(A.domain(), 3);
        EXPECT_THROW(solve_columns<double>(A, nullptr, B, X, Options{}), Error);
      },
      {2, 3});
}

}  // namespace
}  // namespace tacit::krylov
