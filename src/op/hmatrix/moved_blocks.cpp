#include "moved_blocks.hpp"

#include "base/bytes.hpp"

#include <algorithm>
#include <utility>

namespace tacit::op::detail {
namespace {

using bytes::Bytes, bytes::Reader, bytes::write;

// Rows [first, first + count) of a matrix of `height` rows.
template <Scalar T>
std::vector<T> rows_of(const std::vector<T>& a, Local height, Local first, Local count, std::size_t columns) {
  std::vector<T> part(std::size_t(count) * columns);
  for (std::size_t c = 0; c < columns; ++c)
    std::copy_n(a.data() + c * std::size_t(height) + std::size_t(first), count, part.data() + c * std::size_t(count));
  return part;
}

template <Scalar T>
void write_piece(Bytes& to, const BlockMatrix<T>& m) {
  write(to, m.block), write(to, m.dense), write(to, m.rank);
  const std::size_t rows = std::size_t(m.block.rows()), columns = std::size_t(m.block.columns());
  write(to, m.u.data(), rows * (m.dense ? columns : std::size_t(m.rank)));
  if (!m.dense) write(to, m.v.data(), columns * std::size_t(m.rank));
}

template <Scalar T>
BlockMatrix<T> read_piece(Reader& from) {
  BlockMatrix<T> m;
  m.block = from.next<Block>(), m.dense = from.next<bool>(), m.rank = from.next<Local>();
  const std::size_t rows = std::size_t(m.block.rows()), columns = std::size_t(m.block.columns());
  m.u = from.next<T>(rows * (m.dense ? columns : std::size_t(m.rank)));
  if (!m.dense) m.v = from.next<T>(columns * std::size_t(m.rank));
  return m;
}

}  // namespace

template <Scalar T>
BlockMatrix<T> part_of(const BlockMatrix<T>& whole, const Block& b) {
  BlockMatrix<T> part{b, whole.dense, whole.rank, {}, {}};
  const Block& a = whole.block;
  const Local top = b.row_begin - a.row_begin, left = b.column_begin - a.column_begin;
  if (whole.dense) {
    part.u.resize(std::size_t(b.rows()) * std::size_t(b.columns()));
    for (std::size_t c = 0; c < std::size_t(b.columns()); ++c)
      std::copy_n(whole.u.data() + (std::size_t(left) + c) * std::size_t(a.rows()) + std::size_t(top), b.rows(),
                  part.u.data() + c * std::size_t(b.rows()));
  } else {
    part.u = rows_of(whole.u, a.rows(), top, b.rows(), std::size_t(whole.rank));
    part.v = rows_of(whole.v, a.columns(), left, b.columns(), std::size_t(whole.rank));
  }
  return part;
}

template <Scalar T>
void exchange_blocks(const comm::Communicator& comm, std::map<int, std::vector<BlockMatrix<T>>> others,
                     std::vector<BlockMatrix<T>>& own, Sent& sent) {
  std::vector<comm::Communicator::Parcel> parcels;
  for (auto& [to, blocks] : others) {
    Bytes bytes;
    for (auto& m : blocks) {
      write_piece(bytes, m);
      m = {};
    }
    sent.messages += 1, sent.bytes += double(bytes.size());
    parcels.push_back({to, std::move(bytes)});
  }
  for (auto& parcel : comm.sparse_exchange(parcels)) {
    Reader from(parcel.bytes);
    while (!from.done()) own.push_back(read_piece<T>(from));
    parcel.bytes = std::vector<std::byte>();  // not {}, which keeps the memory
  }
}

template <Scalar T>
std::vector<BlockMatrix<T>> moved_to_rows(const comm::Communicator& comm, std::vector<BlockMatrix<T>> blocks,
                                          std::span<const Global> cuts) {
  std::vector<BlockMatrix<T>> own;
  std::map<int, std::vector<BlockMatrix<T>>> others;
  for (auto& m : blocks) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      Block b = m.block;
      b.row_begin = std::max(b.row_begin, Local(cuts[std::size_t(rank)]));
      b.row_end = std::min(b.row_end, Local(cuts[std::size_t(rank) + 1]));
      if (b.row_begin < b.row_end) (rank == comm.rank() ? own : others[rank]).push_back(part_of(m, b));
    }
    m = {};
  }
  Sent sent;
  exchange_blocks(comm, std::move(others), own, sent);
  return own;
}

#define TACIT_INSTANTIATE(T)                                                                                 \
  template BlockMatrix<T> part_of(const BlockMatrix<T>&, const Block&);                                      \
  template void exchange_blocks(const comm::Communicator&, std::map<int, std::vector<BlockMatrix<T>>>,       \
                                std::vector<BlockMatrix<T>>&, Sent&);                                        \
  template std::vector<BlockMatrix<T>> moved_to_rows(const comm::Communicator&, std::vector<BlockMatrix<T>>, \
                                                     std::span<const Global>);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op::detail
