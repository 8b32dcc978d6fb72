// Case: a failed solve as its diagnosis sees it, and what looking into it may cost.
#pragma once

#include "../plan/system.hpp"
#include "../plan/verdicts.hpp"
#include "../plan/words.hpp"
#include "krylov/part.hpp"

#include <tacit/base/trace.hpp>

#include <bit>
#include <limits>
#include <string>

namespace tacit::krylov {

/// How a solve ended.
template <Scalar T, Memory M>
struct Failed {
  const System<T, M>& system;
  const Options& options;
  Method method;
  int restart;                   // vectors of a cycle
  const Vector<T, M>* residual;  // b - A x; null where it is not known
  Effort effort;                 // of all attempts
  int solves_of_call;            // Role
  bool has_tried_others;         // other attempts than this one: neither its time nor its limit says much
};

/// Prices of operations in seconds, on the slowest rank, and how many seconds are left. Work is counted, in seconds of
/// a fixed machine: a run then repeats whatever else runs beside it, and ranks decide alike.
struct Allowance {
  double product = 0, precondition = 0;  // an apply of A, of P
  double vector = 0, sum = 0;            // a pass over a vector, a reduction with what is around it
  double left = std::numeric_limits<double>::infinity();
  bool fell_short = false;  // something was left out

  /// Whether so much work is allowed still; if so it counts as done. Local; the same on all ranks.
  bool affords(double products, double preconditions, double vectors, double sums) {
    const double cost = products * product + preconditions * precondition + vectors * vector + sums * sum;
    if (!(cost <= left)) {
      fell_short = true;
      return false;
    }
    left -= cost;
    return true;
  }
};

template <class T>
struct PlainDot {  // x^T y
  TACIT_HD exec::Sums<1, T> operator()(T x, T y) const { return {{x * y}}; }
};

/// The system, the report that is completed, and the allowance. Refers to all of them.
template <Scalar T, Memory M>
class Case {
 public:
  Case(const Failed<T, M>& failed, Report& report, Allowance& allowance)
      : system_(failed.system),
        options_(failed.options),
        method_(failed.method),
        restart_(failed.restart),
        residual_(failed.residual),
        effort_(failed.effort),
        solves_of_call_(failed.solves_of_call),
        has_tried_others_(failed.has_tried_others),
        report_(report),
        allowance_(allowance),
        A_(&system_.A()),
        P_(system_.P()),
        given_A_(&system_.given_A()),
        given_P_(system_.given_P()),
        b_(system_.b()),
        space_(system_.space()) {}

 protected:
  static constexpr double epsilon = System<T, M>::epsilon;
  static constexpr bool is_double = std::same_as<real_t<T>, double>;

  bool affords(double products, double preconditions, double vectors, double sums) {
    return allowance_.affords(products, preconditions, vectors, sums);
  }
  /// Adds to what the words of a failure say. Local.
  void say(const std::string& cause, const std::string& advice) {
    report_.detail += (report_.detail.empty() ? "" : "; ") + cause;
    report_.advice = advice;
  }
  /// As say(), in place of what the method made of the scalar that vanished. Local.
  void say_instead(const std::string& cause, const std::string& advice) {
    report_.detail.resize(std::min(report_.detail.size(), report_.detail.find(": ")));
    say(cause, advice);
  }
  bool is_small() const { return space_.size() <= 500; }
  Global products_spent() const { return effort_.counts.operator_applies; }
  /// Vectors that an iteration sweeps over, beside its products.
  double vectors_an_iteration() const {
    const bool long_recurrence = traits_of(method_).cycles && classical_of(method_) == method_;
    return long_recurrence ? 2.0 * restart_ : 10.0;
  }
  /// An estimate of ||B - B^H|| / ||B||, Frobenius: of (q, B p) - (B q, p) for pseudo-random p and q. Rounding stays
  /// far below sqrt(epsilon); NaN where products are not finite. Where a null space is given: of B on its complement.
  /// `transposed`: of B - B^T in the place of B - B^H. Two products with B. Collective.
  double asymmetry(const op::Operator<T, M>& B, bool transposed = false) const {
    Vector<T, M> p(space_), q(space_), Bp(space_), Bq(space_);
    scatter(p, 1);
    scatter(q, 2);
    system_.project(p), system_.project(q);  // results of P are projected
    B.apply(p, Bp);
    B.apply(q, Bq);
    const double size = (layout::norm(q) * layout::norm(Bp) + layout::norm(p) * layout::norm(Bq)) / 2;
    const auto product = [&](const Vector<T, M>& x, const Vector<T, M>& y) {
      if (!transposed) return layout::dot(x, y);
      return space_.sum(exec::sweep(exec::reads(x, y), exec::updates(), exec::writes(), PlainDot<T>{})).wait()[0];
    };
    return double(std::abs(product(q, Bp) - product(Bq, p))) / size * std::sqrt(double(space_.size()));
  }

  const System<T, M>& system_;
  const Options& options_;
  Method method_;
  int restart_;
  const Vector<T, M>* residual_;
  Effort effort_;
  int solves_of_call_;
  bool has_tried_others_;
  Report& report_;
  Allowance& allowance_;
  const op::Operator<T, M>*A_, *P_, *given_A_, *given_P_;
  const Vector<T, M>& b_;
  const layout::Space& space_;
};

}  // namespace tacit::krylov
