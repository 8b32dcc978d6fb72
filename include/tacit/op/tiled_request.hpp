// The options of tiled matrices as users give them: one table for Python, the command line and documents.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/tiled_spmm.hpp>

namespace tacit::op {

/// The order in which rows and columns are stored.
enum class TiledOrder { natural, hilbert, clustered, spectral, greedy, metis };

struct TiledRequest {
  TiledSpmmOptions product;
  std::optional<TiledOrder> order;
  Local cluster_rows = 1024;
  /// `product`, with clusters where `order` names a kind of clustering.
  TiledSpmmOptions options() const;
};
std::span<const Option<TiledRequest>> tiled_options();
/// Who takes which of these options: "tiled", a stored matrix, and "projector" (app/tomography/projector.hpp).
std::span<const Described> tiled_takers();
/// Error(usage) for values out of range and for options that `who` does not take.
void check(const TiledRequest& request, std::string_view who);

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::TiledOrder> = named<op::TiledOrder>("order",
                                                                       {{op::TiledOrder::natural, "natural"},
                                                                        {op::TiledOrder::hilbert, "hilbert"},
                                                                        {op::TiledOrder::clustered, "clustered"},
                                                                        {op::TiledOrder::spectral, "spectral"},
                                                                        {op::TiledOrder::greedy, "greedy"},
                                                                        {op::TiledOrder::metis, "metis"}});
}  // namespace tacit
