// Matrix Market files: accepted contents with their values, and refused contents with their messages.
#include "io/errors.hpp"
#include "io/files.hpp"
#include "support/scalars.hpp"

#include <tacit/base/error.hpp>
#include <tacit/io/detect.hpp>
#include <tacit/io/matrix_market.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <random>
#include <thread>

namespace tacit::io::test {
namespace {

const std::string real_banner = "%%MatrixMarket matrix coordinate real general\n";

template <class T = double>
std::string error_in(const std::string& text, int part = 0, int parts = 1) {
  return error_of([&] { parse_matrix_market<T>(text, "f.mtx", part, parts); });
}
template <class T = double>
std::string error_in_array(const std::string& text) {
  return error_of([&] { parse_matrix_market_array<T>(text, "f.mtx"); });
}
template <class T = double>
std::vector<T> values_of(const std::string& text) {
  return parse_matrix_market<T>(text, "f.mtx").value;
}
// The value of a 1 x 1 file with this text as its entry.
std::string one(const std::string& value, const std::string& field = "real") {
  return "%%MatrixMarket matrix coordinate " + field + " general\n1 1 1\n1 1 " + value + "\n%.\n";
}

TEST(MatrixMarket, ReadsEntriesInTheirOrder) {
  const auto a = parse_matrix_market<double>(real_banner + "3 4 3\n2 1 -1.5\n1 4 2\n2 1 3e2\n", "f.mtx");
  EXPECT_EQ(a.rows, 3);
  EXPECT_EQ(a.columns, 4);
  EXPECT_EQ(a.entries_parsed, 3);
  EXPECT_EQ(a.row, (std::vector<Global>{1, 0, 1}));
  EXPECT_EQ(a.column, (std::vector<Global>{0, 3, 0}));
  EXPECT_EQ(a.value, (std::vector<double>{-1.5, 2, 300}));  // the duplicate at (2, 1) is kept
}

TEST(MatrixMarket, ReadsBlanksInFrontOfTheBanner) {
  EXPECT_EQ(values_of(" \t" + real_banner + "2 2 1\n1 1 4\n"), (std::vector<double>{4}));
  EXPECT_EQ(detect_bytes("  " + real_banner), FileKind::matrix_market);
  EXPECT_EQ(detect_bytes("  x" + real_banner), FileKind::unknown);
  EXPECT_EQ(detect_bytes("                                "), FileKind::unknown);
}

TEST(MatrixMarket, ReadsUnsignedIntegers) {
  const std::string banner = "%%MatrixMarket matrix coordinate unsigned-integer general\n";
  EXPECT_EQ(values_of(banner + "2 2 2\n1 1 4\n2 1 +3\n"), (std::vector<double>{4, 3}));
  EXPECT_EQ(error_in(banner + "2 2 2\n1 1 4\n2 1 -3\n"), "f.mtx:4: expected an unsigned integer, found \"-3\"");
  EXPECT_EQ(error_in(banner + "2 2 1\n1 1 18446744073709551615\n").substr(0, 36),
            "f.mtx:3: expected an integer that a ");
}

TEST(MatrixMarket, ExpandsSymmetry) {
  using C = std::complex<double>;
  const std::string banner = "%%MatrixMarket matrix coordinate ";
  const auto a = parse_matrix_market<double>(banner + "real symmetric\n2 2 2\n1 1 4\n2 1 3\n", "f.mtx");
  EXPECT_EQ(a.row, (std::vector<Global>{0, 1, 0}));
  EXPECT_EQ(a.column, (std::vector<Global>{0, 0, 1}));
  EXPECT_EQ(a.value, (std::vector<double>{4, 3, 3}));
  EXPECT_EQ(a.entries_parsed, 2);
  EXPECT_EQ(values_of(banner + "real skew-symmetric\n2 2 1\n2 1 3\n"), (std::vector<double>{3, -3}));
  EXPECT_EQ(values_of(banner + "real skew-symmetric\n2 2 2\n1 1 0\n2 1 3\n"), (std::vector<double>{0, 3, -3}));
  EXPECT_EQ(values_of(banner + "pattern symmetric\n2 2 2\n2 2\n2 1\n"), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(values_of<C>(banner + "complex hermitian\n2 2 2\n1 1 4 0\n2 1 3 5\n"),
            (std::vector<C>{4, C(3, 5), C(3, -5)}));
  EXPECT_EQ(values_of<C>(banner + "complex symmetric\n2 2 1\n2 1 3 5\n"), (std::vector<C>{C(3, 5), C(3, 5)}));
  EXPECT_EQ(parse_matrix_market<double>(banner + "real symmetric\n2 2 2\n1 1 4\n2 1 3\n", "", 0, 1, false).value,
            (std::vector<double>{4, 3}));
}

TEST(MatrixMarket, ReadsNumbersAsStrtodDoes) {
  for (const std::string text : {"1",
                                 "-1",
                                 "+1",
                                 "007",
                                 "0.1",
                                 ".5",
                                 "5.",
                                 "1e5",
                                 "1E-5",
                                 "1e+05",
                                 "-0",
                                 "0e99999999999999999999",
                                 "4.9e-324",
                                 "2.2250738585072011e-308",
                                 "1.7976931348623157e308",
                                 "9007199254740993",
                                 "123456789012345678901234567890",
                                 "0.000000000000000000000000000000000000000000000001e60",
                                 "0e-400",
                                 "-0.00e99999999999999999999"}) {
    const double expected = std::strtod(text.c_str(), nullptr);
    const auto read = values_of(one(text));
    EXPECT_TRUE(same(read, std::vector<double>{expected})) << text << " read as " << read[0];
    EXPECT_TRUE(same(values_of<float>(one(text.size() > 22 || expected > 1e38 ? "1" : text)),
                     std::vector<float>{text.size() > 22 || expected > 1e38 ? 1 : std::strtof(text.c_str(), nullptr)}))
        << text;
  }
  std::mt19937_64 random(3);
  for (int k = 0; k < 20000; ++k) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*e", int(random() % 25),
                  std::ldexp(double(random()), int(random() % 1980) - 1030));
    EXPECT_TRUE(same(values_of(one(text)), std::vector<double>{std::strtod(text, nullptr)})) << text;
  }
}

TEST(MatrixMarket, ReadsFortranExponents) {
  EXPECT_EQ(values_of(one("1.5D+3")), (std::vector<double>{1500}));
  EXPECT_EQ(values_of(one("-1.5d-3")), (std::vector<double>{-1.5e-3}));
  EXPECT_EQ(values_of(one("+2D2")), (std::vector<double>{200}));
  EXPECT_EQ(values_of(one("0.0d-400")), (std::vector<double>{0}));
  EXPECT_EQ(values_of(one("0." + std::string(400, '0') + "1d401")), (std::vector<double>{1}));
  EXPECT_EQ(values_of<std::complex<float>>(one("1D1 2D2", "complex")), (std::vector<std::complex<float>>{{10, 200}}));
  EXPECT_EQ(error_in(one("1d400")), "f.mtx:3: expected a number in the range of float64, found \"1d400\"");
  for (const char* text : {"1d", "1d+", "1dd2", "1e5d3", "1d5e3", "d5"})
    EXPECT_EQ(error_in(one(text)), "f.mtx:3: expected a finite number, found \"" + std::string(text) + "\"");
}

TEST(MatrixMarket, RefusesNumbersThatWouldBeReadAsZero) {
  const std::string expected = "f.mtx:3: expected a number in the range of float64, found ";
  for (const std::string text : {"1e-400", "-1e-99999999999999999999", "2e-324", "1d-400", "-0.01D-999"})
    EXPECT_EQ(error_in(one(text)), expected + "\"" + text + "\"");
  EXPECT_EQ(values_of(one("3e-324")), (std::vector<double>{4.9406564584124654e-324}));
  // Single precision rounds what double precision holds, and nothing else.
  EXPECT_EQ(values_of<float>(one("1e-60")), (std::vector<float>{0}));
  EXPECT_EQ(values_of<float>(one("-1e-60")), (std::vector<float>{-0.0f}));
  EXPECT_EQ(values_of<float>(one("1e-44")), (std::vector<float>{1e-44f}));
  const auto as_float = [](const std::string& text) {
    return error_of([&] { parse_matrix_market<float>(one(text), "f.mtx"); });
  };
  EXPECT_EQ(as_float("1e-400"), "f.mtx:3: expected a number in the range of float32, found \"1e-400\"");
  EXPECT_EQ(as_float("1e60"), "f.mtx:3: expected a number in the range of float32, found \"1e60\"");
}

TEST(MatrixMarket, RefusesIntegersThatWouldBeRounded) {
  for (const std::string text : {"9007199254740992", "-9007199254740994", "+009007199254740992", "18446744073709551616",
                                 "100000000000000000000", "36893488147419103232"})
    EXPECT_EQ(values_of(one(text, "integer")), (std::vector<double>{std::strtod(text.c_str(), nullptr)})) << text;
  for (const std::string text :
       {"9007199254740993", "-9007199254740993", "18446744073709551615", "123456789012345678901234567890"})
    EXPECT_EQ(error_in(one(text, "integer")),
              "f.mtx:3: expected an integer that a double holds exactly, as all up to 2^53 (the field real rounds), "
              "found \"" +
                  text + "\"");
  EXPECT_EQ(error_in(one("1" + std::string(310, '0'), "integer")).find("f.mtx:3: expected a number in the range of"),
            0u);
  EXPECT_EQ(values_of<float>(one("16777217", "integer")), (std::vector<float>{16777216}));
}

// The triplets that pieces stand for.
template <class T>
Triplets<T> expanded(const EntryPieces<T>& pieces) {
  Triplets<T> all{pieces.rows, pieces.columns, {}, {}, {}, pieces.entries_parsed};
  const auto put = [&](Global row, Global column, T value) {
    all.row.push_back(row), all.column.push_back(column), all.value.push_back(value);
  };
  for (const auto& piece : pieces.piece)
    for (std::size_t k = 0; k < std::size_t(piece.count); ++k) {
      put(piece.row[k], piece.column[k], piece.value[k]);
      if (pieces.symmetry != Symmetry::general && piece.row[k] != piece.column[k])
        put(piece.column[k], piece.row[k], mirrored(pieces.symmetry, piece.value[k]));
    }
  return all;
}

TEST(MatrixMarketPieces, AreTheTripletsOfTheFile) {
  const Folder folder;
  for (const std::string symmetry : {"general", "skew-symmetric"}) {
    // Some stretches of text for each thread, and an entry count that no number of parts divides.
    std::string text = "%%MatrixMarket matrix coordinate real " + symmetry + "\n9000 9000 100003\n";
    std::mt19937_64 random(5);
    for (int k = 0; k < 100003; ++k) {
      const auto i = 2 + random() % 8999;
      text += message(i, " ", 1 + random() % (i - 1), " ", double(random() % 1000) / 8, k % 7 ? "\n" : "\n%\n");
    }
    for (const std::string ending : {"", ".gz"}) {
      const std::string path = folder.path("pieces.mtx" + ending);
      folder.write("pieces.mtx" + ending, ending.empty() ? text : gzip(text));
      const auto expected = read_matrix_market<double>(path);
      for (const int parts : {1, 3, 7}) {
        Triplets<double> all;
        for (int part = 0; part < parts; ++part) {
          const auto some = expanded(read_matrix_market_pieces<double>(path, part, parts));
          all.row.insert(all.row.end(), some.row.begin(), some.row.end());
          all.column.insert(all.column.end(), some.column.begin(), some.column.end());
          all.value.insert(all.value.end(), some.value.begin(), some.value.end());
          all.entries_parsed += some.entries_parsed;
        }
        EXPECT_EQ(all.entries_parsed, 100003);
        EXPECT_EQ(all.row, expected.row) << symmetry << ending << " in " << parts << " parts";
        EXPECT_EQ(all.column, expected.column);
        EXPECT_EQ(all.value, expected.value);
      }
    }
    // Of several errors the first, with its line.
    const auto line = [&](std::size_t from) { return text.find('\n', from) + 1; };
    const std::size_t late = line(text.size() * 3 / 4), early = line(text.size() / 2);
    for (const std::size_t at : {late, early}) text.replace(at, 1, "x");
    folder.write("pieces.mtx", text);
    const auto number = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(early), '\n');
    const std::string error = error_of([&] { read_matrix_market_pieces<double>(folder.path("pieces.mtx")); });
    EXPECT_NE(error.find(message("pieces.mtx:", number, ": expected a row from 1 to 9000")), error.npos) << error;
  }
}

TEST(MatrixMarket, ToleratesHarmlessSpellings) {
  const std::vector<double> expected{1, 2};
  EXPECT_EQ(values_of("%%matrixmarket MATRIX Coordinate REAL GENERAL\n2 2 2\n1 1 1\n2 2 2\n"), expected);
  EXPECT_EQ(values_of("%%MatrixMarket matrix coordinate real general\r\n% c\r\n2 2 2\r\n1 1 1\r\n\r\n2 2 2\r\n"),
            expected);
  EXPECT_EQ(values_of(real_banner + "%c\n\n  \t\n  %d\n 2\t2  2 \n\n1 1 1 \n% between\n  2 2 2\n\n\n"), expected);
  EXPECT_EQ(values_of(real_banner + "+2 02 2\n+1 001 1\n2 2 2"), expected);
  EXPECT_EQ(values_of(real_banner + "%" + std::string(1 << 20, 'x') + "\n2 2 2\n1 1 1\n2 2 2\r"), expected);
  EXPECT_EQ(values_of(real_banner + "0 0 0\n"), std::vector<double>{});
  EXPECT_EQ(values_of<std::complex<float>>(one("-3", "integer")), (std::vector<std::complex<float>>{-3}));
}

TEST(MatrixMarket, NamesWhatIsWrongInTheHeader) {
  const std::string banner = "f.mtx:1: expected a banner \"%%MatrixMarket matrix FORMAT FIELD SYMMETRY\", found ";
  EXPECT_EQ(error_in(""), "f.mtx:1: expected a banner \"%%MatrixMarket ...\", found the end of the file");
  EXPECT_EQ(error_in("%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n"),
            banner + "\"%MatrixMarket matrix coordinate real gen...\"");
  EXPECT_EQ(error_in("%%MatrixMarket matrix coordinate real\n"), banner + "\"%%MatrixMarket matrix coordinate real\"");
  EXPECT_EQ(error_in("\x01\n"), banner + "\"\\x01\"");
  EXPECT_EQ(error_in("%%MatrixMarket matrix coordinates real general\n"),
            "f.mtx:1: expected \"coordinate\" or \"array\", found \"coordinates\"");
  EXPECT_EQ(
      error_in("%%MatrixMarket matrix coordinate double general\n"),
      "f.mtx:1: expected \"real\", \"integer\", \"complex\", \"pattern\" or \"unsigned-integer\", found \"double\"");
  EXPECT_EQ(error_in("%%MatrixMarket matrix coordinate real hermitian\n"),
            "f.mtx:1: expected complex values in a hermitian matrix, found \"real\"");
  EXPECT_EQ(error_in("%%MatrixMarket matrix coordinate pattern skew-symmetric\n"),
            "f.mtx:1: expected values in a skew-symmetric matrix, found \"pattern\"");
  EXPECT_EQ(error_in_array("%%MatrixMarket matrix array pattern general\n"),
            "f.mtx:1: expected real, integer or complex values in an array, found \"pattern\"");
  const std::string sizes = "expected the numbers of rows, columns and entries, found ";
  EXPECT_EQ(error_in(real_banner + "% c\n"), "f.mtx:3: " + sizes + "the end of the file");
  EXPECT_EQ(error_in(real_banner + "\n2 2\n"), "f.mtx:3: " + sizes + "\"2 2\"");
  EXPECT_EQ(error_in(real_banner + "2 2 -1\n"), "f.mtx:2: " + sizes + "\"-1\"");
  EXPECT_EQ(error_in(real_banner + "2 2 1 1\n"), "f.mtx:2: " + sizes + "\"2 2 1 1\"");
  EXPECT_EQ(error_in(real_banner + "2 2 9223372036854775808\n"),
            "f.mtx:2: expected a number below 2^63, found \"9223372036854775808\"");
  EXPECT_EQ(error_in(real_banner + "1 1 1\r1 1 1\r"), "f.mtx:2: " + sizes + "\"1 1 1\\x0d1 1 1\"");  // CR alone
  EXPECT_EQ(error_in(real_banner + "%" + std::string(1, '\0') + "\n1 1 1\n1 1 1\n"),
            "f.mtx:2: expected a comment without NUL bytes, found \"%\\x00\"");
  EXPECT_EQ(error_in("%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n"),
            "f.mtx:2: expected as many rows as columns, the matrix being symmetric, found \"2 3 1\"");
}

TEST(MatrixMarket, ComparesSizesWithTheFile) {
  EXPECT_EQ(error_in(real_banner + "2 2 4611686018427387904\n1 1 1\n"),
            "f.mtx:2: expected at most 1 entries, for which there are 6 bytes, found \"2 2 4611686018427387904\"");
  EXPECT_EQ(error_in(real_banner + "1000000000000 2 1\n1 1 1\n"),
            "f.mtx:2: expected at most 2^20 + 64 entries = 1048640 rows and columns, found \"1000000000000 2 1\"");
  const std::string array = "%%MatrixMarket matrix array real general\n";
  EXPECT_EQ(error_in_array(array + "3037000500 3037000500\n1\n"),
            "f.mtx:2: expected at most 1 entries, for which there are 2 bytes, found \"3037000500 3037000500\"");
  EXPECT_EQ(error_in_array(array + "9223372036854775807 0\n"),
            "f.mtx:2: expected at most 2^20 + 64 entries = 1048576 rows and columns, found \"9223372036854775807 0\"");
  EXPECT_EQ(error_in_array(real_banner + "1000000 20 1\n1 1 1\n"),
            "f.mtx:2: expected at most 2^24 + 4 entries = 16777220 elements of a dense block, found \"1000000 x 20\"");
  EXPECT_EQ(error_in(gzip(real_banner + "2 2 4611686018427387904\n1 1 1\n")).substr(0, 26),
            "f.mtx:2: expected at most ");
}

TEST(MatrixMarket, NamesWhatIsWrongInALine) {
  const auto third = [](const std::string& line) {
    return error_in(real_banner + "3 3 2\n" + line + "\n1 1 1\n%......\n");
  };
  const auto row = [](const std::string& found) { return "f.mtx:3: expected a row from 1 to 3, found " + found; };
  EXPECT_EQ(third("0 1 1"), row("\"0\""));
  EXPECT_EQ(third("-1 1 1"), row("\"-1\""));
  EXPECT_EQ(third("4 1 1"), row("\"4\""));
  EXPECT_EQ(third("99999999999999999999999 1 1"), row("\"99999999999999999999999\""));
  EXPECT_EQ(third("1.5 1 1"), row("\"1.5\""));
  EXPECT_EQ(third("+ 1 1"), row("\"+\""));
  EXPECT_EQ(third("1"), "f.mtx:3: expected a column from 1 to 3, found the end of the line");
  EXPECT_EQ(third("1 4 1"), "f.mtx:3: expected a column from 1 to 3, found \"4\"");
  EXPECT_EQ(third("1 1"), "f.mtx:3: expected a finite number, found the end of the line");
  for (const char* value : {"nan", "NaN", "-nan", "inf", "-Infinity", "+-1", "--1", "1,5", "0x10", "e5", ".", "-",
                            "1.2.3", "1e", "1%", "1\\x0b"}) {
    const std::string text = value == std::string("1\\x0b") ? "1\x0b" : value;
    EXPECT_EQ(third("1 1 " + text), "f.mtx:3: expected a finite number, found \"" + std::string(value) + "\"");
  }
  EXPECT_EQ(third("1 1 1e999"), "f.mtx:3: expected a number in the range of float64, found \"1e999\"");
  EXPECT_EQ(third(std::string("1 1 1\0003", 7)), "f.mtx:3: expected a finite number, found \"1\\x003\"");
  EXPECT_EQ(third(std::string("%\0", 2)), "f.mtx:3: expected a comment without NUL bytes, found \"%\\x00\"");
  EXPECT_EQ(third("1 1 1 7"), "f.mtx:3: expected the end of the line, found \"7\"");
  EXPECT_EQ(third("1 1 1 % one"), "f.mtx:3: expected the end of the line, found \"% one\"");
  EXPECT_EQ(third("1 1 1\r 2"), "f.mtx:3: expected a finite number, found \"1\\x0d\"");
  EXPECT_EQ(third("1 1 " + std::string(100, 'x')),
            "f.mtx:3: expected a finite number, found \"" + std::string(40, 'x') + "...\"");
  EXPECT_EQ(error_in<float>(one("1e39")), "f.mtx:3: expected a number in the range of float32, found \"1e39\"");
  EXPECT_EQ(error_in(one("1.5", "integer")), "f.mtx:3: expected an integer, found \"1.5\"");
  EXPECT_EQ(error_in<std::complex<double>>(one("1", "complex")),
            "f.mtx:3: expected a finite number, found the end of the line");
  EXPECT_EQ(error_in(one("1 2", "complex")),
            "f.mtx:1: expected real, integer or pattern entries, to be read as float64, found \"complex\"");
  EXPECT_EQ(error_in("%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1 1\n"),
            "f.mtx:3: expected the end of the line, found \"1\"");
  EXPECT_EQ(error_in("%%MatrixMarket matrix array real general\n1 1\n1\n"),
            "f.mtx:1: expected \"coordinate\" (read_matrix_market_array reads arrays), found \"array\"");
}

TEST(MatrixMarket, KeepsSymmetryHonest) {
  const std::string banner = "%%MatrixMarket matrix coordinate ";
  EXPECT_EQ(error_in(banner + "real symmetric\n2 2 2\n1 1 1\n1 2 5\n"),
            "f.mtx:4: expected an entry of the lower triangle of a symmetric matrix, found \"1 2\"");
  EXPECT_EQ(error_in(banner + "real skew-symmetric\n2 2 2\n2 1 1\n2 2 5\n"),
            "f.mtx:4: expected an entry below the diagonal of a skew-symmetric matrix, or a zero on it, found \"2 2\"");
  EXPECT_EQ(error_in_array("%%MatrixMarket matrix array real skew-symmetric\n2 2\n0\n3\n7\n"),
            "f.mtx:2: expected 1 elements below the diagonal of a skew-symmetric matrix, or 3 with zeros on it, found "
            "another number in row 2 of it");
  EXPECT_EQ(error_in_array("%%MatrixMarket matrix array real skew-symmetric\n2 2\n0\n3\n"),
            "f.mtx:2: expected 1 entries, as stated here, found 2 in the file");
  EXPECT_EQ(error_in<std::complex<double>>(banner + "complex hermitian\n2 2 2\n2 1 1 1\n2 2 1 1\n"),
            "f.mtx:4: expected a real value on the diagonal of a hermitian matrix, found \"2 2\"");
  EXPECT_EQ(
      error_in_array<std::complex<double>>("%%MatrixMarket matrix array complex hermitian\n2 2\n1 0\n1 1\n\n1 2\n"),
      "f.mtx:6: expected a real value on the diagonal of a hermitian matrix, found \"1 2\"");
}

TEST(MatrixMarket, CountsEntries) {
  EXPECT_EQ(error_in(real_banner + "%\n2 2 2\n1 1 1\n1 2 1\n2 2 1\n"),
            "f.mtx:3: expected 2 entries, as stated here, found 3 in the file");
  EXPECT_EQ(error_in(real_banner + "2 2 3\n1 1 1.25\n1 2 1.25\n"),
            "f.mtx:2: expected 3 entries, as stated here, found 2 in the file");
  EXPECT_EQ(error_in(gzip(real_banner + "2 2 3\n1 1 1\n1 2 1\n")),
            "f.mtx:2: expected 3 entries, as stated here, found 2 in the file");
  EXPECT_EQ(error_in_array("%%MatrixMarket matrix array real symmetric\n2 2\n1.5\n2.5\n"),
            "f.mtx:2: expected 3 entries, as stated here, found 2 in the file");
  EXPECT_EQ(error_in(real_banner + "2 2 1\n1 1 1\n1 2 x\n"),  // before the wrong number of entries
            "f.mtx:4: expected a finite number, found \"x\"");
}

TEST(MatrixMarket, ReadsArrays) {
  using C = std::complex<double>;
  const std::string banner = "%%MatrixMarket matrix array ";
  const auto a = parse_matrix_market_array<double>(banner + "real general\n2 3\n1\n2\n\n3\n4\n5\n6\n", "f.mtx");
  EXPECT_EQ(a.rows, 2);
  EXPECT_EQ(a.columns, 3);
  EXPECT_EQ(a.value, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(parse_matrix_market_array<double>(banner + "integer symmetric\n2 2\n1\n2\n3\n", "").value,
            (std::vector<double>{1, 2, 2, 3}));
  EXPECT_EQ(parse_matrix_market_array<double>(banner + "real skew-symmetric\n3 3\n0\n1\n2\n0\n3\n-0\n", "").value,
            parse_matrix_market_array<double>(banner + "real skew-symmetric\n3 3\n1\n2\n3\n", "").value);
  EXPECT_EQ(parse_matrix_market_array<double>(banner + "real skew-symmetric\n3 3\n1\n2\n3\n", "").value,
            (std::vector<double>{0, 1, 2, -1, 0, 3, -2, -3, 0}));
  EXPECT_EQ(parse_matrix_market_array<C>(banner + "complex hermitian\n2 2\n1 0\n2 3\n4 0\n", "").value,
            (std::vector<C>{1, C(2, 3), C(2, -3), 4}));
  EXPECT_EQ(parse_matrix_market_array<double>(real_banner + "3 1 3\n3 1 5\n1 1 2\n3 1 -1\n", "").value,
            (std::vector<double>{2, 0, 4}));
  EXPECT_EQ(error_in_array(real_banner + "1 1 2\n1 1 1e308\n1 1 1e308\n"),
            "f.mtx: the entries at row 1, column 1 add up to beyond the range of float64");
  EXPECT_EQ(error_in_array(banner + "real general\n2 1\n1 2\n"), "f.mtx:3: expected the end of the line, found \"2\"");
}

// A file of several chunks, with comments, blank lines and lines of different lengths.
std::string large_text(const std::string& kind, Global n, int seed = 5) {
  std::mt19937_64 random(std::uint64_t(seed) + 0);
  std::string entries;
  const bool symmetric = kind.find("symmetric") != std::string::npos;
  for (Global k = 0; k < n; ++k) {
    Global i = Global(random() % 1000), j = Global(random() % 1000);
    if (symmetric && i < j) std::swap(i, j);
    char line[80];
    std::snprintf(line, sizeof line, "%lld %lld %.*g\n", static_cast<long long>(i + 1), static_cast<long long>(j + 1),
                  1 + int(random() % 17), std::ldexp(double(random()), -60));
    entries += line;
    if (random() % 5000 == 0) entries += "\n% a comment\n\r\n";
  }
  return "%%MatrixMarket matrix coordinate " + kind + "\n% large\n1000 1000 " + std::to_string(n) + "\n" + entries;
}

TEST(MatrixMarket, PartsAreTheWhole) {
  for (const std::string kind : {"real general", "real symmetric"})
    for (const Global n : {0, 1, 2, 5, 100, 120000}) {
      const std::string text = large_text(kind, n), packed = gzip(text);
      const auto whole = parse_matrix_market<double>(text, "f.mtx");
      EXPECT_EQ(whole.entries_parsed, n);
      EXPECT_TRUE(same(parse_matrix_market<double>(packed, "f.mtx"), whole));
      for (int parts = 1; parts <= 7; ++parts) {
        Triplets<double> all, unpacked;
        for (int part = 0; part < parts; ++part) {
          append(all, parse_matrix_market<double>(text, "f.mtx", part, parts));
          if (n < 1000 || parts == 3) append(unpacked, parse_matrix_market<double>(packed, "f.mtx", part, parts));
        }
        EXPECT_TRUE(same(all, whole)) << n << " entries, " << parts << " parts";
        EXPECT_EQ(all.entries_parsed, n);
        if (n < 1000 || parts == 3) {
          EXPECT_TRUE(same(unpacked, whole)) << n << " entries, " << parts << " parts";
        }
      }
    }
}

TEST(MatrixMarket, PartsNameTheSameLine) {
  std::string text = large_text("real general", 60000);
  const std::size_t second = text.rfind('\n', text.size() * 3 / 4) + 1, first = text.rfind('\n', text.size() / 3) + 1;
  text.insert(second, "1 1 second\n");
  const auto line = [&](std::size_t at) {
    return 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n');
  };
  const auto expected = [&](std::size_t at, const std::string& word) {
    return message("f.mtx:", line(at), ": expected a finite number, found \"", word, "\"");
  };
  EXPECT_EQ(error_in(text), expected(second, "second"));
  for (int parts = 2; parts <= 7; ++parts) {
    int failed = 0;
    for (int part = 0; part < parts; ++part) {
      const std::string error = error_in(text, part, parts);
      if (error == "accepted") continue;
      EXPECT_EQ(error, expected(second, "second"));
      ++failed;
    }
    EXPECT_EQ(failed, 1);
  }
  text.insert(first, "1 1 first\n");
  EXPECT_EQ(error_in(text), expected(first, "first"));
  EXPECT_EQ(error_in(gzip(text)), expected(first, "first"));
  EXPECT_EQ(error_in(text, 0, 2), expected(first, "first"));
}

TEST(MatrixMarket, PartsAreCountedTogether) {
  const std::string text = real_banner + "2 2 3\n1 1 1.25\n1 2 1.25\n";
  Header header;
  header.path = "f.mtx";
  header.entries = 3;
  header.size_line = 2;
  Global total = 0;
  for (int part = 0; part < 2; ++part) total += parse_matrix_market<double>(text, "f.mtx", part, 2).entries_parsed;
  EXPECT_EQ(error_of([&] { check_entry_count(header, total); }),
            "f.mtx:2: expected 3 entries, as stated here, found 2 in the file");
  check_entry_count(header, 3);
  EXPECT_EQ(error_of([&] { parse_matrix_market<double>(text, "f.mtx", 2, 2); }, ErrorKind::usage),
            "part is 2 of 2, expected 0 <= part < parts to read f.mtx");
}

TEST(MatrixMarket, LimitsLines) {
  const std::string longest(std::size_t(1) << 24, ' ');
  const std::string fits = real_banner + "1 1 1\n%" + longest.substr(2) + "\n1 1 1\n";
  EXPECT_EQ(error_in(fits), "accepted");
  EXPECT_EQ(error_in(gzip(fits)), "accepted");
  const std::string text = real_banner + "1 1 1\n%" + longest + "\n1 1 1\n";
  for (const auto& bytes : {text, gzip(text)})
    EXPECT_EQ(error_in(bytes), "f.mtx:3: expected lines of at most 16777216 bytes, found a longer one");
  EXPECT_EQ(error_in(real_banner + "%" + longest + "%\n1 1 1\n1 1 1\n"),
            "f.mtx:2: expected lines of at most 16777216 bytes, found a longer one");
}

TEST(MatrixMarket, BoundsAndChecksCompressedFiles) {
  const std::string text = real_banner + "2 2 2\n1 1 1\n2 2 2\n", packed = gzip(text);
  EXPECT_EQ(values_of(packed), (std::vector<double>{1, 2}));
  EXPECT_EQ(values_of(gzip(text.substr(0, 50)) + gzip(text.substr(50))), (std::vector<double>{1, 2}));  // two members
  EXPECT_EQ(error_in(packed.substr(0, packed.size() - 3)),
            "f.mtx: expected the rest of a gzip file, found the end of the file");
  EXPECT_NE(error_in(packed + "more").find("found damaged data near byte"), std::string::npos);
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  EXPECT_EQ(error_in(damaged), message("f.mtx: expected a gzip file, found damaged data near byte ", packed.size() - 4,
                                       " (incorrect data check)"));
  std::string bomb;
  for (int k = 0; k < 8; ++k) bomb += gzip(std::string(std::size_t(1) << 24, '\n'));
  bomb = gzip(real_banner + "1 1 1\n1 1 1\n") + bomb;
  const std::string error = error_in(bomb);
  EXPECT_NE(error.find(message("bytes from a gzip file of ", bomb.size(), " bytes, found more")), std::string::npos)
      << error;
}

template <class T>
T sample(std::mt19937_64& random) {
  using R = real_t<T>;
  const auto real = [&] {
    for (;;) {
      std::conditional_t<sizeof(R) == 4, std::uint32_t, std::uint64_t> bits = decltype(bits)(random());
      R value;
      std::memcpy(&value, &bits, sizeof value);
      if (std::isfinite(value)) return value;
    }
  };
  if constexpr (is_complex<T>) {
    const R first = real();
    return T(first, real());
  } else {
    return real();
  }
}

template <class T>
class MatrixMarketRoundTrip : public testing::Test {};
using tacit::test::Scalars;
TYPED_TEST_SUITE(MatrixMarketRoundTrip, Scalars);

TYPED_TEST(MatrixMarketRoundTrip, IsExact) {
  using T = TypeParam;
  using R = real_t<T>;
  const Folder folder;
  std::mt19937_64 random(11);
  for (const Symmetry symmetry :
       {Symmetry::general, Symmetry::symmetric, Symmetry::skew_symmetric, Symmetry::hermitian})
    for (const char* name : {"a.mtx", "a.mtx.gz"}) {
      if (symmetry == Symmetry::hermitian && !is_complex<T>) continue;
      Triplets<T> a;
      a.rows = a.columns = 50;
      for (int k = 0; k < 1000; ++k) {
        Global i = Global(random() % 50), j = Global(random() % 50);
        if (symmetry != Symmetry::general && i < j) std::swap(i, j);
        if (symmetry == Symmetry::skew_symmetric && i == j) continue;
        a.row.push_back(i);
        a.column.push_back(j);
        a.value.push_back(k == 0 ? T(-R(0)) : k == 1 ? T(std::numeric_limits<R>::denorm_min()) : sample<T>(random));
        if (symmetry == Symmetry::hermitian && i == j) a.value.back() = T(tacit::real(a.value.back()));
      }
      const std::string path = folder.path(name);
      write_matrix_market(path, a, symmetry);
      EXPECT_TRUE(same(read_matrix_market<T>(path, 0, 1, false), a)) << name;
      const Header header = read_matrix_market_header(path);
      EXPECT_EQ(header.path, path);
      EXPECT_EQ(header.symmetry, symmetry);
      EXPECT_EQ(header.field, is_complex<T> ? Field::complex : Field::real);
      EXPECT_EQ(header.entries, Global(a.value.size()));
      EXPECT_EQ(bytes_of(path).starts_with("\x1f\x8b"), std::string(name).ends_with(".gz"));

      Dense<T> block{7, 11, {}};
      for (int k = 0; k < 77; ++k) block.value.push_back(sample<T>(random));
      write_matrix_market_array(path, block);
      EXPECT_TRUE(same(read_matrix_market_array<T>(path), block)) << name;
      EXPECT_EQ(folder.names(), std::set<std::string>{name});
      std::filesystem::remove(path);
    }
}

// Every field and symmetry that a file can have: read, written with its symmetry, and read again.
TYPED_TEST(MatrixMarketRoundTrip, KeepsEveryFieldAndSymmetry) {
  using T = TypeParam;
  const Folder folder;
  const std::string path = folder.path("again.mtx");
  const std::vector<std::pair<std::string, std::string>> fields{
      {"real", " 1.25"}, {"integer", " 7"}, {"complex", " 1.25 0"}, {"pattern", ""}};
  for (const auto& [field, value] : fields)
    for (const std::string symmetry : {"general", "symmetric", "skew-symmetric", "hermitian"}) {
      if ((field == "complex" && !is_complex<T>) || (field == "pattern" && symmetry == "skew-symmetric") ||
          (field != "complex" && symmetry == "hermitian"))
        continue;
      const std::string banner = field + " " + symmetry + "\n";
      const bool skew = symmetry == "skew-symmetric";
      const auto a = parse_matrix_market<T>("%%MatrixMarket matrix coordinate " + banner + "3 3 2\n3 1" + value + "\n" +
                                                (skew ? "2 1" : "2 2") + value + "\n",
                                            "f", 0, 1, false);
      EXPECT_EQ(a.value, std::vector<T>(2, T(field == "pattern" ? 1 : field == "integer" ? 7 : 1.25)));
      write_matrix_market(path, a,
                          skew                      ? Symmetry::skew_symmetric
                          : symmetry == "general"   ? Symmetry::general
                          : symmetry == "hermitian" ? Symmetry::hermitian
                                                    : Symmetry::symmetric);
      EXPECT_TRUE(same(read_matrix_market<T>(path, 0, 1, false), a)) << banner;
      if (field == "pattern") continue;
      std::string lines;
      for (int k = symmetry == "general" ? 4 : skew ? 1 : 3; k > 0; --k) lines += value.substr(1) + "\n";
      const auto block = parse_matrix_market_array<T>("%%MatrixMarket matrix array " + banner + "2 2\n" + lines, "f");
      write_matrix_market_array(path, block);
      EXPECT_TRUE(same(read_matrix_market_array<T>(path), block)) << banner;
    }
}

TEST(MatrixMarketFile, NamesWhatCannotBeRead) {
  const Folder folder;
  const auto error = [](const std::string& path) { return error_of([&] { read_matrix_market<double>(path); }); };
  EXPECT_EQ(error(folder.path("none")), folder.path("none") + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error(folder.path("")), folder.path("") + ": expected a file, found a directory");
  EXPECT_EQ(error("/dev/null"), "/dev/null: expected a regular file, found a pipe, socket or device");
  const std::string empty = folder.write("empty", "");
  EXPECT_EQ(error(empty), empty + ":1: expected a banner \"%%MatrixMarket ...\", found the end of the file");
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error(pipe), pipe + ": expected a regular file, found a pipe, socket or device");
  if (geteuid() != 0) {
    const std::string locked = folder.write("locked", "x");
    ASSERT_EQ(chmod(locked.c_str(), 0), 0);
    EXPECT_EQ(error(locked), locked + ": cannot be opened: Permission denied");
  }
  const std::string wrong = folder.write("wrong.mtx", real_banner + "1 1 1\n1 1 x\n");
  EXPECT_EQ(error(wrong), wrong + ":3: expected a finite number, found \"x\"");
}

TEST(MatrixMarketFile, SurvivesAFileThatShrinks) {
  const Folder folder;
  const std::string text = large_text("real general", 50000), path = folder.write("a.mtx", text);
  std::atomic<bool> done = false;
  std::thread shrinker([&] {
    while (!done) {
      std::filesystem::resize_file(path, text.size() / 2);
      folder.write("a.mtx", text);
    }
  });
  for (int k = 0; k < 100; ++k) try {
      EXPECT_EQ(read_matrix_market<double>(path).value.size(), 50000u);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
    }
  done = true;
  shrinker.join();
}

TEST(MatrixMarketFile, WritesAllOrNothing) {
  const Folder folder;
  const std::string path = folder.write("a.mtx", "old");
  Triplets<double> a{2, 2, {0, 1}, {0, 0}, {1, 2}};
  const auto refused = [&](Symmetry symmetry = Symmetry::general) {
    const std::string error = error_of([&] { write_matrix_market(path, a, symmetry); }, ErrorKind::usage);
    EXPECT_EQ(bytes_of(path), "old");
    EXPECT_EQ(folder.names(), std::set<std::string>{"a.mtx"});
    return error.substr(0, error.find(path)) + error.substr(error.find(path) + path.size());
  };
  a.value[1] = NAN;
  EXPECT_EQ(refused(), "triplet 1 for , at (1, 0), is nan");
  a.value[1] = 2;
  a.row[1] = 2;
  EXPECT_EQ(refused(), "triplet 1 for  is at (2, 0), outside of 2 x 2");
  a.row = {0};
  EXPECT_EQ(refused(), "triplets for  have 1 rows, 2 columns and 2 values");
  a.row = {0, 0};
  a.column = {0, 1};
  EXPECT_EQ(refused(Symmetry::symmetric),
            "triplet 1 for  is at (0, 1), but a symmetric file holds the lower triangle only");
  a.column = {0, 0};
  EXPECT_EQ(refused(Symmetry::skew_symmetric),
            "triplet 0 for  is at (0, 0), but a skew-symmetric file holds the lower triangle only");
  EXPECT_EQ(refused(Symmetry::hermitian), "the matrix for  is real: write it as symmetric");
  const std::string nowhere = folder.path("no/such/folder.mtx");
  EXPECT_EQ(error_of([&] { write_matrix_market(nowhere, a); }, ErrorKind::environment),
            nowhere + ": cannot be created: No such file or directory");
  const std::string taken = folder.path("taken");
  std::filesystem::create_directory(taken);
  EXPECT_EQ(error_of([&] { write_matrix_market(taken, a); }, ErrorKind::environment),
            taken + ": cannot be created: Is a directory");
  EXPECT_EQ(folder.names(), (std::set<std::string>{"a.mtx", "taken"}));
  write_matrix_market(path, a);
  EXPECT_EQ(bytes_of(path), real_banner + "2 2 2\n1 1 1\n1 1 2\n");
  const Dense<double> vector{2, 1, {0.1, -2}};
  write_matrix_market_array(path, vector);
  EXPECT_EQ(bytes_of(path), "%%MatrixMarket matrix array real general\n2 1\n0.1\n-2\n");
  EXPECT_EQ(error_of(
                [&] {
                  write_matrix_market_array(path, Dense<double>{2, 2, {1}});
                },
                ErrorKind::usage),
            "the block for " + path + " is 2 x 2, but has 1 values");
}

// A limit on the size of files acts like a full disk.
TEST(MatrixMarketFile, LosesNothingOnAFullDisk) {
  const Folder folder;
  const std::string path = folder.write("a.mtx", "old");
  const Dense<double> block{100000, 1, std::vector<double>(100000, 0.1)};
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::string error = error_of([&] { write_matrix_market_array(path, block); }, ErrorKind::environment);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error, path + ": cannot be written: File too large");
  EXPECT_EQ(bytes_of(path), "old");
  EXPECT_EQ(folder.names(), std::set<std::string>{"a.mtx"});
}

class MatrixMarketDestination : public ::testing::TestWithParam<std::string> {
 protected:
  void write(const std::string& path, double value = 1) const {
    write_matrix_market_array(path, Dense<double>{2, 1, {value, value}});
  }
  double read(const std::string& path) const { return read_matrix_market_array<double>(path).value.at(0); }
  const std::string ending = GetParam();
  const Folder folder;
};
INSTANTIATE_TEST_SUITE_P(Endings, MatrixMarketDestination, ::testing::Values(".mtx", ".mtx.gz"),
                         [](const auto& info) { return info.param == ".mtx" ? "plain" : "compressed"; });

// The writer's temporary file has a name that no other file has.
TEST_P(MatrixMarketDestination, LeavesFilesOfOthersAlone) {
  const std::string path = folder.path("x" + ending), link = folder.path("x" + ending + ".part");
  const std::string other = folder.write("other", "of somebody else");
  std::filesystem::create_symlink(other, link);
  write(path);
  EXPECT_EQ(read(path), 1);
  EXPECT_EQ(bytes_of(other), "of somebody else");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::filesystem::remove(link);
  folder.write("x" + ending + ".part", "of the user");
  write(path, 2);
  EXPECT_EQ(read(path), 2);
  EXPECT_EQ(bytes_of(link), "of the user");
}

TEST_P(MatrixMarketDestination, FollowsLinks) {
  std::filesystem::create_directory(folder.path("data"));
  const std::string link = folder.path("x" + ending), behind = "data/real" + ending, real = folder.path(behind);
  std::filesystem::create_symlink("y" + ending, link);
  std::filesystem::create_symlink(behind, folder.path("y" + ending));
  for (const double value : {1.0, 2.0}) {  // at first the link's target does not exist
    write(link, value);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_FALSE(std::filesystem::is_symlink(real));
    EXPECT_EQ(read(real), value);
  }
  EXPECT_EQ(folder.names(), (std::set<std::string>{"data", "x" + ending, "y" + ending}));
  const std::string round = folder.path("round" + ending);
  std::filesystem::create_symlink(round, round);
  EXPECT_EQ(error_of([&] { write(round); }, ErrorKind::environment),
            round + ": cannot be created: Too many levels of symbolic links");
}

TEST_P(MatrixMarketDestination, HasThePermissionsOfAnyNewFile) {
  const mode_t before = umask(0027);
  const std::string path = folder.path("x" + ending);
  write(path);
  umask(before);
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0640));
}

// Concurrent writes are atomic; any of them may be the last.
TEST_P(MatrixMarketDestination, HasManyWriters) {
  const std::string path = folder.path("x" + ending);
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> writers;
    for (int t = 0; t < 8; ++t)
      writers.emplace_back([&, t] {
        for (int k = 0; k < 20; ++k) try {
            write(path, t);
            const auto value = read_matrix_market_array<double>(path).value;
            failures += value.size() != 2 || value[0] != value[1];
          } catch (const Error&) {
            ++failures;
          }
      });
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(folder.names(), std::set<std::string>{"x" + ending});
}

// A device is written to, not replaced by a file.
TEST_P(MatrixMarketDestination, WritesToADeviceAsItIs) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  const std::string link = folder.path("x" + ending);
  std::filesystem::create_symlink("/dev/full", link);
  EXPECT_EQ(error_of([&] { write(link); }, ErrorKind::environment),
            link + ": cannot be written: No space left on device");
  std::filesystem::remove(link);
  std::filesystem::create_symlink("/dev/null", link);
  write(link);
  EXPECT_TRUE(std::filesystem::is_character_file(link));
}

}  // namespace
}  // namespace tacit::io::test
