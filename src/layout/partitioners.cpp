#include <tacit/layout/partitioners.hpp>

#include <algorithm>
#include <numeric>

#ifdef TACIT_HAVE_METIS
#include <metis.h>
#endif

namespace tacit::layout {

using comm::Communicator;

bool metis_built() noexcept {
#ifdef TACIT_HAVE_METIS
  return true;
#else
  return false;
#endif
}

namespace {

void check_graph(const Communicator& comm, const Partition& partition, const GraphView& g) {
  const Global n = partition.end(comm.rank()) - partition.begin(comm.rank());
  require(Global(g.start.size()) == n + 1 && g.start.front() == 0 && g.start.back() == Global(g.column.size()),
          "a graph of ", Global(g.start.size()) - 1, " vertices and ", g.column.size(), " neighbours on rank ",
          comm.rank(), ", which owns ", n, " vertices");
  for (Global c : g.column)
    require(c >= 0 && c < partition.size(), "a graph with the neighbour ", c, "; vertices run from 0 to ",
            partition.size() - 1);
}

// Gathers the bytes of all ranks on rank 0, in the order of ranks.
template <class T>
std::vector<T> on_root(const Communicator& comm, const std::vector<T>& mine) {
  std::vector<Communicator::Parcel> parcels;
  const auto bytes = std::as_bytes(std::span(mine));
  if (!mine.empty()) parcels.push_back({0, {bytes.begin(), bytes.end()}});
  std::vector<T> all;
  for (const auto& p : comm.sparse_exchange(parcels)) {
    const std::size_t n = all.size();
    all.resize(n + p.bytes.size() / sizeof(T));
    std::memcpy(all.data() + n, p.bytes.data(), p.bytes.size());
  }
  return all;
}

// Sends rank r its range of `all`, which is on rank 0.
template <class T>
std::vector<T> from_root(const Communicator& comm, const Partition& partition, const std::vector<T>& all) {
  std::vector<Communicator::Parcel> parcels;
  for (int r = 0; comm.rank() == 0 && r < comm.size(); ++r) {
    const auto part = std::as_bytes(
        std::span(all).subspan(std::size_t(partition.begin(r)), std::size_t(partition.end(r) - partition.begin(r))));
    if (!part.empty()) parcels.push_back({r, {part.begin(), part.end()}});
  }
  std::vector<T> mine(std::size_t(partition.end(comm.rank()) - partition.begin(comm.rank())));
  for (const auto& p : comm.sparse_exchange(parcels)) std::memcpy(mine.data(), p.bytes.data(), p.bytes.size());
  return mine;
}

// The whole graph, symmetric, on rank 0; empty elsewhere.
LocalGraph gathered(const Communicator& comm, const Partition& partition, const GraphView& g) {
  const Local n = checked_cast<Local>(partition.size(), "the number of vertices of a graph that is partitioned");
  std::vector<Local> degree, column;
  for (std::size_t i = 0; i + 1 < g.start.size(); ++i) degree.push_back(Local(g.start[i + 1] - g.start[i]));
  column.reserve(g.column.size());
  for (Global c : g.column) column.push_back(Local(c));
  degree = on_root(comm, degree);
  column = on_root(comm, column);
  if (comm.rank() != 0) return {};
  LocalGraph whole;
  whole.start.reserve(std::size_t(n) + 1);
  for (Local d : degree) whole.start.push_back(whole.start.back() + d);
  whole.column = std::move(column);
  return symmetrised(whole);
}

// Recursive bisection of the order of a set of vertices, until there are `parts`.
void bisect(const LocalGraph& g, const std::vector<Local>& vertices, int first, int parts, std::vector<Local>& place,
            std::vector<int>& owner) {
  if (parts == 1 || vertices.empty()) {
    for (Local v : vertices) owner[v] = first;
    return;
  }
  LocalGraph sub;
  for (std::size_t i = 0; i < vertices.size(); ++i) place[vertices[i]] = Local(i);
  for (Local v : vertices) {
    for (Global k = g.start[v]; k < g.start[v + 1]; ++k)
      if (place[g.column[k]] >= 0) sub.column.push_back(place[g.column[k]]);
    sub.start.push_back(Global(sub.column.size()));
  }
  for (Local v : vertices) place[v] = -1;
  const auto order = reverse_cuthill_mckee(sub);
  const int left = parts / 2;
  const std::size_t cut = std::size_t(Global(order.size()) * left / parts);
  std::vector<Local> low, high;
  for (std::size_t i = 0; i < order.size(); ++i) (i < cut ? low : high).push_back(vertices[order[i]]);
  std::sort(low.begin(), low.end());
  std::sort(high.begin(), high.end());
  bisect(g, low, first, left, place, owner);
  bisect(g, high, first + left, parts - left, place, owner);
}

std::vector<int> bisected(const LocalGraph& g, int parts) {
  std::vector<int> owner(std::size_t(g.vertices()), 0);
  std::vector<Local> all(owner.size()), place(owner.size(), -1);
  std::iota(all.begin(), all.end(), Local(0));
  bisect(g, all, 0, parts, place, owner);
  return owner;
}

#ifdef TACIT_HAVE_METIS
// Empty when METIS does not succeed.
std::vector<int> by_metis(const LocalGraph& g, int parts) {
  if (std::int64_t(g.column.size()) > std::int64_t(std::numeric_limits<idx_t>::max())) return {};
  idx_t n = idx_t(g.vertices()), constraints = 1, wanted = idx_t(parts), cut = 0;
  std::vector<idx_t> start(g.start.begin(), g.start.end()), column(g.column.begin(), g.column.end()),
      part(std::size_t(n), 0);
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_NUMBERING] = 0;
  options[METIS_OPTION_SEED] = 1;
  const int status = METIS_PartGraphKway(&n, &constraints, start.data(), column.data(), nullptr, nullptr, nullptr,
                                         &wanted, nullptr, nullptr, options, &cut, part.data());
  if (status != METIS_OK) return {};
  return {part.begin(), part.end()};
}
#endif

}  // namespace

std::vector<Local> nested_dissection(const LocalGraph& g) {
#ifdef TACIT_HAVE_METIS
  const std::size_t count = std::size_t(g.vertices());
  std::vector<Local> order(count);
  std::iota(order.begin(), order.end(), Local(0));
  if (g.column.empty()) return order;
  if (std::int64_t(g.column.size()) <= std::int64_t(std::numeric_limits<idx_t>::max())) {
    idx_t n = idx_t(count), options[METIS_NOPTIONS];
    std::vector<idx_t> start(g.start.begin(), g.start.end()), column(g.column.begin(), g.column.end()), old(count),
        place(count);
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_NUMBERING] = 0;
    options[METIS_OPTION_SEED] = 1;
    if (METIS_NodeND(&n, start.data(), column.data(), nullptr, options, old.data(), place.data()) == METIS_OK)
      return {old.begin(), old.end()};
  }
  throw Error(ErrorKind::environment, message("METIS could not order a graph of ", count, " vertices"));
#else
  static_cast<void>(g);
  throw Error(ErrorKind::environment, "this build of Tacit has no METIS, which orders by nested dissection; take rcm");
#endif
}

std::vector<int> graph_parts(const Communicator& comm, const Partition& partition, GraphView graph, int parts,
                             Partitioner how) {
  return comm::collective(comm, [&] {
    require(partition.parts() == comm.size(), "a partition into ", partition.parts(), " parts for ", comm.size(),
            " ranks");
    require(parts >= 1, "a graph in ", parts, " parts");
    check_graph(comm, partition, graph);
    if (how == Partitioner::metis && !metis_built())
      throw Error(ErrorKind::environment, "this build of Tacit has no METIS; partition by bisection instead");
    const LocalGraph whole = gathered(comm, partition, graph);
    std::vector<int> owner;
    if (comm.rank() == 0) {
      // METIS fails, or leaves parts empty, for graphs with few vertices for each part or without edges.
      const bool suits = whole.vertices() >= 16 * Global(parts) && !whole.column.empty();
#ifdef TACIT_HAVE_METIS
      if (parts > 1 && how != Partitioner::bisection && suits) owner = by_metis(whole, parts);
#endif
      if (how == Partitioner::metis && owner.empty() && parts > 1 && suits)
        throw Error(ErrorKind::environment,
                    message("METIS could not cut a graph of ", whole.vertices(), " vertices into ", parts, " parts"));
      if (owner.empty()) owner = bisected(whole, parts);
    }
    return from_root(comm, partition, owner);
  });
}

// ---- renumbering ----

std::vector<Global> Renumbering::look_up(const Communicator& comm, const Partition& owners,
                                         std::span<const Global> table, std::span<const Global> indices) {
  // Request each index once from its owner; answers come in the order of the requests.
  std::vector<Global> wanted(indices.begin(), indices.end());
  for (Global i : wanted) require(i >= 0 && i < owners.size(), "index ", i, " of a renumbering of ", owners.size());
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<Communicator::Parcel> questions;
  for (std::size_t i = 0; i < wanted.size();) {
    const int owner = owners.owner(wanted[i]);
    std::size_t end = i;
    while (end < wanted.size() && wanted[end] < owners.end(owner)) ++end;
    const auto bytes = std::as_bytes(std::span(wanted).subspan(i, end - i));
    questions.push_back({owner, {bytes.begin(), bytes.end()}});
    i = end;
  }
  std::vector<Communicator::Parcel> answers;
  for (auto& asked : comm.sparse_exchange(questions)) {
    std::vector<Global> index(asked.bytes.size() / sizeof(Global));
    std::memcpy(index.data(), asked.bytes.data(), asked.bytes.size());
    for (Global& i : index) i = table[std::size_t(i - owners.begin(comm.rank()))];
    std::memcpy(asked.bytes.data(), index.data(), asked.bytes.size());
    answers.push_back(std::move(asked));
  }
  std::vector<Global> found;  // by owner, and so ascending like `wanted`
  for (const auto& answer : comm.sparse_exchange(answers)) {
    const std::size_t n = found.size();
    found.resize(n + answer.bytes.size() / sizeof(Global));
    std::memcpy(found.data() + n, answer.bytes.data(), answer.bytes.size());
  }
  std::vector<Global> result;
  result.reserve(indices.size());
  for (Global i : indices)
    result.push_back(found[std::size_t(std::lower_bound(wanted.begin(), wanted.end(), i) - wanted.begin())]);
  return result;
}

Renumbering Renumbering::by_new_index(const Communicator& comm, const Partition& before, const Partition& after,
                                      std::vector<Global> new_of_old) {
  return comm::collective(comm, [&] {
    const Global first = before.begin(comm.rank()), n = before.end(comm.rank()) - first;
    require(before.parts() == comm.size() && after.parts() == comm.size(), "partitions into ", before.parts(), " and ",
            after.parts(), " parts for ", comm.size(), " ranks");
    require(before.size() == after.size(), "a renumbering of ", before.size(), " indices to ", after.size());
    require(Global(new_of_old.size()) == n, "rank ", comm.rank(), " owns ", n, " indices but was given ",
            new_of_old.size(), " new ones");
    Renumbering p;
    p.before_ = before;
    p.after_ = after;
    p.new_of_old_ = std::move(new_of_old);
    std::vector<std::vector<std::pair<Global, Global>>> to(comm.size());  // new index, old index
    for (std::size_t i = 0; i < p.new_of_old_.size(); ++i) {
      const Global j = p.new_of_old_[i];
      require(j >= 0 && j < after.size(), "index ", first + Global(i), " is renumbered ", j,
              "; new indices run from 0 to ", after.size() - 1);
      to[after.owner(j)].emplace_back(j, first + Global(i));
    }
    std::vector<Communicator::Parcel> parcels;
    for (int r = 0; r < comm.size(); ++r) {
      if (to[r].empty()) continue;
      std::sort(to[r].begin(), to[r].end());
      p.away_.rank.push_back(r);
      auto& positions = p.away_.position.emplace_back();
      for (const auto& [j, i] : to[r]) positions.push_back(Local(i - first));
      const auto bytes = std::as_bytes(std::span(to[r]));
      parcels.push_back({r, {bytes.begin(), bytes.end()}});
    }
    const Global mine = after.begin(comm.rank());
    p.old_of_new_.assign(std::size_t(after.end(comm.rank()) - mine), -1);
    for (const auto& parcel : comm.sparse_exchange(parcels)) {
      p.arrive_.rank.push_back(parcel.rank);
      auto& positions = p.arrive_.position.emplace_back();
      const auto* pairs = reinterpret_cast<const std::pair<Global, Global>*>(parcel.bytes.data());
      for (std::size_t i = 0; i < parcel.bytes.size() / sizeof(pairs[0]); ++i) {
        const auto [j, old] = pairs[i];
        Global& place = p.old_of_new_[std::size_t(j - mine)];
        require(place < 0, "indices ", place, " and ", old, " are both renumbered ", j);
        place = old;
        positions.push_back(Local(j - mine));
      }
    }
    return p;
  });
}

Renumbering Renumbering::none(const Communicator& comm, const Partition& partition) {
  return comm::collective(comm, [&] {
    require(partition.parts() == comm.size(), "a partition into ", partition.parts(), " parts for ", comm.size(),
            " ranks");
    std::vector<Global> same(std::size_t(partition.end(comm.rank()) - partition.begin(comm.rank())));
    std::iota(same.begin(), same.end(), partition.begin(comm.rank()));
    return by_new_index(comm, partition, partition, std::move(same));
  });
}

namespace {
/// Of this rank's count[o] indices for rank o: how many of o's come from lower ranks, for those o that get some, and
/// how many this rank gets in all. Collective; messages between ranks that give to each other only.
std::pair<std::vector<std::pair<int, Global>>, Global> taken_before(const Communicator& comm,
                                                                    std::span<const Global> count) {
  const auto bytes_of = [](Global n) {
    const auto bytes = std::as_bytes(std::span(&n, 1));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const auto number_of = [](const Communicator::Parcel& parcel) {
    Global n = 0;
    std::memcpy(&n, parcel.bytes.data(), sizeof n);
    return n;
  };
  std::vector<Communicator::Parcel> given;
  for (std::size_t o = 0; o < count.size(); ++o)
    if (count[o] > 0) given.push_back({int(o), bytes_of(count[o])});
  auto taken = comm.sparse_exchange(given);  // sorted by sender
  Global all = 0;
  for (auto& parcel : taken) {
    const Global n = number_of(parcel);
    parcel.bytes = bytes_of(all);
    all += n;
  }
  std::vector<std::pair<int, Global>> before;
  for (const auto& parcel : comm.sparse_exchange(taken)) before.emplace_back(parcel.rank, number_of(parcel));
  return {std::move(before), all};
}
}  // namespace

Renumbering Renumbering::by_owner(const Communicator& comm, const Partition& before, std::span<const int> owner) {
  return comm::collective(comm, [&] {
    require(before.parts() == comm.size(), "a partition into ", before.parts(), " parts for ", comm.size(), " ranks");
    require(Global(owner.size()) == before.end(comm.rank()) - before.begin(comm.rank()), "rank ", comm.rank(), " owns ",
            before.end(comm.rank()) - before.begin(comm.rank()), " indices but was given ", owner.size(), " owners");
    const std::size_t ranks = std::size_t(comm.size());
    std::vector<Global> count(ranks, 0);
    for (int o : owner) {
      require(o >= 0 && o < comm.size(), "an index is given to rank ", o, " of ", comm.size());
      ++count[o];
    }
    const auto [before_this, received] = taken_before(comm, count);
    const auto total = comm.all_gather(received);
    const Partition after = Partition::of_counts(total);
    std::vector<Global> next(ranks, 0);
    for (const auto& [o, n] : before_this) next[std::size_t(o)] = n;
    std::vector<Global> new_of_old;
    for (int o : owner) new_of_old.push_back(after.begin(o) + next[o]++);
    return by_new_index(comm, before, after, std::move(new_of_old));
  });
}

Renumbering Renumbering::inside(const Communicator& comm, const Partition& partition,
                                std::span<const Local> old_of_new) {
  return comm::collective(comm, [&] {
    require(partition.parts() == comm.size(), "a partition into ", partition.parts(), " parts for ", comm.size(),
            " ranks");
    const Global first = partition.begin(comm.rank()), n = partition.end(comm.rank()) - first;
    require(Global(old_of_new.size()) == n, "rank ", comm.rank(), " owns ", n, " indices but was given an order of ",
            old_of_new.size());
    std::vector<Global> new_of_old(old_of_new.size(), -1);
    for (std::size_t i = 0; i < old_of_new.size(); ++i) {
      const Local old = old_of_new[i];
      require(old >= 0 && old < n && new_of_old[old] < 0, "an order of ", n, " indices that is no permutation: ", old,
              " at place ", i);
      new_of_old[old] = first + Global(i);
    }
    return by_new_index(comm, partition, partition, std::move(new_of_old));
  });
}

Renumbering Renumbering::then(const Communicator& comm, const Renumbering& next) const {
  return comm::collective(comm, [&] {
    require(after_ == next.before_, "a renumbering to ", after_.size(), " indices followed by one from ",
            next.before_.size(), " in another partition");
    return by_new_index(comm, before_, next.after_, look_up(comm, next.before_, next.new_of_old_, new_of_old_));
  });
}

std::vector<Global> Renumbering::to_new(const Communicator& comm, std::span<const Global> old_indices) const {
  return comm::collective(comm, [&] { return look_up(comm, before_, new_of_old_, old_indices); });
}

}  // namespace tacit::layout
