#include "../messages.hpp"
#include "../state.hpp"

#include <algorithm>
#include <cstring>

namespace tacit::comm {

using detail::State;

std::vector<std::vector<std::byte>> Communicator::all_gather_bytes(std::span<const std::byte> mine) const {
  State& s = *state_;
  std::vector<std::vector<std::byte>> all(size_);
  all[rank_].assign(mine.begin(), mine.end());
  if (s.simulated && s.simulated->recorder) s.simulated->recorder->gather(mine.size());
  // Dissemination: after round k a rank holds the items of 2^k ranks from itself upwards.
  for (int have = 1, round = 0; have < size_; have *= 2, ++round) {
    const int take = std::min(have, size_ - have);
    const int to = (rank_ - have + size_) % size_, from = (rank_ + have) % size_;
    std::vector<Global> sizes(take), sizes_in(take);
    std::vector<std::byte> data;
    for (int i = 0; i < take; ++i) {
      const auto& item = all[(rank_ + i) % size_];
      sizes[i] = Global(item.size());
      data.insert(data.end(), item.begin(), item.end());
    }
    const int tag = s.tag(State::gather_channel + round);
    const auto swap = [&](std::span<const std::byte> out, std::size_t in_bytes) {
      detail::PendingMessages messages(s);
      messages.send(to, tag, {out.begin(), out.end()});
      const auto in = messages.receive(from, tag, in_bytes);
      messages.finish();
      return std::move(*in);
    };
    const auto sizes_bytes = swap(std::as_bytes(std::span<const Global>(sizes)), take * sizeof(Global));
    std::memcpy(sizes_in.data(), sizes_bytes.data(), sizes_bytes.size());
    Global total = 0;
    for (Global n : sizes_in) total += n;
    const auto data_in = swap(data, std::size_t(total));
    auto next = data_in.begin();
    for (int i = 0; i < take; ++i) {
      all[(from + i) % size_].assign(next, next + sizes_in[i]);
      next += sizes_in[i];
    }
  }
  return all;
}

std::string Communicator::broadcast(const std::string& text, int root) const {
  const std::string mine = rank_ == root ? text : std::string();
  const auto all = all_gather_bytes(std::as_bytes(std::span(mine)));
  return {reinterpret_cast<const char*>(all[root].data()), all[root].size()};
}

}  // namespace tacit::comm
