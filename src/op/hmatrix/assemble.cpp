// Assembly of an HMatrix: samples rows, compresses blocks, balances the ranks, and measures the error.
#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include "parts.hpp"
#include "row_cost.hpp"
#include "sampled_entries.hpp"
#include "sampled_lines.hpp"
#include "sampled_rows.hpp"
#include "scaled_entries.hpp"
#include "waves.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <sstream>

namespace tacit::op {
namespace {

using detail::exponent_of;
using detail::largest_entry;
using detail::none;
using detail::RowCost;
using detail::Sample;
using detail::shifted;
using detail::sign_of;
using detail::sum_over_ranks;
using detail::Wide;

// The share of a block's tolerance for its storage in low precision (compress.cpp has the other shares).
constexpr double storage_share = 0.56;
// The rank assumed for a low-rank block before it is computed (HACApK: 7).
constexpr double predicted_rank = 8;
constexpr double even = 0.97;  // cuts are kept if the least bytes of a rank over the most are at least this
constexpr Local fine = 100;    // the desired number of possible cut positions within a rank's rows
// Entries compared at random places: a share of the predicted size of the matrix (0.15 % of the entries that are
// evaluated, each of which takes several times as long as one of a block's row), within these limits.
constexpr double sampled_share = 1.0 / 512, least_sampled = 1 << 10, most_sampled = 1 << 15;
// The same for functions that are called from one thread. An entry of a large call costs little beside the calls.
constexpr double more_share = 1.0 / 64, more_sampled = 1 << 18;
// One in so many blocks is compared with lines: of entries that are known to be smooth; of those where calls are slow.
constexpr std::uint64_t smooth_stride = 16, slow_stride = 8;
// Blocks of a class, from half of a number of entries to that number, that are compared in any case.
constexpr Global few_blocks = 32;
// A block whose lines show an error of so many tolerances is made again from all of its entries, if these are not more
// than `whole_block`: of smooth entries, of others. Smooth errors are several times their mean at the edges of a block.
constexpr double failing_smooth = 8, failing = 4;
constexpr Global whole_block = Global(1) << 24;
// A measured error of more than `acceptable` tolerances is too large for a random effect of the sampled rows, entries
// and vector: blocks are then made again with more sampled rows and columns, and small ones (all, in a small matrix)
// are compared with all their entries.
constexpr double acceptable = 3;
constexpr int many_samples = 16;
constexpr Global small_block = Global(1) << 16, small_matrix = Global(1) << 26;
// Of two standard errors.
constexpr double confident = 0.95;
// A far block of more rows and columns than this that has no low rank.
constexpr Local large_leaf = 64;
// Of a class of at least `many_blocks` far blocks, `first_blocks` are made before the others, which stay dense if these
// have more than `little_gain` numbers for each entry.
constexpr std::size_t many_blocks = 512, first_blocks = 16;
constexpr double little_gain = 0.9;

// The predicted size of a block, in numbers.
double bytes_wanted(const Block& b) {
  return b.admissible ? std::min(predicted_rank * (double(b.rows()) + b.columns()), double(b.rows()) * b.columns())
                      : double(b.rows()) * b.columns();
}

// Of blocks of about the same number of entries.
std::size_t class_of(const Block& b) {
  return std::size_t(std::bit_width(std::uint64_t(b.rows()) * std::uint64_t(b.columns())));
}

// Computes the blocks of one HMatrix. The constructor and run() are collective.
template <Scalar T>
class Assembly {
 public:
  Assembly(const comm::Communicator& comm, const ClusterTree& rows, const ClusterTree& columns,
           const EntryFunction<T>& entry, BlockMaker<T>* maker, HMatrixOptions options)
      : options(std::move(options)),
        comm_(comm),
        rows_(rows),
        columns_(columns),
        entry_(entry),
        maker_(maker),
        leaves_(block_tree(rows, columns, this->options.admissibility)),
        wanted_(std::accumulate(leaves_.begin(), leaves_.end(), 0.0,
                                [](double sum, const Block& b) { return sum + bytes_wanted(b); })),
        entries_(rows, columns,
                 this->options.compress.cut_rank > 0
                     ? 0
                     : std::clamp((this->options.concurrent ? sampled_share : more_share) * wanted_, least_sampled,
                                  this->options.concurrent ? most_sampled : more_sampled)),
        scaled_(entry) {
    if (this->options.symmetry != Symmetry::none)
      std::erase_if(leaves_, [](const Block& b) { return b.column_begin > b.row_begin; });
    for (const Block& b : leaves_)
      if (b.admissible) ++classes_[class_of(b)];
    take_samples();
  }

  void run();
  /// The relative error of sampled entries (Frobenius).
  double sampled_error() const {
    const double size2 = std::max(norm2, entries_.size2());
    return size2 > 0 ? std::sqrt(missed2 / size2) : 0;
  }

  /// Far blocks that show that entries are not smooth: zero in all lines that crosses met, or large and without low
  /// rank, unless entries are known to be smooth and others of about the same size have high ranks too. Crosses may
  /// have missed parts of these and of others. Local.
  Global count_rough(Global from) const;

  /// Blocks whose lines showed an error above the tolerance. Local.
  Global count_failed() const {
    return std::count_if(packed.begin(), packed.end(), [](const auto& p) { return p.failed; });
  }
  /// An upper estimate of the squared error, in the units of `packed`, and whether it is certain; negative where blocks
  /// were not compared. Collective.
  std::pair<double, bool> bound2() const;

  HMatrixOptions options;
  // The results; numbers of the matrix are in units of 2^exponent.
  std::vector<Sample<T>> samples;
  std::vector<detail::Packed<T>> packed;  // of this rank
  std::vector<Global> cuts;
  double error2 = 0, norm2 = 0, least_bytes = 0, most_bytes = 0;
  double missed2 = 0;    // the squared error, estimated from sampled entries
  Global evaluated = 0;  // of this rank
  int exponent() const { return scaled_.exponent(); }

 private:
  using R = real_t<T>;

  // The number of blocks of A that a stored block stands for: 2 with its mirror block.
  double places(const Block& b) const { return options.symmetry != Symmetry::none && !b.is_diagonal() ? 2 : 1; }

  void take_samples();
  void check_symmetry(double mean) const;
  std::vector<std::size_t> keep_known(std::vector<double>& budget);
  std::span<const Global> rows_of(const Block& b) const {
    return rows_.order().subspan(std::size_t(b.row_begin), std::size_t(b.rows()));
  }
  std::span<const Global> columns_of(const Block& b) const {
    return columns_.order().subspan(std::size_t(b.column_begin), std::size_t(b.columns()));
  }
  bool wants_lines(const Block& b) const;
  detail::SampledLines<T> draw(const Block& b, const Compressed<T>& made) const;
  Compressed<T> make(const WantedBlock& w, BlockMaker<T>* maker, std::size_t k, const EntryFunction<T>& entry) const;
  Global store(std::size_t at, std::ptrdiff_t mirror, const Tolerance& tolerance, Compressed<T> made,
               detail::SampledLines<T>& lines, const EntryFunction<T>& entry);
  void evaluate_lines(const Block& b, const EntryFunction<T>& entry, detail::SampledLines<T>& lines) const;
  void compare(const Block& b, Compressed<T>& made, detail::SampledLines<T>& lines, const Tolerance& tolerance,
               const EntryFunction<T>& entry, detail::Packed<T>& found) const;
  std::vector<std::ptrdiff_t> pair_mirrors(std::vector<std::size_t>& missing) const;
  // The blocks to be made: their places in `packed`, the places of their mirror blocks or -1, and what is wanted.
  struct Work {
    std::vector<std::size_t> at;
    std::vector<std::ptrdiff_t> mirror;
    std::vector<WantedBlock> wanted;
    std::size_t first = 0;  // so many are made first, and tell which classes have no low rank
  };
  Work list_work();
  void put_samples_first(Work& work) const;
  void skip_crosses(Work& work) const;
  void make_blocks(const Work& work, std::size_t begin, std::size_t end, BlockMaker<T>* maker,
                   const EntryFunction<T>& entry);
  void compress_own();
  detail::Packed<T> pack(const Block& b, const Compressed<T>& made, const Tolerance& tolerance);
  /// The costs from which cuts are computed: predicted; measured for blocks; also with the rest measured for each rank.
  enum class Known { nothing, blocks, ranks };
  void cut_ranks(Known known);

  const comm::Communicator& comm_;
  const ClusterTree &rows_, &columns_;
  const EntryFunction<T>& entry_;
  BlockMaker<T>* maker_;
  std::vector<Block> leaves_;
  std::array<Global, 64> classes_{};  // far blocks by the logarithm of their entries
  double wanted_;
  detail::SampledEntries<T> entries_;
  detail::ScaledEntries<T> scaled_;
};

template <Scalar T>
Global Assembly<T>::count_rough(Global from) const {
  // Of each class: dense blocks, others, and the sum of their ranks over the rank of equal size.
  struct Class {
    double dense = 0, low = 0, share = 0;
  };
  std::array<Class, std::tuple_size_v<decltype(classes_)>> classes{};
  for (const auto& p : packed) {
    if (!p.block.admissible) continue;
    const double m = p.block.rows(), n = p.block.columns();
    Class& c = classes[class_of(p.block)];
    if (p.dense) ++c.dense;
    else ++c.low, c.share += p.rank * (m + n) / (m * n);
  }
  const auto is_usual = [&](const Class& c) { return c.dense >= c.low / 4 || c.share >= c.low / 3; };
  return std::count_if(packed.begin(), packed.end(), [&](const auto& p) {
    const Block& b = p.block;
    if (!b.admissible || Global(b.rows()) * b.columns() <= from) return false;
    if (!p.dense) return p.norm == 0;
    return std::min(b.rows(), b.columns()) > large_leaf && !(options.smooth && is_usual(classes[class_of(b)]));
  });
}

// Evaluates sampled rows; finds the scale and norm of A from them.
template <Scalar T>
void Assembly<T>::take_samples() {
  samples = detail::sample_rows<T>(comm_, rows_, columns_, entry_, options, evaluated);
  const auto scale = detail::scale_of<T>(samples, rows_.size());
  scaled_.set(scale);
  if (options.symmetry != Symmetry::none) check_symmetry(scale.mean2);
}

// `mean`: of the squares of the sampled rows' norms.
template <Scalar T>
void Assembly<T>::check_symmetry(double mean) const {
  const double k = double(samples.size());
  double unlike2 = 0;
  const Sample<T>* worst = nullptr;
  for (const auto& sample : samples) {
    if (!(sample.unlike2 <= 0) && (!worst || !(sample.unlike2 / sample.size2 <= worst->unlike2 / worst->size2)))
      worst = &sample;
    if (sample.exponent != none) unlike2 += std::ldexp(sample.unlike2, 2 * (sample.exponent - exponent()));
  }
  if (!(std::sqrt(unlike2 / k) <= options.tolerance * std::sqrt(mean)))
    throw Error(ErrorKind::usage,
                message("the matrix is not ", options.symmetry == Symmetry::hermitian ? "hermitian" : "symmetric",
                        ": row and column ", rows_.order()[std::size_t(worst->position)], " differ by ",
                        std::sqrt(worst->unlike2 / worst->size2), " of the row's norm, and the tolerance is ",
                        options.tolerance));
}

// Keeps this rank's blocks that the new cuts leave unchanged. Places of the others in `packed`; absolute tolerances of
// all.
template <Scalar T>
std::vector<std::size_t> Assembly<T>::keep_known(std::vector<double>& budget) {
  const Local begin = Local(cuts[std::size_t(comm_.rank())]), end = Local(cuts[std::size_t(comm_.rank()) + 1]);
  using Key = std::array<Local, 4>;
  const auto key = [](const Block& b) { return Key{b.row_begin, b.row_end, b.column_begin, b.column_end}; };
  std::map<Key, std::size_t> known;
  for (std::size_t i = 0; i < packed.size(); ++i) known[key(packed[i].block)] = i;
  std::vector<detail::Packed<T>> next;
  std::vector<std::size_t> missing;
  for (Block b : leaves_) {
    const double whole = bytes_wanted(b) / (double(b.rows()));
    b.row_begin = std::max(b.row_begin, begin), b.row_end = std::min(b.row_end, end);
    if (b.row_begin >= b.row_end) continue;
    budget.push_back(options.tolerance * scaled_.norm() * std::sqrt(whole * b.rows() / wanted_));
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

  // The largest blocks first, for an even load of the threads.
  std::stable_sort(missing.begin(), missing.end(), [&](std::size_t a, std::size_t b) {
    return bytes_wanted(packed[a].block) > bytes_wanted(packed[b].block);
  });
  return missing;
}

template <Scalar T>
detail::Packed<T> Assembly<T>::pack(const Block& b, const Compressed<T>& made, const Tolerance& tolerance) {
  // A subnormal unit of 16-bit integers would lose digits.
  const auto storage =
      exponent() < std::numeric_limits<R>::min_exponent + 24 ? StoragePrecision::full : options.storage;
  auto p = detail::pack(b, made, storage_share * tolerance.of(made.norm), storage);
  for (double& scale : p.scale) scale = std::ldexp(scale, exponent());
  p.missed2 = entries_.missed2(b, made);
  if (!made.dense) return p;
  p.largest = largest_entry(made.u);
  if (&rows_ == &columns_)
    for (Local l = std::max(b.row_begin, b.column_begin); l < std::min(b.row_end, b.column_end); ++l)
      p.diagonal.push_back(
          shifted(made.u[std::size_t(l - b.row_begin) + std::size_t(l - b.column_begin) * made.rows], exponent()));
  return p;
}

// The transpose of a block.
template <Scalar T>
Compressed<T> turned(Compressed<T> b) {
  std::swap(b.rows, b.columns);
  b.entries = 0;
  if (b.dense) {
    const std::vector<T> before = b.u;
    const std::size_t m = std::size_t(b.rows), n = std::size_t(b.columns);
    constexpr std::size_t tile = 16;
    for (std::size_t i0 = 0; i0 < m; i0 += tile)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t i = i0; i < std::min(m, i0 + tile); ++i) b.u[i + j * m] = before[j + i * n];
    return b;
  }
  std::swap(b.u, b.v);
  if constexpr (is_complex<T>)
    for (auto* part : {&b.u, &b.v})
      for (T& a : *part) a = conj(a);
  return b;
}

// For each block that is made, the place of its mirror block, which is not made then; or -1.
template <Scalar T>
std::vector<std::ptrdiff_t> Assembly<T>::pair_mirrors(std::vector<std::size_t>& missing) const {
  if (!options.mirrors || options.symmetry != Symmetry::none || &rows_ != &columns_)
    return std::vector<std::ptrdiff_t>(missing.size(), -1);
  std::map<std::array<Local, 4>, std::size_t> upper;
  for (const std::size_t at : missing)
    if (const Block& b = packed[at].block; b.column_begin > b.row_begin)
      upper[{b.column_begin, b.column_end, b.row_begin, b.row_end}] = at;
  std::vector<std::ptrdiff_t> mirror;
  std::vector<std::size_t> made;
  std::vector<char> given(packed.size());
  for (const std::size_t at : missing) {
    const Block& b = packed[at].block;
    if (b.column_begin >= b.row_begin) continue;
    const auto found = upper.find({b.row_begin, b.row_end, b.column_begin, b.column_end});
    if (found != upper.end()) given[found->second] = 1;
  }
  for (const std::size_t at : missing) {
    if (given[at]) continue;
    const Block& b = packed[at].block;
    const auto found = upper.find({b.row_begin, b.row_end, b.column_begin, b.column_end});
    made.push_back(at);
    mirror.push_back(b.column_begin < b.row_begin && found != upper.end() ? std::ptrdiff_t(found->second) : -1);
  }
  missing = std::move(made);
  return mirror;
}

// Whether a block is compared with some of its lines.
template <Scalar T>
bool Assembly<T>::wants_lines(const Block& b) const {
  if (!b.admissible || options.compress.cut_rank > 0 || options.compress.method == Compression::svd) return false;
  if (Global(b.rows()) * b.columns() <= options.compress.settled) return false;
  const std::uint64_t stride = !options.concurrent ? slow_stride : options.smooth ? smooth_stride : 1;
  if (stride == 1 || classes_[class_of(b)] <= few_blocks) return true;
  // By its place within the rows and columns of any division over ranks.
  Hash hash{std::uint64_t(std::min(b.row_begin, b.column_begin)) * 0x9e3779b97f4a7c15u +
            std::uint64_t(std::max(b.row_begin, b.column_begin))};
  return hash.next() % stride == 0;
}

template <Scalar T>
void Assembly<T>::evaluate_lines(const Block& b, const EntryFunction<T>& entry, detail::SampledLines<T>& lines) const {
  T* out = lines.values.data();
  const auto r = rows_of(b), c = columns_of(b);
  for (const auto& [side, index] : lines.names) {
    const auto i = side == 0 ? r.subspan(std::size_t(index), 1) : r;
    const auto j = side == 0 ? c : c.subspan(std::size_t(index), 1);
    entry(i, j, out);
    detail::check_finite<T>({out, i.size() * j.size()}, i, j);
    out += i.size() * j.size();
  }
}

// Compares a block with its lines; makes it again from all entries where they show too large an error.
template <Scalar T>
void Assembly<T>::compare(const Block& b, Compressed<T>& made, detail::SampledLines<T>& lines,
                          const Tolerance& tolerance, const EntryFunction<T>& entry, detail::Packed<T>& found) const {
  using Compared = typename detail::Packed<T>::Compared;
  const Global all = Global(b.rows()) * b.columns();
  const auto& compress_options = options.compress;
  if (made.dense || all <= compress_options.settled || compress_options.method == Compression::svd)
    found.compared = Compared::all;
  if (lines.names.empty()) return;
  made.entries += Global(lines.values.size());
  const auto errors = detail::compare_lines(made, lines);
  found.compared = Compared::lines;
  found.lines2 = errors.estimate2, found.spread2 = errors.spread2;
  const double allowed = (options.smooth ? failing_smooth : failing) * tolerance.of(made.norm);
  if (!(errors.worst2 > allowed * allowed)) return;
  found.failed = true;
  if (!compress_options.verify || all > whole_block) return;
  auto whole = compress_options;
  whole.settled = all, whole.samples = std::max(many_samples, whole.samples);
  const Global before = made.entries;
  made = compress(entry, rows_of(b), columns_of(b), tolerance, whole);
  made.entries += before;
  found.compared = Compared::all;
}

// Where not all blocks of a class were compared, the others are taken to be like those that were; where none was,
// errors are to the estimates of crosses as in all other classes.
template <Scalar T>
std::pair<double, bool> Assembly<T>::bound2() const {
  using Compared = typename detail::Packed<T>::Compared;
  struct Sum {
    double all = 0, estimated2 = 0, compared = 0, compared_estimated2 = 0, error2 = 0, spread2 = 0;
  };
  constexpr std::size_t length = sizeof(Sum) / sizeof(double);
  std::vector<double> numbers(1 + length * std::tuple_size_v<decltype(classes_)>);
  for (const auto& p : packed) {
    const double times = places(p.block);
    if (!p.block.admissible || p.compared == Compared::all) {
      numbers[0] += times * p.error * p.error;
      continue;
    }
    numbers[0] += times * std::max(0.0, p.error * p.error - p.before2);  // of storage
    double* const sum = numbers.data() + 1 + length * class_of(p.block);
    const bool seen = p.compared == Compared::lines;
    const double more[] = {1, p.before2, seen ? 1.0 : 0.0, seen ? p.before2 : 0.0, p.lines2, times * p.spread2};
    for (std::size_t k = 0; k < length; ++k) sum[k] += times * more[k];
  }
  numbers = sum_over_ranks(comm_, numbers);
  Sum whole;
  std::vector<Sum> sums;
  for (std::size_t k = 1; k < numbers.size(); k += length) {
    const double* const n = numbers.data() + k;
    if (n[0] > 0) sums.push_back({n[0], n[1], n[2], n[3], n[4], n[5]});
    whole.compared += n[2], whole.compared_estimated2 += n[3], whole.error2 += n[4];
  }
  if (!sums.empty() && whole.compared == 0) return {-1.0, false};
  const double usual = whole.compared_estimated2 > 0 ? std::max(1.0, whole.error2 / whole.compared_estimated2) : 1;
  double bound2 = numbers[0], spread2 = 0;
  for (const Sum& s : sums) {
    const double share = s.compared > 0 ? s.all / s.compared : 0;
    bound2 += s.compared > 0 ? s.error2 * share : s.estimated2 * usual;
    spread2 += s.spread2 * share * share;
  }
  return {bound2 + 2 * std::sqrt(spread2), sums.empty()};
}

// The lines that a block is compared with; none where it is not.
template <Scalar T>
detail::SampledLines<T> Assembly<T>::draw(const Block& b, const Compressed<T>& made) const {
  if (made.dense || !wants_lines(b)) return {};
  return detail::draw_lines<T>(rows_, columns_, b, !options.smooth && options.concurrent);
}

// Block k of the maker, or by the entry function.
template <Scalar T>
Compressed<T> Assembly<T>::make(const WantedBlock& w, BlockMaker<T>* maker, std::size_t k,
                                const EntryFunction<T>& entry) const {
  if (exec::may_poll()) comm_.check(), comm_.check_interrupt();
  const auto r = rows_of(w.block), c = columns_of(w.block);
  return maker                ? finish(maker->take(k), entry, r, c, w.tolerance, options.compress)
         : w.block.admissible ? compress(entry, r, c, w.tolerance, options.compress)
                              : evaluate(entry, r, c);
}

// Compares a block with its lines and packs it, and its mirror block where there is one. Returns the entries evaluated.
template <Scalar T>
Global Assembly<T>::store(std::size_t at, std::ptrdiff_t mirror, const Tolerance& tolerance, Compressed<T> made,
                          detail::SampledLines<T>& lines, const EntryFunction<T>& entry) {
  detail::Packed<T> found;
  compare(packed[at].block, made, lines, tolerance, entry, found);
  const Global entries = made.entries;
  const auto put = [&](std::size_t place, const Compressed<T>& c) {
    auto p = pack(packed[place].block, c, tolerance);
    p.compared = found.compared, p.lines2 = found.lines2, p.spread2 = found.spread2, p.failed = found.failed;
    packed[place] = std::move(p);
  };
  put(at, made);
  if (mirror >= 0) put(std::size_t(mirror), turned(std::move(made)));
  return entries;
}

template <Scalar T>
typename Assembly<T>::Work Assembly<T>::list_work() {
  Work work;
  std::vector<double> budget;
  work.at = keep_known(budget);
  work.mirror = pair_mirrors(work.at);
  put_samples_first(work);
  for (const std::size_t at : work.at) {
    const bool relative = options.measure == ErrorMeasure::block;
    work.wanted.push_back({packed[at].block, {relative ? options.tolerance : 0, relative ? 0 : budget[at]}});
  }
  return work;
}

// Moves some far blocks of each large class to the front, unless an option says which blocks have low rank.
template <Scalar T>
void Assembly<T>::put_samples_first(Work& work) const {
  const auto& compress = options.compress;
  if (compress.method == Compression::svd || compress.max_rank > 0 || compress.cut_rank > 0) return;
  std::array<std::size_t, std::tuple_size_v<decltype(classes_)>> count{}, met{};
  const auto far_class = [&](std::size_t k) {
    const Block& b = packed[work.at[k]].block;
    return b.admissible ? class_of(b) : 0;
  };
  for (std::size_t k = 0; k < work.at.size(); ++k) ++count[far_class(k)];
  std::vector<std::size_t> order[2];
  for (std::size_t k = 0; k < work.at.size(); ++k) {
    const std::size_t c = far_class(k), place = met[c]++;
    const bool sample =
        c > 0 && count[c] >= many_blocks && place * first_blocks / count[c] != (place + 1) * first_blocks / count[c];
    order[sample ? 0 : 1].push_back(k);
  }
  work.first = order[0].size();
  order[0].insert(order[0].end(), order[1].begin(), order[1].end());
  std::vector<std::size_t> at;
  std::vector<std::ptrdiff_t> mirror;
  for (const std::size_t k : order[0]) at.push_back(work.at[k]), mirror.push_back(work.mirror[k]);
  work.at = std::move(at), work.mirror = std::move(mirror);
}

// Blocks of classes of which those that were made first take nearly as many numbers as they have entries are made from
// their entries at once.
template <Scalar T>
void Assembly<T>::skip_crosses(Work& work) const {
  struct Sum {
    double numbers = 0, entries = 0;
  };
  std::array<Sum, std::tuple_size_v<decltype(classes_)>> sums{};
  for (std::size_t k = 0; k < work.first; ++k) {
    const auto& p = packed[work.at[k]];
    const double m = p.block.rows(), n = p.block.columns();
    Sum& sum = sums[class_of(p.block)];
    sum.numbers += p.dense ? m * n : p.rank * (m + n), sum.entries += m * n;
  }
  for (std::size_t k = work.first; k < work.wanted.size(); ++k) {
    Block& b = work.wanted[k].block;
    const Sum& sum = sums[class_of(b)];
    if (b.admissible && sum.entries > 0 && sum.numbers > little_gain * sum.entries) b.admissible = false;
  }
}

// Computes some blocks.
template <Scalar T>
void Assembly<T>::make_blocks(const Work& work, std::size_t begin, std::size_t end, BlockMaker<T>* maker,
                              const EntryFunction<T>& entry) {
  std::atomic<Global> entries = 0;
  auto* const together = dynamic_cast<detail::Waves<T>*>(maker);
  const auto wanted = std::span<const WantedBlock>(work.wanted).first(end);
  for (std::size_t first = begin, count = end - begin; first < end; first += count) {
    if (maker) count = maker->make(wanted.subspan(first), options.compress);
    std::vector<Compressed<T>> made(together ? count : 0);
    std::vector<detail::SampledLines<T>> lines(made.size());
    for (std::size_t k = 0; k < made.size(); ++k) {
      made[k] = make(wanted[first + k], maker, k, entry);
      lines[k] = draw(wanted[first + k].block, made[k]);
    }
    // All lines of these blocks by few calls.
    if (together) together->evaluate(wanted.data() + first, std::span(lines));
    exec::parallel_for(
        count, options.concurrent,
        [&](std::size_t k) {
          const WantedBlock& w = wanted[first + k];
          auto block = together ? std::move(made[k]) : make(w, maker, k, entry);
          auto drawn = together ? std::move(lines[k]) : draw(w.block, block);
          if (!together) evaluate_lines(w.block, entry, drawn);
          entries += store(work.at[first + k], work.mirror[first + k], w.tolerance, std::move(block), drawn, entry);
        },
        1);
  }
  evaluated += entries;
}

// Computes this rank's blocks.
template <Scalar T>
void Assembly<T>::compress_own() {
  Work work = list_work();
  const EntryFunction<T> entry = scaled_.function();
  // Entries that need scaling by a power of two are evaluated on the host.
  BlockMaker<T>* maker = scaled_.scaled() ? nullptr : maker_;
  detail::Waves<T> waves(entry, rows_.order(), columns_.order(), [&] { comm_.check(), comm_.check_interrupt(); });
  if (!maker && !options.concurrent && options.compress.method != Compression::svd) maker = &waves;
  const lapack::OneThread one;  // the threads are those of the loop over blocks
  make_blocks(work, 0, work.first, maker, entry);
  skip_crosses(work);
  make_blocks(work, work.first, work.at.size(), maker, entry);
}

template <Scalar T>
void Assembly<T>::cut_ranks(Known known) {
  const bool measured = known != Known::nothing;
  // Cuts at multiples of the tree's quantum, unless that is too coarse for balanced ranks.
  Local chunk = rows_.options().quantum;
  while (chunk > 1 && Global(rows_.size()) < Global(fine) * chunk * comm_.size()) chunk /= 2;
  RowCost cost(rows_.size(), chunk);
  const Local first = measured ? Local(cuts[std::size_t(comm_.rank())]) : 0,
              last = measured ? Local(cuts[std::size_t(comm_.rank()) + 1]) : rows_.size();
  std::size_t next = 0;
  for (const Block& b : leaves_) {
    const Local begin = std::max(b.row_begin, first), end = std::min(b.row_end, last);
    if (begin >= end) continue;
    // At first every rank counts its share of all leaves; later its own blocks, in proportion to its rows of a leaf.
    const double share = measured ? double(end - begin) / b.rows() : 1.0 / comm_.size();
    double rows = b.rows(), whole = bytes_wanted(b) * (measured ? 1 : share);
    bool dense = !b.admissible;
    if (measured) {
      const auto& p = packed[next++];
      rows = end - begin, whole = p.bytes(), dense = p.dense;
    }
    const double factor = dense ? 0 : whole * b.columns() / (rows + b.columns());
    cost.add_rows(begin, end, whole - factor);
    cost.add_block(b.row_begin, b.row_end, measured ? factor * share : factor);
  }
  cost.sum(comm_);
  std::vector<double> more;
  if (known == Known::ranks) {
    double bytes = 0;
    for (const auto& p : packed) bytes += p.bytes();
    const double own = bytes - cost.of(first, last);
    more = comm_.all_gather(std::span<const double>(&own, 1));
  }
  cuts = cost.cut(comm_.size(), std::move(more));
}

template <Scalar T>
void Assembly<T>::run() {
  packed.clear();
  if (cuts.empty()) cut_ranks(Known::nothing);
  std::vector<Global> best;
  double evenness = -1;
  bool back = false;  // whether to return to the best cuts
  evaluated += entries_.evaluate(scaled_.function(), comm_);
  for (int attempt = 0, again = 0;; ++attempt) {
    compress_own();
    double bytes = 0;
    error2 = norm2 = 0;
    double sampled2 = 0;
    for (const auto& p : packed) {
      const double times = places(p.block);
      bytes += p.bytes(), error2 += times * p.error * p.error, norm2 += times * p.norm * p.norm;
      sampled2 += times * p.missed2;
    }
    const auto sums = sum_over_ranks(comm_, std::vector<double>{error2, norm2, sampled2});
    error2 = sums[0], norm2 = sums[1], missed2 = entries_.weight() * sums[2];
    if (again < 3 && scaled_.leave_the_range(comm_, norm2)) {
      ++again, --attempt;
      packed.clear();
      evaluated += entries_.evaluate(scaled_.function(), comm_);
      continue;
    }
    if (options.measure == ErrorMeasure::matrix && options.compress.cut_rank == 0 && attempt < 2 &&
        error2 > options.tolerance * options.tolerance * norm2 && norm2 < scaled_.norm() * scaled_.norm()) {
      scaled_.set_norm(std::sqrt(norm2));  // smaller than the sample's estimate
      packed.clear();
      continue;
    }
    least_bytes = -comm_.all_max(-bytes), most_bytes = comm_.all_max(bytes);
    const double now = most_bytes > 0 ? least_bytes / most_bytes : 1;
    if (now >= even || back) break;
    if (now > evenness) best = cuts, evenness = now;
    // The additional costs of ranks hold only near the cuts where they were measured, so not after the first cuts.
    const auto before = cuts;
    if (attempt < options.balance_rounds) cut_ranks(attempt == 0 ? Known::blocks : Known::ranks);
    if (cuts != before) continue;
    if (cuts == best) break;
    cuts = best, back = true;
  }
}

}  // namespace

// Fills the report and makes the storage; numbers of `packed` are in units of 2^exponent.
template <Scalar T>
template <class Packed>
void HMatrix<T>::describe(std::vector<Packed> packed, int exponent) {
  const auto& comm = this->range().comm();
  const int m = parts_->rows->size(), n = parts_->columns->size();
  const bool square = parts_->rows == parts_->columns;
  largest_ = 0;
  report_.rows = m, report_.columns = n;
  std::vector<Global> counts(2), ranks;
  parts_->touched.assign(static_cast<std::size_t>(n), 0);
  if (two_sided()) std::fill_n(parts_->touched.begin() + parts_->first, parts_->count, char(1));
  parts_->diagonal.resize(std::size_t(square ? parts_->count : 0), T(0));
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
  largest_ = std::min(std::ldexp(comm.all_max(largest_), exponent), double(std::numeric_limits<real_t<T>>::max()));
  ranks.resize(std::size_t(comm.all_max(Global(ranks.size()))));
  ranks = sum_over_ranks(comm, ranks);
  counts = sum_over_ranks(comm, counts);
  report_.dense_blocks = counts[0], report_.low_rank_blocks = counts[1];
  for (std::size_t r = 0; r < ranks.size(); ++r) report_.mean_rank += double(r) * double(ranks[r]);
  if (counts[1] > 0) report_.mean_rank /= double(counts[1]);
  report_.max_rank = std::max(0, int(ranks.size()) - 1);
  report_.ranks = std::move(ranks);

  parts_->storage =
      std::make_unique<detail::Storage<T>>(parts_->first, parts_->count, n, std::move(packed), two_sided());
  const auto own = parts_->storage->bytes();
  const auto bytes = sum_over_ranks(comm, std::vector<double>{own[detail::native], own[detail::single],
                                                              own[detail::fixed], parts_->storage->index_bytes()});
  // Where the scalar is float, its own precision counts as single.
  const bool is_single = std::is_same_v<real_t<T>, float>;
  report_.full_bytes = is_single ? 0 : bytes[0];
  report_.single_bytes = bytes[1] + (is_single ? bytes[0] : 0);
  report_.fixed_bytes = bytes[2];
  report_.index_bytes = bytes[3];
  report_.bytes = bytes[0] + bytes[1] + bytes[2];
  report_.dense_fraction = report_.bytes / (double(m) * n * sizeof(T));
}

namespace {

// The errors of two products, of random signs and of ones, at the sampled rows, relative to the rows' norms, since
// products may cancel. product(x, y): y has all rows where it is two-sided, else [first, first + count).
template <Scalar T, class Product>
std::array<double, 2> errors_of_products(const comm::Communicator& comm, const Assembly<T>& assembly, int n,
                                         bool two_sided, Local first, Local count, Product&& product) {
  const auto& samples = assembly.samples;
  const int exponent = assembly.exponent();
  std::vector<T> x(static_cast<std::size_t>(n)), y(std::size_t(two_sided ? n : count));
  std::vector<double> error(2), size(3);
  for (int which = 0; which < 2; ++which) {
    for (Local j = 0; j < n; ++j) x[std::size_t(j)] = which == 0 ? T(real_t<T>(sign_of(j))) : T(1);
    std::vector<Wide<T>> found(samples.size());
    product(x.data(), y.data());
    if (two_sided) {
      for (std::size_t s = 0; s < found.size(); ++s) found[s] = Wide<T>(y[std::size_t(samples[s].position)]);
      found = sum_over_ranks(comm, found);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& s = samples[i];
      if (s.position < first || s.position >= first + count) continue;
      if (!two_sided) found[i] = Wide<T>(y[std::size_t(s.position - first)]);
      const bool zero = s.exponent == none;
      const int e = zero ? exponent : s.exponent;
      const auto square = [&](const Wide<T>& v) { return abs2(shifted(v, e - exponent)); };
      const Wide<T> exact = which == 0 ? s.random : s.ones, ours = shifted(found[i], -e);
      error[std::size_t(which)] += square(ours - exact);
      size[std::size_t(which)] += square(exact);
      if (which == 0 && !zero) size[2] += std::ldexp(s.size2, 2 * (e - exponent));
    }
  }
  error = sum_over_ranks(comm, error), size = sum_over_ranks(comm, size);
  const auto relative = [](double e, double s) { return s > 0 ? std::sqrt(e / s) : std::sqrt(e); };
  return {relative(error[0], size[2]), relative(error[1], std::max(size[1], size[2]))};
}

}  // namespace

namespace {

// The text of a warning where the error is above what is acceptable, or may be.
std::string doubt(double error, double tolerance, bool within, Global rough, Global settled, bool by_crosses) {
  std::ostringstream text;
  text.precision(2);
  text << "the error measured on sampled rows and entries is " << error << ", and the tolerance is " << tolerance;
  if (within)
    text << ", but " << rough << " far blocks of more than " << settled
         << " entries are zero where they were sampled, or have no low rank, and the error may be larger";
  if (by_crosses)
    text << ": crosses miss parts of some blocks, as where entries jump between points that are far from each other (a"
            " cut-off radius); the compression svd uses all entries, the admissibility none stores all of them";
  return text.str();
}

// In many dimensions the boxes of clusters overlap, and the matrix is dense.
template <Scalar T>
void warn_of_nothing_far(const ClusterTree& rows, const HMatrixOptions& options, HMatrixReport& report) {
  using Kind = Admissibility::Kind;
  const bool by_boxes = options.admissibility.kind == Kind::smaller || options.admissibility.kind == Kind::larger;
  if (rows.dimension() <= 3 || !by_boxes || report.low_rank_blocks > 0 || rows.clusters().size() < 8) return;
  report.warnings.push_back(message("no two clusters of these points in ", rows.dimension(),
                                    " dimensions are far from each other, since their boxes overlap, so that all ",
                                    double(report.rows) * double(report.columns) * sizeof(T) / 1e6,
                                    " MB of the matrix are stored; the admissibility weak compresses smooth kernels of"
                                    " such points, and fewer coordinates (principal components) help"));
}

}  // namespace

// Sizes, norm and errors of what an assembly has made; its blocks become the storage.
template <Scalar T>
template <class Assembly>
void HMatrix<T>::take(Assembly& assembly) {
  const auto& comm = this->range().comm();
  parts_->cuts = assembly.cuts;
  parts_->first = Local(parts_->cuts[std::size_t(comm.rank())]);
  parts_->count = Local(parts_->cuts[std::size_t(comm.rank()) + 1]) - parts_->first;
  const int m = parts_->rows->size(), n = parts_->columns->size();
  const auto [bound2, certain] = assembly.bound2();
  report_ = {};
  report_.least_bytes = assembly.least_bytes, report_.most_bytes = assembly.most_bytes;
  report_.norm = std::ldexp(std::sqrt(assembly.norm2), assembly.exponent());
  report_.estimated_error = assembly.norm2 > 0 ? std::sqrt(assembly.error2 / assembly.norm2) : 0;
  report_.entries_evaluated = comm.all_sum(double(assembly.evaluated)) / (double(m) * n);
  parts_->diagonal.clear();
  describe(std::move(assembly.packed), assembly.exponent());

  const auto errors =
      errors_of_products(comm, assembly, n, two_sided(), parts_->first, parts_->count, [&](const T* x, T* y) {
        if (two_sided()) multiply_both(x, y, 1, false);
        else parts_->storage->multiply(x, parts_->columns->order(), y, 1, comm);
      });
  report_.measured_error = std::max(errors[0], assembly.sampled_error());
  report_.measured_error_ones = errors[1];
  if (bound2 < 0 || options_.compress.cut_rank > 0) {
    report_.error_bound = std::max(report_.measured_error, report_.estimated_error);
    return;
  }
  report_.error_bound = assembly.norm2 > 0 ? std::sqrt(bound2 / assembly.norm2) : 0;
  if (!certain) report_.error_bound = std::max(report_.error_bound, report_.measured_error);
  report_.confidence = certain ? 1 : confident;
}

template <Scalar T>
void HMatrix<T>::assemble(const EntryFunction<T>& entry, BlockMaker<T>* maker) {
  const Span span("hmatrix assembly", "op");
  const auto& comm = this->range().comm();
  Assembly<T> assembly(comm, *parts_->rows, *parts_->columns, entry, maker, options_);
  const bool checks =
      options_.compress.verify && options_.compress.cut_rank == 0 && options_.compress.method != Compression::svd;
  const Global all = Global(parts_->rows->size()) * parts_->columns->size();
  auto& compress = assembly.options.compress;
  if (checks && !options_.smooth && all <= options_.compared) compress.settled = std::max(compress.settled, all);
  for (int round = 0;; ++round) {
    assembly.run();
    const Global settled = compress.settled;
    Global rough = 0;
    if (checks && assembly.norm2 > 0) {
      rough = comm.all_sum(assembly.count_rough(settled));
      // Blocks that failed were made again; unless entries are smooth, others may have errors that lines did not show.
      if (round == 0 && !options_.smooth) rough += comm.all_sum(assembly.count_failed());
    }
    take(assembly);
    const double error = std::max(report_.measured_error, report_.error_bound);
    const bool within = error <= acceptable * options_.tolerance;
    const bool by_crosses = options_.compress.method != Compression::svd && report_.low_rank_blocks > 0;
    if ((within && rough == 0) || options_.compress.cut_rank > 0) break;
    if (round == 0 && by_crosses && options_.compress.verify) {
      compress.samples = std::max(many_samples, compress.samples);
      compress.settled = std::max(all <= small_matrix ? small_matrix : small_block, compress.settled);
      continue;
    }
    if (within && !by_crosses) break;
    report_.warnings.push_back(doubt(error, options_.tolerance, within, rough, settled, by_crosses));
    break;
  }
  warn_of_nothing_far<T>(*parts_->rows, options_, report_);
}

// Stores `count` blocks, which next(i) gives with their compressed form, in options_.tolerance relative to their norms.
template <Scalar T>
template <class Next>
void HMatrix<T>::store(std::size_t count, Next&& next, double error) {
  const auto& comm = this->range().comm();
  std::vector<detail::Packed<T>> packed;
  double error2 = 0, norm2 = 0, bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [block, c] = next(i);
    auto p = detail::pack(block, c, storage_share * options_.tolerance * c.norm, options_.storage);
    if (c.dense) p.largest = largest_entry(c.u);
    const double places = two_sided() && !block.is_diagonal() ? 2 : 1;
    error2 += places * p.error * p.error, norm2 += places * c.norm * c.norm, bytes += p.bytes();
    packed.push_back(std::move(p));
  }
  const auto sums = sum_over_ranks(comm, std::vector<double>{error2, norm2});
  report_ = {};
  report_.norm = std::sqrt(sums[1]);
  report_.estimated_error = sums[1] > 0 ? std::hypot(error, std::sqrt(sums[0])) / report_.norm : 0;
  report_.least_bytes = -comm.all_max(-bytes), report_.most_bytes = comm.all_max(bytes);
  describe(std::move(packed), 0);
}

// The blocks of `fine`, each truncated relative to its own norm.
template <Scalar T>
void HMatrix<T>::coarsen(const HMatrix& fine, const CoarseOptions& coarse) {
  auto blocks = fine.parts_->storage->unpack([](const Block&) { return true; });
  const auto cut = [&](std::size_t at) {
    auto& m = blocks[at];
    Compressed<T> c;
    c.rows = m.block.rows(), c.columns = m.block.columns();
    c.dense = m.dense;
    const auto length = [](const T* v, Local n) {
      double sum = 0;
      for (Local i = 0; i < n; ++i) sum += double(abs2(v[i]));
      return std::sqrt(sum);
    };
    if (m.dense) {
      c.norm = length(m.u.data(), Local(m.u.size()));
    } else {
      std::vector<double> sizes;
      for (Local k = 0; k < m.rank; ++k)
        sizes.push_back(length(m.u.data() + std::size_t(k) * c.rows, c.rows) *
                        length(m.v.data() + std::size_t(k) * c.columns, c.columns));
      for (const double size : sizes) c.norm = std::hypot(c.norm, size);
      Local kept = coarse.rank > 0 ? std::min(m.rank, coarse.rank) : m.rank;
      double tail = 0;
      for (Local k = m.rank; k > kept; --k) tail = std::hypot(tail, sizes[std::size_t(k) - 1]);
      while (kept > 0 && std::hypot(tail, sizes[std::size_t(kept) - 1]) <= coarse.tolerance * c.norm)
        tail = std::hypot(tail, sizes[std::size_t(--kept)]);
      c.rank = kept;
      c.error = tail;
      c.orthonormal = fine.options_.compress.recompress;
      m.u.resize(std::size_t(kept) * std::size_t(c.rows)), m.v.resize(std::size_t(kept) * std::size_t(c.columns));
      c.v = std::move(m.v);
      for (Local k = 0; k < kept; ++k) {
        T *const u = m.u.data() + std::size_t(k) * c.rows, *const v = c.v.data() + std::size_t(k) * c.columns;
        const double a = length(u, c.rows), b = length(v, c.columns);
        c.sigma.push_back(real_t<T>(a * b));
        for (Local i = 0; i < c.rows && a > 0; ++i) u[i] *= real_t<T>(1 / a);
        for (Local i = 0; i < c.columns && b > 0; ++i) v[i] *= real_t<T>(1 / b);
      }
    }
    c.u = std::move(m.u);
    return std::pair(m.block, std::move(c));
  };
  store(blocks.size(), cut, fine.report_.estimated_error * fine.report_.norm);
}

// Blocks made by arithmetic, truncated to options_.tolerance; and the diagonal of those that have some of it.
template <Scalar T>
void HMatrix<T>::store_blocks(std::vector<BlockMatrix<T>> blocks, double error) {
  const bool square = parts_->rows == parts_->columns;
  parts_->diagonal.assign(square ? std::size_t(parts_->count) : 0, T(0));
  const auto next = [&](std::size_t at) {
    const Block b = blocks[at].block;
    auto c = truncated(std::move(blocks[at]), cut_share * options_.tolerance);
    blocks[at] = {};
    if (square && c.dense)
      for (Local l = std::max(b.row_begin, b.column_begin); l < std::min(b.row_end, b.column_end); ++l)
        parts_->diagonal[std::size_t(l - parts_->first)] =
            c.u[std::size_t(l - b.row_begin) + std::size_t(l - b.column_begin) * std::size_t(c.rows)];
    return std::pair(b, std::move(c));
  };
  store(blocks.size(), next, error);
}

#define TACIT_INSTANTIATE(T)                                                   \
  template void HMatrix<T>::coarsen(const HMatrix<T>&, const CoarseOptions&);  \
  template void HMatrix<T>::store_blocks(std::vector<BlockMatrix<T>>, double); \
  template void HMatrix<T>::describe(std::vector<detail::Packed<T>>, int);     \
  template void HMatrix<T>::assemble(const EntryFunction<T>&, BlockMaker<T>*);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
