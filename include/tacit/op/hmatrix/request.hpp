// The options of an H-matrix as users give them: one table for Python, the command line and documents.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <optional>
#include <span>

namespace tacit::op {

struct HMatrixRequest {
  TreeOptions tree;  ///< leaf_size is the one below
  HMatrixOptions matrix;
  std::optional<Local> leaf_size;  ///< absent: 64, with nested bases 32
  TreeOptions tree_options() const {
    TreeOptions made = tree;
    made.leaf_size = leaf_size.value_or(matrix.nested ? 32 : 64);
    return made;
  }
};
std::span<const Option<HMatrixRequest>> hmatrix_options();

}  // namespace tacit::op
