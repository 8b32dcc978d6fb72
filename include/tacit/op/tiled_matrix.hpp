// TiledMatrix: one rank's sparse matrix for products with one or many columns, stored compactly: blocks of rows,
// divided into stages of columns with 16-bit local indices.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/op/local_product.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tacit::op {

/// The storage precision of the matrix; sums are always formed in the vectors' scalar. half and bfloat16 are scaled by
/// a power of two for each block of rows, so that nothing overflows.
enum class Values { full, single, half, bfloat16 };

/// The storage of column indices. list: 16 bits for each entry, stages of 65536 columns. bitmap: 32 bits for each run
/// of 16 columns that a row touches, stages of 2^20 columns; smaller where neighbouring columns are neighbours in
/// space. plain: 32 bits for each entry and no stages, as in a csr matrix, for rows with few entries in a stage.
/// automatic: bitmap below 8 columns at once where it saves bytes, plain where a list would have several stages and
/// rows fewer than 16 entries in each, list elsewhere. computed: nothing is stored; for operators with a formula for
/// their entries (app::tomography::Projector), not for a TiledMatrix.
enum class TiledFormat { automatic, list, bitmap, plain, computed };

/// The precision in which a product reads the vectors: their own, or a 16-bit copy in which each column is scaled by
/// the power of two that brings its largest finite number to 2^14 (less where sums could overflow). The rounding error
/// of a number is added to the next ones of its column, up to half a unit of their last place (error diffusion, Floyd
/// and Steinberg 1976): every number is accurate to a unit, and sums over neighbours are nearly exact. Sums are formed
/// in float. For float matrices. The copy is made for every product and halves the traffic where X does not fit a
/// cache; below 8 columns the vectors are rounded but not stored in 16 bits.
enum class Vectors { full, half, bfloat16 };

/// The largest rounding error of a number of this precision, relative to it; 0 of `full`.
constexpr double half_unit(Vectors vectors) {
  return vectors == Vectors::half ? 0x1p-11 : vectors == Vectors::bfloat16 ? 0x1p-8 : 0;
}

struct TiledOptions {
  Values values = Values::full;
  TiledFormat format = TiledFormat::automatic;
  /// Rows of a block, the work of one thread at a time. 0: 128.
  int block_rows = 0;
  Vectors vectors = Vectors::full;
  /// The expected number of columns of a product, for which `automatic` decides.
  int columns = 1;
  /// Register tiling: columns whose sums a thread keeps in registers, a multiple of 8 up to 128; 0: 128 (double: 64).
  int tile = 0;
  /// Products with 2 columns or more sum a row entry by entry, in the order given, even where several partial sums
  /// would be faster (narrow tiles).
  bool in_order = false;
  /// Choose format (where automatic), block_rows and tile (where 0) by timing products of `columns` columns with a
  /// sample of the rows. The result is stored in `tuning_file` by processor, threads, kind of matrix and columns, and
  /// not measured again; a file that cannot be written is no error. Formats differ in the order of sums.
  bool tune = false;
  std::string tuning_file;  ///< path for TuningFile (op/tuning.hpp)
  /// The storage order of rows, for matrices whose rows with common columns are not neighbours: stored row i is row
  /// row_order[i], which is row i of the source. Empty: unchanged.
  std::vector<Local> row_order;
  /// The same for columns: column j of the source is element column_order[j] of a vector. A product first permutes X
  /// into a copy. Empty: unchanged.
  std::vector<Local> column_order;
};

/// Rows that a RowSource makes.
template <class T>
struct RowBuffer {
  std::vector<std::int64_t> start;  ///< of each row, then the end; cleared to {0} before the call
  std::vector<Local> column;
  std::vector<T> value;
  void add(Local c, T v) { column.push_back(c), value.push_back(v); }
  void end_row() { start.push_back(std::int64_t(column.size())); }
};
/// Makes rows of a matrix block by block: appends rows begin to end - 1 to `rows`, with entries in any order and no
/// column twice. Called from several threads at once.
template <class T>
using RowSource = std::function<void(Local begin, Local end, RowBuffer<T>& rows)>;

/// What `tune` compares: the given options with each format, size of blocks and tile where they leave these open
/// (up to 14). Local.
std::vector<TiledOptions> tuning_candidates(const TiledOptions& options);
/// The options with automatic values replaced by the result of `tune`. Local; builds and multiplies a sample of up to
/// 8192 rows for each of tuning_candidates() unless the file has the result.
template <class T>
TiledOptions tuned(Local rows, Local columns, const RowSource<T>& source, TiledOptions options);

template <class T>
class TiledMatrix final : public LocalProduct<T> {
 public:
  /// Blocks are made in parallel, one at a time by each thread. Memory: the result and one block for each thread.
  /// Error(usage) on a column out of range or an option that does not fit.
  TiledMatrix(Local rows, Local columns, const RowSource<T>& source, const TiledOptions& options);
  ~TiledMatrix() override;
  TiledMatrix(TiledMatrix&&) noexcept;
  TiledMatrix& operator=(TiledMatrix&&) noexcept;

  Local rows() const override { return rows_; }
  Local columns() const override { return columns_; }
  void multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm = nullptr,
                const Clamp<T>* clamp = nullptr) const override;
  void multiply_full(const T* x, int x_stride, T* y, int y_stride, int k,
                     const comm::Communicator* comm = nullptr) const override;

  Global entries() const override { return entries_; }
  double largest() const override { return largest_; }
  const std::vector<Local>& row_order() const { return order_; }
  const std::vector<Local>& column_order() const { return column_order_; }
  std::string fault() const override { return fault_; }
  bool intact() const override;
  double bytes() const override;
  double bytes_of_values() const;
  /// Entries over the sum of the distinct columns of blocks of `block_rows` rows: the mean number of uses of a staged
  /// column. O(entries).
  double reuse(int block_rows) const;
  TiledFormat format() const { return format_; }
  Values values() const { return values_; }
  Vectors vectors() const { return vectors_; }
  int block_rows() const { return block_rows_; }
  std::string storage() const override;
  /// Stored rows begin to end - 1 with rounded values, in the order of summation.
  void rows(Local begin, Local end, RowBuffer<T>& out) const;

  struct Block;  // of rows
  struct Arena;
  struct Copy;  // of vectors, permuted and rounded

 private:
  void encode(Local begin, Local end, const RowBuffer<T>& rows, Block& block, Arena& arena) const;
  std::uint64_t checksum_of_starts(const Block& block) const;
  std::uint64_t checksum_of_entries(const Block& block) const;
  void encode_runs(Local begin, const RowBuffer<T>& rows, Block& block, Arena& arena) const;
  void prepare(const T* x, int x_stride, int k, Vectors vectors, Copy& copy) const;
  void multiply_in(Vectors vectors, const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                   const Clamp<T>* clamp) const;
  void multiply_block(const Block& block, const T* x, int x_stride, T* y, int y_stride, int k, const Copy* copy,
                      const Clamp<T>* clamp) const;
  Local rows_ = 0, columns_ = 0;
  int block_rows_ = 128, tile_ = 0, stages_ = 1;
  bool in_order_ = false;
  std::vector<Local> order_, column_order_;
  TiledFormat format_ = TiledFormat::list;
  Values values_ = Values::full;
  Vectors vectors_ = Vectors::full;
  std::uint32_t longest_ = 0;  // entries of a row
  Global entries_ = 0;
  double largest_ = 0;
  std::string fault_;
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  struct Spare;
  std::unique_ptr<Spare> spare_;  // copies that are not in use
};

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::Values> = named<op::Values>("values", {{op::Values::full, "full"},
                                                                          {op::Values::single, "float32"},
                                                                          {op::Values::half, "float16"},
                                                                          {op::Values::bfloat16, "bfloat16"}});
template <>
inline constexpr auto names_of<op::TiledFormat> = named<op::TiledFormat>("format",
                                                                         {{op::TiledFormat::automatic, "automatic"},
                                                                          {op::TiledFormat::list, "list"},
                                                                          {op::TiledFormat::bitmap, "bitmap"},
                                                                          {op::TiledFormat::plain, "plain"},
                                                                          {op::TiledFormat::computed, "computed"}});
template <>
inline constexpr auto names_of<op::Vectors> = named<op::Vectors>("vectors", {{op::Vectors::full, "full"},
                                                                             {op::Vectors::half, "float16"},
                                                                             {op::Vectors::bfloat16, "bfloat16"}});
}  // namespace tacit
