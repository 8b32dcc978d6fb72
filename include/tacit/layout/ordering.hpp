// Orderings: renumberings of a graph that bring neighbours close together.
#pragma once

#include <tacit/base/types.hpp>

#include <span>
#include <vector>

namespace tacit::layout {

/// A graph in this rank's memory: the neighbours of vertex i are column[start[i]] to column[start[i + 1] - 1]. What
/// points outside of [0, vertices) and what points to its own vertex is ignored wherever a graph is asked for.
struct LocalGraph {
  std::vector<Global> start{0};
  std::vector<Local> column;
  Local vertices() const { return Local(start.size()) - 1; }
};

/// The graph with an edge both ways wherever there is one, each once, ascending. Local; O(edges log degree).
LocalGraph symmetrised(const LocalGraph& graph);

/// The reverse Cuthill-McKee order of a symmetric graph: old_of_new, every vertex once. Components follow each other as
/// their lowest vertices do; each begins at a pseudo-peripheral vertex. Local; a few passes over the edges.
/// Sources: Cuthill and McKee (1969), doi 10.1145/800195.805928; George and Liu (1979), doi 10.1145/355841.355845, for
/// the start.
std::vector<Local> reverse_cuthill_mckee(const LocalGraph& symmetric);

/// max |i - j| over the edges of the graph whose vertex i stands at position place[i]. Local.
Global bandwidth(const LocalGraph& graph, std::span<const Local> place);

}  // namespace tacit::layout
