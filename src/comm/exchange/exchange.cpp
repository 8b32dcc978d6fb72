#include <tacit/comm/exchange.hpp>

#include "../state.hpp"
#include "exchanges.hpp"
#include "route.hpp"

#include <tacit/base/trace.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <tuple>

namespace tacit::comm {

Exchange::Exchange(Communicator comm, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
                   std::optional<Path> path)
    : comm_(std::move(comm)),
      pattern_(std::move(pattern)),
      element_bytes_(element_bytes),
      channel_(-1),  // none, until the path is set up and after a failure
      own_path_(path) {
  auto& s = *comm_.state_;
  if (s.size == 1) return;  // there is nothing to push on or to give up
  const auto lock = s.transport_lock->take();
  const std::lock_guard in_use(s.exchanges->in_use);
  s.exchanges->all.push_back(this);
}

Exchange::~Exchange() {
  if (comm_.size() == 1) return;
  // Only what is in flight needs the thread's turn. Waiting for it always could be for ever where ranks are threads:
  // the garbage collection of one rank may destroy an object of another rank, which has its turn and waits for the
  // first.
  std::optional<detail::Turns::Waited> turn;
  if (route_ && (route_->slots[0].open || route_->slots[1].open)) turn.emplace(*comm_.state_->turns);
  for (int i = 0; route_ && i < 2; ++i) {
    auto& slot = route_->slots[i];
    try {
      // Also finish an abandoned exchange: neighbours may wait for deferred messages, and a later exchange must not
      // match its messages. Not after an exception, when other ranks may never take part.
      if (slot.open && !slot.dropped) slot.abandoned ? finish(i) : close(slot.number);
    } catch (...) {  // the communicator fails; what is in flight is given up below
      comm_.state_->agreement.swallow();
    }
  }
  const auto lock = comm_.state_->transport_lock->take();
  const std::lock_guard in_use(comm_.state_->exchanges->in_use);
  give_up();
  std::erase(comm_.state_->exchanges->all, this);
}

Path Exchange::path() const {
  return route_ ? route_->path() : Path::messages;
}
int Exchange::window_neighbours() const {
  return route_ ? route_->window_neighbours() : 0;
}

bool Exchange::push_on() {
  return route_ && route_->push_on();
}

void Exchange::help() {
  if (route_) route_->help();
}

void Exchange::give_up() noexcept {
  const auto lock = comm_.state_->transport_lock->take();
  route_.reset();  // the transport keeps buffers that it may still read; windows are no longer consistent
  found_.reset();
  channel_ = -1;
  opened_ = 0;
}

void Exchange::refuse() const {
  if (comm_.state_->agreement.failed()) throw PeerFailure(&comm_.state_->agreement);
  throw Error(ErrorKind::usage, "this exchange is not in flight: it was closed, or given up by an earlier failure");
}

namespace {
constexpr const char* looks = "looks which messages have arrived";
detail::Recorder* recorder_of(const detail::State& s) {
  return s.simulated ? s.simulated->recorder : nullptr;
}
template <class Route>
auto* find(Route& route, int number) {
  if (route)
    for (auto& slot : route->slots)
      if (slot.number == number && slot.open) [[likely]]
        return &slot;
  return static_cast<detail::Route::Slot*>(nullptr);
}
}  // namespace

bool Exchange::in_use() const {
  return route_ && (route_->slots[0].open || route_->slots[1].open);
}

void Exchange::make_route(Path path, std::string& why) {
  auto& s = *comm_.state_;
  // Given here, where all ranks are, and anew after a failure: some may not have made this object before it.
  if (channel_ < 0)
    channel_ = detail::State::exchange_channel + int(s.exchanges->numbered++ % detail::State::exchange_channels);
  auto made = std::make_unique<detail::Route>(comm_, s, pattern_, element_bytes_, s.tag(channel_), path, why);
  if (!why.empty()) return;
  const auto lock = s.transport_lock->take();
  route_ = std::move(made);
}

void Exchange::choose_route() {
  // Paths are measured at this use of an exchange, so that rarely used ones do not pay for it.
  constexpr std::int64_t trial_at = 65;
  auto& s = *comm_.state_;
  Path wanted = own_path_.value_or(s.exchanges->path);
  ++opened_;
  if (s.simulated && wanted != Path::automatic && wanted != Path::messages && wanted != Path::persistent)
    throw Error(ErrorKind::environment,
                message("exchanges of simulated ranks use messages, not the path \"", to_string(wanted), "\""));
  if (comm_.size() == 1 || (s.simulated && wanted == Path::automatic)) wanted = Path::messages;
  if (wanted == Path::automatic) {
    const bool now = !found_ && opened_ % trial_at == 0;
    if (route_ && !now && (!found_ || *found_ == route_->path())) return;
    wanted = found_.value_or(Path::messages);
    if (now) {
      clear_abandoned();
      if (!comm_.all(!in_use())) return;  // while one is in use: measured later
      wanted = *(found_ = fastest());
    }
  }
  if (route_ && route_->path() == wanted) return;
  // Collective; this rank may still hold an exchange that others have closed.
  clear_abandoned();
  if (route_ && !comm_.all(!in_use())) return;
  agree_on(wanted);
  std::string why;
  make_route(wanted, why);
  if (!why.empty() && !own_path_ && s.exchanges->path == Path::automatic)
    why.clear(), found_ = Path::messages, make_route(Path::messages, why);
  if (!why.empty())
    throw Error(ErrorKind::environment, message("exchanges cannot use the path \"", to_string(wanted), "\": ", why));
}

void Exchange::clear_abandoned() {
  for (int i = 0; route_ && i < 2; ++i)
    if (route_->slots[i].open && route_->slots[i].abandoned) finish(i);
}

// Checks that all ranks have chosen alike; otherwise they would wait for ever.
void Exchange::agree_on(Path path) const {
  if (comm_.size() == 1) return;
  const auto& s = *comm_.state_;
  std::uint64_t code = std::uint64_t(path);
  if ((path == Path::shared || path == Path::gather) && s.topology_given) {
    code = 1099511628211u * (code + 1);
    for (int r = 0; r < comm_.size(); ++r)
      code = (code ^ std::uint64_t(s.topology->group(r, s.topology->levels() - 2))) * 1099511628211u;
  }
  const auto positive = std::int64_t(code & 0x7fffffffffffffffu);
  std::int64_t both[2] = {positive, -positive};
  comm_.start(both, 2, Number::int64, Operation::max, false).wait(both);
  if (both[0] == -both[1]) return;
  std::string paths;
  for (const int p : comm_.all_gather(int(path)))
    paths += (paths.empty() ? "" : ", ") + std::string(to_string(Path(p)));
  throw Error(ErrorKind::usage, message("ranks have chosen different paths or levels for one exchange (paths by rank: ",
                                        paths, "); all have to choose the same"));
}

Path Exchange::fastest() {
  constexpr Path candidates[] = {Path::messages, Path::persistent, Path::shared, Path::gather};
  auto& s = *comm_.state_;
  // Exchanges of similar size share one measurement.
  Global bytes = 0;
  for (std::size_t i = 0; i < pattern_->send_ranks.size(); ++i)
    bytes = std::max(bytes, Global(pattern_->send_offsets[i + 1] - pattern_->send_offsets[i]) * Global(element_bytes_));
  bytes = comm_.all_max(bytes);
  int size = 0;
  while (bytes >> size > 0) ++size;
  if (const auto known = s.exchanges->fastest.find(size); known != s.exchanges->fastest.end()) return known->second;
  const Span span("try paths", "comm");
  struct Uncounted {
    Counters& counters;
    const Counters before;
    ~Uncounted() { counters = before; }
  } const uncounted{s.counters, s.counters};
  Path best = Path::messages;
  double least = 0;
  // A vector of which only the elements sent are touched.
  const auto& index = pattern_->send_index;
  const std::size_t length = index.empty() ? 0 : std::size_t(*std::max_element(index.begin(), index.end())) + 1;
  const auto x = std::make_unique_for_overwrite<std::byte[]>(length * element_bytes_);
  std::uint64_t read = 0;
  for (const Path path : candidates) {
    Exchange trial(comm_, pattern_, element_bytes_, path);
    std::string why;
    trial.make_route(path, why);
    if (!why.empty()) continue;
    const auto once = [&] {
      const double from = wall_time();
      for (const Local i : index) std::memset(x.get() + std::size_t(i) * element_bytes_, 1, element_bytes_);
      const int number = trial.open();
      trial.post(number, x.get());
      trial.wait(number);
      const std::byte* const in = trial.incoming(number);
      for (std::size_t b = 0; b < pattern_->ghosts.size() * element_bytes_; b += 32) read += std::uint64_t(in[b]);
      trial.close(number);
      return wall_time() - from;
    };
    once(), once();
    const double about = comm_.all_max(once());
    double time = std::numeric_limits<double>::infinity();
    for (int round = int(std::clamp(1e-3 / (about + 1e-9), 2.0, 15.0)); round > 0; --round)
      time = std::min(time, once());
    time = comm_.all_max(time);
    // Another path has to be at least 5 % faster.
    if (path == Path::messages || time < 0.95 * least) least = time, best = path;
  }
  [[maybe_unused]] volatile const std::uint64_t used = read;
  s.exchanges->fastest[size] = best;
  return best;
}

int Exchange::open(bool forward) {
  auto& s = *comm_.state_;
  s.begin();
  choose_route();
  const auto lock = s.transport_lock->take();
  const auto full = [&] { return route_->slots[0].open && route_->slots[1].open; };
  for (int i = 0; i < 2 && full(); ++i)
    if (route_->slots[i].abandoned) finish(i);
  require(!full(), "two products of one operator are already under way; wait for one of them first");
  auto& slot = route_->open(forward);
  slot.uncaught = std::uncaught_exceptions();
  slot.number = int(s.exchanges->opened++ & 0x7fffffff);
  return slot.number;
}

std::byte* Exchange::outgoing(int number) {
  auto* const slot = find(route_, number);
  if (!slot) refuse();
  return route_->outgoing(*slot);
}

const std::byte* Exchange::incoming(int number) {
  auto* const slot = find(route_, number);
  if (!slot) refuse();
  return route_->incoming(*slot);
}

void Exchange::post(int number) {
  send(number, nullptr);
}

void Exchange::post(int number, const void* owned) {
  static const std::byte nothing{};
  const auto* const from = static_cast<const std::byte*>(owned);
  send(number, from ? from : &nothing);  // a rank without elements
}

void Exchange::send(int number, const std::byte* owned) {
  auto* const slot = find(route_, number);
  if (!slot) refuse();
  require(!owned || slot->forward, "only a forward exchange packs what it sends; fill outgoing() of this one");
  auto& s = *comm_.state_;
  s.begin();
  const auto lock = s.transport_lock->take();
  const auto& p = *pattern_;
  const auto& to = slot->forward ? p.send_ranks : p.receive_ranks;
  if (auto* const r = recorder_of(s)) {
    const auto& from = slot->forward ? p.receive_ranks : p.send_ranks;
    const auto& [to_offsets, from_offsets] =
        slot->forward ? std::tie(p.send_offsets, p.receive_offsets) : std::tie(p.receive_offsets, p.send_offsets);
    slot->recorded = r->post(to, to_offsets, from, from_offsets, element_bytes_);
  }
  const detail::SimulatedRank::For phase(s.simulated, "halo", true);
  try {
    route_->post(*slot, owned);
  } catch (...) {
    route_->give_up(*slot);
    s.agreement.keep_error();
    throw;
  }
  s.post();
  s.counters.bytes += std::int64_t((slot->forward ? p.send_index.size() : p.ghosts.size()) * element_bytes_);
  ++s.counters.exchanges;
  s.counters.messages += std::int64_t(to.size());
}

bool Exchange::test(int number) {
  auto* const slot = find(route_, number);
  if (!slot) refuse();
  if (auto* const r = recorder_of(*comm_.state_)) r->refuse(looks);
  const auto lock = comm_.state_->transport_lock->take();
  return route_->arrived(*slot);
}

int Exchange::test_any(int number) {
  auto* const slot = find(route_, number);
  if (!slot) refuse();
  if (auto* const r = recorder_of(*comm_.state_)) r->refuse(looks);
  const auto lock = comm_.state_->transport_lock->take();
  for (std::size_t i = 0; i < slot->named.size(); ++i)
    if (!slot->named[i] && route_->arrived(*slot, i)) {
      slot->named[i] = 1;
      return int(i);
    }
  return -1;
}

int Exchange::wait_any(int number) {
  auto* const slot = find(route_, number);
  if (!slot) refuse();
  if (std::find(slot->named.begin(), slot->named.end(), 0) == slot->named.end()) return -1;
  const detail::SimulatedRank::For phase(comm_.state_->simulated, "halo");
  int found = -1;
  comm_.state_->wait_until<detail::State::Condition::looks>([&] { return (found = test_any(number)) >= 0; });
  return found;
}

void Exchange::wait(int number) {
  auto* const slot = find(route_, number);
  if (!slot) refuse();
  if (auto* const r = recorder_of(*comm_.state_)) r->arrive(slot->recorded);
  const Span span("wait for halo", "comm", Trace::on() ? std::int64_t(route_->incoming_bytes(*slot)) : 0);
  const detail::SimulatedRank::For phase(comm_.state_->simulated, "halo");
  comm_.state_->wait_until<detail::State::Condition::looks>([&] { return route_->arrived(*slot); });
}

void Exchange::close(int number) {
  auto* const slot = find(route_, number);
  if (!slot) return;
  // While an exception unwinds the messages may never complete: Communicator::fail gives them up.
  if (std::uncaught_exceptions() > slot->uncaught) abandon(number);
  else finish(int(slot - route_->slots));
}

void Exchange::finish(int which) {
  auto* const r = recorder_of(*comm_.state_);
  if (r && route_->slots[which].posted) r->close(route_->slots[which].recorded);
  const detail::SimulatedRank::For phase(comm_.state_->simulated, "halo");
  comm_.state_->wait_until<detail::State::Condition::looks>([&] {
    auto& slot = route_->slots[which];
    return int(route_->arrived(slot)) & int(route_->sent(slot));
  });
  const auto lock = comm_.state_->transport_lock->take();
  route_->close(route_->slots[which]);
}

void Exchange::abandon(int number) noexcept {
  if (auto* const slot = find(route_, number)) {
    slot->abandoned = true;
    slot->dropped = std::uncaught_exceptions() > slot->uncaught || std::current_exception();
    route_->let_go(*slot);
    if (slot->dropped) comm_.state_->agreement.drop_unfinished();
  }
}

}  // namespace tacit::comm
