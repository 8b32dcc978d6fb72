// MatrixLevels: levels that a coarsening makes from the entries of a matrix.
#pragma once

#include "../levels.hpp"
#include "coarsening.hpp"
#include "level.hpp"
#include "update.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tacit::precond {

/// Sweeps of the smoother on a last level without a solver of its own; on one whose rows are dominated by the diagonal,
/// where each of them takes the error to 0.4 or less.
inline constexpr int sweeps_without_direct = 20, sweeps_of_dominant = 8;

template <Scalar T>
class MatrixLevels final : public Levels<T> {
 public:
  /// A is kept by reference. Collective.
  MatrixLevels(const op::Csr<T>& A, AmgOptions<T> options);
  /// As Amg::update(). Whether the coarser levels were kept. After an error in making new ones there are none, until
  /// an update succeeds. Plans are kept for levels whose factors have at most `most` entries on a rank (see
  /// op::TripleProductPlan::make); where one has more, none are kept, and each update makes whole products. Collective.
  bool update(Global most = op::most_planned_entries);
  std::size_t count() const override { return levels_.size(); }
  bool is_hermitian() const override { return hermitian_; }
  MatrixLevel<T>& level(std::size_t i) { return *levels_[i]; }
  const MatrixLevel<T>& level(std::size_t i) const { return *levels_[i]; }
  /// The solver of the last level; null: sweeps of the smoother.
  const Bottom<T>* bottom() const { return bottom_.get(); }
  int last_sweeps() const { return last_sweeps_; }  ///< where there is none
  /// Whether these sweeps solve the last level.
  bool is_last_solved() const { return bottom_ || last_sweeps_ == sweeps_of_dominant; }
  BottomReport report() const;  ///< of the bottom solver, and the choice of ranks
  BottomReport take_bottom();
  const std::vector<AmgWork>& work() const { return work_; }
  /// Why coarsening ended early; empty where it did not.
  const std::string& note() const { return note_; }
  void make_vectors(int columns);
  /// Bytes of what is kept for updates, 0 before the first, and then of the levels' matrices, over all ranks. Local.
  double plan_bytes() const { return plan_bytes_; }
  double matrix_bytes() const { return matrix_bytes_; }

 private:
  void update_and_plan(Global most);
  void update_by_plans(exec::Array<T, Host> values);
  /// `rows`: of the last level.
  void make_bottom_solver(const op::Rows<T>& rows);
  /// By how many ranks into one the rows of `next` are gathered; 1: they stay. `rows`: the unknowns of the level above.
  int gathering(const op::Rows<T>& next, const layout::Space& space, Global rows);
  void sweep_last(bool from_zero);
  /// f(), counted as work on level i.
  template <class F>
  void counted(std::size_t i, F&& f);
  using typename Levels<T>::Vector;
  void clear();
  void build();
  void make_levels();
  void down(std::size_t i, bool from_zero) override;
  void up(std::size_t i, bool norm) override;
  void solve_last(bool from_zero, bool norm) override;
  void restrict_f(std::size_t i) override;
  void interpolate_u(std::size_t i) override;
  void start_alone(std::size_t i) override;
  void finish_alone(std::size_t i) override;
  void correct(std::size_t i) override;
  const op::Operator<T, Host>& matrix(std::size_t i) const override { return levels_[i]->A(); }
  int columns() const override { return levels_[0]->f->columns(); }
  void store_f(std::size_t i, Vector& f) const override { layout::copy(*levels_[i]->f, f); }
  void load_f(std::size_t i, const Vector& f) override { layout::copy(f, *levels_[i]->f); }
  void store_u(std::size_t i, Vector& u) const override { layout::copy(*levels_[i]->u, u); }
  void load_u(std::size_t i, const Vector& u) override { layout::copy(u, *levels_[i]->u); }

  const op::Csr<T>& A_;
  AmgOptions<T> options_;
  bool hermitian_ = false;
  std::string note_;
  std::vector<std::unique_ptr<MatrixLevel<T>>> levels_;
  std::unique_ptr<Coarsening<T>> coarsening_;
  std::vector<std::unique_ptr<LevelPlan<T>>> plans_;  // of all levels but the last; made by the first update
  bool too_large_for_plans_ = false;
  double plan_bytes_ = 0, matrix_bytes_ = 0;
  Global couplings_ = 0;  // of A when levels were made
  std::unique_ptr<Bottom<T>> bottom_;
  int last_sweeps_ = 0;  // of the last level, where it has no bottom solver
  BottomReport done_;    // by the bottom solver
  std::string choice_;   // of ranks
  std::vector<AmgWork> work_;
};

}  // namespace tacit::precond
