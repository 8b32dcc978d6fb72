#include "scheduled.hpp"

#include <tacit/base/trace.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

namespace tacit::op {
namespace {

void share(const Pieces::Run& run, std::size_t units, int part, int parts) {
  const std::size_t from = units * std::size_t(part) / std::size_t(parts),
                    to = units * std::size_t(part + 1) / std::size_t(parts);
  if (from < to) run(from, to);
}

void split(int remote_threads, comm::Exchange& exchange, int number, const Pieces& p) {
  const int threads = exec::team_size(), waiting = std::min(remote_threads, threads - 1);
  std::atomic<int> state{0};  // 1: all ghosts have arrived; 2: an error occurred
  exec::run_team([&](int thread) {
    try {
      if (waiting == 0 || thread >= waiting) {
        share(p.run_interior, p.interior, thread - waiting, threads - waiting);
        if (waiting > 0) return;
      }
      if (thread == 0) {
        exchange.wait(number);
        state.store(1, std::memory_order_release);
      }
    } catch (...) {
      if (thread == 0) state.store(2, std::memory_order_release);
      throw;
    }
    while (state.load(std::memory_order_acquire) == 0) std::this_thread::yield();
    if (state.load(std::memory_order_acquire) == 2) return;
    for (const auto& remote : p.remote) share(remote.run, remote.units, thread, std::max(waiting, 1));
  });
}

void jobs(int job_rows, comm::Exchange& exchange, int number, const Pieces& p) {
  // Few jobs have less overhead; many balance the load better.
  const double rows = double(p.interior) * p.rows_of_unit;
  const double wanted = job_rows > 0 ? job_rows : std::clamp(rows / (16.0 * exec::team_size()), 512.0, 16384.0);
  exec::Jobs list;
  const auto add = [&](std::size_t units, double rows_of_unit, bool open, const Pieces::Run& run) {
    const std::size_t size = std::max<std::size_t>(1, std::size_t(std::lround(wanted / std::max(rows_of_unit, 1e-9))));
    return list.add((units + size - 1) / size, open,
                    [&run, size, units](std::size_t i) { run(i * size, std::min(units, (i + 1) * size)); });
  };
  add(p.interior, p.rows_of_unit, true, p.run_interior);
  std::vector<int> numbers;
  std::vector<std::size_t> missing;
  for (const auto& remote : p.remote) {
    numbers.push_back(add(remote.units, p.rows_of_remote, remote.needs.empty(), remote.run));
    missing.push_back(remote.needs.size());
  }
  std::size_t to_come = exchange.pattern().receive_ranks.size();
  exec::run_jobs(list, [&](bool idle) {
    exchange.comm().poll();
    while (to_come > 0) {
      const int arrived = idle ? exchange.wait_any(number) : exchange.test_any(number);
      if (arrived < 0) break;
      --to_come;
      idle = false;
      for (std::size_t r = 0; r < p.remote.size(); ++r) {
        const auto& needs = p.remote[r].needs;
        if (std::find(needs.begin(), needs.end(), arrived) != needs.end() && --missing[r] == 0) list.open(numbers[r]);
      }
    }
  });
  exchange.wait(number);  // neighbours whose ghosts no row reads
}

}  // namespace

void run_scheduled(const Schedule& schedule, comm::Exchange& exchange, int number, const Pieces& pieces) {
  require(exchange.comm().has_threads(), "the schedule \"", to_string(schedule.how),
          "\" shares a product among threads, which ", exchange.comm().kind(),
          " ranks do not have; use overlapped or synchronous");
  if (schedule.how == Schedule::How::split) split(schedule.remote_threads, exchange, number, pieces);
  else jobs(schedule.job_rows, exchange, number, pieces);
  if (pieces.finishing > 4096) {
    const int threads = exec::team_size();
    exec::run_team([&](int thread) { share(pieces.finish, pieces.finishing, thread, threads); });
  } else if (pieces.finishing > 0) {
    pieces.finish(0, pieces.finishing);
  }
}

Tuner::Clock::Clock(Tuner* tuner, const Schedule& asked, std::ptrdiff_t rows)
    : schedule_(asked), runs_(tuner != nullptr) {
  // Smaller products take microseconds, too short to be measured.
  constexpr std::ptrdiff_t least = 20000;
  if (!tuner || asked.how != Schedule::How::automatic) return;
  schedule_.how = Schedule::How::overlapped;
  if (rows < least) return;
  schedule_ = tuner->next(exec::team_size());
  if (tuner->decided()) return;
  tuner_ = tuner;
  uncaught_ = std::uncaught_exceptions();
  began_ = wall_time();
}

Tuner::Clock::~Clock() {
  if (tuner_ && std::uncaught_exceptions() == uncaught_) tuner_->took(wall_time() - began_);
}

namespace {
// The mean of the faster half, which other load of the machine affects least.
double typical(std::vector<double> seconds) {
  const auto half = seconds.begin() + std::ptrdiff_t((seconds.size() + 1) / 2);
  std::nth_element(seconds.begin(), half - 1, seconds.end());
  return std::accumulate(seconds.begin(), half, 0.0) / double(half - seconds.begin());
}
// The mean of the middle half.
double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto quarter = std::ptrdiff_t(values.size() / 4);
  const auto first = values.begin() + quarter, last = values.end() - quarter;
  return std::accumulate(first, last, 0.0) / double(last - first);
}
// The relative difference of the times of two schedules, compared pass by pass (so that changes between passes cancel),
// and its uncertainty: twice the standard error, from the deviations of the middle half.
struct Difference {
  double size, doubt;
};
Difference difference(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> each;
  for (std::size_t i = 0; i < one.size(); ++i) each.push_back(one[i] / other[i] - 1);
  const double size = middle(each);
  for (double& e : each) e = std::abs(e - size);
  return {size, 2 * 1.1 * 1.48 * middle(each) / std::sqrt(double(each.size()))};
}
// A schedule that is significantly slower by this fraction after so many passes is not measured again.
constexpr double too_slow[] = {3, 1, 0.25, 0.25, 0.1, 0.1, 0.04, 0.04, 0.02};
constexpr int least_passes = 6, most_passes = 16;
// Smaller differences are ignored.
constexpr double alike = 0.01;
}  // namespace

Schedule Tuner::next(int threads) {
  using How = Schedule::How;
  if (ways_.empty()) {
    for (const Schedule& way : {Schedule{How::overlapped}, Schedule{How::synchronous}, Schedule{How::jobs}})
      ways_.push_back({way, {}});
    if (threads > 1) ways_.push_back({{How::split, 1, 0}, {}});
    if (threads > 4) ways_.push_back({{How::split, 2, 0}, {}});
  }
  return ways_[way_].schedule;
}

void Tuner::took(double seconds) {
  if (decided_) return;
  // The first product of a series is not counted: other ranks may have used another schedule just before.
  if (!std::exchange(counts_, true)) return;
  products_.push_back(seconds);
  if (int(products_.size()) < in_a_row) return;
  ways_[way_].seconds.push_back(typical(std::exchange(products_, {})));
  counts_ = false;
  if (++way_ < ways_.size()) return;
  way_ = 0;
  ++passes_;
  std::size_t best = 0;
  for (std::size_t w = 1; w < ways_.size(); ++w)
    if (typical(ways_[w].seconds) < typical(ways_[best].seconds)) best = w;
  const double limit = too_slow[std::min<std::size_t>(std::size_t(passes_) - 1, std::size(too_slow) - 1)];
  std::vector<Way> left;
  bool all_alike = true;
  for (std::size_t w = 0; w < ways_.size(); ++w) {
    const auto [size, doubt] = w == best ? Difference{0, 0} : difference(ways_[w].seconds, ways_[best].seconds);
    all_alike = all_alike && size + doubt <= alike;
    if (size <= limit || size <= doubt) left.push_back(ways_[w]);
  }
  const bool last = passes_ == most_passes || left.size() == 1 || (passes_ >= least_passes && all_alike);
  if (last) {
    const auto found = std::find_if(ways_.begin(), ways_.end(), [&](const Way& way) {
      const auto [size, doubt] = difference(way.seconds, ways_[best].seconds);
      return size <= alike || size <= std::min(doubt, 2 * alike);
    });
    left.assign(1, *found);  // the simplest schedule that is about as fast as the best
  }
  ways_ = std::move(left);
  decided_ = last;
}

}  // namespace tacit::op
