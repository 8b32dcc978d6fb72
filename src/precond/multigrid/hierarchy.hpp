// The levels of a multigrid method in one scalar type, and cycles over them.
#pragma once

#include "level.hpp"

namespace tacit::precond::mg {

/// Error(usage): options out of range, a diagonal that is not positive. Error(input): coefficients that are not finite.
/// Local.
template <class T>
void check(const op::FiniteVolume<T>& A, const MultigridOptions& options);

/// Moves a level's cells to other ranks: f goes there, u comes back. One exchange each.
template <class S>
class Move {
 public:
  Move(const op::Boxes& from, const op::Boxes& to);
  void forward(std::span<const S> from, std::span<S> to);
  void backward(std::span<const S> to, std::span<S> from);

 private:
  std::shared_ptr<const comm::Pattern> pattern_;
  std::unique_ptr<comm::Exchange> exchange_;
  std::vector<std::pair<Local, Local>> own_;    // cells that stay here: from, to
  std::vector<std::pair<Local, Local>> ghost_;  // ghost, to
};

template <class S>
class Hierarchy {
 public:
  Hierarchy(std::shared_ptr<const op::FiniteVolume<S>> A, const MultigridOptions& options, const MakeBottom<S>& bottom);
  Level<S>& finest() { return *stages_.front().level; }
  std::size_t levels() const { return stages_.size(); }
  Level<S>& level(std::size_t i) { return *stages_[i].level; }
  /// One cycle on u and f of the finest level. `norm`: the finest level's residual norms are formed in its last pass.
  void cycle(bool from_zero, bool norm, Cycle kind);
  std::string bottom_name() const;
  /// The reasons of automatic choices: whether cells moved, and the bottom solver.
  std::string choice() const;
  int bottom_solves = 0, bottom_iterations = 0, bottom_failures = 0;
  std::vector<std::string> warnings;
  std::vector<LevelReport> take();

 private:
  struct Stage {
    std::unique_ptr<Level<S>> level;
    std::unique_ptr<Level<S>> image;  // the next level where this one's ranks are; null: the next itself
    std::unique_ptr<Move<S>> move;
    std::vector<S> before, after;  // for moves
  };
  void go(std::size_t i, bool from_zero, bool norm, Cycle kind);
  void down(std::size_t i, bool from_zero);
  void up(std::size_t i, bool norm);
  void f_to_next(std::size_t i);
  void u_from_next(std::size_t i);
  void solve_bottom();
  void smooth(Level<S>& level, int sweeps, bool from_zero, bool mirrored);
  void remove_mean(layout::Vector<S>& v) const;

  /// Whether the cells of A may move to fewer ranks; the reason is kept for choice(). Collective.
  bool moves(const op::FiniteVolume<S>& A, int fewer, Global least_box, Global smallest);

  MultigridOptions options_;
  std::string fork_;
  std::vector<Stage> stages_;
  std::unique_ptr<Bottom<S>> bottom_;
  std::unique_ptr<layout::Vector<S>> bottom_f_, bottom_u_;
};

}  // namespace tacit::precond::mg
