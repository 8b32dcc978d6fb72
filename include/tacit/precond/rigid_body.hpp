// Rigid-body modes: what linear elasticity without supports maps to zero, from the coordinates of nodes.
#pragma once

#include <tacit/comm/communicator.hpp>

#include <span>
#include <vector>

namespace tacit::precond {

/// The small motions of a rigid body, as near-null vectors of elasticity, by rows: displacement d of node i is row
/// i dimension + d. With y = (x - c) / L, c the centre and 2 L the longest edge of the box around the nodes of all
/// ranks: translations e_1 .. e_dimension, then rotations, (-y_2, y_1) in two dimensions and (0, -y_3, y_2),
/// (y_3, 0, -y_1), (-y_2, y_1, 0) in three. Rotations that move no node (about the line on which all nodes lie) are
/// left out: 3 or 6 columns, or fewer. `coordinates`: this rank's nodes, by rows of `dimension` numbers.
/// Collective, 2 dimension + 1 small reductions; the same bits for any number of ranks. Error(usage): a dimension other
/// than 2 or 3, an incomplete row, a coordinate that is not finite.
struct RigidBodyModes {
  RigidBodyModes(std::span<const double> coordinates, int dimension, const comm::Communicator& comm);
  int count = 0;               ///< columns, the same on all ranks
  std::vector<double> values;  ///< coordinates.size() x count
};

}  // namespace tacit::precond
