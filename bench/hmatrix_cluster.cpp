// BiCGStab with an H-matrix on a cluster of nodes with several accelerators: figures 10 to 17 and 19 of Yamazaki et al.
// 2018 ("Analyzing performance of BiCGStab with hierarchical matrix on GPU clusters"), SIMULATED. The library's solver,
// product, messages and copies run on simulated ranks with virtual devices (comm/simulate.hpp, exec/device_model.hpp):
// results, iterations and counts are real; times come from a model whose rates, below, are the paper's own measurements
// of single parts (its figures 9, 12, 13 and 18).
//
//   bench_hmatrix_cluster [NAME=VALUE ...]
//     figures=10,12,14,16,17,19   12 includes 13, 14 includes 15, 10 includes 11
//     mesh=ring:9,75              ring:WEDGES,RINGS, geodesic:CUTS or a file
//     nodes=2,4,8                 of figures 10 and 16
//     gpus=1,4,8,16               processes of figure 19, one device each
//     steps=3                     iterations that are timed; 0: until converged
//     setting=paper|ours          as in bench_hmatrix_devices, like field
//     tolerance=1e-3  field=0|1
//     json=FILE                   writes each printed row as a line of JSON
//
// Networks: "omnipath": latency 1.5 us, overhead 1 us at each end, 0.1 ns per byte; within a node 0.4 us, 0.4 us and
// 0.1 ns: typical values. "tcp": 20 us, 5 us and 0.94 ns per byte: fitted to figure 18 (64 processes gather 16 KB each
// in 1.9 ms, 512 KB in 31 ms).
#include "harness.hpp"

#include <tacit/app/bem/single_layer.hpp>
#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using exec::DeviceOverlap;
using exec::DevicePath;
using exec::Devices;
using exec::ProcessLayout;
using exec::VectorWork;

namespace {

bench::Words given{{"figures", "10,12,14,16,17,19"},
                   {"mesh", "ring:9,75"},
                   {"nodes", "2,4,8"},
                   {"gpus", "1,4,8,16"},
                   {"steps", "3"},
                   {"setting", "paper"},
                   {"tolerance", "1e-3"},
                   {"field", "0"},
                   {"json", ""}};

// A Tsubame-3 node: four P100 on two links to the host; and the rate of a socket's cores in products without GPUs.
constexpr int devices_of_node = 4, sockets = 2;
constexpr double host_rate = 1e9;  // of the ranks' clocks
constexpr double cpu_product =
    0.5 * 10.42e9 * 4;  // a socket's share of figure 9's host: 2 operations a number of 8 bytes

// A launch of a P100; and one with which "block" of figure 19, 14 launches an iteration, takes about the paper's time.
constexpr double kernels[] = {5e-6, 5e-4};

exec::DeviceModel p100(ProcessLayout layout, double kernel = kernels[0]) {
  exec::DeviceModel m;
  m.bandwidth = 495e9;
  m.product = 84.13e9 * 4;  // figure 9: 2 operations for each number of 8 bytes
  m.kernel = kernel, m.scalars = 10e-6;
  // Two processes on one link halve it (figure 13(b)).
  const double share = layout == ProcessLayout::per_gpu ? 0.5 : 1;
  m.to_device = share * 12.1e9, m.to_host = share * 11.1e9;
  m.peer = 18.5e9;  // figure 12
  m.link = 2;
  m.host = host_rate;
  return m;
}

comm::MachineModel network(const std::string& name, int processes_of_node) {
  comm::MachineModel m;
  m.bandwidth = host_rate;
  if (name == "tcp") {
    m.latency = 20e-6, m.overhead = 5e-6, m.gap = 0.94e-9;
  } else {
    m.latency = 1.5e-6, m.overhead = 1e-6;
    m.gap = 0.1e-9;  // 10 GB/s of a process; a node's links carry four
    m.levels = {{processes_of_node, 0.4e-6, 0.4e-6, 0.1e-9}};
  }
  return m;
}

const struct {
  ProcessLayout layout;
  const char* name;
  int processes;  // of a node
} layouts[] = {{ProcessLayout::per_gpu, "per-gpu", devices_of_node},
               {ProcessLayout::per_socket, "per-socket", sockets},
               {ProcessLayout::per_node, "per-node", 1}};

std::shared_ptr<Devices<Host>> devices_of(ProcessLayout layout, int rank, double kernel = kernels[0]) {
  const int processes = layouts[int(layout)].processes;
  auto devices =
      std::make_shared<Devices<Host>>(exec::devices_of_process(layout, devices_of_node, sockets, rank % processes));
  devices->simulate(p100(layout, kernel));
  return devices;
}

std::ofstream json;
void line(const std::string& object) {
  if (json.is_open()) json << object << std::endl;
}
template <class... A>
std::string text(const char* format, A... a) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, format, a...);
  return buffer;
}

struct Problem {
  app::bem::Mesh mesh;
  std::shared_ptr<const op::ClusterTree> tree;
  op::HMatrixOptions options;
  std::vector<double> rhs;

  Problem() {
    const std::string& from = given["mesh"];
    if (from.rfind("geodesic:", 0) == 0) mesh = app::bem::geodesic_sphere(std::atoi(from.c_str() + 9));
    else if (from.rfind("ring:", 0) == 0)
      mesh = app::bem::ring_sphere(std::atoi(from.c_str() + 5), std::atoi(from.c_str() + from.find(',') + 1));
    else mesh = app::bem::read_mesh(from);
    op::TreeOptions cut;
    options.tolerance = given.number("tolerance");
    if (given["setting"] == "paper") {
      cut = {op::Bisection::midpoint, 15, 1};
      options.measure = op::ErrorMeasure::block;
      options.admissibility.eta = 2, options.admissibility.least = 16;
      options.compress.recompress = false;
      options.storage = op::StoragePrecision::full;
    }
    const op::ClusterTree first(mesh.geometry(), cut);
    mesh = mesh.reordered(first.order());
    tree = std::make_shared<const op::ClusterTree>(mesh.geometry(), cut);
    for (Local t = 0; t < mesh.size(); ++t) rhs.push_back(given["field"] == "1" ? mesh.centroid(t)[1] : 1.0);
  }
  std::shared_ptr<const op::HMatrix<double>> matrix(const comm::Communicator& comm) const {
    const app::bem::SingleLayer layer(mesh, 0.05 * options.tolerance);
    return std::make_shared<op::HMatrix<double>>(layout::Space::replicated(comm, mesh.size()), tree,
                                                 app::bem::entries(layer), options);
  }
};

// The time of an iteration in ms of the slowest rank's clock, and the times of its parts: where a method overlaps them,
// they add up to more than the whole.
struct Step {
  int iterations = 0;
  double whole = 0, product = 0, vectors = 0, copies = 0, messages = 0;
};

// The mean of `steps` iterations after the second: by then ranks that began together have drifted apart as in a long
// solve. All times are read in one solve, whose clocks only advance, so that no difference is negative.
template <class Solve>
Step timed(const comm::Communicator& comm, Devices<Host>& devices, int steps, const Solve& solve) {
  constexpr int before = 2;
  const auto read = [&](int iteration) {
    const auto times = comm::read_clocks(comm);
    const auto own = devices.clocks()->times();
    return Step{iteration,         1e3 * times.finish, 1e3 * own.product,
                1e3 * own.vectors, 1e3 * own.copies,   1e3 * times.seconds("halo")};
  };
  krylov::Options options;
  options.max_iterations = 0;
  solve(options);  // the set-up of the first solve is not timed
  comm::restart_clocks(comm);
  devices.clocks()->restart();
  options.max_iterations = steps > 0 ? before + steps : 1000;
  Step first, last;
  options.callback_stops = false;  // it would be agreed on by messages
  options.callback = [&](const krylov::State& s) {
    if (s.iteration >= before) last = read(s.iteration);
    if (s.iteration == before) first = last;
    return false;
  };
  const auto report = solve(options);
  const double each = std::max(1, last.iterations - first.iterations);
  for (auto part : {&Step::whole, &Step::product, &Step::vectors, &Step::copies, &Step::messages})
    last.*part = (last.*part - first.*part) / each;
  for (auto part : {&Step::product, &Step::vectors, &Step::copies}) last.*part = comm.all_sum(last.*part) / comm.size();
  last.iterations = report.iterations;
  return last;
}

void on_simulated(int ranks, const comm::MachineModel& machine,
                  const std::function<void(const comm::Communicator&)>& f) {
  comm::simulate(ranks, machine, f, 1024 * 1024);
}

// Figures 12 and 13: bandwidths of copies in the model, next to the measurements that it was fitted to.
void copies() {
  constexpr std::size_t n = 1'000'000;
  std::printf("Fig. 12, 13, SIMULATED, GB/s, set / copy / peer (the paper beside)\n");
  on_simulated(1, network("omnipath", 1), [&](const comm::Communicator& comm) {
    const auto devices = devices_of(ProcessLayout::per_node, 0);
    const std::vector<double> host(n, 1.0);
    std::vector<exec::DeviceArray<double, Host>> x;
    for (int d = 0; d < devices_of_node; ++d) x.push_back(devices->array<double>(d, n));
    const auto row = [&](const std::string& name, const char* paper, int waits, const auto& run) {
      std::printf("%20s", name.c_str());
      for (const auto path : {DevicePath::host, DevicePath::copy, DevicePath::peer}) {
        comm::restart_clocks(comm);
        devices->clocks()->restart();
        run(path);
        for (int d = 0; d < waits; ++d) devices->wait(d);
        std::printf(" %6.1f", 8e-9 * double(n) / wall_time());
      }
      std::printf("   | %s\n", paper);
    };
    row("0 to 1", "6.3 / 9.3 / 18.5", 4, [&](DevicePath path) { devices->between(x[0], 0, n, x[1], path); });
    const char* const paper[] = {"12.1 / 12.2 / 12.2", "6.1 / 5.2 / 7.2", "5.9 / 3.5 / 7.0", "5.7 / 2.7 / 6.9"};
    for (int d = 1; d <= devices_of_node; ++d) {
      std::vector<exec::DeviceArray<double, Host>> some;
      for (int k = 0; k < d; ++k) some.push_back(devices->array<double>(k, n));
      row(message("host to ", d), paper[d - 1], d,
          [&](DevicePath path) { devices->broadcast(host.data(), some, path); });
    }
  });
}

// Figures 14 and 15: a gather alone, with the copies from and to devices, and as if messages were sent from device
// memory.
void gathers() {
  constexpr Local n = 1'000'000;
  std::printf(
      "Fig. 14, 15, SIMULATED: 8 MB gathered, GB/s, omnipath (the paper: GDR gains 2.4 per-node on 1 node and 1.4 on "
      "16, "
      "4.5 and 2.4 per-socket)\n%6s %-12s %6s %9s %9s %9s %9s %9s\n",
      "nodes", "layout", "ranks", "messages", "peer", "copy", "direct", "gain");
  op::Geometry points;
  for (Local i = 0; i < n; ++i) points.points.push_back({double(i), 0, 0});
  const auto tree = std::make_shared<const op::ClusterTree>(points, op::TreeOptions{op::Bisection::median, n, 1});
  for (const int nodes : {1, 2, 4, 8, 16})
    for (const auto& l : layouts) {
      const int ranks = nodes * l.processes;
      on_simulated(ranks, network("omnipath", l.processes), [&](const comm::Communicator& comm) {
        const auto devices = devices_of(l.layout, comm.rank());
        const auto share = layout::Partition::blocks(n, comm.size());
        const op::OwnRows<double> rows(layout::Space::replicated(comm, n), tree,
                                       {share.offsets().begin(), share.offsets().end()});
        const std::size_t own = std::size_t(rows.count());
        std::vector<exec::DeviceArray<double, Host>> parts, whole;
        std::vector<std::pair<Local, Local>> all;
        for (int d = 0; d < devices->size(); ++d) {
          parts.push_back(devices->array<double>(d, own));
          whole.push_back(devices->array<double>(d, std::size_t(n)));
          all.emplace_back(0, Local(own));
        }
        auto scratch = devices->array<double>(0, own);
        std::vector<double> host(own), y(static_cast<std::size_t>(n));
        const auto seconds = [&](bool there, bool messages, bool back, DevicePath path) {
          comm::restart_clocks(comm);
          devices->clocks()->restart();
          if (there) {
            devices->sum_on_first(parts, all, scratch, path);
            devices->to_host_aside(parts[0], 0, own, host.data());
            devices->wait_aside(0);
          }
          if (messages) rows.finish_put(1, rows.start_put(host.data(), 1, y.data()), y.data());
          if (back) {
            devices->broadcast(y.data(), whole, path);
            for (int d = 0; d < devices->size(); ++d) devices->wait(d);
          }
          return comm::read_clocks(comm).finish;
        };
        const double alone = seconds(false, true, false, DevicePath::peer),
                     peer = seconds(true, true, true, DevicePath::peer),
                     copy = seconds(true, true, true, DevicePath::copy);
        // Direct: data pass the links once, while they are sent: the longer of messages and copies with the local sum.
        const double ways = seconds(true, false, true, DevicePath::peer), direct = std::max(alone, ways);
        if (comm.rank() != 0) return;
        const double gb = 8e-9 * n, messages = alone > 0 ? gb / alone : 0;  // 0: there are none
        std::printf("%6d %-12s %6d %9.2f %9.2f %9.2f %9.2f %9.2f\n", nodes, l.name, ranks, messages, gb / peer,
                    gb / copy, gb / direct, peer / direct);
        line(
            text("{\"figure\": 14, \"nodes\": %d, \"layout\": \"%s\", \"messages\": %g, \"peer\": %g, \"copy\": %g, "
                 "\"direct\": %g}",
                 nodes, l.name, messages, gb / peer, gb / copy, gb / direct));
      });
    }
}

// Figure 17(a): the sums of two columns with a vector (8 n bytes each) in one sweep or two, on 1, 2 and 4 devices.
void merged_sums() {
  std::printf("Fig. 17(a), SIMULATED: two scalar products, GB/s of their 3 vectors\n%10s", "n");
  for (const int count : {1, 2, 4}) std::printf(" %7d GPU  2 sweeps", count);
  std::printf("\n");
  on_simulated(1, network("omnipath", 1), [&](const comm::Communicator& comm) {
    for (const std::size_t n : {10'000u, 100'000u, 1'000'000u, 4'000'000u}) {
      std::printf("%10zu", n);
      for (const int count : {1, 2, 4}) {
        std::vector<int> ids;
        for (int d = 0; d < count; ++d) ids.push_back(d);
        Devices<Host> devices(ids);
        devices.simulate(p100(ProcessLayout::per_node));
        std::vector<exec::DeviceArray<double, Host>> a;
        for (int d = 0; d < count; ++d) a.push_back(devices.array<double>(d, n / std::size_t(count)));
        double seconds[2];
        for (int separate = 0; separate < 2; ++separate) {
          comm::restart_clocks(comm);
          devices.clocks()->restart();
          for (int k = 0; k <= separate; ++k) {
            const auto start = [&](int d) {
              const auto v = std::as_const(a[std::size_t(d)]).part(0, n / std::size_t(count));
              return devices.start_sums(d, v.size(), exec::reads(v, v), exec::updates(), exec::writes(),
                                        layout::formula::Dots<double>{});
            };
            std::vector<decltype(start(0))> started;
            for (int d = 0; d < count; ++d) started.push_back(start(d));
            for (int d = 0; d < count; ++d) (void)devices.sums(d, started[std::size_t(d)]);
          }
          seconds[separate] = wall_time();
        }
        std::printf(" %11.1f %9.1f", 16e-9 * double(n) / seconds[0], 16e-9 * double(n) / seconds[1]);
        line(text("{\"figure\": 17, \"n\": %zu, \"gpus\": %d, \"merged\": %g, \"separate\": %g}", n, count,
                  16e-9 * double(n) / seconds[0], 16e-9 * double(n) / seconds[1]));
      }
      std::printf("\n");
    }
  });
}

void solves(const std::set<int>& figures) {
  const Problem problem;
  const Local n = problem.mesh.size();
  const int steps = int(given.number("steps"));
  const auto wanted = [&](int figure) { return figures.count(figure) > 0; };
  struct Run {
    int figure, nodes;
    ProcessLayout layout;
    std::string machine;
    double kernel = kernels[0];
  };
  std::map<int, std::vector<Run>> by_ranks;  // runs with the same number of ranks share a matrix
  const auto nodes = given.numbers("nodes");
  for (const int count : nodes)
    for (const auto& l : layouts) {
      const bool first = l.layout == ProcessLayout::per_gpu;
      if (wanted(16) || wanted(17) || (wanted(10) && first))
        by_ranks[count * l.processes].push_back({16, count, l.layout, "omnipath"});
    }
  if (wanted(10)) by_ranks[devices_of_node].push_back({16, 1, ProcessLayout::per_gpu, "omnipath"});
  if (wanted(19))
    for (const int gpus : given.numbers("gpus"))
      for (const double kernel : kernels) by_ranks[gpus].push_back({19, gpus, ProcessLayout::per_gpu, "tcp", kernel});
  std::printf("BiCGStab on clusters, SIMULATED: n = %d, %s setting, ms an iteration, mean of %d\n", n,
              given["setting"].c_str(), steps);
  std::printf("%4s %6s %-11s %-9s %-9s %5s %8s | %8s %8s %8s %8s\n", "fig.", "nodes", "layout", "network", "vectors",
              "ranks", "ms/it", "product", "vectors", "copies", "messages");
  for (const auto& [ranks, runs] : by_ranks) {
    // The levels of a machine cannot change within a simulation: one simulation for each network.
    std::set<std::string> machines;
    for (const auto& run : runs)
      machines.insert(run.machine + (run.machine == "tcp" ? "" : layouts[int(run.layout)].name));
    for (const auto& key : machines) {
      const auto of_key = [&](const Run& run) {
        return run.machine + (run.machine == "tcp" ? "" : layouts[int(run.layout)].name) == key;
      };
      const auto& any = *std::find_if(runs.begin(), runs.end(), of_key);
      on_simulated(
          ranks, network(any.machine, layouts[int(any.layout)].processes), [&](const comm::Communicator& comm) {
            const auto A = problem.matrix(comm);
            for (const auto& run : runs) {
              if (!of_key(run)) continue;
              const auto devices = devices_of(run.layout, comm.rank(), run.kernel);
              const op::HMatrixOnDevices<double, Host> B(A, devices);
              layout::Vector<double, Group<Host>> b(B.range()), x(B.domain());
              b.assign(problem.rhs);
              struct Way {
                const char* name;
                VectorWork work;
                int overlap;  // -1: without pipelining
              };
              std::vector<Way> ways{{"redundant", VectorWork::redundant, -1}};
              if (run.figure == 16 && devices->size() > 1) ways.push_back({"shared", VectorWork::shared, -1});
              if (run.figure == 19)
                for (const int k : {0, 1}) ways.push_back({k == 0 ? "pipe1" : "pipe2", VectorWork::redundant, k});
              for (const auto& way : ways) {
                const Step s = timed(comm, *devices, steps, [&](krylov::Options options) {
                  options.method = way.overlap < 0 ? krylov::Method::bicgstab : krylov::Method::pipelined_bicgstab;
                  options.rtol = 1e-7;
                  B.group().work = way.work, B.group().overlap = DeviceOverlap(std::max(0, way.overlap));
                  layout::fill(x, 0.0);
                  return krylov::solve<double, Group<Host>>(B, nullptr, b, x, options);
                });
                if (comm.rank() != 0) continue;
                const auto& l = layouts[int(run.layout)];
                std::printf("%4d %6d %-11s %-9s %-9s %5d %8.3f | %8.3f %8.3f %8.3f %8.3f%s\n", run.figure, run.nodes,
                            l.name, run.kernel != kernels[0] ? "tcp, slow" : run.machine.c_str(), way.name, ranks,
                            s.whole, s.product, s.vectors, s.copies, s.messages,
                            steps > 0 ? "" : text("  %d iterations", s.iterations).c_str());
                std::fflush(stdout);
                line(text(
                    "{\"figure\": %d, \"nodes\": %d, \"layout\": \"%s\", \"network\": \"%s\", \"vectors\": \"%s\", "
                    "\"ranks\": %d, \"n\": %d, \"iterations\": %d, \"kernel\": %g, \"ms\": %g, \"product\": %g, "
                    "\"vectors_ms\": %g, "
                    "\"copies\": %g, \"messages\": %g, \"bytes\": %g}",
                    run.figure, run.nodes, l.name, run.machine.c_str(), way.name, ranks, n, s.iterations, run.kernel,
                    s.whole, s.product, s.vectors, s.copies, s.messages, A->report().bytes));
              }
            }
          });
    }
  }
  // Without devices: the same product at the rate of figure 9's host, one process per socket, and no copies.
  if (wanted(10)) {
    std::printf("Without devices a product alone takes, on 1, 2, 4, .. nodes at %.1f GB/s a socket, ms:",
                cpu_product / 1e9);
    const auto A = problem.matrix(comm::Communicator::self());
    for (const int count : {1, 2, 4, 8, 16})
      std::printf(" %.1f", 1e3 * A->report().bytes / (cpu_product * sockets * count));
    std::printf("\n");
    line(text("{\"figure\": 10, \"n\": %d, \"bytes\": %g, \"socket\": %g}", n, A->report().bytes, cpu_product));
  }
}

}  // namespace

int main(int argc, char** argv) {
  given.take(argc, argv);
#ifdef _OPENMP
  omp_set_num_threads(1);  // ranks are fibers of this thread
#endif
  if (!given["json"].empty()) json.open(given["json"]);
  const auto list = given.numbers("figures");
  const std::set<int> figures(list.begin(), list.end());
  if (figures.count(12)) copies();
  if (figures.count(14)) gathers();
  if (figures.count(17)) merged_sums();
  if (figures.count(10) || figures.count(16) || figures.count(19)) solves(figures);
}
