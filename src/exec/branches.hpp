// Fork-join parallelism: work that divides into two branches, each of which may divide again.
//
//   branching(rows > 2048, [&] { factorise(a); });   // and somewhere within: both(g, h)
//
// Recursions over a tree call both() at its nodes; the threads of the team take branches that have not begun, the
// largest first, and a thread that waits for a branch does others meanwhile.
#pragma once

#include <type_traits>

namespace tacit::exec {

namespace detail {
void run_branching(void (*f)(void*), void* of);
void run_both(void (*g)(void*), void* of_g, void (*h)(void*), void* of_h);
template <class F>
void call(void* of) {
  (*static_cast<F*>(of))();
}
template <class F>
void* address(F& f) {
  return const_cast<void*>(static_cast<const void*>(&f));
}
}  // namespace detail

/// Runs f() on the calling thread; the other threads of its team take branches of both(). Unless `parallel`, all runs
/// on the calling thread.
template <class F>
void branching(bool parallel, F&& f) {
  if (parallel) detail::run_branching(detail::call<std::remove_reference_t<F>>, detail::address(f));
  else f();
}

/// Runs g() and h(), concurrently within branching(), else one after the other; both are done when it returns. Rethrows
/// an exception of either; after one the other is not begun.
template <class G, class H>
void both(G&& g, H&& h) {
  detail::run_both(detail::call<std::remove_reference_t<G>>, detail::address(g),
                   detail::call<std::remove_reference_t<H>>, detail::address(h));
}

}  // namespace tacit::exec
