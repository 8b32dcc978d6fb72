// Recorder: what a simulated rank does between restart_clocks() and read_clocks(), so that it can be replayed without
// its numbers.
#pragma once

#include <tacit/comm/transport.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tacit::comm::detail {

/// A call. Sums and exchanges in flight are named by how many began after them, so that iterations that do the same
/// compare equal.
struct Op {
  enum class What : std::uint8_t { work, sum, sum_wait, sum_drop, post, arrive, close, gather, iteration };
  What what{};
  bool counted = false;         // sum: of the program, not of the agreement on errors
  bool wide = true;             // sum: numbers of 8 bytes, not of 4
  std::int32_t back = 0;        // sum_wait, arrive, close: which; post: the number of its halo
  const char* name = "";        // work: of the kernel; static storage
  double bytes = 0, flops = 0;  // work; sum: numbers; gather: bytes of this rank
  friend bool operator==(const Op&, const Op&) = default;
};

/// The messages of an exchange: ranks and bytes.
struct Halo {
  std::vector<std::pair<int, std::int64_t>> to, from;
  friend bool operator==(const Halo&, const Halo&) = default;
};

class Recorder {
 public:
  /// Forgets what there is, and records from now on.
  void begin() {
    *this = {};
    on_ = true;
  }
  void end() { on_ = false; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Halo>& halos() const { return halos_; }
  std::vector<Op*> gathers() {
    std::vector<Op*> found;
    for (Op& op : ops_)
      if (op.what == Op::What::gather) found.push_back(&op);
    return found;
  }
  /// What cannot be replayed; empty where all can.
  const std::string& fault() const { return fault_; }

  void work(const char* name, double bytes, double flops) {
    if (on_) ops_.push_back({.what = Op::What::work, .name = name, .bytes = bytes, .flops = flops});
  }
  void iteration() {
    if (on_) ops_.push_back({.what = Op::What::iteration});
  }
  /// Its number, for wait(); -1 while nothing is recorded.
  int sum(std::size_t n, Number number, bool counted) {
    if (!on_) return -1;
    ops_.push_back({.what = Op::What::sum, .counted = counted, .wide = number != Number::float32, .bytes = double(n)});
    return sums_++;
  }
  /// Waits until one that nobody asked for has ended.
  void drop(int sum) {
    if (on_ && known(sum)) ops_.push_back({.what = Op::What::sum_drop, .back = sums_ - sum});
  }
  void wait(int sum) {
    if (on_ && known(sum)) ops_.push_back({.what = Op::What::sum_wait, .back = sums_ - sum});
  }
  int post(const std::vector<int>& to, std::span<const std::int32_t> to_offsets, const std::vector<int>& from,
           std::span<const std::int32_t> from_offsets, std::size_t element_bytes) {
    if (!on_) return -1;
    Halo halo;
    for (std::size_t i = 0; i < to.size(); ++i)
      halo.to.emplace_back(to[i], std::int64_t(to_offsets[i + 1] - to_offsets[i]) * std::int64_t(element_bytes));
    for (std::size_t i = 0; i < from.size(); ++i)
      halo.from.emplace_back(from[i],
                             std::int64_t(from_offsets[i + 1] - from_offsets[i]) * std::int64_t(element_bytes));
    return post(std::move(halo));
  }
  void arrive(int post) { of_post(Op::What::arrive, post); }
  void close(int post) { of_post(Op::What::close, post); }
  void gather(std::size_t bytes) {
    if (on_) ops_.push_back({.what = Op::What::gather, .bytes = double(bytes)});
  }
  /// An exchange is set up, by messages that are taken as they come: played as the sum at its end alone.
  void set_up() {
    if (!on_) return;
    ++set_ups_;
    wait(sum(1, Number::int64, false));
  }
  int set_ups() const { return set_ups_; }
  /// Nothing is recorded meanwhile.
  class Pause {
   public:
    explicit Pause(Recorder* of) : of_(of && of->on_ ? of : nullptr) {
      if (of_) of_->on_ = false;
    }
    Pause(const Pause&) = delete;
    ~Pause() {
      if (of_) of_->on_ = true;
    }

   private:
    Recorder* of_;
  };
  void refuse(const char* what) {
    if (on_ && fault_.empty()) fault_ = what;
  }

 private:
  int post(Halo halo) {
    std::size_t at = 0;
    while (at < halos_.size() && halos_[at] != halo) ++at;
    if (at == halos_.size()) halos_.push_back(std::move(halo));
    ops_.push_back({.what = Op::What::post, .back = std::int32_t(at)});
    return posts_++;
  }
  bool known(int number) {
    if (number < 0) refuse("waits for what began before the clocks were restarted");
    return number >= 0;
  }
  void of_post(Op::What what, int post) {
    if (on_ && known(post)) ops_.push_back({.what = what, .back = posts_ - post});
  }
  bool on_ = false;
  std::vector<Op> ops_;
  std::vector<Halo> halos_;
  int sums_ = 0, posts_ = 0, set_ups_ = 0;
  std::string fault_;
};

}  // namespace tacit::comm::detail
