// TiledMatrix: one rank's sparse matrix for products with one or many columns, stored in few bytes: blocks of rows, cut
// into stages of columns that 16-bit local indices reach.
#pragma once

#include <tacit/op/local_product.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tacit::op {

/// How numbers of the matrix are stored; sums are formed in the vectors' scalar whatever this is. half and bfloat16 are
/// scaled by a power of two for each block of rows, so that nothing overflows.
enum class Values { full, single, half, bfloat16 };

/// list: 16 bits an entry, stages of 65536 columns. bitmap: 32 bits for each run of 16 columns that a row touches,
/// stages of 2^20 columns: less where neighbouring columns are neighbours in space. plain: 32 bits an entry, no stages,
/// as in a csr matrix: where a row has but a few entries in a stage. automatic: bitmap below 8 columns at once where it
/// saves bytes, plain where rows have fewer than 16 entries in a stage of a list, list elsewhere. computed: nothing is
/// stored; of operators that know their entries as a formula (app::tomography::Projector), not of a TiledMatrix.
enum class TiledFormat { automatic, list, bitmap, plain, computed };

/// What a product reads of the vectors: they themselves, or a copy in 16 bits, column by column times the power of two
/// that brings its largest finite number to 2^14: no column can overflow, nor spoil another. What rounding takes from a
/// number the next ones of its column get, up to half a unit of their own last place (error diffusion: Floyd and
/// Steinberg 1976): every number is within a unit of its own, and sums over neighbours lose next to nothing. Sums are
/// formed in float in any case. Of matrices of floats. Made anew for every product; half of the traffic where X does
/// not fit a cache.
enum class Vectors { full, half, bfloat16 };

struct TiledOptions {
  Values values = Values::full;
  TiledFormat format = TiledFormat::automatic;
  /// Rows of a block: what one thread works on. 0: 128.
  int block_rows = 0;
  Vectors vectors = Vectors::full;
  /// Columns that are multiplied at once, as expected: what `automatic` decides for.
  int columns = 1;
  /// Register tiling: columns whose sums a thread keeps in registers, a multiple of 8 up to 128; 0: 128 (double: 64).
  int tile = 0;
  /// Products with 2 columns or more add up a row entry by entry, in the order given, also where several partial sums
  /// side by side would be faster (narrow tiles).
  bool in_order = false;
  /// Format (where automatic), block_rows and tile (where 0) are what products of `columns` columns with a sample of
  /// the rows are quickest with, here and now. What was found is kept in `tuning_file` by processor, threads, kind of
  /// matrix and columns, and not measured again; a file that cannot be written is no error. Another format sums in
  /// another order.
  bool tune = false;
  std::string tuning_file;  ///< as TuningFile (op/tuning.hpp) takes it
  /// Where rows that read the same columns do not stand together: place i of the stored matrix is row row_order[i],
  /// which is what the source is asked for as row i. Empty: as they are.
  std::vector<Local> row_order;
  /// Likewise of columns: what the source calls column j is element column_order[j] of a vector. Vectors are put in
  /// order before a product: a copy of X. Empty: as they are.
  std::vector<Local> column_order;
};

/// Rows of a matrix, made block by block: fill(begin, end, rows) appends rows begin to end - 1, entries in any order,
/// no column twice. Called from several threads at once.
template <class T>
struct RowBuffer {
  std::vector<std::int64_t> start;  ///< of each row, then the end; cleared to {0} before the call
  std::vector<Local> column;
  std::vector<T> value;
  void add(Local c, T v) { column.push_back(c), value.push_back(v); }
  void end_row() { start.push_back(std::int64_t(column.size())); }
};
template <class T>
using RowSource = std::function<void(Local begin, Local end, RowBuffer<T>& rows)>;

/// The options with what `tune` finds in place of what was left open. Local; builds and multiplies a sample of the rows
/// for each candidate (up to 14, of up to 8192 rows) unless the file knows.
template <class T>
TiledOptions tuned(Local rows, Local columns, const RowSource<T>& source, TiledOptions options);

template <class T>
class TiledMatrix final : public LocalProduct<T> {
 public:
  /// Blocks are made in parallel, one at a time by a thread; no more memory than the result and a block a thread.
  /// Error(usage) on a column outside or an option that does not fit.
  TiledMatrix(Local rows, Local columns, const RowSource<T>& source, const TiledOptions& options);
  ~TiledMatrix() override;
  TiledMatrix(TiledMatrix&&) noexcept;
  TiledMatrix& operator=(TiledMatrix&&) noexcept;

  Local rows() const override { return rows_; }
  Local columns() const override { return columns_; }
  void multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm = nullptr,
                const Clamp<T>* clamp = nullptr) const override;

  Global entries() const override { return entries_; }
  double largest() const override { return largest_; }
  const std::vector<Local>& row_order() const { return order_; }
  const std::vector<Local>& column_order() const { return column_order_; }
  std::string fault() const override { return fault_; }
  double bytes() const override;
  double bytes_of_values() const;
  /// Nonzeros over distinct columns of blocks of so many rows: how often a staged column is used. O(entries).
  double reuse(int block_rows) const;
  TiledFormat format() const { return format_; }
  Values values() const { return values_; }
  Vectors vectors() const { return vectors_; }
  int block_rows() const { return block_rows_; }
  std::string storage() const override;
  /// Places begin to end - 1 as they are stored (rounded values), in the order of sums.
  void rows(Local begin, Local end, RowBuffer<T>& out) const;

  struct Block;  // of rows
  struct Arena;
  struct Copy;  // of vectors, in order and as they are multiplied

 private:
  void encode(Local begin, Local end, const RowBuffer<T>& rows, Block& block, Arena& arena) const;
  void encode_runs(Local begin, const RowBuffer<T>& rows, Block& block, Arena& arena) const;
  void prepare(const T* x, int x_stride, int k, Copy& copy) const;
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
