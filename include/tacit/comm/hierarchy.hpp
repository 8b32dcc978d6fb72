// SparseReduction: partial values of the same elements on many ranks, added up where they are owned; and, transposed,
// owned values spread to every rank that touches them. Over any number of levels of nested groups of ranks: within a
// socket, within a node, then between nodes. One level is the direct way.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::comm {

/// Sizes of nested groups of neighbouring ranks, from the inside out: {3, 6} is sockets of 3 ranks in nodes of 6. All
/// ranks together are the last level and are not named. Empty: direct.
using Groups = std::vector<int>;
/// "3,6" as groups. Error(usage) on anything else.
Groups parse_groups(const std::string& text);

/// What one level moves, in values of one column.
struct LevelVolume {
  int group = 0;        ///< ranks that exchange with each other
  Global touched = 0;   ///< values held before the level, those that stay included
  Global sent = 0;      ///< of them, those that go to another rank
  Global messages = 0;  ///< to other ranks
};

/// owned_i = sum over ranks of partial_i. In a group G of a level the values of elements owned by rank q are added on
/// the member at position q mod |G|, so that at the next level only ranks at equal positions talk. Every addition has a
/// fixed order: own value, then ranks ascending. Source: Hidayetoglu et al., Petascale XCT (2020),
/// doi 10.1109/SC41405.2020.00041, generalised to any levels.
class SparseReduction {
 public:
  /// `offsets`: rank r owns [offsets[r], offsets[r + 1]). `touched`: elements this rank has partial values of,
  /// ascending. Collective; a sparse exchange a level. Error(usage) where a group is not a multiple of the one within
  /// it or not larger, or `touched` does not ascend or lies outside.
  SparseReduction(Communicator comm, std::span<const Global> offsets, std::vector<Global> touched,
                  const Groups& groups = {});
  ~SparseReduction();
  SparseReduction(const SparseReduction&) = delete;

  const Communicator& comm() const;
  const std::vector<Global>& touched() const;
  Local owned() const;
  int levels() const;
  /// Of this rank, from the inside out.
  const std::vector<LevelVolume>& volume() const;
  /// The same summed over all ranks (group as here). Collective.
  std::vector<LevelVolume> total_volume() const;
  /// Messages and values a column that a sum (or a spread, whose messages go the other way) sends from here.
  Global messages(bool spread) const;
  Global values(bool spread) const;

  /// Starts own[i stride + c] = sum of partial[j columns + c], j the place of element i in touched(). All levels but
  /// the last are done on return; what the last one sends is under way. `partial` may be reused at once. Collective; at
  /// most two sums and spreads under way. Returns a token.
  template <class T>
  int start_sum(const T* partial, int columns);
  template <class T>
  void finish_sum(int token, T* own, int columns, int stride);
  /// Starts touched[j columns + c] = own[i stride + c]: the transposed of a sum. `own` stays as it is until the end.
  template <class T>
  int start_spread(const T* own, int columns, int stride);
  template <class T>
  void finish_spread(int token, const T* own, int columns, int stride, T* touched);
  /// Fewer than two are under way.
  bool has_room() const;
  /// Nobody will finish it. Sends nothing.
  void abandon(int token) noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::comm
