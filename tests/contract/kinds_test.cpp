// Properties of all kinds of iterations: Krylov methods, cycles of multigrid on the host and on a device, solves on a
// group of devices, CGLS and SIRT. Solved in the test's memory, checked with products on the host.
#include "op/hmatrix_cases.hpp"
#include "support/communicators.hpp"
#include "support/devices.hpp"
#include "support/memory.hpp"
#include "support/methods.hpp"

#include <tacit/app/tomography/reconstruct.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>
#include <tacit/precond/multigrid/on_device.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using M = TestMemory;

/// A x = b and the initial guess x.
struct System {
  std::shared_ptr<const op::Operator<double, Host>> A;
  layout::Vector<double> b, x;
  std::shared_ptr<const op::Operator<double, M>> in_memory = {};  ///< the same A, of stored matrices
};

/// The end of a solve by some kind of iteration; residuals are relative to ||b||_2.
struct Ended {
  bool converged;
  std::string how;
  bool out_of_iterations;
  double residual_norm;
  std::int64_t iterations;
  std::size_t history;  ///< length of the history, with an entry before the first iteration
};

struct Kind {
  std::string name;
  double attainable;  ///< relative residual reached in 200 iterations on a well-conditioned system
  bool on_one_rank;
  bool by_energy;  ///< definite matrices: the residual may rise while x^H A x / 2 - b^H x falls
  /// `hard`: a system on which residuals grow, at times or in the end.
  std::function<System(const comm::Communicator&, bool hard)> system;
  /// Solves from s.x and leaves the solution there.
  std::function<Ended(System& s, double rtol, int most)> solve;
};

System system_of(std::shared_ptr<const op::Operator<double, Host>> A) {
  layout::Vector<double> b(A->range()), x(A->domain());
  const auto n = A->range().size();
  if (A->range().is_replicated()) b.assign(random_vector<double>(n, 5)), x.assign(random_vector<double>(n, 6));
  else b = spread(A->range(), random_vector<double>(n, 5)), x = spread(A->domain(), random_vector<double>(n, 6));
  layout::scale(1e-2, x);
  return {std::move(A), std::move(b), std::move(x)};
}

/// Definite with eigenvalues in (2, 10); `hard`: indefinite and not normal.
Whole<double> whole_of(bool hard) {
  if (!hard) return shifted_grid<double>(9, 8);
  return grid<double>(9, 8, 0.9).map([](Global r, Global c, double v) { return r == c ? v - 2.5 : v; });
}
System stored(const comm::Communicator& comm, bool hard) {
  System s = system_of(std::shared_ptr(whole_of(hard).on(comm)));
  s.in_memory = whole_of(hard).on<M>(s.A->range());
  return s;
}
/// Calls solve(b, x) with copies of s.b and s.x in memory `Where`, in these spaces; leaves the solution in s.x.
template <Memory Where, class Solve>
Ended in_memory(System& s, const layout::Space& range, const layout::Space& domain, const Solve& solve) {
  const auto b = vector_from<double, Where>(range, s.b.to_host());
  auto x = vector_from<double, Where>(domain, s.x.to_host());
  const Ended e = solve(b, x);
  s.x.assign(x.to_host());
  return e;
}

Ended ended(const krylov::Report& r) {
  return {r.converged(),
          message(to_string(r.reason), ": ", r.detail),
          r.reason == krylov::Reason::max_iterations,
          r.residual_norm,
          r.iterations,
          r.history.size()};
}

System cells(const comm::Communicator& comm, bool hard) {
  const Global n = sized(16, 16, 8);
  const auto boxes = op::Boxes::whole(comm, op::Domain::uniform({n, n, n}, op::Boundary::dirichlet));
  return system_of(std::make_shared<const op::FiniteVolume<double>>(
      boxes, op::coefficients<double>(boxes, hard ? -80.0 : 1.0, 1, {}, {})));
}
std::shared_ptr<const op::FiniteVolume<double>> cells_of(const System& s) {
  return std::dynamic_pointer_cast<const op::FiniteVolume<double>>(s.A);
}
Ended ended(const precond::MultigridReport& r) {
  return {r.converged(), to_string(r.reason), r.reason == krylov::Reason::max_iterations, r.residual_norm,
          r.cycles,      r.history.size()};
}
precond::MultigridSolve cycles(double rtol, int most) {
  precond::MultigridSolve o;
  o.rtol = rtol, o.max_cycles = most, o.norm = krylov::Norm::two;
  return o;
}

/// A dense matrix on one rank, as an H-matrix.
System hierarchical(const comm::Communicator& comm, bool hard) {
  const auto dense = whole_of(hard).dense();
  const auto n = Global(dense.size());
  Geometry line;
  for (Global i = 0; i < n; ++i) line.points.push_back({double(i), 0, 0});
  const EntryFunction<double> entry = [dense](auto rows, auto columns, double* out) {
    for (const Global j : columns)
      for (const Global i : rows) *out++ = dense[std::size_t(i)][std::size_t(j)];
  };
  HMatrixOptions o;
  o.tolerance = 1e-14;
  return system_of(
      std::make_shared<const HMatrix<double>>(layout::Space::replicated(comm, n), tree_of(line, leaves(16)), entry, o));
}
Ended on_group(System& s, krylov::Method method, exec::VectorWork work, double rtol, int most) {
  const auto A = std::dynamic_pointer_cast<const HMatrix<double>>(s.A);
  const HMatrixOnDevices<double, M> shared(A, devices_of<M>(2));
  shared.group().work = work;
  krylov::Options o = with(method, rtol);
  o.max_iterations = most;
  return in_memory<Group<M>>(s, shared.range(), shared.domain(), [&](const auto& b, auto& x) {
    return ended(krylov::solve<double, Group<M>>(shared, nullptr, b, x, o));
  });
}

Ended reconstruct(System& s, app::tomography::Method method, double rtol, int most) {
  using namespace app::tomography;
  ReconstructOptions o;
  o.method = method, o.iterations = most;
  const double size = layout::norm(s.b);
  o.discrepancy = rtol * size;
  const auto r = app::tomography::reconstruct<double>(*s.A, s.b, s.x, o);
  return {r.end[0] == End::discrepancy,
          std::string(to_string(r.end[0])),
          r.end[0] == End::iterations,
          r.final_residual[0] / size,
          r.iterations[0],
          r.residual.size()};
}

std::vector<Kind> kinds() {
  using krylov::Method;
  std::vector<Kind> all;
  for (const auto& m : all_methods()) {
    const bool slow = m.name == "richardson" || m.name == "chebyshev";
    all.push_back(
        {m.name, slow ? 1e-6 : 1e-10, false, m.positive, stored, [choose = m.choose](System& s, double rtol, int most) {
           krylov::Options o;
           choose(o);
           o.rtol = rtol, o.max_iterations = most;
           return in_memory<M>(s, s.A->range(), s.A->domain(), [&](const auto& b, auto& x) {
             return ended(krylov::solve<double, M>(*s.in_memory, nullptr, b, x, o));
           });
         }});
  }
  for (const auto cycle : {precond::Cycle::v, precond::Cycle::f}) {
    if (!on_host) break;
    all.push_back({message("multigrid, ", to_string(cycle)), 1e-10, false, false, cells,
                   [cycle](System& s, double rtol, int most) {
                     precond::MultigridOptions o;
                     o.cycle = cycle;
                     const precond::Multigrid<double> multigrid(cells_of(s), o, precond::direct_bottom<double>());
                     return ended(multigrid.solve(s.b, s.x, cycles(rtol, most)));
                   }});
  }
  all.push_back({"multigrid on a device", 1e-10, false, false, cells, [](System& s, double rtol, int most) {
                   const precond::MultigridOnDevice<double, M> multigrid(cells_of(s), {}, {20, 1e-3, 1000, 0});
                   return in_memory<M>(s, s.A->range(), s.A->domain(), [&](const auto& b, auto& x) {
                     return ended(multigrid.solve(b, x, cycles(rtol, most)));
                   });
                 }});
  for (const auto method : {Method::bicgstab, Method::pipelined_bicgstab})
    for (const auto work : {exec::VectorWork::redundant, exec::VectorWork::shared})
      all.push_back({message(to_string(method), " on a group of devices"), 1e-10, true, false, hierarchical,
                     [=](System& s, double rtol, int most) { return on_group(s, method, work, rtol, most); }});
  for (const auto method : {app::tomography::Method::cgls, app::tomography::Method::sirt}) {
    if (!on_host) break;
    const bool sirt = method == app::tomography::Method::sirt;
    all.push_back({sirt ? "sirt" : "cgls", sirt ? 1e-2 : 1e-10, false, false,
                   [](const comm::Communicator& comm, bool) {  // no negative entries, as sirt requires
                     return system_of(std::shared_ptr(
                         whole_of(false).map([](Global, Global, double v) { return std::abs(v); }).on(comm)));
                   },
                   [=](System& s, double rtol, int most) { return reconstruct(s, method, rtol, most); }});
  }
  return all;
}

double residual_of(const System& s) {
  layout::Vector<double> r(s.A->range());
  s.A->apply(s.x, r);
  layout::subtract(s.b, r, r);
  return layout::norm(r) / layout::norm(s.b);
}
/// x^H A x / 2 - b^H x, which falls with the A-norm of the error.
double energy_of(const System& s) {
  layout::Vector<double> y(s.A->range());
  s.A->apply(s.x, y);
  return layout::dot(s.x, y) / 2 - layout::dot(s.b, s.x);
}
/// A bound of the rounding error of recomputed residuals relative to ||b||, for products of entries up to 10.
double rounding(const System& s) {
  return 1e-13 * (1 + 10 * layout::norm(s.x) / layout::norm(s.b));
}

void on_every_kind(const std::function<void(const Kind&, const comm::Communicator&)>& f) {
  on_ranks(
      [&](const comm::Communicator& comm) {
        for (const Kind& kind : kinds())
          if (!kind.on_one_rank || comm.size() == 1) {
            SCOPED_TRACE(message(kind.name, " on ", comm.size(), " ranks"));
            f(kind, comm);
          }
      },
      ranks_of({2}));
}

TEST(Kinds, ReportTrueResiduals) {
  on_every_kind([](const Kind& kind, const comm::Communicator& comm) {
    for (const bool hard : {false, true})
      for (const double rtol : {0.5, 1e-2, 1e-5, 1e-10, 1e-13, 1e-17}) {
        if (!on_host && rtol != (hard ? 1e-17 : 1e-10)) continue;  // of the others in host memory
        if (is_repeated() && hard) continue;
        System s = kind.system(comm, hard);
        const int most = on_host ? 200 : 40;
        const Ended e = kind.solve(s, rtol, most);
        const double truth = residual_of(s);
        SCOPED_TRACE(message(hard ? "hard" : "easy", " to ", rtol, ": ", e.how, " after ", e.iterations));
        EXPECT_NEAR(e.residual_norm, truth, rounding(s) * (1 + truth));
        EXPECT_EQ(e.converged, e.residual_norm <= rtol);
        if (e.converged) {
          EXPECT_LE(truth, rtol + rounding(s));
        }
        if (!hard && rtol >= kind.attainable) {
          EXPECT_TRUE(e.converged) << e.residual_norm;
        }
        EXPECT_EQ(e.history, std::size_t(e.iterations) + 1);
        EXPECT_LE(e.iterations, most);
      }
  });
}

TEST(Kinds, AreNeverWorseThanTheGuess) {
  on_every_kind([](const Kind& kind, const comm::Communicator& comm) {
    for (const bool hard : {false, true})
      for (int most = 0; most <= 14; most += sized(1, 5, 7)) {
        if (is_repeated() && !hard) continue;
        System s = kind.system(comm, hard);
        const double before = residual_of(s), energy = energy_of(s);
        const Ended e = kind.solve(s, 1e-16, most);
        SCOPED_TRACE(message(hard ? "hard" : "easy", ", at most ", most, ": ", e.how, " after ", e.iterations));
        EXPECT_FALSE(e.converged);
        if (!kind.by_energy || energy_of(s) > energy) {
          EXPECT_LE(residual_of(s), before + rounding(s));
        }
        if (e.out_of_iterations) {
          EXPECT_EQ(e.iterations, most);
        }
        EXPECT_LE(e.iterations, most);
      }
  });
}

TEST(Kinds, KeepASolution) {
  on_every_kind([](const Kind& kind, const comm::Communicator& comm) {
    System s = kind.system(comm, false);
    ASSERT_TRUE(kind.solve(s, kind.attainable, 200).converged);
    const std::vector<double> before(s.x.data(), s.x.data() + s.x.size());
    const Ended e = kind.solve(s, kind.attainable * 1.01 + rounding(s), 200);
    EXPECT_TRUE(e.converged) << e.how;
    EXPECT_EQ(e.iterations, 0);
    EXPECT_EQ(std::vector<double>(s.x.data(), s.x.data() + s.x.size()), before);
  });
}

}  // namespace
}  // namespace tacit::test
