#include <tacit/base/names.hpp>
#include <tacit/op/schedule.hpp>

namespace tacit::op {
namespace {
using How = Schedule::How;
constexpr Names<How, 5> hows{{{{How::automatic, "auto"},
                               {How::overlapped, "overlapped"},
                               {How::synchronous, "synchronous"},
                               {How::split, "split"},
                               {How::jobs, "jobs"}}}};
}  // namespace
Schedule::How schedule_of(std::string_view name) {
  return hows.value(name, "schedule");
}
const char* to_string(Schedule::How how) {
  return hows.name(how);
}
std::vector<std::string> schedule_names() {
  return hows.all();
}

}  // namespace tacit::op
