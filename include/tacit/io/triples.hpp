// Sparse matrices as text without a header: an entry a line, its row, its column (from 1) and its value.
#pragma once

#include <tacit/base/types.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::io {

/// Some entries in the order of their file: entry k is value[k] at (row[k], column[k]), from 0.
struct TriplePiece {
  std::vector<Local> row, column;
  std::vector<float> value;
};

struct Triples {
  std::vector<TriplePiece> pieces;
  Global entries = 0;  ///< in the file
  Global rows = 0;     ///< the largest row of the file, from 1
  Global columns = 0;  ///< the largest column of the entries kept, from 1
};

/// Rows dealt to parts, 16 neighbours at a time, so that neither sorted nor alternating rows make parts differ.
struct DealtRows {
  static constexpr Global block = 16;
  int part = 0, parts = 1;
  bool has(Global row) const { return row / block % parts == part; }
  /// The number of a row within its part.
  Global place(Global row) const { return row / (block * parts) * block + row % block; }
  /// The rows of this part among the first n.
  Global count(Global n) const {
    const Global round = block * parts, rest = n % round - block * part;
    return n / round * block + (rest < 0 ? 0 : rest < block ? rest : block);
  }
};

/// The entries in these rows of a plain or gzip-compressed file. Numbers are separated by blanks or tabs; lines may end
/// with CR LF; empty lines are skipped, as is what follows # or %. Rows and columns are whole numbers from 1 to 2^31 -
/// 1, also written as 3.0 or 3e0; values are finite floats (below their range they are 0). Entries may repeat.
///
/// Uses threads; the result does not depend on their number. Memory: 12 bytes for each entry kept, and 64 MiB of text.
/// Local. Error(input) "FILE:LINE: expected .., found .." for the first line that is anything else.
Triples read_triples(const std::string& path, DealtRows rows = {});
/// As read_triples, from the bytes of a file. `path` is only shown in errors.
Triples parse_triples(std::string_view bytes, const std::string& path, DealtRows rows = {});

/// Writes such a file with tabs between the numbers, and values as 6.250000e-02 where that is the value to the bit,
/// with as many digits as it takes elsewhere; gzip-compressed when `path` ends in ".gz". An existing file is replaced
/// when the new one is complete. Indices are from 0. Error(environment): the file cannot be written.
void write_triples(const std::string& path, std::span<const Local> row, std::span<const Local> column,
                   std::span<const float> value);

}  // namespace tacit::io
