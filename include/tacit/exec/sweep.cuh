// sweep on device vectors. Included by sweep.hpp when nvcc compiles.
#pragma once

#include <tacit/exec/cuda.hpp>
#include <tacit/exec/kernels.hpp>
#include <tacit/exec/sweep.hpp>

#include <algorithm>
#include <bit>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tacit::exec {

/// The formula as a kernel computes it: F<std::complex<R>> becomes F<Complex<R>>, with the same bytes.
template <class F>
struct KernelFormula {
  using type = F;
};
template <template <class> class F, class T>
struct KernelFormula<F<T>> {
  using type = F<kernel_scalar_t<T>>;
};
template <template <class, int> class F, class T, int K>
struct KernelFormula<F<T, K>> {
  using type = F<kernel_scalar_t<T>, K>;
};

/// Sums with the host's scalar: Sums<K, Complex<R>> is Sums<K, std::complex<R>> with the same bytes.
template <class S>
struct HostSums {
  using type = S;
};
template <int K, class R>
struct HostSums<Sums<K, Complex<R>>> {
  using type = Sums<K, std::complex<R>>;
};

/// Sums that a kernel of the current stream writes; get() is valid after the stream has been waited for and before
/// other sums of that stream are started.
template <class S>
struct DeviceSums {
  const void* at;
  typename HostSums<S>::type get() const {
    return std::bit_cast<typename HostSums<S>::type>(*static_cast<const S*>(at));
  }
};

namespace detail {

/// The number of values that one thread takes at a time: 16 bytes of the widest type.
template <class... T>
inline constexpr int sweep_width = static_cast<int>(16 / std::max({sizeof(T)...}));

template <int W, class F, class... R, class... U, class... V, std::size_t... r, std::size_t... u, std::size_t... v>
auto launch_sweep(Global n, const F& f, Types<R...>, Types<U...>, Types<V...>, const auto& in, const auto& io,
                  const auto& out, std::index_sequence<r...>, std::index_sequence<u...>, std::index_sequence<v...>) {
  using Pass = SweepPass<F, Types<R...>, Types<U...>, Types<V...>, W, 256>;
  using Total = typename Pass::Total;
  const Global blocks = blocks_for(n, Global(Pass::threads) * Pass::width);
  Pass pass{n, blocks, f, {}, {}, {}, nullptr};
  ((get<r>(pass.in) = kernel_pointer(std::get<r>(in).data())), ...);
  ((get<u>(pass.io) = kernel_pointer(std::get<u>(io).data())), ...);
  ((get<v>(pass.out) = kernel_pointer(std::get<v>(out).data())), ...);
  if constexpr (!Pass::has_sums) {
    if (n > 0) launch_cuda(blocks, pass);
  } else {
    const ReductionSpace space = reduction_space(most_blocks * sizeof(Total), sizeof(Total));
    pass.partial = static_cast<Total*>(space.partial);
    launch_cuda(blocks, pass);
    launch_cuda(1, SumParts<Total, 256>{blocks, 1, pass.partial, static_cast<Total*>(space.result)});
    return DeviceSums<Total>{space.result};
  }
}

}  // namespace detail

/// sweep on vectors in device memory: one launch, with sums a second one of a single block; the host does not wait. The
/// order of summation depends on n, on the types and on the alignment of the vectors to 16 bytes, not on the device.
/// Error(environment) when a CUDA call fails.
template <class F, class... R, class... U, class... W>
auto start_device_sweep(std::size_t n, const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out,
                        const F& f) {
  using G = typename KernelFormula<F>::type;
  static_assert(sizeof(G) == sizeof(F) && alignof(G) == alignof(F) && std::is_trivially_copyable_v<F>,
                "a formula holds scalars T, real_t<T> or integers, and is copied to the device byte by byte");
  const G g = std::bit_cast<G>(f);
  using detail::launch_sweep;
  constexpr int wide = detail::sweep_width<typename R::scalar..., typename U::scalar..., typename W::scalar...>;
  const auto fits = [](const auto&... view) { return (is_aligned<wide>(kernel_pointer(view.data())) && ...); };
  const auto launch = [&]<int width>(std::integral_constant<int, width>) {
    return launch_sweep<width>(
        static_cast<Global>(n), g, Types<kernel_scalar_t<typename R::scalar>...>{},
        Types<kernel_scalar_t<typename U::scalar>...>{}, Types<kernel_scalar_t<typename W::scalar>...>{}, in.v, io.v,
        out.v, std::index_sequence_for<R...>{}, std::index_sequence_for<U...>{}, std::index_sequence_for<W...>{});
  };
  if (std::apply(fits, in.v) && std::apply(fits, io.v) && std::apply(fits, out.v))
    return launch(std::integral_constant<int, wide>{});
  return launch(std::integral_constant<int, 0>{});
}

/// The same, and the host waits for the sums.
template <class F, class... R, class... U, class... W>
auto device_sweep(std::size_t n, const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out, const F& f) {
  if constexpr (std::is_void_v<decltype(start_device_sweep(n, in, io, out, f))>) {
    start_device_sweep(n, in, io, out, f);
  } else {
    const auto sums = start_device_sweep(n, in, io, out, f);
    wait_for_device();
    return sums.get();
  }
}

}  // namespace tacit::exec
