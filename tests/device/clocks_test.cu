// The modelled clock of the stand-in for CUDA (tests/cuda_on_host) beside the clocks of virtual devices
// (exec/device_model.hpp): the same copies, products and solves take the same time on both, so that what the simulator
// says of overlap is what the calls of the runtime allow. Times are modelled, none is measured.
#include "krylov/on_devices.hpp"

#include <tacit/comm/simulate.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/krylov/solve.hpp>

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using comm::Communicator;
using exec::DeviceModel;
using exec::DeviceOverlap;
using exec::DevicePath;
using exec::Devices;

constexpr const char* waiting = "wait for devices";

/// Adds the work that kernels declare to the stream in which they were launched.
class DeclaredWork final : public VirtualClock {
 public:
  explicit DeclaredWork(const DeviceModel& model) : model_(model), host_(virtual_clock()) {}
  double now() const noexcept override { return host_->now(); }
  void work(const char* name, double bytes, double flops) override {
    const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
    if (is(waiting)) return host_->work(name, bytes, flops);
    if (is(exec::detail::read_over_link)) return void(over_link_ += bytes);
    const double rate = is(exec::detail::product_on_devices) ? model_.product : model_.bandwidth;
    cuda_on_host::work(exec::current_stream(),
                       std::max(rate > 0 ? bytes / rate : 0, model_.peer > 0 ? over_link_ / model_.peer : 0));
    over_link_ = 0;
  }

 private:
  DeviceModel model_;
  VirtualClock* host_;
  double over_link_ = 0;
};

/// Devices of a simulated rank that take the times of the model.
template <Memory M>
struct Timed {
  std::shared_ptr<Devices<M>> devices;
  std::unique_ptr<DeclaredWork> declared;

  Timed(const DeviceModel& model, std::vector<int> ids) : devices(std::make_shared<Devices<M>>(std::move(ids))) {
    if constexpr (std::same_as<M, Host>) {
      devices->simulate(model);
    } else {
      declared = std::make_unique<DeclaredWork>(model);
      devices->declare_to(declared.get());
    }
  }
  void restart(const Communicator& comm, const DeviceModel& model) {
    for (int d = 0; d < devices->size(); ++d) devices->wait(d);
    comm::restart_clocks(comm);
    if constexpr (std::same_as<M, Host>) {
      devices->clocks()->restart();
    } else if (comm.rank() == 0) {
      cuda_on_host::set_rates(cuda_on_host::Rates{
          model.kernel, model.to_device, model.to_host, model.link, model.peer, model.bandwidth, wall_time,
          [host = model.host](double t) { Trace::work(waiting, (t - wall_time()) * host); }});
    }
    comm::restart_clocks(comm);  // nobody goes on before the rates are set
  }
};

class Clocks : public testing::Test {
 protected:
  void SetUp() override { cuda_on_host::set_devices(4); }
  void TearDown() override { cuda_on_host::set_rates(std::nullopt); }
};

DeviceModel model_of(const comm::MachineModel& machine) {
  DeviceModel m;
  m.bandwidth = 8e9, m.product = 2e9, m.kernel = 2e-6;
  m.to_device = 4e9, m.to_host = 2e9, m.peer = 16e9, m.link = 2;
  m.host = machine.bandwidth;
  return m;
}

/// The seconds of each operation on a group of four devices.
template <Memory M>
std::vector<double> operations() {
  constexpr std::size_t n = 200'000;  // 1.6 MB: four pieces
  comm::MachineModel machine;
  machine.bandwidth = 1e9;
  const DeviceModel model = model_of(machine);
  std::vector<double> seconds;
  comm::simulate(
      1, machine,
      [&](const Communicator& comm) {
        Timed<M> timed(model, {0, 1, 2, 3});
        auto& devices = *timed.devices;
        exec::HostBuffer<double, M> host(n), own(n);
        std::vector<exec::DeviceArray<double, M>> x;
        for (int d = 0; d < 4; ++d) x.push_back(devices.template array<double>(d, n));
        auto scratch = devices.template array<double>(0, n);
        const std::vector<std::pair<Local, Local>> rows{
            {0, Local(n)}, {0, Local(n / 2)}, {7, 7}, {Local(n / 4), Local(n)}};
        const auto time = [&](auto&& f) {
          timed.restart(comm, model);
          f();
          for (int d = 0; d < 4; ++d) devices.wait(d);
          seconds.push_back(wall_time());
        };
        for (const auto path : {DevicePath::host, DevicePath::copy, DevicePath::peer}) {
          time([&] { devices.broadcast(host.data(), x, path); });
          time([&] { devices.between(x[0], 0, n, x[1], path); });
          time([&] { devices.sum_on_first(x, rows, scratch, path); });
          time([&] {
            devices.complete(
                std::span(x), [&](int d) { return std::pair(n / 4 * std::size_t(d), n / 4 * std::size_t(d + 1)); },
                path);
          });
        }
        // A copy to the host beside the device's later work, and one that other host memory holds up.
        time([&] {
          devices.to_host_aside(x[1], 0, n, own.data());
          devices.broadcast(host.data(), x, DevicePath::peer);
          devices.wait_aside(1);
        });
        time([&] {
          devices.broadcast(host.data(), x, DevicePath::host);
          devices.wait_for_broadcast();
          devices.broadcast(host.data(), x, DevicePath::host);
        });
      },
      1024 * 1024);
  return seconds;
}

TEST_F(Clocks, OfVirtualDevicesFollowTheCallsOfTheRuntime) {
  const auto runtime = operations<Device>(), model = operations<Host>();
  ASSERT_EQ(runtime.size(), model.size());
  for (std::size_t k = 0; k < model.size(); ++k) EXPECT_NEAR(model[k], runtime[k], 1e-9) << "operation " << k;
  // By hand: 1.6 MB pass a link to a device in 0.4 ms, to the host in 0.8, between devices in 0.1. To four devices on
  // two links, then to one and over three direct links at once.
  EXPECT_NEAR(runtime[0], 0.8e-3, 1e-9);
  EXPECT_NEAR(runtime[8], 0.5e-3, 1e-9);
  EXPECT_NEAR(runtime[1], 1.2e-3, 1e-9);  // whole, one after the other
  // The last piece has 1.6 MB - 3 * 512 KiB; it leaves the device before the one before it has reached the other.
  EXPECT_NEAR(runtime[5], 0.8e-3 + (524288 - 27136) / 4e9, 1e-9);
  EXPECT_NEAR(runtime[9], 0.1e-3, 1e-9);
}

/// Seconds of each iteration of a solve on `ranks` ranks with `count` devices each.
template <Memory M>
std::vector<double> iterations(int ranks, int count, DevicePath path, krylov::Method method, DeviceOverlap overlap,
                               const DeviceModel& model, const comm::MachineModel& machine) {
  constexpr Local n = 128;
  std::vector<double> seconds;
  comm::simulate(
      ranks, machine,
      [&](const Communicator& comm) {
        std::vector<int> ids(static_cast<std::size_t>(count));
        std::iota(ids.begin(), ids.end(), comm.rank() * count);
        Timed<M> timed(model, ids);
        const auto A = matrix<double>(comm, n, 1e-6);
        const op::HMatrixOnDevices<double, M> B(A, timed.devices, {path, op::BlockDeal::rows});
        B.group().overlap = overlap;
        const auto b = on_group<M>(B.range(), numbers_of<double>(n));
        OnGroup<double, M> x(B.domain());
        krylov::Options o;
        o.method = method, o.rtol = 1e-14, o.explain = false, o.fallbacks = false;
        if (method == krylov::Method::pipelined_bicgstab) o.replacement = 0;
        o.max_iterations = 6;
        double before = 0;
        o.callback_stops = false;
        o.callback = [&](const krylov::State& s) {
          const double now = comm::read_clocks(comm).finish;
          if (comm.rank() == 0 && s.iteration > 1) seconds.push_back(now - before);
          before = now;
          return false;
        };
        timed.restart(comm, model);
        (void)krylov::solve<double, Group<M>>(B, nullptr, b, x, o);
      },
      1024 * 1024);
  cuda_on_host::set_rates(std::nullopt);
  return seconds;
}

TEST_F(Clocks, OfSolvesAgree) {
  comm::MachineModel machine;
  machine.bandwidth = 1e9, machine.latency = 20e-6, machine.overhead = 5e-6, machine.gap = 10e-9;
  DeviceModel model = model_of(machine);
  model.bandwidth = 50e6, model.to_device = 40e6, model.to_host = 20e6, model.product = 50e6, model.peer = 160e6;
  for (const auto& [ranks, count] : {std::pair(1, 1), std::pair(1, 3), std::pair(4, 1), std::pair(2, 2)})
    for (const auto path : {DevicePath::host, DevicePath::copy, DevicePath::peer})
      for (const auto method : {krylov::Method::bicgstab, krylov::Method::pipelined_bicgstab})
        for (const auto overlap : {DeviceOverlap::copy, DeviceOverlap::gather}) {
          if (count == 1 && path != DevicePath::peer) continue;
          if (method == krylov::Method::bicgstab && overlap == DeviceOverlap::copy) continue;
          model.link = ranks == 4 ? 1 : 2;  // a rank's clocks know of its own devices only
          const auto runtime = iterations<Device>(ranks, count, path, method, overlap, model, machine),
                     virtual_devices = iterations<Host>(ranks, count, path, method, overlap, model, machine);
          ASSERT_EQ(runtime.size(), 5);
          ASSERT_EQ(virtual_devices.size(), 5);
          for (std::size_t i = 0; i < runtime.size(); ++i) {
            EXPECT_GT(runtime[i], 0);
            EXPECT_NEAR(virtual_devices[i], runtime[i], 1e-6 * runtime[i])
                << ranks << " ranks, " << count << " devices, path " << int(path) << ", method " << int(method)
                << ", overlap " << int(overlap);
          }
        }
}

// What pipe1 and pipe2 hide, in closed form. Products cost their launches only, two since no block has a low rank, so
// that all ranks are alike: k a launch, v the traffic of a vector, up and down its copies to and from the host (of the
// own rows up / 4), g a gather. Of the iterations the shortest, in which the best iterate is not copied.
TEST_F(Clocks, OfPipelinedIterationsHideCopiesAndGathers) {
  constexpr Local n = 128;
  constexpr int ranks = 4;
  comm::MachineModel machine;
  machine.bandwidth = 1e9, machine.gap = 20e-9;
  DeviceModel model;
  model.kernel = 3e-6, model.bandwidth = 80e6, model.to_host = 10e6, model.to_device = 30e6, model.host = 1e9;
  const double k = model.kernel, bytes = n * sizeof(double), v = bytes / model.bandwidth,
               up = bytes / ranks / model.to_host, down = bytes / model.to_device;
  double gather = 0;
  comm::simulate(ranks, machine, [&](const Communicator& comm) {
    const auto A = matrix<double>(comm, n, 1e-6);
    std::vector<double> own(std::size_t(A->rows().count())), all(n);
    comm::restart_clocks(comm);
    A->rows().finish_put(1, A->rows().start_put(own.data(), 1, all.data()), all.data());
    gather = comm::read_clocks(comm).finish;
  });
  EXPECT_GT(gather, 0);
  const auto of = [&](DeviceOverlap overlap) {
    const auto seconds =
        iterations<Device>(ranks, 1, DevicePath::peer, krylov::Method::pipelined_bicgstab, overlap, model, machine);
    return *std::min_element(seconds.begin(), seconds.end());
  };
  // Before the products: sweeps of 4 and 5 vectors. Beside the copies: sweeps of 8 and 10 with the kernel that adds
  // sums.
  const double before = 2 * k + 9 * v + 4 * k, half = 2 * k + 8 * v, whole = 2 * k + 10 * v;
  const double pipe1 = before + std::max(half, up) + std::max(whole, up) + 2 * gather + 2 * down,
               pipe2 = before + std::max(half, up + gather) + std::max(whole, up + gather) + 2 * down,
               nothing = before + half + whole + 2 * (up + gather + down);
  std::printf("MODELLED: gather %.1f us, an iteration %.1f us, pipe1 %.1f (by formula %.1f), pipe2 %.1f (%.1f)\n",
              1e6 * gather, 1e6 * nothing, 1e6 * of(DeviceOverlap::copy), 1e6 * pipe1, 1e6 * of(DeviceOverlap::gather),
              1e6 * pipe2);
  EXPECT_LT(pipe1, nothing - 1.9 * std::min(half, up));
  EXPECT_LT(pipe2, pipe1);
  EXPECT_NEAR(of(DeviceOverlap::copy), pipe1, 5e-3 * pipe1);  // ranks have some rows more or less
  EXPECT_NEAR(of(DeviceOverlap::gather), pipe2, 1e-3 * pipe2);
}

}  // namespace
}  // namespace tacit::test
