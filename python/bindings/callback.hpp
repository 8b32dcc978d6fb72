// Callbacks of solves that are Python functions.
#pragma once

#include "bindings.hpp"

#include <tacit/krylov/options.hpp>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace tacit::python {

/// The argument of a callback; `solution` computes this rank's part of x_k, and is valid while the callback runs.
struct CallbackState {
  int iteration;
  double residual_norm;
  std::function<nb::object()> solution;
  int column;
};

/// n: the elements that the solve keeps on this rank, of which those from `first` on, `count` of them, are this rank's
/// own.
template <Scalar T>
std::function<bool(const krylov::State&)> trampoline(int ranks, std::size_t n, std::size_t first, std::size_t count,
                                                     nb::handle callback) {
  return [=](const krylov::State& s) {
    return call_python(ranks, [&] {
      nb::object state = nb::cast(
          CallbackState{s.iteration, s.residual_norm,
                        [&s, n, first, count] {
                          std::vector<T> x(n);
                          unlocked([&] { s.solution(x.data()); });
                          const auto own = x.begin() + std::ptrdiff_t(first);
                          return array_of(count == n ? std::move(x) : std::vector<T>(own, own + std::ptrdiff_t(count)));
                        },
                        s.column});
      auto* const held = nb::inst_ptr<CallbackState>(state);
      struct Ends {
        CallbackState* state;
        ~Ends() { state->solution = nullptr; }
      } ends{held};
      return nb::cast<bool>(callback(state));
    });
  };
}
template <Scalar T>
std::function<bool(const krylov::State&)> trampoline(int ranks, Local n, nb::handle callback) {
  return trampoline<T>(ranks, std::size_t(n), 0, std::size_t(n), callback);
}

}  // namespace tacit::python
