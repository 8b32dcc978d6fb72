// The set-up of a route: the elements for each neighbour, the buffers, and the exchange of window descriptions.
#include "route.hpp"

#include "remote_memory.hpp"
#include "shared_window.hpp"

#include "../messages.hpp"
#include "../state.hpp"
#include "../transport/gaspi.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace tacit::comm::detail {
namespace {

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  auto* const p = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{line}));
  std::memset(p, 0, bytes);
  return {p, [](std::byte* q) { ::operator delete (q, std::align_val_t{line}); }};
}

// Runs of at least this length are copied (or read) one by one; shorter ones are packed.
constexpr std::size_t run_bytes = 64, read_bytes = 512;
constexpr std::uint64_t legible = 0x7ac17;
constexpr std::uint64_t probe = legible;  // other processes read it to test whether memory is readable

}  // namespace

Route::Route(const Communicator& comm, State& state, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
             int tag, Path path, std::string& why)
    : state_(state), pattern_(std::move(pattern)), element_bytes_(element_bytes), tag_(tag), path_(path) {
  const auto& p = *pattern_;
  parts_.resize(p.send_ranks.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto begin = std::size_t(p.send_offsets[i]), end = std::size_t(p.send_offsets[i + 1]);
    const std::size_t least = path == Path::gather ? read_bytes : run_bytes;
    std::size_t runs = 0;
    for (std::size_t e = begin; e < end; ++e) runs += e == begin || p.send_index[e] != p.send_index[e - 1] + 1;
    if (runs == 0 || (end - begin) * element_bytes_ < least * runs) continue;
    parts_[i].runs.reserve(runs);
    for (std::size_t e = begin; e < end; ++e) {
      if (e > begin && p.send_index[e] == p.send_index[e - 1] + 1) ++parts_[i].runs.back().count;
      else parts_[i].runs.push_back({p.send_index[e], 1});
    }
  }
  if (path == Path::put || path == Path::gaspi || path == Path::shared || path == Path::gather) connect(comm, why);
  if (path == Path::neighbour) {
    for (const int forward : {1, 0}) {
      comm.meet();  // the call may block for ever, so ranks first agree that all will enter it
      const auto lock = state_.transport_lock->take();
      neighbourhood_[forward] =
          forward ? state_.transport->make_neighbourhood(p.receive_ranks, p.send_ranks, element_bytes_)
                  : state_.transport->make_neighbourhood(p.send_ranks, p.receive_ranks, element_bytes_);
    }
    if (!neighbourhood_[1])
      why = message("the ", state_.transport->kind(), " transport has no neighbourhood collectives");
  }
  if (!memory_ && why.empty()) {
    const auto own = rounded(pattern_->send_index.size() * element_bytes_),
               ghost = rounded(pattern_->ghosts.size() * element_bytes_);
    const auto memory = allocate(2 * (own + ghost));
    memory_ = memory;
    lay_out(memory.get());
  }
}

void Route::lay_out(std::byte* base) {
  const auto own = rounded(pattern_->send_index.size() * element_bytes_),
             ghost = rounded(pattern_->ghosts.size() * element_bytes_);
  for (auto& slot : slots) {
    slot.own = base;
    slot.ghost = base + own;
    base += own + ghost;
  }
}

std::size_t Route::find_peers(const Communicator& comm) {
  const auto* const topology = shares_memory() ? &comm.topology() : nullptr;
  const auto peer_of = [&](int rank) {
    if (topology && !topology->same_node(rank, comm.rank())) return -1;
    const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.rank == rank; });
    if (found != peers_.end()) return int(found - peers_.begin());
    peers_.push_back({rank, -1, -1, 0, {}, {}});
    return int(peers_.size()) - 1;
  };
  const auto place = [&](const std::vector<int>& ranks, std::vector<int>& peers, int Peer::*here) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      peers.push_back(peer_of(ranks[i]));
      if (peers.back() >= 0) peers_[std::size_t(peers.back())].*here = int(i);
    }
  };
  place(pattern_->send_ranks, peer_of_send_, &Peer::send);
  place(pattern_->receive_ranks, peer_of_receive_, &Peer::receive);
  std::size_t flags = 0;
  for (auto& peer : peers_) peer.flags = flags, flags += flags_step;
  return flags;
}

void Route::make_window(const Communicator& comm, std::size_t bytes, std::string& trouble) {
  if (shares_memory()) {
    const auto segments = std::make_shared<SharedWindow>();
    const bool one_process = state_.transport->one_process();
    try {
      if (gathers() && !one_process) require_reading();
      segments->mine = Segment::create(bytes, !one_process);
    } catch (const std::exception& e) {
      trouble = e.what();
    }
    window_ = segments;
    segments_ = segments.get();
    return;
  }
  const AllLeast all_least = [&](std::span<std::int64_t> values) { comm.all_least(values); };
  std::vector<int> ranks;
  for (const auto& peer : peers_) ranks.push_back(peer.rank);
  window_ = path_ == Path::gaspi ? make_gaspi_window(comm, all_least, ranks, bytes, trouble)
                                 : state_.transport->make_window(bytes, all_least);
  if (!window_ && trouble.empty())
    trouble = message("the ", state_.transport->kind(), " transport has no one-sided communication");
}

void Route::exchange_descriptions(std::size_t bytes, std::size_t flags, bool in_trouble) {
  const auto& p = *pattern_;
  const auto own = rounded(p.send_index.size() * element_bytes_), ghost = rounded(p.ghosts.size() * element_bytes_);
  PendingMessages messages(state_);
  std::vector<std::shared_ptr<PendingMessages::Bytes>> descriptions;
  for (const auto& peer : peers_) {
    Description own_description;
    if (!in_trouble) {
      if (segments_)
        std::strncpy(own_description.name, segments_->mine->name().c_str(), sizeof own_description.name - 1);
      own_description.bytes = bytes;
      own_description.flags = peer.flags;
      own_description.process = this_process();
      own_description.runs = runs_to(peer).size();
      own_description.probe = reinterpret_cast<std::uintptr_t>(&probe);
      for (std::size_t s = 0; s < 2; ++s) {
        const std::size_t base = flags + s * (own + ghost);
        if (peer.send >= 0)
          own_description.own[s] = base + std::size_t(p.send_offsets[std::size_t(peer.send)]) * element_bytes_;
        if (peer.receive >= 0)
          own_description.ghost[s] =
              base + own + std::size_t(p.receive_offsets[std::size_t(peer.receive)]) * element_bytes_;
      }
    }
    const auto* const raw = reinterpret_cast<const std::byte*>(&own_description);
    messages.send(peer.rank, tag_, {raw, raw + sizeof own_description});
    descriptions.push_back(messages.receive(peer.rank, tag_, sizeof own_description));
  }
  messages.finish();
  for (std::size_t i = 0; i < peers_.size(); ++i)
    std::memcpy(&peers_[i].there, descriptions[i]->data(), sizeof peers_[i].there);
}

void Route::open_segment(const Peer& peer) {
  const bool one_process = state_.transport->one_process();
  segments_->theirs[peer.rank] = Segment::open(peer.there.name, std::size_t(peer.there.bytes), !one_process);
  if (!gathers() || one_process) return;
  std::uint64_t word = 0;
  const Stretch there{peer.there.probe, sizeof word};
  read_memory(peer.there.process, {&there, 1}, reinterpret_cast<std::byte*>(&word), sizeof word, peer.rank);
  if (word != legible)
    throw Error(ErrorKind::environment,
                message("process ", peer.there.process, " of rank ", peer.rank, " is another one here"));
}

void Route::swap_runs() {
  PendingMessages messages(state_);
  std::vector<std::shared_ptr<PendingMessages::Bytes>> runs;
  for (const auto& peer : peers_) {
    const auto bytes = std::as_bytes(std::span(runs_to(peer)));
    messages.send(peer.rank, tag_, {bytes.begin(), bytes.end()});
    runs.push_back(
        messages.receive(peer.rank, tag_, std::size_t(peer.there.bytes ? peer.there.runs : 0) * sizeof(Run)));
  }
  messages.finish();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].runs.resize(runs[i]->size() / sizeof(Run));
    if (!runs[i]->empty()) std::memcpy(peers_[i].runs.data(), runs[i]->data(), runs[i]->size());
  }
}

const std::vector<Route::Run>& Route::runs_to(const Peer& peer) const {
  static const std::vector<Run> none;
  return gathers() && peer.send >= 0 ? parts_[std::size_t(peer.send)].runs : none;
}

void Route::connect(const Communicator& comm, std::string& why) {
  const std::size_t flags = find_peers(comm);
  const auto own = rounded(pattern_->send_index.size() * element_bytes_),
             ghost = rounded(pattern_->ghosts.size() * element_bytes_);
  const std::size_t bytes = rounded(flags + (gathers() ? 0 : 2 * (own + ghost)) + line);
  std::string trouble;  // of this rank
  make_window(comm, bytes, trouble);
  exchange_descriptions(bytes, flags, !trouble.empty());
  for (const auto& peer : peers_) {
    if (!shares_memory() || !trouble.empty() || peer.there.bytes == 0)
      continue;  // bytes 0: that rank reports the reason
    try {
      open_segment(peer);
    } catch (const std::exception& e) {
      trouble = e.what();
    }
  }
  if (gathers()) swap_runs();
  // If one rank cannot use the path, none does: neighbours must use the same.
  const int first = int(comm.all_min(Global(trouble.empty() ? comm.size() : comm.rank())));
  if (segments_ && segments_->mine) segments_->mine->forget();
  if (first < comm.size()) {
    why = comm.broadcast(trouble, first);
    return;
  }
  if (gathers()) return;
  memory_ = window_;
  lay_out(window_->data() + flags);
}

}  // namespace tacit::comm::detail
