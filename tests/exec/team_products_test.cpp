// Sparse products as team kernels, run by one thread and by teams of threads, compared with the dense matrix.
#include "exec/team_fixtures.hpp"

#include "op/kernels/sell.hpp"

#include <algorithm>
#include <numeric>

namespace tacit::op {
namespace {

using exec::Dice;
using exec::launch_here;
using exec::Way;
using exec::ways;
using exec::wide;
using exec::Wide;

template <class T>
struct Matrix {
  Local rows = 0, columns = 0;
  std::vector<Global> row_begin{0};
  std::vector<Local> column{};
  std::vector<T> value{};
  Local length(Local i) const { return Local(row_begin[i + 1] - row_begin[i]); }
};

/// Every third row is empty, the middle row is full, the others are short, with columns near the diagonal.
template <class T>
Matrix<T> awkward(Local rows, Local columns, unsigned seed) {
  Dice dice(seed);
  Matrix<T> a{rows, columns};
  for (Local i = 0; i < rows; ++i) {
    const Local length = columns == 0 || i % 3 == 1 ? 0
                         : i == rows / 2            ? columns
                                                    : std::min<Local>(columns, 1 + dice.below(9));
    const Local from = length == 0 ? 0 : std::clamp<Local>(i - length / 2, 0, columns - length);
    for (Local j = 0; j < length; ++j) a.column.push_back(from + j), a.value.push_back(dice.value<T>());
    a.row_begin.push_back(Global(a.column.size()));
  }
  return a;
}

/// k columns of a vector, aligned to packets of 16 bytes.
template <class T>
struct Block {
  struct alignas(16) Aligned {
    T v[2];
  };
  std::vector<Aligned> memory;
  std::size_t n;
  explicit Block(std::size_t size) : memory(size / 2 + 1), n(size) {}
  T* data() { return memory[0].v; }
  std::vector<T> copy() { return {data(), data() + n}; }
};

template <class T>
std::vector<Wide> dense_product(const Matrix<T>& a, const T* x, const T* y, bool add, int k) {
  std::vector<Wide> dense(std::size_t(a.rows) * a.columns), result(std::size_t(a.rows) * k);
  for (Local i = 0; i < a.rows; ++i)
    for (Global e = a.row_begin[i]; e < a.row_begin[i + 1]; ++e)
      dense[std::size_t(i) * a.columns + a.column[e]] += wide(a.value[e]);
  for (Local i = 0; i < a.rows; ++i)
    for (int c = 0; c < k; ++c) {
      if (add) result[i * k + c] = wide(y[i * k + c]);
      for (Local j = 0; j < a.columns; ++j)
        result[i * k + c] += dense[std::size_t(i) * a.columns + j] * wide(x[j * k + c]);
    }
  return result;
}

template <class T, class Launch>
void check(const Matrix<T>& a, int k, Launch launch) {
  for (const Way way : ways)
    for (const bool add : {false, true}) {
      if (way == Way::threads && (!add || a.rows == 2 || a.rows == 63)) continue;  // teams of threads are slow
      Dice dice(5);
      Block<T> x(std::size_t(a.columns) * k), y(std::size_t(a.rows) * k);
      for (std::size_t i = 0; i < x.n; ++i) x.data()[i] = dice.value<T>();
      for (std::size_t i = 0; i < y.n; ++i) y.data()[i] = add ? dice.value<T>() : exec::poison<T>();
      const auto expected = dense_product(a, x.data(), y.data(), add, k);
      launch(way, add, x.data(), y.data());
      exec::expect_close(y.copy(), expected, 20);
    }
}

template <class T, class Offset, StoredColumn Column, int W, int K>
void check_csr(const Matrix<T>& a, int k) {
  using Kernel = CsrProduct<T, Offset, Column, W, K, 64>;
  const std::vector<Offset> begin(a.row_begin.begin(), a.row_begin.end());
  std::vector<Column> column(a.column.size());
  for (Local i = 0; i < a.rows; ++i)
    for (Global e = a.row_begin[i]; e < a.row_begin[i + 1]; ++e)
      column[e] = Column(std::same_as<Column, Local> ? a.column[e] : a.column[e] - i);
  check(a, k, [&](Way way, bool add, const T* x, T* y) {
    for (int first = 0; first < k; first += K)
      launch_here(way, Kernel::blocks(a.rows),
                  Kernel{a.rows, k, first, add, begin.data(), nullptr, column.data(), a.value.data(), x, y});
  });
}

template <class T, StoredColumn Column, int C, int K>
void check_sell(const Matrix<T>& a, int k, bool sorted) {
  using Kernel = SellProduct<T, Column, C, K, 64>;
  const Global slices = Kernel::slices(a.rows);
  std::vector<Local> row(slices * C, -1);
  std::iota(row.begin(), row.begin() + a.rows, 0);
  if (sorted)  // rows sorted by length, longest first, in windows of 40
    for (Local w = 0; w < a.rows; w += 40)
      std::stable_sort(row.begin() + w, row.begin() + std::min(w + 40, a.rows),
                       [&](Local i, Local j) { return a.length(i) > a.length(j); });
  std::vector<Global> begin{0};
  for (Global s = 0; s < slices; ++s) {
    Local longest = 0;
    for (int r = 0; r < C; ++r)
      if (row[s * C + r] >= 0) longest = std::max(longest, a.length(row[s * C + r]));
    begin.push_back(begin.back() + Global(longest) * C);
  }
  std::vector<Column> column(begin.back(), no_column<Column>);
  std::vector<T> value(begin.back(), exec::poison<T>());  // padding must not enter the sum
  for (Global p = 0; p < slices * C; ++p)
    if (row[p] >= 0)
      for (Local j = 0; j < a.length(row[p]); ++j) {
        const Global e = a.row_begin[row[p]] + j, at = begin[p / C] + Global(j) * C + p % C;
        column[at] = Column(std::same_as<Column, Local> ? a.column[e] : a.column[e] - p);
        value[at] = a.value[e];
      }
  check(a, k, [&](Way way, bool add, const T* x, T* y) {
    for (int first = 0; first < k; first += K)
      launch_here(way, Kernel::blocks(a.rows),
                  Kernel{a.rows, k, first, add, begin.data(), sorted ? row.data() : nullptr, column.data(),
                         value.data(), x, y});
  });
}

template <class T>
class TeamProducts : public ::testing::Test {};
TYPED_TEST_SUITE(TeamProducts, exec::KernelScalars);

struct Shape {
  Local rows, columns;
};
constexpr Shape shapes[] = {{0, 0}, {0, 5}, {5, 0}, {1, 1}, {2, 7}, {63, 64}, {65, 33}, {131, 131}};

TYPED_TEST(TeamProducts, CsrIsTheDenseMatrix) {
  using T = TypeParam;
  for (const auto [rows, columns] : shapes) {
    const auto a = awkward<T>(rows, columns, 3);
    check_csr<T, std::int32_t, Local, 1, 1>(a, 1);
    check_csr<T, std::int64_t, Local, 4, 1>(a, 1);
    check_csr<T, std::int64_t, std::int16_t, 32, 1>(a, 3);
    check_csr<T, std::int32_t, Local, 4, 2>(a, 6);
    check_csr<T, std::int64_t, std::int16_t, 16, 4>(a, 4);
  }
}

TYPED_TEST(TeamProducts, CsrWritesTheRowsOfAList) {
  using T = TypeParam;
  const auto a = awkward<T>(45, 45, 9);
  std::vector<Local> row(45);
  std::iota(row.rbegin(), row.rend(), 3);
  for (const Way way : ways) {
    using Kernel = CsrProduct<T, Global, Local, 2, 1, 32>;
    const auto x = Dice(1).values<T>(45);
    std::vector<T> y(60, T(1)), straight(45, T(1));
    launch_here(
        way, Kernel::blocks(45),
        Kernel{45, 1, 0, true, a.row_begin.data(), row.data(), a.column.data(), a.value.data(), x.data(), y.data()});
    const auto expected = dense_product(a, x.data(), straight.data(), true, 1);
    for (int i = 0; i < 45; ++i) straight[i] = y[row[i]];
    exec::expect_close(straight, expected, 20);
    for (const int i : {0, 1, 2, 48, 59}) EXPECT_TRUE(y[i] == T(1));
  }
}

TYPED_TEST(TeamProducts, SellIsTheDenseMatrix) {
  using T = TypeParam;
  for (const auto [rows, columns] : shapes) {
    const auto a = awkward<T>(rows, columns, 4);
    check_sell<T, Local, 32, 1>(a, 1, true);
    check_sell<T, Local, 32, 1>(a, 2, false);
    check_sell<T, std::int16_t, 8, 1>(a, 1, false);
    check_sell<T, Local, 8, 2>(a, 4, true);
    check_sell<T, std::int16_t, 32, 4>(a, 4, true);
  }
}

TEST(CsrLanes, GrowWithTheRows) {
  EXPECT_EQ(csr_lanes(0, 0), 1);
  EXPECT_EQ(csr_lanes(10, 0), 1);
  EXPECT_EQ(csr_lanes(10, 20), 1);
  EXPECT_EQ(csr_lanes(10, 70), 4);
  EXPECT_EQ(csr_lanes(10, 270), 16);
  EXPECT_EQ(csr_lanes(10, 100000), 32);
}

}  // namespace
}  // namespace tacit::op
