// Poisson's equation and - div b grad x = f, where b jumps, on the unit square or cube by AMReX's multigrid, which
// coarsens twice only, so that its bottom has something to solve: by AMReX's bicgstab, and by Tacit.
//
//   mpiexec -n 2 ./bottom_3d 96 cg amg           [CELLS A SIDE] [METHOD] [PRECONDITIONER] [products]
//
// With "products" Tacit has no rows of the bottom and calls AMReX for each product. Exit code 3: a solve by Tacit took
// more cycles than AMReX's.
#include "tacit_bottom.hpp"

#include <AMReX.H>
#include <AMReX_Loop.H>
#include <AMReX_MLABecLaplacian.H>
#include <AMReX_MLMG.H>
#include <AMReX_MLPoisson.H>
#include <tacit/base/names.hpp>

#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <string>

namespace {

using amrex::MLABecLaplacian, amrex::MLMG, amrex::MLPoisson;
using tacit_amrex::Settings, tacit_amrex::WithTacit;

struct Problem {
  amrex::Geometry geometry;
  amrex::BoxArray boxes;
  amrex::DistributionMapping ranks;
  amrex::Array<amrex::MultiFab, AMREX_SPACEDIM> b;
  bool is_closed;  ///< no flow through the boundary; periodic in y
};

/// b is `jump` on the left, and from 1 to 2 elsewhere.
Problem problem_of(int n, amrex::Real jump, bool is_closed) {
  Problem p;
  p.is_closed = is_closed;
  p.geometry.define(amrex::Box(amrex::IntVect(0), amrex::IntVect(n - 1)),
                    amrex::RealBox({AMREX_D_DECL(0., 0., 0.)}, {AMREX_D_DECL(1., 1., 1.)}), 0,
                    {AMREX_D_DECL(0, is_closed ? 1 : 0, 0)});
  p.boxes = amrex::BoxArray(p.geometry.Domain());
  p.boxes.maxSize(n / 2);
  p.ranks = amrex::DistributionMapping(p.boxes);
  const auto h = p.geometry.CellSizeArray();
  for (int d = 0; d < AMREX_SPACEDIM; ++d) {
    p.b[d].define(amrex::convert(p.boxes, amrex::IntVect::TheDimensionVector(d)), p.ranks, 1, 0);
    for (amrex::MFIter box(p.b[d]); box.isValid(); ++box) {
      const auto value = p.b[d].array(box);
      amrex::LoopOnCpu(box.validbox(), [&](int i, int j, int k) {
        const amrex::Real y = j * h[1];
        value(i, j, k) = i * h[0] < 0.4 ? jump : 1 + 4 * y * (1 - y);  // alike where y is 0 and 1
      });
    }
  }
  return p;
}

void give_coefficients(MLPoisson&, const Problem&) {}
void give_coefficients(MLABecLaplacian& op, const Problem& p) {
  op.setScalars(0, 1);
  op.setBCoeffs(0, amrex::GetArrOfConstPtrs(p.b));
}

/// Solves for f = 1, or 1 and -1 in halves where the domain is closed, and prints how; the number of cycles. `totals`:
/// of Tacit's bottom solves, or null.
template <class Op>
int solve(const char* what, Op& op, const Problem& p, MLMG::BottomSolver bottom, const tacit_amrex::Totals* totals) {
  amrex::MultiFab x(p.boxes, p.ranks, 1, 1), rhs(p.boxes, p.ranks, 1, 0);
  rhs.setVal(1);
  amrex::Array<amrex::LinOpBCType, AMREX_SPACEDIM> sides;
  sides.fill(p.is_closed ? amrex::LinOpBCType::Neumann : amrex::LinOpBCType::Dirichlet);
  if (p.is_closed) {
    sides[1] = amrex::LinOpBCType::Periodic;
    for (amrex::MFIter box(rhs); box.isValid(); ++box) {
      const auto f = rhs.array(box);
      const int half = p.geometry.Domain().length(0) / 2;
      amrex::LoopOnCpu(box.validbox(), [&](int i, int j, int k) { f(i, j, k) = i < half ? 1 : -1; });
    }
  }
  op.setDomainBC(sides, sides);
  op.setLevelBC(0, nullptr);
  give_coefficients(op, p);
  MLMG mlmg(op);
  mlmg.setBottomSolver(bottom);
  mlmg.setBottomMaxIter(2000);
  double seconds = 0;
  amrex::Real left = 0;
  for (int turn = 0; turn < 2; ++turn) {  // the second has its memory, and the rows of the bottom
    mlmg.setVerbose(turn);                // its times
    x.setVal(0);
    amrex::ParallelDescriptor::Barrier();
    const double from = amrex::second();
    left = mlmg.solve({&x}, {&rhs}, 1e-8, 0);
    seconds = amrex::second() - from;
  }
  const auto& of_amrex = mlmg.getNumCGIters();
  const long iterations = totals ? totals->iterations / 2 : std::accumulate(of_amrex.begin(), of_amrex.end(), 0L);
  amrex::Print() << "  " << what << ": " << mlmg.getNumIters() << " cycles, " << iterations
                 << " iterations at the bottom, " << seconds << " s, residual " << left << ", largest x " << x.norm0()
                 << "\n";
  if (totals)
    amrex::Print() << "    bottom of " << totals->rows << " cells, "
                   << (totals->are_stored ? "rows stored" : "products of AMReX") << " (set-up "
                   << totals->set_up_seconds << " s), " << totals->seconds / 2 << " s, " << totals->reductions / 2
                   << " reductions, " << totals->unconverged << " of " << totals->solves << " unconverged\n";
  return mlmg.getNumIters();
}

/// Whether Tacit's bottom takes no more cycles than AMReX's.
template <class Op>
bool compare(const char* what, const Problem& p, const Settings& settings) {
  const auto info = amrex::LPInfo().setMaxCoarseningLevel(2);
  const amrex::Vector<amrex::Geometry> geometries{p.geometry};
  const amrex::Vector<amrex::BoxArray> boxes{p.boxes};
  const amrex::Vector<amrex::DistributionMapping> ranks{p.ranks};
  amrex::Print() << what << ", " << p.boxes.numPts() << " cells in " << AMREX_SPACEDIM << " dimensions on "
                 << amrex::ParallelDescriptor::NProcs() << " rank(s)\n";
  Op plain(geometries, boxes, ranks, info);
  const int before = solve("AMReX bicgstab", plain, p, MLMG::BottomSolver::bicgstab, nullptr);
  WithTacit<Op> op(geometries, boxes, ranks, info);
  op.settings = settings;
  const std::string name = std::string("Tacit ") + to_string(settings.options.method);
  return solve(name.c_str(), op, p, MLMG::BottomSolver::hypre, op.totals.get()) <= before + 1;
}

int run(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 96;
  Settings settings;
  if (argc > 2) settings.options.method = tacit::value_of<tacit::krylov::Method>(argv[2]);
  if (argc > 3) settings.precond = argv[3];
  settings.stores_rows = argc <= 4;
  bool good = compare<MLPoisson>("Poisson", problem_of(n, 1, false), settings);
  good = compare<MLABecLaplacian>("- div b grad, b jumps by 816", problem_of(n, 816, false), settings) && good;
  good = compare<MLABecLaplacian>("The same, closed and periodic", problem_of(n, 816, true), settings) && good;
  return good ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  amrex::Initialize(argc, argv, false);
  int code = 2;
  try {
    code = run(argc, argv);
  } catch (const std::exception& e) {
    amrex::Abort(e.what());  // other ranks wait
  }
  amrex::Finalize();
  return code;
}
