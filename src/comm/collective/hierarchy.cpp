#include <tacit/comm/hierarchy.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/comm/exchange.hpp>

#include "fixed16.hpp"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <iterator>
#include <map>

namespace tacit::comm {

Groups parse_groups(const std::string& text) {
  Groups groups;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t used = 0;
    int size = 0;
    try {
      size = std::stoi(text.substr(at), &used);
    } catch (const std::exception&) {
    }
    at += used;
    require(used > 0 && size >= 1 && (at == text.size() || (text[at] == ',' && at + 1 < text.size())),
            "expected sizes of groups of ranks like 3,6, found \"", text, "\"");
    groups.push_back(size);
    ++at;
  }
  return groups;
}

namespace {

// Trace names of a level's sums and spreads, innermost first.
const char* level_name(std::size_t level) {
  static constexpr const char* names[] = {"sums, level 1", "sums, level 2", "sums, level 3", "sums, level 4",
                                          "sums, level 5", "sums, level 6", "sums, level 7", "sums, level 8"};
  return names[std::min(level, std::size(names) - 1)];
}

// Declares the memory traffic of packing (one read, one write) and adding (two reads, one write).
void declare(Local packed, Local added, std::size_t bytes, double flops) {
  Trace::work("partial sums", (2.0 * packed + 3.0 * added) * double(bytes), flops);
}

// One level: maps the list of elements before it to the list after it.
struct Level {
  std::shared_ptr<const Pattern> pattern;     // ghosts: elements sent; send_index: positions after the level
  std::vector<Local> sent;                    // positions before the level, by ghost
  std::vector<std::pair<Local, Local>> kept;  // positions before and after
  Local before = 0, after = 0;
  // By format and bytes of an element.
  std::map<std::pair<MessageFormat, std::size_t>, std::unique_ptr<Exchange>> exchanges;
  LevelVolume volume;
};

template <class T>
constexpr std::size_t bytes_in(MessageFormat format) {
  return format == MessageFormat::full ? sizeof(T) : sizeof(std::int16_t);
}

// The rows of the messages to (or from) each neighbour of a pattern, where each has its exponents.
std::vector<Local> packed_offsets(const std::vector<Local>& offsets) {
  std::vector<Local> made{0};
  for (std::size_t i = 1; i < offsets.size(); ++i)
    made.push_back(made.back() +
                   checked_cast<Local>(detail::Fixed16::rows(std::size_t(offsets[i] - offsets[i - 1])), "a message"));
  return made;
}
std::shared_ptr<const Pattern> packed_pattern(const Pattern& p) {
  auto made = std::make_shared<Pattern>();
  made->send_ranks = p.send_ranks, made->receive_ranks = p.receive_ranks;
  made->send_offsets = packed_offsets(p.send_offsets), made->receive_offsets = packed_offsets(p.receive_offsets);
  // Messages are packed and unpacked here; only the numbers of rows count.
  made->send_index.assign(std::size_t(made->send_offsets.back()), 0);
  made->ghosts.assign(std::size_t(made->receive_offsets.back()), 0);
  return made;
}

// Packs the rows of k values of each neighbour, row(0) to row(offsets.back() - 1).
template <class T, class Row>
void pack_rows(const std::vector<Local>& offsets, int k, MessageFormat format, const Row& row, std::byte* out) {
  if constexpr (std::same_as<T, float>) {
    if (format == MessageFormat::fixed16) {
      detail::Fixed16 packer(k);
      auto* to = reinterpret_cast<std::int16_t*>(out);
      for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        const auto first = std::size_t(offsets[i]), n = std::size_t(offsets[i + 1]) - first;
        packer.pack(
            n, [&](std::size_t j) { return row(first + j); }, to);
        to += detail::Fixed16::rows(n) * std::size_t(k);
      }
      return;
    }
  }
  const std::size_t bytes = sizeof(T) * std::size_t(k);
  for (std::size_t i = 0; i < std::size_t(offsets.back()); ++i, out += bytes) std::memcpy(out, row(i), bytes);
}
// Calls take(i, values) for each row received.
template <class T, class Take>
void unpack_rows(const std::vector<Local>& offsets, int k, MessageFormat format, const std::byte* in,
                 const Take& take) {
  if constexpr (std::same_as<T, float>) {
    if (format == MessageFormat::fixed16) {
      detail::Fixed16 packer(k);
      const auto* from = reinterpret_cast<const std::int16_t*>(in);
      for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        const auto first = std::size_t(offsets[i]), n = std::size_t(offsets[i + 1]) - first;
        packer.unpack(n, from, [&](std::size_t j, const float* values) { take(first + j, values); });
        from += detail::Fixed16::rows(n) * std::size_t(k);
      }
      return;
    }
  }
  const T* values = reinterpret_cast<const T*>(in);
  for (std::size_t i = 0; i < std::size_t(offsets.back()); ++i, values += k) take(i, values);
}

}  // namespace

struct SparseReduction::Parts {
  Communicator comm;
  std::vector<Global> touched;
  Local owned = 0;
  std::vector<Level> levels;
  std::vector<LevelVolume> volume;
  struct Slot {
    int number = -1;
    bool busy = false;
    Exchange* exchange = nullptr;
    std::vector<std::byte> sum;
    MessageFormat format = MessageFormat::full;
  } slots[2];

  Level make_level(std::span<const Global> offsets, int group, bool last, std::vector<Global>& list) const;
  template <class T>
  Exchange& exchange(Level& level, int k, MessageFormat format) {
    const std::size_t bytes = bytes_in<T>(format) * std::size_t(k);
    auto& e = level.exchanges[{format, bytes}];
    if (!e)
      e = std::make_unique<Exchange>(
          comm, format == MessageFormat::full ? level.pattern : packed_pattern(*level.pattern), bytes);
    return *e;
  }
  int take(MessageFormat format) {
    for (int s = 0; s < 2; ++s)
      if (!slots[s].busy) {
        slots[s].busy = true, slots[s].format = format;
        return s;
      }
    throw Error(ErrorKind::usage, "two sums or spreads of a sparse reduction are under way already");
  }
  template <class T>
  static void pack_sent(const Level& level, const T* values, int k, MessageFormat format, std::byte* out) {
    declare(Local(level.sent.size()), 0, sizeof(T) * std::size_t(k), 0);
    pack_rows<T>(
        level.pattern->receive_offsets, k, format,
        [&](std::size_t j) { return values + std::size_t(level.sent[j]) * std::size_t(k); }, out);
  }
  template <class T>
  static void add_received(const Level& level, const std::byte* in, int k, MessageFormat format, T* values,
                           int stride) {
    const auto& index = level.pattern->send_index;
    declare(0, Local(index.size()), sizeof(T) * std::size_t(k), double(index.size()) * k);
    unpack_rows<T>(level.pattern->send_offsets, k, format, in, [&](std::size_t j, const T* received) {
      T* const to = values + std::size_t(index[j]) * std::size_t(stride);
      for (int c = 0; c < k; ++c) to[c] += received[c];
    });
  }
  // Computes the values after the level from those before it.
  template <class T>
  void sum(Level& level, const T* before, int k, MessageFormat format, T* after) {
    std::fill_n(after, std::size_t(level.after) * k, T(0));
    for (const auto& [from, to] : level.kept)
      std::memcpy(after + std::size_t(to) * k, before + std::size_t(from) * k, sizeof(T) * k);
    if (comm.size() == 1) return;
    auto& e = exchange<T>(level, k, format);
    const int number = e.open(false);
    pack_sent(level, before, k, format, e.outgoing(number));
    e.post(number);
    e.wait(number);
    add_received(level, e.incoming(number), k, format, after, k);
    e.close(number);
  }
  template <class T>
  static void pack_after(const Level& level, const T* after, int k, int stride, MessageFormat format, std::byte* out) {
    const auto& index = level.pattern->send_index;
    declare(Local(index.size()), 0, sizeof(T) * std::size_t(k), 0);
    pack_rows<T>(
        level.pattern->send_offsets, k, format,
        [&](std::size_t j) { return after + std::size_t(index[j]) * std::size_t(stride); }, out);
  }
  template <class T>
  static void unpack_before(const Level& level, const T* after, int k, int stride, MessageFormat format,
                            const std::byte* in, T* before) {
    declare(level.before, 0, sizeof(T) * std::size_t(k), 0);
    for (const auto& [from, to] : level.kept)
      std::memcpy(before + std::size_t(from) * k, after + std::size_t(to) * stride, sizeof(T) * k);
    unpack_rows<T>(level.pattern->receive_offsets, k, format, in, [&](std::size_t j, const T* received) {
      std::memcpy(before + std::size_t(level.sent[j]) * k, received, sizeof(T) * k);
    });
  }
  template <class T>
  void spread(Level& level, const T* after, int k, MessageFormat format, T* before) {
    if (comm.size() == 1) return unpack_before<T>(level, after, k, k, format, nullptr, before);
    auto& e = exchange<T>(level, k, format);
    const int number = e.open(true);
    pack_after(level, after, k, k, format, e.outgoing(number));
    e.post(number);
    e.wait(number);
    unpack_before(level, after, k, k, format, e.incoming(number), before);
    e.close(number);
  }
};

namespace {

// The sizes of groups at which something is added, and the one of all ranks.
Groups sizes_of(const Groups& groups, int ranks) {
  int within = 1;
  Groups sizes;
  for (const int g : groups) {
    require(g >= 1 && g % within == 0, "groups of ", g, " ranks around groups of ", within,
            ": every size has to be a multiple of the one before");
    if (g > 1 && g < ranks && g > within) sizes.push_back(g);
    within = g;
  }
  sizes.push_back(ranks);
  return sizes;
}

}  // namespace

// A level of groups of this size; `list`: the elements that this rank has before it, and then after it.
Level SparseReduction::Parts::make_level(std::span<const Global> offsets, int group, bool last,
                                         std::vector<Global>& list) const {
  const int rank = comm.rank(), base = rank / group * group, members = std::min(group, comm.size() - base);
  const Global first = offsets[std::size_t(rank)];
  Level level;
  level.before = checked_cast<Local>(list.size(), "the number of elements that a rank touches");
  std::map<int, std::vector<Local>> away;
  std::vector<Local> stay;
  std::size_t owner = 0;
  for (Local i = 0; i < level.before; ++i) {
    while (list[std::size_t(i)] >= offsets[owner + 1]) ++owner;
    const int reducer = base + (last ? int(owner) : int(owner) % group % members);
    if (reducer == rank) stay.push_back(i);
    else away[reducer].push_back(i);
  }
  auto pattern = std::make_shared<Pattern>();
  pattern->send_offsets = pattern->receive_offsets = {0};
  std::vector<Communicator::Parcel> parcels;
  for (const auto& [to, places] : away) {
    std::vector<Global> elements;
    for (const Local i : places) elements.push_back(list[std::size_t(i)]);
    pattern->receive_ranks.push_back(to);
    pattern->ghosts.insert(pattern->ghosts.end(), elements.begin(), elements.end());
    pattern->receive_offsets.push_back(Local(pattern->ghosts.size()));
    level.sent.insert(level.sent.end(), places.begin(), places.end());
    const auto bytes = std::as_bytes(std::span<const Global>(elements));
    parcels.push_back({to, {bytes.begin(), bytes.end()}});
  }
  std::vector<std::vector<Global>> arrived;
  for (const auto& parcel : comm.sparse_exchange(parcels)) {
    pattern->send_ranks.push_back(parcel.rank);
    auto& elements = arrived.emplace_back(parcel.bytes.size() / sizeof(Global));
    std::memcpy(elements.data(), parcel.bytes.data(), parcel.bytes.size());
  }
  std::vector<Global> next;
  if (!last) {
    for (const Local i : stay) next.push_back(list[std::size_t(i)]);
    for (const auto& elements : arrived) next.insert(next.end(), elements.begin(), elements.end());
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
  }
  level.after = last ? owned : checked_cast<Local>(next.size(), "the number of elements that a group touches");
  const auto place = [&](Global element) {
    return last ? Local(element - first) : Local(std::lower_bound(next.begin(), next.end(), element) - next.begin());
  };
  for (const Local i : stay) level.kept.emplace_back(i, place(list[std::size_t(i)]));
  for (const auto& elements : arrived) {
    for (const Global e : elements) pattern->send_index.push_back(place(e));
    pattern->send_offsets.push_back(Local(pattern->send_index.size()));
  }
  level.volume = {members, Global(list.size()), Global(level.sent.size()), Global(away.size())};
  level.pattern = std::move(pattern);
  list = std::move(next);
  return level;
}

SparseReduction::SparseReduction(Communicator communicator, std::span<const Global> offsets,
                                 std::vector<Global> touched, const Groups& groups)
    : parts_(std::make_unique<Parts>(Parts{std::move(communicator), std::move(touched), 0, {}, {}, {}})) {
  auto& p = *parts_;
  const int rank = p.comm.rank(), ranks = p.comm.size();
  collective(p.comm, [&] {
    require(offsets.size() == std::size_t(ranks) + 1, "a reduction over ", ranks, " ranks with ", offsets.size() - 1,
            " owners");
    require(std::adjacent_find(p.touched.begin(), p.touched.end(), std::greater_equal<>()) == p.touched.end(),
            "the elements that a rank touches must be ascending");
    require(p.touched.empty() || (p.touched.front() >= offsets.front() && p.touched.back() < offsets.back()),
            "a rank touches elements out of the range 0 to ", offsets.back() - 1);
    const Global first = offsets[std::size_t(rank)];
    p.owned = checked_cast<Local>(offsets[std::size_t(rank) + 1] - first, "a rank's number of elements");
    std::vector<Global> list = p.touched;
    const auto sizes = sizes_of(groups, ranks);
    for (std::size_t l = 0; l < sizes.size(); ++l) {
      p.levels.push_back(p.make_level(offsets, sizes[l], l + 1 == sizes.size(), list));
      p.volume.push_back(p.levels.back().volume);
    }
  });
}

SparseReduction::~SparseReduction() = default;
const Communicator& SparseReduction::comm() const {
  return parts_->comm;
}
const std::vector<Global>& SparseReduction::touched() const {
  return parts_->touched;
}
Local SparseReduction::owned() const {
  return parts_->owned;
}
int SparseReduction::levels() const {
  return int(parts_->levels.size());
}
const std::vector<LevelVolume>& SparseReduction::volume() const {
  return parts_->volume;
}
std::vector<LevelVolume> SparseReduction::total_volume() const {
  std::vector<LevelVolume> total = parts_->volume;
  collective(parts_->comm, [&] {
    for (auto& v : total) {
      v.group = int(parts_->comm.all_max(Global(v.group)));
      v.touched = parts_->comm.all_sum(v.touched);
      v.sent = parts_->comm.all_sum(v.sent);
      v.messages = parts_->comm.all_sum(v.messages);
    }
  });
  return total;
}
Global SparseReduction::messages(bool spread) const {
  Global n = 0;
  for (const auto& l : parts_->levels) n += Global((spread ? l.pattern->send_ranks : l.pattern->receive_ranks).size());
  return n;
}
Global SparseReduction::values(bool spread) const {
  Global n = 0;
  for (const auto& l : parts_->levels) n += spread ? Global(l.pattern->send_index.size()) : Global(l.sent.size());
  return n;
}

template <class T>
Global SparseReduction::bytes(bool spread, MessageFormat format) const {
  Global n = 0;
  for (const auto& l : parts_->levels) {
    const auto& offsets = spread ? l.pattern->send_offsets : l.pattern->receive_offsets;
    const Local rows = format == MessageFormat::full ? offsets.back() : packed_offsets(offsets).back();
    n += Global(rows) * Global(bytes_in<T>(format));
  }
  return n;
}

// Error(usage) for a format that messages of T do not have.
template <class T>
static void check_format(MessageFormat format) {
  require(std::same_as<T, float> || format == MessageFormat::full,
          "messages of doubles in 16 bits; floats can be sent so");
}

template <class T>
int SparseReduction::start_sum(const T* partial, int k, MessageFormat format) {
  check_format<T>(format);
  auto& p = *parts_;
  const Span span("reduce", "comm");
  std::vector<T> before, after;
  const T* values = partial;
  for (std::size_t l = 0; l + 1 < p.levels.size(); ++l) {
    const Span of_level(level_name(l), "comm");
    after.resize(std::size_t(p.levels[l].after) * k);
    p.sum(p.levels[l], values, k, format, after.data());
    std::swap(before, after);
    values = before.data();
  }
  const Span of_level(level_name(p.levels.size() - 1), "comm");
  Level& last = p.levels.back();
  const int token = p.take(format);
  auto& slot = p.slots[token];
  slot.sum.assign(std::size_t(p.owned) * k * sizeof(T), std::byte(0));
  T* const sum = reinterpret_cast<T*>(slot.sum.data());
  for (const auto& [from, to] : last.kept)
    std::memcpy(sum + std::size_t(to) * k, values + std::size_t(from) * k, sizeof(T) * k);
  slot.exchange = nullptr;
  if (p.comm.size() > 1) {
    try {
      Exchange& e = p.exchange<T>(last, k, format);
      slot.number = e.open(false);
      slot.exchange = &e;
      Parts::pack_sent(last, values, k, format, e.outgoing(slot.number));
      e.post(slot.number);
    } catch (...) {
      slot.busy = false;
      throw;
    }
  }
  return token;
}

template <class T>
void SparseReduction::finish_sum(int token, T* own, int k, int stride) {
  auto& p = *parts_;
  auto& slot = p.slots[token];
  const Span span("reduce", "comm"), of_level(level_name(p.levels.size() - 1), "comm");
  const T* sum = reinterpret_cast<const T*>(slot.sum.data());
  for (Local i = 0; i < p.owned; ++i)
    std::memcpy(own + std::size_t(i) * stride, sum + std::size_t(i) * k, sizeof(T) * k);
  slot.busy = false;
  if (!slot.exchange) return;
  slot.exchange->wait(slot.number);
  Parts::add_received(p.levels.back(), slot.exchange->incoming(slot.number), k, slot.format, own, stride);
  slot.exchange->close(slot.number);
}

template <class T>
int SparseReduction::start_spread(const T* own, int k, int stride, MessageFormat format) {
  check_format<T>(format);
  auto& p = *parts_;
  const Span span("spread", "comm"), of_level(level_name(p.levels.size() - 1), "comm");
  const int token = p.take(format);
  auto& slot = p.slots[token];
  slot.exchange = nullptr;
  if (p.comm.size() > 1) {
    try {
      Exchange& e = p.exchange<T>(p.levels.back(), k, format);
      slot.number = e.open(true);
      slot.exchange = &e;
      Parts::pack_after(p.levels.back(), own, k, stride, format, e.outgoing(slot.number));
      e.post(slot.number);
    } catch (...) {
      slot.busy = false;
      throw;
    }
  }
  return token;
}

template <class T>
void SparseReduction::finish_spread(int token, const T* own, int k, int stride, T* touched) {
  auto& p = *parts_;
  auto& slot = p.slots[token];
  const Span span("spread", "comm");
  slot.busy = false;
  std::vector<T> after, before;
  const std::size_t n = p.levels.size();
  const auto target = [&](std::size_t level, std::vector<T>& kept) {
    if (level == 0) return touched;
    kept.resize(std::size_t(p.levels[level].before) * k);
    return kept.data();
  };
  T* values = target(n - 1, before);
  {
    const Span of_level(level_name(n - 1), "comm");
    const std::byte* in = nullptr;
    if (slot.exchange) slot.exchange->wait(slot.number), in = slot.exchange->incoming(slot.number);
    Parts::unpack_before(p.levels[n - 1], own, k, stride, slot.format, in, values);
    if (slot.exchange) slot.exchange->close(slot.number);
  }
  for (std::size_t l = n - 1; l-- > 0;) {
    const Span of_level(level_name(l), "comm");
    std::swap(before, after);
    values = target(l, before);
    p.spread(p.levels[l], after.data(), k, slot.format, values);
  }
}

bool SparseReduction::has_room() const {
  return !parts_->slots[0].busy || !parts_->slots[1].busy;
}

void SparseReduction::abandon(int token) noexcept {
  auto& slot = parts_->slots[token];
  if (slot.busy && slot.exchange) slot.exchange->abandon(slot.number);
  slot.busy = false;
}

template Global SparseReduction::bytes<float>(bool, MessageFormat) const;
template Global SparseReduction::bytes<double>(bool, MessageFormat) const;
template int SparseReduction::start_sum(const float*, int, MessageFormat);
template int SparseReduction::start_sum(const double*, int, MessageFormat);
template void SparseReduction::finish_sum(int, float*, int, int);
template void SparseReduction::finish_sum(int, double*, int, int);
template int SparseReduction::start_spread(const float*, int, int, MessageFormat);
template int SparseReduction::start_spread(const double*, int, int, MessageFormat);
template void SparseReduction::finish_spread(int, const float*, int, int, float*);
template void SparseReduction::finish_spread(int, const double*, int, int, double*);

}  // namespace tacit::comm
