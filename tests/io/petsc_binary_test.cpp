// PETSc binary files: the bytes of the format, both integer widths, both fields, and all refused contents.
#include "io/errors.hpp"
#include "io/mutate.hpp"
#include "support/scalars.hpp"

#include <gtest/gtest.h>

namespace tacit::io::test {
namespace {

using C = std::complex<double>;

// The error of reading the seed matrix with `number` in place of its k-th integer.
std::string error_with(int k, std::int64_t number, int width = 4) {
  const std::string bytes =
      petsc_seed(true, width, false).replace(std::size_t(k * width), std::size_t(width), big_endian(number, width));
  return error_of([&] { parse_petsc_matrix<double>(bytes, "f"); });
}

TEST(Petsc, ReadsMatricesOfBothWidths) {
  for (const int width : {4, 8}) {
    const auto a = parse_petsc_matrix<double>(petsc_seed(true, width, false), "f");
    EXPECT_EQ(a.rows, 3);
    EXPECT_EQ(a.columns, 4);
    EXPECT_EQ(a.entries_parsed, 3);
    EXPECT_EQ(a.row, (std::vector<Global>{0, 0, 2}));
    EXPECT_EQ(a.column, (std::vector<Global>{0, 2, 3}));
    EXPECT_EQ(a.value, (std::vector<double>{1.5, -2.25, 1e-3}));
    EXPECT_EQ(parse_petsc_matrix<C>(petsc_seed(true, width, true), "f").value,
              (std::vector<C>{{1.5, -1.5}, {-2.25, 2.25}, {1e-3, -1e-3}}));
    EXPECT_EQ(parse_petsc_vector<float>(petsc_seed(false, width, false), "f").value,
              (std::vector<float>{1.5f, -2.25f, 1e-3f}));
    EXPECT_EQ(parse_petsc_vector<C>(petsc_seed(false, width, true), "f").value,
              (std::vector<C>{{1.5, -1.5}, {-2.25, 2.25}, {1e-3, -1e-3}}));
  }
}

TEST(Petsc, NamesWhatIsWrong) {
  EXPECT_EQ(error_with(0, 1211214), "f: at byte 0: expected the class number 1211216 of a PETSc matrix, found 1211214");
  EXPECT_EQ(error_with(1, -1), "f: at byte 4: expected a number of rows, whose lengths fit into 64 bytes, found -1");
  EXPECT_EQ(error_with(1, 0x7fffffff),
            "f: at byte 4: expected a number of rows, whose lengths fit into 64 bytes, found 2147483647");
  EXPECT_EQ(error_with(2, -4), "f: at byte 8: expected at most 2^20 + 64 entries = 1048768 columns, found -4");
  EXPECT_EQ(error_with(2, std::int64_t(1) << 60, 8).substr(0, 39), "f: at byte 16: expected at most 2^20 + ");
  EXPECT_EQ(error_with(3, -1), "f: at byte 12: expected a sparse matrix, found -1 entries, the mark of a dense one");
  EXPECT_EQ(error_with(3, 4), "f: at byte 12: expected a number of entries that fit into 64 bytes, found 4");
  EXPECT_EQ(error_with(3, 2),
            "f: at byte 36: expected 2 values of 8 or 16 bytes each, and at most vectors behind them, found 28 bytes");
  EXPECT_EQ(error_with(4, -2), "f: at byte 16: expected a row of at most 3 entries, found -2");
  EXPECT_EQ(error_with(6, 5), "f: at byte 24: expected a row of at most 1 entries, found 5");
  EXPECT_EQ(error_with(6, 0), "f: at byte 16: expected row lengths that add up to 3, found 2");
  EXPECT_EQ(error_with(8, 4), "f: at byte 32: expected a column from 0 to 3, found 4");
  EXPECT_EQ(error_with(8, -1), "f: at byte 32: expected a column from 0 to 3, found -1");
  EXPECT_EQ(error_with(8, std::int64_t(1) << 40, 8),
            "f: at byte 64: expected a column from 0 to 3, found 1099511627776");
  const std::string good = petsc_seed(true, 4, false), start = good.substr(0, 56);
  const auto with_last = [&](double number) { return start + big_endian(number); };
  EXPECT_EQ(error_of([&] { parse_petsc_matrix<double>(with_last(INFINITY), "f"); }),
            "f: at byte 56: expected a finite number, found inf");
  EXPECT_EQ(error_of([&] { parse_petsc_matrix<C>(with_last(NAN), "f"); }),
            "f: at byte 56: expected a finite number, found nan");
  EXPECT_EQ(error_of([&] { parse_petsc_matrix<float>(with_last(1e300), "f"); }).substr(0, 62),
            "f: at byte 56: expected a number in the range of float32, foun");
  EXPECT_EQ(error_of([&] { parse_petsc_matrix<double>(petsc_seed(true, 4, true), "f"); }),
            "f: at byte 40: expected real values, to be read as float64, found complex values");
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(error_of([&] { parse_petsc_matrix<double>(good.substr(0, n), "f"); }), "accepted") << n;
  EXPECT_EQ(error_of([&] { parse_petsc_matrix<double>(good + "x", "f"); }),
            "f: at byte 40: expected 3 values of 8 or 16 bytes each, and at most vectors behind them, found 25 bytes");
  EXPECT_EQ(
      error_of([&] { parse_petsc_vector<double>(good, "f"); }),
      "f: at byte 0: expected a vector, or a matrix with one vector behind it, found a matrix with 0 vectors behind "
      "it");
  EXPECT_EQ(error_of([&] { parse_petsc_vector<double>(big_endian(1211214, 4) + big_endian(-1, 4), "f"); }),
            "f: at byte 4: expected a length whose values fit into 8 bytes, found -1");
  EXPECT_EQ(error_of([&] { read_petsc_matrix<double>("/none"); }),
            "/none: cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { parse_petsc_matrix<double>(good, "f", 3, 3); }, ErrorKind::usage),
            "part is 3 of 3, expected 0 <= part < parts to read f");
}

// The file of a system, as PETSc's examples read it: a matrix and its right-hand side.
TEST(Petsc, ReadsAVectorBehindAMatrix) {
  for (const int width : {4, 8})
    for (const bool complex : {false, true}) {
      const std::string matrix = petsc_seed(true, width, complex), vector = petsc_seed(false, width, complex);
      const std::string both = matrix + vector;
      EXPECT_TRUE(same(parse_petsc_matrix<C>(both, "f"), parse_petsc_matrix<C>(matrix, "f")));
      EXPECT_EQ(parse_petsc_vector<C>(both, "f").value, parse_petsc_vector<C>(vector, "f").value);
      EXPECT_TRUE(same(parse_petsc_matrix<C>(both + vector, "f"), parse_petsc_matrix<C>(matrix, "f")));
      EXPECT_EQ(error_of([&] { parse_petsc_vector<C>(both + vector, "f"); }),
                "f: at byte 0: expected a vector, or a matrix with one vector behind it, found a matrix with 2 vectors "
                "behind it");
      for (std::size_t n = matrix.size() + 1; n < both.size(); ++n) {
        EXPECT_NE(error_of([&] { parse_petsc_matrix<C>(both.substr(0, n), "f"); }), "accepted") << n;
        EXPECT_NE(error_of([&] { parse_petsc_vector<C>(both.substr(0, n), "f"); }), "accepted") << n;
      }
      EXPECT_NE(error_of([&] { parse_petsc_vector<C>(vector + vector, "f"); }), "accepted");
    }
}

template <class T>
class PetscRoundTrip : public testing::Test {};
using tacit::test::Scalars;
TYPED_TEST_SUITE(PetscRoundTrip, Scalars);

TYPED_TEST(PetscRoundTrip, IsExactInAllParts) {
  using T = TypeParam;
  const Folder folder;
  const std::string path = folder.path("a.petsc");
  std::mt19937_64 random(2);
  for (const int n : {0, 1, 10, 3000}) {
    Triplets<T> a;  // every third row is empty, others have up to 59 entries
    a.rows = n;
    a.columns = 60;
    for (Global row = 0; row < n; ++row)
      for (Global column = Global(random() % 60); row % 3 != 1 && column < 60; ++column) {
        a.row.push_back(row);
        a.column.push_back(column);
        a.value.push_back(T(real_t<T>(std::ldexp(double(random()), int(random() % 100) - 100))));
      }
    write_petsc_matrix(path, a);
    EXPECT_TRUE(same(read_petsc_matrix<T>(path), a));
    const Header header = read_petsc_header(path);
    EXPECT_EQ(header.rows, n);
    EXPECT_EQ(header.entries, Global(a.value.size()));
    EXPECT_EQ(header.format, Format::coordinate);
    for (int parts = 2; parts <= 7; ++parts) {
      Triplets<T> all;
      for (int part = 0; part < parts; ++part) append(all, read_petsc_matrix<T>(path, part, parts));
      EXPECT_TRUE(same(all, a)) << n << " rows, " << parts << " parts";
      EXPECT_EQ(all.entries_parsed, header.entries);
    }
    for (const Global ranks : {1, 2, 3, 7}) {
      std::size_t k = 0;
      for (Global rank = 0; rank < ranks; ++rank) {
        const Global first = n * rank / ranks, last = n * (rank + 1) / ranks;
        const auto rows = read_petsc_rows<T>(path, first, last);
        ASSERT_EQ(Global(rows.start.size()), last - first + 1);
        EXPECT_EQ(rows.first, first);
        EXPECT_EQ(rows.rows, n);
        EXPECT_EQ(rows.columns, 60);
        for (Global row = first; row < last; ++row)
          for (Global e = rows.start[row - first]; e < rows.start[row - first + 1]; ++e, ++k) {
            ASSERT_LT(k, a.value.size());
            EXPECT_EQ(a.row[k], row);
            EXPECT_EQ(a.column[k], rows.column[e]);
            EXPECT_EQ(a.value[k], rows.value[e]);
          }
      }
      EXPECT_EQ(k, a.value.size());
    }
    EXPECT_THROW(read_petsc_rows<T>(path, 0, n + 1), Error);
    EXPECT_THROW(read_petsc_rows<T>(path, -1, n), Error);
    Triplets<T> reversed = a;
    std::reverse(reversed.row.begin(), reversed.row.end());
    std::reverse(reversed.column.begin(), reversed.column.end());
    std::reverse(reversed.value.begin(), reversed.value.end());
    write_petsc_matrix(path, reversed);
    EXPECT_TRUE(same(read_petsc_matrix<T>(path), a));
    const Dense<T> vector{Global(a.value.size()), 1, a.value};
    write_petsc_vector(path, vector);
    EXPECT_TRUE(same(read_petsc_vector<T>(path), vector));
    EXPECT_EQ(read_petsc_header(path).format, Format::array);
  }
}

TEST(Petsc, WritesTheBytesOfTheFormat) {
  const Folder folder;
  const std::string path = folder.path("a.petsc");
  for (const bool complex : {false, true}) {
    if (complex) write_petsc_matrix(path, parse_petsc_matrix<C>(petsc_seed(true, 4, true), "f"));
    else write_petsc_matrix(path, parse_petsc_matrix<double>(petsc_seed(true, 8, false), "f"));
    EXPECT_EQ(bytes_of(path), petsc_seed(true, 4, complex));
    if (complex) write_petsc_vector(path, parse_petsc_vector<C>(petsc_seed(false, 4, true), "f"));
    else write_petsc_vector(path, parse_petsc_vector<double>(petsc_seed(false, 8, false), "f"));
    EXPECT_EQ(bytes_of(path), petsc_seed(false, 4, complex));
  }
  const Triplets<double> wide{1, Global(1) << 32, {0}, {Global(1) << 31}, {1}};
  write_petsc_matrix(path, wide);
  EXPECT_EQ(bytes_of(path).size(), 8u * 7);  // 64-bit integers; the reader refuses so many columns for so few entries
}

TEST(Petsc, WriterRefuses) {
  const Folder folder;
  const std::string path = folder.write("a.petsc", "old");
  const auto refused = [&](const Triplets<double>& a) {
    const std::string error = error_of([&] { write_petsc_matrix(path, a); }, ErrorKind::usage);
    EXPECT_EQ(bytes_of(path), "old");
    return error;
  };
  EXPECT_EQ(refused({2, 2, {1, 1}, {0, 0}, {1, 2}}),
            "row 1 for " + path + " holds two entries in one column, which PETSc files cannot");
  EXPECT_EQ(refused({2, 2, {2}, {0}, {1}}), "triplet 0 for " + path + " is at (2, 0), outside of 2 x 2");
  EXPECT_EQ(refused({2, 2, {1}, {0}, {NAN}}), "triplet 0 for " + path + ", at (1, 0), is nan");
  EXPECT_EQ(error_of(
                [&] {
                  write_petsc_vector(path, Dense<double>{1, 2, {1, 2}});
                },
                ErrorKind::usage),
            "the vector for " + path + " is 1 x 2 with 2 values, expected one column");
}

}  // namespace
}  // namespace tacit::io::test
