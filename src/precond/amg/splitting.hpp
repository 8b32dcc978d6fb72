// Splittings of a level's points into coarse ones, which the next level has, and fine ones.
#pragma once

#include "strength.hpp"

#include <vector>

namespace tacit::precond {

enum class Part : signed char { fine = -1, undecided = 0, coarse = 1 };

/// Parallel modified independent set. The weight of i is the number of its dependants plus a number in [0, 1) that is a
/// hash of its global index. In rounds, the undecided points that weigh more than all their undecided neighbours become
/// coarse, and those that depend on these fine. Points without dependants are fine. `part`: as it is before, of own
/// points; returns that of all of the graph's halo. Then each fine point with strong couplings reaches a coarse one
/// along at most two of them, and no two coarse points depend on each other. The same for any number of threads and
/// ranks. Collective; two exchanges and a reduction in each round, of which there are about log n.
/// Source: De Sterck, Yang, Heys (2006), doi 10.1137/040615729.
std::vector<Part> pmis(const Graph& strong, std::vector<Part> part = {});

/// The first pass of Ruge and Stueben on each rank's graph; its coarse points that have no couplings to other ranks are
/// coarse, and pmis() decides on what does not depend on them. Depends on how rows are spread over ranks. Collective.
/// Source: De Sterck, Yang, Heys (2006), doi 10.1137/040615729.
std::vector<Part> hmis(const Graph& strong);

/// The coarse points among the coarse ones of `part` by pmis() in the graph of those that reach each other along at
/// most two strong couplings. Collective. Source: De Sterck, Yang, Heys (2006).
std::vector<Part> aggressive(const Graph& strong, std::vector<Part> part);

/// The next level's space, and the index there of each coarse point of the halo; -1 for fine ones. Collective.
struct CoarsePoints {
  layout::Space space;
  std::vector<Global> number;
};
CoarsePoints number_coarse(const Graph& strong, const std::vector<Part>& part);

}  // namespace tacit::precond
