// Tacit's methods at the bottom of AMReX's multigrid: what MLMG solves when it cannot coarsen further.
//
//   tacit_amrex::WithTacit<amrex::MLABecLaplacian> op({geometry}, {boxes}, {ranks});
//   op.settings.options.method = tacit::krylov::Method::ca_bicgstab;
//   ..
//   amrex::MLMG mlmg(op);
//   mlmg.setBottomSolver(amrex::MLMG::BottomSolver::hypre);
//
// MLMG has its bottom solver made by its linear operator's makeHypre(), a virtual function, so AMReX has to be built
// with AMReX_HYPRE=ON; hypre itself is not called. Any operator of AMReX on cells will do, on one MultiFab component,
// in the memory of processors.
#pragma once

#include <AMReX_Hypre.H>
#include <AMReX_MLLinOp.H>
#include <AMReX_iMultiFab.H>

#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#ifdef AMREX_USE_GPU
#error "tacit_bottom.hpp is for an AMReX without GPUs"
#endif

namespace tacit_amrex {

using T = amrex::Real;
using tacit::Global, tacit::Host, tacit::Local;
using Vector = tacit::layout::Vector<T>;
using Operator = tacit::op::Operator<T, Host>;

/// How a bottom is solved. MLMG gives the tolerances and the limit of iterations.
struct Settings {
  Settings() {
    options.method = tacit::krylov::Method::cg;
    options.fallbacks = options.history = options.check_memory = false;  // as an inner solve
    options.explain = false;
  }
  tacit::krylov::Options options;
  /// The bottom's matrix is stored, once for each MLMG: from products with 3^d vectors, or a few more where it is
  /// periodic. Otherwise, and where AMReX's operator reaches beyond the neighbours of a cell (setMaxOrder(4)), products
  /// are AMReX's.
  bool stores_rows = true;
  /// Any of docs/reference/preconditioners.md, of the stored matrix. (At Dirichlet boundaries AMReX's operators are not
  /// symmetric, as ic0 wants them, unless setMaxOrder(2) is called.) Otherwise "jacobi" or "none": another is "jacobi".
  std::string precond = "jacobi";
};

/// What all bottom solves of an operator took.
struct Totals {
  int solves = 0, unconverged = 0;
  long iterations = 0, products = 0, reductions = 0;
  double seconds = 0, set_up_seconds = 0;
  Global rows = 0;
  bool are_stored = false;
};

/// The coarsest level of an operator of AMReX: its cells in the order of Tacit's vectors, and its products.
class Level {
 public:
  Level(const amrex::MLLinOp& op, const amrex::BoxArray& boxes, const amrex::DistributionMapping& ranks)
      : op_(op), in_(boxes, ranks, 1, 1), out_(boxes, ranks, 1, 0) {
    in_.setVal(0);
  }
  Local cells() const {
    amrex::Long count = 0;
    for (amrex::MFIter box(out_); box.isValid(); ++box) count += box.validbox().numPts();
    return Local(count);
  }
  static void copy(const amrex::MultiFab& from, T* to) {
    for (amrex::MFIter box(from); box.isValid(); ++box) {
      from[box].copyToMem<amrex::RunOn::Host>(box.validbox(), 0, 1, to);
      to += box.validbox().numPts();
    }
  }
  static void copy(const T* from, amrex::MultiFab& to) {
    for (amrex::MFIter box(to); box.isValid(); ++box) {
      to[box].copyFromMem<amrex::RunOn::Host>(box.validbox(), 0, 1, from);
      from += box.validbox().numPts();
    }
  }
  /// y = A x, for corrections: with homogeneous boundary values.
  void multiply(const T* x, T* y) {
    copy(x, in_);
    multiply();
    copy(out_, y);
  }
  /// out() = A in().
  void multiply() {
    op_.apply(0, op_.NMGLevels(0) - 1, out_, in_, amrex::MLLinOp::BCMode::Homogeneous,
              amrex::MLLinOp::StateMode::Correction);
  }
  /// y = what AMReX divides by: the inverse diagonal, or 1 where it divides by nothing.
  void invert_diagonal(T* y) {
    out_.setVal(1);
    op_.normalize(0, op_.NMGLevels(0) - 1, out_);
    copy(out_, y);
  }
  amrex::MultiFab& in() { return in_; }
  const amrex::MultiFab& out() const { return out_; }
  const amrex::Geometry& geometry() const { return op_.Geom(0, op_.NMGLevels(0) - 1); }

 private:
  const amrex::MLLinOp& op_;
  amrex::MultiFab in_, out_;
};

/// Products of AMReX as an operator of Tacit.
class Products final : public Operator {
 public:
  Products(Level& level, const tacit::layout::Space& space) : Operator(space, space), level_(level) {}
  std::string name() const override { return "AMReX"; }

 protected:
  int begin(const Vector&, Vector&, bool) const override { return 0; }
  void finish(const Vector& x, Vector& y, bool adjoint, int) const override {
    tacit::require(!adjoint && x.columns() == 1, "AMReX multiplies one vector at a time, and not by the adjoint");
    level_.multiply(x.data(), y.data());
  }

 private:
  Level& level_;
};

/// The rows of an operator that reaches no farther than the neighbours of a cell (those at corners, too), found by
/// products with vectors that are 1 in every third cell of each direction: each cell sees one such cell of each kind.
/// Collective.
class Probed {
 public:
  Probed(Level& level, const tacit::layout::Space& space)
      : level_(level), number_(level.out().boxArray(), level.out().DistributionMap(), 1, 1) {
    const amrex::Box domain = level.geometry().Domain();
    for (int d = 0; d < AMREX_SPACEDIM; ++d)
      period_[d] = period_of(domain.length(d), level.geometry().isPeriodic(d)), low_[d] = domain.smallEnd(d);
    number_.setVal(-1);  // as cells beyond the boundary keep
    int next = int(space.begin());
    for (amrex::MFIter box(number_); box.isValid(); ++box) {
      const auto at = number_.array(box);
      amrex::LoopOnCpu(box.validbox(), [&](int i, int j, int k) { at(i, j, k) = next++; });
    }
    number_.FillBoundary(level.geometry().periodicity());
    entries_.resize(std::size_t(space.local_size()));
  }

  tacit::op::Rows<T> rows() {
    std::array<int, 3> kind{};
    for (kind[2] = 0; kind[2] < period_[2]; ++kind[2])
      for (kind[1] = 0; kind[1] < period_[1]; ++kind[1])
        for (kind[0] = 0; kind[0] < period_[0]; ++kind[0]) take(kind);
    tacit::op::Rows<T> rows;
    for (const auto& row : entries_) {
      for (const auto& [column, value] : row) rows.column.push_back(column), rows.value.push_back(value);
      rows.start.push_back(Global(rows.column.size()));
    }
    tacit::op::sort_rows(rows);
    return rows;
  }

 private:
  /// Three, or where the direction is periodic the least number from three on that divides its length.
  static int period_of(int length, bool is_periodic) {
    if (length < 3) return length;
    int period = 3;
    while (is_periodic && length % period != 0) ++period;
    return period;
  }
  bool is_of(const std::array<int, 3>& kind, int i, int j, int k) const {
    const std::array<int, 3> at{i, j, k};
    for (int d = 0; d < AMREX_SPACEDIM; ++d)
      if (((at[d] - low_[d]) % period_[d] + period_[d]) % period_[d] != kind[d]) return false;
    return true;
  }
  void take(const std::array<int, 3>& kind) {
    amrex::MultiFab& in = level_.in();
    for (amrex::MFIter box(in); box.isValid(); ++box) {
      const auto at = in.array(box);
      amrex::LoopOnCpu(box.validbox(), [&](int i, int j, int k) { at(i, j, k) = is_of(kind, i, j, k) ? 1 : 0; });
    }
    level_.multiply();
    std::size_t row = 0;
    for (amrex::MFIter box(level_.out()); box.isValid(); ++box) {
      const auto product = level_.out().const_array(box);
      const auto number = number_.const_array(box);
      amrex::LoopOnCpu(box.validbox(), [&](int i, int j, int k) {
        auto& entries = entries_[row++];
        if (const T value = product(i, j, k); value != 0)
          if (const int column = neighbour(kind, number, i, j, k); column >= 0) entries.emplace_back(column, value);
      });
    }
  }
  /// The cell of this kind next to this one, or it; -1 where there is none.
  int neighbour(const std::array<int, 3>& kind, const amrex::Array4<const int>& number, int i, int j, int k) const {
    constexpr int depth = AMREX_SPACEDIM == 3 ? 1 : 0;
    for (int c = -depth; c <= depth; ++c)
      for (int b = -1; b <= 1; ++b)
        for (int a = -1; a <= 1; ++a)
          if (is_of(kind, i + a, j + b, k + c) && number(i + a, j + b, k + c) >= 0) return number(i + a, j + b, k + c);
    return -1;
  }

  Level& level_;
  amrex::iMultiFab number_;
  std::array<int, 3> period_{1, 1, 1}, low_{};
  std::vector<std::vector<std::pair<int, T>>> entries_;
};

/// A solver of the coarsest level, in the place of one of hypre's.
class Bottom final : public amrex::Hypre {
 public:
  Bottom(const amrex::MLLinOp& op, const amrex::BoxArray& boxes, const amrex::DistributionMapping& ranks,
         const amrex::Geometry& geometry, MPI_Comm communicator, Settings settings, std::shared_ptr<Totals> totals)
      : Hypre(boxes, ranks, geometry, communicator),
        level_(op, boxes, ranks),
        settings_(std::move(settings)),
        totals_(std::move(totals)) {
    const double from = amrex::second();
    const auto all = tacit::comm::mpi_from_fortran(int(MPI_Comm_c2f(communicator)));
    const auto counts = all.all_gather(Global(level_.cells()));
    const auto space = tacit::layout::Space::distributed(all, tacit::layout::Partition::of_counts(counts));
    products_ = std::make_unique<Products>(level_, space);
    if (settings_.stores_rows) store_rows(space);
    if (!rows_ && settings_.precond != "none") {
      Vector inverse(space);
      level_.invert_diagonal(inverse.data());
      precond_ = std::make_unique<tacit::op::Diagonal<T>>(std::move(inverse), "jacobi");
    }
    if (op.isBottomSingular()) null_space_ = std::make_unique<const NullSpace>(NullSpace::constant(space));
    b_ = std::make_unique<Vector>(space), x_ = std::make_unique<Vector>(space);
    totals_->rows = space.size(), totals_->are_stored = bool(rows_);
    totals_->set_up_seconds += amrex::second() - from;
  }

  void solve(amrex::MultiFab& x, const amrex::MultiFab& b, T rtol, T atol, int most, const amrex::BndryData&,
             int) override {
    auto options = settings_.options;
    options.rtol = double(rtol), options.atol = std::max(double(atol), 0.), options.max_iterations = most;
    Level::copy(b, b_->data());
    if (negated_) tacit::layout::scale(T(-1), *b_);
    Level::copy(x, x_->data());
    const Operator& A = rows_ ? static_cast<const Operator&>(*rows_) : *products_;
    const auto report = tacit::krylov::solve<T, Host>(A, precond_.get(), *b_, *x_, options, false, null_space_.get());
    Level::copy(x_->data(), x);
    ++totals_->solves;
    totals_->unconverged += report.converged() ? 0 : 1;
    totals_->iterations += report.iterations;
    totals_->products += long(report.counts.operator_applies);
    totals_->reductions += long(report.counts.reductions);
    totals_->seconds += report.seconds;
    if (verbose > 0 && A.range().comm().rank() == 0)
      amrex::AllPrint() << "Tacit: " << report.method << " with " << report.precond << ": " << to_string(report.reason)
                        << " after " << report.iterations
                        << " iterations, ||b - A x|| / ||b|| = " << report.residual_norm << '\n';
  }

 private:
  using NullSpace = tacit::krylov::NullSpace<T>;

  /// Keeps the rows if they multiply as AMReX does: those of -A where the diagonal is negative, as MLPoisson's is, for
  /// preconditioners of positive definite matrices.
  void store_rows(const tacit::layout::Space& space) {
    auto entries = Probed(level_, space).rows();
    bool is_negative = true;
    for (Local i = 0; i < entries.count(); ++i)
      for (Global e = entries.start[std::size_t(i)]; e < entries.start[std::size_t(i) + 1]; ++e)
        if (entries.column[std::size_t(e)] == space.begin() + i && !(entries.value[std::size_t(e)] < 0))
          is_negative = false;
    const bool negated = space.comm().all(is_negative);
    if (negated)
      for (T& value : entries.value) value = -value;
    auto rows = std::make_unique<tacit::op::Csr<T>>(space, space, std::move(entries));
    Vector q(space), ours(space), theirs(space);
    std::uint64_t state = std::uint64_t(space.begin()) + 1;
    for (std::size_t i = 0; i < q.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      q.data()[i] = T(double(state >> 11) * 0x1p-53 - 0.5);
    }
    rows->apply(q, ours);
    if (negated) tacit::layout::scale(T(-1), ours);
    products_->apply(q, theirs);
    const double size = tacit::layout::norm(theirs);
    tacit::layout::subtract(ours, theirs, ours);
    if (!(tacit::layout::norm(ours) <= 1e4 * double(std::numeric_limits<T>::epsilon()) * size)) return;
    rows_ = std::move(rows), negated_ = negated;
    precond_ = tacit::precond::make<T, Host>(settings_.precond, *rows_);
  }

  Level level_;
  Settings settings_;
  std::shared_ptr<Totals> totals_;
  std::unique_ptr<Products> products_;
  std::unique_ptr<tacit::op::Csr<T>> rows_;
  bool negated_ = false;  ///< they are those of -A
  std::unique_ptr<Operator> precond_;
  std::unique_ptr<const NullSpace> null_space_;
  std::unique_ptr<Vector> b_, x_;
};

/// An operator of AMReX on cells whose bottom Tacit solves.
template <class Op>
class WithTacit final : public Op {
 public:
  using Op::Op;
  Settings settings;
  std::shared_ptr<Totals> totals = std::make_shared<Totals>();

  std::unique_ptr<amrex::Hypre> makeHypre(amrex::Hypre::Interface) const override {
    return std::make_unique<Bottom>(*this, this->m_grids[0].back(), this->m_dmap[0].back(), this->m_geom[0].back(),
                                    this->BottomCommunicator(), settings, totals);
  }
};

}  // namespace tacit_amrex
