// The levels that geometric multigrid makes for an operator on cells, in one scalar type.
#pragma once

#include "../levels.hpp"
#include "device_data.hpp"
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
  /// As forward(), for fields in which the cells stand at these places.
  CellCopies copies(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) const;

 private:
  std::shared_ptr<const comm::Pattern> pattern_;
  std::shared_ptr<comm::Exchange> exchange_;
  std::vector<std::pair<Local, Local>> own_;    // cells that stay here: from, to
  std::vector<std::pair<Local, Local>> ghost_;  // ghost, to
};

template <class S>
class Hierarchy final : public Levels<S> {
 public:
  /// slabs: see RedBlackLevel.
  Hierarchy(std::shared_ptr<const op::FiniteVolume<S>> A, const MultigridOptions& options, const MakeBottom<S>& bottom,
            bool slabs = true);
  Level<S>& finest() { return *stages_.front().level; }
  std::size_t count() const override { return stages_.size(); }
  Level<S>& level(std::size_t i) { return *stages_[i].level; }
  /// The level after level i where that one's ranks have its cells, and its cells' move from there; null: they stay.
  Level<S>* image(std::size_t i) { return stages_[i].image.get(); }
  const Move<S>* move(std::size_t i) const { return stages_[i].move.get(); }
  std::string bottom_name() const;
  /// The reasons of automatic choices: whether cells moved, and the bottom solver.
  std::string choice() const;
  BottomReport bottom;  ///< counts and warnings
  std::vector<LevelReport> take();

 private:
  struct Stage {
    std::unique_ptr<Level<S>> level;
    std::unique_ptr<Level<S>> image;  // the next level where this one's ranks are; null: the next itself
    std::unique_ptr<Move<S>> move;
    std::vector<S> before, after;  // for moves
  };
  void down(std::size_t i, bool from_zero) override;
  void up(std::size_t i, bool norm) override;
  void solve_last(bool from_zero, bool norm) override;
  void restrict_f(std::size_t i) override;
  void interpolate_u(std::size_t i) override;
  const op::Operator<S, Host>& matrix(std::size_t i) const override { return stages_[i].level->A(); }
  bool is_hermitian() const override { return true; }
  using typename Levels<S>::Vector;
  void store_f(std::size_t i, Vector& f) const override { stages_[i].level->store_f({f.data(), f.size()}); }
  void load_f(std::size_t i, const Vector& f) override { stages_[i].level->load_f({f.data(), f.size()}); }
  void store_u(std::size_t i, Vector& u) const override { stages_[i].level->store_u({u.data(), u.size()}); }
  void load_u(std::size_t i, const Vector& u) override { stages_[i].level->load_u({u.data(), u.size()}); }
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
