// sweep on device vectors. Included by sweep.hpp when nvcc compiles.
#pragma once

#include <tacit/exec/cuda.hpp>
#include <tacit/exec/kernels.hpp>
#include <tacit/exec/sweep.hpp>

#include <algorithm>
#include <bit>
#include <memory>
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

/// Sums that kernels of the current stream are computing. Copies stand for the same sums.
template <class S>
class [[nodiscard]] DeviceSums {
 public:
  using Total = typename HostSums<S>::type;
  DeviceSums() = default;
  explicit DeviceSums(std::shared_ptr<DeviceResult> written) : written_(std::move(written)) {}
  /// The host waits for these sums, not for what the stream was given after them.
  Total wait() const {
    written_->wait();
    return get();
  }
  /// Whether wait() would return at once.
  bool ready() const { return written_->ready(); }
  /// The same where the host has waited for the stream.
  Total get() const { return std::bit_cast<Total>(*static_cast<const S*>(written_->data())); }

 private:
  std::shared_ptr<DeviceResult> written_;
};
template <int K, Scalar T>
struct SumsIn<K, T, Device> {
  using type = DeviceSums<Sums<K, kernel_scalar_t<T>>>;
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
    pass.partial = static_cast<Total*>(reduction_space(most_blocks * sizeof(Total), 0).partial);
    auto result = device_result(sizeof(Total));
    launch_cuda(blocks, pass);
    launch_cuda(1, SumParts<Total, 256>{blocks, 1, pass.partial, static_cast<Total*>(result->data())});
    result->mark();
    return DeviceSums<Total>(std::move(result));
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

}  // namespace tacit::exec
