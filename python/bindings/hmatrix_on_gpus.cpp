// tacit::op::HMatrixOnDevices for Python: products, Jacobi and solves. Vectors are NumPy's: a rank gives and gets its
// own part, and its devices have the whole.
#include "on_gpu.hpp"

#include "callback.hpp"
#include "described.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <tacit/exec/gpus.hpp>
#include <tacit/krylov/group_methods.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>
#include <tacit/precond/jacobi_on_group.hpp>
#include "krylov/part.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace tacit::python {

#ifdef TACIT_HAVE_CUDA
namespace {

using Devices = exec::Devices<Device>;
using Memory = Group<Device>;
template <Scalar T>
using Vector = layout::Vector<T, Memory>;

/// An operator on the devices of this rank.
template <Scalar T>
struct OnGpus {
  std::shared_ptr<Devices> devices;
  std::shared_ptr<const op::HMatrix<T>> matrix;  ///< in host memory; its spaces say which part is a rank's own
  std::shared_ptr<const op::Operator<T, Memory>> of;

  const comm::Communicator& comm() const { return matrix->range().comm(); }
  std::size_t first() const { return std::size_t(matrix->range().begin()); }
  std::size_t count() const { return std::size_t(matrix->range().local_size()); }
};
template <Scalar T>
struct HMatrixOnGpus : OnGpus<T> {
  std::shared_ptr<op::HMatrixOnDevices<T, Device>> product;  ///< the same as `of`
};

/// f() as a collective call, which begins on the first of the devices and returns to the thread's.
template <Scalar T, class F>
auto together_on(const OnGpus<T>& a, F&& f) {
  return together(a.comm(), [&] {
    const exec::UseGpu use(a.devices->id(0));
    return f();
  });
}

/// All rows of what each rank has its own rows of, k numbers each. Collective.
template <Scalar T>
std::vector<T> whole(const OnGpus<T>& a, std::span<const T> own, std::size_t k = 1) {
  require(own.size() == a.count() * k, "a vector of ", own.size(), " elements on this rank where ", a.count() * k,
          " are needed");
  return a.comm().size() == 1 ? std::vector<T>(own.begin(), own.end()) : a.comm().all_gather(own);
}

/// This rank's rows of A x for k columns, one product each.
template <Scalar T>
std::vector<T> product(const OnGpus<T>& a, std::span<const T> own, std::size_t k) {
  const auto x = whole(a, own, k);
  const std::size_t n = x.size() / k;
  Vector<T> in(a.of->domain()), out(a.of->range());
  std::vector<T> column(n), y(own.size());
  for (std::size_t c = 0; c < k; ++c) {
    for (std::size_t i = 0; i < n; ++i) column[i] = x[i * k + c];
    in.assign(column);
    a.of->apply(in, out);
    const auto found = out.to_host();
    for (std::size_t i = 0; i < a.count(); ++i) y[i * k + c] = found[a.first() + i];
  }
  return y;
}

nb::dict traffic_of(const exec::DeviceTraffic& t) {
  return dict_of("to_devices", t.to_devices, "to_host", t.to_host, "between", t.between, "bytes_to_devices",
                 t.bytes_to_devices, "bytes_to_host", t.bytes_to_host, "bytes_between", t.bytes_between, "scalars",
                 t.scalars, "reads", t.reads, "waits", t.waits);
}

template <Scalar T>
void bind_operators(nb::module_& m) {
  using Base = OnGpus<T>;
  nb::class_<Base> base(m, named<T>("DeviceGroupOperator").c_str());
  bind_facts<T>(base);
  base.def_prop_ro("gpu", [](const Base& a) { return a.devices->id(0); })
      .def_prop_ro("gpus",
                   [](const Base& a) {
                     std::vector<int> all;
                     for (int d = 0; d < a.devices->size(); ++d) all.push_back(a.devices->id(d));
                     return all;
                   })
      .def_prop_ro("range_offsets", [](const Base& a) { return offsets_of(a.matrix->range().partition()); })
      .def_prop_ro("domain_offsets", [](const Base& a) { return offsets_of(a.matrix->domain().partition()); })
      .def_prop_ro("traffic", [](const Base& a) { return traffic_of(a.devices->traffic()); })
      .def("diagonal",
           [](const Base& a) {
             auto all = together_on(a, [&] { return a.of->diagonal(); });
             const auto own = all.begin() + std::ptrdiff_t(a.first());
             return array_of(std::vector<T>(own, own + std::ptrdiff_t(a.count())));
           })
      .def("apply", [](const Base& a, const Columns<T>& x, bool adjoint) {
        const bool many = x.ndim() == 2;
        const std::size_t k = many ? x.shape(1) : 1;
        auto y = together_on(a, [&] {
          require(!adjoint, "the ", a.of->name(), " operator has no adjoint product; the H-matrix in host memory has");
          return product<T>(a, {x.data(), x.size()}, k);
        });
        return array_of<T>(std::move(y), a.count(), many ? k : 0);
      });
}

template <Scalar T>
void bind_hmatrix(nb::module_& m) {
  using Base = OnGpus<T>;
  using Matrix = HMatrixOnGpus<T>;
  using Given = std::shared_ptr<const op::HMatrix<T>>;
  nb::class_<Matrix, Base>(m, named<T>("DeviceHMatrix").c_str())
      .def_prop_ro("bytes", [](const Matrix& a) { return a.product->bytes(); })
      .def_prop_ro("row_ranges",
                   [](const Matrix& a) {
                     const auto rows = a.product->rows();
                     return std::vector(rows.begin(), rows.end());
                   })
      .def_prop_rw(
          "work", [](const Matrix& a) { return to_string(a.product->group().work); },
          [](Matrix& a, const std::string& name) { a.product->group().work = value_of<exec::VectorWork>(name); })
      .def_prop_rw(
          "overlap", [](const Matrix& a) { return to_string(a.product->group().overlap); },
          [](Matrix& a, const std::string& name) { a.product->group().overlap = value_of<exec::DeviceOverlap>(name); });
  m.def(named<T>("device_hmatrix").c_str(),
        [](const std::shared_ptr<op::HMatrix<T>>& given, std::vector<int> gpus, const op::DeviceProductOptions& o) {
          auto made = std::make_shared<Matrix>();
          made->matrix = given;
          together(given->range().comm(), [&] {
            made->devices = std::make_shared<Devices>(std::move(gpus));
            const exec::UseGpu use(made->devices->id(0));
            made->product = std::make_shared<op::HMatrixOnDevices<T, Device>>(Given(given), made->devices, o);
            made->of = made->product;
          });
          return made;
        });
  m.def(named<T>("jacobi").c_str(), [](const Matrix& a, bool absolute) {
    auto made = std::make_shared<Base>(a);
    made->of = together_on(a, [&] { return precond::make_jacobi<T, Memory>(*a.of, absolute); });
    return made;
  });
}

template <Scalar T>
void bind_solves(nb::module_& m) {
  using Base = OnGpus<T>;
  m.def(
      named<T>("solve").c_str(),
      [](const Base& a, const Base* precond, const Elements<T>& b, std::optional<Elements<T>> x0,
         krylov::Options options, nb::object callback, bool hermitian, int solves_of_call) {
        krylov::Report report;
        auto own = together_on(a, [&] {
          require(
              !precond || precond->devices == a.devices,
              "the preconditioner was made for another matrix on GPUs; tacit.precond.make(A, name) makes one for this");
          Vector<T> right(a.of->range()), x(a.of->domain());
          right.assign(whole<T>(a, {b.data(), b.size()}));
          if (x0) x.assign(whole<T>(a, {x0->data(), x0->size()}));
          if (!callback.is_none())
            options.callback = trampoline<T>(a.comm().size(), right.size(), a.first(), a.count(), callback);
          report = krylov::solve_part<T, Memory>(*a.of, precond ? precond->of.get() : nullptr, right, x, options,
                                                 {.solves_of_call = solves_of_call}, hermitian);
          const auto found = x.to_host();
          const auto first = found.begin() + std::ptrdiff_t(a.first());
          return std::vector<T>(first, first + std::ptrdiff_t(a.count()));
        });
        return nb::make_tuple(array_of(std::move(own)), std::move(report));
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
}

}  // namespace
#endif

void bind_hmatrix_on_gpus(nb::module_& m) {
  bind_options<op::DeviceProductOptions>(m, "DeviceProductOptions", "device_product", op::device_product_options());
  m.def("choices_group_methods", [] {
    std::vector<std::string> names;
    for (const auto method : krylov::group_methods) names.emplace_back(to_string(method));
    return names;
  });
#ifdef TACIT_HAVE_CUDA
  bind_operators<float>(m), bind_hmatrix<float>(m), bind_solves<float>(m);
  bind_operators<double>(m), bind_hmatrix<double>(m), bind_solves<double>(m);
#endif
}

}  // namespace tacit::python
