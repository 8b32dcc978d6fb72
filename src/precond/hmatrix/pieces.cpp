#include "pieces.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tacit::precond::detail {

template <Scalar T>
void cut_at(const Grid& grid, op::BlockMatrix<T> whole, std::vector<op::BlockMatrix<T>>& parts) {
  const op::Block& a = whole.block;
  const int top = grid.of(a.row_begin), bottom = grid.of(a.row_end - 1), left = grid.of(a.column_begin),
            right = grid.of(a.column_end - 1);
  if (top == bottom && left == right) return parts.push_back(std::move(whole));
  for (int i = top; i <= bottom; ++i)
    for (int j = left; j <= right; ++j)
      parts.push_back(op::detail::part_of(
          whole, {std::max(a.row_begin, grid.begin(i)), std::min(a.row_end, grid.end(i)),
                  std::max(a.column_begin, grid.begin(j)), std::min(a.column_end, grid.end(j)), a.admissible}));
}

template <Scalar T>
std::vector<op::BlockMatrix<T>> own_pieces(const op::HMatrix<T>& A, const Grid& grid, Local first, Local last,
                                           bool lower, Local rank, T scale, Sent& sent) {
  const auto& comm = A.range().comm();
  const auto wanted = [&](const op::Block& b) {
    return b.row_begin >= first && b.row_begin < last && (!lower || b.row_end > b.column_begin);
  };
  std::vector<op::BlockMatrix<T>> own, parts;
  std::map<int, std::vector<op::BlockMatrix<T>>> others;
  for (auto& m : A.blocks_within(0, A.row_tree()->size(), wanted)) {
    if (rank > 0 && m.rank > rank) m.rank = rank;
    if (scale != T(1))
      for (T& u : m.u) u *= scale;
    parts.clear();
    cut_at(grid, std::move(m), parts);
    for (auto& part : parts) {
      const int i = grid.of(part.block.row_begin), j = grid.of(part.block.column_begin);
      if (lower && j > i) continue;
      const int owner = grid.owner(i, j);
      (owner == comm.rank() ? own : others[owner]).push_back(std::move(part));
    }
  }
  if (comm.size() > 1) op::detail::exchange_blocks(comm, std::move(others), own, sent);
  return own;
}

#define TACIT_INSTANTIATE(T)                                                                                         \
  template void cut_at(const Grid&, op::BlockMatrix<T>, std::vector<op::BlockMatrix<T>>&);                           \
  template std::vector<op::BlockMatrix<T>> own_pieces(const op::HMatrix<T>&, const Grid&, Local, Local, bool, Local, \
                                                      T, Sent&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond::detail
