// What a rank knows of the rows around its own, so that it can make several powers of a matrix from one exchange.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace tacit::op {

/// Ghosts by levels: level 1 are the columns that own rows have elsewhere, level l + 1 those that rows of level l have
/// and nobody before. Ghost i's row is summed like its owner sums it: the columns of the owner first, the others after
/// them.
template <Scalar T>
class Surroundings {
 public:
  /// The ghosts of `steps` levels, as one exchange brings them.
  struct Reach {
    std::shared_ptr<const comm::Pattern> pattern;
    std::vector<Local> place;                                  // of what arrives, among the ghosts by levels
    std::map<int, std::unique_ptr<comm::Exchange>> exchanges;  // by values an element
  };

  Surroundings(const layout::Space& space, const comm::Pattern& near) : space_(space) {
    level_end_.push_back(0);
    append(near.ghosts);
  }

  Local ghosts(int level) const { return level_end_[std::size_t(level)]; }  ///< up to this level

  /// Null where it is not made yet.
  Reach* find(int steps) {
    const auto found = reaches_.find(steps);
    return found == reaches_.end() ? nullptr : &found->second;
  }
  /// Collective. `rows` gives this rank's rows.
  template <class Own>
  Reach& make(int steps, Own&& rows) {
    Reach& r = reaches_[steps];
    const auto& comm = space_.comm();
    if (int(level_end_.size()) <= steps) {
      const auto own = rows();
      while (int(level_end_.size()) <= steps) fetch(own);
    }
    std::vector<Global> needed(ghosts_.begin(), ghosts_.begin() + ghosts(steps));
    std::sort(needed.begin(), needed.end());
    for (const Global g : needed) r.place.push_back(position_.at(g));
    r.pattern = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(comm, space_.partition().offsets(), std::move(needed)));
    return r;
  }
  comm::Exchange& exchange(Reach& r, int values) const {
    auto& e = r.exchanges[values];
    if (!e) e = std::make_unique<comm::Exchange>(space_.comm(), r.pattern, sizeof(T) * std::size_t(values));
    return *e;
  }

  /// y_i = A_i x for the first n ghosts, K columns (0: `columns` of them); own: x where this rank owns it.
  template <int K>
  void multiply(Local n, const T* x, const T* own, T* y, int columns) const {
    const int k = K > 0 ? K : columns;
    exec::parallel_for(std::size_t(n), n > 2048, [&](std::size_t i) {
      const Global near = start_[2 * i], far = start_[2 * i + 1], end = start_[2 * i + 2];
      T* const to = y + std::ptrdiff_t(i) * k;
      constexpr int tile = K > 0 ? K : 4;
      for (int c0 = 0; c0 < k; c0 += tile) {
        const int m = K > 0 ? K : std::min(tile, k - c0);
        T sum[tile] = {};
        for (Global e = near; e < far; ++e) {
          const T a = value_[e];
          const T* const from = x + std::ptrdiff_t(column_[e]) * k + c0;
          for (int c = 0; c < m; ++c) sum[c] += a * from[c];
        }
        if (far < end) {
          T rest[tile] = {};
          for (Global e = far; e < end; ++e) {
            const T a = value_[e];
            const Local at = column_[e];
            const T* const from = (at >= 0 ? x + std::ptrdiff_t(at) * k : own + std::ptrdiff_t(~at) * k) + c0;
            for (int c = 0; c < m; ++c) rest[c] += a * from[c];
          }
          for (int c = 0; c < m; ++c) sum[c] += rest[c];
        }
        for (int c = 0; c < m; ++c) to[c0 + c] = sum[c];
      }
    });
  }
  void multiply(Local n, const T* x, const T* own, T* y, int columns) const {
    if (columns == 1) multiply<1>(n, x, own, y, 1);
    else if (columns == 2) multiply<2>(n, x, own, y, 2);
    else multiply<0>(n, x, own, y, columns);
    if (n > 0 && Trace::on()) {
      const auto entries = double(start_[2 * std::size_t(n)]);
      Trace::work("product", entries * (sizeof(T) + sizeof(Local)) + 2.0 * n * columns * sizeof(T),
                  (is_complex<T> ? 8 : 2) * columns * entries);
    }
  }

 private:
  /// One level more; `found` ascends.
  void append(const std::vector<Global>& found) {
    for (const Global g : found) {
      position_.emplace(g, Local(ghosts_.size()));
      ghosts_.push_back(g);
    }
    level_end_.push_back(checked_cast<Local>(ghosts_.size(), "the number of ghosts"));
  }

  /// The rows of the outermost level from their owners, and so the level behind it. Collective.
  void fetch(const Rows<T>& own) {
    using Parcel = comm::Communicator::Parcel;
    const auto& comm = space_.comm();
    const auto offsets = space_.partition().offsets();
    const std::size_t first = std::size_t(level_end_[level_end_.size() - 2]), last = ghosts_.size();
    const auto owner = [&](Global g) {
      return int(std::upper_bound(offsets.begin(), offsets.end(), g) - offsets.begin()) - 1;
    };
    std::vector<Parcel> wanted;
    for (std::size_t i = first; i < last;) {
      const int rank = owner(ghosts_[i]);
      std::size_t end = i;
      while (end < last && ghosts_[end] < offsets[std::size_t(rank) + 1]) ++end;
      const auto bytes = std::as_bytes(std::span(ghosts_).subspan(i, end - i));
      wanted.push_back({rank, {bytes.begin(), bytes.end()}});
      i = end;
    }
    // A reply: the lengths of the rows, then all columns, then all values.
    std::vector<Parcel> replies;
    for (const auto& asked : comm.sparse_exchange(wanted)) {
      std::vector<Global> lengths, columns;
      std::vector<T> values;
      for (std::size_t i = 0; i < asked.bytes.size() / sizeof(Global); ++i) {
        Global row;
        std::memcpy(&row, asked.bytes.data() + i * sizeof row, sizeof row);
        const Global begin = own.start[row - space_.begin()], end = own.start[row - space_.begin() + 1];
        lengths.push_back(end - begin);
        columns.insert(columns.end(), own.column.begin() + begin, own.column.begin() + end);
        values.insert(values.end(), own.value.begin() + begin, own.value.begin() + end);
      }
      Parcel reply{asked.rank, {}};
      for (const auto part :
           {std::as_bytes(std::span(lengths)), std::as_bytes(std::span(columns)), std::as_bytes(std::span(values))})
        reply.bytes.insert(reply.bytes.end(), part.begin(), part.end());
      replies.push_back(std::move(reply));
    }
    const auto arrived = comm.sparse_exchange(replies);  // by owners, as the ghosts of a level are
    const auto each_row = [&](auto&& f) {                // (its owner, columns, values)
      std::size_t ghost = first;
      for (const auto& parcel : arrived) {
        std::size_t rows = 0;
        while (ghost + rows < last && ghosts_[ghost + rows] < offsets[std::size_t(parcel.rank) + 1]) ++rows;
        std::vector<Global> lengths(rows);
        std::memcpy(lengths.data(), parcel.bytes.data(), rows * sizeof(Global));
        Global entries = 0;
        for (const Global length : lengths) entries += length;
        std::vector<Global> columns(static_cast<std::size_t>(entries));
        std::vector<T> values(static_cast<std::size_t>(entries));
        const std::byte* at = parcel.bytes.data() + rows * sizeof(Global);
        if (entries > 0) {
          std::memcpy(columns.data(), at, columns.size() * sizeof(Global));
          std::memcpy(static_cast<void*>(values.data()), at + columns.size() * sizeof(Global),
                      values.size() * sizeof(T));
        }
        Global from = 0;
        for (const Global length : lengths) {
          f(parcel.rank, std::span(columns).subspan(std::size_t(from), std::size_t(length)),
            std::span(values).subspan(std::size_t(from), std::size_t(length)));
          from += length;
        }
        ghost += rows;
      }
    };
    std::vector<Global> found;
    each_row([&](int, std::span<const Global> columns, std::span<const T>) {
      for (const Global c : columns)
        if ((c < space_.begin() || c >= space_.end()) && !position_.contains(c)) found.push_back(c);
    });
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    append(found);
    each_row([&](int rank, std::span<const Global> columns, std::span<const T> values) {
      const Global begin = offsets[std::size_t(rank)], end = offsets[std::size_t(rank) + 1];
      for (const bool near : {true, false}) {
        for (std::size_t k = 0; k < columns.size(); ++k) {
          const Global c = columns[k];
          if ((c >= begin && c < end) != near) continue;
          const bool mine = c >= space_.begin() && c < space_.end();
          column_.push_back(mine ? ~Local(c - space_.begin()) : position_.at(c));
          value_.push_back(values[k]);
        }
        start_.push_back(Global(column_.size()));
      }
    });
  }

  layout::Space space_;
  std::vector<Global> ghosts_;    // level after level, ascending in each
  std::vector<Local> level_end_;  // [l]: ghosts up to level l
  std::unordered_map<Global, Local> position_;
  std::vector<Global> start_{0};  // two parts a row
  std::vector<Local> column_;     // a ghost, or ~(an own column)
  std::vector<T> value_;
  std::map<int, Reach> reaches_;  // by steps
};

}  // namespace tacit::op
