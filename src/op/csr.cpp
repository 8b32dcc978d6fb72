#include "csr_impl.hpp"

#include <tacit/op/hermitian.hpp>

#include <cstring>
#include <numeric>

namespace tacit::op {

namespace {
template <Scalar T>
struct Entry {
  Global row, column;
  T value;
};
}  // namespace

template <Scalar T>
Rows<T> assemble(const comm::Communicator& comm, const layout::Partition& partition, Global columns,
                 std::span<const Global> row, std::span<const Global> column, std::span<const T> value) {
  return comm::collective(comm, [&] {
    require(row.size() == column.size() && row.size() == value.size(), "entries with ", row.size(), " rows, ",
            column.size(), " columns and ", value.size(), " values");
    std::vector<std::vector<Entry<T>>> by_owner(comm.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      require(row[i] >= 0 && row[i] < partition.size() && column[i] >= 0 && column[i] < columns, "entry (", row[i],
              ", ", column[i], ") lies outside a matrix of ", partition.size(), " by ", columns, " (counted from 0)");
      by_owner[partition.owner(row[i])].push_back({row[i], column[i], value[i]});
    }
    std::vector<comm::Communicator::Parcel> parcels;
    for (int r = 0; r < comm.size(); ++r) {
      if (by_owner[r].empty()) continue;
      const auto bytes = std::as_bytes(std::span(by_owner[r]));
      parcels.push_back({r, {bytes.begin(), bytes.end()}});
      by_owner[r] = {};
    }
    // Sorted by sender, so that duplicates are summed in the order of ranks and, within one, as given.
    const auto arrived = comm.sparse_exchange(parcels);
    parcels.clear();
    const Global first = partition.begin(comm.rank());
    const Local n = checked_cast<Local>(partition.end(comm.rank()) - first, "a rank's number of rows");
    std::vector<Global> start(std::size_t(n) + 1, 0);
    const auto each = [&](auto&& f) {
      for (const auto& p : arrived) {
        const auto* e = reinterpret_cast<const Entry<T>*>(p.bytes.data());
        for (std::size_t i = 0; i < p.bytes.size() / sizeof(Entry<T>); ++i) f(e[i]);
      }
    };
    each([&](const Entry<T>& e) { ++start[e.row - first + 1]; });
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<std::pair<Global, T>> entries(std::size_t(start.back()));
    std::vector<Global> next(start.begin(), start.end() - 1);
    each([&](const Entry<T>& e) { entries[next[e.row - first]++] = {e.column, e.value}; });
    Rows<T> rows;
    rows.start.reserve(std::size_t(n) + 1);
    rows.column.reserve(entries.size());
    rows.value.reserve(entries.size());
    for (Local r = 0; r < n; ++r) {
      const auto begin = entries.begin() + start[r], end = entries.begin() + start[r + 1];
      const auto by_column = [](const auto& a, const auto& b) { return a.first < b.first; };
      if (!std::is_sorted(begin, end, by_column)) std::stable_sort(begin, end, by_column);
      for (auto e = begin; e != end; ++e) {
        if (e != begin && e->first == rows.column.back()) {
          rows.value.back() += e->second;
        } else {
          rows.column.push_back(e->first);
          rows.value.push_back(e->second);
        }
      }
      rows.start.push_back(Global(rows.column.size()));
    }
    return rows;
  });
}

template <Scalar T>
bool is_hermitian(const comm::Communicator& comm, const layout::Partition& partition, const Rows<T>& rows) {
  const Global first = partition.begin(comm.rank());
  std::vector<Global> row, column;
  std::vector<T> value;
  std::vector<double> diagonal(std::size_t(rows.count()));
  for (Local r = 0; r < rows.count(); ++r)
    for (Global k = rows.start[r]; k < rows.start[r + 1]; ++k) {
      row.push_back(rows.column[k]);
      column.push_back(first + r);
      value.push_back(conj(rows.value[k]));
      if (rows.column[k] == first + r) diagonal[std::size_t(r)] = std::abs(rows.value[k]);
    }
  const Rows<T> transposed = assemble<T>(comm, partition, partition.size(), row, column, value);
  // Compares a_ij with the mirror entry a_ji, with |a_jj| given by partner(k) for entry k. Both owners compare each
  // pair, each for the entries that it stores.
  const auto all_mirror = [&](auto&& partner) {
    bool same = true;
    for (Local r = 0; same && r < rows.count(); ++r) {
      Global b = transposed.start[r];
      for (Global k = rows.start[r]; same && k < rows.start[r + 1]; ++k) {
        while (b < transposed.start[r + 1] && transposed.column[b] < rows.column[k]) ++b;
        const bool met = b < transposed.start[r + 1] && transposed.column[b] == rows.column[k];
        same = mirror_each_other(rows.value[k], met ? transposed.value[b] : T{}, diagonal[std::size_t(r)], partner(k));
      }
    }
    return comm.all(same);
  };
  // Nearly all matrices are decided without the diagonals of other ranks: mirror entries agree without them, or do not
  // even with the largest diagonal entry for all.
  if (all_mirror([](Global) { return 0.0; })) return true;
  double largest = 0;
  for (const double d : diagonal) largest = std::max(largest, d);
  largest = comm.all_max(largest);
  if (!all_mirror([&](Global) { return largest; })) return false;
  // The owner of row j sends a_jj to all ranks that store an entry in column j.
  row.clear(), column.clear(), value.clear();
  for (Local r = 0; r < transposed.count(); ++r)
    for (Global k = transposed.start[r]; k < transposed.start[r + 1]; ++k) {
      row.push_back(transposed.column[k]);
      column.push_back(first + r);
      value.push_back(T(real_t<T>(diagonal[std::size_t(r)])));
    }
  const Rows<T> told = assemble<T>(comm, partition, partition.size(), row, column, value);
  return all_mirror([&](Global k) { return double(real(told.value[std::size_t(k)])); });
}

template <Scalar T>
Rows<T> rows_of_others(const Space& space, const Rows<T>& own, std::span<const Global> needed) {
  using Parcel = comm::Communicator::Parcel;
  const auto& comm = space.comm();
  std::vector<Parcel> wanted;
  for (std::size_t i = 0; i < needed.size();) {
    const int owner = space.partition().owner(needed[i]);
    std::size_t end = i;
    while (end < needed.size() && needed[end] < space.partition().end(owner)) ++end;
    const auto bytes = std::as_bytes(needed.subspan(i, end - i));
    wanted.push_back({owner, {bytes.begin(), bytes.end()}});
    i = end;
  }
  // A reply: for each row its length, its columns and its values.
  std::vector<Parcel> replies;
  for (const auto& asked : comm.sparse_exchange(wanted)) {
    Parcel reply{asked.rank, {}};
    const auto put = [&](const auto* from, Global n) {
      const auto bytes = std::as_bytes(std::span(from, std::size_t(n)));
      reply.bytes.insert(reply.bytes.end(), bytes.begin(), bytes.end());
    };
    for (std::size_t i = 0; i < asked.bytes.size() / sizeof(Global); ++i) {
      Global row;
      std::memcpy(&row, asked.bytes.data() + i * sizeof row, sizeof row);
      const Global begin = own.start[row - space.begin()], length = own.start[row - space.begin() + 1] - begin;
      put(&length, 1);
      put(own.column.data() + begin, length);
      put(own.value.data() + begin, length);
    }
    replies.push_back(std::move(reply));
  }
  Rows<T> rows;
  for (const auto& reply : comm.sparse_exchange(replies)) {  // in the order of owners, like `needed`
    const std::byte* from = reply.bytes.data();
    const auto take = [&](auto& to, Global n) {
      using Value = typename std::remove_reference_t<decltype(to)>::value_type;
      const std::size_t before = to.size();
      to.resize(before + std::size_t(n));
      if (n > 0) std::memcpy(static_cast<void*>(to.data() + before), from, std::size_t(n) * sizeof(Value));
      from += std::size_t(n) * sizeof(Value);
    };
    while (from < reply.bytes.data() + reply.bytes.size()) {
      std::vector<Global> length;
      take(length, 1);
      take(rows.column, length[0]);
      take(rows.value, length[0]);
      rows.start.push_back(rows.start.back() + length[0]);
    }
  }
  return rows;
}

#define TACIT_INSTANTIATE(T)                                                                                         \
  template class Csr<T, Host>;                                                                                       \
  template Rows<T> assemble<T>(const comm::Communicator&, const layout::Partition&, Global, std::span<const Global>, \
                               std::span<const Global>, std::span<const T>);                                         \
  template Rows<T> rows_of_others<T>(const Space&, const Rows<T>&, std::span<const Global>);                         \
  template bool is_hermitian<T>(const comm::Communicator&, const layout::Partition&, const Rows<T>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::op
