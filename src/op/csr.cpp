#include "csr_impl.hpp"
#include "entries.hpp"

#include "op/hermitian.hpp"

#include <cstring>
#include <numeric>
#include <tuple>

namespace tacit::op {

template <Scalar T>
void sort_rows(Rows<T>& rows) {
  const Global kept = sort_entries(rows.start, rows.column.data(), rows.value.data());
  rows.column.resize(std::size_t(kept));
  rows.value.resize(std::size_t(kept));
}

template <Scalar T>
Rows<T> assemble(const comm::Communicator& comm, const layout::Partition& partition, Global columns,
                 std::span<const Global> row, std::span<const Global> column, std::span<const T> value) {
  return comm::collective(comm, [&] {
    using Parcel = comm::Communicator::Parcel;
    require(row.size() == column.size() && row.size() == value.size(), "entries with ", row.size(), " rows, ",
            column.size(), " columns and ", value.size(), " values");
    const Global first = partition.begin(comm.rank()), last = partition.end(comm.rank());
    const Local n = checked_cast<Local>(last - first, "a rank's number of rows");
    std::vector<std::vector<std::byte>> by_owner(comm.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      require(row[i] >= 0 && row[i] < partition.size() && column[i] >= 0 && column[i] < columns, "entry (", row[i],
              ", ", column[i], ") lies outside a matrix of ", partition.size(), " by ", columns, " (counted from 0)");
      if (row[i] >= first && row[i] < last) continue;
      const Entry<T> entry{row[i], column[i], value[i]};
      const auto bytes = std::as_bytes(std::span(&entry, 1));
      auto& parcel = by_owner[partition.owner(row[i])];
      parcel.insert(parcel.end(), bytes.begin(), bytes.end());
    }
    std::vector<Parcel> parcels;
    for (int r = 0; r < comm.size(); ++r)
      if (!by_owner[r].empty()) parcels.push_back({r, std::move(by_owner[r])});
    const auto arrived = comm.sparse_exchange(parcels);
    parcels.clear();
    // By sender, so that duplicates are summed in the order of ranks and, within one, as given.
    const auto each = [&](auto&& f) {
      const auto own = [&] {
        for (std::size_t i = 0; i < row.size(); ++i)
          if (row[i] >= first && row[i] < last) f(Entry<T>{row[i], column[i], value[i]});
      };
      bool done = false;
      for (const auto& p : arrived) {
        if (!done && p.rank > comm.rank()) own(), done = true;
        const auto* e = reinterpret_cast<const Entry<T>*>(p.bytes.data());
        for (std::size_t i = 0; i < p.bytes.size() / sizeof(Entry<T>); ++i) f(e[i]);
      }
      if (!done) own();
    };
    Rows<T> rows;
    rows.start.assign(std::size_t(n) + 1, 0);
    each([&](const Entry<T>& e) { ++rows.start[std::size_t(e.row - first) + 1]; });
    std::partial_sum(rows.start.begin(), rows.start.end(), rows.start.begin());
    rows.column.resize(std::size_t(rows.start.back()));
    rows.value.resize(std::size_t(rows.start.back()));
    {
      std::vector<Global> next(rows.start.begin(), rows.start.end() - 1);
      each([&](const Entry<T>& e) {
        const Global k = next[std::size_t(e.row - first)]++;
        rows.column[std::size_t(k)] = e.column, rows.value[std::size_t(k)] = e.value;
      });
    }
    sort_rows(rows);
    return rows;
  });
}

template <Scalar T>
bool is_hermitian(const Csr<T, Host>& A) {
  const auto& comm = A.range().comm();
  if (!(A.range() == A.domain())) return false;
  if (!comm.all(A.own_block_is_hermitian())) return false;
  if (comm.size() == 1) return true;
  std::vector<double> diagonal(A.parts_->diagonal.size());
  std::transform(A.parts_->diagonal.begin(), A.parts_->diagonal.end(), diagonal.begin(),
                 [](T a) { return double(std::abs(a)); });
  // Entries in columns of other ranks are sent to the owners of their mirror entries.
  const RowList<T, Host>& ghost = *A.parts_->ghost;
  const Global first = A.range().begin();
  const auto& partition = A.range().partition();
  std::vector<Global> row, column;
  std::vector<T> value;
  for (Local i = 0; i < ghost.count(); ++i)
    for (std::size_t k = 0; k < ghost.columns_of(i).size(); ++k) {
      row.push_back(A.pattern().ghosts[std::size_t(ghost.columns_of(i)[k])]);
      column.push_back(first + ghost.row(i));
      value.push_back(conj(ghost.values_of(i)[k]));
    }
  const Rows<T> mirrored = assemble<T>(comm, partition, partition.size(), row, column, value);
  // Compares these entries with their mirror entries; |a_jj| is other(g) for the g-th of them.
  const auto all_mirror = [&](auto&& other) {
    bool same = true;
    Global g = 0;
    for (Local i = 0; same && i < ghost.count(); ++i) {
      const Local r = ghost.row(i);
      Global b = mirrored.start[r];
      for (std::size_t k = 0; same && k < ghost.columns_of(i).size(); ++k, ++g) {
        const Global c = row[std::size_t(g)];
        while (b < mirrored.start[r + 1] && mirrored.column[b] < c) ++b;
        const bool met = b < mirrored.start[r + 1] && mirrored.column[b] == c;
        same =
            mirror_each_other(ghost.values_of(i)[k], met ? mirrored.value[b] : T{}, diagonal[std::size_t(r)], other(g));
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
  std::vector<Global> to, from;
  std::vector<T> owned;
  for (Local r = 0; r < mirrored.count(); ++r)
    for (Global k = mirrored.start[r]; k < mirrored.start[r + 1]; ++k) {
      to.push_back(mirrored.column[k]);
      from.push_back(first + r);
      owned.push_back(T(real_t<T>(diagonal[std::size_t(r)])));
    }
  const Rows<T> arrived = assemble<T>(comm, partition, partition.size(), to, from, owned);
  return all_mirror([&](Global g) { return double(real(arrived.value[std::size_t(g)])); });
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
  template void sort_rows<T>(Rows<T>&);                                                                              \
  template Rows<T> assemble<T>(const comm::Communicator&, const layout::Partition&, Global, std::span<const Global>, \
                               std::span<const Global>, std::span<const T>);                                         \
  template Rows<T> rows_of_others<T>(const Space&, const Rows<T>&, std::span<const Global>);                         \
  template bool is_hermitian<T>(const Csr<T, Host>&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
