// The solves of bench_clock on the simulated ranks of SimGrid's SMPI: the same library, with a transport whose
// messages, and kernels, take the time that SimGrid gives them. A module that smpirun loads once for each rank
// (bench/clock.py):
//   smpirun ... libbench_smpi.so [words of bench_clock]
// The machine's latency and gap are those of smpirun's platform, its overhead smpi/ois and smpi/or. delivery: eager
// needs smpi/async-small-thresh. Progress ideal has no equal there.
#include <mpi.h>
#include <simgrid/engine.h>

#include "clock.hpp"

#include "comm/transport/simulated/rank.hpp"

#include <tacit/base/trace.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <unordered_map>

using namespace tacit;

namespace {

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(ErrorKind::environment, message(call, " failed in SMPI: ", code));
}

class Rank final : public comm::detail::SimulatedRank {
 public:
  explicit Rank(const comm::MachineModel& m) : machine_(m) {
    require(m.progress != comm::MachineModel::Progress::ideal,
            "no message of SMPI advances by itself; progress poll or "
            "in_wait is needed");
    require(m.noise == 0 && m.levels.empty(), "SMPI is compared on a flat machine without noise");
    Trace::use(this);
  }
  double now() const noexcept override { return simgrid_get_clock() - origin_; }
  void work(const char*, double bytes, double flops) override {
    double seconds = machine_.kernel_seconds(bytes, flops);
    kernels_ += seconds;
    const bool polls = machine_.progress == comm::MachineModel::Progress::poll;
    while (seconds > 0) {
      const double piece = polls ? std::min(seconds, machine_.poll_interval) : seconds;
      smpi_execute(piece);
      seconds -= piece;
      if (polls) poll();
    }
  }
  bool wait(Check) override {
    const Spent spent(*this);
    if (probed_) {  // a message that no receive has been posted for may be what the rank waits for
      probed_ = false;
      smpi_execute(1e-6);
      return false;
    }
    std::vector<MPI_Request> open;
    std::vector<Posted*> who;
    for (auto& [number, posted] : posted)
      if (!posted.done) open.push_back(posted.request), who.push_back(&posted);
    if (open.empty()) throw Error(ErrorKind::environment, "a rank waits, and expects no message");
    int first = 0;
    MPI_Status status;
    check(MPI_Waitany(int(open.size()), open.data(), &first, &status), "MPI_Waitany");
    who[std::size_t(first)]->finish(status);
    return false;  // the caller looks for itself
  }
  void let_others_catch_up() override { smpi_execute(1e-7); }
  void sum_started(const comm::Transport&, int) override {}
  void sum_taken(const comm::Transport&, int) override {}
  bool may_poll() const override { return polling_; }
  const comm::MachineModel& machine() const override { return machine_; }
  void on_outer_stack(const std::function<void()>& f) override { f(); }
  void restart_clocks(const std::function<void()>&) override {
    double latest = simgrid_get_clock();
    check(MPI_Allreduce(MPI_IN_PLACE, &latest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    origin_ = latest + 1;
    smpi_execute(origin_ - simgrid_get_clock());
    messages = bytes = 0, kernels_ = 0;
    phases_.clear();
  }
  comm::SimulatedTimes read_clocks(const std::function<void()>&) override {
    comm::SimulatedTimes t;
    t.finish = now();
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::int64_t counts[2] = {messages, bytes};
    double means[4] = {phases_["sum"] / ranks, phases_["halo"] / ranks, phases_["agree"] / ranks, kernels_ / ranks};
    check(MPI_Allreduce(MPI_IN_PLACE, &t.finish, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    check(MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    check(MPI_Allreduce(MPI_IN_PLACE, means, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    const char* const names[] = {"sum", "halo", "agree", "all kernels"};
    for (int i = 0; i < 4; ++i) t.phases.push_back({names[i], i == 3, means[i], 0});
    t.messages = counts[0], t.bytes = counts[1];
    return t;
  }

  struct Posted {
    MPI_Request request = MPI_REQUEST_NULL;
    bool done = false;
    int bytes = 0;
    void finish(MPI_Status& status) {
      done = true;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
    }
  };
  std::map<std::uintptr_t, Posted> posted;  // receives in the order of posting
  std::uintptr_t receives = 0;
  std::int64_t messages = 0, bytes = 0;
  std::vector<std::function<void()>> polls;
  void probes() { probed_ = true; }

  /// Adds the time until the end of the block to the phase.
  struct Spent {
    explicit Spent(Rank& r, const char* otherwise = "agree") : rank(r), name(r.phase_ ? r.phase_ : otherwise) {}
    Spent(const Spent&) = delete;
    ~Spent() { rank.phases_[name] += simgrid_get_clock() - began; }
    Rank& rank;
    const std::string name;
    const double began = simgrid_get_clock();
  };

 protected:
  void begins(const char*) override {}

 private:
  void poll() {
    if (polling_) return;
    polling_ = true;
    for (std::size_t i = 0; i < polls.size(); ++i) polls[i]();
    polling_ = false;
  }
  const comm::MachineModel machine_;
  double origin_ = 0, kernels_ = 0;
  bool polling_ = false, probed_ = false;
  std::map<std::string, double> phases_;
};

class SmpiTransport final : public comm::Transport {
 public:
  SmpiTransport(Rank& me, MPI_Comm parent) : me_(me) {
    check(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* kind() const override { return "simulated"; }
  comm::Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    const Rank::Spent spent(me_, phase(tag));
    MPI_Request request;
    check(MPI_Isend(data, int(bytes), MPI_BYTE, to, tag, comm_, &request), "MPI_Isend");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");  // detached: SMPI has copied it
    ++me_.messages, me_.bytes += std::int64_t(bytes);
    return {};
  }
  comm::Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    comm::Ticket t;
    t.words[0] = ++me_.receives, t.words[1] = bytes;
    t.numbers[0] = from, t.numbers[1] = tag;
    t.active = true;
    check(MPI_Irecv(data, int(bytes), MPI_BYTE, from, tag, comm_, &me_.posted[t.words[0]].request), "MPI_Irecv");
    return t;
  }
  bool test(comm::Ticket& t) override {
    if (!t.active) return true;
    auto& posted = me_.posted.at(t.words[0]);
    if (!posted.done) {
      const Rank::Spent spent(me_, phase(t.numbers[1]));
      int flag = 0;
      MPI_Status status;
      check(MPI_Test(&posted.request, &flag, &status), "MPI_Test");
      if (!flag) return false;
      posted.finish(status);
    }
    if (std::size_t(posted.bytes) != t.words[1])
      throw Error(ErrorKind::environment, message("a message of ", posted.bytes, " bytes from rank ", t.numbers[0],
                                                  " where ", t.words[1], " were expected"));
    me_.posted.erase(t.words[0]);
    t.active = false;
    return true;
  }
  void cancel(comm::Ticket& t, std::shared_ptr<void>) override {
    if (!t.active) return;
    t.active = false;
    const auto it = me_.posted.find(t.words[0]);
    if (!it->second.done) MPI_Request_free(&it->second.request);
    me_.posted.erase(it);
  }
  std::optional<Arrival> probe(int tag) override {
    me_.probes();
    int flag = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &flag, &status), "MPI_Iprobe");
    if (!flag) return {};
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return Arrival{status.MPI_SOURCE, std::size_t(bytes)};
  }
  void send_notice(const comm::Notice& notice) override {
    std::fprintf(stderr, "bench_smpi: %s\n", notice.text.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::optional<comm::Notice> poll_notice() override { return {}; }
  std::shared_ptr<comm::Transport> duplicate() override { return std::make_shared<SmpiTransport>(me_, comm_); }
  comm::detail::SimulatedRank* simulated() override { return &me_; }
  void polls(std::function<void()> push_on) override { me_.polls.push_back(std::move(push_on)); }

 private:
  static const char* phase(int tag) { return tag % 4096 < 512 ? "sum" : "halo"; }  // channels of src/comm/state.hpp
  Rank& me_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    auto given = bench::clock_words();
    given.take(argc, argv);
    Rank me(bench::clock_machine(given));
    {
      const comm::Communicator comm(std::make_shared<SmpiTransport>(me, MPI_COMM_WORLD));
      bench::run(comm, given, {comm::restart_clocks, comm::read_clocks});
    }
    MPI_Finalize();
    Trace::use(nullptr);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_smpi: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 1;
}
