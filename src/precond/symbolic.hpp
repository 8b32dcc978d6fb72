// What elimination without pivoting fills in: counts before any arithmetic.
#pragma once

#include <tacit/layout/ordering.hpp>

#include <vector>

namespace tacit::precond {

/// An order of elimination for a symmetric pattern, and what complete factors L U hold where the pivots are on the
/// diagonal.
struct Elimination {
  std::vector<Local> order;  ///< old_of_new, a postorder of the elimination tree
  double entries = 0;        ///< of L and U together, the diagonal once
  double flops = 0;          ///< of the factorisation, in the scalar of the matrix
};

/// The elimination in the order `order` (old_of_new), reordered so that subtrees are contiguous, which changes no
/// count. Liu (1990), doi 10.1137/0611010, for the tree; Gilbert, Ng and Peyton (1994), doi 10.1137/S0895479892236921,
/// for the counts. Local; nearly O(edges).
Elimination elimination(const layout::LocalGraph& symmetric, std::vector<Local> order);

}  // namespace tacit::precond
