#include "lockstep.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cstring>
#include <exception>

namespace tacit::krylov {
namespace {
constexpr std::size_t stack_bytes = std::size_t(1) << 20;  // reserved; used where touched

template <class T>
comm::PendingSum send(const comm::Communicator& comm, const std::byte* values, std::size_t n,
                      comm::Operation operation) {
  return comm.start_sum(reinterpret_cast<const T*>(values), n, operation);
}
}  // namespace

struct Lockstep::Seat {
  std::unique_ptr<exec::Fiber> fiber;  // null: free
  bool ended = false;
  Shared* waits_for = nullptr;
  int ticket = -1;                              // what it waits for, of sums
  const std::function<void()>* call = nullptr;  // of calls
  std::exception_ptr error;
};
/// A reduction of a computation, and one of several.
struct Lockstep::Part {
  int seat;
  comm::Number number;
  comm::Operation operation;
  std::size_t count;             // numbers
  std::vector<std::byte> value;  // then the result
  std::shared_ptr<Merged> merged;
  bool dropped = false;
};
struct Lockstep::Merged {
  comm::PendingSum pending;
  std::vector<int> tickets;
  std::vector<std::byte> value;
  bool done = false;
};

class Lockstep::SumsOfSeats final : public Shared {
 public:
  explicit SumsOfSeats(Lockstep& of) : of_(of) {}
  void serve(std::span<const int> seats) override {
    for (const int s : seats) of_.finish(*of_.parts_.at(of_.seats_[std::size_t(s)]->ticket)->merged);
  }

 private:
  Lockstep& of_;
};
class Lockstep::Calls final : public Shared {
 public:
  explicit Calls(Lockstep& of) : of_(of) {}
  void serve(std::span<const int> seats) override {
    for (const int s : seats) (*of_.seats_[std::size_t(s)]->call)();
  }

 private:
  Lockstep& of_;
};

Lockstep::Lockstep(comm::Communicator comm, int seats)
    : comm_(std::move(comm)), sums_(std::make_unique<SumsOfSeats>(*this)), calls_(std::make_unique<Calls>(*this)) {
  for (int i = 0; i < seats; ++i) seats_.push_back(std::make_unique<Seat>());
}
Lockstep::~Lockstep() = default;

void Lockstep::run(std::deque<std::function<void()>> computations) {
  try {
    for (;;) {
      for (int i = 0; i < int(seats_.size()); ++i) {
        Seat& seat = *seats_[std::size_t(i)];
        if (!seat.fiber && !computations.empty()) {
          sit_down(seat, i, std::move(computations.front()));
          computations.pop_front();
        }
        if (seat.fiber && !seat.waits_for) resume(seat, i);
      }
      const bool occupied = std::any_of(seats_.begin(), seats_.end(), [](const auto& s) { return bool(s->fiber); });
      if (!occupied && computations.empty()) return;
      if (all_wait()) serve_most();
    }
  } catch (...) {
    end_all();
    throw;
  }
}

void Lockstep::sit_down(Seat& seat, int number, std::function<void()> computation) {
  seat.ended = false;
  seat.fiber = std::make_unique<exec::Fiber>(stack_bytes, [this, number, f = std::move(computation)] {
    Seat& own = *seats_[std::size_t(number)];
    try {
      f();
    } catch (const Ended&) {
    } catch (...) {
      own.error = std::current_exception();
    }
    own.ended = true;
    own.fiber->give_way(outside_);
  });
}

/// Runs a computation until it waits or ends.
void Lockstep::resume(Seat& seat, int number) {
  seat_ = number;
  outside_.give_way(*seat.fiber);
  seat_ = -1;
  if (!seat.ended) return;
  seat.fiber.reset();
  seat.waits_for = nullptr;
  if (seat.error && !ending_) std::rethrow_exception(std::exchange(seat.error, nullptr));
}

/// Whether every seat is free or waits: a seat that has just become free is taken first.
bool Lockstep::all_wait() {
  return std::all_of(seats_.begin(), seats_.end(), [](const auto& s) { return !s->fiber || s->waits_for; });
}

/// Serves the work that most computations wait for. The others wait until it is theirs, so that computations which have
/// come out of step meet again.
void Lockstep::serve_most() {
  std::map<Shared*, int> count;
  for (const auto& s : seats_)
    if (s->waits_for) ++count[s->waits_for];
  const auto rank = [&](Shared* w) { return std::pair(!w->waits_for_all(), count[w]); };
  Shared* work = nullptr;
  for (const auto& s : seats_)  // in the order of seats, which is the same on all ranks
    if (s->waits_for && (!work || rank(s->waits_for) > rank(work))) work = s->waits_for;
  if (!work) return;  // all have ended
  std::vector<int> served;
  for (int i = 0; i < int(seats_.size()); ++i)
    if (seats_[std::size_t(i)]->waits_for == work) served.push_back(i);
  // Reductions are sent before products are made, which may hide them.
  start_sums(served);
  for (Shared* begun : begun_) begun->serve(served);
  if (std::find(begun_.begin(), begun_.end(), work) == begun_.end()) work->serve(served);
  for (const int i : served) seats_[std::size_t(i)]->waits_for = nullptr;
}

void Lockstep::wait_for(Shared& work) {
  Seat& own = *seats_[std::size_t(seat_)];
  if (ending_) throw Ended{};
  own.waits_for = &work;
  own.fiber->give_way(outside_);
  if (ending_) throw Ended{};
}

void Lockstep::outside(const std::function<void()>& f) {
  if (seat_ < 0) return f();
  Seat& own = *seats_[std::size_t(seat_)];
  own.call = &f;
  wait_for(*calls_);
}

/// Unwinds the computations that have not ended.
void Lockstep::end_all() noexcept {
  ending_ = true;
  for (int i = 0; i < int(seats_.size()); ++i)
    while (seats_[std::size_t(i)]->fiber) resume(*seats_[std::size_t(i)], i);
}

int Lockstep::take(const void* values, std::size_t n, comm::Number number, comm::Operation operation) {
  auto part = std::make_unique<Part>();
  part->seat = seat_, part->number = number, part->operation = operation, part->count = n;
  const auto* const bytes = static_cast<const std::byte*>(values);
  part->value.assign(bytes, bytes + n * (number == comm::Number::float32 ? 4 : 8));
  parts_.emplace(tickets_, std::move(part));
  return tickets_++;
}

/// Starts the reductions of these seats, those of one kind as one.
void Lockstep::start_sums(std::span<const int> seats) {
  std::map<std::pair<comm::Number, comm::Operation>, std::shared_ptr<Merged>> kinds;
  std::map<std::pair<comm::Number, comm::Operation>, std::size_t> counts;
  for (const int s : seats)
    for (auto& [ticket, part] : parts_) {
      if (part->merged || part->seat != s) continue;
      auto& merged = kinds[{part->number, part->operation}];
      if (!merged) merged = std::make_shared<Merged>();
      merged->tickets.push_back(ticket);
      merged->value.insert(merged->value.end(), part->value.begin(), part->value.end());
      counts[{part->number, part->operation}] += part->count;
      part->merged = merged;
    }
  for (auto& [kind, merged] : kinds) {
    const auto [number, operation] = kind;
    const std::size_t n = counts[kind];
    const std::byte* const v = merged->value.data();
    merged->pending = number == comm::Number::float32   ? send<float>(comm_, v, n, operation)
                      : number == comm::Number::float64 ? send<double>(comm_, v, n, operation)
                                                        : send<Global>(comm_, v, n, operation);
  }
}

void Lockstep::finish(Merged& merged) {
  if (merged.done) return;
  merged.pending.wait(merged.value.data());
  merged.done = true;
  const std::byte* from = merged.value.data();
  for (const int ticket : merged.tickets) {
    const auto at = parts_.find(ticket);
    Part& part = *at->second;
    std::copy_n(from, part.value.size(), part.value.begin());  // sums may be of no numbers
    from += part.value.size();
    if (part.dropped) parts_.erase(at);
  }
}

bool Lockstep::test(int ticket) {
  const auto& part = parts_.at(ticket);
  return part->merged && part->merged->done;
}

void Lockstep::wait(int ticket, void* values) {
  Part& part = *parts_.at(ticket);
  if (seat_ < 0) {  // of an operator that is served
    const int nobody = part.seat;
    if (!part.merged) start_sums(std::span(&nobody, 1));
    finish(*part.merged);
  }
  while (!part.merged || !part.merged->done) {
    seats_[std::size_t(seat_)]->ticket = ticket;
    wait_for(*sums_);
  }
  std::copy_n(part.value.begin(), part.value.size(), static_cast<std::byte*>(values));
  parts_.erase(ticket);
}

void Lockstep::drop(int ticket) noexcept {
  const auto at = parts_.find(ticket);
  if (at == parts_.end()) return;
  if (at->second->merged && at->second->merged->done) parts_.erase(at);
  else at->second->dropped = true;
}

}  // namespace tacit::krylov
