#include <tacit/base/trace.hpp>
#include <tacit/op/function.hpp>

namespace tacit::op {

template <Scalar T, Memory M>
Function<T, M>::Function(Space range, Space domain, Callable apply, Callable adjoint, std::vector<T> diagonal,
                         std::string name)
    : Operator<T, M>(std::move(range), std::move(domain)),
      apply_(std::move(apply)),
      adjoint_(std::move(adjoint)),
      diagonal_(std::move(diagonal)),
      name_(std::move(name)) {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    require(bool(apply_), "a function operator without a function");
    require(diagonal_.empty() || diagonal_.size() == std::size_t(this->range().local_size()),
            "the diagonal given to the ", name_, " operator has ", diagonal_.size(), " elements on rank ", comm.rank(),
            ", which owns ", this->range().local_size(), " rows");
    // A rank without rows has an empty diagonal whether one was given or not.
    has_diagonal_ = comm.all_sum(Global(diagonal_.size())) > 0;
    require(!has_diagonal_ || diagonal_.size() == std::size_t(this->range().local_size()), "rank ", comm.rank(),
            " gave no diagonal to the ", name_, " operator, though others did");
  });
}

template <Scalar T, Memory M>
std::vector<T> Function<T, M>::diagonal() const {
  return has_diagonal_ ? diagonal_ : Operator<T, M>::diagonal();
}

template <Scalar T, Memory M>
void Function<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const {
  const Span span("function", "op");
  comm::collective(this->range().comm(), [&] { (adjoint ? adjoint_ : apply_)(x.data(), y.data(), x.columns()); });
}

#define TACIT_INSTANTIATE(T)        \
  template class Function<T, Host>; \
  template class Function<T, Device>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
