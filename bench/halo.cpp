// bench_halo [stride=2] [seconds=0.2] [PATH...]: compares one halo exchange between neighbours by different paths, in
// alternating rounds, under mpiexec.
//
// Every rank exchanges with its partner (rank xor 1) 8, 32, 128 and 512 KB of doubles, every stride-th element of its
// vector. Timed: rewriting the vector, packing (by the exchange), the exchange, and adding up the received values,
// which checks them. Printed for each path and size: the least time of many rounds, maximum over the ranks, in
// microseconds. The first row is rewriting and packing alone. Without PATH: messages, persistent, neighbour, put,
// shared, gather.
#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace tacit;
using comm::Path;

int main(int count, char** words) try {
  Global stride = 2;
  double seconds = 0.2;
  std::vector<Path> paths;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.starts_with("stride=")) stride = std::atoi(word.c_str() + 7);
    else if (word.starts_with("seconds=")) seconds = std::atof(word.c_str() + 8);
    else paths.push_back(comm::path_of(word));
  }
  if (paths.empty()) paths = {Path::messages, Path::persistent, Path::neighbour, Path::put, Path::shared, Path::gather};
  const auto comm = comm::mpi_world();
  const bool first = comm.rank() == 0;
  const int partner = comm.rank() ^ 1;
  if (first) std::printf("%-12s", "us");
  const std::vector<Global> sizes{1024, 4096, 16384, 65536};
  for (Global n : sizes) first&& std::printf(" %9lld KB", (long long)(n * 8 / 1024));
  if (first) std::printf("\n");
  std::vector<std::vector<double>> least(paths.size() + 1, std::vector<double>(sizes.size(), 1e9));
  comm::collective(comm, [&] {
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      const Global n = sizes[s], length = n * stride;
      const auto partition = layout::Partition::blocks(length * comm.size(), comm.size());
      std::vector<Global> needed;
      if (partner < comm.size())
        for (Global i = 0; i < n; ++i) needed.push_back(partition.begin(partner) + i * stride);
      const auto pattern =
          std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, partition.offsets(), needed));
      std::vector<std::unique_ptr<comm::Exchange>> exchanges;
      for (const Path path : paths) exchanges.push_back(std::make_unique<comm::Exchange>(comm, pattern, 8, path));
      std::vector<double> x(static_cast<std::size_t>(length));
      double round = 0;
      const auto once = [&](comm::Exchange* e, double* packed) {
        const double from = wall_time();
        ++round;
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = round;
        const int number = e ? e->open() : -1;
        const auto& index = pattern->send_index;
        for (std::size_t i = 0; !e && i < index.size(); ++i) packed[i] = x[std::size_t(index[i])];
        if (e) {
          e->post(number, x.data());
          e->wait(number);
          const auto* in = reinterpret_cast<const double*>(e->incoming(number));
          double sum[4] = {};
          for (std::size_t i = 0; i + 3 < pattern->ghosts.size(); i += 4)
            for (std::size_t l = 0; l < 4; ++l) sum[l] += in[i + l];
          if (sum[0] + sum[1] + sum[2] + sum[3] != round * double(pattern->ghosts.size()))
            throw Error(ErrorKind::environment, "an exchange brought something else");
          e->close(number);
        }
        return wall_time() - from;
      };
      std::vector<double> packed(pattern->send_index.size());
      double begin = wall_time();
      for (bool go = true; go;) {
        for (std::size_t p = 0; p <= exchanges.size(); ++p) {
          auto* const e = p ? exchanges[p - 1].get() : nullptr;
          double time = 1e9;
          // After a synchronisation, several exchanges in a row.
          for (int i = 0; i < 20; ++i) {
            const double t = once(e, packed.data());
            if (i > 2) time = std::min(time, t);
          }
          least[p][s] = std::min(least[p][s], comm.all_max(time));
          round = double(comm.all_max(Global(round)));
        }
        go = comm.all_max(wall_time() - begin) < seconds;
      }
    }
  });
  for (std::size_t p = 0; first && p < least.size(); ++p) {
    std::printf("%-12s", p ? to_string(paths[p - 1]) : "pack alone");
    for (double t : least[p]) std::printf(" %12.2f", 1e6 * t);
    std::printf("\n");
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_halo: %s\n", e.what());
  return 1;
}
