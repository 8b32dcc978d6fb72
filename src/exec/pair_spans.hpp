// The trace spans of the kernels on pairs, the same on host and device.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/base/types.hpp>

#include <cstddef>
#include <cstdint>

namespace tacit::exec {

template <class T>
Span pair_gram_span(bool same, int columns, bool with_shadow, std::size_t n) {
  return Span("pair gram", "exec", std::int64_t(((same ? 1 : 2) * columns + int(with_shadow)) * n * sizeof(T)),
              (is_complex<T> ? 8.0 : 2.0) * double(n) * columns * (0.5 * (columns + 1) + int(with_shadow)));
}
template <class T>
Span pair_combine_span(bool pair, bool x, int columns, std::size_t n) {
  return Span("pair combine", "exec", std::int64_t((columns + (pair ? 2 : 0) + (x ? 2 : 0)) * n * sizeof(T)),
              (is_complex<T> ? 8.0 : 2.0) * double(n) * columns * ((pair ? 2 : 0) + (x ? 1 : 0)));
}
template <class T>
Span pair_put_span(std::size_t n) {
  return Span("pair put", "exec", std::int64_t(3 * n * sizeof(T)));
}
template <class T>
Span largest_magnitude_span(std::size_t n, std::size_t stride) {
  return Span("largest magnitude", "exec", std::int64_t(stride * n * sizeof(T)));
}

}  // namespace tacit::exec
