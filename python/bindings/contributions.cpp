// op::Contributions for Python: where entries go that any rank adds to any row.
#include "bindings.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <tacit/op/contributions.hpp>

#include <memory>
#include <span>

namespace tacit::python {
namespace {

using comm::Communicator;
using layout::Partition;
using op::Contributions;
using Offsets = std::vector<Global>;

template <Scalar T>
void bind_scalar(nb::class_<Contributions>& c) {
  using Real = real_t<T>;
  constexpr std::size_t parts = sizeof(T) / sizeof(Real);
  // From k columns of `from` values to k columns of `to` values, by f(from, width, to).
  const auto moved = [](const Contributions& a, const Columns<T>& values, std::size_t from, std::size_t to, auto&& f) {
    const bool many = values.ndim() == 2;
    const std::size_t k = many ? values.shape(1) : 1;
    std::vector<T> result;
    together(a.comm(), [&] {
      require(values.ndim() >= 1 && values.ndim() <= 2 && values.shape(0) == from, "an array of ", from,
              " values, or of so many rows, is needed");
      result.resize(to * k);
      f(std::span(reinterpret_cast<const Real*>(values.data()), values.size() * parts),
        checked_cast<int>(k * parts, "the number of columns"),
        std::span(reinterpret_cast<Real*>(result.data()), result.size() * parts));
    });
    return array_of<T>(std::move(result), to, many ? k : 0);
  };
  // The values of this rank's entries, from those of its contributions; and back. Collective.
  c.def(named<T>("sum").c_str(), [moved](Contributions& a, const Columns<T>& values) {
    return moved(a, values, std::size_t(a.given()), a.column().size(),
                 [&](auto from, int width, auto to) { a.sum<Real>(from, width, to); });
  });
  c.def(named<T>("spread").c_str(), [moved](Contributions& a, const Columns<T>& values) {
    return moved(a, values, a.column().size(), std::size_t(a.given()),
                 [&](auto from, int width, auto to) { a.spread<Real>(from, width, to); });
  });
}

}  // namespace

void bind_contributions(nb::module_& m) {
  nb::class_<Contributions> contributions(m, "Contributions");
  contributions.def_prop_ro("given", &Contributions::given)
      .def_prop_ro("receivers", &Contributions::receivers)
      // The entries of this rank's rows: (starts, columns).
      .def("structure", [](const Contributions& c) {
        const auto start = c.start(), column = c.column();
        return nb::make_tuple(array_of(std::vector<Global>(start.begin(), start.end())),
                              array_of(std::vector<Global>(column.begin(), column.end())));
      });
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(contributions); });
  m.def("contributions", [](const Communicator& comm, const Offsets& rows, Global columns, const Elements<Global>& row,
                            const Elements<Global>& column, const Elements<std::uint8_t>& inserted) {
    return together(comm, [&] {
      return std::make_shared<Contributions>(comm, Partition(rows), columns, std::span(row.data(), row.size()),
                                             std::span(column.data(), column.size()),
                                             std::span(inserted.data(), inserted.size()));
    });
  });
}

}  // namespace tacit::python
