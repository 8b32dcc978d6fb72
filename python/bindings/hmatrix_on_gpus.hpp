// H-matrices on the GPUs of a process, for Python.
#pragma once

#include "bindings.hpp"

namespace tacit::python {

void bind_hmatrix_on_gpus(nb::module_& m);

}  // namespace tacit::python
