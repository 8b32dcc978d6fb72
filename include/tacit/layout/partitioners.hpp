// Partitioners: assign rows to ranks. Renumbering: makes each rank's rows contiguous.
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

/// A graph distributed by vertices (the pattern of a matrix by rows): the neighbours of this rank's vertices, as global
/// indices in any order.
struct GraphView {
  std::span<const Global> start;
  std::span<const Global> column;
};

enum class Partitioner {
  automatic,  ///< METIS where the build has it and the graph is large enough for it, else bisection
  metis,      ///< METIS k-way, on rank 0; Error(environment) in a build without METIS
  bisection   ///< recursive bisection of the reverse Cuthill-McKee order, on rank 0
};
/// Whether this build has METIS.
bool metis_built() noexcept;

/// The owner, from 0 to parts - 1, of each of this rank's vertices: parts of about equal size with few edges between
/// them. The graph is made symmetric first. The same for any number of ranks. Collective. Rank 0 gathers the graph: 12
/// bytes for each edge, and at most 2^31 - 1 vertices. Source (metis): Karypis and Kumar (1998), doi
/// 10.1137/S1064827595287997.
std::vector<int> graph_parts(const comm::Communicator& comm, const Partition& partition, GraphView graph, int parts,
                             Partitioner how = Partitioner::automatic);

/// A renumbering of indices. Ranks own contiguous ranges in both numberings: `before` is the user's, `after` the
/// library's.
class Renumbering {
 public:
  /// The identity.
  static Renumbering none(const comm::Communicator& comm, const Partition& partition);
  /// From the new owner of each of this rank's old indices. A rank's new indices keep the order of the old ones.
  /// Collective. Error(usage) on an owner that is no rank.
  static Renumbering by_owner(const comm::Communicator& comm, const Partition& before, std::span<const int> owner);
  /// From the new index of each of this rank's old ones. Collective. Error(usage) unless it is a permutation.
  static Renumbering by_new_index(const comm::Communicator& comm, const Partition& before, const Partition& after,
                                  std::vector<Global> new_of_old);
  /// Permutes indices within ranks: position i gets the old index old_of_new[i] (local, a permutation). Collective.
  static Renumbering inside(const comm::Communicator& comm, const Partition& partition,
                            std::span<const Local> old_of_new);
  /// The composition: this one, then `next` (whose old numbers are this one's new ones). Collective.
  Renumbering then(const comm::Communicator& comm, const Renumbering& next) const;

  const Partition& before() const { return before_; }
  const Partition& after() const { return after_; }
  /// The new indices of this rank's old range, and the old indices of its new range.
  const std::vector<Global>& new_of_old() const { return new_of_old_; }
  const std::vector<Global>& old_of_new() const { return old_of_new_; }

  /// The new numbers of any old ones, in the order given, fetched from their owners. Collective.
  /// Error(usage) on an index out of range.
  std::vector<Global> to_new(const comm::Communicator& comm, std::span<const Global> old_indices) const;

  /// Moves values with k interleaved columns from the old ranges to the new ones, and back. Collective; every value is
  /// sent once. Error(usage) on a wrong length.
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
