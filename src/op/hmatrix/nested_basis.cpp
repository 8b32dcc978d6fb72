#include "nested_basis.hpp"

#include "saved.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>

namespace tacit::op::detail {

template <Scalar T>
NestedBasis<T>::NestedBasis(Local first, Local count, std::vector<BasisNode> nodes, Numbers numbers)
    : first_(first), count_(count), nodes_(std::move(nodes)) {
  each_format([&](auto f) {
    constexpr int F = f;
    auto kept = std::make_shared<const std::vector<Stored<F>>>(std::move(std::get<F>(numbers)));
    std::get<F>(numbers_) = std::span<const Stored<F>>(kept->data(), kept->size());
    owners_.push_back(kept);
  });
  divide();
}

// Nodes whose subtree is more than a share of the whole are done one after the other, the subtrees below in parallel.
template <Scalar T>
void NestedBasis<T>::divide() {
  constexpr std::size_t shares = 64;
  std::vector<std::size_t> cost(nodes_.size() + 1, 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const BasisNode& n = nodes_[i];
    const Local above = n.parent >= 0 ? nodes_[std::size_t(n.parent)].rank : 0;
    const std::size_t work = std::size_t(n.rank) * std::size_t(n.count + above);
    cost[i + 1] = cost[i] + work + 16;
    flops_ += double(work) * parts * (is_complex<T> ? 4 : 2);
    coefficients_ = std::max(coefficients_, std::size_t(n.at) + std::size_t(n.rank));
  }
  const auto whole = [&](std::int32_t i) {
    return cost[std::size_t(nodes_[std::size_t(i)].end)] - cost[std::size_t(i)];
  };
  for (std::int32_t i = 0; i < std::int32_t(nodes_.size());) {
    if (whole(i) * shares > cost.back() && nodes_[std::size_t(i)].end > i + 1) {
      top_.push_back(i++);
      continue;
    }
    subtrees_.push_back(i);
    subtree_cost_.push_back(subtree_cost_.back() + whole(i));
    i = nodes_[std::size_t(i)].end;
  }
}

template <Scalar T>
template <int K>
void NestedBasis<T>::project(const SmallMatrix& m, Local rows, Local columns, const R* in, std::ptrdiff_t ldi, R* out,
                             std::ptrdiff_t ldo, std::vector<R>& buffer) const {
  buffer.resize(std::size_t(columns) * parts * K);
  const auto run = [&](auto f) {
    constexpr int F = f;
    dots<Stored<F>, R, K>(numbers<F>(m), rows, std::ptrdiff_t(columns) * parts, in, ldi, buffer.data());
  };
  if (m.format == native) run(std::integral_constant<int, native>{});
  else if (m.format == single) run(std::integral_constant<int, single>{});
  else run(std::integral_constant<int, fixed>{});
  const R scale = R(m.scale);
  for (Local j = 0; j < columns; ++j) {
    R t[K];
    combine<is_complex<T>, K>(buffer.data() + std::size_t(j) * parts * K, t);
    for (int k = 0; k < K; ++k) out[k * ldo + j] += scale * t[k];
  }
}

template <Scalar T>
template <int K>
void NestedBasis<T>::expand(const SmallMatrix& m, Local rows, Local columns, const R* in, std::ptrdiff_t ldi, R* y,
                            std::ptrdiff_t ldy) const {
  const Run run{0, std::uint32_t(columns), m.scale};
  const auto multiply = [&](auto f) {
    constexpr int F = f;
    multiply_add<Stored<F>, R, K, is_complex<T>>(numbers<F>(m), rows, rows, &run, &run + 1, in, ldi, y, ldy);
  };
  if (m.format == native) multiply(std::integral_constant<int, native>{});
  else if (m.format == single) multiply(std::integral_constant<int, single>{});
  else multiply(std::integral_constant<int, fixed>{});
}

template <Scalar T>
template <int K>
void NestedBasis<T>::up_node(const BasisNode& node, const R* z, std::ptrdiff_t ldz, R* values, std::ptrdiff_t ld,
                             std::vector<R>& buffer) const {
  R* const own = values + node.at;
  for (int k = 0; k < K; ++k) std::fill_n(own + k * ld, node.rank, R(0));
  if (node.count > 0) project<K>(node.leaf, node.count, node.rank, z + node.begin, ldz, own, ld, buffer);
  for (const std::int32_t c : node.child) {
    if (c < 0) continue;
    const BasisNode& child = nodes_[std::size_t(c)];
    project<K>(child.transfer, child.rank, node.rank, values + child.at, ld, own, ld, buffer);
  }
}

template <Scalar T>
template <int K>
void NestedBasis<T>::up_all(const R* z, std::ptrdiff_t ldz, R* values, std::ptrdiff_t ld,
                            const comm::Communicator& comm) const {
  each_by_cost<R>(subtree_cost_, &comm, [&](std::size_t s, std::vector<R>& buffer) {
    const std::int32_t root = subtrees_[s];
    for (std::int32_t i = nodes_[std::size_t(root)].end; i-- > root;)
      up_node<K>(nodes_[std::size_t(i)], z, ldz, values, ld, buffer);
  });
  std::vector<R> buffer;
  for (std::size_t i = top_.size(); i-- > 0;) up_node<K>(nodes_[std::size_t(top_[i])], z, ldz, values, ld, buffer);
}

template <Scalar T>
template <int K>
void NestedBasis<T>::down_node(const BasisNode& node, R* values, std::ptrdiff_t ld, T* y, int k, int column,
                               std::vector<R>& buffer) const {
  if (node.parent >= 0) {
    const BasisNode& above = nodes_[std::size_t(node.parent)];
    expand<K>(node.transfer, node.rank, above.rank, values + above.at, ld, values + node.at, ld);
  }
  if (node.count == 0) return;
  buffer.assign(std::size_t(node.count) * K, R(0));
  expand<K>(node.leaf, node.count, node.rank, values + node.at, ld, buffer.data(), node.count);
  T* const to = y + std::size_t(node.begin) * std::size_t(k) + std::size_t(column);
  for (Local r = 0; r < node.count; ++r)
    for (int c = 0; c < K / parts; ++c) {
      const R* const v = buffer.data() + c * parts * node.count + r;
      T& out = to[std::size_t(r) * std::size_t(k) + std::size_t(c)];
      if constexpr (is_complex<T>) out += T(v[0], v[node.count]);
      else out += v[0];
    }
}

template <Scalar T>
template <int K>
void NestedBasis<T>::down_all(R* values, std::ptrdiff_t ld, T* y, int k, int column,
                              const comm::Communicator& comm) const {
  std::vector<R> buffer;
  for (const std::int32_t i : top_) down_node<K>(nodes_[std::size_t(i)], values, ld, y, k, column, buffer);
  each_by_cost<R>(subtree_cost_, &comm, [&](std::size_t s, std::vector<R>& own) {
    const std::int32_t root = subtrees_[s];
    for (std::int32_t i = root; i < nodes_[std::size_t(root)].end; ++i)
      down_node<K>(nodes_[std::size_t(i)], values, ld, y, k, column, own);
  });
}

template <Scalar T>
void NestedBasis<T>::up(int planes, const R* z, std::ptrdiff_t ldz, R* values, std::ptrdiff_t ld,
                        const comm::Communicator& comm) const {
  if (planes == 4) return up_all<4>(z, ldz, values, ld, comm);
  if (planes == 2) return up_all<2>(z, ldz, values, ld, comm);
  if constexpr (!is_complex<T>) up_all<1>(z, ldz, values, ld, comm);
}

template <Scalar T>
void NestedBasis<T>::down(int planes, R* values, std::ptrdiff_t ld, T* y, int k, int column,
                          const comm::Communicator& comm) const {
  if (planes == 4) return down_all<4>(values, ld, y, k, column, comm);
  if (planes == 2) return down_all<2>(values, ld, y, k, column, comm);
  if constexpr (!is_complex<T>) down_all<1>(values, ld, y, k, column, comm);
}

template <Scalar T>
std::array<double, formats> NestedBasis<T>::bytes() const {
  std::array<double, formats> all{};
  each_format([&](auto f) {
    constexpr int F = f;
    all[F] = double(std::get<F>(numbers_).size() * sizeof(Stored<F>));
  });
  return all;
}

template <Scalar T>
void NestedBasis<T>::add_to(exec::Checksum& sum) const {
  each_format([&](auto f) { sum.add(std::get<int(f)>(numbers_)); });
}

template <Scalar T>
void NestedBasis<T>::save(const std::string& name, std::vector<SavedPart>& saved) const {
  save_copy<std::int64_t>(saved, name + ".rows", {first_, count_, std::int64_t(sizeof(BasisNode))});
  detail::save(saved, name + ".nodes", nodes_);
  each_format([&](auto f) { detail::save(saved, message(name, ".", int(f)), std::get<f>(numbers_)); });
}

template <Scalar T>
NestedBasis<T>::NestedBasis(const std::string& name, const std::vector<SavedPart>& saved) {
  const auto numbers = loaded<std::int64_t>(saved, name + ".rows");
  if (numbers.size() != 3 || numbers[2] != std::int64_t(sizeof(BasisNode)))
    throw Error(ErrorKind::input, "a saved hmatrix of another build of tacit");
  first_ = Local(numbers[0]), count_ = Local(numbers[1]);
  nodes_ = loaded<BasisNode>(saved, name + ".nodes");
  each_format([&](auto f) {
    constexpr int F = f;
    const std::string part = message(name, ".", F);
    std::get<F>(numbers_) = seen<Stored<F>>(saved, part);
    owners_.push_back(part_of(saved, part).owner);
  });
  divide();
}

#define TACIT_INSTANTIATE(T) template class NestedBasis<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op::detail
