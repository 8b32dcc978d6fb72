// Several steps of a Krylov basis in one pass equal single steps, for grids that are cut into many blocks.
#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <complex>

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;

namespace {

template <class T>
class OnePass : public testing::Test {
 protected:
  /// Compares `count` steps of powers() with products and the recurrence.
  void check(const Operator<T>& A, int count) {
    using R = real_t<T>;
    std::vector<RecurrenceStep<T>> steps;
    for (int c = 0; c < count; ++c)
      steps.push_back({c % 3 == 1 ? T(0) : T(R(0.5) * R(c % 4)), c % 2 ? T(R(-0.25)) : T(0), R(c % 3 ? 4 : 1)});
    std::vector<Vector<T>> basis(std::size_t(count) + 1, test::vector_of<T>(A.domain(), 7));
    std::vector<Vector<T>*> v;
    for (auto& b : basis) v.push_back(&b);
    for (int c = 1; c <= count; ++c) layout::fill(basis[std::size_t(c)], T(R(1e30)));  // old values must not be read
    const auto applies = A.applies();
    A.powers(v, steps);
    EXPECT_EQ(A.applies(), applies + count);
    Vector<T> y(A.range());
    for (std::size_t c = 0; c < steps.size(); ++c) {
      A.apply(basis[c], y);
      layout::axpy(-steps[c].alpha, basis[c], y);
      if (c > 0) layout::axpy(-steps[c].beta, basis[c - 1], y);
      layout::scale(T(1 / steps[c].gamma), y);
      const double size = layout::norm(y);
      layout::axpy(T(-1), basis[c + 1], y);
      EXPECT_LE(layout::norm(y), 20 * double(std::numeric_limits<R>::epsilon()) * size) << "step " << c;
    }
  }
  void check(const Operator<T>& A) {
    for (const int few : {1, 2}) {
      const test::Threads threads(few);
      check(A, few == 1 ? 11 : 3);
    }
  }
};
TYPED_TEST_SUITE(OnePass, test::DoubleScalars);

TYPED_TEST(OnePass, OfGridsAreTheStepsOneByOne) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto self = Communicator::self();
  for (const auto boundary : {Boundary::dirichlet, Boundary::neumann, Boundary::periodic})
    for (const auto& points : std::vector<std::vector<Global>>{{40000}, {150, 140}, {30, 30, 25}, {150, 160, 5}}) {
      const int d = int(points.size());
      auto weights = laplacian<T>(d);
      weights.at(1) += T(0.25);
      const Stencil<T> A(self, Grid(points, std::vector<Boundary>(points.size(), boundary)), weights);
      this->check(A);
      if (boundary != Boundary::neumann) this->check(Csr<T>(A.range(), A.range(), A.rows()), 11);
    }
}

TYPED_TEST(OnePass, OfMatricesWithLongReach) {
  using T = TypeParam;
  const auto space = layout::Space::distributed(Communicator::self(), 30000);
  Rows<T> rows;
  for (Global r = 0; r < space.size(); ++r) {
    std::vector<Global> columns{r, (r * 37) % space.size(), r / 2, std::min<Global>(r + 700, space.size() - 1)};
    if (r % 1000 == 17) columns.clear();
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (const Global c : columns) rows.column.push_back(c), rows.value.push_back(T(1.0 / double(1 + (c + r) % 5)));
    rows.start.push_back(Global(rows.column.size()));
  }
  for (const auto format : {Format::csr, Format::sell, Format::bsr, Format::automatic}) {
    Rows<T> copy = rows;
    this->check(Csr<T>(space, space, std::move(copy), format));
  }
}

TYPED_TEST(OnePass, OfMatricesOfBlocks) {
  using T = TypeParam;
  const auto space = layout::Space::distributed(Communicator::self(), 30002);
  Rows<T> rows;
  for (Global r = 0; r < space.size(); ++r) {
    for (const Global q : {r / 3 - 200, r / 3, r / 3 + 1, r / 3 + 90})
      for (Global c = 3 * q; c < 3 * q + 3; ++c)
        if (c >= 0 && c < space.size())
          rows.column.push_back(c), rows.value.push_back(T(1.0 / double(5 + (c + r) % 7)));
    rows.start.push_back(Global(rows.column.size()));
  }
  const Csr<T> A(space, space, std::move(rows));
  EXPECT_EQ(A.storage().substr(0, 5), "bsr-3");
  this->check(A);
}

}  // namespace
