// Text of triples: accepted contents with their values, and refused contents with their messages.
#include "io/errors.hpp"
#include "io/files.hpp"

#include <tacit/io/triples.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tacit::io::test {
namespace {

struct Joined {
  std::vector<Local> row, column;
  std::vector<float> value;
};

Joined joined(const Triples& t) {
  Joined all;
  for (const auto& piece : t.pieces) {
    all.row.insert(all.row.end(), piece.row.begin(), piece.row.end());
    all.column.insert(all.column.end(), piece.column.begin(), piece.column.end());
    all.value.insert(all.value.end(), piece.value.begin(), piece.value.end());
  }
  return all;
}
Joined read(const std::string& text) {
  return joined(parse_triples(text, "f.tsv"));
}
std::string error_in(const std::string& text) {
  return error_of([&] { parse_triples(text, "f.tsv"); });
}

TEST(Triples, ReadsEntriesInTheirOrder) {
  const auto t = parse_triples("3\t1\t6.250000e-02\n1\t7\t-2\n3\t1\t6.250000e-02", "f.tsv");
  EXPECT_EQ(t.entries, 3);
  EXPECT_EQ(t.rows, 3);
  EXPECT_EQ(t.columns, 7);
  const auto all = joined(t);
  EXPECT_EQ(all.row, (std::vector<Local>{2, 0, 2}));
  EXPECT_EQ(all.column, (std::vector<Local>{0, 6, 0}));
  EXPECT_EQ(all.value, (std::vector<float>{0.0625F, -2, 0.0625F}));
}

TEST(Triples, ReadsWhatOtherProgramsWrite) {
  EXPECT_EQ(read("# of NumPy\n1.000000e+00 2.0\t+3.5 \r\n\n \t\n% of MATLAB\n 4 5 .5 # end\r\n").value,
            (std::vector<float>{3.5F, 0.5F}));
  EXPECT_EQ(read("1.000000e+00 2.0 3\n").column, (std::vector<Local>{1}));
  EXPECT_EQ(read("1 2 1e-60\n1 2 -0.0\n2147483647 1 1e-44\n").value, (std::vector<float>{0, 0, 1e-44F}));
  // A value that begins like the one before.
  EXPECT_EQ(read("1 1 1\n1 1 10\n1 1 1.5\n1 1 1\n").value, (std::vector<float>{1, 10, 1.5F, 1}));
  EXPECT_TRUE(read("").value.empty());
  EXPECT_TRUE(read("\n# nothing\n").value.empty());
}

TEST(Triples, NamesTheFirstWrongLine) {
  EXPECT_EQ(error_in("1 1 1\n0 1 1\n"), "f.tsv:2: expected a row from 1 to 2147483647, found \"0 1 1\"");
  EXPECT_EQ(error_in("1 x 1\nq\n"), "f.tsv:1: expected a column from 1 to 2147483647, found \"x 1\"");
  for (const char* line : {"1 1\n", "1 1 \n", "1\n", "1 1 nan\n", "1 1 inf\n", "1 1 1e60\n", "1 1 1 1\n", "1.5 1 1\n",
                           "1e300 1 1\n", "nan 1 1\n", "-1 1 1\n", "2147483648 1 1\n", "99999999999999999999 1 1\n",
                           "1,1,1\n", "1 1 1d0\n", "1 1 1\r1 1 1\n", "a b c\n", "1 1 0x1p3\n", "1 1 --1\n"})
    EXPECT_NE(error_in(line).find("f.tsv:1: expected"), std::string::npos) << line << error_in(line);
  // Beyond what one thread parses at a time.
  std::string text;
  for (int k = 0; k < 400000; ++k) text += "12 34 0.5\n";
  EXPECT_EQ(parse_triples(text, "f.tsv").entries, 400000);
  EXPECT_NE(error_in(text + "1 1 x\n" + text + "1 1 y\n").find("f.tsv:400001: expected a finite value, found \"x\""),
            std::string::npos);
}

TEST(Triples, KeepsTheRowsOfAPart) {
  std::string text;
  for (const int row : {1, 16, 17, 40, 48, 49, 100}) text += std::to_string(row) + " 5 1\n";
  std::vector<Local> rows;
  for (int part = 0; part < 3; ++part) {
    const auto t = parse_triples(text, "f.tsv", {part, 3});
    EXPECT_EQ(t.entries, 7);
    EXPECT_EQ(t.rows, 100);
    for (const Local row : joined(t).row) {
      EXPECT_EQ(row / 16 % 3, part);
      rows.push_back(row);
    }
  }
  EXPECT_EQ(rows.size(), 7u);
  for (const Global n : {0, 1, 15, 16, 17, 31, 48, 49, 100})
    for (int part = 0; part < 3; ++part) {
      const DealtRows dealt{part, 3};
      Global place = 0;
      for (Global row = 0; row < n; ++row)
        if (dealt.has(row)) {
          EXPECT_EQ(dealt.place(row), place++);
        }
      EXPECT_EQ(dealt.count(n), place);
    }
  EXPECT_NE(error_of([&] { parse_triples(text, "f.tsv", {3, 3}); }, ErrorKind::usage), "accepted");
}

TEST(Triples, ReadsWhatItWrites) {
  const Folder folder;
  const std::vector<Local> row{0, 2147483646, 3, 3}, column{1, 0, 9, 9};
  const std::vector<float> value{0.0625F, 1.0F / 3, -1e-40F, std::numeric_limits<float>::max()};
  for (const char* name : {"a.tsv", "a.tsv.gz"}) {
    write_triples(folder.path(name), row, column, value);
    const auto all = joined(read_triples(folder.path(name)));
    EXPECT_EQ(all.row, row);
    EXPECT_EQ(all.column, column);
    EXPECT_TRUE(same(all.value, value));
  }
  EXPECT_EQ(bytes_of(folder.path("a.tsv")).substr(0, 17), "1\t2\t6.250000e-02\n");
  EXPECT_EQ(folder.names().size(), 2u);
  // A compressed file that is cut short, and one of more than a block of text.
  const std::string packed = bytes_of(folder.path("a.tsv.gz"));
  EXPECT_NE(error_of([&] { read_triples(folder.write("cut.tsv.gz", packed.substr(0, packed.size() - 6))); }),
            "accepted");
  std::string text;
  for (int k = 0; k < 4000000; ++k) text += "1 " + std::to_string(k % 1000 + 1) + " 1\n";
  EXPECT_EQ(read_triples(folder.write("long.tsv.gz", gzip(text))).entries, 4000000);
  EXPECT_NE(error_of([&] {
              read_triples(folder.write("line.tsv", std::string(40u << 20, ' ')));
            }).find("line.tsv:1: expected lines of at most"),
            std::string::npos);
}

}  // namespace
}  // namespace tacit::io::test
