// The projections and updates of Gram-Schmidt on a set of vectors, each in one pass over the set.
#pragma once

#include <tacit/base/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace tacit::exec {

/// sums[i] = q_i^H v for i < j and, with `norm`, sums[j] = v^H v; n elements, this rank's part. Local; one pass over
/// the j vectors and v. Same bits for any number of threads.
template <Scalar T, Memory M>
void basis_dots(const T* const* q, int j, const T* v, std::size_t n, T* sums, bool norm);

/// v := scale (v - sum_i h_i q_i), i < j. With `norm`, returns v^H v of the new v (else 0). Local; one pass.
template <Scalar T, Memory M>
T basis_subtract(const T* const* q, int j, const T* h, T scale, T* v, std::size_t n, bool norm);

/// G(i, c) = q_i^H v_c for i < j, c < s, column after column with leading dimension j; n elements, this rank's part.
/// The v's may be the last of the q's: [Q V]^H V (its Hermitian part is then formed once). Local; one pass over the q's
/// and the v's. Same bits for any number of threads.
template <Scalar T, Memory M>
void block_dots(const T* const* q, int j, const T* const* v, int s, std::size_t n, T* G);

class DeviceResult;
/// block_dots() that is waited for later: in host memory it is done at once, on a device start() queues kernels.
template <Scalar T, Memory M>
class PendingDots {
 public:
  void start(const T* const* q, int j, const T* const* v, int s, std::size_t n);
  /// G, until the next start(). The host waits for it, not for what the device was given after it.
  const std::vector<T>& wait();
  /// Whether wait() would return at once.
  bool ready();

 private:
  std::size_t rows_ = 0;
  std::vector<T> G_;
  std::shared_ptr<DeviceResult> result_;
};

/// V := (V - Q C) W with C (j x s, leading dimension j) and W upper triangular (s x s, leading dimension s; null:
/// identity); columns of V are replaced in place. Local; one pass.
template <Scalar T, Memory M>
void block_update(const T* const* q, int j, const T* C, T* const* v, int s, const T* W, std::size_t n);

/// x_c := x_c + sum_i y_i C(i, c) for i < j, c < s, C with leading dimension j: several combinations of one basis.
/// Local; one pass over the y's.
template <Scalar T, Memory M>
void block_combine(const T* const* y, int j, const T* C, T* const* x, int s, std::size_t n);

// The same for a basis that is stored as S, while all arithmetic is in T: S = T, float for double (also complex), or
// Short<T>.

/// The upper half of a float: 8 bits of exponent, 8 of mantissa (bfloat16).
struct Bfloat16 {
  std::uint16_t bits;
};
struct ComplexBfloat16 {
  Bfloat16 re, im;
};
template <Scalar T>
using Short = std::conditional_t<is_complex<T>, ComplexBfloat16, Bfloat16>;
template <Scalar T>
using Single = std::conditional_t<is_complex<T>, std::complex<float>, float>;

/// G = [Q V]^H V, column after column with leading dimension j + s; the Hermitian part V^H V is formed once. Local; one
/// pass over Q and V: (j sizeof(S) + s sizeof(T)) n bytes. Same bits for any number of threads.
template <Scalar T, Memory M, class S>
void block_gram(const S* const* q, int j, const T* const* v, int s, std::size_t n, T* G);

/// V := (V - Q C) W as block_update. With `stored`, the new columns are rounded to S into stored[c], and v[c] itself is
/// only written for c = s - 1 (the vector that the next block starts from). Local; one pass: (j sizeof(S) + 2 s
/// sizeof(T)) n bytes.
template <Scalar T, Memory M, class S>
void block_update_stored(const S* const* q, int j, const T* C, T* const* v, int s, const T* W, S* const* stored,
                         std::size_t n);

/// block_update followed by block_gram of the new V, with Q read from memory once for both. Local; one pass:
/// (j sizeof(S) + 2 s sizeof(T)) n bytes.
template <Scalar T, Memory M, class S>
void block_update_gram(const S* const* q, int j, const T* C, T* const* v, int s, const T* W, std::size_t n, T* G);

/// block_combine of a stored basis.
template <Scalar T, Memory M, class S>
void block_combine_stored(const S* const* y, int j, const T* C, T* const* x, int s, std::size_t n);

/// v_i^H v_c for i <= c < s, in the order (0,0), (0,1), (1,1), (0,2) .., real before imaginary part, in about twice the
/// digits of T: each sum is high + low. Local; one pass. Same bits for any number of threads.
template <Scalar T, Memory M>
void precise_gram(const T* const* v, int s, std::size_t n, real_t<T>* high, real_t<T>* low);

/// to[i] := from[i] rounded to S, to nearest. Local; one pass.
template <Scalar T, Memory M, class S>
void store(const T* from, S* to, std::size_t n);

}  // namespace tacit::exec
