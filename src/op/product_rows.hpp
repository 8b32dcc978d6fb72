// What a rank needs of other ranks' rows for products of sparse matrices, and how it numbers rows and columns.
#pragma once

#include "op/multiply.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op::detail {

inline void sort_unique(std::vector<Global>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

/// The columns that occur on a rank as local numbers: its own first, then those of others, ascending.
class Numbering {
 public:
  Numbering(const Space& space, std::vector<Global> others)
      : first_(space.begin()),
        own_(space.local_size()),
        others_(std::move(others)),
        before_(Local(std::lower_bound(others_.begin(), others_.end(), first_) - others_.begin())) {}
  Local operator()(Global c) const {
    if (is_own(c)) return Local(c - first_);
    return own_ + Local(std::lower_bound(others_.begin(), others_.end(), c) - others_.begin());
  }
  Global global(Local c) const { return c < own_ ? first_ + c : others_[std::size_t(c - own_)]; }
  bool is_own(Global c) const { return c >= first_ && c < first_ + own_; }
  Local count() const { return own_ + Local(others_.size()); }
  /// Groups of a width that divides this number are groups of places too: others below and above the own ones are
  /// neighbours by number only.
  Local border() const { return before_ > 0 && before_ < Local(others_.size()) ? own_ + before_ : 0; }
  /// The place of a column in the order of global columns, and back.
  Local place(Local c) const { return c < own_ ? before_ + c : c - own_ < before_ ? c - own_ : c; }
  Local at_place(Local p) const { return p < before_ ? own_ + p : p - before_ < own_ ? p - before_ : p; }

 private:
  Global first_;
  Local own_;
  std::vector<Global> others_;
  Local before_;  // others below the own ones
};

/// The columns outside of `space`, ascending.
template <class T>
std::vector<Global> outside(const Space& space, std::initializer_list<const Rows<T>*> of) {
  std::vector<Global> found;
  for (const Rows<T>* rows : of)
    for (const Global c : rows->column)
      if (c < space.begin() || c >= space.end()) found.push_back(c);
  sort_unique(found);
  return found;
}

/// Appends numbers to a message, and takes them from it.
class Writer {
 public:
  template <class V>
  void put(const V* from, std::size_t n) {
    const auto bytes = std::as_bytes(std::span(from, n));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put(Global v) { put(&v, 1); }
  /// The length, columns and values of row i.
  template <class T>
  void put_row(const Rows<T>& rows, Global i) {
    const Global begin = rows.start[std::size_t(i)], length = rows.start[std::size_t(i) + 1] - begin;
    put(length);
    put(rows.column.data() + begin, std::size_t(length));
    put(rows.value.data() + begin, std::size_t(length));
  }
  std::vector<std::byte> bytes_;
};
class Reader {
 public:
  explicit Reader(const std::vector<std::byte>& bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool more() const { return at_ < end_; }
  Global number() {
    Global v;
    std::memcpy(&v, at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  template <class V>
  void take(exec::Buffer<V>& to, std::size_t n) {
    const std::size_t before = to.size();
    to.resize(before + n);
    if (n > 0) std::memcpy(static_cast<void*>(to.data() + before), at_, n * sizeof(V));
    at_ += n * sizeof(V);
  }
  template <class T>
  void take_row(Rows<T>& rows) {
    const Global length = number();
    take(rows.column, std::size_t(length));
    take(rows.value, std::size_t(length));
    rows.start.push_back(rows.start.back() + length);
  }

 private:
  const std::byte *at_, *end_;
};

/// What a rank has from others for Q^H A P: the rows of A and Q for which Q has entries in its columns, and the rows of
/// P that these rows of A, and its own, refer to. All ascend.
template <class T>
struct Fetched {
  std::vector<Global> row, row_of_P;
  Rows<T> A, Q, P;
};

/// Each rank requests the rows of P that its rows of A refer to from their owners, for itself and for the ranks that
/// will have a row of A from it; then rows are sent. One message each way between neighbours.
template <class T>
Fetched<T> fetch(const Rows<T>& Q, const Rows<T>& A, const Space& inner, const Rows<T>& P, const Space& columns) {
  using Parcel = comm::Communicator::Parcel;
  const auto& comm = inner.comm();
  const int me = comm.rank();
  const auto own = [&](Global i) { return i >= inner.begin() && i < inner.end(); };
  std::map<int, std::vector<Global>> rows_for;                  // of A, by the rank that needs them
  std::map<int, std::vector<std::pair<Global, int>>> asked_of;  // by owner: a row of P, and who needs it
  std::map<int, std::vector<Global>> sent_to;                   // own rows of P, by the rank that needs them
  std::vector<int> who;
  for (Local i = 0; i < A.count(); ++i) {
    who.assign(1, me);
    for (Global k = Q.start[std::size_t(i)]; k < Q.start[std::size_t(i) + 1]; ++k)
      if (const Global c = Q.column[std::size_t(k)]; c < columns.begin() || c >= columns.end())
        if (const int owner = columns.partition().owner(c); std::find(who.begin(), who.end(), owner) == who.end())
          who.push_back(owner);
    for (std::size_t w = 1; w < who.size(); ++w) rows_for[who[w]].push_back(i);
    for (Global k = A.start[std::size_t(i)]; k < A.start[std::size_t(i) + 1]; ++k) {
      const Global j = A.column[std::size_t(k)];
      if (own(j)) {
        for (std::size_t w = 1; w < who.size(); ++w) sent_to[who[w]].push_back(j);
        continue;
      }
      const int owner = inner.partition().owner(j);
      for (const int w : who)
        if (w != owner) asked_of[owner].emplace_back(j, w);
    }
  }
  std::vector<Parcel> requests;
  for (auto& [owner, rows] : asked_of) {
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    Writer message;
    for (const auto& [j, w] : rows) message.put(j), message.put(w);
    requests.push_back({owner, std::move(message.bytes_)});
  }
  for (const auto& request : comm.sparse_exchange(requests))
    for (Reader reader(request.bytes); reader.more();) {
      const Global j = reader.number();
      sent_to[int(reader.number())].push_back(j);
    }
  for (const auto& [rank, rows] : rows_for) sent_to[rank];  // also those that need no rows of P
  std::vector<Parcel> parcels;
  for (auto& [rank, rows] : sent_to) {
    sort_unique(rows);
    Writer message;
    message.put(Global(rows.size()));
    for (const Global j : rows) message.put(j), message.put_row(P, j - inner.begin());
    for (const Global i : rows_for[rank]) message.put(inner.begin() + i), message.put_row(A, i), message.put_row(Q, i);
    parcels.push_back({rank, std::move(message.bytes_)});
  }
  Fetched<T> all;
  for (const auto& parcel : comm.sparse_exchange(parcels)) {  // by rank, so that rows ascend
    Reader reader(parcel.bytes);
    for (Global n = reader.number(); n > 0; --n) all.row_of_P.push_back(reader.number()), reader.take_row(all.P);
    while (reader.more()) all.row.push_back(reader.number()), reader.take_row(all.A), reader.take_row(all.Q);
  }
  return all;
}

}  // namespace tacit::op::detail
