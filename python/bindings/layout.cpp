// tacit::layout for Python: how indices are spread over ranks, and renumberings.
#include "bindings.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/layout/hilbert.hpp>
#include <tacit/layout/partitioners.hpp>
#include <tacit/layout/space.hpp>

#include <memory>
#include <span>

namespace tacit::python {
namespace {

using comm::Communicator;
using layout::Partition;
using layout::Renumbering;
using Offsets = std::vector<Global>;

layout::GraphView view(const Elements<Global>& start, const Elements<Global>& column) {
  return {{start.data(), start.size()}, {column.data(), column.size()}};
}

template <Scalar T>
void bind_scalar(nb::class_<Renumbering>& c) {
  // Values of this rank's new range from those of the old ones; and back. Collective.
  const auto move = [](const Communicator& comm, const Elements<T>& values, auto&& how) {
    auto moved = unlocked([&] { return how(comm, std::span<const T>(values.data(), values.size())); });
    return array_of(std::move(moved));
  };
  c.def(named<T>("forward").c_str(), [move](const Renumbering& r, const Communicator& comm, const Elements<T>& values) {
    return move(comm, values, [&](const auto& on, auto v) { return r.forward<T>(on, v); });
  });
  c.def(named<T>("backward").c_str(),
        [move](const Renumbering& r, const Communicator& comm, const Elements<T>& values) {
          return move(comm, values, [&](const auto& on, auto v) { return r.backward<T>(on, v); });
        });
}

}  // namespace

void bind_layout(nb::module_& m) {
  m.def("block_offsets", [](Global n, int parts) { return offsets_of(Partition::blocks(n, parts)); });
  m.def("metis_built", &layout::metis_built);
  m.def("hilbert_rectangle", [](Local width, Local height) { return array_of(layout::hilbert_order(width, height)); });
  m.def("hilbert_box", [](Local width, Local height, Local depth) {
    return array_of(layout::hilbert_order({width, height, depth}));
  });
  m.def("hilbert_points", [](const Elements<double>& at, int dimensions) {
    return array_of(layout::hilbert_order({at.data(), at.size()}, dimensions));
  });

  using release = nb::call_guard<WithoutGil>;
  nb::class_<Renumbering> renumbering(m, "Renumbering");
  renumbering.def_prop_ro("offsets", [](const Renumbering& r) { return offsets_of(r.after()); })
      .def(
          "then",
          [](const Renumbering& r, const Communicator& comm, const Renumbering& next) {
            return std::make_shared<Renumbering>(r.then(comm, next));
          },
          release());
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(renumbering); });
  // Rows to the ranks that share few edges of the graph (this rank's rows, global columns).
  m.def(
      "renumber_by_graph",
      [](const Communicator& comm, const Offsets& offsets, const Elements<Global>& start,
         const Elements<Global>& column) {
        return comm::collective(comm, [&] {
          const Partition partition(offsets);
          const auto owner = layout::graph_parts(comm, partition, view(start, column), comm.size());
          return std::make_shared<Renumbering>(Renumbering::by_owner(comm, partition, owner));
        });
      },
      release());
  // Reverse Cuthill-McKee within each rank.
  m.def(
      "renumber_inside",
      [](const Communicator& comm, const Offsets& offsets, const Elements<Global>& start,
         const Elements<Global>& column) {
        return comm::collective(comm, [&] {
          const Partition partition(offsets);
          const Global begin = partition.begin(comm.rank()), end = partition.end(comm.rank());
          layout::LocalGraph own;
          const auto graph = view(start, column);
          for (std::size_t i = 0; i + 1 < graph.start.size(); ++i) {
            for (Global k = graph.start[i]; k < graph.start[i + 1]; ++k)
              if (const Global c = graph.column[k]; c >= begin && c < end) own.column.push_back(Local(c - begin));
            own.start.push_back(Global(own.column.size()));
          }
          const auto order = layout::reverse_cuthill_mckee(layout::symmetrised(own));
          return std::make_shared<Renumbering>(Renumbering::inside(comm, partition, order));
        });
      },
      release());
}

}  // namespace tacit::python
