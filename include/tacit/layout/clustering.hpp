// Clustering: orders the rows and columns of a sparse matrix so that rows that read the same columns are neighbours,
// from the pattern only.
#pragma once

#include <tacit/base/types.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tacit::layout {

/// A sparsity pattern in this rank's memory: row i has the columns column[start[i]] to column[start[i + 1] - 1], in any
/// order, without duplicates.
struct Pattern {
  std::span<const Global> start;
  std::span<const Local> column;
  Local columns = 0;
  Local rows() const { return Local(start.size()) - 1; }
};

enum class Clustering {
  automatic,  ///< greedy where columns are short, spectral elsewhere; the given order where neither improves it
  /// Recursive bisection of rows and columns in a 16-dimensional spectral embedding (the leading singular vectors of
  /// the scaled pattern, by subspace iteration on a sample of the rows); each cut is placed where the parts share the
  /// fewest columns of a sample. A few passes over the entries, in parallel. For matrices whose rows overlap in many
  /// ways: projectors, integral operators.
  spectral,
  /// A block grows by the row that has the largest share of its columns in the block. O(distinct columns of a block x
  /// entries of a column), summed over blocks. For matrices with few entries in each row and column.
  greedy,
  /// METIS partitions the graph of rows and columns (at most 16 entries of each row) into parts of about the size of a
  /// block. Error(environment) in a build without METIS. Karypis and Kumar (1998), doi 10.1137/S1064827595287997.
  metis
};

struct ClusterOptions {
  Clustering how = Clustering::automatic;
  Local block = 1024;  ///< rows of a block that should share columns
};

/// Orders as old_of_new.
struct Clusters {
  std::vector<Local> rows, columns;
  Clustering how = Clustering::automatic;  ///< the algorithm used; automatic: the given order was kept
};

/// Rows of the pattern in blocks that share columns, and columns in blocks that share rows. Local; the same for any
/// number of threads. Error(usage) on a column out of range or a block below 1.
/// Reordering of rows as a clustering: Hidayetoglu, Hierarchical Computation and Communication for Distributed Sparse
/// Operations (2021), section 2.5. Spectral: Dhillon (2001), doi 10.1145/502512.502550.
Clusters cluster(const Pattern& pattern, const ClusterOptions& options = {});

/// Entries / (sum over blocks of `block` rows of their distinct columns), with rows in this order (empty: as given);
/// column_reuse() exchanges rows and columns. Local; one pass over the entries.
double row_reuse(const Pattern& pattern, std::span<const Local> order, Local block);
double column_reuse(const Pattern& pattern, std::span<const Local> order, Local block);

/// "natural" (for automatic: the given order), "spectral", "greedy" or "metis".
const char* name_of(Clustering how);
/// From a user's name: "clustered" (automatic), "spectral", "greedy" or "metis"; nothing for any other.
std::optional<Clustering> clustering_named(const std::string& name);

}  // namespace tacit::layout
