// Contributions: entries that any rank adds to any row of a matrix. Where they go is found once, for many sets of
// values.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace tacit::op {

/// The places (i, j) that this rank contributes to, and the entries of this rank's rows that all ranks contribute to.
///
/// sum() makes the values of these entries from values of the contributions; spread() does the reverse. An entry is the
/// sum of what is added to it, from the smallest magnitude to the largest, so that its bits depend neither on the order
/// nor on the ranks of the contributions; an entry that is inserted is the last value that a rank gives. Vectors have
/// one column, 0.
///
/// Memory: 4 bytes for each contribution given or received, 20 for each entry; while it is made, 16 more for each
/// contribution.
class Contributions {
 public:
  /// The places of this rank's contributions, in any order, repeated as often as wanted; `inserted` (empty: none) says
  /// of each whether it is inserted. Error(usage): an index out of range, or an entry both added to and inserted.
  /// Collective; one message to each rank that owns rows of places given here.
  Contributions(const comm::Communicator& comm, layout::Partition rows, Global columns, std::span<const Global> row,
                std::span<const Global> column, std::span<const std::uint8_t> inserted = {});
  Contributions(const Contributions&) = delete;

  const comm::Communicator& comm() const { return comm_; }
  /// Contributions of this rank, and the ranks that it sends some of them to.
  Local given() const { return given_; }
  int receivers() const { return int(pattern_->send_ranks.size()); }
  /// The entries of this rank's rows: those of row i are [start()[i], start()[i + 1]) of column(), ascending.
  std::span<const Global> start() const { return start_; }
  std::span<const Global> column() const { return column_; }

  /// The entries, from `width` real numbers of each contribution (k columns of real numbers, or 2 k parts of complex
  /// ones). `Real` is float or double. Error(usage): another number of values, or ranks that insert values that differ
  /// by more than rounding. Collective; one exchange, one message to each of receivers().
  template <class Real>
  void sum(std::span<const Real> contributions, int width, std::span<Real> entries);
  /// The contributions, each with the value of its entry: the adjoint of a sum. Error(usage): another number of values.
  /// Collective; one exchange.
  template <class Real>
  void spread(std::span<const Real> entries, int width, std::span<Real> contributions);

 private:
  struct Slot;
  struct Places {
    std::span<const Global> row, column;
    std::span<const std::uint8_t> inserted;
    Global key(std::size_t i) const { return 2 * column[i] + (inserted.empty() ? 0 : inserted[i]); }
  };
  std::vector<comm::Communicator::Parcel> send(const Places& given);
  template <class F>
  void each(const Places& given, const std::vector<comm::Communicator::Parcel>& arrived, F&& f) const;
  void order(const Places& given, const std::vector<comm::Communicator::Parcel>& arrived);
  [[noreturn]] void refuse_both(std::size_t row, const Slot& a, const Slot& b) const;
  comm::Exchange& exchange(std::size_t bytes);
  void require_numbers(std::size_t of_contributions, std::size_t of_entries, int width) const;
  int rank_of(Local source) const;
  /// What several contributions of one part come to; false where ranks insert different values.
  template <class Real>
  bool total(std::size_t entry, int width, int part, const Real* own, const Real* arrived, std::vector<Real>& values,
             Real& result) const;

  comm::Communicator comm_;
  layout::Partition rows_;
  Global columns_;
  Local given_ = 0;
  std::shared_ptr<comm::Pattern> pattern_;  // send_index: contributions to rows of other ranks; ghosts: arrivals
  std::vector<Global> start_, column_;
  std::vector<Local> first_,
      source_;  // entry e has source_[first_[e]] ..: contributions, then (from given_ on) arrivals
  std::vector<std::uint8_t> inserted_;                                // of each entry; empty: none
  std::map<std::size_t, std::unique_ptr<comm::Exchange>> exchanges_;  // by bytes of a contribution
};

}  // namespace tacit::op
