#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/residual.hpp>
#include "base/double_double.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace tacit::op {
namespace {

/// A sum of products with its error terms. (Compiled without contraction and reassociation, as all of Tacit.)
struct Twice {
  double high, low = 0;
  void subtract(double a, double x) {
    const auto p = DoubleDouble::product(-a, x), s = DoubleDouble::sum(high, p.high);
    high = s.high;
    low += s.low + p.low;
  }
  double value() const { return high + low; }
};
/// Products of floats are exact in double.
struct Once {
  double sum;
  void subtract(double a, double x) { sum -= a * x; }
  double value() const { return sum; }
};

template <Scalar T>
struct Sum {
  using R = real_t<T>;
  using Real = std::conditional_t<std::same_as<R, double>, Twice, Once>;
  explicit Sum(T b) : re{double(std::real(b))}, im{double(std::imag(b))} {}
  /// factor a x. The factor goes to a, whose product with it is a number of the scaled problem; that with x may leave
  /// the range.
  void subtract(double factor, T a, T x) {
    const double real = factor * double(std::real(a));
    re.subtract(real, std::real(x));
    if constexpr (is_complex<T>) {
      const double imag = factor * double(std::imag(a));
      re.subtract(-imag, std::imag(x));
      im.subtract(real, std::imag(x));
      im.subtract(imag, std::real(x));
    }
  }
  T value() const {
    if constexpr (is_complex<T>) return {R(re.value()), R(im.value())};
    else return R(re.value());
  }
  Real re, im;
};

/// The values of x at the ghosts of the matrix, in their order.
template <Scalar T>
std::vector<T> ghosts_of(const Csr<T, Host>& A, const Vector<T, Host>& x) {
  const auto& comm = A.domain().comm();
  if (comm.size() == 1) return {};
  // Does not own the pattern. Messages: other paths are worth their set-up only for many exchanges.
  const std::shared_ptr<const comm::Pattern> pattern(std::shared_ptr<void>(), &A.pattern());
  comm::Exchange e(comm, pattern, sizeof(T), comm::Path::messages);
  const int number = e.open();
  e.post(number, x.data());
  e.wait(number);
  const T* const in = reinterpret_cast<const T*>(e.incoming(number));
  std::vector<T> values(in, in + pattern->ghost_count());
  e.close(number);
  return values;
}

/// r = b - factor A x, computed by the operator in double precision where there is one.
template <Scalar T>
bool residual_in_double(const Operator<T, Host>& A, double factor, const Vector<T, Host>& b, const Vector<T, Host>& x,
                        Vector<T, Host>& r) {
  if constexpr (std::same_as<real_t<T>, float>) {
    using D = in_double_t<T>;
    const auto wider = A.in_double();
    if (!wider) return false;
    Vector<D, Host> image(wider->range());
    wider->apply(layout::in_double(x), image);
    exec::settle();
    for (std::size_t i = 0; i < r.size(); ++i) r.data()[i] = T(D(b.data()[i]) - factor * image.data()[i]);
    return true;
  } else {
    return false;
  }
}

}  // namespace

template <Scalar T, Memory M>
bool precise_residual(const Operator<T, M>& given, double factor, const Vector<T, M>& b, const Vector<T, M>& x,
                      Vector<T, M>& r) {
  int exponent = 0;
  require(std::abs(std::frexp(factor, &exponent)) == 0.5, "the factor of a precise residual is ", factor,
          "; a power of two, or minus one, is needed");
  const Operator<T, M>& A = given.itself();
  if (x.columns() != 1) return false;
  require(x.space() == A.domain() && b.space() == A.range() && r.space() == A.range(), "a precise residual of a ",
          A.range().size(), " by ", A.domain().size(), " matrix, with x of ", x.space().size(), " elements, b of ",
          b.space().size(), " and r of ", r.space().size(), ", or spread over ranks otherwise");
  require(b.columns() == 1 && r.columns() == 1, "a precise residual with ", b.columns(), " columns of b and ",
          r.columns(), " of r for one of x");
  require(x.data() != r.data() || x.size() == 0, "a precise residual cannot replace x, which it reads");
  const Span span("precise residual", "op");
  const auto* const csr = dynamic_cast<const Csr<T, M>*>(&A);
  if (!csr) {
    const bool there = residual_in_double(A, factor, b, x, r);
    if (there) given.count_apply();
    return there;
  }
  exec::settle();
  const Rows<T> rows = csr->rows();
  const std::vector<T> ghosts = ghosts_of(*csr, x);
  const auto& places = csr->pattern().ghosts;
  const Global from = A.domain().begin(), to = from + A.domain().local_size();
  const auto at = [&](Global j) {
    return j >= from && j < to ? x.data()[j - from]
                               : ghosts[std::size_t(std::ranges::lower_bound(places, j) - places.begin())];
  };
  exec::each(std::size_t(rows.count()), rows.count() > 10000, [&](std::size_t i) {
    Sum<T> sum(b.data()[i]);
    for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k)
      sum.subtract(factor, rows.value[std::size_t(k)], at(rows.column[std::size_t(k)]));
    r.data()[i] = sum.value();
  });
  given.count_apply();
  return true;
}

#define TACIT_RESIDUAL(T)                                                                           \
  template bool precise_residual<T, Host>(const Operator<T, Host>&, double, const Vector<T, Host>&, \
                                          const Vector<T, Host>&, Vector<T, Host>&);
TACIT_EACH_SCALAR(Host, TACIT_RESIDUAL)

}  // namespace tacit::op
