// The state shared by the copies of a communicator: its transport, turns and agreement, which the rest is made of. Sums
// (collective/sums.hpp) and exchanges (exchange/exchanges.hpp) stand on it.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/tasks.hpp>
#include "exec/backoff.hpp"

#include "agreement/agreement.hpp"
#include "transport/simulated/rank.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace tacit::comm::detail {

class Sums;
struct Exchanges;
struct Mailbox;

struct State final : Agreement::Services, std::enable_shared_from_this<State> {
  explicit State(std::shared_ptr<Transport> t);
  ~State();

  std::shared_ptr<Transport> transport;
  SimulatedRank* const simulated;
  // Protects what a progress thread also touches: sums, exchanges, the transport.
  const std::shared_ptr<TransportLock> transport_lock;
  const int rank, size;
  const std::shared_ptr<Turns> turns = std::make_shared<Turns>();
  std::atomic<bool> joined = false;  // its turn is that of another communicator, too
  Agreement agreement;
  const std::unique_ptr<Sums> sums;
  const std::unique_ptr<Exchanges> exchanges;
  Counters counters;
  std::shared_ptr<const Topology> topology;
  bool topology_given = false;
  std::uint32_t sparse_started = 0;
  // The rank's own thread, which starts sums and messages; poll() does nothing on others.
  std::atomic<const void*> owner = nullptr;
  std::weak_ptr<void> engine;
  std::atomic<std::uint32_t> posted = 0;  // a progress thread without work sleeps until this changes
  void post() {
    if (transport_lock->engines.load(std::memory_order_relaxed) == 0) return;
    posted.fetch_add(1, std::memory_order_release);
    posted.notify_all();
  }

  int tag(int channel) const { return agreement.epoch() * channels + channel; }
  static constexpr int channels = 4096, sum_channels = 512, sparse_channel = 512, gather_channel = 640,
                       exchange_channel = 704, exchange_channels = 3300, mail_channel = 4004;

  /// Called at the beginning of every operation.
  void begin() {
    if (size == 1) return;
    agreement.begin();
    owner.store(this_thread(), std::memory_order_relaxed);
  }
  static const void* this_thread() noexcept {
    static thread_local char here;
    return &here;
  }
  /// Called by the thread that has its turn, once another one has asked for it: this communicator of several ranks is
  /// lost.
  [[noreturn]] void refuse_two_threads();
  std::string two_threads() const;  // the text of the error
  void progress();
  /// Advances sums and exchanges once, for a progress thread. True while something is pending.
  bool push_on();
  void defer(int parts);
  void help_others();

  /// What condition() may do: wait for other things itself, or look only, so that it can be called on any stack.
  enum class Condition { waits, looks };
  template <Condition kind = Condition::waits, class F>
  void wait_until(F condition) {
    try {
      exec::Backoff idle;
      for (std::uint64_t spins = 0;; ++spins) {
        {
          const auto lock = transport_lock->take();
          if (agreement.has_error()) agreement.throw_error();
          if (turns->contested.load(std::memory_order_relaxed)) [[unlikely]]
            refuse_two_threads();
          if (condition()) return;
          progress();
          if (simulated && !agreement.has_error() && condition())
            return;  // on one thread nothing changes before another rank runs
        }
        if (simulated) {
          agreement.look_around();
          Looks<F> looks{*this, condition};
          if (simulated->wait(kind == Condition::looks ? SimulatedRank::Check{&looks.call, &looks}
                                                       : SimulatedRank::Check{}))
            return;
          continue;
        }
        if (spins % 4 == 3) help_others();  // on a busy machine an iteration of this loop may take long
        if (spins % 64 == 63) agreement.look_around();
        // Under the task engine, execute tasks meanwhile.
        if (auto* const tasks = exec::Tasks::current(); tasks && tasks->help()) {
          idle = {};
          continue;
        }
        idle.pause();
      }
    } catch (...) {
      agreement.wait_ended_by_error();
      throw;
    }
  }

  // For the agreement on errors.
  std::unique_lock<std::recursive_mutex> lock() override { return transport_lock->take(); }
  void send(const Notice& notice) override { transport->send_notice(notice); }
  std::optional<Notice> receive_notice() override { return transport->poll_notice(); }
  void give_up() override;
  Global reduce(Global value, Operation operation) override;
  void wait_for(const std::function<bool()>& condition) override { wait_until(condition); }
  void renumber() override;
  int renew() override;
  std::weak_ptr<Agreement> shared() override { return std::shared_ptr<Agreement>(shared_from_this(), &agreement); }

  const std::unique_ptr<Mailbox> mailbox;

 private:
  // An iteration of wait_until() for a simulated rank that waits, on any stack.
  template <class F>
  struct Looks {
    using Found = SimulatedRank::Check::Found;
    State& state;
    F& condition;
    static Found call(void* self) {
      auto& [s, holds] = *static_cast<Looks*>(self);
      if (!s.is_simple()) return Found::trouble;
      if (holds()) return Found::all;
      s.progress();
      return s.agreement.has_error() ? Found::trouble : holds() ? Found::all : Found::nothing;
    }
  };
  // Whether progress() does nothing but test messages and send.
  bool is_simple() const;
  bool in_progress_ = false;
};

}  // namespace tacit::comm::detail
