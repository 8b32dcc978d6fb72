// PETSc binary files: sparse matrices (Mat) and vectors (Vec).
//
// Format (PETSc manual pages MatLoad and VecLoad), everything big-endian: an integer class number, 1211216 for a Mat
// and 1211214 for a Vec; for a Mat rows, columns and entries, the length of every row, the column of every entry, the
// value of every entry; for a Vec its length and its values. Integers have 4 bytes, or 8 where PETSc was built with
// 64-bit indices (recognised by the class number); values are float64 or complex128 (recognised by the size of the
// file).
//
// A file holds one object, or a Mat with vectors behind it (a system's right-hand side). The columns of a row may have
// any order, and repeat. Dense matrices and float32 values are refused. All functions are local. Errors of the readers
// are Error(input) with the position in bytes, "FILE: at byte N: expected ..., found ..."; sizes are compared with the
// size of the file before memory is allocated.
#pragma once

#include <tacit/io/matrix_file.hpp>

#include <string>
#include <string_view>

namespace tacit::io {

/// Shape, number of entries and field (real or complex) of a Mat, with the number of vectors behind it, or, as one
/// column, of a Vec (then format array).
Header read_petsc_header(const std::string& path);

/// The triplets of a Mat, row by row. With `parts` > 1 those of `part`: the rows whose first entry lies in the part-th
/// of `parts` equal ranges of entries; the parts, concatenated in order, are the whole. A part reads all row lengths,
/// but only the columns and values of its own rows. Memory: 16 + sizeof(T) bytes for each triplet (twice the file for
/// double) and 1 MiB. Also refused: negative or too long rows, columns out of range, NaN and Inf, values beyond T's
/// range, complex files into real T. All values of a complex file are complex128.
template <Scalar T>
Triplets<T> read_petsc_matrix(const std::string& path, int part = 0, int parts = 1);

/// Rows [first, last) of a Mat, as the file stores them; refuses what read_petsc_matrix refuses. Reads all row lengths,
/// but only the columns and values of these rows, by all threads. Index: Local or Global; Error(usage) for Local if
/// there are more than 2^31 - 1 columns. Memory: sizeof(Index) + sizeof(T) bytes for each entry and 8 for each row, and
/// 0.5 MiB for each thread.
template <Scalar T, class Index = Global>
CompressedRows<T, Index> read_petsc_rows(const std::string& path, Global first, Global last);

/// As read_petsc_matrix, from the bytes of a file. `path` is only shown in errors.
template <Scalar T>
Triplets<T> parse_petsc_matrix(std::string_view bytes, const std::string& path, int part = 0, int parts = 1);

/// A Vec as a block of one column: all of the file, or what follows the Mat that it begins with (Error(input) unless
/// that is one Vec).
template <Scalar T>
Dense<T> read_petsc_vector(const std::string& path);

/// As read_petsc_vector, from the bytes of a file. `path` is only shown in errors.
template <Scalar T>
Dense<T> parse_petsc_vector(std::string_view bytes, const std::string& path);

/// Writes a Mat: rows in order, columns ascending within a row. Integers have 8 bytes where rows, columns or entries
/// exceed 2^31 - 1. Values are widened to float64 or complex128. Memory: 8 bytes for each row and each entry. Like
/// write_matrix_market it writes a new file that replaces `path`. Error(usage), before anything is written: vectors of
/// different lengths, indices out of range, values that are not finite, a position given twice (PETSc has no
/// duplicates). Error(environment): the file cannot be written.
template <Scalar T>
void write_petsc_matrix(const std::string& path, const Triplets<T>& matrix);

/// Writes a Vec from a block of one column, with the guarantees of write_petsc_matrix.
template <Scalar T>
void write_petsc_vector(const std::string& path, const Dense<T>& block);

}  // namespace tacit::io
