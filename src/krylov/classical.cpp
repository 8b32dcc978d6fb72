#include "classical.hpp"

namespace tacit::krylov {
TACIT_CLASSICAL(, Host)
}  // namespace tacit::krylov
