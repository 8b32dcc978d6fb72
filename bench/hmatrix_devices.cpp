// An H-matrix on several devices per process: figures 12 to 18 of Yamazaki et al. 2018 ("Analyzing performance of
// BiCGStab with hierarchical matrix on GPU clusters"), repeated on virtual devices. Counts (copies, bytes, iterations,
// sums) are those of GPUs; times are those of this processor, which runs all devices one after the other.
//
//   bench_hmatrix_devices [NAME=VALUE ...]
//     figures=12,13,14,16,17,18     14 includes 15
//     mesh=ring:6,20                ring:WEDGES,RINGS, geodesic:CUTS or a file; for 16 and 17
//     nodes=1,2                     ranks are threads of this process
//     devices=4  sockets=2          per node
//     tolerance=1e-3  setting=paper|ours   paper: the tolerance for each block, no recompression, double precision
//     n=1000000                     vector length in 12 to 14
//     field=0|1                     right-hand side: potential 1, or a uniform field
//     blocks=FILE                   writes the blocks (row, rows, column, columns, rank or -1) and the ranks' rows
#include "harness.hpp"

#include <tacit/app/bem/single_layer.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using exec::DevicePath;
using exec::Devices;
using exec::ProcessLayout;

namespace {

bench::Words given{{"figures", "12,13,14,16,17,18"},
                   {"mesh", "ring:6,20"},
                   {"nodes", "1,2"},
                   {"devices", "4"},
                   {"sockets", "2"},
                   {"tolerance", "1e-3"},
                   {"setting", "paper"},
                   {"n", "1000000"},
                   {"field", "0"},
                   {"blocks", ""}};

const struct {
  ProcessLayout layout;
  const char* name;
} layouts[] = {{ProcessLayout::per_gpu, "per-gpu"},
               {ProcessLayout::per_socket, "per-socket"},
               {ProcessLayout::per_node, "per-node"}};
const struct {
  DevicePath path;
  const char* name;
} paths[] = {{DevicePath::host, "set"}, {DevicePath::copy, "copy"}, {DevicePath::peer, "peer"}};

int processes_of(ProcessLayout layout) {
  const int all = int(given.number("devices"));
  return layout == ProcessLayout::per_gpu      ? all
         : layout == ProcessLayout::per_socket ? int(given.number("sockets"))
                                               : 1;
}
std::shared_ptr<Devices<Host>> devices_of(ProcessLayout layout, int rank) {
  return std::make_shared<Devices<Host>>(exec::devices_of_process(
      layout, int(given.number("devices")), int(given.number("sockets")), rank % processes_of(layout)));
}
template <class F>
void on_ranks(int ranks, F&& f) {
  const auto body = [&](const comm::Communicator& comm) {
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
    f(comm);
  };
  if (ranks == 1) body(comm::Communicator::self());
  else comm::run_threads(ranks, body);
}
template <class F>
double best_of(int repeat, F&& f) {
  double best = 1e300;
  for (int i = 0; i < repeat; ++i) {
    const double begin = wall_time();
    f();
    best = std::min(best, wall_time() - begin);
  }
  return best;
}

void copies() {
  const std::size_t n = std::size_t(given.number("n"));
  const int count = int(given.number("devices"));
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  Devices<Host> devices(ids);
  std::vector<exec::DeviceArray<double, Host>> x;
  for (int d = 0; d < count; ++d) x.push_back(devices.array<double>(d, n));
  const std::vector<double> host(n, 1.0);
  std::printf(
      "Fig. 12, 13: %.0f MB, GB/s (the paper, Tsubame-3: 0 to 1 6.3 / 9.3 / 18.5; broadcast to four 5.7 / 2.7 / 6.9)\n",
      8e-6 * double(n));
  std::printf("%24s %10s %10s %10s %28s\n", "", "set", "copy", "peer", "copies to / from / between");
  const auto line = [&](const std::string& name, const auto& run) {
    std::printf("%24s", name.c_str());
    std::string counts;
    for (const auto& p : paths) {
      const auto before = devices.traffic();
      run(p.path);
      const auto after = devices.traffic();
      std::ostringstream text;
      text << after.to_devices - before.to_devices << "/" << after.to_host - before.to_host << "/"
           << after.between - before.between << " ";
      counts += text.str();
      std::printf(" %10.2f", 8e-9 * double(n) / best_of(5, [&] { run(p.path); }));
    }
    std::printf(" %28s\n", counts.c_str());
  };
  line("device 0 to device 1",
       [&](DevicePath path) { devices.between(x[0], 0, n, x[std::size_t(std::min(1, count - 1))], path); });
  for (int d = 1; d <= count; ++d) {
    std::vector<exec::DeviceArray<double, Host>> some;
    for (int k = 0; k < d; ++k) some.push_back(devices.array<double>(k, n));
    line(message("host to ", d, " devices"), [&](DevicePath path) { devices.broadcast(host.data(), some, path); });
  }
}

// Points on a line: only the distribution over ranks matters.
void gathers() {
  const Local n = Local(given.number("n"));
  std::printf("Fig. 14, 15: partial vectors of local devices summed, gathered over ranks, to all devices; n = %d\n", n);
  std::printf("%6s %-12s %6s %8s %10s %10s %12s %14s\n", "nodes", "layout", "ranks", "devices", "MB/s", "gather %",
              "host copies", "between");
  for (const int nodes : given.numbers("nodes"))
    for (const auto& l : layouts) {
      const int ranks = nodes * processes_of(l.layout);
      on_ranks(ranks, [&](const comm::Communicator& comm) {
        const auto devices = devices_of(l.layout, comm.rank());
        const Global first = Global(n) * comm.rank() / comm.size(), last = Global(n) * (comm.rank() + 1) / comm.size();
        const Local own = Local(last - first);
        std::vector<exec::DeviceArray<double, Host>> parts, whole;
        std::vector<std::pair<Local, Local>> rows;
        for (int d = 0; d < devices->size(); ++d) {
          parts.push_back(devices->array<double>(d, std::size_t(own)));
          whole.push_back(devices->array<double>(d, std::size_t(n)));
          rows.emplace_back(0, own);
        }
        auto scratch = devices->array<double>(0, std::size_t(own));
        std::vector<double> host(static_cast<std::size_t>(own)), all;
        double gather = 0, total = 0;
        exec::DeviceTraffic before{}, after{};
        constexpr int repeat = 6;
        for (int i = 0; i < repeat; ++i) {
          before = devices->traffic();
          const double begin = wall_time();
          devices->sum_on_first(parts, rows, scratch, DevicePath::peer);
          devices->to_host(parts[0], 0, std::size_t(own), host.data());
          const double middle = wall_time();
          all = comm.all_gather(std::span<const double>(host));
          const double behind = wall_time();
          devices->broadcast(all.data(), whole, DevicePath::peer);
          after = devices->traffic();
          if (i > 0) gather += behind - middle, total += wall_time() - begin;
        }
        total = comm.all_max(total), gather = comm.all_max(gather);
        if (comm.rank() == 0)
          std::printf("%6d %-12s %6d %8d %10.0f %10.0f %5lld + %4lld %14lld\n", nodes, l.name, ranks, devices->size(),
                      8e-6 * n * (repeat - 1) / total, 100 * gather / total,
                      (long long)(after.to_host - before.to_host), (long long)(after.to_devices - before.to_devices),
                      (long long)(after.between - before.between));
      });
    }
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
    for (Local t = 0; t < mesh.size(); ++t) rhs.push_back(given.number("field") != 0 ? mesh.centroid(t)[1] : 1.0);
  }
  std::shared_ptr<const op::HMatrix<double>> matrix(const comm::Communicator& comm) const {
    const app::bem::SingleLayer layer(mesh, 0.05 * options.tolerance);
    return std::make_shared<const op::HMatrix<double>>(layout::Space::replicated(comm, mesh.size()), tree,
                                                       app::bem::entries(layer), options);
  }
};

void solves(const Problem& p, bool layouts_too, bool work_too) {
  std::printf(
      "Fig. 16, 17(b): BiCGStab to 1e-7, n = %d (the paper, 100ts: 13 to 20 iterations; 2 nodes per-gpu 15, per-socket "
      "14, per-node 14)\n",
      p.mesh.size());
  std::printf("%6s %-12s %-10s %6s %8s %6s %9s %9s %9s | %s\n", "nodes", "layout", "vectors", "ranks", "devices", "its",
              "ms/it", "sums/it", "residual", "copies an iteration: from, to, between; MB over the bus");
  for (const int nodes : given.numbers("nodes"))
    for (const auto& l : layouts) {
      if (!layouts_too && l.layout != ProcessLayout::per_node) continue;
      const int ranks = nodes * processes_of(l.layout);
      on_ranks(ranks, [&](const comm::Communicator& comm) {
        const auto A = p.matrix(comm);
        for (const auto work : {exec::VectorWork::redundant, exec::VectorWork::shared}) {
          if (work == exec::VectorWork::shared && !work_too) continue;
          const auto devices = devices_of(l.layout, comm.rank());
          const op::HMatrixOnDevices<double, Host> B(A, devices);
          B.group().work = work;
          layout::Vector<double, Group<Host>> b(B.range()), x(B.domain());
          b.assign(p.rhs);
          const auto before = devices->traffic();
          krylov::Options options;
          options.method = krylov::Method::bicgstab, options.rtol = 1e-7, options.max_iterations = 1000;
          const auto r = krylov::solve<double, Group<Host>>(B, nullptr, b, x, options);
          const auto after = devices->traffic();
          const double seconds = comm.all_max(r.seconds), each = std::max(1, r.iterations);
          if (comm.rank() == 0)
            std::printf(
                "%6d %-12s %-10s %6d %8d %6d %9.2f %9.1f %9.1e | %.1f %.1f %.1f; %.2f\n", nodes, l.name,
                work == exec::VectorWork::shared ? "shared" : "redundant", ranks, devices->size(), r.iterations,
                1e3 * seconds / each, double(after.scalars - before.scalars) / each, r.residual_norm,
                double(after.to_host - before.to_host) / each, double(after.to_devices - before.to_devices) / each,
                double(after.between - before.between) / each,
                1e-6 * (after.bytes_to_host - before.bytes_to_host + after.bytes_to_devices - before.bytes_to_devices) /
                    each);
          std::fflush(stdout);
        }
      });
    }
}

// A gather overlapped with work, measured like the Intel MPI benchmarks. Under mpiexec between its processes.
void overlap() {
  const auto run = [](const comm::Communicator& comm) {
    if (comm.rank() == 0)
      std::printf(
          "Fig. 18: a gather behind work on %d ranks (the paper, 64 ranks: 16 KB 81 %%, 128 KB 94 %%, 512 KB 80 %%)\n"
          "%9s %12s %12s %12s %9s\n",
          comm.size(), "bytes", "together us", "gather us", "work us", "overlap %");
    for (const Local bytes : {16384, 65536, 262144, 524288}) {
      const Local n = bytes / 8 * comm.size();
      op::Geometry line;
      for (Local i = 0; i < n; ++i) line.points.push_back({double(i), 0, 0});
      const auto tree = std::make_shared<const op::ClusterTree>(line, op::TreeOptions{op::Bisection::median, n, 1});
      const auto share = layout::Partition::blocks(n, comm.size());
      const op::OwnRows<double> rows(layout::Space::replicated(comm, n), tree,
                                     {share.offsets().begin(), share.offsets().end()});
      std::vector<double> own(std::size_t(rows.count()), 1.0), all(static_cast<std::size_t>(n));
      volatile double sink = 0;
      const auto work = [&](double seconds) {
        const double begin = wall_time();
        while (wall_time() - begin < seconds) {
          for (int k = 0; k < 2000; ++k) sink = sink + 1e-9 * k;
          comm.poll();
        }
      };
      double pure = 0, busy = 0, both = 0;
      constexpr int repeat = 40;
      for (int which = 0; which < 2; ++which)
        for (int i = 0; i < repeat; ++i) {
          (void)comm.all_sum(Global(1));
          double begin = wall_time();
          if (which == 0) {
            rows.finish_put(1, rows.start_put(own.data(), 1, all.data()), all.data());
            pure += (wall_time() - begin) / repeat;
            continue;
          }
          work(pure);
          busy += (wall_time() - begin) / repeat;
          (void)comm.all_sum(Global(1));
          begin = wall_time();
          const int token = rows.start_put(own.data(), 1, all.data());
          work(pure);
          rows.finish_put(1, token, all.data());
          both += (wall_time() - begin) / repeat;
        }
      const double least = std::min(pure, busy),
                   hidden = least > 0 ? std::clamp((pure + busy - both) / least, 0.0, 1.0) : 0;
      if (comm.rank() == 0)
        std::printf("%9d %12.1f %12.1f %12.1f %9.0f\n", bytes, 1e6 * both, 1e6 * pure, 1e6 * busy, 100 * hidden);
    }
  };
  if (std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE")) run(comm::mpi_world());
  else on_ranks(2, run);
}

void write_blocks(const Problem& p) {
  std::ofstream out(given["blocks"]);
  for (const int nodes : given.numbers("nodes"))
    on_ranks(nodes * processes_of(ProcessLayout::per_gpu), [&](const comm::Communicator& comm) {
      const auto A = p.matrix(comm);
      if (comm.rank() == 0) {
        out << "cuts";
        for (const Global c : A->rows().cuts()) out << ' ' << c;
        out << '\n';
      }
    });
  const auto A = p.matrix(comm::Communicator::self());
  for (const auto& b : A->own_square())
    out << b.block.row_begin << ' ' << b.block.rows() << ' ' << b.block.column_begin << ' ' << b.block.columns() << ' '
        << (b.dense ? -1 : b.rank) << '\n';
  std::printf("%s\n", given["blocks"].c_str());
}

}  // namespace

int main(int argc, char** argv) {
  given.take(argc, argv);
  const auto figures = given.numbers("figures");
  const auto wanted = [&](int figure) { return std::count(figures.begin(), figures.end(), figure) > 0; };
  if (wanted(18)) overlap();
  if (std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE")) return 0;
  if (wanted(12) || wanted(13)) copies();
  if (wanted(14)) gathers();
  if (!wanted(16) && !wanted(17) && given["blocks"].empty()) return 0;
  const Problem p;
  if (!given["blocks"].empty()) write_blocks(p);
  if (wanted(16) || wanted(17)) solves(p, wanted(16), wanted(17));
}
