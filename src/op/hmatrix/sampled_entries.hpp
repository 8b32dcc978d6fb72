// Entries of A at random places, evaluated before A is compressed and compared with its low-rank blocks.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>
#include <tacit/op/hmatrix/hash.hpp>

#include "crosses.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op::detail {

// diag(sigma) V^H of a block, the column j of it; and the entry of the block in row i.
template <Scalar T>
std::vector<T> factors(const Compressed<T>& made, Local j) {
  std::vector<T> factor(std::size_t(made.rank));
  for (std::size_t l = 0; l < factor.size(); ++l)
    factor[l] = made.sigma[l] * conj(made.v[std::size_t(j) + l * std::size_t(made.columns)]);
  return factor;
}
template <Scalar T>
T value(const Compressed<T>& made, Local i, const std::vector<T>& factor) {
  T sum(0);
  for (std::size_t l = 0; l < factor.size(); ++l)
    sum += made.u[std::size_t(i) + l * std::size_t(made.rows)] * factor[l];
  return sum;
}

/// Some rows and some columns, drawn from all of A, many times: sampled are the entries in which they meet. Errors of
/// crosses are in few rows and columns of a block (those that no cross has met), so that many small draws see more of
/// them than one large one, and all of a draw are evaluated by one call.
template <Scalar T>
class SampledEntries {
 public:
  /// Draws about `wanted` entries, the same on every rank. Local.
  SampledEntries(const ClusterTree& rows, const ClusterTree& columns, double wanted) : rows_(rows), columns_(columns) {
    const auto side = Local(std::sqrt(std::max(0.0, wanted) / draws));
    Hash hash{7};
    const auto draw = [&](Local n) {
      std::vector<Local> places;
      for (Local k = 0; k < std::min(side, n); ++k) places.push_back(hash.below(n));
      std::sort(places.begin(), places.end());
      places.erase(std::unique(places.begin(), places.end()), places.end());
      return places;
    };
    for (int q = 0; q < draws && side > 0; ++q) draws_.push_back({draw(rows.size()), draw(columns.size()), {}});
    for (std::size_t q = 0; q < draws_.size(); ++q) {
      add(row_places_, draws_[q].rows, q), add(column_places_, draws_[q].columns, q);
      count_ += double(draws_[q].rows.size()) * double(draws_[q].columns.size());
    }
    for (auto* places : {&row_places_, &column_places_})
      std::sort(places->begin(), places->end(), [](const Place& a, const Place& b) { return a.at < b.at; });
  }

  /// Evaluates them, shared by the ranks; returns the number of entries that this rank has evaluated. Collective.
  Global evaluate(const EntryFunction<T>& entry, const comm::Communicator& comm) {
    std::vector<T> own;
    Global evaluated = 0;
    for (std::size_t q = std::size_t(comm.rank()); q < draws_.size(); q += std::size_t(comm.size())) {
      const auto i = names(draws_[q].rows, rows_), j = names(draws_[q].columns, columns_);
      const std::size_t first = own.size();
      own.resize(first + i.size() * j.size());
      entry(i, j, own.data() + first);
      check_finite<T>(std::span<const T>(own).subspan(first), i, j);
      evaluated += Global(i.size() * j.size());
    }
    const std::vector<T> all = comm.all_gather(std::span<const T>(own));
    size2_ = 0;
    std::size_t at = 0;
    for (int rank = 0; rank < comm.size(); ++rank)
      for (std::size_t q = std::size_t(rank); q < draws_.size(); q += std::size_t(comm.size())) {
        Draw& d = draws_[q];
        d.values.assign(all.begin() + std::ptrdiff_t(at),
                        all.begin() + std::ptrdiff_t(at + d.rows.size() * d.columns.size()));
        at += d.values.size();
        size2_ += norm2(d.values.data(), Local(d.values.size()));
      }
    return evaluated;
  }

  /// The entries of A for each sampled one; 0 without samples.
  double weight() const { return count_ > 0 ? double(rows_.size()) * columns_.size() / count_ : 0; }
  /// The squared Frobenius norm of A, estimated. Local.
  double size2() const { return weight() * size2_; }

  /// The squared error of the sampled entries in a block of low rank. Local.
  double missed2(const Block& b, const Compressed<T>& made) const {
    double sum = 0;
    if (made.dense) return sum;
    const auto in_rows = within(row_places_, b.row_begin, b.row_end);
    for (const Place& column : within(column_places_, b.column_begin, b.column_end)) {
      std::vector<T> factor;
      for (const Place& row : in_rows) {
        if (row.draw != column.draw) continue;
        if (factor.empty()) factor = factors(made, column.at - b.column_begin);
        const Draw& d = draws_[row.draw];
        const T error = d.values[row.index + column.index * d.rows.size()] - value(made, row.at - b.row_begin, factor);
        sum += norm2(&error, 1);
      }
    }
    return sum;
  }

 private:
  static constexpr int draws = 64;
  struct Draw {
    std::vector<Local> rows, columns;  // positions in the trees, ascending
    std::vector<T> values;             // by columns
  };
  static std::vector<Global> names(const std::vector<Local>& places, const ClusterTree& tree) {
    std::vector<Global> made;
    for (const Local p : places) made.push_back(tree.order()[std::size_t(p)]);
    return made;
  }
  struct Place {
    Local at;
    std::size_t draw, index;
  };
  void add(std::vector<Place>& places, const std::vector<Local>& drawn, std::size_t draw) {
    for (std::size_t k = 0; k < drawn.size(); ++k) places.push_back({drawn[k], draw, k});
  }
  static std::span<const Place> within(const std::vector<Place>& places, Local begin, Local end) {
    const auto before = [](const Place& p, Local at) { return p.at < at; };
    const auto first = std::lower_bound(places.begin(), places.end(), begin, before);
    return {first, std::lower_bound(first, places.end(), end, before)};
  }

  const ClusterTree &rows_, &columns_;
  std::vector<Draw> draws_;
  std::vector<Place> row_places_, column_places_;  // of all draws, ascending
  double count_ = 0, size2_ = 0;
};

}  // namespace tacit::op::detail
