// The traffic of a device's memory, as the runtime of tests/cuda_on_host sees kernels touch it (each page once for each
// kernel), beside the bytes of the formulas in docs/theory: matrices without padding, x, y, and the vectors of the
// recurrences. With TACIT_TEST_SHOW the table of docs/notes/device.md is printed.
#include "support/memory.hpp"
#include "support/methods.hpp"

#include <tacit/exec/gpus.hpp>
#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using krylov::Options;
using T = double;

constexpr double bound = 1.15;
const bool show = std::getenv("TACIT_TEST_SHOW") != nullptr;
const Global nx = 128, ny = show ? 64 : 32;  // a vector is 16 pages, or 8
const double n = double(nx * ny), vector_bytes = n * sizeof(T);

class Traffic : public testing::Test {
 protected:
  void SetUp() override {
    exec::keep_device_memory(true);
    cuda_on_host::watch_traffic(true);
  }
  void TearDown() override {
    cuda_on_host::watch_traffic(false);
    exec::keep_device_memory(false);
  }
};

struct Spent {
  double bytes, launches;
};
/// What `work` takes, with all that it has queued.
template <class F>
Spent spent_by(const F& work) {
  exec::wait_for_gpu();
  const auto before = cuda_on_host::counts();
  work();
  exec::wait_for_gpu();
  const auto after = cuda_on_host::counts();
  return {double(after.bytes_read + after.bytes_written - before.bytes_read - before.bytes_written),
          double(after.launches - before.launches)};
}

/// A matrix in device memory that has `entries` and a narrow band: values, 16-bit columns, and the offsets of rows
/// (CSR) or of slices (SELL).
double matrix_bytes(double entries, bool sell) {
  return entries * double(sizeof(T) + sizeof(std::int16_t)) + (sell ? n / 32 : n) * double(sizeof(Global));
}

TEST_F(Traffic, OfProducts) {
  const auto a = grid<T>(nx, ny, 0.3);
  const auto space = layout::Space::distributed(comm::Communicator::self(), a.n);
  for (const auto format : {op::Format::csr, op::Format::sell})
    for (const int columns : {1, 2}) {
      const op::Csr<T, Device> A(space, space, a.rows(0, a.n), format);
      layout::Vector<T, Device> x(space, columns), y(space, columns);
      const double both = 2 * columns * vector_bytes,
                   formula = matrix_bytes(double(a.value.size()), format == op::Format::sell) + both;
      const std::string what = A.storage() + ", " + std::to_string(columns) + (columns == 1 ? " column" : " columns");
      const auto within = [&](const char* name, const Spent& s, double bytes) {
        EXPECT_LE(s.bytes, bound * bytes) << what << ", " << name;
        EXPECT_GE(s.bytes, bytes) << what << ", " << name;
        EXPECT_EQ(s.launches, 1) << what << ", " << name;
        if (show) std::printf("| %s of %s | %.0f | %.3f |\n", name, what.c_str(), s.launches, s.bytes / bytes);
      };
      A.apply_adjoint(x, y);  // makes the transpose
      within("product", spent_by([&] { A.apply(x, y); }), formula);
      within("adjoint product", spent_by([&] { A.apply_adjoint(x, y); }), formula);
    }
}

enum Precond { none, diagonal, sparse };
constexpr const char* names[] = {"none", "jacobi", "fsai"};

/// An iteration of a method by its formula: passes over A and P with `columns` columns, and vectors read or written
/// beside them. Where the method makes P r of a diagonal P itself, its pass is among the vectors.
struct Formula {
  std::string name;
  std::function<void(Options&)> choose;
  int few, many;  // the iterations few + 1, .., many are whole cycles, or blocks
  double products, applies[3], vectors[3];
  int columns = 1;
};

std::vector<Formula> formulas() {
  using krylov::Method;
  using O = krylov::Orthogonalisation;
  std::vector<Formula> all;
  const auto take = [](Method method) { return [=](Options& o) { o.method = method; }; };
  all.push_back({"cg", take(Method::cg), 6, 16, 1, {0, 0, 1}, {10, 12, 12}});
  all.push_back({"minres", take(Method::minres), 6, 16, 1, {0, 1, 1}, {11, 16, 16}});
  all.push_back({"bicgstab", take(Method::bicgstab), 6, 16, 2, {0, 2, 2}, {18, 19, 19}});
  for (const int s : {1, 4}) {
    const double plain = (3. * s * s + 16 * s + 4) / (s + 1), with_P = (3. * s * s + 18 * s + 5) / (s + 1);
    const auto choose = [s](Options& o) { o.method = Method::idr, o.shadow_dimension = s; };
    all.push_back({"idr " + std::to_string(s), choose, 10, 20, 1, {0, 1, 1}, {plain, with_P, with_P}});
  }
  all.push_back({"chebyshev",
                 [](Options& o) { o.method = Method::chebyshev, o.lambda_min = 0.4, o.lambda_max = 8.1; },
                 6,
                 16,
                 1,
                 {0, 0, 1},
                 {8, 9, 8}});
  all.push_back({"richardson",
                 [](Options& o) { o.method = Method::richardson, o.relaxation = 0.2; },
                 6,
                 16,
                 1,
                 {0, 0, 1},
                 {4, 5, 6}});
  all.push_back({"pipelined-cg", take(Method::pipelined_cg), 6, 16, 1, {0, 0, 1}, {13, 15, 18}});
  all.push_back({"pipelined-cg 3",
                 [](Options& o) { o.method = Method::pipelined_cg, o.depth = 3; },
                 6,
                 16,
                 1,
                 {0, 1, 1},
                 {28, 44, 44}});
  all.push_back({"pipelined-bicgstab", take(Method::pipelined_bicgstab), 6, 16, 2, {0, 2, 2}, {22, 22, 22}});

  // Cycles: the vectors of each by f, then q_0 of r, x, and the driver's part: d of x, its norm, r and its norm.
  const auto cycle = [&](const std::string& name, auto choose, int m, const auto& f, bool flexible = false) {
    double sum = 2 + 2 + 9;
    for (int j = 1; j <= m; ++j) sum += f(j);
    // With P on the right x is made of P times a combination; fgmres has kept P times the vectors.
    const double products = (m + 1.) / m, applies = flexible ? 1 : products, with_P = (sum + (flexible ? 0 : 4)) / m;
    all.push_back({name,
                   [=](Options& o) { choose(o), o.restart = m; },
                   m,
                   2 * m,
                   products,
                   {0, applies, applies},
                   {sum / m, with_P, with_P}});
  };
  const auto gmres = [](O how) { return [=](Options& o) { o.method = Method::gmres, o.orthogonalisation = how; }; };
  cycle("gmres one-reduction", gmres(O::one_reduction), 10, [](int j) { return 2 * j + 4; });
  cycle("gmres cgs", gmres(O::cgs), 10, [](int j) { return 2 * j + 6; });
  cycle("gmres cgs2", gmres(O::cgs2), 10, [](int j) { return 4 * j + 9; });
  cycle("gmres mgs", gmres(O::mgs), 10, [](int j) { return 4 * j + 4; });
  cycle(
      "fgmres", take(Method::fgmres), 10, [](int j) { return 2 * j + 4; }, true);
  const auto block_of = [](int j, int s) { return (j - 1) / s * s + 1; };  // the first vector of j's block
  cycle("ca-gmres", take(Method::ca_gmres), 20, [&](int j) { return 2. * block_of(j, 10) / 10 + 3 + 1 + 3; });
  // Blocks of t: the recurrence that makes v_j, for all of a block its dots and its update, of which v_m has none.
  const auto pipelined = [&](int m, int t, int ahead) {
    return [=](int j) {
      const int L = (ahead + 1) * t - 1, first = block_of(j, t), last = first + t - 1;
      const double recurrence = j - 1 < L ? 3 : j - 1 - L + 3;
      return recurrence + (last + 1.) / t + (j < m ? double(first) / t + 2 : 0) + 1;
    };
  };
  cycle("pipelined-gmres 2", take(Method::pipelined_gmres), 10, pipelined(10, 1, 2));
  cycle("pipelined-ca-gmres", take(Method::pipelined_ca_gmres), 20, pipelined(20, 5, 1));

  // Blocks of s iterations on pairs of vectors.
  const double s = 8, t = 4;
  all.push_back({"ca-cg 8",
                 [](Options& o) { o.method = Method::ca_cg, o.step = 8; },
                 15,
                 31,
                 1,
                 {0, 1, 1},
                 {(12 * s + 6) / s, (18 * s + 14) / s, (18 * s + 14) / s},
                 2});
  all.push_back({"ca-bicgstab 4",
                 [](Options& o) { o.method = Method::ca_bicgstab, o.step = 4; },
                 7,
                 15,
                 2,
                 {0, 2 + 0.5 / t, 2 + 0.5 / t},
                 {(24 * t + 7) / t, (28 * t + 13) / t, (28 * t + 13) / t},
                 2});
  return all;
}

/// Iterations few + 1, .., many of a solve that does not converge before.
Spent per_iteration(const op::Operator<T, Device>& A, const op::Operator<T, Device>* P, const std::vector<T>& b,
                    Options o, int few, int many) {
  o.rtol = 0, o.history = false, o.explain = false, o.fallbacks = false;
  if (krylov::takes(o.method, "replacement")) o.replacement = 0;
  const auto rhs = spread<T, Device>(A.range(), b);
  const auto solve = [&](int iterations) {
    o.max_iterations = iterations;
    layout::Vector<T, Device> x(A.domain());
    return spent_by([&] {
      const auto report = krylov::solve<T, Device>(A, P, rhs, x, o);
      EXPECT_EQ(report.iterations, iterations) << report.detail;
    });
  };
  const Spent less = solve(few), more = solve(many);
  return {(more.bytes - less.bytes) / (many - few), (more.launches - less.launches) / (many - few)};
}

TEST_F(Traffic, OfIterations) {
  const auto a = grid<T>(nx, ny);
  const auto b = random_vector<T>(a.n, 4);
  const auto A = a.on<Device>(comm::Communicator::self());
  ASSERT_EQ(A->storage(), "sell-32 (16-bit offsets) on the device");
  const double entries = double(a.value.size()), own = matrix_bytes(entries, true),
               factors = 2 * matrix_bytes((entries + n) / 2, true) + 2 * vector_bytes;  // G, G^H, what is between them
  if (show) std::printf("| method | P | launches | bytes | of these by formula | ratio |\n|---|---|---|---|---|---|\n");
  for (const Precond p : {none, diagonal, sparse}) {
    if (p == sparse && !show) continue;  // what P does is the same for all methods
    const auto P = p == none ? nullptr : precond::make<T, Device>(names[p], *A);
    for (const Formula& f : formulas()) {
      if (p == diagonal && f.applies[p] > 0 && !show) continue;
      Options o;
      f.choose(o);
      if (p != none && o.lambda_min) o.lambda_min = *o.lambda_min / 4, o.lambda_max = *o.lambda_max / 4;
      SCOPED_TRACE(f.name + ", P: " + names[p]);
      const Spent s = per_iteration(*A, P.get(), b, o, f.few, f.many);
      const double pair = 2 * f.columns * vector_bytes,
                   of_P = p == sparse ? factors + pair + (f.columns - 1) * 2 * vector_bytes
                                      : (3 * f.columns) * vector_bytes,
                   formula = f.products * (own + pair) + f.applies[p] * of_P + f.vectors[p] * vector_bytes;
      EXPECT_LE(s.bytes, bound * formula);
      EXPECT_GE(s.bytes, 0.95 * formula);  // the shorter solve may have done more at its end
      if (show)
        std::printf("| %s | %s | %.2f | %.0f | %.0f | %.3f |\n", f.name.c_str(), names[p], s.launches, s.bytes, formula,
                    s.bytes / formula);
    }
  }
}

}  // namespace
}  // namespace tacit::test
