#include <tacit/base/names.hpp>
#include <tacit/comm/communicator.hpp>

namespace tacit::comm {
namespace {
constexpr Names<Path, 8> paths{"path",
                               {{{Path::automatic, "auto"},
                                 {Path::messages, "messages"},
                                 {Path::persistent, "persistent"},
                                 {Path::neighbour, "neighbour"},
                                 {Path::put, "put"},
                                 {Path::shared, "shared"},
                                 {Path::gather, "gather"},
                                 {Path::gaspi, "gaspi"}}}};
}
Path path_of(std::string_view name) {
  return paths.value(name);
}
const char* to_string(Path path) {
  return paths.name(path);
}
std::vector<std::string> path_names() {
  return paths.all();
}

}  // namespace tacit::comm
