// Matrices and vectors for tests of groups of devices.
#pragma once

#include "op/hmatrix_cases.hpp"
#include "support/devices.hpp"

#include <tacit/op/hmatrix/on_devices.hpp>

#include <cmath>
#include <memory>
#include <vector>

namespace tacit::test {

// 1 / r off the diagonal and n / 6 on it, so that BiCGStab takes a dozen iterations.
template <class T>
std::shared_ptr<const HMatrix<T>> matrix(const comm::Communicator& comm, Local n, double tolerance,
                                         double diagonal = 1 / 6.0) {
  const Geometry g = sphere(n);
  HMatrixOptions options;
  options.tolerance = tolerance;
  const EntryFunction<T> entry = [of = kernel<T>(g), on = T(diagonal * n)](auto rows, auto columns, T* out) {
    of(rows, columns, out);
    for (std::size_t j = 0; j < columns.size(); ++j)
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i] == columns[j]) out[i + j * rows.size()] = on;
  };
  return std::make_shared<const HMatrix<T>>(layout::Space::replicated(comm, n), tree_of(g, leaves(32)), entry, options);
}

template <class T>
std::vector<T> numbers_of(Local n) {
  std::vector<T> x;
  for (Local i = 0; i < n; ++i) x.push_back(T(std::sin(1 + double(i) * i)));
  return x;
}

template <class T, Memory M>
using OnGroup = layout::Vector<T, Group<M>>;

template <Memory M, class T>
OnGroup<T, M> on_group(const layout::Space& space, const std::vector<T>& values) {
  OnGroup<T, M> x(space);
  x.assign(values);
  return x;
}

}  // namespace tacit::test
