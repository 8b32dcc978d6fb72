// tacit::comm for Python: communicators, and exceptions that reach all ranks.
#include "bindings.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/checksum.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace tacit::python {
namespace {

using comm::Communicator;

// Set when the user wants to stop while ranks are threads, none of which is Python's main thread.
std::atomic<bool> stop_threads{false};

/// Whether the user has asked to stop. Only Python's main thread sees signals.
bool interrupted() {
  if (stop_threads.load()) return true;
  stay_if_python_ends();
  if (!Py_IsInitialized()) return false;
  WithGil gil;
  if (PyErr_CheckSignals() == 0) return false;
  if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) nb::raise_python_error();
  PyErr_Clear();
  return true;
}

/// comm::run_threads in another thread, so that this thread can see Ctrl-C.
void run_threads(int n, const std::function<void(const Communicator&)>& f) {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr error;
  std::jthread runner([&] {
    try {
      comm::run_threads(n, f);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex);
    done = true;
    ended.notify_one();
  });
  for (;;) {
    {
      std::unique_lock lock(mutex);
      if (ended.wait_for(lock, std::chrono::milliseconds(20), [&] { return done; })) break;
    }
    if (interrupted()) stop_threads.store(true);
  }
  runner.join();
  stop_threads.store(false);
  if (error) std::rethrow_exception(error);
}

using release = nb::call_guard<WithoutGil>;

// Users hold communicators themselves, so they are documented here.
void bind_properties(nb::class_<Communicator>& c) {
  c.def_prop_ro("rank", &Communicator::rank, "This rank, from 0.")
      .def_prop_ro("size", &Communicator::size, "Number of ranks.")
      .def_prop_ro("kind", &Communicator::kind, "\"self\", \"threads\" or \"mpi\".")
      .def("__eq__",
           [](const Communicator& a, nb::handle b) {
             return nb::isinstance<Communicator>(b) && a == nb::cast<const Communicator&>(b);
           })
      // Equal objects have equal hashes, and communicators of one rank are equal.
      .def("__hash__",
           [](const Communicator& a) {
             return std::hash<const void*>()(a.size() == 1 && a.has_threads() ? nullptr : &a.transport());
           })
      // A copy of what holds a communicator is on the same ranks.
      .def("__copy__", [](nb::object c) { return c; })
      .def("__deepcopy__", [](nb::object c, nb::handle) { return c; })
      .def_prop_ro(
          "counters",
          [](const Communicator& c) {
            const auto n = in_turn(c, [&] { return c.counters(); });
            return dict_of("reductions", n.reductions, "exchanges", n.exchanges, "messages", n.messages, "bytes",
                           n.bytes);
          },
          nb::sig("def counters(self) -> dict[str, int]"),
          "Reductions and halo exchanges of this rank so far, with the messages and bytes that these sent. Local.")
      .def(
          "duplicate", [](const Communicator& c) { return comm::collective(c, [&] { return c.duplicate(); }); },
          release(), "The same ranks, with messages of their own. Collective.")
      .def_prop_rw(
          "path", [](const Communicator& c) { return comm::to_string(c.path()); },
          [](const Communicator& c, const std::string& name) { c.use(comm::path_of(name)); },
          "The mechanism of halo exchanges: \"auto\", \"messages\", \"persistent\", \"neighbour\", \"put\", "
          "\"shared\", \"gather\" or \"gaspi\". The same on all ranks.")
      .def(
          "set_levels",
          [](const Communicator& c, const std::string& sizes) { c.use(comm::Topology::given(c.size(), sizes)); },
          "Sets the levels of neighbouring ranks: ranks in a group, groups in a group of the next level, ...; \"3,2\" "
          "is 3 ranks in a NUMA domain, 2 domains in a node. The same on all ranks.")
      .def_prop_ro(
          "topology",
          [](const Communicator& c) { return comm::collective(c, [&] { return c.topology().describe(); }); }, release(),
          "Which ranks share a NUMA domain, a socket, a node; as text. Collective.");
}

void bind_reductions(nb::class_<Communicator>& c) {
  c.def(
       "barrier", [](const Communicator& c) { comm::collective(c, [] {}); }, release(),
       "Returns when all ranks have called it. Collective.")
      // Inside comm::collective, because these calls may be the first to see that a rank ahead of this one has failed.
      .def(
          "all_sum", [](const Communicator& c, Global v) { return comm::collective(c, [&] { return c.all_sum(v); }); },
          release(), "The sum of all ranks' integers. Collective.")
      .def(
          "all_min", [](const Communicator& c, Global v) { return comm::collective(c, [&] { return c.all_min(v); }); },
          release(), "The smallest of all ranks' integers. Collective.")
      .def(
          "all_max", [](const Communicator& c, Global v) { return comm::collective(c, [&] { return c.all_max(v); }); },
          release(), "The largest of all ranks' integers. Collective.")
      .def(
          "all_max_real",
          [](const Communicator& c, double v) { return comm::collective(c, [&] { return c.all_max(v); }); }, release(),
          "The largest of all ranks' numbers. Collective.");
}

void bind_gathers(nb::class_<Communicator>& c) {
  c.def(
       "all_gather",
       [](const Communicator& c, nb::bytes mine) {
         const auto bytes = std::span(reinterpret_cast<const std::byte*>(mine.c_str()), mine.size());
         nb::list parts;
         for (const auto& part : together(c, [&] { return c.all_gather_bytes(bytes); }))
           parts.append(nb::bytes(reinterpret_cast<const char*>(part.data()), part.size()));
         return parts;
       },
       "The bytes of all ranks, in rank order. Collective.")
      .def(
          "collective",
          [](const Communicator& c, nb::object f) {
            nb::object result;
            if (c.size() == 1) return call_python(1, f);
            together(c, [&] { call_python(c.size(), [&] { result = f(); }); });
            return result;
          },
          nb::sig("def collective(self, f: Callable[[], T], /) -> T"),
          "f(), on every rank; if it raises on any, every rank raises the same (on one rank: unchanged). Collective.")
      .def(
          "least",
          [](const Communicator& c, nb::object f) {
            using Four = std::array<Global, 4>;
            return unlocked([&] {
              const comm::Turn turn(c);
              return comm::collective_least(c,
                                            [&] { return call_python(c.size(), [&] { return nb::cast<Four>(f()); }); });
            });
          },
          nb::sig("def least(self, f: Callable[[], tuple[int, int, int, int]], /) -> list[int]"),
          "The least over all ranks of each of the four integers that f() returns; errors as in collective(), and no "
          "more messages. Collective.")
      .def(
          "broadcast",
          [](const Communicator& c, nb::bytes mine, int root) {
            const std::string text(mine.c_str(), c.rank() == root ? mine.size() : 0);
            const auto all = together(c, [&] { return c.broadcast(text, root); });
            return nb::bytes(all.data(), all.size());
          },
          "The bytes of one rank, on every rank. Collective.");
}

}  // namespace

void bind_comm(nb::module_& m) {
  nb::class_<Communicator> communicator(m, "Communicator", "The ranks that work together; made by tacit.comm.");
  bind_properties(communicator);
  bind_reductions(communicator);
  bind_gathers(communicator);
  m.def("checksum", [](const Elements<std::uint8_t>& bytes) {
    return unlocked([&] { return exec::Checksum().add(bytes.data(), bytes.size()).value(); });
  });
  m.def("choices_paths", &comm::path_names);
  m.def("self_comm", &Communicator::self);
  m.def("mpi_built", &comm::mpi_built);
  m.def("mpi_load", &comm::mpi_load);
  m.def("mpi_initialized", &comm::mpi_initialized);
  m.def("mpi_launched", &comm::mpi_launched);
  m.def("mpi_library", &comm::mpi_library);
  m.def("mpi_world", &comm::mpi_world, release());
  m.def("mpi_from_fortran", &comm::mpi_from_fortran, release());
  m.def("mpi_depart", &comm::mpi_depart, release());
  m.def("run_threads", [](int n, nb::object f) {
    WithoutGil free;
    run_threads(n, [&](const Communicator& c) { call_python(c.size(), [&] { f(nb::cast(c)); }); });
  });
  comm::set_interrupt_check(&interrupted);
  comm::set_around_waits([](const std::function<void()>& wait) {
    if (!holds_gil()) return wait();
    WithoutGil free;
    wait();
  });
}

}  // namespace tacit::python
