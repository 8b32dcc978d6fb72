// Work that divides: two branches at a time, each of which may divide again.
//
//   branching(rows > 2048, [&] { factorise(a); });   // and somewhere within: both(g, h)
//
// Loops that run along a tree say both() at its nodes; the threads of the team take the branches that nobody has begun,
// the largest first, and who waits for a branch does others meanwhile.
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

/// f() on the calling thread, with the others of its team at hand for both(). Where not `parallel`, on this one alone.
template <class F>
void branching(bool parallel, F&& f) {
  if (parallel) detail::run_branching(detail::call<std::remove_reference_t<F>>, detail::address(f));
  else f();
}

/// g() and h(), at the same time within branching(), else one after the other; both are done when it returns. What one
/// of them throws is thrown then; the other is not begun after that.
template <class G, class H>
void both(G&& g, H&& h) {
  detail::run_both(detail::call<std::remove_reference_t<G>>, detail::address(g),
                   detail::call<std::remove_reference_t<H>>, detail::address(h));
}

}  // namespace tacit::exec
