// H-matrices and BiCGStab on several devices of a process: virtual ones, or, in the program of tests/device, CUDA's.
#include <gtest/gtest.h>
#include <tacit/base/error.hpp>
#include <tacit/krylov/group_methods.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/jacobi_on_group.hpp>
#include "krylov/workspace.hpp"

#include "krylov/on_devices.hpp"
#include "support/communicators.hpp"
#include "support/memory.hpp"

#include <cmath>

using namespace tacit;
using namespace tacit::test;
using comm::Communicator;
using exec::DeviceOverlap;
using exec::DevicePath;
using exec::Devices;
using exec::VectorWork;
using krylov::Method;
using layout::Space;

namespace {

using M = TestMemory;

/// Solves from x = 0 on a group of devices, with b and x as vectors of the host.
template <class T>
krylov::Report solved(Method method, const HMatrixOnDevices<T, M>& A, const std::vector<T>& b, std::vector<T>& x,
                      double rtol, int most = 500, VectorWork work = VectorWork::redundant) {
  A.group().work = work;
  krylov::Options options;
  options.method = method, options.rtol = rtol, options.max_iterations = most;
  const auto rhs = on_group<M>(A.range(), b);
  OnGroup<T, M> solution(A.domain());
  const auto report = krylov::solve<T, Group<M>>(A, nullptr, rhs, solution, options);
  x = solution.to_host();
  return report;
}

TEST(Devices, AreDealtToProcesses) {
  using exec::devices_of_process;
  using exec::ProcessLayout;
  EXPECT_EQ(devices_of_process(ProcessLayout::per_gpu, 4, 2, 3), std::vector<int>{3});
  EXPECT_EQ(devices_of_process(ProcessLayout::per_socket, 4, 2, 1), (std::vector<int>{2, 3}));
  EXPECT_EQ(devices_of_process(ProcessLayout::per_node, 4, 2, 0), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_THROW(devices_of_process(ProcessLayout::per_socket, 4, 2, 2), Error);
  EXPECT_THROW(devices_of_process(ProcessLayout::per_gpu, 3, 2, 0), Error);
  EXPECT_THROW(Devices<M>({}), Error);
}

template <class T>
void products_agree(double tolerance) {
  on_ranks(
      [&](const Communicator& comm) {
        constexpr Local n = on_host ? 700 : 200;
        const auto A = matrix<T>(comm, n, tolerance);
        Vector<T> x(A->domain()), y(A->range());
        const auto values = numbers_of<T>(n);
        x.assign(values);
        A->apply(x, y);
        const auto expected = y.to_host();
        for (const auto deal : {BlockDeal::rows, BlockDeal::round_robin})
          for (const int count : {1, 2, 3, 4}) {
            std::vector<T> first;
            for (const auto path : {DevicePath::host, DevicePath::copy, DevicePath::peer}) {
              const auto devices = devices_of<M>(count);
              const HMatrixOnDevices<T, M> B(A, devices, {path, deal});
              const auto dx = on_group<M>(B.domain(), values);
              OnGroup<T, M> dy(B.range());
              const auto before = devices->traffic();
              B.apply(dx, dy);
              const auto after = devices->traffic();
              const auto got = dy.to_host();
              EXPECT_LE(relative_error(got, expected), 20 * double(std::numeric_limits<real_t<T>>::epsilon()));
              for (int d = 0; d < count; ++d)  // all devices have the same vector
                EXPECT_EQ(elements_of(*devices, dy.own().on(d)), got);
              if (first.empty()) first = got;
              EXPECT_EQ(got, first);  // for every path
              // The copies that the documentation states.
              Global parts = 0;
              double bytes = 0;
              for (int d = 1; d < count; ++d) {
                const auto [begin, end] = B.rows()[std::size_t(d)];
                parts += end > begin, bytes += double(end - begin) * sizeof(T);
              }
              const auto [own_first, own_last] = A->own_rows();
              const bool host = path == DevicePath::host;
              EXPECT_EQ(after.to_host - before.to_host, 1 + (host ? parts : 0));
              EXPECT_EQ(after.to_devices - before.to_devices, host ? parts + count : 1);
              EXPECT_EQ(after.between - before.between, host ? 0 : parts + count - 1);
              EXPECT_EQ(after.bytes_to_host - before.bytes_to_host,
                        double(own_last - own_first) * sizeof(T) + (host ? bytes : 0));
              EXPECT_EQ(after.bytes_between - before.bytes_between,
                        host ? 0 : bytes + double(count - 1) * n * sizeof(T));
            }
          }
      },
      ranks_of({2, 3}));
}

TEST(HMatrixOnDevices, IsTheMatrix) {
  products_agree<double>(1e-6);
  products_agree<float>(1e-3);
}

TEST(HMatrixOnDevices, HasSharesOfEqualBytes) {
  const auto A = matrix<double>(Communicator::self(), 3000, 1e-4);
  const HMatrixOnDevices<double, M> B(A, devices_of<M>(4));
  const auto [least, most] = std::minmax_element(B.bytes().begin(), B.bytes().end());
  EXPECT_GT(*least, 0.9 * *most);
  double all = 0;
  for (const double bytes : B.bytes()) all += bytes;
  EXPECT_DOUBLE_EQ(all, A->report().bytes);
}

TEST(HMatrixOnDevices, RefusesWhatItCannotDo) {
  EXPECT_THROW((HMatrixOnDevices<double, M>(nullptr, devices_of<M>(1))), Error);
  const Geometry g = sphere(200);
  HMatrixOptions options;
  options.symmetry = Symmetry::symmetric;
  const auto half = std::make_shared<const HMatrix<double>>(Space::replicated(Communicator::self(), 200), tree_of(g),
                                                            kernel<double>(g), options);
  EXPECT_THROW((HMatrixOnDevices<double, M>(half, devices_of<M>(1))), Error);
}

// Vectors on devices are whole, also where those of the matrix in host memory are spread over ranks.
TEST(HMatrixOnDevices, TakesMatricesOfSpreadVectors) {
  on_ranks(
      [](const Communicator& comm) {
        constexpr Local n = 201;
        const Geometry g = sphere(n);
        const auto spread = std::make_shared<const HMatrix<double>>(Space::distributed(comm, n), tree_of(g, leaves(32)),
                                                                    kernel<double>(g));
        const auto x = numbers_of<double>(n);
        Vector<double> own(spread->domain()), product(spread->range());
        own.assign(std::span(x).subspan(std::size_t(spread->domain().begin()), own.size()));
        spread->apply(own, product);
        const auto part = product.to_host(), diagonal = spread->diagonal();
        for (const int count : {1, 2}) {
          const HMatrixOnDevices<double, M> B(spread, devices_of<M>(count));
          EXPECT_TRUE(B.range().is_replicated());
          OnGroup<double, M> y(B.range());
          B.apply(on_group<M>(B.domain(), x), y);
          EXPECT_LE(relative_error(y.to_host(), comm.all_gather(std::span<const double>(part))), 1e-14);
          EXPECT_EQ(B.diagonal(), comm.all_gather(std::span<const double>(diagonal)));
        }
      },
      ranks_of({2, 3}));
}

// One sweep on every device: no copies. Solves take the iterations of the host's.
TEST(JacobiOnDevices, DividesByTheDiagonal) {
  on_ranks(
      [](const Communicator& comm) {
        constexpr Local n = on_host ? 600 : 200;
        const Geometry g = sphere(n);
        const EntryFunction<double> entry = [of = kernel<double>(g)](auto rows, auto columns, double* out) {
          of(rows, columns, out);
          for (std::size_t j = 0; j < columns.size(); ++j)
            for (std::size_t i = 0; i < rows.size(); ++i)
              if (rows[i] == columns[j]) out[i + j * rows.size()] = double(n) * (rows[i] % 7 == 0 ? 1000 : 1);
        };
        const auto A =
            std::make_shared<const HMatrix<double>>(Space::distributed(comm, n), tree_of(g, leaves(32)), entry);
        const auto b = numbers_of<double>(n);
        Vector<double> rhs(A->range()), solution(A->domain());
        rhs.assign(std::span(b).subspan(std::size_t(A->range().begin()), rhs.size()));
        krylov::Options options;
        options.rtol = 1e-9, options.fallbacks = false;
        const precond::Jacobi<double> host(*A);
        for (const auto method : krylov::group_methods) {
          options.method = method;
          layout::fill(solution, 0.0);
          const auto plain = krylov::solve<double, Host>(*A, nullptr, rhs, solution, options);
          layout::fill(solution, 0.0);
          const auto scaled = krylov::solve<double, Host>(*A, &host, rhs, solution, options);
          ASSERT_TRUE(scaled.converged());
          ASSERT_LT(scaled.iterations, plain.iterations - 2);  // otherwise the scaling shows in nothing
          for (const auto work : {VectorWork::redundant, VectorWork::shared}) {
            const auto devices = devices_of<M>(2);
            const HMatrixOnDevices<double, M> B(A, devices, {.work = work});
            EXPECT_EQ(B.group().work, work);
            const auto P = precond::make_jacobi<double, Group<M>>(B);
            const auto right = on_group<M>(B.range(), b);
            OnGroup<double, M> y(B.range()), x(B.domain());
            const auto before = devices->traffic();
            P->apply(right, y);
            const auto after = devices->traffic();
            EXPECT_EQ(after.to_devices + after.to_host + after.between + after.waits,
                      before.to_devices + before.to_host + before.between + before.waits);
            const auto quotient = y.to_host(), d = B.diagonal();
            for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(quotient[i] * d[i], b[i], 1e-15);
            const auto report = krylov::solve<double, Group<M>>(B, P.get(), right, x, options);
            EXPECT_TRUE(report.converged()) << report.detail;
            EXPECT_EQ(report.precond, "jacobi");
            EXPECT_NEAR(report.iterations, scaled.iterations, 1);
            const auto part = solution.to_host();
            EXPECT_LE(relative_error(x.to_host(), comm.all_gather(std::span<const double>(part))), 1e-7);
          }
        }
      },
      ranks_of({2, 3}));
}

// Every rank has the whole diagonal.
TEST(JacobiOnDevices, CountsAZeroOnce) {
  on_ranks(
      [](const Communicator& comm) {
        constexpr Local n = 120;
        const auto A = matrix<double>(comm, n, 1e-6, 0);
        const HMatrixOnDevices<double, M> B(A, devices_of<M>(1));
        const auto P = precond::make_jacobi<double, Group<M>>(B);
        const auto* noted = dynamic_cast<const op::Noted*>(P.get());
        ASSERT_TRUE(noted);
        EXPECT_EQ(noted->note(), "120 of 120 diagonal entries are zero and taken as the largest one");
      },
      ranks_of({2, 3}));
}

TEST(HMatrixOnDevices, IsSolvedWith) {
  on_ranks(
      [](const Communicator& comm) {
        constexpr Local n = on_host ? 600 : 200;
        const auto A = matrix<double>(comm, n, 1e-6);
        const auto b = numbers_of<double>(n);
        Vector<double> rhs(A->range()), solution(A->domain());
        rhs.assign(b);
        krylov::Options options;
        options.method = krylov::Method::bicgstab;
        options.rtol = 1e-8;
        const auto plain = krylov::solve<double, Host>(*A, nullptr, rhs, solution, options);
        ASSERT_TRUE(plain.converged());
        for (const auto work : {VectorWork::redundant, VectorWork::shared})
          for (const int count : {1, 2, 4}) {
            const auto devices = devices_of<M>(count);
            const HMatrixOnDevices<double, M> B(A, devices);
            std::vector<double> x(n);
            const auto before = devices->traffic();
            const auto report = solved(Method::bicgstab, B, b, x, 1e-8, 500, work);
            const auto after = devices->traffic();
            EXPECT_TRUE(report.converged()) << report.residual_norm;
            EXPECT_LE(report.residual_norm, 1e-8);
            EXPECT_NEAR(report.iterations, plain.iterations, 1);
            EXPECT_LE(relative_error(x, solution.to_host()), report.iterations == plain.iterations ? 1e-9 : 1e-6);
            EXPECT_LE(report.counts.operator_applies, plain.counts.operator_applies + 2);
            EXPECT_LE(report.counts.operator_applies, 2 * report.iterations + 2);
            EXPECT_EQ(report.counts.reductions, 0);  // no reductions between ranks
            // An iteration forms 2, 3 and 2 sums in three reads; two sums at the start. Norms, three sums each: of b
            // and of x0 at the start; of x and of the residual at the end. The last iteration may end halfway,
            // with two sums less.
            const int readers = work == VectorWork::shared ? count : 1;
            const auto half = 3 * report.iterations + 5 - (after.reads - before.reads) / readers;
            EXPECT_TRUE(half == 0 || half == 1) << half;
            EXPECT_EQ(after.reads - before.reads, readers * (3 * report.iterations + 5 - half));
            EXPECT_EQ(after.scalars - before.scalars, readers * (7 * report.iterations + 2 + 3 * 4 - 2 * half));
          }
        // b = 0, and a b with NaN.
        const HMatrixOnDevices<double, M> B(A, devices_of<M>(2));
        std::vector<double> x(n), zero(n), bad(n, 1.0);
        const auto none = solved(Method::bicgstab, B, zero, x, 1e-7);
        EXPECT_TRUE(none.converged());
        EXPECT_EQ(x, zero);
        bad[7] = NAN;
        EXPECT_EQ(solved(Method::bicgstab, B, bad, x, 1e-7).reason, krylov::Reason::non_finite);
        EXPECT_EQ(x, zero);
        const auto few = solved(Method::bicgstab, B, b, x, 1e-8, 2, VectorWork::shared);
        EXPECT_EQ(few.reason, krylov::Reason::max_iterations);
        EXPECT_LT(few.residual_norm, 1);
        // Elements whose squares overflow.
        auto large = b;
        for (double& v : large) v = std::ldexp(v, 700);
        std::vector<double> y(n);
        const auto plain_x = solved(Method::bicgstab, B, b, x, 1e-8);
        const auto scaled = solved(Method::bicgstab, B, large, y, 1e-8);
        EXPECT_TRUE(scaled.converged()) << scaled.detail;
        EXPECT_NEAR(scaled.iterations, plain_x.iterations, 1);
        for (double& v : y) v = std::ldexp(v, -700);
        EXPECT_LE(relative_error(y, x), 1e-6);
        // The solve begins at the initial guess.
        const auto good = on_group<M>(B.range(), b);
        auto guess = on_group<M>(B.domain(), x);
        EXPECT_EQ((krylov::solve<double, Group<M>>(B, nullptr, good, guess, options).iterations), 0);
        // An error on one rank is thrown on all; unsupported spaces and methods are refused.
        const bool last = comm.rank() == comm.size() - 1;
        const OnGroup<double, M> other(Space::replicated(comm, last ? n - 1 : n).on(B.range().place()));
        EXPECT_THROW((krylov::solve<double, Group<M>>(B, nullptr, other, guess, options)), Error);
        EXPECT_THROW((OnGroup<double, M>(A->range())), Error);
        options.method = Method::gmres;
        EXPECT_THROW((krylov::solve<double, Group<M>>(B, nullptr, good, guess, options)), Error);
      },
      ranks_of({2, 3}));
}

TEST(HMatrixOnDevices, OverlapsSumsWithProducts) {
  on_ranks(
      [](const Communicator& comm) {
        constexpr Local n = 300;
        const auto A = matrix<double>(comm, n, 1e-6);
        const auto b = numbers_of<double>(n);
        const HMatrixOnDevices<double, M> one(A, devices_of<M>(1));
        std::vector<double> plain_x(n);
        const auto plain = solved(Method::bicgstab, one, b, plain_x, 1e-8);
        Vector<double> rhs(A->range()), solution(A->domain());
        rhs.assign(b);
        krylov::Options options;
        options.method = Method::pipelined_bicgstab;
        options.rtol = 1e-8;
        const auto on_host = krylov::solve<double, Host>(*A, nullptr, rhs, solution, options);
        for (const auto work : {VectorWork::redundant, VectorWork::shared}) {
          const int count = work == VectorWork::shared ? 3 : 1;
          std::vector<double> first;
          for (const auto overlap : {DeviceOverlap::copy, DeviceOverlap::gather}) {
            const auto devices = devices_of<M>(count);
            const HMatrixOnDevices<double, M> B(A, devices);
            B.group().overlap = overlap;
            std::vector<double> x(n);
            const auto before = devices->traffic();
            const auto report = solved(Method::pipelined_bicgstab, B, b, x, 1e-8, 500, work);
            const auto after = devices->traffic();
            EXPECT_TRUE(report.converged()) << report.residual_norm;
            EXPECT_LE(report.residual_norm, 1e-8);
            EXPECT_NEAR(report.recurrence_residual_norm, report.residual_norm, 1e-2 * report.residual_norm);
            EXPECT_NEAR(report.iterations, plain.iterations, 2);
            EXPECT_NEAR(report.iterations, on_host.iterations, 1);
            EXPECT_LE(relative_error(x, plain_x), 1e-5);
            EXPECT_LE(relative_error(x, solution.to_host()), report.iterations == on_host.iterations ? 1e-9 : 1e-6);
            EXPECT_LE(report.counts.operator_applies, on_host.counts.operator_applies + 2);
            EXPECT_LE(report.counts.operator_applies, 2 * report.iterations + 4);
            EXPECT_EQ(report.counts.reductions, 0);
            // An iteration forms 6 and 7 sums in two reads; 7 at the start; norms as in bicgstab.
            EXPECT_EQ(after.reads - before.reads, count * (2 * report.iterations + 5));
            EXPECT_EQ(after.scalars - before.scalars, count * (13 * report.iterations + 7 + 3 * 4));
            if (first.empty()) first = x;
            EXPECT_EQ(x, first);  // for every kind of overlap
          }
        }
        std::vector<double> x(n, 5.0), zero(n);
        EXPECT_TRUE(solved(Method::pipelined_bicgstab, one, zero, x, 1e-7).converged());
        EXPECT_EQ(x, zero);
        EXPECT_EQ(solved(Method::pipelined_bicgstab, one, b, x, 1e-8, 3).reason, krylov::Reason::max_iterations);
      },
      ranks_of({2, 3}));
}

/// ||b - A x|| / ||b|| with the host's product.
template <class T>
double residual_by_host(const HMatrix<T>& A, const std::vector<T>& b, const std::vector<T>& x) {
  Vector<T> from(A.domain()), to(A.range());
  from.assign(x);
  A.apply(from, to);
  const auto y = to.to_host();
  double left = 0, all = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double of = b[i], d = of - double(y[i]);
    left += d * d, all += of * of;
  }
  return std::sqrt(left / all);
}

// In float, recurrence residuals drift away from the true ones: reports contain the true ones.
TEST(HMatrixOnDevices, ReportsTrueResiduals) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  constexpr Local n = on_host ? 700 : 200;
  const auto A = matrix<float>(Communicator::self(), n, 1e-4);
  const auto b = numbers_of<float>(n);
  const HMatrixOnDevices<float, M> B(A, devices_of<M>(2));
  for (const auto method : {Method::bicgstab, Method::pipelined_bicgstab})
    for (const auto work : {VectorWork::redundant, VectorWork::shared})
      for (const double rtol : {5e-8, 1e-7, 2e-7, 3e-7, 5e-7, 7e-7, 1e-6, 2e-6, 1e-5}) {
        if (!on_host && rtol > 5e-8 && rtol < 2e-6) continue;
        std::vector<float> x(n);
        const auto report = solved(method, B, b, x, rtol, 500, work);
        const auto what = message(report.method, " to ", rtol, ": ", to_string(report.reason));
        if (report.converged()) {
          EXPECT_LE(report.residual_norm, rtol) << what;
        }
        // Where float has enough digits, the method reaches the goal by restarting from the recomputed residual, which
        // has an error of about 1e-6 (the driver adds it before it believes a claim).
        if (rtol >= 1e-5) {
          EXPECT_TRUE(report.converged()) << what << " " << report.residual_norm;
        }
        EXPECT_NEAR(residual_by_host(*A, b, x), report.residual_norm, 1e-6) << what;
      }
}

// Residuals rise and fall by powers of ten during the solve; whenever it is stopped, the best iterate is returned.
TEST(HMatrixOnDevices, KeepsTheBestIterate) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  constexpr Local n = 300;
  const auto A = matrix<double>(Communicator::self(), n, 1e-8, 1e-3);
  const auto b = numbers_of<double>(n);
  for (const auto method : {Method::bicgstab, Method::pipelined_bicgstab})
    for (const auto work : {VectorWork::redundant, VectorWork::shared}) {
      const HMatrixOnDevices<double, M> B(A, devices_of<M>(2));
      double rises = 0;
      for (int most = 1; most <= 60; most += sized(1, 9, 30)) {
        std::vector<double> x(n);
        const auto report = solved(method, B, b, x, 1e-14, most, work);
        const double least = *std::min_element(report.history.begin(), report.history.end());
        rises = std::max(rises, report.history.back() / least);
        EXPECT_LE(report.residual_norm, std::min(1.0, 10.1 * least)) << report.method << " " << most;
        EXPECT_NEAR(residual_by_host(*A, b, x), report.residual_norm, 1e-6) << report.method << " " << most;
      }
      if (on_host) {
        EXPECT_GT(rises, 10.1);  // otherwise nothing has been tested
      }
    }
}

}  // namespace
