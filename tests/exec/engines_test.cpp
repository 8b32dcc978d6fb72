// Engines: the same results for all engines and any number of ranks and threads; overlapping tasks; engines that are
// not available are refused.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/polynomial.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <numeric>

namespace tacit::test {
namespace {

using exec::set_threads;
using exec::Tasks;
using exec::Touched;
using krylov::Engine;
using krylov::Method;
using krylov::Options;

TEST(Tasks, BlocksAreWholeChunks) {
  for (const std::size_t n : {1ul, 2048ul, 16385ul, 131072ul, 1000000ul, 5000000ul, 20000001ul, 300000000ul}) {
    const std::size_t block = Tasks::block_of(n);
    EXPECT_EQ(block % 8192, 0u);
    EXPECT_LE((n + block - 1) / block, 64u) << n;
  }
}

/// Kernels on blocks that depend on each other have the result of sequential execution in program order.
TEST(Tasks, RunAsInTheOrderOfTheProgram) {
  const std::size_t n = 200000;
  for (const int team : {1, 2, 4}) {
    set_threads(team);
    std::vector<double> a(n), b(n), c(n), total;
    std::iota(a.begin(), a.end(), 1.0);
    Tasks::run(
        [&] {
          auto& tasks = *Tasks::current();
          for (int step = 0; step < 10; ++step) {
            tasks.start("b := a + 1", n, std::array{Touched::read(a.data()), Touched::write(b.data())},
                        [&](std::size_t begin, std::size_t end) {
                          for (std::size_t i = begin; i < end; ++i) b[i] = a[i] + 1;
                        });
            // A block of c reads its block of b and the neighbouring ones.
            const std::size_t block = Tasks::block_of(n), count = (n + block - 1) / block;
            for (std::size_t k = 0; k < count; ++k) {
              std::vector<const void*> reads;
              for (std::size_t l = k > 0 ? k - 1 : 0; l < std::min(k + 2, count); ++l) reads.push_back(&b[l * block]);
              const void* const writes[] = {&c[k * block]};
              tasks.start("c := b shifted", reads, writes, k == 0, [&, k, block] {
                for (std::size_t i = k * block; i < std::min(n, (k + 1) * block); ++i)
                  c[i] = (i > 0 ? b[i - 1] : 0) + (i + 1 < n ? b[i + 1] : 0);
              });
            }
            tasks.start("a := c / 2", n, std::array{Touched::read(c.data()), Touched::write(a.data())},
                        [&](std::size_t begin, std::size_t end) {
                          for (std::size_t i = begin; i < end; ++i) a[i] = c[i] / 2;
                        });
            std::atomic<int> parts = 0;
            tasks.finish("sum", n, std::array{Touched::read(a.data())}, [&](std::size_t, std::size_t) { ++parts; });
            EXPECT_EQ(parts, int(count)) << "all blocks are done when it returns";
          }
          tasks.settle();
          total = a;
        },
        nullptr);
    std::vector<double> x(n), y(n), z(n);
    std::iota(x.begin(), x.end(), 1.0);
    for (int step = 0; step < 10; ++step) {
      for (std::size_t i = 0; i < n; ++i) y[i] = x[i] + 1;
      for (std::size_t i = 0; i < n; ++i) z[i] = (i > 0 ? y[i - 1] : 0) + (i + 1 < n ? y[i + 1] : 0);
      for (std::size_t i = 0; i < n; ++i) x[i] = z[i] / 2;
    }
    EXPECT_EQ(total, x) << team;
  }
}

TEST(Tasks, ErrorsLeaveAfterTheWorkIsDone) {
  set_threads(2);
  std::vector<double> a(100000);
  EXPECT_THROW(Tasks::run(
                   [&] {
                     Tasks::current()->start("fill", a.size(), std::array{Touched::write(a.data())},
                                             [&](std::size_t begin, std::size_t end) {
                                               for (std::size_t i = begin; i < end; ++i) a[i] = 1;
                                             });
                     throw Error(ErrorKind::usage, "on purpose");
                   },
                   nullptr),
               Error);
  EXPECT_EQ(std::count(a.begin(), a.end(), 1.0), std::ptrdiff_t(a.size()));
  EXPECT_EQ(Tasks::current(), nullptr);
}

/// An exception of a task propagates out of the call that waits for it, or out of the run, and engines work afterwards.
TEST(Tasks, RethrowTheErrorOfATask) {
  for (const int team : {1, 2, 4}) {
    set_threads(team);
    std::vector<double> a(200000);
    const auto touched = std::array{Touched::write(a.data())};
    const std::size_t blocks = (a.size() + Tasks::block_of(a.size()) - 1) / Tasks::block_of(a.size());
    enum { started, finished, each, of_addresses, polled };
    for (const int how : {started, finished, each, of_addresses, polled}) {
      bool came_back = false, caught = false;
      std::atomic<int> begun = 0;
      const auto body = [&](std::size_t begin, std::size_t) {
        ++begun;
        if (begin > 0) throw std::bad_alloc();
      };
      const auto poll = how == polled ? std::function<void()>([] { throw std::bad_alloc(); }) : nullptr;
      EXPECT_THROW(Tasks::run(
                       [&] {
                         auto& tasks = *Tasks::current();
                         try {
                           if (how == started) tasks.start("start", a.size(), touched, body);
                           if (how == finished) tasks.finish("finish", a.size(), touched, body);
                           if (how == each) tasks.each(1000, [&](std::size_t i) { body(i, i + 1); });
                           if (how == of_addresses) {
                             const void* const writes[] = {a.data()};
                             tasks.start("one", {}, writes, false, [] { throw std::bad_alloc(); });
                             tasks.wait_for(writes);
                           }
                           // Only a call that has to wait polls: repeated until the poll has thrown.
                           for (const double until = wall_time() + 20; how == polled && wall_time() < until;)
                             tasks.finish("polled", a.size(), touched, [](auto...) {});
                           came_back = true;
                         } catch (const std::bad_alloc&) {
                           caught = true;
                           // While an exception propagates, no task begins and no second exception is thrown.
                           tasks.start("after", a.size(), touched, [&](auto...) { ADD_FAILURE() << "nothing begins"; });
                           throw;
                         }
                       },
                       poll),
                   std::bad_alloc)
          << how << " " << team;
      EXPECT_TRUE(how == started || caught) << how << " " << team;
      EXPECT_EQ(came_back, !caught);
      EXPECT_EQ(Tasks::current(), nullptr);
      begun = 0;
      Tasks::run(
          [&] { Tasks::current()->finish("again", a.size(), touched, [&](std::size_t, std::size_t) { ++begun; }); },
          nullptr);
      EXPECT_EQ(begun, int(blocks)) << "engines work on";
    }
  }
  set_threads(1);
}

struct Case {
  std::string name;
  bool positive;
  std::function<void(Options&)> choose;
};
std::vector<Case> cases() {
  using O = krylov::Orthogonalisation;
  return {
      {"gmres", false, [](Options& o) { o.method = Method::gmres; }},
      {"gmres mgs", false, [](Options& o) { o.method = Method::gmres, o.orthogonalisation = O::mgs; }},
      {"pipelined-gmres(1)", false, [](Options& o) { o.method = Method::pipelined_gmres, o.depth = 1; }},
      {"pipelined-gmres(3)", false, [](Options& o) { o.method = Method::pipelined_gmres, o.depth = 3; }},
      {"pipelined-ca-gmres(2, 4)", false,
       [](Options& o) { o.method = Method::pipelined_ca_gmres, o.depth = 2, o.block = 4; }},
      {"ca-gmres", false, [](Options& o) { o.method = Method::ca_gmres, o.step = 4; }},
      {"ca-gmres in float", false,
       [](Options& o) { o.method = Method::ca_gmres, o.step = 4, o.storage = krylov::Storage::float32; }},
      {"ca-gmres tsqr", false,
       [](Options& o) {
         o.method = Method::ca_gmres, o.step = 4, o.orthogonalisation = O::bcgs2, o.block_qr = krylov::BlockQr::tsqr;
       }},
      {"cg", true, [](Options& o) { o.method = Method::cg; }},
      {"pipelined-cg", true, [](Options& o) { o.method = Method::pipelined_cg, o.replacement = 5; }},
      {"pipelined-cg(3)", true, [](Options& o) { o.method = Method::pipelined_cg, o.depth = 3; }},
      {"bicgstab", false, [](Options& o) { o.method = Method::bicgstab; }},
      {"pipelined-bicgstab", false, [](Options& o) { o.method = Method::pipelined_bicgstab; }},
      {"idr", false, [](Options& o) { o.method = Method::idr; }},
      {"ca-cg", true, [](Options& o) { o.method = Method::ca_cg; }},
      {"ca-bicgstab", false, [](Options& o) { o.method = Method::ca_bicgstab; }},
      {"richardson", true, [](Options& o) { o.method = Method::richardson, o.relaxation = 1 / 6.0; }},
      {"chebyshev", true, [](Options& o) { o.method = Method::chebyshev, o.lambda_min = 1.9, o.lambda_max = 10.1; }},
  };
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// A grid with a few couplings to distant unknowns.
template <Scalar T>
Whole<T> far_grid(Global nx, Global ny) {
  auto a = shifted_grid<T>(nx, ny, 0.3);
  Whole<T> b;
  b.n = a.n;
  for (Global i = 0; i < a.n; ++i) {
    const Global far = (i * 7919 + 13) % a.n;
    bool put = i % 50 != 0;
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      if (!put && a.column[k] >= far) {
        if (a.column[k] > far) b.push(far, T(0.01));
        put = true;
      }
      b.push(a.column[k], a.value[k]);
    }
    if (!put) b.push(far, T(0.01));
    b.end_row();
  }
  return b;
}

template <Scalar T>
void same_numbers(std::initializer_list<int> ranks, std::initializer_list<int> teams, const Whole<T>& a, bool positive,
                  int iterations, bool all = true) {
  const auto b = random_vector<T>(a.n, 3);
  on_ranks(
      [&](const comm::Communicator& comm) {
        set_threads(1);
        const auto A = a.on(comm);
        const precond::Jacobi<T> jacobi(*A);
        const precond::Polynomial<T> polynomial(*A, {.degree = 2, .lambda_min = 0.1, .lambda_max = 1.9});
        const Custom<T> hidden(A->range(), [&](const auto& x, auto& y) {  // uses elements behind the engine
          jacobi.apply(x, y);
          exec::settle();
          for (std::size_t i = 0; i < y.size(); ++i) y.data()[i] *= real_t<T>(0.5);
        });
        for (const auto& c : cases()) {
          if (c.positive && !positive) continue;
          for (const op::Operator<T, Host>* P :
               {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi,
                (const op::Operator<T, Host>*)&polynomial, (const op::Operator<T, Host>*)&hidden}) {
            Options o;
            c.choose(o);
            o.rtol = 0, o.max_iterations = iterations, o.fallbacks = false;
            if (krylov::takes(o.method, "restart")) o.restart = 12;
            // All combinations take too long: preconditioners on one rank only.
            if (P && (o.lambda_min || comm.size() > 1 || (!all && P != &hidden))) continue;
            const auto plain = run(*A, b, o, P);
            o.engine = Engine::tasks;
            for (const int team : teams) {
              set_threads(team);
              const auto s = run(*A, b, o, P);
              const std::string what = c.name + (P ? " with " + P->name() : "") + ", " + std::to_string(comm.size()) +
                                       " ranks, " + std::to_string(team) + " threads";
              EXPECT_TRUE(same_bits(s.x, plain.x)) << what << " " << relative_difference(s.x, plain.x);
              EXPECT_TRUE(same_bits(s.report.history, plain.report.history)) << what;
              EXPECT_EQ(s.report.iterations, plain.report.iterations) << what;
              EXPECT_EQ(s.report.counts.reductions, plain.report.counts.reductions) << what;
              EXPECT_EQ(s.report.counts.messages, plain.report.counts.messages) << what;
              EXPECT_EQ(s.report.counts.operator_applies, plain.report.counts.operator_applies) << what;
              const bool told = !s.report.warnings.empty() &&
                                s.report.warnings[0].find("in the order of the program") != std::string::npos;
              EXPECT_EQ(told, P == &hidden) << what;
            }
            set_threads(1);
          }
        }
      },
      ranks);
}

TEST(Engines, SameNumbersReal) {
  same_numbers<double>({2}, {2}, shifted_grid<double>(200, 190), true, 15);
}
TEST(Engines, SameNumbersOnTeams) {
  same_numbers<double>({4}, {1, 3, 4}, shifted_grid<double>(170, 160), true, 8, false);
}
TEST(Engines, SameNumbersComplex) {
  same_numbers<test::ComplexScalar>({2}, {2}, shifted_grid<test::ComplexScalar>(150, 140), true, 10);
}
TEST(Engines, SameNumbersFloat) {
  same_numbers<float>({2}, {2}, shifted_grid<float>(200, 190), true, 8, false);
}
TEST(Engines, SameNumbersForDistantBlocks) {
  same_numbers<double>({3}, {2}, far_grid<double>(200, 190), false, 8, false);
}

TEST(Engines, OtherFormatsAndBalancedScales) {
  set_threads(2);
  const auto a = far_grid<double>(150, 140);
  const auto b = random_vector<double>(a.n, 3);
  on_ranks(
      [&](const comm::Communicator& comm) {
        set_threads(2);
        for (const auto format : {op::Format::csr, op::Format::sell, op::Format::bsr})
          for (const int e : {0, 400}) {
            const auto scaled = a.map([&](Global, Global, double v) { return std::ldexp(v, e); });
            const auto space = layout::Space::distributed(comm, a.n);
            const op::Csr<double> A(space, space, scaled.rows(space.begin(), space.end()), format);
            Options o;
            o.method = Method::pipelined_gmres, o.max_iterations = 20, o.rtol = 0;
            const auto plain = run(A, b, o);
            o.engine = Engine::tasks;
            EXPECT_TRUE(same_bits(run(A, b, o).x, plain.x)) << e;
          }
      },
      {2});
}

TEST(Engines, SameNumbersInBlocks) {
  // Three unknowns on each grid point: the blocks of tasks end within blocks of the matrix.
  const auto points = shifted_grid<double>(140, 130);
  Whole<double> a;
  a.n = 3 * points.n;
  for (Global r = 0; r < a.n; ++r) {
    for (Global k = points.start[r / 3]; k < points.start[r / 3 + 1]; ++k)
      for (Global j = 0; j < 3; ++j)
        a.push(3 * points.column[k] + j, points.value[k] * (j == r % 3 ? 1 : 0.01 * double(1 + j + r % 3)));
    a.end_row();
  }
  EXPECT_EQ(a.on(comm::Communicator::self())->storage().substr(0, 5), "bsr-3");
  same_numbers<double>({2}, {1, 3}, a, true, 8, false);
}

TEST(Engines, CallbacksSeeTheSolution) {
  set_threads(2);
  const auto a = shifted_grid<double>(200, 190);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 3);
  for (const auto& c : cases()) {
    std::vector<std::vector<double>> seen[2];
    for (const bool tasks : {false, true}) {
      Options o;
      c.choose(o);
      o.rtol = 0, o.max_iterations = 9, o.engine = tasks ? Engine::tasks : Engine::polling;
      o.callback = [&](const krylov::State& s) {
        auto& x = seen[tasks].emplace_back(a.n);
        s.solution(x.data());
        return false;
      };
      run(*A, b, o);
    }
    EXPECT_EQ(seen[0], seen[1]) << c.name;
  }
}

TEST(Engines, ErrorsOfOneRankReachAll) {
  if (under_mpi()) GTEST_SKIP();
  const auto a = shifted_grid<double>(150, 140);
  const auto b = random_vector<double>(a.n, 3);
  std::atomic<int> caught = 0;
  comm::run_threads(2, [&](const comm::Communicator& comm) {
    set_threads(2);
    const auto A = a.on(comm);
    Options o;
    o.method = Method::pipelined_gmres, o.rtol = 0, o.max_iterations = 30, o.engine = Engine::tasks;
    o.callback = [&](const krylov::State& s) {
      if (s.iteration == 7 && comm.rank() == 1) throw Error(ErrorKind::usage, "on purpose");
      return false;
    };
    try {
      run(*A, b, o);
    } catch (const Error& e) {
      if (std::string(e.what()).find("on purpose") != std::string::npos) ++caught;
    }
    o.callback = nullptr;
    EXPECT_EQ(run(*A, b, o).report.iterations, 30) << "the communicator works on";
  });
  EXPECT_EQ(caught, 2);
}

/// Threads of one rank throw in a product: with every engine all ranks throw the same error, and the communicator works
/// afterwards.
TEST(Engines, ErrorsOfThreadsReachAllRanks) {
  if (under_mpi()) GTEST_SKIP();
  const auto a = shifted_grid<double>(150, 140);
  const auto b = random_vector<double>(a.n, 3);
  for (const Engine engine : {Engine::polling, Engine::thread, Engine::tasks})
    for (const int team : {1, 2, 4}) {
      std::atomic<int> caught = 0;
      comm::run_threads(2, [&](const comm::Communicator& comm) {
        set_threads(team);
        const auto A = a.on(comm);
        int product = 0;
        bool breaks = true;
        const Custom<double> broken(A->range(), [&](const auto& x, auto& y) {
          exec::each(64, true, [&, fails = breaks && comm.rank() == 1 && ++product == 5](std::size_t i) {
            if (fails && i % 8 == 7) throw std::bad_alloc();
          });
          A->apply(x, y);
        });
        Options o;
        o.method = Method::pipelined_gmres, o.rtol = 0, o.max_iterations = 20, o.engine = engine;
        try {
          run(broken, b, o);
        } catch (const Error& e) {
          if (std::string(e.what()).starts_with("rank 1: out of memory")) ++caught;
          else ADD_FAILURE() << e.what();
        }
        breaks = false;
        EXPECT_EQ(run(broken, b, o).report.iterations, 20) << "the communicator works on";
      });
      EXPECT_EQ(caught, 2) << int(engine) << " " << team;
    }
  set_threads(1);
}

TEST(Engines, UnavailableEnginesAreRefused) {
  const auto a = shifted_grid<double>(5, 4);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 3);
  EXPECT_THROW(tacit::value_of<krylov::Engine>("task"), Error);
  Options o;
  o.engine = Engine::tasks;
  EXPECT_TRUE(run(*A, b, o).report.converged()) << "with OpenMP and without";
}

/// Tasks of a kernel begin while tasks of the previous kernel still run.
TEST(Engines, KernelsOverlap) {
  if (under_mpi()) GTEST_SKIP();
  set_threads(2);
  const auto a = shifted_grid<double>(400, 400);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 3);
  Options o;
  o.method = Method::pipelined_gmres, o.depth = 2, o.rtol = 0, o.max_iterations = 60, o.engine = Engine::tasks;
  Trace::start();
  run(*A, b, o);
  Trace::stop();
  int tasks = 0, interleaved = 0, on_others = 0, caller = -1;
  const char* before = "";
  auto events = Trace::take();
  for (const auto& e : events)
    if (std::string(e.name) == "csr product") caller = e.thread;
  std::erase_if(events, [](const auto& e) { return std::string(e.category) != "task"; });
  std::sort(events.begin(), events.end(), [](const auto& x, const auto& y) { return x.begin < y.begin; });
  for (const auto& e : events) {
    ++tasks;
    on_others += e.thread != caller;
    interleaved += std::strcmp(e.name, before) != 0;
    before = e.name;
  }
  // Executed in program order, the kernel would change about five times per iteration.
  EXPECT_GT(tasks, 60 * 5 * 3);
  EXPECT_GT(interleaved, 2 * 60 * 5) << "of " << tasks;
  if (std::getenv("TACIT_TEST_SHOW"))
    std::printf("%d tasks, %d on other threads, %d changes of kernel\n", tasks, on_others, interleaved);
}

}  // namespace
}  // namespace tacit::test
