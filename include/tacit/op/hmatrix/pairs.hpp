// Entries of an H-matrix for pairs of a row and a column, for functions that are best called seldom.
#pragma once

#include <tacit/op/hmatrix/block_maker.hpp>

#include <functional>
#include <memory>
#include <span>

namespace tacit::op {

/// out[k] = A(rows[k], columns[k]), in the caller's numbering. Called from one thread at a time.
template <Scalar T>
using PairFunction = std::function<void(std::span<const Global> rows, std::span<const Global> columns, T* out)>;

/// The same entries as blocks.
template <Scalar T>
EntryFunction<T> blocks_of_pairs(PairFunction<T> pairs);

/// Makes many blocks of an HMatrix together, by crosses, with one call for up to 2^20 entries of all of them. `entry`:
/// blocks_of_pairs(pairs); `rows` and `columns`: the orders of the trees. poll() is called before each call and may
/// throw. The references are kept.
template <Scalar T>
std::unique_ptr<BlockMaker<T>> make_by_pairs(PairFunction<T> pairs, const EntryFunction<T>& entry,
                                             std::span<const Global> rows, std::span<const Global> columns,
                                             std::function<void()> poll);

}  // namespace tacit::op
