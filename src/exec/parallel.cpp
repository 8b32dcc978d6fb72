#include <tacit/exec/caught.hpp>
#include <tacit/exec/parallel.hpp>
#include "exec/backoff.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::exec {
namespace detail {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// How long a helper without work spins before it sleeps, and the caller while it waits for the last helper. Waking a
/// thread costs the caller about 5 microseconds and takes 50.
constexpr auto watches = 100us;
/// A spinning thread that has not run for this long has lost its processor to another program.
constexpr auto preempted_after = 300us;
/// How long a team that has lost a processor is smaller; longer each time that it is lost again soon.
constexpr auto shortest_rest = 10ms, longest_rest = 160ms;

std::atomic<int> heedless{0};
thread_local bool helper = false, within = false;
thread_local int requested = 0;  // by set_threads()
// The last known number of OpenMP threads of this thread, and the number of forks at that time.
[[maybe_unused]] thread_local int counted = 0;
[[maybe_unused]] thread_local unsigned counted_after = 0;

void sleep_while([[maybe_unused]] std::atomic<std::uint32_t>& word, std::uint32_t value) {
#ifdef __linux__
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  word.wait(value);
#endif
}
void wake(std::atomic<std::uint32_t>& word) {
#ifdef __linux__
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
  word.notify_one();
#endif
}

/// The processor time used by a thread.
std::chrono::nanoseconds ran(clockid_t clock) {
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return {};
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

int processors() {
#ifdef _OPENMP
  return omp_get_num_procs();  // the affinity before OMP_PROC_BIND bound this thread
#elif defined(__linux__)
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : int(std::thread::hardware_concurrency());
#else
  return int(std::thread::hardware_concurrency());
#endif
}

/// The processors that other programs leave at this moment to a team of which `own` threads run; -1 where this is
/// unknown, since the kernel's count is of the whole machine, which may be more than this process may use.
int free_processors(int own) {
  static const int all = int(sysconf(_SC_NPROCESSORS_ONLN)), mine = processors();
  if (mine < all) return -1;
  int running = 0;
  bool known = false;
  if (std::FILE* const file = std::fopen("/proc/loadavg", "r")) {
    known = std::fscanf(file, "%*f %*f %*f %d/", &running) == 1;
    std::fclose(file);
  }
  return known ? std::max(1, all - std::max(0, running - own)) : -1;
}

std::atomic<unsigned> forks{0};
// After a fork() the child has only the calling thread.
[[maybe_unused]] const int counts_forks = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

}  // namespace

struct alignas(64) Queue {
  std::atomic<std::size_t> next{0};
  std::size_t end = 0;
};

struct Loop {
  void (*body)(void*, Claims&) = nullptr;
  void* of = nullptr;
  std::size_t piece = 1;
  int width = 1, queues = 1;
  std::unique_ptr<Queue[]> queue;
  Caught* caught = nullptr;

  void run(Claims& claims) noexcept {
    try {
      body(of, claims);
    } catch (...) {
      caught->keep();
    }
  }
};

// Helpers enter a loop through the gate, an atomic word: the number of helpers inside (12 bits), whether it is open,
// whether the caller sleeps until they have left, and the number of the loop (18 bits). The description of the loop
// changes only while the gate is closed and no helper is inside.
class Team {
  static constexpr std::uint32_t inside = (1U << 12) - 1, open = 1U << 12, awaited = 1U << 13, one_loop = 1U << 14;
  static std::uint32_t number(std::uint32_t gate) { return gate / one_loop; }

 public:
  Team() : forks_(forks.load()) {}
  ~Team() {
    stop_.store(true);
    for (auto& h : helpers_) h->parked.store(0), wake(h->parked);
    for (auto& h : helpers_) h->thread.join();
  }
  bool of_this_process() const { return forks_ == forks.load(std::memory_order_relaxed); }

  /// The number of threads of a loop begun now, at most `wanted`.
  int width(int wanted) {
    if (heedless.load(std::memory_order_relaxed) > 0) return wanted;
    if (most_ < wanted) {
      const auto now = Clock::now();
      if (now < rests_until_) return most_;
      if (const int room = free_processors(awake()); 0 < room && room < wanted) rest(now, room);
      else most_ = std::numeric_limits<int>::max(), tried_ = now;
    } else if (disturbed_.load(std::memory_order_relaxed)) {
      disturbed_.store(false, std::memory_order_relaxed);
      lose(Clock::now(), wanted, 1);
    } else if (!helpers_.empty() && helpers_[0]->parked.load(std::memory_order_relaxed)) {
      // Helpers have to be woken, so the check for free processors adds little.
      if (const auto now = Clock::now(); now - looked_ > 10ms) {
        looked_ = now;
        // Checked twice, since threads that run for microseconds only should not count.
        if (const int room = free_processors(awake()); 0 < room && room < wanted) {
          const int again = free_processors(awake());
          if (0 < again && again < wanted) rest(now, again);
        }
      }
    }
    return std::min(most_, wanted);
  }

  void run(std::size_t count, std::size_t piece, int width, void (*body)(void*, Claims&), void* of) {
    width = std::min(width, prepare(width));
    Caught caught;
    loop_.body = body, loop_.of = of, loop_.width = width, loop_.caught = &caught;
    loop_.queues = piece == by_shares ? width : 1;
    const auto queues = std::size_t(loop_.queues);
    loop_.piece = piece == by_shares ? std::max<std::size_t>(1, count / (16 * queues)) : piece;
    for (std::size_t q = 0; q < queues; ++q) {
      loop_.queue[q].next.store(count * q / queues, std::memory_order_relaxed);
      loop_.queue[q].end = count * (q + 1) / queues;
    }
    width_.store(width, std::memory_order_relaxed);
    gate_.fetch_add(one_loop | open);
    for (int i = 0; i + 1 < width; ++i)
      if (auto& parked = helpers_[std::size_t(i)]->parked; parked.load()) parked.store(0), wake(parked);
    Claims claims(&loop_, 0);
    within = true;
    loop_.run(claims);
    within = false;
    if ((gate_.fetch_and(~open) & inside) != 0) wait_for_helpers();
    caught.rethrow();
  }

 private:
  struct alignas(64) Helper {
    std::atomic<std::uint32_t> parked{0};
    std::atomic<bool> at_work{false};
    clockid_t clock{};
    std::thread thread;
  };

  /// Starts helpers for `width` threads, with a queue for each; returns the number of threads.
  int prepare(int width) {
    if (int(helpers_.size()) + 1 < width && !no_more_) {
      sigset_t all, before;  // helpers block all signals: the program's own threads handle them
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      try {
        while (int(helpers_.size()) + 1 < std::min<int>(width, inside)) {
          auto h = std::make_unique<Helper>();
          helpers_.push_back(std::move(h));
          Helper& added = *helpers_.back();
          try {
            added.thread = std::thread([this, &added, id = int(helpers_.size()), seen = number(gate_.load())] {
              helper = within = true;
              help(added, id, seen);
            });
          } catch (...) {
            helpers_.pop_back();
            throw;
          }
          pthread_getcpuclockid(added.thread.native_handle(), &added.clock);
          bind(added.thread.native_handle(), int(helpers_.size()), width);
        }
      } catch (const std::exception&) {  // the system refuses more threads: use those there are
        no_more_ = true;
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    if (queues_ < width) loop_.queue = std::make_unique<Queue[]>(std::size_t(width)), queues_ = width;
    return int(helpers_.size()) + 1;
  }
  /// Binds a helper where OMP_PROC_BIND binds threads, since it has bound the caller, whose affinity helpers inherit.
  static void bind([[maybe_unused]] pthread_t thread, [[maybe_unused]] int id, [[maybe_unused]] int width) {
#if defined(_OPENMP) && defined(__linux__)
    const auto how = omp_get_proc_bind();
    const int places = omp_get_num_places(), here = omp_get_place_num();
    if (how == omp_proc_bind_false || places < 1 || here < 0) return;
    const int step = how == omp_proc_bind_spread ? std::max(1, places / width) : how == omp_proc_bind_master ? 0 : 1;
    const int place = (here + id * step) % places;
    std::vector<int> ids(std::size_t(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int i : ids)
      if (i < CPU_SETSIZE) CPU_SET(i, &set);
    pthread_setaffinity_np(thread, sizeof set, &set);
#endif
  }

  void help(Helper& me, int id, std::uint32_t seen) {
    for (;;) {
      std::uint32_t gate = gate_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      if (number(gate) == seen) {
        watch(me, seen);
        continue;
      }
      seen = number(gate);
      if (!(gate & open) || id >= width_.load(std::memory_order_relaxed)) continue;
      gate = gate_.fetch_add(1, std::memory_order_acq_rel);
      seen = number(gate);
      if ((gate & open) && id < loop_.width) {
        me.at_work.store(true, std::memory_order_relaxed);
        Claims claims(&loop_, id);
        loop_.run(claims);
        me.at_work.store(false, std::memory_order_relaxed);
      }
      gate = gate_.fetch_sub(1, std::memory_order_acq_rel);
      if ((gate & inside) == 1 && (gate & awaited)) wake(gate_);
    }
  }
  /// Waits for another loop: spins, then sleeps.
  void watch(Helper& me, std::uint32_t seen) {
    const auto begin = Clock::now();
    for (auto last = begin;;) {
      for (int i = 0; i < 64; ++i) {
        relax_processor();
        if (number(gate_.load(std::memory_order_relaxed)) != seen || stop_.load(std::memory_order_relaxed)) return;
      }
      const auto now = Clock::now();
      const bool disturbed = now - last > preempted_after;
      if (disturbed) disturbed_.store(true, std::memory_order_relaxed);
      if (disturbed || now - begin > watches) break;
      last = now;
    }
    me.parked.store(1);
    while (number(gate_.load()) == seen && !stop_.load() && me.parked.load()) sleep_while(me.parked, 1);
    me.parked.store(0);
  }

  /// Waits for helpers that still work after the loop was closed.
  void wait_for_helpers() {
    const auto begin = Clock::now();
    auto last = begin;
    struct Watched {
      Helper* helper;
      std::chrono::nanoseconds ran;
      bool late;
    };
    std::vector<Watched> watched;  // filled only after a long wait
    for (;;) {
      for (int i = 0; i < 64; ++i) {
        if ((gate_.load(std::memory_order_acquire) & inside) == 0)
          return judge(begin, watched.size(), [&](std::size_t w) { return watched[w].late; });
        relax_processor();
      }
      const auto now = Clock::now();
      if (now - last < watches) continue;
      bool late = false;
      if (last == begin && watched.empty()) {
        for (auto& h : helpers_)
          if (h->at_work.load(std::memory_order_relaxed)) watched.push_back({h.get(), ran(h->clock), false});
      } else {
        for (auto& w : watched) {
          const auto had = ran(w.helper->clock);
          if (w.helper->at_work.load(std::memory_order_relaxed) && had - w.ran < (now - last) / 2) late = w.late = true;
          w.ran = had;
        }
      }
      last = now;
      if (!late && now - begin < 2ms) continue;
      // A helper has a long piece of work, or no processor: sleep, so that it may use this one.
      for (std::uint32_t gate = gate_.fetch_or(awaited) | awaited; (gate & inside) != 0; gate = gate_.load())
        sleep_while(gate_, gate);
      gate_.fetch_and(~awaited);
    }
  }
  template <class Late>
  void judge(Clock::time_point begin, std::size_t count, Late&& late) {
    int lost = 0;
    for (std::size_t i = 0; i < count; ++i) lost += late(i);
    if (lost == 0 || heedless.load(std::memory_order_relaxed) > 0) return;
    const auto now = Clock::now();
    if (now - begin > preempted_after) lose(now, loop_.width, lost);
  }
  /// Reduces the team after other programs took `lost` processors, unless the kernel reports them free again.
  void lose(Clock::time_point now, int width, int lost) {
    const int room = free_processors(awake());
    if (room < width) rest(now, std::max(1, room < 0 ? width - lost : room));
  }
  void rest(Clock::time_point now, int threads) {
    rest_ = now - tried_ < 8 * rest_ ? std::min<Clock::duration>(2 * rest_, longest_rest) : shortest_rest;
    most_ = threads;
    rests_until_ = now + rest_;
    tried_ = now;
  }
  /// The number of threads of this team that run or spin, including the caller.
  int awake() const {
    int n = 1;
    for (const auto& h : helpers_) n += h->parked.load(std::memory_order_relaxed) == 0;
    return n;
  }

  alignas(64) std::atomic<std::uint32_t> gate_{0};
  std::atomic<int> width_{1};
  std::atomic<bool> stop_{false}, disturbed_{false};
  alignas(64) Loop loop_;
  int queues_ = 0;
  bool no_more_ = false;
  unsigned forks_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  // Used by the caller: the most threads, and until when this limit holds.
  int most_ = std::numeric_limits<int>::max();
  Clock::time_point rests_until_{}, tried_{}, looked_{};
  Clock::duration rest_ = shortest_rest;
};

namespace {
struct Own {
  Team* team = nullptr;
  bool over = false;  // this thread ends
  ~Own() {
    over = true;
    if (team && team->of_this_process()) delete team;  // after a fork the helpers are the parent's
    team = nullptr;
  }
};
thread_local Own own;

Team& team() {
  // After a fork() the parent's team is leaked, since its state is undefined.
  if (!own.team || !own.team->of_this_process()) own.team = new Team;
  return *own.team;
}
}  // namespace

bool is_helper() noexcept {
  return helper;
}
void heed_load(bool on) noexcept {
  heedless.fetch_add(on ? -1 : 1);
}

void run_loop(std::size_t count, std::size_t piece, void (*body)(void*, Claims&), void* of, bool heed) {
  const int wanted = int(std::min(count, std::size_t(threads())));
  if (wanted > 1 && !own.over) {
    Team& t = team();
    if (const int width = heed ? t.width(wanted) : wanted; width > 1) return t.run(count, piece, width, body, of);
  }
  Claims all(count);
  body(of, all);
}

double quota(const ControlGroupFiles& files) {
  double least = 0;
  each_control_group("cpu", files, [&](const std::string& folder, int version) {
    double limit = 0, period = 0;
    bool found = false;
    if (version == 2) {
      std::ifstream limits(folder + "/cpu.max");
      found = bool(limits >> limit >> period);  // or "max"
    } else {
      std::ifstream limits(folder + "/cpu.cfs_quota_us"), periods(folder + "/cpu.cfs_period_us");
      found = limits >> limit && periods >> period;  // or -1
    }
    if (found && limit > 0 && period > 0) least = least > 0 ? std::min(least, limit / period) : limit / period;
  });
  return least;
}

}  // namespace detail

bool Claims::take(std::size_t& begin, std::size_t& end) {
  detail::Loop& loop = *loop_;
  if (loop.caught->any()) return false;
  // First the thread's own share, then unclaimed pieces of others.
  for (int tried = 0; tried < loop.queues; ++tried, ++queue_) {
    if (queue_ >= loop.queues) queue_ %= loop.queues;
    detail::Queue& q = loop.queue[std::size_t(queue_)];
    if (q.next.load(std::memory_order_relaxed) >= q.end) continue;
    begin = q.next.fetch_add(loop.piece, std::memory_order_relaxed);
    if (begin >= q.end) continue;
    end = std::min(q.end, begin + loop.piece);
    return true;
  }
  return false;
}

int cores() noexcept {
  static const double limit = [] {
    try {
      return detail::quota({});
    } catch (...) {
      return 0.0;
    }
  }();
  const int all = std::max(1, detail::processors());
  return limit > 0 ? std::clamp(int(std::floor(limit)), 1, all) : all;
}

int threads() noexcept {
  if (detail::within) return 1;
#ifdef _OPENMP
  const unsigned forks = detail::forks.load(std::memory_order_relaxed);
#ifdef KMP_VERSION_MAJOR
  // In the child of a fork() clang's OpenMP library is initialised again, and has lost the setting.
  if (detail::counted > 0 && detail::counted_after != forks) omp_set_num_threads(detail::counted);
#endif
  detail::counted = omp_get_max_threads(), detail::counted_after = forks;
  if (omp_in_parallel()) return 1;
  static const bool said = std::getenv("OMP_NUM_THREADS") != nullptr;
  static const int unsaid = omp_get_num_procs();
  const int n = std::min(detail::counted, omp_get_thread_limit());
  return said || n == detail::requested || n != unsaid ? n : std::min(n, cores());
#else
  return std::max(1, detail::requested);
#endif
}
void set_threads(int n) noexcept {
  detail::requested = n;
#ifdef _OPENMP
  omp_set_num_threads(n);
  detail::counted = n, detail::counted_after = detail::forks.load(std::memory_order_relaxed);
#endif
}
int threads_now() noexcept {
  const int wanted = threads();
  try {
    return wanted > 1 && !detail::own.over ? detail::team().width(wanted) : 1;
  } catch (...) {
    return 1;
  }
}

}  // namespace tacit::exec
