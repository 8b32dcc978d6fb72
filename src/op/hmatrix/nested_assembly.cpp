// Assembly of an HMatrix with nested bases: near field, bases, couplings, and the error on sampled columns.
#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>

#include "crosses.hpp"
#include "nested_make.hpp"
#include "parts.hpp"
#include "return_freed.hpp"
#include "row_cost.hpp"
#include "sampled_rows.hpp"
#include "scaled_entries.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace tacit::op {
namespace {

using namespace detail;

// Shares of the tolerance: of truncated bases, of skeletons, and of storage, for the near field and for the far field.
// Their squares sum to less than 1.
constexpr double basis_share = 0.75, skeleton_share = 0.1, near_share = 0.35, far_share = 0.4;
// The rank with which the size of the far field is predicted.
constexpr double predicted_rank = 14;
// Entries of one call of the entry function, at most.
constexpr std::size_t most_entries = std::size_t(1) << 20;
constexpr double acceptable = 3, confident = 0.95;
// Where the error that is measured is above the tolerance, bases are made again, so often, from more samples and with a
// smaller error, of which `below` is the share that is aimed at.
constexpr int least_samples = 64, most_samples = 512, more_rounds = 2, more_samples = 2;
constexpr double below = 0.7;
// How often all is made again where entries leave the range of squares, or the norm was overestimated.
constexpr int most_attempts = 4;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Samples to begin with: about ten times the rank that such a tolerance needs on a surface.
int first_samples(double tolerance) {
  const double digits = std::log10(1 / tolerance);
  return std::clamp(int(8 * digits * digits), least_samples, most_samples);
}

/// The blocks of the matrix by the clusters of their rows.
struct Blocks {
  std::vector<std::vector<Block>> near;  // by row cluster (leaves), by ascending columns
  FarLists rows, columns;
  double near_numbers = 0, far_numbers = 0;  // of the whole matrix, predicted
  Global near_count = 0, far_count = 0;
};

std::uint64_t key(Local begin, Local end) {
  return std::uint64_t(std::uint32_t(begin)) << 32 | std::uint32_t(end);
}
std::unordered_map<std::uint64_t, std::int32_t> clusters_by_range(const ClusterTree& tree) {
  std::unordered_map<std::uint64_t, std::int32_t> found;
  found.reserve(tree.clusters().size());
  for (std::size_t c = 0; c < tree.clusters().size(); ++c)
    found.emplace(key(tree.clusters()[c].begin, tree.clusters()[c].end), std::int32_t(c));
  return found;
}

FarLists lists_of(const ClusterTree& tree, std::vector<std::pair<std::int32_t, std::int32_t>> pairs) {
  FarLists lists;
  const auto& clusters = tree.clusters();
  lists.parent.assign(clusters.size(), -1);
  for (std::size_t c = 0; c < clusters.size(); ++c)
    for (const int child : clusters[c].child)
      if (child >= 0) lists.parent[std::size_t(child)] = std::int32_t(c);
  std::sort(pairs.begin(), pairs.end());
  lists.first.assign(clusters.size() + 1, 0);
  for (const auto& [c, other] : pairs) ++lists.first[std::size_t(c) + 1], lists.others.push_back(other);
  std::partial_sum(lists.first.begin(), lists.first.end(), lists.first.begin());
  return lists;
}

Blocks blocks_of(const ClusterTree& rows, const ClusterTree& columns, const Admissibility& rule) {
  Blocks made;
  made.near.resize(rows.clusters().size());
  const auto row_of = clusters_by_range(rows), column_of = clusters_by_range(columns);
  std::vector<std::pair<std::int32_t, std::int32_t>> far, back;
  for (const Block& b : block_tree(rows, columns, rule)) {
    const std::int32_t s = row_of.at(key(b.row_begin, b.row_end));
    if (!b.admissible) {
      made.near[std::size_t(s)].push_back(b), ++made.near_count;
      made.near_numbers += double(b.rows()) * b.columns();
      continue;
    }
    const std::int32_t t = column_of.at(key(b.column_begin, b.column_end));
    far.emplace_back(s, t), back.emplace_back(t, s), ++made.far_count;
    made.far_numbers += std::min(predicted_rank, double(b.rows())) * std::min(predicted_rank, double(b.columns()));
  }
  for (auto& list : made.near)
    std::sort(list.begin(), list.end(), [](const Block& a, const Block& b) { return a.column_begin < b.column_begin; });
  made.rows = lists_of(rows, std::move(far)), made.columns = lists_of(columns, std::move(back));
  return made;
}

// The nearest bound of a leaf to each cut.
void move_to_leaves(const ClusterTree& tree, std::vector<Global>& cuts) {
  std::vector<Global> bounds{0};
  for (const Cluster& c : tree.clusters())
    if (c.is_leaf()) bounds.push_back(c.end);
  std::sort(bounds.begin(), bounds.end());
  for (Global& cut : cuts) {
    auto at = std::lower_bound(bounds.begin(), bounds.end(), cut);
    if (at != bounds.begin() && cut - *(at - 1) < *at - cut) --at;
    cut = *at;
  }
}

std::vector<Global> cuts_of(const comm::Communicator& comm, const ClusterTree& rows, const ClusterTree& columns,
                            const Blocks& blocks) {
  RowCost cost(rows.size(), rows.options().quantum);
  for (std::size_t c = 0; c < rows.clusters().size(); ++c) {
    const Cluster& t = rows.clusters()[c];
    double numbers = 0;
    for (const Block& b : blocks.near[c]) numbers += double(b.rows()) * b.columns();
    for (const std::int32_t s : blocks.rows.of(std::int32_t(c)))
      numbers += std::min(predicted_rank, double(t.size())) *
                 std::min(predicted_rank, double(columns.clusters()[std::size_t(s)].size()));
    cost.add_rows(t.begin, t.end, numbers / comm.size());
  }
  cost.sum(comm);
  auto cuts = cost.cut(comm.size());
  move_to_leaves(rows, cuts);
  return cuts;
}

// A subnormal unit of 16-bit integers would lose digits.
template <Scalar T>
StoragePrecision storage_of(StoragePrecision wanted, int exponent) {
  return exponent < std::numeric_limits<real_t<T>>::min_exponent + 24 ? StoragePrecision::full : wanted;
}

/// Makes the parts of one HMatrix.
template <Scalar T>
class NestedAssembly {
 public:
  using W = InDouble<T>;
  NestedAssembly(const comm::Communicator& comm, const ClusterTree& rows, const ClusterTree& columns,
                 const EntryFunction<T>& entry, const HMatrixOptions& options)
      : comm_(comm),
        rows_(rows),
        columns_(columns),
        entry_(entry),
        options_(options),
        blocks(blocks_of(rows, columns, options.admissibility)),
        scaled(entry) {
    cuts = cuts_of(comm, rows, columns, blocks);
    column_cuts = cuts;
    if (&rows != &columns) {
      const auto even = layout::Partition::blocks(columns.size(), comm.size());
      column_cuts.assign(even.offsets().begin(), even.offsets().end());
      move_to_leaves(columns, column_cuts);
    }
    scaled.set(scale_of<T>(sample_rows<T>(comm, rows, columns, entry, options, evaluated), rows.size()));
  }

  /// Whether all has to be made again, with another scale or for another norm: given the squared error and norm of what
  /// was made, over all ranks. Collective.
  bool starts_again(double error2_of_all, double norm2_of_all) {
    if (scaled.leave_the_range(comm_, norm2_of_all)) return true;
    // The norm is smaller than the sampled rows let it seem.
    if (!(error2_of_all > options_.tolerance * options_.tolerance * norm2_of_all)) return false;
    if (!(norm2_of_all < scaled.norm() * scaled.norm())) return false;
    scaled.set_norm(std::sqrt(norm2_of_all));
    return true;
  }

  Local first(const std::vector<Global>& of) const { return Local(of[std::size_t(comm_.rank())]); }
  Local last(const std::vector<Global>& of) const { return Local(of[std::size_t(comm_.rank()) + 1]); }

  /// The near field, and error2 and norm2 of it.
  std::vector<Packed<T>> near_field();
  /// The bases, and the couplings; adds to error2 and norm2.
  std::unique_ptr<NestedField<T>> far_field(int samples_of_far, double tolerance);

 private:
  const comm::Communicator& comm_;
  const ClusterTree &rows_, &columns_;
  const EntryFunction<T>& entry_;
  const HMatrixOptions& options_;

 public:
  Blocks blocks;
  std::vector<Global> cuts, column_cuts;
  ScaledEntries<T> scaled;
  Global evaluated = 0;
  double error2 = 0, norm2 = 0;  // squared, this rank's part, in units of 2^scaled.exponent()
  double largest = 0;            // norm of a far block
  std::vector<Local> row_rank, column_rank;

 private:
  void near_row(std::int32_t cluster, double allowed2, Packed<T>* to, const EntryFunction<T>& entry);
  Packed<T> pack_near(const Block& b, const Compressed<T>& made, double allowed2) const;
  struct Part {
    int rank;
    std::int64_t at;
  };
  std::vector<std::vector<Part>> pieces_of(const std::vector<char>& wanted, std::vector<Global>& offsets) const;
  typename NestedField<T>::Sharing share(const MadeBases<T>& columns, std::vector<std::int64_t>& at) const;
  struct Couplings;
  Couplings couple_nodes(std::size_t begin, std::size_t end, const EntryFunction<T>& entry, MadeBases<T>& rows,
                         const MadeBases<T>& columns, const std::vector<std::int64_t>& at, double stored2) const;
  void couple(const EntryFunction<T>& entry, MadeBases<T>& rows, const MadeBases<T>& columns,
              const std::vector<std::int64_t>& at, double stored2, NestedField<T>& field,
              typename NestedField<T>::Sharing sharing);
};

template <Scalar T>
Packed<T> NestedAssembly<T>::pack_near(const Block& b, const Compressed<T>& made, double allowed2) const {
  const double allowed = std::sqrt(allowed2 * double(b.rows()) * b.columns());
  const int exponent = scaled.exponent();
  auto p = detail::pack(b, made, allowed, storage_of<T>(options_.storage, exponent));
  for (double& scale : p.scale) scale = std::ldexp(scale, exponent);
  p.largest = largest_entry(made.u);
  if (&rows_ == &columns_)
    for (Local l = std::max(b.row_begin, b.column_begin); l < std::min(b.row_end, b.column_end); ++l)
      p.diagonal.push_back(shifted(
          made.u[std::size_t(l - b.row_begin) + std::size_t(l - b.column_begin) * std::size_t(made.rows)], exponent));
  return p;
}

// The dense blocks of a leaf's rows, evaluated together.
template <Scalar T>
void NestedAssembly<T>::near_row(std::int32_t cluster, double allowed2, Packed<T>* to, const EntryFunction<T>& entry) {
  const Cluster& t = rows_.clusters()[std::size_t(cluster)];
  const auto& list = blocks.near[std::size_t(cluster)];
  const auto i = rows_.order().subspan(std::size_t(t.begin), std::size_t(t.size()));
  for (std::size_t from = 0; from < list.size();) {
    std::vector<Global> j;
    std::size_t end = from;
    for (;
         end < list.size() && (end == from || (j.size() + std::size_t(list[end].columns())) * i.size() <= most_entries);
         ++end) {
      const auto more = columns_.order().subspan(std::size_t(list[end].column_begin), std::size_t(list[end].columns()));
      j.insert(j.end(), more.begin(), more.end());
    }
    std::vector<T> values(i.size() * j.size());
    entry(i, j, values.data());
    check_finite<T>(values, i, j);
    const T* at = values.data();
    for (; from < end; ++from) {
      Compressed<T> made;
      made.rows = t.size(), made.columns = list[from].columns();
      made.dense = true;
      made.u.assign(at, at + i.size() * std::size_t(made.columns));
      at += made.u.size();
      double sum = 0;
      for (Local c = 0; c < made.columns; ++c)
        sum += detail::norm2(made.u.data() + std::size_t(c) * i.size(), made.rows);
      made.norm = std::sqrt(sum);
      to[from] = pack_near(list[from], made, allowed2);
    }
  }
}

template <Scalar T>
std::vector<Packed<T>> NestedAssembly<T>::near_field() {
  const Span span("hmatrix near field", "op");
  const double allowed = near_share * options_.tolerance * scaled.norm();
  const double allowed2 = blocks.near_numbers > 0 ? allowed * allowed / blocks.near_numbers : 0;
  std::vector<std::int32_t> own;
  for (std::size_t c = 0; c < rows_.clusters().size(); ++c)
    if (const Cluster& t = rows_.clusters()[c];
        !blocks.near[c].empty() && t.begin >= first(cuts) && t.end <= last(cuts))
      own.push_back(std::int32_t(c));
  std::vector<std::size_t> at{0};  // where the blocks of each begin
  for (const std::int32_t c : own) at.push_back(at.back() + blocks.near[std::size_t(c)].size());
  std::vector<Packed<T>> made(at.back());
  const auto entry = scaled.function();
  exec::parallel_for(
      own.size(), options_.concurrent,
      [&](std::size_t k) {
        if (exec::may_poll()) comm_.check(), comm_.check_interrupt();
        near_row(own[k], allowed2, made.data() + at[k], entry);
      },
      1);
  error2 = norm2 = 0;
  for (const auto& p : made) {
    error2 += p.error * p.error, norm2 += p.norm * p.norm;
    evaluated += Global(p.block.rows()) * p.block.columns();
  }
  return made;
}

// For each wanted column cluster the ranks that have columns of it, and where its coefficients are among theirs.
// offsets: the first coefficient of each rank, counted over all.
template <Scalar T>
auto NestedAssembly<T>::pieces_of(const std::vector<char>& wanted, std::vector<Global>& offsets) const
    -> std::vector<std::vector<Part>> {
  offsets.assign(1, 0);
  std::vector<std::vector<Part>> pieces(wanted.size());
  for (int q = 0; q < comm_.size(); ++q) {
    Global count = 0;
    for (const BasisNode& n : nodes_within(columns_, column_rank, Local(column_cuts[std::size_t(q)]),
                                           Local(column_cuts[std::size_t(q) + 1]))) {
      count += n.rank;
      if (wanted[std::size_t(n.cluster)]) pieces[std::size_t(n.cluster)].push_back({q, n.at});
    }
    offsets.push_back(offsets.back() + count);
  }
  return pieces;
}

// Where x_s of each column cluster is on this rank (at[s], or -1): among its own nodes, or after them, in the order of
// the tree's clusters, for those that other ranks have or share.
template <Scalar T>
typename NestedField<T>::Sharing NestedAssembly<T>::share(const MadeBases<T>& columns,
                                                          std::vector<std::int64_t>& at) const {
  typename NestedField<T>::Sharing sharing;
  const auto& clusters = columns_.clusters();
  at.assign(clusters.size(), -1);
  const int rank = comm_.rank();
  std::vector<char> wanted(clusters.size(), 0);
  for (std::size_t c = 0; c < rows_.clusters().size(); ++c) {
    const Cluster& t = rows_.clusters()[c];
    if (t.begin >= last(cuts) || t.end <= first(cuts) || row_rank[c] == 0) continue;
    for (const std::int32_t s : blocks.rows.of(std::int32_t(c)))
      if (column_rank[std::size_t(s)] > 0) wanted[std::size_t(s)] = 1;
  }
  sharing.coefficients = columns.basis->coefficients();
  const auto pieces = pieces_of(wanted, sharing.offsets);
  struct Range {
    Global global;
    Local count;
    std::size_t part;
  };
  std::vector<Range> ranges;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const auto& list = pieces[c];
    if (list.empty()) continue;
    if (list.size() == 1 && list[0].rank == rank) {
      at[c] = list[0].at;
      continue;
    }
    const Local k = column_rank[c];
    const auto first_part = std::uint32_t(sharing.parts.size());
    for (const Part& p : list) {
      if (p.rank != rank) ranges.push_back({sharing.offsets[std::size_t(p.rank)] + p.at, k, sharing.parts.size()});
      sharing.parts.push_back({p.rank == rank ? p.at : -1, -1});
    }
    at[c] = std::int64_t(sharing.coefficients);
    sharing.clusters.push_back(
        {std::uint32_t(sharing.coefficients), std::uint32_t(k), first_part, std::uint32_t(sharing.parts.size())});
    sharing.coefficients += std::size_t(k);
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.global < b.global; });
  for (const Range& r : ranges) {
    sharing.parts[r.part].ghost = std::int64_t(sharing.ghosts.size());
    for (Local j = 0; j < r.count; ++j) sharing.ghosts.push_back(r.global + j);
  }
  (void)checked_cast<std::uint32_t>(sharing.coefficients, "coefficients of nested bases");
  return sharing;
}

/// The couplings of consecutive nodes, made by one thread.
template <Scalar T>
struct NestedAssembly<T>::Couplings {
  std::vector<FarRow> far;
  std::vector<Run> runs;
  std::tuple<exec::Array<real_t<T>>, exec::Array<float>, exec::Array<std::int16_t>> numbers;
  double error2 = 0, norm2 = 0, largest = 0;
  Global entries = 0;
};

/// The couplings S of one row cluster, transposed and side by side: length x rank by columns.
template <Scalar T>
class Coupler {
 public:
  using W = InDouble<T>;
  Coupler(const ClusterTree& rows, const ClusterTree& columns, const EntryFunction<T>& entry)
      : rows_(rows), columns_(columns), entry_(entry) {}

  /// list: (position of x_s, cluster), ascending. Returns the entries evaluated.
  Global make(const Skeleton<T>& t, const std::vector<std::pair<std::int64_t, std::int32_t>>& list,
              const std::vector<Skeleton<T>>& skeletons) {
    std::vector<Global> i, j;
    for (const Local p : t.points) i.push_back(rows_.order()[std::size_t(p)]);
    std::size_t length = 0;
    for (const auto& [at, s] : list) {
      length += std::size_t(skeletons[std::size_t(s)].rank());
      for (const Local p : skeletons[std::size_t(s)].points) j.push_back(columns_.order()[std::size_t(p)]);
    }
    values_.resize(i.size() * j.size());
    entry_(i, j, values_.data());
    check_finite<T>(values_, i, j);
    const int k = t.rank(), points = int(i.size());
    // Z = C_t A, then S_b = Z_b C_s^H.
    wide_.assign(values_.begin(), values_.end());
    z_.resize(std::size_t(k) * j.size());
    lapack::gemm('N', 'N', k, int(j.size()), points, W(1), t.c(room_t_), k, wide_.data(), points, W(0), z_.data(), k);
    blocks.resize(std::size_t(k) * length);
    std::size_t column = 0, to = 0;
    for (const auto& [at, s] : list) {
      const Skeleton<T>& other = skeletons[std::size_t(s)];
      const int r = other.rank(), count = int(other.points.size());
      lapack::gemm('N', 'C', k, r, count, W(1), z_.data() + column * std::size_t(k), k, other.c(room_s_), r, W(0),
                   blocks.data() + to * std::size_t(k), k);
      column += std::size_t(count), to += std::size_t(r);
    }
    return Global(values_.size());
  }

  std::vector<W> blocks;  ///< S of the list one after the other, each rank x rank of the column cluster by columns

 private:
  const ClusterTree &rows_, &columns_;
  const EntryFunction<T>& entry_;
  std::vector<T> values_;
  std::vector<W> wide_, z_, room_t_, room_s_;
};

/// Appends S of a node to `to` as FarRow describes it.
template <class S, class W>
void append_far(const W* blocks, Local rank, std::size_t padded, std::span<const Run> runs, std::vector<S>& to) {
  constexpr std::size_t parts = sizeof(W) / sizeof(double);
  const std::size_t first = to.size();
  to.resize(first + padded * std::size_t(rank) * parts, S(0));
  std::size_t column = 0;
  for (const Run& run : runs) {
    const double scale = std::is_integral_v<S> ? 1 / run.scale : 1.0;
    for (std::uint32_t j = 0; j < run.count; ++j, ++column)
      for (Local i = 0; i < rank; ++i) {
        const auto* const v = reinterpret_cast<const double*>(blocks + std::size_t(i) + column * std::size_t(rank));
        for (std::size_t p = 0; p < parts; ++p) {
          const double a = (p == 1 ? -v[p] : v[p]) * scale;
          S& out = to[first + (std::size_t(i) * parts + p) * padded + column];
          if constexpr (std::is_integral_v<S>) out = S(std::int32_t(std::nearbyint(a)));
          else out = S(a);
        }
      }
  }
}

/// What is known of the couplings of a node before they are stored: the units of 16-bit integers, and squared errors.
struct FarFormat {
  std::vector<Run> runs;  // scale: the unit
  double as_fixed2 = 0, as_single2 = 0, largest = 0, norm2 = 0;
};
template <Scalar T>
FarFormat format_of(const std::vector<InDouble<T>>& blocks, const Skeleton<T>& t,
                    const std::vector<std::pair<std::int64_t, std::int32_t>>& list,
                    const std::vector<Skeleton<T>>& skeletons) {
  constexpr std::size_t parts = is_complex<T> ? 2 : 1;
  constexpr double single_error2 = 0x1p-48 / 3;
  FarFormat found;
  const auto rank = std::size_t(t.rank());
  double weight_t = 0;
  for (const double d : t.d) weight_t += d * d;
  const InDouble<T>* block = blocks.data();
  for (const auto& [at, s] : list) {
    const auto& d = skeletons[std::size_t(s)].d;
    double most = 0, norm2 = 0, weight_s = 0;
    for (std::size_t j = 0; j < d.size(); ++j) {
      weight_s += d[j] * d[j];
      for (std::size_t i = 0; i < rank; ++i) {
        const auto* const v = reinterpret_cast<const double*>(block + i + j * rank);
        for (std::size_t p = 0; p < parts; ++p) {
          most = std::max(most, std::abs(v[p]));
          norm2 += (v[p] * t.d[i] * d[j]) * (v[p] * t.d[i] * d[j]);
        }
      }
    }
    block += rank * d.size();
    const double unit = fixed_unit(most);
    if (most >= least_fixed) found.as_fixed2 += unit * unit / 12 * parts * weight_t * weight_s;
    found.as_single2 += single_error2 * norm2;
    found.norm2 += norm2, found.largest = std::max(found.largest, norm2);
    found.runs.push_back({std::uint32_t(at), std::uint32_t(d.size()), unit});
  }
  found.largest = std::sqrt(found.largest);
  return found;
}

// The format of a node's couplings of so many numbers, and their squared error. allowed2: for each number.
template <Scalar T>
std::pair<int, double> choose_format(const FarFormat& found, StoragePrecision storage, double allowed2) {
  if (storage == StoragePrecision::automatic && found.as_fixed2 <= allowed2) return {fixed, found.as_fixed2};
  if (storage != StoragePrecision::full && !std::is_same_v<real_t<T>, float> && found.as_single2 <= allowed2)
    return {single, found.as_single2};
  return {native, 0.0};
}

// The couplings of nodes [begin, end) of the row basis.
template <Scalar T>
auto NestedAssembly<T>::couple_nodes(std::size_t begin, std::size_t end, const EntryFunction<T>& entry,
                                     MadeBases<T>& rows, const MadeBases<T>& columns,
                                     const std::vector<std::int64_t>& at, double stored2) const -> Couplings {
  Couplings made;
  Coupler<T> coupler(rows_, columns_, entry);
  std::tuple<std::vector<real_t<T>>, std::vector<float>, std::vector<std::int16_t>> numbers;
  for (std::size_t n = begin; n < end; ++n) {
    if (exec::may_poll()) comm_.check(), comm_.check_interrupt();
    const std::int32_t cluster = rows.basis->nodes()[n].cluster;
    const Skeleton<T>& t = rows.skeletons[std::size_t(cluster)];
    std::vector<std::pair<std::int64_t, std::int32_t>> list;
    for (const std::int32_t s : blocks.rows.of(cluster))
      if (at[std::size_t(s)] >= 0) list.emplace_back(at[std::size_t(s)], s);
    std::sort(list.begin(), list.end());
    FarRow far{native, 0, 0, 0, std::uint32_t(made.runs.size()), std::uint32_t(made.runs.size())};
    if (!list.empty()) {
      made.entries += coupler.make(t, list, columns.skeletons);
      FarFormat found = format_of<T>(coupler.blocks, t, list, columns.skeletons);
      made.largest = std::max(made.largest, found.largest);
      const std::size_t count = coupler.blocks.size(), length = count / std::size_t(t.rank());
      const auto [format, error2] =
          choose_format<T>(found, storage_of<T>(options_.storage, scaled.exponent()), stored2 * double(count));
      far.format = format;
      // Each rank of a cluster that several share has all of its couplings; the first one counts them.
      if (rows_.clusters()[std::size_t(cluster)].begin >= first(cuts)) made.error2 += error2, made.norm2 += found.norm2;
      constexpr std::size_t lanes = std::size_t(lanes_of<real_t<T>>);
      far.length = std::uint32_t((length + lanes - 1) / lanes * lanes);
      each_format([&](auto f) {
        if (f != far.format) return;
        far.data = std::get<f>(numbers).size();
        append_far(coupler.blocks.data(), t.rank(), far.length, std::span<const Run>(found.runs), std::get<f>(numbers));
      });
      for (Run& run : found.runs)
        run.scale = std::ldexp(format == fixed ? run.scale : 1.0, scaled.exponent()), made.runs.push_back(run);
      far.last_run = std::uint32_t(made.runs.size());
    }
    made.far.push_back(far);
    if (&rows != &columns) rows.skeletons[std::size_t(cluster)] = {};  // not needed any more
  }
  each_format([&](auto f) {
    const auto& in = std::get<f>(numbers);
    std::get<f>(made.numbers) = exec::Array<typename std::remove_cvref_t<decltype(in)>::value_type>::from(in);
  });
  return made;
}

template <Scalar T>
void NestedAssembly<T>::couple(const EntryFunction<T>& entry, MadeBases<T>& rows, const MadeBases<T>& columns,
                               const std::vector<std::int64_t>& at, double stored2, NestedField<T>& field,
                               typename NestedField<T>::Sharing sharing) {
  const lapack::OneThread one;
  const std::size_t nodes = rows.basis->nodes().size();
  constexpr std::size_t pieces = 256;
  std::vector<Couplings> made(pieces);
  exec::parallel_for(
      pieces, options_.concurrent,
      [&](std::size_t p) {
        made[p] = couple_nodes(nodes * p / pieces, nodes * (p + 1) / pieces, entry, rows, columns, at, stored2);
      },
      1);
  std::vector<FarRow> far;
  std::vector<Run> runs;
  for (Couplings& piece : made) {
    std::array<std::uint32_t, formats> chunk{};
    each_format([&](auto f) {
      auto& numbers = std::get<f>(piece.numbers);
      if (numbers.size() > 0) chunk[f] = field.template add_chunk<f>(std::move(numbers));
    });
    const auto first_run =
        checked_cast<std::uint32_t>(runs.size() + piece.runs.size(), "far blocks") - std::uint32_t(piece.runs.size());
    for (FarRow row : piece.far) {
      row.chunk = chunk[std::size_t(row.format)];
      row.first_run += first_run, row.last_run += first_run;
      far.push_back(row);
    }
    runs.insert(runs.end(), piece.runs.begin(), piece.runs.end());
    error2 += piece.error2, norm2 += piece.norm2, evaluated += piece.entries;
    largest = std::max(largest, piece.largest);
  }
  field.complete(std::move(far), std::move(runs), std::move(sharing));
}

template <Scalar T>
std::unique_ptr<NestedField<T>> NestedAssembly<T>::far_field(int samples_of_far, double tolerance) {
  const Span span("hmatrix far field", "op");
  const double all = tolerance * scaled.norm();
  const bool one_side = options_.mirrors && &rows_ == &columns_ && !is_complex<T>;
  double clusters = 0;  // that have a far field
  for (const auto* lists : {&blocks.rows, &blocks.columns}) {
    std::vector<char> meets(lists->parent.size());
    for (std::size_t c = 0; c < meets.size(); ++c) {
      const std::int32_t above = lists->parent[c];
      meets[c] = !lists->of(std::int32_t(c)).empty() || (above >= 0 && meets[std::size_t(above)]);
      clusters += meets[c];
    }
  }
  clusters = std::max(clusters, 1.0);
  BasisBudget budget;
  const auto share = [&](double s) { return s * s * all * all / clusters; };
  budget.cut2 = share(basis_share), budget.skeleton2 = share(skeleton_share);
  // Numbers of the bases are about a fifth of those of the couplings.
  budget.stored2 = blocks.far_numbers > 0 ? far_share * far_share * all * all / (1.2 * blocks.far_numbers) : 0;
  budget.samples = samples_of_far;
  constexpr double of_single = 1e-5;
  budget.single = tolerance >= of_single;
  budget.storage = storage_of<T>(options_.storage, scaled.exponent());
  const auto entry = scaled.function();
  auto rows = make_bases<T>(comm_, {rows_, columns_, true, blocks.rows, entry, options_.concurrent}, cuts, budget);
  MadeBases<T> other;
  if (!one_side)
    other =
        make_bases<T>(comm_, {columns_, rows_, false, blocks.columns, entry, options_.concurrent}, column_cuts, budget);
  MadeBases<T>& columns = one_side ? rows : other;
  return_freed();
  row_rank = rows.rank, column_rank = columns.rank;
  error2 += (rows.error2 + rows.stored2) * (one_side ? 2 : 1) + other.error2 + other.stored2;
  evaluated += rows.entries + other.entries;
  auto field = std::make_unique<NestedField<T>>(rows.basis, columns.basis);
  std::vector<std::int64_t> at;
  auto sharing = this->share(columns, at);
  std::vector<std::int32_t> wanted;
  for (std::size_t c = 0; c < at.size(); ++c)
    if (at[c] >= 0) wanted.push_back(std::int32_t(c));
  fetch_skeletons<T>(comm_, columns_, column_cuts, wanted, columns.skeletons);
  couple(entry, rows, columns, at, budget.stored2, *field, std::move(sharing));
  return field;
}

std::string doubt_of_samples(std::size_t columns, double error, double tolerance) {
  return message("the error measured on ", columns, " columns is ", error, ", and the tolerance is ", tolerance,
                 ": nested bases are made from samples, and entries of far blocks are not smooth enough for that;"
                 " without nested bases each block is compared with its own entries");
}

// From the sums of HMatrix::compare_columns, eight for each of `count` of n columns; norm: of A_H. They are relative to
// the norm of all of A, of which a few columns may have most or nearly nothing.
std::array<double, 4> errors_of_columns(const std::vector<double>& sums, double count, double n, double norm) {
  double error2 = 0, size2 = 0, random2 = 0, ones2 = 0, exact2 = 0, spread2 = 0;
  for (std::size_t r = 0; r < sums.size(); r += 8) {
    const double* const v = sums.data() + r;
    error2 += v[0], size2 += v[1];
    random2 += v[2] * v[2] + v[3] * v[3], ones2 += v[4] * v[4] + v[5] * v[5], exact2 += v[6] * v[6] + v[7] * v[7];
  }
  for (std::size_t r = 0; r < sums.size(); r += 8) spread2 += (sums[r] - error2 / count) * (sums[r] - error2 / count);
  const double all = n / count, norm2 = count < n ? std::max(norm * norm, size2) : size2;
  const auto relative = [&](double e, double s) { return s > 0 ? std::sqrt(all * e / s) : std::sqrt(all * e); };
  // Two standard errors of the sum above it.
  const double more = count == n || count < 2 ? 0 : 2 * std::sqrt(spread2 * count / (count - 1));
  return {relative(error2, norm2), relative(random2, norm2), relative(ones2, std::max(all * exact2, norm2)),
          relative(error2 + more, norm2)};
}

}  // namespace

// Compares columns of A with those of A_H, from products with unit vectors: errors relative to the norm of A, of all
// entries, of products with random signs and with ones, and an upper estimate of the first. `entry` gives numbers in
// units of 2^exponent, and so is report_.norm here, which may be beyond the range of doubles else.
template <Scalar T>
std::array<double, 4> HMatrix<T>::compare_columns(const EntryFunction<T>& entry, const std::vector<Local>& positions,
                                                  int exponent, Global& evaluated) const {
  const auto& comm = this->range().comm();
  const Space &range = this->range(), &domain = this->domain();
  // Several columns at a time, except where their vectors would be the largest memory of the assembly.
  const int k = Global(positions.size()) < domain.size() ? 1 : is_complex<T> ? 2 : 4;
  // The rows that this rank compares.
  const bool whole = range.is_replicated();
  const auto shares = layout::Partition::blocks(range.size(), comm.size());
  const Global first = whole ? shares.begin(comm.rank()) : range.begin(),
               last = whole ? shares.end(comm.rank()) : range.end();
  constexpr Global at_once = Global(1) << 17;
  Vector<T, Host> x(domain, k), y(range, k);
  std::vector<T> values;
  std::vector<double> sums;  // of each column: squared error, squared size; then three products
  for (std::size_t s = 0; s < positions.size(); s += k) {
    std::vector<Global> j;
    layout::fill(x, T(0));
    for (std::size_t c = 0; c < std::size_t(k) && s + c < positions.size(); ++c) {
      j.push_back(parts_->columns->order()[std::size_t(positions[s + c])]);
      const Global own = whole ? j.back() : j.back() - domain.begin();
      if (own >= 0 && own < domain.local_size()) x.data()[std::size_t(own) * k + c] = T(1);
    }
    finish(x, y, false, begin(x, y, false));
    std::vector<double> column(j.size() * 8);
    for (Global from = first; from < last; from += at_once) {
      std::vector<Global> i(std::size_t(std::min(at_once, last - from)));
      std::iota(i.begin(), i.end(), from);
      values.resize(i.size() * j.size());
      entry(i, j, values.data());
      detail::check_finite<T>(values, i, j);
      evaluated += Global(values.size());
      for (std::size_t b = 0; b < j.size(); ++b)
        for (std::size_t a = 0; a < i.size(); ++a) {
          using W = detail::InDouble<T>;
          const T found = y.data()[std::size_t(i[a] - (whole ? 0 : first)) * k + b];
          const W exact(values[a + b * i.size()]);
          const W error = W(detail::shifted(found, -exponent)) - exact;
          const double sign = detail::sign_of(i[a]);
          double* const v = column.data() + b * 8;
          v[0] += abs2(error), v[1] += abs2(exact);
          v[2] += sign * std::real(error), v[3] += sign * std::imag(error);
          v[4] += std::real(error), v[5] += std::imag(error), v[6] += std::real(exact), v[7] += std::imag(exact);
        }
    }
    sums.insert(sums.end(), column.begin(), column.end());
  }
  sums = detail::sum_over_ranks(comm, sums);
  return errors_of_columns(sums, double(positions.size()), double(domain.size()), report_.norm);
}

template <Scalar T>
void HMatrix<T>::check_nested(bool by_maker) const {
  const auto& c = options_.compress;
  const auto refuse = [](bool wrong, const auto&... text) {
    require(!wrong, "an hmatrix with nested bases ", text...);
  };
  refuse(options_.symmetry != Symmetry::none, "and the symmetry ", to_string(options_.symmetry),
         "; nested bases store both triangles: use symmetry none, or no nested bases");
  refuse(options_.measure == ErrorMeasure::block,
         "whose error is measured by block; nested bases bound that of the "
         "matrix: use measure matrix");
  refuse(c.method != Compression::aca_plus, "and the compression ", to_string(c.method),
         ", which compresses each block by itself; bases are made from samples, whatever the compression");
  refuse(!c.recompress, "without recompression; their ranks are those of singular values");
  refuse(c.max_rank > 0, "of rank at most ", c.max_rank, "; a rank is of a cluster, not of a block: use max_rank 0");
  refuse(c.cut_rank > 0, "cut to rank ", c.cut_rank, "; a rank is of a cluster, not of a block: use cut_rank 0");
  refuse(by_maker, "is made by the host; a device was asked for");
}

// Adds the far field to the report of the near field.
template <Scalar T>
void HMatrix<T>::describe_nested(const HMatrixReport& near, Global far_blocks, const std::vector<Local>& row_rank,
                                 const std::vector<Local>& column_rank) {
  const auto& comm = this->range().comm();
  const auto& field = *parts_->nested;
  report_ = near;
  report_.low_rank_blocks = far_blocks;
  report_.ranks.clear();
  double sum = 0, count = 0;
  const auto add = [&](const std::vector<Local>& ranks) {
    for (const Local r : ranks) {
      if (r == 0) continue;
      if (report_.ranks.size() <= std::size_t(r)) report_.ranks.resize(std::size_t(r) + 1);
      ++report_.ranks[std::size_t(r)];
      sum += r, ++count;
    }
  };
  add(row_rank);
  if (&field.rows() != &field.columns()) add(column_rank);
  report_.mean_rank = count > 0 ? sum / count : 0;
  report_.max_rank = std::max(0, int(report_.ranks.size()) - 1);
  const auto far = field.bytes();
  const auto own_near = parts_->storage->bytes();
  const auto bytes = detail::sum_over_ranks(comm, std::vector<double>{far[0], far[1], far[2], field.index_bytes()});
  const bool is_single = std::is_same_v<real_t<T>, float>;
  report_.full_bytes += is_single ? 0 : bytes[0];
  report_.single_bytes += bytes[1] + (is_single ? bytes[0] : 0);
  report_.fixed_bytes += bytes[2];
  report_.index_bytes += bytes[3];
  report_.bytes += bytes[0] + bytes[1] + bytes[2];
  report_.dense_fraction = report_.bytes / (double(report_.rows) * double(report_.columns) * sizeof(T));
  const double own = own_near[0] + own_near[1] + own_near[2] + far[0] + far[1] + far[2];
  report_.least_bytes = -comm.all_max(-own), report_.most_bytes = comm.all_max(own);
}

template <Scalar T>
void HMatrix<T>::assemble_nested(const EntryFunction<T>& entry) {
  const Span span("hmatrix assembly", "op");
  const auto& comm = this->range().comm();
  NestedAssembly<T> assembly(comm, *parts_->rows, *parts_->columns, entry, options_);
  parts_->cuts = assembly.cuts;
  parts_->first = assembly.first(assembly.cuts);
  parts_->count = assembly.last(assembly.cuts) - parts_->first;
  const Global m = parts_->rows->size(), n = parts_->columns->size();
  const auto positions =
      detail::sampled_positions(m * n <= options_.compared ? int(n) : options_.sampled_rows, Local(n));
  int attempt = 0, round = 0, samples = first_samples(options_.tolerance);
  double tolerance = options_.tolerance, near_error2 = 0, near_norm2 = 0, near_largest = 0;
  HMatrixReport near;
  for (bool anew = true;;) {
    if (anew) {
      parts_->diagonal.clear(), parts_->storage.reset(), parts_->nested.reset();
      report_ = {};
      // The far field is made after the memory of the blocks has been freed.
      describe(assembly.near_field(), assembly.scaled.exponent());
      return_freed();
      near = report_, near_error2 = assembly.error2, near_norm2 = assembly.norm2, near_largest = largest_;
      // The elements of x of this rank's column clusters, besides those of the near field.
      std::fill(parts_->touched.begin() + assembly.first(assembly.column_cuts),
                parts_->touched.begin() + assembly.last(assembly.column_cuts), char(1));
    }
    assembly.error2 = near_error2, assembly.norm2 = near_norm2, assembly.largest = 0;
    parts_->nested.reset();
    parts_->nested = assembly.far_field(samples, tolerance);
    parts_->nested->connect(comm);
    exchange_patterns();
    describe_nested(near, assembly.blocks.far_count, assembly.row_rank, assembly.column_rank);
    const auto sums = detail::sum_over_ranks(comm, std::vector<double>{assembly.error2, assembly.norm2});
    const int exponent = assembly.scaled.exponent();
    report_.norm = std::sqrt(sums[1]);
    report_.estimated_error = sums[1] > 0 ? std::sqrt(sums[0] / sums[1]) : 0;
    largest_ = std::max(near_largest, std::ldexp(comm.all_max(assembly.largest), exponent));
    const auto errors = compare_columns(assembly.scaled.function(), positions, exponent, assembly.evaluated);
    report_.norm = std::ldexp(report_.norm, exponent);
    anew = attempt < most_attempts && assembly.starts_again(sums[0], std::isfinite(errors[3]) ? sums[1] : infinity);
    if (anew) {
      ++attempt;
      continue;
    }
    require(std::isfinite(sums[1]) && std::isfinite(errors[3]), "an hmatrix whose entries leave the range of ",
            scalar_name<T>());
    report_.measured_error = std::max(errors[0], errors[1]), report_.measured_error_ones = errors[2];
    report_.error_bound = std::max(errors[3], report_.measured_error);
    report_.confidence = Global(positions.size()) == n ? 1 : confident;
    report_.entries_evaluated = comm.all_sum(double(assembly.evaluated)) / (double(m) * double(n));
    const double error = report_.measured_error;
    if (!(error > options_.tolerance && round < more_rounds && options_.compress.verify)) break;
    tolerance *= below * options_.tolerance / error;
    tolerance = std::max(tolerance, 4 * double(std::numeric_limits<real_t<T>>::epsilon()));
    ++round, samples *= more_samples;
  }
  if (report_.error_bound > acceptable * options_.tolerance)
    report_.warnings.push_back(doubt_of_samples(positions.size(), report_.measured_error, options_.tolerance));
}

#define TACIT_INSTANTIATE(T)                          \
  template void HMatrix<T>::check_nested(bool) const; \
  template void HMatrix<T>::assemble_nested(const EntryFunction<T>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
