// A solve does not depend on the unit of A and b.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <tacit/op/noted.hpp>
#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;

/// 2^e v.
template <class T>
T times_two_to(T v, int e) {
  if constexpr (is_complex<T>) return {std::ldexp(v.real(), e), std::ldexp(v.imag(), e)};
  else return std::ldexp(v, e);
}

/// A 2^e and b 2^e, at a tolerance near the rounding error of a plain b - A x, so that the driver computes it in more
/// precision: the same claim after the same iterations.
template <class T>
void has_no_unit(const char* precond, double rtol, std::initializer_list<int> exponents) {
  const auto a = grid<T>(45, 45);
  const auto b = random_vector<T>(a.n, 3);
  Options o;
  o.method = Method::cg, o.rtol = rtol;
  const auto solved = [&](int e) {
    const auto A = a.map([e](Global, Global, T v) { return times_two_to(v, e); }).on(comm::Communicator::self());
    const auto P = precond::make<T, Host>(precond, *A);
    auto right = b;
    for (T& v : right) v = times_two_to(v, e);
    return run(*A, right, o, P.get());
  };
  const auto plain = solved(0);
  ASSERT_EQ(plain.report.reason, Reason::converged) << plain.report.detail;
  for (const int e : exponents) {
    const auto scaled = solved(e);
    EXPECT_EQ(scaled.report.reason, Reason::converged) << precond << ", 2^" << e << ": " << scaled.report.detail;
    EXPECT_EQ(scaled.report.iterations, plain.report.iterations) << precond << ", 2^" << e;
    double most = 0, away = 0;
    for (std::size_t i = 0; i < plain.x.size(); ++i) {
      most = std::max(most, double(std::abs(plain.x[i])));
      away = std::max(away, double(std::abs(scaled.x[i] - plain.x[i])));
    }
    EXPECT_LE(away, 100 * rtol * most) << precond << ", 2^" << e;
  }
}

TEST(Scales, OfAAndBDoNotMatter) {
  for (const char* precond : {"none", "jacobi", "ic0", "amg"}) {
    has_no_unit<float>(precond, 1e-5, {-100, -66, 66, 100});
    has_no_unit<std::complex<float>>(precond, 1e-5, {-66, 66});
    has_no_unit<double>(precond, 3e-14, {-900, -300, 300, 900});
  }
}

/// y_i = d_i x_i with other d_i between 0.2 and 1.8 in each call.
class Wandering final : public op::Operator<double, Host>, public op::Varying {
 public:
  explicit Wandering(const layout::Space& space) : op::Operator<double, Host>(space, space) {}
  std::string name() const override { return "wandering"; }

 protected:
  using Vector = layout::Vector<double>;
  int begin(const Vector&, Vector&, bool) const override { return 0; }
  void finish(const Vector& x, Vector& y, bool, int) const override {
    const auto call = std::uint64_t(this->applies());
    for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] = (1 + 0.8 * noise(call, i)) * x.data()[i];
  }
};

/// Where the driver scales A, and with it P, or solves -A x = -b, cg is flexible still.
TEST(Scales, DoNotHideThatAPreconditionerVaries) {
  const auto a = grid<double>(45, 45);
  const auto b = random_vector<double>(a.n, 3);
  Options o;
  o.method = Method::cg, o.rtol = 1e-8;
  const auto iterations = [&](double sign, int e) {
    const auto A =
        a.map([=](Global, Global, double v) { return sign * std::ldexp(v, e); }).on(comm::Communicator::self());
    const Wandering P(A->range());
    const auto report = run(*A, b, o, &P).report;
    EXPECT_EQ(report.reason, Reason::converged) << report.detail;
    return report.iterations;
  };
  const int plain = iterations(1, 0);
  for (const auto& [sign, e] : {std::pair(1.0, 70), {1.0, -70}, {-1.0, 0}})
    EXPECT_NEAR(iterations(sign, e), plain, 0.1 * plain) << sign << " 2^" << e;
}

}  // namespace
}  // namespace tacit::test
