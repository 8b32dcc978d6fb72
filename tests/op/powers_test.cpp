// The matrix powers kernel of a csr matrix compared with single products.
#include <tacit/op/csr.hpp>

#include <gtest/gtest.h>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

using namespace tacit;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

template <class T>
class Powers : public testing::Test {};
using test::Scalars;
TYPED_TEST_SUITE(Powers, Scalars);

template <class T>
struct Basis {
  std::vector<Vector<T>> vectors;
  std::vector<Vector<T>*> list;
  Basis(const layout::Space& space, int count, int columns, std::uint64_t seed) {
    for (int c = 0; c < count; ++c) vectors.emplace_back(space, columns);
    for (auto& v : vectors) {
      layout::fill(v, T(std::numeric_limits<real_t<T>>::quiet_NaN()));
      list.push_back(&v);
    }
    const auto whole = test::random_vector<T>(space.size() * columns, seed);
    std::copy_n(whole.begin() + space.begin() * columns, vectors[0].size(), vectors[0].data());
  }
};

template <class T>
op::Recurrence<T> three_terms(int steps) {
  using R = real_t<T>;
  op::Recurrence<T> r;
  for (int c = 0; c < steps; ++c)
    r.push_back({c % 3 == 2 ? T(0) : test::noise_of<T>(7, c), c == 0 || c % 3 == 1 ? T(0) : test::noise_of<T>(8, c),
                 R(c % 2 ? 1 : 1.5)});
  return r;
}

/// Spaces over the same indices: evenly distributed, and with ranks that own nothing or a single row.
std::vector<layout::Space> spaces(const Communicator& comm, Global n) {
  const int p = comm.size();
  std::vector<Global> holes{0}, single{0};
  for (int r = 0; r < p; ++r) {
    holes.push_back(n * (r / 2 + 1) / ((p + 1) / 2));
    single.push_back(r == p - 1 ? n : std::min<Global>(n, r + 1));
  }
  return {layout::Space::distributed(comm, n), layout::Space::distributed(comm, layout::Partition(std::move(holes))),
          layout::Space::distributed(comm, layout::Partition(std::move(single)))};
}

template <class T>
std::vector<std::pair<const char*, test::Whole<T>>> matrices() {
  // Empty rows, a full row, a column without entries, an unsymmetric pattern.
  test::Whole<T> odd;
  odd.n = 37;
  for (Global i = 0; i < odd.n; ++i) {
    for (Global j = 0; j < odd.n; ++j)
      if (i % 5 != 3 && j != 20 && (i == 17 || std::abs(i - j) <= 1 || (i * 7 + j * 3) % 23 == 0))
        odd.push(j, test::noise_of<T>(3, std::uint64_t(i * odd.n + j)));
    odd.end_row();
  }
  test::Whole<T> shift;  // each row reads only the element three places further on
  shift.n = 29;
  for (Global i = 0; i < shift.n; ++i) shift.push((i + 3) % shift.n, T(1)), shift.end_row();
  return {{"grid", test::grid<T>(9, 7, 0.3)},
          {"scattered", test::scattered<T>(60, 2, 5)},
          {"odd", std::move(odd)},
          {"shift", std::move(shift)},
          {"uncoupled", test::diagonal<T>(std::vector<double>(11, 2.0))}};
}

TYPED_TEST(Powers, AreThoseOfTheProducts) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    for (const auto& [name, matrix] : matrices<T>())
      for (const auto& space : spaces(comm, matrix.n)) {
        const auto A = matrix.on(space);
        EXPECT_TRUE(A->has_powers_kernel());
        for (const int columns : {1, 2, 5})
          for (const int s : {2, 5, 3}) {  // more steps than before, then fewer
            if (columns > 1 && s != 5) continue;
            const auto steps = three_terms<T>(s);
            Basis<T> expected(space, s + 1, columns, 1), found(space, s + 1, columns, 1);
            A->powers(expected.list, steps);
            const auto counters = comm.counters();
            const auto applies = A->applies();
            A->powers_kernel(found.list, steps);
            const auto spent = comm.counters() - counters;
            EXPECT_EQ(spent.exchanges, comm.size() > 1 ? 1 : 0);
            EXPECT_LE(spent.messages, comm.size() - 1);
            EXPECT_EQ(spent.reductions, 0);
            EXPECT_EQ(A->applies() - applies, s);
            for (int c = 0; c <= s; ++c)
              for (std::size_t i = 0; i < found.vectors[c].size(); ++i) {
                const T a = found.vectors[c].data()[i], b = expected.vectors[c].data()[i];
                // Real sums are bit-identical; gcc rounds complex sums differently from loop to loop.
                if constexpr (is_complex<T>)
                  EXPECT_LE(std::abs(a - b), 1e3 * test::epsilon<T>() * (1 + std::abs(b)))
                      << name << ", " << columns << " columns, power " << c << " of " << s << ", element " << i;
                else
                  EXPECT_EQ(a, b) << name << ", " << columns << " columns, power " << c << " of " << s << ", element "
                                  << i;
              }
          }
      }
  });
}

TYPED_TEST(Powers, IncludeDiagonals) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    const auto matrix = test::scattered<T>(60, 2, 5);
    for (const auto& space : spaces(comm, matrix.n)) {
      const auto A = matrix.on(space);
      const auto whole_left = test::random_vector<T>(matrix.n, 11), whole_right = test::random_vector<T>(matrix.n, 12);
      const auto left = test::spread(space, whole_left), right = test::spread(space, whole_right);
      for (const int columns : {1, 2})
        for (const auto* l : {(const Vector<T>*)nullptr, &left})
          for (const auto* r : {(const Vector<T>*)nullptr, &right})
            for (const std::size_t room : {std::size_t(1), std::size_t(4)}) {
              const int s = 4;
              const auto steps = three_terms<T>(s);
              Basis<T> found(space, s + 1, columns, 1), images(space, int(room), columns, 2),
                  v(space, s + 1, columns, 1);
              const auto counters = comm.counters();
              A->powers_kernel(found.list, steps, nullptr, {l, r},
                               std::span<Vector<T>* const>(images.list).first(r ? room : 0));
              EXPECT_EQ((comm.counters() - counters).exchanges, comm.size() > 1 ? 1 : 0);
              Vector<T> z(space, columns);
              for (int c = 0; c < s; ++c) {
                const auto times = [&](const Vector<T>* d, const Vector<T>& from, Vector<T>& to) {
                  for (std::size_t i = 0; i < from.size(); ++i)
                    to.data()[i] = d ? d->data()[i / std::size_t(columns)] * from.data()[i] : from.data()[i];
                };
                times(r, v.vectors[c], z);
                if (r && room > 1) {
                  for (std::size_t i = 0; i < z.size(); ++i)
                    EXPECT_LE(std::abs(z.data()[i] - images.vectors[c].data()[i]), 1e-3);
                }
                A->apply(z, v.vectors[c + 1]);
                times(l, v.vectors[c + 1], v.vectors[c + 1]);
                op::extend<T, Host>(steps[c], c > 0 ? &v.vectors[c - 1] : nullptr, v.vectors[c], v.vectors[c + 1]);
                for (std::size_t i = 0; i < z.size(); ++i)
                  EXPECT_LE(std::abs(found.vectors[c + 1].data()[i] - v.vectors[c + 1].data()[i]),
                            1e3 * test::epsilon<T>() * (1 + std::abs(v.vectors[c + 1].data()[i])));
              }
            }
    }
  });
}

// For c steps with a tridiagonal matrix, a rank needs c elements of either neighbour; from ranks further away where a
// neighbour owns fewer.
TEST(PowersKernel, SendsWhatTheStepsReach) {
  if (test::under_mpi()) GTEST_SKIP() << "counts for fixed numbers of ranks";
  for (const int ranks : {2, 3, 4})
    comm::run_threads(ranks, [&](const Communicator& comm) {
      const auto a = test::tridiagonal<double>(20 * ranks, -1, 2, -1);
      const auto space = layout::Space::distributed(comm, a.n);
      const auto A = a.on(space);
      const int neighbours = (comm.rank() > 0) + (comm.rank() + 1 < ranks);
      for (const int s : {4, 2, 8}) {
        const auto steps = op::Recurrence<double>(std::size_t(s));
        Basis<double> v(space, s + 1, 2, 1);
        const auto counters = comm.counters();
        A->powers_kernel(v.list, steps);
        const auto spent = comm.counters() - counters;
        EXPECT_EQ(spent.messages, neighbours);
        EXPECT_EQ(spent.bytes, std::int64_t(neighbours * s * 2 * 8));
      }
    });
}

TEST(PowersKernel, NeedsVectorsOfItsMatrix) {
  on_ranks([](const Communicator& comm) {
    const auto a = test::grid<double>(5, 5);
    const auto space = layout::Space::distributed(comm, a.n), other = layout::Space::distributed(comm, a.n + 1);
    const auto A = a.on(space);
    Basis<double> v(space, 3, 1, 1), w(other, 3, 1, 1);
    const op::Recurrence<double> two(2), three(3), back{{0, 1, 1}, {0, 0, 1}};
    const Vector<double> d(space);
    EXPECT_THROW(A->powers_kernel(v.list, three), Error);
    EXPECT_THROW(A->powers_kernel(w.list, two), Error);
    EXPECT_THROW(A->powers_kernel(v.list, back), Error);
    EXPECT_THROW(A->powers_kernel(v.list, two, nullptr, {nullptr, &d}), Error);  // no output for D v
    const op::Csr<double> wide(space, other, [&] {
      op::Rows<double> rows;
      rows.start.assign(std::size_t(space.local_size()) + 1, 0);
      return rows;
    }());
    EXPECT_FALSE(wide.has_powers_kernel());
  });
}

}  // namespace
