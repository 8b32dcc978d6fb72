#include "gaspi.hpp"

#ifdef TACIT_HAVE_GASPI

#include <GASPI.h>
#if __has_include(<GASPI_Ext.h>)
#include <GASPI_Ext.h>  // where GPI-2 declares gaspi_initialized
#endif

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

namespace tacit::comm::detail {
namespace {

// Milliseconds after which a call counts as failed.
constexpr gaspi_timeout_t timeout = 30000;

void check(gaspi_return_t code, const char* call) {
  if (code == GASPI_SUCCESS) [[likely]]
    return;
  throw Error(ErrorKind::environment, code == GASPI_TIMEOUT
                                          ? message(call, " has not ended within ", timeout / 1000, " s")
                                          : message(call, " failed with code ", int(code)));
}

// A flag increases in small steps; a notification has 32 bits and must not be 0.
constexpr std::uint64_t wrap = 0xffffffffu;
gaspi_notification_t notification_of(std::uint64_t value) {
  return gaspi_notification_t(value % wrap + 1);
}
std::uint64_t value_of(gaspi_notification_t notification, std::uint64_t before) {
  const std::uint64_t low = std::uint64_t(notification) - 1;
  std::uint64_t value = before / wrap * wrap + low;
  if (value < before) value += wrap;
  return value;
}

constexpr std::size_t flag_bytes = 64;  // distance of flags (Route)
// The notifications of flags come before this one; a rank's last notification of a use is this one plus its rank.
constexpr gaspi_notification_id_t last_of_use = 32768;

class GaspiWindow final : public Window {
 public:
  GaspiWindow(gaspi_segment_id_t segment, std::vector<gaspi_rank_t> ranks, int rank, std::size_t bytes)
      : segment_(segment), ranks_(std::move(ranks)), rank_(rank), bytes_(bytes) {}
  bool fits(const std::vector<gaspi_rank_t>& ranks, std::size_t bytes) const {
    return base_ && ranks_ == ranks && bytes_ >= bytes;
  }
  /// Reuses the window for another exchange, when all ranks have ended theirs.
  void prepare(std::span<const int> peers) {
    if (!base_) {
      check(gaspi_segment_alloc(segment_, bytes_, GASPI_MEM_INITIALIZED), "gaspi_segment_alloc");
      gaspi_pointer_t base = nullptr;
      check(gaspi_segment_ptr(segment_, &base), "gaspi_segment_ptr");
      base_ = static_cast<std::byte*>(base);
    } else {
      forget();
    }
    for (const int peer : peers)
      if (std::find(registered_.begin(), registered_.end(), peer) == registered_.end()) {
        check(gaspi_segment_register(segment_, ranks_[std::size_t(peer)], timeout), "gaspi_segment_register");
        registered_.push_back(peer);
      }
  }
  std::byte* data() override { return base_; }
  bool sends_from_anywhere() const override { return false; }
  void write(int to, std::size_t at, const void* data, std::size_t bytes, std::size_t flag,
             std::uint64_t value) override {
    const gaspi_rank_t rank = ranks_[std::size_t(to)];
    const auto id = gaspi_notification_id_t(flag / flag_bytes);
    if (bytes == 0) return notify(to, id, notification_of(value));
    const auto from = gaspi_offset_t(static_cast<const std::byte*>(data) - base_);
    post("gaspi_write_notify", [&] {
      return gaspi_write_notify(segment_, from, rank, segment_, at, bytes, id, notification_of(value), queue, timeout);
    });
    check(gaspi_wait(queue, timeout), "gaspi_wait");  // local completion; does not wait for the receiver
  }
  std::uint64_t read(std::size_t flag) override {
    const auto id = gaspi_notification_id_t(flag / flag_bytes);
    auto& seen = seen_[flag];
    gaspi_notification_id_t first = 0;
    if (gaspi_notify_waitsome(segment_, id, 1, &first, GASPI_TEST) == GASPI_SUCCESS) {
      gaspi_notification_t notification = 0;
      check(gaspi_notify_reset(segment_, id, &notification), "gaspi_notify_reset");
      if (notification != 0) seen = value_of(notification, seen);
    }
    return seen;
  }

 private:
  template <class Call>
  static void post(const char* name, const Call& call) {
    gaspi_return_t code = call();
    if (code == GASPI_QUEUE_FULL) {
      check(gaspi_wait(queue, timeout), "gaspi_wait");
      code = call();
    }
    check(code, name);
  }
  void notify(int to, gaspi_notification_id_t id, gaspi_notification_t value) {
    post("gaspi_notify", [&] { return gaspi_notify(segment_, ranks_[std::size_t(to)], id, value, queue, timeout); });
  }
  /// Takes away the notifications of former uses. Some may still be on their way, and would count as flags of the next
  /// use; those of a queue for one rank arrive in order, so all are there when a last one of each neighbour is.
  void forget() {
    for (const int peer : registered_) notify(peer, last_of_use + gaspi_notification_id_t(rank_), 1);
    gaspi_notification_id_t found = 0;
    gaspi_notification_t left = 0;
    for (const int peer : registered_) {
      const auto last = last_of_use + gaspi_notification_id_t(peer);
      check(gaspi_notify_waitsome(segment_, last, 1, &found, timeout), "gaspi_notify_waitsome");
      check(gaspi_notify_reset(segment_, last, &left), "gaspi_notify_reset");
    }
    while (gaspi_notify_waitsome(segment_, 0, last_of_use, &found, GASPI_TEST) == GASPI_SUCCESS)
      check(gaspi_notify_reset(segment_, found, &left), "gaspi_notify_reset");
    seen_.clear();
  }

  static constexpr gaspi_queue_id_t queue = 0;
  gaspi_segment_id_t segment_;
  std::vector<gaspi_rank_t> ranks_;  // the GASPI ranks of the communicator's ranks
  int rank_;                         // this one, of the communicator's
  std::size_t bytes_;
  std::byte* base_ = nullptr;
  std::vector<int> registered_;
  std::map<std::size_t, std::uint64_t> seen_;
};

// A late notification must not arrive for a freed segment, so segments are kept, and reused when all ranks have ended
// the exchange that they were made for.
std::map<int, std::shared_ptr<GaspiWindow>>& windows() {
  static auto* const all = new std::map<int, std::shared_ptr<GaspiWindow>>;
  return *all;
}

}  // namespace

std::shared_ptr<Window> make_gaspi_window(const Communicator& comm, const AllLeast& all_least,
                                          std::span<const int> peers, std::size_t bytes, std::string& why) {
  if (std::string(comm.kind()) != "mpi") {
    why = message("GASPI works between processes; ranks are ", comm.kind(), " here");
    return nullptr;
  }
  gaspi_number_t ready = 0, most = 0;
  gaspi_rank_t rank = 0;
  comm.meet();  // gaspi_proc_init waits for all processes
  try {
    check(gaspi_initialized(&ready), "gaspi_initialized");
    // The end of the process gives back what GASPI holds. gaspi_proc_term of GPI-2 1.6 over TCP waits for ever where
    // another rank has closed its connection just before, and then the whole job does.
    if (!ready) check(gaspi_proc_init(timeout), "gaspi_proc_init");
    check(gaspi_proc_rank(&rank), "gaspi_proc_rank");
    check(gaspi_segment_max(&most), "gaspi_segment_max");
  } catch (const Error& e) {
    why = e.what();
  }
  const auto ranks = comm.all_gather(rank);
  // A segment has the same number on all ranks: one that all have and none uses, else one that none has.
  enum : std::int64_t { taken, idle, missing };
  const auto count = std::size_t(comm.all_min(Global(why.empty() ? most : 0)));
  std::vector<std::int64_t> state(2 * count);
  for (std::size_t s = 0; s < count; ++s) {
    const auto found = windows().find(int(s));
    state[s] = found == windows().end()                                              ? missing
               : found->second.use_count() == 1 && found->second->fits(ranks, bytes) ? idle
                                                                                     : taken;
    state[count + s] = -state[s];
  }
  all_least(state);
  std::size_t number = count;
  for (const auto wanted : {idle, missing})
    for (std::size_t s = 0; s < count && number == count; ++s)
      if (state[s] == wanted && state[count + s] == -wanted) number = s;
  if (number == count) {
    if (why.empty())
      why = message("all ", count, " segments of GASPI are in use; raise segment_max of its configuration");
    return nullptr;
  }
  auto& window = windows()[int(number)];
  try {
    if (!window) window = std::make_shared<GaspiWindow>(gaspi_segment_id_t(number), ranks, comm.rank(), bytes);
    window->prepare(peers);
  } catch (const Error& e) {
    why = e.what();
  }
  comm.meet();  // no rank writes before all neighbours are prepared
  return why.empty() ? window : nullptr;
}

}  // namespace tacit::comm::detail

#else

namespace tacit::comm::detail {
std::shared_ptr<Window> make_gaspi_window(const Communicator&, const AllLeast&, std::span<const int>, std::size_t,
                                          std::string& why) {
  why = "Tacit was built without GASPI (TACIT_GASPI=ON, with GPI-2 installed)";
  return nullptr;
}
}  // namespace tacit::comm::detail

#endif
