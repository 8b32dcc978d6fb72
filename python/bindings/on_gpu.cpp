// Operators, preconditioners and arrays in the memory of a GPU, for Python.
#include "on_gpu.hpp"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/comm/gpu_of_rank.hpp>
#include <tacit/op/compose.hpp>
#include <tacit/precond/amg_on_device.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <cstdint>

namespace tacit::python {

#ifdef TACIT_HAVE_CUDA
namespace {

using layout::Vector;

template <Scalar T>
using Handle = std::shared_ptr<OnGpu<T>>;
template <Scalar T>
struct AmgOnGpu : OnGpu<T> {};

/// Arrays of other libraries by DLPack: (keeps it alive, address, shape, strides in elements, dtype code, bits,
/// device).
nb::tuple dlpack_facts(const nb::ndarray<nb::ro>& array) {
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  for (std::size_t d = 0; d < array.ndim(); ++d) shape.push_back(array.shape(d)), strides.push_back(array.stride(d));
  nb::capsule kept(new nb::ndarray<nb::ro>(array),
                   [](void* p) noexcept { delete static_cast<nb::ndarray<nb::ro>*>(p); });
  return nb::make_tuple(kept, reinterpret_cast<std::uintptr_t>(array.data()), shape, strides, int(array.dtype().code),
                        int(array.dtype().bits), array.device_type(), array.device_id());
}

/// This rank's elements of the operator's domain (or range), at an address of another library: a copy within the memory
/// of the device, after the work of `stream`; 0: the stream that Tacit works on. Local.
template <Scalar T>
ArrayOnGpu<T> copied(std::uintptr_t address, Global rows, int columns, std::uintptr_t stream, const OnGpu<T>& a,
                     bool of_range) {
  return unlocked([&] {
    const exec::UseGpu use(a.gpu);
    const auto* const from = reinterpret_cast<const T*>(address);
    auto made = std::make_shared<Vector<T, Device>>(of_range ? a.of->range() : a.of->domain(), std::max(columns, 1));
    require(rows == made->space().local_size(), "it has ", rows, " elements; ", made->space().local_size(),
            ", this rank's own part, are needed");
    if (made->size() > 0) {
      const int there = exec::gpu_of_address(from);
      require(there >= 0, "it says that it is in the memory of a GPU, but its address is in that of the host");
      require(there == a.gpu, "it is in the memory of cuda:", there, " where one of cuda:", a.gpu, " is needed");
      if (stream) exec::wait_for_stream(stream);
      exec::copy_on_device(made->data(), from, made->size() * sizeof(T));
      exec::wait_for_gpu();  // the owner may free or change the memory as soon as this returns
    }
    return ArrayOnGpu<T>{a.gpu, columns, std::move(made)};
  });
}

/// Other libraries know the address: their streams may still use the memory when the last of its owners lets it go,
/// and only then it may become another array.
template <Scalar T>
void lend(ArrayOnGpu<T>& array) {
  if (std::exchange(array.lent, true) || !array.of) return;
  const auto* const elements = array.of.get();
  array.of.reset(elements, [kept = array.of, gpu = array.gpu](const auto*) mutable noexcept {
    exec::wait_for_all_of_gpu(gpu);
    kept.reset();
  });
}

template <Scalar T>
void bind_arrays(nb::module_& m) {
  using Array = ArrayOnGpu<T>;
  nb::class_<Array>(m, named<T>("DeviceArray").c_str())
      .def_ro("gpu", &Array::gpu)
      .def_ro("columns", &Array::columns)
      .def_prop_ro("rows", [](const Array& a) { return a.elements().size() / std::max(a.columns, 1); })
      .def_prop_ro("address",
                   [](Array& a) {
                     lend(a);
                     return reinterpret_cast<std::uintptr_t>(a.elements().data());
                   })
      .def_prop_ro("closed", [](const Array& a) { return a.of == nullptr; })
      .def("close", [](Array& a) { a.of.reset(); })
      .def("to_numpy",
           [](Array a) {
             const auto& elements = a.elements();
             auto values = unlocked([&] {
               const exec::UseGpu use(a.gpu);
               return elements.to_host();
             });
             const std::size_t k = std::size_t(a.columns), n = values.size() / std::max<std::size_t>(k, 1);
             return array_of<T>(std::move(values), n, k);
           })
      // For __dlpack__: a capsule of an array with this shape, which keeps the memory.
      .def("exported", [](Array& a, const std::vector<std::size_t>& shape) {
        lend(a);
        using Kept = std::shared_ptr<const Vector<T, Device>>;
        const auto& elements = a.elements();
        nb::capsule owner(new Kept(a.of), [](void* p) noexcept { delete static_cast<Kept*>(p); });
        return nb::cast(nb::ndarray<T, nb::device::cuda>(const_cast<T*>(elements.data()), shape.size(), shape.data(),
                                                         owner, nullptr, nb::dtype<T>(), nb::device::cuda::value,
                                                         a.gpu));
      });
  // On `self`, one rank: products of operators there take it as it is, those over several ranks copy it.
  m.def(named<T>("device_array").c_str(), [](const comm::Communicator& self, const Columns<T>& values, int gpu) {
    const int columns = values.ndim() == 2 ? checked_cast<int>(values.shape(1), "the number of columns") : 0;
    return unlocked([&] {
      const exec::UseGpu use(gpu);
      const auto space = layout::Space::distributed(self, Global(values.shape(0)));
      return Array{gpu, columns, as_vector<T>(std::span(values.data(), values.size()), space, std::max(columns, 1))};
    });
  });
  m.def(named<T>("device_copy").c_str(), &copied<T>);
}

template <Scalar T>
void bind_operators(nb::module_& m) {
  using Base = OnGpu<T>;
  nb::class_<Base> base(m, named<T>("DeviceOperator").c_str());
  bind_facts<T>(base);
  base.def_ro("gpu", &Base::gpu)
      .def_prop_ro("range_offsets", [](const Base& a) { return offsets_of(a.of->range().partition()); })
      .def_prop_ro("domain_offsets", [](const Base& a) { return offsets_of(a.of->domain().partition()); })
      .def("diagonal",
           [](const Base& a) {
             return array_of(unlocked([&] {
               const exec::UseGpu use(a.gpu);
               return a.of->diagonal();
             }));
           })
      // As of operators in host memory: arrays that stay where they are, and NumPy's, which are copied.
      .def("apply",
           [](const Base& a, ArrayOnGpu<T> x, bool adjoint) {
             auto y = together_on(a.gpu, a.of->range().comm(), [&] {
               const auto &from = adjoint ? a.of->range() : a.of->domain(),
                          &to = adjoint ? a.of->domain() : a.of->range();
               const auto in = as_vector<T>(x, from, a.gpu);
               auto out = std::make_shared<Vector<T, Device>>(to, in->columns());
               if (adjoint) a.of->apply_adjoint(*in, *out);
               else a.of->apply(*in, *out);
               return out;
             });
             return ArrayOnGpu<T>{a.gpu, x.columns, std::move(y)};
           })
      .def("apply", [](const Base& a, const Columns<T>& x, bool adjoint) {
        const bool many = x.ndim() == 2;
        const int k = many ? checked_cast<int>(x.shape(1), "the number of columns") : 1;
        auto y = together_on(a.gpu, a.of->range().comm(), [&] {
          const auto &from = adjoint ? a.of->range() : a.of->domain(), &to = adjoint ? a.of->domain() : a.of->range();
          const auto in = as_vector<T>(std::span(x.data(), x.size()), from, k);
          Vector<T, Device> out(to, k);
          if (adjoint) a.of->apply_adjoint(*in, out);
          else a.of->apply(*in, out);
          return out.to_host();
        });
        const std::size_t n = y.size() / std::size_t(k);
        return array_of<T>(std::move(y), n, many ? std::size_t(k) : 0);
      });
}

template <Scalar T>
void bind_csr(nb::module_& m) {
  using Matrix = CsrOnGpu<T>;
  nb::class_<Matrix, OnGpu<T>>(m, named<T>("DeviceCsr").c_str())
      .def_prop_ro("entries", [](const Matrix& a) { return a.matrix().entries(); })
      .def_prop_ro("own_entries", [](const Matrix& a) { return a.matrix().own_entries(); })
      .def_prop_ro("storage", [](const Matrix& a) { return a.matrix().storage(); })
      .def_prop_ro("format", [](const Matrix& a) { return to_string(a.matrix().format()); })
      .def("to_host",
           [](const Matrix& a) {
             return together_on(a.gpu, a.of->range().comm(), [&] {
               const auto& from = a.matrix();
               return std::make_shared<op::Csr<T, Host>>(from.range(), from.domain(), from.rows(), from.format());
             });
           })
      // The values of a matrix in host memory; what is composed of this one multiplies by them too.
      .def("take", [](Matrix& a, const op::Csr<T, Host>& from) {
        together_on(a.gpu, a.of->range().comm(), [&] {
          const_cast<op::Csr<T, Device>&>(a.matrix())
              .become({a.of->range(), a.of->domain(), from.rows(), from.format()});
        });
      });
  m.def(named<T>("device_csr").c_str(), [](const op::Csr<T, Host>& a, int gpu) {
    auto made = std::make_shared<Matrix>();
    made->gpu = gpu;
    made->of = together_on(gpu, a.range().comm(), [&] {
      return std::make_shared<op::Csr<T, Device>>(a.range(), a.domain(), a.rows(), a.format());
    });
    return made;
  });
}

/// Compositions have the names of those in host memory, and the same arguments.
template <Scalar T>
void bind_compositions(nb::module_& m) {
  const auto compose = [](const Handle<T>& a, auto&& make) {
    auto made = std::make_shared<OnGpu<T>>();
    made->gpu = a->gpu;
    made->of = together_on(a->gpu, a->of->range().comm(),
                           [&]() -> std::shared_ptr<const op::Operator<T, Device>> { return make(); });
    return made;
  };
  m.def(named<T>("adjoint").c_str(), [compose](const Handle<T>& a) {
    return compose(a, [&] { return std::make_shared<op::Adjoint<T, Device>>(a->of); });
  });
  m.def(named<T>("transpose").c_str(), [compose](const Handle<T>& a) {
    return compose(a, [&] { return std::make_shared<op::Transpose<T, Device>>(a->of); });
  });
  m.def(named<T>("product").c_str(), [compose](const Handle<T>& a, const Handle<T>& b) {
    return compose(a, [&] { return std::make_shared<op::ProductOf<T, Device>>(a->of, b->of); });
  });
  m.def(named<T>("sum").c_str(), [compose](T alpha, const Handle<T>& a, T beta, const Handle<T>& b) {
    return compose(a, [&] { return std::make_shared<op::Sum<T, Device>>(alpha, a->of, beta, b->of); });
  });
  m.def(named<T>("shift").c_str(), [compose](const Handle<T>& a, T sigma) {
    return compose(a, [&] { return std::make_shared<op::Shifted<T, Device>>(a->of, sigma); });
  });
}

template <Scalar T>
void bind_preconditioners(nb::module_& m) {
  const auto made_for = []<class Made>(Made made, const CsrOnGpu<T>& a, auto&& make) {
    made.gpu = a.gpu;
    made.refers_to = a.of;  // a polynomial multiplies by it
    made.of = together_on(a.gpu, a.of->range().comm(),
                          [&]() -> std::shared_ptr<const op::Operator<T, Device>> { return make(); });
    return std::make_shared<Made>(std::move(made));
  };
  m.def(named<T>("precondition").c_str(),
        [made_for](const CsrOnGpu<T>& a, const std::string& name, const precond::Options& options) {
          return made_for(OnGpu<T>(), a, [&] { return precond::make<T, Device>(name, a.matrix(), options); });
        });
  nb::class_<AmgOnGpu<T>, OnGpu<T>>(m, named<T>("DeviceAmg").c_str()).def_prop_ro("report", [](const AmgOnGpu<T>& a) {
    const auto& amg = static_cast<const precond::AmgOnDevice<T, Device>&>(*a.of);
    nb::list levels;
    double entries = 0, rows = 0;
    for (const auto& l : amg.levels()) {
      entries += double(l.entries), rows += double(l.rows);
      levels.append(dict_of("rows", l.rows, "entries", l.entries, "prolongation_entries", l.prolongation_entries,
                            "ranks", l.ranks, "setup_seconds", l.setup_seconds, "seconds", 0.0));
    }
    const auto& finest = amg.levels().front();
    // The host does not wait for the device between levels, so there are no seconds of each.
    return dict_of("levels", levels, "cycles", amg.applies(), "operator_complexity",
                   entries / std::max(1.0, double(finest.entries)), "grid_complexity",
                   rows / std::max(1.0, double(finest.rows)), "note", amg.note());
  });
  // near_null: as of amg in host memory.
  m.def(
      named<T>("amg").c_str(),
      [made_for](const CsrOnGpu<T>& a,
                 std::optional<nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>> near_null,
                 const precond::Options& options) {
        auto o = precond::amg_options<T>(options);
        if (near_null) o.near_null.assign(near_null->data(), near_null->data() + near_null->size());
        return made_for(AmgOnGpu<T>(), a,
                        [&] { return std::make_shared<precond::AmgOnDevice<T, Device>>(a.matrix(), o); });
      },
      nb::arg(), nb::arg().none(), nb::arg());
}

}  // namespace
#endif

void bind_gpus(nb::module_& m) {
  m.def("gpu_count", &exec::gpu_count);
  m.def("gpu_name", &exec::gpu_name);
  m.def("gpu_of_rank",
        [](const comm::Communicator& comm) { return unlocked([&] { return comm::gpu_of_rank(comm); }); });
  m.def("release_device_memory", [] { unlocked([] { exec::release_device_memory(); }); });
  m.def("wait_for_gpu", [](int gpu) {
    unlocked([&] {
      const exec::UseGpu use(gpu);
      exec::wait_for_gpu();
    });
  });
#ifdef TACIT_HAVE_CUDA
  m.def("dlpack_facts", &dlpack_facts);
  // Operators of applications on a device have these scalars, whatever solves there are compiled for.
  for_each_scalar([&]<Scalar T>() {
    bind_arrays<T>(m);
    bind_operators<T>(m);
  });
  for_each_device_scalar([&]<Scalar T>() {
    bind_csr<T>(m);
    bind_compositions<T>(m);
    bind_preconditioners<T>(m);
  });
#endif
}

}  // namespace tacit::python
