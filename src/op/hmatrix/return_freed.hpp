// Memory that was freed in small pieces.
#pragma once

#include <cstdlib>  // says whether the library is glibc

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tacit::op::detail {

/// Gives memory that was freed in small pieces back to the system: the next step needs it in large ones.
inline void return_freed() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace tacit::op::detail
