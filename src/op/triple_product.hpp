// TripleProductPlan: R = Q^H and C = R A P again, of factors with other numbers in the same places.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace tacit::op {

/// Small numbers, such as places in rows, of as many bytes each as the largest needs.
class Places {
 public:
  Places() = default;
  /// `count` numbers less than `most`.
  Places(std::size_t most, std::size_t count)
      : width_(most <= std::size_t(1) << 8    ? 1
               : most <= std::size_t(1) << 16 ? 2
                                              : 4),
        bytes_(count * std::size_t(width_)) {}
  /// f(pointer to the first one), of a type as wide as they are.
  template <class F>
  decltype(auto) with(F&& f) {
    if (width_ == 1) return f(reinterpret_cast<std::uint8_t*>(bytes_.data()));
    if (width_ == 2) return f(reinterpret_cast<std::uint16_t*>(bytes_.data()));
    return f(reinterpret_cast<std::uint32_t*>(bytes_.data()));
  }
  template <class F>
  decltype(auto) with(F&& f) const {
    return const_cast<Places*>(this)->with([&]<class P>(P* p) { return f(static_cast<const P*>(p)); });
  }
  /// The first one, where they are as wide as P.
  template <class P>
  P* as() {
    return reinterpret_cast<P*>(bytes_.data());
  }
  template <class P>
  const P* as() const {
    return reinterpret_cast<const P*>(bytes_.data());
  }
  double bytes() const { return double(bytes_.size()); }

 private:
  int width_ = 1;
  std::vector<std::byte> bytes_;
};

/// Rows that are worked on together: plans know where in their lists a block begins.
constexpr Local block_rows_of_plans = 64;

/// Entries that a plan's 32-bit numbers count on a rank.
constexpr Global most_planned_entries = std::numeric_limits<Local>::max();

/// The places of the entries of rows, and as their values numbers: first, first + 1, ..., exact up to 2^53.
template <Scalar T>
Rows<double> with_numbers(const Rows<T>& rows, Global first) {
  Rows<double> r{rows.start, rows.column, exec::Buffer<double>(rows.column.size())};
  std::iota(r.value.begin(), r.value.end(), double(first));
  return r;
}

/// Brings values of other ranks' arrays, each time the same ones.
template <Scalar T>
class FetchedValues {
 public:
  FetchedValues() = default;
  /// `own`: the values of this rank, in all arrays together. `needed`: numbers of values of other ranks, in any order;
  /// value k of rank r has the number offset(r) + k. Collective.
  FetchedValues(const comm::Communicator& comm, std::size_t own, std::vector<Global> needed);
  /// The number of a rank's first value, for a rank that has `own` of them. Collective.
  static Global offset(const comm::Communicator& comm, std::size_t own);
  /// Values in the order of `needed`; value(k) is the own one with position k. Collective: one exchange.
  template <class F>
  void fetch(F&& value, T* to) const {
    if (!exchange_) return;
    const int number = exchange_->open();
    T* const out = reinterpret_cast<T*>(exchange_->outgoing(number));
    for (std::size_t k = 0; k < pattern_->send_index.size(); ++k) out[k] = value(std::size_t(pattern_->send_index[k]));
    exchange_->post(number);
    exchange_->wait(number);
    const T* const in = reinterpret_cast<const T*>(exchange_->incoming(number));
    for (std::size_t k = 0; k < from_.size(); ++k) to[k] = in[from_[k]];
    exchange_->close(number);
  }
  std::size_t size() const { return from_.size(); }

 private:
  std::shared_ptr<const comm::Pattern> pattern_;
  std::unique_ptr<comm::Exchange> exchange_;  // null on one rank
  std::vector<Local> from_;                   // where each needed value arrives
};

/// What triple_product() finds of the places of entries, kept for products with other numbers: these are sums alone.
template <Scalar T>
class TripleProductPlan {
 public:
  /// Of the factors of triple_product() and the C that it has made, of which only places count. `Q_is_P`: Q will have
  /// the numbers of P. None, on all ranks, where a rank has more than `most` entries of P or Q, or has to do with more
  /// than that of A, P and Q, its own or fetched, on several ranks. Collective: the messages of triple_product(), one
  /// more between neighbours, and two reductions.
  static std::optional<TripleProductPlan> make(const Rows<T>& Q, const Rows<T>& A, const Rows<T>& P, bool Q_is_P,
                                               const Rows<T>& C, const Space& inner, const Space& columns,
                                               Global most = most_planned_entries);
  /// The values of R and C, in the order of their entries, from those of the factors on this rank: those of
  /// triple_product(), real ones to the bit but for the signs of zeros, the same for any number of threads. Q is not
  /// read where it is P. Cost: the numbers and places once, 2 flops for each product of entries; several threads both
  /// make the rows of A P that they share. Memory: a row of A P for each thread. Collective: one exchange.
  void multiply(const T* Q, const T* A, const T* P, T* R, T* C) const;
  /// A's rows: where they begin, and their columns as numbers in which own ones come first, then `others()`.
  std::span<const Global> row_starts() const { return {A_start_.data(), std::size_t(rows_) + 1}; }
  std::span<const Local> columns() const { return {A_column_.data(), std::size_t(A_start_[std::size_t(rows_)])}; }
  /// The rows of other ranks that A refers to here and on the ranks that own columns of Q in its rows, ascending.
  const std::vector<Global>& others() const { return others_; }
  std::size_t entries_of_R() const { return std::size_t(R_start_.back()); }
  std::size_t entries_of_C() const { return std::size_t(C_start_.back()); }
  double bytes() const;

 private:
  TripleProductPlan() = default;
  /// Some rows that follow each other: where their places begin, and their columns of Q on this rank.
  struct Block {
    Local row = 0, rows = 0, least = 0, most = -1;
    Global sum = 0, target = 0;
  };
  struct Draft;
  bool fetch_rows(Draft& draft, Global most);
  void number_entries(Draft& draft);
  void cut_blocks(const Draft& draft);
  void place_sums(Draft& draft);
  template <class Place>
  void place_sums(Draft& draft, Place* length, Place* place);
  void place_targets(const Draft& draft);
  struct Work;
  const Local* begin_of_Q(Local row) const {
    return row < rows_ ? (same_ ? P_start_ : Q_start_).data() + row : Q_start_fetched_.data() + (row - rows_);
  }
  Global own_entries_of_Q(Local row) const {
    const Local* const q = begin_of_Q(row);
    return std::count_if(Q_column_.begin() + q[0], Q_column_.begin() + q[1], [](Local c) { return c >= 0; });
  }
  template <class Place>
  void add_blocks(const Work& work, const Place* lengths) const;
  // All have this rank's rows first, then fetched ones.
  Local rows_ = 0;
  bool same_ = false;
  std::vector<Global> A_start_;
  std::vector<Local> A_column_;
  std::vector<Local> P_start_;
  std::vector<Local> Q_start_, Q_start_fetched_;  // the first one is empty where Q is P
  std::vector<Local> Q_column_;                   // of this rank's columns; -1: another rank's
  std::vector<Global> R_start_, C_start_;
  std::vector<Global> others_;
  std::size_t longest_ = 0;   // row of A P
  Places length_;             // of the rows of A P; 0 where no own column of Q needs it
  Places sum_;                // in a row of A P, of each product of an entry of A and one of P
  Places target_;             // for each entry of Q in an own column: in C's row, of each entry of the row of A P
  std::vector<Block> block_;  // in the order of rows over all ranks
  FetchedValues<T> fetched_;
  std::size_t fetched_A_ = 0, fetched_Q_ = 0, fetched_P_ = 0;
};

}  // namespace tacit::op
