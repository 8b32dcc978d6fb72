// The time of solves on simulated ranks or, under mpiexec, on real ones, for comparison with each other and with
// SimGrid's SMPI (smpi.cpp): bench/clock.py.
//   bench_clock [ranks=8] [machine=NAME] [PARAMETER=VALUE ...] [problem=2d5] [n=64] [methods=cg,..] [iterations=60,..]
//               [repeats=1] [restart=] [step=] [depth=] [block=] [powers=] [before=]
//               [measure=1]
// PARAMETER: of a machine, in seconds, bytes and operations (latency=1.5e-6). measure: print those of the real ranks
// first; on simulated ranks print those of the machine and do nothing else. Prints JSON lines.
#include "clock.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/model/rates.hpp>

#include <exception>
#include <string>
#include <variant>

using namespace tacit;

namespace {

comm::SimulatedTimes seconds_until_all_are_here(const comm::Communicator& comm, double began) {
  comm::SimulatedTimes t;
  t.finish = comm.all_max(wall_time() - began);
  t.messages = t.bytes = -1;  // not counted
  return t;
}

void print(const comm::MachineModel& machine) {
  std::string all;
  for (const auto& option : comm::machine_options()) {
    const auto value = option.get(machine);
    const bool text = std::holds_alternative<std::string>(value);
    all +=
        (all.empty() ? "\"" : ", \"") + option.name + "\": " + (text ? "\"" : "") + text_of(value) + (text ? "\"" : "");
  }
  std::printf("{\"machine\": {%s}}\n", all.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  auto given = bench::clock_words();
  given.take(argc, argv);
  if (comm::mpi_launched()) {
    double began = 0;
    const comm::Communicator world = comm::mpi_world();
    if (given.has("measure")) {
      const comm::MachineModel machine = comm::measure_machine(world, model::measure_rates(world));
      if (world.rank() == 0) print(machine);
    }
    bench::run(world, given,
               {[&](const auto& comm) {
                  (void)comm.all_sum(Global(0));
                  began = wall_time();
                },
                [&](const auto& comm) { return seconds_until_all_are_here(comm, began); }});
    return 0;
  }
  if (given.has("measure")) return print(bench::clock_machine(given)), 0;
  comm::simulate(int(given.number("ranks", 8)), bench::clock_machine(given), [&](const comm::Communicator& comm) {
    bench::run(comm, given, {comm::restart_clocks, comm::read_clocks});
  });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_clock: %s\n", e.what());
  return 1;
}
