// GMRES and its s-step relatives on the model problems, and the kernels they spend their time in.
//   bench_gmres solve PROBLEM N ITERATIONS REPEATS [csr|stencil] [OPTION=VALUE ...]
//     options: method step restart orthogonalisation basis block_qr storage fallbacks
//   bench_gmres blocks N J S REPEATS
//     GB/s of the three passes of block Gram-Schmidt on vectors of N doubles, beside plain reading
// b = 1, x = 0; a fixed number of iterations; one JSON line.
#include <tacit/comm/communicator.hpp>
#include <tacit/exec/basis.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "model_problems.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace tacit;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int solve(int argc, char** argv) {
  const bench::Problem problem{argv[2], std::atoll(argv[3])};
  krylov::Options options;
  options.method = krylov::Method::ca_gmres;
  options.max_iterations = std::atoi(argv[4]);
  options.rtol = 1e-300;
  options.fallbacks = false;
  const int repeats = std::atoi(argv[5]);
  bool stencil = false;
  for (int i = 6; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "stencil") stencil = true;
    else if (key == "method") options.method = krylov::method_of(value);
    else if (key == "step") options.step = std::stoi(value);
    else if (key == "restart") options.restart = std::stoi(value);
    else if (key == "orthogonalisation") options.orthogonalisation = krylov::orthogonalisation_of(value);
    else if (key == "basis") options.basis = krylov::basis_of(value);
    else if (key == "block_qr") options.block_qr = krylov::block_qr_of(value);
    else if (key == "storage") options.storage = krylov::storage_of(value);
    else if (key == "fallbacks") options.fallbacks = value != "0";
    else if (key != "csr") return std::fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  const comm::Communicator comm = comm::mpi_launched() ? comm::mpi_world() : comm::Communicator::self();
  std::unique_ptr<op::Operator<double>> A;
  if (stencil) {
    if (problem.name == "cd3") return std::fprintf(stderr, "no stencil for %s here\n", argv[2]), 2;
    const int axes = problem.name == "2d5" ? 2 : 3;
    A = std::make_unique<op::Stencil<double>>(comm, op::Grid(std::vector<Global>(axes, problem.n)),
                                              op::laplacian<double>(axes));
  } else {
    const auto space = layout::Space::distributed(comm, problem.rows());
    op::Rows<double> rows;
    std::int64_t column[7];
    double value[7];
    for (Global r = space.begin(); r < space.end(); ++r) {
      const int m = problem.row(r, column, value);
      rows.column.insert(rows.column.end(), column, column + m);
      rows.value.insert(rows.value.end(), value, value + m);
      rows.start.push_back(Global(rows.column.size()));
    }
    A = std::make_unique<op::Csr<double>>(space, space, std::move(rows));
  }
  layout::Vector<double> b(A->range()), x(A->domain());
  layout::fill(b, 1.0);
  std::string seconds;
  krylov::Report report;
  for (int i = 0; i < repeats; ++i) {
    layout::fill(x, 0.0);
    (void)comm.all_sum(Global(0));
    report = krylov::solve<double, Host>(*A, nullptr, b, x, options);
    seconds += (i ? "," : "") + std::to_string(report.seconds);
  }
  if (comm.rank() != 0) return 0;
  std::string words;
  for (int i = 6; i < argc; ++i) words += (i > 6 ? " " : "") + std::string(argv[i]);
  std::printf("{\"code\":\"tacit\",\"problem\":\"%s\",\"n\":%lld,\"ranks\":%d,\"options\":\"%s\",\"method\":\"%s\",\"iterations\":%d,"
              "\"residual\":%.6e,\"recurrence_residual\":%.6e,\"products\":%lld,\"reductions\":%lld,\"seconds\":[%s]}\n",
              argv[2], static_cast<long long>(problem.n), comm.size(), words.c_str(), report.method.c_str(),
              report.iterations, report.residual_norm, report.recurrence_residual_norm,
              static_cast<long long>(report.counts.operator_applies), static_cast<long long>(report.counts.reductions),
              seconds.c_str());
  for (const auto& warning : report.warnings) std::fprintf(stderr, "%s\n", warning.c_str());
  return 0;
}

template <class S>
void blocks(const char* name, std::size_t n, int j, int s, int repeats) {
  using T = double;
  std::vector<exec::Array<T>> block;
  std::vector<exec::Array<S>> basis;
  std::vector<const S*> q;
  std::vector<T*> v;
  for (int i = 0; i < j; ++i) basis.emplace_back(n), q.push_back(basis.back().data());
  for (int c = 0; c < s; ++c) {
    block.emplace_back(n), v.push_back(block.back().data());
    for (std::size_t i = 0; i < n; ++i) v[c][i] = double((i * 7 + std::size_t(c)) % 13) - 6;
  }
  std::vector<T> G(std::size_t(j + s) * s), C(std::size_t(j) * s), W(std::size_t(s) * s);
  for (int c = 0; c < s; ++c) W[std::size_t(c) * s + c] = 1;
  const auto rate = [&](double bytes, auto&& pass) {
    std::vector<double> rates;
    for (int i = 0; i < repeats; ++i) {
      const double from = now();
      pass();
      rates.push_back(bytes * double(n) * 1e-9 / (now() - from));
    }
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
  };
  double sink = 0;
  const double read = rate(double(s) * sizeof(T), [&] {
    for (const T* p : v) {
      double sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
      for (std::size_t i = 0; i < n; ++i) sum += p[i];
      sink += sum;
    }
  });
  const double once = double(j) * sizeof(S) + double(s) * sizeof(T), twice = once + double(s) * sizeof(T);
  const double dots = rate(once, [&] { exec::block_gram<T, Host, S>(q.data(), j, v.data(), s, n, G.data()); });
  const double update = rate(twice, [&] {
    exec::block_update_stored<T, Host, S>(q.data(), j, C.data(), v.data(), s, W.data(), nullptr, n);
  });
  const double both = rate(twice, [&] {
    exec::block_update_gram<T, Host, S>(q.data(), j, C.data(), v.data(), s, W.data(), n, G.data());
  });
  std::printf("{\"storage\":\"%s\",\"n\":%zu,\"j\":%d,\"s\":%d,\"read_GB_per_s\":%.2f,\"dots\":%.2f,\"update\":%.2f,"
              "\"update_and_dots\":%.2f,\"check\":%.0f}\n",
              name, n, j, s, read, dots, update, both, sink);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 6 && std::strcmp(argv[1], "solve") == 0) return solve(argc, argv);
  if (argc == 6 && std::strcmp(argv[1], "blocks") == 0) {
    const std::size_t n = std::size_t(std::atoll(argv[2]));
    const int j = std::atoi(argv[3]), s = std::atoi(argv[4]), repeats = std::atoi(argv[5]);
    blocks<double>("full", n, j, s, repeats);
    blocks<float>("float32", n, j, s, repeats);
    blocks<exec::Bfloat16>("bfloat16", n, j, s, repeats);
    return 0;
  }
  std::fprintf(stderr, "usage: %s solve PROBLEM N ITERATIONS REPEATS [csr|stencil] [OPTION=VALUE ...] | blocks N J S REPEATS\n",
               argv[0]);
  return 2;
}
