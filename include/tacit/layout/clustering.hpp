// Clustering: orders of a sparse matrix's rows and columns in which rows that read the same columns stand together,
// from the pattern alone.
#pragma once

#include <tacit/base/types.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tacit::layout {

/// Where rows have entries, in this rank's memory: row i in columns column[start[i]] to column[start[i + 1] - 1], in
/// any order, none twice.
struct Pattern {
  std::span<const Global> start;
  std::span<const Local> column;
  Local columns = 0;
  Local rows() const { return Local(start.size()) - 1; }
};

enum class Clustering {
  automatic,  ///< greedy where columns are short, spectral elsewhere; nothing is moved where that gains nothing
  /// Rows and columns as points in 16 dimensions, in which rows are the means of their columns and columns of their
  /// rows (the leading singular vectors of the scaled pattern, by subspace iteration on a sample of the rows), cut in
  /// two again and again where a sample of the columns says that the parts share least. O(entries) a few times, in
  /// parallel. For matrices whose rows overlap in long ways: projectors, integral operators.
  spectral,
  /// Blocks grow by the row with the largest share of its columns in the block. O(distinct columns of a block x
  /// entries of a column), summed over blocks. For matrices with few entries a row and column.
  greedy,
  /// METIS cuts the graph of rows and columns (at most 16 entries a row) into parts of about a block's size.
  /// Error(environment) in a build without. Karypis and Kumar (1998), doi 10.1137/S1064827595287997.
  metis
};

struct ClusterOptions {
  Clustering how = Clustering::automatic;
  Local block = 1024;  ///< rows that are to share columns
};

/// Orders as old_of_new.
struct Clusters {
  std::vector<Local> rows, columns;
  Clustering how = Clustering::automatic;  ///< what was taken; automatic: rows and columns as they were
};

/// Rows of the pattern in blocks that share columns, and columns in blocks that share rows. Local; the same for any
/// number of threads. Error(usage) on a column outside or a block below 1.
/// Reordering of rows as a clustering: Hidayetoglu, Hierarchical Computation and Communication for Distributed Sparse
/// Operations (2021), section 2.5. Spectral: Dhillon (2001), doi 10.1145/502512.502550.
Clusters cluster(const Pattern& pattern, const ClusterOptions& options = {});

/// Entries over distinct columns of blocks of so many rows, rows being taken in this order (empty: as they are); and
/// over distinct rows of blocks of so many columns. Local; one pass over the entries.
double row_reuse(const Pattern& pattern, std::span<const Local> order, Local block);
double column_reuse(const Pattern& pattern, std::span<const Local> order, Local block);

/// "natural" (of automatic: nothing was moved), "spectral", "greedy", "metis".
const char* name_of(Clustering how);
/// By the names that users give: "clustered" (automatic) and those above but "natural"; none for any other.
std::optional<Clustering> clustering_named(const std::string& name);

}  // namespace tacit::layout
