// Renumbering of a matrix.
#include <gtest/gtest.h>
#include <tacit/op/renumber.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"

using namespace tacit;
using namespace tacit::layout;
using comm::Communicator;
using test::on_ranks;

namespace {

// A x in the user's numbering equals the product in the new numbering, mapped back.
TEST(Renumber, KeepsTheProduct) {
  using T = std::complex<double>;
  on_ranks([](const Communicator& comm) {
    const auto a =
        test::random_matrix<T>(47, 47, 3, [](Global i, Global j) { return (i * 5 + j * 11) % 13 == 0 || i == j; });
    const auto p = Partition::blocks(47, comm.size());
    const auto user = Space::distributed(comm, p);
    const auto rows = a.rows_of(user);
    const auto owner = graph_parts(comm, p, {rows.start, rows.column}, comm.size());
    const auto r = Renumbering::by_owner(comm, p, owner);
    const auto mine = Space::distributed(comm, r.after());
    const op::Csr<T> A(mine, mine, op::renumber(comm, rows, r, r));
    const auto x = test::vector_of<T>(user, 9);
    Vector<T> xn(mine), yn(mine);
    xn.assign(r.forward<T>(comm, std::span<const T>(x.data(), x.size())));
    A.apply(xn, yn);
    const auto y = r.backward<T>(comm, std::span<const T>(yn.data(), yn.size()));
    const auto expected = a.times(test::whole_vector<T>(47, 9));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_LE(std::abs(y[i] - expected[user.begin() + Global(i)]), 1e-13);
  });
}

TEST(Renumber, TakesRowsAndColumnsApart) {
  on_ranks([](const Communicator& comm) {
    const auto a = test::random_matrix<double>(9, 14, 5, [](Global i, Global j) { return (i + 2 * j) % 3 == 0; });
    const auto rows = Partition::blocks(9, comm.size()), columns = Partition::blocks(14, comm.size());
    const auto turned = [&](const Partition& p) {
      std::vector<Global> v;
      for (Global i = p.begin(comm.rank()); i < p.end(comm.rank()); ++i) v.push_back(p.size() - 1 - i);
      return Renumbering::by_new_index(comm, p, p, v);
    };
    const auto b = op::renumber(comm, a.rows_of(Space::distributed(comm, rows)), turned(rows), turned(columns));
    test::Reference<double> expected{9, 14, {}};
    for (const auto& [at, v] : a.entry) expected.entry[{8 - at.first, 13 - at.second}] = v;
    const auto mine = expected.rows_of(Space::distributed(comm, rows));
    EXPECT_EQ(b.start, mine.start);
    EXPECT_EQ(b.column, mine.column);
    EXPECT_EQ(b.value, mine.value);
  });
}

}  // namespace
