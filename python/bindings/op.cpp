// tacit::op for Python: one handle for every operator of a scalar, and the operators themselves.
#include "described.hpp"
#include "exec/lent.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/io/matrix_market.hpp>
#include <tacit/io/npz.hpp>
#include <tacit/io/petsc_binary.hpp>
#include <tacit/layout/partitioners.hpp>
#include <tacit/op/assemble.hpp>
#include <tacit/op/compose.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/low_rank.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/op/renumber.hpp>
#include <tacit/op/stencil.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

namespace tacit::python {
namespace {

using comm::Communicator;
using layout::Partition;
using layout::Space;
using layout::Vector;
using Offsets = std::vector<Global>;

/// The spaces of a matrix; the same one if rows and columns are distributed alike.
std::pair<Space, Space> spaces(const Communicator& comm, const Offsets& rows, const Offsets& columns) {
  const Space range = Space::distributed(comm, Partition(rows));
  return {range, rows == columns ? range : Space::distributed(comm, Partition(columns))};
}

/// Rows [begin, end) of a matrix whose arrays start at row `first`; `starts` becomes their row starts.
template <Scalar T, class Index>
op::RowsView<T, Index> cut(const Elements<Index>& start, const Elements<Index>& column, const Elements<T>& value,
                           Global first, Global begin, Global end, std::vector<Global>& starts) {
  const Index* const s = start.data();
  require(first <= begin && end <= first + Global(start.size()) - 1, "a matrix with rows ", first, " to ",
          first + Global(start.size()) - 2, " where rows ", begin, " to ", end - 1, " are needed");
  require(column.size() == value.size(), "a matrix with ", column.size(), " column indices and ", value.size(),
          " values");
  require(s[0] == 0, "the row pointers begin with ", s[0], "; entries before that would belong to no row, 0 is needed");
  starts.reserve(std::size_t(end - begin) + 1);
  starts.push_back(0);
  for (Global i = begin - first; i < end - first; ++i) {
    require(s[i] >= 0 && s[i] <= s[i + 1] && std::size_t(s[i + 1]) <= value.size(), "the row pointers of row ",
            first + i, " are ", s[i], " and ", s[i + 1], " in a matrix of ", value.size(), " entries");
    starts.push_back(Global(s[i + 1] - s[begin - first]));
  }
  const std::size_t from = begin < end ? std::size_t(s[begin - first]) : 0, count = std::size_t(starts.back());
  return {starts, {column.data() + from, count}, {value.data() + from, count}};
}

/// io::NpzArray from Python: name, kind, width, count, at, stored, deflated, header, crc.
using NpzArguments = std::tuple<std::string, std::string, int, Global, Global, Global, bool, Global, std::uint32_t>;
io::NpzArray npz_array(const NpzArguments& a) {
  const auto& [name, kind, width, count, at, stored, deflated, header, crc] = a;
  return {name, kind.at(0), width, count, at, stored, deflated, header, crc};
}

/// The Python objects that an operator holds, for the garbage collector: users' functions often refer to an object that
/// holds the operator.
struct HoldsPython {
  virtual ~HoldsPython() = default;
  virtual int visit(visitproc visit, void* arg) const = 0;
  virtual void clear() = 0;
};

/// An operator that is a Python function. `whole`: the function maps whole vectors, which are gathered for it on every
/// rank; otherwise it maps this rank's part to this rank's part, and does its own communication.
template <Scalar T>
class PythonOperator final : public op::Operator<T, Host>, public HoldsPython {
 public:
  PythonOperator(Space range, Space domain, std::string name, nb::object product, nb::object adjoint, bool whole)
      : op::Operator<T, Host>(std::move(range), std::move(domain)),
        name_(std::move(name)),
        product_(std::move(product)),
        adjoint_(std::move(adjoint)),
        whole_(whole) {}
  std::string name() const override { return name_; }
  bool has_adjoint() const override { return !adjoint_.is_none(); }
  int visit(visitproc visit, void* arg) const override {
    Py_VISIT(product_.ptr());
    Py_VISIT(adjoint_.ptr());
    return 0;
  }
  void clear() override { product_ = adjoint_ = nb::none(); }

 protected:
  int begin(const Vector<T>&, Vector<T>&, bool) const override { return 0; }
  void finish(const Vector<T>& x, Vector<T>& y, bool backward, int) const override {
    const Space &from = x.space(), &to = y.space();
    const Communicator& comm = from.comm();
    const bool gather = whole_ && comm.size() > 1;
    const std::size_t k = std::size_t(x.columns()), rows = x.size() / k, n = y.size() / k;
    // The function takes one vector; columns are interleaved.
    for (std::size_t c = 0; c < k; ++c) {
      // The function may keep its argument, so it gets an array of its own.
      std::vector<T> argument(rows);
      for (std::size_t i = 0; i < rows; ++i) argument[i] = x.data()[i * k + c];
      if (gather) argument = comm.all_gather(std::span<const T>(argument));
      call_python(comm.size(), [&] {
        const nb::object result = (backward ? adjoint_ : product_)(array_of(std::move(argument)));
        const auto values = nb::cast<Elements<T>>(result);
        const std::size_t all = gather ? std::size_t(to.size()) : n;
        require(values.size() == all, "the ", name_, " operator gave ", values.size(), " elements where ", all,
                " are needed");
        const T* const from = values.data() + (gather ? to.begin() : 0);
        for (std::size_t i = 0; i < n; ++i) y.data()[i * k + c] = from[i];
      });
    }
  }

 private:
  std::string name_;
  nb::object product_, adjoint_;
  bool whole_;
};

/// An operator in the user's numbering, applied to renumbered vectors: its argument is moved to the user's numbering,
/// its result back.
template <Scalar T>
class Renumbered final : public op::Operator<T, Host>, public op::Varying {
 public:
  Renumbered(Space space, std::shared_ptr<const op::Operator<T, Host>> a,
             std::shared_ptr<const layout::Renumbering> numbers)
      : op::Operator<T, Host>(space, space), a_(std::move(a)), numbers_(std::move(numbers)) {}
  std::string name() const override { return a_->name(); }
  bool has_adjoint() const override { return a_->has_adjoint(); }
  bool intact() const override { return a_->intact(); }
  bool varies() const override { return op::varies(a_.get()); }

 protected:
  int begin(const Vector<T>&, Vector<T>&, bool) const override { return 0; }
  void finish(const Vector<T>& x, Vector<T>& y, bool backward, int) const override {
    const auto& comm = this->range().comm();
    const int k = x.columns();
    Vector<T> in(a_->domain(), k), out(a_->range(), k);
    in.assign(numbers_->backward<T>(comm, {x.data(), x.size()}, k));
    if (backward) a_->apply_adjoint(in, out);
    else a_->apply(in, out);
    y.assign(numbers_->forward<T>(comm, {out.data(), out.size()}, k));
  }

 private:
  std::shared_ptr<const op::Operator<T, Host>> a_;
  std::shared_ptr<const layout::Renumbering> numbers_;
};

template <Scalar T>
HoldsPython* held_by(PyObject* self) {
  return nb::inst_ready(self) ? dynamic_cast<HoldsPython*>(nb::inst_ptr<op::Operator<T, Host>>(self)) : nullptr;
}
template <Scalar T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const HoldsPython* held = held_by<T>(self);
  return held ? held->visit(visit, arg) : 0;
}
template <Scalar T>
int clear(PyObject* self) {
  if (HoldsPython* held = held_by<T>(self)) held->clear();
  return 0;
}
template <Scalar T>
PyType_Slot collected[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse<T>)},
                           {Py_tp_clear, reinterpret_cast<void*>(&clear<T>)},
                           {0, nullptr}};

op::Grid grid_of(const std::vector<Global>& points, const std::vector<std::string>& boundary) {
  std::vector<op::Boundary> kinds;
  for (const auto& name : boundary) kinds.push_back(value_of<op::Boundary>(name));
  return op::Grid(points, kinds);
}

/// The three values of a list of at most three, `rest` where it is shorter.
std::array<double, 3> three(const std::vector<double>& values, double rest) {
  std::array<double, 3> all{rest, rest, rest};
  std::copy_n(values.begin(), std::min<std::size_t>(values.size(), 3), all.begin());
  return all;
}

/// f(dx, dy, dz, weight) for the weights along the axes that the grid has.
template <Scalar T, class F>
void each_weight(const op::Weights<T>& w, const op::Grid& grid, F&& f) {
  const int ly = grid.dimensions > 1, lz = grid.dimensions > 2;
  for (int dz = -lz; dz <= lz; ++dz)
    for (int dy = -ly; dy <= ly; ++dy)
      for (int dx = -1; dx <= 1; ++dx) f(dx, dy, dz, w.at(dx, dy, dz));
}

template <Scalar T>
bool couples_diagonally(const op::Weights<T>& w, const op::Grid& grid) {
  bool found = false;
  each_weight(w, grid, [&](int dx, int dy, int dz, T value) {
    found = found || (std::abs(dx) + std::abs(dy) + std::abs(dz) > 1 && value != T(0));
  });
  return found;
}

/// Entries of the matrix: neighbours outside of the grid are dropped, or are points inside.
Global entries_of(const op::Grid& grid, bool box) {
  Global product = 1, star = grid.size();
  for (int axis = 0; axis < grid.dimensions; ++axis) {
    const Global n = grid.points[std::size_t(axis)];
    const bool periodic = grid.boundary[std::size_t(axis)] == op::Boundary::periodic;
    const Global pairs = n == 1               ? 1
                         : periodic && n == 2 ? 4
                         : periodic           ? 3 * n
                                              : 3 * n - 2;  // of neighbours, and itself
    product *= pairs;
    star += (pairs - n) * (grid.size() / n);
  }
  return box ? product : star;
}

/// Whether the matrix is Hermitian, where its weights alone tell.
template <Scalar T>
std::optional<bool> hermitian_by_weights(const op::Grid& grid, const op::Weights<T>& w) {
  const bool neumann =
      std::count(grid.boundary.begin(), grid.boundary.begin() + grid.dimensions, op::Boundary::neumann) > 0;
  bool same = true, real_only = true;
  each_weight(w, grid, [&](int dx, int dy, int dz, T value) {
    same = same && value == conj(w.at(-dx, -dy, -dz));
    if constexpr (is_complex<T>) real_only = real_only && value.imag() == 0;
  });
  if (same && (!neumann || (real_only && !couples_diagonally(w, grid)))) return true;
  return {};
}

/// Rows in Python: (starts, columns, values).
template <Scalar T>
nb::tuple arrays_of(op::Rows<T> rows) {
  return nb::make_tuple(array_of(std::move(rows.start)), array_of(std::move(rows.column)),
                        array_of(std::move(rows.value)));
}

template <class T>
using Result = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
std::size_t columns_of(const Columns<T>& x) {
  return x.ndim() == 2 ? x.shape(1) : 1;
}

/// Whether a vector lies over the n elements at p, which saves a pass over them.
template <Scalar T>
bool lies_over(const T* p, std::size_t n) {
  return n * sizeof(T) >= exec::least_lent && reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0;
}

/// y = A x or A^H x, for arrays that are large without a copy of either: products do not write x.
template <Scalar T>
void multiply(const op::Operator<T, Host>& a, const Columns<T>& x, bool adjoint, T* y, std::size_t n) {
  const int k = checked_cast<int>(columns_of(x), "the number of columns");
  const Space &from = adjoint ? a.range() : a.domain(), &to = adjoint ? a.domain() : a.range();
  require(x.size() == std::size_t(from.local_size()) * std::size_t(k), "a vector of ", from.local_size(), " x ", k,
          " elements on this rank was given ", x.size());
  const auto made = [k](const Space& space, const T* p, std::size_t count) {
    return lies_over(p, count) ? exec::over(p, count * sizeof(T), [&] { return Vector<T>(space, k); })
                               : Vector<T>(space, k);
  };
  Vector<T> in = made(from, x.data(), x.size()), out = made(to, y, n);
  if (in.data() != x.data()) in.assign({x.data(), x.size()});
  if (adjoint) a.apply_adjoint(in, out);
  else a.apply(in, out);
  if (out.data() != y) std::copy_n(out.data(), n, y);
}

template <Scalar T>
void bind_operator(nb::module_& m) {
  using Base = op::Operator<T, Host>;
  nb::class_<Base>(m, named<T>("Operator").c_str(), nb::type_slots(collected<T>))
      .def_prop_ro("name", &Base::name)
      .def_prop_ro("rows", [](const Base& a) { return a.range().size(); })
      .def_prop_ro("columns", [](const Base& a) { return a.domain().size(); })
      .def_prop_ro("range_offsets", [](const Base& a) { return offsets_of(a.range().partition()); })
      .def_prop_ro("domain_offsets", [](const Base& a) { return offsets_of(a.domain().partition()); })
      .def_prop_ro("comm", [](const Base& a) { return a.range().comm(); })
      .def_prop_ro("has_adjoint", &Base::has_adjoint)
      .def_prop_ro("varies", [](const Base& a) { return op::varies(&a); })
      .def_prop_ro("has_diagonal", &Base::has_diagonal)
      .def_prop_ro("fault", [](const Base& a) { return in_turn(a.range().comm(), [&] { return a.fault(); }); })
      .def_prop_ro("applies", &Base::applies)
      .def_prop_ro("same_spaces", [](const Base& a) { return a.range() == a.domain(); })
      .def("cost",
           [](const Base& a) {
             const auto c = in_turn(a.range().comm(), [&] { return a.cost(); });
             return nb::make_tuple(c.flops, c.bytes, c.messages, c.message_bytes);
           })
      .def("diagonal", [](const Base& a) { return array_of(in_turn(a.range().comm(), [&] { return a.diagonal(); })); })
      // This rank's part of A x or A^H x; x is this rank's part, with k columns where it has two dimensions.
      .def("apply",
           [](const Base& a, const Columns<T>& x, bool adjoint) {
             const std::size_t n = std::size_t((adjoint ? a.domain() : a.range()).local_size()), k = columns_of(x);
             auto y = together(a.range().comm(), [&] {
               auto elements = exec::Array<T>::uninitialised(n * k);
               multiply(a, x, adjoint, elements.data(), n * k);
               return elements;
             });
             return array_of<T>(std::move(y), n, x.ndim() == 2 ? k : 0);
           })
      // The same into an array of that shape, which has no element of x.
      .def("apply_into", [](const Base& a, const Columns<T>& x, bool adjoint, const Result<T>& y) {
        together(a.range().comm(), [&] { multiply(a, x, adjoint, y.data(), y.size()); });
      });
}

template <Scalar T>
void bind_csr(nb::module_& m) {
  using Matrix = op::Csr<T, Host>;
  nb::class_<Matrix, op::Operator<T, Host>>(m, named<T>("Csr").c_str())
      .def_prop_ro("entries", &Matrix::entries)
      .def_prop_ro("storage", &Matrix::storage)
      .def_prop_ro("format", [](const Matrix& a) { return to_string(a.format()); })
      .def_prop_ro("own_entries", &Matrix::own_entries)
      .def_prop_ro("ghosts", [](const Matrix& a) { return a.pattern().ghost_count(); })
      // This rank's rows: (starts, global columns, values).
      .def("local_rows", [](const Matrix& a) { return arrays_of(in_turn(a.range().comm(), [&] { return a.rows(); })); })
      // New values of this rank's entries, in the order of local_rows().
      .def("update_values",
           [](Matrix& a, const Elements<T>& values) {
             together(a.range().comm(), [&] { a.update_values(std::span(values.data(), values.size())); });
           })
      .def("is_hermitian",
           [](const Matrix& a) { return together(a.range().comm(), [&] { return op::is_hermitian(a); }); });
}

template <Scalar T>
void bind_stencil(nb::module_& m) {
  using Matrix = op::Csr<T, Host>;
  using Stencil = op::Stencil<T>;
  nb::class_<Stencil, op::Operator<T, Host>>(m, named<T>("Stencil").c_str())
      // Of the stored matrix.
      .def_prop_ro("entries",
                   [](const Stencil& a) { return entries_of(a.grid(), couples_diagonally(a.weights(), a.grid())); })
      // In the order of the arguments of stencil().
      .def_prop_ro("weights",
                   [](const Stencil& a) {
                     const auto w = a.weights();
                     return array_of(std::vector<T>(w.value.begin(), w.value.end()));
                   })
      .def_prop_ro("boundary",
                   [](const Stencil& a) {
                     const op::Grid& g = a.grid();
                     std::vector<std::string> names;
                     for (int axis = 0; axis < g.dimensions; ++axis)
                       names.emplace_back(to_string(g.boundary[std::size_t(axis)]));
                     return names;
                   })
      .def("is_hermitian",
           [](const Stencil& a) {
             if (const auto known = hermitian_by_weights(a.grid(), a.weights())) return *known;
             return together(a.range().comm(),
                             [&] { return op::is_hermitian(Matrix(a.range(), a.domain(), a.rows())); });
           })
      .def("assemble", [](const Stencil& a) {
        return together(a.range().comm(), [&] { return std::make_shared<Matrix>(a.range(), a.domain(), a.rows()); });
      });
  m.def(named<T>("stencil").c_str(), [](const Communicator& comm, const std::vector<Global>& points,
                                        const std::vector<std::string>& boundary, const Elements<T>& table) {
    return together(comm, [&] {
      op::Weights<T> weights;
      require(table.size() == weights.value.size(), "a stencil has 27 weights; ", table.size(), " were given");
      std::copy_n(table.data(), table.size(), weights.value.begin());
      return std::make_shared<Stencil>(comm, grid_of(points, boundary), weights);
    });
  });
  m.def(named<T>("poisson").c_str(),
        [](const Communicator& comm, const std::vector<Global>& points, const std::vector<std::string>& boundary,
           const std::vector<double>& spacing, const std::vector<double>& velocity, const std::string& how,
           bool isotropic, T shift) {
          return together(comm, [&] {
            const op::Grid grid = grid_of(points, boundary);
            const int d = grid.dimensions;
            const auto h = three(spacing, 1);
            auto weights = isotropic ? op::isotropic_laplacian<T>(d, h[0]) : op::laplacian<T>(d, h);
            if (!velocity.empty())
              weights = weights + op::convection<T>(d, three(velocity, 0), value_of<op::Convection>(how), h);
            return std::make_shared<Stencil>(comm, grid, weights.shifted(shift));
          });
        });
}

/// Matrices of rows and of entries that Python holds.
template <Scalar T>
void bind_matrices_of_rows(nb::module_& m) {
  using Matrix = op::Csr<T, Host>;
  const auto from_rows = [&]<class Index>(Index) {
    m.def(named<T>("csr").c_str(), [](const Communicator& comm, const Offsets& rows, const Offsets& columns,
                                      Global first, const Elements<Index>& start, const Elements<Index>& column,
                                      const Elements<T>& value, const std::string& format) {
      return together(comm, [&] {
        const auto [range, domain] = spaces(comm, rows, columns);
        std::vector<Global> starts;
        const auto mine = cut<T, Index>(start, column, value, first, range.begin(), range.end(), starts);
        return std::make_shared<Matrix>(range, domain, mine, value_of<op::Format>(format));
      });
    });
  };
  from_rows(std::int32_t{});
  from_rows(std::int64_t{});

  m.def(named<T>("assemble").c_str(),
        [](const Communicator& comm, const Offsets& rows, const Offsets& columns, const Elements<Global>& row,
           const Elements<Global>& column, const Elements<T>& value) {
          return together(comm, [&] {
            const auto [range, domain] = spaces(comm, rows, columns);
            auto mine = op::assemble<T>(comm, range.partition(), domain.size(), {row.data(), row.size()},
                                        {column.data(), column.size()}, {value.data(), value.size()});
            return std::make_shared<Matrix>(range, domain, std::move(mine));
          });
        });
}

/// Matrices of files of which each rank reads its own rows.
template <Scalar T>
void bind_files(nb::module_& m) {
  using Matrix = op::Csr<T, Host>;
  // 32-bit columns where they suffice.
  const auto from_file = [](const Communicator& comm, const Offsets& rows, const Offsets& columns, auto&& read) {
    return together(comm, [&] {
      const auto [range, domain] = spaces(comm, rows, columns);
      const auto made = [&]<class Index>(Index) {
        const io::CompressedRows<T, Index> mine = read(range, Index{});
        const auto n = std::size_t(mine.start.back());
        return std::make_shared<Matrix>(
            range, domain, op::RowsView<T, Index>{mine.start, {mine.column.data(), n}, {mine.value.data(), n}});
      };
      return domain.size() <= std::numeric_limits<Local>::max() ? made(Local{}) : made(Global{});
    });
  };
  m.def(named<T>("read_petsc").c_str(), [from_file](const Communicator& comm, const Offsets& rows,
                                                    const Offsets& columns, const std::filesystem::path& path) {
    return from_file(comm, rows, columns, [&]<class Index>(const Space& range, Index) {
      return io::read_petsc_rows<T, Index>(path, range.begin(), range.end());
    });
  });
  m.def(named<T>("read_matrix_market").c_str(),
        [](const Communicator& comm, const Offsets& rows, const Offsets& columns, const std::filesystem::path& path) {
          return together(comm, [&] {
            const auto [range, domain] = spaces(comm, rows, columns);
            auto entries = io::read_matrix_market_pieces<T>(path, comm.rank(), comm.size());
            if (comm.size() > 1)
              io::check_entry_count(io::read_matrix_market_header(path), comm.all_sum(entries.entries_parsed));
            const auto mine = op::assemble<T>(comm, range.partition(), std::move(entries));
            const auto n = std::size_t(mine.start.back());
            return std::make_shared<Matrix>(
                range, domain, op::RowsView<T, Local>{mine.start, {mine.column.data(), n}, {mine.value.data(), n}});
          });
        });
  m.def(named<T>("read_npz").c_str(),
        [from_file](const Communicator& comm, const Offsets& rows, const Offsets& columns,
                    const std::filesystem::path& path, const std::array<NpzArguments, 3>& arrays) {
          const io::NpzRows about{rows.back(), columns.back(), npz_array(arrays[0]), npz_array(arrays[1]),
                                  npz_array(arrays[2])};
          return from_file(comm, rows, columns, [&]<class Index>(const Space& range, Index) {
            io::NpzSums sums;
            auto mine = io::read_npz_rows<T, Index>(path, about, range.begin(), range.end(), comm.rank() == 0,
                                                    comm.rank() + 1 == comm.size(), sums);
            io::check_npz(path, about, comm.all_gather(sums));
            return mine;
          });
        });
}

template <Scalar T>
void bind_compositions(nb::module_& m) {
  using Base = op::Operator<T, Host>;
  using Handle = std::shared_ptr<Base>;
  const auto compose = [](auto&& make, const Base& a, const Base* b = nullptr) {
    return together(a.range().comm(), (b ? b : &a)->range().comm(), [&]() -> Handle { return make(); });
  };
  m.def(named<T>("adjoint").c_str(),
        [compose](const Handle& a) { return compose([&] { return std::make_shared<op::Adjoint<T>>(a); }, *a); });
  m.def(named<T>("transpose").c_str(),
        [compose](const Handle& a) { return compose([&] { return std::make_shared<op::Transpose<T>>(a); }, *a); });
  m.def(named<T>("product").c_str(), [compose](const Handle& a, const Handle& b) {
    return compose([&] { return std::make_shared<op::ProductOf<T>>(a, b); }, *a, b.get());
  });
  m.def(named<T>("sum").c_str(), [compose](T alpha, const Handle& a, T beta, const Handle& b) {
    return compose([&] { return std::make_shared<op::Sum<T>>(alpha, a, beta, b); }, *a, b.get());
  });
  m.def(named<T>("shift").c_str(), [compose](const Handle& a, T sigma) {
    return compose([&] { return std::make_shared<op::Shifted<T>>(a, sigma); }, *a);
  });
  // alpha I on the range of a.
  m.def(named<T>("multiple").c_str(), [compose](const Base& a, T alpha) {
    return compose(
        [&] {
          Vector<T> d(a.range());
          layout::fill(d, alpha);
          return std::make_shared<op::Diagonal<T>>(std::move(d));
        },
        a);
  });
}

/// Rows of other ranks, and matrices and operators in other numbers.
template <Scalar T>
void bind_renumbering(nb::module_& m) {
  using Base = op::Operator<T, Host>;
  using Matrix = op::Csr<T, Host>;
  // Rows `needed` (ascending) of a matrix, from the ranks that have them: (starts, global columns, values).
  m.def(named<T>("rows_of_others").c_str(), [](const Matrix& a, const Elements<Global>& needed) {
    return arrays_of(together(a.range().comm(), [&] {
      return op::rows_of_others<T>(a.range(), a.rows(), std::span(needed.data(), needed.size()));
    }));
  });

  m.def(named<T>("renumbered").c_str(), [](const Matrix& a, const layout::Renumbering& numbers) {
    const Communicator& comm = a.range().comm();
    return together(comm, [&] {
      const Space space = Space::distributed(comm, numbers.after());
      return std::make_shared<Matrix>(space, space, op::renumber(comm, a.rows(), numbers, numbers), a.format());
    });
  });
  // a, for vectors of `space_of`'s numbers.
  m.def(named<T>("in_numbers_of").c_str(),
        [](const Base& space_of, const std::shared_ptr<Base>& a, std::shared_ptr<layout::Renumbering> numbers) {
          unlocked([&] { space_of.range().comm().join(a->range().comm()); });
          return std::shared_ptr<Base>(std::make_shared<Renumbered<T>>(space_of.range(), a, std::move(numbers)));
        });
}

template <Scalar T>
void bind_function(nb::module_& m) {
  m.def(
      named<T>("function").c_str(),
      [](const Communicator& comm, const Offsets& rows, const Offsets& columns, const std::string& name,
         nb::object product, nb::object adjoint, bool whole) {
        const auto [range, domain] = spaces(comm, rows, columns);
        return std::shared_ptr<op::Operator<T, Host>>(
            std::make_shared<PythonOperator<T>>(range, domain, name, std::move(product), std::move(adjoint), whole));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
}

/// U V^H, from this rank's rows of both.
template <Scalar T>
void bind_low_rank(nb::module_& m) {
  m.def(named<T>("low_rank").c_str(), [](const Communicator& comm, const Offsets& rows, const Offsets& columns,
                                         const Columns<T>& U, const Columns<T>& V) {
    return together(comm, [&] {
      const auto [range, domain] = spaces(comm, rows, columns);
      const auto factor = [](const Space& space, const Columns<T>& a) {
        Vector<T> v(space, checked_cast<int>(a.shape(1), "the number of columns"));
        v.assign({a.data(), a.size()});
        return v;
      };
      return std::shared_ptr<op::Operator<T, Host>>(
          std::make_shared<op::LowRank<T>>(factor(range, U), factor(domain, V)));
    });
  });
}

}  // namespace

void bind_op(nb::module_& m) {
  bind_choices<op::Boundary>(m, "boundaries");
  bind_choices<op::Format>(m, "formats");
  bind_choices<op::Convection>(m, "convections");
  for_each_scalar([&]<Scalar T>() {
    bind_operator<T>(m);
    bind_csr<T>(m);
    bind_stencil<T>(m);
    bind_matrices_of_rows<T>(m);
    bind_files<T>(m);
    bind_compositions<T>(m);
    bind_renumbering<T>(m);
    bind_function<T>(m);
    bind_low_rank<T>(m);
  });
}

}  // namespace tacit::python
