// Control groups of Linux, which limit what containers and jobs may use.
#pragma once

#include <functional>
#include <string>

namespace tacit {

/// The files that Linux reports a process's control groups in; others in tests.
struct ControlGroupFiles {
  std::string groups = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// Calls f(folder, version) for the control groups of this process that may limit what `controller` ("cpu", "memory")
/// controls, and for all their ancestors, whose limits hold too. `version` is 1 or 2; the names of the files in a
/// folder depend on it. A container may not see the groups around it: folders need not exist. Local.
void each_control_group(const std::string& controller, const ControlGroupFiles& files,
                        const std::function<void(const std::string& folder, int version)>& f);

}  // namespace tacit
