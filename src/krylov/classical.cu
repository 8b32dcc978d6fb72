#include "classical.hpp"

namespace tacit::krylov {
TACIT_CLASSICAL(, Device)
}  // namespace tacit::krylov
