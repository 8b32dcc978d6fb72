// Role: of a solve that is part of something longer, such as one of several attempts, or one of several columns; and
// what their caller needs to know of the system beside.
#pragma once

#include "krylov/plan/forecast.hpp"

#include <tacit/krylov/null_space.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>

namespace tacit::krylov {

/// What the caller adds to the options of the user.
struct Role {
  Forecast* forecast = nullptr;  ///< gives the solve up (Reason::stopped) where others stand behind it
  int solves_of_call = 1;        ///< they share the 10 ms that looking into failures is allowed in any case
  bool alone = true;             ///< no other solve waits for it meanwhile, so that products may be timed
};

/// What several attempts at one system have spent.
struct Effort {
  int iterations = 0;
  Report::Counts counts = {};
};

/// As solve(), which is the same with Role{}. Collective.
template <Scalar T, Memory M>
Report solve_part(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const layout::Vector<T, M>& b,
                  layout::Vector<T, M>& x, const Options& options, const Role& role, bool hermitian = false,
                  const NullSpace<T, M>* null_space = nullptr);

/// ||b|| as solve() reports it: without what is taken out of b because of the null space; 0 where A, b or the null
/// space are not finite. A product for each vector, and one more. Collective.
template <Scalar T>
double norm_in_range(const op::Operator<T, Host>& A, const layout::Vector<T, Host>& b, Norm norm,
                     const NullSpace<T, Host>& null_space);

/// ||b - A x|| / ||b|| as solve() begins with it: x is set to zero where its residual is so large that squares
/// overflow, and loses what a null space takes out of it. One product. Collective.
template <Scalar T>
double residual_of(const op::Operator<T, Host>& A, const layout::Vector<T, Host>& b, layout::Vector<T, Host>& x,
                   const Options& options, const NullSpace<T, Host>* null_space);

/// The words of a failed solve: the cause that products of its own find, and what is advised against it. Both are empty
/// where none is found. x is the best that attempts have come to, after this effort; `options` has the method whose
/// needs are looked at, automatic for one that takes any A. Collective. Cost: Options::explain.
struct Cause {
  std::string detail, advice;
};
template <Scalar T>
Cause cause_of_failure(const op::Operator<T, Host>& A, const layout::Vector<T, Host>& b, layout::Vector<T, Host>& x,
                       const Options& options, const Role& role, const Effort& effort,
                       const NullSpace<T, Host>* null_space);

}  // namespace tacit::krylov
