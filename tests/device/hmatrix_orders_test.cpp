// H-matrices on groups of devices, whatever the order in which streams work; planted faults that some order shows; and
// what a product asks of the runtime.
#include "device/orders.hpp"
#include "krylov/on_devices.hpp"
#include "support/methods.hpp"

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using cuda_on_host::Wait;
using exec::DevicePath;
using exec::VectorWork;

constexpr struct {
  DevicePath path;
  const char* name;
} paths[] = {{DevicePath::host, "host"}, {DevicePath::copy, "copy"}, {DevicePath::peer, "peer"}};

constexpr Local few = 20, some = 400;  // unknowns: a single block, and some of low rank

class HMatrixOrders : public testing::Test {
 protected:
  void SetUp() override { cuda_on_host::set_devices(3); }
  void TearDown() override {
    cuda_on_host::leave_out(std::nullopt);
    cuda_on_host::set_seed(0);
    cuda_on_host::set_devices(4);
  }
};

/// A x, A A x, A A A x on every device, where the host waits for nothing but what the products wait for. Waits of the
/// kind `missing` are left out of the products.
std::vector<double> products(const op::HMatrixOnDevices<double, Device>& A, std::optional<Wait> missing = {}) {
  std::deque<OnGroup<double, Device>> x;
  for (int k = 0; k < 4; ++k) x.emplace_back(A.domain());
  x[0].assign(numbers_of<double>(Local(A.domain().size())));
  cuda_on_host::leave_out(missing);
  for (std::size_t k = 0; k < 3; ++k) A.apply(x[k], x[k + 1]);
  cuda_on_host::leave_out(std::nullopt);
  std::vector<double> all;
  for (std::size_t k = 1; k < x.size(); ++k)
    for (int d = 0; d < A.group().size(); ++d) {
      const auto some = elements_of(A.group().devices(), x[k].own().on(d));
      all.insert(all.end(), some.begin(), some.end());
    }
  return all;
}

TEST_F(HMatrixOrders, DoNotChangeProducts) {
  const auto same = [](Local n, int count, DevicePath path, op::BlockDeal deal) {
    const auto A = matrix<double>(comm::Communicator::self(), n, 1e-2);
    const op::HMatrixOnDevices<double, Device> B(A, devices_of<Device>(count), {path, deal});
    if (n == few) {
      EXPECT_EQ(B.rows()[2].first, B.rows()[2].second);  // a device without rows
    } else {
      EXPECT_GT(A->report().low_rank_blocks, 0);
    }
    EXPECT_EQ(orders_that_differ([&] { return products(B); }), 0)
        << n << " unknowns, " << count << " devices, path " << int(path);
  };
  same(some, 1, DevicePath::peer, op::BlockDeal::rows);
  for (const auto& [path, name] : paths) {
    same(few, 3, path, op::BlockDeal::rows);
    same(some, 3, path, op::BlockDeal::round_robin);
  }
}

TEST_F(HMatrixOrders, DoNotChangeSolves) {
  const auto A = matrix<double>(comm::Communicator::self(), 60, 1e-6);
  const auto b = numbers_of<double>(60);
  const auto same = [&](int count, DevicePath path, VectorWork work) {
    const op::HMatrixOnDevices<double, Device> B(A, devices_of<Device>(count), {path, op::BlockDeal::rows});
    B.group().work = work;
    auto o = with(krylov::Method::pipelined_bicgstab, 1e-8);
    o.max_iterations = 2, o.explain = false;
    const auto solve = [&] {
      const auto rhs = on_group<Device>(B.range(), b);
      OnGroup<double, Device> x(B.domain());
      krylov::solve<double, Group<Device>>(B, nullptr, rhs, x, o);
      return x.to_host();
    };
    EXPECT_EQ(orders_that_differ(solve), 0) << count << " devices, path " << int(path);
  };
  same(1, DevicePath::peer, VectorWork::redundant);
  same(3, DevicePath::peer, VectorWork::redundant);
  for (const auto& [path, name] : paths) same(3, path, VectorWork::shared);
}

// With a kind of wait left out some order gives another result, so the tests above can fail.
TEST_F(HMatrixOrders, ShowAMissingWait) {
  const auto A = matrix<double>(comm::Communicator::self(), some, 1e-2);
  const auto small = matrix<double>(comm::Communicator::self(), few, 1e-2);
  const auto some_order_differs = [&](const auto& matrix, DevicePath path, Wait kind) {
    const op::HMatrixOnDevices<double, Device> B(matrix, devices_of<Device>(3), {path, op::BlockDeal::round_robin});
    const auto expected = products(B);
    bool differs = false;
    for (int seed = 0; seed <= seeds && !differs; ++seed) {
      cuda_on_host::set_seed(std::uint64_t(seed));
      differs = products(B, kind) != expected;
    }
    cuda_on_host::set_seed(0);
    return differs;
  };
  for (const auto& [path, name] : paths) {
    EXPECT_TRUE(some_order_differs(A, path, Wait::of_stream)) << name;
    EXPECT_TRUE(some_order_differs(A, path, Wait::of_host_for_stream)) << name;
  }
  // A device without rows copies y from the host while the next product writes it there.
  EXPECT_TRUE(some_order_differs(small, DevicePath::host, Wait::of_host_for_event));
}

// The copies of a product, by the counts of the runtime, as HMatrixOnDevices states them.
TEST_F(HMatrixOrders, ProductsMakeTheCopiesStated) {
  constexpr Local n = some;
  const auto A = matrix<double>(comm::Communicator::self(), n, 1e-2);
  for (const int count : {1, 2, 3})
    for (const auto& [path, name] : paths) {
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(count) + " devices");
      const op::HMatrixOnDevices<double, Device> B(A, devices_of<Device>(count), {path, op::BlockDeal::rows});
      const auto x = on_group<Device>(B.domain(), numbers_of<double>(n));
      OnGroup<double, Device> y(B.range());
      B.apply(x, y);
      const auto before = cuda_on_host::counts();
      B.apply(x, y);
      const auto after = cuda_on_host::counts();
      std::int64_t d = 0, part_bytes = 0;
      for (std::size_t k = 1; k < B.rows().size(); ++k) {
        const auto [begin, end] = B.rows()[k];
        d += end > begin, part_bytes += std::int64_t(sizeof(double)) * (end - begin);
      }
      const std::int64_t D = count, whole = std::int64_t(sizeof(double)) * n;
      const bool host = path == DevicePath::host, copy = path == DevicePath::copy;
      EXPECT_EQ(after.copies_to_host - before.copies_to_host, 1 + (host ? d : copy ? d + D - 1 : 0));
      EXPECT_EQ(after.bytes_to_host - before.bytes_to_host, whole + (host   ? part_bytes
                                                                     : copy ? part_bytes + (D - 1) * whole
                                                                            : 0));
      EXPECT_EQ(after.copies_to_device - before.copies_to_device, host ? d + D : copy ? 1 + d + D - 1 : 1);
      EXPECT_EQ(after.bytes_to_device - before.bytes_to_device, host || copy ? part_bytes + D * whole : whole);
      EXPECT_EQ(after.copies_between_devices - before.copies_between_devices, path == DevicePath::peer ? D - 1 : 0);
      EXPECT_EQ(after.bytes_between_devices - before.bytes_between_devices,
                path == DevicePath::peer ? (D - 1) * whole : 0);
      EXPECT_EQ(after.copies_on_device - before.copies_on_device, 0);
      EXPECT_EQ(after.launches - before.launches, 3 * D + d);
      // For the own rows, for the last product's copies of y from the host, and by `host` for each part.
      EXPECT_EQ(after.waits - before.waits, 1 + (host ? D + d : 1));
      EXPECT_EQ(after.allocations - before.allocations, 0);
      EXPECT_EQ(after.host_allocations - before.host_allocations, 0);
    }
}

TEST_F(HMatrixOrders, LongCopiesGoInPieces) {
  constexpr std::size_t pieces = 5, n = (pieces - 1) * exec::detail::piece_bytes / sizeof(double) + 10;
  exec::Devices<Device> devices({0, 1, 2});
  std::vector<exec::DeviceArray<double, Device>> x;
  for (int d = 0; d < 3; ++d) x.push_back(devices.array<double>(d, n));
  std::vector<double> values(n);
  const auto moved = [&] {
    for (std::size_t i = 0; i < n; ++i) values[i] += double(i);
    devices.to_device(values.data(), x[0]);
    devices.wait(0);
    const auto before = cuda_on_host::counts();
    devices.between(x[0], 0, n, x[1], DevicePath::copy);
    devices.between(x[1], 0, n, x[2], DevicePath::copy);
    devices.between(x[2], 0, n - 7, x[0], DevicePath::copy, 7);
    const auto after = cuda_on_host::counts();
    EXPECT_EQ(after.copies_to_host - before.copies_to_host, 3 * pieces);
    EXPECT_EQ(after.copies_to_device - before.copies_to_device, 3 * pieces);
    EXPECT_EQ(after.waits, before.waits);
    auto expected = values;
    std::copy(values.begin(), values.end() - 7, expected.begin() + 7);
    return elements_of(devices, x[0]) == expected && elements_of(devices, x[2]) == values;
  };
  for (int seed = 0; seed <= 10; ++seed) {
    cuda_on_host::set_seed(std::uint64_t(seed));
    EXPECT_TRUE(moved()) << seed;
  }
}

}  // namespace
}  // namespace tacit::test
