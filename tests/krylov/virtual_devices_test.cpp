// Clocks of virtual devices on simulated ranks.
#include <gtest/gtest.h>
#include <tacit/comm/simulate.hpp>

#include "krylov/on_devices.hpp"
#include "support/communicators.hpp"

#include <optional>

using namespace tacit;
using namespace tacit::test;
using comm::Communicator;
using exec::DevicePath;

namespace {

// Clocks of virtual devices compared with times computed by hand.
TEST(VirtualDevices, HaveClocksOnSimulatedRanks) {
  if (under_mpi()) return;
  comm::MachineModel machine;
  machine.bandwidth = 1e9;
  exec::DeviceModel model;
  model.bandwidth = 8e9, model.product = 2e9, model.kernel = 0.5e-3, model.scalars = 1e-4;
  model.to_device = 4e9, model.to_host = 2e9, model.peer = 16e9, model.link = 2;
  model.host = machine.bandwidth;
  constexpr std::size_t n = 1'000'000;  // 8 MB
  comm::simulate(1, machine, [&](const Communicator& comm) {
    const auto devices = devices_of<Host>(4);
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
    // 8 MB to a device take 2 ms, on two links of two devices each. In pieces from the first device 4 ms for each other
    // one; the last piece, 8 MB - 15 * 512 KiB, leaves it before the one before has arrived. Over direct links 0.5 ms
    // for all at once.
    EXPECT_NEAR(seconds([&] { devices->broadcast(host.data(), x, DevicePath::host); }), 4e-3, 1e-9);
    EXPECT_NEAR(seconds([&] { devices->broadcast(host.data(), x, DevicePath::copy); }), 14e-3 + (524288 - 135680) / 4e9,
                1e-9);
    EXPECT_NEAR(seconds([&] { devices->broadcast(host.data(), x, DevicePath::peer); }), 2.5e-3, 1e-9);
    // Kernels on two devices at once: twice 0.5 ms and 2 ms for reading 16 MB; then 0.1 ms for the sums.
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
    // A product: three kernels, with the time for reading the matrix.
    const auto A = matrix<double>(comm, 400, 1e-4);
    const HMatrixOnDevices<double, Host> B(A, devices);
    const OnGroup<double, Host> v(B.domain());
    OnGroup<double, Host> w(B.range());
    const double most = *std::max_element(B.bytes().begin(), B.bytes().end());
    std::optional<Product<double, Group<Host>>> under_way;
    const double product = seconds([&] { under_way.emplace(B.start(v, w)); });
    EXPECT_GE(product, 3 * model.kernel + most / model.product);
    EXPECT_NEAR(devices->clocks()->times().product, 3 * model.kernel + B.bytes()[0] / model.product, 1e-9);
    under_way->wait();
  });
}

}  // namespace
