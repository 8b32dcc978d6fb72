// The rows of a matrix around those of a rank: with them it multiplies several times after one exchange.
#pragma once

#include "powers.hpp"

#include <tacit/op/local_matrix.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace tacit::op {

/// This rank's rows of a square matrix, and those around them, as one matrix in the order of the whole one. Once the
/// ghosts of a vector have arrived, so many products with it are right in this rank's rows. Memory: on one rank none;
/// on several a copy of these rows.
template <Scalar T>
class RowsAround {
 public:
  /// All rows, on one rank.
  explicit RowsAround(const LocalMatrix<T>& all)
      : matrix_(&all), end_(all.blocks() ? all.first_row(all.blocks()) : 0) {}
  /// `own`: this rank's rows. Collective.
  RowsAround(const layout::Space& space, const Rows<T>& own, Surroundings<T>& around, int levels, Format format)
      : around_(&around), levels_(levels) {
    reach_ = &around.make(levels, [&] { return own; });
    const auto& ghosts = reach_->pattern->ghosts;
    begin_ = Local(std::lower_bound(ghosts.begin(), ghosts.end(), space.begin()) - ghosts.begin());
    end_ = begin_ + Local(space.local_size());
    LocalRows<T> rows;
    rows.columns = Local(ghosts.size()) + end_ - begin_;
    rows.row_begin = rows.column_begin = space.begin() - begin_;
    const auto place = [&](Global c) {
      if (c >= space.begin() && c < space.end()) return begin_ + Local(c - space.begin());
      return row_of(Local(std::lower_bound(ghosts.begin(), ghosts.end(), c) - ghosts.begin()));
    };
    std::vector<std::pair<Local, T>> entries;
    const auto add_ghost = [&](Local i) {  // without entries in the outermost level
      entries.clear();
      if (reach_->place[std::size_t(i)] < around.ghosts(levels - 1))
        around.each_entry(reach_->place[std::size_t(i)], [&](Global c, T v) { entries.emplace_back(place(c), v); });
      std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [c, v] : entries) rows.column.push_back(c), rows.value.push_back(v);
      rows.start.push_back(Global(rows.column.size()));
    };
    for (Local i = 0; i < begin_; ++i) add_ghost(i);
    for (std::size_t r = 0; r + 1 < own.start.size(); ++r) {
      for (Global k = own.start[r]; k < own.start[r + 1]; ++k)
        rows.column.push_back(place(own.column[std::size_t(k)])), rows.value.push_back(own.value[std::size_t(k)]);
      rows.start.push_back(Global(rows.column.size()));
    }
    for (Local i = begin_; i < Local(ghosts.size()); ++i) add_ghost(i);
    own_matrix_ = std::make_unique<LocalMatrix<T>>(rows, format);
    matrix_ = own_matrix_.get();
  }

  const LocalMatrix<T>& matrix() const { return *matrix_; }
  /// This rank's rows in it.
  Local begin() const { return begin_; }
  Local end() const { return end_; }
  Local rows() const { return end_ + (reach_ ? Local(reach_->place.size()) - begin_ : 0); }
  /// The products that an exchange is good for; 0 on one rank, which needs none.
  int levels() const { return levels_; }
  /// Of the ghosts of so many vectors, interleaved; null on one rank.
  comm::Exchange* exchange(int vectors) const { return reach_ ? &around_->exchange(*reach_, vectors) : nullptr; }
  /// The row of a ghost, by its number in what an exchange brings.
  Local row_of(Local ghost) const { return ghost < begin_ ? ghost : ghost + (end_ - begin_); }

 private:
  Surroundings<T>* around_ = nullptr;
  typename Surroundings<T>::Reach* reach_ = nullptr;
  std::unique_ptr<LocalMatrix<T>> own_matrix_;
  const LocalMatrix<T>* matrix_ = nullptr;
  Local begin_ = 0, end_ = 0;
  int levels_ = 0;
};

}  // namespace tacit::op
