// Matrix Market files (.mtx, .mtx.gz), read strictly and in parallel.
//
// Format: R. Boisvert, R. Pozo, K. Remington, The Matrix Market Exchange Formats: Initial Design, NISTIR 5935 (1996).
// Where the format leaves choices, these readers
//   accept  banner words in any case, up to 16 blanks in front of them, as MUMPS writes; CRLF line ends; blank lines
//           anywhere after the banner and lines that begin with %
//           anywhere after it; + signs; leading zeros; "1." and ".5"; exponents by e, E, d or D; a last line without
//           its line end; entries in any order; duplicates, which stay separate triplets; a field narrower than the
//           scalar (integer into double, real into complex); the field unsigned-integer; zeros on the diagonal of a
//           skew-symmetric matrix, all of them in an array; in single precision, values below its range but not below
//           that of double precision, which round to zero;
//   refuse  with file and line: any other byte or text; a comment or anything else behind the numbers of a line; a
//           banner with one percent sign; CR alone as a line end; NaN and Inf; values beyond the scalar's range, and
//           others than 0 below that of double precision (1e-400); in the field integer, values that no double has
//           (2^53 + 1); complex files into real scalars; fields and symmetries that exclude each other (pattern array,
//           hermitian but not complex, pattern skew-symmetric); symmetric files that are not square, hold an entry
//           above the diagonal, or on it a skew-symmetric one that is not zero or a hermitian one not real; indices out
//           of range; a number of entries other than the stated one; more entries than the bytes of the file can hold;
//           more than 2^20 + 64 entries rows or columns; lines of more than 16 MiB; compressed files that expand to
//           more than 1000 times their size plus 1 MiB, are cut short or damaged, or are followed by something else.
//
// All functions are local. Errors are Error(input) unless stated, their text "FILE:LINE: expected ..., found ...". Of
// several wrong lines the first is reported; a wrong number of entries only when every line is right by itself.
#pragma once

#include <tacit/io/matrix_file.hpp>

#include <string>
#include <string_view>

namespace tacit::io {

/// Banner and size line of a plain or gzip-compressed Matrix Market file. For an array `entries` follows from the shape
/// and the symmetry. Reads to the size line only, but has compared the sizes with the size of the file.
Header read_matrix_market_header(const std::string& path);

/// The triplets of a coordinate file, from 0, in the order of the file.
///
/// With `parts` > 1 this is the share of `part` (0 <= part < parts): of a plain file the lines that start in the
/// part-th of `parts` equal ranges of bytes, of a compressed file the part-th of `parts` equal ranges of entries. The
/// parts, concatenated in order, are the whole. Every rank reads its own part only, so the caller adds `entries_parsed`
/// over all parts and passes the sum to check_entry_count(). With parts = 1 this is done already.
///
/// `expand_symmetry`: an off-diagonal entry (i, j, a) of a symmetric, skew-symmetric or hermitian file is followed by
/// its mirror image (j, i, a), (j, i, -a) or (j, i, conj(a)). Pattern entries have the value 1.
///
/// Uses threads (the result does not depend on their number). Memory: 16 + sizeof(T) bytes for each triplet and 5 MiB
/// for each thread. The file is read in blocks. Parts of a file and compressed files, whose number of triplets is not
/// known beforehand, may need twice that temporarily. Real triplets are at most 4 times the plain file (8 times after
/// the expansion of symmetry), pattern triplets 6 (12); complex scalars filled from real files add a third.
/// A compressed file is expanded by one thread, and by every part. Error(memory): not enough of it.
template <Scalar T>
Triplets<T> read_matrix_market(const std::string& path, int part = 0, int parts = 1, bool expand_symmetry = true);

/// As read_matrix_market, without expanding the symmetry: the entries as threads have parsed them, 8 + sizeof(T) bytes
/// each, in pieces that assembly frees one after the other. Error(usage) where indices exceed 32 bits.
template <Scalar T>
EntryPieces<T> read_matrix_market_pieces(const std::string& path, int part = 0, int parts = 1);

/// As read_matrix_market, from the bytes of a file (plain or compressed). `path` is only shown in errors.
template <Scalar T>
Triplets<T> parse_matrix_market(std::string_view bytes, const std::string& path, int part = 0, int parts = 1,
                                bool expand_symmetry = true);

/// Error(input) unless `total`, the sum of `entries_parsed` over all parts, is what the header states.
void check_entry_count(const Header& header, Global total);

/// A dense block or vector: an array file, its symmetry expanded; or a coordinate file of at most 2^24 + 4 entries
/// elements, its duplicates added and everything else zero. Memory: sizeof(T) for each element (at most 4 times the
/// file for float and double, twice that where symmetry is expanded or T is complex and the file is not), and 5 MiB for
/// each thread; for coordinate files also the triplets.
template <Scalar T>
Dense<T> read_matrix_market_array(const std::string& path);

/// As read_matrix_market_array, from the bytes of a file (plain or compressed). `path` is only shown in errors.
template <Scalar T>
Dense<T> parse_matrix_market_array(std::string_view bytes, const std::string& path);

/// Writes a coordinate file of field real or complex, in the order of the triplets, with the fewest digits that read
/// back to the same bits; gzip-compressed when `path` ends in ".gz". With a symmetry the triplets are those of the
/// lower triangle only, as read with expand_symmetry = false. The text is written to a new file in the same folder,
/// which replaces `path` at the end (or the target of `path`, if it is a symbolic link): after a failure the old file
/// is unchanged. Error(usage), before anything is written: vectors of different lengths, indices out of range, values
/// that are not finite, triplets that contradict the symmetry. Error(environment): the file cannot be written.
template <Scalar T>
void write_matrix_market(const std::string& path, const Triplets<T>& matrix, Symmetry symmetry = Symmetry::general);

/// Writes a general array file, one element on each line, with the guarantees of write_matrix_market.
template <Scalar T>
void write_matrix_market_array(const std::string& path, const Dense<T>& block);

}  // namespace tacit::io
