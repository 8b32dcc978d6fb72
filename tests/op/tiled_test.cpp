// Tiled matrices: storage formats, stages, rounded values, register tiles of every width, any number of threads.
#include <gtest/gtest.h>
#include <tacit/op/staged_matrix.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include "op/tiled_cases.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using op::TiledFormat;
using op::TiledMatrix;
using op::TiledOptions;
using op::Values;
using test::Entry;
using test::some_rows;
using test::source_of;

namespace {

template <class T>
class Tiled : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Tiled, Reals);

// Largest error of A X relative to sums of |a x|.
template <class T>
double error_of(const TiledMatrix<T>& m, const std::vector<std::vector<Entry<T>>>& a, int k) {
  const int x_stride = k == 1 ? 1 : k + 3, y_stride = k + 1;
  std::vector<T> x(std::size_t(m.columns()) * std::size_t(x_stride), std::numeric_limits<T>::quiet_NaN());
  std::vector<T> y(std::size_t(m.rows()) * std::size_t(y_stride), T(7));
  for (Local i = 0; i < m.columns(); ++i)
    for (int c = 0; c < k; ++c)
      x[std::size_t(i) * std::size_t(x_stride) + std::size_t(c)] =
          test::number<T>(5, std::uint64_t(i) * 97 + std::uint64_t(c));
  m.multiply(x.data(), x_stride, y.data(), y_stride, k);
  double worst = 0;
  for (std::size_t r = 0; r < a.size(); ++r) {
    for (int c = 0; c < k; ++c) {
      long double sum = 0, size = 1e-300L;
      for (const auto& e : a[r]) {
        const long double term =
            static_cast<long double>(e.value) * x[std::size_t(e.column) * std::size_t(x_stride) + std::size_t(c)];
        sum += term, size += std::abs(term);
      }
      worst = std::max(worst, double(std::abs(sum - y[r * std::size_t(y_stride) + std::size_t(c)]) / size));
      if (a[r].empty()) {
        EXPECT_EQ(y[r * std::size_t(y_stride) + std::size_t(c)], T(0));
      }
    }
    EXPECT_EQ(y[r * std::size_t(y_stride) + std::size_t(k)], T(7));  // the padding of y is not written
  }
  return worst;
}

TYPED_TEST(Tiled, MultipliesWithAnyNumberOfColumns) {
  using T = TypeParam;
  const auto a = some_rows<T>(61, 500);
  for (const auto format : {TiledFormat::list, TiledFormat::bitmap, TiledFormat::plain})
    for (const auto& [block, tile] : {std::pair{0, 0}, {7, 16}, {1, 8}, {100, 64}}) {
      TiledOptions o;
      o.format = format, o.block_rows = block, o.tile = tile;
      const TiledMatrix<T> m(61, 500, source_of(a), o);
      for (const int k : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 48, 63, 64, 65, 100})
        EXPECT_LE(error_of(m, a, k), 64 * std::numeric_limits<T>::epsilon()) << m.storage() << ", " << k << " columns";
    }
}

TYPED_TEST(Tiled, CutsColumnsIntoStages) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  for (const Local columns : {65536, 65537, 200001, (1 << 20) + 1, 3 << 20}) {
    const auto a = some_rows<T>(20, columns);
    for (const auto format : {TiledFormat::list, TiledFormat::bitmap, TiledFormat::plain}) {
      TiledOptions o;
      o.format = format, o.block_rows = 6;
      const TiledMatrix<T> m(20, columns, source_of(a), o);
      for (const int k : {1, 3}) EXPECT_LE(error_of(m, a, k), 64 * std::numeric_limits<T>::epsilon()) << columns;
    }
  }
}

TYPED_TEST(Tiled, RoundsStoredValuesOnly) {
  using T = TypeParam;
  for (const double size : {1.0, 1e-30, 1e30}) {
    const auto a = some_rows<T>(61, 500, size);
    for (const auto format : {TiledFormat::list, TiledFormat::bitmap})
      for (const auto& [values, bound] :
           {std::pair{Values::half, 0x1p-11}, {Values::bfloat16, 0x1p-8}, {Values::single, 0x1p-24}}) {
        if (values == Values::single && size < 1e-20) continue;  // out of range of float
        TiledOptions o;
        o.format = format, o.values = values;
        const TiledMatrix<T> m(61, 500, source_of(a), o);
        for (const int k : {1, 16})
          EXPECT_LE(error_of(m, a, k), bound + 64 * std::numeric_limits<T>::epsilon()) << m.storage() << " " << size;
      }
  }
}

// A column of very large or negative values does not affect the others.
TYPED_TEST(Tiled, KeepsColumnsApart) {
  using T = TypeParam;
  const auto a = some_rows<T>(40, 90);
  TiledOptions o;
  o.values = Values::half;
  const TiledMatrix<T> m(40, 90, source_of(a), o);
  std::vector<T> x(90 * 3), y(40 * 3), alone(40);
  for (std::size_t i = 0; i < 90; ++i)
    x[3 * i] = T(1e30), x[3 * i + 1] = test::number<T>(8, i), x[3 * i + 2] = T(-1e30);
  m.multiply(x.data(), 3, y.data(), 3, 3);
  std::vector<T> one(90);
  for (std::size_t i = 0; i < 90; ++i) one[i] = x[3 * i + 1];
  m.multiply(one.data(), 1, alone.data(), 1, 1);
  for (std::size_t r = 0; r < 40; ++r) {
    EXPECT_TRUE(std::isfinite(y[3 * r]) && std::isfinite(y[3 * r + 2]));
    EXPECT_EQ(y[3 * r], -y[3 * r + 2]);
    EXPECT_NEAR(double(y[3 * r + 1]), double(alone[r]), 100 * std::numeric_limits<T>::epsilon());
  }
}

TYPED_TEST(Tiled, GivesTheSameBitsOnAnyNumberOfThreads) {
#ifdef _OPENMP
  using T = TypeParam;
  const auto a = some_rows<T>(3000, 700);
  const int before = omp_get_max_threads();
  for (const auto format : {TiledFormat::list, TiledFormat::bitmap})
    for (const int k : {1, 20}) {
      std::vector<T> first;
      for (const int threads : {1, 2, 5}) {
        omp_set_num_threads(threads);
        TiledOptions o;
        o.format = format, o.block_rows = 32;
        const TiledMatrix<T> m(3000, 700, source_of(a), o);
        std::vector<T> x(std::size_t(700 * k)), y(std::size_t(3000 * k));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = test::number<T>(4, i);
        m.multiply(x.data(), k, y.data(), k, k);
        if (first.empty()) first = y;
        EXPECT_EQ(first, y);
      }
    }
  omp_set_num_threads(before);
#else
  GTEST_SKIP() << "a build without OpenMP";
#endif
}

TYPED_TEST(Tiled, ClampsInTheSamePass) {
  using T = TypeParam;
  const auto a = some_rows<T>(61, 70000);  // list: two stages
  const op::Clamp<T> clamp{T(-0.25), T(0), T(0.5)};
  for (const auto format : {TiledFormat::list, TiledFormat::bitmap})
    for (const int k : {1, 5, 32}) {
      TiledOptions o;
      o.format = format;
      const TiledMatrix<T> m(61, 70000, source_of(a), o);
      std::vector<T> x(std::size_t(70000 * k)), plain(std::size_t(61 * k)), clamped(std::size_t(61 * k));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = test::number<T>(4, i);
      m.multiply(x.data(), k, plain.data(), k, k);
      m.multiply(x.data(), k, clamped.data(), k, k, nullptr, &clamp);
      for (std::size_t i = 0; i < plain.size(); ++i)
        EXPECT_EQ(clamped[i], std::min(std::max(T(plain[i] + clamp.bias), clamp.low), clamp.high));
    }
}

TYPED_TEST(Tiled, GivesItsRowsBackAndCountsReuse) {
  using T = TypeParam;
  const auto a = some_rows<T>(61, 70000);
  Global entries = 0;
  for (const auto& row : a) entries += Global(row.size());
  for (const auto format : {TiledFormat::list, TiledFormat::bitmap}) {
    TiledOptions o;
    o.format = format;
    const TiledMatrix<T> m(61, 70000, source_of(a), o);
    EXPECT_EQ(m.entries(), entries);
    op::RowBuffer<T> out;
    out.start = {0};
    m.rows(0, 61, out);
    for (std::size_t r = 0; r < a.size(); ++r) {
      ASSERT_EQ(out.start[r + 1] - out.start[r], std::int64_t(a[r].size()));
      for (const auto& e : a[r]) {
        bool found = false;
        for (auto i = std::size_t(out.start[r]); i < std::size_t(out.start[r + 1]); ++i)
          found = found || (out.column[i] == e.column && out.value[i] == e.value);
        EXPECT_TRUE(found);
      }
    }
    EXPECT_DOUBLE_EQ(m.reuse(1), 1);
    std::vector<Local> all;
    for (const auto& row : a)
      for (const auto& e : row) all.push_back(e.column);
    std::sort(all.begin(), all.end());
    const auto distinct = std::unique(all.begin(), all.end()) - all.begin();
    EXPECT_DOUBLE_EQ(m.reuse(61), double(entries) / double(distinct));
  }
}

// Rows and columns are stored in another order; vectors keep theirs.
TYPED_TEST(Tiled, StoresRowsAndColumnsInAnyOrder) {
  using T = TypeParam;
  const Local rows = 61, columns = 500;
  const auto a = some_rows<T>(rows, columns);
  TiledOptions o;
  for (Local r = 0; r < rows; ++r) o.row_order.push_back(r * 7 % rows);
  std::vector<Local> place(std::size_t(columns), 0);
  for (Local c = 0; c < columns; ++c) o.column_order.push_back(c * 123 % columns);
  for (Local c = 0; c < columns; ++c) place[std::size_t(o.column_order[std::size_t(c)])] = c;
  std::vector<std::vector<Entry<T>>> moved;
  for (const Local r : o.row_order) {
    moved.push_back(a[std::size_t(r)]);
    for (auto& e : moved.back()) e.column = place[std::size_t(e.column)];
  }
  for (const auto format : {TiledFormat::list, TiledFormat::bitmap, TiledFormat::plain}) {
    o.format = format;
    const TiledMatrix<T> m(rows, columns, source_of(moved), o);
    for (const int k : {1, 3, 40}) EXPECT_LE(error_of(m, a, k), 64 * std::numeric_limits<T>::epsilon());
  }
  o.column_order[3] = o.column_order[4];
  EXPECT_THROW(TiledMatrix<T>(rows, columns, source_of(moved), o), Error);
}

// Products with vectors rounded to 16 bits: each column has its own scale, and sums are in float.
TEST(TiledMatrix, ReadsVectorsIn16Bits) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  for (const Local columns : {500, 70000}) {
    const auto a = some_rows<float>(61, columns);
    // A full unit instead of half of one: an element may receive the rounding errors of its neighbours, up to half a
    // unit.
    for (const auto& [vectors, bound] : {std::pair{op::Vectors::half, 0x1p-10}, {op::Vectors::bfloat16, 0x1p-7}})
      for (const auto format : {TiledFormat::list, TiledFormat::bitmap, TiledFormat::plain}) {
        TiledOptions o;
        o.format = format, o.vectors = vectors, o.block_rows = 9;
        const TiledMatrix<float> m(61, columns, source_of(a), o);
        const int most = 40;
        std::vector<float> x(std::size_t(columns * most));
        // Columns of different scales, among them large values of one sign, zeros, and one with a NaN.
        const float sizes[] = {1, 1e30f, -1e30f, 3e38f, 1e-38f, 1e-42f, 0};
        for (std::size_t i = 0; i < x.size(); ++i) {
          const float size = sizes[i % most % 7], v = std::abs(test::number<float>(4, i));
          x[i] = i % most % 7 == 0    ? test::number<float>(4, i)
                 : std::abs(size) > 1 ? size * (0.5f + v / 2) / 300
                                      : size * v;
        }
        x[std::size_t(33 * most + 35)] = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> together(std::size_t(61 * most));
        m.multiply(x.data(), most, together.data(), most, most);
        for (const int k : {1, 7, 8, 17, 40}) {
          std::vector<float> y(std::size_t(61 * k));
          m.multiply(x.data(), most, y.data(), k, k);
          for (std::size_t r = 0; r < 61; ++r)
            for (std::size_t c = 0; c < std::size_t(k); ++c) {
              double sum = 0, size = 1e-300, largest = 0;
              for (const auto& e : a[r]) {
                const double term = double(e.value) * double(x[std::size_t(e.column) * most + c]);
                sum += term, size += std::abs(term), largest += std::abs(double(e.value));
              }
              const float found = y[r * std::size_t(k) + c];
              if (c == 35) {  // a NaN affects only the rows that read it
                EXPECT_EQ(std::isnan(sum), std::isnan(found));
                continue;
              }
              // Values far below a column's largest one lose digits, as do floats below the normal range.
              const double of_column = c % 7 == 0 ? 1 : std::abs(double(sizes[c % 7]));
              ASSERT_NEAR(double(found), sum,
                          (bound + 1e-5) * size + 0x1p-38 * of_column * largest + 4e-43 * (1 + largest))
                  << m.storage() << ", column " << c << " of " << k;
              // A column alone and together with others: the same terms, summed in another order.
              ASSERT_NEAR(double(found), double(together[r * most + c]),
                          1e-5 * size + 4e-43);  // subnormal floats: an ulp per term
            }
        }
      }
  }
  TiledOptions o;
  o.vectors = op::Vectors::half;
  const auto a = some_rows<double>(10, 10);
  EXPECT_THROW(TiledMatrix<double>(10, 10, source_of(a), o), Error);
}

// The rounding error of an element is passed on to its neighbours, so that sums over many elements lose almost nothing.
TEST(TiledMatrix, RoundsVectorsSoThatSumsStay) {
  const Local columns = 5000;
  std::vector<std::vector<Entry<float>>> a(2);
  for (Local c = 0; c < columns; ++c) a[0].push_back({c, 1.0f}), a[1].push_back({c, 1.0f + float(c) / float(columns)});
  for (const auto& [vectors, unit] : {std::pair{op::Vectors::half, 0x1p-11}, {op::Vectors::bfloat16, 0x1p-8}})
    for (const int k : {1, 20}) {
      TiledOptions o;
      o.vectors = vectors;
      const TiledMatrix<float> m(2, columns, source_of(a), o);
      std::vector<float> x(std::size_t(columns * k)), y(std::size_t(2 * k));
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = i / std::size_t(k) % 5 == 0 ? 0.0f : 1.3f + 0.2f * test::number<float>(4, i);
      m.multiply(x.data(), k, y.data(), k, k);
      for (int row = 0; row < 2; ++row)
        for (int c = 0; c < k; ++c) {
          double sum = 0;
          for (const auto& e : a[std::size_t(row)]) sum += double(e.value) * double(x[std::size_t(e.column * k + c)]);
          // Three pieces of the columns leave a unit each; rounding to nearest would leave about sqrt(5000) units.
          EXPECT_NEAR(double(y[std::size_t(row * k + c)]), sum, 12 * unit + 2e-6 * sum) << row << " " << c << " " << k;
        }
    }
}

// Large entries times 2^14 would overflow in float: vectors get a smaller scale.
TEST(TiledMatrix, ScalesLargeEntriesWith16BitVectors) {
  std::vector<std::vector<Entry<float>>> a(1);
  for (Local c = 0; c < 1000; ++c) a[0].push_back({c, 1e34f});
  TiledOptions o;
  o.vectors = op::Vectors::half;
  const TiledMatrix<float> m(1, 1000, source_of(a), o);
  std::vector<float> x(1000 * 16, 1e-3f), y(16);
  m.multiply(x.data(), 16, y.data(), 16, 16);
  for (const float v : y) EXPECT_NEAR(double(v) / 1e34, 1, 1e-3);
}

// Where rows have few entries per stage, lists take more memory than they save: the plain format, as in a csr matrix,
// is used.
TEST(TiledMatrix, FallsBackToThePlainForm) {
  const Local columns = 12 << 16;
  const auto short_rows = some_rows<float>(200, columns);
  EXPECT_NE(TiledMatrix<float>(200, columns, source_of(short_rows), {}).storage().find("plain"), std::string::npos);
  const auto narrow = some_rows<float>(200, 65536);
  TiledOptions many;
  many.columns = 16;
  EXPECT_NE(TiledMatrix<float>(200, 65536, source_of(narrow), many).storage().find("list"), std::string::npos);
}

TEST(TiledMatrix, TunesWhatIsLeftOpen) {
  TiledOptions o;
  o.columns = 64, o.tune = true;
  const auto of = [](const std::vector<TiledOptions>& all, TiledFormat format) {
    return std::count_if(all.begin(), all.end(), [&](const TiledOptions& c) { return c.format == format && !c.tune; });
  };
  auto all = op::tuning_candidates(o);
  EXPECT_EQ(of(all, TiledFormat::list), 6);
  EXPECT_EQ(of(all, TiledFormat::bitmap), 6);
  EXPECT_EQ(of(all, TiledFormat::plain), 2);
  EXPECT_EQ(all.size(), 14u);
  o.format = TiledFormat::bitmap, o.tile = 64;
  all = op::tuning_candidates(o);
  EXPECT_EQ(all.size(), 3u);
  for (const auto& c : all) EXPECT_TRUE(c.format == TiledFormat::bitmap && c.tile == 64) << c.block_rows;
  o.block_rows = 77;
  all = op::tuning_candidates(o);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].block_rows, 77);
}

// A small matrix: 4 rows, buffers of 6 columns.
TEST(Staging, CountsStagesReuseAndPadding) {
  const std::vector<std::vector<Entry<double>>> a{
      {{0, 1}, {4, 1}, {7, 1}}, {{1, 1}, {3, 1}}, {{5, 1}, {9, 1}}, {{12, 1}}};
  const auto s = op::staging_of<double>(4, 13, source_of(a), 4, 6);  // {0,1,3,4,5,7}, {9,12}
  EXPECT_DOUBLE_EQ(s.reuse, 1);
  EXPECT_DOUBLE_EQ(s.stages, 2);
  EXPECT_DOUBLE_EQ(s.warp_padding, 32.0 * (3 + 1) / 8);
  const auto one = op::staging_of<double>(4, 13, source_of(a), 2, 65536);
  EXPECT_DOUBLE_EQ(one.stages, 1);
  EXPECT_THROW(op::staging_of<double>(4, 13, source_of(a), 0, 6), Error);
}

TEST(TiledMatrix, KeepsWhatTuningFound) {
  const auto a = some_rows<float>(3000, 500);
  const auto file = std::filesystem::temp_directory_path() / ("tacit_tiled_" + std::to_string(::getpid()) + ".tsv");
  std::filesystem::remove(file);
  TiledOptions o;
  o.tune = true, o.columns = 4, o.tuning_file = file.string();
  const auto lines = [&] {
    std::ifstream in(file);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  };
  const TiledMatrix<float> m(3000, 500, source_of(a), o);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_LE(error_of(m, a, 4), 64 * std::numeric_limits<float>::epsilon());
  const TiledMatrix<float> again(3000, 500, source_of(a), o);
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_EQ(again.storage(), m.storage());
  {  // stored results are used, invalid lines are ignored
    const std::string key = lines()[0].substr(0, lines()[0].find('\t'));
    std::ofstream(file) << "rubbish\n" << key << "\t9 0 0\n" << key << "\t2 33 64\n";
  }
  EXPECT_EQ(TiledMatrix<float>(3000, 500, source_of(a), o).storage(), "bitmap, float32, blocks of 33 rows");
  o.format = TiledFormat::list, o.block_rows = 77, o.tuning_file = "-";
  EXPECT_EQ(TiledMatrix<float>(3000, 500, source_of(a), o).storage(), "list, float32, blocks of 77 rows");
  std::filesystem::remove(file);
}

TEST(TiledMatrix, ReportsFaults) {
  const auto with = [](Local column, double value, bool twice = false) {
    return op::RowSource<double>([=](Local begin, Local end, op::RowBuffer<double>& rows) {
      for (Local r = begin; r < end; ++r) {
        if (r == 2) rows.add(column, value);
        if (r == 2 && twice) rows.add(column, value);
        rows.end_row();
      }
    });
  };
  EXPECT_THROW(TiledMatrix<double>(4, 10, with(10, 1), {}), Error);
  EXPECT_THROW(TiledMatrix<double>(4, 10, with(-1, 1), {}), Error);
  TiledOptions o;
  o.format = TiledFormat::bitmap;
  EXPECT_THROW(TiledMatrix<double>(4, 10, with(3, 1, true), o), Error);
  o.tile = 12;
  EXPECT_THROW(TiledMatrix<double>(4, 10, with(3, 1), o), Error);
  EXPECT_NE(TiledMatrix<double>(4, 10, with(3, NAN), {}).fault().find("row 2, column 3"), std::string::npos);
  EXPECT_EQ(TiledMatrix<double>(4, 10, with(3, -5), {}).largest(), 5);
  EXPECT_EQ(TiledMatrix<double>(0, 10, with(3, -5), {}).entries(), 0);
}

}  // namespace
