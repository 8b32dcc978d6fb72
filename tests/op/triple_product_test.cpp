// Q^H A P of distributed sparse matrices, compared with maps of entries and with two products; and its messages.
#include <gtest/gtest.h>
#include "op/multiply.hpp"

#include "support/communicators.hpp"
#include "support/faulty.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace tacit;
using layout::Partition;
using layout::Space;
using test::Reference;

namespace {

template <class T>
class TripleProduct : public testing::Test {};
using test::Scalars;
TYPED_TEST_SUITE(TripleProduct, Scalars);

/// n indices in shares that grow with the rank; `gaps`: none on every second rank.
Space space_of(const comm::Communicator& comm, Global n, bool gaps) {
  const int parts = comm.size();
  std::vector<Global> offsets{0};
  for (int r = 1; r <= parts; ++r)
    offsets.push_back(r == parts ? n : gaps ? n * (r - r % 2) / parts : n * r * r / (parts * parts));
  return Space::distributed(comm, Partition(offsets));
}

template <class T>
void expect_same(const op::Rows<T>& found, const op::Rows<T>& expected) {
  EXPECT_EQ(found.start, expected.start);
  EXPECT_EQ(found.column, expected.column);
  EXPECT_EQ(found.value, expected.value);
}

template <class T>
Reference<T> middle() {
  return test::random_matrix<T>(
      53, 53, 1, [](Global i, Global j) { return i == 17 || (i % 7 != 3 && (3 * i + 5 * j) % 11 == 0); });
}
template <class T>
Reference<T> transfer(std::uint64_t seed) {
  return test::random_matrix<T>(53, 19, seed, [=](Global i, Global j) {
    return i == 30 || (i % 5 != 1 && (7 * i + (4 + Global(seed)) * j) % 9 == 0);
  });
}

// Any couplings between ranks: rows of R refer to rows of A of all ranks, and these to rows of P of all ranks.
TYPED_TEST(TripleProduct, IsThatOfTheDefinitionOnAnyRanks) {
  using T = TypeParam;
  const auto a = middle<T>(), q = transfer<T>(2), p = transfer<T>(3);
  const auto expected = q.adjoint() * (a * p);
  test::on_ranks(
      [&](const comm::Communicator& comm) {
        for (const bool gaps : {false, true}) {
          const auto inner = space_of(comm, 53, gaps), columns = space_of(comm, 19, !gaps);
          const auto found = op::triple_product(q.rows_of(inner), a.rows_of(inner), p.rows_of(inner), inner, columns);
          expect_same(found.R, q.adjoint().rows_of(columns));
          const auto rows = expected.rows_of(columns);
          EXPECT_EQ(found.C.start, rows.start);  // a rank that left would leave the others waiting
          EXPECT_EQ(found.C.column, rows.column);
          for (std::size_t k = 0; k < std::min(rows.value.size(), found.C.value.size()); ++k)
            EXPECT_LE(std::abs(found.C.value[k] - rows.value[k]), 1000 * test::epsilon<T>());
        }
      },
      {1, 2, 3, 5, 7});
}

// Rows of P of whole groups of columns, as several near-null vectors make them.
TYPED_TEST(TripleProduct, OfGroupsOfColumns) {
  using T = TypeParam;
  const auto a = middle<T>();
  for (const Global group : {2, 3, 4, 6}) {
    const auto p = test::random_matrix<T>(
        53, 36, 4, [=](Global i, Global j) { return i == 30 || (i % 5 != 1 && (7 * i + 5 * (j / group)) % 9 == 0); });
    const auto expected = p.adjoint() * (a * p);
    test::on_ranks(
        [&](const comm::Communicator& comm) {
          for (const bool gaps : {false, true}) {
            const auto inner = space_of(comm, 53, gaps), columns = space_of(comm, 36, !gaps);
            const auto factor = p.rows_of(inner);
            const auto found = op::triple_product(factor, a.rows_of(inner), factor, inner, columns).C;
            const auto rows = expected.rows_of(columns);
            EXPECT_EQ(found.start, rows.start);
            EXPECT_EQ(found.column, rows.column);
            for (std::size_t k = 0; k < std::min(rows.value.size(), found.value.size()); ++k)
              EXPECT_LE(std::abs(found.value[k] - rows.value[k]), 1000 * test::epsilon<T>());
          }
        },
        {1, 2, 3, 5});
  }
}

/// Five-point couplings on an m x m grid, with numbers that depend on the place.
template <class T>
op::Rows<T> grid(const Space& space, Global m) {
  op::Rows<T> rows;
  for (Global i = space.begin(); i < space.end(); ++i) {
    const Global x = i % m, y = i / m;
    const auto put = [&](bool there, Global j) {
      if (there) rows.column.push_back(j), rows.value.push_back(test::number<T>(5, std::uint64_t(i * 7 + j)));
    };
    put(y > 0, i - m), put(x > 0, i - 1), put(true, i), put(x + 1 < m, i + 1), put(y + 1 < m, i + m);
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}
/// Each row has the aggregates of three rows on each side, as if smoothed.
template <class T>
op::Rows<T> spread_over(const Space& space, Global aggregates) {
  op::Rows<T> rows;
  for (Global i = space.begin(); i < space.end(); ++i) {
    Global last = -1;
    for (Global j = std::max(i - 3, Global(0)); j <= std::min(i + 3, space.size() - 1); ++j)
      if (const Global c = j * aggregates / space.size(); c != last)
        rows.column.push_back(last = c), rows.value.push_back(test::number<T>(6, std::uint64_t(i * 11 + c)));
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

// Many pieces, and more rows of A P than are kept at once.
TYPED_TEST(TripleProduct, HasTheBitsOfTwoProductsForAnyThreadsAndRanks) {
  using T = TypeParam;
  const Global m = 260, n = m * m, aggregates = n / 6;
  op::TripleProduct<T> alone;
  {
    const test::Threads one(1);
    const auto inner = Space::distributed(comm::Communicator::self(), n),
               columns = Space::distributed(comm::Communicator::self(), aggregates);
    const auto A = grid<T>(inner, m), P = spread_over<T>(inner, aggregates);
    alone = op::triple_product(P, A, P, inner, columns);
    const auto R = op::adjoint(P, inner, columns);
    expect_same(alone.R, R);
    expect_same(alone.C, op::multiply(R, inner, op::multiply(A, inner, P, columns), columns));
  }
  for (const int threads : {2, 3}) {
    const test::Threads several(threads);
    const auto inner = Space::distributed(comm::Communicator::self(), n),
               columns = Space::distributed(comm::Communicator::self(), aggregates);
    const auto P = spread_over<T>(inner, aggregates);
    expect_same(op::triple_product(P, grid<T>(inner, m), P, inner, columns).C, alone.C);
  }
  test::on_ranks(
      [&](const comm::Communicator& comm) {
        const auto inner = space_of(comm, n, false), columns = Space::distributed(comm, aggregates);
        const auto P = spread_over<T>(inner, aggregates);
        const auto C = op::triple_product(P, grid<T>(inner, m), P, inner, columns).C;
        const auto begin = alone.C.start[std::size_t(columns.begin())];
        ASSERT_EQ(Global(C.column.size()), alone.C.start[std::size_t(columns.end())] - begin);
        EXPECT_TRUE(std::equal(C.column.begin(), C.column.end(), alone.C.column.begin() + begin));
        EXPECT_TRUE(std::equal(C.value.begin(), C.value.end(), alone.C.value.begin() + begin));
      },
      {3});
}

/// Counts the messages that this rank sends to each other one, but for those of at most 16 bytes: acknowledgements, and
/// the reductions by which ranks agree.
class Counting final : public test::FaultyTransport {
 public:
  explicit Counting(std::shared_ptr<comm::Transport> inner) : FaultyTransport(std::move(inner), 0) {}
  comm::Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    if (bytes > 16) ++count[to];
    return FaultyTransport::send(to, tag, data, bytes);
  }
  std::map<int, int> count;
};

// Strips of a grid: a rank has two neighbours, whose owners each get at most one message of requests and one of rows.
TEST(TripleProductMessages, OneEachWayBetweenNeighbours) {
  const Global m = 24, n = m * m, aggregates = n / 6;
  test::on_ranks(
      [&](const comm::Communicator& given) {
        const auto transport = std::make_shared<Counting>(given.transport().duplicate());
        const comm::Communicator comm(transport);
        const auto inner = Space::distributed(comm, n), columns = Space::distributed(comm, aggregates);
        const auto A = grid<double>(inner, m), P = spread_over<double>(inner, aggregates);
        transport->count.clear();
        (void)op::triple_product(P, A, P, inner, columns);
        auto once = transport->count;
        transport->count.clear();
        (void)op::multiply(A, inner, P, columns);
        const auto product = transport->count;
        for (int r = 0; r < comm.size(); ++r) {
          const bool neighbour = r == comm.rank() - 1 || r == comm.rank() + 1;
          EXPECT_EQ(once[r], neighbour ? 2 : 0) << "to rank " << r;
        }
        EXPECT_EQ(once, [&] {
          auto filled = product;
          for (int r = 0; r < comm.size(); ++r) filled[r] += 0;
          return filled;
        }()) << "as many as one product";
      },
      {1, 2, 3, 7});
}

// What is wrong on the last rank alone is thrown on all.
TEST(TripleProductUse, NamesWhatDoesNotFit) {
  test::on_ranks([](const comm::Communicator& comm) {
    const auto inner = Space::distributed(comm, 53), columns = Space::distributed(comm, 19);
    const auto a = middle<double>().rows_of(inner), p = transfer<double>(2).rows_of(inner);
    const bool last = comm.rank() + 1 == comm.size();
    const auto said = [&](const op::Rows<double>& x, const op::Rows<double>& y,
                          const op::Rows<double>& z) -> std::string {
      try {
        (void)op::triple_product(x, y, z, inner, columns);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::usage);
        return e.what();
      }
      return "nothing";
    };
    const auto expect = [](const std::string& found, const char* text) {
      EXPECT_NE(found.find(text), std::string::npos) << found;
    };
    auto wrong = p;
    if (last) wrong.column.back() = 19;
    expect(said(wrong, a, p), "first factor of a sparse triple product has an entry in column 19; columns are 0 to 18");
    expect(said(p, a, wrong), "last factor of a sparse triple product has an entry in column 19");
    auto few = a;
    if (last) few.start.pop_back();
    expect(said(p, few, p), "middle factor of a sparse triple product has");
    EXPECT_EQ(said(p, a, p), "nothing");
    const auto everywhere = Space::replicated(comm, 19);
    try {
      (void)op::triple_product(p, a, p, inner, everywhere);
      ADD_FAILURE() << "replicated columns";
    } catch (const Error& e) {
      expect(e.what(), "spread over ranks");
    }
  });
}

}  // namespace
