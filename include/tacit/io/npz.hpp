// Compressed rows of a NumPy archive: arrays data, indices and indptr as scipy.sparse.save_npz writes them.
//
// The directory of the archive and the headers of its arrays are read by the caller (in Python: tacit.io), who
// describes the arrays by NpzArray; this file reads their elements. Errors are Error(input), "FILE: ...".
#pragma once

#include <tacit/io/matrix_file.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace tacit::io {

/// One array of an archive, in the processor's byte order.
struct NpzArray {
  std::string name;   ///< "data", for errors
  char kind = 'f';    ///< 'f', 'c' (of two reals) or 'i', as NumPy's dtype.kind
  int width = 8;      ///< bytes of an element: 4 or 8, complex 8 or 16
  Global count = 0;   ///< elements
  Global at = 0;      ///< offset of the array's bytes in the file, behind the archive's local header
  Global stored = 0;  ///< these bytes, compressed if `deflated`
  bool deflated = false;
  Global header = 0;      ///< bytes of NumPy's header, at the beginning
  std::uint32_t crc = 0;  ///< of header and elements
};

/// A matrix in compressed rows: rows + 1 starts, a column and a value for each entry.
struct NpzRows {
  Global rows = 0, columns = 0;
  NpzArray start, column, value;
};

/// What a rank has read of the arrays start, column and value, for check_npz().
struct NpzSums {
  std::array<std::uint32_t, 3> crc{};
  std::array<Global, 3> bytes{};
};

/// Rows [first, last) of a matrix. Of arrays that are not compressed only their elements are read, by all threads;
/// compressed ones are expanded as a whole, columns and values by a thread each. Ranks that read consecutive rows
/// (`is_first`, `is_last`: the first and the last of them) combine `sums` in check_npz(). Values are converted as by a
/// C++ cast; those that are not finite are kept. Local. Memory: sizeof(Index) + sizeof(T) bytes for each entry, 8 for
/// each row, and 0.5 MiB for each thread. Refused: starts that fall or exceed the number of entries, and columns out of
/// range. Error(usage) for a complex array into real T.
template <Scalar T, class Index>
CompressedRows<T, Index> read_npz_rows(const std::string& path, const NpzRows& matrix, Global first, Global last,
                                       bool is_first, bool is_last, NpzSums& sums);

/// Refuses an archive one of whose checksums differs from that of the parts, which are in the order of the rows. Local.
void check_npz(const std::string& path, const NpzRows& matrix, std::span<const NpzSums> parts);

}  // namespace tacit::io
