// Vectors on a group of virtual devices compared with vectors in host memory.
#include <gtest/gtest.h>
#include <tacit/base/error.hpp>
#include <tacit/exec/group.hpp>
#include <tacit/layout/vector.hpp>
#include "krylov/workspace.hpp"

#include <cmath>
#include <numeric>

using namespace tacit;
using comm::Communicator;
using exec::DeviceGroup;
using exec::DevicePath;
using exec::VectorWork;
using layout::Space;
using layout::Vector;
using OnGroup = Vector<double, Group<Host>>;

namespace {

std::shared_ptr<DeviceGroup<Host>> group(int count, VectorWork work = VectorWork::redundant,
                                         DevicePath path = DevicePath::peer) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  auto made = std::make_shared<DeviceGroup<Host>>(std::make_shared<exec::Devices<Host>>(ids), path);
  made->work = work;
  return made;
}

std::vector<double> numbers(std::size_t n, double from) {
  std::vector<double> x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(std::sin(from + double(i) * double(i)));
  return x;
}

// Like an iteration's update: d is not an operand of a product and may stay in parts, r is one.
template <class T>
struct Step {
  T alpha;
  TACIT_HD exec::Sums<2, T> operator()(T p, T t, T& d, T& r, T& copy) const {
    d = d + alpha * p;
    r = r - alpha * t;
    copy = r;
    return {{r * d, r * r}};
  }
};

template <class F>
void on_groups(const F& f) {
  for (const auto work : {VectorWork::redundant, VectorWork::shared})
    for (const int count : {1, 2, 3, 5})
      for (const Global n : {1, 40, 200, 5000})
        for (const auto path : {DevicePath::host, DevicePath::copy, DevicePath::peer}) {
          SCOPED_TRACE(message(count, " devices, ", n, " elements, ",
                               work == VectorWork::shared ? "shared, path " : "redundant, path ", int(path)));
          const auto devices = group(count, work, path);
          f(Space::replicated(Communicator::self(), n), devices);
        }
}

/// The copies of all devices.
std::vector<std::vector<double>> copies(OnGroup& x) {
  std::vector<std::vector<double>> all;
  x.own().complete();
  for (const auto& copy : x.own().copies()) all.emplace_back(copy.data(), copy.data() + copy.size());
  return all;
}

TEST(GroupVector, EqualsAHostVector) {
  on_groups([](const Space& space, const auto& devices) {
    Vector<double> x(space), y(space), z(space);
    OnGroup gx(space.on(devices)), gy(gx.space()), gz(gx.space());
    const std::size_t n = x.size();
    x.assign(numbers(n, 1)), y.assign(numbers(n, 2));
    gx.assign(numbers(n, 1)), gy.assign(numbers(n, 2));
    EXPECT_EQ(gz.to_host(), z.to_host());  // zeros
    const auto both = [&](const auto& f) { f(x, y, z), f(gx, gy, gz); };
    both([](auto& a, auto& b, auto& c) {
      layout::axpy(0.3, a, b);
      layout::scale(-1.5, a);
      layout::subtract(a, b, c);
    });
    const double epsilon = 1e-13 * double(n);
    EXPECT_NEAR(layout::dot(gx, gy), layout::dot(x, y), epsilon);
    EXPECT_NEAR(layout::norm(gz), layout::norm(z), epsilon);
    EXPECT_EQ(layout::max_norm(gz), layout::max_norm(z));
    OnGroup copy = gx;
    layout::fill(gx, 2.5), layout::copy(gz, gy);
    for (const auto& of_device : copies(copy)) EXPECT_EQ(of_device, x.to_host());
    for (const auto& of_device : copies(gx)) EXPECT_EQ(of_device, std::vector<double>(n, 2.5));
    for (const auto& of_device : copies(gy)) EXPECT_EQ(of_device, z.to_host());
    krylov::scatter(x, 7), krylov::scatter(gx, 7);
    EXPECT_EQ(gx.to_host(), x.to_host());
  });
}

TEST(GroupVector, HoldsPartsWherePossible) {
  on_groups([](const Space& space, const auto& devices) {
    Vector<double> p(space), t(space), d(space), r(space), c(space), s(space);
    OnGroup gp(space.on(devices)), gt(gp.space()), gd(gp.space()), gr(gp.space()), gc(gp.space()), gs(gp.space());
    const std::size_t n = p.size();
    const int count = devices->size();
    const bool shared = devices->work == VectorWork::shared;
    p.assign(numbers(n, 1)), t.assign(numbers(n, 2)), r.assign(numbers(n, 3)), s.assign(numbers(n, 4));
    gp.assign(p.to_host()), gt.assign(t.to_host()), gr.assign(r.to_host()), gs.assign(s.to_host());
    using namespace exec;
    const auto between = [&] {
      const auto& traffic = devices->devices().traffic();
      return traffic.between + traffic.to_devices;
    };
    const auto before = devices->devices().traffic();
    for (const double alpha : {0.5, -0.25}) {
      const auto expected = sweep(reads(p, t), updates(d, r), writes(c), Step<double>{alpha});
      const auto sums =
          gp.space().sum(sweep(reads(gp, gt), updates(parts(gd), gr), writes(gc), Step<double>{alpha})).wait();
      for (int k = 0; k < 2; ++k) EXPECT_NEAR(sums[k], expected[k], 1e-13 * double(n));
    }
    const auto after = devices->devices().traffic();
    EXPECT_EQ(after.reads - before.reads, 2 * (shared ? count : 1));
    EXPECT_EQ(after.scalars - before.scalars, 4 * (shared ? count : 1));
    EXPECT_TRUE(gr.own().whole() && gc.own().whole());
    EXPECT_EQ(gd.own().whole(), !shared);
    // Vectors computed from parts are in parts; to_host() collects them all.
    layout::axpy(2.0, d, s), layout::axpy(2.0, gd, gs);
    EXPECT_EQ(gs.own().whole(), !shared);
    EXPECT_NEAR(layout::norm(gs), layout::norm(s), 1e-13 * double(n));
    EXPECT_EQ(gs.to_host(), s.to_host());
    const OnGroup copy = gs;
    EXPECT_EQ(copy.to_host(), s.to_host());
    EXPECT_EQ(between(), before.between + before.to_devices);
    // On request the devices exchange their parts, once.
    for (const auto& of_device : copies(gd)) EXPECT_EQ(of_device, d.to_host());
    EXPECT_EQ(between() - before.between - before.to_devices, shared ? count * (count - 1) : 0);
    for (const auto& of_device : copies(gr)) EXPECT_EQ(of_device, r.to_host());
    for (const auto& of_device : copies(gc)) EXPECT_EQ(of_device, c.to_host());
    copies(gd);
    EXPECT_EQ(between() - before.between - before.to_devices, shared ? count * (count - 1) : 0);
    // Whole vectors computed from parts, also together with sums, and after a change to redundant work.
    (void)sweep(reads(p, s), updates(d, r), writes(c), Step<double>{1.0});
    (void)gp.space().sum(sweep(reads(gp, gs), updates(parts(gd), gr), writes(gc), Step<double>{1.0})).wait();
    for (const auto& of_device : copies(gr)) EXPECT_EQ(of_device, r.to_host());
    devices->work = VectorWork::redundant;
    layout::axpy(1.0, d, s), layout::axpy(1.0, gd, gs);
    for (const auto& of_device : copies(gs)) EXPECT_EQ(of_device, s.to_host());
  });
}

TEST(GroupVector, RefusesWhatItCannotDo) {
  const auto space = Space::replicated(Communicator::self(), 10);
  EXPECT_THROW(OnGroup{space}, Error);
  EXPECT_THROW((DeviceGroup<Host>(nullptr, DevicePath::peer)), Error);
  OnGroup x(space.on(group(2))), y(space.on(group(2)));
  EXPECT_FALSE(x.space() == y.space());
  EXPECT_THROW(layout::copy(x, y), Error);
  EXPECT_THROW(x.assign(std::vector<double>(9)), Error);
  if (const char* mpi = std::getenv("TACIT_TEST_MPI"); mpi) return;
  comm::run_threads(2, [](const Communicator& comm) {
    const OnGroup z(Space::distributed(comm, 10).on(group(2)));
    EXPECT_THROW(layout::norm(z), Error);
  });
}

}  // namespace
