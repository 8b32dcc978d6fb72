// Vectors, reductions and a solve in device memory, by kernels that the host runs.
#include <tacit/comm/communicator.hpp>
#include <tacit/exec/basis.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/csr.hpp>

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <cmath>
#include <numeric>

namespace {
using namespace tacit;
using exec::Array;

template <class T>
struct Axpy {
  T a;
  TACIT_HD exec::Sums<1, T> operator()(T x, T& y) const {
    y += a * x;
    return {{x * y}};
  }
};

template <class T>
std::vector<T> numbers(std::size_t n, double step) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = T(std::sin(1 + step * double(i)));
  return v;
}

TEST(CudaOnHost, ArrayKeepsItsValues) {
  const auto v = numbers<double>(1000, 0.3);
  const auto on_device = Array<double, Device>::from(v);
  std::vector<double> back(v.size());
  exec::copy_to_host(back.data(), on_device.data(), v.size() * sizeof(double));
  EXPECT_EQ(back, v);
}

TEST(CudaOnHost, SweepUpdatesAndSums) {
  for (const std::size_t n : {1, 255, 5000}) {
    const auto x = numbers<double>(n, 0.3);
    auto y = numbers<double>(n, 0.7);
    const auto dx = Array<double, Device>::from(x);
    auto dy = Array<double, Device>::from(y);
    const auto sums =
        exec::sweep(exec::reads(dx.view()), exec::updates(dy.view()), exec::writes(), Axpy<double>{0.5}).wait();
    double expected = 0;
    for (std::size_t i = 0; i < n; ++i) y[i] += 0.5 * x[i], expected += x[i] * y[i];
    std::vector<double> back(n);
    exec::copy_to_host(back.data(), dy.data(), n * sizeof(double));
    EXPECT_EQ(back, y);
    EXPECT_NEAR(sums[0], expected, 1e-12 * double(n));
  }
}

TEST(CudaOnHost, BasisDotsAreInnerProducts) {
  const std::size_t n = 3000;
  const int columns = 9;
  std::vector<std::vector<double>> q;
  std::vector<Array<double, Device>> on_device;
  std::vector<const double*> pointers;
  for (int c = 0; c < columns; ++c) {
    q.push_back(numbers<double>(n, 0.1 * (c + 1)));
    on_device.push_back(Array<double, Device>::from(q.back()));
    pointers.push_back(on_device.back().data());
  }
  const auto v = numbers<double>(n, 2.1);
  const auto dv = Array<double, Device>::from(v);
  std::vector<double> sums(columns + 1);
  exec::basis_dots<double, Device>(pointers.data(), columns, dv.data(), n, sums.data(), true);
  for (int c = 0; c <= columns; ++c) {
    const auto& other = c < columns ? q[std::size_t(c)] : v;
    EXPECT_NEAR(sums[std::size_t(c)], std::inner_product(other.begin(), other.end(), v.begin(), 0.0), 1e-10);
  }
}

TEST(CudaOnHost, SolvesOnTheDevice) {
  const auto comm = comm::Communicator::self();
  const int m = 24;
  const Global n = m * m;
  const auto space = layout::Space::distributed(comm, n);
  op::Rows<double> rows;
  rows.start = {0};
  for (int i = 0; i < n; ++i) {
    const auto put = [&](int j, double v) { rows.column.push_back(j), rows.value.push_back(v); };
    if (i >= m) put(i - m, -1);
    if (i % m > 0) put(i - 1, -1);
    put(i, 4);
    if (i % m < m - 1) put(i + 1, -1);
    if (i + m < n) put(i + m, -1);
    rows.start.push_back(Global(rows.column.size()));
  }
  const op::Csr<double, Host> host(space, space, rows);
  const op::Csr<double, Device> device(space, space, host.rows());
  const auto b = numbers<double>(std::size_t(n), 0.37);
  using krylov::Method;
  for (const Method method : {Method::cg, Method::bicgstab, Method::gmres}) {
    krylov::Options options;
    options.rtol = 1e-8;
    options.method = method;
    const std::string name = to_string(method);
    layout::Vector<double, Host> hb(space), hx(space);
    layout::Vector<double, Device> db(space), dx(space);
    hb.assign({b.data(), b.size()});
    db.assign({b.data(), b.size()});
    const auto on_host = krylov::solve<double, Host>(host, nullptr, hb, hx, options);
    const auto on_device = krylov::solve<double, Device>(device, nullptr, db, dx, options);
    EXPECT_EQ(on_device.reason, krylov::Reason::converged) << name;
    EXPECT_NEAR(double(on_device.iterations), double(on_host.iterations), 2 + 0.05 * double(on_host.iterations))
        << name;
    const auto x = dx.to_host();
    double residual = 0, size = 0;
    for (std::size_t i = 0; i < std::size_t(n); ++i) {
      double r = b[i];
      for (auto k = rows.start[i]; k < rows.start[i + 1]; ++k)
        r -= rows.value[std::size_t(k)] * x[std::size_t(rows.column[std::size_t(k)])];
      residual += r * r, size += b[i] * b[i];
    }
    EXPECT_LE(std::sqrt(residual / size), 1.01e-8) << name;
  }
}

}  // namespace
