// What an hmatrix is to be like, as the Python layer says it.
#pragma once

#include "bindings.hpp"

#include <tacit/op/hmatrix/hmatrix.hpp>

namespace tacit::python {

struct HMatrixRequest {
  op::TreeOptions tree;
  op::HMatrixOptions matrix;
};
HMatrixRequest request_of(const nb::dict& options);

}  // namespace tacit::python
