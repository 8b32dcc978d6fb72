#include "op/wavefront.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace tacit::op {

ReadColumns::ReadColumns(std::span<const Global> start, std::span<const Global> column) {
  const auto rows = start.size() - 1, groups = (rows + group - 1) / group;
  least_.resize(groups), most_.resize(groups);
  // Groups of rows without entries read what the one before reads.
  Local most = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    Local least = std::numeric_limits<Local>::max();
    for (std::size_t r = g * group; r < std::min(rows, (g + 1) * group); ++r) {
      if (start[r] == start[r + 1]) continue;
      least = std::min(least, Local(column[std::size_t(start[r])]));
      most = std::max(most, Local(column[std::size_t(start[r + 1]) - 1]));
    }
    least_[g] = std::min(least, most), most_[g] = most;
  }
  for (std::size_t g = groups; g-- > 1;) least_[g - 1] = std::min(least_[g - 1], least_[g]);
}

bool Wavefront::divide(int parts) {
  const int stages = this->stages();
  ranges_.resize(std::size_t(parts * stages));
  for (int i = 0; i < parts; ++i) {
    const auto cut = [&](int k) { return int(std::int64_t(count_[0]) * k / parts); };
    range(i, 0) = {cut(i), cut(i + 1)};
    for (int k = 1; k < stages; ++k) {
      const Needs& needs = *needs_[std::size_t(k)];
      const BlockRange before = range(i, k - 1);
      const auto first = i == 0 ? needs.begin() : std::partition_point(needs.begin(), needs.end(), [&](const auto& n) {
        return n.begin < before.begin;
      });
      const auto last = i + 1 == parts ? needs.end()
                                       : std::partition_point(needs.begin(), needs.end(),
                                                              [&](const auto& n) { return n.end <= before.end; });
      range(i, k) = {int(first - needs.begin()), int(last - needs.begin())};
    }
  }
  // What threads do at first, out of all.
  double own = 0, all = 0;
  for (int k = 0; k < stages; ++k) {
    all += 1;
    for (int i = 0; i < parts; ++i) {
      if (range(i, k).count() <= 0 && parts > 1) return false;
      own += double(range(i, k).count()) / double(std::max(1, count_[std::size_t(k)]));
    }
  }
  return parts == 1 || own > 0.75 * all;
}

}  // namespace tacit::op
