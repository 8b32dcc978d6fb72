// H-matrices and BiCGStab on several virtual devices of a process.
#include <gtest/gtest.h>
#include <tacit/base/error.hpp>
#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/krylov/workspace.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>

#include "op/hmatrix_cases.hpp"
#include "support/communicators.hpp"

#include <cmath>
#include <numeric>

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

// 1 / r off the diagonal and n / 6 on it, so that BiCGStab takes a dozen iterations.
template <class T>
std::shared_ptr<const HMatrix<T>> matrix(const Communicator& comm, Local n, double tolerance,
                                         double diagonal = 1 / 6.0) {
  const Geometry g = sphere(n);
  HMatrixOptions options;
  options.tolerance = tolerance;
  const EntryFunction<T> entry = [of = kernel<T>(g), on = T(diagonal * n)](auto rows, auto columns, T* out) {
    of(rows, columns, out);
    for (std::size_t j = 0; j < columns.size(); ++j)
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i] == columns[j]) out[i + j * rows.size()] = on;
  };
  return std::make_shared<const HMatrix<T>>(Space::replicated(comm, n), tree_of(g, leaves(32)), entry, options);
}

std::shared_ptr<Devices<Host>> group(int count) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return std::make_shared<Devices<Host>>(ids);
}

template <class T>
std::vector<T> numbers_of(Local n) {
  std::vector<T> x;
  for (Local i = 0; i < n; ++i) x.push_back(T(std::sin(1 + double(i) * i)));
  return x;
}

template <class T>
using OnGroup = layout::Vector<T, Group<Host>>;

template <class T>
OnGroup<T> on_group(const Space& space, const std::vector<T>& values) {
  OnGroup<T> x(space);
  x.assign(values);
  return x;
}

/// Solves from x = 0 on a group of devices, with b and x as vectors of the host.
template <class T>
krylov::Report solved(Method method, const HMatrixOnDevices<T, Host>& A, const std::vector<T>& b, std::vector<T>& x,
                      double rtol, int most = 500, VectorWork work = VectorWork::redundant) {
  A.group().work = work;
  krylov::Options options;
  options.method = method, options.rtol = rtol, options.max_iterations = most;
  const auto rhs = on_group(A.range(), b);
  OnGroup<T> solution(A.domain());
  const auto report = krylov::solve<T, Group<Host>>(A, nullptr, rhs, solution, options);
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
  EXPECT_THROW(Devices<Host>({}), Error);
}

template <class T>
void products_agree(double tolerance) {
  on_ranks(
      [&](const Communicator& comm) {
        constexpr Local n = 700;
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
              const auto devices = group(count);
              const HMatrixOnDevices<T, Host> B(A, devices, {path, deal});
              const auto dx = on_group(B.domain(), values);
              OnGroup<T> dy(B.range());
              const auto before = devices->traffic();
              B.apply(dx, dy);
              const auto after = devices->traffic();
              const auto got = dy.to_host();
              EXPECT_LE(relative_error(got, expected), 20 * double(std::numeric_limits<real_t<T>>::epsilon()));
              for (int d = 0; d < count; ++d)  // all devices have the same vector
                EXPECT_EQ(std::vector<T>(dy.own().on(d).data(), dy.own().on(d).data() + n), got);
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
      {2, 3});
}

TEST(HMatrixOnDevices, IsTheMatrix) {
  products_agree<double>(1e-6);
  products_agree<float>(1e-3);
}

TEST(HMatrixOnDevices, HasSharesOfEqualBytes) {
  const auto A = matrix<double>(Communicator::self(), 3000, 1e-4);
  const HMatrixOnDevices<double, Host> B(A, group(4));
  const auto [least, most] = std::minmax_element(B.bytes().begin(), B.bytes().end());
  EXPECT_GT(*least, 0.9 * *most);
  double all = 0;
  for (const double bytes : B.bytes()) all += bytes;
  EXPECT_DOUBLE_EQ(all, A->report().bytes);
}

TEST(HMatrixOnDevices, RefusesWhatItCannotDo) {
  EXPECT_THROW((HMatrixOnDevices<double, Host>(nullptr, group(1))), Error);
  if (under_mpi()) return;
  comm::run_threads(2, [](const Communicator& comm) {
    const Geometry g = sphere(200);
    const auto A =
        std::make_shared<const HMatrix<double>>(Space::distributed(comm, 200), tree_of(g), kernel<double>(g));
    EXPECT_THROW((HMatrixOnDevices<double, Host>(A, group(2))), Error);
  });
}

TEST(HMatrixOnDevices, IsSolvedWith) {
  on_ranks(
      [](const Communicator& comm) {
        constexpr Local n = 600;
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
            const auto devices = group(count);
            const HMatrixOnDevices<double, Host> B(A, devices);
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
            // and of x0, twice, at the start; of x and of the residual at the end. The last iteration may end halfway,
            // with two sums less.
            const int readers = work == VectorWork::shared ? count : 1;
            const auto half = 3 * report.iterations + 7 - (after.reads - before.reads) / readers;
            EXPECT_TRUE(half == 0 || half == 1) << half;
            EXPECT_EQ(after.reads - before.reads, readers * (3 * report.iterations + 7 - half));
            EXPECT_EQ(after.scalars - before.scalars, readers * (7 * report.iterations + 2 + 3 * 6 - 2 * half));
          }
        // b = 0, and a b with NaN.
        const HMatrixOnDevices<double, Host> B(A, group(2));
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
        const auto good = on_group(B.range(), b);
        auto guess = on_group(B.domain(), x);
        EXPECT_EQ((krylov::solve<double, Group<Host>>(B, nullptr, good, guess, options).iterations), 0);
        // An error on one rank is thrown on all; unsupported spaces and methods are refused.
        const bool last = comm.rank() == comm.size() - 1;
        const OnGroup<double> other(Space::replicated(comm, last ? n - 1 : n).on(B.range().place()));
        EXPECT_THROW((krylov::solve<double, Group<Host>>(B, nullptr, other, guess, options)), Error);
        EXPECT_THROW(OnGroup<double>(A->range()), Error);
        options.method = Method::gmres;
        EXPECT_THROW((krylov::solve<double, Group<Host>>(B, nullptr, good, guess, options)), Error);
      },
      {2, 3});
}

TEST(HMatrixOnDevices, OverlapsSumsWithProducts) {
  on_ranks(
      [](const Communicator& comm) {
        constexpr Local n = 300;
        const auto A = matrix<double>(comm, n, 1e-6);
        const auto b = numbers_of<double>(n);
        const HMatrixOnDevices<double, Host> one(A, group(1));
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
            const auto devices = group(count);
            const HMatrixOnDevices<double, Host> B(A, devices);
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
            EXPECT_EQ(after.reads - before.reads, count * (2 * report.iterations + 7));
            EXPECT_EQ(after.scalars - before.scalars, count * (13 * report.iterations + 7 + 3 * 6));
            if (first.empty()) first = x;
            EXPECT_EQ(x, first);  // for every kind of overlap
          }
        }
        std::vector<double> x(n, 5.0), zero(n);
        EXPECT_TRUE(solved(Method::pipelined_bicgstab, one, zero, x, 1e-7).converged());
        EXPECT_EQ(x, zero);
        EXPECT_EQ(solved(Method::pipelined_bicgstab, one, b, x, 1e-8, 3).reason, krylov::Reason::max_iterations);
      },
      {2, 3});
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
  constexpr Local n = 700;
  const auto A = matrix<float>(Communicator::self(), n, 1e-4);
  const auto b = numbers_of<float>(n);
  const HMatrixOnDevices<float, Host> B(A, group(2));
  for (const auto method : {Method::bicgstab, Method::pipelined_bicgstab})
    for (const auto work : {VectorWork::redundant, VectorWork::shared})
      for (const double rtol : {5e-8, 1e-7, 2e-7, 3e-7, 5e-7, 7e-7, 1e-6, 2e-6, 1e-5}) {
        std::vector<float> x(n);
        const auto report = solved(method, B, b, x, rtol, 500, work);
        const auto what = message(report.method, " to ", rtol, ": ", to_string(report.reason));
        if (report.converged()) {
          EXPECT_LE(report.residual_norm, rtol) << what;
        }
        // Where float has enough digits, the method reaches the goal by restarting from the recomputed residual.
        if (rtol >= 1e-6) {
          EXPECT_TRUE(report.converged()) << what << " " << report.residual_norm;
        }
        EXPECT_NEAR(residual_by_host(*A, b, x), report.residual_norm, 1e-6) << what;
      }
}

// Residuals rise and fall by powers of ten during the solve; whenever it is stopped, the best iterate is returned.
TEST(HMatrixOnDevices, KeepsTheBestIterate) {
  constexpr Local n = 300;
  const auto A = matrix<double>(Communicator::self(), n, 1e-8, 1e-3);
  const auto b = numbers_of<double>(n);
  for (const auto method : {Method::bicgstab, Method::pipelined_bicgstab})
    for (const auto work : {VectorWork::redundant, VectorWork::shared}) {
      const HMatrixOnDevices<double, Host> B(A, group(2));
      double rises = 0;
      for (int most = 1; most <= 60; ++most) {
        std::vector<double> x(n);
        const auto report = solved(method, B, b, x, 1e-14, most, work);
        const double least = *std::min_element(report.history.begin(), report.history.end());
        rises = std::max(rises, report.history.back() / least);
        EXPECT_LE(report.residual_norm, std::min(1.0, 10.1 * least)) << report.method << " " << most;
        EXPECT_NEAR(residual_by_host(*A, b, x), report.residual_norm, 1e-6) << report.method << " " << most;
      }
      EXPECT_GT(rises, 10.1);  // otherwise nothing has been tested
    }
}

// Clocks of virtual devices compared with times computed by hand.
TEST(VirtualDevices, HaveClocksOnSimulatedRanks) {
  if (under_mpi()) return;
  comm::MachineModel machine;
  machine.bandwidth = 1e9;
  exec::DeviceModel model;
  model.bandwidth = 8e9, model.product = 2e9, model.kernel = 1e-3, model.scalars = 1e-4;
  model.to_device = 4e9, model.to_host = 2e9, model.copy = 8e9, model.peer = 16e9, model.link = 2;
  model.host = machine.bandwidth;
  constexpr std::size_t n = 1'000'000;  // 8 MB
  comm::simulate(1, machine, [&](const Communicator& comm) {
    const auto devices = group(4);
    devices->simulate(model);
    const std::vector<double> host(n, 1.0);
    std::vector<exec::DeviceArray<double, Host>> x;
    for (int d = 0; d < 4; ++d) x.push_back(devices->array<double>(d, n));
    const auto seconds = [&](auto&& f) {
      comm::restart_clocks(comm);
      devices->clocks()->restart();
      f();
      for (int d = 0; d < 4; ++d) devices->wait(d);
      return wall_time();
    };
    // 8 MB to a device take 2 ms, on two links of two devices each. Between devices: 1 ms one after the other, 0.5 ms
    // at once.
    EXPECT_NEAR(seconds([&] { devices->broadcast(host.data(), x, DevicePath::host); }), 4e-3, 1e-9);
    EXPECT_NEAR(seconds([&] { devices->broadcast(host.data(), x, DevicePath::copy); }), 5e-3, 1e-9);
    EXPECT_NEAR(seconds([&] { devices->broadcast(host.data(), x, DevicePath::peer); }), 2.5e-3, 1e-9);
    // Kernels on two devices at once: 1 ms and 2 ms for reading 16 MB; then 0.1 ms for the sums.
    const auto sums = [&](int d) {
      const auto part = std::as_const(x[std::size_t(d)]).part(0, n);
      return devices->start_sums(d, n, exec::reads(part, part), exec::updates(), exec::writes(),
                                 layout::formula::Dots<double>{});
    };
    EXPECT_NEAR(seconds([&] {
                  const auto a = sums(0), b = sums(3);
                  EXPECT_EQ(devices->sums(0, a)[1] + devices->sums(3, b)[1], 2.0 * n);
                }),
                3.1e-3, 1e-9);
    // An asynchronous copy takes 4 ms beside the kernel; 3.1 ms of them pass while the sums are awaited.
    std::vector<double> out(n);
    EXPECT_NEAR(seconds([&] {
                  devices->to_host_aside(x[1], 0, n, out.data());
                  (void)devices->sums(1, sums(1));
                  EXPECT_NEAR(wall_time(), 3.1e-3, 1e-9);
                  devices->wait_aside(1);
                }),
                4e-3, 1e-9);
    EXPECT_NEAR(devices->clocks()->times().waits, 4e-3, 1e-9);
    EXPECT_EQ(devices->clocks()->times().copies, 0);  // counted for device 0, which has done nothing
    // A copy counts in full even if a kernel hides it: 8 MB to the host in 4 ms, and 0.1 ms for the sums.
    EXPECT_NEAR(seconds([&] {
                  devices->to_host_aside(x[0], 0, n, out.data());
                  (void)devices->sums(0, sums(0));
                  devices->wait_aside(0);
                }),
                4e-3, 1e-9);
    EXPECT_NEAR(devices->clocks()->times().copies, 4.1e-3, 1e-9);
    seconds([&] { devices->broadcast(host.data(), x, DevicePath::peer); });  // 2 ms, then 3 * 0.5 ms to the others
    EXPECT_NEAR(devices->clocks()->times().copies, 3.5e-3, 1e-9);
    // A product: two kernels, with the time for reading the matrix.
    const auto A = matrix<double>(comm, 400, 1e-4);
    const HMatrixOnDevices<double, Host> B(A, devices);
    const OnGroup<double> v(B.domain());
    OnGroup<double> w(B.range());
    const double most = *std::max_element(B.bytes().begin(), B.bytes().end());
    std::optional<Product<double, Group<Host>>> under_way;
    const double product = seconds([&] { under_way.emplace(B.start(v, w)); });
    EXPECT_GE(product, model.kernel + most / model.product);
    EXPECT_NEAR(devices->clocks()->times().product, model.kernel + B.bytes()[0] / model.product, 1e-9);
    under_way->wait();
  });
}

}  // namespace
