// Problems for multigrid on a device, and cycles and solves in its memory for right-hand sides of the host.
#pragma once

#include <tacit/precond/multigrid/on_device.hpp>

#include "../support/communicators.hpp"
#include "../support/memory.hpp"

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace tacit::test {

using comm::Communicator;
using layout::Vector;
using op::Boundary;
using op::Boxes;
using op::Domain;
using op::FiniteVolume;
using precond::Cycle;
using precond::Interpolation;
using precond::Multigrid;
using precond::MultigridOnDevice;
using precond::MultigridOptions;
using precond::ResidentBottom;
using precond::Smoother;

inline constexpr auto periodic = Boundary::periodic, dirichlet = Boundary::dirichlet, neumann = Boundary::neumann;

struct Case {
  std::vector<Global> cells;
  std::vector<std::array<Boundary, 2>> boundary;
  double a = 1;
  bool constant = false;
  std::array<Global, 3> edge{0, 0, 0};
  bool whole = true;
  MultigridOptions options{};
};

template <class T>
std::shared_ptr<const FiniteVolume<T>> operator_of(const Case& c, const Communicator& comm = Communicator::self()) {
  const auto domain = Domain::uniform(c.cells, c.boundary);
  const Boxes boxes = c.whole ? Boxes::whole(comm, domain, c.edge)
                              : Boxes::within(comm, domain, c.edge, [](double x, double y, double) {
                                  return x < 0.55 || y < 0.4;  // an L shape
                                });
  const op::Field beta = [](double x, double y, double z) { return 1.5 + std::sin(9 * x + 4 * y + 3 * z); };
  return std::make_shared<const FiniteVolume<T>>(
      boxes, op::coefficients<T>(boxes, c.a, 1, {}, c.constant ? op::Field{} : beta));
}
template <class T>
Vector<T> right_side(const FiniteVolume<T>& A) {
  Vector<T> f(A.range());
  f.assign(A.sampled([](double x, double y, double z) { return std::cos(11 * x) + y * z - 0.3; }));
  return f;
}
/// The result of a cycle in the memory of the device.
template <class T>
void cycle(const MultigridOnDevice<T, TestMemory>& multigrid, const Vector<T>& f, Vector<T>& u) {
  Vector<T, TestMemory> there(u.space(), u.columns());
  multigrid.apply(vector_from<T, TestMemory>(f.space(), f.to_host(), f.columns()), there);
  u.assign(there.to_host());
}
template <class T>
precond::MultigridReport solve(const MultigridOnDevice<T, TestMemory>& multigrid, const Vector<T>& f, Vector<T>& u,
                               const precond::MultigridSolve& options = {}) {
  const auto b = vector_from<T, TestMemory>(f.space(), f.to_host());
  auto x = vector_from<T, TestMemory>(u.space(), u.to_host());
  const auto report = multigrid.solve(b, x, options);
  u.assign(x.to_host());
  return report;
}
template <class T>
double residual(const FiniteVolume<T>& A, const Vector<T>& f, const Vector<T>& u) {
  Vector<T> r(A.range());
  A.apply(u, r);
  layout::subtract(f, r, r);
  return layout::max_norm(r);
}
template <class T>
double difference(const Vector<T>& a, const Vector<T>& b) {
  auto d = a;
  layout::axpy(T(-1), b, d);
  return layout::max_norm(d) / layout::max_norm(b);
}

inline std::vector<Case> cases() {
  std::vector<Case> all{
      {{16, 12, 10}, {{dirichlet, neumann}, {periodic, periodic}, {dirichlet, dirichlet}}},
      {{16, 12, 10}, {{periodic, periodic}, {neumann, neumann}, {dirichlet, neumann}}, 1, true},
      {{13, 9, 7}, {{periodic, periodic}, {dirichlet, dirichlet}, {periodic, periodic}}},
      {{13, 9, 7}, {{periodic, periodic}, {periodic, periodic}, {neumann, neumann}}, 1, true},
      {{40, 33}, {{dirichlet, dirichlet}, {periodic, periodic}}},
      {{40, 26}, {{dirichlet, neumann}, {periodic, periodic}}, 1, true},
      {{57}, {{neumann, dirichlet}}, 0},
      {{64}, {{periodic, periodic}}, 1, true},
      {{1, 6, 3}, {{neumann, neumann}, {dirichlet, neumann}, {periodic, periodic}}},
      {{16, 1, 5}, {{periodic, periodic}, {periodic, periodic}, {dirichlet, dirichlet}}, 1, true},
      {{20, 20, 8}, {{dirichlet, dirichlet}, {neumann, dirichlet}, {periodic, periodic}}, 0, false, {4, 4, 4}, false},
      {{24, 20}, {{periodic, periodic}, {neumann, dirichlet}}, 1, true, {3, 5, 1}, false},
  };
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    Case c = all[i];
    auto& o = c.options;
    o.pre = int(i % 3), o.post = 1 + int(i % 2), o.symmetric = i % 2 == 0;
    o.smoother = std::array{Smoother::gauss_seidel, Smoother::chebyshev, Smoother::jacobi, Smoother::l1_jacobi}[i % 4];
    o.interpolation = i % 3 == 0 ? Interpolation::constant : Interpolation::linear;
    o.cycle = std::array{Cycle::v, Cycle::w, Cycle::u}[i % 3];
    all.push_back(c);
    o.cycle = Cycle::f;
    all.push_back(c);
  }
  return all;
}

inline std::string text(const Case& c) {
  std::string s = message(to_string(c.options.smoother), " ", to_string(c.options.cycle), " pre ", c.options.pre);
  for (const Global n : c.cells) s += message(" ", n);
  return s;
}

}  // namespace tacit::test
