#include <tacit/base/trace.hpp>

#include "parts.hpp"

#include <algorithm>
#include <limits>

namespace tacit::op {

template <Scalar T>
HMatrix<T>::HMatrix(Space range, Space domain, std::shared_ptr<const ClusterTree> rows,
                    std::shared_ptr<const ClusterTree> columns, const EntryFunction<T>& entry,
                    const HMatrixOptions& options)
    : Operator<T, Host>(std::move(range), std::move(domain)), options_(options), parts_(std::make_unique<Parts>()) {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    const double start = wall_time();
    require(rows && columns, "an hmatrix operator without cluster trees");
    require(bool(entry), "an hmatrix operator without an entry function");
    require(this->range().comm() == this->domain().comm(), "rows and columns of an hmatrix are on two communicators");
    require(this->range().is_replicated() == this->domain().is_replicated(),
            "of rows and columns of an hmatrix one is replicated and the other distributed");
    require(this->range().size() == rows->size() && this->domain().size() == columns->size(), "cluster trees of ",
            rows->size(), " and ", columns->size(), " points for a matrix of ", this->range().size(), " x ",
            this->domain().size());
    const double least = 4 * double(std::numeric_limits<real_t<T>>::epsilon());
    require(options.tolerance >= least && options.tolerance < 1, "an hmatrix tolerance of ", options.tolerance,
            "; from ", least, " to 1 is possible in ", scalar_name<T>());
    require(options.sampled_rows >= 1, "an hmatrix whose norm is to be estimated by ", options.sampled_rows, " rows");
    require(options.compress.max_rank >= 0, "an hmatrix of rank at most ", options.compress.max_rank);
    require(options.balance_rounds >= 0, "an hmatrix balanced in ", options.balance_rounds, " rounds");
    parts_->rows = std::move(rows);
    parts_->columns = std::move(columns);
    assemble(entry);
    exchange_patterns();
    report_.set_up_seconds = comm.all_max(wall_time() - start);
  });
}

template <Scalar T>
HMatrix<T>::~HMatrix() = default;

template <Scalar T>
std::pair<Local, Local> HMatrix<T>::own_rows() const {
  return {parts_->first, parts_->first + parts_->count};
}

template <Scalar T>
void HMatrix<T>::exchange_patterns() {
  const auto& comm = this->range().comm();
  auto& parts = *parts_;
  if (comm.size() == 1) return;
  const Local first = parts.first, last = parts.first + parts.count;
  if (this->range().is_replicated()) {
    const auto others = [&](const std::vector<Global>& cuts) {
      std::vector<Global> all;
      const Global begin = cuts[std::size_t(comm.rank())], end = cuts[std::size_t(comm.rank()) + 1];
      for (Global p = 0; p < cuts.back(); ++p)
        if (p < begin || p >= end) all.push_back(p);
      return all;
    };
    parts.row_pattern =
        std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, parts.cuts, others(parts.cuts)));
    const auto shares = layout::Partition::blocks(parts.columns->size(), comm.size());
    parts.column_cuts.assign(shares.offsets().begin(), shares.offsets().end());
    parts.column_pattern =
        std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, parts.column_cuts, others(parts.column_cuts)));
  } else {
    const auto ghosts = [&](const Space& space, const ClusterTree& tree, Local from, Local to, auto&& wanted) {
      std::vector<std::pair<Global, Local>> found;  // (index, position)
      for (Local p = from; p < to; ++p) {
        const Global i = tree.order()[std::size_t(p)];
        if ((i < space.begin() || i >= space.end()) && wanted(p)) found.emplace_back(i, p);
      }
      std::sort(found.begin(), found.end());
      return found;
    };
    const auto row = ghosts(this->range(), *parts.rows, first, last, [](Local) { return true; });
    const auto column = ghosts(this->domain(), *parts.columns, 0, parts.columns->size(),
                               [&](Local p) { return parts.touched[std::size_t(p)] != 0; });
    const auto pattern = [&](const Space& space, const auto& found, std::vector<Local>& at, Local shift) {
      std::vector<Global> needed;
      for (const auto& [i, p] : found) needed.push_back(i), at.push_back(p - shift);
      return std::make_shared<const comm::Pattern>(
          comm::Pattern::build(comm, space.partition().offsets(), std::move(needed)));
    };
    parts.row_pattern = pattern(this->range(), row, parts.row_at, first);
    parts.column_pattern = pattern(this->domain(), column, parts.column_at, 0);
    for (Local p = first; p < last; ++p) {
      const Global i = parts.rows->order()[std::size_t(p)] - this->range().begin();
      if (i >= 0 && i < this->range().local_size()) parts.own_row.emplace_back(Local(i), p - first);
    }
    parts.own_column.resize(std::size_t(this->domain().local_size()));
    for (Local p = 0; p < parts.columns->size(); ++p) {
      const Global i = parts.columns->order()[std::size_t(p)] - this->domain().begin();
      if (i >= 0 && i < this->domain().local_size()) parts.own_column[std::size_t(i)] = p;
    }
  }
  exchange(true, 1);
  exchange(false, 1);
}

template <Scalar T>
comm::Exchange& HMatrix<T>::exchange(bool rows, int columns) const {
  auto& e = (rows ? parts_->row_exchange : parts_->column_exchange)[columns];
  if (!e)
    e = std::make_unique<comm::Exchange>(this->domain().comm(), rows ? parts_->row_pattern : parts_->column_pattern,
                                         sizeof(T) * std::size_t(columns));
  return *e;
}

namespace {

template <Scalar T>
void put(T* out, const T* in, std::size_t k) {
  for (std::size_t c = 0; c < k; ++c) out[c] = in[c];
}

}  // namespace

template <Scalar T>
int HMatrix<T>::begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool backward) const {
  auto& parts = *parts_;
  const auto& comm = this->domain().comm();
  const int columns = x.columns();
  const std::size_t k = std::size_t(columns);
  if (comm.size() == 1) return -1;
  if (!this->range().is_replicated()) {
    auto& e = exchange(backward, columns);
    const auto& pattern = e.pattern();
    const int slot = e.open();
    T* const out = reinterpret_cast<T*>(e.outgoing(slot));
    for (std::size_t i = 0; i < pattern.send_index.size(); ++i)
      put(out + i * k, x.data() + std::size_t(pattern.send_index[i]) * k, k);
    e.post(slot);
    return slot;
  }
  const auto row_order = parts.rows->order().subspan(std::size_t(parts.first), std::size_t(parts.count));
  parts.part.resize(std::size_t(std::max<Global>(parts.count, backward ? parts.columns->size() : 0)) * k);
  if (!backward) {
    const Span span("hmatrix product", "op", Trace::on() ? std::int64_t(cost().bytes) : 0);
    parts.storage->multiply(x.data(), parts.columns->order(), parts.part.data(), columns, comm);
    auto& e = exchange(true, columns);
    const auto& pattern = e.pattern();
    const int slot = e.open();
    T* const out = reinterpret_cast<T*>(e.outgoing(slot));
    for (std::size_t i = 0; i < pattern.send_index.size(); ++i)
      put(out + i * k, parts.part.data() + std::size_t(pattern.send_index[i]) * k, k);
    e.post(slot);
    for (std::size_t p = 0; p < row_order.size(); ++p)
      put(y.data() + std::size_t(row_order[p]) * k, parts.part.data() + p * k, k);
    return slot;
  }
  const Span span("hmatrix adjoint", "op", Trace::on() ? std::int64_t(cost().bytes) : 0);
  parts.whole.resize(std::size_t(parts.count) * k);
  for (std::size_t p = 0; p < row_order.size(); ++p)
    put(parts.whole.data() + p * k, x.data() + std::size_t(row_order[p]) * k, k);
  parts.storage->multiply_adjoint(parts.whole.data(), parts.part.data(), columns, comm);
  auto& e = exchange(false, columns);
  const int slot = e.open(false);
  T* const out = reinterpret_cast<T*>(e.outgoing(slot));
  for (std::size_t g = 0; g < e.pattern().ghosts.size(); ++g)
    put(out + g * k, parts.part.data() + std::size_t(e.pattern().ghosts[g]) * k, k);
  e.post(slot);
  const auto own = parts.part.begin() + std::ptrdiff_t(std::size_t(parts.column_cuts[std::size_t(comm.rank())]) * k);
  const std::size_t count =
      std::size_t(parts.column_cuts[std::size_t(comm.rank()) + 1] - parts.column_cuts[std::size_t(comm.rank())]) * k;
  parts.share[slot].assign(own, own + std::ptrdiff_t(count));
  return slot;
}

// Own rows of a product, in the order of the tree, to the ranks that own them.
template <Scalar T>
void HMatrix<T>::deliver(const T* rows, int columns, T* y) const {
  const auto& parts = *parts_;
  const std::size_t k = std::size_t(columns);
  auto& e = exchange(true, columns);
  const auto& pattern = e.pattern();
  const int slot = e.open(false);
  T* const out = reinterpret_cast<T*>(e.outgoing(slot));
  for (std::size_t g = 0; g < parts.row_at.size(); ++g) put(out + g * k, rows + std::size_t(parts.row_at[g]) * k, k);
  e.post(slot);
  for (const auto& [i, p] : parts.own_row) put(y + std::size_t(i) * k, rows + std::size_t(p) * k, k);
  e.wait(slot);
  const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
  for (std::size_t i = 0; i < pattern.send_index.size(); ++i)
    put(y + std::size_t(pattern.send_index[i]) * k, in + i * k, k);
  e.close(slot);
}

template <Scalar T>
void HMatrix<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool backward, int slot) const {
  auto& parts = *parts_;
  const auto& comm = this->domain().comm();
  const int columns = x.columns();
  const std::size_t k = std::size_t(columns);
  const auto row_order = parts.rows->order();
  const auto column_order = parts.columns->order();
  if (slot < 0) {
    const Span span(backward ? "hmatrix adjoint" : "hmatrix product", "op",
                    Trace::on() ? std::int64_t(cost().bytes) : 0);
    if (!backward) {
      parts.part.resize(std::size_t(parts.count) * k);
      parts.storage->multiply(x.data(), column_order, parts.part.data(), columns, comm);
      for (std::size_t p = 0; p < row_order.size(); ++p)
        put(y.data() + std::size_t(row_order[p]) * k, parts.part.data() + p * k, k);
    } else {
      parts.whole.resize(row_order.size() * k);
      parts.part.resize(column_order.size() * k);
      for (std::size_t p = 0; p < row_order.size(); ++p)
        put(parts.whole.data() + p * k, x.data() + std::size_t(row_order[p]) * k, k);
      parts.storage->multiply_adjoint(parts.whole.data(), parts.part.data(), columns, comm);
      for (std::size_t p = 0; p < column_order.size(); ++p)
        put(y.data() + std::size_t(column_order[p]) * k, parts.part.data() + p * k, k);
    }
    return;
  }

  if (this->range().is_replicated()) {
    auto& e = exchange(!backward, columns);
    e.wait(slot);
    const T* in = reinterpret_cast<const T*>(e.incoming(slot));
    int gather = slot;
    if (backward) {
      // The other ranks' parts of the own columns, added in the order of ranks; then everybody's sums to all.
      auto own = std::move(parts.share[slot]);
      parts.share.erase(slot);
      const auto& index = e.pattern().send_index;
      for (std::size_t i = 0; i < index.size(); ++i)
        for (std::size_t c = 0; c < k; ++c) own[std::size_t(index[i]) * k + c] += in[i * k + c];
      e.close(slot);
      gather = e.open();
      T* const out = reinterpret_cast<T*>(e.outgoing(gather));
      for (std::size_t i = 0; i < index.size(); ++i) put(out + i * k, own.data() + std::size_t(index[i]) * k, k);
      e.post(gather);
      const std::size_t begin = std::size_t(parts.column_cuts[std::size_t(comm.rank())]);
      for (std::size_t p = 0; p < own.size() / k; ++p)
        put(y.data() + std::size_t(column_order[begin + p]) * k, own.data() + p * k, k);
      e.wait(gather);
      in = reinterpret_cast<const T*>(e.incoming(gather));
    }
    const auto order = backward ? column_order : row_order;
    const auto& ghosts = e.pattern().ghosts;
    for (std::size_t g = 0; g < ghosts.size(); ++g)
      put(y.data() + std::size_t(order[std::size_t(ghosts[g])]) * k, in + g * k, k);
    e.close(gather);
    return;
  }

  auto& e = exchange(backward, columns);
  e.wait(slot);
  const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
  const Span span(backward ? "hmatrix adjoint" : "hmatrix product", "op", Trace::on() ? std::int64_t(cost().bytes) : 0);
  if (!backward) {
    // Elements that no block touches do not come, and stay 0.
    if (parts.whole.size() != column_order.size() * k) parts.whole.assign(column_order.size() * k, T(0));
    std::copy_n(x.data(), x.size(), parts.whole.data() + std::size_t(this->domain().begin()) * k);
    const auto& ghosts = e.pattern().ghosts;
    for (std::size_t g = 0; g < ghosts.size(); ++g) put(parts.whole.data() + std::size_t(ghosts[g]) * k, in + g * k, k);
    e.close(slot);
    parts.part.resize(std::size_t(parts.count) * k);
    parts.storage->multiply(parts.whole.data(), column_order, parts.part.data(), columns, comm);
    deliver(parts.part.data(), columns, y.data());
    return;
  }
  std::vector<T> rows(std::size_t(parts.count) * k);
  for (const auto& [i, p] : parts.own_row) put(rows.data() + std::size_t(p) * k, x.data() + std::size_t(i) * k, k);
  for (std::size_t g = 0; g < parts.row_at.size(); ++g)
    put(rows.data() + std::size_t(parts.row_at[g]) * k, in + g * k, k);
  e.close(slot);
  parts.part.resize(column_order.size() * k);
  parts.storage->multiply_adjoint(rows.data(), parts.part.data(), columns, comm);
  auto& sums = exchange(false, columns);
  const auto& pattern = sums.pattern();
  const int other = sums.open(false);
  T* const out = reinterpret_cast<T*>(sums.outgoing(other));
  for (std::size_t g = 0; g < parts.column_at.size(); ++g)
    put(out + g * k, parts.part.data() + std::size_t(parts.column_at[g]) * k, k);
  sums.post(other);
  for (std::size_t i = 0; i < parts.own_column.size(); ++i)
    put(y.data() + i * k, parts.part.data() + std::size_t(parts.own_column[i]) * k, k);
  sums.wait(other);
  const T* const more = reinterpret_cast<const T*>(sums.incoming(other));
  for (std::size_t i = 0; i < pattern.send_index.size(); ++i)
    for (std::size_t c = 0; c < k; ++c) y.data()[std::size_t(pattern.send_index[i]) * k + c] += more[i * k + c];
  sums.close(other);
}

template <Scalar T>
Cost HMatrix<T>::cost() const {
  Cost c;
  const auto bytes = parts_->storage->bytes();
  c.flops = parts_->storage->flops();
  c.bytes = bytes[0] + bytes[1] + bytes[2] + parts_->storage->index_bytes() +
            double(sizeof(T)) * (double(parts_->columns->size()) + parts_->count);
  if (!parts_->row_pattern) return c;
  const auto &rows = *parts_->row_pattern, &columns = *parts_->column_pattern;
  if (this->range().is_replicated()) {
    c.messages = double(rows.send_ranks.size());
    c.message_bytes = double(rows.send_index.size()) * sizeof(T);
  } else {
    c.messages = double(columns.send_ranks.size() + rows.receive_ranks.size());
    c.message_bytes = double(columns.send_index.size() + rows.ghosts.size()) * sizeof(T);
  }
  return c;
}

template <Scalar T>
Cost HMatrix<T>::adjoint_cost() const {
  Cost c = cost();
  if (!parts_->row_pattern) return c;
  const auto &rows = *parts_->row_pattern, &columns = *parts_->column_pattern;
  if (this->range().is_replicated()) {
    c.messages = double(columns.receive_ranks.size() + columns.send_ranks.size());
    c.message_bytes = double(columns.ghosts.size() + columns.send_index.size()) * sizeof(T);
  } else {
    c.messages = double(rows.send_ranks.size() + columns.receive_ranks.size());
    c.message_bytes = double(rows.send_index.size() + columns.ghosts.size()) * sizeof(T);
  }
  return c;
}

template <Scalar T>
bool HMatrix<T>::has_diagonal() const {
  return parts_->rows == parts_->columns && this->range() == this->domain();
}

template <Scalar T>
std::vector<T> HMatrix<T>::diagonal() const {
  if (!has_diagonal()) return Operator<T, Host>::diagonal();
  const auto& comm = this->range().comm();
  std::vector<T> d(std::size_t(this->range().local_size()));
  const auto order = parts_->rows->order();
  if (comm.size() == 1 || this->range().is_replicated()) {
    const auto all = comm.size() == 1 ? parts_->diagonal : comm.all_gather(std::span<const T>(parts_->diagonal));
    for (std::size_t p = 0; p < all.size(); ++p) d[std::size_t(order[p])] = all[p];
  } else {
    deliver(parts_->diagonal.data(), 1, d.data());
  }
  return d;
}

template class HMatrix<float>;
template class HMatrix<double>;
template class HMatrix<std::complex<float>>;
template class HMatrix<std::complex<double>>;

}  // namespace tacit::op
