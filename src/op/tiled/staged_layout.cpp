#include "staged_layout.hpp"

#include <tacit/base/error.hpp>
#include <tacit/exec/parallel.hpp>

#include "simd.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <exception>
#include <mutex>

namespace tacit::op::detail {
namespace {

// The layout of one block; offsets are relative to it.
template <class T>
struct BlockLayout {
  std::vector<Global> map_end, quad_end;  // of parts
  std::vector<std::uint32_t> slice;
  std::vector<Local> map;
  std::vector<std::uint16_t> slot, halves;
  std::vector<T> value;
  T scale = 1;
  double entries = 0, stages = 0, steps = 0, reads = 0, turns_as_given = 0, turns = 0, largest = 0;
  int longest = 0;
};

// Orders the entries of the rows of a slice so that those of one step lie in different banks, as far as a greedy choice
// achieves this. In a step, rows that must take an entry (no steps to spare) choose first; a row takes an entry from
// the free bank in which it has most.
class Slice {
 public:
  Slice(int side, int banks) : side_(side), banks_(banks), domain_(std::min(side, banks)) {}

  /// slots[begin[r]] to slots[begin[r + 1] - 1] are row r's. zero: the first of the rows of zeros.
  void order(const std::uint16_t* slots, const std::int32_t* begin, int zero) {
    steps = 0;
    for (int r = 0; r < side_; ++r) steps = std::max(steps, begin[r + 1] - begin[r]);
    pick.assign(std::size_t(steps) * std::size_t(side_), -1);
    read.assign(pick.size(), std::uint16_t(zero));
    for (int r = 0; r < side_; ++r)
      for (int i = begin[r]; i < begin[r + 1]; ++i) set(i - begin[r], r, i, slots[i]);
    if (side_ == 1) return;
    turns_as_given = count_turns();
    link_.resize(std::size_t(begin[side_]));
    for (int r = 0; r < side_; ++r) {
      head_[r].fill(-1), many_[r].fill(0), any_[r] = 0, left_[r] = begin[r + 1] - begin[r];
      for (int i = begin[r + 1] - 1; i >= begin[r]; --i) {
        const int bank = slots[i] % banks_;
        link_[std::size_t(i)] = std::exchange(head_[r][std::size_t(bank)], i);
        ++many_[r][std::size_t(bank)];
        any_[r] |= 1u << bank;
      }
    }
    for (int s = 0; s < steps; ++s)
      for (int from = 0; from < side_; from += domain_) {
        std::uint32_t used = 0;
        for (const bool tight : {true, false})
          for (int r = from; r < from + domain_; ++r) {
            if (taken_[r] == s || left_[r] == 0 || (left_[r] == steps - s) != tight) continue;
            std::uint32_t free = any_[r] & ~used;
            if (free == 0 && !tight) continue;  // the row has steps to spare
            if (free == 0) free = any_[r];
            int best = std::countr_zero(free);
            for (std::uint32_t rest = free & (free - 1); rest; rest &= rest - 1)
              if (many_[r][std::size_t(std::countr_zero(rest))] > many_[r][std::size_t(best)])
                best = std::countr_zero(rest);
            used |= 1u << best;
            const int i = std::exchange(head_[r][std::size_t(best)], -1);
            head_[r][std::size_t(best)] = link_[std::size_t(i)];
            if (--many_[r][std::size_t(best)] == 0) any_[r] &= ~(1u << best);
            taken_[r] = s, --left_[r];
            set(s, r, i, slots[i]);
          }
        // The other rows read zeros, from an unused bank.
        const int quiet = std::min(std::countr_one(used), banks_ - 1);
        for (int r = from; r < from + domain_; ++r)
          if (taken_[r] != s) set(s, r, -1, std::uint16_t(zero + quiet));
      }
    taken_.fill(-1);
    turns = count_turns();
    if (turns <= turns_as_given) return;
    turns = turns_as_given;  // idle rows caused more conflicts: keep the given order
    pick.assign(pick.size(), -1), read.assign(read.size(), std::uint16_t(zero));
    for (int r = 0; r < side_; ++r)
      for (int i = begin[r]; i < begin[r + 1]; ++i) set(i - begin[r], r, i, slots[i]);
  }

  int steps = 0;
  std::vector<std::int32_t> pick;   // for step s and row r, at s side + r: the entry, or -1
  std::vector<std::uint16_t> read;  // likewise, the row of X
  double turns_as_given = 0, turns = 0;
  /// The number of shared memory transactions.
  double reads() const { return side_ == 1 ? 0 : double(steps) * (side_ / domain_); }

 private:
  void set(int s, int r, int entry, std::uint16_t slot) {
    const auto at = std::size_t(s) * std::size_t(side_) + std::size_t(r);
    pick[at] = entry, read[at] = slot;
  }
  double count_turns() const {
    double sum = 0;
    std::array<std::uint16_t, 32> sorted;
    for (std::size_t first = 0; first < read.size(); first += std::size_t(domain_)) {
      std::copy_n(read.begin() + std::ptrdiff_t(first), domain_, sorted.begin());
      std::sort(sorted.begin(), sorted.begin() + domain_);
      std::array<std::uint8_t, 32> words{};
      int most = 1;
      for (int i = 0; i < domain_; ++i)
        if (i == 0 || sorted[std::size_t(i)] != sorted[std::size_t(i) - 1])
          most = std::max(most, int(++words[sorted[std::size_t(i)] % std::size_t(banks_)]));
      sum += most;
    }
    return sum;
  }
  int side_, banks_, domain_;
  std::array<std::array<std::int32_t, 32>, 32> head_;
  std::array<std::array<std::int32_t, 32>, 32> many_;
  std::array<std::uint32_t, 32> any_;
  std::array<int, 32> left_, taken_ = [] {
    std::array<int, 32> none;
    none.fill(-1);
    return none;
  }();
  std::vector<std::int32_t> link_;
};

template <class T>
class Builder {
 public:
  Builder(Local columns, const StagedShape& shape, bool halves)
      : shape_(shape),
        halves_(halves),
        stamp_(std::size_t(columns), -1),
        place_(std::size_t(columns)),
        slice_(shape.side(), shape.banks()) {}

  BlockLayout<T> block(Local number, const RowBuffer<T>& in) {
    BlockLayout<T> out;
    const auto rows = std::size_t(shape_.rows), slots = std::size_t(shape_.slots);
    out.entries = double(in.column.size());
    for (const T v : in.value)
      if (std::isfinite(v)) out.largest = std::max(out.largest, double(std::abs(v)));
    if (halves_ && out.largest > 0) {
      const int range = sizeof(T) == 4 ? 120 : 1000;
      out.scale = T(std::ldexp(1.0, std::clamp(std::ilogb(out.largest) - 14, -range, range)));
    }
    distinct_.clear();
    for (const Local c : in.column)
      if (std::exchange(stamp_[std::size_t(c)], number) != number) distinct_.push_back(c);
    std::sort(distinct_.begin(), distinct_.end());
    for (std::size_t i = 0; i < distinct_.size(); ++i) place_[std::size_t(distinct_[i])] = Local(i);
    const std::size_t stages = (distinct_.size() + slots - 1) / slots;
    out.stages = double(stages);
    out.map = distinct_;
    sort_by_stage(in, stages, out);
    const int side = shape_.side(), slices = shape_.slices();
    for (std::size_t s = 0; s < stages; ++s) {
      out.map_end.push_back(Global(std::min(distinct_.size(), (s + 1) * slots)));
      open(out);
      for (int l = 0; l < slices; ++l) {
        slice_.order(slot_.data(), begin_.data() + s * rows + std::size_t(l * side), shape_.slots);
        out.steps += slice_.steps, out.reads += slice_.reads();
        out.turns_as_given += slice_.turns_as_given * (side > 1), out.turns += slice_.turns * (side > 1);
        for (int step = 0; step < slice_.steps;) {
          int quads = (slice_.steps - step + 3) / 4;
          if (shape_.quads > 0) quads = std::min(quads, shape_.quads - used_);
          if (quads == 0) {
            close(out);
            out.map_end.push_back(out.map_end.back());
            open(out);
            continue;
          }
          const int steps = std::min(4 * quads, slice_.steps - step);
          require(used_ < 65536 && steps < 65536, "a slice of ", slice_.steps, " entries a row");
          out.slice[out.slice.size() - std::size_t(slices - l)] = std::uint32_t(used_) | std::uint32_t(steps) << 16;
          for (int q = 0; q < quads; ++q)
            for (int r = 0; r < side; ++r)
              for (int u = 0; u < 4; ++u) put(out, in, step + 4 * q + u, r);
          used_ += quads, step += steps;
        }
      }
      close(out);
    }
    return out;
  }

 private:
  // Entries by stage, then row, in the order given.
  void sort_by_stage(const RowBuffer<T>& in, std::size_t stages, BlockLayout<T>& out) {
    const auto rows = std::size_t(shape_.rows), slots = std::size_t(shape_.slots);
    begin_.assign(stages * rows + 1, 0);
    const std::size_t given = in.start.size() - 1;
    for (std::size_t r = 0; r < given; ++r) {
      out.longest = std::max(out.longest, int(in.start[r + 1] - in.start[r]));
      for (auto i = std::size_t(in.start[r]); i < std::size_t(in.start[r + 1]); ++i)
        ++begin_[std::size_t(place_[std::size_t(in.column[i])]) / slots * rows + r + 1];
    }
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    next_.assign(begin_.begin(), begin_.end() - 1);
    slot_.resize(in.column.size()), from_.resize(in.column.size());
    for (std::size_t r = 0; r < given; ++r)
      for (auto i = std::size_t(in.start[r]); i < std::size_t(in.start[r + 1]); ++i) {
        const auto place = std::size_t(place_[std::size_t(in.column[i])]);
        const auto at = std::size_t(next_[place / slots * rows + r]++);
        slot_[at] = std::uint16_t(place % slots), from_[at] = std::int32_t(i);
      }
  }
  void open(BlockLayout<T>& out) {
    used_ = 0;
    out.slice.insert(out.slice.end(), std::size_t(shape_.slices()), 0u);
  }
  // Pads parts to multiples of 16 bytes.
  void close(BlockLayout<T>& out) {
    const std::size_t whole = (out.slot.size() + 7) / 8 * 8;
    out.slot.resize(whole, std::uint16_t(shape_.slots));
    if (halves_) out.halves.resize(whole, 0);
    else out.value.resize(whole, T(0));
    out.quad_end.push_back(Global(whole) / (4 * shape_.side()));
  }
  void put(BlockLayout<T>& out, const RowBuffer<T>& in, int step, int row) {
    const auto at = std::size_t(step) * std::size_t(shape_.side()) + std::size_t(row);
    const int entry = step < slice_.steps ? slice_.pick[at] : -1;
    out.slot.push_back(step < slice_.steps ? slice_.read[at] : std::uint16_t(shape_.slots));
    const T v = entry < 0 ? T(0) : in.value[std::size_t(from_[std::size_t(entry)])];
    if (halves_) out.halves.push_back(to_half(float(double(v) / double(out.scale))));
    else out.value.push_back(v);
  }
  StagedShape shape_;
  bool halves_;
  int used_ = 0;  // quads of the part
  std::vector<Local> stamp_, place_, distinct_;
  std::vector<std::int32_t> begin_, next_, from_;
  std::vector<std::uint16_t> slot_;
  Slice slice_;
};

template <class V>
void append(std::vector<V>& to, const std::vector<V>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

template <class T>
StagedLayout<T> staged_layout(Local rows, Local columns, const RowSource<T>& source, const StagedShape& shape,
                              bool halves) {
  const Local blocks = Local((Global(rows) + shape.rows - 1) / shape.rows);
  std::vector<BlockLayout<T>> made(std::size_t(blocks), BlockLayout<T>{});
  std::exception_ptr failure;
  std::mutex mutex;
  exec::parallel_claims(std::size_t(blocks), 1, true, [&](exec::Claims& claims) {
    Builder<T> builder(columns, shape, halves);
    RowBuffer<T> buffer;
    claims.each([&](std::size_t number) {
      const auto b = Local(number);
      try {
        const Local begin = b * shape.rows, end = Local(std::min<Global>(rows, Global(begin) + shape.rows));
        buffer.start = {0}, buffer.column.clear(), buffer.value.clear();
        source(begin, end, buffer);
        for (const Local c : buffer.column)
          require(c >= 0 && c < columns, "an entry in column ", c, "; columns run from 0 to ", columns - 1);
        made[std::size_t(b)] = builder.block(b, buffer);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  });
  if (failure) std::rethrow_exception(failure);
  StagedLayout<T> out;
  double entries = 0, stages = 0, steps = 0, reads = 0, as_given = 0, turns = 0;
  for (auto& b : made) {
    const Global map = Global(out.map.size()), quads = Global(out.slot.size()) / (4 * shape.side());
    for (const Global e : b.map_end) out.map_begin.push_back(map + e);
    for (const Global e : b.quad_end) out.quad_begin.push_back(quads + e);
    out.part_begin.push_back(std::int32_t(out.map_begin.size()) - 1);
    append(out.slice, b.slice), append(out.map, b.map), append(out.slot, b.slot);
    append(out.halves, b.halves), append(out.value, b.value);
    if (halves) out.scale.push_back(b.scale);
    entries += b.entries, stages += b.stages, steps += b.steps, reads += b.reads;
    as_given += b.turns_as_given, turns += b.turns;
    out.largest = std::max(out.largest, b.largest), out.longest = std::max(out.longest, b.longest);
    b = {};
  }
  out.entries = Global(entries);
  if (entries > 0) {
    auto& c = out.counts;
    c.reuse = entries / double(out.map.size()), c.stages = stages / blocks;
    c.stored = double(out.slot.size()) / entries, c.steps = steps, c.padding = steps * shape.side() / entries;
    c.turns_as_given = reads > 0 ? as_given / reads : 1, c.turns = reads > 0 ? turns / reads : 1;
  }
  return out;
}

template StagedLayout<float> staged_layout(Local, Local, const RowSource<float>&, const StagedShape&, bool);
template StagedLayout<double> staged_layout(Local, Local, const RowSource<double>&, const StagedShape&, bool);

}  // namespace tacit::op::detail
