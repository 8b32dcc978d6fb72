#include <tacit/precond/column_scaling.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tacit::precond {

template <Scalar T>
std::shared_ptr<op::Diagonal<T, Host>> column_scaling(const op::Csr<T, Host>& A, double damp) {
  using R = real_t<T>;
  const double largest = A.largest();
  const int e = largest > 0 && std::isfinite(largest) ? std::ilogb(largest) : 0;
  auto rows = A.rows();
  for (T& v : rows.value) {  // squares of entries near 1
    if constexpr (is_complex<T>) v = T(std::ldexp(v.real(), -e), std::ldexp(v.imag(), -e));
    else v = std::ldexp(v, -e);
    v = T(abs2(v));
  }
  const op::Csr<T, Host> squares(A.range(), A.domain(), std::move(rows));
  layout::Vector<T, Host> ones(A.range()), lengths(A.domain());
  layout::fill(ones, T(1));
  squares.apply_adjoint(ones, lengths);
  auto scaling = lengths.to_host();
  const double shift = std::ldexp(damp, -e);
  for (T& v : scaling) {
    const double length = std::sqrt(double(real(v)) + shift * shift);
    const double inverse = std::ldexp(length == 0 ? 1 : 1 / length, -e);
    v = T(R(std::min(inverse, double(std::numeric_limits<R>::max()))));
  }
  layout::Vector<T, Host> d(A.domain());
  d.assign(scaling);
  return std::make_shared<op::Diagonal<T, Host>>(std::move(d), "jacobi");
}

#define TACIT_INSTANTIATE(T) \
  template std::shared_ptr<op::Diagonal<T, Host>> column_scaling<T>(const op::Csr<T, Host>&, double);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
