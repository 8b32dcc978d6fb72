// tacit::op::HMatrix for Python.
#include "described.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/op/hmatrix/request.hpp>

#include <algorithm>
#include <cstdint>

namespace tacit::python {
namespace {

using comm::Communicator;
using layout::Space;

/// Rows of three numbers, low corner before high corner in rows of six.
op::Geometry geometry_of(const Columns<double>& points, const Columns<double>& boxes) {
  op::Geometry g;
  const double* p = points.data();
  for (std::size_t i = 0; i < points.size() / 3; ++i, p += 3) g.points.push_back({p[0], p[1], p[2]});
  const double* b = boxes.data();
  for (std::size_t i = 0; i < boxes.size() / 6; ++i, b += 6)
    g.boxes.push_back({{b[0], b[1], b[2]}, {b[3], b[4], b[5]}});
  return g;
}

nb::dict report_of(const op::HMatrixReport& r) {
  return dict_of("rows", r.rows, "columns", r.columns, "bytes", r.bytes, "bytes_float64", r.full_bytes, "bytes_float32",
                 r.single_bytes, "bytes_int16", r.fixed_bytes, "index_bytes", r.index_bytes, "dense_fraction",
                 r.dense_fraction, "dense_blocks", r.dense_blocks, "low_rank_blocks", r.low_rank_blocks, "ranks",
                 r.ranks, "mean_rank", r.mean_rank, "max_rank", r.max_rank, "entries_evaluated", r.entries_evaluated,
                 "norm", r.norm, "estimated_error", r.estimated_error, "measured_error", r.measured_error,
                 "measured_error_ones", r.measured_error_ones, "seconds", r.set_up_seconds, "least_bytes",
                 r.least_bytes, "most_bytes", r.most_bytes, "warnings", r.warnings);
}

nb::dict batches_of(const op::BatchReport& r) {
  nb::list batches;
  for (const auto& b : r.batches)
    batches.append(dict_of("list", b.list, "tasks", b.last - b.first, "rows", nb::make_tuple(b.least_rows, b.most_rows),
                           "columns", nb::make_tuple(b.least_columns, b.most_columns), "numbers", b.numbers, "stored",
                           b.stored, "seconds", b.seconds, "thread_blocks", nb::make_tuple(b.working, b.started)));
  return dict_of("tasks", r.tasks, "bytes", r.bytes, "padded_bytes", r.padded_bytes, "batches", batches);
}

/// out(i, j), by columns, from numbers at distances of these strides; in tiles, of which rows and columns stay in
/// cache.
template <class T>
void copy_by_columns(const T* from, std::int64_t down, std::int64_t across, std::size_t rows, std::size_t columns,
                     T* out) {
  constexpr std::size_t tile = 32;
  for (std::size_t i0 = 0; i0 < rows; i0 += tile)
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = i0; i < std::min(rows, i0 + tile); ++i)
        out[i + j * rows] = from[std::int64_t(i) * down + std::int64_t(j) * across];
}

template <Scalar T>
void bind_scalar(nb::module_& m) {
  using Base = op::Operator<T>;
  using HMatrix = op::HMatrix<T>;
  nb::class_<HMatrix, Base>(m, named<T>("HMatrix").c_str())
      .def_prop_ro("report", [](const HMatrix& a) { return report_of(a.report()); })
      .def("use_batches",
           [](HMatrix& a, const std::string& order, const std::string& cut, Local count, std::vector<Local> least,
              bool padded, int queues) {
             in_turn(a.range().comm(), [&] {
               a.use_batches({value_of<op::TaskOrder>(order), value_of<op::BatchCut>(cut), count, std::move(least),
                              padded, queues});
             });
           })
      .def("use_own_product", [](HMatrix& a) { in_turn(a.range().comm(), [&] { a.use_own_product(); }); })
      .def_prop_ro("batches", [](const HMatrix& a) -> nb::object {
        const auto report = in_turn(a.range().comm(), [&] {
          const auto* const made = a.batches();
          return made ? std::optional(*made) : std::nullopt;
        });
        return report ? nb::object(batches_of(*report)) : nb::none();
      });
  // `entries` gives a matrix of any strides; `sources` is empty where rows and columns are the same points.
  m.def(named<T>("hmatrix").c_str(), [](const Communicator& comm, const Columns<double>& points,
                                        const Columns<double>& boxes, const Columns<double>& sources,
                                        const Columns<double>& source_boxes, const nb::object& entries,
                                        op::HMatrixRequest request) {
    request.matrix.concurrent = false;  // Python runs on one thread at a time
    return together(comm, [&] {
      check_values(op::hmatrix_options(), request);
      const auto rows = std::make_shared<const op::ClusterTree>(geometry_of(points, boxes), request.tree);
      const auto columns = sources.size() == 0 ? rows
                                               : std::make_shared<const op::ClusterTree>(
                                                     geometry_of(sources, source_boxes), request.tree);
      const Space range = Space::distributed(comm, rows->size());
      const op::EntryFunction<T> entry = [&](std::span<const Global> i, std::span<const Global> j, T* out) {
        call_python(comm.size(), [&] {
          const nb::object result = entries(array_of(std::vector<Global>(i.begin(), i.end())),
                                            array_of(std::vector<Global>(j.begin(), j.end())));
          const auto values = nb::cast<nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>>(result);
          require(values.shape(0) == i.size() && values.shape(1) == j.size(), "the entry function gave ",
                  values.shape(0), " x ", values.shape(1), " entries where ", i.size(), " x ", j.size(), " are needed");
          copy_by_columns(values.data(), values.stride(0), values.stride(1), i.size(), j.size(), out);
        });
      };
      return std::make_shared<HMatrix>(range, columns == rows ? range : Space::distributed(comm, columns->size()), rows,
                                       columns, entry, request.matrix);
    });
  });
}

}  // namespace

void bind_hmatrix(nb::module_& m) {
  bind_options<op::HMatrixRequest>(m, "HMatrixOptions", "hmatrix", op::hmatrix_options());
  bind_choices<op::TaskOrder>(m, "task_orders");
  bind_choices<op::BatchCut>(m, "batch_cuts");
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
