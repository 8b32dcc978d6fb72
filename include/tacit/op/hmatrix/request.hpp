// The options of an H-matrix as users give them: one table for Python, the command line and documents.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

namespace tacit::op {

struct HMatrixRequest {
  TreeOptions tree;
  HMatrixOptions matrix;
};
std::span<const Option<HMatrixRequest>> hmatrix_options();

}  // namespace tacit::op
