// Partitioners: who should own which rows, and the renumbering that makes every rank's rows contiguous.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/layout/ordering.hpp>
#include <tacit/layout/space.hpp>

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tacit::layout {

/// Contiguous ranges of about the same weight: with a row's number of entries as its weight, block rows of equal work.
/// `weight`: of this rank's indices in `partition`, none negative. Equal lengths where all weights are zero.
/// Collective: one gather of P numbers. Error(usage) on a wrong length or a negative weight.
Partition weighted_blocks(const comm::Communicator& comm, const Partition& partition, std::span<const Global> weight);

/// A graph spread by rows: the neighbours of this rank's vertices, global indices, in any order; the pattern of a
/// matrix.
struct GraphView {
  std::span<const Global> start;
  std::span<const Global> column;
};

enum class Partitioner {
  automatic,  ///< METIS where the build has it and the graph is large enough for it to work, else bisection
  metis,      ///< METIS k-way, on rank 0; Error(environment) in a build without
  bisection   ///< the reverse Cuthill-McKee order cut in two, each part again; on rank 0
};
/// Whether this build has METIS.
bool metis_built() noexcept;

/// The owner, from 0 to parts - 1, of each of this rank's vertices: parts of about equal size with few edges between
/// them. The graph is made symmetric first. The same for any number of ranks. Collective. Rank 0 gathers the graph: 12
/// bytes an edge there, and 2^31 - 1 vertices at most. Source (metis): Karypis and Kumar (1998),
/// doi 10.1137/S1064827595287997.
std::vector<int> graph_parts(const comm::Communicator& comm, const Partition& partition, GraphView graph, int parts,
                             Partitioner how = Partitioner::automatic);

/// Entries (i, j) of the graph whose ends belong to different owners, over all ranks. Collective.
Global edge_cut(const comm::Communicator& comm, const Partition& partition, GraphView graph,
                std::span<const int> owner);

/// Old numbers and new ones. In both, ranks own contiguous ranges: `before` is the user's, `after` the library's.
class Renumbering {
 public:
  /// Everything stays.
  static Renumbering none(const comm::Communicator& comm, const Partition& partition);
  /// Owners of this rank's old indices. A rank's new indices are in the order of the old ones. Collective.
  /// Error(usage) on an owner that is no rank.
  static Renumbering by_owner(const comm::Communicator& comm, const Partition& before, std::span<const int> owner);
  /// The new index of each of this rank's old ones. Collective. Error(usage) unless that is a permutation.
  static Renumbering by_new_index(const comm::Communicator& comm, const Partition& before, const Partition& after,
                                  std::vector<Global> new_of_old);
  /// This rank's old indices in a new order, place i being taken by old_of_new[i] (local, a permutation). Collective.
  static Renumbering inside(const comm::Communicator& comm, const Partition& partition,
                            std::span<const Local> old_of_new);
  /// The whole graph in reverse Cuthill-McKee order, over the same partition. Collective; rank 0 gathers the graph.
  static Renumbering cuthill_mckee(const comm::Communicator& comm, const Partition& partition, GraphView graph);
  /// First this one, then `next` (whose old numbers are this one's new ones). Collective.
  Renumbering then(const comm::Communicator& comm, const Renumbering& next) const;

  const Partition& before() const { return before_; }
  const Partition& after() const { return after_; }
  /// New indices of this rank's old range, old indices of its new range.
  const std::vector<Global>& new_of_old() const { return new_of_old_; }
  const std::vector<Global>& old_of_new() const { return old_of_new_; }

  /// New (old) numbers of any old (new) ones, in the order given. Collective; asks their owners.
  /// Error(usage) on an index outside.
  std::vector<Global> to_new(const comm::Communicator& comm, std::span<const Global> old_indices) const;
  std::vector<Global> to_old(const comm::Communicator& comm, std::span<const Global> new_indices) const;

  /// Values of this rank's new range from those of everybody's old ones, k interleaved columns; and back.
  /// Collective; every value travels once. Error(usage) on a wrong length.
  template <class T>
  std::vector<T> forward(const comm::Communicator& comm, std::span<const T> values, int columns = 1) const {
    return move(comm, values, columns, away_, arrive_, before_, after_);
  }
  template <class T>
  std::vector<T> backward(const comm::Communicator& comm, std::span<const T> values, int columns = 1) const {
    return move(comm, values, columns, arrive_, away_, after_, before_);
  }

 private:
  // Rank by rank, the local positions that are sent there (or come from there), in the order of the new indices.
  struct Route {
    std::vector<int> rank;
    std::vector<std::vector<Local>> position;
  };
  Renumbering() = default;
  static std::vector<Global> look_up(const comm::Communicator& comm, const Partition& owners,
                                     std::span<const Global> table, std::span<const Global> indices);
  template <class T>
  static std::vector<T> move(const comm::Communicator& comm, std::span<const T> values, int columns, const Route& from,
                             const Route& to, const Partition& here, const Partition& there);

  Partition before_, after_;
  std::vector<Global> new_of_old_, old_of_new_;
  Route away_, arrive_;
};

template <class T>
std::vector<T> Renumbering::move(const comm::Communicator& comm, std::span<const T> values, int columns,
                                 const Route& from, const Route& to, const Partition& here, const Partition& there) {
  static_assert(std::is_trivially_copyable_v<T>);
  return comm::collective(comm, [&] {
    const auto own = [&](const Partition& p) { return std::size_t(p.end(comm.rank()) - p.begin(comm.rank())); };
    require(columns >= 1 && values.size() == own(here) * std::size_t(columns), "rank ", comm.rank(), " owns ",
            own(here), " indices but was given ", values.size(), " values in ", columns, " columns");
    const std::size_t k = std::size_t(columns);
    std::vector<T> result(own(there) * k);
    std::vector<comm::Communicator::Parcel> parcels;
    for (std::size_t r = 0; r < from.rank.size(); ++r) {
      std::vector<std::byte> bytes(from.position[r].size() * k * sizeof(T));
      std::byte* out = bytes.data();
      for (Local i : from.position[r]) {
        std::memcpy(out, values.data() + std::size_t(i) * k, k * sizeof(T));
        out += k * sizeof(T);
      }
      parcels.push_back({from.rank[r], std::move(bytes)});
    }
    const auto arrived = comm.sparse_exchange(parcels);
    for (std::size_t r = 0; r < arrived.size(); ++r) {
      const std::byte* in = arrived[r].bytes.data();
      for (Local i : to.position[r]) {
        std::memcpy(result.data() + std::size_t(i) * k, in, k * sizeof(T));
        in += k * sizeof(T);
      }
    }
    return result;
  });
}

}  // namespace tacit::layout
