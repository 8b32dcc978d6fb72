// Triangular factors by cells of a grid, on the ranks that own them.
//
// Factorisation, right-looking: cell (k, k) = L U; cells below it become B U^-1 and those to its right L^-1 B; then all
// cells (i, j), i, j > k, lose their product. A rank does what its cells are ready for, first those of the first rows
// and columns, on which others wait; it never waits while there is work. A cell loses its products in the order of k,
// so that the factors do not depend on when messages arrive.
#pragma once

#include <tacit/comm/communicator.hpp>

#include "builder.hpp"
#include "pieces.hpp"

#include <array>
#include <complex>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace tacit::precond::detail {

/// What a solve does to x: L^-1, U^-1, L^-T, U^-T.
enum class TriangleStep { lower, upper, lower_transposed, upper_transposed };

/// Messages that a rank sends in a solve of one column, and the numbers in them.
struct MessageCount {
  double messages = 0, numbers = 0;
};

template <Scalar F>
class Cells {
 public:
  using Step = TriangleStep;
  using Place = std::pair<int, int>;
  Cells(comm::Communicator comm, Grid grid, double tolerance, bool cholesky)
      : arithmetic(tolerance, cholesky), comm_(std::move(comm)), grid_(std::move(grid)), cholesky_(cholesky) {}

  HArithmetic<F> arithmetic;

  const Grid& grid() const { return grid_; }
  bool cholesky() const { return cholesky_; }
  /// This rank's cells, by place.
  const std::map<Place, Cell<F>>& own() const { return own_; }
  /// Makes this rank's cells. take(first, last): the pieces of the H-matrix's blocks whose rows begin there, which on
  /// one rank are taken a few at a time, first for the places of all; so they never exist together. `compress`: as
  /// for Builder.
  template <Scalar T, class Take>
  void build(const op::ClusterTree& tree, Local leaf_size, std::span<const Global> cuts, bool compress,
             const Take& take) {
    const int groups = comm_.size() > 1 ? 1 : 16;
    const auto start = [&](int g) { return Local(Global(tree.size()) * g / groups); };
    std::vector<op::BlockMatrix<T>> pieces, places;
    for (int g = 0; g < groups; ++g) {
      pieces = take(start(g), start(g + 1));
      for (const auto& m : pieces) places.push_back({m.block, m.dense, m.rank, {}, {}});
    }
    const auto cell_of = [&](const op::Block& b) { return Place(grid_.of(b.row_begin), grid_.of(b.column_begin)); };
    std::map<Place, std::vector<const op::BlockMatrix<T>*>> of;
    for (int i = 0; i < grid_.count(); ++i)
      for (int j = 0; j < grid_.count(); ++j)
        if (is_kept(i, j) && owns(i, j)) of[{i, j}];
    for (const auto& m : places) of.at(cell_of(m.block)).push_back(&m);
    Builder<F, T> builder(tree, grid_, leaf_size, cuts, cholesky_, compress, arithmetic);
    for (const auto& [place, parts] : of) own_[place] = builder.outline(place.first, place.second, parts);
    for (int g = 0; g < groups; ++g) {
      if (groups > 1) pieces = take(start(g), start(g + 1));
      for (auto& m : pieces) {
        builder.add(own_.at(cell_of(m.block)), m);
        m = op::BlockMatrix<T>();
      }
    }
    for (auto& [place, cell] : own_) builder.finish(cell);
  }
  void add_to_diagonal(F shift);
  /// Factorises in place. Collective; messages: each cell to the ranks that have cells right of it or below it. Where a
  /// factor is not finite, arithmetic.failed() is true on some ranks.
  void factorise();

  /// Solves with the triangles one after the other, in place. rows: elements [cuts[rank], cuts[rank + 1]) of k columns,
  /// by columns. `conjugate`: all elements are conjugated after each step. Collective; messages: count_messages().
  void solve(std::span<const Step> steps, bool conjugate, std::span<const Global> cuts, F* rows, Local k) const;
  MessageCount count_messages(std::span<const Step> steps, std::span<const Global> cuts) const;

  /// log |det| and the sign of this rank's cells on the diagonal.
  std::pair<double, std::complex<double>> log_determinant() const;
  const Sent& sent() const { return sent_; }
  Sent& sent() { return sent_; }

 private:
  class Run;
  class Sweep;
  struct Plan {                             // of a step, by cluster
    std::vector<std::vector<int>> readers;  // ranks that its elements are sent to
    std::vector<std::vector<int>> parts;    // ranks that send a part of its elements
    std::vector<std::vector<int>> targets;  // clusters that its elements change by cells of this rank
    std::vector<int> sources;               // how many clusters change it by cells of this rank
  };
  const Plan& plan(Step s) const;
  bool owns(int i, int j) const { return grid_.owner(i, j) == comm_.rank(); }
  bool is_kept(int i, int j) const { return !cholesky_ || j <= i; }
  /// f(i, j): the cells whose work needs cell (a, b), once finished.
  void each_user(int a, int b, const std::function<void(int, int)>& f) const;

  comm::Communicator comm_;
  Grid grid_;
  bool cholesky_;
  std::map<Place, Cell<F>> own_;
  Sent sent_;
  mutable std::array<Plan, 4> plans_;
};

}  // namespace tacit::precond::detail
