// What Python holds in the memory of a GPU: operators and arrays, each with the device that it is on. Only in builds
// with CUDA.
#pragma once

#include "bindings.hpp"

#include <tacit/exec/gpus.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/csr.hpp>

#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace tacit::python {

/// An operator in the memory of one GPU.
template <Scalar T>
struct OnGpu {
  int gpu = 0;
  std::shared_ptr<const void> refers_to;  ///< what `of` refers to and does not keep; destroyed after it
  std::shared_ptr<const op::Operator<T, Device>> of;
};
/// The same for a stored matrix.
template <Scalar T>
struct CsrOnGpu : OnGpu<T> {
  const op::Csr<T, Device>& matrix() const { return static_cast<const op::Csr<T, Device>&>(*this->of); }
};

/// This rank's elements of a vector, or of k columns, in the memory of one GPU. What runs without the GIL takes a copy,
/// since another thread may close() this one meanwhile.
template <Scalar T>
struct ArrayOnGpu {
  using Elements = layout::Vector<T, Device>;
  int gpu = 0;
  int columns = 0;                     ///< 0: of one dimension
  std::shared_ptr<const Elements> of;  ///< null after close()
  bool lent = false;                   ///< whether other libraries may know the address

  const Elements& elements() const {
    require(of != nullptr, "the array in device memory was closed; its elements are gone");
    return *of;
  }
};

/// What Python needs of every operator on GPUs, which C holds as `of`.
template <Scalar T, class C, class... Bases>
void bind_facts(nb::class_<C, Bases...>& bound) {
  bound.def_prop_ro("scalar", [](const C&) { return scalar_name<T>(); })
      .def_prop_ro("name", [](const C& a) { return a.of->name(); })
      .def_prop_ro("rows", [](const C& a) { return a.of->range().size(); })
      .def_prop_ro("columns", [](const C& a) { return a.of->domain().size(); })
      .def_prop_ro("has_adjoint", [](const C& a) { return a.of->has_adjoint(); })
      .def_prop_ro("has_diagonal", [](const C& a) { return a.of->has_diagonal(); })
      .def_prop_ro("fault", [](const C& a) { return a.of->fault(); })
      .def_prop_ro("applies", [](const C& a) { return a.of->applies(); })
      .def_prop_ro("same_spaces", [](const C& a) { return a.of->range() == a.of->domain(); })
      .def_prop_ro("comm", [](const C& a) { return a.of->range().comm(); })
      .def("cost", [](const C& a) {
        const auto c = a.of->cost();
        return nb::make_tuple(c.flops, c.bytes, c.messages, c.message_bytes);
      });
}

/// f() as a collective call, with this device's memory and kernels.
template <class F>
auto together_on(int gpu, const comm::Communicator& comm, F&& f) {
  return together(comm, [&] {
    const exec::UseGpu use(gpu);
    return f();
  });
}

/// make(Host{}), or with a number of a GPU (from 0 on) make(Device{}) there, as a collective call.
template <class F>
nb::object made_on([[maybe_unused]] int gpu, const comm::Communicator& comm, F&& make) {
  if (gpu < 0) return nb::cast(together(comm, [&] { return make(Host{}); }));
#ifdef TACIT_HAVE_CUDA
  return nb::cast(together_on(gpu, comm, [&] { return make(Device{}); }));
#else
  throw Error(ErrorKind::environment, "this Tacit was built without CUDA");
#endif
}

/// The array as a vector of the space: itself where it was made for this space, else a copy within the device.
template <Scalar T>
std::shared_ptr<const layout::Vector<T, Device>> as_vector(const ArrayOnGpu<T>& array, const layout::Space& space,
                                                           int gpu) {
  const auto& from = array.elements();
  require(array.gpu == gpu, "an array in the memory of cuda:", array.gpu, " where one of cuda:", gpu, " is needed");
  if (from.space() == space) return array.of;
  auto made = std::make_shared<layout::Vector<T, Device>>(space, from.columns());
  require(made->size() == from.size(), "an array of ", from.size(), " elements where ", made->size(), " are needed");
  if (from.size() > 0) exec::copy_on_device(made->data(), from.data(), from.size() * sizeof(T));
  return made;
}

/// A vector of the space with the elements of a NumPy array: a copy to the device.
template <Scalar T>
std::shared_ptr<const layout::Vector<T, Device>> as_vector(std::span<const T> values, const layout::Space& space,
                                                           int columns) {
  auto made = std::make_shared<layout::Vector<T, Device>>(space, columns);
  made->assign(values);
  return made;
}

}  // namespace tacit::python
