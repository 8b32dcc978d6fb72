// Problems of the tests of algebraic multigrid, and solves with it.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg.hpp>

#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstddef>
#include <vector>

namespace tacit::test {

constexpr precond::AmgSmoother all_smoothers[] = {precond::AmgSmoother::spai0, precond::AmgSmoother::jacobi,
                                                  precond::AmgSmoother::l1_jacobi, precond::AmgSmoother::gauss_seidel,
                                                  precond::AmgSmoother::chebyshev};

/// -Laplace by 5 or 7 points with Dirichlet boundaries; with Neumann boundaries, where every row sums to 0.
inline Whole<double> laplacian(Global nx, Global ny, Global nz, bool neumann = false) {
  Whole<double> a;
  a.n = nx * ny * nz;
  const double degree = nz > 1 ? 6 : 4;
  for (Global z = 0; z < nz; ++z)
    for (Global y = 0; y < ny; ++y)
      for (Global x = 0; x < nx; ++x) {
        const Global i = x + nx * (y + ny * z);
        const bool there[] = {z > 0, y > 0, x > 0, x + 1 < nx, y + 1 < ny, z + 1 < nz};
        const Global step[] = {-nx * ny, -nx, -1, 1, nx, nx * ny};
        double neighbours = 0;
        for (const bool b : there) neighbours += b;
        for (int d = 0; d < 6; ++d) {
          if (d == 3) a.push(i, neumann ? neighbours : degree);
          if (there[d]) a.push(i + step[d], -1);
        }
        a.end_row();
      }
  return a;
}

// Two unknowns a node, coupled within the node: those of plane strain on bilinear squares would be like this.
template <class T>
Whole<T> blocks_of(const Whole<T>& a, double coupling) {
  Whole<T> b;
  b.n = 2 * a.n;
  for (Global i = 0; i < b.n; ++i) {
    for (Global k = a.start[std::size_t(i / 2)]; k < a.start[std::size_t(i / 2) + 1]; ++k) {
      const Global j = a.column[std::size_t(k)];
      const T v = a.value[std::size_t(k)];
      for (int d = 0; d < 2; ++d) b.push(2 * j + d, d == i % 2 ? v : T(real_t<T>(coupling)) * v);
    }
    b.end_row();
  }
  return b;
}

template <class T>
struct SolvedByAmg {
  int iterations = 0;
  double residual = 1;
};
template <class T>
SolvedByAmg<T> solve(const Whole<T>& a, const layout::Space& space, const precond::AmgOptions<T>& options,
                     krylov::Method method = krylov::Method::cg) {
  const auto A = a.on(space);
  const precond::Amg<T> M(*A, options);
  const auto b = random_vector<T>(a.n, 3);
  layout::Vector<T> x(space);
  krylov::Options o;
  o.method = method;
  o.rtol = 1e-8;
  const auto report = krylov::solve<T, Host>(*A, &M, spread(space, b), x, o, method == krylov::Method::cg);
  EXPECT_TRUE(report.converged()) << report.detail;
  return {report.iterations, double(residual_of(a, b, whole(x)))};
}

inline layout::Space uneven(const comm::Communicator& comm, Global n) {
  std::vector<Global> offsets{0};
  for (int r = 1; r <= comm.size(); ++r)
    offsets.push_back(r == comm.size() ? n : n * r * r / (comm.size() * comm.size()));
  return layout::Space::distributed(comm, layout::Partition(offsets));
}
/// Every second rank has no rows.
inline layout::Space gaps(const comm::Communicator& comm, Global n) {
  std::vector<Global> offsets{0};
  for (int r = 1; r <= comm.size(); ++r) offsets.push_back(r == comm.size() ? n : n * (r - r % 2) / comm.size());
  return layout::Space::distributed(comm, layout::Partition(offsets));
}

}  // namespace tacit::test
