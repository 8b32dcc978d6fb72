#include "../messages.hpp"
#include "../state.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tacit::comm {

using detail::State;

std::vector<Communicator::Parcel> Communicator::sparse_exchange(const std::vector<Parcel>& parcels) const {
  State& s = *state_;
  std::vector<Parcel> arrived;
  auto* const recorder = s.simulated ? s.simulated->recorder : nullptr;
  std::optional<detail::Recorder::Pause> pause(std::in_place, recorder);
  // Non-blocking consensus (Hoefler, Siebert, Lumsdaine 2010, doi 10.1145/1693453.1693476): every rank acknowledges
  // what it receives; a rank whose parcels are all acknowledged enters a barrier; when the barrier completes, no parcel
  // is in flight.
  const int channel = State::sparse_channel + 2 * int(s.sparse_started++ % 64);
  const int tag = s.tag(channel), acknowledge = s.tag(channel + 1);
  detail::PendingMessages sent(s), acknowledgements(s);
  for (const auto& p : parcels) {
    if (p.rank == rank_) {
      arrived.push_back(p);
      continue;
    }
    sent.send(p.rank, tag, p.bytes);
    sent.receive(p.rank, acknowledge, 0);
  }
  PendingSum barrier;
  bool in_barrier = false;
  s.wait_until([&] {
    while (auto arrival = s.transport->probe(tag)) {
      detail::PendingMessages messages(s);
      const auto bytes = messages.receive(arrival->from, tag, arrival->bytes);
      messages.finish();
      arrived.push_back({arrival->from, std::move(*bytes)});
      acknowledgements.send(arrival->from, acknowledge, {});
    }
    if (!in_barrier) {
      if (!sent.done()) return false;
      const Global nothing = 0;
      barrier = start(&nothing, 1, Number::int64, Operation::sum, false);
      in_barrier = true;
    }
    return barrier.test();
  });
  acknowledgements.finish();
  pause.reset();
  if (recorder) recorder->set_up();
  std::sort(arrived.begin(), arrived.end(), [](const Parcel& a, const Parcel& b) { return a.rank < b.rank; });
  return arrived;
}

}  // namespace tacit::comm
