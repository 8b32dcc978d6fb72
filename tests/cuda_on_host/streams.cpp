#include "streams.hpp"

#include "clock.hpp"
#include "memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>

namespace cuda_on_host::streams {
namespace {

struct State {
  std::map<int, StreamPointer> defaults;  // by device
  std::vector<StreamPointer> streams;  // that were created and not destroyed, the oldest first: an order that repeats
  std::uint64_t seed =
      std::getenv("CUDA_ON_HOST_SEED") ? std::strtoull(std::getenv("CUDA_ON_HOST_SEED"), nullptr, 10) : 0;
  std::mt19937_64 random{seed};
  int created = 0;
};
State& state() {
  static State* const one = new State;  // never destroyed: streams work while the process ends
  return *one;
}

StreamPointer& default_of(int device) {
  auto& one = state().defaults[device];
  if (!one) {
    one = std::make_shared<Stream>();
    one->device = device, one->is_default = true;
  }
  return one;
}

void do_next(Stream& s) {
  const std::uint64_t number = s.done;
  const auto after = s.pending.front().after;
  for (const Until& first : after) {
    work_until(first);
    if (s.done != number) return;  // by working ahead
  }
  const Work work = std::move(s.pending.front());
  s.pending.pop_front();
  {
    const memory::Operation operation(work.is_kernel ? s.device : memory::any_device, work.what);
    work.run();
  }
  ++s.done;
}

}  // namespace

std::vector<StreamPointer> all() {
  std::vector<StreamPointer> found = state().streams;
  for (const auto& [device, stream] : state().defaults) found.push_back(stream);
  return found;
}

StreamPointer create(int device, unsigned flags) {
  const auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->with_default = !(flags & cudaStreamNonBlocking);
  stream->number = ++state().created;
  state().streams.push_back(stream);
  return stream;
}

StreamPointer find(cudaStream_t stream, int device) {
  if (!stream) return default_of(device);
  const auto& all = state().streams;
  const auto one = std::find_if(all.begin(), all.end(), [&](const StreamPointer& s) { return handle(s) == stream; });
  return one == all.end() ? nullptr : *one;
}
bool destroy(cudaStream_t stream) {
  return std::erase_if(state().streams, [&](const StreamPointer& s) { return handle(s) == stream; }) > 0;
}
cudaStream_t handle(const StreamPointer& stream) {
  return reinterpret_cast<cudaStream_t>(stream.get());
}

void enqueue(const StreamPointer& stream, Work work) {
  if (stream->recorded) return stream->recorded->push_back(std::move(work));
  const auto comes_after = [&](const StreamPointer& other) {
    if (other->enqueued > other->done) work.after.push_back({other, other->enqueued});
    clock::follows(*stream, other->time);
  };
  if (stream->is_default) {
    for (const StreamPointer& other : state().streams)
      if (other->with_default && other->device == stream->device) comes_after(other);
  } else if (stream->with_default) {
    comes_after(default_of(stream->device));
  }
  stream->pending.push_back(std::move(work));
  ++stream->enqueued;
}

void work_until(const Until& until) {
  while (until.stream->done < until.count) {
    work_ahead();
    // An operation of another stream may have had to come after these.
    if (until.stream->done < until.count) do_next(*until.stream);
  }
}

void work_on_all() {
  for (const auto& stream : all()) work_until({stream, stream->enqueued});
}

void work_ahead() {
  if (state().seed == 0 || next_random() % 3 != 0) return;
  const State& s = state();
  const std::size_t created = s.streams.size(), count = created + s.defaults.size();
  if (count == 0) return;
  const std::size_t i = next_random() % count;
  const StreamPointer one =
      i < created ? s.streams[i] : std::next(s.defaults.begin(), std::ptrdiff_t(i - created))->second;
  if (!one->pending.empty()) do_next(*one);
}

void set_seed(std::uint64_t seed) {
  state().seed = seed;
  state().random.seed(seed);
}
std::uint64_t next_random() {
  return state().seed == 0 ? 0 : state().random();
}

void forget() {
  state().defaults.clear();
}

}  // namespace cuda_on_host::streams
