// Gives memory back.
#pragma once

namespace tacit {

/// Frees what a container holds. `v = {}` empties a vector too, but keeps its memory.
template <class Container>
void release(Container& c) {
  c = Container();
}

}  // namespace tacit
