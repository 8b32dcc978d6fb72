// Contents of matrix files: the header, the entries of a sparse matrix, the values of a dense block.
#pragma once

#include <tacit/base/buffer.hpp>
#include <tacit/base/complex.hpp>
#include <tacit/base/types.hpp>

#include <string>
#include <vector>

namespace tacit::io {

enum class Format { coordinate, array };
enum class Field { real, integer, complex, pattern };
enum class Symmetry { general, symmetric, skew_symmetric, hermitian };

/// The header of a matrix file.
struct Header {
  std::string path;
  Format format = Format::coordinate;
  Field field = Field::real;
  Symmetry symmetry = Symmetry::general;
  Global rows = 0, columns = 0;
  Global entries = 0;        ///< stored in the file; a symmetric file stores only its lower triangle
  Global size_line = 0;      ///< number of the line that gives the sizes, from 1; 0 in a binary file
  bool is_unsigned = false;  ///< field integer without negative values ("unsigned-integer")
  Global vectors = 0;        ///< of a PETSc matrix: vectors that follow it in the file
};

/// Entries of a rows x columns matrix in no particular order: entry k is value[k] at (row[k], column[k]), from 0.
/// A position may occur more than once: assembly adds its entries.
template <Scalar T>
struct Triplets {
  Global rows = 0, columns = 0;
  std::vector<Global> row, column;
  std::vector<T> value;
  Global entries_parsed = 0;  ///< entries in the file, before symmetry is expanded; set by the readers
};

/// Some consecutive entries of a file: entry k is value[k] at (row[k], column[k]), from 0. The arrays may be longer.
template <Scalar T>
struct EntryPiece {
  Global count = 0;
  Buffer<Local> row, column;
  Buffer<T> value;
};

/// The entries of a rows x columns matrix in the order of its file. With a symmetry each off-diagonal entry also stands
/// for its mirror image, which follows it.
template <Scalar T>
struct EntryPieces {
  Global rows = 0, columns = 0;
  Symmetry symmetry = Symmetry::general;
  Global entries_parsed = 0;
  std::vector<EntryPiece<T>> piece;
};

/// The most rows and columns of a matrix with this many entries in a file. A row takes up to 200 bytes in assembly and
/// in a solve, whether or not it has entries, and a few bytes of text can claim any number of rows.
constexpr Global largest_dimension(Global entries) {
  return (Global(1) << 20) + 64 * entries;
}

/// The value at (j, i) that an entry at (i, j) stands for.
template <Scalar T>
T mirrored(Symmetry symmetry, const T& value) {
  return symmetry == Symmetry::skew_symmetric ? -value : symmetry == Symmetry::hermitian ? conj(value) : value;
}

/// Consecutive rows of a rows x columns matrix: row first + i has the entries [start[i], start[i + 1]), in any order. A
/// column may occur more than once in a row: assembly adds its entries. Index is Local (at most 2^31 - 1 columns) or
/// Global. The arrays may be longer.
template <Scalar T, class Index = Global>
struct CompressedRows {
  Global rows = 0, columns = 0, first = 0;
  std::vector<Global> start{0};
  Buffer<Index> column;
  Buffer<T> value;
};

/// A rows x columns block, stored by columns: element (i, j) is value[i + j * rows].
template <Scalar T>
struct Dense {
  Global rows = 0, columns = 0;
  std::vector<T> value;
};

}  // namespace tacit::io
