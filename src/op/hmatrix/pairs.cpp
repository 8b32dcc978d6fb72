#include <tacit/op/hmatrix/pairs.hpp>

#include "waves.hpp"

#include <utility>
#include <vector>

namespace tacit::op {

template <Scalar T>
EntryFunction<T> blocks_of_pairs(PairFunction<T> pairs) {
  return [pairs = std::move(pairs)](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    std::vector<Global> i, j;
    i.reserve(rows.size() * columns.size()), j.reserve(rows.size() * columns.size());
    for (const Global column : columns) {
      i.insert(i.end(), rows.begin(), rows.end());
      j.insert(j.end(), rows.size(), column);
    }
    pairs(i, j, out);
  };
}

template <Scalar T>
std::unique_ptr<BlockMaker<T>> make_by_pairs(PairFunction<T> pairs, const EntryFunction<T>& entry,
                                             std::span<const Global> rows, std::span<const Global> columns,
                                             std::function<void()> poll) {
  return std::make_unique<detail::Waves<T>>(entry, rows, columns, std::move(poll), std::move(pairs));
}

#define TACIT_INSTANTIATE(T)                                                                              \
  template EntryFunction<T> blocks_of_pairs(PairFunction<T>);                                             \
  template std::unique_ptr<BlockMaker<T>> make_by_pairs(PairFunction<T>, const EntryFunction<T>&,         \
                                                        std::span<const Global>, std::span<const Global>, \
                                                        std::function<void()>);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
