// The storage of a sparse matrix does not change results.
#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <cstring>
#include <initializer_list>
#include <set>

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

// Rows suited to every storage: column offsets of 16 bits or more, rows of different lengths.
template <class T>
Rows<T> rows_reaching(Global n, Global begin, Global end, Global reach) {
  Rows<T> rows;
  for (Global i = begin; i < end; ++i) {
    if (i % 11 != 5)
      for (Global j : {i - reach, i - 2, i, i + 1 + i % 3, i + reach})
        if (j >= 0 && j < n && (rows.start.back() == Global(rows.column.size()) || rows.column.back() < j)) {
          rows.column.push_back(j);
          rows.value.push_back(test::number<T>(1, std::uint64_t(i * 7 + j)));
        }
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

template <class T>
class Storage : public testing::Test {};
using test::Scalars;
TYPED_TEST_SUITE(Storage, Scalars);

TYPED_TEST(Storage, DoesNotChangeTheResult) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 80001;
  for (const int team : {1, 3}) {
    const test::Threads threads(team);
    for (Global reach : {Global(100), Global(40000)}) {
      const auto comm = Communicator::self();
      const auto space = layout::Space::distributed(comm, n);
      const auto rows = rows_reaching<T>(n, 0, n, reach);
      for (Format format : {Format::csr, Format::sell, Format::bsr, Format::automatic}) {
        const Csr<T> A(space, space, rows, format);
        if (format != Format::bsr) {
          EXPECT_EQ(A.storage().find("16-bit") != std::string::npos, reach == 100) << A.storage();
        }
        if (format == Format::csr) {
          EXPECT_EQ(A.storage().substr(0, 3), "csr");
        }
        if (format == Format::sell) {
          EXPECT_EQ(A.storage().substr(0, 4), "sell");
        }
        for (int k : {1, 2, 9}) {
          const auto x = test::vector_of<T>(space, 2, k);
          Vector<T> y(space, k);
          layout::fill(y, T(std::numeric_limits<real_t<T>>::quiet_NaN()));
          A.apply(x, y);
          double worst = 0;
          for (Global i = 0; i < n; ++i)
            for (int c = 0; c < k; ++c) {
              T sum{};
              for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e)
                sum += rows.value[e] * x.data()[rows.column[e] * k + c];
              worst = std::max(worst, double(std::abs(sum - y.data()[i * k + c])));
            }
          EXPECT_LE(worst, 32 * test::epsilon<T>()) << A.storage() << ", " << k << " columns";
        }
        const auto back = A.rows();
        EXPECT_EQ(back.start, rows.start);
        EXPECT_EQ(back.column, rows.column);
        EXPECT_EQ(back.value, rows.value);
      }
    }
  }
}

// Every number of columns that has a kernel of its own, and some that are made of several. Sums have one order.
TYPED_TEST(Storage, ColumnsAreThoseOfSingleProducts) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  if (is_complex<T>) GTEST_SKIP() << "gcc 12 fuses some complex products and sums";
  const Global n = 30011;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  const auto of = [&](bool scattered, bool narrow) {
    Rows<T> rows;
    for (Global i = 0; i < n; ++i) {
      std::set<Global> columns;
      const Global count = i % 7 == 3 ? 0 : i % 1000 == 8 ? 300 : 1 + i * i % 13;
      for (Global e = 0; e < count; ++e)
        columns.insert(scattered ? (i * 7919 + e * e * 104729) % n : (i / 4 + 3 * e) % n);
      for (const Global j : columns) {
        rows.column.push_back(j);
        rows.value.push_back(narrow ? T(real_t<T>(1 + (i + j) % 5)) : test::number<T>(1, std::uint64_t(i * 7 + j)));
      }
      rows.start.push_back(Global(rows.column.size()));
    }
    return rows;
  };
  for (const bool scattered : {false, true})
    for (const bool narrow : {false, true})
      for (Format format : {Format::csr, Format::sell}) {
        const Csr<T> A(space, space, of(scattered, narrow), format);
        for (int k : {2, 3, 4, 8, 16, 21, 32, 64, 135}) {
          auto x = test::vector_of<T>(space, 2, k);
          x.data()[std::size_t(17 * k)] = T(std::numeric_limits<real_t<T>>::infinity());  // padding multiplies it by 0
          Vector<T> y(space, k), one(space), alone(space);
          A.apply(x, y);
          for (int c = 0; c < k; c += 1 + k / 5) {
            for (Global i = 0; i < n; ++i) one.data()[i] = x.data()[i * k + c];
            A.apply(one, alone);
            int differ = 0;
            for (Global i = 0; i < n; ++i) {
              const T &a = y.data()[i * k + c], &b = alone.data()[i];
              differ += std::memcmp(&a, &b, sizeof(T)) != 0 && (a == a || b == b);
            }
            EXPECT_EQ(differ, 0) << A.storage() << ", " << scattered << ", column " << c << " of " << k;
          }
        }
      }
}

TEST(Csr, GivesItsRowsBackOnAnyRanks) {
  on_ranks([](const Communicator& comm) {
    const auto space = layout::Space::distributed(comm, 203);
    const auto rows = rows_reaching<double>(203, space.begin(), space.end(), 90);
    for (Format format : {Format::csr, Format::sell, Format::bsr}) {
      const Csr<double> A(space, space, rows, format);
      const auto back = A.rows();
      EXPECT_EQ(back.start, rows.start);
      EXPECT_EQ(back.column, rows.column);
      EXPECT_EQ(back.value, rows.value);
      EXPECT_EQ(A.entries(), comm.all_sum(rows.start.back()));
    }
  });
}

TYPED_TEST(Storage, GivesBlocksOfARanksRows) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    const Global n = 20003;  // blocks of rows begin at several rows of a rank
    const auto space = layout::Space::distributed(comm, n);
    const auto rows = rows_reaching<T>(n, space.begin(), space.end(), 300);
    for (Format format : {Format::csr, Format::sell, Format::bsr}) {
      const Csr<T> A(space, space, rows, format);
      const Local own = space.local_size();
      EXPECT_EQ(A.own_block_entries(), A.own_block().start.back());
      for (const auto& range : {std::pair<Local, Local>{0, own}, {0, 0}, {own / 3, own / 2}, {own - 1, 1}}) {
        const Local first = range.first, count = range.second;
        LocalRows<T> all, lower, upper;
        std::vector<T> diagonal(std::size_t(count), T{});
        for (Local r = 0; r < count; ++r) {
          for (Global e = rows.start[first + r]; e < rows.start[first + r + 1]; ++e) {
            const Global c = rows.column[e] - space.begin() - first;
            if (c < 0 || c >= count) continue;
            all.column.push_back(Local(c)), all.value.push_back(rows.value[e]);
            if (c == r) diagonal[std::size_t(r)] = rows.value[e];
            auto& part = c < r ? lower : upper;
            if (c != r) part.column.push_back(Local(c)), part.value.push_back(rows.value[e]);
          }
          for (auto* part : {&all, &lower, &upper}) part->start.push_back(Global(part->column.size()));
        }
        const auto expect = [&](const LocalRows<T>& found, const LocalRows<T>& wanted) {
          EXPECT_EQ(found.columns, count);
          EXPECT_EQ(found.start, wanted.start);
          EXPECT_EQ(found.column, wanted.column);
          EXPECT_EQ(found.value, wanted.value);
        };
        expect(A.own_block(first, count), all);
        for (const bool with_upper : {true, false}) {
          const auto parts = A.split_own_block(first, count, with_upper);
          expect(parts.lower, lower);
          expect(parts.upper, with_upper ? upper : LocalRows<T>());
          EXPECT_EQ(parts.diagonal, diagonal);
        }
      }
    }
  });
}

TYPED_TEST(Storage, SumsCouplingsAndCountsEntries) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    const Global n = 9001;
    const auto space = layout::Space::distributed(comm, n);
    const auto rows = rows_reaching<T>(n, space.begin(), space.end(), 300);
    std::vector<Local> lengths;
    double sums[2] = {0, 0};
    for (Local r = 0; r < rows.count(); ++r) {
      T d{};
      for (Global e = rows.start[r]; e < rows.start[r + 1]; ++e)
        if (rows.column[e] == space.begin() + r) d = rows.value[e];
      for (Global e = rows.start[r]; e < rows.start[r + 1]; ++e) {
        if (rows.column[e] == space.begin() + r) continue;
        sums[0] += double(std::abs(rows.value[e]));
        if (real(rows.value[e] * conj(d)) > 0) sums[1] += double(std::abs(rows.value[e]));
      }
      lengths.push_back(Local(rows.start[r + 1] - rows.start[r]));
    }
    space.sum(sums, 2);
    for (Format format : {Format::csr, Format::sell, Format::bsr}) {
      const Csr<T> A(space, space, rows, format);
      const auto found = A.couplings();
      EXPECT_NEAR(found[0], sums[0], 1e-10 * sums[0]);
      EXPECT_NEAR(found[1], sums[1], 1e-10 * sums[0]);
      EXPECT_GT(found[1], 0.2 * found[0]);
      EXPECT_LT(found[1], 0.8 * found[0]);
      EXPECT_EQ(A.unknowns_in_a_node(), 1);
      EXPECT_EQ(A.row_lengths(), lengths);
    }
  });
}

/// Rows [begin, end) of a matrix of n rows: blocks of b x b next to the diagonal and `reach` blocks away. With `holes`,
/// the diagonal block of every fifth block row has holes.
template <class T>
Rows<T> block_rows(int b, Global n, Global begin, Global end, Global reach, bool holes = true) {
  Rows<T> rows;
  for (Global i = begin; i < end; ++i) {
    const Global p = i / b;
    std::set<Global> nodes{p - reach, p - 1, p, p + 1 + p % 3, p + reach};
    for (const Global q : nodes)
      for (Global j = q * b; j < (q + 1) * b; ++j)
        if (j >= 0 && j < n && !(holes && p % 5 == 2 && q == p && (i + j) % 3 == 0)) {
          rows.column.push_back(j);
          rows.value.push_back(test::number<T>(3, std::uint64_t(i * 7 + j)));
        }
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

/// Compares A's product with sums over its rows, within a bound of their rounding errors.
template <class T>
void expect_product(const Csr<T>& A, const Rows<T>& rows, int k) {
  const auto x = test::vector_of<T>(A.domain(), 2, k);
  const auto whole = test::whole_vector<T>(A.domain().size() * k, 2);
  Vector<T> y(A.range(), k);
  layout::fill(y, T(std::numeric_limits<real_t<T>>::quiet_NaN()));
  A.apply(x, y);
  for (Local i = 0; i < rows.count(); ++i)
    for (int c = 0; c < k; ++c) {
      T sum{};
      for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e) sum += rows.value[e] * whole[rows.column[e] * k + c];
      ASSERT_LE(std::abs(sum - y.data()[i * k + c]), 64 * test::epsilon<T>())
          << A.storage() << ", row " << A.range().begin() + i << ", column " << c << " of " << k;
    }
}

TEST(StorageOfGrids, DenseBlocksAreFoundBehindAFaceOfIdentityRows) {
  // 3 x 3 blocks of neighbours on grids, but rows of the identity at x = 0, which equal steps through the rows may hit.
  const auto comm = Communicator::self();
  for (const Global nx : {16, 24, 32, 33, 64})
    for (const Global ny : {24, 64}) {
      const Global nodes = nx * ny * 8;
      const auto space = layout::Space::distributed(comm, 3 * nodes);
      Rows<double> rows;
      for (Global r = 0; r < 3 * nodes; ++r) {
        const Global node = r / 3;
        const auto add = [&](Global c) { rows.column.push_back(c), rows.value.push_back(1 + double((r + c) % 5)); };
        if (node % nx == 0) add(r);
        else
          for (const Global to : {node - nx * ny, node - nx, node - 1, node, node + 1, node + nx, node + nx * ny})
            if (to >= 0 && to < nodes && to % nx != 0)
              for (Global c = 3 * to; c < 3 * to + 3; ++c) add(c);
        rows.start.push_back(Global(rows.column.size()));
      }
      const Csr<double> A(space, space, std::move(rows));
      EXPECT_EQ(A.storage().substr(0, 5), "bsr-3") << A.storage() << " of " << nx << " x " << ny << " x 8";
    }
  // Rows outside whole blocks count, too.
  const auto eight = layout::Space::distributed(comm, 8), twenty = layout::Space::distributed(comm, 20);
  Rows<double> full;
  for (Global r = 0; r < 8; ++r) {
    for (Global c = 0; c < 20; ++c) full.column.push_back(c), full.value.push_back(1);
    full.start.push_back(20 * (r + 1));
  }
  EXPECT_EQ(Csr<double>(eight, twenty, std::move(full), Format::bsr).storage().substr(0, 5), "bsr-4");
}

TYPED_TEST(Storage, OfDenseBlocksIsFoundAndHasNoPartInTheResult) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto comm = Communicator::self();
  for (int b = 2; b <= 8; ++b)
    for (Global reach : {Global(40), Global(33000)}) {
      if (reach > 100 && b != 3) continue;
      const Global n = (reach > 100 ? 33100 * b : 9000 / b * b) + b - 1;  // the last block is incomplete
      const auto space = layout::Space::distributed(comm, n);
      const auto rows = block_rows<T>(b, n, 0, n, reach);
      const Csr<T> A(space, space, rows, Format::bsr);
      EXPECT_EQ(A.storage().substr(0, 5), message("bsr-", b)) << A.storage();
      EXPECT_EQ(A.storage().find("16-bit") != std::string::npos, reach == 40) << A.storage();
      const Csr<T> chosen(space, space, block_rows<T>(b, n, 0, n, reach, false));
      EXPECT_EQ(chosen.storage().substr(0, 5), message("bsr-", b)) << chosen.storage();
      for (const int k : {1, 2, 9}) expect_product(A, rows, k);
      const auto back = A.rows();
      EXPECT_EQ(back.start, rows.start);
      EXPECT_EQ(back.column, rows.column);
      EXPECT_EQ(back.value, rows.value);
      // The same bits for any number of threads.
      const auto x = test::vector_of<T>(space, 5);
      Vector<T> one(space), three(space);
      for (const auto& [team, y] : {std::pair{1, &one}, std::pair{3, &three}}) {
        const test::Threads threads(team);
        A.apply(x, *y);
      }
      EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof(T)), 0);
    }
}

TYPED_TEST(Storage, OfDenseBlocksOnRanksThatCutThem) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    for (const int b : {3, 4, 7}) {
      const Global n = 40 * b + 2;
      const auto space = layout::Space::distributed(comm, n);
      const auto rows = block_rows<T>(b, n, space.begin(), space.end(), 9);
      const Csr<T> A(space, space, rows, Format::bsr);
      // Where ranks cut blocks of 4, blocks of 2 hold more entries.
      EXPECT_TRUE(A.storage().starts_with(message("bsr-", b)) || (b == 4 && A.storage().starts_with("bsr-2")))
          << A.storage();
      for (const int k : {1, 3}) expect_product(A, rows, k);
      const auto back = A.rows();
      EXPECT_EQ(back.start, rows.start);
      EXPECT_EQ(back.column, rows.column);
      EXPECT_EQ(back.value, rows.value);
      // The adjoint identity (A x, y) = (x, A^H y).
      const auto x = test::vector_of<T>(space, 8), y = test::vector_of<T>(space, 9);
      Vector<T> Ax(space), Ay(space);
      A.apply(x, Ax);
      A.apply_adjoint(y, Ay);
      const T left = layout::dot(Ax, y), right = layout::dot(x, Ay);
      EXPECT_LE(std::abs(left - right), 64 * test::epsilon<T>() * double(n));
    }
  });
}

// A 5-point matrix on nx x ny points with the coefficients of f(point), symmetric if these are equal and `north` is -1.
template <class T, class F>
Rows<T> grid_rows(Global nx, Global ny, F&& f, double north = -0.5) {
  Rows<T> rows;
  for (Global i = 0; i < nx * ny; ++i) {
    const auto add = [&](bool there, Global j, double weight) {
      if (there) rows.column.push_back(j), rows.value.push_back(T(real_t<T>(weight * f(i))));
    };
    add(i >= nx, i - nx, -1), add(i % nx > 0, i - 1, -1), add(true, i, 4.25);
    add(i % nx + 1 < nx, i + 1, -1), add(i + nx < nx * ny, i + nx, north);
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

TYPED_TEST(Storage, SharesEqualValues) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto comm = Communicator::self();
  const auto constant = [](Global) { return 1.0; }, variable = [](Global i) { return double(i % 8191 + 1) / 8192; };
  // Two halves of other coefficients, and a row that differs in one bit, by the sign of a zero.
  const auto halves = [](Global i) { return i == 4000 ? -0.0 : i < 9999 ? 1.0 : 3.0; };
  for (const Global nx : {Global(104), Global(101), Global(7)})
    for (const int team : {1, 3}) {
      const test::Threads threads(team);
      const Global ny = 20000 / nx, n = nx * ny;
      const auto space = layout::Space::distributed(comm, n);
      const auto check = [&](const Csr<T>& A, const Rows<T>& rows, bool shared) {
        EXPECT_EQ(A.storage().find("shared values") != std::string::npos, shared) << A.storage() << " of " << nx;
        for (const int k : {1, 2, 9}) expect_product(A, rows, k);
        const auto back = A.rows();
        EXPECT_EQ(back.start, rows.start);
        EXPECT_EQ(back.column, rows.column);
        ASSERT_EQ(back.value.size(), rows.value.size());
        EXPECT_EQ(std::memcmp(back.value.data(), rows.value.data(), rows.value.size() * sizeof(T)), 0);
        std::vector<T> copy(rows.value.size());
        A.copy_values(copy.data());
        EXPECT_EQ(std::memcmp(copy.data(), rows.value.data(), copy.size() * sizeof(T)), 0);
        const auto diagonal = A.diagonal();
        for (Global i = 0; i < n; ++i)
          for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k) {
            if (rows.column[k] != i) continue;
            ASSERT_EQ(diagonal[std::size_t(i)], rows.value[k]) << i;
          }
        EXPECT_TRUE(A.intact());
      };
      const auto same = grid_rows<T>(nx, ny, constant), two = grid_rows<T>(nx, ny, halves),
                 all = grid_rows<T>(nx, ny, variable);
      Csr<T> A(space, space, same), B(space, space, all);
      check(A, same, true), check(B, all, false);
      check(Csr<T>(space, space, two), two, true);
      // What is read by a product: a grid of 20,000 points has 100,000 entries.
      EXPECT_LT(A.cost().bytes - 2 * double(n) * sizeof(T), 0.1 * 1e5 * sizeof(T)) << nx;
      // New values share what they can, too, and none where they all differ.
      A.update_values(two.value), check(A, two, true);
      A.update_values(all.value), check(A, all, false);
      B.update_values(same.value), check(B, same, false);
      // The mirror entries of shared values are found.
      EXPECT_FALSE(is_hermitian(A));
      const Csr<T> symmetric(space, space, grid_rows<T>(nx, ny, constant, -1));
      EXPECT_TRUE(is_hermitian(symmetric));
      EXPECT_NE(symmetric.storage().find("shared values"), std::string::npos);
    }
}

/// The bits of a product with k columns are those of sums by rows in the order of columns. No test of complex scalars,
/// whose products and sums the compiler may fuse.
template <class T>
void expect_same_bits(const Csr<T>& A, const Rows<T>& rows, int k) {
  const auto x = test::vector_of<T>(A.domain(), 2, k);
  Vector<T> y(A.range(), k), expected(A.range(), k);
  A.apply(x, y);
  for (Local i = 0; i < rows.count(); ++i)
    for (int c = 0; c < k; ++c) {
      T sum{};
      for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e)
        sum += rows.value[e] * x.data()[rows.column[e] * k + c];
      expected.data()[i * k + c] = sum;
    }
  EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(T)), 0) << A.storage() << ", " << k << " columns";
}

template <class T>
void expect_same_values(const Csr<T>& A, const Rows<T>& rows) {
  const auto back = A.rows();
  EXPECT_EQ(back.start, rows.start);
  EXPECT_EQ(back.column, rows.column);
  ASSERT_EQ(back.value.size(), rows.value.size());
  std::vector<T> copy(rows.value.size());
  A.copy_values(copy.data());
  for (const T* const values : {back.value.data(), static_cast<const T*>(copy.data())})
    EXPECT_EQ(std::memcmp(values, rows.value.data(), copy.size() * sizeof(T)), 0) << A.storage();
  EXPECT_TRUE(A.intact());
}

template <class T>
class NarrowStorage : public testing::Test {};
using RealScalars = testing::Types<float, double>;
TYPED_TEST_SUITE(NarrowStorage, RealScalars);

TYPED_TEST(NarrowStorage, HasTheSameBits) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  constexpr bool is_double = sizeof(T) == 8;
  const auto comm = Communicator::self();
  const Global n = 20007;
  const auto space = layout::Space::distributed(comm, n);
  const auto integer = [](Global k) { return k % 7 == 3 ? T(-0.0) : T(k * 2654435761u % 511 - 255.0); };
  const auto single = [](Global k) { return T(float(test::number<double>(4, std::uint64_t(k)))); };
  const auto given = [](Global k) { return T(test::number<double>(5, std::uint64_t(k))); };
  const auto note = [](const Csr<T>& A) {
    const auto text = A.storage();
    return text.find("bfloat16") != text.npos ? 16 : text.find("float32") != text.npos ? 32 : 0;
  };
  for (const auto& pattern : {rows_reaching<T>(n, 0, n, 100), rows_reaching<T>(n, 0, n, 9000),
                              grid_rows<T>(117, 171, [](Global) { return 1; })})
    for (const Format format : {Format::csr, Format::sell, Format::bsr, Format::automatic}) {
      const auto with = [&](auto&& f) {
        auto rows = pattern;
        for (std::size_t k = 0; k < rows.value.size(); ++k) rows.value[k] = f(Global(k));
        return rows;
      };
      const auto integers = with(integer), singles = with(single), all = with(given);
      Csr<T> A(space, space, integers, format), B(space, space, singles, format), C(space, space, all, format);
      if (format != Format::bsr) {
        EXPECT_EQ(note(A), 16);
        EXPECT_EQ(note(B), is_double ? 32 : 0);
        EXPECT_LT(A.cost().bytes, C.cost().bytes - (sizeof(T) - 2.5) * double(all.value.size()));
      }
      EXPECT_EQ(note(C), 0);
      for (const int team : {1, 3}) {
        const test::Threads threads(team);
        for (const int k : {1, 2, 3, 4, 8, 9})
          for (const auto& [of, rows] : {std::pair{&A, &integers}, {&B, &singles}, {&C, &all}})
            if (format != Format::bsr) expect_same_bits(*of, *rows, k);  // blocks are added in another order
            else if (of != &A) expect_product(*of, *rows, k);
      }
      expect_same_values(A, integers), expect_same_values(B, singles), expect_same_values(C, all);
      // New values keep as many bits as they need.
      A.update_values(singles.value), expect_same_values(A, singles);
      if (format != Format::bsr) expect_same_bits(A, singles, 1);
      B.update_values(integers.value), expect_same_values(B, integers);
      B.update_values(all.value), expect_same_values(B, all);
      EXPECT_EQ(note(B), 0);
      if (format != Format::bsr) expect_same_bits(B, all, 1), expect_same_bits(B, all, 4);
      const auto diagonal = B.diagonal(), expected = C.diagonal();
      EXPECT_EQ(diagonal, expected);
    }
}

TYPED_TEST(NarrowStorage, KeepsNumbersThatFewerBitsWouldChange) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using R = std::numeric_limits<T>;
  using F = std::numeric_limits<float>;
  const Global n = 1000;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  // {a value among integers, the bits with which it is stored}; a subnormal float is zero where the processor flushes
  // them, and a conversion to float may change the bits of NaN.
  const int all = 8 * int(sizeof(T));
  const std::pair<T, int> cases[] = {{T(-0.0), 16},
                                     {T(F::min()), 16},
                                     {T(std::ldexp(255.0, 120)), 16},
                                     {T(F::max()), 32},
                                     {T(257), 32},
                                     {T(1 + std::ldexp(1.0, -23)), 32},
                                     {T(std::ldexp(1.0, -127)), all},
                                     {T(F::denorm_min()), all},
                                     {R::denorm_min(), all},
                                     {R::max(), all},
                                     {T(1) + R::epsilon(), all},
                                     {T(1) / 3, all},
                                     {R::infinity(), all},
                                     {R::quiet_NaN(), all},
                                     {R::signaling_NaN(), all}};
  for (const Format format : {Format::csr, Format::sell})
    for (const auto& [value, bits] : cases)
      for (const std::size_t place : {std::size_t(0), std::size_t(2501)}) {
        auto rows = rows_reaching<T>(n, 0, n, 20);
        for (std::size_t k = 0; k < rows.value.size(); ++k) rows.value[k] = T(k % 256);
        Csr<T> updated(space, space, rows, format);
        std::memcpy(&rows.value[place], &value, sizeof value);
        const Csr<T> made(space, space, rows, format);
        updated.update_values(rows.value);
        for (const auto* A : std::initializer_list<const Csr<T>*>{&made, &updated}) {
          const auto text = A->storage();
          EXPECT_EQ(text.find("bfloat16") != text.npos, bits == 16) << value << " in " << text;
          EXPECT_EQ(text.find("float32") != text.npos, bits == 32 && all == 64) << value << " in " << text;
          expect_same_values(*A, rows);
        }
      }
}

TEST(Csr, ComparesNarrowValuesWithTheirMirrorEntries) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto space = layout::Space::distributed(Communicator::self(), 101 * 31);
  auto rows = grid_rows<double>(
      101, 31, [](Global) { return 1; }, -1);
  for (const Format format : {Format::csr, Format::sell}) {
    for (Global i = 0; i < space.size(); ++i)
      for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e)
        rows.value[e] = double(1 + (i + rows.column[e]) % 97);  // symmetric
    EXPECT_TRUE(is_hermitian(Csr<double>(space, space, rows, format)));
    rows.value[77] += 1;
    const Csr<double> A(space, space, rows, format);
    EXPECT_NE(A.storage().find("bfloat16 values"), std::string::npos) << A.storage();
    EXPECT_FALSE(is_hermitian(A));
  }
}

TEST(Csr, MultipliesNarrowValuesInTheScalarOfTheMatrix) {  // not in float: 1 + 2^-24 is 1 there
  const auto space = layout::Space::distributed(Communicator::self(), 2);
  for (const Format format : {Format::csr, Format::sell}) {
    const Csr<double> A(space, space, Rows<double>{{0, 2, 4}, {0, 1, 0, 1}, {1, std::ldexp(1.0, -24), 3, 5}}, format);
    EXPECT_NE(A.storage().find("bfloat16 values"), std::string::npos) << A.storage();
    Vector<double> x(space), y(space);
    layout::fill(x, 1.0);
    A.apply(x, y);
    EXPECT_EQ(y.data()[0], 1 + std::ldexp(1.0, -24));
  }
}

TYPED_TEST(NarrowStorage, PaddingAddsNothingToInfinity) {
  using T = TypeParam;
  const Global n = 80;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  Rows<T> rows;  // rows of 1 to 5 entries
  for (Global i = 0; i < n; ++i) {
    for (Global j = 0; j <= i * i % 5; ++j)
      rows.column.push_back(16 * j + (i + 3 * j * j) % 16), rows.value.push_back(T(1 + j));
    rows.start.push_back(Global(rows.column.size()));
  }
  const T inf = std::numeric_limits<T>::infinity();
  for (const Format format : {Format::csr, Format::sell})
    for (const int k : {1, 2, 3}) {
      const Csr<T> A(space, space, rows, format);
      Vector<T> x(space, k), y(space, k);
      layout::fill(x, inf);
      A.apply(x, y);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i], inf) << i << " in " << A.storage();
    }
}

TYPED_TEST(NarrowStorage, MultipliesTwoVectorsAtOnce) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 117 * 171;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  for (const int kind : {0, 1, 2}) {
    auto rows = grid_rows<T>(117, 171, [](Global) { return 1; });
    for (std::size_t k = 0; k < rows.value.size(); ++k)
      rows.value[k] = kind == 0   ? T(k * 2654435761u % 511)
                      : kind == 1 ? T(float(test::number<double>(4, k)))
                                  : T(test::number<double>(5, k));
    const Csr<T> A(space, space, rows);
    const auto x = test::vector_of<T>(space, 3), z = test::vector_of<T>(space, 4);
    Vector<T> Ax(space), Az(space);
    A.apply(x, Ax), A.apply(z, Az);
    Vector<T> y(space), w(space);
    const auto& own = *A.whole();
    for (int b = 0; b < own.blocks(); ++b)
      own.multiply_block(b, std::array<const T*, 2>{x.data(), z.data()},
                         std::array<T*, 2>{y.data() + own.first_row(b), w.data() + own.first_row(b)});
    EXPECT_EQ(std::memcmp(y.data(), Ax.data(), y.size() * sizeof(T)), 0) << A.storage();
    EXPECT_EQ(std::memcmp(w.data(), Az.data(), w.size() * sizeof(T)), 0) << A.storage();
  }
}

TYPED_TEST(Storage, OfSlicesWithoutEntriesBesideFullOnes) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 640;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  for (const Global empty : {8, 24, 40}) {
    Rows<T> rows;
    for (Global i = 0; i < n; ++i) {
      for (const Global j : {i - 1, i, i + 1})
        if (i % 64 >= empty && j >= 0 && j < n) rows.column.push_back(j), rows.value.push_back(T(2));
      rows.start.push_back(Global(rows.column.size()));
    }
    const Csr<T> A(space, space, rows, Format::sell);
    for (const int k : {1, 2}) expect_product(A, rows, k);
  }
}

TEST(Csr, IsStoredInBlocksOnlyWhereThatIsSmaller) {
  const auto comm = Communicator::self();
  const auto grid = stencil_rows(Grid({40, 50}), laplacian<double>(2), 0, 2000);
  const auto space = layout::Space::distributed(comm, 2000);
  EXPECT_EQ(Csr<double>(space, space, grid).storage().substr(0, 4), "sell");
  // Three unknowns per node, each coupled to those of its own kind only: blocks have entries on their diagonals only.
  Rows<double> apart;
  for (Global i = 0; i < 2000; ++i) {
    for (Global j : {i - 30, i - 3, i, i + 3, i + 33})
      if (j >= 0 && j < 2000) apart.column.push_back(j), apart.value.push_back(1);
    apart.start.push_back(Global(apart.column.size()));
  }
  EXPECT_NE(Csr<double>(space, space, apart).storage().substr(0, 3), "bsr");
  // An explicit format is used, and its description shows that no entry is in a block.
  EXPECT_NE(Csr<double>(space, space, apart, Format::bsr).storage().find("0 % of entries in blocks"),
            std::string::npos);
}

// Rows longer than 255 need wider row lengths in slices.
TEST(Csr, TakesLongRowsInSlices) {
  const auto comm = Communicator::self();
  const auto space = layout::Space::distributed(comm, 700);
  const auto a = test::random_matrix<double>(
      700, 700, 2, [](Global i, Global j) { return i == 3 || i == j || (i == 4 && j < 256); });
  const Csr<double> A(space, space, a.rows_of(space), Format::sell);
  const auto x = test::vector_of<double>(space, 3);
  Vector<double> y(space);
  A.apply(x, y);
  const auto whole = test::whole_vector<double>(700, 3);
  const auto expected = a.times(whole), size = a.size(whole);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y.data()[i], expected[i], 1e-14 * size[i] + 1e-15);
  EXPECT_EQ(A.rows().column, a.rows_of(space).column);
}

TEST(Csr, RefusesWhatIsNoMatrix) {
  on_ranks([](const Communicator& comm) {
    const auto space = layout::Space::distributed(comm, 2 * comm.size());
    const auto make = [&](std::vector<Global> start, exec::Buffer<Global> column) {
      exec::Buffer<double> value(column.size(), 1.0);
      return Csr<double>(space, space, Rows<double>{std::move(start), std::move(column), std::move(value)});
    };
    EXPECT_THROW(make({0, 1}, {0}), Error);                   // one row too few
    EXPECT_THROW(make({0, 1, 2}, {0, space.size()}), Error);  // a column out of range
    EXPECT_THROW(make({0, 2, 2}, {1, 0}), Error);             // columns not ascending
    EXPECT_THROW(make({0, 2, 2}, {1, 1}), Error);             // a repeated column
    EXPECT_THROW(make({0, 1, 3}, {0, 1}), Error);             // more row starts than entries
    EXPECT_EQ(make({0, 1, 2}, {0, 1}).fault(), "");
    Rows<double> nan{{0, 1, 2}, {0, 1}, {1, comm.rank() == comm.size() - 1 ? NAN : 1}};
    const Csr<double> A(space, space, nan);
    EXPECT_NE(A.fault().find("row " + std::to_string(space.size() - 1)), std::string::npos) << A.fault();
  });
}

TEST(Assemble, SendsEntriesToTheirOwnersAndAddsThemUp) {
  on_ranks([](const Communicator& comm) {
    const auto partition = layout::Partition::blocks(31, comm.size());
    // Every rank contributes one share of every entry.
    std::vector<Global> row, column;
    std::vector<double> value;
    for (Global i = 30; i >= 0; --i)
      for (Global j : {(i * 3) % 29, i}) {
        row.push_back(i), column.push_back(j), value.push_back(double(i + 100 * j) * (comm.rank() + 1));
      }
    const auto rows = assemble<double>(comm, partition, 31, row, column, value);
    const double times = comm.size() * (comm.size() + 1) / 2;
    ASSERT_EQ(rows.count(), partition.end(comm.rank()) - partition.begin(comm.rank()));
    for (Local r = 0; r < rows.count(); ++r) {
      const Global i = partition.begin(comm.rank()) + r;
      std::map<Global, double> expected;
      for (Global j : {(i * 3) % 29, i}) expected[j] += double(i + 100 * j) * times;
      ASSERT_EQ(rows.start[r + 1] - rows.start[r], Global(expected.size()));
      Global k = rows.start[r];
      for (const auto& [j, v] : expected) {
        EXPECT_EQ(rows.column[k], j);
        EXPECT_EQ(rows.value[k++], v);
      }
    }
    EXPECT_THROW(
        assemble<double>(comm, partition, 31, std::vector<Global>{31}, std::vector<Global>{0}, std::vector<double>{1}),
        Error);
  });
}

TEST(Assemble, AddsDuplicatesInTheOrderOfRanksAndAsGiven) {
  on_ranks([](const Communicator& comm) {
    const auto partition = layout::Partition::blocks(7, comm.size());
    const auto share = [](int rank, int i) { return 0.1 * (rank + 1) + 1e16 * (i % 3 - 1); };  // the order shows
    std::vector<Global> row, column;
    std::vector<double> value;
    for (int i = 0; i < 6; ++i)
      for (Global r = 6; r >= 0; --r)
        for (Global c : {Global(3), Global(i % 2)})
          row.push_back(r), column.push_back(c), value.push_back(share(comm.rank(), i));
    double all = 0, of_parity[2] = {};
    for (int rank = 0; rank < comm.size(); ++rank)
      for (int i = 0; i < 6; ++i) all += share(rank, i), of_parity[i % 2] += share(rank, i);
    const auto rows = assemble<double>(comm, partition, 4, row, column, value);
    for (Local r = 0; r < rows.count(); ++r) EXPECT_EQ(rows.start[r + 1], 3 * (r + 1));
    for (std::size_t k = 0; k < rows.value.size(); ++k)
      EXPECT_EQ(rows.value[k], k % 3 == 2 ? all : of_parity[k % 3]) << k << " on " << comm.size() << " ranks";
  });
}

TEST(IsHermitian, MissesNoEntry) {
  on_ranks(
      [](const Communicator& comm) {
        const auto space = layout::Space::distributed(comm, 19);
        auto a = test::random_matrix<double>(19, 19, 5, [](Global i, Global j) { return std::abs(i - j) < 7; });
        a = a + a.adjoint();
        // Blocks of 2 x 2, which the random entries adjoin and fill in part.
        for (const Global c : {0, 4, 12})
          for (const auto& [i, j] : {std::pair<Global, Global>{0, 0}, {0, 1}, {1, 0}, {1, 1}})
            a.entry[{c + i, 2 + j}] = a.entry[{2 + j, c + i}] = 1;
        for (const Format format : {Format::csr, Format::sell, Format::bsr}) {
          const auto is = [&](const auto& of) {
            return is_hermitian(Csr<double>(space, space, of.rows_of(space), format));
          };
          EXPECT_TRUE(is(a));
          for (const auto& [place, v] : a.entry) {
            auto without = a;
            without.entry.erase(place);
            EXPECT_EQ(is(without), place.first == place.second)
                << place.first << " " << place.second << " as " << to_string(format);
          }
        }
      },
      {3});
}

TEST(IsHermitian, ComparesWithTheAdjoint) {
  on_ranks([](const Communicator& comm) {
    using C = std::complex<double>;
    const auto space = layout::Space::distributed(comm, 23);
    auto a = test::random_matrix<C>(23, 23, 4, [](Global i, Global j) { return std::abs(i - j) < 4; });
    EXPECT_FALSE(is_hermitian(Csr<C>(space, space, a.rows_of(space))));
    a = a + a.adjoint();
    EXPECT_TRUE(is_hermitian(Csr<C>(space, space, a.rows_of(space))));
    a.entry.erase({22, 20});
    EXPECT_FALSE(is_hermitian(Csr<C>(space, space, a.rows_of(space))));
  });
}

TEST(IsHermitian, JudgesAnEntryByTheDiagonalOfItsRowAndColumn) {
  on_ranks([](const Communicator& comm) {
    const Global n = 23;
    const auto space = layout::Space::distributed(comm, n);
    // D M D, where M has the diagonal 2: entries from 1e-8 to 1e8.
    const auto d = [](Global i) { return std::pow(10.0, double(i % 5) * 2 - 4); };
    const auto is = [&](Global i, Global j, double change, bool mirrored) {
      test::Reference<double> a{n, n, {}};
      for (Global k = 0; k < n; ++k) a.entry[{k, k}] = 2 * d(k) * d(k);
      if (mirrored) a.entry[{i, j}] = a.entry[{j, i}] = 0.25 * d(i) * d(j);
      a.entry[{i, j}] += change * d(i) * d(j);
      return is_hermitian(Csr<double>(space, space, a.rows_of(space)));
    };
    for (const bool mirrored : {true, false})
      for (const auto& [i, j] : {std::pair<Global, Global>{0, 21}, {21, 0}, {4, 5}, {20, 10}, {9, 10}}) {
        // A difference as another order of summation leaves it; also where terms have cancelled in one of the two
        // entries.
        EXPECT_TRUE(is(i, j, 6e-16, mirrored)) << i << " " << j << " " << mirrored;
        EXPECT_FALSE(is(i, j, 1e-12, mirrored)) << i << " " << j << " " << mirrored;
      }
  });
}

}  // namespace
