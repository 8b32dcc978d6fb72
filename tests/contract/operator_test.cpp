// Properties of all operators, on any number of ranks, in every memory.
#include <gtest/gtest.h>

#include "contract/operator_cases.hpp"
#include "support/communicators.hpp"
#include "support/memory.hpp"

#include <optional>

using namespace tacit;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

template <class Where>
class Operators : public testing::Test {
 protected:
  using T = typename Where::scalar;
  using M = typename Where::memory;
  using Case = test::OperatorCase<T, M>;
  // Runs every case on every number of ranks.
  void each(const std::function<void(const Case&, const op::Operator<T, M>&, const Communicator&)>& f,
            const std::vector<int>& sizes = {2, 3, 5}) {
    static const auto cases = test::operator_cases<T, M>();
    on_ranks(
        [&](const Communicator& comm) {
          for (const auto& c : cases) {
            SCOPED_TRACE(c.name + " on rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.size()));
            f(c, *c.make(comm), comm);
          }
        },
        test::ranks_of(sizes));
  }
  // y equals `expected` to rounding; `size` is the sum of magnitudes that the rounding is relative to.
  static void expect_near(const Vector<T, M>& y, const std::vector<T>& expected, const std::vector<double>& size,
                          int column = 0) {
    const auto got = y.to_host();
    const int k = y.columns();
    for (Local i = 0; i < y.space().local_size(); ++i) {
      const auto g = std::size_t(y.space().begin() + i);
      ASSERT_LE(std::abs(got[std::size_t(i) * k + column] - expected[g]), 16 * test::epsilon<T>() * size[g] + 1e-30)
          << "row " << g << " is " << got[std::size_t(i) * k + column] << " instead of " << expected[g];
    }
  }
  static void expect_same(const std::vector<T>& y, const std::vector<T>& expected, double size) {
    ASSERT_EQ(y.size(), expected.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_LE(std::abs(y[i] - expected[i]), 16 * test::epsilon<T>() * size) << "element " << i;
  }
  static double bound(const test::Reference<T>& a, const std::vector<T>& x) {
    double m = 1e-30;
    for (double s : a.size(x)) m = std::max(m, s);
    return m;
  }
  static T nan() { return T(std::numeric_limits<real_t<T>>::quiet_NaN()); }
};
TYPED_TEST_SUITE(Operators, test::ScalarsInMemoryAndGroups);

TYPED_TEST(Operators, EqualTheirMatrix) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each([&](const auto& c, const auto& A, const Communicator&) {
    ASSERT_EQ(A.range().size(), c.matrix.rows);
    ASSERT_EQ(A.domain().size(), c.matrix.columns);
    const auto x = test::vector_of<T, M>(A.domain(), 100);
    const auto whole = test::whole_vector<T>(c.matrix.columns, 100);
    Vector<T, M> y(A.range());
    test::fill_with(y, this->nan());  // all of y is overwritten
    A.apply(x, y);
    this->expect_near(y, c.matrix.times(whole), c.matrix.size(whole));
  });
}

TYPED_TEST(Operators, HaveTheAdjointOfTheirMatrix) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each([&](const auto& c, const auto& A, const Communicator&) {
    if (!A.has_adjoint()) return;
    const auto matrix = c.matrix.adjoint();
    const auto whole = test::whole_vector<T>(matrix.columns, 101);
    const auto y = test::vector_of<T, M>(A.range(), 101);
    Vector<T, M> z(A.domain());
    test::fill_with(z, this->nan());
    A.apply_adjoint(y, z);
    this->expect_near(z, matrix.times(whole), matrix.size(whole));
    // The adjoint identity (A x, y) = (x, A^H y).
    const auto x = test::vector_of<T, M>(A.domain(), 102);
    Vector<T, M> Ax(A.range());
    A.apply(x, Ax);
    const T left = test::dot_on_host(Ax, y), right = test::dot_on_host(x, z);
    const double size = this->bound(c.matrix, test::whole_vector<T>(c.matrix.columns, 102)) * double(c.matrix.rows);
    EXPECT_LE(std::abs(left - right), 32 * test::epsilon<T>() * size);
  });
}

TYPED_TEST(Operators, AreIntactAfterTheirProducts) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each([&](const auto&, const auto& A, const Communicator&) {
    EXPECT_TRUE(A.intact());
    const auto x = test::vector_of<T, M>(A.domain(), 100);
    Vector<T, M> y(A.range()), z(A.domain());
    A.apply(x, y);
    if (A.has_adjoint()) A.apply_adjoint(y, z);
    EXPECT_TRUE(A.intact());
  });
}

TYPED_TEST(Operators, HaveTheSameEntriesInDoublePrecision) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  if constexpr (std::same_as<real_t<T>, float> && std::same_as<M, Host>) {
    this->each([&](const auto& c, const auto& A, const Communicator&) {
      const auto D = A.in_double();
      const auto is = [&](const char* kind) { return c.name.starts_with(kind); };
      EXPECT_TRUE(D || !(is("csr") || is("stencil") || is("finite volume") || is("tiled") || is("diagonal"))) << c.name;
      if (!D) return;
      EXPECT_TRUE(D->range() == A.range() && D->domain() == A.domain());
      // Columns of A: products with one factor of 1 and zeros, which do not round where entries are stored.
      // (Stencils with other ends, and short periods, add weights of one neighbour.)
      bool exact = is("csr") || (is("stencil") && c.name.find("dirichlet") != c.name.npos) || is("tiled") ||
                   c.name == "diagonal";
      if constexpr (!is_complex<T>)
        if (const auto* const cells = dynamic_cast<const op::FiniteVolume<T>*>(&A))
          exact = cells->stencil() == op::CellStencil::seven_point;
      for (const Global j : {Global(0), c.matrix.columns / 2, c.matrix.columns - 1}) {
        Vector<T> x(A.domain()), y(A.range());
        if (j >= A.domain().begin() && j < A.domain().end()) x.data()[j - A.domain().begin()] = T(1);
        Vector<in_double_t<T>> z(D->range());
        A.apply(x, y);
        D->apply(layout::in_double(x), z);
        const double size = this->bound(c.matrix, std::vector<T>(std::size_t(c.matrix.columns), T(1)));
        for (std::size_t i = 0; i < y.size(); ++i)
          EXPECT_LE(std::abs(in_double_t<T>(y.data()[i]) - z.data()[i]), exact ? 0 : 16 * test::epsilon<T>() * size)
              << "row " << i << ", column " << j;
      }
    });
  }
}

TYPED_TEST(Operators, WithoutAdjointThrow) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each(
      [&](const auto&, const auto& A, const Communicator&) {
        if (A.has_adjoint()) return;
        Vector<T, M> x(A.domain()), y(A.range());
        EXPECT_THROW(A.apply_adjoint(y, x), Error);
      },
      {1, 2});
}

TYPED_TEST(Operators, TakeColumnsAsSingleOnes) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each(
      [&](const auto& c, const auto& A, const Communicator&) {
        for (bool adjoint : {false, true}) {
          if (adjoint && !A.has_adjoint()) continue;
          const auto matrix = adjoint ? c.matrix.adjoint() : c.matrix;
          const auto &from = adjoint ? A.range() : A.domain(), &to = adjoint ? A.domain() : A.range();
          if (c.columns == 1) {
            const auto X = test::vector_of<T, M>(from, 103, 2);
            Vector<T, M> Y(to, 2);
            EXPECT_THROW(A.apply(X, Y), Error);
            continue;
          }
          for (int k : {3, 11}) {
            const auto X = test::vector_of<T, M>(from, 103, k);
            const auto whole = test::whole_vector<T>(matrix.columns * k, 103);
            Vector<T, M> Y(to, k);
            if (adjoint) A.apply_adjoint(X, Y);
            else A.apply(X, Y);
            for (int column = 0; column < k; ++column) {
              std::vector<T> x(static_cast<std::size_t>(matrix.columns));
              for (std::size_t i = 0; i < x.size(); ++i) x[i] = whole[i * k + column];
              this->expect_near(Y, matrix.times(x), matrix.size(x), column);
            }
          }
        }
      },
      {1, 2, 5});
}

TYPED_TEST(Operators, AllowTwoProductsInFlight) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each(
      [&](const auto& c, const auto& A, const Communicator&) {
        for (bool adjoint : {false, true}) {
          if (adjoint && !A.has_adjoint()) continue;
          const auto matrix = adjoint ? c.matrix.adjoint() : c.matrix;
          const auto &from = adjoint ? A.range() : A.domain(), &to = adjoint ? A.domain() : A.range();
          const auto a = test::vector_of<T, M>(from, 104), b = test::vector_of<T, M>(from, 105);
          const auto wa = test::whole_vector<T>(matrix.columns, 104), wb = test::whole_vector<T>(matrix.columns, 105);
          Vector<T, M> ya(to), yb(to);
          if (c.in_flight < 2) {
            auto first = adjoint ? A.start_adjoint(a, ya) : A.start(a, ya);
            EXPECT_THROW(A.start(b, yb).wait(), Error);
            first.wait();
            this->expect_near(ya, matrix.times(wa), matrix.size(wa));
            continue;
          }
          for (bool backwards : {false, true}) {
            test::fill_with(ya, T(7));
            test::fill_with(yb, T(7));
            auto first = adjoint ? A.start_adjoint(a, ya) : A.start(a, ya);
            auto second = adjoint ? A.start_adjoint(b, yb) : A.start(b, yb);
            (backwards ? second : first).wait();
            (backwards ? first : second).wait();
            this->expect_near(ya, matrix.times(wa), matrix.size(wa));
            this->expect_near(yb, matrix.times(wb), matrix.size(wb));
          }
        }
        // A product and an adjoint product at the same time.
        if (A.has_adjoint()) {
          const auto x = test::vector_of<T, M>(A.domain(), 104), u = test::vector_of<T, M>(A.range(), 105);
          Vector<T, M> y(A.range()), v(A.domain());
          auto product = A.start(x, y);
          auto adjoint = A.start_adjoint(u, v);
          product.wait();
          adjoint.wait();
          const auto wx = test::whole_vector<T>(c.matrix.columns, 104), wu = test::whole_vector<T>(c.matrix.rows, 105);
          const auto backward = c.matrix.adjoint();
          this->expect_near(y, c.matrix.times(wx), c.matrix.size(wx));
          this->expect_near(v, backward.times(wu), backward.size(wu));
        }
      },
      {1, 2, 3, 5});
}

TYPED_TEST(Operators, HavePowers) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each(
      [&](const auto&, const auto& A, const Communicator&) {
        if (!(A.domain() == A.range())) return;
        const auto before = test::vector_of<T, M>(A.domain(), 105);
        std::vector<Vector<T, M>> basis;
        for (int i = 0; i < 5; ++i) basis.push_back(test::vector_of<T, M>(A.domain(), 106));
        std::vector<Vector<T, M>*> v;
        for (auto& b : basis) v.push_back(&b);
        using R = real_t<T>;
        const std::vector<op::RecurrenceStep<T>> steps{
            {T(R(0.5)), T(R(-0.25)), R(2)}, {T(0), T(0), R(1)}, {T(R(3)), T(0), R(0.5)}, {T(0), T(R(0.125)), R(4)}};
        A.powers(v, steps, &before);
        Vector<T, M> y(A.range());
        for (std::size_t c = 0; c < steps.size(); ++c) {
          A.apply(basis[c], y);
          auto expected = y.to_host();
          const auto x = basis[c].to_host(), b = (c > 0 ? basis[c - 1] : before).to_host();
          for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] = (expected[i] - steps[c].alpha * x[i] - steps[c].beta * b[i]) / steps[c].gamma;
          this->expect_same(basis[c + 1].to_host(), expected, 1e3);
        }
      },
      {1, 3});
}

TYPED_TEST(Operators, HaveTheSamePowersByAKernel) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  using R = real_t<T>;
  this->each([&](const auto&, const auto& A, const Communicator& comm) {
    std::vector<Vector<T, M>> one, other;
    std::vector<Vector<T, M>*> v, w;
    for (auto [vectors, list] : {std::pair{&one, &v}, std::pair{&other, &w}}) {
      for (int i = 0; i < 6; ++i) vectors->push_back(test::vector_of<T, M>(A.domain(), 106, 2));
      for (auto& x : *vectors) list->push_back(&x);
    }
    const auto before = test::vector_of<T, M>(A.domain(), 105, 2);
    const std::vector<op::RecurrenceStep<T>> steps{{T(R(0.5)), T(R(-0.25)), R(2)},
                                                   {T(0), T(0), R(1)},
                                                   {T(R(3)), T(0), R(0.5)},
                                                   {T(0), T(R(0.125)), R(4)},
                                                   {T(R(-1)), T(R(0.5)), R(1)}};
    if (!A.has_powers_kernel()) {
      EXPECT_THROW(A.powers_kernel(v, steps, &before), Error);
      return;
    }
    A.powers(w, steps, &before);
    // The first call sets up the kernel; each of them does one exchange.
    for (int call = 0; call < 2; ++call) {
      const auto counters = comm.counters();
      const auto applies = A.applies();
      A.powers_kernel(v, steps, &before);
      const auto spent = comm.counters() - counters;
      EXPECT_EQ(spent.exchanges, comm.size() > 1 ? 1 : 0);
      EXPECT_EQ(spent.reductions, 0);
      EXPECT_EQ(A.applies() - applies, 5);
      for (std::size_t c = 1; c < v.size(); ++c)
        this->expect_same(one[c].to_host(), other[c].to_host(), test::norm_on_host(other[c]));
    }
  });
}

TYPED_TEST(Operators, StateTheMessagesTheySend) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each([&](const auto& c, const auto& A, const Communicator& comm) {
    const auto x = test::vector_of<T, M>(A.domain(), 107);
    Vector<T, M> y(A.range());
    A.apply(x, y);
    for (int k : {1, 4}) {
      if (k > c.columns) continue;
      const auto X = test::vector_of<T, M>(A.domain(), 107, k);
      Vector<T, M> Y(A.range(), k);
      const auto before = comm.counters();
      const auto applies = A.applies();
      A.apply(X, Y);
      const auto sent = comm.counters() - before;
      EXPECT_EQ(double(sent.messages), A.cost().messages);
      EXPECT_EQ(double(sent.bytes), A.cost().message_bytes * k);
      EXPECT_EQ(sent.reductions, c.reductions);
      EXPECT_EQ(A.applies(), applies + 1);
    }
    if (!A.has_adjoint()) return;
    Vector<T, M> z(A.domain());
    const auto before = comm.counters();
    A.apply_adjoint(y, z);
    const auto sent = comm.counters() - before;
    EXPECT_EQ(double(sent.bytes), A.adjoint_cost().message_bytes);
    EXPECT_EQ(double(sent.messages), A.adjoint_cost().messages);
  });
}

TYPED_TEST(Operators, AreLinear) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each(
      [&](const auto& c, const auto& A, const Communicator&) {
        const T alpha = test::number<T>(108, 0), beta = test::number<T>(108, 1);
        const auto x = test::vector_of<T, M>(A.domain(), 109), z = test::vector_of<T, M>(A.domain(), 110);
        Vector<T, M> sum(A.domain()), Ax(A.range()), Az(A.range()), y(A.range());
        const auto combined = [&](const Vector<T, M>& u, const Vector<T, M>& v) {
          auto a = u.to_host();
          const auto b = v.to_host();
          for (std::size_t i = 0; i < a.size(); ++i) a[i] = alpha * a[i] + beta * b[i];
          return a;
        };
        sum.assign(combined(x, z));
        A.apply(x, Ax);
        A.apply(z, Az);
        A.apply(sum, y);
        const double size = this->bound(c.matrix, test::whole_vector<T>(c.matrix.columns, 109)) +
                            this->bound(c.matrix, test::whole_vector<T>(c.matrix.columns, 110));
        this->expect_same(y.to_host(), combined(Ax, Az), 8 * size);
        test::fill_with(sum, T(0));
        A.apply(sum, y);
        for (const T& v : y.to_host()) ASSERT_EQ(v, T(0));
      },
      {1, 4});
}

TYPED_TEST(Operators, KeepNaNInTheRowsThatReadIt) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each(
      [&](const auto& c, const auto& A, const Communicator&) {
        if (!c.sparse || A.name() == "function") return;
        const Global n = c.matrix.columns;
        const T nan = this->nan();
        for (Global at : {Global(0), n / 3, n / 2, n - 1}) {
          auto x = test::vector_of<T, M>(A.domain(), 111).to_host();
          auto whole = test::whole_vector<T>(n, 111);
          if (at >= A.domain().begin() && at < A.domain().end()) x[std::size_t(at - A.domain().begin())] = nan;
          whole[at] = nan;
          const auto expected = c.matrix.times(whole);
          for (int k : {1, 2}) {
            std::vector<T> columns(x.size() * std::size_t(k));
            for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = x[i / k];
            Vector<T, M> y(A.range(), k);
            A.apply(test::vector_from<T, M>(A.domain(), columns, k), y);
            const auto got = y.to_host();
            Global wrong = -1;
            for (Local i = 0; i < A.range().local_size(); ++i)
              if (is_finite(got[std::size_t(i) * k]) != is_finite(expected[std::size_t(A.range().begin() + i)]))
                wrong = A.range().begin() + i;
            EXPECT_EQ(wrong, -1) << "with a NaN at " << at;
          }
        }
      },
      {1, 2, 4});
}

TYPED_TEST(Operators, RefuseVectorsThatDoNotFit) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  this->each(
      [&](const auto&, const auto& A, const Communicator& comm) {
        const auto& place = A.domain().place();
        Vector<T, M> x(A.domain()), y(A.range()), two(A.domain(), 2);
        Vector<T, M> longer(layout::Space::distributed(comm, A.domain().size() + 1).on(place));
        Vector<T, M> result(layout::Space::distributed(comm, A.range().size() + 1).on(place));
        const auto elsewhere = Communicator::self();
        Vector<T, M> alone(layout::Space::distributed(elsewhere, A.domain().size()).on(place));
        const auto before = comm.counters();
        const auto applies = A.applies();
        EXPECT_THROW(A.apply(longer, y), Error);
        EXPECT_THROW(A.apply(x, result), Error);
        EXPECT_THROW(A.apply(two, y), Error);
        if (comm.size() > 1) {  // communicators of one rank are equal
          EXPECT_THROW(A.apply(alone, y), Error);
        }
        if (A.domain() == A.range()) {
          EXPECT_THROW(A.apply(x, x), Error);
        }
        if (A.has_adjoint()) {
          EXPECT_THROW(A.apply_adjoint(result, x), Error);
        }
        const auto after = comm.counters() - before;
        EXPECT_EQ(after.messages + after.reductions + after.exchanges, 0);
        EXPECT_EQ(A.applies(), applies);
      },
      {1, 3});
}

TYPED_TEST(Operators, KnowTheirDiagonalAndLargestEntry) {
  using T = typename TypeParam::scalar;
  this->each(
      [&](const auto& c, const auto& A, const Communicator&) {
        const double largest = c.matrix.largest();
        const double slack = 1 + 32 * test::epsilon<T>();
        if (c.knows_largest) {
          EXPECT_LE(A.largest(), largest * slack);
          EXPECT_GE(A.largest() * slack, largest);
        } else if (A.largest() > 0) {
          EXPECT_GE(A.largest() * slack, largest);
        }
        EXPECT_EQ(A.fault(), "");
        if (!A.has_diagonal()) {
          EXPECT_THROW(A.diagonal(), Error);
          return;
        }
        if (!(A.domain() == A.range())) return;
        const auto d = A.diagonal();
        ASSERT_EQ(d.size(), std::size_t(A.range().local_size()));
        for (std::size_t i = 0; i < d.size(); ++i) {
          const Global g = A.range().begin() + Global(i);
          const auto found = c.matrix.entry.find({g, g});
          ASSERT_LE(std::abs(d[i] - (found == c.matrix.entry.end() ? T(0) : found->second)), 64 * test::epsilon<T>());
        }
        if (const auto* D = A.pointwise()) {
          EXPECT_EQ(D->to_host(), d);
        }
      },
      {1, 3, 5});
}

// A rank fails during a product: the product is abandoned, and the operator works afterwards.
TYPED_TEST(Operators, WorkAgainAfterAFailure) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  if (!std::same_as<T, std::complex<double>> && !std::same_as<T, double>) GTEST_SKIP() << "the same for all scalars";
  this->each(
      [&](const auto& c, const auto&, const Communicator& all) {
        const auto comm = all.duplicate();  // failures of one case must not affect the next one
        const auto made = c.make(comm);
        const auto& A = *made;
        const auto x = test::vector_of<T, M>(A.domain(), 112);
        const auto whole = test::whole_vector<T>(c.matrix.columns, 112);
        Vector<T, M> y(A.range()), z(A.range());
        for (int round = 0; round < 2; ++round) {
          EXPECT_THROW(comm::collective(comm,
                                        [&] {
                                          auto first = A.start(x, y);
                                          std::optional<op::Product<T, M>> second;
                                          if (c.in_flight > 1) second.emplace(A.start(x, z));
                                          if (comm.rank() == comm.size() - 1)
                                            throw Error(ErrorKind::input, "on purpose");
                                          first.wait();
                                          if (second) second->wait();
                                        }),
                       Error);
          A.apply(x, y);
          this->expect_near(y, c.matrix.times(whole), c.matrix.size(whole));
        }
      },
      {1, 3});
}

}  // namespace
