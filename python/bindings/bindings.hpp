// Common parts of the binding files. One file binds one floor. Defaults and documentation for users are in the Python
// modules, not here.
#pragma once

#include "gil.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <tacit/base/error.hpp>
#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>

#include <complex>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tacit::python {

namespace nb = nanobind;

void bind_core(nb::module_& m);
void bind_comm(nb::module_& m);
void bind_layout(nb::module_& m);
void bind_clustering(nb::module_& m);
void bind_io(nb::module_& m);
void bind_op(nb::module_& m);
void bind_hmatrix(nb::module_& m);
void bind_hmatrix_on_gpus(nb::module_& m);
void bind_hmatrix_precond(nb::module_& m);
void bind_precond(nb::module_& m);
void bind_krylov(nb::module_& m);
void bind_solve(nb::module_& m);
void bind_least_squares(nb::module_& m);
void bind_gpus(nb::module_& m);
void bind_simulate(nb::module_& m);
void bind_tiled(nb::module_& m);

/// The elements of a NumPy or DLPack array, without a copy.
template <class T>
using Elements = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The same for one column (n) or k columns (n, k).
template <class T>
using Columns = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;

/// "solve" -> "solve_float64": one name for each scalar; the Python layer chooses.
template <Scalar T>
std::string named(const char* name) {
  return std::string(name) + "_" + scalar_name<T>();
}

/// Calls f<T>() for each scalar that Tacit is built for, in host memory and on devices.
#define TACIT_CALL(T) f.template operator()<T>();
template <class F>
void for_each_scalar(F&& f) {
  TACIT_EACH_SCALAR(Host, TACIT_CALL)
}
template <class F>
void for_each_device_scalar(F&& f) {
  TACIT_EACH_SCALAR(Device, TACIT_CALL)
}
#undef TACIT_CALL

/// f() without the GIL.
template <class F>
auto unlocked(F&& f) {
  WithoutGil free;
  return f();
}
/// f() without the GIL, as a collective call.
template <class F>
auto together(const comm::Communicator& comm, F&& f) {
  return unlocked([&] { return comm::collective(comm, f); });
}
/// The same for objects of two communicators that are used together from now on.
template <class F>
auto together(const comm::Communicator& comm, const comm::Communicator& other, F&& f) {
  return unlocked([&] {
    comm.join(other);
    return comm::collective(comm, f);
  });
}
/// f() without the GIL, where no other thread uses the objects of `comm`. Local.
template <class F>
auto in_turn(const comm::Communicator& comm, F&& f) {
  return unlocked([&] {
    const comm::Turn turn(comm);
    return f();
  });
}

/// dict_of("rows", 3, "columns", 4)
template <class... Items>
nb::dict dict_of(Items&&... items) {
  nb::dict d;
  const auto add = [&d](auto& self, const char* key, auto&& value, auto&&... rest) -> void {
    d[key] = std::forward<decltype(value)>(value);
    if constexpr (sizeof...(rest) > 0) self(self, std::forward<decltype(rest)>(rest)...);
  };
  add(add, std::forward<Items>(items)...);
  return d;
}

/// Where the parts of a partition begin, and its end.
template <class Partition>
std::vector<Global> offsets_of(const Partition& partition) {
  const auto all = partition.offsets();
  return {all.begin(), all.end()};
}

/// A NumPy array of rows x columns (columns = 0: one-dimensional) over the data() of `owned`, which it takes over.
template <class T, class Owner>
nb::object array_of(Owner&& owned, std::size_t rows, std::size_t columns = 0) {
  auto kept = std::make_unique<std::decay_t<Owner>>(std::forward<Owner>(owned));
  T* const data = kept->data();
  nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<std::decay_t<Owner>*>(p); });
  kept.release();
  if (columns) return nb::cast(nb::ndarray<nb::numpy, T>(data, {rows, columns}, owner));
  return nb::cast(nb::ndarray<nb::numpy, T>(data, {rows}, owner));
}
template <class T, class Allocator>
nb::object array_of(std::vector<T, Allocator>&& values) {
  const std::size_t n = values.size();
  return array_of<T, std::vector<T, Allocator>>(std::move(values), n);
}

/// The Error that carries a Python exception to the other ranks; its type travels in the text. Needs the GIL.
Error error_of(nb::python_error& e);

/// Runs Python code with the GIL on a rank of `ranks`; an exception passes unchanged on one rank, and as an Error on
/// several.
template <class F>
auto call_python(int ranks, F&& f) -> decltype(f()) {
  WithGil gil;
  try {
    return f();
  } catch (nb::python_error& e) {
    if (ranks == 1) throw;
    throw error_of(e);
  } catch (...) {
    stay_if_python_ends();  // the interpreter may be ending, see gil.hpp
    throw;
  }
}

}  // namespace tacit::python
