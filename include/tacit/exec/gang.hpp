// Gang: all teams of one launch, running at the same time and synchronising with each other (a cooperative launch). A
// kernel that iterates on a small problem is then launched once instead of once for each step.
//
// A kernel over a Gang is written like one over a Team (team.hpp) and runs three ways: launch_gang_serial (one host
// thread is the gang), launch_gang_threads (a real thread for every member of every team, for the race checker) and
// launch_gang_cuda (gang.cuh).
#pragma once

#include <tacit/exec/team.hpp>

namespace tacit::exec {

/// A team among teams(), with number block(). meet() is a barrier over all members of all teams, after which each sees
/// what the others wrote before it. Every member calls it equally often.
template <class T>
concept Gang = Team<T> && requires(const T gang) {
  { gang.teams() } -> std::convertible_to<Global>;
  gang.meet();
};

class SerialGang : public SerialTeam {
 public:
  SerialGang() : SerialTeam(0) {}
  Global teams() const { return 1; }
  void meet() const {}
};

template <int N>
class ThreadGang : public ThreadTeam<N> {
 public:
  ThreadGang(Global team, int rank, typename ThreadTeam<N>::Common& common, Global teams, std::barrier<>& all)
      : ThreadTeam<N>(team, rank, common), teams_(teams), all_(&all) {}
  Global teams() const { return teams_; }
  void meet() const { all_->arrive_and_wait(); }

 private:
  Global teams_;
  std::barrier<>* all_;
};

/// Sums over a gang, with one meet() each, which also makes earlier writes visible. `partial` has room for 2 teams()
/// values. Values are added within teams, then over teams, in an order that depends on their numbers only.
template <class V>
class GangSum {
 public:
  TACIT_HD explicit GangSum(V* partial) : partial_(partial) {}
  template <Gang G>
  TACIT_HD V operator()(const G& gang, const V& v) {
    const V of_team = gang.sum(v);
    // Two slots suffice: before a slot is written again, all teams have met after reading it.
    V* const slot = partial_ + turn_ * gang.teams();
    turn_ = 1 - turn_;
    ++meetings_;
    if (gang.rank() == 0) slot[gang.block()] = of_team;
    gang.meet();
    V total{};
    for (Global t = gang.rank(); t < gang.teams(); t += G::threads) add_to(total, slot[t]);
    return gang.sum(total);
  }
  TACIT_HD int meetings() const { return meetings_; }

 private:
  V* partial_;
  int turn_ = 0, meetings_ = 0;
};

/// Runs the kernel with one host thread as the whole gang.
template <class Kernel>
void launch_gang_serial(const Kernel& kernel) {
  const auto shared = std::make_unique_for_overwrite<typename Kernel::Shared>();
  kernel(SerialGang(), *shared);
}

/// Runs the kernel with a real thread for every member of every team. For tests: slow. A member that throws leaves the
/// gang, which goes on without it; the error is rethrown when all have returned.
template <class Kernel>
void launch_gang_threads(Global teams, const Kernel& kernel) {
  constexpr int N = Kernel::threads;
  using Shared = typename Kernel::Shared;
  struct Side {
    typename ThreadTeam<N>::Common common;
    std::unique_ptr<Shared> shared = std::make_unique_for_overwrite<Shared>();
  };
  std::barrier<> all(N * teams);
  std::vector<std::unique_ptr<Side>> sides;
  for (Global team = 0; team < teams; ++team) sides.push_back(std::make_unique<Side>());
  const auto member = [&](Global team, int rank) {
    Side& side = *sides[std::size_t(team)];
    kernel(ThreadGang<N>(team, rank, side.common, teams, all), *side.shared);
  };
  detail::run_members(teams, N, member, [&](Global team) {
    sides[std::size_t(team)]->common.barrier.arrive_and_drop();
    all.arrive_and_drop();
  });
}

}  // namespace tacit::exec
