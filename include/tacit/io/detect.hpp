// Detects the kind of a file by its first bytes.
#pragma once

#include <string>
#include <string_view>

namespace tacit::io {

enum class FileKind { matrix_market, petsc_binary, npz, npy, unknown };

/// The kind of a file by its first bytes; its name is ignored: a Matrix Market banner (plain or gzip-compressed), a
/// PETSc class number, a zip archive (npz), NumPy's magic (npy). The rest of the file is not checked.
/// Local. Error(input): the file cannot be opened or is not a regular file.
FileKind detect(const std::string& path);

/// As detect, from the bytes of a file.
FileKind detect_bytes(std::string_view bytes);

}  // namespace tacit::io
