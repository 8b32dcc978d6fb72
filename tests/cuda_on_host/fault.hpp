// Faults: what a GPU would not report, or only as a wrong result.
#pragma once

#include <string>
#include <typeinfo>

namespace cuda_on_host {

/// Hands the fault to the Faults that lives, else prints it and ends the process.
void fault(const std::string& text);
/// Prints the fault and ends the process.
[[noreturn]] void fatal(const std::string& text);

/// "kernel" and the type's name as in the source; lives as long as the process.
const std::string& name_of_kernel(const std::type_info& type);

}  // namespace cuda_on_host
