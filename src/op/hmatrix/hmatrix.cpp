#include <tacit/op/hmatrix/hmatrix.hpp>

#include <tacit/base/trace.hpp>

#include "storage.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::op {
namespace {

// The part of a block's tolerance that storing it in few digits may use (compress.cpp has the others).
constexpr double storage_share = 0.56;
// Rank that a low-rank block is taken for before it is known (HACApK: 7).
constexpr double predicted_rank = 8;
constexpr double even = 0.97;  // least over most bytes of a rank that cuts are left at

double bytes_wanted(const Block& b) {
  return b.admissible ? std::min(predicted_rank * (double(b.rows()) + b.columns()), double(b.rows()) * b.columns())
                      : double(b.rows()) * b.columns();
}

// 1 or -1, of an index and nothing else.
double sign_of(Global i) {
  std::uint64_t z = (std::uint64_t(i) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z >> 63) != 0 ? 1.0 : -1.0;
}

// Costs of rows, where each item's cost falls on its rows alike.
class RowCost {
 public:
  explicit RowCost(Local rows) : change_(std::size_t(rows) + 1) {}
  void add(Local begin, Local end, double cost) {
    if (end <= begin) return;
    change_[std::size_t(begin)] += cost / (end - begin);
    change_[std::size_t(end)] -= cost / (end - begin);
  }
  std::vector<double> of_chunks(Local chunk) const {
    const std::size_t rows = change_.size() - 1;
    std::vector<double> sums((rows + std::size_t(chunk) - 1) / std::size_t(chunk));
    double now = 0;
    for (std::size_t i = 0; i < rows; ++i) now += change_[i], sums[i / std::size_t(chunk)] += now;
    return sums;
  }

 private:
  std::vector<double> change_;
};

// Contiguous chunks for each rank, with equal sums as nearly as chunks allow: rank r has rows [cut[r], cut[r + 1]).
std::vector<Global> cut_evenly(const std::vector<double>& chunks, Local chunk, Local rows, int ranks) {
  std::vector<double> up_to(chunks.size() + 1);
  for (std::size_t i = 0; i < chunks.size(); ++i) up_to[i + 1] = up_to[i] + std::max(chunks[i], 1e-300);
  std::vector<Global> cuts(std::size_t(ranks) + 1);
  cuts.back() = rows;
  for (int r = 1; r < ranks; ++r) {
    const double wanted = up_to.back() / ranks * r;
    auto i = std::size_t(std::lower_bound(up_to.begin(), up_to.end(), wanted) - up_to.begin());
    if (i > 0 && wanted - up_to[i - 1] < up_to[i] - wanted) --i;
    cuts[std::size_t(r)] = std::clamp<Global>(Global(i) * chunk, cuts[std::size_t(r) - 1], rows);
  }
  return cuts;
}

template <class V>
std::vector<V> sum_over_ranks(const comm::Communicator& comm, const std::vector<V>& own) {
  const auto all = comm.all_gather(std::span<const V>(own));
  std::vector<V> sum(own.size());
  for (std::size_t i = 0; i < all.size(); ++i) sum[i % own.size()] += all[i];
  return sum;
}

}  // namespace

template <Scalar T>
struct HMatrix<T>::Parts {
  std::shared_ptr<const ClusterTree> rows, columns;  // the trees
  std::vector<Global> cuts;
  Local first = 0, count = 0;  // own rows, positions in the row tree's order
  std::unique_ptr<detail::Storage<T>> storage;
  std::vector<T> diagonal;    // of the own rows
  std::vector<char> touched;  // columns that the own blocks read, by position

  // Distributed: ghosts of `row_pattern` are the own rows that other ranks own in the space, those of `column_pattern`
  // the columns touched. Replicated: everybody's rows, and (for the adjoint) a share of the columns each.
  std::shared_ptr<const comm::Pattern> row_pattern, column_pattern;
  std::map<int, std::unique_ptr<comm::Exchange>> row_exchange, column_exchange;
  std::vector<Local> row_at, column_at;          // positions of the ghosts (rows: from `first`), distributed
  std::vector<std::pair<Local, Local>> own_row;  // (element of this rank, position from `first`)
  std::vector<Local> own_column;                 // positions of this rank's elements
  std::vector<Global> column_cuts;               // replicated
  std::vector<T> whole, part;                    // scratch: all of x; own rows, or all columns
  std::map<int, std::vector<T>> share;           // replicated adjoint: own columns, by exchange
};

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
void HMatrix<T>::assemble(const EntryFunction<T>& entry) {
  const Span span("hmatrix assembly", "op");
  const auto& comm = this->range().comm();
  const auto& rows = *parts_->rows;
  const auto& columns = *parts_->columns;
  const Local m = rows.size(), n = columns.size(), chunk = rows.options().quantum;
  const std::vector<Block> leaves = block_tree(rows, columns, options_.admissibility);

  // Some rows from all places: their size, and their products with two vectors. Each rank takes its share.
  struct Sample {
    Local position;
    double size2, size;  // norm^2; |a| |x|
    T random, ones;
  };
  std::vector<Sample> samples;
  Global evaluated = 0;
  {
    const Local s = Local(std::min<Global>(options_.sampled_rows, m));
    std::vector<T> row(static_cast<std::size_t>(n));
    std::vector<Global> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), Global(0));
    std::vector<Sample> own;
    for (Local i = comm.rank(); i < s; i += comm.size()) {
      const Local from = Local(Global(m) * i / s), to = Local(Global(m) * (i + 1) / s);
      const Local p = from + Local((std::uint64_t(i) * 0x9e3779b9u) % std::uint64_t(to - from));
      const Global index = rows.order()[std::size_t(p)];
      entry({&index, 1}, all, row.data());
      evaluated += n;
      Sample sample{p, 0, 0, T(0), T(0)};
      for (Local j = 0; j < n; ++j) {
        const T a = row[std::size_t(j)];
        if (!is_finite(a))
          throw Error(ErrorKind::input, message("the entry at row ", index, ", column ", j, " is ", a));
        sample.size2 += double(abs2(a));
        sample.random += a * T(real_t<T>(sign_of(j)));
        sample.ones += a;
      }
      own.push_back(sample);
    }
    samples = comm.all_gather(std::span<const Sample>(own));
    std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
  }
  // On the safe side of what the rows say.
  double norm;
  {
    double mean = 0, spread = 0;
    for (const auto& s : samples) mean += s.size2 / double(samples.size());
    for (const auto& s : samples) spread += (s.size2 - mean) * (s.size2 - mean);
    const double k = double(samples.size());
    spread = k > 1 ? std::sqrt(spread / (k * (k - 1))) : 0;
    norm = std::sqrt(std::max(mean - spread, mean / 4) * m);
  }

  double wanted = 0;
  for (const Block& b : leaves) wanted += bytes_wanted(b);

  std::vector<detail::Packed<T>> packed;
  std::vector<Global> cuts;
  double error2 = 0, norm2 = 0;
  // Blocks already there are kept: those that a new cut leaves as they are.
  const auto compress_own = [&] {
    parts_->first = Local(cuts[std::size_t(comm.rank())]);
    parts_->count = Local(cuts[std::size_t(comm.rank()) + 1]) - parts_->first;
    const Local last = parts_->first + parts_->count;
    using Key = std::array<Local, 4>;
    const auto key = [](const Block& b) { return Key{b.row_begin, b.row_end, b.column_begin, b.column_end}; };
    std::map<Key, std::size_t> known;
    for (std::size_t i = 0; i < packed.size(); ++i) known[key(packed[i].block)] = i;
    std::vector<detail::Packed<T>> next;
    std::vector<std::size_t> missing;
    std::vector<double> budget;
    for (Block b : leaves) {
      const double whole = bytes_wanted(b) / (double(b.rows()));
      b.row_begin = std::max(b.row_begin, parts_->first), b.row_end = std::min(b.row_end, last);
      if (b.row_begin >= b.row_end) continue;
      budget.push_back(options_.tolerance * norm * std::sqrt(whole * b.rows() / wanted));
      const auto found = known.find(key(b));
      if (found != known.end()) {
        next.push_back(std::move(packed[found->second]));
      } else {
        missing.push_back(next.size());
        next.emplace_back();
        next.back().block = b;
      }
    }
    packed = std::move(next);

    // The largest first; threads take what is left.
    std::stable_sort(missing.begin(), missing.end(), [&](std::size_t a, std::size_t b) {
      return bytes_wanted(packed[a].block) > bytes_wanted(packed[b].block);
    });
    std::exception_ptr error;
    std::mutex mutex;
    std::atomic<bool> failed = false;
    std::atomic<Global> entries = 0;
    const std::ptrdiff_t count = std::ptrdiff_t(missing.size());
#pragma omp parallel for schedule(dynamic, 1) if (options_.concurrent)
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
#ifdef _OPENMP
        const bool speaks = omp_get_thread_num() == 0;
#else
        const bool speaks = true;
#endif
        if (speaks) comm.check(), comm.check_interrupt();
        auto& p = packed[missing[std::size_t(i)]];
        const Block b = p.block;
        const auto r = rows.order().subspan(std::size_t(b.row_begin), std::size_t(b.rows()));
        const auto c = columns.order().subspan(std::size_t(b.column_begin), std::size_t(b.columns()));
        Tolerance tolerance;
        if (options_.measure == ErrorMeasure::block) tolerance.relative = options_.tolerance;
        else tolerance.absolute = budget[missing[std::size_t(i)]];
        const auto made = b.admissible ? compress(entry, r, c, tolerance, options_.compress) : evaluate(entry, r, c);
        entries += made.entries;
        p = detail::pack(b, made, storage_share * tolerance.of(made.norm), options_.storage);
        if (!made.dense) continue;
        for (const T& a : made.u) p.largest = std::max(p.largest, double(std::abs(a)));
        if (&rows == &columns)
          for (Local l = std::max(b.row_begin, b.column_begin); l < std::min(b.row_end, b.column_end); ++l)
            p.diagonal.push_back(made.u[std::size_t(l - b.row_begin) + std::size_t(l - b.column_begin) * made.rows]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        failed = true;
      }
    }
    if (error) std::rethrow_exception(error);
    evaluated += entries;
  };

  const auto balanced_cuts = [&](bool measured) {
    RowCost cost(m);
    if (!measured)
      for (const Block& b : leaves) cost.add(b.row_begin, b.row_end, bytes_wanted(b));
    else
      for (const auto& p : packed) cost.add(p.block.row_begin, p.block.row_end, p.bytes());
    auto chunks = cost.of_chunks(chunk);
    if (measured) chunks = sum_over_ranks(comm, chunks);
    cuts = cut_evenly(chunks, chunk, m, comm.size());
  };
  balanced_cuts(false);
  for (int attempt = 0;; ++attempt) {
    compress_own();
    double bytes = 0;
    error2 = norm2 = 0;
    for (const auto& p : packed) bytes += p.bytes(), error2 += p.error * p.error, norm2 += p.norm * p.norm;
    const auto sums = sum_over_ranks(comm, std::vector<double>{error2, norm2});
    error2 = sums[0], norm2 = sums[1];
    if (options_.measure == ErrorMeasure::matrix && attempt < 2 &&
        error2 > options_.tolerance * options_.tolerance * norm2 && norm2 < norm * norm) {
      norm = std::sqrt(norm2);  // the sample had promised more
      packed.clear();
      continue;
    }
    report_.least_bytes = -comm.all_max(-bytes), report_.most_bytes = comm.all_max(bytes);
    if (attempt >= options_.balance_rounds || report_.least_bytes >= even * report_.most_bytes) break;
    const auto before = cuts;
    balanced_cuts(true);
    if (cuts == before) break;
  }
  parts_->cuts = cuts;

  // What came out.
  report_.rows = m, report_.columns = n;
  std::vector<Global> counts(2);
  std::vector<Global> ranks;
  parts_->touched.assign(static_cast<std::size_t>(n), 0);
  parts_->diagonal.assign(std::size_t(&rows == &columns ? parts_->count : 0), T(0));
  for (auto& p : packed) {
    largest_ = std::max(largest_, p.dense ? p.largest : p.norm);
    if (p.dense || p.rank > 0)
      std::fill(parts_->touched.begin() + p.block.column_begin, parts_->touched.begin() + p.block.column_end, char(1));
    if (!p.diagonal.empty())
      std::copy(p.diagonal.begin(), p.diagonal.end(),
                parts_->diagonal.begin() + (std::max(p.block.row_begin, p.block.column_begin) - parts_->first));
    ++counts[p.dense ? 0 : 1];
    if (p.dense) continue;
    if (ranks.size() <= std::size_t(p.rank)) ranks.resize(std::size_t(p.rank) + 1);
    ++ranks[std::size_t(p.rank)];
  }
  largest_ = comm.all_max(largest_);
  ranks.resize(std::size_t(comm.all_max(Global(ranks.size()))));
  ranks = sum_over_ranks(comm, ranks);
  counts = sum_over_ranks(comm, counts);
  report_.dense_blocks = counts[0], report_.low_rank_blocks = counts[1];
  for (std::size_t r = 0; r < ranks.size(); ++r) report_.mean_rank += double(r) * double(ranks[r]);
  if (counts[1] > 0) report_.mean_rank /= double(counts[1]);
  report_.max_rank = std::max(0, int(ranks.size()) - 1);
  report_.ranks = std::move(ranks);
  report_.norm = std::sqrt(norm2);
  report_.estimated_error = norm2 > 0 ? std::sqrt(error2 / norm2) : 0;
  report_.entries_evaluated = comm.all_sum(double(evaluated)) / (double(m) * n);

  parts_->storage = std::make_unique<detail::Storage<T>>(parts_->first, parts_->count, n, std::move(packed));
  const auto own_bytes = parts_->storage->bytes();
  const auto bytes =
      sum_over_ranks(comm, std::vector<double>{own_bytes[detail::native], own_bytes[detail::single],
                                               own_bytes[detail::fixed], parts_->storage->index_bytes()});
  // Where the scalar is single already its own precision is counted as such.
  const bool is_single = std::is_same_v<real_t<T>, float>;
  report_.full_bytes = is_single ? 0 : bytes[0];
  report_.single_bytes = bytes[1] + (is_single ? bytes[0] : 0);
  report_.fixed_bytes = bytes[2];
  report_.index_bytes = bytes[3];
  report_.bytes = bytes[0] + bytes[1] + bytes[2];
  report_.dense_fraction = report_.bytes / (double(m) * n * sizeof(T));

  // The sampled rows again, as the operator has them.
  std::vector<T> x(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(parts_->count));
  std::vector<double> sums(4);
  for (int which = 0; which < 2; ++which) {
    for (Local j = 0; j < n; ++j) x[std::size_t(j)] = which == 0 ? T(real_t<T>(sign_of(j))) : T(1);
    parts_->storage->multiply(x.data(), columns.order(), y.data(), 1, comm);
    for (const auto& s : samples) {
      if (s.position < parts_->first || s.position >= parts_->first + parts_->count) continue;
      const T exact = which == 0 ? s.random : s.ones;
      sums[2 * std::size_t(which)] += double(abs2(y[std::size_t(s.position - parts_->first)] - exact));
      sums[2 * std::size_t(which) + 1] += double(abs2(exact));
    }
  }
  sums = sum_over_ranks(comm, sums);
  report_.measured_error = sums[1] > 0 ? std::sqrt(sums[0] / sums[1]) : std::sqrt(sums[0]);
  report_.measured_error_ones = sums[3] > 0 ? std::sqrt(sums[2] / sums[3]) : std::sqrt(sums[2]);
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
