// Orderings: renumberings of a graph that place neighbours close to each other.
#pragma once

#include <tacit/base/types.hpp>

#include <span>
#include <vector>

namespace tacit::layout {

/// A graph in this rank's memory: the neighbours of vertex i are column[start[i]] to column[start[i + 1] - 1]. All
/// functions ignore edges that leave [0, vertices) and loops.
struct LocalGraph {
  std::vector<Global> start{0};
  std::vector<Local> column;
  Local vertices() const { return Local(start.size()) - 1; }
};

/// The graph with every edge in both directions, each once, in ascending order. Local; O(edges log degree).
LocalGraph symmetrised(const LocalGraph& graph);

/// The reverse Cuthill-McKee order of a symmetric graph: old_of_new, every vertex once. Components are ordered by their
/// lowest vertices; each begins at a pseudo-peripheral vertex. Local; a few passes over the edges. Sources: Cuthill and
/// McKee (1969), doi 10.1145/800195.805928; George and Liu (1979), doi 10.1145/355841.355845, for the start.
std::vector<Local> reverse_cuthill_mckee(const LocalGraph& symmetric);

/// A nested dissection order of a symmetric graph by METIS, for which complete factors fill in little: old_of_new.
/// Local. Error(environment): a build without METIS, or METIS fails. Source: Karypis and Kumar (1998),
/// doi 10.1137/S1064827595287997.
std::vector<Local> nested_dissection(const LocalGraph& symmetric);

/// An approximate minimum degree order of a symmetric graph by AMD, for which complete factors fill in little:
/// old_of_new. Vertices of more than 10 sqrt(n) neighbours come last. Local; mostly O(edges of the filled graph) at
/// worst, far fewer in practice. Error(environment): a build without AMD. Error(memory): not enough of it. Source:
/// Amestoy, Davis and Duff (1996), doi 10.1137/S0895479894278952.
std::vector<Local> minimum_degree(const LocalGraph& symmetric);

/// Whether this build has AMD.
bool amd_built() noexcept;

/// The bandwidth max |place[i] - place[j]| over all edges (i, j). Local.
Global bandwidth(const LocalGraph& graph, std::span<const Local> place);

}  // namespace tacit::layout
