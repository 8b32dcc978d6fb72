#include <tacit/op/tiled_request.hpp>

namespace tacit::op {

std::span<const Option<TiledRequest>> tiled_options() {
  using O = TiledRequest;
  using P = TiledSpmmOptions;
  using M = TiledOptions;
  const Range tiles{.least = 0, .most = 128, .needed = "a multiple of 8 up to 128", .step = 8};
  static const std::vector<Option<O>> all{
      option<O>("values", within(&O::product, &P::matrix, &M::values),
                "how entries are stored: as the matrix's own scalar (full), or rounded (scaled by a power of two for "
                "each block of rows); sums are formed in the scalar"),
      option<O>(
          "vectors", within(&O::product, &P::matrix, &M::vectors),
          "what products of a float32 matrix read: the vectors, or a copy in 16 bits, each column scaled by a "
          "power of two of its own; what rounding takes from a number the next ones of its column get, up to "
          "half a unit of their own last place; sums are formed in float32; messages between ranks are then of 16 "
          "bits too: whole numbers scaled by a power of two for every 64; cgls takes vectors and messages in full "
          "until its gradient is small enough for theirs"),
      option<O>("order", &O::order,
                "how rows and columns are stored; vectors keep their numbers. natural: as they come; hilbert: rays "
                "and pixels along curves; clustered: rows that read the same columns together, and columns likewise, "
                "where nothing is known of their geometry, by spectral (long rows), greedy (short ones) or metis "
                "where these are named",
                "natural; of a projector hilbert"),
      option<O>("cluster_rows", &O::cluster_rows, at_least(1, "row"), "rows of a cluster")
          .needing("order=clustered,spectral,greedy,metis"),
      option<O>("format", within(&O::product, &P::matrix, &M::format),
                "list (fastest), bitmap (fewer bytes where neighbouring columns come together), plain (as a csr "
                "matrix; where rows are short and columns many); computed: entries are made in every product, no "
                "memory and next to no time to build, quickest up to 4 columns (8 where building counts), of values "
                "and vectors in full; automatic: by the columns and the rows' lengths, of a projector computed up to "
                "8 columns and where a stored matrix would not fit the memory, unless options say how it is stored"),
      option<O>("columns", within(&O::product, &P::matrix, &M::columns), at_least(1, "column"),
                "columns at once (slices of a reconstruction), as expected; decides the automatic format"),
      option<O>("block_rows", within(&O::product, &P::matrix, &M::block_rows), between(0, 65536, "rows"),
                "rows of a block; 0: Tacit's choice"),
      option<O>("tile", within(&O::product, &P::matrix, &M::tile), tiles,
                "columns whose sums are kept in registers; 0: Tacit's choice"),
      option<O>("groups", within(&O::product, &P::groups), at_least(1, "rank"),
                "ranks of nested groups within which partial sums are added before they travel farther, inside out: "
                "3,6 for sockets of 3, nodes of 6"),
      option<O>("minibatch", within(&O::product, &P::minibatch), at_least(0, "columns"),
                "columns to a message, whose sums the product of the next ones hides; 0: all"),
      option<O>("tune", within(&O::product, &P::matrix, &M::tune),
                "format, block_rows and tile are chosen by timing products of `columns` columns with a sample of the "
                "rows, where they were left open (of a projector computed entries, too); what was found is kept in "
                "~/.cache/tacit/tiled.tsv"),
  };
  return all;
}

std::span<const Described> tiled_takers() {
  static constexpr Described all[] = {
      {"tiled",
       "values vectors order=natural,clustered,spectral,greedy,metis cluster_rows format=automatic,list,bitmap,plain "
       "columns block_rows tile groups minibatch tune",
       "a stored matrix", ""},
      {"projector", "values vectors order format columns block_rows tile groups minibatch tune",
       "the projector of a parallel beam", ""}};
  return all;
}

void check(const TiledRequest& request, std::string_view who) {
  check_values(tiled_options(), request);
  check_taken(tiled_options(), request, tiled_takers(), who);
}

TiledSpmmOptions TiledRequest::options() const {
  auto made = product;
  if (const auto how = layout::clustering_named(to_string(order.value_or(TiledOrder::natural))))
    made.clusters = layout::ClusterOptions{*how, cluster_rows};
  return made;
}

}  // namespace tacit::op
