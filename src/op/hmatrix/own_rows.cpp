#include <tacit/op/hmatrix/own_rows.hpp>

#include <algorithm>
#include <complex>

namespace tacit::op {
namespace {

template <Scalar T>
void copy(T* out, const T* in, std::size_t k) {
  for (std::size_t c = 0; c < k; ++c) out[c] = in[c];
}

}  // namespace

template <Scalar T>
OwnRows<T>::OwnRows(const layout::Space& space, std::shared_ptr<const ClusterTree> tree, std::vector<Global> cuts)
    : space_(space), tree_(std::move(tree)), cuts_(std::move(cuts)) {
  const auto& comm = space_.comm();
  first_ = Local(cuts_[std::size_t(comm.rank())]);
  count_ = Local(cuts_[std::size_t(comm.rank()) + 1]) - first_;
  if (comm.size() == 1) return;
  const Local last = first_ + count_;
  if (space_.is_replicated()) {
    std::vector<Global> others;
    for (Global p = 0; p < cuts_.back(); ++p)
      if (p < first_ || p >= last) others.push_back(p);
    pattern_ = std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, cuts_, std::move(others)));
  } else {
    std::vector<std::pair<Global, Local>> ghosts;  // (element, position)
    for (Local p = first_; p < last; ++p) {
      const Global i = tree_->order()[std::size_t(p)];
      if (i >= space_.begin() && i < space_.end()) own_.emplace_back(Local(i - space_.begin()), p - first_);
      else ghosts.emplace_back(i, p - first_);
    }
    std::sort(ghosts.begin(), ghosts.end());
    std::vector<Global> needed;
    for (const auto& [i, p] : ghosts) needed.push_back(i), at_.push_back(p);
    pattern_ = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(comm, space_.partition().offsets(), std::move(needed)));
  }
  exchange(1);
}

template <Scalar T>
comm::Exchange& OwnRows<T>::exchange(int k) const {
  auto& e = exchange_[k];
  if (!e) e = std::make_unique<comm::Exchange>(space_.comm(), pattern_, sizeof(T) * std::size_t(k));
  return *e;
}

template <Scalar T>
int OwnRows<T>::start_get(const T* x, int columns) const {
  if (space_.is_replicated() || !pattern_) return -1;
  const std::size_t k = std::size_t(columns);
  auto& e = exchange(columns);
  const int slot = e.open();
  T* const out = reinterpret_cast<T*>(e.outgoing(slot));
  for (std::size_t i = 0; i < pattern_->send_index.size(); ++i)
    copy(out + i * k, x + std::size_t(pattern_->send_index[i]) * k, k);
  e.post(slot);
  return slot;
}

template <Scalar T>
void OwnRows<T>::finish_get(const T* x, int columns, int slot, T* rows) const {
  const std::size_t k = std::size_t(columns);
  if (slot < 0) {
    const auto order = tree_->order().subspan(std::size_t(first_), std::size_t(count_));
    for (std::size_t p = 0; p < order.size(); ++p) copy(rows + p * k, x + std::size_t(order[p]) * k, k);
    return;
  }
  auto& e = exchange(columns);
  for (const auto& [i, p] : own_) copy(rows + std::size_t(p) * k, x + std::size_t(i) * k, k);
  e.wait(slot);
  const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
  for (std::size_t g = 0; g < at_.size(); ++g) copy(rows + std::size_t(at_[g]) * k, in + g * k, k);
  e.close(slot);
}

template <Scalar T>
int OwnRows<T>::start_put(const T* rows, int columns, T* y) const {
  const std::size_t k = std::size_t(columns);
  if (!pattern_ || space_.is_replicated()) {
    const auto order = tree_->order().subspan(std::size_t(first_), std::size_t(count_));
    for (std::size_t p = 0; p < order.size(); ++p) copy(y + std::size_t(order[p]) * k, rows + p * k, k);
    if (!pattern_) return -1;
  }
  auto& e = exchange(columns);
  const int slot = e.open(space_.is_replicated());
  T* const out = reinterpret_cast<T*>(e.outgoing(slot));
  if (space_.is_replicated()) {
    for (std::size_t i = 0; i < pattern_->send_index.size(); ++i)
      copy(out + i * k, rows + std::size_t(pattern_->send_index[i]) * k, k);
  } else {
    for (std::size_t g = 0; g < at_.size(); ++g) copy(out + g * k, rows + std::size_t(at_[g]) * k, k);
    for (const auto& [i, p] : own_) copy(y + std::size_t(i) * k, rows + std::size_t(p) * k, k);
  }
  e.post(slot);
  return slot;
}

template <Scalar T>
void OwnRows<T>::finish_put(int columns, int slot, T* y) const {
  if (slot < 0) return;
  const std::size_t k = std::size_t(columns);
  auto& e = exchange(columns);
  e.wait(slot);
  const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
  if (space_.is_replicated()) {
    const auto order = tree_->order();
    for (std::size_t g = 0; g < pattern_->ghosts.size(); ++g)
      copy(y + std::size_t(order[std::size_t(pattern_->ghosts[g])]) * k, in + g * k, k);
  } else {
    for (std::size_t i = 0; i < pattern_->send_index.size(); ++i)
      copy(y + std::size_t(pattern_->send_index[i]) * k, in + i * k, k);
  }
  e.close(slot);
}

#define TACIT_INSTANTIATE(T) template class OwnRows<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
