#include <tacit/comm/exchange.hpp>

#include <algorithm>

namespace tacit::comm {

Pattern Pattern::build(const Communicator& comm, std::span<const Global> offsets, std::vector<Global> needed) {
  Pattern p;
  p.ghosts = std::move(needed);
  for (std::size_t i = 1; i < p.ghosts.size(); ++i)
    require(p.ghosts[i - 1] < p.ghosts[i], "ghosts ascend, each once; ", p.ghosts[i], " comes after ", p.ghosts[i - 1]);
  std::vector<Communicator::Parcel> wanted;
  for (std::size_t i = 0; i < p.ghosts.size();) {
    const int owner = int(std::upper_bound(offsets.begin(), offsets.end(), p.ghosts[i]) - offsets.begin()) - 1;
    require(owner >= 0 && owner < comm.size() && owner != comm.rank(), "index ", p.ghosts[i],
            " is no ghost: it is owned here, or lies outside 0 to ", offsets.back());
    std::size_t end = i;
    while (end < p.ghosts.size() && p.ghosts[end] < offsets[owner + 1]) ++end;
    p.receive_ranks.push_back(owner);
    p.receive_offsets.push_back(Local(i));
    const auto bytes = std::as_bytes(std::span(p.ghosts).subspan(i, end - i));
    wanted.push_back({owner, {bytes.begin(), bytes.end()}});
    i = end;
  }
  p.receive_offsets.push_back(checked_cast<Local>(p.ghosts.size(), "the number of ghosts"));
  const auto asked = comm.sparse_exchange(wanted);
  for (const auto& parcel : asked) {
    p.send_ranks.push_back(parcel.rank);
    p.send_offsets.push_back(Local(p.send_index.size()));
    const auto* index = reinterpret_cast<const Global*>(parcel.bytes.data());
    for (std::size_t i = 0; i < parcel.bytes.size() / sizeof(Global); ++i)
      p.send_index.push_back(Local(index[i] - offsets[comm.rank()]));
  }
  p.send_offsets.push_back(checked_cast<Local>(p.send_index.size(), "the number of elements sent"));
  return p;
}

}  // namespace tacit::comm
