// Files are recognised by their first bytes.
#include "io/mutate.hpp"

#include <gtest/gtest.h>

namespace tacit::io::test {
namespace {

TEST(Detect, UsesContentsAndNotNames) {
  using namespace std::string_view_literals;
  for (const Seed& seed : seeds())
    EXPECT_EQ(detect_bytes(seed.kind == Kind::gzip ? gzip(seed.bytes) : seed.bytes),
              seed.kind == Kind::binary ? FileKind::petsc_binary : FileKind::matrix_market);
  EXPECT_EQ(detect_bytes("%%matrixmarket MATRIX"), FileKind::matrix_market);
  EXPECT_EQ(detect_bytes("PK\3\4...."), FileKind::npz);
  EXPECT_EQ(detect_bytes("PK\5\6...."), FileKind::npz);
  EXPECT_EQ(detect_bytes("\x93NUMPY\1\0"sv), FileKind::npy);
  for (const auto bytes : {""sv, "\x1f"sv, "\x1f\x8b"sv, "\x1f\x8bnonsense"sv, "%MatrixMarket matrix"sv, "\0\x12\x7b"sv,
                           "\0\0\0\0\0\x12\x7b"sv, "PK"sv, "%%MatrixMarket"sv})
    EXPECT_EQ(detect_bytes(bytes), FileKind::unknown);
  EXPECT_EQ(detect_bytes(gzip("hello")), FileKind::unknown);

  const Folder folder;
  EXPECT_EQ(detect(folder.write("a.npz", "%%MatrixMarket matrix array real general\n")), FileKind::matrix_market);
  EXPECT_EQ(detect(folder.write("a.mtx", "")), FileKind::unknown);
  EXPECT_THROW(detect(folder.path("")), Error);
  EXPECT_THROW(detect(folder.path("none")), Error);
}

}  // namespace
}  // namespace tacit::io::test
