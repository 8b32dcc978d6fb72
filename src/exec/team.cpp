#include <tacit/exec/team.hpp>

#include <thread>

namespace tacit::exec::detail {

void run_members(Global teams, int members, const std::function<void(Global, int)>& member,
                 const std::function<void(Global)>& left) {
  Caught caught;
  {
    std::vector<std::jthread> threads;
    for (Global team = 0; team < teams; ++team)
      for (int rank = 0; rank < members; ++rank)
        threads.emplace_back([&caught, &member, &left, team, rank] {
          try {
            member(team, rank);
          } catch (...) {
            caught.keep();
            left(team);
          }
        });
  }
  caught.rethrow();
}

}  // namespace tacit::exec::detail
