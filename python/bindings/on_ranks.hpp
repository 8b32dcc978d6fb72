// OnRanks: a square operator that can be made on any number of ranks, for solves on simulated ones.
#pragma once

#include "bindings.hpp"

#include <tacit/op/operator.hpp>

#include <functional>
#include <memory>

namespace tacit::python {

template <Scalar T>
struct OnRanks {
  using Make = std::function<std::shared_ptr<const op::Operator<T, Host>>(const comm::Communicator&)>;
  Global size = 0;
  /// What `make` needs on each rank.
  std::size_t stack_bytes = 0;
  /// Collective over the communicator; may be called again.
  Make make;
};

}  // namespace tacit::python
