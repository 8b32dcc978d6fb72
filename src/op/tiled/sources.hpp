// The rows of a rank and their transpose as sources for tiled matrices.
#pragma once

#include <tacit/op/tiled_spmm.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace tacit::op::detail {

/// A rank's part of a tiled operator: its numbers of rows and columns, and how its sums get to other ranks.
struct TiledPart {
  Local rows = 0, columns = 0;
  bool local = false;  ///< one rank, which touches all elements: nothing is added over ranks or spread
  std::unique_ptr<comm::SparseReduction> reduction;

  /// `touched`: as for TiledSpmm. Collective. Error(usage) for spaces that have no such operator.
  TiledPart(const Space& to, const Space& from, Split split, std::vector<Global> touched, const comm::Groups& groups) {
    const auto& comm = to.comm();
    require(comm == from.comm(), "rows and columns of a tiled matrix are on two communicators");
    require(!to.is_replicated() && !from.is_replicated(), "a tiled matrix works on distributed spaces");
    const Local there = checked_cast<Local>(touched.size(), "the number of elements that a rank touches");
    const bool by_columns = split == Split::columns;
    const Space& shared = by_columns ? to : from;
    rows = by_columns ? there : to.local_size(), columns = by_columns ? from.local_size() : there;
    local = comm.size() == 1 && Global(touched.size()) == shared.size();
    reduction = std::make_unique<comm::SparseReduction>(comm, shared.partition().offsets(), std::move(touched), groups);
  }
};

/// The number of entries over all ranks, of parts whose matrix and transpose have these. Collective. Error(usage) where
/// they differ.
inline Global entries_of(const comm::Communicator& comm, Global forward, Global backward) {
  require(forward == backward, "a matrix of ", forward, " entries, its transpose of ", backward);
  return comm.all_sum(forward);
}

/// Adds the messages of a product that begins with a spread, or ends with sums, of T.
template <class T>
void add_messages(Cost& cost, const comm::Communicator& comm, const comm::SparseReduction& reduction, bool spread,
                  comm::MessageFormat format) {
  if (comm.size() == 1) return;
  cost.messages = double(reduction.messages(spread));
  cost.message_bytes = double(reduction.bytes<T>(spread, format));
}

/// From rows as for Csr, but with entries in any order, which have to stay: Split::rows. Twice the matrix in memory.
template <class T>
struct RowSources {
  std::vector<Global> touched;  ///< the columns of this rank's entries; on one rank all
  std::vector<std::int64_t> start;
  std::vector<Local> column, row;
  std::vector<T> value;
  const Rows<T>& rows;

  /// Error(usage) for rows that do not fit the spaces.
  RowSources(const layout::Space& to, const layout::Space& from, const Rows<T>& given) : rows(given) {
    const auto& comm = to.comm();
    require(rows.count() == to.local_size(), "rank ", comm.rank(), " owns ", to.local_size(), " rows but was given ",
            rows.count());
    require(rows.column.size() == rows.value.size() && Global(rows.column.size()) == rows.start.back(),
            "a tiled matrix with ", rows.column.size(), " columns, ", rows.value.size(), " values and ",
            rows.start.back(), " entries by its row starts");
    for (const Global c : rows.column)
      require(c >= 0 && c < from.size(), "an entry in column ", c, "; columns run from 0 to ", from.size() - 1);
    touched.assign(rows.column.begin(), rows.column.end());
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    if (comm.size() == 1)
      touched.resize(std::size_t(from.size())), std::iota(touched.begin(), touched.end(), Global(0));
    const auto place = [&](Global c) {
      return comm.size() == 1 ? Local(c) : Local(std::lower_bound(touched.begin(), touched.end(), c) - touched.begin());
    };
    start.resize(touched.size() + 1);
    column.resize(rows.column.size()), row.resize(rows.column.size()), value.resize(rows.column.size());
    for (std::size_t i = 0; i < column.size(); ++i) ++start[std::size_t(column[i] = place(rows.column[i])) + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    auto next = start;
    for (Local r = 0; r < rows.count(); ++r)
      for (Global i = rows.start[std::size_t(r)]; i < rows.start[std::size_t(r) + 1]; ++i) {
        const auto at = std::size_t(next[std::size_t(column[std::size_t(i)])]++);
        row[at] = r, value[at] = rows.value[std::size_t(i)];
      }
  }

  RowSource<T> forward() const {
    return [this](Local begin, Local end, RowBuffer<T>& out) {
      for (Local r = begin; r < end; ++r) {
        for (Global i = rows.start[std::size_t(r)]; i < rows.start[std::size_t(r) + 1]; ++i)
          out.add(column[std::size_t(i)], rows.value[std::size_t(i)]);
        out.end_row();
      }
    };
  }
  RowSource<T> backward() const {
    return [this](Local begin, Local end, RowBuffer<T>& out) {
      for (Local r = begin; r < end; ++r) {
        for (auto i = start[std::size_t(r)]; i < start[std::size_t(r) + 1]; ++i)
          out.add(row[std::size_t(i)], value[std::size_t(i)]);
        out.end_row();
      }
    };
  }
};

}  // namespace tacit::op::detail
