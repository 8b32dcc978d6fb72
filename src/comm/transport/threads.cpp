// Ranks as threads of one process, which share nothing but messages, as with MPI; for debuggers and race checkers.
#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace tacit::comm {
namespace {

// Messages of one sender and tag: the k-th receive posted takes the k-th message sent, whichever is tested first.
struct Queue {
  std::map<std::int64_t, std::vector<std::byte>> waiting;
  std::int64_t sent = 0, posted = 0;
};

// The windows of all ranks.
struct Field {
  explicit Field(int ranks) : parts(std::size_t(ranks)) {}
  std::vector<std::unique_ptr<std::uint64_t[]>> parts;
  int missing = 0;
};

class ThreadWindow final : public Window {
 public:
  ThreadWindow(std::shared_ptr<Field> field, int rank) : field_(std::move(field)), rank_(rank) {}
  std::byte* data() override { return at(rank_, 0); }
  void write(int to, std::size_t place, const void* data, std::size_t bytes, std::size_t flag,
             std::uint64_t value) override {
    if (bytes) std::memcpy(at(to, place), data, bytes);
    word(at(to, flag)).store(value, std::memory_order_release);
  }
  std::uint64_t read(std::size_t flag) override { return word(at(rank_, flag)).load(std::memory_order_acquire); }

 private:
  std::byte* at(int rank, std::size_t place) {
    return reinterpret_cast<std::byte*>(field_->parts[std::size_t(rank)].get()) + place;
  }
  static std::atomic_ref<std::uint64_t> word(std::byte* p) {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(p));
  }
  std::shared_ptr<Field> field_;
  int rank_;
};

struct Mailbox {
  std::mutex mutex;
  std::map<std::pair<int, int>, Queue> messages;  // by tag and sender: those of a tag, for probe(), are few
  std::deque<Notice> notices;
};

struct Hub {
  explicit Hub(int n) : boxes(n) {}
  std::deque<Mailbox> boxes;
  std::mutex mutex;
  std::map<int, std::pair<std::shared_ptr<Hub>, int>>
      children;                                  // by order of duplication, with the number of ranks still to fetch it
  std::map<int, std::shared_ptr<Field>> fields;  // by order of making, until all ranks have fetched it
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return int(hub_->boxes.size()); }
  const char* kind() const override { return "threads"; }

  Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    std::vector<std::byte> copy(bytes);
    if (bytes) std::memcpy(copy.data(), data, bytes);
    Mailbox& box = hub_->boxes[to];
    std::lock_guard lock(box.mutex);
    Queue& queue = box.messages[{tag, rank_}];
    queue.waiting[queue.sent++] = std::move(copy);
    return {};
  }
  Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    Ticket t;
    t.words[0] = reinterpret_cast<std::uintptr_t>(data);
    t.words[1] = bytes;
    t.numbers[0] = from;
    t.numbers[1] = tag;
    t.active = true;
    Mailbox& box = hub_->boxes[rank_];
    std::lock_guard lock(box.mutex);
    t.words[2] = std::uintptr_t(box.messages[{tag, from}].posted++);
    return t;
  }
  bool test(Ticket& t) override {
    if (!t.active) return true;
    Mailbox& box = hub_->boxes[rank_];
    std::lock_guard lock(box.mutex);
    Queue& queue = box.messages[{t.numbers[1], t.numbers[0]}];
    const auto found = queue.waiting.find(std::int64_t(t.words[2]));
    if (found == queue.waiting.end()) return false;
    const auto& message = found->second;
    if (message.size() != t.words[1])
      throw Error(ErrorKind::environment, tacit::message("a message of ", message.size(), " bytes from rank ",
                                                         t.numbers[0], " where ", t.words[1], " were expected"));
    if (!message.empty()) std::memcpy(reinterpret_cast<void*>(t.words[0]), message.data(), message.size());
    queue.waiting.erase(found);
    t.active = false;
    return true;
  }
  void cancel(Ticket& t, std::shared_ptr<void>) override { t.active = false; }
  std::optional<Arrival> probe(int tag) override {
    Mailbox& box = hub_->boxes[rank_];
    std::lock_guard lock(box.mutex);
    for (auto at = box.messages.lower_bound({tag, 0}); at != box.messages.end() && at->first.first == tag; ++at)
      if (const auto& waiting = at->second.waiting; !waiting.empty())
        return Arrival{at->first.second, waiting.begin()->second.size()};
    return {};
  }
  std::vector<int> node() override {
    std::vector<int> all(hub_->boxes.size());
    for (int r = 0; r < size(); ++r) all[std::size_t(r)] = r;
    return all;
  }
  bool one_process() const override { return true; }
  std::shared_ptr<Window> make_window(std::size_t bytes, const AllLeast&) override;
  void send_notice(const Notice& notice) override {
    for (int r = 0; r < size(); ++r)
      if (r != rank_) {
        std::lock_guard lock(hub_->boxes[r].mutex);
        hub_->boxes[r].notices.push_back(notice);
      }
  }
  std::optional<Notice> poll_notice() override {
    Mailbox& box = hub_->boxes[rank_];
    std::lock_guard lock(box.mutex);
    if (box.notices.empty()) return {};
    Notice n = std::move(box.notices.front());
    box.notices.pop_front();
    return n;
  }
  std::shared_ptr<Transport> duplicate() override {
    std::lock_guard lock(hub_->mutex);
    const int order = duplicated_++;
    auto& [child, left] = hub_->children[order];
    if (!child) child = std::make_shared<Hub>(size()), left = size();
    auto mine = std::make_shared<ThreadTransport>(child, rank_);
    if (--left == 0) hub_->children.erase(order);
    return mine;
  }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
  int duplicated_ = 0, windows_ = 0;
};

std::shared_ptr<Window> ThreadTransport::make_window(std::size_t bytes, const AllLeast&) {
  auto part = std::make_unique<std::uint64_t[]>((bytes + 7) / 8 + 1);
  std::shared_ptr<Field> field;
  const int order = windows_++;
  {
    std::lock_guard lock(hub_->mutex);
    auto& entry = hub_->fields[order];
    if (!entry) entry = std::make_shared<Field>(size()), entry->missing = size();
    field = entry;
  }
  field->parts[std::size_t(rank_)] = std::move(part);  // neighbours receive its description before they write
  {
    std::lock_guard lock(hub_->mutex);
    if (--field->missing == 0) hub_->fields.erase(order);
  }
  return std::make_shared<ThreadWindow>(field, rank_);
}

}  // namespace

void run_threads(int n, const std::function<void(const Communicator&)>& f) {
  require(n >= 1, "run_threads was asked for ", n, " ranks; at least 1 is needed");
  auto hub = std::make_shared<Hub>(n);
  std::vector<std::exception_ptr> errors(n);
  // Ranks start only when all threads exist, since a missing one would leave the others waiting.
  enum : int { wait, run, do_not_run };
  std::atomic<int> signal = wait;
  const auto tell = [&](int what) {
    signal = what;
    signal.notify_all();
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (int r = 0; r < n; ++r)
        threads.emplace_back([&, r] {
          signal.wait(wait);
          if (signal != run) return;
          Trace::set_rank(r);
          try {
            const Communicator comm(std::make_shared<ThreadTransport>(hub, r));
            // A rank that throws outside of a collective call must not leave the others waiting.
            collective(comm, [&] {
              f(comm);
              comm.depart();
            });
          } catch (...) {
            errors[r] = std::current_exception();
          }
        });
    } catch (const std::exception& e) {
      tell(do_not_run);
      throw Error(ErrorKind::environment, message("rank ", threads.size(), " of ", n, " has no thread: ", e.what()));
    } catch (...) {
      tell(do_not_run);
      throw;
    }
    tell(run);
  }
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

}  // namespace tacit::comm
