// Agglomeration: levels with few unknowns on each rank move to fewer ranks.
#pragma once

#include <tacit/op/csr.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::precond {

/// Everything that the r-th rank with elements has goes to rank r / by. Elements keep their numbers, since these ascend
/// with the ranks.
class Gathering {
 public:
  Gathering(layout::Space from, int by);
  const layout::Space& from() const { return from_; }
  const layout::Space& to() const { return to_; }
  /// The values of this rank's senders, in their order. Collective.
  template <class V, class Allocator>
  std::vector<V, Allocator> moved(const std::vector<V, Allocator>& own) const {
    std::vector<V, Allocator> all;
    for (const auto& bytes : sent(std::as_bytes(std::span(own)))) {
      const auto before = all.size();
      all.resize(before + bytes.size() / sizeof(V));
      if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
    }
    return all;
  }
  /// Collective.
  template <Scalar T>
  op::Rows<T> moved(const op::Rows<T>& own) const;
  /// x -> x, from vectors of from() to those of to(): one exchange. Collective.
  template <Scalar T>
  std::unique_ptr<op::Csr<T>> mover() const;

 private:
  std::vector<std::vector<std::byte>> sent(std::span<const std::byte> own) const;
  layout::Space from_, to_;
  int target_ = 0;  // of this rank's elements
};

/// Ranks that have elements.
int ranks_in_use(const layout::Space& space);

/// A level whose rows may move to fewer ranks, and what coarser levels will be like. The same on all ranks.
struct Spread {
  Global rows = 0, entries = 0;
  int ranks = 1;
  double coarsening = 8;  ///< rows of a level over those of the next one
  Global coarsest = 400;
  int sweeps = 1;
  std::size_t number_bytes = 8;
  std::vector<int> neighbours{1};  ///< groups of 2^k ranks with rows that one rank's rows refer to, at most
  // A machine of today, not the one at hand: measured times would make other levels in every run.
  double latency = 1.5e-6;  ///< seconds of a message
  double message = 0.3e-6;  ///< seconds that it takes a rank to send and receive one
  double bandwidth = 40e9;  ///< bytes per second of a rank; levels this small are in cache
};
/// Spread::neighbours of the level with these rows on this rank, for k = 0 up to one group of all ranks. Where ranks
/// move together their neighbours are counted by this, too: what they refer to is mostly the same. Collective.
template <Scalar T>
std::vector<int> neighbours_of(const op::Rows<T>& rows, const layout::Space& space);
/// Seconds of a V-cycle on this level and all coarser ones, the last solved directly: [k] if every 2^k ranks move to
/// one now (0: they stay), up to all ranks to one. Coarser levels move where that takes the least. Local.
std::vector<double> seconds_of(const Spread& level);
/// The power of two `by` for which the level takes the least time on ranks / by ranks (rounded up), 1 unless a tenth of
/// the time is saved; `why` explains it. Local.
int cheapest_gathering(const Spread& level, std::string& why);

}  // namespace tacit::precond
