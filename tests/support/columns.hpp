// Solves with many right-hand sides, column by column.
#pragma once

#include "support/methods.hpp"

#include <tacit/krylov/columns.hpp>

#include <algorithm>
#include <vector>

namespace tacit::test {

template <class T>
using Columns = std::vector<std::vector<T>>;
template <Scalar T>
Columns<T> random_columns(Global n, int k, std::uint64_t seed = 3) {
  Columns<T> b;
  for (int c = 0; c < k; ++c) b.push_back(random_vector<T>(n, seed + std::uint64_t(c)));
  return b;
}
template <Scalar T>
struct SolvedColumns {
  krylov::ColumnReports reports;
  Columns<T> x;
  int most() const {
    int most = 0;
    for (const auto& r : reports.columns) most = std::max(most, r.iterations);
    return most;
  }
};
template <Scalar T>
SolvedColumns<T> solve_all(const op::Operator<T, Host>& A, const Columns<T>& b, const krylov::Options& options,
                           const std::type_identity_t<op::Operator<T, Host>>* P = nullptr, const Columns<T>& guess = {},
                           const krylov::NullSpace<T>* null_space = nullptr, bool hermitian = true) {
  const int k = int(b.size());
  layout::Vector<T> B(A.range(), k), X(A.domain(), k);
  const auto put = [&](const Columns<T>& from, layout::Vector<T>& to) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to.data()[i] = from[i % std::size_t(k)][std::size_t(to.space().begin()) + i / std::size_t(k)];
  };
  put(b, B);
  if (!guess.empty()) put(guess, X);
  SolvedColumns<T> s;
  s.reports = krylov::solve_columns<T>(A, P, B, X, options, hermitian, null_space);
  for (int c = 0; c < k; ++c) {
    layout::Vector<T> one(A.domain());
    for (std::size_t i = 0; i < one.size(); ++i) one.data()[i] = X.data()[i * std::size_t(k) + std::size_t(c)];
    s.x.push_back(whole(one));
  }
  return s;
}

}  // namespace tacit::test
