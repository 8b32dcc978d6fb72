// All methods with their options, and operators to run them on.
#pragma once

#include "support/systems.hpp"

#include <tacit/krylov/solve.hpp>
#include <tacit/krylov/traits.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tacit::test {

template <class T>
constexpr bool is_wide = std::same_as<real_t<T>, double>;

inline krylov::Options with(krylov::Method method, double rtol) {
  krylov::Options o;
  o.method = method;
  o.rtol = rtol;
  return o;
}

struct NamedMethod {
  std::string name;
  bool positive;  // needs a Hermitian positive definite matrix
  std::function<void(krylov::Options&)> choose;
  // Per iteration. reductions -1: those of mgs; -2: checked in the method's own test. applies 0: done in blocks,
  // checked there.
  double reductions, applies, preconditions;
};

/// Every method, with the counts that its documentation states for an iteration. Not those for A = A^T where T is
/// complex: the tests' matrices are Hermitian then.
template <class T = double>
std::vector<NamedMethod> all_methods() {
  using namespace krylov;
  const auto gmres = [](Orthogonalisation how, Side side) {
    return [=](Options& o) { o.method = Method::gmres, o.orthogonalisation = how, o.side = side, o.restart = 40; };
  };
  std::vector<NamedMethod> all{
      {"cg", true, [](Options& o) { o.method = Method::cg; }, 2, 1, 1},
      {"minres", true, [](Options& o) { o.method = Method::minres; }, 1, 1, 1},
      {"block-cg", true, [](Options& o) { o.method = Method::block_cg; }, 2, 1, 1},
      {"block-gmres", false, [](Options& o) { o.method = Method::block_gmres, o.restart = 40; }, 1, 1, 1},
      {"bicgstab", false, [](Options& o) { o.method = Method::bicgstab; }, 3, 2, 2},
      {"gmres one-reduction", false, gmres(Orthogonalisation::one_reduction, Side::right), 1, 1, 1},
      {"gmres cgs", false, gmres(Orthogonalisation::cgs, Side::right), 2, 1, 1},
      {"gmres cgs2", false, gmres(Orthogonalisation::cgs2, Side::right), 3, 1, 1},
      {"gmres mgs", false, gmres(Orthogonalisation::mgs, Side::right), -1, 1, 1},
      {"gmres left", false, gmres(Orthogonalisation::one_reduction, Side::left), 1, 1, 1},
      {"gmres flexible", false, gmres(Orthogonalisation::one_reduction, Side::flexible), 1, 1, 1},
      {"fgmres", false, [](Options& o) { o.method = Method::fgmres, o.restart = 40; }, 1, 1, 1},
      {"ca-gmres", false, [](Options& o) { o.method = Method::ca_gmres, o.restart = 40; }, -2, 1, 1},
      {"ca-gmres left", false,
       [](Options& o) {
         o.method = Method::ca_gmres, o.side = Side::left, o.restart = 40, o.step = 4;
         o.orthogonalisation = Orthogonalisation::bcgs_pip2;
       },
       -2, 1, 1},
      {"cocg", true, [](Options& o) { o.method = Method::cocg; }, 2, 1, 1},
      {"cocr", true, [](Options& o) { o.method = Method::cocr; }, 2, 1, 1},
      {"richardson", true, [](Options& o) { o.method = Method::richardson, o.relaxation = 1 / 6.0; }, 1, 1, 1},
      {"chebyshev", true, [](Options& o) { o.method = Method::chebyshev, o.lambda_min = 1.9, o.lambda_max = 10.1; }, 1,
       1, 1},
      {"ca-bicgstab", false, [](Options& o) { o.method = Method::ca_bicgstab; }, 0, 0, 0},
      {"ca-bicgstab newton 8", false,
       [](Options& o) { o.method = Method::ca_bicgstab, o.step = 8, o.basis = Basis::newton; }, 0, 0, 0},
      {"ca-cg", true, [](Options& o) { o.method = Method::ca_cg; }, 0, 0, 0},
      {"ca-cg monomial 4", true, [](Options& o) { o.method = Method::ca_cg, o.step = 4, o.basis = Basis::monomial; }, 0,
       0, 0},
      // The first cycle, without shifts, has depth one; later ones do one reduction per block.
      {"pipelined-gmres 2", false, [](Options& o) { o.method = Method::pipelined_gmres, o.restart = 40; }, 1, 1, 1},
      {"pipelined-gmres 5", false, [](Options& o) { o.method = Method::pipelined_gmres, o.depth = 5, o.restart = 12; },
       1, 1, 1},
      {"pipelined-ca-gmres", false, [](Options& o) { o.method = Method::pipelined_ca_gmres, o.restart = 40; }, 1, 1, 1},
      {"pipelined-cg", true, [](Options& o) { o.method = Method::pipelined_cg; }, 1, 1, 1},
      {"pipelined-cg 3", true, [](Options& o) { o.method = Method::pipelined_cg, o.depth = 3; }, 0, 0, 0},
      {"idr", false, [](Options& o) { o.method = Method::idr; }, 2, 1, 1},
      {"idr 1", false, [](Options& o) { o.method = Method::idr, o.shadow_dimension = 1; }, 2, 1, 1},
      {"pipelined-bicgstab", false, [](Options& o) { o.method = Method::pipelined_bicgstab; }, 2, 2, 2},
  };
  std::erase_if(all, [](const NamedMethod& m) {
    Options o;
    m.choose(o);
    return is_complex<T> && traits_of(o.method).symmetric;
  });
  return all;
}

/// Whether the residual is replaced now and then by b - A x.
inline bool replaces(krylov::Method method) {
  return method == krylov::Method::pipelined_cg || method == krylov::Method::pipelined_bicgstab;
}

/// -Laplace + 2 on nx x ny: eigenvalues in (2, 10), well conditioned for every method.
template <Scalar T>
Whole<T> shifted_grid(Global nx, Global ny, double convection = 0) {
  return grid<T>(nx, ny, convection).map([](Global r, Global c, T v) { return r == c ? v + T(2) : v; });
}

/// A dense matrix on a replicated space: every rank does the whole product, on the host; reductions need no
/// communication.
template <Scalar T, Memory M = Host>
class Replicated final : public op::Operator<T, M> {
 public:
  Replicated(const layout::Space& space, const Whole<T>& a) : op::Operator<T, M>(space, space), a_(a.dense()) {}
  std::string name() const override { return "replicated dense"; }

 protected:
  int begin(const layout::Vector<T, M>&, layout::Vector<T, M>&, bool) const override { return 0; }
  void finish(const layout::Vector<T, M>& x, layout::Vector<T, M>& y, bool, int) const override {
    const std::size_t k = x.columns();
    const auto in = x.to_host();
    std::vector<T> out(in.size());
    for (std::size_t i = 0; i < a_.size(); ++i)
      for (std::size_t c = 0; c < k; ++c) {
        T sum(0);
        for (std::size_t j = 0; j < a_.size(); ++j) sum += a_[i][j] * in[j * k + c];
        out[i * k + c] = sum;
      }
    y.assign(out);
  }

 private:
  Dense<T> a_;
};

/// Calls f as the product, like an operator written by a user.
template <Scalar T, Memory M = Host>
class Custom final : public op::Operator<T, M> {
 public:
  using F = std::function<void(const layout::Vector<T, M>&, layout::Vector<T, M>&)>;
  Custom(const layout::Space& space, F f) : op::Operator<T, M>(space, space), f_(std::move(f)) {}
  std::string name() const override { return "custom"; }

 protected:
  int begin(const layout::Vector<T, M>&, layout::Vector<T, M>&, bool) const override { return 0; }
  void finish(const layout::Vector<T, M>& x, layout::Vector<T, M>& y, bool, int) const override { f_(x, y); }

 private:
  F f_;
};

template <Scalar T>
struct Solved {
  krylov::Report report;
  std::vector<T> x;
};

/// Solves with x0 = 0 (or `guess`) and returns the whole x. Collective.
template <Scalar T, Memory M>
Solved<T> run(const op::Operator<T, M>& A, const std::vector<T>& b, const krylov::Options& options,
              const std::type_identity_t<op::Operator<T, M>>* P = nullptr, const std::vector<T>& guess = {},
              bool hermitian = false) {
  const auto rhs = spread<T, M>(A.range(), b);
  auto x = guess.empty() ? layout::Vector<T, M>(A.domain()) : spread<T, M>(A.domain(), guess);
  Solved<T> s;
  s.report = krylov::solve<T, M>(A, P, rhs, x, options, hermitian);
  s.x = whole(x);
  return s;
}

}  // namespace tacit::test
