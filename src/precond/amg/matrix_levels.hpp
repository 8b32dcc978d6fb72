// MatrixLevels: levels that a coarsening makes from the entries of a matrix.
#pragma once

#include "../levels.hpp"
#include "coarsening.hpp"
#include "dense_inverse.hpp"
#include "level.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tacit::precond {

template <Scalar T>
class MatrixLevels final : public Levels<T> {
 public:
  /// A is kept by reference. Collective.
  MatrixLevels(const op::Csr<T>& A, const AmgOptions<T>& options);
  /// As Amg::update(). Whether the coarser levels were kept. Collective.
  bool update();
  std::size_t count() const override { return levels_.size(); }
  bool is_hermitian() const override { return hermitian_; }
  MatrixLevel<T>& level(std::size_t i) { return *levels_[i]; }
  const MatrixLevel<T>& level(std::size_t i) const { return *levels_[i]; }
  bool is_direct() const { return bool(direct_); }  ///< on the last level
  const DenseInverse<T>* direct() const { return direct_.get(); }
  /// Why coarsening ended early; empty where it did not.
  const std::string& note() const { return note_; }
  void make_vectors(int columns);

 private:
  using typename Levels<T>::Vector;
  void build(const op::Csr<T>& A);
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

  AmgOptions<T> options_;
  bool hermitian_ = false;
  std::string note_;
  std::vector<std::unique_ptr<MatrixLevel<T>>> levels_;
  std::unique_ptr<DenseInverse<T>> direct_;
  std::unique_ptr<Coarsening<T>> coarsening_;
};

/// Levels of more unknowns are not inverted.
constexpr Global largest_direct = 2048;
constexpr int sweeps_without_direct = 20;

}  // namespace tacit::precond
