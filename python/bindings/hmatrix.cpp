// tacit::op::HMatrix for Python.
#include "described.hpp"
#include "on_ranks.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/comm/simulate.hpp>
#include <tacit/op/hmatrix/pairs.hpp>
#include <tacit/op/hmatrix/point_kernels.hpp>
#include <tacit/op/hmatrix/request.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <variant>

namespace tacit::python {
namespace {

using comm::Communicator;
using layout::Space;

/// (n, d) points, and (n, 2, d) boxes or an empty array.
op::Coordinates coordinates_of(const Columns<double>& points, const Columns<double>& boxes) {
  return {int(points.shape(1)),
          {points.data(), points.data() + points.size()},
          {boxes.data(), boxes.data() + boxes.size()}};
}

/// A compiled function of points, by its address, and the pointer that it is given.
struct CompiledKernel {
  std::uintptr_t function, data;
  bool of_pairs;
  double nugget;
};

nb::dict report_of(const op::HMatrixReport& r) {
  return dict_of("rows", r.rows, "columns", r.columns, "bytes", r.bytes, "bytes_float64", r.full_bytes, "bytes_float32",
                 r.single_bytes, "bytes_int16", r.fixed_bytes, "index_bytes", r.index_bytes, "dense_fraction",
                 r.dense_fraction, "dense_blocks", r.dense_blocks, "low_rank_blocks", r.low_rank_blocks, "ranks",
                 r.ranks, "mean_rank", r.mean_rank, "max_rank", r.max_rank, "entries_evaluated", r.entries_evaluated,
                 "norm", r.norm, "estimated_error", r.estimated_error, "measured_error", r.measured_error,
                 "measured_error_ones", r.measured_error_ones, "error_bound", r.error_bound, "confidence", r.confidence,
                 "seconds", r.set_up_seconds, "least_bytes", r.least_bytes, "most_bytes", r.most_bytes, "warnings",
                 r.warnings);
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

/// The trees of rows and columns.
struct Sides {
  Sides(const Columns<double>& points, const Columns<double>& boxes, const Columns<double>& sources,
        const Columns<double>& source_boxes, const op::TreeOptions& options)
      : rows(std::make_shared<const op::ClusterTree>(coordinates_of(points, boxes), options)), columns(rows) {
    if (sources.size() > 0)
      columns = std::make_shared<const op::ClusterTree>(coordinates_of(sources, source_boxes), options);
  }
  bool square() const { return rows == columns; }
  /// Null where rows and columns have the same points.
  std::shared_ptr<const op::ClusterTree> others() const { return square() ? nullptr : columns; }
  std::shared_ptr<const op::ClusterTree> rows, columns;
};

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// name -> bytes, which refer to the matrix.
template <Scalar T>
nb::dict parts_of(const nb::object& self) {
  nb::dict all;
  for (const op::SavedPart& part : nb::cast<const op::HMatrix<T>&>(self).saved()) {
    nb::object owner = self;
    if (part.owner) {
      auto kept = std::make_unique<std::shared_ptr<const void>>(part.owner);
      owner = nb::capsule(kept.get(), [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
      kept.release();
    }
    const auto* const data = reinterpret_cast<const std::uint8_t*>(part.bytes.data());
    all[part.name.c_str()] = nb::cast(nb::ndarray<nb::numpy, const std::uint8_t>(data, {part.bytes.size()}, owner));
  }
  return all;
}

/// Keeps an array of Python from any thread.
std::shared_ptr<const void> kept_array(Bytes array) {
  return {new Bytes(std::move(array)), [](Bytes* p) {
            WithGil gil;
            delete p;
          }};
}

template <Scalar T>
std::shared_ptr<op::HMatrix<T>> restored(const Communicator& comm, const nb::dict& given) {
  std::vector<op::SavedPart> parts;
  Global rows = 0, columns = -1;
  for (const auto& [name, value] : given) {
    auto array = nb::cast<Bytes>(value);
    const auto* const data = reinterpret_cast<const std::byte*>(array.data());
    parts.push_back({nb::cast<std::string>(name), {data, array.size()}, nullptr});
    if (parts.back().name == "rows.order") rows = Global(array.size() / sizeof(Global));
    if (parts.back().name == "columns.order") columns = Global(array.size() / sizeof(Global));
    parts.back().owner = kept_array(std::move(array));
  }
  return together(comm, [&] {
    const Space range = Space::distributed(comm, rows);
    const Space domain = columns < 0 ? range : Space::distributed(comm, columns);
    return std::make_shared<op::HMatrix<T>>(range, domain, parts);
  });
}

using EntrySource = std::variant<nb::object, op::PointKernel, CompiledKernel>;
EntrySource source_of(const nb::object& entries) {
  if (nb::isinstance<op::PointKernel>(entries)) return nb::cast<op::PointKernel>(entries);
  if (nb::isinstance<CompiledKernel>(entries)) return nb::cast<CompiledKernel>(entries);
  return entries;
}

/// Sets what follows from where the entries come from. `square`: rows and columns are the same points.
void suit(op::HMatrixRequest& request, const EntrySource& source, bool square) {
  request.tree = request.tree_options();
  request.matrix.concurrent = !std::holds_alternative<nb::object>(source);  // Python runs on one thread at a time
  const auto* const named = std::get_if<op::PointKernel>(&source);
  request.matrix.smooth = named != nullptr;
  request.matrix.mirrors = named && square && named->derivative != op::KernelDerivative::target;
  const int components = named ? op::components_of(named->kernel) : 1;
  if (components == 1) return;
  // The components of a point stay together; where they are not coupled, crosses of one do not lead to the others, and
  // so many samples seldom miss one.
  constexpr int samples = 6;
  request.matrix.compress.samples = std::max(samples, request.matrix.compress.samples);
  if (request.tree.leaf_size >= components)
    request.tree.quantum = request.tree.leaf_size >= 16 * components ? 16 * components : components;
}

template <Scalar T>
op::EntryFunction<T> compiled_entries(const EntrySource& source, const Sides& sides) {
  if (const auto* const named = std::get_if<op::PointKernel>(&source))
    return op::kernel_entries<T>(*named, sides.rows, sides.others());
  const auto& made = std::get<CompiledKernel>(source);
  void* const data = reinterpret_cast<void*>(made.data);
  if (made.of_pairs)
    return op::kernel_entries<T>(reinterpret_cast<op::PairOfPoints>(made.function), data, made.nugget, sides.rows,
                                 sides.others());
  return op::kernel_entries<T>(reinterpret_cast<op::BlockOfPoints>(made.function), data, made.nugget, sides.rows,
                               sides.others());
}

/// call_python where the interpreter has stack enough: a simulated rank has little.
template <class F>
void on_outer_stack(const Communicator& comm, F&& f) {
  comm::on_outer_stack(comm, [&] { call_python(comm.size(), f); });
}

/// `entries` and the communicator are kept by reference.
template <Scalar T>
op::EntryFunction<T> entries_of_python(const Communicator& comm, const nb::object& entries) {
  return [&](std::span<const Global> i, std::span<const Global> j, T* out) {
    on_outer_stack(comm, [&] {
      const nb::object result =
          entries(array_of(std::vector<Global>(i.begin(), i.end())), array_of(std::vector<Global>(j.begin(), j.end())));
      const auto values = nb::cast<nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>>(result);
      require(values.shape(0) == i.size() && values.shape(1) == j.size(), "the entry function gave ", values.shape(0),
              " x ", values.shape(1), " entries where ", i.size(), " x ", j.size(), " are needed");
      copy_by_columns(values.data(), values.stride(0), values.stride(1), i.size(), j.size(), out);
    });
  };
}
template <Scalar T>
op::PairFunction<T> pairs_of_python(const Communicator& comm, const nb::object& entries) {
  return [&](std::span<const Global> i, std::span<const Global> j, T* out) {
    on_outer_stack(comm, [&] {
      const nb::object result =
          entries(array_of(std::vector<Global>(i.begin(), i.end())), array_of(std::vector<Global>(j.begin(), j.end())));
      const auto values = nb::cast<nb::ndarray<const T, nb::ndim<1>, nb::device::cpu>>(result);
      require(values.shape(0) == i.size(), "the entry function gave ", values.shape(0), " entries where ", i.size(),
              " are needed");
      for (std::size_t k = 0; k < i.size(); ++k) out[k] = values.data()[std::int64_t(k) * values.stride(0)];
    });
  };
}

/// Entries of a named kernel for lists of rows and columns, by columns.
template <Scalar T>
nb::object entries_of_kernel(const Columns<double>& points, const Columns<double>& sources,
                             const op::PointKernel& kernel, const std::vector<Global>& rows,
                             const std::vector<Global>& columns) {
  std::vector<T> out(rows.size() * columns.size());
  const auto tree = [](const Columns<double>& of) {
    return std::make_shared<const op::ClusterTree>(
        op::Coordinates{int(of.shape(1)), {of.data(), of.data() + of.size()}, {}}, op::TreeOptions{});
  };
  const auto all = tree(points);
  op::kernel_entries<T>(kernel, all, sources.size() > 0 ? tree(sources) : nullptr)(rows, columns, out.data());
  return array_of(std::move(out));
}
/// What an H-matrix is made of but for its points. `entries`: a named kernel, a compiled one, or a Python function,
/// which gives a matrix of any strides, or with `pairwise` a vector.
template <Scalar T>
class Assembly {
  using HMatrix = op::HMatrix<T>;

 public:
  Assembly(const nb::object& entries, bool pairwise, bool square, const op::HMatrixRequest& request)
      : source_(source_of(entries)), pairwise_(pairwise), request_(request) {
    suit(request_, source_, square);
  }
  /// `sources` is empty where rows and columns are the same points.
  Sides sides(const Columns<double>& points, const Columns<double>& boxes, const Columns<double>& sources,
              const Columns<double>& source_boxes) const {
    check_values(op::hmatrix_options(), request_);
    return {points, boxes, sources, source_boxes, request_.tree_options()};
  }
  /// Collective.
  std::shared_ptr<HMatrix> make(const Communicator& comm, const Sides& sides) const {
    const Space range = Space::distributed(comm, sides.rows->size());
    const Space domain = sides.square() ? range : Space::distributed(comm, sides.columns->size());
    const auto made = [&](const op::EntryFunction<T>& entry, op::BlockMaker<T>* maker = nullptr) {
      return std::make_shared<HMatrix>(range, domain, sides.rows, sides.columns, entry, request_.matrix, maker);
    };
    if (!python()) return made(compiled_entries<T>(source_, sides));
    if (!pairwise_) return made(entries_of_python<T>(comm, std::get<nb::object>(source_)));
    const auto pairs = pairs_of_python<T>(comm, std::get<nb::object>(source_));
    const auto entry = op::blocks_of_pairs<T>(pairs);
    if (request_.matrix.compress.method == op::Compression::svd) return made(entry);
    const auto maker = op::make_by_pairs<T>(pairs, entry, sides.rows->order(), sides.columns->order(),
                                            [&] { comm.check(), comm.check_interrupt(); });
    return made(entry, maker.get());
  }

 private:
  bool python() const { return std::holds_alternative<nb::object>(source_); }
  EntrySource source_;
  bool pairwise_;
  op::HMatrixRequest request_;
};

template <Scalar T>
void bind_scalar(nb::module_& m) {
  using Base = op::Operator<T>;
  using HMatrix = op::HMatrix<T>;
  nb::class_<HMatrix, Base>(m, named<T>("HMatrix").c_str())
      .def_prop_ro("report", [](const HMatrix& a) { return report_of(a.report()); })
      .def_prop_ro("nested", [](const HMatrix& a) { return a.options().nested; })
      .def("use_batches",
           [](HMatrix& a, const std::string& order, const std::string& cut, Local count, std::vector<Local> least,
              bool padded, int queues) {
             in_turn(a.range().comm(), [&] {
               a.use_batches({value_of<op::TaskOrder>(order), value_of<op::BatchCut>(cut), count, std::move(least),
                              padded, queues});
             });
           })
      .def_prop_ro("parts", [](const nb::object& self) { return parts_of<T>(self); })
      .def("use_own_product", [](HMatrix& a) { in_turn(a.range().comm(), [&] { a.use_own_product(); }); })
      .def_prop_ro("batches", [](const HMatrix& a) -> nb::object {
        const auto report = in_turn(a.range().comm(), [&] {
          const auto* const made = a.batches();
          return made ? std::optional(*made) : std::nullopt;
        });
        return report ? nb::object(batches_of(*report)) : nb::none();
      });
  m.def(named<T>("restored_hmatrix").c_str(), &restored<T>);
  m.def(named<T>("kernel_entries").c_str(), &entries_of_kernel<T>);
  m.def(named<T>("hmatrix").c_str(), [](const Communicator& comm, const Columns<double>& points,
                                        const Columns<double>& boxes, const Columns<double>& sources,
                                        const Columns<double>& source_boxes, const nb::object& entries, bool pairwise,
                                        const op::HMatrixRequest& request) {
    const Assembly<T> assembly(entries, pairwise, sources.size() == 0, request);
    return together(comm, [&] { return assembly.make(comm, assembly.sides(points, boxes, sources, source_boxes)); });
  });
  // The same for square matrices on ranks that are not there yet.
  nb::class_<OnRanks<T>>(m, named<T>("OnRanks").c_str()).def_ro("size", &OnRanks<T>::size);
  m.def(named<T>("hmatrix_on_ranks").c_str(), [](const Columns<double>& points, const Columns<double>& boxes,
                                                 const nb::object& entries, bool pairwise,
                                                 const op::HMatrixRequest& request) {
    const Assembly<T> assembly(entries, pairwise, true, request);
    const Sides sides = unlocked([&] { return assembly.sides(points, boxes, Columns<double>(), Columns<double>()); });
    constexpr std::size_t stack_bytes = std::size_t(1) << 20;  // reserved; used where touched
    return OnRanks<T>{sides.rows->size(), stack_bytes,
                      [=](const Communicator& comm) { return assembly.make(comm, sides); }};
  });
}

}  // namespace

void bind_hmatrix(nb::module_& m) {
  bind_options<op::HMatrixRequest>(m, "HMatrixOptions", "hmatrix", op::hmatrix_options());
  bind_options<op::PointKernel>(m, "PointKernel", "point_kernel", op::point_kernel_options())
      .def("differentiate", [](op::PointKernel& self, bool by_length, int axis) {
        self.derivative = by_length ? op::KernelDerivative::length : op::KernelDerivative::target;
        self.axis = axis;
      });
  nb::class_<CompiledKernel>(m, "CompiledKernel")
      .def(
          "__init__",
          [](CompiledKernel* self, std::uintptr_t function, std::uintptr_t data, bool of_pairs, double nugget) {
            new (self) CompiledKernel{function, data, of_pairs, nugget};
          },
          nb::arg("function"), nb::arg("data"), nb::arg("of_pairs"), nb::arg("nugget"));
  bind_choices<op::TaskOrder>(m, "task_orders");
  bind_choices<op::BatchCut>(m, "batch_cuts");
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
