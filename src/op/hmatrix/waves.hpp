// Waves: blocks of an H-matrix whose entry function is best called seldom, such as a Python function.
#pragma once

#include <tacit/exec/parallel.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>
#include <tacit/op/hmatrix/pairs.hpp>

#include "crosses.hpp"
#include "sampled_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace tacit::op::detail {

/// Makes the crosses of many blocks together. In each wave all searches go on until they need further rows and columns,
/// which are then evaluated: the rows of all blocks over the same columns by one call, and the columns of all blocks
/// over the same rows; dense blocks likewise. With a function of pairs all lines of a wave are evaluated by one call,
/// as far as `most_entries` allows. The crosses are those of compress(), to the bit where an entry does not depend on
/// the others of its call.
template <Scalar T>
class Waves final : public BlockMaker<T> {
 public:
  /// `rows` and `columns`: the orders of the trees. poll() is called before each call of the entry function; it may
  /// throw. The references are kept. `pairs`: the same entries, used in place of `entry` where it is not empty.
  Waves(const EntryFunction<T>& entry, std::span<const Global> rows, std::span<const Global> columns,
        std::function<void()> poll, PairFunction<T> pairs = {})
      : entry_(entry), rows_(rows), columns_(columns), poll_(std::move(poll)), pairs_(std::move(pairs)) {}

  /// Errors: as compress().
  std::size_t make(std::span<const WantedBlock> wanted, const CompressOptions& options) override {
    std::size_t count = 0;
    for (double numbers = 0; count < wanted.size(); ++count) {
      numbers += numbers_of(wanted[count].block);
      if (count > 0 && numbers * sizeof(T) > room) break;
    }
    made_.assign(count, {});
    searches_.clear();
    searches_.resize(count);
    std::vector<std::size_t> active;
    std::vector<Request> requests;
    for (std::size_t k = 0; k < count; ++k) {
      const Block& b = wanted[k].block;
      if (b.admissible) {
        searches_[k] = std::make_unique<Search>(entry_, rows_of(b), columns_of(b), wanted[k].tolerance, options);
        active.push_back(k);
      } else {
        made_[k].dense = true;
        made_[k].entries = Global(b.rows()) * b.columns();
        made_[k].u.resize(std::size_t(made_[k].entries));
        requests.push_back({rows_of(b), columns_of(b), made_[k].u.data(), false});
      }
    }
    for (evaluate(requests); !active.empty(); evaluate(requests)) {
      requests.clear();
      exec::parallel_for(active.size(), active.size() > 1, [&](std::size_t a) {
        if (searches_[active[a]]->crosses.advance()) end(active[a]);
      });
      std::erase_if(active, [&](std::size_t k) { return !searches_[k]; });
      for (const std::size_t k : active) request_lines(k, wanted[k].block, requests);
    }
    return count;
  }
  RawBlock<T> take(std::size_t k) const override { return std::move(made_[k]); }

  /// The values of lines of blocks, one item for each, by as few calls.
  void evaluate(const WantedBlock* wanted, std::span<SampledLines<T>> lines) {
    std::vector<Request> requests;
    for (std::size_t k = 0; k < lines.size(); ++k) {
      T* out = lines[k].values.data();
      const auto rows = rows_of(wanted[k].block), columns = columns_of(wanted[k].block);
      for (const auto& [side, index] : lines[k].names) {
        if (side == 0) requests.push_back({rows.subspan(std::size_t(index), 1), columns, out, true});
        else requests.push_back({rows, columns.subspan(std::size_t(index), 1), out, false});
        out += side == 0 ? columns.size() : rows.size();
      }
    }
    evaluate(requests);
  }

 private:
  static constexpr double room = double(1 << 27);            // bytes of the blocks of one make(), about
  static constexpr std::size_t most_entries = 1 << 20;       // of a call
  static constexpr double usual_rank = 12, usual_lines = 4;  // numbers of a block: its crosses, and the lines it keeps
  struct Search {
    Search(const EntryFunction<T>& entry, std::span<const Global> rows, std::span<const Global> columns,
           Tolerance tolerance, const CompressOptions& options)
        : block(entry, rows, columns), crosses(block, tolerance, options) {}
    Entries<T> block;
    Crosses<T> crosses;
  };
  // A row of a block, or some of its columns.
  struct Request {
    std::span<const Global> rows, columns;
    T* out;
    bool is_row;
    std::span<const Global> shared() const { return is_row ? columns : rows; }
    auto key() const { return std::tuple(is_row, shared().data(), shared().size()); }
  };

  static double numbers_of(const Block& b) {
    const double all = double(b.rows()) * b.columns();
    return b.admissible ? std::min(2 * all, (usual_rank + usual_lines) * (double(b.rows()) + b.columns())) : all;
  }
  std::span<const Global> rows_of(const Block& b) const {
    return rows_.subspan(std::size_t(b.row_begin), std::size_t(b.rows()));
  }
  std::span<const Global> columns_of(const Block& b) const {
    return columns_.subspan(std::size_t(b.column_begin), std::size_t(b.columns()));
  }

  void request_lines(std::size_t k, const Block& b, std::vector<Request>& requests) {
    auto& crosses = searches_[k]->crosses;
    const auto rows = rows_of(b), columns = columns_of(b);
    for (std::size_t l = 0; l < crosses.wanted().size(); ++l) {
      const auto [side, index] = crosses.wanted()[l];
      made_[k].entries += side == 0 ? b.columns() : b.rows();
      if (side == 0) requests.push_back({rows.subspan(std::size_t(index), 1), columns, crosses.give(l), true});
      else requests.push_back({rows, columns.subspan(std::size_t(index), 1), crosses.give(l), false});
    }
  }

  void end(std::size_t k) {
    auto& crosses = searches_[k]->crosses;
    RawBlock<T>& raw = made_[k];
    raw.given_up = !crosses.fits();
    if (!raw.given_up) {
      raw.rank = crosses.rank();
      raw.norm = crosses.norm();
      raw.error = crosses.error();
      raw.u = crosses.take_u();
      raw.v = crosses.take_v();
    }
    searches_[k].reset();
  }

  // All entries of as many requests as a call may have.
  void evaluate_pairs(const std::vector<Request>& requests) {
    for (std::size_t first = 0, last; first < requests.size(); first = last) {
      pair_rows_.clear(), pair_columns_.clear();
      for (last = first; last < requests.size(); ++last) {
        const Request& r = requests[last];
        if (last > first && pair_rows_.size() + r.rows.size() * r.columns.size() > most_entries) break;
        for (const Global j : r.columns) {
          pair_rows_.insert(pair_rows_.end(), r.rows.begin(), r.rows.end());
          pair_columns_.insert(pair_columns_.end(), r.rows.size(), j);
        }
      }
      values_.resize(pair_rows_.size());
      poll_();
      pairs_(pair_rows_, pair_columns_, values_.data());
      std::size_t at = 0;
      for (std::size_t q = first; q < last; ++q) {
        const Request& r = requests[q];
        const std::size_t size = r.rows.size() * r.columns.size();
        std::copy_n(values_.data() + at, size, r.out);
        check_finite<T>({r.out, size}, r.rows, r.columns);
        at += size;
      }
    }
  }

  void evaluate(std::vector<Request>& requests) {
    if (pairs_) {
      evaluate_pairs(requests);
      return;
    }
    std::stable_sort(requests.begin(), requests.end(),
                     [](const Request& a, const Request& b) { return a.key() < b.key(); });
    for (std::size_t first = 0, last; first < requests.size(); first = last) {
      const std::size_t shared = requests[first].shared().size();
      others_.clear();
      for (last = first; last < requests.size() && requests[last].key() == requests[first].key(); ++last) {
        const auto& own = requests[last].is_row ? requests[last].rows : requests[last].columns;
        if (last > first && (others_.size() + own.size()) * shared > most_entries) break;
        others_.insert(others_.end(), own.begin(), own.end());
      }
      call(std::span<const Request>(requests).subspan(first, last - first));
    }
  }

  // Evaluates requests of one key, of which `others_` has the rows or columns that they do not share.
  void call(std::span<const Request> requests) {
    const auto shared = requests[0].shared();
    values_.resize(shared.size() * others_.size());
    poll_();
    const bool by_rows = requests[0].is_row;
    const std::span<const Global> others(others_);
    entry_(by_rows ? others : shared, by_rows ? shared : others, values_.data());
    std::size_t at = 0;
    for (const Request& r : requests) {
      const std::size_t size = r.rows.size() * r.columns.size();
      if (by_rows)
        for (std::size_t j = 0; j < size; ++j) r.out[j] = values_[at + j * others.size()];
      else std::copy_n(values_.data() + at, size, r.out);
      at += by_rows ? 1 : size;
      check_finite<T>({r.out, size}, r.rows, r.columns);
    }
  }

  const EntryFunction<T>& entry_;
  std::span<const Global> rows_, columns_;
  std::function<void()> poll_;
  mutable std::vector<RawBlock<T>> made_;
  std::vector<std::unique_ptr<Search>> searches_;
  PairFunction<T> pairs_;
  std::vector<Global> others_, pair_rows_, pair_columns_;
  std::vector<T> values_;
};

}  // namespace tacit::op::detail
