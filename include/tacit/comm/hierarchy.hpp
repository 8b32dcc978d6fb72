// SparseReduction: sums partial values of elements, held by several ranks, on the elements' owners; its transpose
// spreads owned values to every rank that touches them. It goes through any number of levels of nested groups of ranks:
// within a socket, within a node, between nodes.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::comm {

/// Sizes of nested groups of consecutive ranks, innermost first: {3, 6} is sockets of 3 ranks in nodes of 6. The level
/// of all ranks is implied. Empty: one level.
using Groups = std::vector<int>;
/// "3,6" as groups. Error(usage) on anything else.
Groups parse_groups(const std::string& text);

/// How messages hold the values. full: as they are. fixed16 (of floats): whole numbers of 16 bits, scaled by a power of
/// two for every 64 values of a column, with the rounding error of a value added to the next one of its column, so that
/// sums of neighbours keep theirs. A value is off by at most 1.5 2^-14 of the largest of its 64 (or 2^-126, where
/// these are tiny), zeros stay zero, and infinities and NaN arrive as they are. Sums are formed in float.
enum class MessageFormat { full, fixed16 };

/// The usual rounding error of a value, relative to the largest of its 64: half a unit; 0 of `full`.
constexpr double half_unit(MessageFormat format) {
  return format == MessageFormat::fixed16 ? 0x1p-15 : 0;
}

/// The volume that one level moves, in values of one column.
struct LevelVolume {
  int group = 0;        ///< ranks that exchange with each other
  Global touched = 0;   ///< values held before the level
  Global sent = 0;      ///< of these, values sent to other ranks
  Global messages = 0;  ///< to other ranks
};

/// owned_i = sum over ranks of partial_i. In a group G of a level the values of elements owned by rank q are added on
/// the member at position q mod |G|, so that at the next level only ranks at equal positions communicate. The order of
/// additions is fixed: own value first, then ranks ascending. Source: Hidayetoglu et al., Petascale XCT (2020), doi
/// 10.1109/SC41405.2020.00041, generalised to any number of levels.
class SparseReduction {
 public:
  /// `offsets`: rank r owns [offsets[r], offsets[r + 1]). `touched`: the elements that this rank has partial values of,
  /// ascending. Collective; one sparse exchange for each level. Error(usage) where a group size is not a larger
  /// multiple of the one before it, or `touched` is not ascending or out of range.
  SparseReduction(Communicator comm, std::span<const Global> offsets, std::vector<Global> touched,
                  const Groups& groups = {});
  ~SparseReduction();
  SparseReduction(const SparseReduction&) = delete;

  const Communicator& comm() const;
  const std::vector<Global>& touched() const;
  Local owned() const;
  int levels() const;
  /// This rank's volume at each level, innermost first.
  const std::vector<LevelVolume>& volume() const;
  /// The same summed over all ranks (group as here). Collective.
  std::vector<LevelVolume> total_volume() const;
  /// The messages, and the values of a column, that this rank sends in a sum (or in a spread, whose messages go the
  /// other way).
  Global messages(bool spread) const;
  Global values(bool spread) const;
  /// The bytes of these messages for a column of T: with fixed16 half of those of floats and 2 for each 64 values of a
  /// message, begun ones counted.
  template <class T>
  Global bytes(bool spread, MessageFormat format) const;

  /// Starts own[i stride + c] = sum over ranks of partial[j columns + c], where j is the position of element i in
  /// touched(). On return all levels but the last are done, the messages of the last are in flight, and `partial` may
  /// be reused. With fixed16 partial sums are rounded at every level where they are sent. Collective, with one format;
  /// at most two sums and spreads may be in flight. Returns a token. Error(usage): fixed16 of doubles.
  template <class T>
  int start_sum(const T* partial, int columns, MessageFormat format = MessageFormat::full);
  template <class T>
  void finish_sum(int token, T* own, int columns, int stride);
  /// Starts touched[j columns + c] = own[i stride + c], the transpose of a sum. `own` must not change until
  /// finish_spread(). With fixed16 ranks get rounded values, at every level again, except of elements that they own.
  template <class T>
  int start_spread(const T* own, int columns, int stride, MessageFormat format = MessageFormat::full);
  template <class T>
  void finish_spread(int token, const T* own, int columns, int stride, T* touched);
  /// Whether fewer than two are in flight.
  bool has_room() const;
  /// Gives up a sum or spread that will not be finished. Sends nothing.
  void abandon(int token) noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::comm
