#include <tacit/base/control_groups.hpp>

#include <fstream>

namespace tacit {

void each_control_group(const std::string& controller, const ControlGroupFiles& files,
                        const std::function<void(const std::string& folder, int version)>& f) {
  const auto upwards = [&](const std::string& mount, std::string path, int version) {
    for (;; path.erase(path.rfind('/'))) {
      f(files.root + mount + path, version);
      if (path.empty() || path.rfind('/') == std::string::npos) return;
    }
  };
  std::ifstream file(files.groups);  // lines "number:controllers:path", without controllers for version 2
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      for (const char* mount : {"", "/unified"}) upwards(mount, path, 2);
    } else if ((',' + controllers + ',').find(',' + controller + ',') != std::string::npos) {
      upwards('/' + controller, path, 1);
      if (controllers != controller) upwards('/' + controllers, path, 1);
    }
  }
}

}  // namespace tacit
