// Measures how the latency of messages affects a method: under mpiexec between its ranks (a network with added latency:
// bench/latency.py); otherwise between threads, whose messages are delivered `latency` microseconds late.
//   bench_latency [n=256] [method=pipelined-gmres] [depth=] [block=] [step=] [tau=] [orthogonalisation=]
//                 [engine=polling] [restart=30] [iterations=120] [ranks=2] [latency=0] [late=all|sums] [work=0]
//                 [halo=on|off] [trace=FILE]
// 5-point Laplacian n x n, b = 1; each product sleeps for `work` microseconds more; halo=off drops the couplings
// between ranks. Prints one JSON line: microseconds of an iteration (from the second cycle on), of a product, and of a
// reduction that is waited for at once; the number of reductions.
#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>

#include "harness.hpp"
#include "model_problems.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>

using namespace tacit;

namespace {

/// Messages of `inner` (only those of reductions with `sums_only`) arrive `latency` or more after sending; ranks share
/// a clock.
class Late final : public comm::Transport {
 public:
  using Clock = std::chrono::steady_clock;
  Late(std::shared_ptr<comm::Transport> inner, std::chrono::microseconds latency, bool sums_only)
      : inner_(std::move(inner)), latency_(latency), sums_only_(sums_only) {}
  int largest_tag() const override { return inner_->largest_tag(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const char* kind() const override { return inner_->kind(); }
  comm::Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    auto& letter = fresh(bytes);
    const bool is_sum = tag % 4096 < 512;  // the channels of src/comm/state.hpp
    const Clock::rep due =
        (sums_only_ && !is_sum ? Clock::time_point() : Clock::now() + latency_).time_since_epoch().count();
    std::memcpy(letter.bytes.data(), &due, sizeof due);
    if (bytes) std::memcpy(letter.bytes.data() + sizeof due, data, bytes);
    letter.inner = inner_->send(to, tag, letter.bytes.data(), letter.bytes.size());
    return ticket();
  }
  comm::Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    auto& letter = fresh(bytes);
    letter.into = data, letter.comes_in = true;
    letter.inner = inner_->receive(from, tag, letter.bytes.data(), letter.bytes.size());
    return ticket();
  }
  bool test(comm::Ticket& t) override {
    if (!t.active) return true;
    auto& letter = letters_.at(t.words[0]);
    if (!inner_->test(letter.inner)) return false;
    if (letter.comes_in) {
      Clock::rep due;
      std::memcpy(&due, letter.bytes.data(), sizeof due);
      if (Clock::now().time_since_epoch().count() < due) return false;
      if (letter.bytes.size() > sizeof due)
        std::memcpy(letter.into, letter.bytes.data() + sizeof due, letter.bytes.size() - sizeof due);
    }
    letters_.erase(t.words[0]);
    t.active = false;
    return true;
  }
  void cancel(comm::Ticket& t, std::shared_ptr<void>) override {
    if (!t.active) return;
    auto& letter = letters_.at(t.words[0]);
    inner_->cancel(letter.inner, std::make_shared<std::vector<std::byte>>(std::move(letter.bytes)));
    letters_.erase(t.words[0]);
    t.active = false;
  }
  std::optional<Arrival> probe(int tag) override {
    auto arrival = inner_->probe(tag);
    if (arrival) arrival->bytes -= sizeof(Clock::rep);
    return arrival;
  }
  void send_notice(const comm::Notice& notice) override { inner_->send_notice(notice); }
  std::optional<comm::Notice> poll_notice() override { return inner_->poll_notice(); }
  std::shared_ptr<comm::Transport> duplicate() override {
    return std::make_shared<Late>(inner_->duplicate(), latency_, sums_only_);
  }

 private:
  struct Letter {
    std::vector<std::byte> bytes;  // the time of delivery, then the message
    void* into = nullptr;
    bool comes_in = false;
    comm::Ticket inner;
  };
  Letter& fresh(std::size_t bytes) {
    auto& letter = letters_[++last_];
    letter.bytes.resize(sizeof(Clock::rep) + bytes);
    return letter;
  }
  comm::Ticket ticket() const {
    comm::Ticket t;
    t.words[0] = last_;
    t.active = true;
    return t;
  }
  std::shared_ptr<comm::Transport> inner_;
  std::chrono::microseconds latency_;
  bool sums_only_;
  std::map<std::uintptr_t, Letter> letters_;
  std::uintptr_t last_ = 0;
};

/// A product that takes `work` longer, asleep except for a poll every 100 us: stands for the local work of a larger
/// problem without using a processor.
class Padded final : public op::Operator<double> {
 public:
  Padded(const op::Csr<double>& a, std::chrono::microseconds work)
      : op::Operator<double>(a.range(), a.domain()), a_(a), work_(work) {}
  std::string name() const override { return "padded"; }

 protected:
  int begin(const layout::Vector<double>&, layout::Vector<double>&, bool) const override { return 0; }
  void finish(const layout::Vector<double>& x, layout::Vector<double>& y, bool, int) const override {
    const auto until = std::chrono::steady_clock::now() + work_;
    auto product = a_.start(x, y);
    const Span span("padded product", "op");
    while (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(std::chrono::microseconds(100), until - std::chrono::steady_clock::now()));
      range().comm().poll();
    }
    product.wait();
  }

 private:
  const op::Csr<double>& a_;
  std::chrono::microseconds work_;
};

template <class F>
double median_us(int repeats, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const double from = wall_time();
    f();
    times.push_back((wall_time() - from) * 1e6);
  }
  return bench::median(std::move(times));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Words given({{"n", "256"},
                      {"method", "pipelined-gmres"},
                      {"iterations", "120"},
                      {"restart", "30"},
                      {"ranks", "2"},
                      {"latency", "0"},
                      {"late", "all"},
                      {"work", "0"},
                      {"halo", "on"},
                      {"engine", "polling"}},
                     {"orthogonalisation", "depth", "block", "step", "tau", "trace"});
  given.take(argc, argv);
  const auto number = [&](const char* key) { return int(given.number(key)); };
  krylov::Options options;
  options.method = tacit::value_of<krylov::Method>(given["method"]);
  options.engine = tacit::value_of<krylov::Engine>(given["engine"]);
  const int restart = number("restart");
  if (krylov::takes(options.method, "restart")) options.restart = restart;
  for (const char* name : {"orthogonalisation", "depth", "block", "step", "tau"})
    if (given.has(name)) set_from_text(krylov::options(), options, name, given[name], "a solve");
  options.rtol = 1e-300, options.fallbacks = false;

  const auto on_rank = [&](const comm::Communicator& comm) {
    const bench::Problem problem{"2d5", number("n")};
    const auto space = layout::Space::distributed(comm, problem.rows());
    op::Rows<double> rows;
    std::int64_t column[7];
    double value[7];
    for (Global r = space.begin(); r < space.end(); ++r) {
      int m = problem.row(r, column, value);
      if (given["halo"] == "off")  // without couplings between ranks: only reductions communicate
        for (int k = m - 1; k >= 0; --k)
          if (column[k] < space.begin() || column[k] >= space.end()) {
            --m;
            for (int l = k; l < m; ++l) column[l] = column[l + 1], value[l] = value[l + 1];
          }
      rows.column.insert(rows.column.end(), column, column + m);
      rows.value.insert(rows.value.end(), value, value + m);
      rows.start.push_back(Global(rows.column.size()));
    }
    const op::Csr<double> csr(space, space, std::move(rows));
    const Padded padded(csr, std::chrono::microseconds(number("work")));
    const op::Operator<double>& A = number("work") > 0 ? static_cast<const op::Operator<double>&>(padded) : csr;
    layout::Vector<double> b(space), x(space);
    layout::fill(b, 1.0);
    const double product = median_us(40, [&] { A.apply(b, x); });
    // Of several in turn: single ones take up to two latencies where one rank is ahead of the other.
    constexpr int several = 10;
    const double sum = median_us(11,
                                 [&] {
                                   for (int i = 0; i < several; ++i) {
                                     double one = 1;
                                     space.sum(&one, 1);
                                   }
                                 }) /
                       several;
    // Iterations are timed from the second cycle on, because the first one may differ (no shifts yet).
    std::vector<double> stamps;
    options.callback = nullptr;
    krylov::Options o = options;
    o.max_iterations = number("iterations");
    o.callback_stops = false;
    o.callback = [&](const krylov::State&) { return stamps.push_back(wall_time()), false; };
    layout::fill(x, 0.0);
    (void)comm.all_sum(Global(0));
    const bool traces = given.has("trace");
    if (traces && comm.rank() == 0) Trace::start();
    (void)comm.all_sum(Global(0));
    const double origin = wall_time();
    const auto report = krylov::solve<double, Host>(A, nullptr, b, x, o);
    (void)comm.all_sum(Global(0));
    if (comm.rank() != 0) return;
    if (traces) {
      Trace::stop();
      std::ofstream(given["trace"]) << to_chrome_json(Trace::take(), origin);
    }
    const std::size_t first = std::min(stamps.size() - 1, std::size_t(restart - 1));
    std::printf(
        "{\"method\":\"%s\",\"ranks\":%d,\"n\":%d,\"iterations\":%d,\"residual\":%.6e,\"reductions\":%lld,"
        "\"iteration_us\":%.1f,\"product_us\":%.1f,\"sum_us\":%.1f}\n",
        report.method.c_str(), comm.size(), number("n"), report.iterations, report.residual_norm,
        static_cast<long long>(report.counts.reductions),
        (stamps.back() - stamps[first]) * 1e6 / double(stamps.size() - 1 - first), product, sum);
  };
  try {
    if (comm::mpi_launched()) {
      on_rank(comm::mpi_world());
    } else {
      const std::chrono::microseconds latency(number("latency"));
      comm::run_threads(number("ranks"), [&](const comm::Communicator& threads) {
        on_rank(comm::Communicator(
            std::make_shared<Late>(threads.transport().duplicate(), latency, given["late"] == "sums")));
      });
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_latency: %s\n", e.what());
    return 1;
  }
}
