// Orders of a matrix's rows and columns where nothing but its pattern is known.
#include "bindings.hpp"

#include <nanobind/stl/string.h>

#include <tacit/layout/clustering.hpp>

#include <span>
#include <string>
#include <utility>

namespace tacit::python {

void bind_clustering(nb::module_& m) {
  // Orders of a pattern's rows and columns, and how they were found.
  m.def("cluster", [](const Elements<Global>& start, const Elements<Local>& column, Local columns,
                      const std::string& how, Local block) {
    auto found = unlocked([&] {
      return layout::cluster({{start.data(), start.size()}, {column.data(), column.size()}, columns},
                             {layout::clustering_named(how).value_or(layout::Clustering::automatic), block});
    });
    return nb::make_tuple(array_of(std::move(found.rows)), array_of(std::move(found.columns)),
                          std::string(layout::name_of(found.how)));
  });
  // Entries over distinct columns of blocks of rows; over distinct rows of blocks of columns.
  m.def("reuse", [](const Elements<Global>& start, const Elements<Local>& column, Local columns,
                    const Elements<Local>& order, Local block, bool of_columns) {
    WithoutGil free;
    const layout::Pattern pattern{{start.data(), start.size()}, {column.data(), column.size()}, columns};
    const std::span<const Local> in{order.data(), order.size()};
    return of_columns ? layout::column_reuse(pattern, in, block) : layout::row_reuse(pattern, in, block);
  });
}

}  // namespace tacit::python
