// tacit::layout for Python: how indices are spread over ranks.
#include "bindings.hpp"

#include <nanobind/stl/vector.h>

#include <tacit/layout/space.hpp>

namespace tacit::python {

void bind_layout(nb::module_& m) {
  m.def("block_offsets", [](Global n, int parts) {
    const auto partition = layout::Partition::blocks(n, parts);
    const auto offsets = partition.offsets();
    return std::vector<Global>(offsets.begin(), offsets.end());
  });
}

}  // namespace tacit::python
