// tacit::io for Python: local readers and writers; readers return arrays.
#include "bindings.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/tuple.h>

#include <tacit/io/detect.hpp>
#include <tacit/io/matrix_market.hpp>
#include <tacit/io/petsc_binary.hpp>

#include <filesystem>

namespace tacit::python {
namespace {

using File = std::filesystem::path;  // from Python any bytes that name a file, not only UTF-8
using release = WithoutGil;

const char* kind_name(io::FileKind kind) {
  static constexpr const char* names[] = {"matrix_market", "petsc_binary", "npz", "npy", "unknown"};
  return names[int(kind)];
}

io::Header header_of(const File& path, bool petsc) {
  return petsc ? io::read_petsc_header(path) : io::read_matrix_market_header(path);
}

template <Scalar T>
io::Triplets<T> triplets_from(Global rows, Global columns, const Elements<Global>& row, const Elements<Global>& column,
                              const Elements<T>& value) {
  io::Triplets<T> t;
  t.rows = rows;
  t.columns = columns;
  t.row.assign(row.data(), row.data() + row.size());
  t.column.assign(column.data(), column.data() + column.size());
  t.value.assign(value.data(), value.data() + value.size());
  return t;
}

template <Scalar T>
void bind_scalar(nb::module_& m) {
  // (row, column, value, entries parsed) of the part-th of `parts` shares of the file.
  m.def(named<T>("read_triplets").c_str(), [](const File& path, bool petsc, int part, int parts) {
    auto t = unlocked([&] {
      return petsc ? io::read_petsc_matrix<T>(path, part, parts) : io::read_matrix_market<T>(path, part, parts);
    });
    const Global parsed = t.entries_parsed;
    return nb::make_tuple(array_of(std::move(t.row)), array_of(std::move(t.column)), array_of(std::move(t.value)),
                          parsed);
  });
  // Stored by columns.
  m.def(named<T>("read_dense").c_str(), [](const File& path, bool petsc) {
    auto d = unlocked([&] { return petsc ? io::read_petsc_vector<T>(path) : io::read_matrix_market_array<T>(path); });
    const Global rows = d.rows, columns = d.columns;
    return nb::make_tuple(rows, columns, array_of(std::move(d.value)));
  });
  m.def(named<T>("write_triplets").c_str(), [](const File& path, bool petsc, Global rows, Global columns,
                                               Elements<Global> row, Elements<Global> column, Elements<T> value) {
    release free;
    const auto t = triplets_from<T>(rows, columns, row, column, value);
    if (petsc) io::write_petsc_matrix(path, t);
    else io::write_matrix_market(path, t);
  });
  m.def(named<T>("write_dense").c_str(),
        [](const File& path, bool petsc, Global rows, Global columns, Elements<T> value) {
          release free;
          io::Dense<T> d{rows, columns, {value.data(), value.data() + value.size()}};
          if (petsc) io::write_petsc_vector(path, d);
          else io::write_matrix_market_array(path, d);
        });
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def("detect", [](const File& path) { return kind_name(io::detect(path)); });
  // (rows, columns, entries, field, dense, vectors behind a matrix)
  m.def("read_header", [](const File& path, bool petsc) {
    const auto h = header_of(path, petsc);
    const char* const field = h.field == io::Field::real      ? "real"
                              : h.field == io::Field::integer ? "integer"
                              : h.field == io::Field::complex ? "complex"
                                                              : "pattern";
    return nb::make_tuple(h.rows, h.columns, h.entries, field, h.format == io::Format::array, h.vectors);
  });
  m.def("largest_dimension", &io::largest_dimension);
  // Error unless all parts together hold as many entries as the header says.
  m.def("check_entry_count",
        [](const File& path, Global total) { io::check_entry_count(io::read_matrix_market_header(path), total); });
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
