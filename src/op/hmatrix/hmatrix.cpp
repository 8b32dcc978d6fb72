#include <tacit/base/trace.hpp>

#include "parts.hpp"

#include <algorithm>
#include <limits>

namespace tacit::op {

template <Scalar T>
HMatrix<T>::HMatrix(Space range, Space domain, std::shared_ptr<const ClusterTree> rows,
                    std::shared_ptr<const ClusterTree> columns, const EntryFunction<T>& entry,
                    const HMatrixOptions& options, BlockMaker<T>* maker)
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
    require(options.compress.cut_rank >= 0, "an hmatrix cut to rank ", options.compress.cut_rank);
    require(options.symmetry == Symmetry::none || (rows == columns && this->range() == this->domain()),
            "a symmetric hmatrix needs one cluster tree and one space for rows and columns");
    parts_->rows = std::move(rows);
    parts_->columns = std::move(columns);
    if (options.nested) {
      check_nested(maker != nullptr);
      assemble_nested(entry);
    } else {
      assemble(entry, maker);
      exchange_patterns();
    }
    report_.set_up_seconds = comm.all_max(wall_time() - start);
  });
}

template <Scalar T>
HMatrix<T>::~HMatrix() = default;

template <Scalar T>
HMatrix<T>::HMatrix(const HMatrix& fine, const CoarseOptions& coarse)
    : Operator<T, Host>(fine.range(), fine.domain()), options_(fine.options_), parts_(std::make_unique<Parts>()) {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    const Span span("hmatrix coarse copy", "op");
    const double start = wall_time();
    fine.require_blocks("a coarse copy of");
    require(coarse.rank >= 0, "a coarse hmatrix of rank ", coarse.rank);
    require(coarse.tolerance > 0 && coarse.tolerance < 1, "a coarse hmatrix with a tolerance of ", coarse.tolerance,
            "; a number above 0 and below 1 is needed");
    options_.tolerance = coarse.tolerance;
    place_as(fine);
    parts_->diagonal = fine.parts_->diagonal;
    coarsen(fine, coarse);
    exchange_patterns();
    report_.set_up_seconds = comm.all_max(wall_time() - start);
  });
}

template <Scalar T>
HMatrix<T>::HMatrix(const HMatrix& like, std::vector<BlockMatrix<T>> blocks, Symmetry symmetry, double tolerance,
                    double error)
    : Operator<T, Host>(like.range(), like.domain()), options_(like.options_), parts_(std::make_unique<Parts>()) {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    const Span span("hmatrix of blocks", "op");
    const double start = wall_time();
    require(tolerance > 0 && tolerance < 1, "an hmatrix truncated to ", tolerance,
            "; a number above 0 and below 1 is needed");
    options_.tolerance = tolerance, options_.symmetry = symmetry;
    place_as(like);
    store_blocks(std::move(blocks), error);
    exchange_patterns();
    report_.set_up_seconds = comm.all_max(wall_time() - start);
  });
}

// The trees, and which rank has which rows.
template <Scalar T>
void HMatrix<T>::place_as(const HMatrix& other) {
  parts_->rows = other.parts_->rows;
  parts_->columns = other.parts_->columns;
  parts_->cuts = other.parts_->cuts;
  parts_->first = other.parts_->first;
  parts_->count = other.parts_->count;
}

template <Scalar T>
std::pair<Local, Local> HMatrix<T>::own_rows() const {
  return {parts_->first, parts_->first + parts_->count};
}

template <Scalar T>
const OwnRows<T>& HMatrix<T>::rows() const {
  return *parts_->own_rows;
}

template <Scalar T>
std::shared_ptr<const ClusterTree> HMatrix<T>::row_tree() const {
  return parts_->rows;
}

template <Scalar T>
std::span<const Global> HMatrix<T>::column_order() const {
  return parts_->columns->order();
}

template <Scalar T>
void HMatrix<T>::require_blocks(const char* what) const {
  require(!parts_->nested, what,
          " an hmatrix with nested bases, which has no low-rank blocks of its own; make it without"
          " nested bases");
}

template <Scalar T>
const detail::Storage<T>& HMatrix<T>::storage() const {
  require_blocks("the blocks of");
  return *parts_->storage;
}

template <Scalar T>
const std::vector<T>& HMatrix<T>::own_diagonal() const {
  return parts_->diagonal;
}

template <Scalar T>
std::vector<BlockMatrix<T>> HMatrix<T>::blocks_within(Local first, Local last,
                                                      const std::function<bool(const Block&)>& wanted) const {
  require_blocks("the square part of");
  require(parts_->rows == parts_->columns, "the square part of an hmatrix whose rows and columns have two trees");
  const bool both = two_sided();
  const auto clipped = [&](Block b) {
    b.column_begin = std::max(b.column_begin, first), b.column_end = std::min(b.column_end, last);
    return b;
  };
  const auto turned = [](const Block& b) {
    return Block{b.column_begin, b.column_end, b.row_begin, b.row_end, b.admissible};
  };
  const auto wants = [&](const Block& b) { return !wanted || wanted(b); };
  auto found = parts_->storage->unpack([&](const Block& whole) {
    const Block b = clipped(whole);
    return b.column_begin < b.column_end && (wants(b) || (both && !b.is_diagonal() && wants(turned(b))));
  });
  std::vector<BlockMatrix<T>> blocks;
  for (auto& m : found) {
    const Block b = clipped(m.block);
    if (b.columns() < m.block.columns()) {
      const std::size_t height = std::size_t(m.dense ? b.rows() : m.block.columns()),
                        skip = std::size_t(b.column_begin - m.block.column_begin), kept = std::size_t(b.columns());
      if (m.dense) {
        m.u = {m.u.begin() + std::ptrdiff_t(skip * height), m.u.begin() + std::ptrdiff_t((skip + kept) * height)};
      } else {
        std::vector<T> v(kept * std::size_t(m.rank));
        for (std::size_t k = 0; k < std::size_t(m.rank); ++k)
          std::copy_n(m.v.begin() + std::ptrdiff_t(k * height + skip), kept, v.begin() + std::ptrdiff_t(k * kept));
        m.v = std::move(v);
      }
      m.block = b;
    }
    if (both && !b.is_diagonal() && wants(turned(b))) {
      // The mirror block: U V^H becomes V U^H, or its conjugate.
      const bool conjugates = is_complex<T> && options_.symmetry == Symmetry::symmetric;
      BlockMatrix<T> mirror{turned(b), m.dense, m.rank, {}, {}};
      if (m.dense) {
        mirror.u.resize(m.u.size());
        const std::size_t rows = std::size_t(b.rows()), columns = std::size_t(b.columns());
        for (std::size_t j = 0; j < columns; ++j)
          for (std::size_t i = 0; i < rows; ++i)
            mirror.u[j + i * columns] = conjugates ? m.u[i + j * rows] : conj(m.u[i + j * rows]);
      } else {
        mirror.u = m.v, mirror.v = m.u;
        if (conjugates)
          for (auto* part : {&mirror.u, &mirror.v})
            for (T& a : *part) a = conj(a);
      }
      blocks.push_back(std::move(mirror));
    }
    if (wants(b)) blocks.push_back(std::move(m));
  }
  return blocks;
}

template <Scalar T>
void HMatrix<T>::exchange_patterns() {
  const auto& comm = this->range().comm();
  auto& parts = *parts_;
  parts.own_rows = std::make_unique<OwnRows<T>>(this->range(), parts.rows, parts.cuts);
  parts.column_exchange.clear(), parts.column_at.clear();
  if (comm.size() == 1) return;
  if (this->range().is_replicated()) {
    const auto shares = layout::Partition::blocks(parts.columns->size(), comm.size());
    parts.column_cuts.assign(shares.offsets().begin(), shares.offsets().end());
    std::vector<Global> others;
    const Global begin = shares.begin(comm.rank()), end = shares.end(comm.rank());
    for (Global p = 0; p < shares.size(); ++p)
      if (p < begin || p >= end) others.push_back(p);
    parts.column_pattern =
        std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, parts.column_cuts, std::move(others)));
  } else {
    const Space& space = this->domain();
    parts.own_column.resize(std::size_t(space.local_size()));
    std::vector<std::pair<Global, Local>> ghosts;  // (index, position)
    for (Local p = 0; p < parts.columns->size(); ++p) {
      const Global i = parts.columns->order()[std::size_t(p)];
      if (i >= space.begin() && i < space.end()) parts.own_column[std::size_t(i - space.begin())] = p;
      else if (parts.touched[std::size_t(p)]) ghosts.emplace_back(i, p);
    }
    std::sort(ghosts.begin(), ghosts.end());
    std::vector<Global> needed;
    for (const auto& [i, p] : ghosts) needed.push_back(i), parts.column_at.push_back(p);
    parts.column_pattern = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(comm, space.partition().offsets(), std::move(needed)));
  }
  column_exchange(1);
}

template <Scalar T>
comm::Exchange& HMatrix<T>::column_exchange(int columns) const {
  auto& e = parts_->column_exchange[columns];
  if (!e)
    e = std::make_unique<comm::Exchange>(this->domain().comm(), parts_->column_pattern,
                                         sizeof(T) * std::size_t(columns));
  return *e;
}

namespace {

template <Scalar T>
void put(T* out, const T* in, std::size_t k) {
  for (std::size_t c = 0; c < k; ++c) out[c] = in[c];
}

// Declares the work of a product, for traces and virtual clocks: a pass over the matrix for every four real or two
// complex columns.
template <Scalar T>
void declare_work(const HMatrix<T>& A, int columns) {
  if (!Trace::on()) return;
  const Cost c = A.cost();
  constexpr int most = is_complex<T> ? 2 : 4;
  Trace::work("hmatrix product", c.bytes * ((columns + most - 1) / most), c.flops * columns);
}

}  // namespace

template <Scalar T>
void HMatrix<T>::use_batches(const BatchOptions& options) {
  require_blocks("batches of");
  require(!two_sided(), "batches of an hmatrix that is stored by one triangle");
  (void)plan_batches({}, options);
  parts_->batched =
      std::make_unique<detail::BatchedProduct<T>>(parts_->first, parts_->count, parts_->columns->size(),
                                                  parts_->storage->unpack([](const Block&) { return true; }), options);
}
template <Scalar T>
void HMatrix<T>::use_own_product() {
  parts_->batched.reset();
}
template <Scalar T>
const BatchReport* HMatrix<T>::batches() const {
  return parts_->batched ? &parts_->batched->report() : nullptr;
}

template <Scalar T>
bool HMatrix<T>::intact() const {
  return parts_->storage->intact() && (!parts_->nested || parts_->nested->intact());
}

// This rank's rows of A x, with x in the caller's order.
template <Scalar T>
void HMatrix<T>::multiply_rows(const T* x, T* rows, int k) const {
  const auto& comm = this->domain().comm();
  const auto order = parts_->columns->order();
  if (parts_->batched) {
    parts_->batched->multiply(x, order, rows, k, comm);
  } else if (parts_->nested) {
    // The near field is multiplied while coefficients of the far field travel.
    parts_->nested->project(x, order, k, comm);
    const int slot = parts_->nested->post(k, true);
    parts_->storage->multiply(x, order, rows, k, comm);
    parts_->nested->wait(slot, k, true);
    parts_->nested->add_rows(rows, k, comm);
  } else {
    parts_->storage->multiply(x, order, rows, k, comm);
  }
  declare_work(*this, k);
}

// y: this rank's part of A^H x, all columns by position; rows: of x, in the order of the tree.
template <Scalar T>
void HMatrix<T>::multiply_adjoint(const T* rows, T* y, int k) const {
  const auto& comm = this->domain().comm();
  int slot = -1;
  if (parts_->nested) {
    parts_->nested->project_adjoint(rows, k, comm);
    slot = parts_->nested->post(k, false);
  }
  parts_->storage->multiply_adjoint(rows, y, k, comm);
  if (parts_->nested) {
    parts_->nested->wait(slot, k, false);
    parts_->nested->add_columns(y, k, comm);
  }
  declare_work(*this, k);
}

// The product with this rank's blocks and their mirror blocks: x has all elements in the caller's order, y all columns
// by position.
template <Scalar T>
void HMatrix<T>::multiply_both(const T* x, T* y, int k, bool backward) const {
  const auto& comm = this->domain().comm();
  const auto order = parts_->columns->order();
  // A = A^T: A^H x is the conjugate of A times the conjugate of x.
  const bool conjugates = is_complex<T> && options_.symmetry == Symmetry::symmetric;
  declare_work(*this, k);
  if (!(conjugates && backward)) return parts_->storage->multiply_both(x, order, y, k, conjugates, comm);
  const std::size_t count = order.size() * std::size_t(k);
  std::vector<T> turned(count);
  for (std::size_t i = 0; i < count; ++i) turned[i] = conj(x[i]);
  parts_->storage->multiply_both(turned.data(), order, y, k, conjugates, comm);
  for (std::size_t i = 0; i < count; ++i) y[i] = conj(y[i]);
}

// Starts adding `part` (all columns by position) over ranks: for distributed vectors at the owners; for replicated ones
// at the ranks that have a share of the columns, from which finish_sums() sends them to all.
template <Scalar T>
int HMatrix<T>::post_sums(int columns) const {
  auto& parts = *parts_;
  const auto& comm = this->domain().comm();
  const std::size_t k = std::size_t(columns);
  const bool replicated = this->range().is_replicated();
  auto& e = column_exchange(columns);
  const int slot = e.open(false);
  T* const out = reinterpret_cast<T*>(e.outgoing(slot));
  const auto& ghosts = e.pattern().ghosts;
  for (std::size_t g = 0; g < ghosts.size(); ++g)
    put(out + g * k, parts.part.data() + (replicated ? std::size_t(ghosts[g]) : std::size_t(parts.column_at[g])) * k,
        k);
  e.post(slot);
  if (replicated) {
    const auto begin = std::size_t(parts.column_cuts[std::size_t(comm.rank())]) * k,
               end = std::size_t(parts.column_cuts[std::size_t(comm.rank()) + 1]) * k;
    parts.share[slot].assign(parts.part.begin() + std::ptrdiff_t(begin), parts.part.begin() + std::ptrdiff_t(end));
  }
  return slot;
}

template <Scalar T>
void HMatrix<T>::finish_sums(int columns, int slot, T* y) const {
  auto& parts = *parts_;
  const auto& comm = this->domain().comm();
  const std::size_t k = std::size_t(columns);
  auto& e = column_exchange(columns);
  const auto& index = e.pattern().send_index;
  if (!this->range().is_replicated()) {
    for (std::size_t i = 0; i < parts.own_column.size(); ++i)
      put(y + i * k, parts.part.data() + std::size_t(parts.own_column[i]) * k, k);
    e.wait(slot);
    const T* const more = reinterpret_cast<const T*>(e.incoming(slot));
    for (std::size_t i = 0; i < index.size(); ++i)
      for (std::size_t c = 0; c < k; ++c) y[std::size_t(index[i]) * k + c] += more[i * k + c];
    e.close(slot);
    return;
  }
  const auto order = parts.columns->order();
  e.wait(slot);
  const T* in = reinterpret_cast<const T*>(e.incoming(slot));
  // Adds the other ranks' parts of the own columns in the order of ranks, then gathers all sums.
  auto own = std::move(parts.share[slot]);
  parts.share.erase(slot);
  for (std::size_t i = 0; i < index.size(); ++i)
    for (std::size_t c = 0; c < k; ++c) own[std::size_t(index[i]) * k + c] += in[i * k + c];
  e.close(slot);
  const int gather = e.open();
  T* const out = reinterpret_cast<T*>(e.outgoing(gather));
  for (std::size_t i = 0; i < index.size(); ++i) put(out + i * k, own.data() + std::size_t(index[i]) * k, k);
  e.post(gather);
  const std::size_t begin = std::size_t(parts.column_cuts[std::size_t(comm.rank())]);
  for (std::size_t p = 0; p < own.size() / k; ++p) put(y + std::size_t(order[begin + p]) * k, own.data() + p * k, k);
  e.wait(gather);
  in = reinterpret_cast<const T*>(e.incoming(gather));
  const auto& ghosts = e.pattern().ghosts;
  for (std::size_t g = 0; g < ghosts.size(); ++g)
    put(y + std::size_t(order[std::size_t(ghosts[g])]) * k, in + g * k, k);
  e.close(gather);
}

template <Scalar T>
int HMatrix<T>::begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool backward) const {
  auto& parts = *parts_;
  const auto& comm = this->domain().comm();
  const int columns = x.columns();
  const std::size_t k = std::size_t(columns);
  if (comm.size() == 1) return -1;
  if (!this->range().is_replicated()) {
    if (backward && !two_sided()) return parts.own_rows->start_get(x.data(), columns);
    auto& e = column_exchange(columns);
    const auto& pattern = e.pattern();
    const int slot = e.open();
    T* const out = reinterpret_cast<T*>(e.outgoing(slot));
    for (std::size_t i = 0; i < pattern.send_index.size(); ++i)
      put(out + i * k, x.data() + std::size_t(pattern.send_index[i]) * k, k);
    e.post(slot);
    return slot;
  }
  const Span span(backward ? "hmatrix adjoint" : "hmatrix product", "op", Trace::on() ? std::int64_t(cost().bytes) : 0);
  if (two_sided()) {
    parts.part.resize(std::size_t(parts.columns->size()) * k);
    multiply_both(x.data(), parts.part.data(), columns, backward);
    return post_sums(columns);
  }
  if (!backward) {
    parts.part.resize(std::size_t(parts.count) * k);
    multiply_rows(x.data(), parts.part.data(), columns);
    return parts.own_rows->start_put(parts.part.data(), columns, y.data());
  }
  parts.part.resize(std::size_t(parts.columns->size()) * k);
  parts.whole.resize(std::size_t(parts.count) * k);
  parts.own_rows->finish_get(x.data(), columns, -1, parts.whole.data());
  multiply_adjoint(parts.whole.data(), parts.part.data(), columns);
  return post_sums(columns);
}

template <Scalar T>
void HMatrix<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool backward, int slot) const {
  auto& parts = *parts_;
  const int columns = x.columns();
  const std::size_t k = std::size_t(columns), n = std::size_t(parts.columns->size());
  if (slot >= 0 && this->range().is_replicated()) {
    if (backward || two_sided()) finish_sums(columns, slot, y.data());
    else parts.own_rows->finish_put(columns, slot, y.data());
    return;
  }
  const bool alone = slot < 0;
  if (backward && !two_sided()) {
    std::vector<T> rows(std::size_t(parts.count) * k);
    parts.own_rows->finish_get(x.data(), columns, slot, rows.data());
    parts.part.resize(n * k);
    {
      const Span span("hmatrix adjoint", "op", Trace::on() ? std::int64_t(cost().bytes) : 0);
      multiply_adjoint(rows.data(), parts.part.data(), columns);
    }
  } else {
    const T* all = x.data();
    if (!alone) {
      auto& e = column_exchange(columns);
      e.wait(slot);
      const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
      // Elements that no block touches are not received and stay 0.
      if (parts.whole.size() != n * k) parts.whole.assign(n * k, T(0));
      std::copy_n(x.data(), x.size(), parts.whole.data() + std::size_t(this->domain().begin()) * k);
      const auto& ghosts = e.pattern().ghosts;
      for (std::size_t g = 0; g < ghosts.size(); ++g)
        put(parts.whole.data() + std::size_t(ghosts[g]) * k, in + g * k, k);
      e.close(slot);
      all = parts.whole.data();
    }
    const Span span("hmatrix product", "op", Trace::on() ? std::int64_t(cost().bytes) : 0);
    if (two_sided()) {
      parts.part.resize(n * k);
      multiply_both(all, parts.part.data(), columns, backward);
    } else {
      parts.part.resize(std::size_t(parts.count) * k);
      multiply_rows(all, parts.part.data(), columns);
      parts.own_rows->finish_put(columns, parts.own_rows->start_put(parts.part.data(), columns, y.data()), y.data());
      return;
    }
  }
  if (!alone) return finish_sums(columns, post_sums(columns), y.data());
  const auto order = parts.columns->order();
  for (std::size_t p = 0; p < n; ++p) put(y.data() + std::size_t(order[p]) * k, parts.part.data() + p * k, k);
}

template <Scalar T>
Cost HMatrix<T>::cost() const {
  Cost c;
  const auto bytes = parts_->storage->bytes();
  c.flops = parts_->storage->flops() * (two_sided() ? 2 : 1);
  if (const auto* const far = parts_->nested.get()) {
    const auto more = far->bytes();
    c.flops += far->flops();
    c.bytes += more[0] + more[1] + more[2] + far->index_bytes();
  }
  c.bytes += bytes[0] + bytes[1] + bytes[2] + parts_->storage->index_bytes() +
             double(sizeof(T)) * (double(parts_->columns->size()) + parts_->count);
  if (two_sided()) c.bytes += parts_->storage->factor_bytes();  // V is read both before and after U
  if (!parts_->column_pattern) return c;
  const auto &rows = *parts_->own_rows->pattern(), &columns = *parts_->column_pattern;
  if (two_sided()) {
    c.messages = double(columns.send_ranks.size() + columns.receive_ranks.size());
    c.message_bytes = double(columns.send_index.size() + columns.ghosts.size()) * sizeof(T);
  } else if (this->range().is_replicated()) {
    c.messages = double(rows.send_ranks.size());
    c.message_bytes = double(rows.send_index.size()) * sizeof(T);
  } else {
    c.messages = double(columns.send_ranks.size() + rows.receive_ranks.size());
    c.message_bytes = double(columns.send_index.size() + rows.ghosts.size()) * sizeof(T);
  }
  if (parts_->nested) {
    c.messages += double(parts_->nested->pattern()->send_ranks.size());
    c.message_bytes += double(parts_->nested->pattern()->send_index.size()) * sizeof(T);
  }
  return c;
}

template <Scalar T>
Cost HMatrix<T>::adjoint_cost() const {
  Cost c = cost();
  if (!parts_->column_pattern || two_sided()) return c;
  const auto &rows = *parts_->own_rows->pattern(), &columns = *parts_->column_pattern;
  if (this->range().is_replicated()) {
    c.messages = double(columns.receive_ranks.size() + columns.send_ranks.size());
    c.message_bytes = double(columns.ghosts.size() + columns.send_index.size()) * sizeof(T);
  } else {
    c.messages = double(rows.send_ranks.size() + columns.receive_ranks.size());
    c.message_bytes = double(rows.send_index.size() + columns.ghosts.size()) * sizeof(T);
  }
  if (parts_->nested) {
    c.messages += double(parts_->nested->pattern()->receive_ranks.size());
    c.message_bytes += double(parts_->nested->pattern()->ghosts.size()) * sizeof(T);
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
    parts_->own_rows->finish_put(1, parts_->own_rows->start_put(parts_->diagonal.data(), 1, d.data()), d.data());
  }
  return d;
}

#define TACIT_INSTANTIATE(T) template class HMatrix<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
