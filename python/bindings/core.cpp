// The Python module tacit._core: errors, traces, threads; the floors are bound in files of their own.
#include "bindings.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/base/free_memory.hpp>
#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/parallel.hpp>

#include <cctype>
#include <map>
#include <mutex>
#include <new>
#include <tuple>

namespace tacit::python {

void bind_contributions(nb::module_& m);  // contributions.cpp

#ifdef TACIT_HAVE_APPLICATIONS
// Made by CMake: a line for each file of bindings/app.
#define TACIT_APPLICATION(name) void bind_##name(nb::module_& m);
#include "applications.def"
#undef TACIT_APPLICATION
#endif

namespace {

// Python's types for the kinds of Error; made once, kept until the process ends.
PyObject *base_error, *usage_error, *input_error, *environment_error, *memory_error;

// The text of an Error has the name of the Python exception type between two of these marks.
constexpr char mark = '\x1f';

// The Python exception of this thread that became an Error; set as its cause when the Error is raised again.
struct Cause {
  PyObject* value = nullptr;
  void keep(PyObject* other) { Py_XDECREF(std::exchange(value, other)); }
  ~Cause() {
    if (!value || !Py_IsInitialized()) return;
    WithGil gil;
    keep(nullptr);
  }
};
thread_local Cause cause;

PyObject* make_error(nb::module_& m, const char* name, const char* text, nb::object bases) {
  const std::string full = std::string("tacit.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), text, bases.ptr(), nullptr);
  if (!type) nb::raise_python_error();
  m.attr(name) = nb::handle(type);
  return type;
}

/// A Python string as the bytes that are sent to other ranks. Surrogates that stand for bytes of a file name that is
/// not UTF-8 become these bytes again; other lone surrogates and zero bytes are escaped.
std::string bytes_of(nb::handle text) {
  PyObject* bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (!bytes) {
    PyErr_Clear();
    bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace");
  }
  if (!bytes) {
    PyErr_Clear();
    return "(a text that cannot be shown)";
  }
  const auto kept = nb::steal<nb::bytes>(bytes);
  std::string all(kept.c_str(), kept.size());
  for (std::size_t zero; (zero = all.find('\0')) != all.npos;) all.replace(zero, 1, "\\x00");  // what() ends at one
  return all;
}

/// Nested collective calls give "rank 0: rank 1: ..."; keeps the last prefix only.
void collapse_ranks(std::string& text) {
  const auto prefix = [&](std::size_t from) {  // where a "rank N: " at `from` ends, or `from`
    std::size_t i = from + 5;
    if (text.compare(from, 5, "rank ") != 0 || i >= text.size() || !std::isdigit(static_cast<unsigned char>(text[i])))
      return from;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) ++i;
    return text.compare(i, 2, ": ") == 0 ? i + 2 : from;
  };
  for (std::size_t first = prefix(0); first != 0 && prefix(first) != first; first = prefix(0)) text.erase(0, first);
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const Error& e) {
    std::string text = e.what();
    PyObject* type = e.kind() == ErrorKind::usage         ? usage_error
                     : e.kind() == ErrorKind::input       ? input_error
                     : e.kind() == ErrorKind::interrupted ? PyExc_KeyboardInterrupt
                     : e.kind() == ErrorKind::memory      ? memory_error
                                                          : environment_error;
    bool named = false;
    const auto from = text.find(mark), to = from == std::string::npos ? from : text.find(mark, from + 1);
    if (to != std::string::npos) {
      const std::string name = text.substr(from + 1, to - from - 1);
      text.erase(from, to - from + 1);
      nb::module_ builtins = nb::module_::import_("builtins");
      if (nb::hasattr(builtins, name.c_str())) {
        PyObject* const builtin = nb::object(builtins.attr(name.c_str())).ptr();  // builtins keeps it
        // Only types whose constructor takes one text; others (ExceptionGroup, UnicodeDecodeError) are reported by
        // name.
        if (PyExceptionClass_Check(builtin) && !PyObject_IsSubclass(builtin, PyExc_UnicodeError) &&
            !PyObject_IsSubclass(builtin, PyExc_StopIteration)) {
          const nb::object made = nb::steal(PyObject_CallFunction(builtin, "s", ""));
          if (made.is_valid()) {
            type = builtin;
            named = true;
          } else {
            PyErr_Clear();
          }
        }
      }
      if (!named) text.insert(from, name + ": ");
    }
    collapse_ranks(text);
    PyObject* const words = PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "surrogateescape");
    PyObject* const raised = words ? PyObject_CallFunctionObjArgs(type, words, nullptr) : nullptr;
    Py_XDECREF(words);
    PyObject* const original = std::exchange(cause.value, nullptr);
    if (raised && original) PyException_SetCause(raised, original);  // takes the reference
    else Py_XDECREF(original);
    if (raised) PyErr_SetObject(type, raised);
    Py_XDECREF(raised);
  } catch (const std::bad_alloc&) {
    PyErr_SetString(memory_error, out_of_memory().c_str());
  }
}

using EventTuple = std::tuple<std::string, std::string, double, double, int, int, std::int64_t>;

// Trace events of ranks that are threads of this process; each rank takes its own.
std::vector<EventTuple> take_events(int rank, double origin) {
  static std::mutex mutex;
  static std::map<int, std::vector<EventTuple>> waiting;
  std::lock_guard lock(mutex);
  for (const auto& e : Trace::take())
    waiting[e.rank].emplace_back(e.name, e.category, e.begin, e.end, e.rank, e.thread, e.bytes);
  auto events = std::move(waiting[rank]);
  waiting.erase(rank);
  for (auto& e : events) std::get<2>(e) -= origin, std::get<3>(e) -= origin;
  return events;
}

}  // namespace

Error error_of(nb::python_error& e) {
  const auto kind = e.matches(PyExc_KeyboardInterrupt)                          ? ErrorKind::interrupted
                    : e.matches(memory_error)                                   ? ErrorKind::memory
                    : e.matches(PyExc_ValueError) || e.matches(PyExc_TypeError) ? ErrorKind::usage
                                                                                : ErrorKind::environment;
  const nb::handle value = e.value();
  std::string text;
  // str() of a KeyError is quoted, so its argument is taken.
  const nb::object arguments = value.attr("args");
  const bool plain =
      nb::isinstance<nb::tuple>(arguments) && nb::len(arguments) == 1 && nb::isinstance<nb::str>(arguments[0]);
  const auto shown = plain ? nb::object(arguments[0]) : nb::steal(PyObject_Str(value.ptr()));
  if (shown.is_valid()) text = bytes_of(shown);
  else PyErr_Clear();
  // Errors of Tacit keep their kind.
  const bool ours = PyObject_IsInstance(value.ptr(), base_error) == 1;
  if (!ours && kind != ErrorKind::interrupted) {
    text = mark + bytes_of(e.type().attr("__name__")) + mark + text;
  }
  cause.keep(value.inc_ref().ptr());
  const bool input = ours && PyObject_IsInstance(value.ptr(), input_error) == 1;
  return {input ? ErrorKind::input : kind, text};
}

void bind_core(nb::module_& m) {
  const nb::object exception = nb::borrow(PyExc_Exception), value = nb::borrow(PyExc_ValueError),
                   runtime = nb::borrow(PyExc_RuntimeError);
  base_error =
      make_error(m, "Error", "The base class of Tacit's errors; every rank of a collective call raises the same.",
                 nb::make_tuple(exception));
  const nb::object base = nb::borrow(base_error);
  usage_error =
      make_error(m, "UsageError", "Arguments that do not fit: shapes, spaces, options.", nb::make_tuple(base, value));
  input_error = make_error(m, "InputError", "A file that cannot be accepted; the text names the file and the place.",
                           nb::make_tuple(base, value));
  environment_error =
      make_error(m, "EnvironmentFailure", "MPI, device, file system, or another rank.", nb::make_tuple(base, runtime));
  memory_error =
      make_error(m, "OutOfMemory", "Memory does not suffice; the text says for how many bytes, and what limits it.",
                 nb::make_tuple(nb::borrow(environment_error), nb::borrow(PyExc_MemoryError)));
  nb::register_exception_translator(translate);

  m.def("version", [] { return TACIT_VERSION; });
  m.def("wall_time", &wall_time);
  m.def("trace_start", &Trace::start);
  m.def("trace_stop", &Trace::stop);
  m.def("trace_rank", &Trace::rank);
  m.def("take_events", &take_events);
  m.def("device_available", &exec::device_available);
  m.def("device_name", &exec::device_name);
  m.def("memory_limits", [] {
    std::vector<std::tuple<std::string, std::size_t, std::size_t>> all;
    for (const MemoryLimit& one : memory_limits()) all.emplace_back(one.name, one.bytes, one.free);
    return all;
  });
  m.def("blas_kernels", &lapack::kernels);
  m.def("lapack_works", &lapack::works);
  m.def("cores", &exec::cores);
  m.def("threads", &exec::threads);
  m.def("set_threads", &exec::set_threads);
  nb::list scalars, device_scalars;
  for_each_scalar([&]<Scalar T>() { scalars.append(scalar_name<T>()); });
  for_each_device_scalar([&]<Scalar T>() { device_scalars.append(scalar_name<T>()); });
  m.attr("scalars") = scalars;
  m.attr("device_scalars") = device_scalars;
#ifdef TACIT_HAVE_APPLICATIONS
  m.attr("applications_built") = true;
#else
  m.attr("applications_built") = false;
#endif
#ifdef TACIT_HAVE_CUDA
  m.attr("cuda_built") = true;
#else
  m.attr("cuda_built") = false;
#endif
}

}  // namespace tacit::python

NB_MODULE(_core, m) {
  using namespace tacit::python;
  m.doc() = "The compiled part of Tacit.";
  nb::set_leak_warnings(false);  // objects that a program still holds when it ends are not leaks
  watch_the_end_of_python();
  bind_core(m);
  bind_comm(m);
  bind_layout(m);
  bind_io(m);
  bind_op(m);
  bind_contributions(m);
#ifdef TACIT_HAVE_APPLICATIONS
  bind_clustering(m);
  bind_hmatrix(m);
#endif
  bind_precond(m);
  bind_gpus(m);
#ifdef TACIT_HAVE_APPLICATIONS
  bind_tiled(m);  // after operators on GPUs, of which it has some
#endif
  bind_krylov(m);
  bind_solve(m);
  bind_least_squares(m);
#ifdef TACIT_HAVE_APPLICATIONS
  bind_simulate(m);
  bind_hmatrix_precond(m);
  bind_hmatrix_on_gpus(m);
#define TACIT_APPLICATION(name) bind_##name(m);
#include "applications.def"
#undef TACIT_APPLICATION
#endif
}
